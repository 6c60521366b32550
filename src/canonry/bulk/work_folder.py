"""The work folder of a job: what an interrupted run leaves behind, so that the same command can resume.

The folder is hidden beside the output, or where the user wants it. `job.json` names the options; other options empty
it. A part (the result of one input file) counts once its record, which names the size and modification time of
the input, is in place. Parts are named after the path of their input, so they stay valid when input files are added or
removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]

import canonry
from canonry.bulk.disk_errors import convert_disk_errors
from canonry.bulk.job import BUCKET_BITS
from canonry.bulk.storage import (
    NEW_FILE_PREFIX,
    FileState,
    create_file,
    delete_file,
    delete_folder,
    get_file_state,
    is_remote,
    join_path,
    list_files,
    open_parquet,
    read_bytes,
    split_path,
)
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from canonry.bulk.job import BulkJob

pa: Any = pyarrow  # pyarrow has no type stubs
_NAME_DIGITS = 24
_LOCK_NAME, _OPTIONS_NAME = "lock", "job.json"
MERGED_FOLDER = "merged"
_LAYOUT_VERSION = 3  # raise it when parts are written differently


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


@contextmanager
def lock_work_folder(job: BulkJob) -> Generator[None]:
    """Create the work folder, for this process alone; it is deleted at the end, and stays after an exception."""
    with convert_disk_errors(f"{job.work_folder} cannot be used"):
        lock = os.open(_make_lock_file(job), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BulkError(
                f"Another canonry process is writing {job.out}. Wait for it, or name another file."
            ) from None
        with convert_disk_errors(f"{job.work_folder} cannot be used"):
            _delete_other_files(job)
        try:
            yield
        except BaseException:
            if not _is_worth_keeping(job):
                _delete_folders(job)
            raise
        _delete_folders(job)
    finally:
        os.close(lock)


def _is_worth_keeping(job: BulkJob) -> bool:
    """Return whether the work folder has finished parts, or a log that an error message names."""
    try:
        names = {split_path(path)[1] for path in list_files(job.work_folder)}
    except (OSError, pa.ArrowException):
        return True
    return any(not name.startswith(NEW_FILE_PREFIX) for name in names - {_LOCK_NAME, _OPTIONS_NAME})


def _delete_folders(job: BulkJob) -> None:
    delete_folder(job.work_folder)
    if not is_remote(job.staging_folder):
        delete_folder(job.staging_folder)


def _make_lock_file(job: BulkJob) -> str:
    """Create the work folder and return the path of its lock; processes on other machines are not noticed."""
    if is_remote(job.work_folder):
        name = hashlib.sha256(job.work_folder.encode()).hexdigest()[:_NAME_DIGITS]
        return os.path.join(tempfile.gettempdir(), f"canonry-bulk-{os.getuid()}-{name}.lock")
    folder = Path(job.work_folder)
    mode = 0o777 if folder.parent != Path(tempfile.gettempdir()) else 0o700
    folder.mkdir(mode, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.geteuid() and folder.parent == Path(tempfile.gettempdir()):
        raise BulkError(f"{folder} belongs to another account. Choose another folder with --work-folder.")
    return str(folder / _LOCK_NAME)


@contextmanager
def open_local_folder(job: BulkJob) -> Generator[Path]:
    """Yield a folder on a local disk: the work folder, or a temporary one if it is remote."""
    if not is_remote(job.work_folder):
        yield Path(job.work_folder)
        return
    with tempfile.TemporaryDirectory(prefix="canonry-bulk-") as folder:
        yield Path(folder)


def _delete_other_files(job: BulkJob) -> None:
    """Delete everything but the finished parts of a job with the same options."""
    options_file = join_path(job.work_folder, _OPTIONS_NAME)
    options = _describe_options(job)
    names = {split_path(path)[1]: path for path in list_files(job.work_folder)}
    is_same_job = _OPTIONS_NAME in names and read_bytes(options_file) == options
    for name, path in names.items():
        is_part = name[:_NAME_DIGITS].isalnum() and name[_NAME_DIGITS : _NAME_DIGITS + 1] in {".", "-"}
        if name != _LOCK_NAME and not (is_same_job and (is_part or name == _OPTIONS_NAME)):
            delete_file(path)
    if is_remote(job.work_folder):
        delete_folder(join_path(job.work_folder, MERGED_FOLDER))
    else:
        for folder in [each for each in Path(job.work_folder).iterdir() if each.is_dir()]:
            shutil.rmtree(folder)
    if not is_same_job:
        with create_file(options_file) as file:
            file.write(options)


def continue_buckets(job: BulkJob) -> BulkJob:
    """Return the job with the buckets of an unfinished one of the same options.

    With more or fewer input files the job would choose other buckets, and its finished parts would be lost.
    """
    try:
        options = read_bytes(join_path(job.work_folder, _OPTIONS_NAME))
    except (OSError, pa.ArrowException):
        return job
    choices = (replace(job, bucket_bits=bits) for bits in BUCKET_BITS if 1 << bits >= (job.partitions or 1))
    return next((each for each in choices if _describe_options(each) == options), job)


def _describe_options(job: BulkJob) -> bytes:
    options = {
        "canonry": canonry.__version__,
        "layout": _LAYOUT_VERSION,
        "bucket_bits": job.bucket_bits,
        "mode": job.mode,
        "column": job.column,
        "keep": job.keep,
        "group_by": job.group_by,
        "format": job.format,
        "policy": [job.policy.id, job.policy.digest],
        "against": job.against and [job.against.id, job.against.digest],
    }
    return json.dumps(options, indent=1).encode()


def load_finished_part(job: BulkJob, file: int) -> FilePart | None:
    """Return the part of an input file, if it is complete and the file has not changed since."""
    try:
        part = FilePart(**json.loads(read_bytes(_get_record_path(job, file))))
    except (OSError, ValueError, TypeError):
        return None
    is_repeatable = part.changed != 0  # a pipe can be read once
    if not is_repeatable or FileState(part.size, part.changed) != get_file_state(job.get_input_path(file)):
        return None
    return replace(part, file=file)  # its number is another if files were added or removed


def save_record(job: BulkJob, part: FilePart) -> None:
    """Write the record of a part, which makes the part count."""
    with create_file(_get_record_path(job, part.file)) as file:
        file.write(json.dumps(asdict(part)).encode())


def delete_record(job: BulkJob, file: int) -> None:
    """Delete the record of an input file, before its part is replaced."""
    delete_file(_get_record_path(job, file))


def _get_path(job: BulkJob, file: int, suffix: str) -> str:
    """Return the path of a file of a part, named after the absolute path of its input."""
    name = hashlib.sha256(os.fsencode(job.get_input_path(file))).hexdigest()[:_NAME_DIGITS]
    return join_path(job.work_folder, f"{name}{suffix}")


def _get_record_path(job: BulkJob, file: int) -> str:
    return _get_path(job, file, ".json")


def get_runs_path(job: BulkJob, file: int) -> str:
    """Return the path of the runs of a part in dedupe mode."""
    return _get_path(job, file, ".runs")


def get_index_path(job: BulkJob, file: int) -> str:
    """Return the path of the index of the runs."""
    return _get_path(job, file, ".index")


def get_segment_path(job: BulkJob, file: int, number: int) -> str:
    """Return the path of one Parquet file of a part."""
    return _get_path(job, file, f"-{number:03}.parquet")


def get_segment_paths(job: BulkJob, part: FilePart) -> list[str]:
    """Return the paths of all Parquet files of a part."""
    return [get_segment_path(job, part.file, number) for number in range(part.segments)]


def get_invalid_path(job: BulkJob, file: int) -> str:
    """Return the path of the invalid rows of a part."""
    return _get_path(job, file, ".invalid.parquet")


def read_part_rows(job: BulkJob, parts: Sequence[FilePart], rows: range) -> Iterator[tuple[int, Any]]:
    """Yield rows of all parts in the order of the inputs: the file's index and a table; `rows` counts from 0."""
    start = 0  # the number of the first row of a part or row group
    for part in parts:
        if start + part.written <= rows.start or start >= rows.stop:
            start += part.written
            continue
        for path in get_segment_paths(job, part):
            with open_parquet(path) as opened:
                for group in range(opened.num_row_groups):
                    count = opened.metadata.row_group(group).num_rows
                    first, last = max(rows.start - start, 0), min(rows.stop - start, count)
                    if first < last:
                        yield part.file, opened.read_row_group(group).slice(first, last - first)
                    start += count


def read_invalid_rows(job: BulkJob, parts: Sequence[FilePart]) -> Iterator[tuple[int, Any]]:
    """Yield the invalid rows of all parts in the order of the inputs: the file's index and a table."""
    for part in parts:
        if part.invalid:
            yield from ((part.file, table) for table in read_row_groups(get_invalid_path(job, part.file)))


def read_row_groups(file: str) -> Iterator[Any]:
    """Yield the row groups of a Parquet file as tables."""
    with open_parquet(file) as opened:
        for group in range(opened.num_row_groups):
            yield opened.read_row_group(group)
