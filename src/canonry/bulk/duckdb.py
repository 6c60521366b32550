"""The engine for one machine: threads make the parts, DuckDB merges them within the memory limit.

A part consists of runs sorted by hash, so a range of hashes lies in few row groups of each run. The merge goes range
by range: each range fits into memory, and the results in order are the whole output in order.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.disk_errors import get_first_line
from canonry.bulk.make_part import make_part
from canonry.bulk.merge_runs import merge_sorted_rows
from canonry.bulk.work_folder import get_segment_paths
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from canonry.bulk.job import BulkJob
    from canonry.bulk.normalize_batch import NormalizedBatch
    from canonry.bulk.work_folder import FilePart

pa: Any = pyarrow  # pyarrow has no type stubs
# Memory of the process that DuckDB does not count: Python, Arrow and the batches.
_BASE_MEMORY_BYTES = 300 * 1000**2
_MEMORY_PER_RANGE_BYTE = 5  # DuckDB gets this many times the memory of the rows of one range
_MAX_RANGES = 4096
_PIECE_ROWS = 1 << 14
# Sorting spills to disk and reads back what it needs; DuckDB's hash table keeps texts in memory.
_SORTED_ROWS_QUERY = """
SELECT canonical_hash, url, first_variant, place, count FROM read_parquet($files)
WHERE canonical_hash >= $low AND canonical_hash < $high ORDER BY canonical_hash, place
"""


class DuckDBEngine:
    """Run a job on one machine."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or len(os.sched_getaffinity(0))

    def make_parts(
        self, job: BulkJob, files: Sequence[int], on_batch: Callable[[NormalizedBatch], None]
    ) -> Iterator[FilePart]:
        """Make the parts of these input files one by one, each on all threads."""
        for file in files:
            yield make_part(job, file, threads=self._threads, on_batch=on_batch)

    def close(self) -> None:
        """Do nothing: the engine holds no resources."""

    def merge(self, job: BulkJob, parts: Sequence[FilePart]) -> Iterator[Any]:
        """Yield the merged rows of all parts in ascending order of hashes, as tables."""
        paths = [str(path) for part in parts for path in get_segment_paths(job, part)]
        if not paths:
            return
        memory = max(job.memory - _BASE_MEMORY_BYTES, job.memory // 4)
        options: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{memory}B",
            "temp_directory": str(job.work_folder / "spill"),
            "threads": str(self._threads),
        }
        ranges = min(sum(part.bytes for part in parts) * _MEMORY_PER_RANGE_BYTE // memory + 1, _MAX_RANGES)
        with duckdb.connect(":memory:", config=options) as connection:
            for number in range(ranges):
                bounds = {"low": _get_lower_bound(number, ranges), "high": _get_lower_bound(number + 1, ranges)}
                try:
                    result: Any = connection.sql(_SORTED_ROWS_QUERY, params={"files": paths, **bounds})
                    batches = result.to_arrow_reader(_PIECE_ROWS)
                    yield from merge_sorted_rows(pa.Table.from_batches([batch]) for batch in batches)
                except duckdb.Error as error:
                    raise _make_error(error, job) from None


def _get_lower_bound(number: int, ranges: int) -> str:
    """Return the first hash of a range; the bound after the last range is "g", greater than every hex digit."""
    return "g" if number == ranges else f"{(number << 32) // ranges:08x}"


def _make_error(error: duckdb.Error, job: BulkJob) -> BulkError:
    message = get_first_line(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        megabytes = job.memory // 1000**2
        return BulkError(f"{megabytes} MB of memory are not enough for the merge. Raise --memory. ({message})")
    return BulkError(f"The merge failed: {message}. Run the same command to resume.")
