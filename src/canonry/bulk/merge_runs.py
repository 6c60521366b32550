"""Merge the sorted runs of a dedupe into rows with one hash each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.hash_groups import find_group_starts, view_hash_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

pa: Any = pyarrow  # pyarrow has no type stubs
pc: Any = pyarrow.compute
# A run: rows sorted by hash, each hash once. `first_variant` is null where it equals the canonical URL. `place` is
# the file and the row in one number, so the smallest place is the first row.
RUN_SCHEMA = pa.schema(
    [
        ("canonical_hash", pa.string()),
        ("url", pa.string()),
        ("first_variant", pa.string()),
        ("place", pa.int64()),
        ("count", pa.int64()),
    ]
)
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


def merge_sorted_rows(tables: Iterable[Any]) -> Iterator[Any]:
    """Merge run rows, sorted by hash and place, into rows with one hash each and their counts added up."""
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
    columns = {
        "url": firsts.column("url"),
        "canonical_hash": firsts.column("canonical_hash"),
        "count": pa.array(np.add.reduceat(counts, starts)),
        "first_variant": pc.coalesce(firsts.column("first_variant"), firsts.column("url")),
        "place": firsts.column("place"),
        "runs": pa.array(np.diff(np.append(starts, len(table)))),
    }
    return pa.table(columns, schema=MERGED_SCHEMA)


def _add_counts(row: Any, rows: Any) -> Any:
    """Return the row with the counts of the first of `rows` added."""
    for name in ("count", "runs"):
        total = row.column(name)[0].as_py() + rows.column(name)[0].as_py()
        row = row.set_column(row.column_names.index(name), name, pa.array([total]))
    return row
