"""Make a part: read one input file, normalize its rows and save the result in the work folder."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.disk_errors import convert_disk_errors
from canonry.bulk.job import Mode
from canonry.bulk.normalize_batch import NormalizedBatch, normalize_batch
from canonry.bulk.read_inputs import read_batches
from canonry.bulk.run_files import RunWriter
from canonry.bulk.storage import NewFile, get_file_state
from canonry.bulk.work_folder import FilePart, delete_record, get_invalid_path, get_segment_path, save_record
from canonry.core.native import CORE
from canonry.errors import BadInputFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from canonry.bulk.job import BulkJob

pa: Any = pyarrow  # pyarrow has no type stubs
pq: Any = pyarrow.parquet
_ROW_GROUP_ROWS = 1 << 16


def make_part(
    job: BulkJob, file: int, *, threads: int = 1, on_batch: Callable[[NormalizedBatch], None] | None = None
) -> FilePart:
    """Read an input file and save its part, completely or not at all."""
    path = job.get_input_path(file)
    state = get_file_state(path)
    delete_record(job, file)
    rows = invalid = empty = malformed = 0
    with convert_disk_errors(f"{job.work_folder} cannot be written"), _PartWriter(job, file) as writer:
        for batch in _normalize_file(job, file, threads):
            writer.add(batch)
            rows, empty, invalid = rows + batch.rows, empty + batch.empty, invalid + len(batch.invalid)
            malformed += batch.malformed
            if on_batch is not None:
                on_batch(batch)
        if get_file_state(path) != state:
            name = job.inputs[file]
            raise BadInputFile(name, f"{name} changed while it was read. Run the command again.")
        writer.complete()
        part = FilePart(
            file=file,
            size=state.size,
            changed=state.changed,
            rows=rows,
            written=writer.rows,
            invalid=invalid,
            empty=empty,
            malformed=malformed,
            bytes=writer.bytes,
            segments=writer.segments,
            is_native=CORE == "native",
        )
        save_record(job, part)
    return part


def _normalize_file(job: BulkJob, file: int, threads: int) -> Iterator[NormalizedBatch]:
    """Yield the normalized batches of a file in order; `threads` batches are worked on at once."""
    batches = read_batches(job, file)
    if threads == 1:
        for batch in batches:
            yield normalize_batch(job, batch)
        return
    pending: deque[Future[NormalizedBatch]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for batch in batches:
                pending.append(pool.submit(normalize_batch, job, batch))
                del batch  # or it would stay in memory while the next one is read
                if len(pending) >= threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


class _PartWriter:
    """Write the files of a part, which appear under their names when `complete` is called.

    Two tasks of a cluster may work on the same file: each writes under names of its own until the end.
    """

    def __init__(self, job: BulkJob, file: int) -> None:
        self._runs = RunWriter(job, file) if job.mode is Mode.DEDUPE else None
        self._rows = _SegmentWriter(lambda number: get_segment_path(job, file, number))
        self._invalid = _SegmentWriter(lambda _: get_invalid_path(job, file))

    def __enter__(self) -> _PartWriter:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:
            self._rows.discard()
            self._invalid.discard()
            if self._runs is not None:
                self._runs.discard()

    def add(self, batch: NormalizedBatch) -> None:
        (self._runs or self._rows).add(batch.table)
        self._invalid.add(batch.invalid)

    def complete(self) -> None:
        """Give the files their names."""
        for writer in (self._rows, self._invalid, self._runs):
            if writer is not None:
                writer.complete()

    @property
    def rows(self) -> int:
        return (self._runs or self._rows).rows

    @property
    def bytes(self) -> int:
        return (self._runs or self._rows).bytes

    @property
    def segments(self) -> int:
        return self._rows.segments


class _SegmentWriter:
    """Write tables to Parquet files, which appear at the end; a table with other columns starts a new file."""

    def __init__(self, get_path: Callable[[int], str]) -> None:
        self._get_path = get_path
        self._writer: Any = None
        self._files: list[NewFile] = []
        self.rows = 0
        self.bytes = 0

    @property
    def segments(self) -> int:
        return len(self._files)

    def add(self, table: Any) -> None:
        if not len(table):
            return
        if self._writer is None or self._writer.schema != table.schema:
            self._close_writer()
            self._files.append(NewFile(self._get_path(len(self._files))))
            self._writer = pq.ParquetWriter(
                self._files[-1].stream, table.schema, compression="none", use_dictionary=False, write_statistics=False
            )
        self._writer.write_table(table, row_group_size=_ROW_GROUP_ROWS)
        self.rows += len(table)
        self.bytes += table.nbytes

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def complete(self) -> None:
        """Close the files and give them their names."""
        self._close_writer()
        for file in self._files:
            file.complete()

    def discard(self) -> None:
        """Delete the files after an error."""
        with suppress(OSError, ValueError, pa.ArrowException):  # the disk may be full
            self._close_writer()
        for file in self._files:
            file.discard()
