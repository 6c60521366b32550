"""Ingest: poll feeds at any cadence, keep each item once (SPEC I).

The story of one feed is `poll_feed`, that of a run `_Run.run`: many feeds at once, few at one host,
one transaction for each, and a report that says what happened to every one of them.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter, deque
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from canonry.core.identity import KeyType
from canonry.core.merge import Outcome, url_key
from canonry.core.url import parse, read_url
from canonry.errors import FetchFailed, InvalidUrl, NotAFeed, StoreError, UnsafeUrl, masked
from canonry.net.response import Validators
from canonry.store.database import Database
from canonry.store.feed_values import FeedDocument, MergedFeed, MergedItem
from canonry.store.feeds import FeedState, FeedStore
from canonry.store.policies import RekeyUnfinished
from canonry.store.runs import finish_run, start_run
from canonry.store.schema import entries, stamp
from canonry.work.asking import plain, require_ok

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from canonry.core.identity import Key
    from canonry.net.feed import Feed
    from canonry.net.response import Fetch, Response

SEEN_TTL_DAYS = 30
_CONCURRENCY = 64
_PER_HOST = 2
_INTERVAL = timedelta(hours=1)
_LONGEST = timedelta(days=1)
_ADOPT_AFTER = 3  # sightings of a permanent redirect in a row
_THREAD_FROM = 200_000  # bytes from which a document is read in a thread


class FeedResult(StrEnum):
    """What became of a feed in a run."""

    INGESTED = "ingested"
    NO_CHANGE = "no_change"
    FAILED = "failed"
    STOPPED = "stopped"  # gone for good
    WAITING = "waiting"  # its server asked to be left alone until later


@dataclass(frozen=True, slots=True)
class FeedOutcome:
    """What became of a feed, and how many of its items were what."""

    feed_url: str
    result: FeedResult
    reason: str = ""
    new: int = 0
    updated: int = 0
    duplicate: int = 0
    conflicts: int = 0
    milliseconds: int = 0


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """A new or updated item, as it is written out."""

    outcome: Outcome
    feed_url: str
    title: str
    url: str
    keys: tuple[Key, ...]
    dedupe_key: str
    match_confidence: str
    first_seen_at: str
    last_seen_at: str


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the quality checklist."""

    name: str
    is_met: bool
    detail: str


@dataclass(slots=True)
class Report:
    """What a run did; `items` are the new and updated ones, unless they went to `on_item`."""

    feeds: list[FeedOutcome] = field(default_factory=list[FeedOutcome])
    items: list[ItemRecord] = field(default_factory=list[ItemRecord])
    warnings: list[str] = field(default_factory=list[str])
    checklist: list[Check] = field(default_factory=list[Check])
    new: int = 0
    updated: int = 0
    duplicate: int = 0
    no_change: int = 0
    failed: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """By outcome: items new, updated, duplicate; feeds without change and failed."""
        return {name: getattr(self, name) for name in ("new", "updated", "duplicate", "no_change", "failed")}


@dataclass(frozen=True, slots=True)
class Polling:
    """How feeds are polled."""

    fetch: Fetch
    seen_ttl_days: int = SEEN_TTL_DAYS
    interval: timedelta = _INTERVAL
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    chance: Callable[[], float] = random.random


