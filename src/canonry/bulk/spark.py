"""The engine for many machines: Spark gives input files to workers and sorts their results.

Inputs, output and the work folder must be on storage that all machines see under the same path. Workers run the same
functions as a single machine: `make_part` for a file, `merge_in_memory` for a group of buckets.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.disk_errors import convert_disk_errors
from canonry.bulk.make_part import make_part
from canonry.bulk.merge_runs import make_merged_schema, merge_in_memory
from canonry.bulk.parquet_output import open_parquet_writer
from canonry.bulk.run_files import group_buckets, measure_buckets, read_buckets
from canonry.bulk.storage import join_path, make_folder
from canonry.bulk.work_folder import MERGED_FOLDER, FilePart, open_local_folder, read_row_groups
from canonry.bulk.write_output import WrittenRows, write_partition
from canonry.errors import BadInputFile, BulkError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from canonry.bulk.job import BulkJob
    from canonry.bulk.normalize_batch import NormalizedBatch
    from canonry.bulk.write_output import OutputPlan
    from canonry.errors import CanonryError

pa: Any = pyarrow  # pyarrow has no type stubs
_PART_FIELDS = [field.name for field in fields(FilePart)]
# What a task returns: the fields of a part, or the message of a BulkError.
_NUMBERS = [*_PART_FIELDS, "is_bad_file"]
_RESULT_SCHEMA = pa.schema([*((name, pa.int64()) for name in _NUMBERS), ("error", pa.string())])
_RESULT_COLUMNS = ", ".join([*(f"{name} long" for name in _NUMBERS), "error string"])
_WRITTEN_NAMES = [field.name for field in fields(WrittenRows)]
_WRITTEN_SCHEMA = pa.schema([*((name, pa.int64()) for name in _WRITTEN_NAMES), ("error", pa.string())])
_WRITTEN_COLUMNS = ", ".join([*(f"{name} long" for name in _WRITTEN_NAMES), "error string"])
_GROUP_BYTES = 64 << 20  # of runs, merged by one task
_WORKER_SECONDS = 120
_LOG_NAME = "spark.log"
_MAX_MESSAGE_CHARACTERS = 500


class SparkEngine:
    """Run a job on a Spark cluster, in the active session or in one of its own that starts when needed."""

    def __init__(self, master: str | None) -> None:
        self._master = master
        self._own_session: Any = None
        self._stack = ExitStack()  # of the folder for logs and spilled data
        self._log_folder: Path | None = None
        _require_java(BulkError)

    def make_parts(
        self, job: BulkJob, files: Sequence[int], on_batch: Callable[[NormalizedBatch], None]
    ) -> Iterator[FilePart | BadInputFile]:
        """Make the parts of these input files in one Spark job, one task for each file."""
        del on_batch  # the workers report a file when it is done
        results = self._run_tasks(job, [[file] for file in files], _make_part_task(job), _RESULT_COLUMNS)
        for result in results:
            message, is_bad_file = result.pop("error"), bool(result.pop("is_bad_file"))
            if message is None:
                yield FilePart(**{**result, "is_native": bool(result["is_native"])})
            elif is_bad_file:
                yield BadInputFile(job.inputs[int(result["file"])], str(message))
            else:
                raise BulkError(message)

    def write_partitions(self, job: BulkJob, plan: OutputPlan, report: Callable[[WrittenRows], None]) -> None:
        """Write the files of the output, each on a worker; an output of one file is written here."""
        if job.is_partitioned:
            tasks = [[number] for number in range(len(plan.partitions))]
            for result in self._run_tasks(job, tasks, _make_write_task(job, plan), _WRITTEN_COLUMNS):
                report(_read_written_rows(result))
            return
        [partition] = plan.partitions
        write_partition(job, plan, partition, lambda buckets: self._merge(job, plan, buckets), report)

    def _merge(self, job: BulkJob, plan: OutputPlan, buckets: range) -> Iterator[Any]:
        """Yield the rows that workers have merged, in ascending order of keys."""
        groups = group_buckets(measure_buckets(job, plan.parts), buckets, _GROUP_BYTES)
        make_folder(join_path(job.work_folder, MERGED_FOLDER))
        tasks = [[number, group.start, group.stop] for number, group in enumerate(groups)]
        for result in self._run_tasks(job, tasks, _make_merge_task(job, plan.parts), _WRITTEN_COLUMNS):
            _read_written_rows(result)
        for number in range(len(groups)):
            yield from read_row_groups(_get_merged_path(job, number))

    def _run_tasks(
        self,
        job: BulkJob,
        tasks: Sequence[Sequence[int]],
        function: Callable[[Iterator[Any]], Iterator[Any]],
        columns: str,
    ) -> list[dict[str, Any]]:
        """Run a function on the workers, one task for each row of numbers, all in one Spark job."""
        if not tasks:
            return []
        folder = self._open_log_folder(job)
        with _convert_spark_errors(folder, BulkError):
            session = self._get_session(folder)
            rows = [(at, list(task)) for at, task in enumerate(tasks)]
            numbered = session.createDataFrame(rows, "at int, task array<long>")
            frame = numbered.repartitionById(len(tasks), "at").select("task")
            return [row.asDict() for row in frame.mapInArrow(function, columns).collect()]

    def close(self) -> None:
        """Stop the engine's own session and its Java process, which would keep the folders of this job open."""
        with self._stack:
            if self._own_session is not None:
                _stop_session(self._own_session)

    def _open_log_folder(self, job: BulkJob) -> Path:
        """Return the folder for Spark's log and spilled data: the work folder, or a temporary one if it is remote."""
        if self._log_folder is None:
            self._log_folder = self._stack.enter_context(open_local_folder(job))
        return self._log_folder

    def _get_session(self, folder: Path) -> Any:
        from pyspark.sql import SparkSession

        session: Any = SparkSession.getActiveSession()  # the caller's; it is not stopped
        if session is None:
            session = self._own_session = _start_session(self._master, folder)
            _check_workers(session)
        return session


