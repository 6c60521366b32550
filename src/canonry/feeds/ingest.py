"""Ingest: poll feeds at any cadence, keep each item once (contract I).

The story of one feed is `poll_feed` (polling.py), that of a run `_Run.run`: many feeds at once, few at one
host, one transaction for each, and a report that says what happened to every one of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from canonry.core.keys import KeyType, make_url_key
from canonry.core.url import parse, read_url
from canonry.errors import InvalidUrl, StoreError, mask_credentials
from canonry.feeds.canonicalize.fetcher import strip_fragment
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.ingest_report import Check, FeedOutcome, FeedResult, ItemRecord, Report, record_of
from canonry.feeds.item_matching import ItemOutcome
from canonry.feeds.polling import SEEN_TTL_DAYS, Polling, poll_feed
from canonry.feeds.runs import finish_run, start_run
from canonry.net.response import Validators
from canonry.store.database import Database
from canonry.store.pinned_policies import RekeyUnfinished
from canonry.store.schema import entries
from canonry.store.schema_versions import NewerStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator

    from canonry.feeds.feed_values import FeedState, MergedFeed, MergedItem
    from canonry.net.response import Fetch, Response

_CONCURRENCY = 64
_PER_HOST = 2
_AHEAD = 100  # feeds that are looked up in one go
_NO_VALIDATORS = Validators()


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
        except NewerStore:
            raise  # it is there: what is missing is a newer canonry
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


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A feed that is about to be polled, as this store knows it."""

    url: str
    feed: FeedState
    store: FeedStore


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
        self.ahead: deque[_Waiting] = deque()
        self.looking_ahead = asyncio.Lock()

    async def run(self, feed_urls: Iterable[str], concurrency: int) -> None:
        started = self.polling.clock()
        run_id = await self.memory.do(lambda store: start_run(store.database, started))
        urls = iter(_spread(self._readable(feed_urls)))

        async def work() -> None:
            while (waiting := await self._next(urls)) is not None:
                await self._poll(waiting)

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
                url = strip_fragment(read_url(text))
            except InvalidUrl as error:
                self._done(FeedOutcome(mask_credentials(str(text)), FeedResult.FAILED, error.reason))
                continue
            if url not in seen:
                seen.add(url)
                yield url

    async def _next(self, urls: Iterator[str]) -> _Waiting | None:
        """The next feed; the store is asked for many at once."""
        async with self.looking_ahead:
            if not self.ahead and (some := list(islice(urls, _AHEAD))):

                async def add(store: FeedStore) -> None:
                    feeds = await store.add_all(some, self.polling.clock())
                    self.ahead.extend(_Waiting(url, feed, store) for url, feed in zip(some, feeds, strict=True))

                await self.memory.do(add)
        return self.ahead.popleft() if self.ahead else None

    async def _poll(self, waiting: _Waiting) -> None:
        async def work(store: FeedStore) -> tuple[FeedOutcome, MergedFeed]:
            feed = waiting.feed
            if store is not waiting.store:  # that one is lost
                feed, _ = await store.add(waiting.url, self.polling.clock())
            is_waiting = False
            try:
                outcome, merged = await poll_feed(feed, store, self.polling)
                is_waiting = outcome.result is FeedResult.WAITING
                return outcome, merged
            finally:  # also where the store is lost after the request
                self.could_be_conditional += bool(feed.etag or feed.last_modified) and not is_waiting

        async with self.hosts.slot(waiting.url):
            outcome, merged = await self.memory.do(work)
        shown_url = mask_credentials(outcome.feed_url)
        for item in merged.items:
            self._look_at(shown_url, item)
        self._done(outcome)

    async def _counted(self, fetch: Fetch, url: str, **options: Any) -> Response:
        """A fetch that counts the requests with a condition."""
        self.were_conditional += options.get("validators", _NO_VALIDATORS) != _NO_VALIDATORS
        return await fetch(url, **options)

    def _look_at(self, shown_url: str, item: MergedItem) -> None:
        self.without_key += not item.keys
        if item.outcome is ItemOutcome.DUPLICATE:
            return
        self.last.append(item)
        self.on_item(record_of(item, shown_url))

    def _done(self, outcome: FeedOutcome) -> None:
        report = self.report
        report.feeds.append(outcome)
        report.new += outcome.new
        report.updated += outcome.updated
        report.duplicate += outcome.duplicate
        report.no_change += outcome.result is FeedResult.NO_CHANGE
        report.failed += outcome.result in {FeedResult.FAILED, FeedResult.STOPPED}
        self.on_feed(replace(outcome, feed_url=mask_credentials(outcome.feed_url)))

    async def _checked(self) -> list[Check]:
        """The checklist of seed 001, looked at rather than ticked off."""
        ids = sorted({item.entry_id for item in self.last})
        kept = await self.memory.do(lambda store: store.count(ids))
        not_canonical = sum(
            key.key_value != make_url_key(item.url, policy=key.policy)
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
