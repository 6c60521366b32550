"""Crawls: a frontier that several processes share and that survives all of them (SPEC C1, C6).

A page is taken for a while (a lease) and given back by the clock if its process is gone. One transaction, a `turn`,
keeps what came of some pages together with the pages they lead to, and takes the next: after a crash nothing is lost
and nothing is kept twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, delete, insert, select, text, update

from canonry.errors import StoreError
from canonry.store.schema import crawl_pages, crawls, stamp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from canonry.store.database import Database

LEASE = timedelta(seconds=60)


class PageState(StrEnum):
    """Where a page of a crawl is."""

    QUEUED = "queued"
    FETCHING = "fetching"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


RECORDED = (PageState.DONE, PageState.FAILED)


@dataclass(frozen=True, slots=True)
class Crawl:
    """A crawl; `address` is where its start page came from, `taken` how many pages were begun."""

    id: int
    seed: str
    host: str
    options: Mapping[str, Any]
    state: str
    failure: str
    address: str
    taken: int
    started_at: str
    finished_at: str | None


@dataclass(frozen=True, slots=True)
class Found:
    """A page somebody leads to: normalized, and as it was found."""

    url: str
    requested_url: str


@dataclass(frozen=True, slots=True)
class Leased:
    """A page to be fetched by whoever took it."""

    id: int
    url: str
    requested_url: str
    depth: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of a page; QUEUED asks for another try at `retry_at`.

    `url` is the page's own, `leads_to` the normalized URL of another page of the site that it redirects to.
    """

    page: Leased
    state: PageState
    url: str
    status: int = 0
    final_url: str = ""
    title: str = ""
    engine: str = ""
    error: str = ""
    links: Sequence[Sequence[str | None]] = ()
    followed: int = 0
    found: Sequence[Found] = ()
    leads_to: str = ""
    retry_at: datetime | None = None
    is_fetched: bool = True  # or is what it leads to another's to fetch?


@dataclass(frozen=True, slots=True)
class Recorded:
    """A page that is kept now, under this URL."""

    finished: Finished
    url: str
    depth: int


@dataclass(frozen=True, slots=True)
class Turn:
    """Pages that were kept and pages that were taken; without either, the seconds until it is worth looking again."""

    recorded: tuple[Recorded, ...] = ()
    leased: tuple[Leased, ...] = ()
    is_over: bool = False
    wait: float = 0.0


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


def key_of(url: str) -> str:
    """What a normalized URL is known by: a digest of it without its scheme."""
    return blake2b(url.partition(":")[2].encode(), digest_size=16).hexdigest()


_CRAWL = [crawls.c[name] for name in Crawl.__dataclass_fields__]
_PAGE = [crawl_pages.c[name] for name in StoredPage.__dataclass_fields__]
_LEASED = [crawl_pages.c[name] for name in Leased.__dataclass_fields__]


