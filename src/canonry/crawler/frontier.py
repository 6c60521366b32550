"""The frontier of a crawl in the database: known pages, the owners of their leases, and their results.

A page is leased for a limited time, so that it returns to the queue if its process dies. One transaction records
results together with the pages they link to, and leases the next pages: a crash loses no page and records none twice.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, select, text, tuple_, update

from canonry.crawler.control_fetches import ControlKind, save_controls
from canonry.crawler.crawl_rules import load_active_rules
from canonry.crawler.decide import (
    Levels,
    RedirectDecision,
    count_fresh,
    decide_redirect,
    is_exhausted,
    may_retry_last,
)
from canonry.crawler.folding import fold_repeats
from canonry.crawler.known_pages import (
    add_pages,
    load_known_pages,
    make_group_key,
    make_page_key,
    needs_other_spelling,
    save_known_page,
    try_next_spelling,
)
from canonry.crawler.learned_rule_store import check_learned_rules, load_learning_progress
from canonry.crawler.learned_rules import is_learning_due
from canonry.crawler.page_choice import choose_pages
from canonry.crawler.reasons import SkipReason
from canonry.crawler.recrawl import Comparison, queue_unlinked
from canonry.crawler.results import (
    RECORDED,
    FrontierBatch,
    LeasedPage,
    Outage,
    PageResult,
    PageState,
    PageUrl,
    RecordedPage,
)
from canonry.crawler.session_rules import learn_sessions
from canonry.crawler.sitemap_lease import NOT_LEASED, find_start_page, lease_sitemaps, renew_sitemap_lease
from canonry.crawler.trap_rules import learn_traps
from canonry.evidence.fact_store import save_facts
from canonry.net.origin import Origin
from canonry.net.page_facts import NO_FACTS
from canonry.store.schema import crawl_pages, crawls, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.core.policy import Policy
    from canonry.crawler.crawl_options import CrawlOptions
    from canonry.crawler.known_pages import KnownPage
    from canonry.crawler.results import PageChange

LEASE_DURATION = timedelta(seconds=60)
_ANY_DEPTH = 2**31 - 1
_PAGES_PER_CHOICE = 200  # looked at together, if rules may skip them
_POLL_SECONDS = 0.5  # how soon to look for pages that other processes have found


_LEASED_COLUMNS = [crawl_pages.c[name] for name in LeasedPage.__dataclass_fields__]
_SELECT_OWNED_IDS = text(
    "SELECT id FROM crawl_pages WHERE crawl_id = :crawl_id AND state = 'fetching' AND lease = :owner"
)
_RECORD = text(
    "UPDATE crawl_pages SET state = :state, key = :key, url = :url, status = :status, final_url = :final_url,"
    " title = :title, engine = :engine, error = :error, failure = :failure, skip_reason = :skip_reason,"
    " links = :links, link_origin = :link_origin, followed = :followed, facts = :facts, change = :change,"
    " skipped_by = :skipped_by, text_hash = :text_hash, simhash = :simhash, words = :words, group_key = :group_key,"
    " repeats_url = :repeats_url,"
    " requested_url = :requested_url, attempts = :attempts, retry_at = :retry_at, is_last_retry = :is_last_retry,"
    " finished_at = :finished_at,"
    " begun_at = COALESCE(begun_at, :finished_at), lease = '', lease_until = NULL WHERE id = :id"
)
_SELECT_BY_KEY = text(
    "SELECT id, state, depth, url, referrer, skip_reason FROM crawl_pages WHERE crawl_id = :crawl_id AND key = :key"
)
_RENEW_LEASES = text(
    "UPDATE crawl_pages SET lease_until = :until WHERE crawl_id = :crawl_id AND state = 'fetching' AND lease = :owner"
)
_EXPIRE_LEASES = text(
    "UPDATE crawl_pages SET state = 'queued', lease = '', lease_until = NULL"
    " WHERE crawl_id = :crawl_id AND state = 'fetching' AND lease_until < :now"
)
_SELECT_LEVELS = text(
    "SELECT (SELECT depth FROM crawl_pages WHERE crawl_id = :crawl_id AND state = 'queued' AND begun_at IS NULL"
    " AND depth <= :max_depth ORDER BY depth, id LIMIT 1),"
    " (SELECT depth FROM crawl_pages WHERE crawl_id = :crawl_id AND state = 'fetching' ORDER BY depth, id LIMIT 1),"
    " (SELECT MIN(COALESCE(retry_at, '')) FROM crawl_pages"
    " WHERE crawl_id = :crawl_id AND state = 'queued' AND begun_at IS NOT NULL AND is_last_retry = 0),"
    " (SELECT MIN(COALESCE(retry_at, '')) FROM crawl_pages"
    " WHERE crawl_id = :crawl_id AND state = 'queued' AND begun_at IS NOT NULL AND is_last_retry = 1)"
)
_SELECT_FRESH = (
    select(*_LEASED_COLUMNS)
    .where(crawl_pages.c.crawl_id == bindparam("of"), crawl_pages.c.state == PageState.QUEUED)
    .where(crawl_pages.c.begun_at.is_(None), crawl_pages.c.depth <= bindparam("level"))
    .where(tuple_(crawl_pages.c.depth, crawl_pages.c.id) > tuple_(bindparam("after_depth"), bindparam("after_id")))
    .order_by(crawl_pages.c.depth, crawl_pages.c.id)
    .limit(bindparam("count"))
)
_SELECT_RETRIES = (
    select(*_LEASED_COLUMNS)
    .where(crawl_pages.c.crawl_id == bindparam("of"), crawl_pages.c.state == PageState.QUEUED)
    .where(crawl_pages.c.begun_at.is_not(None), crawl_pages.c.is_last_retry == bindparam("is_last"))
    .where(crawl_pages.c.retry_at.is_(None) | (crawl_pages.c.retry_at <= bindparam("now")))
    .order_by(crawl_pages.c.depth, crawl_pages.c.id)
    .limit(bindparam("count"))
)
_LEASE_PAGE = text(
    "UPDATE crawl_pages SET state = 'fetching', lease = :owner, lease_until = :until,"
    " begun_at = COALESCE(begun_at, :now) WHERE id = :id"
)


class _CrawlRow(NamedTuple):
    """The columns of a crawl that a batch needs."""

    state: str
    taken: int
    host: str
    down_since: str | None
    paused_until: str | None
    previous_id: int | None
    is_previous_queued: int
    sitemaps_until: str | None

    @property
    def outage(self) -> Outage | None:
        return read_outage(self.down_since, self.paused_until)


def record_and_lease(
    connection: Connection,
    crawl_id: int,
    owner: str,
    results: Sequence[PageResult],
    options: CrawlOptions,
    *,
    want: int,
    now: datetime,
    renews: bool,
    learn_policy: Policy | None,
) -> FrontierBatch:
    """Record results and lease up to `want` more pages, in the caller's transaction; see `CrawlStore`."""
    # With the row lock, batches run one after the other: no two lease the same page or exceed the limit together.
    row = connection.execute(
        select(*[crawls.c[name] for name in _CrawlRow._fields]).where(crawls.c.id == crawl_id).with_for_update()
    ).first()
    if row is None:  # the crawl was removed
        return FrontierBatch(is_over=True)
    crawl = _CrawlRow(*row)
    recorded: list[RecordedPage] = []
    if results:
        recorded, ended = _record(
            connection,
            crawl_id,
            owner,
            results,
            options,
            now=stamp(now),
            comparison=Comparison(connection, crawl.previous_id),
            learn_policy=learn_policy,
        )
        if ended != len(recorded):  # a skipped page does not count towards the limit
            crawl = crawl._replace(taken=crawl.taken + len(recorded) - ended)
            _set_taken(connection, crawl_id, crawl.taken)
    until = stamp(now + LEASE_DURATION)
    if renews:
        connection.execute(_RENEW_LEASES, {"crawl_id": crawl_id, "owner": owner, "until": until})
        renew_sitemap_lease(connection, crawl_id, owner, until=until)
    connection.execute(_EXPIRE_LEASES, {"crawl_id": crawl_id, "now": stamp(now)})
    batch = _lease_next(connection, crawl_id, owner, crawl, options, want=want, now=now, learn_policy=learn_policy)
    return replace(batch, recorded=tuple(recorded))


