"""The engine for one machine: threads make the parts and merge them bucket by bucket.

A group of buckets that fits into memory is merged there. DuckDB sorts a bucket that does not fit: it spills to disk.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.disk_errors import get_first_line
from canonry.bulk.make_part import make_part
from canonry.bulk.merge_runs import MERGE_SCHEMA, merge_in_memory, merge_sorted_rows
from canonry.bulk.run_files import group_buckets, measure_buckets, read_buckets
from canonry.errors import BadInputFile, BulkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from canonry.bulk.job import BulkJob
    from canonry.bulk.normalize_batch import NormalizedBatch
    from canonry.bulk.work_folder import FilePart

pa: Any = pyarrow  # pyarrow has no type stubs
# Memory of the process besides the merge: Python, Arrow and the rows that are being written.
_BASE_MEMORY_BYTES = 300 * 1000**2
_MEMORY_PER_BYTE = 5  # a merge needs this many times the memory of its rows
_MAX_GROUP_BYTES = 1000**3  # the offsets of an Arrow column of text have 31 bits
_PIECE_BYTES = 16 << 20
_MAX_PIECE_ROWS = 1 << 14
_SORTED_ROWS_QUERY = "SELECT * FROM rows ORDER BY canonical_hash, place"


class DuckDBEngine:
    """Run a job on one machine."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or len(os.sched_getaffinity(0))

    def make_parts(
        self, job: BulkJob, files: Sequence[int], on_batch: Callable[[NormalizedBatch], None]
    ) -> Iterator[FilePart | BadInputFile]:
        """Make the parts of these input files one by one, each on all threads."""
        for file in files:
            try:
                yield make_part(job, file, threads=self._threads, on_batch=on_batch)
            except BadInputFile as error:
                yield error

    def close(self) -> None:
        """Do nothing: the engine holds no resources."""

    def merge(self, job: BulkJob, parts: Sequence[FilePart]) -> Iterator[Any]:
        """Yield the merged rows of all parts in ascending order of hashes, as tables."""
        memory = max(job.memory - _BASE_MEMORY_BYTES, job.memory // 4)
        sizes = measure_buckets(job, parts)
        # One more group than threads is in memory: the one that is being written.
        max_bytes = min(memory // _MEMORY_PER_BYTE // (self._threads + 1), _MAX_GROUP_BYTES)
        pending: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                for group in group_buckets(sizes, max_bytes):
                    if sizes[group.start : group.stop].sum() > max_bytes:
                        while pending:
                            yield pending.popleft().result()
                        yield from _merge_on_disk(job, parts, group, memory=memory, threads=self._threads)
                        continue
                    pending.append(pool.submit(_merge_group, job, parts, group))
                    if len(pending) > self._threads:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                for future in pending:
                    future.cancel()


def _merge_group(job: BulkJob, parts: Sequence[FilePart], group: range) -> Any:
    return merge_in_memory(read_buckets(job, parts, group))


def _merge_on_disk(
    job: BulkJob, parts: Sequence[FilePart], group: range, *, memory: int, threads: int
) -> Iterator[Any]:
    """Yield the merged rows of a bucket that does not fit into memory."""
    options: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{memory // 2}B",
        "temp_directory": str(job.work_folder / "spill"),
        "threads": str(threads),
        "preserve_insertion_order": "false",
    }
    row_bytes = sum(part.bytes for part in parts) // max(sum(part.written for part in parts), 1)
    piece_rows = max(min(_PIECE_BYTES // max(row_bytes, 1), _MAX_PIECE_ROWS), 64)
    batches = (batch for table in read_buckets(job, parts, group) for batch in table.to_batches())
    rows = pa.RecordBatchReader.from_batches(MERGE_SCHEMA, batches)
    with duckdb.connect(":memory:", config=options) as connection:
        try:
            connection.register("rows", rows)
            reader: Any = connection.sql(_SORTED_ROWS_QUERY).to_arrow_reader(piece_rows)
            yield from merge_sorted_rows(pa.Table.from_batches([batch]) for batch in reader)
        except duckdb.Error as error:
            raise _make_error(error, job) from None


def _make_error(error: duckdb.Error, job: BulkJob) -> BulkError:
    message = get_first_line(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        megabytes = job.memory // 1000**2
        return BulkError(f"{megabytes} MB of memory are not enough for the merge. Raise --memory. ({message})")
    return BulkError(f"The merge failed: {message}. Run the same command to resume.")
