"""One search for the URL that stands for a page (contract E1).

`PageSearch.find` shows all steps in their order. The decisions are in `resolve_decisions.py` and `page_controls.py`;
this module fetches, applies them and records the candidates.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from canonry.core.url import parse
from canonry.errors import FailureKind, FetchFailed, UnsafeUrl, mask_credentials
from canonry.evidence import page_controls
from canonry.evidence import resolve_decisions as decisions
from canonry.evidence.page_view import PageView, is_root, read_page_view
from canonry.evidence.resolve_decisions import PageDoubt, PageJudgement, PageTrial
from canonry.evidence.resolved import PageCandidate, PageSource, PageVerdict, Resolved, ResolveReason
from canonry.evidence.same_page import Evidence
from canonry.net.moved_urls import list_aliases, swap_scheme
from canonry.net.search_fetcher import CallbackRaised, EventKind, Fetcher, raise_for_status, strip_fragment

if TYPE_CHECKING:
    from canonry.core.policy import Policy
    from canonry.net.response import Response


@dataclass(slots=True)
class PageSearch:
    """One call of resolve: what is known so far, and which URLs were tested."""

    input_url: str
    fragment: str | None
    is_https_assumed: bool  # because the input has no scheme
    policy: Policy
    max_requests: int
    fetcher: Fetcher
    candidates: list[PageCandidate] = field(default_factory=list[PageCandidate])
    aliases: dict[str, None] = field(default_factory=dict[str, None])  # in the order they were proven
    requests_before_page: int = 0
    first: PageView | None = None
    best: tuple[str, ResolveReason] | None = None
    control: PageDoubt | None = None
    is_controlled: bool = False

    async def run(self, deadline: float) -> Resolved:
        """Search until the deadline, in seconds; then return the best URL proven so far, or raise FetchFailed."""
        limit = asyncio.timeout(deadline)
        try:
            async with limit:
                await self.find()
        except TimeoutError:
            if not limit.expired():
                raise
            if self.best is None:
                reason = f"no page within {deadline:g} s"
                tried = self._mask_candidates()
                raise FetchFailed(self.input_url, reason, tried, kind=FailureKind.TIMEOUT) from None
        except CallbackRaised as raised:
            raise raised.error from None
        except (FetchFailed, UnsafeUrl) as error:
            error.tried = self._mask_candidates()
            raise
        return self._make_result()

    async def find(self) -> None:
        """Open the input, then test what the page declares and cleaner forms of its URL, one after the other."""
        first = self.first = await self._open_input()
        self.requests_before_page = self.fetcher.request_count
        self.fetcher.origin = first.response.origin
        self.best = (self.input_url, ResolveReason.RESPONSE_URL)
        if decisions.selects_route(self.fragment):
            self._record(PageTrial(self.input_url, PageSource.INPUT), PageJudgement(PageVerdict.FETCHED))
            self._record(
                PageTrial(f"{self.input_url}#{self.fragment}", PageSource.INPUT),
                PageJudgement(PageVerdict.SKIPPED, doubt=PageDoubt.ROUTE),
            )
            return
        if not await self._accept_redirect(first):
            return
        own = self.best
        await self._test_declared_url(first)
        is_declared = decisions.is_declared_url(self.best[0], first, self.policy)
        for source, make in decisions.list_form_makers(first, self.policy, is_declared=is_declared):
            if self.control is not None:
                return
            url = strip_fragment(make(self.best[0]))
            if url == first.url:
                self.best = own
            elif url != self.best[0] and all(url != each.url for each in self.candidates):
                await self._test(PageTrial(url, source), first)

    # --- The steps ------------------------------------------------------------------------------------------------

    async def _open_input(self) -> PageView:
        """Return the page at the input; over http if https was only assumed and gave no page."""
        try:
            return await self._open(self.input_url)
        except FetchFailed:
            has_twin = self.is_https_assumed and parse(self.input_url).userinfo is None
            if not has_twin:
                raise
        self.input_url = swap_scheme(self.input_url)
        return await self._open(self.input_url)

    async def _open(self, url: str) -> PageView:
        try:
            await self.fetcher.check(url)
            return await self._get(url)
        except (FetchFailed, UnsafeUrl) as error:
            self._record(PageTrial(url, PageSource.INPUT), decisions.judge_page_error(error))
            raise

    async def _accept_redirect(self, first: PageView) -> bool:
        """Adopt the end of the permanent redirects, unless the site sends every URL there; return whether to go on."""
        self._record(PageTrial(self.input_url, PageSource.INPUT), PageJudgement(PageVerdict.FETCHED))
        if first.url == self.input_url:
            self.aliases[first.url] = None
            return True
        trial = PageTrial(first.url, PageSource.REDIRECT)
        if page_controls.needs_control(self.input_url, first):
            doubt = await self._run_control(first, first.url)
            if doubt is PageDoubt.NO_REQUESTS_LEFT and not is_root(first.url):
                doubt = None  # a permanent redirect is evidence by itself
            if doubt is not None:
                self._record(trial, PageJudgement(PageVerdict.REFUSED, Evidence.REDIRECT, doubt))
                return False
        self._record(trial, PageJudgement(PageVerdict.SAME, Evidence.REDIRECT, proven=first.url))
        self._adopt(first.url, ResolveReason.REDIRECT_VERIFIED, first.response)
        return True

    async def _test_declared_url(self, first: PageView) -> None:
        """Adopt the URL that the page declares if it shows this page and nothing speaks against it."""
        url = decisions.choose_declared_url(first)
        if not url or url == first.url:
            return
        trial = PageTrial(url, PageSource.DECLARED)
        if doubt := decisions.doubt_declared_url(url, first):
            self._record(trial, PageJudgement(PageVerdict.REFUSED, doubt=doubt))
            return
        await self._test(trial, first)

    # --- Testing one URL ------------------------------------------------------------------------------------------

    async def _test(self, trial: PageTrial, first: PageView) -> None:
        """Test whether a URL shows the page; record the verdict, and adopt the URL that is proven."""
        assert self.best is not None
        if not self.fetcher.has_fetched(trial.url):
            doubt = decisions.find_skip_doubt(
                trial.url, first, requests_left=self._requests_left, is_controlled=self.is_controlled
            )
            if doubt is not None:
                self._record(trial, PageJudgement(PageVerdict.SKIPPED, doubt=doubt))
                return
        page: PageView | None = None
        try:
            await self.fetcher.check(trial.url)
            page = await self._get(trial.url)
            judgement = decisions.judge_page(trial, page, first, self.best[0])
        except (FetchFailed, UnsafeUrl) as error:
            judgement = decisions.judge_page_error(error)
        if judgement.verdict is PageVerdict.SAME:
            doubt = await self._run_control(first, trial.url)
            is_doubtful = page_controls.may_be_siblings(first.url, trial.url)
            if page and doubt is None and judgement.evidence is Evidence.SIMILAR_TEXT and is_doubtful:
                doubt = await self._repeat_first(first, page)
            if doubt is not None:
                judgement = PageJudgement(PageVerdict.REFUSED, judgement.evidence, doubt)
        self._record(trial, judgement)
        if page is not None and judgement.proven is not None:
            is_confirmed = judgement.verdict is PageVerdict.CONFIRMS  # another URL of the page, and not a better one
            proven = self.best[0] if is_confirmed else judgement.proven
            self._adopt(proven, decisions.choose_reason(trial.source), page.response)
            await self.fetcher.emit(EventKind.MATCHED, trial.url, judgement.describe(trial))

    async def _repeat_first(self, first: PageView, candidate: PageView) -> PageDoubt | None:
        """Ask for the page once more; return why a nearly equal text of a candidate proves nothing, or None."""
        if self._requests_left <= 0:
            return PageDoubt.NO_REQUESTS_LEFT
        url = first.response.url
        self.fetcher.forget(url)
        answer = await self._get_or_error(url)
        doubt = page_controls.judge_repeat(answer, first)
        verdict = PageVerdict.DIFFERENT if doubt is None else PageVerdict.REFUSED
        self._record(PageTrial(url, PageSource.REPEAT), PageJudgement(verdict, doubt=doubt))
        if doubt is not None or not isinstance(answer, PageView):
            return doubt
        lacks_words = await asyncio.to_thread(page_controls.lacks_lasting_words, candidate, first, answer)
        return PageDoubt.LACKS_WORDS if lacks_words else None

    async def _run_control(self, first: PageView, candidate_url: str) -> PageDoubt | None:
        """Ask for a made-up URL beside the page, once; return why the text of the page proves nothing, or None."""
        if self.is_controlled:
            return self.control
        if self._requests_left <= 0:
            return PageDoubt.NO_REQUESTS_LEFT
        url = page_controls.make_control_url(self.input_url, candidate_url)
        answer = await self._get_or_error(url)
        self.is_controlled = True
        if not isinstance(answer, PageView) and page_controls.is_refused_connection(answer):
            self._record(PageTrial(url, PageSource.CONTROL), decisions.judge_page_error(answer))
            return None
        self.control = page_controls.judge_control(
            answer, first, self.input_url, final_url=first.response.url, own_url=first.url
        )
        verdict = PageVerdict.REFUSED if self.control else PageVerdict.DIFFERENT
        self._record(PageTrial(url, PageSource.CONTROL), PageJudgement(verdict, doubt=self.control))
        return self.control

    async def _get_or_error(self, url: str) -> PageView | FetchFailed | UnsafeUrl:
        try:
            await self.fetcher.check(url)
            return await self._get(url)
        except (FetchFailed, UnsafeUrl) as error:
            return error

    async def _get(self, url: str) -> PageView:
        """Return what a URL shows; raise FetchFailed for a status that is not 2xx."""
        response = await self.fetcher.get(url)
        raise_for_status(response, datetime.now(UTC))
        return await asyncio.to_thread(read_page_view, response)

    # --- Recording ------------------------------------------------------------------------------------------------

    @property
    def _requests_left(self) -> int:
        return self.max_requests - (self.fetcher.request_count - self.requests_before_page)

    def _adopt(self, url: str, reason: ResolveReason, response: Response) -> None:
        assert self.best is not None
        self.aliases |= dict.fromkeys((self.best[0], *list_aliases(response), url))
        is_downgrade = url.startswith("http:") and url == swap_scheme(self.best[0])
        if url != self.best[0] and not is_downgrade:
            self.best = (url, reason)

    def _record(self, trial: PageTrial, judgement: PageJudgement) -> None:
        reason = judgement.describe(trial)
        self.candidates.append(PageCandidate(trial.url, trial.source, judgement.verdict, judgement.evidence, reason))

    def _mask_candidates(self) -> tuple[PageCandidate, ...]:
        """Return the candidates with masked credentials, for an error."""
        return tuple(replace(candidate, url=mask_credentials(candidate.url)) for candidate in self.candidates)

    def _make_result(self) -> Resolved:
        first = self.first
        assert first is not None
        assert self.best is not None
        url, reason = self.best
        route = f"#{self.fragment}" if decisions.selects_route(self.fragment) else ""
        return Resolved(
            url=f"{url}{route}",
            reason=reason,
            candidates=tuple(self.candidates),
            aliases=tuple(alias for alias in self.aliases if alias != url),
            declared=first.declared,
            hops=first.response.hops,
            title=first.title,
            fingerprint=first.fingerprint,
            requests=self.fetcher.request_count - self.requests_before_page,
            input_url=self.input_url,
            response_url=first.response.url,
        )
