"""Parts: what one input file gives, kept beside the output until all are there, so that a killed job goes on.

A part counts once its record stands beside it. The record names the input's size and time of change; the folder
names the question. Another question empties the folder, another input is read again.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

import canonry
from canonry.atomic_files import move_into_place, sync
from canonry.bulk.batches import RUN, Answer, answer
from canonry.bulk.output import told_in_one_line
from canonry.bulk.readers import read
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    from canonry.bulk.job import Job

pa: Any = pyarrow  # it has no types
pq: Any = pyarrow.parquet
_LAYOUT = 1  # raised when parts are written in another way
_RUN_GROUP = 1 << 13  # rows of a row group of a run: what a merge of one range of hashes reads too much of


@dataclass(frozen=True, slots=True)
class Part:
    """What was made of one input file."""

    file: int
    size: int
    changed: int
    rows: int
    written: int
    invalid: int
    empty: int
    bytes: int  # of what was written, in memory
    segments: int  # files, one for each set of columns; none where nothing came of it


def _record(job: Job, file: int) -> Path:
    """Where a part's record is; the part is beside it."""
    return job.work / f"{file:07}.json"


def segments_of(job: Job, part: Part) -> list[Path]:
    """The files of a part."""
    return [_segment(job, part.file, number) for number in range(part.segments)]


def _segment(job: Job, file: int, number: int) -> Path:
    return job.work / f"{file:07}-{number:03}.parquet"


def _refused(job: Job, file: int) -> Path:
    return job.work / f"{file:07}.invalid.parquet"


@contextmanager
def work_folder(job: Job) -> Generator[None]:
    """The folder of this question, for this process alone; it stays if the job does not end well."""
    with told_in_one_line(f"{job.work} cannot be used"):
        job.work.mkdir(exist_ok=True)
        lock = os.open(job.work / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BulkError(f"another canonry is writing {job.out}") from None
        with told_in_one_line(f"{job.work} cannot be used"):
            _keep_only_parts_of(job)
        yield
        shutil.rmtree(job.work, ignore_errors=True)
    finally:
        os.close(lock)


def _keep_only_parts_of(job: Job) -> None:
    question = job.work / "job.json"
    asked = json.dumps(_question(job), indent=1)
    is_same = question.exists() and question.read_text(encoding="utf-8") == asked
    for path in job.work.iterdir():
        is_part = path.suffix in {".json", ".parquet"} and path.name[:7].isdecimal()
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "lock" and not (is_same and (is_part or path == question)):
            path.unlink()
    if not is_same:
        part = question.with_suffix(".new")
        part.write_text(asked, encoding="utf-8")
        move_into_place(part, question)


def _question(job: Job) -> dict[str, object]:
    return {
        "canonry": canonry.__version__,
        "layout": _LAYOUT,
        "inputs": job.inputs,
        "mode": job.mode,
        "column": job.column,
        "format": job.format,
        "policy": [job.policy.id, job.policy.digest],
        "against": job.against and [job.against.id, job.against.digest],
    }


def finished_part(job: Job, file: int) -> Part | None:
    """The part, if it is whole and its input has not changed since."""
    try:
        part = Part(**json.loads(_record(job, file).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return part if (part.size, part.changed) == _state_of(job.inputs[file]) else None


def _state_of(file: str) -> tuple[int, int]:
    try:
        found = os.stat(file)
    except OSError as error:
        raise BulkError(f"{file} cannot be read: {error.strerror}") from None
    return found.st_size, found.st_mtime_ns


def make_part(job: Job, file: int, *, threads: int = 1, watch: Callable[[Answer], None] | None = None) -> Part:
    """Read an input file, answer all its rows, write its part; the part is there whole or not at all."""
    before = _state_of(job.inputs[file])
    rows = invalid = empty = 0
    # Two tasks of a cluster may work on one file: each has its own names until the end.
    with (
        told_in_one_line(f"{job.work} cannot be written"),
        _Segments(job, file) as segments,
        _Segments(job, file) as refused,
    ):
        for done in _answers(job, file, threads):
            segments.add(done.table)
            refused.add(done.refused)
            rows, empty, invalid = rows + done.rows, empty + done.empty, invalid + len(done.refused)
            if watch is not None:
                watch(done)
        if _state_of(job.inputs[file]) != before:
            raise BulkError(f"{job.inputs[file]} changed while it was read; run the command again")
        segments.close()
        refused.close()
        for number, path in enumerate(segments.paths):
            path.replace(_segment(job, file, number))
        for path in refused.paths:
            path.replace(_refused(job, file))
        part = Part(file, *before, rows, segments.rows, invalid, empty, segments.bytes, len(segments.paths))
        record = segments.temporary("json")
        record.write_text(json.dumps(asdict(part)), encoding="utf-8")
        sync(record)
        move_into_place(record, _record(job, file))
    return part


def _answers(job: Job, file: int, threads: int) -> Iterator[Answer]:
    """The answers to the batches of a file, in order; `threads` of them are made at once."""
    batches = read(job, job.inputs[file])
    if threads == 1:
        for batch in batches:
            yield answer(job, file, batch)
        return
    waiting: deque[Future[Answer]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for batch in batches:
                waiting.append(pool.submit(answer, job, file, batch))
                del batch
                if len(waiting) >= threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()


class _Segments:
    """Parquet files under names of their own; another one where a row has columns that the last lacks."""

    def __init__(self, job: Job, file: int) -> None:
        self._job = job
        self._stem = f"{file:07}.{os.getpid()}.{os.urandom(4).hex()}"
        self._writer: Any = None
        self.paths: list[Path] = []
        self.rows = 0
        self.bytes = 0

    def temporary(self, suffix: str) -> Path:
        return self._job.work / f"making-{self._stem}-{len(self.paths)}.{suffix}"

    def __enter__(self) -> _Segments:
        return self

    def __exit__(self, *failed: object) -> None:
        if failed[0] is None:
            return
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):  # the disk may be full
                self._writer.close()
        for path in self.paths:
            path.unlink(missing_ok=True)

    def add(self, table: Any) -> None:
        if not len(table):
            return
        if self._writer is None or self._writer.schema != table.schema:
            self.close()
            self.paths.append(self.temporary("parquet"))
            is_run = table.schema == RUN
            self._writer = pq.ParquetWriter(
                self.paths[-1],
                table.schema,
                compression="none",
                use_dictionary=False,
                write_statistics=["canonical_hash"] if is_run else False,
            )
        self._writer.write_table(table, row_group_size=_RUN_GROUP if table.schema == RUN else 1 << 16)
        self.rows += len(table)
        self.bytes += table.nbytes

    def close(self) -> None:
        """All that was added is on disk."""
        if self._writer is not None:
            self._writer.close()
            sync(self.paths[-1])
            self._writer = None


def rows_of(job: Job, parts: Sequence[Part]) -> Iterator[tuple[int, Any]]:
    """The rows of all parts in the order of the inputs, with the number of their file, one row group at a time."""
    for part in parts:
        for path in segments_of(job, part):
            yield from ((part.file, table) for table in row_groups(path))


def refused_rows_of(job: Job, parts: Sequence[Part]) -> Iterator[tuple[int, Any]]:
    """The rows of all parts that are for the side file."""
    for part in parts:
        if part.invalid:
            yield from ((part.file, table) for table in row_groups(_refused(job, part.file)))


def row_groups(file: Path) -> Iterator[Any]:
    """A Parquet file piece by piece."""
    with pq.ParquetFile(file) as opened:
        for group in range(opened.num_row_groups):
            yield opened.read_row_group(group)
