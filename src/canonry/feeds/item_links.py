"""Read where the links of new items lead, so that an item is known under the URL of its page, too (contract E4, I3).

Many feeds link to a redirect of their own or of a service that counts clicks. Where such a link redirects permanently,
or its page declares a canonical URL, and that is proven, other feeds that show the item at the URL of the page show
the same item. This is an option, off by default, because it sends requests for each item: one for the link, at most
two to prove what it claims. Requests are polite: robots.txt is respected, few hosts are asked at once, one request at a
time for each host, with a pause, and a bounded number in each run. What was read is stored, so that a killed run
loses nothing and no link is read twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, or_, select
from sqlalchemy.dialects import postgresql

from canonry.core.keys import make_link_key, make_place
from canonry.core.url import parse
from canonry.errors import InvalidUrl
from canonry.evidence.claim_control import control_claims
from canonry.evidence.fact_reading import MAX_PAGE_BYTES, FactReader, ReadPage, UnreadPage, find_retry_delay
from canonry.evidence.fact_store import save_facts
from canonry.evidence.facts import (
    ControlResult,
    declares,
    differ_only_in_form,
    find_alias,
    find_redirect_alias,
    has_unproven_redirect,
)
from canonry.evidence.resolve_decisions import selects_route
from canonry.evidence.same_page import Evidence
from canonry.net.concurrency import run_together
from canonry.net.origin import Origin
from canonry.net.robots import fetch_robots, get_robots_token
from canonry.net.search_fetcher import strip_fragment
from canonry.store.pinned_policies import ENTRY, get_or_pin_policy
from canonry.store.schema import entries, item_links, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from canonry.evidence.facts import PageAlias, PageFact
    from canonry.net.response import Fetch
    from canonry.net.robots import Robots
    from canonry.store.database import Database

READ_LINKS_JOB = "item links"  # the name is stored with every queued job
_MAX_AGE = timedelta(days=2)  # links of items that were first seen before are not read
_MAX_LISTED = 5000  # of which a run chooses
_MAX_LINKS = 500  # in one run
_MAX_LINKS_PER_HOST = 20  # in one run
_MAX_HOSTS = 8  # asked at once
_PAUSE_SECONDS = 1.0  # between two requests to one host


class LinkState(StrEnum):
    """Whether the link of an item was read."""

    PENDING = "pending"  # it could not be read now
    READ = "read"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ItemLink:
    """The link of an item that is to be read; `attempts` have failed."""

    entry_id: int
    url: str
    attempts: int


@dataclass(frozen=True, slots=True)
class LinkCounts:
    """Counts of links: read, leading to another URL, and unreadable."""

    read: int = 0
    learned: int = 0
    failed: int = 0


class LinkReading:
    """Reads the links of new items; `user_agent` selects the rules in robots.txt."""

    def __init__(
        self,
        database: Database,
        fetch: Fetch,
        *,
        clock: Callable[[], datetime],
        user_agent: str,
        pause: float = _PAUSE_SECONDS,
    ) -> None:
        self._database = database
        self._fetch = fetch
        self._clock = clock
        self._robots_token = get_robots_token(user_agent)
        self._pause = pause
        self._reader = FactReader(database, fetch, clock=clock)

    async def read_due(self) -> LinkCounts:
        """Read links of new items, a bounded number for each host; may be called again after a crash."""
        now = self._clock()
        due = partial(_list_due, now=stamp(now), since=stamp(now - _MAX_AGE))
        by_host: dict[str, list[ItemLink]] = {}
        for link in choose_links(await self._database.read(due)):
            by_host.setdefault(parse(link.url).host, []).append(link)
        slots = asyncio.Semaphore(_MAX_HOSTS)
        results = await run_together(self._read_host(links, slots) for links in by_host.values())
        found = [outcome for host in results for outcome in host]
        learned, failed = found.count(_Outcome.LEARNED), found.count(_Outcome.FAILED)
        return LinkCounts(len(found) - failed, learned, failed)

    async def _read_host(self, links: Sequence[ItemLink], slots: asyncio.Semaphore) -> list[_Outcome]:
        robots: dict[str, Robots] = {}
        outcomes: list[_Outcome] = []
        async with slots:
            for link in links:
                site = parse(link.url).get_origin()
                if site not in robots:
                    robots[site] = await fetch_robots(site, self._fetch, self._robots_token, origin=Origin.UNKNOWN)
                outcomes.append(await self._read(link, robots[site]))
        return outcomes

    async def _read(self, link: ItemLink, robots: Robots) -> _Outcome:
        """Read one link and save what it shows."""
        if not robots.allows(link.url):
            is_transient = robots.failure is not None and robots.failure.is_transient
            return await self._save_failure(link, UnreadPage(is_transient))
        await self._wait(robots)
        page = await self._reader.read(link.url, origin=Origin.UNKNOWN)
        if isinstance(page, UnreadPage):
            return await self._save_failure(link, page)
        fact = page.fact
        if fact is None:
            return await self._save_failure(link, UnreadPage(is_transient=False))
        canonical: PageFact | None = None
        if has_unproven_redirect(fact):
            fact = await self._control(fact, robots)
        elif is_worth_reading(fact) and robots.allows(fact.canonical_url):
            await self._wait(robots)
            declared = await self._reader.read(fact.canonical_url, origin=Origin.UNKNOWN)
            canonical = declared.fact if isinstance(declared, ReadPage) else None
            if canonical is not None and declares(fact, canonical) and fact.control is ControlResult.NONE:
                fact = await self._control(fact, robots)
        alias = choose_page(fact, canonical)
        facts = [each for each in (canonical, fact) if each is not None]
        await self._database.write(
            partial(_save_read_link, link=link, facts=facts, alias=alias, now=stamp(self._clock()))
        )
        return _Outcome.READ if alias is None else _Outcome.LEARNED

    async def _control(self, fact: PageFact, robots: Robots) -> PageFact:
        await self._wait(robots)
        return await control_claims(fact, self._fetch, origin=Origin.UNKNOWN, max_bytes=MAX_PAGE_BYTES)

    async def _wait(self, robots: Robots) -> None:
        await asyncio.sleep(max(self._pause, robots.delay))

    async def _save_failure(self, link: ItemLink, page: UnreadPage) -> _Outcome:
        await self._database.write(partial(_save_failure, link=link, page=page, now=self._clock()))
        return _Outcome.FAILED


class _Outcome(StrEnum):
    READ = "read"
    LEARNED = "learned"
    FAILED = "failed"


def choose_links(links: Sequence[ItemLink]) -> list[ItemLink]:
    """Return the links that one run reads, without fragments: few of each host, none with credentials or a route."""
    chosen: list[ItemLink] = []
    counts: Counter[str] = Counter()
    for link in links:
        try:
            parts = parse(link.url)
        except InvalidUrl:
            continue
        is_page = parts.userinfo is None and not selects_route(parts.fragment)
        if is_page and counts[parts.host] < _MAX_LINKS_PER_HOST and len(chosen) < _MAX_LINKS:
            counts[parts.host] += 1
            chosen.append(replace(link, url=strip_fragment(str(parts))))
    return chosen


def is_worth_reading(fact: PageFact) -> bool:
    """Return whether the canonical URL that a page declares may stand for it: another path of the same host."""
    url = fact.canonical_url
    if not url or fact.permanent_url or differ_only_in_form(fact.url, url):
        return False
    return parse(url).host == parse(fact.url).host and parse(url).scheme == parse(fact.url).scheme


def choose_page(fact: PageFact, canonical: PageFact | None) -> PageAlias | None:
    """Return the alias under which the page of a link is known, too, or None: proven, and more than another form."""
    redirect = find_redirect_alias(fact)
    if redirect is not None:
        return None if differ_only_in_form(redirect.url, redirect.target_url) else redirect
    declared = find_alias(fact, canonical) if canonical is not None else None
    is_own = declared is not None and declared.url == fact.url and declared.evidence is Evidence.DECLARED
    return declared if is_own else None


def move_page_places(connection: Connection, first_id: int, last_id: int, policy: str) -> None:
    """Compute the places of pages under another policy, for the entries with ids after `first_id` up to `last_id`."""
    table = item_links.c
    is_in_range = (table.entry_id > first_id) & (table.entry_id <= last_id) & (table.page_url != "")
    for row in connection.execute(select(table.entry_id, table.page_url).where(is_in_range)).all():
        change = item_links.update().where(table.entry_id == row.entry_id)
        connection.execute(change.values(page_place=_make_page_place(row.page_url, policy)))


def _make_page_place(url: str, policy: str) -> str:
    return make_place(make_link_key(url, policy=policy))


def _list_due(connection: Connection, now: str, since: str) -> list[ItemLink]:
    """List links of new items that were not read yet, the newest first."""
    is_due = or_(
        item_links.c.entry_id.is_(None),
        and_(item_links.c.state == LinkState.PENDING.value, item_links.c.retry_at <= now),
    )
    query = (
        select(entries.c.id, entries.c.url, item_links.c.attempts)
        .outerjoin(item_links, item_links.c.entry_id == entries.c.id)
        .where(entries.c.first_seen_at >= since, entries.c.canonical_url != "", is_due)
        .order_by(entries.c.first_seen_at.desc(), entries.c.id.desc())
        .limit(_MAX_LISTED)
    )
    return [ItemLink(row.id, row.url, row.attempts or 0) for row in connection.execute(query)]


def _save_read_link(
    connection: Connection, link: ItemLink, facts: Sequence[PageFact], alias: PageAlias | None, now: str
) -> None:
    for fact in facts:
        save_facts(connection, [fact])
    _save_link(
        connection,
        link,
        now=now,
        state=LinkState.READ,
        page_url="" if alias is None else alias.target_url,
        evidence="" if alias is None else alias.evidence.value,
    )


def _save_failure(connection: Connection, link: ItemLink, page: UnreadPage, now: datetime) -> None:
    delay = find_retry_delay(link.attempts + 1, wait=page.wait) if page.is_transient else None
    state = LinkState.FAILED if delay is None else LinkState.PENDING
    retry_at = None if delay is None else stamp(now + delay)
    _save_link(connection, link, now=stamp(now), state=state, attempts=link.attempts + 1, retry_at=retry_at)


def _save_link(
    connection: Connection,
    link: ItemLink,
    *,
    now: str,
    state: LinkState,
    attempts: int = 0,
    retry_at: str | None = None,
    page_url: str = "",
    evidence: str = "",
) -> None:
    is_kept = select(entries.c.id).where(entries.c.id == link.entry_id).with_for_update(read=True)
    if connection.execute(is_kept).first() is None:
        return  # the item was deleted meanwhile
    values = {
        "entry_id": link.entry_id,
        "state": state.value,
        "attempts": attempts,
        "retry_at": retry_at,
        "page_url": page_url,
        "page_place": _make_page_place(page_url, get_or_pin_policy(connection, ENTRY)) if page_url else "",
        "evidence": evidence,
        "read_at": now,
    }
    change = postgresql.insert(item_links).values(values)  # SQLite understands this too
    connection.execute(change.on_conflict_do_update(index_elements=["entry_id"], set_=values))
