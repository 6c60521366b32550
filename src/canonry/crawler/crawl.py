"""Crawl: one site, each page once, with the links a person could click (contract C).

The story of a page is `_Run._open`, that of a crawl `_Run.pages`: take some pages, open a few at a time, keep what
they say and where they lead in one transaction, until the frontier is empty.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from canonry.core.native import normalize
from canonry.core.scope import CRAWL_POLICY
from canonry.core.url import parse, read_url
from canonry.crawler.crawl_options import UNSET, CrawlOptions, Unset
from canonry.crawler.crawl_store import Crawl, CrawlState, CrawlStore
from canonry.crawler.frontier import LEASE, LeasedPage, PageResult, PageState, PageUrl
from canonry.crawler.judge import Judge
from canonry.crawler.lease_owners import find_dead_owners, make_owner_id
from canonry.crawler.pages import Page, PageLink, StartMoved, externals_of, make_page, moved
from canonry.crawler.politeness import REFUSED, Politeness
from canonry.errors import FetchFailed
from canonry.net import robots as robots_txt
from canonry.net.dns import resolve_name
from canonry.net.fetch import Client, Reading
from canonry.net.guard import make_guard
from canonry.net.html import is_html
from canonry.net.http_engine import MAX_PAGE, HttpEngine
from canonry.net.robots import get_robots_token
from canonry.net.sitemap import MAX_BYTES as MAX_SITEMAP
from canonry.net.sitemap import iter_sitemap_pages
from canonry.settings import load_settings
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from canonry.crawler.crawl_options import OptionChanges
    from canonry.crawler.frontier import FrontierBatch, RecordedPage
    from canonry.net.engine import Engine
    from canonry.net.response import Fetch
    from canonry.settings import Settings

EngineName = Literal["chrome", "http"]
_ACCEPT = "text/html, application/xhtml+xml, */*;q=0.8"
_LONGEST_WAIT = 120.0  # seconds a server can ask us to wait
_LOOK = 5.0  # seconds after which we look at the frontier in any case
_SITEMAP_BATCH = 500


async def crawl(
    seed: str,
    *,
    engine: EngineName | Engine | None = None,
    store: str | Database = "",
    resume: bool = False,
    fetch: Fetch | None = None,
    client: Client | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    on_start: Callable[[Crawl], object] = lambda _: None,
    max_pages: int | Unset | None = UNSET,
    depth: int | Unset | None = UNSET,
    concurrency: int | Unset = UNSET,
    per_host: int | Unset = UNSET,
    delay: float | Unset = UNSET,
    robots: bool | Unset = UNSET,
    sitemaps: bool | Unset = UNSET,
    follow_start: bool | Unset = UNSET,
    retries: int | Unset = UNSET,
    backoff: float | Unset = UNSET,
) -> AsyncGenerator[Page]:
    """The pages of the site that `seed` is on, each once, as they are read.

    `engine` is `chrome` (the default), `http`, or one of your own. Options: `max_pages`, `depth`, `concurrency`,
    `per_host`, `delay`, `robots`, `sitemaps`, `follow_start`, `retries`, `backoff`. `store` is a database URL (default:
    the one of the settings) or an open `Database`. With `resume` the last crawl of this seed goes on, and the pages it
    has come first. StartMoved where the seed redirects to another host, unless `follow_start`. `fetch` is asked instead
    of a client of our own, or `client`.
    """
    async with AsyncExitStack() as stack:
        database = store if isinstance(store, Database) else Database(store or load_settings().database_url)
        if database is not store:
            stack.callback(database.close)
        crawls = CrawlStore(database)
        given: dict[str, object] = {
            "engine": UNSET if engine is None else engine if isinstance(engine, str) else engine.name,
            "max_pages": max_pages,
            "depth": depth,
            "concurrency": concurrency,
            "per_host": per_host,
            "delay": delay,
            "robots": robots,
            "sitemaps": sitemaps,
            "follow_start": follow_start,
            "retries": retries,
            "backoff": backoff,
            "shared": False,
        }
        changes = cast("OptionChanges", {name: value for name, value in given.items() if value is not UNSET})
        begun = await start_or_resume(crawls, seed, changes, clock(), resume=resume)
        on_start(begun)
        if resume:
            async for page in read_pages(crawls, begun.id):
                yield page
        opens = None if engine is None or isinstance(engine, str) else engine
        run = await stack.enter_async_context(
            _Run(crawls, begun, engine=opens, fetch=fetch, client=client, clock=clock, seed=seed)
        )
        pages = run.pages()
        stack.push_async_callback(pages.aclose)
        async for page in pages:
            yield page


async def start_or_resume(
    crawls: CrawlStore, seed: str, changes: OptionChanges, now: datetime, *, resume: bool = False
) -> Crawl:
    """Start a crawl, or with `resume` reopen the latest one of this seed if there is one."""
    if resume and (latest := await crawls.latest(_start_url(seed).url)) is not None:
        return await reopen_crawl(crawls, latest, replace(latest.options, **changes))
    return await start_crawl(crawls, seed, replace(CrawlOptions(), **changes), now)


async def start_crawl(crawls: CrawlStore, seed: str, options: CrawlOptions, now: datetime) -> Crawl:
    """Store a new crawl whose first page is queued."""
    start = _start_url(seed)
    return await crawls.start(start, parse(start.requested_url).host, options, now)


def _start_url(seed: str) -> PageUrl:
    """Return the URL of the start page without credentials, which are never stored, and fragment."""
    start = parse(read_url(seed))
    start.userinfo = start.fragment = None
    return PageUrl(normalize(str(start), CRAWL_POLICY), str(start))


async def reopen_crawl(crawls: CrawlStore, before: Crawl, options: CrawlOptions) -> Crawl:
    """Let a crawl continue under these options; the returned `state` is the one before."""
    await crawls.release(before.id, find_dead_owners(await crawls.owners(before.id)))
    await crawls.reopen(before.id, options)
    return replace(await crawls.get(before.id), state=before.state)


async def read_pages(crawls: CrawlStore, crawl_id: int) -> AsyncGenerator[Page]:
    """The pages a crawl has, in the order they were found in."""
    after = 0
    while found := await crawls.pages(crawl_id, after=after):
        for stored in found:
            yield make_page(stored)
        after = found[-1].id


async def work_on_crawl(
    crawls: CrawlStore,
    begun: Crawl,
    *,
    lanes: int,
    seconds: float,
    engine: Engine | None = None,
    client: Client | None = None,
    clock: Callable[[], datetime],
) -> bool:
    """Take part in a crawl for a while, one page at a time, as one of so many; is it over?"""
    if begun.state is not CrawlState.RUNNING:
        return True
    await crawls.release(begun.id, find_dead_owners(await crawls.owners(begun.id)))
    shared = replace(begun, options=replace(begun.options, delay=begun.options.delay * lanes, per_host=1))
    try:
        async with _Run(crawls, shared, engine=engine, client=client, clock=clock, seconds=seconds, lanes=lanes) as run:
            async for _ in run.pages():
                pass
            return run.is_over
    except StartMoved:
        return True


class _Run:
    """One process's part in a crawl; an async context manager."""

    def __init__(
        self,
        crawls: CrawlStore,
        begun: Crawl,
        *,
        engine: Engine | None = None,
        fetch: Fetch | None = None,
        client: Client | None = None,
        clock: Callable[[], datetime],
        seed: str = "",
        seconds: float | None = None,
        lanes: int = 1,
    ) -> None:
        self.crawls = crawls
        self.begun = begun
        self.options = begun.options
        self.clock = clock
        self.is_over = False
        self._lanes = lanes
        self._owner = make_owner_id()
        self._stack = AsyncExitStack()
        self._engine = engine
        self._fetch = fetch
        self._client = client
        self._seed = seed
        self._judge = Judge(begun.host, self.options.depth)
        self._address: str | None = begun.address or None
        self._queue: asyncio.Queue[LeasedPage] = asyncio.Queue()
        self._finished: list[PageResult] = []
        self._busy = 0
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._deadline = None if seconds is None else self._loop.time() + seconds
        self._renew_at = self._loop.time() + LEASE.total_seconds() / 4

    async def __aenter__(self) -> _Run:
        settings = load_settings()
        plain = self._fetch
        if plain is None:
            client = self._client
            if client is None:
                client = await self._stack.enter_async_context(Client(settings=settings))
            plain = partial(client.fetch, max_bytes=robots_txt.MAX_BYTES, reading=Reading(cuts=True))
            self._sitemap_fetch: Fetch = partial(client.fetch, max_bytes=MAX_SITEMAP)
            reading = Reading(self._follows, is_html, cuts=True, accept=_ACCEPT)
            pages: Fetch = partial(client.fetch, max_bytes=MAX_PAGE, reading=reading)
        else:
            self._sitemap_fetch = pages = plain
        self._manners = Politeness(
            plain if self.options.robots else None,
            token=get_robots_token(settings.user_agent),
            delay=self.options.delay,
            lanes=self._lanes,
            backoff=self.options.backoff,
            seed=self._seed,
            came_from=self._address,
        )
        if self._engine is None:
            self._engine = HttpEngine(pages) if self.options.engine == "http" else await self._chrome(settings)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _chrome(self, settings: Settings) -> Engine:
        from canonry.net.chrome.engine import ChromeEngine

        client = self._client
        guard, lookup = (make_guard(settings), resolve_name) if client is None else (client.guard, client.lookup)
        return await self._stack.enter_async_context(ChromeEngine(settings, guard, lookup, tabs=self.options.slots))

    async def pages(self) -> AsyncGenerator[Page]:
        """The pages this process keeps, until the frontier is empty or the time is up."""
        count = self.options.slots
        workers = [asyncio.create_task(self._work()) for _ in range(count)]
        try:
            if (
                self.options.sitemaps
                and self.begun.state is CrawlState.RUNNING
                and self.begun.taken
                and self._deadline is None
            ):
                await self._read_sitemaps(self.begun.seed)  # again: whoever read them may have been interrupted
            while True:
                self._news.clear()
                finished, self._finished = self._finished, []
                self._busy -= len(finished)
                start = next((each for each in finished if not each.page.depth and each.state != "queued"), None)
                if start is not None:
                    await self._look_at_start(start)
                is_late = self._deadline is not None and self._loop.time() > self._deadline
                room = count * (1 if self.options.delay else 2) - self._busy
                turn = await self._turn(finished, want=0 if is_late or start is not None else room)
                for recorded in turn.recorded:
                    yield _page(recorded)
                if start is not None and not turn.is_over:  # or somebody has stopped it
                    await self._after_start(start)
                    continue
                self.is_over = turn.is_over
                if turn.is_over and not self._finished:  # what is still open was stopped, or is another's by now
                    return
                if is_late and not self._busy and not self._finished:
                    return
                if not self._finished:
                    await self._wait(workers, turn.wait)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await self._manners.close()
            await self.crawls.release(self.begun.id, [self._owner])

    async def _turn(self, finished: list[PageResult], *, want: int) -> FrontierBatch:
        """Keep these, and take more."""
        renews = self._loop.time() > self._renew_at
        if renews:
            self._renew_at = self._loop.time() + LEASE.total_seconds() / 4
        turn = await self.crawls.record_and_lease(
            self.begun.id,
            self._owner,
            finished,
            want=want,
            now=self.clock(),
            max_pages=self.options.max_pages,
            renews=renews,
        )
        if turn.host not in {"", self._judge.host}:  # another process has read the start page
            self._judge = Judge(turn.host, self.options.depth)
        self._busy += len(turn.leased)
        for page in turn.leased:
            self._queue.put_nowait(page)
        return turn

    async def _wait(self, workers: list[asyncio.Task[None]], seconds: float) -> None:
        """Until a page is finished; where none is on its way, until others may have found some."""
        for worker in workers:
            if worker.done():
                worker.result()
        try:
            async with asyncio.timeout(_LOOK if self._busy else min(max(seconds, 0.01), _LOOK)):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _work(self) -> None:
        try:
            while True:
                page = await self._queue.get()
                finished = await self._open(page)
                self._finished.append(finished)  # not before: the list is another one by now
                self._news.set()
        finally:
            self._news.set()

    async def _open(self, page: LeasedPage) -> PageResult:
        """What came of a page: asked for if robots.txt allows it, at its turn, and looked at."""
        refusal = await self._manners.turn(page.requested_url)
        if refusal:
            is_skipped = page.depth and refusal == REFUSED
            state = PageState.SKIPPED if is_skipped else PageState.FAILED
            return PageResult(page, state, page.url, error=refusal, engine=self.options.engine)
        assert self._engine is not None
        url = self._manners.with_credentials(page.requested_url)
        opened = await self._engine.open(url, came_from=self._address if page.depth else None)
        if page.depth == 0 and self._address is None:
            self._address = self._manners.came_from = opened.address or None
        is_passing = opened.failure is not None and opened.failure.is_transient
        if (is_passing or opened.status == 429 or opened.status >= 500) and page.attempts < self.options.retries:
            wait = self.options.backoff * 2**page.attempts * (0.75 + random.random() / 2)  # noqa: S311
            if opened.retry_after is not None:  # the server means all its pages
                wait = max(wait, min(opened.retry_after, _LONGEST_WAIT))
                self._manners.wait(wait)
            retry_at = self.clock() + timedelta(seconds=wait)
            return PageResult(page, PageState.QUEUED, page.url, opened.status, error=opened.error, retry_at=retry_at)
        finished = self._judge.judged(page, opened, self.options.engine, self._manners.refuses)
        is_start = not page.depth and finished.state is PageState.DONE
        if is_start and parse(finished.final_url).host != self._judge.host:
            return replace(finished, state=PageState.SKIPPED, error="redirects to another host", links=())
        return finished

    async def _look_at_start(self, start: PageResult) -> None:
        """A start page on another host is the site's only if we were told so."""
        if start.state is not PageState.SKIPPED or (host := parse(start.final_url).host) == self._judge.host:
            return
        if not self.options.follow_start:
            await self.crawls.fail(self.begun.id, moved(start.final_url), self.clock())
            raise StartMoved(self.begun.seed, start.final_url)
        self._judge = Judge(host, self.options.depth)
        await self.crawls.set_start(self.begun.id, host, self._address or "")  # before another takes the new start
        found = PageUrl(normalize(start.final_url, CRAWL_POLICY), start.final_url)
        await self.crawls.add(self.begun.id, [found], depth=0, referrer=start.url)

    async def _after_start(self, start: PageResult) -> None:
        """What is known once the start page is."""
        await self.crawls.set_start(self.begun.id, self._judge.host, self._address or "")
        if self.options.sitemaps and start.state is PageState.DONE:
            await self._read_sitemaps(start.final_url)

    def _follows(self, url: str, target: str) -> bool:
        """Is a redirect worth a request? Not where it leaves the site, is refused, or another page's to ask for."""
        return not self._manners.refuses(target) and self._judge.follows(url, target)

    async def _read_sitemaps(self, start_url: str) -> None:
        """Queue what the site's own list names."""
        starts = await self._manners.sitemaps(start_url)
        waiting: list[PageUrl] = []
        async for found in iter_sitemap_pages(starts, self._sitemap_fetch, came_from=self._address):
            if isinstance(found, FetchFailed):
                continue
            if (page := self._judge.listed(found)) is not None:
                waiting.append(page)
            if len(waiting) >= _SITEMAP_BATCH:
                await self.crawls.add(self.begun.id, waiting, depth=1, referrer=starts[0])
                waiting = []
        await self.crawls.add(self.begun.id, waiting, depth=1, referrer=starts[0])


def _page(recorded: RecordedPage) -> Page:
    each = recorded.finished
    links = tuple([PageLink(*row) for row in each.links])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    return Page(
        recorded.url,
        each.page.requested_url,
        each.final_url,
        each.status,
        each.title,
        recorded.depth,
        each.engine,
        links,
        externals_of(links),
        each.error,
    )
