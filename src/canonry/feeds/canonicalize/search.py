"""The search for a feed's canonical URL (contract F); `CanonicalSearch.find` shows all steps in their order.

The decisions are in `decisions.py`; this module fetches, applies them and records the candidates.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from canonry.core.score import score
from canonry.errors import FailureKind, FetchFailed, NotAFeed, UnsafeUrl, mask_credentials
from canonry.feeds.canonicalize import decisions
from canonry.feeds.canonicalize.decisions import Best, Judgement, Trial
from canonry.feeds.canonicalize.probes import PROBES
from canonry.feeds.canonicalize.result import (
    Candidate,
    CandidateVerdict,
    Canonical,
    Existing,
    FeedSummary,
    Reason,
    Source,
)
from canonry.feeds.canonicalize.same_feed import FetchedFeed, find_differences, find_evidence
from canonry.net.moved_urls import find_temporary_targets, list_aliases, strip_cosmetics, swap_scheme
from canonry.net.search_fetcher import (
    CallbackRaised,
    EventKind,
    Fetcher,
    raise_for_status,
    require_type,
    run_callback,
    strip_fragment,
)

if TYPE_CHECKING:
    from canonry.core.policy import Policy
    from canonry.net.html import FeedLink
    from canonry.net.response import Response, Validators

Exists: TypeAlias = Callable[[list[str]], "Existing | Awaitable[Existing | None] | None"]
_NO_FEED = frozenset({CandidateVerdict.FAILED, CandidateVerdict.NOT_A_FEED})


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options of a call of canonicalize."""

    presets: tuple[Policy, ...]
    tracking_params: tuple[str, ...] | None
    probes: tuple[str, ...]
    sites: tuple[str, ...]
    max_requests: int
    use_signature: bool
    prefer_https: bool
    discover: bool
    validators: Validators | None
    body: bytes | None