def _lease_next(
    connection: Connection,
    crawl_id: int,
    owner: str,
    crawl: _CrawlRow,
    options: CrawlOptions,
    *,
    want: int,
    now: datetime,
    learn_policy: Policy | None,
) -> FrontierBatch:
    """Lease pages or the sitemaps to this owner, or tell it to learn, to wait, or that the crawl is over."""
    if crawl.state != "running":
        return FrontierBatch(is_over=True)
    outage = crawl.outage
    if outage is not None and now < outage.paused_until:
        wait = (outage.paused_until - now).total_seconds()
        return FrontierBatch(wait=wait, host=crawl.host, outage=outage)
    # Until the start page was read, there is no site whose sitemaps could be read.
    sitemaps_of = None if crawl.sitemaps_until is None else find_start_page(connection, crawl_id)
    if sitemaps_of is not None and want > 0 and (crawl.sitemaps_until or NOT_LEASED) < stamp(now):
        lease_sitemaps(connection, crawl_id, owner, until=stamp(now + LEASE_DURATION))
        return FrontierBatch(host=crawl.host, outage=outage, sitemaps_of=sitemaps_of)
    max_pages, max_depth = options.max_pages, _limit_depth(options.depth)
    levels = Levels(*connection.execute(_SELECT_LEVELS, {"crawl_id": crawl_id, "max_depth": max_depth}).one())
    leased = _lease(
        connection,
        crawl_id,
        owner,
        levels,
        want=want,
        taken=crawl.taken,
        max_pages=max_pages,
        max_depth=max_depth,
        now=now,
        learn_policy=learn_policy,
    )
    is_ending = not leased and want > 0 and is_exhausted(levels, taken=crawl.taken, max_pages=max_pages)
    taken_to_learn = None
    if learn_policy is not None and want > 0:
        progress = load_learning_progress(connection, crawl_id)
        if is_learning_due(progress, taken=crawl.taken, is_exhausted=is_ending):
            taken_to_learn = crawl.taken
    batch = FrontierBatch(leased=tuple(leased), host=crawl.host, outage=outage, taken_to_learn=taken_to_learn)
    if leased:
        return batch
    # Another process that reads the sitemaps may find pages, and rules may fail: the crawl is over if they do not.
    if sitemaps_of is not None or (is_ending and taken_to_learn is not None):
        return replace(batch, wait=_POLL_SECONDS)
    if is_ending:
        return replace(batch, is_over=_end(connection, crawl_id, crawl, max_depth=max_depth, now=now))
    if levels.open_depth is not None or not want:
        return replace(batch, wait=_POLL_SECONDS)
    retry_at = levels.last_retry_at if levels.retry_at is None else levels.retry_at
    return replace(batch, wait=_count_seconds_until(retry_at, now))