@contextmanager
def open_session(master: str | None, folder: Path, error: type[CanonryError]) -> Generator[Any]:
    """Yield the active session, or one of its own that ends with the block; raise Spark errors as `error`."""
    _require_java(error)
    from pyspark.sql import SparkSession

    active: Any = SparkSession.getActiveSession()
    with _convert_spark_errors(folder, error):
        session = _start_session(master, folder) if active is None else active
        try:
            yield session
        finally:
            if active is None:
                _stop_session(session)


def _stop_session(session: Any) -> None:
    from pyspark import SparkContext

    session.stop()
    context: Any = SparkContext
    gateway = context._gateway  # noqa: SLF001
    process = getattr(gateway, "proc", None)
    if process is None:
        return  # spark-submit started Java, and ends it
    context._gateway = context._jvm = None  # noqa: SLF001
    gateway.shutdown()
    process.stdin.close()
    process.wait()


@contextmanager
def _convert_spark_errors(folder: Path, kind: type[CanonryError]) -> Generator[None]:
    """Raise an error of ours with the first line of a Spark error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about pandas, which is not used
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError) as error:
            lines = (line.strip() for line in str(error).splitlines())
            message = next((line for line in lines if line), "no reason given")[:_MAX_MESSAGE_CHARACTERS]
            raise kind(f"Spark failed: {message} (details in {folder / _LOG_NAME})") from None


def _require_java(kind: type[CanonryError]) -> None:
    import pyspark  # noqa: F401  # pyright: ignore[reportUnusedImport]

    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java") or (home and Path(home, "bin", "java").exists())):
        raise kind("Spark needs Java 17 or later. On Debian: apt-get install default-jre-headless. Or set JAVA_HOME.")


def _start_session(master: str | None, folder: Path) -> Any:
    from pyspark.sql import SparkSession

    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit runs this process and has set the master
    if not is_submitted:
        # Workers must find canonry: by default they run this Python.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        master = master or "local[*]"
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
        "spark.sql.adaptive.enabled": "false",  # it would put several files into one task
        "spark.local.dir": str((folder / "spill").absolute()),
    }
    if master is not None and master.startswith("local"):
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder: Any = SparkSession.builder
    builder = (builder if master is None else builder.master(master)).appName("canonry bulk")
    for name, value in options.items():
        builder = builder.config(name, value)
    with _redirect_stderr(folder / _LOG_NAME):
        return builder.getOrCreate()


@contextmanager
def _redirect_stderr(file: Path) -> Generator[None]:
    """Append to a file what this process and those it starts write to stderr: Java logs a lot there."""
    sys.stderr.flush()
    saved = os.dup(2)
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(log)


def _check_workers(session: Any) -> None:
    """Raise a BulkError if no worker accepts a task, or if canonry cannot be imported there."""

    def find_canonry(_: int) -> tuple[str, str | None]:
        import platform
        from importlib import import_module

        try:
            for name in ("numpy", "pyarrow", "canonry"):
                import_module(name)
        except ImportError as error:
            return platform.node(), str(error)
        return platform.node(), None

    # Sent as code, not as a name to import: the worker may not have canonry.
    find_canonry.__module__ = "__main__"
    context = session.sparkContext
    answers: list[tuple[str, str | None]] = []
    errors: list[Exception] = []

    def ask_workers() -> None:
        try:
            answers.extend(context.parallelize(range(1), 1).map(find_canonry).collect())
        except Exception as error:  # raised below, in the thread that waits
            errors.append(error)

    check = threading.Thread(target=ask_workers, daemon=True)
    check.start()
    check.join(_WORKER_SECONDS)
    if check.is_alive():
        context.cancelAllJobs()
        raise BulkError(
            f"No Spark worker took a task within {_WORKER_SECONDS} s. Start workers, or ask for fewer cores and less "
            "memory with spark.executor.cores and spark.executor.memory."
        )
    for error in errors:
        raise error
    for node, problem in answers:
        if problem is not None:
            raise BulkError(
                f"canonry cannot be imported on the worker {node} ({problem}). Install canonry[spark] there, or send "
                "an environment with it: see 'Many machines' in docs/howto/bulk.md."
            )


def _make_part_task(job: BulkJob) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that workers run to make the part of a file.

    A BulkError is returned as a value, not raised: Spark would retry the task and bury the message in a stack trace.
    """

    def make_parts(batches: Iterator[Any]) -> Iterator[Any]:
        for [file] in _read_tasks(batches):
            result: dict[str, Any] = dict.fromkeys(_RESULT_SCHEMA.names) | {"file": file, "is_bad_file": 0}
            try:
                part = asdict(make_part(job, file))
                result |= part | {"is_native": int(part["is_native"])}
            except BulkError as error:
                result |= {"error": str(error), "is_bad_file": int(isinstance(error, BadInputFile))}
            yield pa.RecordBatch.from_pylist([result], _RESULT_SCHEMA)

    return make_parts


