"""The crawls of a database and their pages (contract C6); leasing and recording pages is in frontier.py."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from canonry.crawler import frontier
from canonry.crawler.crawl_options import parse_options
from canonry.crawler.known_pages import add_pages, follow_deeper
from canonry.crawler.page_choice import change_rules
from canonry.crawler.pages import Page, PageLink, mask_url, select_external
from canonry.crawler.reasons import CrawlFailure, CrawlFailureKind, SkipReason
from canonry.crawler.results import RECORDED, PageChange, PageOutcome, PageState, PageUrl, judge_outcome
from canonry.crawler.sitemap_lease import (
    NOT_LEASED,
    SitemapFailure,
    finish_sitemaps,
    may_read_again,
    read_failures,
    release_sitemaps,
)
from canonry.errors import TRANSIENT_FAILURES, CrawlNotFound, FailureKind
from canonry.net.origin import Origin
from canonry.net.page_facts import parse_facts
from canonry.store.schema import crawl_pages, crawls, stamp

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from canonry.core.policy import Policy
    from canonry.crawler.crawl_options import CrawlOptions
    from canonry.crawler.results import FrontierBatch, Outage, PageResult
    from canonry.errors import FetchFailed
    from canonry.store.database import Database


class CrawlState(StrEnum):
    """Whether a crawl still runs, and how it ended."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    PAUSED = "paused"  # the site stopped answering; resuming continues


@dataclass(frozen=True, slots=True)
class Crawl:
    """A crawl. `address` is the IP address that answered for the start page, `taken` counts pages ever opened."""

    id: int
    seed: str
    host: str
    options: CrawlOptions
    state: CrawlState
    failure: CrawlFailure | None
    address: str
    taken: int
    started_at: str
    finished_at: str | None
    outage: Outage | None = None
    previous_id: int | None = None  # the earlier crawl with which this one is compared
    sitemap_failures: tuple[SitemapFailure, ...] = ()

    @property
    def moved_to(self) -> str:
        """The URL on another host that the start page redirects to; empty if the start page is on its host."""
        return "" if self.failure is None else self.failure.target


class StoredPage(NamedTuple):
    """A recorded page; the id is the cursor for `list_pages`."""

    id: int
    page: Page


@dataclass(frozen=True, slots=True)
class Counts:
    """The progress of a crawl: pages by state, skipped ones by reason; `followed` counts links to pages of the site.

    `outcomes` counts the pages that are done in the words of all outputs, `changes` those that differ from the earlier
    crawl or do not.
    """

    queued: int = 0
    fetching: int = 0
    done: int = 0
    failed: int = 0
    skipped: Mapping[SkipReason, int] = field(default_factory=dict[SkipReason, int])
    followed: int = 0
    outcomes: Mapping[PageOutcome, int] = field(default_factory=Counter[PageOutcome])
    changes: Mapping[PageChange, int] = field(default_factory=Counter[PageChange])

    @property
    def known(self) -> int:
        """How many pages the frontier has."""
        return self.queued + self.fetching + self.done + self.failed + sum(self.skipped.values())

    @property
    def duplicates_avoided(self) -> int:
        """How many links led to known pages: without normalization, each of them might have caused a request."""
        repeated_links = self.followed - (self.known - 1)
        return max(0, repeated_links) + self.skipped.get(SkipReason.REDIRECT_TO_PAGE, 0)


_CRAWL_COLUMNS = [
    crawls.c[name]
    for name in (
        *("id", "seed", "host", "options", "state", "failure", "failure_kind", "moved_to", "address", "taken"),
        *("started_at", "finished_at", "down_since", "paused_until", "previous_id", "sitemap_failures"),
    )
]
_PAGE_COLUMNS = [
    crawl_pages.c[name]
    for name in (
        *("id", "url", "requested_url", "final_url", "status", "title", "depth", "engine", "links", "error"),
        *("failure", "state", "facts", "referrer", "finished_at", "change", "text_hash", "simhash", "words"),
        "repeats_url",
    )
]


