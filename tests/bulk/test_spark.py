"""Spark: SQL functions equal canonry.normalize, and canonry bulk writes the same bytes as on one machine.

The tests share one session, because Java takes seconds to start. `test_spark_cluster.py` has a real cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import canonry
import mixed_urls
from bulk_reference import dedupe, make_mixed_lines, write_lines
from canonry import bulk
from canonry.bulk.functions import register_spark
from java import needs_java, run_spark_session

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


@pytest.fixture(scope="module")
def spark() -> Generator[Any]:
    with run_spark_session() as session:
        yield session


def test_functions_equal_normalize(spark: Any) -> None:
    urls = mixed_urls.urls()
    register_spark(spark, policies=[canonry.policy("crawl").with_params("b").with_name("mine")])
    spark.createDataFrame(pa.table({"id": range(len(urls)), "url": urls})).repartition(2).createOrReplaceTempView("p")
    queried = ", ".join(mixed_urls.THREE.format(given) for given in ("url", "url, 'article@0'"))
    literals = "url_normalize('https://a.com/x/?b=1', 'mine'), url_key(5), url_key(NULL), url_hash(url, NULL)"
    rows = spark.sql(f"SELECT {queried}, {literals} FROM p ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [
        (*mixed_urls.three(url), *mixed_urls.three(url, "article@0"), "https://a.com/x", None, None, None)
        for url in urls
    ]
    with pytest.raises(Exception, match="no policy 'none'"):
        spark.sql("SELECT url_key(url, 'none') FROM p").collect()


def test_the_overrides_setting_of_the_driver_holds_on_the_workers(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers run in the folder in which the session was started, without the file."""
    overrides = tmp_path / "o.json"
    overrides.write_text('{"overrides": [{"match": {"host": "a.com"}, "drop_query_params": ["src"]}]}')
    monkeypatch.setenv("CANONRY_OVERRIDES", str(overrides))
    policy = canonry.policy("article")
    assert policy.overrides is not None
    register_spark(spark)
    query = f"SELECT url_normalize(url, 'article'), url_normalize(url, '{policy.id}'), url_normalize(url, 'article@0')"
    spark.createDataFrame(pa.table({"url": ["https://a.com/?src=1"]})).createOrReplaceTempView("one")
    [row] = spark.sql(f"{query} FROM one").collect()
    assert tuple(row) == ("https://a.com/", "https://a.com/", "https://a.com/?src=1")
    files = write_lines(tmp_path, [b"https://a.com/?src=1", b"https://a.com/"], 1)
    reports = [
        bulk.run(files, tmp_path / f"{engine}.parquet", policy="article", engine=engine)
        for engine in ("duckdb", "spark")
    ]
    assert [report.policy for report in reports] == [policy.id, policy.id]
    assert [row["url"] for row in pq.read_table(tmp_path / "spark.parquet").to_pylist()] == ["https://a.com/"]
    assert (tmp_path / "duckdb.parquet").read_bytes() == (tmp_path / "spark.parquet").read_bytes()


def test_the_number_of_spark_jobs_does_not_depend_on_the_files(spark: Any, tmp_path: Path) -> None:
    """A job for each file would run one file after the other."""
    tracker = spark.sparkContext.statusTracker()

    def run(count: int) -> tuple[int, int]:
        before = set(tracker.getJobIdsForGroup())
        files, out = write_lines(tmp_path, make_mixed_lines(500), count), tmp_path / "out.parquet"
        bulk.run(files, out, engine="spark", overwrite=True)
        jobs = [tracker.getJobInfo(number) for number in set(tracker.getJobIdsForGroup()) - before]
        stages = [tracker.getStageInfo(stage) for each in jobs for stage in each.stageIds]
        return len(jobs), max(stage.numTasks for stage in stages if stage is not None)

    (jobs, tasks), (more_jobs, more_tasks) = run(2), run(6)
    assert jobs == more_jobs
    assert (tasks, more_tasks) == (2, 6), "a task for each file"


def test_every_mode_writes_the_same_bytes_as_one_machine(spark: Any, tmp_path: Path) -> None:
    files = write_lines(tmp_path, make_mixed_lines(20_000), 3)
    alone, many = tmp_path / "alone", tmp_path / "many"
    alone.mkdir()
    many.mkdir()
    for mode, against in (("dedupe", None), ("normalize", None), ("join", None), ("diff", "crawl")):
        one = bulk.run(files, alone / f"{mode}.parquet", mode=mode, against=against)
        other = bulk.run(files, many / f"{mode}.parquet", mode=mode, against=against, engine="spark")
        assert (one.rows, one.invalid) == (other.rows, other.invalid)
        for name in (f"{mode}.parquet", f"{mode}.invalid.parquet"):
            assert (alone / name).read_bytes() == (many / name).read_bytes(), name
        options: dict[str, Any] = {"mode": mode, "against": against, "partitions": 3}
        bulk.run(files, alone / mode, **options, overwrite=True)
        bulk.run(files, many / mode, **options, engine="spark", overwrite=True)  # each partition by a worker
        for name in ("_SUCCESS", *(f"part-{number:05}.parquet" for number in range(3))):
            assert (alone / mode / name).read_bytes() == (many / mode / name).read_bytes(), (mode, name)
    assert pq.read_table(many / "dedupe.parquet").to_pylist() == dedupe(files)
    with pytest.raises(bulk.BulkError) as on_one_machine:
        bulk.run(files, alone / "x.parquet", column="nope", format="csv")
    with pytest.raises(bulk.BulkError) as on_spark:
        bulk.run(files, many / "x.parquet", engine="spark", column="nope", format="csv")
    assert str(on_spark.value) == str(on_one_machine.value)
    assert not [path.name for path in many.iterdir() if path.name.startswith(".")]
    assert spark.range(5).count() == 5, "the caller's session must not be stopped"
