"""The service behind the routes: its options, its parts, and the jobs it runs."""

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

from canonry.errors import WorkerAlreadyRunning
from canonry.wiring import make_client, make_worker, open_components

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.accounts import UserStore
    from canonry.bookmarks.duplicates import DuplicateStore
    from canonry.bookmarks.save import Bookmarks
    from canonry.crawler.crawl_store import CrawlStore
    from canonry.crawler.crawl_views import CrawlViews
    from canonry.feeds.feed_store import FeedStore
    from canonry.jobs.queues import Jobs
    from canonry.net.fetch import Client
    from canonry.rekey.bookmark_rekey import BookmarkRekeys
    from canonry.settings import Settings
    from canonry.store.database import Database
    from canonry.wiring import Components

_FLUSH_INTERVAL_SECONDS = 2.0  # of the statistics
_log = logging.getLogger("canonry.service")


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How the service runs."""

    host: str = "127.0.0.1"
    port: int = 8000
    socket_path: str = ""  # of a Unix socket, which is used instead of host and port
    root_path: str = ""  # the path below which a proxy shows the service, without a slash at its end
    require_token: bool = False
    allowed_hosts: tuple[str, ...] = ()  # host names besides those of loopback
    fetch_pages: bool = False
    requests_per_minute: int = 1200  # per token
    sign_ins_per_minute: int = 10  # per address
    max_body: int = 1024 * 1024  # bytes
    max_upload: int = 50 * 1024 * 1024  # bytes
    runs_jobs: bool = True
    debug: bool = False  # log whole URLs


class Service:
    """A running service; its parts exist inside `async with`."""

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
        options: ServiceOptions,
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
        self.start_error: BaseException | None = None
        self._given_client = client
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            components = await self._stack.enter_async_context(
                open_components(
                    self.settings,
                    warn=partial(_log.warning, "%s"),
                    make_client=self._make_client,
                    fetch_pages=self.options.fetch_pages,
                    clock=self.clock,
                )
            )
            self.database, self.client, self.jobs = components.database, components.client, components.jobs
            self.users, self.feeds = components.users, components.feeds
            self.crawls, self.crawl_views = components.crawls, components.crawl_views
            self.bookmarks, self.bookmark_rekeys = components.bookmarks, components.bookmark_rekeys
            self.duplicates = components.duplicates
            if self.options.runs_jobs:
                await self._run_jobs(components)
            flushing = asyncio.create_task(_flush_regularly(components))
            self._stack.push_async_callback(_cancel, flushing)
        except BaseException as error:
            self.start_error = error
            await self._stack.aclose()
            raise
        self.is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _run_jobs(self, components: Components) -> None:
        try:
            await self._stack.enter_async_context(make_worker(components))
        except WorkerAlreadyRunning as error:
            _log.info("another process runs the jobs of this store: %s", error)
        else:
            await components.bookmarks.enqueue_unfinished()
            await components.bookmark_rekeys.enqueue_unfinished()

    def _make_client(self, settings: Settings) -> Client:
        """Return the client that was given, or one that refuses every address of this service itself."""
        if self._given_client is not None:
            return self._given_client()
        host, port = self.options.host or "127.0.0.1", self.options.port
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError:
            addresses = []
        return make_client(settings, {(str(address[0]), port) for *_, address in addresses})


async def _flush_regularly(components: Components) -> None:
    while True:
        await asyncio.sleep(_FLUSH_INTERVAL_SECONDS)
        await components.flush_statistics()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
