"""Merge the sorted runs of a dedupe into rows with one key each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.hash_groups import find_group_starts, sort_hashes, view_hash_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from canonry.bulk.job import BulkJob

pa: Any = pyarrow  # pyarrow has no type stubs
pc: Any = pyarrow.compute
KEPT_PREFIX = "kept."  # of the names of input columns in runs
_TEXT_FIELDS = [("key", pa.string()), ("url", pa.string()), ("first_variant", pa.string())]


def _list_kept_fields(job: BulkJob) -> list[tuple[str, Any]]:
    """Return the columns that a dedupe keeps; their names do not clash with those of runs."""
    hash_column = () if job.group_by is None else ("canonical_hash",)
    return [(name, pa.string()) for name in (*hash_column, *(f"{KEPT_PREFIX}{each}" for each in job.kept_columns))]


def make_run_schema(job: BulkJob) -> Any:
    """Return the columns of a run: rows sorted by key, each key once.

    The key is the hash of the URL, or of the value by which the job groups. `first_variant` is null where it equals
    the canonical URL.
    """
    return pa.schema([*_TEXT_FIELDS, ("row", pa.int64()), ("count", pa.int64()), *_list_kept_fields(job)])


def make_merge_schema(job: BulkJob) -> Any:
    """Return the columns of runs as they are merged.

    `place` is the file and the row in one number, so the smallest place is the first row. Runs do not contain it,
    because the number of a file changes when files are added.
    """
    return pa.schema([*_TEXT_FIELDS, ("place", pa.int64()), ("count", pa.int64()), *_list_kept_fields(job)])


def make_merged_schema(job: BulkJob) -> Any:
    """Return the columns of merged rows; `runs` is the number of rows that were merged into one."""
    numbers = [(name, pa.int64()) for name in ("place", "count", "runs")]
    return pa.schema([*_TEXT_FIELDS, *numbers, *_list_kept_fields(job)])


def merge_in_memory(job: BulkJob, tables: Iterable[Any]) -> Any:
    """Merge rows; the rows of each key must come in the order of their places."""
    table = pa.concat_tables([make_merge_schema(job).empty_table(), *tables]).combine_chunks()
    if not len(table):
        return make_merged_schema(job).empty_table()
    [keys] = table.column("key").chunks  # more than one, and most rows would be lost
    order, starts = sort_hashes(view_hash_bytes(keys))
    counts = table.column("count").to_numpy()[order]
    firsts = table.take(pa.array(np.minimum.reduceat(order, starts)))
    return _make_merged_rows(firsts, counts, starts)


def merge_sorted_rows(tables: Iterable[Any]) -> Iterator[Any]:
    """Merge rows sorted by key and place into rows with one key each and their counts added up."""
    last: Any = None  # the last merged row, whose key may continue in the next table
    for table in tables:
        if not len(table):
            continue
        rows = _merge_table(table.combine_chunks())
        if last is not None:
            if last.column("key")[0] == rows.column("key")[0]:
                last, rows = _add_counts(last, rows), rows.slice(1)
            if len(rows):
                yield last
        if len(rows):
            yield rows.slice(0, len(rows) - 1)
            last = rows.slice(len(rows) - 1)
    if last is not None:
        yield last


def _merge_table(table: Any) -> Any:
    starts = find_group_starts(view_hash_bytes(table.column("key").chunk(0)))
    counts = table.column("count").to_numpy()
    firsts = table if len(starts) == len(table) else table.take(pa.array(starts))
    return _make_merged_rows(firsts, counts, starts)


def _make_merged_rows(firsts: Any, counts: NDArray[np.int64], starts: NDArray[np.int64]) -> Any:
    """Return one row for each group; `firsts` are the first rows, `starts` the groups in the sorted `counts`."""
    columns = {name: firsts.column(name) for name in firsts.column_names}
    columns |= {
        "count": pa.array(np.add.reduceat(counts, starts)),
        "first_variant": pc.coalesce(firsts.column("first_variant"), firsts.column("url")),
        "runs": pa.array(np.diff(np.append(starts, len(counts)))),
    }
    names = [*firsts.column_names[:5], "runs", *firsts.column_names[5:]]
    return pa.table({name: columns[name] for name in names})


def _add_counts(row: Any, rows: Any) -> Any:
    """Return the row with the counts of the first of `rows` added."""
    for name in ("count", "runs"):
        total = row.column(name)[0].as_py() + rows.column(name)[0].as_py()
        row = row.set_column(row.column_names.index(name), name, pa.array([total]))
    return row
