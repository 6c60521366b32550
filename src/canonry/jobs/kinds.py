"""The jobs there are: use-cases of `canonry.work`, each of which may run again after a crash and change nothing.

The names are in the database with every job that waits: a kind keeps its name, and understands the keys of old.
"""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from canonry.bookmarks.save import EXPAND, IMPORT, TITLE
from canonry.core.url import parse
from canonry.errors import InvalidUrl, mask_credentials
from canonry.feeds.feed_store import ACTIVE, FeedStore
from canonry.feeds.feed_values import NoSuchFeed
from canonry.feeds.polling import poll_feed
from canonry.jobs.queues import POLL, REKEY, Kind
from canonry.jobs.schedules import KEPT, Schedule
from canonry.rekey.bookmark_rekey import BOOKMARK_REKEY_JOB
from canonry.rekey.entry_store import RekeyStore
from canonry.rekey.run import rekey
from canonry.store import cache

if TYPE_CHECKING:
    from canonry.bookmarks.save import Bookmarks
    from canonry.feeds.polling import Polling
    from canonry.jobs.queues import Jobs
    from canonry.rekey.bookmark_rekey import BookmarkRekeys

DUE, TIDY, RETENTION = "due", "tidy", "retention"
UNFINISHED, TRASH = "unfinished", "trash"
TRASH_KEPT = timedelta(days=30)
STATISTICS_KEPT = timedelta(days=400)
_POLLS_KEPT = timedelta(hours=1)  # the feed itself says how it went, and there are many
_log = logging.getLogger("canonry.jobs")


def feed_kinds(jobs: Jobs, polling: Polling) -> list[Kind]:
    """What is done for feeds, and for the jobs themselves, in the database the jobs are in."""
    database, clock = jobs.database, polling.clock
    feeds = FeedStore(database)

    async def poll(key: str) -> None:
        try:
            feed = await feeds.get(int(key))
        except NoSuchFeed:
            return  # removed since
        if feed.status == ACTIVE:
            outcome, _ = await poll_feed(feed, feeds, polling)
            told = f"{outcome.new} new, {outcome.updated} updated" if not outcome.reason else outcome.reason
            _log.info("%s %s: %s", mask_credentials(outcome.feed_url), outcome.result, told)

    async def enqueue_due(_: str) -> None:
        due = await feeds.due(clock())
        if new := await jobs.enqueue_polls([(feed.id, host_of(feed.url)) for feed in due]):
            _log.info("%d feeds are due", new)

    async def move_keys(key: str) -> None:
        before, after = json.loads(key)
        done = await rekey(RekeyStore(database), before, after, now=clock())
        _log.info("%d entries are under %s, %d of them changed", done.entries, after, done.changed)

    async def forget_expired(_: str) -> None:
        await cache.forget_expired(database, clock())

    async def tidy(_: str) -> None:
        now = datetime.now(UTC)  # DBOS's clock
        await asyncio.to_thread(jobs.tidy, now - _POLLS_KEPT, POLL)
        await asyncio.to_thread(jobs.tidy, now - KEPT)

    return [
        Kind(POLL, poll, is_per_host=True),
        Kind(DUE, enqueue_due),
        Kind(REKEY, move_keys, seconds=None),
        Kind(RETENTION, forget_expired),
        Kind(TIDY, tidy),
    ]


def feed_schedules(*, look_for_due: float = 30.0) -> list[Schedule]:
    """Due feeds so often, in seconds; ended jobs every hour; what has expired once a day.

    What a feed no longer shows is forgotten when the feed is polled, not here (contract I5).
    """
    return [Schedule(DUE, look_for_due), Schedule(TIDY, 3600.0), Schedule(RETENTION, 86400.0)]


def bookmark_kinds(bookmarks: Bookmarks, rekeys: BookmarkRekeys) -> list[Kind]:
    """What bookmarks leave to be done later; keys are ids."""

    async def expand(key: str) -> None:
        await bookmarks.finish_expansion(int(key))

    async def title(key: str) -> None:
        await bookmarks.finish_title(int(key))

    async def take_in(key: str) -> None:
        await bookmarks.finish_import(int(key))

    async def rekey_bookmarks(key: str) -> None:
        await rekeys.finish(int(key))

    async def enqueue_unfinished(_: str) -> None:
        await bookmarks.enqueue_unfinished()
        await rekeys.enqueue_unfinished()

    async def empty_trash(_: str) -> None:
        now = bookmarks.clock()
        await bookmarks.store.empty_trash(now - TRASH_KEPT)
        await bookmarks.statistics.forget(now - STATISTICS_KEPT)

    return [
        Kind(EXPAND, expand, seconds=30.0),
        Kind(TITLE, title, seconds=30.0),
        Kind(IMPORT, take_in, seconds=None),
        Kind(BOOKMARK_REKEY_JOB, rekey_bookmarks, seconds=None),
        Kind(UNFINISHED, enqueue_unfinished),
        Kind(TRASH, empty_trash),
    ]


def bookmark_schedules() -> list[Schedule]:
    """What was left unfinished every minute, the trash once a day."""
    return [Schedule(UNFINISHED, 60.0), Schedule(TRASH, 86400.0)]


def host_of(url: str) -> str:
    """The host whose feeds are polled one after the other; its port does not matter."""
    try:
        return parse(url).host
    except InvalidUrl:
        return ""