def _end(connection: Connection, crawl_id: int, crawl: _CrawlRow, *, max_depth: int, now: datetime) -> bool:
    """End a crawl, unless the earlier one with which it is compared has pages that were not found now."""
    previous_id = None if crawl.is_previous_queued else crawl.previous_id
    if previous_id is not None and queue_unlinked(connection, crawl_id, previous_id, max_depth=max_depth):
        return False
    connection.execute(update(crawls).where(crawls.c.id == crawl_id).values(state="done", finished_at=stamp(now)))
    return True


def _lease(
    connection: Connection,
    crawl_id: int,
    owner: str,
    levels: Levels,
    *,
    want: int,
    taken: int,
    max_pages: int | None,
    max_depth: int,
    now: datetime,
    learn_policy: Policy | None,
) -> list[LeasedPage]:
    """Lease retries that are due and pages that were never opened."""
    leased: list[LeasedPage] = []
    is_last = may_retry_last(levels, taken=taken, max_pages=max_pages)
    retry_at = levels.last_retry_at if is_last else levels.retry_at
    if want > 0 and retry_at is not None and retry_at <= stamp(now):
        due = {"of": crawl_id, "now": stamp(now), "count": want, "is_last": int(is_last)}
        leased += [_make_leased_page(row) for row in connection.execute(_SELECT_RETRIES, due)]
        _lease_to(connection, owner, leased, now=now)
    if count := count_fresh(levels, want=want - len(leased), taken=taken, max_pages=max_pages):
        new = _lease_fresh(connection, crawl_id, owner, count, max_depth=max_depth, now=now, learn_policy=learn_policy)
        _set_taken(connection, crawl_id, taken + len(new))
        leased += new
    return leased


def _lease_fresh(
    connection: Connection,
    crawl_id: int,
    owner: str,
    count: int,
    *,
    max_depth: int,
    now: datetime,
    learn_policy: Policy | None,
) -> list[LeasedPage]:
    """Lease pages that were never opened, without those that the rules of the crawl skip."""
    rules = load_active_rules(connection, crawl_id)
    leased: list[LeasedPage] = []
    after = (-1, 0)  # depth and id of the last page that was looked at: those that wait stay in the queue
    while len(leased) < count:
        size = max(count - len(leased), _PAGES_PER_CHOICE) if rules else count
        fresh = {"of": crawl_id, "level": max_depth, "count": size, "after_depth": after[0], "after_id": after[1]}
        pages = [_make_leased_page(row) for row in connection.execute(_SELECT_FRESH, fresh)]
        if not pages:
            break
        after = (pages[-1].depth, pages[-1].id)
        chosen = pages
        if rules:
            left = count - len(leased)
            chosen = choose_pages(connection, crawl_id, pages, rules, count=left, learn_policy=learn_policy)
        _lease_to(connection, owner, chosen, now=now)  # the next pages may have to wait for these
        leased += chosen
        if not rules:
            break
    return leased


