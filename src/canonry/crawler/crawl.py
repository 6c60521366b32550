"""Crawl: one site, each page once, with the links a person could click (contract C).

The story of a page is `_Run._open`, that of a crawl `_Run.pages`: take some pages, open a few at a time, keep what
they say and where they lead in one transaction, until the frontier is empty.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from canonry.core.native import normalize
from canonry.core.scope import CRAWL_POLICY
from canonry.core.url import parse, read_url
from canonry.crawler.crawl_store import RUNNING, Crawl, CrawlStore
from canonry.crawler.frontier import LEASE, Finished, Found, Leased, PageState
from canonry.crawler.judge import Judge
from canonry.crawler.lease_owners import dead_owners, new_owner
from canonry.crawler.pages import Page, PageLink, StartMoved, externals_of, moved, page_of
from canonry.crawler.politeness import REFUSED, Manners
from canonry.errors import FetchFailed
from canonry.net import robots as robots_txt
from canonry.net.dns import system_lookup
from canonry.net.fetch import Client, Reading
from canonry.net.guard import guard_of
from canonry.net.html import is_html
from canonry.net.http_engine import MAX_PAGE, HttpEngine
from canonry.net.robots import token_of
from canonry.net.sitemap import MAX_BYTES as MAX_SITEMAP
from canonry.net.sitemap import sitemap_pages
from canonry.settings import load_settings
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from canonry.crawler.frontier import Recorded, Turn
    from canonry.net.engine import Engine
    from canonry.net.response import Fetch
    from canonry.settings import Settings

EngineName = Literal["chrome", "http"]
_ACCEPT = "text/html, application/xhtml+xml, */*;q=0.8"
_LONGEST_WAIT = 120.0  # seconds a server can ask us to wait
_LOOK = 5.0  # seconds after which we look at the frontier in any case
_SITEMAP_BATCH = 500


@dataclass(frozen=True, slots=True)
class Options:
    """How a site is crawled; `depth` counts clicks from the start page."""

    engine: str = "chrome"
    max_pages: int | None = None
    depth: int | None = None
    concurrency: int = 16
    per_host: int = 4
    delay: float = 0.0
    robots: bool = True
    sitemaps: bool = False
    follow_start: bool = False
    retries: int = 2
    backoff: float = 1.0  # seconds before the second try; twice as long before each other
    shared: bool = False  # are its pages left to workers?


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
    **options: Any,
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
        if engine is not None:
            options["engine"] = engine if isinstance(engine, str) else engine.name
        begun = await begin(crawls, seed, {**options, "shared": False}, clock(), resume=resume)
        on_start(begun)
        if resume:
            async for page in stored_pages(crawls, begun.id):
                yield page
        opens = None if engine is None or isinstance(engine, str) else engine
        run = await stack.enter_async_context(
            _Run(crawls, begun, engine=opens, fetch=fetch, client=client, clock=clock, seed=seed)
        )
        pages = run.pages()
        stack.push_async_callback(pages.aclose)
        async for page in pages:
            yield page


async def begin(
    crawls: CrawlStore, seed: str, options: dict[str, Any], now: datetime, *, resume: bool = False
) -> Crawl:
    """A new crawl, or with `resume` the last one of this seed, under its options and those that are given."""
    start = parse(read_url(seed))
    start.userinfo = start.fragment = None
    url = normalize(str(start), CRAWL_POLICY)
    latest = await crawls.latest(url) if resume else None
    if latest is None:
        chosen = asdict(Options(**options))
        return await crawls.start(Found(url, str(start)), start.host, chosen, now)
    return await go_on(crawls, latest, options)


async def go_on(crawls: CrawlStore, before: Crawl, options: dict[str, Any]) -> Crawl:
    """A crawl of before, opened again under its options and those that are given; its state is as it was found."""
    chosen = asdict(Options(**{**before.options, **options}))
    await crawls.release(before.id, dead_owners(await crawls.owners(before.id)))
    await crawls.reopen(before.id, chosen)
    return replace(await crawls.get(before.id), state=before.state)


async def stored_pages(crawls: CrawlStore, crawl_id: int) -> AsyncGenerator[Page]:
    """The pages a crawl has, in the order they were found in."""
    after = 0
    while found := await crawls.pages(crawl_id, after=after):
        for stored in found:
            yield page_of(stored)
        after = found[-1].id


async def crawl_on(
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
    if begun.state != RUNNING:
        return True
    await crawls.release(begun.id, dead_owners(await crawls.owners(begun.id)))
    shared = replace(begun, options={**begun.options, "delay": begun.options["delay"] * lanes, "per_host": 1})
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
        self.options = Options(**begun.options)
        self.clock = clock
        self.is_over = False
        self._lanes = lanes
        self._owner = new_owner()
        self._stack = AsyncExitStack()
        self._engine = engine
        self._fetch = fetch
        self._client = client
        self._seed = seed
        self._judge = Judge(begun.host, self.options.depth)
        self._address: str | None = begun.address or None
        self._queue: asyncio.Queue[Leased] = asyncio.Queue()
        self._finished: list[Finished] = []
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
        self._manners = Manners(
            plain if self.options.robots else None,
            token=token_of(settings.user_agent),
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
        guard, lookup = (guard_of(settings), system_lookup) if client is None else (client.guard, client.lookup)
        return await self._stack.enter_async_context(ChromeEngine(settings, guard, lookup, tabs=self._count))

    @property
    def _count(self) -> int:
        """Pages at once: a site is one host."""
        return min(self.options.concurrency, self.options.per_host)

    async def pages(self) -> AsyncGenerator[Page]:
        """The pages this process keeps, until the frontier is empty or the time is up."""
        count = self._count
        workers = [asyncio.create_task(self._work()) for _ in range(count)]
        try:
            if self.options.sitemaps and self.begun.state == RUNNING and self.begun.taken and self._deadline is None:
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

    async def _turn(self, finished: list[Finished], *, want: int) -> Turn:
        """Keep these, and take more."""
        renews = self._loop.time() > self._renew_at
        if renews:
            self._renew_at = self._loop.time() + LEASE.total_seconds() / 4
        turn = await self.crawls.turn(
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

    async def _open(self, page: Leased) -> Finished:
        """What came of a page: asked for if robots.txt allows it, at its turn, and looked at."""
        refusal = await self._manners.turn(page.requested_url)
        if refusal:
            is_skipped = page.depth and refusal == REFUSED
            state = PageState.SKIPPED if is_skipped else PageState.FAILED
            return Finished(page, state, page.url, error=refusal, engine=self.options.engine)
        assert self._engine is not None
        url = self._manners.with_credentials(page.requested_url)
        opened = await self._engine.open(url, came_from=self._address if page.depth else None)
        if page.depth == 0 and self._address is None:
            self._address = self._manners.came_from = opened.address or None
        is_passing = opened.is_passing or opened.status == 429 or opened.status >= 500
        if is_passing and page.attempts < self.options.retries:
            wait = self.options.backoff * 2**page.attempts * (0.75 + random.random() / 2)  # noqa: S311
            if opened.retry_after is not None:  # the server means all its pages
                wait = max(wait, min(opened.retry_after, _LONGEST_WAIT))
                self._manners.wait(wait)
            retry_at = self.clock() + timedelta(seconds=wait)
            return Finished(page, PageState.QUEUED, page.url, opened.status, error=opened.error, retry_at=retry_at)
        finished = self._judge.judged(page, opened, self.options.engine, self._manners.refuses)
        is_start = not page.depth and finished.state is PageState.DONE
        if is_start and parse(finished.final_url).host != self._judge.host:
            return replace(finished, state=PageState.SKIPPED, error="redirects to another host", links=())
        return finished

    async def _look_at_start(self, start: Finished) -> None:
        """A start page on another host is the site's only if we were told so."""
        if start.state is not PageState.SKIPPED or (host := parse(start.final_url).host) == self._judge.host:
            return
        if not self.options.follow_start:
            await self.crawls.fail(self.begun.id, moved(start.final_url), self.clock())
            raise StartMoved(self.begun.seed, start.final_url)
        self._judge = Judge(host, self.options.depth)
        await self.crawls.set_start(self.begun.id, host, self._address or "")  # before another takes the new start
        found = Found(normalize(start.final_url, CRAWL_POLICY), start.final_url)
        await self.crawls.add(self.begun.id, [found], depth=0, referrer=start.url)

    async def _after_start(self, start: Finished) -> None:
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
        waiting: list[Found] = []
        async for found in sitemap_pages(starts, self._sitemap_fetch, came_from=self._address):
            if isinstance(found, FetchFailed):
                continue
            if (page := self._judge.listed(found)) is not None:
                waiting.append(page)
            if len(waiting) >= _SITEMAP_BATCH:
                await self.crawls.add(self.begun.id, waiting, depth=1, referrer=starts[0])
                waiting = []
        await self.crawls.add(self.begun.id, waiting, depth=1, referrer=starts[0])


def _page(recorded: Recorded) -> Page:
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
