"""The engine for many machines: Spark gives input files to workers and sorts their results.

Inputs, output and the work folder must be on storage that all machines see under the same path. Workers run the same
functions as a single machine: `make_part` for a file, `merge_sorted_rows` for a range of hashes.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.make_part import make_part
from canonry.bulk.merge_runs import MERGED_SCHEMA, merge_sorted_rows
from canonry.bulk.work_folder import FilePart, get_segment_paths, read_row_groups
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from canonry.bulk.job import BulkJob
    from canonry.bulk.normalize_batch import NormalizedBatch

pa: Any = pyarrow  # pyarrow has no type stubs
_PART_FIELDS = [field.name for field in fields(FilePart)]
# What a task returns: the fields of a part, or the message of a BulkError.
_RESULT_SCHEMA = pa.schema([*((name, pa.int64()) for name in _PART_FIELDS), ("error", pa.string())])
_RESULT_COLUMNS = ", ".join([*(f"{name} long" for name in _PART_FIELDS), "error string"])
_MERGED_COLUMNS = "url string, canonical_hash string, count long, first_variant string, place long, runs long"
_RANGE_BYTES = 64 << 20  # of parts, sorted by one task
_LOG_NAME = "spark.log"
_MAX_MESSAGE_CHARACTERS = 500


class SparkEngine:
    """Run a job on a Spark cluster, in the active session or in one of its own that starts when needed."""

    def __init__(self, master: str | None) -> None:
        self._master = master or "local[*]"
        self._own_session: Any = None
        _require_java()

    def make_parts(
        self, job: BulkJob, files: Sequence[int], on_batch: Callable[[NormalizedBatch], None]
    ) -> Iterator[FilePart]:
        """Make the parts of these input files, one task for each file."""
        del on_batch  # the workers report a file when it is done
        if not files:
            return
        with _convert_spark_errors(job):
            numbered = self._get_session(job).createDataFrame(list(enumerate(files)), "at int, file long")
            tasks = numbered.repartitionById(len(files), "at").select("file")
            results = tasks.mapInArrow(_make_task(job), _RESULT_COLUMNS)
            for row in results.toLocalIterator(prefetchPartitions=True):
                result = row.asDict()
                if (message := result.pop("error")) is not None:
                    raise BulkError(message)
                yield FilePart(**result)

    def merge(self, job: BulkJob, parts: Sequence[FilePart]) -> Iterator[Any]:
        """Yield the merged rows of all parts in ascending order of hashes, as tables."""
        paths = [path.absolute().as_uri() for part in parts for path in get_segment_paths(job, part)]
        if not paths:
            return
        folder = job.work_folder / "merged"
        ranges = sum(part.bytes for part in parts) // _RANGE_BYTES + 1
        with _convert_spark_errors(job):
            rows = self._get_session(job).read.parquet(*paths).repartitionByRange(ranges, "canonical_hash")
            merged = rows.sortWithinPartitions("canonical_hash", "place").mapInArrow(_merge_range, _MERGED_COLUMNS)
            merged.write.mode("overwrite").parquet(folder.absolute().as_uri(), compression="lz4")
        for file in sorted(folder.glob("part-*.parquet")):
            for table in read_row_groups(file):
                yield table.cast(MERGED_SCHEMA)

    def close(self) -> None:
        """Stop the engine's own session and its Java process, which would keep the folders of this job open."""
        if self._own_session is None:
            return
        from pyspark import SparkContext

        self._own_session.stop()
        context: Any = SparkContext
        gateway = context._gateway  # noqa: SLF001
        context._gateway = context._jvm = None  # noqa: SLF001
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()

    def _get_session(self, job: BulkJob) -> Any:
        from pyspark.sql import SparkSession

        session: Any = SparkSession.getActiveSession()  # the caller's; it is not stopped
        if session is None:
            session = self._own_session = _start_session(self._master, job)
        return session


@contextmanager
def _convert_spark_errors(job: BulkJob) -> Generator[None]:
    """Raise a BulkError with the first line of a Spark error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about pandas, which is not used
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError) as error:
            lines = (line.strip() for line in str(error).splitlines())
            message = next((line for line in lines if line), "no reason given")[:_MAX_MESSAGE_CHARACTERS]
            raise BulkError(f"Spark failed: {message} (details in {job.work_folder / _LOG_NAME})") from None


def _require_java() -> None:
    import pyspark  # noqa: F401  # pyright: ignore[reportUnusedImport]

    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java") or (home and Path(home, "bin", "java").exists())):
        raise BulkError(
            "Spark needs Java 17 or later. On Debian: apt-get install default-jre-headless. Or set JAVA_HOME."
        )


def _start_session(master: str, job: BulkJob) -> Any:
    from pyspark.sql import SparkSession

    # Workers must find canonry: by default they run this Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
        "spark.sql.adaptive.enabled": "false",  # it would put several files into one task
        "spark.local.dir": str((job.work_folder / "spill").absolute()),
    }
    if master.startswith("local"):
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder: Any = SparkSession.builder
    builder = builder.master(master).appName("canonry bulk")
    for name, value in options.items():
        builder = builder.config(name, value)
    with _redirect_stderr(job.work_folder / _LOG_NAME):
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


def _make_task(job: BulkJob) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that workers run: it makes the part of each file it is given.

    A BulkError is returned as a value, not raised: Spark would retry the task and bury the message in a stack trace.
    """

    def make_parts(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for file in batch.column(0).to_pylist():
                result: dict[str, Any] = dict.fromkeys(_RESULT_SCHEMA.names)
                try:
                    result |= asdict(make_part(job, file))
                except BulkError as error:
                    result["error"] = str(error)
                yield pa.RecordBatch.from_pylist([result], _RESULT_SCHEMA)

    return make_parts


def _merge_range(batches: Iterator[Any]) -> Iterator[Any]:
    for table in merge_sorted_rows(pa.Table.from_batches([batch]) for batch in batches):
        yield from table.to_batches()
