"""The result of resolve: the URL that stands for a page, and every URL that was tested (contract E4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from canonry.evidence.fingerprint import Fingerprint  # noqa: TC001 (pydantic resolves the annotations of responses)
from canonry.evidence.page_view import Declared  # noqa: TC001
from canonry.evidence.same_page import Evidence  # noqa: TC001
from canonry.net.response import Hop  # noqa: TC001


class ResolveReason(StrEnum):
    """Why a URL stands for a page."""

    RESPONSE_URL = "response_url"  # the URL as given: no other one was proven
    REDIRECT_VERIFIED = "redirect_verified"
    DECLARED_VERIFIED = "declared_verified"
    TEXT_VERIFIED = "text_verified"
    UPGRADE_HTTPS = "upgrade_https"


class PageSource(StrEnum):
    """Where a candidate comes from."""

    INPUT = "input"
    REDIRECT = "redirect"
    DECLARED = "declared"
    NO_VARY_SEARCH = "no_vary_search"
    NORMAL_FORM = "normal_form"
    HTTPS = "https"
    NO_WWW = "no_www"
    NO_SLASH = "no_slash"
    REPEAT = "repeat"  # the page once more: does it change by itself?
    CONTROL = "control"  # a made-up URL beside the page: does the site show this text everywhere?


class PageVerdict(StrEnum):
    """The result of testing a candidate page."""

    FETCHED = "fetched"  # the first response, which all others are compared with
    SAME = "same"
    CONFIRMS = "confirms"  # it redirects to a URL that is known to show the page
    DIFFERENT = "different"
    REFUSED = "refused"
    FAILED = "failed"
    UNSAFE = "unsafe"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class PageCandidate:
    """A tested URL; `evidence` proves that it shows the page, `reason` explains the verdict to people."""

    url: str
    source: PageSource
    verdict: PageVerdict
    evidence: Evidence | None
    reason: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """The URL that stands for a page, with the evidence.

    `aliases` are the other URLs proven to show the same page, `requests` counts the requests after the first.
    """

    url: str
    reason: ResolveReason
    candidates: tuple[PageCandidate, ...]
    aliases: tuple[str, ...]
    declared: Declared
    hops: tuple[Hop, ...]
    title: str
    fingerprint: Fingerprint
    requests: int
    input_url: str
    response_url: str
