"""canonry bulk on Spark: the bytes of one machine, also when a worker dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from bulk_reference import deduped, mixed_lines, write_lines
from canonry import bulk
from java import QUICK, cluster, needs_java

pq: Any = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyspark")
pytestmark = [needs_java, pytest.mark.slow]

if TYPE_CHECKING:
    from pathlib import Path

CANONRY = [sys.executable, "-m", "canonry", "bulk"]
# One session of its own, then one that was there before: each Java takes seconds to start.
EVERY_MODE = """
import sys
from canonry import bulk
out, inputs = sys.argv[1], sys.argv[2:]
def run(mode, against=None):
    report = bulk.run(inputs, f"{out}/{mode}.parquet", mode=mode, against=against, engine="spark", master="local[2]")
    print(mode, report.rows, report.invalid, flush=True)
run("dedupe")
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
run("normalize")
run("join")
run("diff", "crawl")
try:
    bulk.run(inputs, f"{out}/x.parquet", engine="spark", column="nope", format="csv")
except bulk.BulkError as error:
    print(error)
print(session.range(5).count())  # it was not ours to stop
session.stop()
"""


def test_every_mode_gives_the_bytes_of_one_machine(tmp_path: Path) -> None:
    files = write_lines(tmp_path, mixed_lines(20_000), 3)
    alone, many = tmp_path / "alone", tmp_path / "many"
    alone.mkdir()
    many.mkdir()
    script = tmp_path / "script.py"
    script.write_text(EVERY_MODE)
    done = subprocess.run(
        [sys.executable, script, many, *files], capture_output=True, text=True, check=False, env={**os.environ, **QUICK}
    )
    assert done.returncode == 0, done.stderr
    *told, error, count = done.stdout.splitlines()
    assert count == "5"
    assert "has no column 'nope'" in error
    assert len(error) < 5000
    for mode, against in (("dedupe", None), ("normalize", None), ("join", None), ("diff", "crawl")):
        report = bulk.run(files, alone / f"{mode}.parquet", mode=mode, against=against)
        assert told.pop(0) == f"{mode} {report.rows} {report.invalid}"
        for name in (f"{mode}.parquet", f"{mode}.invalid.parquet"):
            assert (alone / name).read_bytes() == (many / name).read_bytes(), name
    assert pq.read_table(many / "dedupe.parquet").to_pylist() == deduped(files)
    assert sorted(path.name for path in many.iterdir() if path.name.startswith(".")) == [".x.parquet.work"]


def test_an_executor_that_is_killed_changes_nothing(tmp_path: Path) -> None:
    files, out = write_lines(tmp_path, mixed_lines(24_000), 12), tmp_path / "out.parquet"
    work = tmp_path / ".out.parquet.work"
    with cluster(tmp_path) as spark:
        command = [*CANONRY, *map(str, files), "-o", str(out), "--engine", "spark", "--master", spark.master]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **QUICK}
        ) as process:
            deadline = time.monotonic() + 240
            while not (spark.executors() and any(work.glob("000*.json"))):
                assert time.monotonic() < deadline and process.poll() is None, process.communicate()
                time.sleep(0.01)
            victim = spark.executors()[0]
            os.kill(victim, signal.SIGKILL)
            said, told = process.communicate(timeout=300)
        assert process.returncode == 0, told
        assert victim not in spark.executors()
    assert '"files": 12' in said
    assert told == ""
    assert pq.read_table(out).to_pylist() == deduped(files)
