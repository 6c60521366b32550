"""Import files of bookmarks in the background (contract B5, B8)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from canonry.bookmarks.import_problems import BadBookmarkFile
from canonry.bookmarks.import_store import ImportRow, ImportStore
from canonry.bookmarks.page_reading import READ_PAGES_JOB
from canonry.errors import PolicyRepinned, mask_credentials

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from canonry.bookmarks.draft import Draft
    from canonry.bookmarks.exchange import FileFormat
    from canonry.bookmarks.import_store import BookmarkImport
    from canonry.bookmarks.pending_expansions import Enqueue, PendingExpansions
    from canonry.bookmarks.statistics import Statistics
    from canonry.bookmarks.url_pipeline import UrlPipeline
    from canonry.store.database import Database

IMPORT_JOB = "import"  # the name is stored with every queued job
_BATCH_ROWS = 100  # in one transaction


class Imports:
    """Files of bookmarks: stored at once, imported by a job."""

    def __init__(
        self,
        database: Database,
        pipeline: UrlPipeline,
        expansions: PendingExpansions,
        *,
        statistics: Statistics,
        enqueue: Enqueue,
        clock: Callable[[], datetime],
        reads_pages: bool = False,
    ) -> None:
        self._reads_pages = reads_pages
        self.store = ImportStore(database)
        self._statistics = statistics
        self._pipeline = pipeline
        self._expansions = expansions
        self._enqueue = enqueue
        self._clock = clock

    async def start(
        self,
        owner: int,
        data: bytes,
        *,
        file_format: FileFormat | None = None,
        file_name: str = "",
        exact_url: bool = False,
    ) -> BookmarkImport:
        """Store a file and queue its import; BadBookmarkFile if it cannot be read."""
        from canonry.bookmarks.exchange import guess_format, read_bookmarks

        file_format = file_format or guess_format(data, file_name)
        parsed = await asyncio.to_thread(read_bookmarks, data, file_format, file_name)
        started = await self.store.start(
            owner, str(file_format), data, len(parsed.drafts), self._clock(), exact_url=exact_url
        )
        await self._enqueue(IMPORT_JOB, str(started.id))
        return started

    async def finish(self, import_id: int, *, on_progress: Callable[[int], object] | None = None) -> None:
        """Save the remaining bookmarks of a file, batch by batch; short links are expanded later.

        Safe to call again after a crash.
        """
        from canonry.bookmarks.exchange import FileFormat, read_bookmarks

        pending = await self.store.get_pending(import_id)
        if pending is None:
            return
        try:
            parsed = await asyncio.to_thread(read_bookmarks, pending.content, FileFormat(pending.progress.format))
        except BadBookmarkFile as error:  # another version of canonry could read it when it was uploaded
            await self.store.finish(import_id, [], self._clock(), failure=str(error))
            return
        done = pending.progress.done
        while done < len(parsed.drafts):
            end = min(done + _BATCH_ROWS, len(parsed.drafts))
            rows = [
                await self._make_row(parsed.numbers[each], parsed.drafts[each], exact_url=pending.progress.exact_url)
                for each in range(done, end)
            ]
            try:
                outcomes = await self.store.save_rows(import_id, pending.owner, done, rows, self._clock())
            except PolicyRepinned:  # the same rows again, under the new policy
                self._pipeline.forget_policy()
                continue
            for outcome, times in outcomes.items():
                self._statistics.count(f"put:{outcome}", self._clock(), times)
            done = end
            if on_progress is not None:
                on_progress(done)
            await asyncio.sleep(0)
        await self.store.finish(import_id, parsed.refused, self._clock())
        await self._expansions.enqueue_all()
        if self._reads_pages:
            await self._enqueue(READ_PAGES_JOB, "")

    async def enqueue_unfinished(self) -> None:
        """Queue a job for every import that is not finished."""
        for import_id in await self.store.list_unfinished():
            await self._enqueue(IMPORT_JOB, str(import_id))

    async def _make_row(self, number: int, draft: Draft, *, exact_url: bool) -> ImportRow:
        url = await self._pipeline.run(draft.url, exact_url=exact_url or draft.exact_url, wait=0)
        if draft.original_url:
            url = replace(url, original_url=draft.original_url)
        return ImportRow(number, mask_credentials(draft.url), url, draft.get_fields(), draft.created_at)
