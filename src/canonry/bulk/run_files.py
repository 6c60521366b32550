"""The runs of a dedupe on disk: rows in buckets by the first digits of their hash.

A part keeps its runs in one file. Rows are collected in memory and written in flushes. A flush holds the rows of
every bucket, one bucket after the other:

    flush 0: [bucket 00][bucket 01]…[bucket ff]   flush 1: [bucket 00][bucket 01]…[bucket ff]   …

The index has a row for each flush with the offsets of its buckets, and the end of the flush. The merge reads one
bucket after the other from all parts, so it reads every byte once.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.atomic_files import sync
from canonry.bulk.hash_groups import parse_leading_digits, view_hash_bytes
from canonry.bulk.job import ROW_BITS
from canonry.bulk.merge_runs import MERGE_SCHEMA, RUN_SCHEMA
from canonry.bulk.work_folder import get_index_path, get_runs_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from canonry.bulk.job import BulkJob
    from canonry.bulk.work_folder import FilePart

pa: Any = pyarrow  # pyarrow has no type stubs


class RunWriter:
    """Write runs to a file with a temporary name; `move` gives it and its index their final names."""

    def __init__(self, job: BulkJob, stem: str) -> None:
        self._job = job
        self._digits = job.bucket_digits
        self._runs_path = job.work_folder / f"making-{stem}.runs"
        self._index_path = job.work_folder / f"making-{stem}.npy"
        self._file = self._runs_path.open("wb")
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
        """Add rows of RUN_SCHEMA, in the order in which they are in the input for each hash."""
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
        numbers = parse_leading_digits(view_hash_bytes(table.column("canonical_hash").chunk(0)))
        buckets = numbers >> np.uint64(64 - 4 * self._digits)
        order = np.argsort(buckets, kind="stable")
        rows = table.take(pa.array(order)).combine_chunks()
        bounds = np.searchsorted(buckets[order], np.arange((1 << 4 * self._digits) + 1, dtype=np.uint64))
        offsets = np.empty(len(bounds), np.int64)
        for bucket, (start, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
            offsets[bucket] = self._offset
            if start < end:
                [batch] = rows.slice(start, end - start).to_batches()
                self._offset += self._file.write(batch.serialize())
        offsets[-1] = self._offset
        self._index.append(offsets)

    def close(self) -> None:
        """Write the remaining rows and the index, and sync both to disk."""
        if self._file.closed:
            return
        self._flush()
        self._file.close()
        sync(self._runs_path)
        columns = (1 << 4 * self._digits) + 1
        np.save(self._index_path, np.array(self._index, np.int64).reshape(-1, columns))
        sync(self._index_path)

    def move(self, file: int) -> None:
        """Give the files the names of the part."""
        self._runs_path.replace(get_runs_path(self._job, file))
        self._index_path.replace(get_index_path(self._job, file))

    def discard(self) -> None:
        """Delete the files after an error."""
        with suppress(OSError):  # the disk may be full
            self._file.close()
        self._runs_path.unlink(missing_ok=True)
        self._index_path.unlink(missing_ok=True)


def measure_buckets(job: BulkJob, parts: Sequence[FilePart]) -> NDArray[np.int64]:
    """Return the bytes of each bucket in all parts."""
    sizes = np.zeros(1 << 4 * job.bucket_digits, np.int64)
    for part in parts:
        sizes += np.diff(_load_index(job, part), axis=1).sum(axis=0)
    return sizes


def group_buckets(sizes: NDArray[np.int64], max_bytes: int) -> list[range]:
    """Return ranges of neighbouring buckets of at most `max_bytes` together; a larger bucket is a range of its own."""
    groups: list[range] = []
    start, total = 0, 0
    for bucket, size in enumerate(sizes.tolist()):
        if total and total + size > max_bytes:
            groups.append(range(start, bucket))
            start, total = bucket, 0
        total += size
    return [*groups, range(start, len(sizes))]


def read_buckets(job: BulkJob, parts: Sequence[FilePart], buckets: range) -> Iterator[Any]:
    """Yield the rows of neighbouring buckets as tables of MERGE_SCHEMA; the rows of each hash come in input order."""
    for part in parts:
        if not part.written:
            continue
        index = _load_index(job, part)
        path = get_runs_path(job, part.file)
        with path.open("rb") as file:
            for flush in index:
                yield from _read_slices(file, flush[buckets.start : buckets.stop + 1], part.file, path)


def _read_slices(file: Any, offsets: NDArray[np.int64], number: int, path: Path) -> Iterator[Any]:
    """Yield the rows between the offsets, which mark slices that lie one behind the other."""
    start, end = int(offsets[0]), int(offsets[-1])
    if start == end:
        return
    data = os.pread(file.fileno(), end - start, start)
    if len(data) < end - start:
        raise OSError(f"{path} is shorter than its index says")
    buffer = pa.py_buffer(data)
    for first, last in zip((offsets[:-1] - start).tolist(), (offsets[1:] - start).tolist(), strict=True):
        if first < last:
            batch = pa.ipc.read_record_batch(buffer.slice(first, last - first), RUN_SCHEMA)
            places = batch.column("row").to_numpy() | (number << ROW_BITS)
            columns = [*batch.columns[:3], pa.array(places), batch.column("count")]
            yield pa.table(columns, schema=MERGE_SCHEMA)


def _load_index(job: BulkJob, part: FilePart) -> NDArray[np.int64]:
    if not part.written:
        return np.zeros((0, (1 << 4 * job.bucket_digits) + 1), np.int64)
    index: NDArray[np.int64] = np.load(get_index_path(job, part.file), mmap_mode="r", allow_pickle=False)
    return index
