"""The exceptions that canonry raises to its users, and the enums of their kinds.

The errors of the core are defined in `url_errors.py` and exported from here. Four more are defined beside
their kinds: `accounts.AccountError`, `bookmarks.import_problems.BadBookmarkFile`, `bookmarks.linkding.LinkdingError`
and `rekey.entry_rekey_store.RekeyRefused`. Exceptions that are defined anywhere else never leave their package.
"""

from __future__ import annotations

from enum import StrEnum

from canonry.url_errors import CanonryError as CanonryError  # noqa: PLC0414
from canonry.url_errors import InvalidUrl as InvalidUrl  # noqa: PLC0414
from canonry.url_errors import PolicyError as PolicyError  # noqa: PLC0414
from canonry.url_errors import mask_credentials as mask_credentials  # noqa: PLC0414
from canonry.url_errors import quote

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Mapping

    from canonry.evidence.same_page import Evidence


class RefusalKind(StrEnum):
    """Why the guard refused a URL or an address."""

    INVALID_URL = "invalid_url"
    SCHEME = "scheme"  # neither http nor https
    AMBIGUOUS = "ambiguous"  # programs read the URL differently
    PORT = "port"
    LOCAL_NAME = "local_name"  # a name that only a local network knows
    NO_ADDRESS = "no_address"  # the name has no address, or the address is malformed
    LOOPBACK = "loopback"
    PRIVATE = "private"
    LINK_LOCAL = "link_local"
    CARRIER = "carrier"  # shared address space of providers (RFC 6598)
    MULTICAST = "multicast"
    DOCUMENTATION = "documentation"
    TUNNEL = "tunnel"  # IPv4 in IPv6: 6to4, Teredo, NAT64
    RESERVED = "reserved"  # every other range that is not public
    METADATA = "metadata"  # hands out credentials of the machine; never allowed
    OWN_SERVICE = "own_service"  # the address canonry itself listens on; never allowed
    VETOED = "vetoed"  # by the caller's own check
    OTHER = "other"


class FailureKind(StrEnum):
    """Why a request or a page gave no usable answer."""

    DNS = "dns"  # the name does not resolve
    CONNECT = "connect"
    TLS = "tls"
    CERTIFICATE = "certificate"
    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"  # closed before the end of the response
    PROTOCOL = "protocol"  # not a valid HTTP response
    ENCODING = "encoding"  # a content encoding that was not requested, or broken
    TOO_LARGE = "too_large"
    REDIRECT_LOOP = "redirect_loop"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    BAD_REDIRECT = "bad_redirect"  # the Location header is not a usable URL
    STATUS = "status"  # the server answered with an error status
    UNAVAILABLE = "unavailable"  # status 429 or 5xx: the server may answer later
    REFUSED = "refused"  # by the guard
    NOT_A_FEED = "not_a_feed"  # a complete answer, but no feed
    ROBOTS = "robots"  # robots.txt disallows the page
    INVALID_URL = "invalid_url"
    PROXY = "proxy"  # the proxy of the settings cannot be used
    DOWNLOAD = "download"  # the URL is a file, not a page
    TRUNCATED = "truncated"  # only part of the page was read
    NO_CONTENT = "no_content"  # the server answered without a page
    NOT_HTTP = "not_http"  # seen by Chrome's proxy: the server speaks another protocol
    NOT_LOADED = "not_loaded"  # Chrome or its proxy reported an error that another attempt does not change
    SCRIPT_TIMEOUT = "script_timeout"  # scripts of the page did not stop
    SELECTOR = "selector"  # the CSS selector to wait for is invalid
    DIALOG_LOOP = "dialog_loop"  # the page opens one dialog after another
    ABORTED = "aborted"  # Chrome stopped loading the page before any answer
    BROWSER = "browser"  # Chrome refused a command, crashed or ended
    OTHER = "other"


# Failures after which another attempt may succeed; code decides by this set, never by the text of a message.
TRANSIENT_FAILURES = frozenset(
    {
        FailureKind.DNS,
        FailureKind.CONNECT,
        FailureKind.TLS,
        FailureKind.TIMEOUT,
        FailureKind.DISCONNECTED,
        FailureKind.PROTOCOL,
        FailureKind.ENCODING,
        FailureKind.UNAVAILABLE,
        FailureKind.PROXY,
        FailureKind.ABORTED,
        FailureKind.BROWSER,
        FailureKind.OTHER,
    }
)


class _TargetError(CanonryError):
    """Base class of errors about one URL or address, `target`; `tried` lists the earlier attempts.

    Credentials in the target are masked.
    """

    def __init__(self, target: str = "", reason: str = "no reason given", tried: tuple[object, ...] = ()) -> None:
        target = mask_credentials(target)
        super().__init__(target, reason, tried)
        self.target = target
        self.reason = reason
        self.tried = tried


