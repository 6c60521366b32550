"""Every exception canonry raises."""

from __future__ import annotations

import re
from enum import StrEnum

_SHOWN = 200  # characters of a hostile input that a message repeats


def mask_credentials(text: str) -> str:
    """The text with user names and passwords of URLs out of sight, for messages."""
    # Each match takes all that could be an authority, so that no text is read twice.
    return re.sub(r"(:[/\\]*)([^/?#\s]*)", _without_user, text)


def _without_user(match: re.Match[str]) -> str:
    start, authority = match.groups()
    _, at, rest = authority.rpartition("@")
    return f"{start}***@{rest}" if at else match[0]


def _shown(given: object) -> str:
    shown = repr(mask_credentials(given) if isinstance(given, str) else given)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}… ({len(shown)} characters)"


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
    INVALID_URL = "invalid_url"
    PROXY = "proxy"  # the proxy of the settings cannot be used
    DOWNLOAD = "download"  # the URL is a file, not a page
    TRUNCATED = "truncated"  # only part of the page was read
    NO_CONTENT = "no_content"  # the server answered without a page
    NOT_HTTP = "not_http"  # seen by Chrome's proxy: the server speaks another protocol
    NOT_LOADED = "not_loaded"  # Chrome or its proxy reported an error that another attempt does not change
    SCRIPT_TIMEOUT = "script_timeout"  # scripts of the page did not stop
    DIALOG_LOOP = "dialog_loop"  # the page opens one dialog after another
    ABORTED = "aborted"  # Chrome stopped loading the page before any answer
    BROWSER = "browser"  # Chrome refused a command, crashed or ended
    OTHER = "other"


# Failures that another attempt may not meet; code decides by this set, never by the text of a message.
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


class CanonryError(Exception):
    """Base of every error canonry raises on purpose."""


class InvalidUrl(CanonryError, ValueError):
    """What was given is not an http(s) URL; `input` is what was given, `reason` says why."""

    def __init__(self, given: object, reason: str) -> None:
        super().__init__(given, reason)
        self.input = given
        self.reason = reason

    def __str__(self) -> str:
        return f"not a usable URL: {self.reason}: {_shown(self.input)}"


class PolicyError(CanonryError, ValueError):
    """A policy or overrides file that cannot be used; nothing of it was loaded."""

    def __init__(self, reason: str, file: str = "", place: str = "") -> None:
        super().__init__(reason, file, place)
        self.reason = reason
        self.file = file
        self.place = place

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.place, self.reason) if part)


class _Failed(CanonryError):
    """Something at `target` went wrong; `reason` says what, `tried` what was asked before. Credentials are masked."""

    said = ""

    def __init__(self, target: str = "", reason: str = "no reason given", tried: tuple[object, ...] = ()) -> None:
        target = mask_credentials(target)
        super().__init__(target, reason, tried)
        self.target = target
        self.reason = reason
        self.tried = tried

    def __str__(self) -> str:
        return f"{self.said}: {self.reason}: {_shown(self.target)}"


class UnsafeUrl(_Failed):
    """The guard refused to reach `target`."""

    said = "refused"


class FetchFailed(_Failed):
    """The network gave no usable answer; `status` and `retry_after` (seconds) where there was one."""

    said = "not fetched"

    def __init__(
        self,
        target: str = "",
        reason: str = "no answer",
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


class NotAFeed(_Failed):
    """What came back is not a feed."""

    said = "not a feed"


class StoreError(CanonryError):
    """The store cannot be read or written."""
