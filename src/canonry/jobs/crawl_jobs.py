"""Crawl jobs: several workers open the pages of one site, one page each at a time (contract S2).

A site is one host, so a crawl has as many slots as pages may be open there at the same time. A job works in one slot
for a limited time and then enqueues the next job of its slot, until the frontier is empty. The frontier knows which
pages were opened: a job that runs again after a crash continues with the pages that are left.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

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
    from canonry.net.chrome.chrome_engine import ChromeEngine
    from canonry.net.fetch import Client
    from canonry.settings import Settings

# Names are stored with every queued job.
CRAWL_JOB = "crawl"
ENQUEUE_CRAWLS_JOB = "crawls"
_JOB_SECONDS = 20.0  # how long one job crawls
_CHROME_TABS = 8  # of one worker, for all crawls together
_ENQUEUE_CRAWLS_SECONDS = 60.0
# Shown over HTTP, so it names no file of this machine; the log has the error itself.
_NO_CHROME = "Chrome cannot be used. The log of the worker says why. Check the setting chrome (CANONRY_CHROME)."


class _JobKey(NamedTuple):
    """Identifies a job of a crawl. Queued jobs store it as a JSON list, so the order of the fields must not change."""

    crawl_id: int
    host: str
    slot: int
    number: int  # rises with each job of a slot

    @property
    def job_id(self) -> str:
        return f"{_make_slot_id(self.crawl_id, self.slot)}-{self.number}"


def _make_slot_id(crawl_id: int, slot: int) -> str:
    return f"{CRAWL_JOB}-{crawl_id}-{slot}"


async def enqueue_crawl(jobs: Jobs, crawl: Crawl) -> None:
    """Let workers open the pages of a crawl, in every slot that has no unfinished job."""
    number = int(datetime.now(UTC).timestamp() * 1000)  # above all numbers that the crawl had before it was resumed
    unfinished = {job_id.rpartition("-")[0] for job_id in await jobs.list_unfinished(CRAWL_JOB)}
    for slot in range(crawl.options.slots):
        if _make_slot_id(crawl.id, slot) not in unfinished:
            await _enqueue(jobs, _JobKey(crawl.id, crawl.host, slot, number))


def make_crawl_kinds(jobs: Jobs, settings: Settings, client: Client, *, seconds: float = _JOB_SECONDS) -> list[JobKind]:
    """Return the job that crawls in one slot for `seconds`, and the job that enqueues lost crawl jobs."""
    crawls = CrawlStore(jobs.database)
    chrome = _SharedChrome(settings, client)

    async def run(text: str) -> None:
        key = _JobKey(*json.loads(text))
        try:
            is_over = await work(await crawls.get(key.crawl_id))
        except CrawlNotFound:
            return  # the crawl was removed
        except StoreError:
            raise
        except CanonryError:  # Chrome cannot be started, so that no page can be opened
            failure = CrawlFailure(CrawlFailureKind.ENGINE, _NO_CHROME)
            await crawls.fail(key.crawl_id, failure, datetime.now(UTC))
            raise
        if not is_over:
            await _enqueue(jobs, key._replace(number=key.number + 1))

    async def work(crawl: Crawl) -> bool:
        if crawl.state is not CrawlState.RUNNING:
            return True
        async with AsyncExitStack() as stack:
            engine = None
            if crawl.options.engine == "chrome":
                shared = await stack.enter_async_context(chrome.borrow())
                engine = shared.configure(crawl.options.read_options)
            return await work_on_crawl(
                crawls,
                crawl,
                slots=crawl.options.slots,
                seconds=seconds,
                engine=engine,
                client=client,
                clock=lambda: datetime.now(UTC),
            )

    async def enqueue_running(_: str) -> None:
        for crawl in await crawls.list_crawls(limit=1000, state=CrawlState.RUNNING):
            if crawl.options.shared:
                await enqueue_crawl(jobs, crawl)

    return [
        JobKind(CRAWL_JOB, run, is_per_host=True, is_interruptible=True),
        JobKind(ENQUEUE_CRAWLS_JOB, enqueue_running),
    ]


def make_crawl_schedules() -> list[Schedule]:
    """Return the schedule that enqueues missing crawl jobs: DBOS gives up a job whose workers died several times."""
    return [Schedule(ENQUEUE_CRAWLS_JOB, _ENQUEUE_CRAWLS_SECONDS)]


class _SharedChrome:
    """One Chrome for all crawls of a worker, open while a job uses it."""

    def __init__(self, settings: Settings, client: Client) -> None:
        self._settings = settings
        self._client = client
        self._engine: ChromeEngine | None = None
        self._users = 0

    @asynccontextmanager
    async def borrow(self) -> AsyncGenerator[ChromeEngine]:
        """Start Chrome for the first user, and close it after the last."""
        from canonry.net.chrome.chrome_engine import ChromeEngine

        if self._engine is None:
            self._engine = ChromeEngine(self._settings, self._client.guard, self._client.lookup, tabs=_CHROME_TABS)
        engine = self._engine
        self._users += 1
        try:
            yield engine
        finally:
            self._users -= 1
            if not self._users:
                self._engine = None
                await engine.close()


async def _enqueue(jobs: Jobs, key: _JobKey) -> None:
    # The id makes enqueuing idempotent: a job that runs again enqueues the same next job.
    await jobs.enqueue(CRAWL_JOB, json.dumps(key), host=f"{key.host} {key.slot}", job_id=key.job_id)
