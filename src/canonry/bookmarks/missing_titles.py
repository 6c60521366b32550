"""Give bookmarks without a title the title of their page, in the background (contract B4)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from canonry.bookmarks.bookmark import ExpansionState
from canonry.bookmarks.bookmark_store import change_bookmark, lock_bookmark
from canonry.core.rules import strip_www
from canonry.core.url import parse, read_url
from canonry.errors import BookmarkNotFound, FetchFailed, InvalidUrl, UnsafeUrl
from canonry.net.origin import Origin
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from sqlalchemy import Connection

    from canonry.bookmarks.bookmark import Bookmark, OwnedBookmark
    from canonry.bookmarks.bookmark_store import BookmarkStore
    from canonry.bookmarks.statistics import Statistics
    from canonry.net.response import Fetch

FETCH_TITLE_JOB = "title"  # the name is stored with every queued job
_MAX_PAGE_BYTES = 1_000_000


class MissingTitles:
    """Titles that are fetched from the pages of bookmarks; none without `fetch`."""

    def __init__(
        self, store: BookmarkStore, fetch: Fetch | None, *, statistics: Statistics, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._fetch = fetch
        self._statistics = statistics
        self._clock = clock

    @property
    def is_enabled(self) -> bool:
        """Whether titles are fetched at all."""
        return self._fetch is not None

    async def fetch(self, bookmark_id: int) -> None:
        """Fetch the page of a bookmark and save its title; FetchFailed or UnsafeUrl if there is no response."""
        from canonry.net.html import read_page_title

        found = await self._store.get_with_owner(bookmark_id)
        if found is None or found.bookmark.title or self._fetch is None:
            return
        try:
            response = await self._fetch(
                found.bookmark.url, origin=find_origin(found.bookmark), max_bytes=_MAX_PAGE_BYTES
            )
        except (FetchFailed, UnsafeUrl):
            self._statistics.count("title:failed", self._clock())
            raise
        title = await asyncio.to_thread(read_page_title, response.body, response.header("content-type"))
        if response.is_ok and title:
            self._statistics.count("title:found", self._clock())
            await self._store.database.write(partial(_save_title, found=found, title=title, now=stamp(self._clock())))


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


def _save_title(connection: Connection, found: OwnedBookmark, title: str, now: str) -> None:
    """Save the title unless the bookmark got a title or another URL, or was deleted, since the request."""
    try:
        current = lock_bookmark(connection, found.owner, found.bookmark.id)
    except BookmarkNotFound:
        return
    if not current.title and current.url == found.bookmark.url and current.deleted_at is None:
        change_bookmark(connection, found.owner, current, now=now, fields={"title": title})
