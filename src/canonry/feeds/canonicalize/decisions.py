"""The decisions of the search for a canonical URL, as pure functions (contract F3–F10).

Nothing here fetches, waits or reads a clock: `search.py` does what these functions decide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from canonry.core.native import normalize
from canonry.core.policy import Policy
from canonry.core.url import join, parse, read_url
from canonry.errors import FetchFailed, InvalidUrl, NotAFeed, UnsafeUrl, mask_credentials
from canonry.feeds.canonicalize.result import CandidateVerdict, DifferenceKind, FeedDifference, Reason, Source
from canonry.net.moved_urls import find_adoptable_url, strip_cosmetics, swap_scheme
from canonry.net.search_fetcher import strip_fragment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from canonry.net.response import Response

CandidateError: TypeAlias = FetchFailed | NotAFeed | UnsafeUrl

_TIE_ORDER = {Source.SELF: 0, Source.RESPONSE: 1, Source.INPUT: 2}  # among equal scores (contract F7)
_FEED_SCHEME = re.compile(r"(?:feed|rss|pcast|itpc|podcast):", re.IGNORECASE)
_WEB_SCHEME = re.compile(rf"[\x00-\x20]*(?:{_FEED_SCHEME.pattern}[/ ]*)*https?:", re.IGNORECASE)
_AMPERSAND = re.compile(r"&(?:amp|#38|#[xX]26);")


@dataclass(frozen=True, slots=True)
class Best:
    """The best URL so far: it was fetched and served the feed."""

    url: str
    reason: Reason
    source: Source
    preset: str | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """A URL to test, and what it was made from."""

    url: str
    source: Source
    preset: str | None = None


class CandidateSkip(StrEnum):
    """Why a URL is not fetched."""

    CREDENTIALS = "credentials"
    NO_REQUESTS_LEFT = "no_requests_left"
    RESERVED_FOR_HTTPS = "reserved_for_https"
    TEMPORARY_TARGET = "temporary_target"


_SKIP_SENTENCES = {
    CandidateSkip.CREDENTIALS: "credentials are not sent to another host or over http",
    CandidateSkip.NO_REQUESTS_LEFT: "max_requests is used up",
    CandidateSkip.RESERVED_FOR_HTTPS: "the last request is reserved for the https upgrade",
    CandidateSkip.TEMPORARY_TARGET: "a temporary redirect leads here, so the URL is not adopted",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of testing a URL; `proven` is the URL that served the feed."""

    verdict: CandidateVerdict
    proven: Best | None = None
    skip_reason: CandidateSkip | None = None
    error: CandidateError | None = None
    differences: tuple[FeedDifference, ...] = ()

    def describe(self, tested_url: str) -> str:
        """Explain the verdict to people."""
        if self.error is not None:
            return self.error.reason
        if self.skip_reason is not None:
            return _SKIP_SENTENCES[self.skip_reason]
        if self.verdict is CandidateVerdict.FETCHED:
            return "first response"
        if self.proven is None:
            return ": ".join(("a different feed", *filter(None, ["; ".join(map(_describe, self.differences))])))
        if self.verdict is CandidateVerdict.CONFIRMS:
            return f"redirects to {mask_credentials(self.proven.url)}"
        what = "same content" if self.proven.reason is Reason.CONTENT_VERIFIED else "same items"
        return what if self.proven.url == tested_url else f"{what}, moved to {mask_credentials(self.proven.url)}"


_DIFFERENCE_SENTENCES = {
    DifferenceKind.TITLE: "the title is {1!r}, not {0!r}",
    DifferenceKind.ITEMS: "{0} items are missing and {1} are new",
    DifferenceKind.TEXT_SIZE: "its texts have {1} characters, not {0}",
    DifferenceKind.NO_ITEMS: "it has {1} items, the first response {0}",
    DifferenceKind.CONTENT: "its {1} bytes differ from the {0} of the first response",
}


def _describe(difference: FeedDifference) -> str:
    return _DIFFERENCE_SENTENCES[difference.kind].format(difference.first[:80], difference.candidate[:80])


