"""Crawls, and the pages they have (contract C6); how pages are taken and kept is in frontier.py."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, select, text, update

from canonry.crawler import frontier
from canonry.crawler.crawl_options import parse_options
from canonry.crawler.frontier import RECORDED, PageState, add_pages
from canonry.errors import CanonryError
from canonry.store.schema import crawl_pages, crawls, stamp

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from canonry.crawler.crawl_options import CrawlOptions
    from canonry.crawler.frontier import FrontierBatch, PageResult, PageUrl
    from canonry.store.database import Database


class CrawlState(StrEnum):
    """Whether a crawl still runs, and how it ended."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


class CrawlNotFound(CanonryError, LookupError):
    """No crawl has this number; it may have been removed a moment ago."""

    def __init__(self, crawl_id: int) -> None:
        super().__init__(crawl_id)
        self.crawl_id = crawl_id

    def __str__(self) -> str:
        return f"no crawl has the number {self.crawl_id}, or not any more"


@dataclass(frozen=True, slots=True)
class Crawl:
    """A crawl; `address` is where its start page came from, `taken` how many pages were begun."""

    id: int
    seed: str
    host: str
    options: CrawlOptions
    state: CrawlState
    failure: str
    address: str
    taken: int
    started_at: str
    finished_at: str | None


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page that was kept; `links` are rows of href, url, text, verdict, reason."""

    id: int
    url: str
    requested_url: str
    final_url: str
    status: int
    title: str
    depth: int
    engine: str
    error: str
    state: PageState
    links: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """How far a crawl is; `followed` counts links to pages of the site, `skipped` the pages by reason."""

    queued: int = 0
    fetching: int = 0
    done: int = 0
    failed: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    followed: int = 0

    @property
    def known(self) -> int:
        return self.queued + self.fetching + self.done + self.failed + sum(self.skipped.values())


_CRAWL = [crawls.c[name] for name in Crawl.__dataclass_fields__]
_PAGE = [crawl_pages.c[name] for name in StoredPage.__dataclass_fields__]


class CrawlStore:
    """The crawls of a database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def start(self, seed: PageUrl, host: str, options: CrawlOptions, now: datetime) -> Crawl:
        """A new crawl with its first page in the queue."""

        def work(connection: Connection) -> Crawl:
            values = {"seed": seed.url, "host": host, "options": options.to_json(), "started_at": stamp(now)}
            crawl = _crawl(connection.execute(insert(crawls).values(values).returning(*_CRAWL)).one())
            add_pages(connection, crawl.id, [seed], depth=0, referrer="")
            return crawl

        return await self.database.write(work)

    async def get(self, crawl_id: int) -> Crawl:
        query = select(*_CRAWL).where(crawls.c.id == crawl_id)
        row = await self.database.read(lambda connection: connection.execute(query).first())
        if row is None:
            raise CrawlNotFound(crawl_id)
        return _crawl(row)

    async def latest(self, seed: str) -> Crawl | None:
        """The last crawl that began at this normalized URL."""
        query = select(*_CRAWL).where(crawls.c.seed == seed).order_by(crawls.c.id.desc()).limit(1)
        row = await self.database.read(lambda connection: connection.execute(query).first())
        return None if row is None else _crawl(row)

    async def all(self, limit: int = 100, *, before: int | None = None, state: CrawlState | None = None) -> list[Crawl]:
        """The crawls there are, the latest first; those before a number, those in a state."""
        query = select(*_CRAWL).order_by(crawls.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(crawls.c.id < before)
        if state is not None:
            query = query.where(crawls.c.state == state)
        return await self.database.read(lambda connection: [_crawl(row) for row in connection.execute(query)])

    async def remove(self, crawl_id: int) -> None:
        """Forget a crawl and its pages; whoever works on it ends."""
        forget = delete(crawls).where(crawls.c.id == crawl_id)
        if not await self.database.write(lambda connection: connection.execute(forget).rowcount):
            raise CrawlNotFound(crawl_id)

    async def stop(self, crawl_id: int, now: datetime) -> Crawl:
        """Have nobody take any more pages of it; one that is over stays as it is."""
        values = {"state": CrawlState.STOPPED, "finished_at": stamp(now)}
        change = update(crawls).where(crawls.c.id == crawl_id, crawls.c.state == CrawlState.RUNNING).values(values)
        await self.database.write(lambda connection: connection.execute(change))
        return await self.get(crawl_id)

    async def reopen(self, crawl_id: int, options: CrawlOptions) -> None:
        """Go on with a crawl, under these options."""
        values = {"state": CrawlState.RUNNING, "finished_at": None, "failure": "", "options": options.to_json()}
        await self._change(crawl_id, values)

    async def fail(self, crawl_id: int, failure: str, now: datetime) -> None:
        await self._change(crawl_id, {"state": CrawlState.FAILED, "failure": failure, "finished_at": stamp(now)})

    async def set_start(self, crawl_id: int, host: str, address: str) -> None:
        """Remember whose pages are crawled, and where the first one came from."""
        await self._change(crawl_id, {"host": host, "address": address})

    async def add(self, crawl_id: int, pages: Sequence[PageUrl], *, depth: int, referrer: str) -> None:
        """Queue pages that are not known yet."""
        await self.database.write(partial(add_pages, crawl_id=crawl_id, pages=pages, depth=depth, referrer=referrer))

    async def record_and_lease(
        self,
        crawl_id: int,
        owner: str,
        finished: Sequence[PageResult],
        *,
        want: int,
        now: datetime,
        max_pages: int | None = None,
        renews: bool = False,
    ) -> FrontierBatch:
        """Keep what came of pages this owner took, and take so many more; not more than `max_pages` in all.

        Who wants none does not end the crawl either: it may have more to add.
        """
        work = partial(
            frontier.record_and_lease,
            crawl_id=crawl_id,
            owner=owner,
            finished=finished,
            want=want,
            now=now,
            max_pages=max_pages,
            renews=renews,
        )
        return await self.database.write(work)

    async def release(self, crawl_id: int, owners: Collection[str]) -> None:
        """Give back what these owners took."""
        change = (
            update(crawl_pages)
            .where(crawl_pages.c.crawl_id == crawl_id, crawl_pages.c.state == PageState.FETCHING)
            .where(crawl_pages.c.lease.in_(owners))
            .values(state=PageState.QUEUED, lease="", lease_until=None)
        )
        await self.database.write(lambda connection: connection.execute(change))

    async def owners(self, crawl_id: int) -> list[str]:
        """Who has pages taken."""
        query = (
            select(crawl_pages.c.lease)
            .where(crawl_pages.c.crawl_id == crawl_id, crawl_pages.c.state == PageState.FETCHING)
            .distinct()
        )
        return await self.database.read(lambda connection: list(connection.execute(query).scalars()))

    async def pages(self, crawl_id: int, *, after: int = 0, limit: int = 200) -> list[StoredPage]:
        """The next pages that were kept, in the order they were found in."""
        query = (
            select(*_PAGE)
            .where(crawl_pages.c.crawl_id == crawl_id, crawl_pages.c.id > after, crawl_pages.c.state.in_(RECORDED))
            .order_by(crawl_pages.c.id)
            .limit(limit)
        )
        return await self.database.read(lambda connection: [_page(row) for row in connection.execute(query)])

    async def counts(self, crawl_id: int) -> Counts:
        return await self.database.read(partial(_counts, crawl_id=crawl_id))

    async def _change(self, crawl_id: int, values: Mapping[str, Any]) -> None:
        change = update(crawls).where(crawls.c.id == crawl_id).values(dict(values))
        await self.database.write(lambda connection: connection.execute(change))


def _counts(connection: Connection, crawl_id: int) -> Counts:
    query = text(
        "SELECT state, CASE WHEN state = 'skipped' THEN CASE WHEN error LIKE 'the same page as %'"
        " THEN 'the same page as another' ELSE error END ELSE '' END AS why, COUNT(*), SUM(followed)"
        " FROM crawl_pages WHERE crawl_id = :crawl_id GROUP BY state, why"
    )
    counts: dict[str, int] = {}
    skipped: dict[str, int] = {}
    followed = 0
    for state, why, count, links in connection.execute(query, {"crawl_id": crawl_id}):
        followed += int(links)
        if state == PageState.SKIPPED:
            skipped[why] = skipped.get(why, 0) + count
        else:
            counts[state] = counts.get(state, 0) + count
    return Counts(**counts, skipped=skipped, followed=followed)


def _crawl(row: Sequence[Any]) -> Crawl:
    values: dict[str, Any] = dict(zip(Crawl.__dataclass_fields__, row, strict=True))
    values["options"], values["state"] = parse_options(values["options"]), CrawlState(values["state"])
    return Crawl(**values)


def _page(row: Sequence[Any]) -> StoredPage:
    values: dict[str, Any] = dict(zip(StoredPage.__dataclass_fields__, row, strict=True))
    links: list[list[Any]] = json.loads(values["links"])
    values["state"], values["links"] = PageState(values["state"]), tuple(tuple(link) for link in links)
    return StoredPage(**values)
