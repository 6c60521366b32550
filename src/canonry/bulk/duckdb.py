"""The engine for one machine: threads make the parts and merge them bucket by bucket.

A group of buckets that fits into memory is merged there. DuckDB sorts a bucket that does not fit: it spills to disk.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.disk_errors import get_first_line
from canonry.bulk.job import MEMORY_PER_RUN_BYTE, get_merge_bytes
from canonry.bulk.make_part import make_part
from canonry.bulk.merge_runs import make_merge_schema, merge_in_memory, merge_sorted_rows
from canonry.bulk.run_files import group_buckets, measure_buckets, read_buckets
from canonry.bulk.work_folder import open_local_folder
from canonry.bulk.write_output import write_partition
from canonry.errors import BadInputFile, BulkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from canonry.bulk.job import BulkJob
    from canonry.bulk.normalize_batch import NormalizedBatch
    from canonry.bulk.work_folder import FilePart
    from canonry.bulk.write_output import OutputPlan, WrittenRows

pa: Any = pyarrow  # pyarrow has no type stubs
_WRITER_BYTES = 200 * 1000**2  # of each partition that is written at the same time
_MAX_GROUP_BYTES = 1000**3  # the offsets of an Arrow column of text have 31 bits
_PIECE_BYTES = 16 << 20
_MAX_PIECE_ROWS = 1 << 14
_SORTED_ROWS_QUERY = "SELECT * FROM rows ORDER BY key, place"


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

    def write_partitions(self, job: BulkJob, plan: OutputPlan, report: Callable[[WrittenRows], None]) -> None:
        """Write the files of the output, several at once if the memory allows it."""
        memory = get_merge_bytes(job.memory)
        writers = max(min(self._threads, memory // _WRITER_BYTES, len(plan.partitions)), 1)
        share = _MergeShare(memory // writers, self._threads // writers or 1)

        def merge(buckets: range) -> Iterator[Any]:
            return _merge(job, plan.parts, buckets, share)

        if writers == 1:
            for partition in plan.partitions:
                write_partition(job, plan, partition, merge, report)
            return
        with ThreadPoolExecutor(writers) as pool:
            futures = [
                pool.submit(write_partition, job, plan, partition, merge, lambda _: None)
                for partition in plan.partitions
            ]
            try:
                for future in futures:
                    report(future.result())
            finally:
                for future in futures:
                    future.cancel()


@dataclass(frozen=True, slots=True)
class _MergeShare:
    """The memory and threads of one of the merges that run at the same time."""

    memory: int
    threads: int


def _merge(job: BulkJob, parts: Sequence[FilePart], buckets: range, share: _MergeShare) -> Iterator[Any]:
    """Yield the merged rows of a range of buckets in ascending order of keys, as tables."""
    bucket_sizes = measure_buckets(job, parts)
    threads = _choose_threads(share, int(bucket_sizes[buckets.start : buckets.stop].max(initial=0)))
    max_bytes = _get_group_bytes(share.memory, threads)
    pending: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for group in group_buckets(bucket_sizes, buckets, max_bytes):
                if bucket_sizes[group.start : group.stop].sum() > max_bytes:
                    while pending:
                        yield pending.popleft().result()
                    yield from _merge_on_disk(job, parts, group, share)
                    continue
                pending.append(pool.submit(_merge_group, job, parts, group))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _choose_threads(share: _MergeShare, largest_bucket: int) -> int:
    """Return as many threads as leave each enough memory for the largest bucket; all if no number does."""
    fitting = (
        threads for threads in range(share.threads, 0, -1) if _get_group_bytes(share.memory, threads) >= largest_bucket
    )
    return next(fitting, share.threads)


def _get_group_bytes(memory: int, threads: int) -> int:
    """Return the bytes of runs that each thread may merge; one more group is in memory, the one being written."""
    return min(memory // MEMORY_PER_RUN_BYTE // (threads + 1), _MAX_GROUP_BYTES)


def _merge_group(job: BulkJob, parts: Sequence[FilePart], group: range) -> Any:
    return merge_in_memory(job, read_buckets(job, parts, group))


def _merge_on_disk(job: BulkJob, parts: Sequence[FilePart], group: range, share: _MergeShare) -> Iterator[Any]:
    """Yield the merged rows of a bucket that does not fit into memory."""
    import duckdb  # most jobs need no bucket sorted

    row_bytes = sum(part.bytes for part in parts) // max(sum(part.written for part in parts), 1)
    piece_rows = max(min(_PIECE_BYTES // max(row_bytes, 1), _MAX_PIECE_ROWS), 64)
    batches = (batch for table in read_buckets(job, parts, group) for batch in table.to_batches())
    rows = pa.RecordBatchReader.from_batches(make_merge_schema(job), batches)
    with open_local_folder(job) as folder:
        options: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{share.memory // 2}B",
            "temp_directory": str(folder / f"spill-{group.start}"),
            "threads": str(share.threads),
            "preserve_insertion_order": "false",
        }
        with duckdb.connect(":memory:", config=options) as connection:
            try:
                connection.register("rows", rows)
                reader: Any = connection.sql(_SORTED_ROWS_QUERY).to_arrow_reader(piece_rows)
                yield from merge_sorted_rows(pa.Table.from_batches([batch]) for batch in reader)
            except duckdb.Error as error:
                raise _make_error(error, job, is_out_of_memory=isinstance(error, duckdb.OutOfMemoryException)) from None


def _make_error(error: Exception, job: BulkJob, *, is_out_of_memory: bool) -> BulkError:
    message = get_first_line(error)
    if is_out_of_memory:
        megabytes = job.memory // 1000**2
        return BulkError(f"{megabytes} MB of memory are not enough for the merge. Raise --memory. ({message})")
    return BulkError(f"The merge failed: {message}. Run the same command to resume.")
