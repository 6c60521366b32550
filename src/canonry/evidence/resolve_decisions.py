"""The decisions of resolve, as pure functions (contract E1, E2).

Nothing here fetches, waits or reads a clock: `page_search.py` does what these functions decide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from canonry.core.native import normalize
from canonry.core.rules import strip_www
from canonry.core.url import parse
from canonry.errors import FetchFailed, UnsafeUrl, mask_credentials
from canonry.evidence.no_vary_search import parse_no_vary_search
from canonry.evidence.page_view import PageView, is_root
from canonry.evidence.resolved import PageSource, PageVerdict, ResolveReason
from canonry.evidence.same_page import MIN_WORDS, Evidence, find_evidence
from canonry.net.html import is_html
from canonry.net.moved_urls import find_temporary_targets, strip_cosmetics, swap_scheme
from canonry.net.search_fetcher import strip_fragment
from canonry.net.transient_urls import is_transient
from canonry.net.wall_urls import is_wall

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.core.policy import Policy

_INDEX_FILE = re.compile(r"/(?:index|default)\.(?:html?|php|aspx?|jsp|cgi)$", re.IGNORECASE)


class PageDoubt(StrEnum):
    """Why a URL is not adopted."""

    SEVERAL_CANONICALS = "several_canonicals"
    SITE_ROOT = "site_root"
    REDIRECTS_ELSEWHERE = "redirects_elsewhere"
    DIFFERENT_TEXT = "different_text"
    TOO_SHORT = "too_short"
    NOT_SELF_DECLARED = "not_self_declared"
    DECLARES_ANOTHER = "declares_another"
    TEMPORARY_TARGET = "temporary_target"
    TRANSIENT = "transient"
    WALL = "wall"
    SHOWN_EVERYWHERE = "shown_everywhere"
    NOT_CONTROLLED = "not_controlled"
    STEADY = "steady"
    LACKS_WORDS = "lacks_words"
    NO_TEXT = "no_text"
    NO_REQUESTS_LEFT = "no_requests_left"
    CREDENTIALS = "credentials"
    ROUTE = "route"


DOUBT_SENTENCES = {
    PageDoubt.SEVERAL_CANONICALS: "the page declares several different canonical URLs",
    PageDoubt.SITE_ROOT: "it is the root of the site, and this page is not",
    PageDoubt.REDIRECTS_ELSEWHERE: "it redirects elsewhere",
    PageDoubt.DIFFERENT_TEXT: "its text differs",
    PageDoubt.TOO_SHORT: "a page of fewer than 30 words needs equal bytes, and they differ",
    PageDoubt.NOT_SELF_DECLARED: "it is on another host and does not declare itself",
    PageDoubt.DECLARES_ANOTHER: "it declares another URL as canonical",
    PageDoubt.TEMPORARY_TARGET: "only a temporary redirect leads there",
    PageDoubt.TRANSIENT: "it was made for one request or one visitor",
    PageDoubt.WALL: "its URL is that of a login form, a consent wall or an error page",
    PageDoubt.SHOWN_EVERYWHERE: "the site shows the same for a made-up URL, so the text proves nothing",
    PageDoubt.NOT_CONTROLLED: "whether the site shows the same for a made-up URL could not be found out",
    PageDoubt.STEADY: "its text differs a little, although this page does not change by itself: another page",
    PageDoubt.LACKS_WORDS: "it lacks words that this page shows at each request: another page",
    PageDoubt.NO_TEXT: "scripts make the text of the page, so equal bytes prove nothing",
    PageDoubt.NO_REQUESTS_LEFT: "max_requests is used up",
    PageDoubt.CREDENTIALS: "credentials are not sent to another host or over http",
    PageDoubt.ROUTE: "the fragment selects what the page shows",
}
_EVIDENCE_SENTENCES = {
    Evidence.REDIRECT: "redirects permanently",
    Evidence.DECLARED: "the pages declare each other",
    Evidence.SAME_TEXT: "same text",
    Evidence.SIMILAR_TEXT: "nearly the same text, same title",
    Evidence.SAME_BYTES: "same bytes",
}
_UNPROVEN_SENTENCES = {
    PageSource.INPUT: "first response",
    PageSource.CONTROL: "the made-up URL shows another text",
    PageSource.REPEAT: "the page shows another text at each request",
}


@dataclass(frozen=True, slots=True)
class PageTrial:
    """A URL to test."""

    url: str
    source: PageSource


@dataclass(frozen=True, slots=True)
class PageJudgement:
    """The result of testing a URL; `proven` is the URL that may represent the page."""

    verdict: PageVerdict
    evidence: Evidence | None = None
    doubt: PageDoubt | None = None
    error: FetchFailed | UnsafeUrl | None = None
    proven: str | None = None

    def describe(self, trial: PageTrial) -> str:
        """Explain the verdict to people."""
        if self.error is not None:
            return self.error.reason
        if self.doubt is PageDoubt.STEADY and trial.source is PageSource.REPEAT:
            return "the page shows the same text each time"
        if self.doubt is not None:
            return DOUBT_SENTENCES[self.doubt]
        if self.verdict is PageVerdict.CONFIRMS and self.proven:
            return f"redirects to {mask_credentials(self.proven)}"
        if self.evidence is None:
            return _UNPROVEN_SENTENCES[trial.source]
        moved = f", moved to {mask_credentials(self.proven)}" if self.proven not in (None, trial.url) else ""
        return _EVIDENCE_SENTENCES[self.evidence] + moved


# --- Candidates (contract E1) -------------------------------------------------------------------------------------


def find_declared_url(page: PageView) -> str:
    """Return the URL that a page declares as canonical, `og:url` if it declares none; empty if it has neither."""
    return next(iter(page.declared.canonical_urls), page.declared.og_url)


def choose_declared_url(page: PageView) -> str:
    """Return the declared URL to test: the https twin of one over http that an https page of the same site declares."""
    url = find_declared_url(page)
    if not url.startswith("http:") or not page.url.startswith("https:"):
        return url
    twin = swap_scheme(url)
    is_same_site = strip_www(parse(url).host) == strip_www(parse(page.url).host)
    return twin if is_same_site and twin != page.url else url


def doubt_declared_url(url: str, page: PageView) -> PageDoubt | None:
    """Return why a declared URL is refused before it is fetched, or None (contract E2)."""
    if len(page.declared.canonical_urls) > 1:
        return PageDoubt.SEVERAL_CANONICALS
    if is_root(strip_index(url)) and not is_root(strip_index(page.url)) and parse(page.url).path != "/":
        return PageDoubt.SITE_ROOT
    if is_temporarily_elsewhere(page):
        return PageDoubt.TEMPORARY_TARGET
    if is_wall(url) and not is_wall(page.url):
        return PageDoubt.WALL
    return PageDoubt.TRANSIENT if is_transient(url) and not is_transient(page.url) else None


def is_declared_url(url: str, page: PageView, policy: Policy) -> bool:
    """Return whether a URL is the one that the page declares, under a policy and over http or https."""
    declared = find_declared_url(page)
    if len(page.declared.canonical_urls) > 1 or not declared:
        return False
    own, other = (strip_fragment(normalize(each, policy)).partition(":")[2] for each in (url, declared))
    return own == other


def list_form_makers(
    page: PageView, policy: Policy, *, is_declared: bool = False
) -> list[tuple[PageSource, Callable[[str], str]]]:
    """List how the next candidates are made from the best URL so far, in the order in which they are tested.

    If the page declares that URL, its host and slash stay as the publisher chose them. Else one spelling would lead to
    another by what it declares, and that one back by its form.
    """
    no_vary_search = parse_no_vary_search(page.declared.no_vary_search)
    makers: list[tuple[PageSource, Callable[[str], str]]] = []
    if no_vary_search is not None:
        makers.append((PageSource.NO_VARY_SEARCH, no_vary_search.apply))
    makers += [(PageSource.NORMAL_FORM, partial(normalize, policy=policy)), (PageSource.HTTPS, _upgrade_scheme)]
    if is_declared:
        return makers
    return [
        *makers,
        (PageSource.NO_WWW, _strip_www),
        (PageSource.NO_SLASH, strip_index),
        (PageSource.NO_SLASH, _strip_slash),
    ]


def find_skip_doubt(url: str, page: PageView, *, requests_left: int, is_controlled: bool) -> PageDoubt | None:
    """Return why a URL must not be fetched, or None. One request is reserved for the control."""
    own, other = parse(page.url), parse(url)
    if other.userinfo is not None and (other.host != own.host or (own.scheme == "https" and other.scheme == "http")):
        return PageDoubt.CREDENTIALS
    if strip_cosmetics(url) in find_temporary_targets(page.response):
        return PageDoubt.TEMPORARY_TARGET
    return None if requests_left >= (1 if is_controlled else 2) else PageDoubt.NO_REQUESTS_LEFT


# --- Judging one page (contract E2) -------------------------------------------------------------------------------


def judge_page(trial: PageTrial, page: PageView, first: PageView, best_url: str) -> PageJudgement:
    """Judge what a candidate showed, compared with the first response."""
    if page.response.hops:
        # Where only a temporary redirect led is no URL of the page, whichever redirect of a candidate leads there.
        known_urls = {best_url, first.url, *(() if is_temporarily_elsewhere(first) else (first.response.url,))}
        if page.url == page.response.url and page.url in known_urls:
            known = best_url if page.url == best_url else first.url
            return PageJudgement(PageVerdict.CONFIRMS, Evidence.REDIRECT, proven=known)
        is_cosmetic = page.url == page.response.url and strip_cosmetics(page.url) == strip_cosmetics(trial.url)
        if trial.source is PageSource.DECLARED or not is_cosmetic:
            return PageJudgement(PageVerdict.REFUSED, doubt=PageDoubt.REDIRECTS_ELSEWHERE)
    evidence = find_evidence(first, page)
    if evidence is Evidence.SAME_BYTES and is_shell(first) and strip_cosmetics(trial.url) != strip_cosmetics(first.url):
        return PageJudgement(PageVerdict.REFUSED, doubt=PageDoubt.NO_TEXT)
    if trial.source is PageSource.DECLARED:
        if evidence is None and _is_amp_pair(first, page):
            evidence = Evidence.DECLARED
        if evidence is not None and (doubt := _doubt_canonical_page(trial.url, page, first)):
            return PageJudgement(PageVerdict.REFUSED, evidence, doubt)
    if evidence is None:
        is_short = min(first.fingerprint.words, page.fingerprint.words) < MIN_WORDS
        doubt = PageDoubt.TOO_SHORT if is_short else PageDoubt.DIFFERENT_TEXT
        return PageJudgement(PageVerdict.DIFFERENT, doubt=doubt)
    return PageJudgement(PageVerdict.SAME, evidence, proven=page.url)


def judge_page_error(error: FetchFailed | UnsafeUrl) -> PageJudgement:
    """Judge a URL that gave no page."""
    return PageJudgement(
        PageVerdict.UNSAFE if isinstance(error, UnsafeUrl) else PageVerdict.FAILED,
        error=error,
    )


def _doubt_canonical_page(url: str, page: PageView, first: PageView) -> PageDoubt | None:
    """Return why a declared URL that shows the page is refused, or None."""
    declared = find_declared_url(page)
    is_one = len(page.declared.canonical_urls) <= 1
    is_self_declared = bool(declared) and is_one and strip_cosmetics(declared) == strip_cosmetics(url)
    if parse(url).host != parse(first.url).host and not is_self_declared:
        return PageDoubt.NOT_SELF_DECLARED
    return PageDoubt.DECLARES_ANOTHER if declared and not is_self_declared else None


def is_shell(page: PageView) -> bool:
    """Return whether a page has few words before its scripts run: the same bytes then show different pages."""
    if page.fingerprint.words >= MIN_WORDS or not is_html(page.response.header("content-type")):
        return False
    return not page.fingerprint.words or b"<script" in page.response.body.lower()


def _is_amp_pair(first: PageView, page: PageView) -> bool:
    """Return whether a canonical page names the first page as its AMP version, under the same title."""
    amp_url = page.declared.amp_url
    is_named = bool(amp_url) and strip_cosmetics(amp_url) in {strip_cosmetics(url) for url in _list_urls(first)}
    return is_named and bool(first.title) and first.title == page.title


# --- URLs ---------------------------------------------------------------------------------------------------------


def choose_reason(source: PageSource) -> ResolveReason:
    """Return why a proven URL stands for the page."""
    by_source = {PageSource.DECLARED: ResolveReason.DECLARED_VERIFIED, PageSource.HTTPS: ResolveReason.UPGRADE_HTTPS}
    return by_source.get(source, ResolveReason.TEXT_VERIFIED)


def is_temporarily_elsewhere(page: PageView) -> bool:
    """Return whether only a temporary redirect led to what was shown, and it changed more than the form."""
    return bool(find_temporary_targets(page.response))


def selects_route(fragment: str | None) -> bool:
    """Return whether a fragment selects what a page shows: `#!/inbox`, `#/inbox`."""
    return bool(fragment) and fragment.startswith(("!", "/"))  # type: ignore[union-attr]


def _list_urls(page: PageView) -> list[str]:
    return [*(hop.url for hop in page.response.hops), page.response.url]


def _upgrade_scheme(url: str) -> str:
    return swap_scheme(url) if url.startswith("http:") else url


def _strip_www(url: str) -> str:
    parts = parse(url)
    parts.host = strip_www(parts.host)
    return str(parts)


def strip_index(url: str) -> str:
    """Return the URL of the folder for one of its index file: `/docs/index.html` → `/docs/`."""
    parts = parse(url)
    parts.path = _INDEX_FILE.sub("/", parts.path)
    return str(parts)


def _strip_slash(url: str) -> str:
    parts = parse(url)
    if len(parts.path) > 1 and parts.path.endswith("/"):
        parts.path = parts.path.rstrip("/") or "/"
    return str(parts)
