"""Partitioned output, known keys, kept columns and groups of a bulk job (contract S4)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from bulk_reference import dedupe, make_mixed_lines, write_lines
from canonry import bulk

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")

if TYPE_CHECKING:
    from pathlib import Path


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, or of the partitions of a folder in their order."""
    files = sorted(path.glob("part-*.parquet")) if path.is_dir() else [path]
    return [row for file in files for row in pq.read_table(file).to_pylist()]


@pytest.mark.parametrize("memory", ["512MB", "2GB"])  # one writer, several writers
def test_partitions_in_their_order_are_the_whole_output(memory: str, tmp_path: Path) -> None:
    files = write_lines(tmp_path, make_mixed_lines(3_000), 3)
    for mode, against in (("dedupe", None), ("normalize", None), ("join", None), ("diff", "crawl")):
        one, many = tmp_path / f"{mode}.parquet", tmp_path / f"{mode}-parts"
        whole = bulk.run(files, one, mode=mode, against=against, memory=memory)
        parted = bulk.run(files, many, mode=mode, against=against, memory=memory, partitions=5)
        assert (parted.written, parted.invalid) == (whole.written, whole.invalid)
        names = [*(f"part-{number:05}.parquet" for number in range(5)), "_SUCCESS"]
        assert sorted(path.name for path in many.iterdir()) == sorted(names)
        assert all(pq.read_metadata(many / name).num_rows for name in names[:-1])
        assert read_rows(many) == read_rows(one)
        side_files = [tmp_path / f"{name}.invalid.parquet" for name in (mode, f"{mode}-parts")]
        assert read_rows(side_files[0]) == read_rows(side_files[1])
    assert not list(tmp_path.glob(".*"))


def test_a_folder_is_replaced_as_a_whole_and_only_if_it_is_an_output(tmp_path: Path) -> None:
    (file,), out = write_lines(tmp_path, make_mixed_lines(500), 1), tmp_path / "out"
    bulk.run([file], out, partitions=30)
    with pytest.raises(bulk.BulkError, match="exists. To replace it, use --overwrite"):
        bulk.run([file], out, partitions=2)
    bulk.run([file], out, partitions=2, overwrite=True)
    assert len(list(out.glob("part-*"))) == 2
    with pytest.raises(bulk.BulkError, match="is a folder"):
        bulk.run([file], out, overwrite=True)
    (out / "mine.txt").write_text("keep me")
    with pytest.raises(bulk.BulkError, match="with other files"):
        bulk.run([file], out, partitions=2, overwrite=True)
    assert (out / "mine.txt").exists()
    for options in ({"partitions": 0}, {"partitions": 5000}, {"partitions": 2, "partition_size": "1GB"}):
        with pytest.raises(bulk.BulkError, match="--partition"):
            bulk.run([file], tmp_path / "x", **options)


def test_partitions_by_size(tmp_path: Path) -> None:
    file, out = tmp_path / "a.txt", tmp_path / "out"
    file.write_text("".join(f"https://example.com/{hash(each)}/{each}\n" for each in range(40_000)))
    bulk.run([file], out, partition_size="1MB")
    sizes = [path.stat().st_size for path in out.glob("part-*")]
    assert 2 <= len(sizes) <= 8 and max(sizes) < 2_000_000


def test_a_daily_run_with_known_keys_equals_one_run_over_all_days(tmp_path: Path) -> None:
    files = write_lines(tmp_path, make_mixed_lines(3_000), 3)  # named in the order of the days
    wanted = dedupe(files)
    bulk.run(files[:1], tmp_path / "day0.parquet")
    second = bulk.run(files[1:2], tmp_path / "day1", known=tmp_path / "day0.parquet", partitions=3)
    third = bulk.run(files[2:], tmp_path / "day2.parquet", known=tmp_path / "day1")
    assert read_rows(tmp_path / "day2.parquet") == wanted
    day_of = {str(file): day for day, file in enumerate(files)}
    assert third.new == sum(day_of[row["first_file"]] == 2 for row in wanted)
    assert second.new == sum(day_of[row["first_file"]] == 1 for row in wanted)
    again = bulk.run(files[2:], tmp_path / "day2.parquet", known=tmp_path / "day2.parquet", overwrite=True)
    assert (again.new, again.written) == (0, len(wanted))