async def ingest(
    feed_urls: Iterable[str],
    store: str | Database = "",
    *,
    fetch: Fetch | None = None,
    seen_ttl_days: int = SEEN_TTL_DAYS,
    concurrency: int = _CONCURRENCY,
    per_host: int = _PER_HOST,
    delay: float = 0.0,
    on_item: Callable[[ItemRecord], object] | None = None,
    on_feed: Callable[[FeedOutcome], object] | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Report:
    """Poll these feeds once and keep each item once; what failed is in the report, the rest goes on.

    `store` is a database URL (default: the one of the settings) or an open `Database`. At most
    `per_host` requests at once go to one host, `delay` seconds apart. `on_item` gets new and updated
    items as they come, `on_feed` every feed when it is done.
    """
    async with AsyncExitStack() as stack:
        report = Report()
        if fetch is None:
            from canonry.net.fetch import Client

            fetch = (await stack.enter_async_context(Client())).fetch
        memory = _Memory(store, report.warnings)
        stack.callback(memory.close)
        run = _Run(
            memory,
            Polling(fetch, seen_ttl_days, clock=clock),
            _Hosts(per_host, delay),
            report,
            on_item=on_item,
            on_feed=on_feed,
        )
        await run.run(feed_urls, concurrency)
        return report


async def poll_feed(feed: FeedState, store: FeedStore, polling: Polling) -> tuple[FeedOutcome, MergedFeed]:
    """Ask a feed what is new, and keep it: one request, one transaction."""
    now = polling.clock()
    if feed.retry_at is not None and feed.retry_at > stamp(now):
        return FeedOutcome(feed.url, FeedResult.WAITING, f"asked to wait until {feed.retry_at}"), MergedFeed()
    started = time.perf_counter()
    validators = Validators(feed.etag, feed.last_modified)
    try:
        response = await polling.fetch(feed.url, validators=validators)
        feed, response, read = await _read(feed, response, store, polling)
    except (FetchFailed, NotAFeed, UnsafeUrl, InvalidUrl) as error:
        return await _failed(feed, error, store, polling), MergedFeed()
    except OSError as error:  # of a fetch of the caller's own
        failure = FetchFailed(feed.url, f"{type(error).__name__}: {masked(str(error))}")
        return await _failed(feed, failure, store, polling), MergedFeed()
    if read is None:
        await store.touch(feed.id, now, _next_check(response, None, now, polling))
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
    )
    merged = await store.merge(feed.id, document, now, seen_ttl_days=polling.seen_ttl_days)
    await _follow_move(feed, response, merged, store)
    counts = Counter(item.outcome for item in merged.items)
    outcome = FeedOutcome(
        feed.url,
        FeedResult.INGESTED,
        new=counts[Outcome.NEW],
        updated=counts[Outcome.UPDATED],
        duplicate=counts[Outcome.DUPLICATE],
        conflicts=len(merged.conflicts),
        milliseconds=_spent(started),
    )
    return outcome, merged


async def _read(
    feed: FeedState, response: Response, store: FeedStore, polling: Polling
) -> tuple[FeedState, Response, Feed | None]:
    """The document of an answer, None where it has not changed; a page is left for the first feed it names."""
    from canonry.net.feed import is_web_page, read_feed

    if response.is_not_modified and (feed.etag or feed.last_modified):
        return feed, response, None
    require_ok(response, polling.clock())
    kind = response.header("content-type")
    read = partial(read_feed, response.body, url=response.url, content_type=kind)
    try:
        return feed, response, await asyncio.to_thread(read) if len(response.body) > _THREAD_FROM else read()
    except NotAFeed:
        if feed.format or not is_web_page(response.body):
            raise  # it has been a feed before: a page in its place is an error of the day
    from canonry.net.html import feed_links

    links = await asyncio.to_thread(feed_links, response.body, url=response.url, content_type=kind)
    if not links:
        raise NotAFeed(feed.url, "a web page that names no feed")
    url = plain(links[0].url)
    answer = await polling.fetch(url, **({"came_from": response.address} if response.address else {}))
    require_ok(answer, polling.clock())
    found = read_feed(answer.body, url=answer.url, content_type=answer.header("content-type"))
    if not await store.adopt(feed.id, url):
        raise NotAFeed(feed.url, f"a web page; its feed {masked(url)} is kept already")
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
    is_known = any(item.outcome is not Outcome.NEW for item in merged.items)
    if sightings < _ADOPT_AFTER or not is_known or not await store.adopt(feed.id, target):
        await store.set_moved(feed.id, target, sightings)


def _next_check(response: Response, ttl: int | None, now: datetime, polling: Polling) -> datetime:
    """When to ask again: not before the feed's ttl or the answer's age is over."""
    wait = polling.interval
    if ttl:
        wait = max(wait, timedelta(minutes=min(ttl, 10_000)))
    age = re.search(r"max-age\s*=\s*\"?(\d{1,9})", response.header("cache-control"), re.IGNORECASE)
    if age:
        wait = max(wait, timedelta(seconds=int(age[1])))
    return now + min(wait, _LONGEST) * (0.95 + polling.chance() / 10)


