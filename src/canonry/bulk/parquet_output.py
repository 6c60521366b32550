"""Write Parquet output whose bytes depend only on its rows."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from canonry.atomic_files import sync

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

pa: Any = pyarrow  # pyarrow has no type stubs
pq: Any = pyarrow.parquet
_ROW_GROUP_ROWS = 1 << 17
# Columns whose values rarely repeat: Parquet would build a dictionary for them and throw it away.
_DISTINCT_COLUMNS = frozenset(
    (
        *("url", "canonical_url", "canonical_hash", "first_variant", "first_row", "original_url", "row"),
        *("before", "after", "before_hash", "after_hash"),
    )
)


class ParquetRowWriter:
    """Write tables of any size as row groups of one size, so that the table sizes do not change the file."""

    def __init__(self, file: Path, schema: Any) -> None:
        repeating = [name for name in schema.names if name not in _DISTINCT_COLUMNS]
        self._file = pq.ParquetWriter(file, schema, compression="zstd", compression_level=1, use_dictionary=repeating)
        self._schema = schema
        self._pending: list[Any] = []
        self._pending_rows = 0
        self.rows = 0

    def add(self, table: Any) -> None:
        """Append a table with the columns of the schema."""
        self._pending.append(table.cast(self._schema))
        self._pending_rows += len(table)
        self.rows += len(table)
        while self._pending_rows >= _ROW_GROUP_ROWS:
            self._write_group(_ROW_GROUP_ROWS)

    def _write_group(self, count: int) -> None:
        pending = pa.concat_tables(self._pending)
        self._file.write_table(pending.slice(0, count).combine_chunks(), row_group_size=_ROW_GROUP_ROWS)
        self._pending, self._pending_rows = [pending.slice(count)], len(pending) - count

    def close(self) -> None:
        """Write the remaining rows and the footer."""
        if self._pending_rows:
            self._write_group(self._pending_rows)
        self._file.close()


@contextmanager
def open_parquet_writer(file: Path, schema: Any) -> Generator[ParquetRowWriter]:
    """Yield a writer for a new file; at the end the file is closed and synced to disk."""
    writer = ParquetRowWriter(file, schema)
    try:
        yield writer
    finally:
        writer.close()
    sync(file)
