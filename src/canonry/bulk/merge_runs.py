"""Merge the sorted runs of a dedupe into rows with one hash each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.hash_groups import find_group_starts, sort_hashes, view_hash_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

pa: Any = pyarrow  # pyarrow has no type stubs
pc: Any = pyarrow.compute
_RUN_FIELDS = [("canonical_hash", pa.string()), ("url", pa.string()), ("first_variant", pa.string())]
# A run: rows sorted by hash, each hash once. `first_variant` is null where it equals the canonical URL.
RUN_SCHEMA = pa.schema([*_RUN_FIELDS, ("row", pa.int64()), ("count", pa.int64())])
# The rows of runs as they are merged. `place` is the file and the row in one number, so the smallest place is the
# first row. Runs do not contain it, because the number of a file changes when files are added.
MERGE_SCHEMA = pa.schema([*_RUN_FIELDS, ("place", pa.int64()), ("count", pa.int64())])
# `runs` is the number of run rows that were merged into one row.
MERGED_SCHEMA = pa.schema(
    [
        ("url", pa.string()),
        ("canonical_hash", pa.string()),
        ("count", pa.int64()),
        ("first_variant", pa.string()),
        ("place", pa.int64()),
        ("runs", pa.int64()),
    ]
)


def merge_in_memory(tables: Iterable[Any]) -> Any:
    """Merge rows of MERGE_SCHEMA; the rows of each hash must come in the order of their places."""
    table = pa.concat_tables([MERGE_SCHEMA.empty_table(), *tables]).combine_chunks()
    if not len(table):
        return MERGED_SCHEMA.empty_table()
    order, starts = sort_hashes(view_hash_bytes(table.column("canonical_hash").chunk(0)))
    counts = table.column("count").to_numpy()[order]
    firsts = table.take(pa.array(np.minimum.reduceat(order, starts)))
    return _make_merged_rows(firsts, counts, starts)


def merge_sorted_rows(tables: Iterable[Any]) -> Iterator[Any]:
    """Merge rows of MERGE_SCHEMA, sorted by hash and place, into rows with one hash each and their counts added up."""
    last: Any = None  # the last merged row, whose hash may continue in the next table
    for table in tables:
        if not len(table):
            continue
        rows = _merge_table(table.combine_chunks())
        if last is not None:
            if last.column("canonical_hash")[0] == rows.column("canonical_hash")[0]:
                last, rows = _add_counts(last, rows), rows.slice(1)
            if len(rows):
                yield last
        if len(rows):
            yield rows.slice(0, len(rows) - 1)
            last = rows.slice(len(rows) - 1)
    if last is not None:
        yield last


def _merge_table(table: Any) -> Any:
    starts = find_group_starts(view_hash_bytes(table.column("canonical_hash").chunk(0)))
    counts = table.column("count").to_numpy()
    firsts = table if len(starts) == len(table) else table.take(pa.array(starts))
    return _make_merged_rows(firsts, counts, starts)


def _make_merged_rows(firsts: Any, counts: NDArray[np.int64], starts: NDArray[np.int64]) -> Any:
    """Return one row for each group; `firsts` are the first rows, `starts` the groups in the sorted `counts`."""
    columns = {
        "url": firsts.column("url"),
        "canonical_hash": firsts.column("canonical_hash"),
        "count": pa.array(np.add.reduceat(counts, starts)),
        "first_variant": pc.coalesce(firsts.column("first_variant"), firsts.column("url")),
        "place": firsts.column("place"),
        "runs": pa.array(np.diff(np.append(starts, len(counts)))),
    }
    return pa.table(columns, schema=MERGED_SCHEMA)


def _add_counts(row: Any, rows: Any) -> Any:
    """Return the row with the counts of the first of `rows` added."""
    for name in ("count", "runs"):
        total = row.column(name)[0].as_py() + rows.column(name)[0].as_py()
        row = row.set_column(row.column_names.index(name), name, pa.array([total]))
    return row