def _spent(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)


def masked_key(key: str) -> str:
    """A key as it is shown: those of a feed with credentials in its URL begin with that URL."""
    return re.sub(r"\A((?:guid:)?https?://)[^/?#\s]*@", r"\1***@", key)


def _shown(key: Key) -> Key:
    return replace(key, key_value=masked_key(key.key_value)) if "@" in key.key_value else key


class _Memory:
    """The store of a run; where it cannot be used, one in memory, with a warning."""

    def __init__(self, store: str | Database, warnings: list[str]) -> None:
        self._warnings = warnings
        self.is_lasting = True
        self._opened: list[Database] = []
        if isinstance(store, Database):
            self.store = FeedStore(store)
            return
        try:
            self.store = FeedStore(self._open(store or _default_url()))
        except StoreError as error:
            self._fall_back(error)

    def close(self) -> None:
        for database in self._opened:
            database.close()

    def _open(self, url: str) -> Database:
        database = Database(url, say=self._warnings.append)
        self._opened.append(database)
        return database

    def _fall_back(self, error: StoreError) -> None:
        self.is_lasting = False
        self._warnings.append(f"{error}; this run keeps what it has seen in memory only")
        self.store = FeedStore(self._open("sqlite://"))

    async def do(self, work: Callable[[FeedStore], Any]) -> Any:
        """Work with the store, or with one in memory once it is lost."""
        store = self.store
        try:
            return await work(store)
        except RekeyUnfinished:
            raise  # it is there, and says what to do first
        except StoreError as error:
            if not self.is_lasting and store is self.store:
                raise
            if store is self.store:
                self._fall_back(error)
            return await work(self.store)


def _default_url() -> str:
    from canonry.settings import load_settings

    return load_settings().database_url


class _Hosts:
    """At most so many requests at once to one host, and a pause between two."""

    def __init__(self, per_host: int, delay: float) -> None:
        self._per_host = per_host
        self._delay = delay
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._users: Counter[str] = Counter()
        self._free_at: dict[str, float] = {}

    @asynccontextmanager
    async def slot(self, url: str) -> AsyncGenerator[None]:
        host = parse(url).host
        slots = self._slots.setdefault(host, asyncio.Semaphore(self._per_host))
        self._users[host] += 1
        try:
            async with slots:
                if self._delay:
                    now = time.monotonic()
                    begin = max(now, self._free_at.get(host, 0.0))
                    self._free_at[host] = begin + self._delay
                    await asyncio.sleep(begin - now)
                yield
        finally:
            self._users[host] -= 1
            if not self._users[host]:  # of many thousands of hosts only those that are being asked are kept
                del self._users[host], self._slots[host]


def _spread(urls: Iterable[str]) -> list[str]:
    """The URLs in turns, one of each host after the other: no worker waits at a busy host while others are idle."""
    turns: Counter[str] = Counter()
    ordered: list[tuple[int, str]] = []
    for url in urls:
        host = parse(url).host
        ordered.append((turns[host], url))
        turns[host] += 1
    return [url for _, url in sorted(ordered, key=lambda turn: turn[0])]