def test_known_keys_of_another_policy_or_kind_are_refused(tmp_path: Path) -> None:
    (file,) = write_lines(tmp_path, make_mixed_lines(200), 1)
    bulk.run([file], tmp_path / "exact.parquet", policy="exact")
    bulk.run([file], tmp_path / "rows.parquet", mode="normalize")
    pq.write_table(pa.table({"url": ["x"]}), tmp_path / "other.parquet")
    for name, message in (
        ("exact", "was made with exact@1"),
        ("rows", "has the columns"),
        ("other", "an unknown policy"),
        ("none", "cannot be read"),
    ):
        with pytest.raises(bulk.BulkError, match=message):
            bulk.run([file], tmp_path / "out.parquet", known=tmp_path / f"{name}.parquet")


def write_pages(folder: Path) -> Path:
    """Write a CSV file of pages with titles and digests of their content."""
    rows = [
        ("https://a.com/?utm_id=1", "first", "d1"), ("https://a.com/", "second", "d1"), ("https://b.com/", "copy", "d1"),
        ("https://c.com/", "none", ""), ("https://d.com/", "none", ""), ("https://d.com/", "again", ""), ("nope", "x", "d9"),
    ]  # fmt: skip
    file = folder / "pages.csv"
    file.write_text("url,title,digest\n" + "".join(f"{','.join(row)}\n" for row in rows))
    return file


def test_a_dedupe_keeps_columns_of_the_first_row(tmp_path: Path) -> None:
    bulk.run([write_pages(tmp_path)], tmp_path / "out.parquet", keep=["title"])
    found = {row["url"]: (row["title"], row["count"]) for row in read_rows(tmp_path / "out.parquet")}
    assert found == {
        "https://a.com/": ("first", 2), "https://b.com/": ("copy", 1), "https://c.com/": ("none", 1),
        "https://d.com/": ("none", 2),
    }  # fmt: skip
    pq.write_table(pa.table({"url": ["https://a.com"], "n": [7], "l": [[1]]}), tmp_path / "n.parquet")
    bulk.run([tmp_path / "n.parquet"], tmp_path / "out.parquet", keep=["n"], overwrite=True)
    assert [row["n"] for row in read_rows(tmp_path / "out.parquet")] == ["7"]
    for keep, message in ((["l"], "not one value"), (["nope"], "no column 'nope'"), (["count"], "a column 'count'")):
        with pytest.raises(bulk.BulkError, match=message):
            bulk.run([tmp_path / "n.parquet"], tmp_path / "x.parquet", keep=keep)
    with pytest.raises(bulk.BulkError, match="--mode dedupe"):
        bulk.run([tmp_path / "n.parquet"], tmp_path / "x.parquet", keep=["n"], mode="normalize")


def test_a_dedupe_by_content_groups_rows_of_equal_values(tmp_path: Path) -> None:
    """Rows without a value are grouped by URL: two pages whose content is unknown are not the same."""
    out = tmp_path / "out.parquet"
    bulk.run([write_pages(tmp_path)], out, group_by="digest", keep=["title"])
    found = read_rows(out)
    assert sorted((row["url"], row["digest"], row["title"], row["count"]) for row in found) == [
        ("https://a.com/", "d1", "first", 3), ("https://c.com/", "", "none", 1), ("https://d.com/", "", "none", 2),
    ]  # fmt: skip
    assert all(row["canonical_hash"] == hashlib.sha256(row["url"].encode()).hexdigest() for row in found)
    hashes = [row["group_hash"] for row in found]
    assert hashlib.sha256(b"d1").hexdigest() in hashes and hashes == sorted(hashes)
    metadata = pq.read_metadata(out)
    assert metadata.metadata[b"canonry.sorted_by"] == b"group_hash"
    bulk.run([write_pages(tmp_path)], tmp_path / "next.parquet", group_by="digest", keep=["title"], known=out)
    assert sorted(row["count"] for row in read_rows(tmp_path / "next.parquet")) == [2, 4, 6]