def _lease_to(connection: Connection, owner: str, pages: Sequence[LeasedPage], *, now: datetime) -> None:
    if pages:
        until = stamp(now + LEASE_DURATION)
        rows = [{"id": page.id, "owner": owner, "until": until, "now": stamp(now)} for page in pages]
        connection.execute(_LEASE_PAGE, rows)


def _limit_depth(max_depth: int | None) -> int:
    return _ANY_DEPTH if max_depth is None else max_depth


def _make_leased_page(row: Row[Any]) -> LeasedPage:
    origin = Origin.parse(row.origin)
    return LeasedPage(row.id, row.url, row.requested_url, row.depth, row.attempts, origin, row.referrer)


def _set_taken(connection: Connection, crawl_id: int, taken: int) -> None:
    connection.execute(update(crawls).where(crawls.c.id == crawl_id).values(taken=taken))


def _count_seconds_until(retry_at: str | None, now: datetime) -> float:
    """Return the seconds until the first page may be retried."""
    if not retry_at:
        return 0.0
    return max(0.0, (_parse_stamp(retry_at) - now).total_seconds())


def read_outage(down_since: str | None, paused_until: str | None) -> Outage | None:
    """Return the outage that the columns of a crawl tell, if there is one."""
    if down_since is None or paused_until is None:
        return None
    return Outage(_parse_stamp(down_since), _parse_stamp(paused_until))