class _Run:
    """One run over many feeds."""

    def __init__(
        self,
        memory: _Memory,
        polling: Polling,
        hosts: _Hosts,
        report: Report,
        *,
        on_item: Callable[[ItemRecord], object] | None,
        on_feed: Callable[[FeedOutcome], object] | None,
    ) -> None:
        self.memory = memory
        self.polling = replace(polling, fetch=partial(self._counted, polling.fetch))
        self.hosts = hosts
        self.report = report
        self.on_item = on_item or report.items.append
        self.on_feed: Callable[[FeedOutcome], object] = on_feed or (lambda _: None)
        self.were_conditional = self.could_be_conditional = 0
        self.without_key = 0
        self.last: deque[MergedItem] = deque(maxlen=100)  # new and updated

    async def run(self, feed_urls: Iterable[str], concurrency: int) -> None:
        started = self.polling.clock()
        run_id = await self.memory.do(lambda store: start_run(store.database, started))
        urls = iter(_spread(self._readable(feed_urls)))

        async def work() -> None:
            for url in urls:  # one iterator, shared: each worker takes the next
                await self._poll(url)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(work())
        except BaseExceptionGroup as errors:  # what a callback raised reaches the caller as it is
            raise errors.exceptions[0] from None
        self.report.checklist.extend(await self._checked())
        finished = self.polling.clock()
        await self.memory.do(lambda store: finish_run(store.database, run_id, finished, self.report.counts))

    def _readable(self, feed_urls: Iterable[str]) -> Iterable[str]:
        seen: set[str] = set()
        for text in feed_urls:
            try:
                url = plain(read_url(text))
            except InvalidUrl as error:
                self._done(FeedOutcome(masked(str(text)), FeedResult.FAILED, error.reason))
                continue
            if url not in seen:
                seen.add(url)
                yield url

    async def _poll(self, url: str) -> None:
        async def work(store: FeedStore) -> tuple[FeedOutcome, MergedFeed]:
            feed, _ = await store.add(url, self.polling.clock())
            is_waiting = False
            try:
                outcome, merged = await poll_feed(feed, store, self.polling)
                is_waiting = outcome.result is FeedResult.WAITING
                return outcome, merged
            finally:  # also where the store is lost after the request
                self.could_be_conditional += bool(feed.etag or feed.last_modified) and not is_waiting

        async with self.hosts.slot(url):
            outcome, merged = await self.memory.do(work)
        shown_url = masked(outcome.feed_url)
        for item in merged.items:
            self._look_at(shown_url, item)
        self._done(outcome)

    async def _counted(self, fetch: Fetch, url: str, **options: Any) -> Response:
        """A fetch that counts the requests with a condition."""
        self.were_conditional += options.get("validators", Validators()) != Validators()
        return await fetch(url, **options)

    def _look_at(self, shown_url: str, item: MergedItem) -> None:
        self.without_key += not item.keys
        if item.outcome is Outcome.DUPLICATE:
            return
        self.last.append(item)
        self.on_item(
            ItemRecord(
                item.outcome,
                shown_url,
                item.title,
                item.url,
                tuple(map(_shown, item.keys)),
                masked_key(item.dedupe_key),
                item.match_confidence,
                item.first_seen_at,
                item.last_seen_at,
            )
        )

    def _done(self, outcome: FeedOutcome) -> None:
        report = self.report
        report.feeds.append(outcome)
        report.new += outcome.new
        report.updated += outcome.updated
        report.duplicate += outcome.duplicate
        report.no_change += outcome.result is FeedResult.NO_CHANGE
        report.failed += outcome.result in {FeedResult.FAILED, FeedResult.STOPPED}
        self.on_feed(outcome)

    async def _checked(self) -> list[Check]:
        """The checklist of seed 001, looked at rather than ticked off."""
        ids = sorted({item.entry_id for item in self.last})
        kept = await self.memory.do(lambda store: store.count(ids))
        not_canonical = sum(
            key.key_value != url_key(item.url, policy=key.policy)
            for item in self.last
            for key in item.keys
            if key.key_type is KeyType.CANONICAL_URL
        )
        texts = {"text", "content", "summary", "description"} & set(entries.c.keys())
        lasting = "in the store" if self.memory.is_lasting else "in memory only"
        return [
            Check(
                "URL canonicalization was applied before dedupe",
                not not_canonical,
                f"{not_canonical} not, of the last {len(ids)} new and updated entries",
            ),
            Check(
                "Conditional request state was applied when available",
                self.were_conditional == self.could_be_conditional,
                f"{self.were_conditional} of {self.could_be_conditional} requests",
            ),
            Check(
                "Every output item has at least one stable identity key",
                not self.without_key,
                f"{self.without_key} without",
            ),
            Check(
                "Feed and entry metadata were persisted successfully",
                self.memory.is_lasting and kept == len(ids),
                f"{kept} of the last {len(ids)} new and updated entries {lasting}",
            ),
            Check("No full-text extraction and no summarization were performed", not texts, "entries have no text"),
        ]
