"""Poll one feed: one request and one transaction, whatever the result (contract I1, I6, I7)."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from canonry.errors import (
    CanonryError,
    FailureKind,
    FeedNotFound,
    FetchFailed,
    InvalidUrl,
    NotAFeed,
    StoreError,
    UnsafeUrl,
    mask_credentials,
)
from canonry.feeds.backoff import compute_backoff
from canonry.feeds.due import MAX_WAIT, is_ahead
from canonry.feeds.feed_settings import get_interval, make_fetch_options
from canonry.feeds.feed_values import FeedDocument, FeedStatus, MergedFeed
from canonry.feeds.ingest_report import FeedOutcome, FeedResult
from canonry.feeds.item_matching import ItemOutcome
from canonry.feeds.websub_links import find_hub_links
from canonry.net.moved_urls import find_adoptable_url
from canonry.net.response import Validators
from canonry.net.search_fetcher import raise_for_status, strip_fragment

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.feed_values import FeedState
    from canonry.feeds.read import Feed
    from canonry.net.response import Fetch, Response

SEEN_TTL_DAYS = 30
_POLL_INTERVAL = timedelta(hours=1)
_MAX_INTERVAL = timedelta(days=1)
_MAX_TTL_MINUTES = 10_000
_ADOPT_AFTER_SIGHTINGS = 3  # of the same permanent redirect, in a row
_MAX_BYTES_WITHOUT_THREAD = 200_000  # larger documents are read in a thread
_MAX_ERROR_CHARS = 200  # of the message of an unexpected exception


@dataclass(frozen=True, slots=True)
class Polling:
    """How feeds are polled; `chance` returns a random number from 0 to 1 for jitter.

    With `is_forced`, requests are sent without validators, so that the whole document comes back.
    """

    fetch: Fetch
    seen_ttl_days: int = SEEN_TTL_DAYS
    interval: timedelta = _POLL_INTERVAL
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    chance: Callable[[], float] = random.random
    is_forced: bool = False


async def poll_feed(feed: FeedState, store: FeedStore, polling: Polling) -> tuple[FeedOutcome, MergedFeed]:
    """Fetch a feed once and store the result in one transaction.

    A failure of the feed is an outcome; only errors of the store are raised.
    """
    now = polling.clock()
    if is_ahead(feed.retry_at, now):
        reason = f"the server asked to wait until {feed.retry_at}"
        return FeedOutcome(feed.url, FeedResult.WAITING, reason), MergedFeed()
    try:
        return await _fetch_and_store(feed, store, polling, now)
    except (FetchFailed, NotAFeed, UnsafeUrl, InvalidUrl) as error:
        failure = error
    except FeedNotFound:
        return FeedOutcome(feed.url, FeedResult.REMOVED, "the feed was removed while it was polled"), MergedFeed()
    except CanonryError:
        raise
    except Exception as error:
        # The caller's own fetch, or a document that our code cannot read: only this feed fails.
        # An error of the operating system may name a file of this machine, which is not for clients of the service.
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        failure = FetchFailed(feed.url, f"{type(error).__name__}: {mask_credentials(reason)[:_MAX_ERROR_CHARS]}")
    return await _record_failure(feed, failure, store, polling), MergedFeed()


async def _fetch_and_store(
    feed: FeedState, store: FeedStore, polling: Polling, now: datetime
) -> tuple[FeedOutcome, MergedFeed]:
    started = time.perf_counter()
    validators = Validators() if polling.is_forced else Validators(feed.etag, feed.last_modified)
    response = await polling.fetch(feed.url, origin=feed.origin, validators=validators, **make_fetch_options(feed))
    if response.is_not_modified and not _is_about_last_document(feed, response, validators):
        validators = Validators()
        response = await polling.fetch(feed.url, origin=feed.origin, validators=validators, **make_fetch_options(feed))
    if response.is_not_modified and validators != Validators():
        await store.touch(feed.id, now, _compute_next_check(response, feed, feed.ttl, now, polling))
        await _follow_move(feed, response, MergedFeed(), store)
        return FeedOutcome(feed.url, FeedResult.NO_CHANGE, milliseconds=_measure_milliseconds(started)), MergedFeed()
    feed, response, read = await _read_document(feed, response, store, polling)
    links = find_hub_links(response, read)
    etag, last_modified = response.validators.etag, response.validators.last_modified
    if read.is_cut_short:
        etag = last_modified = ""  # the whole document must be fetched: a 304 would hide the rest of it
    elif _ends_temporarily(response):
        last_modified = ""  # the next redirect may lead elsewhere, and a date says nothing about another document
    document = FeedDocument(
        read.title,
        read.format,
        links.hubs,
        read.items,
        etag,
        last_modified,
        _compute_next_check(response, feed, read.ttl, now, polling),
        read.ttl,
        is_cut=read.cut_items > 0 or read.is_cut_short,
        topic=links.topic,
        hubs_origin=response.origin,
    )
    merged = await store.merge(feed.id, document, now, seen_ttl_days=polling.seen_ttl_days)
    # The items are stored: after an error, another poll would report them as known. The next poll sees the move again.
    with suppress(StoreError):
        await _follow_move(feed, response, merged, store)
    counts = Counter(item.outcome for item in merged.items)
    outcome = FeedOutcome(
        feed.url,
        FeedResult.INGESTED,
        new=counts[ItemOutcome.NEW],
        updated=counts[ItemOutcome.UPDATED],
        duplicate=counts[ItemOutcome.DUPLICATE],
        conflicts=len(merged.conflicts),
        cut_items=read.cut_items,
        milliseconds=_measure_milliseconds(started),
    )
    return outcome, merged


def _is_about_last_document(feed: FeedState, response: Response, validators: Validators) -> bool:
    """Return whether a 304 came from the URL that the validators came from (RFC 9110, 8.8).

    Behind a redirect to a new URL, it would hide the items of another document.
    """
    if not response.hops:
        return not feed.moved_to
    if _ends_temporarily(response):
        return not validators.last_modified
    return find_adoptable_url(response) == feed.moved_to


def _ends_temporarily(response: Response) -> bool:
    """Return whether only a temporary redirect led to the URL of a response."""
    return bool(response.hops) and find_adoptable_url(response) != response.url


async def _read_document(
    feed: FeedState, response: Response, store: FeedStore, polling: Polling
) -> tuple[FeedState, Response, Feed]:
    """Return the document of a response.

    If the URL of a new feed is a web page, the first feed that the page links to is fetched and adopted instead.
    """
    from canonry.feeds.read import is_web_page

    raise_for_status(response, polling.clock())
    try:
        return feed, response, await _read_feed(feed, response)
    except NotAFeed:
        if feed.format or not is_web_page(response.body):
            raise  # the URL has been a feed before: a page in its place is a transient error
    from canonry.net.html import find_feed_links

    content_type = response.header("content-type")
    links = await asyncio.to_thread(find_feed_links, response.body, url=response.url, content_type=content_type)
    if not links:
        raise NotAFeed(feed.url, "the URL is a web page that links to no feed")
    url = strip_fragment(links[0].url)
    linked = await polling.fetch(url, origin=response.origin, **make_fetch_options(feed, linked_url=url))
    raise_for_status(linked, polling.clock())
    found = await _read_feed(feed, linked)
    if not await store.adopt(feed.id, url, origin=response.origin):
        raise NotAFeed(feed.url, f"the URL is a web page, and its feed {mask_credentials(url)} is followed already")
    return await store.get(feed.id), linked, found


async def _read_feed(feed: FeedState, response: Response) -> Feed:
    """Read a document up to the size limit of the feed."""
    from canonry.feeds.read import MAX_BYTES, read_feed

    read = partial(
        read_feed,
        response.body,
        url=response.url,
        content_type=response.header("content-type"),
        max_bytes=feed.max_bytes or MAX_BYTES,
    )
    return await asyncio.to_thread(read) if len(response.body) > _MAX_BYTES_WITHOUT_THREAD else read()


async def _record_failure(
    feed: FeedState, error: FetchFailed | NotAFeed | UnsafeUrl | InvalidUrl, store: FeedStore, polling: Polling
) -> FeedOutcome:
    """Store a failure and when to retry: after `Retry-After`, else with exponential backoff; 410 stops the feed."""
    now = polling.clock()
    status, retry_after = (error.status, error.retry_after) if isinstance(error, FetchFailed) else (None, None)
    is_gone = status == HTTPStatus.GONE
    if is_gone or feed.status is FeedStatus.STOPPED:
        backoff = MAX_WAIT * (0.75 + polling.chance() / 4)
    else:
        interval = get_interval(feed) or polling.interval
        longest = max(_MAX_INTERVAL, interval)
        backoff = compute_backoff(feed.failures, first=interval, longest=longest, chance=polling.chance())
    retry_at = None if retry_after is None else now + min(timedelta(seconds=retry_after), MAX_WAIT)
    await store.fail(
        feed.id,
        error.reason,
        now,
        next_check_at=max(filter(None, (retry_at, now + min(backoff, MAX_WAIT)))),
        retry_at=retry_at,
        is_gone=is_gone,
        kind=_get_kind(error),
        status=status,
    )
    result = FeedResult.STOPPED if is_gone else FeedResult.FAILED
    return FeedOutcome(feed.url, result, error.reason, failure=_get_kind(error))


def _get_kind(error: FetchFailed | NotAFeed | UnsafeUrl | InvalidUrl) -> FailureKind:
    match error:
        case FetchFailed():
            return error.kind
        case NotAFeed():
            return FailureKind.NOT_A_FEED
        case UnsafeUrl():
            return FailureKind.REFUSED
        case InvalidUrl():
            return FailureKind.INVALID_URL


async def _follow_move(feed: FeedState, response: Response, merged: MergedFeed, store: FeedStore) -> None:
    """Adopt a permanent redirect that was seen often enough and leads to items that are known (contract I7).

    If it leads to other items, they are known the next time: it counts no sightings until the feed has answered itself.
    """
    target = find_adoptable_url(response)
    if not response.hops or target == feed.url:
        if feed.moved_to:
            await store.set_moved(feed.id, "", 0)
        return
    has_known_items = any(item.outcome is not ItemOutcome.NEW for item in merged.items)
    leads_to_other_items = bool(feed.format and merged.items) and not has_known_items
    if leads_to_other_items or (feed.moved_to and not feed.moved_sightings):
        await store.set_moved(feed.id, target, 0)
        return
    sightings = feed.moved_sightings + 1 if feed.moved_to == target else 1
    if (
        sightings < _ADOPT_AFTER_SIGHTINGS
        or not has_known_items
        or not await store.adopt(feed.id, target, origin=response.origin)
    ):
        await store.set_moved(feed.id, target, sightings)


def _compute_next_check(
    response: Response, feed: FeedState, ttl: int | None, now: datetime, polling: Polling
) -> datetime:
    """Return when to poll again: not before the feed's ttl (minutes) and the response's max-age are over.

    An interval that a person has set for the feed is used as it is.
    """
    jitter = 0.95 + polling.chance() / 10
    if (interval := get_interval(feed)) is not None:
        return now + min(interval * jitter, MAX_WAIT)
    wait = polling.interval
    if ttl:
        wait = max(wait, timedelta(minutes=min(ttl, _MAX_TTL_MINUTES)))
    control = response.header("cache-control")
    if control and (age := re.search(r"max-age\s*=\s*\"?(\d{1,9})", control, re.IGNORECASE)):
        wait = max(wait, timedelta(seconds=int(age[1])))
    return now + min(wait, _MAX_INTERVAL) * jitter


def _measure_milliseconds(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