class UnsafeUrl(_TargetError):
    """The guard refused to reach `target`; `advice` names the setting that would allow it, if there is one."""

    def __init__(
        self,
        target: str = "",
        reason: str = "not allowed",
        tried: tuple[object, ...] = (),
        kind: RefusalKind = RefusalKind.OTHER,
        advice: str = "",
    ) -> None:
        super().__init__(target, reason, tried)
        self.args = (self.target, reason, tried, kind, advice)
        self.kind = kind
        self.advice = advice

    def __str__(self) -> str:
        # The reason names what was refused; the target is added where it does not.
        subject = "" if self.target in self.reason else f"{quote(self.target)}: "
        return f"Refused: {subject}{self.reason}." + (f" {self.advice}" if self.advice else "")


class FetchFailed(_TargetError):
    """The network gave no usable response; `status` and `retry_after` (seconds) if the server sent them."""

    def __init__(
        self,
        target: str = "",
        reason: str = "no response",
        tried: tuple[object, ...] = (),
        status: int | None = None,
        retry_after: float | None = None,
        kind: FailureKind = FailureKind.OTHER,
    ) -> None:
        super().__init__(target, reason, tried)
        self.args = (self.target, reason, tried, status, retry_after, kind)
        self.status = status
        self.retry_after = retry_after
        self.kind = kind

    @property
    def is_transient(self) -> bool:
        """Whether another attempt may succeed."""
        return self.kind in TRANSIENT_FAILURES

    def __str__(self) -> str:
        return f"could not fetch {quote(self.target)}: {self.reason}"


class NotAFeed(_TargetError):
    """The response is not a feed."""

    def __str__(self) -> str:
        return f"not a feed: {quote(self.target)}: {self.reason}"


class InvalidSize(CanonryError, ValueError):
    """The text is not a size in bytes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"{self.text[:40]!r} is not a size. Write it like 500kB, 1GB or 512MiB."


class StoreError(CanonryError):
    """The store cannot be read or written."""


class InvalidStoreUrl(StoreError):
    """The text is not the URL of a store: a mistake of the caller, unlike a store that cannot be reached."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{mask_credentials(self.url)!r}: {self.reason}. Write the store as sqlite:///FILE, such as"
            " sqlite:////data/x.db, or as postgresql://USER@HOST/NAME."
        )


class NewerStore(StoreError):
    """The store was made by a later release of canonry and must not be used with this one."""


class RekeyUnfinished(StoreError):
    """A rekey has not finished: the keys of the store are under two policies, and nothing can be ingested."""


class PolicyRepinned(RekeyUnfinished):
    """A rekey has begun since a key was made: it must be made again under the new policy."""


class ChangesLost(CanonryError):
    """The change feed cannot be read after this number: later changes were deleted, or it is of another store.

    `continue_after` is the number to continue after.
    """

    def __init__(self, after: int, *, deleted: int, last: int) -> None:
        super().__init__(after, deleted, last)
        self.after = after
        self.deleted = deleted
        self.last = last

    @property
    def continue_after(self) -> int:
        return self.deleted if self.after < self.deleted else self.last

    def __str__(self) -> str:
        if self.after < self.deleted:
            return (
                f"The changes from {self.after + 1} to {self.deleted} are no longer stored. Compare with the list of"
                f" items, then continue after {self.deleted}."
            )
        return (
            f"There is no change {self.after}: the last one is {self.last}. The number is from another store. Compare"
            f" with the list of items, then continue after {self.last}."
        )


class WebhookNotFound(CanonryError, LookupError):
    """No webhook has this id; it may have been removed."""

    def __init__(self, webhook_id: int) -> None:
        super().__init__(webhook_id)
        self.webhook_id = webhook_id

    def __str__(self) -> str:
        return f"There is no webhook with id {self.webhook_id}. It may have been removed."


class WorkerAlreadyRunning(StoreError):
    """Another worker already runs the jobs of this store file, or a worker already runs in this process."""


class StartMoved(CanonryError):
    """The start page `seed` redirects to `target` on another host, which may be another site than the user meant."""

    def __init__(self, seed: str, target: str) -> None:
        super().__init__(seed, target)
        self.seed = seed
        self.target = target

    def __str__(self) -> str:
        return f"{self.seed} redirects to another host: {self.target}"


class OptionsFixed(CanonryError):
    """A crawl was resumed or repeated with another policy or other patterns than those its pages were found under."""

    def __init__(self, crawl_id: int) -> None:
        super().__init__(crawl_id)
        self.crawl_id = crawl_id

    def __str__(self) -> str:
        return (
            f"crawl {self.crawl_id} has another policy, or other include and exclude patterns. Leave these options"
            " out, or start a new crawl."
        )


