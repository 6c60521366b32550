"""Polling one feed: one request, one transaction, whatever comes of it (contract I1, I6, I7)."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from canonry.errors import CanonryError, FetchFailed, InvalidUrl, NotAFeed, UnsafeUrl, mask_credentials
from canonry.feeds.canonicalize.fetcher import raise_for_status, strip_fragment
from canonry.feeds.feed_values import FeedDocument, MergedFeed, NoSuchFeed
from canonry.feeds.ingest_report import FeedOutcome, FeedResult
from canonry.feeds.item_matching import ItemOutcome
from canonry.net.response import Validators
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.feed_values import FeedState
    from canonry.feeds.read import Feed
    from canonry.net.response import Fetch, Response

SEEN_TTL_DAYS = 30
_INTERVAL = timedelta(hours=1)
_LONGEST = timedelta(days=1)
_ADOPT_AFTER = 3  # sightings of a permanent redirect in a row
_THREAD_FROM = 200_000  # bytes from which a document is read in a thread
_SAID = 200  # characters of an error nobody thought of


@dataclass(frozen=True, slots=True)
class Polling:
    """How feeds are polled."""

    fetch: Fetch
    seen_ttl_days: int = SEEN_TTL_DAYS
    interval: timedelta = _INTERVAL
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    chance: Callable[[], float] = random.random


async def poll_feed(feed: FeedState, store: FeedStore, polling: Polling) -> tuple[FeedOutcome, MergedFeed]:
    """Ask a feed what is new, and keep it: one request, one transaction. What is raised is the fault of the store."""
    now = polling.clock()
    if feed.retry_at is not None and feed.retry_at > stamp(now):
        return FeedOutcome(feed.url, FeedResult.WAITING, f"asked to wait until {feed.retry_at}"), MergedFeed()
    try:
        return await _polled(feed, store, polling, now)
    except (FetchFailed, NotAFeed, UnsafeUrl, InvalidUrl) as error:
        failure = error
    except NoSuchFeed:
        return FeedOutcome(feed.url, FeedResult.FAILED, "removed while it was polled"), MergedFeed()
    except CanonryError:
        raise
    except Exception as error:
        # A fetch of the caller's own, or a document our own code stumbles over: one feed pays, and says for what.
        failure = FetchFailed(feed.url, f"{type(error).__name__}: {mask_credentials(str(error))[:_SAID]}")
    return await _failed(feed, failure, store, polling), MergedFeed()


async def _polled(feed: FeedState, store: FeedStore, polling: Polling, now: datetime) -> tuple[FeedOutcome, MergedFeed]:
    started = time.perf_counter()
    response = await polling.fetch(feed.url, validators=Validators(feed.etag, feed.last_modified))
    feed, response, read = await _read(feed, response, store, polling)
    if read is None:
        await store.touch(feed.id, now, _next_check(response, feed.ttl, now, polling))
        await _follow_move(feed, response, MergedFeed(), store)
        return FeedOutcome(feed.url, FeedResult.NO_CHANGE, milliseconds=_spent(started)), MergedFeed()
    document = FeedDocument(
        read.title,
        read.format,
        read.hubs,
        read.items,
        response.validators.etag,
        response.validators.last_modified,
        _next_check(response, read.ttl, now, polling),
        read.ttl,
    )
    merged = await store.merge(feed.id, document, now, seen_ttl_days=polling.seen_ttl_days)
    await _follow_move(feed, response, merged, store)
    counts = Counter(item.outcome for item in merged.items)
    outcome = FeedOutcome(
        feed.url,
        FeedResult.INGESTED,
        new=counts[ItemOutcome.NEW],
        updated=counts[ItemOutcome.UPDATED],
        duplicate=counts[ItemOutcome.DUPLICATE],
        conflicts=len(merged.conflicts),
        milliseconds=_spent(started),
    )
    return outcome, merged


async def _read(
    feed: FeedState, response: Response, store: FeedStore, polling: Polling
) -> tuple[FeedState, Response, Feed | None]:
    """The document of an answer, None where it has not changed; a page is left for the first feed it names."""
    from canonry.feeds.read import is_web_page, read_feed

    if response.is_not_modified and (feed.etag or feed.last_modified):
        return feed, response, None
    raise_for_status(response, polling.clock())
    kind = response.header("content-type")
    read = partial(read_feed, response.body, url=response.url, content_type=kind)
    try:
        return feed, response, await asyncio.to_thread(read) if len(response.body) > _THREAD_FROM else read()
    except NotAFeed:
        if feed.format or not is_web_page(response.body):
            raise  # it has been a feed before: a page in its place is an error of the day
    from canonry.net.html import find_feed_links

    links = await asyncio.to_thread(find_feed_links, response.body, url=response.url, content_type=kind)
    if not links:
        raise NotAFeed(feed.url, "a web page that names no feed")
    url = strip_fragment(links[0].url)
    answer = await polling.fetch(url, **({"came_from": response.address} if response.address else {}))
    raise_for_status(answer, polling.clock())
    found = read_feed(answer.body, url=answer.url, content_type=answer.header("content-type"))
    if not await store.adopt(feed.id, url):
        raise NotAFeed(feed.url, f"a web page; its feed {mask_credentials(url)} is kept already")
    return await store.get(feed.id), answer, found


async def _failed(
    feed: FeedState, error: FetchFailed | NotAFeed | UnsafeUrl | InvalidUrl, store: FeedStore, polling: Polling
) -> FeedOutcome:
    """Remember a failure: wait as long as the server asks, or longer each time, and stop at 410."""
    now = polling.clock()
    status, wait = getattr(error, "status", None), getattr(error, "retry_after", None)
    is_gone = status == 410
    backoff = min(_LONGEST, polling.interval * 2 ** min(feed.failures, 10)) * (0.75 + polling.chance() / 2)
    retry_at = None if wait is None else now + min(timedelta(seconds=wait), _LONGEST * 7)
    await store.fail(
        feed.id,
        error.reason,
        now,
        next_check_at=max(filter(None, (retry_at, now + backoff))),
        retry_at=retry_at,
        is_gone=is_gone,
    )
    return FeedOutcome(feed.url, FeedResult.STOPPED if is_gone else FeedResult.FAILED, error.reason)


async def _follow_move(feed: FeedState, response: Response, merged: MergedFeed, store: FeedStore) -> None:
    """Adopt a permanent redirect that was seen often enough and leads to the items we know."""
    target = response.permanent_url
    if not response.hops or target == feed.url:
        if feed.moved_to:
            await store.set_moved(feed.id, "", 0)
        return
    sightings = feed.moved_sightings + 1 if feed.moved_to == target else 1
    is_known = any(item.outcome is not ItemOutcome.NEW for item in merged.items)
    if sightings < _ADOPT_AFTER or not is_known or not await store.adopt(feed.id, target):
        await store.set_moved(feed.id, target, sightings)


def _next_check(response: Response, ttl: int | None, now: datetime, polling: Polling) -> datetime:
    """When to ask again: not before the feed's ttl or the answer's age is over."""
    wait = polling.interval
    if ttl:
        wait = max(wait, timedelta(minutes=min(ttl, 10_000)))
    control = response.header("cache-control")
    if control and (age := re.search(r"max-age\s*=\s*\"?(\d{1,9})", control, re.IGNORECASE)):
        wait = max(wait, timedelta(seconds=int(age[1])))
    return now + min(wait, _LONGEST) * (0.95 + polling.chance() / 10)


def _spent(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
