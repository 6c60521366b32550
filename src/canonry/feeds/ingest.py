"""Ingest: poll feeds at any cadence, store each item once (contract I).

`poll_feed` (polling.py) polls one feed. A run polls many at once, few at one host, with one transaction for each
feed, and reports what happened to every feed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from canonry.core.url import parse, read_url
from canonry.errors import FailureKind, InvalidUrl, mask_credentials
from canonry.feeds.changes import CHANGES_RETENTION, ChangeFeed
from canonry.feeds.fallback_store import FallbackStore
from canonry.feeds.host_slots import HostSlots
from canonry.feeds.ingest_checklist import RunEvidence, check_run, load_sample
from canonry.feeds.ingest_report import FeedOutcome, FeedResult, Report, make_ingested_item, make_record
from canonry.feeds.item_matching import ItemOutcome
from canonry.feeds.polling import SEEN_TTL_DAYS, Polling, poll_feed
from canonry.feeds.runs import finish_run, start_run
from canonry.net.concurrency import run_together
from canonry.net.origin import Origin
from canonry.net.response import Validators
from canonry.net.search_fetcher import strip_fragment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.feed_values import FeedState, MergedFeed
    from canonry.feeds.ingest_checklist import StoredSample
    from canonry.feeds.ingest_report import IngestedItem
    from canonry.feeds.item_links import LinkCounts
    from canonry.net.response import Fetch, Response
    from canonry.store.database import Database

_CONCURRENCY = 64
_MAX_REQUESTS_PER_HOST = 2
_LOOKUP_BATCH_FEEDS = 100  # looked up in the store at once
_NO_VALIDATORS = Validators()


async def ingest(
    feed_urls: Iterable[str],
    store: str | Database = "",
    *,
    fetch: Fetch | None = None,
    seen_ttl_days: int = SEEN_TTL_DAYS,
    concurrency: int = _CONCURRENCY,
    per_host: int = _MAX_REQUESTS_PER_HOST,
    delay: float = 0.0,
    origins: Mapping[str, Origin] | None = None,
    force: bool = False,
    only_stored: bool = False,
    fetch_links: bool = False,
    on_item: Callable[[IngestedItem], object] | None = None,
    on_feed: Callable[[FeedOutcome], object] | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Report:
    """Poll these feeds once and store each item once; feeds that fail are in the report and do not stop the others.

    `store` is a database URL (default: that of the settings) or an open `Database`. At most `per_host`
    requests at once go to one host, `delay` seconds apart. `origins` says who named a URL that no person
    typed, such as the URL of a stored feed. With `force`, requests are sent without validators, so that no server
    answers "not modified". With `only_stored`, for URLs that were listed from the store, a feed that has been removed
    since is not added again. With `fetch_links`, links of new items are fetched at the end, a bounded number, to learn
    which other URL shows the same page (`Report.links`). `on_item` receives new and updated items, with their texts,
    when they are stored; `on_feed` every feed when it is done. An exception of a callback ends the run and is raised;
    what is stored stays stored, and the change feed has what the callback did not get.
    """
    async with AsyncExitStack() as stack:
        report = Report()
        if fetch is None:
            from canonry.net.fetch import Client

            fetch = (await stack.enter_async_context(Client())).fetch
        stores = FallbackStore(store, report.warnings)
        stack.callback(stores.close)
        run = _Run(
            stores,
            Polling(fetch, seen_ttl_days, clock=clock, is_forced=force),
            HostSlots(per_host, delay),
            report,
            origins=origins or {},
            only_stored=only_stored,
            on_item=on_item,
            on_feed=on_feed,
        )
        await run.run(feed_urls, concurrency)
        if fetch_links and stores.is_persistent:
            report.links = await _read_links(stores.store.database, fetch, clock)
        return report


async def _read_links(database: Database, fetch: Fetch, clock: Callable[[], datetime]) -> LinkCounts:
    from canonry.feeds.item_links import LinkReading
    from canonry.settings import load_settings

    return await LinkReading(database, fetch, clock=clock, user_agent=load_settings().user_agent).read_due()


@dataclass(frozen=True, slots=True)
class _QueuedFeed:
    """A feed that is about to be polled, as the store had it."""

    url: str
    feed: FeedState
    store: FeedStore


@dataclass(frozen=True, slots=True)
class _PolledFeed:
    feed_id: int
    outcome: FeedOutcome
    merged: MergedFeed
    is_persistent: bool  # stored in the database, not in memory


class _Run:
    """One run over many feeds."""

    def __init__(
        self,
        store: FallbackStore,
        polling: Polling,
        hosts: HostSlots,
        report: Report,
        *,
        origins: Mapping[str, Origin],
        only_stored: bool,
        on_item: Callable[[IngestedItem], object] | None,
        on_feed: Callable[[FeedOutcome], object] | None,
    ) -> None:
        self.store = store
        self.polling = replace(polling, fetch=partial(self._fetch_and_count, polling.fetch))
        self.hosts = hosts
        self.report = report
        self.origins = origins
        self.only_stored = only_stored
        self.on_item = on_item
        self.on_feed: Callable[[FeedOutcome], object] = on_feed or (lambda _: None)
        self.evidence = RunEvidence()
        self.queue: deque[_QueuedFeed] = deque()
        self.queue_lock = asyncio.Lock()

    async def run(self, feed_urls: Iterable[str], concurrency: int) -> None:
        started = self.polling.clock()
        run_id = await self.store.run(lambda store: start_run(store.database, started))
        urls = iter(_interleave_hosts(self._parse_urls(feed_urls)))

        async def work() -> None:
            while (queued := await self._take_next(urls)) is not None:
                await self._poll(queued)

        await run_together(work() for _ in range(concurrency))
        await self._check()
        finished = self.polling.clock()
        await self.store.run(lambda store: finish_run(store.database, run_id, finished, self.report.counts))
        await self.store.run(lambda store: ChangeFeed(store.database).delete_before(finished - CHANGES_RETENTION))

    def _parse_urls(self, feed_urls: Iterable[str]) -> Iterable[str]:
        """Yield each URL once; report texts that are not URLs."""
        seen: set[str] = set()
        for text in feed_urls:
            try:
                url = strip_fragment(read_url(text))
            except InvalidUrl as error:
                shown = mask_credentials(str(text))
                self._add_outcome(FeedOutcome(shown, FeedResult.FAILED, error.reason, failure=FailureKind.INVALID_URL))
                continue
            if url not in seen:
                seen.add(url)
                yield url

    async def _take_next(self, urls: Iterator[str]) -> _QueuedFeed | None:
        """Return the next feed to poll, None after the last; the store is queried for many feeds at once."""
        async with self.queue_lock:
            while not self.queue and (batch := list(islice(urls, _LOOKUP_BATCH_FEEDS))):
                found = await self.store.run(partial(self._find_or_add, urls=batch))
                for url in batch:
                    if url in found:
                        self.queue.append(found[url])
                    else:
                        reason = "the feed was removed before it was polled"
                        self._add_outcome(FeedOutcome(url, FeedResult.REMOVED, reason))
        return self.queue.popleft() if self.queue else None

    async def _find_or_add(self, store: FeedStore, urls: list[str]) -> dict[str, _QueuedFeed]:
        if self.only_stored and self.store.knows_feeds:
            found = await store.find_all(urls)
        else:
            origins = {url: self._get_origin(url) for url in urls}
            feeds = await store.add_all(urls, self.polling.clock(), origins=origins)
            found = dict(zip(urls, feeds, strict=True))
        return {url: _QueuedFeed(url, feed, store) for url, feed in found.items()}

    async def _poll(self, queued: _QueuedFeed) -> None:
        async def work(store: FeedStore) -> _PolledFeed:
            feed = queued.feed
            if store is not queued.store:  # the run has fallen back to another store since
                feed, _ = await store.add(queued.url, self.polling.clock(), origin=self._get_origin(queued.url))
            if feed.url == queued.url and self._get_origin(feed.url) is Origin.PERSON:
                feed = replace(feed, origin=Origin.PERSON)  # typed by a person for this run
            was_fetched = True
            is_persistent = self.store.is_persistent  # another feed of the run may change it meanwhile
            try:
                outcome, merged = await poll_feed(feed, store, self.polling)
                was_fetched = outcome.result is not FeedResult.WAITING
                return _PolledFeed(feed.id, outcome, merged, is_persistent)
            finally:  # also when the store fails after the request
                has_validators = bool(feed.etag or feed.last_modified) and not self.polling.is_forced
                self.evidence.conditional_expected += was_fetched and has_validators

        async with self.hosts.acquire(parse(queued.url).host):
            polled = await self.store.run(work)
        shown_url = mask_credentials(polled.outcome.feed_url)
        for item in polled.merged.items:
            self.evidence.add_item(polled.feed_id, item, is_stored=polled.is_persistent)
            if item.outcome is not ItemOutcome.DUPLICATE:
                number = item.number if polled.is_persistent else None  # a number in memory means nothing
                if self.on_item is None:
                    self.report.items.append(make_record(item, shown_url, number=number))
                else:
                    self.on_item(make_ingested_item(item, shown_url, number=number))
        self._add_outcome(polled.outcome)

    def _get_origin(self, url: str) -> Origin:
        return self.origins.get(url, Origin.PERSON)

    async def _fetch_and_count(self, fetch: Fetch, url: str, **options: Any) -> Response:
        self.evidence.conditional_requests += options.get("validators", _NO_VALIDATORS) != _NO_VALIDATORS
        return await fetch(url, **options)

    def _add_outcome(self, outcome: FeedOutcome) -> None:
        self.report.add(outcome)
        self.on_feed(replace(outcome, feed_url=mask_credentials(outcome.feed_url)))

    async def _check(self) -> None:
        async def load(store: FeedStore) -> tuple[StoredSample, bool]:
            is_persistent = self.store.is_persistent
            sample = self.evidence.select_sample(is_persistent=is_persistent)
            work = partial(load_sample, entry_ids=sample.entry_ids, numbers=sample.change_numbers)
            return await store.database.read(work), is_persistent

        stored, is_persistent = await self.store.run(load)
        self.report.checklist.extend(check_run(self.evidence, stored, is_persistent=is_persistent))
        self.report.unstored = self.evidence.unstored_items


def _interleave_hosts(urls: Iterable[str]) -> list[str]:
    """Return the first URL of every host, then the second of every host and so on, so that few workers share a host."""
    counts: Counter[str] = Counter()
    rounds: defaultdict[int, list[str]] = defaultdict(list)
    for url in urls:
        host = parse(url).host
        rounds[counts[host]].append(url)
        counts[host] += 1
    return [url for number in sorted(rounds) for url in rounds[number]]
