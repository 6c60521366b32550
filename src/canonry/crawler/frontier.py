"""The frontier of a crawl in the database: known pages, the owners of their leases, and their results.

A page is leased for a limited time, so that it returns to the queue if its process dies. One transaction records
results together with the pages they link to, and leases the next pages: a crash loses no page and records none twice.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, select, text, update

from canonry.crawler.decide import Levels, RedirectDecision, count_fresh, decide_redirect, is_exhausted
from canonry.crawler.reasons import SkipReason
from canonry.crawler.results import RECORDED, FrontierBatch, LeasedPage, PageResult, PageState, PageUrl, RecordedPage
from canonry.net.origin import Origin
from canonry.store.schema import crawl_pages, crawls, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LEASE_DURATION = timedelta(seconds=60)
_POLL_SECONDS = 0.5  # how soon to look for pages that other processes have found


def make_page_key(url: str) -> str:
    """Return the key of a normalized URL: a digest without the scheme, so that http and https are one page."""
    return blake2b(url.partition(":")[2].encode(), digest_size=16).hexdigest()


_LEASED_COLUMNS = [crawl_pages.c[name] for name in LeasedPage.__dataclass_fields__]
# https is preferred: the page's URL becomes https, and so does the requested URL unless the page was opened already.
_ADD_OR_IMPROVE = text(
    "INSERT INTO crawl_pages (crawl_id, key, url, requested_url, depth, referrer, origin)"
    " VALUES (:crawl_id, :key, :url, :requested_url, :depth, :referrer, :origin)"
    " ON CONFLICT (crawl_id, key) DO UPDATE SET"
    " url = CASE WHEN excluded.url LIKE 'https:%' THEN excluded.url ELSE crawl_pages.url END,"
    " requested_url = CASE WHEN crawl_pages.begun_at IS NULL AND crawl_pages.url LIKE 'http:%'"
    " AND excluded.url LIKE 'https:%' THEN excluded.requested_url ELSE crawl_pages.requested_url END,"
    " origin = CASE WHEN crawl_pages.begun_at IS NULL AND crawl_pages.url LIKE 'http:%'"
    " AND excluded.url LIKE 'https:%' THEN excluded.origin ELSE crawl_pages.origin END,"
    " depth = CASE WHEN crawl_pages.begun_at IS NULL AND excluded.depth < crawl_pages.depth"
    " THEN excluded.depth ELSE crawl_pages.depth END"
    " WHERE (crawl_pages.url LIKE 'http:%' AND excluded.url LIKE 'https:%')"
    " OR (crawl_pages.begun_at IS NULL AND excluded.depth < crawl_pages.depth)"
)
_SELECT_OWNED_IDS = text(
    "SELECT id FROM crawl_pages WHERE crawl_id = :crawl_id AND state = 'fetching' AND lease = :owner"
)
_RECORD = text(
    "UPDATE crawl_pages SET state = :state, key = :key, url = :url, status = :status, final_url = :final_url,"
    " title = :title, engine = :engine, error = :error, failure = :failure, skip_reason = :skip_reason,"
    " links = :links, followed = :followed, requested_url = :requested_url, attempts = :attempts,"
    " retry_at = :retry_at, finished_at = :finished_at,"
    " begun_at = COALESCE(begun_at, :finished_at), lease = '', lease_until = NULL WHERE id = :id"
)
_SELECT_BY_KEY = text("SELECT id, state, depth, url FROM crawl_pages WHERE crawl_id = :crawl_id AND key = :key")
_SELECT_URLS = text("SELECT id, url FROM crawl_pages WHERE id IN :ids").bindparams(bindparam("ids", expanding=True))
_RENEW_LEASES = text(
    "UPDATE crawl_pages SET lease_until = :until WHERE crawl_id = :crawl_id AND state = 'fetching' AND lease = :owner"
)
_EXPIRE_LEASES = text(
    "UPDATE crawl_pages SET state = 'queued', lease = '', lease_until = NULL"
    " WHERE crawl_id = :crawl_id AND state = 'fetching' AND lease_until < :now"
)
_SELECT_LEVELS = text(
    "SELECT (SELECT depth FROM crawl_pages WHERE crawl_id = :crawl_id AND state = 'queued' AND begun_at IS NULL"
    " ORDER BY depth, id LIMIT 1),"
    " (SELECT depth FROM crawl_pages WHERE crawl_id = :crawl_id AND state = 'fetching' ORDER BY depth, id LIMIT 1),"
    " (SELECT MIN(COALESCE(retry_at, '')) FROM crawl_pages"
    " WHERE crawl_id = :crawl_id AND state = 'queued' AND begun_at IS NOT NULL)"
)
_SELECT_FRESH = (
    select(*_LEASED_COLUMNS)
    .where(crawl_pages.c.crawl_id == bindparam("of"), crawl_pages.c.state == PageState.QUEUED)
    .where(crawl_pages.c.begun_at.is_(None), crawl_pages.c.depth <= bindparam("level"))
    .order_by(crawl_pages.c.depth, crawl_pages.c.id)
    .limit(bindparam("count"))
)
_SELECT_RETRIES = (
    select(*_LEASED_COLUMNS)
    .where(crawl_pages.c.crawl_id == bindparam("of"), crawl_pages.c.state == PageState.QUEUED)
    .where(crawl_pages.c.begun_at.is_not(None))
    .where(crawl_pages.c.retry_at.is_(None) | (crawl_pages.c.retry_at <= bindparam("now")))
    .order_by(crawl_pages.c.depth, crawl_pages.c.id)
    .limit(bindparam("count"))
)
_LEASE_PAGE = text(
    "UPDATE crawl_pages SET state = 'fetching', lease = :owner, lease_until = :until,"
    " begun_at = COALESCE(begun_at, :now) WHERE id = :id"
)


class _Crawl(NamedTuple):
    """The columns of a crawl that a batch needs."""

    state: str
    taken: int
    host: str


def record_and_lease(
    connection: Connection,
    crawl_id: int,
    owner: str,
    results: Sequence[PageResult],
    want: int,
    now: datetime,
    max_pages: int | None,
    *,
    renews: bool,
) -> FrontierBatch:
    """Record results and lease up to `want` more pages, in the caller's transaction; see `CrawlStore`."""
    # With the row lock, batches run one after the other: no two lease the same page or exceed the limit together.
    row = connection.execute(
        select(crawls.c.state, crawls.c.taken, crawls.c.host).where(crawls.c.id == crawl_id).with_for_update()
    ).first()
    if row is None:  # the crawl was removed
        return FrontierBatch(is_over=True)
    crawl = _Crawl(*row)
    recorded, ended = _record(connection, crawl_id, owner, results, stamp(now)) if results else ([], 0)
    if ended != len(recorded):  # a skipped page does not count towards the limit
        crawl = crawl._replace(taken=crawl.taken + len(recorded) - ended)
        _set_taken(connection, crawl_id, crawl.taken)
    if renews:
        connection.execute(_RENEW_LEASES, {"crawl_id": crawl_id, "owner": owner, "until": stamp(now + LEASE_DURATION)})
    connection.execute(_EXPIRE_LEASES, {"crawl_id": crawl_id, "now": stamp(now)})
    if crawl.state != "running":
        return FrontierBatch(tuple(recorded), is_over=True)
    levels = Levels(*connection.execute(_SELECT_LEVELS, {"crawl_id": crawl_id}).one())
    leased = _lease(connection, crawl_id, owner, levels, want=want, taken=crawl.taken, max_pages=max_pages, now=now)
    if leased:
        return FrontierBatch(tuple(recorded), tuple(leased), host=crawl.host)
    if want > 0 and is_exhausted(levels, taken=crawl.taken, max_pages=max_pages):
        connection.execute(update(crawls).where(crawls.c.id == crawl_id).values(state="done", finished_at=stamp(now)))
        return FrontierBatch(tuple(recorded), is_over=True)
    wait = _count_seconds_until(levels.retry_at, now) if levels.open_depth is None else _POLL_SECONDS
    return FrontierBatch(tuple(recorded), wait=wait)


