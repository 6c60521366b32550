"""What the routes work with: the open database, the client, the jobs, and who may do what."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Self

from canonry.accounts import UserStore
from canonry.bookmarks.duplicates import DuplicateStore
from canonry.bookmarks.expand import expand
from canonry.bookmarks.save import Bookmarks
from canonry.crawler.crawl_store import CrawlStore
from canonry.crawler.crawl_views import CrawlViews
from canonry.errors import CanonryError
from canonry.feeds.feed_store import FeedStore
from canonry.net.fetch import Client
from canonry.net.guard import make_guard
from canonry.rekey.bookmark_rekey import BookmarkRekeys
from canonry.store.cache import open_cache
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.jobs.queues import Jobs
    from canonry.settings import Settings

_FLUSH = 2.0  # seconds between two writings of what was counted
_log = logging.getLogger("canonry.service")


@dataclass(frozen=True, slots=True)
class Options:
    """How the service is run."""

    host: str = "127.0.0.1"
    port: int = 8000
    require_token: bool = False
    allowed_hosts: tuple[str, ...] = ()  # names besides those of loopback
    fetch_titles: bool = False
    requests_per_minute: int = 1200  # of one token
    max_body: int = 1024 * 1024
    max_upload: int = 50 * 1024 * 1024
    runs_jobs: bool = True


class Service:
    """The parts of a running service; open between `async with` and its end."""

    database: Database
    bookmarks: Bookmarks
    bookmark_rekeys: BookmarkRekeys
    duplicates: DuplicateStore
    feeds: FeedStore
    crawls: CrawlStore
    crawl_views: CrawlViews
    users: UserStore
    client: Client
    jobs: Jobs

    def __init__(
        self,
        settings: Settings,
        options: Options,
        *,
        client: Callable[[], Client] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.options = options
        self.clock = clock
        self.monotonic = monotonic
        self.is_open = False
        self._make_client = client or partial(_guarded_client, settings, options)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        stack = self._stack
        try:
            say = partial(_log.warning, "%s")
            self.database = stack.enter_context(await asyncio.to_thread(Database, self.settings.database_url, say=say))
            self.client = await stack.enter_async_context(self._make_client())
            cache = open_cache(self.settings, self.database)
            stack.push_async_callback(cache.close)
            self.users = UserStore(self.database)
            self.duplicates = DuplicateStore(self.database)
            self.feeds = FeedStore(self.database)
            self.crawls, self.crawl_views = CrawlStore(self.database), CrawlViews(self.database)
            self.bookmarks = Bookmarks(
                self.database,
                partial(expand, client=self.client, cache=cache),
                enqueue=self._enqueue,
                fetch=self.client.fetch if self.options.fetch_titles else None,
                clock=self.clock,
            )
            self.bookmark_rekeys = BookmarkRekeys(self.bookmarks)
            await self._open_jobs(stack)
            flushing = asyncio.create_task(self._flush_on())
            stack.push_async_callback(self._end_flushing, flushing)
        except BaseException:
            await stack.aclose()
            raise
        self.is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _open_jobs(self, stack: AsyncExitStack) -> None:
        from canonry.errors import WorkerAlreadyRunning
        from canonry.feeds.polling import Polling
        from canonry.jobs.crawl_jobs import crawl_kinds, crawl_schedules
        from canonry.jobs.kinds import (
            make_bookmark_kinds,
            make_bookmark_schedules,
            make_feed_kinds,
            make_feed_schedules,
        )
        from canonry.jobs.queues import Jobs
        from canonry.jobs.worker import Worker

        self.jobs = stack.enter_context(await asyncio.to_thread(Jobs, self.database))
        if not self.options.runs_jobs:
            return
        kinds = [
            *make_feed_kinds(self.jobs, Polling(self.client.fetch, clock=self.clock)),
            *make_bookmark_kinds(self.bookmarks, self.bookmark_rekeys),
            *crawl_kinds(self.jobs, self.settings, self.client),
        ]
        worker = Worker(
            self.jobs, kinds, schedules=[*make_feed_schedules(), *make_bookmark_schedules(), *crawl_schedules()]
        )
        try:
            await stack.enter_async_context(worker)
        except WorkerAlreadyRunning as error:
            _log.info("jobs are left to another process: %s", error)
        else:
            await self.bookmarks.enqueue_unfinished()
            await self.bookmark_rekeys.enqueue_unfinished()

    async def _enqueue(self, kind: str, key: str) -> None:
        """Queue a job; where that fails, the schedule that looks for unfinished work will."""
        try:
            await self.jobs.enqueue(kind, key)
        except CanonryError as error:
            _log.warning("%s %s waits to be queued: %s", kind, key, error)

    async def _flush_on(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH)
            await self._flush()

    async def _flush(self) -> None:
        try:
            await self.bookmarks.statistics.flush()
        except CanonryError as error:
            _log.warning("statistics wait to be written: %s", error)

    async def _end_flushing(self, flushing: asyncio.Task[None]) -> None:
        flushing.cancel()
        with suppress(asyncio.CancelledError):
            await flushing
        await self._flush()


def _guarded_client(settings: Settings, options: Options) -> Client:
    """A client that never asks this very service, under whichever of its addresses."""
    try:
        found = socket.getaddrinfo(options.host or "127.0.0.1", options.port, type=socket.SOCK_STREAM)
    except OSError:
        found = []
    own = {(str(address[0]), options.port) for *_, address in found}
    return Client(make_guard(settings, own), settings=settings)
