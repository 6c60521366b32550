"""Expand short links of saved bookmarks in the background (contract B5)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from canonry.bookmarks.bookmark import ExpansionState
from canonry.bookmarks.bookmark_store import change_bookmark, lock_bookmark, require_unused_url
from canonry.bookmarks.duplicates import MergeReason, merge_bookmarks
from canonry.errors import AlreadySaved, BookmarkNotFound
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from sqlalchemy import Connection

    from canonry.bookmarks.bookmark import BookmarkUrl, OwnedBookmark
    from canonry.bookmarks.bookmark_store import BookmarkStore
    from canonry.bookmarks.url_pipeline import UrlPipeline

    # Queue a background job: its kind and its key.
    Enqueue = Callable[[str, str], Awaitable[object]]

EXPAND_JOB = "expand"  # the name is stored with every queued job


class PendingExpansions:
    """Bookmarks whose short link is not expanded yet."""

    def __init__(
        self, store: BookmarkStore, pipeline: UrlPipeline, *, enqueue: Enqueue, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._pipeline = pipeline
        self._enqueue = enqueue
        self._clock = clock

    async def enqueue_all(self) -> None:
        """Queue a job for every short link that is not expanded yet."""
        for bookmark_id in await self._store.list_pending_expansions(self._clock()):
            await self._enqueue(EXPAND_JOB, str(bookmark_id))

    async def finish(self, bookmark_id: int) -> None:
        """Expand the short link of a bookmark; merge the bookmark if the target is already saved.

        Does nothing for a bookmark that is expanded or deleted, so a job may run twice.
        """
        found = await self._store.get_with_owner(bookmark_id)
        if found is None or found.bookmark.expansion is not ExpansionState.PENDING:
            return
        short_link = found.bookmark.original_url or found.bookmark.url
        work = partial(_save_target, found=found, now=stamp(self._clock()))
        await self._pipeline.save(short_link, work, exact_url=False, wait=None)


def _save_target(connection: Connection, url: BookmarkUrl, found: OwnedBookmark, now: str) -> None:
    """Change the URL of the bookmark, or merge it with the bookmark that has this URL.

    `found` is the bookmark before the request: if it was changed, deleted or expanded since, nothing is written.
    """
    owner, expected = found.owner, found.bookmark
    try:
        current = lock_bookmark(connection, owner, expected.id)
    except BookmarkNotFound:
        return
    is_same = (current.url, current.original_url) == (expected.url, expected.original_url)
    if not is_same or current.expansion is not ExpansionState.PENDING or current.deleted_at is not None:
        return
    try:
        require_unused_url(connection, owner, current.id, url.url)
    except AlreadySaved as error:
        merge_bookmarks(connection, owner, error.bookmark_id, [current.id], now=now, why=MergeReason.EXPANSION)
    else:
        change_bookmark(connection, owner, current, now=now, url=url)
