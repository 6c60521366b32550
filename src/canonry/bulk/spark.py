"""Bulk jobs on many machines: Spark hands input files to workers, and sorts what they make of them.

Inputs, output and the work folder beside it must lie on storage that all machines see under the same path.
Workers run the functions of one machine: `make_part` for a file, `reduced` for a range of hashes.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.batches import MERGED, reduced
from canonry.bulk.parts import Part, make_part, row_groups, segments_of
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from canonry.bulk.batches import Answer
    from canonry.bulk.job import Job

pa: Any = pyarrow  # it has no types
_PART_FIELDS = "file size changed rows written invalid empty bytes segments"
_PARTS = ", ".join(f"{name} long" for name in _PART_FIELDS.split())
_RANGE = 64 << 20  # bytes of parts that one task sorts
_LOG = "spark.log"
_OURS = "canonry.bulk.job.BulkError: "
_MERGED = "url string, canonical_hash string, count long, first_variant string, place long, runs long"


class Spark:
    """The engine for many machines; one session for a job, begun when it is first needed."""

    def __init__(self, master: str | None) -> None:
        self._master = master or "local[*]"
        self._session: Any = None
        _need_java()

    def make_parts(self, job: Job, files: Sequence[int], watch: Callable[[Answer], None]) -> Iterator[Part]:
        """The parts of these input files, each made by one task wherever there is room."""
        del watch  # rows are known when their file is done
        if not files:
            return
        with self._told_in_one_line(job):
            listed = self._started(job).createDataFrame(list(enumerate(files)), "at int, file long")
            tasks = listed.repartitionById(len(files), "at").select("file")
            for row in tasks.mapInArrow(_part_maker(job), _PARTS).toLocalIterator(prefetchPartitions=True):
                yield Part(**row.asDict())

    def merge(self, job: Job, parts: Sequence[Part]) -> Iterator[Any]:
        """The runs of all parts as one, in rising order of hashes, piece by piece."""
        paths = [path.absolute().as_uri() for part in parts for path in segments_of(job, part)]
        if not paths:
            return
        folder = job.work / "merged"
        ranges = sum(part.bytes for part in parts) // _RANGE + 1
        with self._told_in_one_line(job):
            rows = self._started(job).read.parquet(*paths).repartitionByRange(ranges, "canonical_hash")
            merged = rows.sortWithinPartitions("canonical_hash", "place").mapInArrow(_reduce, _MERGED)
            merged.write.mode("overwrite").parquet(folder.absolute().as_uri(), compression="lz4")
        for file in sorted(folder.glob("part-*.parquet")):
            for table in row_groups(file):
                yield table.cast(MERGED)

    def close(self) -> None:
        """End the session, and Java: it would keep the folders of this job."""
        if self._session is None:
            return
        from pyspark import SparkContext

        self._session.stop()
        context: Any = SparkContext
        gateway = context._gateway  # noqa: SLF001
        context._gateway = context._jvm = None  # noqa: SLF001
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()

    def _started(self, job: Job) -> Any:
        from pyspark.sql import SparkSession

        found: Any = SparkSession.getActiveSession()  # of somebody who has one already, and keeps it
        if found is None:
            found = self._session = _new_session(self._master, job)
        return found

    @contextmanager
    def _told_in_one_line(self, job: Job) -> Generator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # it speaks of pandas, which we do not use
            from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
            from pyspark.errors import PySparkException

            try:
                yield
            except (PySparkException, Py4JError) as error:
                raise _told(error, job) from None


def _need_java() -> None:
    import pyspark  # noqa: F401  # pyright: ignore[reportUnusedImport]

    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java") or (home and Path(home, "bin", "java").exists())):
        raise BulkError(
            "Spark needs Java 17 or later: on Debian apt-get install default-jre-headless, or set JAVA_HOME"
        )


def _new_session(master: str, job: Job) -> Any:
    from pyspark.sql import SparkSession

    # Workers must find canonry: they run the Python that runs here, unless somebody says otherwise.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
        "spark.sql.adaptive.enabled": "false",  # it would put several files into one task
        "spark.local.dir": str((job.work / "spill").absolute()),
    }
    if master.startswith("local"):
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder: Any = SparkSession.builder
    builder = builder.master(master).appName("canonry bulk")
    for name, value in options.items():
        builder = builder.config(name, value)
    with _stderr_to(job.work / _LOG):
        return builder.getOrCreate()


@contextmanager
def _stderr_to(file: Path) -> Generator[None]:
    """Who is started meanwhile talks to the file: Java has much to say that is no answer."""
    sys.stderr.flush()
    kept = os.dup(2)
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(log)


def _part_maker(job: Job) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def make_parts(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for file in batch.column(0).to_pylist():
                part = make_part(job, file)
                fields = {name: pa.array([getattr(part, name)], pa.int64()) for name in _PART_FIELDS.split()}
                yield pa.RecordBatch.from_pydict(fields)

    return make_parts


def _reduce(batches: Iterator[Any]) -> Iterator[Any]:
    for table in reduced(pa.Table.from_batches([batch]) for batch in batches):
        yield from table.to_batches()


def _told(error: Exception, job: Job) -> BulkError:
    """What Spark says at length, in one line: our own error if a worker raised one, else its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    _, found, ours = next((line for line in lines if _OURS in line), "").partition(_OURS)
    if found:
        return BulkError(ours.strip())
    said = (lines or ["no reason given"])[0][:500]
    return BulkError(f"Spark stopped: {said} (more in {job.work / _LOG})")
