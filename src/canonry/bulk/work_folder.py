"""The work folder of a job: what an interrupted run leaves behind, so that the same command can resume.

The folder is hidden beside the output. `job.json` names the options; other options empty the folder. A part (the
result of one input file) counts once its record, which names the size and modification time of the input, is in place.
Parts are named after the path of their input, so they stay valid when input files are added or removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

import canonry
from canonry.atomic_files import replace_file
from canonry.bulk.disk_errors import convert_disk_errors
from canonry.errors import BadInputFile, BulkError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

    from canonry.bulk.job import BulkJob

pq: Any = pyarrow.parquet
_NAME_DIGITS = 24
_LAYOUT_VERSION = 2  # raise it when parts are written differently


@dataclass(frozen=True, slots=True)
class FilePart:
    """The record of one input file's result."""

    file: int
    size: int
    changed: int
    rows: int
    written: int
    invalid: int
    empty: int
    malformed: int  # of the invalid rows, those that are not in the format of the file
    bytes: int  # of the written rows
    segments: int  # Parquet files, one for each set of columns; 0 in dedupe mode and if no row was written
    is_native: bool  # whether the C core read the file


@dataclass(frozen=True, slots=True)
class FileState:
    """The size and modification time of an input file."""

    size: int
    changed: int


@contextmanager
def lock_work_folder(job: BulkJob) -> Generator[None]:
    """Create the work folder, for this process alone; it is deleted at the end, and stays after an exception."""
    with convert_disk_errors(f"{job.work_folder} cannot be used"):
        job.work_folder.mkdir(exist_ok=True)
        lock = os.open(job.work_folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BulkError(
                f"Another canonry process is writing {job.out}. Wait for it, or name another file."
            ) from None
        with convert_disk_errors(f"{job.work_folder} cannot be used"):
            _delete_other_files(job)
        yield
        shutil.rmtree(job.work_folder, ignore_errors=True)
    finally:
        os.close(lock)


def _delete_other_files(job: BulkJob) -> None:
    """Delete everything but the finished parts of a job with the same options."""
    options_file = job.work_folder / "job.json"
    options = json.dumps(_describe_options(job), indent=1)
    is_same_job = options_file.exists() and options_file.read_text(encoding="utf-8") == options
    for path in job.work_folder.iterdir():
        is_part = path.name[:_NAME_DIGITS].isalnum() and path.name[_NAME_DIGITS : _NAME_DIGITS + 1] in {".", "-"}
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "lock" and not (is_same_job and (is_part or path == options_file)):
            path.unlink()
    if not is_same_job:
        with replace_file(options_file) as temporary:
            temporary.write_text(options, encoding="utf-8")


def _describe_options(job: BulkJob) -> dict[str, object]:
    return {
        "canonry": canonry.__version__,
        "layout": _LAYOUT_VERSION,
        "bucket_digits": job.bucket_digits,
        "mode": job.mode,
        "column": job.column,
        "format": job.format,
        "policy": [job.policy.id, job.policy.digest],
        "against": job.against and [job.against.id, job.against.digest],
    }


def load_finished_part(job: BulkJob, file: int) -> FilePart | None:
    """Return the part of an input file, if it is complete and the file has not changed since."""
    try:
        part = FilePart(**json.loads(_get_record_path(job, file).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    if FileState(part.size, part.changed) != get_file_state(job.inputs[file]):
        return None
    return replace(part, file=file)  # its number is another if files were added or removed


def save_record(job: BulkJob, part: FilePart) -> None:
    """Write the record of a part, which makes the part count."""
    with replace_file(_get_record_path(job, part.file)) as temporary:
        temporary.write_text(json.dumps(asdict(part)), encoding="utf-8")


def get_file_state(file: str) -> FileState:
    """Return the size and modification time by which a changed input is noticed."""
    try:
        status = os.stat(file)
    except OSError as error:
        raise BadInputFile(file, f"{file} cannot be read: {error.strerror}") from None
    return FileState(status.st_size, status.st_mtime_ns)


def _get_path(job: BulkJob, file: int, suffix: str) -> Path:
    """Return the path of a file of a part, named after the absolute path of its input."""
    name = hashlib.sha256(os.fsencode(os.path.abspath(job.inputs[file]))).hexdigest()[:_NAME_DIGITS]
    return job.work_folder / f"{name}{suffix}"


def _get_record_path(job: BulkJob, file: int) -> Path:
    return _get_path(job, file, ".json")


def get_runs_path(job: BulkJob, file: int) -> Path:
    """Return the path of the runs of a part in dedupe mode."""
    return _get_path(job, file, ".runs")


def get_index_path(job: BulkJob, file: int) -> Path:
    """Return the path of the index of the runs."""
    return _get_path(job, file, ".index.npy")


def get_segment_path(job: BulkJob, file: int, number: int) -> Path:
    """Return the path of one Parquet file of a part."""
    return _get_path(job, file, f"-{number:03}.parquet")


def get_segment_paths(job: BulkJob, part: FilePart) -> list[Path]:
    """Return the paths of all Parquet files of a part."""
    return [get_segment_path(job, part.file, number) for number in range(part.segments)]


def get_invalid_path(job: BulkJob, file: int) -> Path:
    """Return the path of the invalid rows of a part."""
    return _get_path(job, file, ".invalid.parquet")


def read_part_rows(job: BulkJob, parts: Sequence[FilePart]) -> Iterator[tuple[int, Any]]:
    """Yield the rows of all parts in the order of the inputs: the file's index and a table."""
    for part in parts:
        for path in get_segment_paths(job, part):
            yield from ((part.file, table) for table in read_row_groups(path))


def read_invalid_rows(job: BulkJob, parts: Sequence[FilePart]) -> Iterator[tuple[int, Any]]:
    """Yield the invalid rows of all parts in the order of the inputs: the file's index and a table."""
    for part in parts:
        if part.invalid:
            yield from ((part.file, table) for table in read_row_groups(get_invalid_path(job, part.file)))


def read_row_groups(file: Path) -> Iterator[Any]:
    """Yield the row groups of a Parquet file as tables."""
    with pq.ParquetFile(file) as opened:
        for group in range(opened.num_row_groups):
            yield opened.read_row_group(group)
