"""The work of one process in a crawl: lease pages, open them, decide, and record results in one transaction.

`CrawlRun.crawl_pages` is the loop, `CrawlRun._open` opens one page. Decisions are in decide.py and judge.py.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from canonry.core.native import normalize
from canonry.core.scope import CRAWL_POLICY
from canonry.core.url import parse, read_url
from canonry.crawler.control_fetches import ControlBudget, ControlledPage
from canonry.crawler.crawl_facts import make_crawl_fact
from canonry.crawler.decide import (
    NextStep,
    StartDecision,
    count_to_lease,
    decide_next,
    decide_retry,
    decide_start,
    find_start,
    refuse_page,
)
from canonry.crawler.frontier import LEASE_DURATION
from canonry.crawler.judge import Judge
from canonry.crawler.learn_from_crawl import learn_from_crawl
from canonry.crawler.lease_owners import make_owner_id
from canonry.crawler.outage import SiteWatch
from canonry.crawler.pages import Page, select_external
from canonry.crawler.politeness import Politeness
from canonry.crawler.reasons import CrawlFailure, CrawlFailureKind
from canonry.crawler.results import LeasedPage, PageResult, PageState, PageUrl, judge_outcome
from canonry.crawler.sitemap_fetch import fetch_with_retries
from canonry.crawler.trap_rules import find_page_pattern
from canonry.crawler.traps import Phrases, digest_text
from canonry.errors import FetchFailed, StartMoved
from canonry.evidence.fingerprint import fingerprint_text
from canonry.net import robots as robots_txt
from canonry.net.dns import resolve_name
from canonry.net.engine import ConditionalEngine, OpenedPage
from canonry.net.fetch import Client, FetchOptions
from canonry.net.guard import make_guard
from canonry.net.html import is_html
from canonry.net.http_engine import MAX_PAGE_BYTES, HttpEngine
from canonry.net.http_exchange import add_archive
from canonry.net.response import NO_VALIDATORS
from canonry.net.robots import RobotsVerdict, get_robots_token
from canonry.net.site_access import add_access
from canonry.net.sitemap import MAX_FILE_BYTES as MAX_SITEMAP_BYTES
from canonry.net.sitemap import iter_sitemap_pages
from canonry.settings import load_settings
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from datetime import datetime

    from canonry.crawler.crawl_store import Crawl, CrawlStore
    from canonry.crawler.recrawl import History, StoredReading
    from canonry.crawler.results import FrontierBatch, Outage, RecordedPage
    from canonry.evidence.facts import PageFact
    from canonry.evidence.fingerprint import Fingerprint
    from canonry.net.engine import Engine
    from canonry.net.http_exchange import Archive
    from canonry.net.response import Fetch, Validators
    from canonry.net.site_access import SiteAccess
    from canonry.net.sitemap import NamedUrl
    from canonry.settings import Settings

_ACCEPT = "text/html, application/xhtml+xml, */*;q=0.8"
_MAX_WAIT_SECONDS = 5.0  # how long to wait before looking at the frontier in any case
_RENEW_SECONDS = LEASE_DURATION.total_seconds() / 4
_MIN_THREAD_CHARACTERS = 100_000  # longer texts are read in a thread
_SITEMAP_BATCH_URLS = 500  # queued in one transaction
_NOT_MODIFIED = 304


class CrawlRun:
    """The work of one process in a crawl; an async context manager.

    No more pages are leased after `seconds`. `slots` is how many processes share the crawl. With `history`, pages are
    requested only if they have changed since an earlier crawl. `archive` keeps all requests and answers.
    """

    def __init__(
        self,
        crawls: CrawlStore,
        crawl: Crawl,
        *,
        engine: Engine | None = None,
        fetch: Fetch | None = None,
        client: Client | None = None,
        clock: Callable[[], datetime],
        seed: str = "",
        access: SiteAccess | None = None,
        seconds: float | None = None,
        slots: int = 1,
        history: History | None = None,
        archive: Archive | None = None,
    ) -> None:
        self._archive = archive
        self._history = history
        self.crawls = crawls
        self.crawl = crawl
        self.options = crawl.options
        self.clock = clock
        self.is_over = False
        self._slots = slots
        self._owner = make_owner_id()
        self._stack = AsyncExitStack()
        self._engine = engine
        self._fetch = fetch
        self._client = client
        self._seed = seed
        self._access = access
        self._sends_credentials = access is not None or (bool(seed) and parse(read_url(seed)).userinfo is not None)
        self._policy = self.options.load_policy() if self.options.policy != CRAWL_POLICY else CRAWL_POLICY
        self._judge = self._make_judge(crawl.host)
        self._queue: asyncio.Queue[LeasedPage] = asyncio.Queue()
        self._results: list[PageResult] = []
        self._learn_policy = self.options.load_policy() if self.options.learn else None
        self._learning: asyncio.Task[None] | None = None
        self._reading_sitemaps: asyncio.Task[None] | None = None
        self._phrases = Phrases()
        self._controls = ControlBudget(is_enabled=self.options.control)
        self._busy = 0
        self._has_news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._deadline = None if seconds is None else self._loop.time() + seconds
        self._renew_at = self._loop.time() + _RENEW_SECONDS

    async def __aenter__(self) -> CrawlRun:
        settings = load_settings()
        if self.options.learn:
            import_module("canonry.learner.duckdb_engine")  # fails at once if the extra is not installed
        fetch = self._fetch
        if fetch is None:
            client = self._client
            if client is None:
                client = await self._stack.enter_async_context(Client(settings=settings))
            options = FetchOptions(truncates_body=True, archive=self._archive)
            fetch = partial(client.fetch, max_bytes=robots_txt.MAX_BYTES, options=options)
            options = FetchOptions(archive=self._archive)
            self._sitemap_fetch: Fetch = partial(client.fetch, max_bytes=MAX_SITEMAP_BYTES, options=options)
            options = FetchOptions(
                self._follows_redirect,
                is_html if self._archive is None else lambda _: True,
                truncates_body=True,
                accept=_ACCEPT,
                archive=self._archive,
            )
            page_fetch: Fetch = partial(client.fetch, max_bytes=MAX_PAGE_BYTES, options=options)
        else:
            fetch = fetch if self._archive is None else add_archive(fetch, self._archive)
            self._sitemap_fetch = page_fetch = fetch
        if self._access is not None:
            fetch = add_access(fetch, self._access)
            page_fetch = add_access(page_fetch, self._access)
            self._sitemap_fetch = add_access(self._sitemap_fetch, self._access)
        self._politeness = Politeness(
            fetch if self.options.robots else None,
            token=get_robots_token(settings.user_agent),
            delay=self.options.delay,
            slots=self._slots,
            seed=self._seed,
        )
        if self._engine is None:
            is_http = self.options.engine == "http"
            self._engine = (
                HttpEngine(page_fetch, may_open=self._may_open) if is_http else await self._start_chrome(settings)
            )
        self._watch = SiteWatch(
            self.crawls,
            self.crawl.id,
            options=self.options,
            open_page=self._request,
            clock=self.clock,
            outage=self.crawl.outage,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _make_judge(self, host: str) -> Judge:
        # Without a browser all routes of a page would have the same links.
        routes = self.options.routes and self.options.engine != "http"
        return Judge(
            host,
            self.options.depth,
            policy=self._policy,
            patterns=self.options.patterns,
            routes=routes,
            nofollow=self.options.nofollow,
        )

    async def _start_chrome(self, settings: Settings) -> Engine:
        from canonry.net.chrome.chrome_engine import ChromeEngine

        client = self._client
        guard, lookup = (make_guard(settings), resolve_name) if client is None else (client.guard, client.lookup)
        options = replace(self.options.read_options, access=self._access, archive=self._archive)
        chrome = ChromeEngine(settings, guard, lookup, tabs=self.options.slots, options=options)
        return await self._stack.enter_async_context(chrome)

    async def crawl_pages(self) -> AsyncGenerator[Page]:
        """Yield the pages that this process records, until the frontier is empty or the time is up."""
        workers = [asyncio.create_task(self._open_pages()) for _ in range(self.options.slots)]
        try:
            while True:
                self._has_news.clear()
                if self._reading_sitemaps is not None and self._reading_sitemaps.done():
                    self._reading_sitemaps.result()
                    self._reading_sitemaps = None
                if self._learning is not None and self._learning.done():
                    self._learning.result()
                    self._learning = None
                results, self._results = self._results, []
                self._busy -= len(results)
                start = find_start(results)
                if start is not None:
                    await self._check_start(start)
                is_late = self._deadline is not None and self._loop.time() > self._deadline
                # Learning takes a second or two, and may save many of the requests that would be sent meanwhile.
                is_waiting = self._learning is not None or self._reading_sitemaps is not None
                is_paused = is_late or start is not None or self._watch.is_paused or is_waiting
                want = count_to_lease(self.options, busy=self._busy, is_paused=is_paused)
                batch = await self._record_and_lease(results, want=want)
                for recorded in batch.recorded:
                    yield _make_page(recorded)
                self.is_over = batch.is_over
                step = decide_next(
                    is_start=start is not None,
                    is_over=batch.is_over,
                    is_late=is_late,
                    has_results=bool(self._results),
                    busy=self._busy + (self._reading_sitemaps is not None),
                )
                if step is NextStep.STOP:
                    return
                if step is NextStep.AFTER_START and start is not None:
                    await self._use_start(start)
                elif step is NextStep.WAIT:
                    await self._wait(workers, batch.wait)
        finally:
            for worker in workers:
                worker.cancel()
            reading = [] if self._reading_sitemaps is None else [self._reading_sitemaps]
            for task in reading:
                task.cancel()
            # A thread cannot be cancelled, and it uses the database, which is closed after this.
            learning = [] if self._learning is None else [self._learning]
            await asyncio.gather(*workers, *reading, *learning, return_exceptions=True)
            await self._politeness.close()
            await self.crawls.release(self.crawl.id, [self._owner])

    async def _record_and_lease(self, results: list[PageResult], *, want: int) -> FrontierBatch:
        """Record results, lease pages and queue them for the workers."""
        renews = self._loop.time() > self._renew_at
        if renews:
            self._renew_at = self._loop.time() + _RENEW_SECONDS
        version = self._watch.version
        batch = await self.crawls.record_and_lease(
            self.crawl.id,
            self._owner,
            results,
            self.options,
            want=want,
            now=self.clock(),
            renews=renews,
            learn_policy=self._learn_policy,
        )
        if batch.taken_to_learn is not None and self._learn_policy is not None and self._learning is None:
            learning = asyncio.to_thread(
                learn_from_crawl, self.crawls.database, self.crawl.id, self._learn_policy, taken=batch.taken_to_learn
            )
            self._learning = asyncio.create_task(learning)
            self._learning.add_done_callback(lambda _: self._has_news.set())
        self._watch.adopt(batch.outage, version=version)
        if batch.host not in {"", self._judge.host}:  # another process followed the start page to this host
            self._judge = self._make_judge(batch.host)
        if batch.sitemaps_of is not None:
            self._reading_sitemaps = asyncio.create_task(self._read_sitemaps(batch.sitemaps_of))
            self._reading_sitemaps.add_done_callback(lambda _: self._has_news.set())
        for recorded in batch.recorded:
            result = recorded.result
            self._judge.remember_pages(result.found, depth=result.page.depth + 1)
            if result.redirects_to and result.is_target_read:  # further redirects there are not followed
                target = PageUrl(result.redirects_to, result.final_url, result.origin)
                self._judge.remember_pages([target], depth=result.page.depth)
        self._busy += len(batch.leased)
        for page in batch.leased:
            self._queue.put_nowait(page)
        return batch

    async def _wait(self, workers: list[asyncio.Task[None]], seconds: float) -> None:
        """Wait until a page was opened or, if none is open, until other processes may have found pages."""
        for worker in workers:
            if worker.done():
                worker.result()
        with suppress(TimeoutError):
            async with asyncio.timeout(_MAX_WAIT_SECONDS if self._busy else min(max(seconds, 0.01), _MAX_WAIT_SECONDS)):
                await self._has_news.wait()

    async def _open_pages(self) -> None:
        """Open queued pages one after the other, until cancelled."""
        try:
            while True:
                page = await self._queue.get()
                result = await self._open(page)
                self._results.append(result)  # not in one line with the await, during which the list is replaced
                self._has_news.set()
        finally:
            self._has_news.set()

    async def _open(self, page: LeasedPage) -> PageResult:
        """Open a page when robots.txt and the delay allow it, and decide on its result."""
        target = PageUrl(page.url, page.requested_url, page.origin)
        if (outage := await self._watch.wait_for_site(target)) is not None:
            return _wait_for_site(page, OpenedPage(page.requested_url), outage)
        sent_at = self._loop.time()
        rules = await self._politeness.get_rules(page.requested_url, page.origin)
        if rules.judge(page.requested_url) is RobotsVerdict.DISALLOWED:
            return refuse_page(page, engine=self.options.engine)
        before = None
        if rules.failure is not None:  # asking for robots.txt once more would not help
            opened = OpenedPage(page.requested_url, failure=rules.failure)
        else:
            before = None if self._history is None else await self._history.find(page.url)
            opened, before = await self._request_if_changed(target, before)
        if (outage := await self._watch.find_outage(target, opened, sent_at=sent_at)) is not None:
            return _wait_for_site(page, opened, outage)
        retry = decide_retry(opened, attempts=page.attempts, options=self.options, jitter=random.random())  # noqa: S311
        if retry is None:
            result = self._judge.judge_page(
                page, opened, engine=self.options.engine, is_disallowed=self._politeness.is_disallowed
            )
            if before is not None:
                return before.restore_links(result, self._judge)
            return await self._add_control(await self._add_text(result, opened), page)
        if retry.pauses_site:
            self._politeness.pause(retry.seconds)
        retry_at = self.clock() + timedelta(seconds=retry.seconds)
        return PageResult(
            page,
            PageState.QUEUED,
            page.url,
            opened.status,
            failure=opened.failure,
            retry_at=retry_at,
            is_last_retry=retry.is_last,
        )

    async def _add_text(self, result: PageResult, opened: OpenedPage) -> PageResult:
        """Return a result with what the text of the page tells."""
        text = opened.text
        if not text or result.state is not PageState.DONE:
            return result
        fingerprint = await _fingerprint(text)
        fact = self._make_fact(result.page.requested_url, opened, fingerprint)
        pattern = find_page_pattern(result.url) if self.options.trap_pages is not None else None
        digest = None
        if pattern is not None:
            digest = digest_text(text, title=result.title, url=result.url, pattern=pattern, phrases=self._phrases)
        return replace(result, fingerprint=fingerprint, digest=digest, fact=fact)

    async def _add_control(self, result: PageResult, page: LeasedPage) -> PageResult:
        """Return a result with what a control fetch for its page shows, if one is due."""
        fetch = self._controls.choose(result)
        if fetch is None or self._politeness.is_disallowed(fetch.url):
            return result
        opened = await self._request(PageUrl(fetch.url, fetch.url, page.origin))
        if not opened.text:
            return result
        fact = self._make_fact(fetch.url, opened, await _fingerprint(opened.text))
        control = None if fact is None else ControlledPage(fetch.kind, page.requested_url, fact)
        return replace(result, control=control)

    def _make_fact(self, url: str, opened: OpenedPage, fingerprint: Fingerprint) -> PageFact | None:
        """Return the fact about a URL; none if others do not see the same, because credentials were sent."""
        if self._sends_credentials:
            return None
        return make_crawl_fact(url, opened, fingerprint, stamp(self.clock()))

    async def _request_if_changed(
        self, page: PageUrl, before: StoredReading | None
    ) -> tuple[OpenedPage, StoredReading | None]:
        """Open a URL; if it is as the earlier crawl stored it, return that, and what was stored."""
        if before is None:
            return await self._request(page), None
        opened = await self._request(page, before.validators)
        if opened.status != _NOT_MODIFIED:
            return opened, None
        if before.is_meant_by(opened):
            return before.restore(opened), before
        return await self._request(page), None

    async def _request(self, page: PageUrl, validators: Validators = NO_VALIDATORS) -> OpenedPage:
        """Open a URL at its turn; if robots.txt cannot be read now, that is the failure."""
        rules = await self._politeness.get_rules(page.requested_url, page.origin)
        if rules.failure is not None:
            return OpenedPage(page.requested_url, failure=rules.failure)
        await self._politeness.wait_for_turn(rules)
        assert self._engine is not None
        url = self._politeness.add_credentials(page.requested_url)
        if validators and isinstance(self._engine, ConditionalEngine):
            opened = await self._engine.open_if_changed(url, origin=page.origin, validators=validators)
        else:
            opened = await self._engine.open(url, origin=page.origin)
        return self._judge.ignore_foreign_answer(opened)

    async def _check_start(self, start: PageResult) -> None:
        """Move to the host that the start page redirects to, or fail, before the start page is recorded."""
        decision = decide_start(start, host=self._judge.host, follow_start=self.options.follow_start)
        if decision is StartDecision.FAIL:
            failure = CrawlFailure(CrawlFailureKind.START_MOVED, target=start.final_url)
            await self.crawls.fail(self.crawl.id, failure, self.clock())
            raise StartMoved(self.crawl.seed, start.final_url)
        if decision is StartDecision.FOLLOW:
            host = parse(start.final_url).host
            self._judge = self._make_judge(host)
            # The host first: another process may lease the new start page at once.
            await self.crawls.set_start(self.crawl.id, host, start.origin.server)
            target = PageUrl(normalize(start.final_url.partition("#")[0], self._policy), start.final_url, start.origin)
            await self.crawls.add(self.crawl.id, [target], depth=0, referrer=start.url)

    async def _use_start(self, start: PageResult) -> None:
        """Store the host and address of the start page."""
        await self.crawls.set_start(self.crawl.id, self._judge.host, start.origin.server)

    async def _read_sitemaps(self, start: PageUrl) -> None:
        """Queue the pages that the site's sitemaps name; the origin of the start page is that of the URLs on it."""
        fetch: Fetch = partial(self._watch.fetch_patiently, fetch=self._sitemap_fetch)
        fetch = partial(fetch_with_retries, fetch=fetch, options=self.options, clock=self.clock)
        pages: list[PageUrl] = []
        failures: list[FetchFailed] = []
        sitemaps: list[NamedUrl] = []
        try:
            sitemaps += await self._politeness.find_sitemaps(start.requested_url, start.origin, fetch=fetch)
        except FetchFailed as error:
            failures.append(error)
        async for found in iter_sitemap_pages(sitemaps, fetch):
            if isinstance(found, FetchFailed):
                failures.append(found)
                continue
            if (page := self._judge.judge_sitemap_url(found.url, found.origin)) is not None:
                pages.append(page)
            if len(pages) >= _SITEMAP_BATCH_URLS:
                await self._add_listed_pages(pages, sitemap=sitemaps[0].url)
                pages = []
        if pages:
            await self._add_listed_pages(pages, sitemap=sitemaps[0].url)
        await self.crawls.finish_sitemaps(self.crawl.id, self._owner, failures)

    async def _add_listed_pages(self, pages: list[PageUrl], *, sitemap: str) -> None:
        """Queue pages that sitemaps list; `sitemap` is the first of these."""
        await self.crawls.add(self.crawl.id, pages, depth=1, referrer=sitemap)
        self._judge.remember_pages(pages, depth=1)

    def _may_open(self, url: str) -> bool:
        """Return whether the target of a refresh is opened: not if robots.txt disallows it or it is off the site."""
        return self._judge.may_open(url) and not self._politeness.is_disallowed(url)

    def _follows_redirect(self, url: str, target: str) -> bool:
        """Return whether to follow a redirect: not if robots.txt disallows the target, or the `Judge` refuses it."""
        return not self._politeness.is_disallowed(target) and self._judge.follows_redirect(url, target)


