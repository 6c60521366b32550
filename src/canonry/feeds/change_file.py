"""Append changes to a file, each at least once, also if the process is killed at any moment (contract I8, I10).

The position in the change feed is stored beside the file, as `FILE.position`, after the lines are on disk. A run
that is killed before that leaves the position, and the next run writes the lines again.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from canonry.atomic_files import replace_file
from canonry.errors import CanonryError, ChangesLost
from canonry.feeds.changes import MAX_PAGE_CHANGES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection

    from canonry.feeds.changes import ChangeBounds, ChangeFeed
    from canonry.feeds.ingest_report import ItemRecord


@dataclass(frozen=True, slots=True)
class OutputPosition:
    """The position of a file in the changes of a store: all after `after` are missing.

    `feeds` are ids, None for all feeds.
    """

    after: int
    feeds: frozenset[int] | None


def extend_position(
    stored: OutputPosition | None, bounds: ChangeBounds, feed_ids: Collection[int] | None
) -> OutputPosition:
    """Return the position for a run over some feeds: a new file begins with what comes now.

    The feeds of earlier runs stay: their last changes may not be in the file yet.
    """
    after, known = (bounds.last, frozenset[int]()) if stored is None else (stored.after, stored.feeds)
    return OutputPosition(after, None if known is None or feed_ids is None else known.union(feed_ids))


class ChangeFile:
    """A file of JSON lines with the changes of a store."""

    def __init__(
        self,
        file: str | Path,
        changes: ChangeFeed,
        *,
        format_record: Callable[[ItemRecord], str],
        warn: Callable[[str], object],
    ) -> None:
        self.file = Path(file)
        self._changes = changes
        self._format = format_record
        self._warn = warn
        self._positions = Path(f"{file}.position")

    async def start(self, feed_ids: Collection[int] | None) -> None:
        """Make sure that the changes of these feeds, or of all, get into the file from now on."""
        bounds = await self._changes.get_or_make_bounds()
        async with self._lock():
            known = self._load()
            position = extend_position(known.get(bounds.store_id), bounds, feed_ids)
            if known.get(bounds.store_id) != position:
                self._save({**known, bounds.store_id: position})

    async def write_new(self) -> int:
        """Append all changes that the file lacks, and return how many there were."""
        bounds = await self._changes.get_or_make_bounds()
        written = 0
        async with self._lock() as out:
            while (position := self._load().get(bounds.store_id)) is not None:
                try:
                    page = await self._changes.read(position.after, limit=MAX_PAGE_CHANGES, feed_ids=position.feeds)
                except ChangesLost as lost:
                    self._warn(f"{self.file}: {lost}")
                    self._save_after(bounds.store_id, position, lost.continue_after)
                    continue
                if page.changes:
                    lines = "".join(f"{self._format(change)}\n" for change in page.changes)
                    _append(out, lines.encode(), self.file)
                    written += len(page.changes)
                if page.next != position.after:
                    self._save_after(bounds.store_id, position, page.next)
                if page.next >= page.last:
                    break
        return written

    @asynccontextmanager
    async def _lock(self) -> AsyncGenerator[int]:
        """Open the file for appending; other processes that write changes to it wait."""
        handle = os.open(self.file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            await asyncio.to_thread(fcntl.flock, handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)

    def _load(self) -> dict[str, OutputPosition]:
        """Return the positions by store: one file may have the changes of several stores."""
        try:
            stored = cast("dict[str, Any]", json.loads(self._positions.read_bytes()))
            return {
                store_id: OutputPosition(
                    int(each["after"]), None if each["feeds"] is None else frozenset(each["feeds"])
                )
                for store_id, each in stored.items()
            }
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError, AttributeError):
            raise CanonryError(
                f"{self._positions}: not a position file of canonry, or damaged."
                " Delete it to begin with the next new item."
            ) from None

    def _save_after(self, store_id: str, position: OutputPosition, after: int) -> None:
        self._save({**self._load(), store_id: OutputPosition(after, position.feeds)})

    def _save(self, positions: dict[str, OutputPosition]) -> None:
        text = json.dumps(
            {
                store_id: {"after": each.after, "feeds": None if each.feeds is None else sorted(each.feeds)}
                for store_id, each in positions.items()
            }
        )
        with replace_file(self._positions) as part:
            part.write_text(text, encoding="utf-8")


def _append(handle: int, lines: bytes, file: Path) -> None:
    """Append lines, after the end of one that a killed process left unfinished, and wait until they are on disk.

    After an error, which names `file`, none of them is in it: the next run appends them all.
    """
    size = os.fstat(handle).st_size
    if size and os.pread(handle, 1, size - 1) != b"\n":
        lines = b"\n" + lines
    view = memoryview(lines)
    try:
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    except OSError as error:
        os.ftruncate(handle, size)
        raise OSError(error.errno, error.strerror, str(file)) from error