class CrawlStore:
    """The crawls of a database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def start(
        self,
        seed: PageUrl,
        host: str,
        options: CrawlOptions,
        now: datetime,
        *,
        name: str = "",
        previous_id: int | None = None,
    ) -> Crawl:
        """Store a new crawl whose first page is queued; it is found by the URL `name`, or else by that of the page.

        Its pages are compared with those of the crawl `previous_id`.
        """

        def work(connection: Connection) -> Crawl:
            texts = {"seed": name or seed.url, "host": host, "options": options.to_json(), "started_at": stamp(now)}
            values = {**texts, "previous_id": previous_id, "sitemaps_until": NOT_LEASED if options.sitemaps else None}
            crawl = _make_crawl(connection.execute(insert(crawls).values(values).returning(*_CRAWL_COLUMNS)).one())
            add_pages(connection, crawl.id, [seed], depth=0, referrer="")
            return crawl

        return await self.database.write(work)

    async def get(self, crawl_id: int) -> Crawl:
        """Return a crawl; CrawlNotFound if there is none with this id."""
        query = select(*_CRAWL_COLUMNS).where(crawls.c.id == crawl_id)
        row = await self.database.read(lambda connection: connection.execute(query).first())
        if row is None:
            raise CrawlNotFound(crawl_id)
        return _make_crawl(row)

    async def find_latest(self, seed: str, *, state: CrawlState | None = None) -> Crawl | None:
        """Return the latest crawl that started at this normalized URL; with `state`, the latest in that state."""
        query = select(*_CRAWL_COLUMNS).where(crawls.c.seed == seed).order_by(crawls.c.id.desc()).limit(1)
        if state is not None:
            query = query.where(crawls.c.state == state)
        row = await self.database.read(lambda connection: connection.execute(query).first())
        return None if row is None else _make_crawl(row)

    async def list_crawls(
        self, limit: int = 100, *, before: int | None = None, state: CrawlState | None = None
    ) -> list[Crawl]:
        """Return crawls, the latest first: those with an id below `before`, those in a state."""
        query = select(*_CRAWL_COLUMNS).order_by(crawls.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(crawls.c.id < before)
        if state is not None:
            query = query.where(crawls.c.state == state)
        return await self.database.read(lambda connection: [_make_crawl(row) for row in connection.execute(query)])

    async def remove(self, crawl_id: int) -> None:
        """Delete a crawl and its pages; processes that work on it stop."""
        change = delete(crawls).where(crawls.c.id == crawl_id)
        if not await self.database.write(lambda connection: connection.execute(change).rowcount):
            raise CrawlNotFound(crawl_id)

    async def stop(self, crawl_id: int, now: datetime) -> Crawl:
        """Stop a running crawl: no more pages are leased. A crawl that is over does not change."""
        values = {"state": CrawlState.STOPPED, "finished_at": stamp(now)}
        change = update(crawls).where(crawls.c.id == crawl_id, crawls.c.state == CrawlState.RUNNING).values(values)
        await self.database.write(lambda connection: connection.execute(change))
        return await self.get(crawl_id)

    async def reopen(self, crawl_id: int, options: CrawlOptions) -> None:
        """Let a crawl continue, under these options.

        Pages that another attempt may read are queued again, and pages that a lower maximum depth left out are queued.
        The sitemaps are read again, unless the crawl was done with them and another attempt would not help.
        """
        values = {"state": CrawlState.RUNNING, "finished_at": None, "options": options.to_json()}
        values |= {"failure": "", "failure_kind": "", "moved_to": "", "down_since": None, "paused_until": None}
        queued = {"state": PageState.QUEUED, "attempts": 0, "retry_at": None, "is_last_retry": 0}
        retry = (
            update(crawl_pages)
            .where(crawl_pages.c.crawl_id == crawl_id, crawl_pages.c.state == PageState.FAILED)
            .where(crawl_pages.c.failure.in_(TRANSIENT_FAILURES))
            .values(queued)
        )

        def work(connection: Connection) -> None:
            names = ("options", "state", "sitemaps_until", "sitemap_failures")
            stored = select(*[crawls.c[name] for name in names]).where(crawls.c.id == crawl_id)
            row = connection.execute(stored.with_for_update()).one()
            before = parse_options(row.options)
            until = row.sitemaps_until if options.sitemaps else None
            is_read = before.sitemaps and row.state == CrawlState.DONE and not may_read_again(row.sitemap_failures)
            if options.sitemaps and until is None and not is_read:
                until = NOT_LEASED
            change = update(crawls).where(crawls.c.id == crawl_id).values(**values, sitemaps_until=until)
            connection.execute(change)
            connection.execute(retry)
            waiting = (crawl_pages.c.crawl_id == crawl_id, crawl_pages.c.state == PageState.QUEUED)
            connection.execute(update(crawl_pages).where(*waiting).values(retry_at=None))
            change_rules(
                connection,
                crawl_id,
                trap_pages=options.trap_pages,
                sessions=options.sessions,
                learn=options.learn,
                is_trap_change=options.trap_pages != before.trap_pages,
            )
            if before.depth is not None and (options.depth is None or options.depth > before.depth):
                follow_deeper(connection, crawl_id, before=before.depth, max_depth=options.depth)

        await self.database.write(work)

    async def has_retries(self, crawl_id: int) -> bool:
        """Return whether pages or sitemaps failed that another attempt may read."""
        pages = (
            select(crawl_pages.c.id)
            .where(crawl_pages.c.crawl_id == crawl_id, crawl_pages.c.state == PageState.FAILED)
            .where(crawl_pages.c.failure.in_(TRANSIENT_FAILURES))
            .limit(1)
        )
        sitemaps = select(crawls.c.sitemap_failures).where(crawls.c.id == crawl_id)

        def work(connection: Connection) -> bool:
            if connection.execute(pages).first() is not None:
                return True
            return may_read_again(connection.execute(sitemaps).scalar() or "[]")

        return await self.database.read(work)

    async def fail(self, crawl_id: int, failure: CrawlFailure, now: datetime) -> None:
        """End a crawl that cannot begin."""
        values = {"state": CrawlState.FAILED, "finished_at": stamp(now), "failure_kind": failure.kind}
        await self._update(crawl_id, values | {"failure": failure.detail, "moved_to": failure.target})

    async def pause(self, crawl_id: int, failure: CrawlFailure, now: datetime) -> None:
        """End a running crawl whose site does not answer; resuming continues it."""
        values = {"state": CrawlState.PAUSED, "finished_at": stamp(now), "down_since": None, "paused_until": None}
        values |= {"failure_kind": failure.kind, "failure": failure.detail}
        change = update(crawls).where(crawls.c.id == crawl_id, crawls.c.state == CrawlState.RUNNING).values(values)
        await self.database.write(lambda connection: connection.execute(change))

    async def set_outage(self, crawl_id: int, outage: Outage | None) -> None:
        """Store since when the site does not answer and until when no page is opened, or that it answers again."""
        since, until = (None, None) if outage is None else (stamp(outage.since), stamp(outage.paused_until))
        await self._update(crawl_id, {"down_since": since, "paused_until": until})

    async def find_read_page(self, crawl_id: int, site: str) -> PageUrl | None:
        """Return the first page of a site, such as `https://example.com`, that got an answer."""
        query = (
            select(crawl_pages.c.url, crawl_pages.c.requested_url, crawl_pages.c.origin)
            .where(crawl_pages.c.crawl_id == crawl_id, crawl_pages.c.state == PageState.DONE)
            .where(crawl_pages.c.requested_url.startswith(f"{site}/", autoescape=True))
            .order_by(crawl_pages.c.depth, crawl_pages.c.id)
            .limit(1)
        )
        row = await self.database.read(lambda connection: connection.execute(query).first())
        return None if row is None else PageUrl(row.url, row.requested_url, Origin.parse(row.origin))

    async def set_start(self, crawl_id: int, host: str, address: str) -> None:
        """Store which host is crawled, and the address that answered for the start page."""
        await self._update(crawl_id, {"host": host, "address": address})

    async def add(self, crawl_id: int, pages: Sequence[PageUrl], *, depth: int, referrer: str) -> None:
        """Queue pages that are not known yet; nothing happens if the crawl was removed."""

        def work(connection: Connection) -> None:
            if connection.execute(select(crawls.c.id).where(crawls.c.id == crawl_id).with_for_update()).first():
                add_pages(connection, crawl_id, pages, depth, referrer)

        await self.database.write(work)

    async def record_and_lease(
        self,
        crawl_id: int,
        owner: str,
        results: Sequence[PageResult],
        options: CrawlOptions,
        *,
        want: int,
        now: datetime,
        renews: bool = False,
        learn_policy: Policy | None = None,
    ) -> FrontierBatch:
        """Record the results of pages that this owner leased, and lease up to `want` more, in one transaction.

        The options limit the pages and their depth, and say which pages are skipped. `renews` extends the leases that
        the owner holds. With `want` 0 the crawl does not end, even if no page is left: the owner may have more pages to
        add. With `learn_policy`, the policy of the crawl, learned rules are used.
        """
        work = partial(
            frontier.record_and_lease,
            crawl_id=crawl_id,
            owner=owner,
            results=results,
            options=options,
            want=want,
            now=now,
            renews=renews,
            learn_policy=learn_policy,
        )
        return await self.database.write(work)

    async def release(self, crawl_id: int, owners: Collection[str]) -> None:
        """Return the pages that these owners leased to the queue; another process may read their sitemaps."""
        change = (
            update(crawl_pages)
            .where(crawl_pages.c.crawl_id == crawl_id, crawl_pages.c.state == PageState.FETCHING)
            .where(crawl_pages.c.lease.in_(owners))
            .values(state=PageState.QUEUED, lease="", lease_until=None)
        )

        def work(connection: Connection) -> None:
            connection.execute(change)
            release_sitemaps(connection, crawl_id, owners)

        await self.database.write(work)

    async def finish_sitemaps(self, crawl_id: int, owner: str, failures: Sequence[FetchFailed]) -> None:
        """Store that this owner has read the sitemaps to the end, except these."""
        await self.database.write(lambda connection: finish_sitemaps(connection, crawl_id, owner, failures))

    async def list_owners(self, crawl_id: int) -> list[str]:
        """Return the owners that hold leases."""
        pages = select(crawl_pages.c.lease).where(
            crawl_pages.c.crawl_id == crawl_id, crawl_pages.c.state == PageState.FETCHING
        )
        sitemaps = select(crawls.c.sitemaps_lease).where(crawls.c.id == crawl_id, crawls.c.sitemaps_lease != "")
        query = pages.union(sitemaps)
        return await self.database.read(lambda connection: list(connection.execute(query).scalars()))

    async def list_pages(self, crawl_id: int, *, after: int = 0, limit: int = 200) -> list[StoredPage]:
        """Return recorded pages with an id above `after`, in the order in which they were found."""
        query = (
            select(*_PAGE_COLUMNS)
            .where(crawl_pages.c.crawl_id == crawl_id, crawl_pages.c.id > after, crawl_pages.c.state.in_(RECORDED))
            .order_by(crawl_pages.c.id)
            .limit(limit)
        )
        return await self.database.read(lambda connection: [_make_page(row) for row in connection.execute(query)])

    async def count_pages(self, crawl_id: int) -> Counts:
        """Return the progress of a crawl."""
        return await self.database.read(partial(_count_pages, crawl_id=crawl_id))

    async def _update(self, crawl_id: int, values: Mapping[str, Any]) -> None:
        change = update(crawls).where(crawls.c.id == crawl_id).values(dict(values))
        await self.database.write(lambda connection: connection.execute(change))


def _count_pages(connection: Connection, crawl_id: int) -> Counts:
    columns = crawl_pages.c
    groups = (columns.state, columns.skip_reason, columns.failure, columns.status, columns.change)
    query = (
        select(*groups, func.count(), func.sum(crawl_pages.c.followed))
        .where(crawl_pages.c.crawl_id == crawl_id)
        .group_by(*groups)
    )
    counts = Counter[str]()
    skipped = Counter[SkipReason]()
    outcomes = Counter(dict.fromkeys(PageOutcome, 0))
    changes = Counter[PageChange]()
    followed = 0
    for state, skip_reason, failure, status, change, count, links in connection.execute(query):
        followed += int(links)
        if state == PageState.SKIPPED:
            skipped[SkipReason(skip_reason)] += count
        else:
            counts[state] += count
        if change:
            changes[PageChange(change)] += count
        if state not in {PageState.QUEUED, PageState.FETCHING}:
            outcomes[judge_outcome(PageState(state), status, failure=failure, skip_reason=skip_reason)] += count
    return Counts(**counts, skipped=skipped, followed=followed, outcomes=outcomes, changes=changes)


def _make_crawl(row: Row[Any]) -> Crawl:
    failure = None
    if row.failure_kind:
        failure = CrawlFailure(CrawlFailureKind(row.failure_kind), row.failure, row.moved_to)
    return Crawl(
        row.id,
        row.seed,
        row.host,
        parse_options(row.options),
        CrawlState(row.state),
        failure,
        row.address,
        row.taken,
        row.started_at,
        row.finished_at,
        frontier.read_outage(row.down_since, row.paused_until),
        row.previous_id,
        tuple(
            [SitemapFailure(mask_url(each.url), mask_url(each.reason)) for each in read_failures(row.sitemap_failures)]
        ),
    )


def _make_page(row: Row[Any]) -> StoredPage:
    rows: list[list[Any]] = json.loads(row.links)
    links = tuple([PageLink.from_row(*values) for values in rows])
    page = Page(
        row.url,
        row.requested_url,
        row.final_url,
        row.status,
        row.title,
        row.depth,
        row.engine,
        links,
        select_external(links),
        row.error,
        FailureKind(row.failure) if row.failure else None,
        judge_outcome(PageState(row.state), row.status, failure=row.failure),
        referrer=row.referrer,
        fetched_at=row.finished_at or "",
        change=PageChange(row.change) if row.change else None,
        text_hash=row.text_hash,
        simhash=row.simhash,
        words=row.words,
        repeats_url=row.repeats_url,
    )
    return StoredPage(row.id, page.add_facts(parse_facts(row.facts)))