def add_pages(connection: Connection, crawl_id: int, pages: Iterable[PageUrl], depth: int, referrer: str) -> None:
    """Queue pages that are not known yet."""
    rows = [
        {
            "crawl_id": crawl_id,
            "key": make_page_key(page.url),
            "url": page.url,
            "requested_url": page.requested_url,
            "depth": depth,
            "referrer": referrer,
            "origin": str(page.origin),
        }
        for page in pages
    ]
    if rows:
        connection.execute(_ADD_OR_IMPROVE, rows)


def _lease(
    connection: Connection,
    crawl_id: int,
    owner: str,
    levels: Levels,
    *,
    want: int,
    taken: int,
    max_pages: int | None,
    now: datetime,
) -> list[LeasedPage]:
    """Lease retries that are due and pages that were never opened."""
    leased: list[LeasedPage] = []
    if want > 0 and levels.retry_at is not None and levels.retry_at <= stamp(now):
        retries = connection.execute(_SELECT_RETRIES, {"of": crawl_id, "now": stamp(now), "count": want})
        leased += [_make_leased_page(row) for row in retries]
    if count := count_fresh(levels, want=want, retried=leased, taken=taken, max_pages=max_pages):
        fresh = connection.execute(_SELECT_FRESH, {"of": crawl_id, "level": levels.fresh_depth, "count": count})
        new = [_make_leased_page(row) for row in fresh]
        _set_taken(connection, crawl_id, taken + len(new))
        leased += new
    if leased:
        until = stamp(now + LEASE_DURATION)
        rows = [{"id": page.id, "owner": owner, "until": until, "now": stamp(now)} for page in leased]
        connection.execute(_LEASE_PAGE, rows)
    return leased


def _make_leased_page(row: Row[Any]) -> LeasedPage:
    return LeasedPage(**{**row._mapping, "origin": Origin.parse(row.origin)})  # noqa: SLF001


def _set_taken(connection: Connection, crawl_id: int, taken: int) -> None:
    connection.execute(update(crawls).where(crawls.c.id == crawl_id).values(taken=taken))


