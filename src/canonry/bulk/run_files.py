"""The runs of a dedupe on disk: rows in buckets by the first bits of their hash.

A part keeps its runs in one file. Rows are collected in memory and written in flushes. A flush holds the rows of
every bucket, one bucket after the other:

    flush 0: [bucket 00][bucket 01]…[bucket ff]   flush 1: [bucket 00][bucket 01]…[bucket ff]   …

The index has a row for each flush with the offsets of its buckets, and the end of the flush. The merge reads one
bucket after the other from all parts, so it reads every byte once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.hash_groups import parse_leading_digits, view_hash_bytes
from canonry.bulk.job import ROW_BITS
from canonry.bulk.known_keys import measure_known_buckets, read_known_rows
from canonry.bulk.merge_runs import make_merge_schema, make_run_schema
from canonry.bulk.storage import NewFile, create_file, is_remote, open_input, read_bytes, read_range
from canonry.bulk.work_folder import get_index_path, get_runs_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from canonry.bulk.job import BulkJob
    from canonry.bulk.work_folder import FilePart

pa: Any = pyarrow  # pyarrow has no type stubs
_OFFSET = np.dtype("<i8")


class RunWriter:
    """Write runs to a file, which appears with its index at the end."""

    def __init__(self, job: BulkJob, file: int) -> None:
        self._job = job
        self._bits = job.bucket_bits
        self._index_path = get_index_path(job, file)
        self._file = NewFile(get_runs_path(job, file))
        self._offset = 0
        self._pending: list[Any] = []
        self._pending_bytes = 0
        self._index: list[NDArray[np.int64]] = []
        self.rows = 0

    @property
    def bytes(self) -> int:
        """The bytes of the file."""
        return self._offset

    def add(self, run: Any) -> None:
        """Add rows of a run, in the order in which they are in the input for each key."""
        if not len(run):
            return
        self._pending.append(run)
        self._pending_bytes += run.nbytes
        self.rows += len(run)
        if self._pending_bytes >= self._job.flush_bytes:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        table = pa.concat_tables(self._pending).combine_chunks()
        self._pending, self._pending_bytes = [], 0
        numbers = parse_leading_digits(view_hash_bytes(table.column("key").chunk(0)))
        buckets = numbers >> np.uint64(64 - self._bits)
        order = np.argsort(buckets, kind="stable")
        rows = table.take(pa.array(order)).combine_chunks()
        bounds = np.searchsorted(buckets[order], np.arange((1 << self._bits) + 1, dtype=np.uint64))
        offsets = np.empty(len(bounds), np.int64)
        for bucket, (start, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
            offsets[bucket] = self._offset
            if start < end:
                [batch] = rows.slice(start, end - start).to_batches()
                self._offset += self._file.stream.write(batch.serialize())
        offsets[-1] = self._offset
        self._index.append(offsets)

    def complete(self) -> None:
        """Write the remaining rows and the index."""
        self._flush()
        self._file.complete()
        with create_file(self._index_path) as file:
            file.write(np.array(self._index, _OFFSET).tobytes())

    def discard(self) -> None:
        """Delete the file after an error."""
        self._file.discard()


def measure_buckets(job: BulkJob, parts: Sequence[FilePart]) -> NDArray[np.int64]:
    """Return the bytes of each bucket in all parts and, about, in the known keys."""
    sizes: NDArray[np.int64] = np.zeros(1 << job.bucket_bits, np.int64)
    if job.known is not None:
        sizes += measure_known_buckets(job.known, job.bucket_bits)
    for part in parts:
        sizes += np.diff(_load_index(job, part), axis=1).sum(axis=0)
    return sizes


def group_buckets(sizes: NDArray[np.int64], buckets: range, max_bytes: int) -> list[range]:
    """Return ranges of neighbouring buckets of at most `max_bytes` together; a larger bucket is a range of its own."""
    groups: list[range] = []
    start, total = buckets.start, 0
    for bucket in buckets:
        size = int(sizes[bucket])
        if total and total + size > max_bytes:
            groups.append(range(start, bucket))
            start, total = bucket, 0
        total += size
    return [*groups, range(start, buckets.stop)]


def read_buckets(job: BulkJob, parts: Sequence[FilePart], buckets: range) -> Iterator[Any]:
    """Yield the rows of neighbouring buckets as merge rows; of each key, the known row and then those of the inputs."""
    yield from read_known_rows(job, buckets)
    for part in parts:
        if not part.written:
            continue
        index = _load_index(job, part)
        path = get_runs_path(job, part.file)
        with open_input(path) as file:
            for flush in index:
                yield from _read_slices(job, file, flush[buckets.start : buckets.stop + 1], part.file, path)


def _read_slices(job: BulkJob, file: Any, offsets: NDArray[np.int64], number: int, path: str) -> Iterator[Any]:
    """Yield the rows between the offsets, which mark slices that lie one behind the other."""
    start, end = int(offsets[0]), int(offsets[-1])
    if start == end:
        return
    data = read_range(file, start, end - start)
    if len(data) < end - start:
        raise OSError(f"{path} is shorter than its index says")
    buffer = pa.py_buffer(data)
    run_schema, merge_schema = make_run_schema(job), make_merge_schema(job)
    file_bits = (job.input_offset + number) << ROW_BITS
    for first, last in zip((offsets[:-1] - start).tolist(), (offsets[1:] - start).tolist(), strict=True):
        if first < last:
            batch = pa.ipc.read_record_batch(buffer.slice(first, last - first), run_schema)
            places = batch.column("row").to_numpy() | file_bits
            columns = [*batch.columns[:3], pa.array(places), *batch.columns[4:]]
            yield pa.table(columns, schema=merge_schema)


def _load_index(job: BulkJob, part: FilePart) -> NDArray[np.int64]:
    """Return the offsets of each flush; those of a local file are read when they are used.

    The file has no header: numpy reads the one of its own format with `ast`, which fails now and then in Python 3.11
    when several threads do so at once.
    """
    columns = (1 << job.bucket_bits) + 1
    path = get_index_path(job, part.file)
    if not part.written:
        return np.zeros((0, columns), _OFFSET)
    if is_remote(path):
        return np.frombuffer(read_bytes(path), _OFFSET).reshape(-1, columns)
    return np.memmap(path, _OFFSET, mode="r").reshape(-1, columns)