# --- Where to begin -----------------------------------------------------------------------------------------------


def has_web_scheme(text: str) -> bool:
    """Whether a text names http or https itself, possibly after a feed scheme such as `feed:`."""
    return _WEB_SCHEME.match(text) is not None


def rewrite_input(input_url: str, sites: tuple[str, ...]) -> str:
    """Apply the feed site rules (Blogger, FeedBurner) to the input (contract N8)."""
    return normalize(input_url, Policy("feed-sites", 1, sites=sites))


def list_start_urls(input_url: str, *, sites: tuple[str, ...], is_https_assumed: bool) -> list[tuple[str, ...]]:
    """List the URLs to open first, in groups: the rewritten input, then the input as given.

    A group is one URL, and its http twin if https was only assumed. URLs with credentials have no
    http twin, because http would expose them.
    """
    groups: list[tuple[str, ...]] = []
    for url in dict.fromkeys((rewrite_input(input_url, sites), input_url)):
        parts = parse(url)
        has_twin = is_https_assumed and parts.scheme == "https" and parts.userinfo is None
        groups.append((url, swap_scheme(url)) if has_twin else (url,))
    return groups


def list_known_urls(
    sources: Mapping[str, Source], *, presets: Sequence[Policy], sites: tuple[str, ...]
) -> dict[str, Source]:
    """List every URL that `exists` is asked about: all variants of the sources, over http and https (contract F11)."""
    urls: dict[str, Source] = {}
    for url, source in sources.items():
        rewritten = [rewrite_input(url, sites)] if source is Source.INPUT else []
        for variant in (url, *rewritten, *(normalize(url, preset) for preset in presets)):
            urls.setdefault(variant, source)
            urls.setdefault(swap_scheme(variant), source)
    return urls


# --- The self URL (contract F4) -----------------------------------------------------------------------------------


def parse_self_urls(declared: str, base_url: str, *, sites: tuple[str, ...] = ()) -> list[str]:
    """Return the URL a feed declares as its own, without credentials; empty if it is missing or invalid.

    A feed scheme without http or https (`feed://host/`) gives two URLs: https, then http. A mirror host of a feed
    site (`feedproxy.google.com`) gives the URL on its main host, then the URL as declared.
    """
    declared = _AMPERSAND.sub("&", declared.strip())
    if not declared:
        return []
    has_feed_scheme = _FEED_SCHEME.match(declared) is not None
    try:
        url = _strip_credentials(strip_fragment(read_url(declared) if has_feed_scheme else join(base_url, declared)))
    except InvalidUrl:
        return []
    rewritten = dict.fromkeys((rewrite_input(url, sites), url))
    if has_feed_scheme and not has_web_scheme(declared):
        return [each for found in rewritten for each in (found, swap_scheme(found))]
    return list(rewritten)


def make_self_twin(self_url: str, *, prefer_https: bool) -> str | None:
    """Return the https twin to test where an http self URL failed, or None."""
    return swap_scheme(self_url) if prefer_https and self_url.startswith("http:") else None


def is_self_elsewhere(self_url: str | None, response_url: str) -> bool:
    """Whether the self URL differs from the response URL in more than form, so that it must be fetched."""
    return self_url is not None and strip_cosmetics(self_url) != strip_cosmetics(response_url)


# --- Variants (contract F6–F8) ------------------------------------------------------------------------------------


def list_trials(
    source: Best,
    *,
    response_url: str,
    self_url: str | None,
    presets: Sequence[Policy],
    score: Callable[[str], float],
) -> list[Trial]:
    """List the variants of the source, cleanest first, with the self URL if it differs only in form."""
    trials: dict[str, Trial] = {}
    if self_url and self_url != response_url and not is_self_elsewhere(self_url, response_url):
        trials[self_url] = Trial(self_url, Source.SELF)
    for preset in presets:
        url = normalize(source.url, preset)
        trials.setdefault(url, Trial(url, source.source, preset.name))
    return sorted(trials.values(), key=lambda trial: (-score(trial.url), _TIE_ORDER[trial.source]))


