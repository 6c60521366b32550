"""Read the pages of new bookmarks in the background: title, description and facts (contract E5).

Which pages are still to be read is stored with the bookmarks, so that a killed process loses none. Requests are polite:
few hosts at once, one request at a time for each host, and a pause between two of them.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, select, update

from canonry.bookmarks.bookmark import BookmarkFields, ExpansionState, OwnedBookmark
from canonry.bookmarks.bookmark_rows import bookmark_columns, parse_row
from canonry.bookmarks.bookmark_store import change_bookmark, lock_bookmark
from canonry.core.rules import strip_www
from canonry.core.url import parse, read_url
from canonry.errors import BookmarkNotFound, FetchFailed, InvalidUrl, UnsafeUrl
from canonry.evidence.fact_store import load_facts, save_aliases, save_facts
from canonry.evidence.facts import PageAlias, make_fact
from canonry.evidence.resolve_decisions import selects_route
from canonry.evidence.same_page import Evidence
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
_MAX_PAGE_BYTES = 5_000_000
_BATCH_BOOKMARKS = 200
_MAX_HOSTS = 8  # asked at once
PAUSE_SECONDS = 1.0  # between two requests to one host
_FRESH = timedelta(days=7)  # a page that was read since is not fetched again


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

    async def read_all(self) -> None:
        """Read the pages of all bookmarks that wait for it; may be called again after a crash."""
        while self.is_enabled and (batch := await self._database.read(_list_pending)):
            by_host: dict[str, list[OwnedBookmark]] = {}
            for each in batch:
                by_host.setdefault(parse(each.bookmark.url).host, []).append(each)
            slots = asyncio.Semaphore(_MAX_HOSTS)
            await asyncio.gather(*(self._read_host(found, slots) for found in by_host.values()))

    async def _read_host(self, found: Sequence[OwnedBookmark], slots: asyncio.Semaphore) -> None:
        async with slots:
            for number, each in enumerate(found):
                was_asked = await self.read(each)
                if was_asked and number + 1 < len(found):
                    await asyncio.sleep(self._pause)

    async def read(self, found: OwnedBookmark) -> bool:
        """Read the page of a bookmark and save what it shows; return whether a request was sent."""
        from canonry.evidence.page_view import read_page_view

        bookmark = found.bookmark
        save = partial(_save_page, found=found)
        if self._fetch is None or (bookmark.private and not self._reads_private):
            await self._database.write(partial(save, state=ReadingState.NONE, now=stamp(self._clock())))
            return False
        url = strip_fragment(bookmark.url)
        known = (await self._database.read(partial(load_facts, urls=[url]))).get(url)
        if known is not None and known.fetched_at > stamp(self._clock() - _FRESH):
            fields = BookmarkFields(title=known.title)
            now = stamp(self._clock())
            await self._database.write(partial(save, state=ReadingState.READ, fields=fields, fact=known, now=now))
            return False
        try:
            response = await self._fetch(url, origin=find_origin(bookmark), max_bytes=_MAX_PAGE_BYTES)
        except (FetchFailed, UnsafeUrl):
            self._statistics.count("title:failed", self._clock())
            await self._database.write(partial(save, state=ReadingState.FAILED, now=stamp(self._clock())))
            return True
        page = await asyncio.to_thread(read_page_view, response)
        now = stamp(self._clock())
        if not response.is_ok:
            await self._database.write(partial(save, state=ReadingState.FAILED, now=now))
            return True
        if page.title:
            self._statistics.count("title:found", self._clock())
        has_password = parse(url).userinfo is not None
        await self._database.write(
            partial(
                save,
                state=ReadingState.READ,
                fields=BookmarkFields(title=page.title, description=page.description),
                fact=None if has_password else make_fact(url, page, now),
                now=now,
            )
        )
        return True


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


def _list_pending(connection: Connection) -> list[OwnedBookmark]:
    query = select(bookmarks.c.owner_id, *bookmark_columns).where(_IS_PENDING).order_by(bookmarks.c.id)
    return [OwnedBookmark(owner, parse_row(row)) for owner, *row in connection.execute(query.limit(_BATCH_BOOKMARKS))]


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
    connection.execute(update(bookmarks).where(bookmarks.c.id == expected.id).values(page_state=state.value))
