"""Rekey bookmarks: normalize every bookmark again under another policy, in the background (contract B7, N10).

Bookmarks that become equal are merged. A merge can be undone on the duplicates page.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from canonry.bookmarks.bookmark import BookmarkUrl
from canonry.bookmarks.duplicates import DuplicateStore
from canonry.bookmarks.url_pipeline import get_original_if_different, read_http_url
from canonry.core.native import normalize
from canonry.errors import InvalidUrl
from canonry.rekey.bookmark_rekey_store import BATCH_ROWS, BookmarkRekeyStore, get_source_url
from canonry.rekey.key_counts import RekeyCounts
from canonry.store.pinned_policies import check_pinnable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from canonry.bookmarks.bookmark import Bookmark
    from canonry.bookmarks.save import Bookmarks
    from canonry.rekey.bookmark_rekey_store import BookmarkRekey
    from canonry.rekey.key_counts import RekeySummary

# The name is stored with every queued job, so it keeps the word that rekeying bookmarks had before.
BOOKMARK_REKEY_JOB = "renormalize"
_EXAMPLES = 10


class BookmarkRekeys:
    """Start rekeys of all bookmarks, and finish those that were started."""

    def __init__(self, bookmarks: Bookmarks) -> None:
        self.store = BookmarkRekeyStore(bookmarks.store.database)
        self._bookmarks = bookmarks

    async def start(self, to_policy: str, *, from_policy: str | None = None) -> BookmarkRekey:
        """Save new bookmarks under `to_policy` from now on, and queue the job that moves the others.

        RekeyUnfinished if `from_policy` is given and no longer the policy of the bookmarks.
        """
        started = await self.store.start(to_policy, self._bookmarks.clock(), from_policy=from_policy)
        self._bookmarks.pipeline.forget_policy()
        await self._enqueue(started.id)
        return started

    async def finish(self, rekey_id: int) -> None:
        """Move the remaining bookmarks, one transaction per batch, so that other writers do not wait long.

        Safe to call again after a crash.
        """
        await finish_rekey(self.store, rekey_id, clock=self._bookmarks.clock)

    async def start_undo(self, rekey_id: int) -> BookmarkRekey:
        """Save new bookmarks under the policy before the rekey, and queue the job that moves the others back."""
        started = await self.store.start_undo(rekey_id, self._bookmarks.clock())
        self._bookmarks.pipeline.forget_policy()
        await self._enqueue(rekey_id)
        return started

    async def undo_merge(self, owner: int, group_id: str) -> list[Bookmark]:
        """Undo the last merge of a group; return its bookmarks, under the policy of the store where that is possible.

        A rekey since the merge did not move the bookmarks that were merged. Those that it would merge again stay.
        """
        now = self._bookmarks.clock()
        restored = await DuplicateStore(self.store.database).undo(owner, group_id, now)
        return await self.store.move_restored(owner, [each.id for each in restored], rekey_url, now)

    async def plan(self, to_policy: str) -> RekeySummary:
        """Return what a rekey would change, with ten examples of each kind; nothing is changed."""
        return await plan_bookmark_rekey(self.store, to_policy)

    async def enqueue_unfinished(self) -> None:
        """Queue a job for every rekey that a crash interrupted or that was never queued."""
        for each in await self.store.list_latest():
            if not each.is_over:
                await self._enqueue(each.id)

    async def _enqueue(self, rekey_id: int) -> None:
        await self._bookmarks.enqueue(BOOKMARK_REKEY_JOB, str(rekey_id))


async def plan_bookmark_rekey(
    store: BookmarkRekeyStore,
    to_policy: str,
    *,
    examples: int = _EXAMPLES,
    on_progress: Callable[[int], object] = lambda _: None,
) -> RekeySummary:
    """Return what a rekey of all bookmarks would change, without changing anything."""
    to_policy = check_pinnable(to_policy)
    with RekeyCounts(await store.get_policy(), to_policy) as counts:
        position = 0
        while position := await store.plan_page(counts, position, partial(_normalize_again, to_policy=to_policy)):
            on_progress(counts.entries)
        return await asyncio.to_thread(counts.summarize, examples=examples)


async def finish_rekey(
    store: BookmarkRekeyStore,
    rekey_id: int,
    *,
    clock: Callable[[], datetime],
    size: int = BATCH_ROWS,
    on_progress: Callable[[BookmarkRekey], object] | None = None,
) -> BookmarkRekey:
    """Move the remaining bookmarks of a rekey, or move them back if it is being undone, a batch at a time."""
    while not (rekey := await store.get(rekey_id)).is_over:  # an undo may begin while bookmarks are moved
        policy = rekey.from_policy if rekey.is_undoing else rekey.to_policy
        move = store.restore_batch if rekey.is_undoing else store.move_batch
        while await move(rekey_id, partial(rekey_url, to_policy=policy), clock(), size=size):
            if on_progress is not None:
                on_progress(await store.get(rekey_id))
            await asyncio.sleep(0)
    return rekey


def rekey_url(bookmark: Bookmark, to_policy: str) -> BookmarkUrl | None:
    """Return the URL of a bookmark under another policy, or None if the stored URL is no longer valid."""
    normalized = _normalize_again(get_source_url(bookmark), to_policy)
    if normalized is None:
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


def _normalize_again(source_url: str, to_policy: str) -> str | None:
    try:
        return normalize(read_http_url(source_url), to_policy)
    except InvalidUrl:
        return None
