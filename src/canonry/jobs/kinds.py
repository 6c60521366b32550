"""The kinds of jobs and their schedules. Each job may run again after a crash without changing the result.

Names are stored with every waiting job, so a kind must keep its name and understand the keys of older versions.
"""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from canonry.bookmarks.imports import IMPORT_JOB
from canonry.bookmarks.page_reading import READ_PAGES_JOB
from canonry.bookmarks.pending_expansions import EXPAND_JOB
from canonry.bookmarks.site_icons import FETCH_ICONS_JOB
from canonry.errors import FeedNotFound, mask_credentials
from canonry.feeds.changes import CHANGES_RETENTION, ChangeFeed
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedStatus
from canonry.feeds.item_links import READ_LINKS_JOB
from canonry.feeds.polling import poll_feed
from canonry.feeds.webhook_store import WebhookStore
from canonry.feeds.websub_store import WebSubStore
from canonry.jobs.queues import POLL_JOB, REKEY_JOB, JobKind
from canonry.jobs.schedules import ENDED_JOBS_RETENTION, Schedule
from canonry.jobs.webhook_jobs import ENQUEUE_DELIVERIES_JOB, enqueue_deliveries
from canonry.jobs.websub_jobs import REQUEST_SUBSCRIPTIONS_JOB, note_poll
from canonry.net.response import find_host
from canonry.rekey.bookmark_rekey import BOOKMARK_REKEY_JOB
from canonry.rekey.entry_rekey import rekey
from canonry.rekey.entry_rekey_store import EntryRekeyStore
from canonry.store import cache

if TYPE_CHECKING:
    from canonry.bookmarks.save import Bookmarks
    from canonry.feeds.item_links import LinkReading
    from canonry.feeds.polling import Polling
    from canonry.jobs.queues import Jobs
    from canonry.rekey.bookmark_rekey import BookmarkRekeys

# Names are stored with every queued job.
ENQUEUE_DUE_FEEDS_JOB = "due"
DELETE_ENDED_JOBS_JOB = "tidy"
DELETE_EXPIRED_CACHE_JOB = "retention"
ENQUEUE_UNFINISHED_JOB = "unfinished"
EMPTY_TRASH_JOB = "trash"
_MINUTE_SECONDS, _HOUR_SECONDS, _DAY_SECONDS = 60.0, 3_600.0, 86_400.0
TRASH_RETENTION = timedelta(days=30)
IMPORT_ROWS_RETENTION = timedelta(days=30)
STATISTICS_RETENTION = timedelta(days=400)
_FREQUENT_JOBS_RETENTION = timedelta(hours=1)  # there are many, and feeds and webhooks record their last result
_log = logging.getLogger("canonry.jobs")


def make_feed_kinds(jobs: Jobs, polling: Polling) -> list[JobKind]:
    """Return the jobs for feeds, rekeys, caches and for the job tables themselves."""
    database, clock = jobs.database, polling.clock
    feeds, webhooks, subscriptions = FeedStore(database), WebhookStore(database), WebSubStore(database)

    async def poll(key: str) -> None:
        try:
            feed = await feeds.get(int(key))
        except FeedNotFound:
            return  # removed after the poll was queued
        if feed.status is not FeedStatus.PAUSED:
            started = clock()
            outcome, _ = await poll_feed(feed, feeds, polling)
            await note_poll(subscriptions, feed, outcome, started=started, now=clock())
            summary = outcome.reason or f"{outcome.new} new, {outcome.updated} updated"
            _log.info("feed %d at %s %s: %s", feed.id, mask_credentials(outcome.feed_url), outcome.result, summary)
            if outcome.new or outcome.updated:
                await enqueue_deliveries(jobs, webhooks, clock())

    async def enqueue_due(_: str) -> None:
        due = await feeds.list_due(clock())
        if new := await jobs.enqueue_polls([(feed.id, find_host(feed.url)) for feed in due]):
            _log.info("queued polls of %d due feeds", new)

    async def rekey_entries(key: str) -> None:
        before, after = json.loads(key)
        done = await rekey(EntryRekeyStore(database), before, after, now=clock())
        _log.info("%d entries are keyed under %s now, %d of them changed", done.entries, after, done.changed)

    async def delete_expired(_: str) -> None:
        await cache.delete_expired(database, clock())
        await ChangeFeed(database).delete_before(clock() - CHANGES_RETENTION)

    async def delete_ended_jobs(_: str) -> None:
        now = datetime.now(UTC)  # DBOS uses the real time too
        for kind in (POLL_JOB, ENQUEUE_DELIVERIES_JOB, REQUEST_SUBSCRIPTIONS_JOB):
            await asyncio.to_thread(jobs.delete_ended, now - _FREQUENT_JOBS_RETENTION, kind)
        await asyncio.to_thread(jobs.delete_ended, now - ENDED_JOBS_RETENTION)

    return [
        JobKind(POLL_JOB, poll, is_per_host=True),
        JobKind(ENQUEUE_DUE_FEEDS_JOB, enqueue_due),
        JobKind(REKEY_JOB, rekey_entries, timeout=None),
        JobKind(DELETE_EXPIRED_CACHE_JOB, delete_expired),
        JobKind(DELETE_ENDED_JOBS_JOB, delete_ended_jobs),
    ]


