"""Make a part: read one input file, normalize its rows and save the result in the work folder."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from canonry.atomic_files import sync
from canonry.bulk.disk_errors import convert_disk_errors
from canonry.bulk.merge_runs import RUN_SCHEMA
from canonry.bulk.normalize_batch import NormalizedBatch, normalize_batch
from canonry.bulk.read_inputs import read_batches
from canonry.bulk.work_folder import FilePart, get_file_state, get_invalid_path, get_segment_path, save_record
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from canonry.bulk.job import BulkJob

pa: Any = pyarrow  # pyarrow has no type stubs
pq: Any = pyarrow.parquet
# The merge reads whole row groups for a range of hashes: with small groups it reads few rows of other ranges.
_RUN_GROUP_ROWS = 1 << 13
_ROW_GROUP_ROWS = 1 << 16


def make_part(
    job: BulkJob, file: int, *, threads: int = 1, on_batch: Callable[[NormalizedBatch], None] | None = None
) -> FilePart:
    """Read an input file and save its part, completely or not at all."""
    state = get_file_state(job.inputs[file])
    rows = invalid = empty = 0
    # Two tasks of a cluster may work on the same file: each writes under its own names until the end.
    with (
        convert_disk_errors(f"{job.work_folder} cannot be written"),
        _SegmentWriter(job, file) as valid_rows,
        _SegmentWriter(job, file) as invalid_rows,
    ):
        for batch in _normalize_file(job, file, threads):
            valid_rows.add(batch.table)
            invalid_rows.add(batch.invalid)
            rows, empty, invalid = rows + batch.rows, empty + batch.empty, invalid + len(batch.invalid)
            if on_batch is not None:
                on_batch(batch)
        if get_file_state(job.inputs[file]) != state:
            raise BulkError(f"{job.inputs[file]} changed while it was read. Run the command again.")
        valid_rows.close()
        invalid_rows.close()
        for number, path in enumerate(valid_rows.paths):
            path.replace(get_segment_path(job, file, number))
        for path in invalid_rows.paths:
            path.replace(get_invalid_path(job, file))
        part = FilePart(
            file=file,
            size=state.size,
            changed=state.changed,
            rows=rows,
            written=valid_rows.rows,
            invalid=invalid,
            empty=empty,
            bytes=valid_rows.bytes,
            segments=len(valid_rows.paths),
        )
        save_record(job, part)
    return part


def _normalize_file(job: BulkJob, file: int, threads: int) -> Iterator[NormalizedBatch]:
    """Yield the normalized batches of a file in order; `threads` batches are worked on at once."""
    batches = read_batches(job, job.inputs[file])
    if threads == 1:
        for batch in batches:
            yield normalize_batch(job, file, batch)
        return
    pending: deque[Future[NormalizedBatch]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for batch in batches:
                pending.append(pool.submit(normalize_batch, job, file, batch))
                del batch  # or it would stay in memory while the next one is read
                if len(pending) >= threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


class _SegmentWriter:
    """Write tables to Parquet files with temporary names; a table with other columns starts a new file."""

    def __init__(self, job: BulkJob, file: int) -> None:
        self._folder = job.work_folder
        self._stem = f"{file:07}.{os.getpid()}.{os.urandom(4).hex()}"
        self._writer: Any = None
        self.paths: list[Path] = []
        self.rows = 0
        self.bytes = 0

    def __enter__(self) -> _SegmentWriter:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            return
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):  # the disk may be full
                self._writer.close()
        for path in self.paths:
            path.unlink(missing_ok=True)

    def add(self, table: Any) -> None:
        if not len(table):
            return
        is_run = table.schema == RUN_SCHEMA
        if self._writer is None or self._writer.schema != table.schema:
            self.close()
            self.paths.append(self._folder / f"making-{self._stem}-{len(self.paths)}.parquet")
            self._writer = pq.ParquetWriter(
                self.paths[-1],
                table.schema,
                compression="none",
                use_dictionary=False,
                write_statistics=["canonical_hash"] if is_run else False,
            )
        self._writer.write_table(table, row_group_size=_RUN_GROUP_ROWS if is_run else _ROW_GROUP_ROWS)
        self.rows += len(table)
        self.bytes += table.nbytes

    def close(self) -> None:
        """Close the current file and sync it to disk."""
        if self._writer is not None:
            self._writer.close()
            sync(self.paths[-1])
            self._writer = None
