"""Rekey bookmarks: normalize every bookmark again under another policy, in the background (contract B7, N10).

Bookmarks that become equal are merged. A merge can be undone on the duplicates page.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from canonry.bookmarks.bookmark import BookmarkUrl
from canonry.bookmarks.url_pipeline import get_original_if_different, read_http_url
from canonry.core.native import normalize
from canonry.errors import InvalidUrl
from canonry.rekey.bookmark_rekey_store import BookmarkRekeyStore, get_source_url

if TYPE_CHECKING:
    from canonry.bookmarks.bookmark import Bookmark
    from canonry.bookmarks.save import Bookmarks
    from canonry.rekey.bookmark_rekey_store import BookmarkRekey

# The name is stored with every queued job, so it keeps the word that rekeying bookmarks had before.
BOOKMARK_REKEY_JOB = "renormalize"


class BookmarkRekeys:
    """Start rekeys of all bookmarks, and finish those that were started."""

    def __init__(self, bookmarks: Bookmarks) -> None:
        self.store = BookmarkRekeyStore(bookmarks.store.database)
        self._bookmarks = bookmarks

    async def start(self, to_policy: str) -> BookmarkRekey:
        """Save new bookmarks under `to_policy` from now on, and queue the job that moves the others."""
        started = await self.store.start(to_policy, self._bookmarks.clock())
        self._bookmarks.pipeline.forget_policy()
        await self._enqueue(started.id)
        return started

    async def finish(self, rekey_id: int) -> None:
        """Move the remaining bookmarks, one transaction per batch, so that other writers do not wait long.

        Safe to call again after a crash.
        """
        to_policy = (await self.store.get(rekey_id)).to_policy

        def rekey(bookmark: Bookmark) -> BookmarkUrl | None:
            return rekey_url(bookmark, to_policy)

        while await self.store.move_batch(rekey_id, rekey, self._bookmarks.clock()):
            await asyncio.sleep(0)

    async def enqueue_unfinished(self) -> None:
        """Queue a job for every rekey that a crash interrupted or that was never queued."""
        for each in await self.store.list_latest():
            if each.finished_at is None:
                await self._enqueue(each.id)

    async def _enqueue(self, rekey_id: int) -> None:
        await self._bookmarks.enqueue(BOOKMARK_REKEY_JOB, str(rekey_id))


def rekey_url(bookmark: Bookmark, to_policy: str) -> BookmarkUrl | None:
    """Return the URL of a bookmark under another policy, or None if the stored URL is no longer valid."""
    try:
        normalized = normalize(read_http_url(get_source_url(bookmark)), to_policy)
    except InvalidUrl:
        return None
    url = bookmark.url if bookmark.exact_url else normalized
    return BookmarkUrl(
        url,
        get_original_if_different(bookmark.original_url or bookmark.url, url),
        normalized,
        bookmark.exact_url,
        to_policy,
        bookmark.expansion,
        bookmark.expansion_reason,
    )