def _parse_stamp(text: str) -> datetime:
    """Return the time that `stamp` made a text of."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)


def _record(
    connection: Connection,
    crawl_id: int,
    owner: str,
    results: Sequence[PageResult],
    options: CrawlOptions,
    *,
    now: str,
    comparison: Comparison,
    learn_policy: Policy | None,
) -> tuple[list[RecordedPage], int]:
    """Record the results of pages that the owner still holds, and return them with the number of final results.

    A page whose lease expired belongs to another owner, which records it.
    """
    owned = set(connection.execute(_SELECT_OWNED_IDS, {"crawl_id": crawl_id, "owner": owner}).scalars())
    results = [each for each in results if each.page.id in owned]
    if not results:
        return [], 0
    # https, a shorter way or another spelling may have been found since the page was leased.
    known = load_known_pages(connection, [each.page.id for each in results])
    results = [each for each in results if not _try_next_spelling(connection, each, known[each.page.id])]
    if options.sessions:
        results = _skip_session_repeats(connection, crawl_id, results)
    if options.fold:
        results = fold_repeats(connection, crawl_id, results)
    plain = [
        RecordedPage(each, url, known[each.page.id].depth, each.page.referrer, now, comparison.judge(each, url))
        for each in results
        if not _is_redirect(each)
        for url in [_prefer_https(each.url, known[each.page.id].url)]
    ]
    controls = [each.control for each in results if each.control is not None]
    variants = [each.fact for each in controls if each.kind is ControlKind.VARIANT]
    save_facts(connection, [*variants, *(each.fact for each in results if each.fact is not None)])
    save_controls(connection, crawl_id, controls)
    if plain:
        connection.execute(_RECORD, [_make_row(each.result, each.url, now, each.change) for each in plain])
    recorded = [each for each in plain if each.result.state in RECORDED]
    if learn_policy is not None:
        read = [each.result for each in plain if each.result.state is PageState.DONE and each.result.status < 400]
        check_learned_rules(connection, crawl_id, read, learn_policy)
    depths = {each.page.id: known[each.page.id].depth for each in results}
    new_pages: dict[int, list[PageUrl]] = {}
    for each in sorted(results, key=lambda each: depths[each.page.id]):
        depth = depths[each.page.id] + 1
        new_pages[each.page.id] = add_pages(connection, crawl_id, each.found, depth, each.url, max_depth=options.depth)
    if options.trap_pages is not None:
        read = [each.result for each in plain if each.result.state is PageState.DONE]
        learn_traps(connection, crawl_id, read, new_pages=new_pages, depths=depths, trap_pages=options.trap_pages)
    for each in results:
        if _is_redirect(each):
            recorded += _record_redirect(comparison, crawl_id, each, now, depth=known[each.page.id].depth)
    return recorded, sum(each.state is not PageState.QUEUED for each in results)


def _try_next_spelling(connection: Connection, result: PageResult, known: KnownPage) -> bool:
    """Queue a page under another spelling of its URL if there is none at this one; return whether that was done."""
    if not needs_other_spelling(result.state, result.status, result.skip_reason):
        return False
    following = try_next_spelling(known)
    if following is not None:
        save_known_page(connection, known, following)
    return following is not None


def _skip_session_repeats(connection: Connection, crawl_id: int, results: list[PageResult]) -> list[PageResult]:
    """Return results in which a page that repeats another one under a different session identifier is skipped."""
    read = [each for each in results if each.state is PageState.DONE and each.status < 400 and not _is_redirect(each)]
    repeats = learn_sessions(connection, crawl_id, read)
    if not repeats:
        return results
    return [
        replace(
            each,
            state=PageState.SKIPPED,
            skip_reason=skip.reason,
            skipped_by=skip.rule_key,
            final_url=skip.target_url,
            links=(),
        )
        if (skip := repeats.get(each.page.id)) is not None
        else each
        for each in results
    ]


def _is_redirect(result: PageResult) -> bool:
    return bool(result.redirects_to) and result.state is PageState.DONE


def _record_redirect(
    comparison: Comparison, crawl_id: int, result: PageResult, now: str, *, depth: int
) -> list[RecordedPage]:
    """Record a page that redirects to another page of the site: one of the two gets the record."""
    connection = comparison.connection
    target = PageUrl(result.redirects_to, result.final_url, result.origin)
    by_key = {"crawl_id": crawl_id, "key": make_page_key(target.url)}
    if not result.is_target_read:  # the process that found the target may not have stored it yet
        add_pages(connection, crawl_id, [target], depth=depth, referrer=result.url)
    found = connection.execute(_SELECT_BY_KEY, by_key).first()
    other = None if found is not None and found.id == result.page.id else found
    decision = decide_redirect(
        None if other is None else PageState(other.state),
        is_target_read=result.is_target_read,
        has_queued_url=result.page.url == result.url,
        did_target_redirect=other is not None and other.skip_reason == SkipReason.REDIRECT_TO_PAGE,
    )
    if decision in (RedirectDecision.RECORD_PAGE, RedirectDecision.RECORD_PAGE_AND_RESERVE_TARGET):
        change = comparison.judge(result, result.url)
        connection.execute(_RECORD, _make_row(result, result.url, now, change))
        if decision is RedirectDecision.RECORD_PAGE_AND_RESERVE_TARGET:
            add_pages(connection, crawl_id, [target], depth=depth, referrer=result.url)
            alias = connection.execute(_SELECT_BY_KEY, by_key).one()
            skip = update(crawl_pages).where(crawl_pages.c.id == alias.id)
            values = {"state": PageState.SKIPPED, "skip_reason": SkipReason.DUPLICATE, "begun_at": now}
            connection.execute(skip.values(values))
        return [RecordedPage(result, result.url, depth, result.page.referrer, now, change)]
    skipped = PageResult(
        result.page,
        PageState.SKIPPED,
        result.url,
        result.status,
        result.final_url,
        engine=result.engine,
        skip_reason=SkipReason.REDIRECT_TO_PAGE,
    )
    connection.execute(_RECORD, _make_row(skipped, result.url, now, comparison.judge(skipped, result.url)))
    if decision is RedirectDecision.SKIP_PAGE or other is None:
        return []
    url = _prefer_https(target.url, other.url)
    change = comparison.judge(result, url)
    connection.execute(_RECORD, {**_make_row(result, url, now, change), "id": other.id})
    return [RecordedPage(result, url, other.depth, other.referrer, now, change)]


def _make_row(result: PageResult, url: str, now: str, change: PageChange | None) -> dict[str, object]:
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
        "link_origin": str(result.origin),
        "followed": result.followed,
        "facts": "{}" if result.facts is NO_FACTS else result.facts.to_json(),
        "change": change or "",
        "attempts": result.page.attempts + (result.state is PageState.QUEUED and not result.is_free_retry),
        "retry_at": None if result.retry_at is None else stamp(result.retry_at),
        "is_last_retry": int(result.is_last_retry),
        "skipped_by": result.skipped_by,
        "repeats_url": result.repeats_url,
        "text_hash": result.text_hash,
        "simhash": result.simhash,
        "words": result.fingerprint.words,
        "group_key": make_group_key(url),
        "finished_at": now,
    }


def _prefer_https(url: str, stored: str) -> str:
    """Return the stored URL if it is the https spelling of the same page."""
    is_better = stored.startswith("https:") and url.startswith("http:")
    return stored if is_better and stored.partition(":")[2] == url.partition(":")[2] else url