def accept_without_test(trial: Trial, source: Best, response_url: str) -> Best | None:
    """Return the URL if it needs no test, because it is the source or the response URL and was fetched already."""
    if trial.url == source.url:
        return source
    if trial.url == response_url:
        return Best(trial.url, Reason.RESPONSE_URL, Source.RESPONSE)
    return None


def is_improvement(proven: Best, trial: Trial, source: Best, score: Callable[[str], float]) -> bool:
    """Whether a proven URL replaces the source. A variant that moved to a less clean URL does not."""
    if proven.url == trial.url or proven.reason is Reason.REDIRECT_VERIFIED:
        return True
    return score(proven.url) >= score(source.url)


def keep_source(source: Best) -> Best:
    """Return the source after every variant failed: a response URL is then a fallback."""
    return replace(source, reason=Reason.FALLBACK) if source.reason is Reason.RESPONSE_URL else source


# --- Testing one URL ----------------------------------------------------------------------------------------------


def find_skip_reason(url: str, best: Best, *, requests_left: int, may_reserve_https: bool) -> CandidateSkip | None:
    """Return why a URL must not be fetched, or None.

    Credentials stay with their host and never go from https to http. While the best URL is http, the
    last request is reserved for its https twin (contract F9), if `may_reserve_https`.
    """
    own, other = parse(best.url), parse(url)
    if other.userinfo is not None and (other.host != own.host or (own.scheme == "https" and other.scheme == "http")):
        return CandidateSkip.CREDENTIALS
    if requests_left <= 0:
        return CandidateSkip.NO_REQUESTS_LEFT
    is_reserved = may_reserve_https and own.scheme == "http" and url != swap_scheme(best.url)
    return CandidateSkip.RESERVED_FOR_HTTPS if requests_left == 1 and is_reserved else None


def judge_redirect(response: Response, known: Sequence[Best]) -> Judgement | None:
    """Return a confirmation if a redirect ended at a URL that is known to serve the feed, else None."""
    for best in known:
        if response.hops and best.url in {find_adoptable_url(response), response.permanent_url, response.url}:
            return Judgement(CandidateVerdict.CONFIRMS, replace(best, reason=Reason.REDIRECT_VERIFIED))
    return None


def judge_feed(
    trial: Trial, feed_url: str, evidence: Reason | None, *, differences: tuple[FeedDifference, ...] = ()
) -> Judgement:
    """Judge a feed that a trial served from `feed_url`, by the evidence that it is the same feed."""
    if evidence is None:
        return Judgement(CandidateVerdict.DIFFERENT, differences=differences)
    return Judgement(CandidateVerdict.SAME, Best(feed_url, evidence, trial.source, trial.preset))


def judge_error(error: CandidateError) -> Judgement:
    """Judge a URL that gave no feed."""
    if isinstance(error, NotAFeed):
        return Judgement(CandidateVerdict.NOT_A_FEED, error=error)
    return Judgement(CandidateVerdict.UNSAFE if isinstance(error, UnsafeUrl) else CandidateVerdict.FAILED, error=error)


# --- The https upgrade (contract F10) -----------------------------------------------------------------------------


def make_https_trial(best: Best, *, prefer_https: bool) -> Trial | None:
    """Return the https twin to test, or None if the best URL is https or `prefer_https` is off."""
    if best.url.startswith("https:") or not prefer_https:
        return None
    return Trial(swap_scheme(best.url), best.source, best.preset)


def choose_upgrade(best: Best, proven: Best | None) -> Best:
    """Return the proven https URL, or the best URL if the test proved nothing over https."""
    if proven is None:
        return keep_source(best)
    if proven.url.startswith("http:"):
        return best
    return proven if proven.reason is Reason.REDIRECT_VERIFIED else replace(proven, reason=Reason.UPGRADE_HTTPS)


# --- URLs ---------------------------------------------------------------------------------------------------------


def _strip_credentials(url: str) -> str:
    parts = parse(url)
    parts.userinfo = None
    return str(parts)
