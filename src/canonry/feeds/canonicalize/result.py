"""The result of canonicalize: the URL, the reason for it, and every URL that was tested (contract F12)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from canonry.net.html import FeedLink  # noqa: TC001 (pydantic resolves the annotations of responses)
from canonry.net.response import Hop  # noqa: TC001 (pydantic resolves the annotations of responses)


class Reason(StrEnum):
    """Why a URL is the canonical one."""

    RESPONSE_URL = "response_url"
    REDIRECT_VERIFIED = "redirect_verified"
    CONTENT_VERIFIED = "content_verified"
    SIGNATURE_VERIFIED = "signature_verified"
    UPGRADE_HTTPS = "upgrade_https"
    EXISTS_IN_DB = "exists_in_db"
    FALLBACK = "fallback"


class Source(StrEnum):
    """Which URL a candidate was made from."""

    INPUT = "input"
    RESPONSE = "response"
    SELF = "self"


class CandidateVerdict(StrEnum):
    """The result of testing a candidate feed URL."""

    FETCHED = "fetched"  # the first response, which all others are compared with
    SAME = "same"
    CONFIRMS = "confirms"  # it redirects to a URL that is known to serve the feed
    DIFFERENT = "different"
    NOT_A_FEED = "not_a_feed"
    FAILED = "failed"
    UNSAFE = "unsafe"
    SKIPPED = "skipped"


class DifferenceKind(StrEnum):
    """In what two feeds differ."""

    TITLE = "title"
    ITEMS = "items"  # ids, links, titles or enclosures of items; the values count the items that only one feed has
    TEXT_SIZE = "text_size"  # the values are the numbers of characters
    NO_ITEMS = "no_items"  # a feed without items proves nothing; the values are the numbers of items
    CONTENT = "content"  # other bytes, and signatures are not compared (`use_signature=False`)


@dataclass(frozen=True, slots=True)
class FeedDifference:
    """One difference between the feed that was opened first and the one of a candidate."""

    kind: DifferenceKind
    first: str
    candidate: str


@dataclass(frozen=True, slots=True)
class Existing:
    """A URL that the caller's store has, with any data the caller wants back."""

    url: str
    data: object = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tested URL. `reason` explains the verdict to people; `milliseconds` is 0 if no request was sent.

    `differences` say what a candidate with the verdict `different` serves instead.
    """

    url: str
    source: Source
    preset: str | None
    score: float
    verdict: CandidateVerdict
    reason: str
    milliseconds: int = 0
    differences: tuple[FeedDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class FeedSummary:
    """The feed that the canonical URL serves."""

    title: str
    format: str
    item_count: int


@dataclass(frozen=True, slots=True)
class Canonical:
    """The canonical URL of a feed, with the evidence.

    `requests` counts the fetches after the first, `total_requests` all of them. `aliases` are the
    other URLs proven to serve the same feed, `discovered` the feeds that a web page links to, and
    `data` comes from the caller's `Existing`.
    """

    url: str
    reason: Reason
    source: Source
    preset: str | None
    requests: int
    total_requests: int
    candidates: tuple[Candidate, ...]
    aliases: tuple[str, ...]
    feed: FeedSummary | None
    input_url: str
    response_url: str | None
    self_url: str | None
    hops: tuple[Hop, ...]
    discovered: tuple[FeedLink, ...] = ()
    data: object = None
