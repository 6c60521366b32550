"""Read the pages of new bookmarks in the background: title, description and facts (contract E5).

Which pages are still to be read is stored with the bookmarks, so that a killed process loses none. Requests are polite:
few hosts at once, one request at a time for each host, and a pause between two of them. A page that cannot be read now
is requested again later, a few times; one that was read is requested again after a week at the earliest, and only if it
has changed.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, select, update

from canonry.bookmarks.bookmark import BookmarkFields, ExpansionState, OwnedBookmark
from canonry.bookmarks.bookmark_rows import bookmark_columns, parse_row
from canonry.bookmarks.bookmark_store import change_bookmark, lock_bookmark
from canonry.core.rules import strip_www
from canonry.core.url import parse, read_url
from canonry.errors import BookmarkNotFound, InvalidUrl
from canonry.evidence.claim_control import control_claims
from canonry.evidence.fact_reading import MAX_PAGE_BYTES, FactReader, UnreadPage, find_retry_delay
from canonry.evidence.fact_store import list_uncontrolled, save_aliases, save_facts
from canonry.evidence.facts import PageAlias
from canonry.evidence.resolve_decisions import selects_route
from canonry.evidence.same_page import Evidence
from canonry.net.concurrency import run_together
from canonry.net.origin import Origin
from canonry.net.search_fetcher import strip_fragment
from canonry.store.schema import bookmarks, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from canonry.bookmarks.bookmark import Bookmark
    from canonry.bookmarks.statistics import Statistics
    from canonry.evidence.facts import PageFact
    from canonry.net.response import Fetch
    from canonry.store.database import Database

READ_PAGES_JOB = "title"  # the name is stored with every queued job; it fetched only titles at first
_BATCH_BOOKMARKS = 200
_MAX_HOSTS = 8  # requested at the same time
PAUSE_SECONDS = 1.0  # between two requests to one host


class ReadingState(StrEnum):
    """Whether the page of a bookmark was read."""

    NONE = "none"  # it is not to be read
    PENDING = "pending"
    READ = "read"
    FAILED = "failed"


class PageReading:
    """Reads the pages of bookmarks; none without `fetch`, and none of private bookmarks without `reads_private`."""

    def __init__(
        self,
        database: Database,
        fetch: Fetch | None,
        *,
        statistics: Statistics,
        clock: Callable[[], datetime],
        reads_private: bool = True,
        pause: float = PAUSE_SECONDS,
    ) -> None:
        self._database = database
        self._fetch = fetch
        self._reader = None if fetch is None else FactReader(database, fetch, clock=clock)
        self._statistics = statistics
        self._clock = clock
        self._reads_private = reads_private
        self._pause = pause

    @property
    def is_enabled(self) -> bool:
        """Whether pages are read at all."""
        return self._fetch is not None

    async def count_pending(self, owner: int | None = None) -> int:
        """Return how many bookmarks, of one owner or of all, have a page that is still to be read."""
        if not self.is_enabled:
            return 0
        query = select(func.count()).select_from(bookmarks).where(_IS_PENDING)
        if owner is not None:
            query = query.where(bookmarks.c.owner_id == owner)
        return await self._database.read(lambda connection: connection.execute(query).scalar_one())

    async def has_due(self) -> bool:
        """Return whether there is a page that may be requested now."""
        due = partial(_list_due, now=stamp(self._clock()), limit=1)
        return self.is_enabled and bool(await self._database.read(due))

    async def read_all(self) -> None:
        """Read the pages of all bookmarks that wait for it; may be called again after a crash."""
        while self.is_enabled and (
            batch := await self._database.read(partial(_list_due, now=stamp(self._clock()), limit=_BATCH_BOOKMARKS))
        ):
            by_host: dict[str, list[OwnedBookmark]] = {}
            for each in batch:
                by_host.setdefault(parse(each.bookmark.url).host, []).append(each)
            slots = asyncio.Semaphore(_MAX_HOSTS)
            is_more = len(batch) == _BATCH_BOOKMARKS  # the next batch may begin with the host that this one ends with
            await run_together(self._read_host(found, slots, is_more=is_more) for found in by_host.values())

    async def _read_host(self, found: Sequence[OwnedBookmark], slots: asyncio.Semaphore, *, is_more: bool) -> None:
        async with slots:
            for number, each in enumerate(found):
                # A host with many bookmarks takes minutes: meanwhile one may be deleted or made private.
                current = await self._database.read(partial(_reload_due, found=each))
                was_asked = current is not None and await self.read(current)
                if was_asked and (number + 1 < len(found) or is_more):
                    await asyncio.sleep(self._pause)

    async def read(self, found: OwnedBookmark) -> bool:
        """Read the page of a bookmark and save what it shows; return whether a request was sent."""
        bookmark = found.bookmark
        if self._reader is None or (bookmark.private and not self._reads_private):
            await self._database.write(
                partial(_save_page, found=found, state=ReadingState.NONE, now=stamp(self._clock()))
            )
            return False
        origin = find_origin(bookmark)
        page = await self._reader.read(strip_fragment(bookmark.url), origin=origin)
        if isinstance(page, UnreadPage):
            await self._save_failure(found, page)
            return True
        if page.title and page.was_requested:
            self._statistics.count("title:found", self._clock())
        fact, was_asked = page.fact, page.was_requested
        if fact is not None:
            fact, is_controlled = await self._control_claims(fact, origin, is_first=not was_asked)
            was_asked = was_asked or is_controlled
        fields = BookmarkFields(title=page.title, description=page.description)
        now = stamp(self._clock())
        await self._database.write(
            partial(_save_page, found=found, state=ReadingState.READ, fields=fields, fact=fact, now=now)
        )
        return was_asked

    async def _control_claims(self, fact: PageFact, origin: Origin, *, is_first: bool = False) -> tuple[PageFact, bool]:
        """Check the claims of a page that would prove an alias; return the fact, and whether a request was sent.

        A redirect or a canonical to another path is that of a login form or of a missing page if the site shows the
        same for a made-up URL. `is_first` says that no request was sent for this bookmark yet.
        """
        assert self._fetch is not None
        claims = await self._database.read(partial(list_uncontrolled, fact=fact))
        for number, claim in enumerate(claims):
            if number or not is_first:
                await asyncio.sleep(self._pause)
            controlled = await control_claims(claim, self._fetch, origin=origin, max_bytes=MAX_PAGE_BYTES)
            if claim.url == fact.url:
                fact = controlled
            else:
                await self._database.write(partial(save_facts, facts=[controlled]))
        return fact, bool(claims)

    async def _save_failure(self, found: OwnedBookmark, page: UnreadPage) -> None:
        """Note that a page could not be read; request it again later if that may help."""
        now = self._clock()
        self._statistics.count("title:failed", now)
        await self._database.write(partial(_save_failure, found=found, page=page, now=now))


_IS_PENDING = (
    (bookmarks.c.page_state == ReadingState.PENDING)
    & bookmarks.c.deleted_at.is_(None)
    & (bookmarks.c.expansion != ExpansionState.PENDING)
)


def find_origin(bookmark: Bookmark) -> Origin:
    """Return who named the URL of a bookmark: a person only if the host is the one that the person gave.

    The target of a short link, and of a link that was unwrapped, is what the other site says.
    """
    if bookmark.expansion is ExpansionState.EXPANDED:
        return Origin.UNKNOWN
    if bookmark.original_url is None:
        return Origin.PERSON
    try:
        given = parse(read_url(bookmark.original_url)).host
    except InvalidUrl:
        return Origin.UNKNOWN
    return Origin.PERSON if strip_www(given) == strip_www(parse(bookmark.url).host) else Origin.UNKNOWN


def _list_due(connection: Connection, now: str, limit: int) -> list[OwnedBookmark]:
    table = bookmarks.c
    is_due = _IS_PENDING & (table.page_retry_at.is_(None) | (table.page_retry_at <= now))
    query = select(table.owner_id, *bookmark_columns).where(is_due).order_by(table.id).limit(limit)
    return [OwnedBookmark(owner, parse_row(row)) for owner, *row in connection.execute(query)]


def _reload_due(connection: Connection, found: OwnedBookmark) -> OwnedBookmark | None:
    """Return a bookmark as it is now, or None if its page is no longer to be read."""
    query = select(bookmarks.c.owner_id, *bookmark_columns).where(_IS_PENDING, bookmarks.c.id == found.bookmark.id)
    for owner, *row in connection.execute(query):
        return OwnedBookmark(owner, parse_row(row))
    return None


def _save_failure(connection: Connection, found: OwnedBookmark, page: UnreadPage, now: datetime) -> None:
    table, expected = bookmarks.c, found.bookmark
    is_same = (table.id == expected.id) & (table.url == expected.url) & (table.page_state == ReadingState.PENDING.value)
    query = select(table.page_attempts).where(is_same).with_for_update()
    attempts = connection.execute(query).scalar()
    if attempts is None:  # deleted, changed, or read by another process
        return
    delay = find_retry_delay(attempts + 1, wait=page.wait) if page.is_transient else None
    state = ReadingState.FAILED if delay is None else ReadingState.PENDING
    retry_at = None if delay is None else stamp(now + delay)
    values = {"page_state": state.value, "page_attempts": attempts + 1, "page_retry_at": retry_at}
    connection.execute(update(bookmarks).where(table.id == expected.id).values(values))


def _save_page(
    connection: Connection,
    found: OwnedBookmark,
    state: ReadingState,
    now: str,
    fields: BookmarkFields | None = None,
    fact: PageFact | None = None,
) -> None:
    """Save the facts, fill empty fields of the bookmark and note that its page was read.

    A bookmark that got another URL since the request is read again; what a person wrote stays.
    """
    expected = found.bookmark
    if fact is not None:
        save_facts(connection, [fact])
        fragment = parse(expected.url).fragment
        if fragment and not selects_route(fragment):
            save_aliases(connection, [PageAlias(expected.url, fact.url, Evidence.SAME_TEXT)], now)
    try:
        current = lock_bookmark(connection, found.owner, expected.id)
    except BookmarkNotFound:
        return
    if current.url != expected.url:
        return
    empty = BookmarkFields()
    if fields is not None and current.deleted_at is None:
        if not current.title and (title := fields.get("title")):
            empty["title"] = title
        if not current.description and (description := fields.get("description")):
            empty["description"] = description
    if empty:
        change_bookmark(connection, found.owner, current, now=now, fields=empty)
    values = {"page_state": state.value, "page_retry_at": None}
    connection.execute(update(bookmarks).where(bookmarks.c.id == expected.id).values(values))