def _count_seconds_until(retry_at: str | None, now: datetime) -> float:
    """Return the seconds until the first page may be retried."""
    if not retry_at:
        return 0.0
    then = datetime.strptime(retry_at, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return max(0.0, (then - now).total_seconds())


def _record(
    connection: Connection, crawl_id: int, owner: str, results: Sequence[PageResult], now: str
) -> tuple[list[RecordedPage], int]:
    """Record the results of pages that the owner still holds, and return them with the number of final results.

    A page whose lease expired belongs to another owner, which records it.
    """
    owned = set(connection.execute(_SELECT_OWNED_IDS, {"crawl_id": crawl_id, "owner": owner}).scalars())
    results = [each for each in results if each.page.id in owned]
    if not results:
        return [], 0
    # https may have been found since the page was leased.
    urls: dict[int, str] = {
        row.id: row.url for row in connection.execute(_SELECT_URLS, {"ids": [each.page.id for each in results]})
    }
    plain = [each for each in results if not _is_redirect(each)]
    if plain:
        connection.execute(
            _RECORD, [_make_row(each, _prefer_https(each.url, urls[each.page.id]), now) for each in plain]
        )
    recorded = [
        RecordedPage(each, _prefer_https(each.url, urls[each.page.id]), each.page.depth)
        for each in plain
        if each.state in RECORDED
    ]
    for each in sorted(results, key=lambda each: each.page.depth):
        add_pages(connection, crawl_id, each.found, depth=each.page.depth + 1, referrer=each.url)
    for each in results:
        if _is_redirect(each):
            recorded += _record_redirect(connection, crawl_id, each, now)
    return recorded, sum(each.state is not PageState.QUEUED for each in results)


def _is_redirect(result: PageResult) -> bool:
    return bool(result.redirects_to) and result.state is PageState.DONE


def _record_redirect(connection: Connection, crawl_id: int, result: PageResult, now: str) -> list[RecordedPage]:
    """Record a page that redirects to another page of the site: one of the two gets the record."""
    target = PageUrl(result.redirects_to, result.final_url, result.origin)
    by_key = {"crawl_id": crawl_id, "key": make_page_key(target.url)}
    depth = result.page.depth
    if not result.is_target_read:  # the process that found the target may not have stored it yet
        add_pages(connection, crawl_id, [target], depth=depth, referrer=result.url)
    found = connection.execute(_SELECT_BY_KEY, by_key).first()
    other = None if found is not None and found.id == result.page.id else found
    decision = decide_redirect(
        None if other is None else PageState(other.state),
        is_target_read=result.is_target_read,
        has_queued_url=result.page.url == result.url,
    )
    if decision in (RedirectDecision.RECORD_PAGE, RedirectDecision.RECORD_PAGE_AND_RESERVE_TARGET):
        connection.execute(_RECORD, _make_row(result, result.url, now))
        if decision is RedirectDecision.RECORD_PAGE_AND_RESERVE_TARGET:
            add_pages(connection, crawl_id, [target], depth=depth, referrer=result.url)
            alias = connection.execute(_SELECT_BY_KEY, by_key).one()
            skip = update(crawl_pages).where(crawl_pages.c.id == alias.id)
            values = {"state": PageState.SKIPPED, "skip_reason": SkipReason.DUPLICATE, "begun_at": now}
            connection.execute(skip.values(values))
        return [RecordedPage(result, result.url, depth)]
    skipped = PageResult(
        result.page,
        PageState.SKIPPED,
        result.url,
        result.status,
        result.final_url,
        engine=result.engine,
        skip_reason=SkipReason.REDIRECT_TO_PAGE,
    )
    connection.execute(_RECORD, _make_row(skipped, result.url, now))
    if decision is RedirectDecision.SKIP_PAGE or other is None:
        return []
    url = _prefer_https(target.url, other.url)
    connection.execute(_RECORD, {**_make_row(result, url, now), "id": other.id})
    return [RecordedPage(result, url, other.depth)]


def _make_row(result: PageResult, url: str, now: str) -> dict[str, object]:
    return {
        "id": result.page.id,
        "state": result.state,
        "key": make_page_key(url),
        "url": url,
        "requested_url": result.page.requested_url,
        "status": result.status,
        "final_url": result.final_url,
        "title": result.title,
        "engine": result.engine,
        "error": "" if result.failure is None else str(result.failure),
        "failure": "" if result.failure is None else result.failure.kind,
        "skip_reason": result.skip_reason or "",
        "links": json.dumps([link.to_row() for link in result.links], separators=(",", ":")),
        "followed": result.followed,
        "attempts": result.page.attempts + (result.state is PageState.QUEUED),
        "retry_at": None if result.retry_at is None else stamp(result.retry_at),
        "finished_at": now,
    }


def _prefer_https(url: str, stored: str) -> str:
    """Return the stored URL if it is the https spelling of the same page."""
    is_better = stored.startswith("https:") and url.startswith("http:")
    return stored if is_better and stored.partition(":")[2] == url.partition(":")[2] else url
