"""Refuse jobs whose options contradict each other or would destroy a file."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from canonry.atomic_files import is_stream
from canonry.bulk.job import MAX_PARTITIONS, MIN_MEMORY_BYTES, Mode
from canonry.bulk.known_keys import make_dedupe_schema
from canonry.bulk.storage import STDIN, check_writable, is_file, is_folder, is_remote, is_same_file, split_path
from canonry.bulk.write_output import is_output_folder
from canonry.errors import BulkError

if TYPE_CHECKING:
    from canonry.bulk.job import BulkJob

# Names that promise another format than Parquet.
_OTHER_FORMATS = frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".txt", ".gz", ".zst", ".bz2"})
_MIN_PARTITION_BYTES = 1000**2


def check_job(job: BulkJob, *, known: str | None, engine: str, overwrite: bool) -> None:
    """Raise BulkError for options that contradict each other or would destroy a file."""
    _check_options(job, known, engine)
    _check_output(job, overwrite=overwrite)
    if known is not None and known.rstrip("/") == job.out and is_remote(known):
        raise BulkError(f"--known {known} is the output, and would be replaced while it is read. Use another name.")


def _check_options(job: BulkJob, known: str | None, engine: str) -> None:
    if (job.mode is Mode.DIFF) != (job.against is not None):
        raise BulkError("--mode diff compares --policy with --against: use both or neither.")
    if job.memory < MIN_MEMORY_BYTES:
        raise BulkError(f"--memory must be at least {MIN_MEMORY_BYTES // 1000**2}MB.")
    if job.mode is not Mode.DEDUPE and (job.kept_columns or known is not None):
        raise BulkError("--keep, --group-by and --known need --mode dedupe.")
    names = make_dedupe_schema(job).names
    if clashes := sorted({name for name in names if names.count(name) > 1}):
        raise BulkError(f"The output has a column {clashes[0]!r} of its own. Rename the column of the input.")
    if job.partitions is not None and job.partition_bytes is not None:
        raise BulkError("Use --partitions or --partition-size, not both.")
    if job.partitions is not None and not 1 <= job.partitions <= MAX_PARTITIONS:
        raise BulkError(f"--partitions must be from 1 to {MAX_PARTITIONS}.")
    if job.partition_bytes is not None and job.partition_bytes < _MIN_PARTITION_BYTES:
        raise BulkError("--partition-size must be at least 1MB.")
    if engine == "spark" and STDIN in job.inputs:
        raise BulkError("Workers of Spark cannot read standard input. Name a file.")


def _check_output(job: BulkJob, *, overwrite: bool) -> None:
    out, folder = job.out, split_path(job.out)[0]
    if not out:
        raise BulkError("The name of the output is empty. Write to a file such as out.parquet.")
    if not is_remote(out) and folder and not os.path.isdir(folder):
        raise BulkError(f"{folder}: no such folder")
    check_writable(out)
    for file in (out, job.invalid_file):
        if any(is_same_file(file, each) for each in job.inputs):
            raise BulkError(f"{file} is an input. Write to another file.")
    if not is_remote(out) and is_stream(Path(out)):
        raise BulkError(f"{out} is not a regular file. Write to another file.")
    suffix = PurePosixPath(out.lower()).suffix
    if suffix in _OTHER_FORMATS:
        name = out[: -len(suffix)]
        raise BulkError(f"{out}: the output is a Parquet file. Name it {name}.parquet.")
    if is_folder(out):
        _check_output_folder(job, overwrite=overwrite)
    elif job.is_partitioned and is_file(out):
        raise BulkError(f"{out} is a file. With --partitions the output is a folder.")
    for file in (out, job.invalid_file):
        # A run that was killed between the two renames has left the side file of this job.
        is_own_side_file = file == job.invalid_file and is_folder(job.work_folder)
        if is_file(file) and not overwrite and not is_own_side_file:
            raise BulkError(f"{file} exists. To replace it, use --overwrite.")


def _check_output_folder(job: BulkJob, *, overwrite: bool) -> None:
    if not job.is_partitioned:
        raise BulkError(f"{job.out} is a folder. Name the Parquet file to write, or write a folder with --partitions.")
    if not is_output_folder(job.out):
        raise BulkError(f"{job.out} is a folder with other files. Name a new folder.")
    if any(_is_inside(each, job.out) for each in job.inputs):
        raise BulkError(f"{job.out} contains an input. Write to another folder.")
    if not overwrite:
        raise BulkError(f"{job.out} exists. To replace it, use --overwrite.")


def _is_inside(file: str, folder: str) -> bool:
    if is_remote(file) or is_remote(folder):
        return file.startswith(f"{folder.rstrip('/')}/")
    return os.path.realpath(file).startswith(f"{os.path.realpath(folder)}{os.sep}")