class CrawlStore:
    """The crawls of a database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def start(self, seed: Found, host: str, options: Mapping[str, Any], now: datetime) -> Crawl:
        """A new crawl with its first page in the queue."""

        def work(connection: Connection) -> Crawl:
            values = {"seed": seed.url, "host": host, "options": json.dumps(dict(options)), "started_at": stamp(now)}
            crawl = _crawl(connection.execute(insert(crawls).values(values).returning(*_CRAWL)).one())
            _add(connection, crawl.id, [seed], depth=0, referrer="")
            return crawl

        return await self.database.write(work)

    async def get(self, crawl_id: int) -> Crawl:
        query = select(*_CRAWL).where(crawls.c.id == crawl_id)
        row = await self.database.read(lambda connection: connection.execute(query).first())
        if row is None:
            raise StoreError(f"no crawl {crawl_id}")
        return _crawl(row)

    async def latest(self, seed: str) -> Crawl | None:
        """The last crawl that began at this normalized URL."""
        query = select(*_CRAWL).where(crawls.c.seed == seed).order_by(crawls.c.id.desc()).limit(1)
        row = await self.database.read(lambda connection: connection.execute(query).first())
        return None if row is None else _crawl(row)

    async def all(self, limit: int = 100) -> list[Crawl]:
        """The crawls there are, the latest first."""
        query = select(*_CRAWL).order_by(crawls.c.id.desc()).limit(limit)
        return await self.database.read(lambda connection: [_crawl(row) for row in connection.execute(query)])

    async def remove(self, crawl_id: int) -> None:
        await self.database.write(lambda connection: connection.execute(delete(crawls).where(crawls.c.id == crawl_id)))

    async def reopen(self, crawl_id: int, options: Mapping[str, Any]) -> None:
        """Go on with a crawl, under these options."""
        values = {"state": "running", "finished_at": None, "failure": "", "options": json.dumps(dict(options))}
        await self._change(crawl_id, values)

    async def fail(self, crawl_id: int, failure: str, now: datetime) -> None:
        await self._change(crawl_id, {"state": "failed", "failure": failure, "finished_at": stamp(now)})

    async def set_start(self, crawl_id: int, host: str, address: str) -> None:
        """Remember whose pages are crawled, and where the first one came from."""
        await self._change(crawl_id, {"host": host, "address": address})

    async def add(self, crawl_id: int, pages: Sequence[Found], *, depth: int, referrer: str) -> None:
        """Queue pages that are not known yet."""
        await self.database.write(partial(_add, crawl_id=crawl_id, pages=pages, depth=depth, referrer=referrer))

    async def turn(
        self,
        crawl_id: int,
        owner: str,
        finished: Sequence[Finished],
        *,
        want: int,
        now: datetime,
        max_pages: int | None = None,
        renews: bool = False,
    ) -> Turn:
        """Keep what came of pages this owner took, and take so many more; not more than `max_pages` in all.

        Who wants none does not end the crawl either: it may have more to add.
        """
        work = partial(
            _turn,
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


# https is preferred where both are seen: the page's URL becomes https, and what is asked for if it was not yet.
_ADD = text(
    "INSERT INTO crawl_pages (crawl_id, key, url, requested_url, depth, referrer)"
    " VALUES (:crawl_id, :key, :url, :requested_url, :depth, :referrer)"
    " ON CONFLICT (crawl_id, key) DO UPDATE SET"
    " url = CASE WHEN excluded.url LIKE 'https:%' THEN excluded.url ELSE crawl_pages.url END,"
    " requested_url = CASE WHEN crawl_pages.begun_at IS NULL AND crawl_pages.url LIKE 'http:%'"
    " AND excluded.url LIKE 'https:%' THEN excluded.requested_url ELSE crawl_pages.requested_url END,"
    " depth = CASE WHEN crawl_pages.begun_at IS NULL AND excluded.depth < crawl_pages.depth"
    " THEN excluded.depth ELSE crawl_pages.depth END"
    " WHERE (crawl_pages.url LIKE 'http:%' AND excluded.url LIKE 'https:%')"
    " OR (crawl_pages.begun_at IS NULL AND excluded.depth < crawl_pages.depth)"
)
_MINE = text("SELECT id FROM crawl_pages WHERE crawl_id = :crawl_id AND state = 'fetching' AND lease = :owner")
_KEEP = text(
    "UPDATE crawl_pages SET state = :state, key = :key, url = :url, status = :status, final_url = :final_url,"
    " title = :title, engine = :engine, error = :error, links = :links, followed = :followed,"
    " requested_url = :requested_url, attempts = :attempts, retry_at = :retry_at, finished_at = :finished_at,"
    " begun_at = COALESCE(begun_at, :finished_at), lease = '', lease_until = NULL WHERE id = :id"
)
_BY_KEY = text("SELECT id, state, depth, url FROM crawl_pages WHERE crawl_id = :crawl_id AND key = :key")
_URLS = text("SELECT id, url FROM crawl_pages WHERE id IN :ids").bindparams(bindparam("ids", expanding=True))
_RENEW = text(
    "UPDATE crawl_pages SET lease_until = :until WHERE crawl_id = :crawl_id AND state = 'fetching' AND lease = :owner"
)
_EXPIRE = text(
    "UPDATE crawl_pages SET state = 'queued', lease = '', lease_until = NULL"
    " WHERE crawl_id = :crawl_id AND state = 'fetching' AND lease_until < :now"
)
# The lowest level that is not done with: pages of the next wait for it, so that a depth is the shortest way.
_LEVELS = text(
    "SELECT (SELECT depth FROM crawl_pages WHERE crawl_id = :crawl_id AND state = 'queued' AND begun_at IS NULL"
    " ORDER BY depth, id LIMIT 1),"
    " (SELECT depth FROM crawl_pages WHERE crawl_id = :crawl_id AND state = 'fetching' ORDER BY depth, id LIMIT 1),"
    " (SELECT MIN(COALESCE(retry_at, '')) FROM crawl_pages"
    " WHERE crawl_id = :crawl_id AND state = 'queued' AND begun_at IS NOT NULL)"
)
_FRESH = (
    select(*_LEASED)
    .where(crawl_pages.c.crawl_id == bindparam("of"), crawl_pages.c.state == PageState.QUEUED)
    .where(crawl_pages.c.begun_at.is_(None), crawl_pages.c.depth <= bindparam("level"))
    .order_by(crawl_pages.c.depth, crawl_pages.c.id)
    .limit(bindparam("count"))
)
_AGAIN = (
    select(*_LEASED)
    .where(crawl_pages.c.crawl_id == bindparam("of"), crawl_pages.c.state == PageState.QUEUED)
    .where(crawl_pages.c.begun_at.is_not(None))
    .where(crawl_pages.c.retry_at.is_(None) | (crawl_pages.c.retry_at <= bindparam("now")))
    .order_by(crawl_pages.c.depth, crawl_pages.c.id)
    .limit(bindparam("count"))
)
_LEASE = text(
    "UPDATE crawl_pages SET state = 'fetching', lease = :owner, lease_until = :until,"
    " begun_at = COALESCE(begun_at, :now) WHERE id = :id"
)
_SOON = 0.5  # seconds until it is worth looking what other processes have found


def _turn(
    connection: Connection,
    crawl_id: int,
    owner: str,
    finished: Sequence[Finished],
    want: int,
    now: datetime,
    max_pages: int | None,
    *,
    renews: bool,
) -> Turn:
    # One turn at a time: others wait here, so that no two take the same page or pass the limit together.
    row = connection.execute(select(crawls.c.state, crawls.c.taken).where(crawls.c.id == crawl_id).with_for_update())
    state, taken = row.one()
    until, here = stamp(now + LEASE), {"crawl_id": crawl_id, "owner": owner}
    recorded = _keep(connection, crawl_id, owner, finished, stamp(now)) if finished else []
    if renews:
        connection.execute(_RENEW, {**here, "until": until})
    connection.execute(_EXPIRE, {"crawl_id": crawl_id, "now": stamp(now)})
    if state != "running":
        return Turn(tuple(recorded), is_over=True)
    room = want if max_pages is None else min(want, max_pages - taken)
    fresh_level, busy_level, retry_at = connection.execute(_LEVELS, {"crawl_id": crawl_id}).one()
    leased: list[Leased] = []
    if want > 0 and retry_at is not None and retry_at <= stamp(now):
        leased += [
            Leased(*row) for row in connection.execute(_AGAIN, {"of": crawl_id, "now": stamp(now), "count": want})
        ]
    room = min(room, want - len(leased))
    if room > 0 and fresh_level is not None and (busy_level is None or fresh_level <= busy_level):
        fresh = connection.execute(_FRESH, {"of": crawl_id, "level": fresh_level, "count": room})
        new = [Leased(*row) for row in fresh]
        connection.execute(update(crawls).where(crawls.c.id == crawl_id).values(taken=taken + len(new)))
        leased += new
    if leased:
        rows = [{"id": page.id, "owner": owner, "until": until, "now": stamp(now)} for page in leased]
        connection.execute(_LEASE, rows)
        return Turn(tuple(recorded), tuple(leased))
    has_fresh = fresh_level is not None and (max_pages is None or taken < max_pages)
    if want > 0 and busy_level is None and retry_at is None and not has_fresh:
        connection.execute(update(crawls).where(crawls.c.id == crawl_id).values(state="done", finished_at=stamp(now)))
        return Turn(tuple(recorded), is_over=True)
    return Turn(tuple(recorded), wait=_wait(retry_at, now) if busy_level is None else _SOON)


def _wait(retry_at: str | None, now: datetime) -> float:
    """Seconds until the first page may be tried again."""
    if not retry_at:
        return 0.0
    then = datetime.strptime(retry_at, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return max(0.0, (then - now).total_seconds())


def _keep(connection: Connection, crawl_id: int, owner: str, finished: Sequence[Finished], now: str) -> list[Recorded]:
    """What is still this owner's to keep; a page whose lease ran out is another's by now."""
    mine = set(connection.execute(_MINE, {"crawl_id": crawl_id, "owner": owner}).scalars())
    finished = [each for each in finished if each.page.id in mine]
    if not finished:
        return []
    # https may have been seen since the page was taken.
    urls: dict[int, str] = {
        row.id: row.url for row in connection.execute(_URLS, {"ids": [each.page.id for each in finished]})
    }
    plain = [each for each in finished if not (each.leads_to and each.state is PageState.DONE)]
    if plain:
        connection.execute(_KEEP, [_row(each, _preferred(each.url, urls[each.page.id]), now) for each in plain])
    recorded = [
        Recorded(each, _preferred(each.url, urls[each.page.id]), each.page.depth)
        for each in plain
        if each.state in RECORDED
    ]
    for depth in sorted({each.page.depth for each in finished}):
        together = [each for each in finished if each.page.depth == depth]
        for each in together:
            _add(connection, crawl_id, each.found, depth=depth + 1, referrer=each.url)
    for each in finished:
        if each.leads_to and each.state is PageState.DONE:
            recorded += _keep_redirect(connection, crawl_id, each, now)
    return recorded


def _keep_redirect(connection: Connection, crawl_id: int, each: Finished, now: str) -> list[Recorded]:
    """A page that redirects to another: one of the two is kept."""
    target = {"crawl_id": crawl_id, "key": key_of(each.leads_to)}
    if not each.is_fetched:  # whoever knows the target may not have kept it yet
        _add(connection, crawl_id, [Found(each.leads_to, each.final_url)], depth=each.page.depth, referrer=each.url)
    other = connection.execute(_BY_KEY, target).first()
    if other is not None and other.id == each.page.id:
        other = None
    if other is None or other.state == PageState.FAILED:
        connection.execute(_KEEP, _row(each, each.url, now))
        if other is None and each.page.url == each.url:
            # So that a link to the target, found later, is not a page of its own.
            _add(connection, crawl_id, [Found(each.leads_to, each.final_url)], depth=each.page.depth, referrer=each.url)
            alias = connection.execute(_BY_KEY, target).one()
            skip = update(crawl_pages).where(crawl_pages.c.id == alias.id)
            connection.execute(skip.values(state=PageState.SKIPPED, error=f"the same page as {each.url}", begun_at=now))
        return [Recorded(each, each.url, each.page.depth)]
    skipped = Finished(
        each.page,
        PageState.SKIPPED,
        each.url,
        each.status,
        each.final_url,
        engine=each.engine,
        error="redirects to a page of its own",
    )
    connection.execute(_KEEP, _row(skipped, each.url, now))
    if other.state != PageState.QUEUED or not each.is_fetched:
        return []
    url = _preferred(each.leads_to, other.url)
    connection.execute(_KEEP, {**_row(each, url, now), "id": other.id})
    return [Recorded(each, url, other.depth)]


def _row(each: Finished, url: str, now: str) -> dict[str, object]:
    is_again = each.state is PageState.QUEUED
    return {
        "id": each.page.id,
        "state": each.state,
        "key": key_of(url),
        "url": url,
        "requested_url": each.page.requested_url,
        "status": each.status,
        "final_url": each.final_url,
        "title": each.title,
        "engine": each.engine,
        "error": each.error,
        "links": json.dumps(each.links, separators=(",", ":")),
        "followed": each.followed,
        "attempts": each.page.attempts + is_again,
        "retry_at": None if each.retry_at is None else stamp(each.retry_at),
        "finished_at": now,
    }


def _preferred(url: str, stored: str) -> str:
    """The https one of two spellings of one page."""
    is_better = stored.startswith("https:") and url.startswith("http:")
    return stored if is_better and stored.partition(":")[2] == url.partition(":")[2] else url


def _add(connection: Connection, crawl_id: int, pages: Iterable[Found], depth: int, referrer: str) -> None:
    rows = [
        {
            "crawl_id": crawl_id,
            "key": key_of(page.url),
            "url": page.url,
            "requested_url": page.requested_url,
            "depth": depth,
            "referrer": referrer,
        }
        for page in pages
    ]
    if rows:
        connection.execute(_ADD, rows)


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
    values = dict(zip(Crawl.__dataclass_fields__, row, strict=True))
    return Crawl(**{**values, "options": json.loads(values["options"])})


def _page(row: Sequence[Any]) -> StoredPage:
    values = dict(zip(StoredPage.__dataclass_fields__, row, strict=True))
    links = tuple(map(tuple, json.loads(values["links"])))
    return StoredPage(**{**values, "state": PageState(values["state"]), "links": links})