@dataclass(slots=True)
class CanonicalSearch:
    """One call of canonicalize: its options, what is known so far, and which URLs were tested."""

    input_url: str
    is_https_assumed: bool  # because the input has no scheme
    options: SearchOptions
    fetcher: Fetcher
    read: Callable[[Response], Awaitable[FetchedFeed]]
    exists: Exists | None
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    aliases: dict[str, None] = field(default_factory=dict[str, None])  # in the order they were proven
    discovered: tuple[FeedLink, ...] = ()
    declared_url: str | None = None  # the self URL as declared
    self_urls: list[str] = field(default_factory=list[str])  # the self URL in the forms to test, in this order
    requests_before_feed: int = 0
    first: FetchedFeed | None = None
    best: Best | None = None

    async def run(self, deadline: float, *, check_before_fetch: bool) -> Canonical:
        """Search until the deadline, in seconds; then return the best URL proven so far, or raise FetchFailed."""
        limit = asyncio.timeout(deadline)
        try:
            async with limit:
                return await self.find(check_before_fetch=check_before_fetch)
        except TimeoutError:
            if not limit.expired():
                raise
            if self.best is None:
                reason = f"no feed within {deadline:g} s"
                raise FetchFailed(self.input_url, reason, self._mask_candidates(), kind=FailureKind.TIMEOUT) from None
            return self._make_result(self.best)
        except CallbackRaised as raised:
            raise raised.error from None
        except (FetchFailed, NotAFeed, UnsafeUrl) as error:
            error.tried = self._mask_candidates()
            raise

    async def find(self, *, check_before_fetch: bool) -> Canonical:
        """Open the input, ask the caller's store, then improve on the response URL step by step."""
        if check_before_fetch and (known := await self._find_known({self.input_url: Source.INPUT})):
            return known
        first = self.first = await self._open_input()
        self.requests_before_feed = self.fetcher.request_count
        self.fetcher.origin = first.response.origin
        self._add_aliases(first.response)
        self.self_urls = await self._find_safe_self_urls(first)
        sources = {self.input_url: Source.INPUT, first.url: Source.RESPONSE}
        if known := await self._find_known({**sources, **dict.fromkeys(self.self_urls, Source.SELF)}):
            return known
        best = self.best = Best(first.url, Reason.RESPONSE_URL, Source.RESPONSE)
        for improve in (self._test_self_url, self._test_probes, self._test_variants, self._test_https):
            best = self.best = await improve(first, best)
        return self._make_result(best)

    # --- The steps ------------------------------------------------------------------------------------------------

    async def _find_known(self, sources: dict[str, Source]) -> Canonical | None:
        """Ask the caller's store for the variants of these URLs; a URL that it has is the result."""
        if self.exists is None:
            return None
        urls = decisions.list_known_urls(sources, presets=self.options.presets, sites=self.options.sites)
        existing = await run_callback(self.exists, list(urls))
        if existing is None:
            return None
        require_type("exists", existing, Existing, "or None")
        await self.fetcher.emit(EventKind.EXISTS, existing.url)
        best = Best(existing.url, Reason.EXISTS_IN_DB, urls.get(existing.url, Source.INPUT))
        return replace(self._make_result(best), data=existing.data)

    async def _open_input(self) -> FetchedFeed:
        """Return the first feed that opens; raise the last failure if none does."""
        failure: FetchFailed | NotAFeed | None = None
        for group in decisions.list_start_urls(
            self.input_url, sites=self.options.sites, is_https_assumed=self.is_https_assumed
        ):
            for url in group:
                try:
                    return await self._open(url)
                except FetchFailed as error:
                    failure = error
                except NotAFeed as error:
                    failure = error
                    break  # the server answered, so its http twin is not needed
        assert failure is not None
        raise failure

    async def _open(self, url: str) -> FetchedFeed:
        """Return the feed at a URL; with `discover`, the first feed that a web page links to.

        The caller's validators and body are those of the input, not of a feed that it links to.
        """
        validators, body = (None, None) if self.discovered else (self.options.validators, self.options.body)
        trial = Trial(url, Source.INPUT)
        started = response = None
        try:
            await self.fetcher.check(url)
            started = time.perf_counter()
            response = await self.fetcher.get(url, validators=validators, body=body)
            raise_for_status(response, datetime.now(UTC))
            feed = await self.read(response)
        except (FetchFailed, NotAFeed, UnsafeUrl) as error:
            self._record(trial, decisions.judge_error(error), started)
            if response is None or not isinstance(error, NotAFeed) or self.discovered:
                raise
            return await self._discover(response, error)
        self._record(trial, Judgement(CandidateVerdict.FETCHED), started)
        return feed

    async def _discover(self, page: Response, error: NotAFeed) -> FetchedFeed:
        """Open the first feed that a web page links to; raise NotAFeed if it links to none or `discover` is off."""
        from canonry.feeds.read import is_web_page
        from canonry.net.html import find_feed_links

        if not is_web_page(page.body):
            raise error
        content_type = page.header("content-type")
        links = await asyncio.to_thread(find_feed_links, page.body, url=page.url, content_type=content_type)
        if not links:
            raise NotAFeed(error.target, f"{error.reason} without links to feeds")
        if not self.options.discover:
            count = f"{len(links)} feed{'' if len(links) == 1 else 's'}"
            raise NotAFeed(error.target, f"{error.reason} that links to {count}; to follow the first, turn on discover")
        self.discovered = tuple(links)
        self.fetcher.origin = page.origin
        return await self._open(strip_fragment(links[0].url))

    async def _find_safe_self_urls(self, first: FetchedFeed) -> list[str]:
        """Return the URLs the feed declares as its own, or none if the guard refuses them."""
        urls = decisions.parse_self_urls(first.feed.self_url, first.response.url, sites=self.options.sites)
        if urls:
            try:
                await self.fetcher.check(urls[0])
            except UnsafeUrl as error:
                self._record(Trial(urls[0], Source.SELF), decisions.judge_error(error))
                return []
            [self.declared_url, *_] = decisions.parse_self_urls(first.feed.self_url, first.response.url)
        return urls

    async def _test_self_url(self, first: FetchedFeed, best: Best) -> Best:
        """Adopt the self URL if it is elsewhere and serves this feed."""
        if not decisions.is_self_elsewhere(self._self_url, best.url):
            return best
        for url in self.self_urls:
            if proven := await self._test(Trial(url, Source.SELF), first, best):
                return proven
            if self.candidates[-1].verdict not in _NO_FEED:
                return best  # it serves another feed, or must not be fetched: no other form of the URL is needed
        twin = decisions.make_self_twin(self.self_urls[-1], prefer_https=self.options.prefer_https)
        return best if twin is None else await self._test(Trial(twin, Source.SELF), first, best) or best

    async def _test_probes(self, first: FetchedFeed, best: Best) -> Best:
        """Adopt another URL under which a publishing system serves this feed."""
        for probe in self.options.probes:
            url = PROBES[probe](best.url)
            if url and (proven := await self._test(Trial(url, best.source), first, best)):
                return proven
        return best

    async def _test_variants(self, first: FetchedFeed, source: Best) -> Best:
        """Return the cleanest variant of the source that serves this feed, testing one after the other."""
        trials = decisions.list_trials(
            source,
            response_url=first.url,
            self_url=self._self_url,
            presets=self.options.presets,
            score=self._score,
        )
        for number, trial in enumerate(trials):
            if accepted := decisions.accept_without_test(trial, source, first.url):
                return decisions.keep_source(accepted) if number and accepted is source else accepted
            proven = await self._test(trial, first, source)
            if proven and decisions.is_improvement(proven, trial, source, self._score):
                return proven
        return decisions.keep_source(source)

    async def _test_https(self, first: FetchedFeed, best: Best) -> Best:
        """Adopt the https twin of an http URL if it serves this feed."""
        trial = decisions.make_https_trial(best, prefer_https=self.options.prefer_https)
        return decisions.choose_upgrade(best, await self._test(trial, first, best)) if trial else best

    # --- Testing one URL ------------------------------------------------------------------------------------------

    async def _test(self, trial: Trial, first: FetchedFeed, best: Best) -> Best | None:
        """Test whether a URL serves the feed; record the verdict, and return the URL that is proven."""
        is_new = not self.fetcher.has_fetched(trial.url)
        if skip_reason := self._find_skip_reason(trial, first, best):
            self._record(trial, Judgement(CandidateVerdict.SKIPPED, skip_reason=skip_reason))
            return None
        started = response = None
        try:
            if is_new:
                await self.fetcher.check(trial.url)
                started = time.perf_counter()
            response = await self.fetcher.get(trial.url)
            judgement = await self._judge(trial, response, first, best)
        except (FetchFailed, NotAFeed, UnsafeUrl) as error:
            judgement = decisions.judge_error(error)
        self._record(trial, judgement, started)
        if judgement.proven and response:
            self._add_aliases(response)
            await self.fetcher.emit(EventKind.MATCHED, trial.url, judgement.describe(trial.url))
        return judgement.proven

    def _find_skip_reason(self, trial: Trial, first: FetchedFeed, best: Best) -> decisions.CandidateSkip | None:
        if strip_cosmetics(trial.url) in find_temporary_targets(first.response):
            return decisions.CandidateSkip.TEMPORARY_TARGET
        if self.fetcher.has_fetched(trial.url):
            return None
        used = self.fetcher.request_count - self.requests_before_feed
        is_twin_open = not self.fetcher.has_fetched(swap_scheme(best.url))
        return decisions.find_skip_reason(
            trial.url,
            best,
            requests_left=self.options.max_requests - used,
            may_reserve_https=self.options.prefer_https and is_twin_open,
        )

    async def _judge(self, trial: Trial, response: Response, first: FetchedFeed, best: Best) -> Judgement:
        raise_for_status(response, datetime.now(UTC))
        known = (best, Best(first.url, Reason.RESPONSE_URL, Source.RESPONSE))
        if confirmation := decisions.judge_redirect(response, known):
            return confirmation
        feed = await self.read(response)
        if strip_cosmetics(feed.url) in find_temporary_targets(first.response):
            return Judgement(CandidateVerdict.SKIPPED, skip_reason=decisions.CandidateSkip.TEMPORARY_TARGET)
        use_signature = self.options.use_signature
        if evidence := find_evidence(first, feed, use_signature=use_signature):
            return decisions.judge_feed(trial, feed.url, evidence)
        differences = find_differences(first, feed, use_signature=use_signature)
        return decisions.judge_feed(trial, feed.url, None, differences=differences)

    # --- Recording ------------------------------------------------------------------------------------------------

    @property
    def _self_url(self) -> str | None:
        return self.self_urls[0] if self.self_urls else None

    def _score(self, url: str) -> float:
        return score(url, tracking_params=self.options.tracking_params).total

    def _add_aliases(self, response: Response) -> None:
        self.aliases |= dict.fromkeys(list_aliases(response))

    def _record(self, trial: Trial, judgement: Judgement, started: float | None = None) -> None:
        """Add a candidate; `started` is when its request began, None if none was sent."""
        self.candidates.append(
            Candidate(
                trial.url,
                trial.source,
                trial.preset,
                self._score(trial.url),
                judgement.verdict,
                judgement.describe(trial.url),
                0 if started is None else round((time.perf_counter() - started) * 1000),
                judgement.differences,
            )
        )

    def _mask_candidates(self) -> tuple[Candidate, ...]:
        """Return the candidates with masked credentials, for an error."""
        return tuple(replace(candidate, url=mask_credentials(candidate.url)) for candidate in self.candidates)

    def _make_result(self, best: Best) -> Canonical:
        first = self.first
        return Canonical(
            url=best.url,
            reason=best.reason,
            source=best.source,
            preset=best.preset,
            requests=self.fetcher.request_count - self.requests_before_feed if first else 0,
            total_requests=self.fetcher.request_count,
            candidates=tuple(self.candidates),
            aliases=tuple(url for url in self.aliases if url != best.url),
            feed=FeedSummary(first.feed.title, first.feed.format, len(first.feed.items)) if first else None,
            input_url=self.input_url,
            response_url=first.url if first else None,
            self_url=self.declared_url,
            hops=first.response.hops if first else (),
            discovered=self.discovered,
        )