class CrawlNotFound(CanonryError, LookupError):
    """No crawl has this id; it may have been removed."""

    def __init__(self, crawl_id: int) -> None:
        super().__init__(crawl_id)
        self.crawl_id = crawl_id

    def __str__(self) -> str:
        return f"There is no crawl with id {self.crawl_id}. It may have been removed."


class FeedNotFound(CanonryError, LookupError):
    """No feed has this id; it may have been removed."""

    def __init__(self, feed_id: int) -> None:
        super().__init__(feed_id)
        self.feed_id = feed_id

    def __str__(self) -> str:
        return f"There is no feed with id {self.feed_id}. It may have been removed."


class BookmarkNotFound(CanonryError):
    """The owner has no bookmark with this id."""

    def __init__(self, bookmark_id: int) -> None:
        super().__init__(f"There is no bookmark with id {bookmark_id}.")
        self.bookmark_id = bookmark_id


class AlreadySaved(CanonryError):
    """Another bookmark of the owner, `bookmark_id`, has this URL."""

    def __init__(self, bookmark_id: int) -> None:
        super().__init__(f"Bookmark {bookmark_id} has this URL already.")
        self.bookmark_id = bookmark_id


class PageAlreadySaved(AlreadySaved):
    """Bookmark `bookmark_id` of the owner is proven to show the page of this URL under `url`."""

    def __init__(self, bookmark_id: int, url: str, evidence: Evidence) -> None:
        super().__init__(bookmark_id)
        self.url = url
        self.evidence = evidence

    def __str__(self) -> str:
        return (
            f"Bookmark {self.bookmark_id} has this page already, under {quote(self.url)}. {self.evidence.sentence}"
            " To save this URL all the same, use on_duplicate=allow."
        )


class EtagMismatch(CanonryError):
    """The bookmark has changed since the ETag of the request was issued."""

    def __init__(self, bookmark_id: int) -> None:
        super().__init__(f"Bookmark {bookmark_id} has been changed since. Load it again to get its current ETag.")
        self.bookmark_id = bookmark_id


class InvalidFields(CanonryError):
    """Fields that cannot be saved, by name, each with the reason."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {reason}" for field, reason in reasons.items()))
        self.reasons = dict(reasons)


class DuplicatesNotFound(CanonryError):
    """The owner has no group of duplicates with this id."""

    def __init__(self, group_id: str) -> None:
        super().__init__(f"There are no duplicates with id {group_id}. They may have been merged already.")
        self.group_id = group_id


class MergeNotFound(CanonryError):
    """The owner has no merge of this group that can be undone."""

    def __init__(self, group_id: str) -> None:
        super().__init__(f"There is no merge of duplicates {group_id} to undo. It may have been undone already.")
        self.group_id = group_id


class TokenNotFound(CanonryError):
    """The owner has no token with this id."""

    def __init__(self, token_id: str) -> None:
        super().__init__(f"There is no token {token_id!r}. It may have been revoked already.")
        self.token_id = token_id


class BulkEditNotFound(CanonryError):
    """The owner has no change of many bookmarks with this number that can be undone."""

    def __init__(self, edit_id: int) -> None:
        super().__init__(f"There is no change {edit_id} to undo. It may have been undone already, or is too old.")
        self.edit_id = edit_id


class UndoConflict(CanonryError):
    """A merge cannot be undone: `bookmark_id` was saved since and has one of the URLs."""

    def __init__(self, bookmark_id: int) -> None:
        super().__init__(
            f"The merge cannot be undone: bookmark {bookmark_id} was saved since with one of its URLs."
            " Delete that bookmark first."
        )
        self.bookmark_id = bookmark_id


class ImportNotFound(CanonryError):
    """The owner has no import with this id."""

    def __init__(self, import_id: int) -> None:
        super().__init__(f"There is no import with id {import_id}.")
        self.import_id = import_id


class RekeyNotFound(CanonryError):
    """There is no rekey of bookmarks with this id."""

    def __init__(self, rekey_id: int) -> None:
        super().__init__(f"There is no rekey of bookmarks with id {rekey_id}.")
        self.rekey_id = rekey_id


class BulkError(CanonryError):
    """A bulk job cannot continue; the message is one line that names the cause and what to do."""


class BadInputFile(BulkError):
    """An input file of a bulk job cannot be read; `file` is its name. `--skip-bad-files` leaves such files out."""

    def __init__(self, file: str, message: str) -> None:
        super().__init__(message)
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.file, str(self))


class LearnError(CanonryError):
    """Rules cannot be learned from a source; the message is one line that names the cause and what to do."""


class LearnedRuleNotFound(CanonryError):
    """There is no learned rule with this id."""

    def __init__(self, rule_id: int) -> None:
        super().__init__(f"There is no learned rule {rule_id}.")
        self.rule_id = rule_id


class LearnedRuleConflict(CanonryError):
    """A decision about a learned rule cannot be made now; the message says what to do first."""
