"""Connect the components of canonry: settings → guard → client → cache → store → features → jobs.

The service, the worker and the commands get their components here. Imports are inside the functions:
a command that opens only a store does not load the web client or the job queue.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from canonry.errors import CanonryError, StoreError
from canonry.settings import DEFAULT_POOL

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection

    from canonry.accounts import UserStore
    from canonry.bookmarks.duplicates import DuplicateStore
    from canonry.bookmarks.save import Bookmarks
    from canonry.crawler.crawl_store import CrawlStore
    from canonry.crawler.crawl_views import CrawlViews
    from canonry.feeds.feed_store import FeedStore
    from canonry.jobs.queues import Jobs
    from canonry.jobs.worker import Worker
    from canonry.net.fetch import Client
    from canonry.rekey.bookmark_rekey import BookmarkRekeys
    from canonry.settings import Settings
    from canonry.store.database import Database

_log = logging.getLogger("canonry.wiring")


def _read_clock() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Components:
    """All components of a process that serves requests or runs jobs."""

    settings: Settings
    database: Database
    client: Client
    jobs: Jobs
    users: UserStore
    feeds: FeedStore
    crawls: CrawlStore
    crawl_views: CrawlViews
    bookmarks: Bookmarks
    bookmark_rekeys: BookmarkRekeys
    duplicates: DuplicateStore
    clock: Callable[[], datetime]

    async def flush_statistics(self) -> None:
        """Write the counts of this process to the store; if that fails, they are written next time."""
        try:
            await self.bookmarks.statistics.flush()
        except CanonryError as error:
            _log.warning("statistics not written, will retry: %s", error)


def open_database(
    database_url: str, *, warn: Callable[[str], None], must_exist: bool = False, pool: int = DEFAULT_POOL
) -> Database:
    """Open a store, and create it if there is none; with `must_exist`, a missing store is a StoreError."""
    from canonry.store.database import Database
    from canonry.store.pinned_policies import announce_newer, list_unannounced

    database = Database(database_url, say=warn, pool=pool, must_exist=must_exist)
    if found := database.read_now(list_unannounced):
        with suppress(StoreError):  # a store that can only be read: the message is shown again the next time
            found = database.write_now(announce_newer)
        for newer in found:
            warn(str(newer))
    return database


def make_client(settings: Settings, own_addresses: Collection[tuple[str, int]] = ()) -> Client:
    """Return a guarded client; it never sends requests to `own_addresses`, where this process listens."""
    from canonry.net.fetch import Client
    from canonry.net.guard import make_guard

    return Client(make_guard(settings, set(own_addresses)), settings=settings)


@asynccontextmanager
async def open_components(
    settings: Settings,
    *,
    warn: Callable[[str], None],
    make_client: Callable[[Settings], Client] = make_client,
    fetch_pages: bool | None = None,
    clock: Callable[[], datetime] = _read_clock,
) -> AsyncGenerator[Components]:
    """Open all components; on exit, write the statistics and close everything.

    `fetch_pages` says whether the pages of new bookmarks are read; by default the settings say so.
    """
    from canonry.accounts import UserStore
    from canonry.bookmarks.duplicates import DuplicateStore
    from canonry.bookmarks.expand import expand
    from canonry.bookmarks.save import Bookmarks
    from canonry.crawler.crawl_store import CrawlStore
    from canonry.crawler.crawl_views import CrawlViews
    from canonry.feeds.feed_store import FeedStore
    from canonry.jobs.queues import Jobs
    from canonry.rekey.bookmark_rekey import BookmarkRekeys
    from canonry.store.cache import open_cache

    async with AsyncExitStack() as stack:
        database = stack.enter_context(
            await asyncio.to_thread(open_database, settings.database_url, warn=warn, pool=settings.database_pool)
        )
        client = await stack.enter_async_context(make_client(settings))
        cache = open_cache(settings, database)
        stack.push_async_callback(cache.close)
        jobs = stack.enter_context(await asyncio.to_thread(Jobs, database))
        reads_pages = settings.fetch_pages if fetch_pages is None else fetch_pages
        bookmarks = Bookmarks(
            database,
            partial(expand, client=client, cache=cache),
            enqueue=partial(_enqueue, jobs),
            fetch=client.fetch if reads_pages else None,
            fetches_icons=settings.fetch_icons,
            reads_private_pages=settings.fetch_private_pages,
            clock=clock,
        )
        components = Components(
            settings=settings,
            database=database,
            client=client,
            jobs=jobs,
            users=UserStore(database),
            feeds=FeedStore(database),
            crawls=CrawlStore(database),
            crawl_views=CrawlViews(database),
            bookmarks=bookmarks,
            bookmark_rekeys=BookmarkRekeys(bookmarks),
            duplicates=DuplicateStore(database),
            clock=clock,
        )
        stack.push_async_callback(components.flush_statistics)
        yield components


def make_worker(components: Components, *, concurrency: int = 32, due_interval: float = 30.0) -> Worker:
    """Return the worker for all kinds of jobs; it looks for due feeds every `due_interval` seconds."""
    from canonry.feeds.item_links import LinkReading
    from canonry.feeds.polling import Polling
    from canonry.jobs.crawl_jobs import make_crawl_kinds, make_crawl_schedules
    from canonry.jobs.kinds import (
        make_bookmark_kinds,
        make_bookmark_schedules,
        make_feed_kinds,
        make_feed_schedules,
        make_link_kinds,
        make_link_schedules,
    )
    from canonry.jobs.webhook_jobs import make_webhook_kinds, make_webhook_schedules
    from canonry.jobs.websub_jobs import make_websub_kinds, make_websub_schedules
    from canonry.jobs.worker import Worker

    settings, fetch, clock = components.settings, components.client.fetch, components.clock
    public_url = settings.public_url
    links = LinkReading(components.database, fetch, clock=clock, user_agent=settings.user_agent)
    kinds = [
        *make_feed_kinds(components.jobs, Polling(fetch, clock=clock)),
        *make_bookmark_kinds(components.bookmarks, components.bookmark_rekeys),
        *make_link_kinds(links),
        *make_crawl_kinds(components.jobs, settings, components.client),
        *make_webhook_kinds(components.jobs, fetch, clock),
        *make_websub_kinds(components.jobs, fetch, clock, public_url),
    ]
    schedules = [
        *make_feed_schedules(due_interval=due_interval),
        *make_bookmark_schedules(),
        *make_link_schedules(is_enabled=settings.fetch_item_links),
        *make_crawl_schedules(),
        *make_webhook_schedules(),
        *make_websub_schedules(public_url),
    ]
    return Worker(components.jobs, kinds, schedules=schedules, concurrency=concurrency)


async def _enqueue(jobs: Jobs, kind: str, key: str) -> None:
    """Queue a job; if that fails, a schedule queues unfinished work again within a minute."""
    try:
        await jobs.enqueue(kind, key)
    except CanonryError as error:
        _log.warning("job %s %s not queued, will retry: %s", kind, key, error)
