"""Crawls as jobs: several workers open the pages of one site, each a page at a time (contract S2).

A site is one host, so a crawl has as many lanes as pages may be open there at once. A job opens pages in its lane for
a while and then queues the lane's next turn, until the frontier is empty. Which pages it opened is in the frontier:
a job that is run again after a crash goes on with those that are left.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from canonry.crawler.crawl import work_on_crawl
from canonry.crawler.crawl_store import CrawlState, CrawlStore
from canonry.crawler.reasons import CrawlFailure, CrawlFailureKind
from canonry.errors import CanonryError, CrawlNotFound, StoreError
from canonry.jobs.queues import JobKind
from canonry.jobs.schedules import Schedule

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from canonry.crawler.crawl_store import Crawl
    from canonry.jobs.queues import Jobs
    from canonry.net.chrome.engine import ChromeEngine
    from canonry.net.fetch import Client
    from canonry.settings import Settings

CRAWL, CRAWLS = "crawl", "crawls"
_SECONDS = 20.0  # of a turn
_TABS = 8  # of a worker's Chrome, whatever it crawls


async def enqueue_crawl(jobs: Jobs, crawl: Crawl) -> None:
    """Have the pages of a crawl opened by workers; a lane that is queued or runs already stays as it is."""
    begin = int(datetime.now(UTC).timestamp() * 1000)  # a crawl that is resumed has new turns
    waiting = {job.rpartition("-")[0] for job in await jobs.list_unfinished(CRAWL)}
    for lane in range(crawl.options.slots):
        if f"{CRAWL}-{crawl.id}-{lane}" not in waiting:
            await _enqueue(jobs, crawl.id, crawl.host, lane, begin)


def crawl_kinds(jobs: Jobs, settings: Settings, client: Client, *, seconds: float = _SECONDS) -> list[JobKind]:
    """A turn of one lane, whose key has crawl, host, lane and the number of the turn; and a look after all of them."""
    crawls = CrawlStore(jobs.database)
    chrome = _Chrome(settings, client)

    async def run(key: str) -> None:
        crawl_id, host, lane, number = json.loads(key)
        try:
            begun = await crawls.get(crawl_id)
            is_over = await crawled(begun)
        except CrawlNotFound:
            return  # removed since
        except StoreError:
            raise
        except CanonryError as error:  # no Chrome: that would be so for every page
            failure = CrawlFailure(CrawlFailureKind.ENGINE, str(error))
            await crawls.fail(crawl_id, failure, datetime.now(UTC))
            raise
        if not is_over:
            await _enqueue(jobs, crawl_id, host, lane, number + 1)

    async def crawled(begun: Crawl) -> bool:
        if begun.state is not CrawlState.RUNNING:
            return True
        async with AsyncExitStack() as stack:
            engine = await stack.enter_async_context(chrome.lent()) if begun.options.engine == "chrome" else None
            return await work_on_crawl(
                crawls,
                begun,
                slots=begun.options.slots,
                seconds=seconds,
                engine=engine,
                client=client,
                clock=lambda: datetime.now(UTC),
            )

    async def look_after(_: str) -> None:
        for crawl in await crawls.list_crawls(limit=1000, state=CrawlState.RUNNING):
            if crawl.options.shared:
                await enqueue_crawl(jobs, crawl)

    return [JobKind(CRAWL, run, is_per_host=True, is_interruptible=True), JobKind(CRAWLS, look_after)]


def crawl_schedules() -> list[Schedule]:
    """Crawls whose jobs were given up, because they took one worker after the other down, go on within a minute."""
    return [Schedule(CRAWLS, 60.0)]


class _Chrome:
    """One Chrome for all that a worker crawls, there while somebody needs it."""

    def __init__(self, settings: Settings, client: Client) -> None:
        self._settings = settings
        self._client = client
        self._engine: ChromeEngine | None = None
        self._users = 0

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[ChromeEngine]:
        from canonry.net.chrome.engine import ChromeEngine

        if self._engine is None:
            self._engine = ChromeEngine(self._settings, self._client.guard, self._client.lookup, tabs=_TABS)
        engine = self._engine
        self._users += 1
        try:
            yield engine
        finally:
            self._users -= 1
            if not self._users:
                self._engine = None
                await engine.close()


async def _enqueue(jobs: Jobs, crawl_id: int, host: str, lane: int, number: int) -> None:
    key = json.dumps([crawl_id, host, lane, number])
    # The same turn is queued once, also by a job that runs again.
    await jobs.enqueue(CRAWL, key, host=f"{host} {lane}", job_id=f"{CRAWL}-{crawl_id}-{lane}-{number}")
