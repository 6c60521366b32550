"""Give the free pages of a SQLite file back to the file system; PostgreSQL does that by itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from canonry.errors import StoreError, mask_credentials
from canonry.store.database import find_store_file

if TYPE_CHECKING:
    from canonry.store.database import Database

_MIN_FREE_BYTES = 1 << 20
_MIN_FREE_SHARE = 0.05  # of the file
_BUSY_SECONDS = 60.0  # to wait for other writers
_SIZE_PRAGMAS = ("page_size", "page_count", "freelist_count")


@dataclass(frozen=True, slots=True)
class CompactedFile:
    """The size of the file of a store in bytes, before and after."""

    before: int
    after: int


def compact(database: Database) -> CompactedFile | None:
    """Rewrite the file of a store without its free pages; None if there is little to gain, or no file.

    Other processes can read meanwhile, and writers wait. It is one transaction of SQLite, so a process that is killed
    leaves the file as it was. It needs as much free space as the file has data.
    """
    file = find_store_file(database.url)
    if file is None:
        return None
    try:
        with closing(sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
            page_bytes, pages, free = (_get_pragma(connection, name) for name in _SIZE_PRAGMAS)
            if free * page_bytes < _MIN_FREE_BYTES or free < pages * _MIN_FREE_SHARE:
                return None
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else the log stays as long as the store
            return CompactedFile(pages * page_bytes, _get_pragma(connection, "page_count") * page_bytes)
    except sqlite3.Error as error:
        raise StoreError(f"{mask_credentials(database.url)}: the file was not compacted: {error}") from error


def _get_pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