def make_feed_schedules(*, due_interval: float = 30.0) -> list[Schedule]:
    """Return the schedules: due feeds every `due_interval` seconds, ended jobs hourly, expired rows daily.

    Entries that left their feed are deleted when the feed is polled, not here (contract I5).
    """
    return [
        Schedule(ENQUEUE_DUE_FEEDS_JOB, due_interval),
        Schedule(DELETE_ENDED_JOBS_JOB, _HOUR_SECONDS),
        Schedule(DELETE_EXPIRED_CACHE_JOB, _DAY_SECONDS),
    ]


def make_link_kinds(links: LinkReading) -> list[JobKind]:
    """Return the job that reads the links of new items."""

    async def read_links(_: str) -> None:
        counts = await links.read_due()
        if counts.read or counts.failed:
            _log.info("read %d links of items, %d lead to another URL", counts.read, counts.learned)

    return [JobKind(READ_LINKS_JOB, read_links, timeout=None, is_interruptible=True)]


def make_link_schedules(*, is_enabled: bool) -> list[Schedule]:
    """Return the schedule that reads links every minute; none if that is turned off."""
    return [Schedule(READ_LINKS_JOB, _MINUTE_SECONDS)] if is_enabled else []


def make_bookmark_kinds(bookmarks: Bookmarks, rekeys: BookmarkRekeys) -> list[JobKind]:
    """Return the jobs that finish bookmarks in the background; their keys are ids."""

    async def expand(key: str) -> None:
        await bookmarks.expansions.finish(int(key))

    async def read_pages(_: str) -> None:
        await bookmarks.pages.read_all()
        await bookmarks.icons.fetch_all()

    async def fetch_icons(_: str) -> None:
        await bookmarks.icons.fetch_all()

    async def import_file(key: str) -> None:
        await bookmarks.imports.finish(int(key))

    async def rekey_bookmarks(key: str) -> None:
        await rekeys.finish(int(key))

    async def enqueue_unfinished(_: str) -> None:
        await bookmarks.enqueue_unfinished()
        await rekeys.enqueue_unfinished()

    async def empty_trash(_: str) -> None:
        now = bookmarks.clock()
        await bookmarks.store.empty_trash(now - TRASH_RETENTION)
        await bookmarks.bulk_edits.delete_before(now - TRASH_RETENTION)
        await bookmarks.icons.delete_unused()
        await bookmarks.imports.store.delete_rows(now - IMPORT_ROWS_RETENTION)
        await bookmarks.statistics.delete_before(now - STATISTICS_RETENTION)

    return [
        JobKind(EXPAND_JOB, expand, timeout=30.0),
        JobKind(READ_PAGES_JOB, read_pages, timeout=None, is_interruptible=True),
        JobKind(FETCH_ICONS_JOB, fetch_icons, timeout=None, is_interruptible=True),
        JobKind(IMPORT_JOB, import_file, timeout=None),
        JobKind(BOOKMARK_REKEY_JOB, rekey_bookmarks, timeout=None),
        JobKind(ENQUEUE_UNFINISHED_JOB, enqueue_unfinished),
        JobKind(EMPTY_TRASH_JOB, empty_trash),
    ]


def make_bookmark_schedules() -> list[Schedule]:
    """Return the schedules: unfinished bookmarks every minute, icons every hour, the trash once a day."""
    return [
        Schedule(ENQUEUE_UNFINISHED_JOB, _MINUTE_SECONDS),
        Schedule(FETCH_ICONS_JOB, _HOUR_SECONDS),
        Schedule(EMPTY_TRASH_JOB, _DAY_SECONDS),
    ]
