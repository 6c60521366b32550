"""Write Parquet output whose bytes depend only on its rows."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.storage import create_file

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.typing import NDArray

pa: Any = pyarrow  # pyarrow has no type stubs
pc: Any = pyarrow.compute
pq: Any = pyarrow.parquet
# A row group ends after so many rows or, if they are long, after so many bytes.
_ROW_GROUP_ROWS = 1 << 17
_ROW_GROUP_BYTES = 32 << 20  # writing them takes six times as much memory
# Columns whose values rarely repeat: Parquet would build a dictionary for them and throw it away.
_DISTINCT_COLUMNS = frozenset(
    (
        *("url", "canonical_url", "canonical_hash", "first_variant", "first_row", "original_url", "row"),
        *("before", "after", "before_hash", "after_hash", "group_hash"),
    )
)


class ParquetRowWriter:
    """Write tables of any size as row groups of one size, so that the table sizes do not change the file."""

    def __init__(self, stream: Any, schema: Any, *, sorted_by: str | None = None) -> None:
        names = schema.names
        sorting = None if sorted_by is None else [pq.SortingColumn(names.index(sorted_by))]
        repeating = [name for name in schema.names if name not in _DISTINCT_COLUMNS]
        self._file = pq.ParquetWriter(
            stream,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=repeating,
            sorting_columns=sorting,
        )
        self._schema = schema
        self._pending: list[Any] = []
        self._pending_rows = self._pending_bytes = 0
        self.rows = 0

    def add(self, table: Any) -> None:
        """Append a table with the columns of the schema."""
        self._pending.append(table.cast(self._schema))
        self._pending_rows += len(table)
        self._pending_bytes += table.nbytes
        self.rows += len(table)
        while self._pending_rows >= _ROW_GROUP_ROWS or self._pending_bytes >= _ROW_GROUP_BYTES:
            count = self._find_group_end()
            if not count:
                return
            self._write_group(count)

    def _find_group_end(self) -> int:
        """Return the rows of the next row group, which depend on the rows only; 0 if it is not complete yet."""
        pending = pa.concat_tables(self._pending)
        if self._pending_bytes >= _ROW_GROUP_BYTES:
            totals = np.cumsum(_measure_rows(pending.slice(0, _ROW_GROUP_ROWS)))
            count = int(np.searchsorted(totals, _ROW_GROUP_BYTES)) + 1
            if count <= len(totals):
                return count
        return _ROW_GROUP_ROWS if len(pending) >= _ROW_GROUP_ROWS else 0

    def _write_group(self, count: int) -> None:
        pending = pa.concat_tables(self._pending)
        self._file.write_table(pending.slice(0, count).combine_chunks(), row_group_size=_ROW_GROUP_ROWS)
        rest = pending.slice(count)
        self._pending, self._pending_rows, self._pending_bytes = [rest], len(rest), rest.nbytes

    def abandon(self) -> None:
        """Close the file after an error, without the remaining rows: the error is what matters."""
        with suppress(OSError, ValueError, pa.ArrowException):
            self._file.close()

    def close(self) -> None:
        """Write the remaining rows and the footer."""
        if self._pending_rows:
            self._write_group(self._pending_rows)
        self._file.close()


def _measure_rows(table: Any) -> NDArray[np.int64]:
    """Return the bytes of the texts in each row; other columns are short."""
    sizes: NDArray[np.int64] = np.zeros(len(table), np.int64)
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy()
    return sizes


@contextmanager
def open_parquet_writer(path: str, schema: Any, *, sorted_by: str | None = None) -> Generator[ParquetRowWriter]:
    """Yield a writer for a new file, which appears under its name when it is complete and on disk.

    The metadata say by which column the rows ascend.
    """
    with create_file(path) as stream:
        writer = ParquetRowWriter(stream, schema, sorted_by=sorted_by)
        try:
            yield writer
        except BaseException:
            writer.abandon()
            raise
        writer.close()
