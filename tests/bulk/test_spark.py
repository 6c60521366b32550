"""On Spark: functions in SQL that say what canonry.normalize says, and the bytes of one machine from canonry bulk.

One session for all but the last test, which has a cluster of its own: each Java takes seconds to start.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import canonry
import mixed_urls
from bulk_reference import deduped, mixed_lines, write_lines
from canonry import bulk
from canonry.bulk.functions import register_spark
from java import QUICK, cluster, needs_java, spark_session

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyspark")
pytestmark = [
    needs_java,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
]

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

CANONRY = [sys.executable, "-m", "canonry", "bulk"]


@pytest.fixture(scope="module")
def spark() -> Generator[Any]:
    with spark_session() as session:
        yield session


def test_functions_say_what_normalize_says(spark: Any) -> None:
    urls = mixed_urls.urls()
    register_spark(spark, policies=[canonry.policy("crawl").with_params("b").with_name("mine")])
    spark.createDataFrame(pa.table({"id": range(len(urls)), "url": urls})).repartition(2).createOrReplaceTempView("p")
    asked = ", ".join(mixed_urls.THREE.format(given) for given in ("url", "url, 'article@0'"))
    more = "url_normalize('https://a.com/x/?b=1', 'mine'), url_key(5), url_key(NULL), url_hash(url, NULL)"
    rows = spark.sql(f"SELECT {asked}, {more} FROM p ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [
        (*mixed_urls.three(url), *mixed_urls.three(url, "article@0"), "https://a.com/x", None, None, None)
        for url in urls
    ]
    with pytest.raises(Exception, match="no policy 'none'; the shipped policies are"):
        spark.sql("SELECT url_key(url, 'none') FROM p").collect()


def test_every_mode_gives_the_bytes_of_one_machine(spark: Any, tmp_path: Path) -> None:
    files = write_lines(tmp_path, mixed_lines(20_000), 3)
    alone, many = tmp_path / "alone", tmp_path / "many"
    alone.mkdir()
    many.mkdir()
    for mode, against in (("dedupe", None), ("normalize", None), ("join", None), ("diff", "crawl")):
        one = bulk.run(files, alone / f"{mode}.parquet", mode=mode, against=against)
        other = bulk.run(files, many / f"{mode}.parquet", mode=mode, against=against, engine="spark")
        assert (one.rows, one.invalid) == (other.rows, other.invalid)
        for name in (f"{mode}.parquet", f"{mode}.invalid.parquet"):
            assert (alone / name).read_bytes() == (many / name).read_bytes(), name
    assert pq.read_table(many / "dedupe.parquet").to_pylist() == deduped(files)
    with pytest.raises(bulk.BulkError, match="has no column 'nope'") as refused:
        bulk.run(files, many / "x.parquet", engine="spark", column="nope", format="csv")
    assert len(str(refused.value)) < 5000
    assert sorted(path.name for path in many.iterdir() if path.name.startswith(".")) == [".x.parquet.work"]
    assert spark.range(5).count() == 5, "the session was not ours to stop"


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
    bulk.run(files, tmp_path / "alone.parquet")
    assert out.read_bytes() == (tmp_path / "alone.parquet").read_bytes()
