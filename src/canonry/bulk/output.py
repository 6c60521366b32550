"""The one writer of answers: the same rows make the same bytes, and a file is there whole or not at all."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from canonry.atomic_files import sync
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

pa: Any = pyarrow  # it has no types
pq: Any = pyarrow.parquet
_GROUP = 1 << 17  # rows of a row group
_ONCE = ("url", "canonical_url", "canonical_hash", "first_variant", "first_row", "original_url", "row")
_DISTINCT = frozenset((*_ONCE, "before", "after", "before_hash", "after_hash"))


class RowWriter:
    """Takes rows in pieces of any size and writes row groups of one size, so that pieces leave no trace."""

    def __init__(self, file: Path, schema: Any) -> None:
        # Names of files come again and again; a dictionary of URLs would only be tried and thrown away.
        again = [name for name in schema.names if name not in _DISTINCT]
        self._out = pq.ParquetWriter(file, schema, compression="zstd", compression_level=1, use_dictionary=again)
        self._schema = schema
        self._held: list[Any] = []
        self._count = 0
        self.rows = 0

    def add(self, table: Any) -> None:
        """Rows, in the columns of the schema."""
        self._held.append(table.cast(self._schema))
        self._count += len(table)
        self.rows += len(table)
        while self._count >= _GROUP:
            self._write(_GROUP)

    def _write(self, count: int) -> None:
        held = pa.concat_tables(self._held)
        self._out.write_table(held.slice(0, count).combine_chunks(), row_group_size=_GROUP)
        self._held, self._count = [held.slice(count)], len(held) - count

    def close(self) -> None:
        """The rest, and the footer."""
        if self._count:
            self._write(self._count)
        self._out.close()


@contextmanager
def writing(file: Path, schema: Any) -> Generator[RowWriter]:
    """A writer for a file that gets its bytes on disk before anybody may rely on it."""
    writer = RowWriter(file, schema)
    try:
        yield writer
    finally:
        writer.close()
    sync(file)


@contextmanager
def told_in_one_line(doing: str) -> Generator[None]:
    """What the disk refuses, as an error that says what was going on."""
    try:
        yield
    except pa.ArrowException as error:
        raise BulkError(f"{doing}: {str(error).partition(chr(10))[0]}") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            why = "the disk is full" if error.errno == errno.ENOSPC else os.strerror(error.errno)
            raise BulkError(f"{doing}: {why}; with more room the same command goes on where this one stopped") from None
        raise BulkError(f"{doing}: {error.strerror or error}") from error
