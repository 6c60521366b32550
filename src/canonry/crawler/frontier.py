"""The frontier of a crawl: which pages are known, who fetches them, and what came of them, a transaction at a time.

A page is taken for a while (a lease) and given back by the clock if its process is gone. One transaction, a `turn`,
keeps what came of some pages together with the pages they lead to, and takes the next: after a crash nothing is lost
and nothing is kept twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING

from sqlalchemy import Connection, bindparam, select, text, update

from canonry.store.schema import crawl_pages, crawls, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
class PageUrl:
    """A page somebody leads to: normalized, and as it was found."""

    url: str
    requested_url: str


@dataclass(frozen=True, slots=True)
class LeasedPage:
    """A page to be fetched by whoever took it."""

    id: int
    url: str
    requested_url: str
    depth: int
    attempts: int


@dataclass(frozen=True, slots=True)
class PageResult:
    """What came of a page; QUEUED asks for another try at `retry_at`.

    `url` is the page's own, `leads_to` the normalized URL of another page of the site that it redirects to.
    """

    page: LeasedPage
    state: PageState
    url: str
    status: int = 0
    final_url: str = ""
    title: str = ""
    engine: str = ""
    error: str = ""
    links: Sequence[Sequence[str | None]] = ()
    followed: int = 0
    found: Sequence[PageUrl] = ()
    leads_to: str = ""
    retry_at: datetime | None = None
    is_fetched: bool = True  # or is what it leads to another's to fetch?


@dataclass(frozen=True, slots=True)
class RecordedPage:
    """A page that is kept now, under this URL."""

    finished: PageResult
    url: str
    depth: int


@dataclass(frozen=True, slots=True)
class FrontierBatch:
    """Pages that were kept and pages that were taken; without either, the seconds until it is worth looking again."""

    recorded: tuple[RecordedPage, ...] = ()
    leased: tuple[LeasedPage, ...] = ()
    is_over: bool = False
    wait: float = 0.0
    host: str = ""


def make_page_key(url: str) -> str:
    """What a normalized URL is known by: a digest of it without its scheme."""
    return blake2b(url.partition(":")[2].encode(), digest_size=16).hexdigest()


_LEASED = [crawl_pages.c[name] for name in LeasedPage.__dataclass_fields__]
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


def record_and_lease(
    connection: Connection,
    crawl_id: int,
    owner: str,
    finished: Sequence[PageResult],
    want: int,
    now: datetime,
    max_pages: int | None,
    *,
    renews: bool,
) -> FrontierBatch:
    # One turn at a time: others wait here, so that no two take the same page or pass the limit together.
    row = connection.execute(
        select(crawls.c.state, crawls.c.taken, crawls.c.host).where(crawls.c.id == crawl_id).with_for_update()
    ).first()
    if row is None:  # removed meanwhile
        return FrontierBatch(is_over=True)
    state, taken, host = row
    until, here = stamp(now + LEASE), {"crawl_id": crawl_id, "owner": owner}
    recorded, ended = _keep(connection, crawl_id, owner, finished, stamp(now)) if finished else ([], 0)
    if ended != len(recorded):  # what was skipped leaves its room to others
        taken += len(recorded) - ended
        connection.execute(update(crawls).where(crawls.c.id == crawl_id).values(taken=taken))
    if renews:
        connection.execute(_RENEW, {**here, "until": until})
    connection.execute(_EXPIRE, {"crawl_id": crawl_id, "now": stamp(now)})
    if state != "running":
        return FrontierBatch(tuple(recorded), is_over=True)
    room = want if max_pages is None else min(want, max_pages - taken)
    fresh_level, busy_level, retry_at = connection.execute(_LEVELS, {"crawl_id": crawl_id}).one()
    leased: list[LeasedPage] = []
    if want > 0 and retry_at is not None and retry_at <= stamp(now):
        leased += [
            LeasedPage(*row) for row in connection.execute(_AGAIN, {"of": crawl_id, "now": stamp(now), "count": want})
        ]
    room = min(room, want - len(leased))
    # Those that are taken again count as well: a process that is killed again and again must not get ahead of them.
    open_levels = [page.depth for page in leased] + ([] if busy_level is None else [busy_level])
    if room > 0 and fresh_level is not None and fresh_level <= min(open_levels, default=fresh_level):
        fresh = connection.execute(_FRESH, {"of": crawl_id, "level": fresh_level, "count": room})
        new = [LeasedPage(*row) for row in fresh]
        connection.execute(update(crawls).where(crawls.c.id == crawl_id).values(taken=taken + len(new)))
        leased += new
    if leased:
        rows = [{"id": page.id, "owner": owner, "until": until, "now": stamp(now)} for page in leased]
        connection.execute(_LEASE, rows)
        return FrontierBatch(tuple(recorded), tuple(leased), host=host)
    has_fresh = fresh_level is not None and (max_pages is None or taken < max_pages)
    if want > 0 and busy_level is None and retry_at is None and not has_fresh:
        connection.execute(update(crawls).where(crawls.c.id == crawl_id).values(state="done", finished_at=stamp(now)))
        return FrontierBatch(tuple(recorded), is_over=True)
    return FrontierBatch(tuple(recorded), wait=_wait(retry_at, now) if busy_level is None else _SOON)


def _wait(retry_at: str | None, now: datetime) -> float:
    """Seconds until the first page may be tried again."""
    if not retry_at:
        return 0.0
    then = datetime.strptime(retry_at, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return max(0.0, (then - now).total_seconds())


def _keep(
    connection: Connection, crawl_id: int, owner: str, finished: Sequence[PageResult], now: str
) -> tuple[list[RecordedPage], int]:
    """What is recorded of that which is still this owner's to keep, and how many of those are not tried again.

    A page whose lease ran out is another's by now.
    """
    mine = set(connection.execute(_MINE, {"crawl_id": crawl_id, "owner": owner}).scalars())
    finished = [each for each in finished if each.page.id in mine]
    if not finished:
        return [], 0
    # https may have been seen since the page was taken.
    urls: dict[int, str] = {
        row.id: row.url for row in connection.execute(_URLS, {"ids": [each.page.id for each in finished]})
    }
    plain = [each for each in finished if not (each.leads_to and each.state is PageState.DONE)]
    if plain:
        connection.execute(_KEEP, [_row(each, _preferred(each.url, urls[each.page.id]), now) for each in plain])
    recorded = [
        RecordedPage(each, _preferred(each.url, urls[each.page.id]), each.page.depth)
        for each in plain
        if each.state in RECORDED
    ]
    for depth in sorted({each.page.depth for each in finished}):
        together = [each for each in finished if each.page.depth == depth]
        for each in together:
            add_pages(connection, crawl_id, each.found, depth=depth + 1, referrer=each.url)
    for each in finished:
        if each.leads_to and each.state is PageState.DONE:
            recorded += _keep_redirect(connection, crawl_id, each, now)
    return recorded, sum(each.state is not PageState.QUEUED for each in finished)


def _keep_redirect(connection: Connection, crawl_id: int, each: PageResult, now: str) -> list[RecordedPage]:
    """A page that redirects to another: one of the two is kept."""
    target = {"crawl_id": crawl_id, "key": make_page_key(each.leads_to)}
    if not each.is_fetched:  # whoever knows the target may not have kept it yet
        add_pages(
            connection, crawl_id, [PageUrl(each.leads_to, each.final_url)], depth=each.page.depth, referrer=each.url
        )
    other = connection.execute(_BY_KEY, target).first()
    if other is not None and other.id == each.page.id:
        other = None
    if other is None or other.state == PageState.FAILED:
        connection.execute(_KEEP, _row(each, each.url, now))
        if other is None and each.page.url == each.url:
            # So that a link to the target, found later, is not a page of its own.
            add_pages(
                connection, crawl_id, [PageUrl(each.leads_to, each.final_url)], depth=each.page.depth, referrer=each.url
            )
            alias = connection.execute(_BY_KEY, target).one()
            skip = update(crawl_pages).where(crawl_pages.c.id == alias.id)
            connection.execute(skip.values(state=PageState.SKIPPED, error=f"the same page as {each.url}", begun_at=now))
        return [RecordedPage(each, each.url, each.page.depth)]
    skipped = PageResult(
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
    return [RecordedPage(each, url, other.depth)]


def _row(each: PageResult, url: str, now: str) -> dict[str, object]:
    is_again = each.state is PageState.QUEUED
    return {
        "id": each.page.id,
        "state": each.state,
        "key": make_page_key(url),
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


def add_pages(connection: Connection, crawl_id: int, pages: Iterable[PageUrl], depth: int, referrer: str) -> None:
    rows = [
        {
            "crawl_id": crawl_id,
            "key": make_page_key(page.url),
            "url": page.url,
            "requested_url": page.requested_url,
            "depth": depth,
            "referrer": referrer,
        }
        for page in pages
    ]
    if rows:
        connection.execute(_ADD, rows)
