"""Run a bulk job: make a part for each input file, merge the parts, write the output (contract S3)."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from canonry.bulk.check_job import check_job
from canonry.bulk.disk_errors import convert_disk_errors
from canonry.bulk.job import (
    BulkJob,
    BulkProgress,
    BulkReport,
    Format,
    Mode,
    SkippedFile,
    Stage,
    choose_bucket_bits,
    choose_work_folder,
    find_inputs,
    measure_file,
)
from canonry.bulk.known_keys import load_known_keys
from canonry.bulk.storage import follow_symlink, is_remote, make_absolute, make_local
from canonry.bulk.work_folder import continue_buckets, load_finished_part, lock_work_folder
from canonry.bulk.write_output import write_output
from canonry.core.normalize import resolve_policy
from canonry.errors import BadInputFile, BulkError
from canonry.sizes import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from canonry.bulk.normalize_batch import NormalizedBatch
    from canonry.bulk.work_folder import FilePart
    from canonry.bulk.write_output import OutputPlan, WrittenRows
    from canonry.core.policy import Policy


class BulkEngine(Protocol):
    """Make the parts of a job and write its output; a file that cannot be read is returned as its error."""

    def make_parts(
        self, job: BulkJob, files: Sequence[int], on_batch: Callable[[NormalizedBatch], None]
    ) -> Iterator[FilePart | BadInputFile]: ...

    def write_partitions(self, job: BulkJob, plan: OutputPlan, report: Callable[[WrittenRows], None]) -> None: ...

    def close(self) -> None: ...


def run(
    inputs: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    mode: Mode | str = Mode.DEDUPE,
    column: str = "url",
    policy: Policy | str = "bookmark",
    against: Policy | str | None = None,
    format: Format | str | None = None,  # noqa: A002
    keep: Iterable[str] = (),
    group_by: str | None = None,
    known: str | os.PathLike[str] | None = None,
    partitions: int | None = None,
    partition_size: int | str | None = None,
    engine: str = "duckdb",
    master: str | None = None,
    memory: int | str = "1GB",
    work_folder: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    skip_bad_files: bool = False,
    on_progress: Callable[[BulkProgress], None] | None = None,
) -> BulkReport:
    """Read files of URLs and write a Parquet file or a folder of them; invalid rows go to a side file.

    The same call resumes a run that was killed: finished input files are not read again, also if others are added
    or left out. An input that cannot be read raises BadInputFile, or is left out if `skip_bad_files` is set.
    """
    files, out, memory = find_inputs(inputs), follow_symlink(make_local(os.fspath(out))), parse_size(memory)
    job = BulkJob(
        inputs=files,
        out=_drop_trailing_slash(out),
        policy=resolve_policy(policy),
        work_folder=choose_work_folder(out, engine, None if work_folder is None else os.fspath(work_folder)),
        current_folder=os.getcwd(),
        mode=Mode(mode),
        column=column,
        against=None if against is None else resolve_policy(against),
        format=None if format is None else Format(format),
        memory=memory,
        bucket_bits=choose_bucket_bits(files, memory, partitions),
        partitions=partitions,
        partition_bytes=None if partition_size is None else parse_size(partition_size),
        keep=tuple(keep),
        group_by=group_by,
    )
    known = None if known is None else make_local(os.fspath(known))
    check_job(job, known=known, engine=engine, overwrite=overwrite)
    job = continue_buckets(job)
    if known is not None:
        job = replace(job, known=load_known_keys(job, make_absolute(known, job.current_folder)))
    chosen_engine = _make_engine(engine, master)
    progress = _ProgressReporter(job, on_progress)
    with lock_work_folder(job), closing(chosen_engine):
        parts, kept, skipped = _collect_parts(job, chosen_engine, progress, skip_bad_files=skip_bad_files)
        with convert_disk_errors(f"{job.out} cannot be written"):
            written = write_output(job, chosen_engine, parts, progress.report_written)
    invalid = sum(part.invalid for part in parts)
    return BulkReport(
        out=job.out,
        rows=sum(part.rows for part in parts),
        written=written.rows,
        invalid=invalid,
        empty=sum(part.empty for part in parts),
        files=len(parts),
        kept=kept,
        invalid_file=job.invalid_file if invalid else None,
        policy=job.policy.id,
        malformed=sum(part.malformed for part in parts),
        skipped=tuple(SkippedFile(error.file, str(error)) for error in skipped),
        core="native" if all(part.is_native for part in parts) else "pure Python",
        new=written.new,
    )


def _drop_trailing_slash(path: str) -> str:
    """Return the path of a folder without a slash at its end; `/` and `s3://` alone stay as they are."""
    short = path.rstrip("/")
    return short if short and is_remote(short) == is_remote(path) else path


def _make_engine(name: str, master: str | None) -> BulkEngine:
    if name == "duckdb":
        if master is not None:
            raise BulkError("--master needs --engine spark.")
        if find_spec("duckdb") is None:  # imported only when memory runs out; a missing module must fail at the start
            raise ModuleNotFoundError("No module named 'duckdb'", name="duckdb")
        from canonry.bulk.duckdb import DuckDBEngine

        return DuckDBEngine()
    if name == "spark":
        from canonry.bulk.spark import SparkEngine

        return SparkEngine(master)
    raise BulkError(f"There is no engine {name!r}. Use duckdb or spark.")


class _ProgressReporter:
    """Report the progress of a job; rows that an earlier run read are not counted."""

    def __init__(self, job: BulkJob, on_progress: Callable[[BulkProgress], None] | None) -> None:
        self._on_progress = on_progress
        self._total_bytes = sum(map(measure_file, job.inputs))
        self._total_files = len(job.inputs)
        self._files = self._rows = self._bytes = 0
        self._current_rows = 0  # of the file that is being read

    def report_kept_part(self, part: FilePart) -> None:
        """Report an input file that an earlier run finished."""
        self._files += 1
        self._bytes += part.size
        self._report(Stage.READING, self._rows, self._bytes, self._total_bytes)

    def report_part(self, part: FilePart) -> None:
        """Report an input file that is finished."""
        self._current_rows, self._rows = 0, self._rows + part.rows
        self.report_kept_part(part)

    def report_batch(self, batch: NormalizedBatch) -> None:
        """Report more rows of the file that is being read."""
        self._current_rows += batch.rows
        rows, position = self._rows + self._current_rows, self._bytes + batch.position
        self._report(Stage.READING, rows, position, self._total_bytes)

    def report_written(self, rows: int, done: int, total: int) -> None:
        """Report the rows of the output, made of `done` of the `total` rows of all parts."""
        self._report(Stage.WRITING, rows, done, total)

    def _report(self, stage: Stage, rows: int, done: int, total: int) -> None:
        if self._on_progress is not None:
            self._on_progress(BulkProgress(stage, self._files, self._total_files, rows, done, total))


def _collect_parts(
    job: BulkJob, engine: BulkEngine, progress: _ProgressReporter, *, skip_bad_files: bool
) -> tuple[list[FilePart], int, list[BadInputFile]]:
    """Return all parts in the order of the inputs, how many an earlier run made, and why files were left out."""
    indices = range(len(job.inputs))
    with convert_disk_errors("The state of the inputs cannot be read"):
        kept = {part.file: part for part in (load_finished_part(job, file) for file in indices) if part}
    for part in kept.values():
        progress.report_kept_part(part)
    made: dict[int, FilePart] = {}
    skipped: list[BadInputFile] = []
    for result in engine.make_parts(job, [file for file in indices if file not in kept], progress.report_batch):
        if isinstance(result, BadInputFile):
            if not skip_bad_files:
                raise result
            skipped.append(result)
            continue
        made[result.file] = result
        progress.report_part(result)
    if len(skipped) == len(indices):
        raise skipped[0]
    parts = kept | made
    return [parts[file] for file in sorted(parts)], len(kept), skipped