async def _fingerprint(text: str) -> Fingerprint:
    is_long = len(text) > _MIN_THREAD_CHARACTERS
    return await asyncio.to_thread(fingerprint_text, text) if is_long else fingerprint_text(text)


def _wait_for_site(page: LeasedPage, opened: OpenedPage, outage: Outage) -> PageResult:
    """Return the result of a page that was not read because the site is down: it is opened after the pause."""
    return PageResult(
        page,
        PageState.QUEUED,
        page.url,
        opened.status,
        failure=opened.failure,
        retry_at=outage.paused_until,
        is_free_retry=True,
    )


def _make_page(recorded: RecordedPage) -> Page:
    result = recorded.result
    page = Page(
        recorded.url,
        result.page.requested_url,
        result.final_url,
        result.status,
        result.title,
        recorded.depth,
        result.engine,
        result.links,
        select_external(result.links),
        "" if result.failure is None else str(result.failure),
        None if result.failure is None else result.failure.kind,
        judge_outcome(result.state, result.status, failure=None if result.failure is None else result.failure.kind),
        referrer=recorded.referrer,
        fetched_at=recorded.fetched_at,
        change=recorded.change,
        text_hash=result.text_hash,
        simhash=result.simhash,
        words=result.fingerprint.words,
        repeats_url=result.repeats_url,
    )
    return page.add_facts(result.facts)