def _make_merge_task(job: BulkJob, parts: Sequence[FilePart]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that workers run to merge a group of buckets into a file of the work folder."""

    def merge_groups(batches: Iterator[Any]) -> Iterator[Any]:
        for number, start, stop in _read_tasks(batches):
            path = _get_merged_path(job, number)
            with _return_errors() as result, open_parquet_writer(path, make_merged_schema(job)) as output:
                output.add(merge_in_memory(job, read_buckets(job, parts, range(start, stop))))
            yield pa.RecordBatch.from_pylist([result], _WRITTEN_SCHEMA)

    return merge_groups


def _make_write_task(job: BulkJob, plan: OutputPlan) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that workers run to merge and write a partition of the output."""

    def merge(buckets: range) -> Iterator[Any]:
        for group in group_buckets(measure_buckets(job, plan.parts), buckets, _GROUP_BYTES):
            yield merge_in_memory(job, read_buckets(job, plan.parts, group))

    def write_files(batches: Iterator[Any]) -> Iterator[Any]:
        for [number] in _read_tasks(batches):
            with _return_errors() as result:
                written = write_partition(job, plan, plan.partitions[number], merge, lambda _: None)
                result.update(asdict(written))
            yield pa.RecordBatch.from_pylist([result], _WRITTEN_SCHEMA)

    return write_files


@contextmanager
def _return_errors() -> Generator[dict[str, Any]]:
    """Yield the result of a task; an error of ours becomes part of it, instead of being retried by Spark."""
    result: dict[str, Any] = dict.fromkeys(_WRITTEN_SCHEMA.names)
    try:
        with convert_disk_errors("The output cannot be written"):
            yield result
    except BulkError as error:
        result["error"] = str(error)


def _read_written_rows(result: dict[str, Any]) -> WrittenRows:
    message = result.pop("error")
    if message is not None:
        raise BulkError(str(message))
    return WrittenRows(**{name: count or 0 for name, count in result.items()})


def _read_tasks(batches: Iterator[Any]) -> Iterator[list[int]]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _get_merged_path(job: BulkJob, number: int) -> str:
    return join_path(join_path(job.work_folder, MERGED_FOLDER), f"{number:05}.parquet")
