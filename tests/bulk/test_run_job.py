"""canonry.bulk.run on one machine: correct output in every mode and format, no row lost (contract S3)."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

import canonry
from bulk_reference import dedupe, make_mixed_lines, write_lines
from canonry import bulk

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")
from canonry.bulk import duckdb as duckdb_engine  # noqa: E402
from canonry.bulk import job, line_blocks, storage  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ["url", "canonical_hash", "count", "first_variant", "first_file", "first_row"]


def read_rows(file: Path | str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    return rows


def make_hash(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()


def read_invalid_reasons(out: Path) -> dict[int, str]:
    """Return the reasons in the side file by row."""
    return {row["row"]: row["reason"] for row in read_rows(out.with_name(f"{out.stem}.invalid.parquet"))}


@pytest.mark.parametrize("policy", ["bookmark", "exact", "feed-aggressive"])
def test_dedupe_equals_the_same_job_in_plain_python(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job.BulkJob, "block_bytes", property(lambda _: 20_000))  # many runs
    monkeypatch.setattr(job.BulkJob, "flush_bytes", property(lambda _: 200_000))  # several slices of each bucket
    monkeypatch.setattr("canonry.bulk.duckdb._MAX_GROUP_BYTES", 50_000)  # many groups of buckets
    files = write_lines(tmp_path, make_mixed_lines(20_000), 3)
    out = tmp_path / "out.parquet"
    report = bulk.run(reversed(files), out, policy=policy)
    table = pq.read_table(out)
    assert table.column_names == COLUMNS
    wanted = dedupe(files, policy)
    assert table.to_pylist() == wanted
    assert report.written == len(wanted)
    assert report.rows == report.empty + report.invalid + sum(row["count"] for row in wanted)
    assert report.rows == sum(len(file.read_bytes().removesuffix(b"\n").split(b"\n")) for file in files)
    assert len(read_rows(str(report.invalid_file))) == report.invalid
    assert not list(tmp_path.glob(".*"))


def test_a_bucket_that_does_not_fit_into_memory_is_sorted_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job.BulkJob, "block_bytes", property(lambda _: 20_000))
    monkeypatch.setattr("canonry.bulk.duckdb._MAX_GROUP_BYTES", 1)  # no bucket fits
    monkeypatch.setattr("canonry.bulk.duckdb._MAX_PIECE_ROWS", 100)
    files = write_lines(tmp_path, make_mixed_lines(3_000), 2)
    bulk.run(files, tmp_path / "out.parquet")
    assert read_rows(tmp_path / "out.parquet") == dedupe(files)


def test_the_merge_reads_every_byte_of_the_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job.BulkJob, "block_bytes", property(lambda _: 20_000))
    monkeypatch.setattr(job.BulkJob, "flush_bytes", property(lambda _: 200_000))
    monkeypatch.setattr("canonry.bulk.duckdb._MAX_GROUP_BYTES", 50_000)
    reads: dict[int, list[tuple[int, int]]] = {}
    sizes: dict[int, int] = {}

    def read_range(file: Any, start: int, size: int) -> bytes:
        status = os.fstat(file.fileno())
        sizes[status.st_ino] = status.st_size
        reads.setdefault(status.st_ino, []).append((start, start + size))
        return storage.read_range(file, start, size)

    monkeypatch.setattr("canonry.bulk.run_files.read_range", read_range)
    bulk.run(write_lines(tmp_path, make_mixed_lines(3_000), 2), tmp_path / "out.parquet")
    assert len(reads) == 2
    for file, ranges in reads.items():
        starts, ends = zip(*sorted(ranges), strict=True)
        assert starts == (0, *ends[:-1]) and ends[-1] == sizes[file]


def test_the_output_names_its_policy_and_its_order(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("https://a.com/\n")
    bulk.run([tmp_path / "a.txt"], tmp_path / "out.parquet")
    metadata = pq.read_metadata(tmp_path / "out.parquet")
    assert metadata.metadata[b"canonry.policy"] == canonry.policy("bookmark").id.encode()
    [column] = metadata.row_group(0).sorting_columns
    assert COLUMNS[column.column_index] == "canonical_hash" and not column.descending


def test_the_first_variant_has_the_smallest_file_name_then_row(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("https://a.com/?utm_source=b\n")
    (tmp_path / "a.txt").write_text("nope\nhttps://A.com\nhttps://a.com/\n")
    bulk.run([tmp_path / "b.txt", str(tmp_path / "*.txt")], tmp_path / "out.parquet")
    (row,) = read_rows(tmp_path / "out.parquet")
    assert row == {
        "url": "https://a.com/", "canonical_hash": make_hash("https://a.com/"), "count": 3,
        "first_variant": "https://A.com", "first_file": str(tmp_path / "a.txt"), "first_row": 2,
    }  # fmt: skip


def test_every_format_and_compression_gives_the_same_rows(tmp_path: Path) -> None:
    urls = ["https://a.com/?utm_source=x", "https://b.com/é?b=2&a=1", "HTTPS://A.com", "nope"]
    text = "\ufeff" + "\r\n".join(urls)
    records = [{"id": number, "url": url} for number, url in enumerate(urls)]
    jsonl = "".join(f"{json.dumps(record)}\n" for record in records)
    csv_text = "id,url\n" + "".join(f'{number},"{url}"\n' for number, url in enumerate(urls))
    files = {
        "t.txt": text.encode(), "t.txt.gz": gzip.compress(text.encode()), "t.bz2": bz2.compress(text.encode()),
        "j.jsonl": jsonl.encode(), "j.ndjson.zst": pa.compress(jsonl.encode(), "zstd", asbytes=True),
        "c.csv": csv_text.encode(), "c.CSV.GZ": gzip.compress(csv_text.encode()),
        "c.tsv": csv_text.replace(",", "\t").encode(),
    }  # fmt: skip
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    for number, kind in enumerate([pa.string(), pa.large_string(), pa.string_view(), pa.binary()]):
        files[f"p{number}.parquet"] = b""
        pq.write_table(pa.table({"url": pa.array(urls).cast(kind)}), tmp_path / f"p{number}.parquet")
    files["pd.pq"] = b""
    pq.write_table(pa.table({"url": pa.array(urls).dictionary_encode()}), tmp_path / "pd.pq")
    for name in files:
        out = tmp_path / "out" / f"{name}.parquet"
        out.parent.mkdir(exist_ok=True)
        report = bulk.run([tmp_path / name], out)
        found = [(row["url"], row["count"], row["first_variant"], row["first_row"]) for row in read_rows(out)]
        wanted = [("https://a.com/", 2, urls[0], 1), ("https://b.com/%C3%A9?a=1&b=2", 1, urls[1], 2)]
        assert sorted(found) == wanted, name
        assert (report.rows, report.invalid) == (4, 1), name


def test_the_block_size_does_not_change_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = make_mixed_lines(300)
    file = tmp_path / "a.txt"
    file.write_bytes(b"\n".join(lines))
    wanted = dedupe([file])
    sizes: list[int] = []
    monkeypatch.setattr(job.BulkJob, "block_bytes", property(lambda _: sizes[-1]))
    for size in (1, 2, 3, 7, 64, 1000):
        sizes.append(size)
        bulk.run([file], tmp_path / "out.parquet", overwrite=True)
        assert read_rows(tmp_path / "out.parquet") == wanted


def test_lines_and_urls_that_are_too_long_are_invalid_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = b"https://a.com/" + b"x" * (10 << 20)
    (tmp_path / "a.txt").write_bytes(b"https://a.com/1\n" + long + b"\nhttps://a.com/2\n")
    (tmp_path / "b.csv").write_bytes(b"url\nhttps://a.com/1\n" + long + b"\nhttps://a.com/2\n")
    (tmp_path / "c.jsonl").write_bytes(b'{"url":"https://a.com/1"}\n{"url":"%b"}\n{"url":"https://a.com/2"}' % long)
    for limit in (16 << 20, 1 << 20):
        for module in ("line_blocks", "read_csv", "read_inputs", "read_jsonl"):
            monkeypatch.setattr(f"canonry.bulk.{module}.MAX_LINE_BYTES", limit)
        for name in ("a.txt", "b.csv", "c.jsonl"):
            report = bulk.run([tmp_path / name], tmp_path / "out.parquet", overwrite=True)
            assert (report.rows, report.written, report.invalid) == (3, 2, 1), (name, limit)
            (invalid_row,) = read_rows(tmp_path / "out.invalid.parquet")
            assert invalid_row["row"] == 2
            assert "https://a.com/xxx" in invalid_row["url"] and len(invalid_row["url"]) < 5000


def test_invalid_rows_are_in_the_side_file_with_the_reason(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    (tmp_path / "a.csv").write_bytes(
        b'id,url\n1\n2,https://a.com/,x\n3,\n\n4,https://a.com/\xff\n5,"https://a.com/\nb"\n6,"https://a.com/"x\n'
        b'7,https://a.com/\x00\n8,"https://a.com/c\n9,https://a.com/d\n'
    )
    report = bulk.run([tmp_path / "a.csv"], out)
    assert (report.rows, report.written, report.invalid, report.empty, report.malformed) == (11, 2, 8, 1, 3)
    assert read_invalid_reasons(out) == {
        1: "wrong number of columns: 1, but the header has 2", 2: "wrong number of columns: 3, but the header has 2",
        3: "the URL is empty", 5: "not UTF-8",
        6: "a quote opens in this line and is not closed in it: lines up to the next quote: 1",
        7: "wrong number of columns: 1, but the header has 2",
        8: "not CSV: ',' expected after '\"'",
        10: "a quote opens in this line and is not closed in it: unexpected end of data",
    }  # fmt: skip
    (tmp_path / "a.jsonl").write_bytes(
        b'{"url": "https://a.com/"}\n\nnope\n[1]\n{"id": 1}\n{"url": null}\n{"url": 5}\n{"url": ""}\n'
        b'{"url": "\\ud800"}\n{"url": "https://a.com/\xff"}\n{"url": "https://a.com/", "url": "x:y"}\n' + b"[" * 10_000
    )
    report = bulk.run([tmp_path / "a.jsonl"], out, overwrite=True)
    assert (report.rows, report.written, report.invalid, report.empty) == (12, 1, 10, 1)
    assert sorted(read_invalid_reasons(out)) == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    pq.write_table(pa.table({"url": ["https://a.com/", None, "", "nope"]}), tmp_path / "a.parquet")
    report = bulk.run([tmp_path / "a.parquet"], out, overwrite=True)
    assert read_invalid_reasons(out) == {2: "the URL is empty", 3: "the URL is empty", 4: "not a URL: no scheme"}


def test_normalize_mode_writes_a_row_for_each_url(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("https://b.com/?utm_id=1\nnope\n\nhttps://a.com\nhttps://b.com/\n")
    bulk.run([tmp_path / "a.txt"], tmp_path / "out.parquet", mode="normalize")
    found = read_rows(tmp_path / "out.parquet")
    assert list(found[0]) == ["url", "canonical_hash", "original_url", "file", "row"]
    assert [(row["url"], row["original_url"], row["row"]) for row in found] == [
        ("https://b.com/", "https://b.com/?utm_id=1", 1),
        ("https://a.com/", "https://a.com", 4),
        ("https://b.com/", "https://b.com/", 5),
    ]
    assert all(
        row["canonical_hash"] == make_hash(row["url"]) and row["file"] == str(tmp_path / "a.txt") for row in found
    )


def test_join_mode_adds_two_columns_to_the_input(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"n": [1, 2, 3], "link": ["https://A.com", "nope", None], "tags": [["x"], [], None]}),
        tmp_path / "a.parquet",
    )
    (tmp_path / "b.jsonl").write_text(
        '{"link": "https://b.com", "more": {"x": [1]}}\n{"link": "https://b.com/", "n": null}\n'
    )
    bulk.run([tmp_path / "a.parquet"], tmp_path / "out.parquet", mode="join", column="link")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["n", "link", "tags", "canonical_url", "canonical_hash"]
    assert table.schema.field("n").type == pa.int64() and table.column("tags").to_pylist() == [["x"], [], None]
    assert table.column("canonical_url").to_pylist() == ["https://a.com/", None, None]
    assert table.column("canonical_hash").to_pylist() == [make_hash("https://a.com/"), None, None]
    assert len(read_invalid_reasons(tmp_path / "out.parquet")) == 2
    bulk.run([tmp_path / "b.jsonl"], tmp_path / "out.parquet", mode="join", column="link", overwrite=True)
    assert not (tmp_path / "out.invalid.parquet").exists()
    found = read_rows(tmp_path / "out.parquet")
    assert list(found[0]) == ["link", "more", "n", "canonical_url", "canonical_hash"]
    assert [row["more"] for row in found] == ['{"x": [1]}', None]
    (tmp_path / "c.txt").write_bytes(b"https://a.com/\xff\nhttps://a.com\nnope\n")
    bulk.run([tmp_path / "c.txt"], tmp_path / "out.parquet", mode="join", overwrite=True)
    assert [row["url"] for row in read_rows(tmp_path / "out.parquet")] == ["https://a.com", "nope"]
    pq.write_table(pa.table({"url": ["x"], "canonical_hash": ["y"]}), tmp_path / "d.parquet")
    with pytest.raises(bulk.BulkError, match="already has a column 'canonical_hash'"):
        bulk.run([tmp_path / "d.parquet"], tmp_path / "d-out.parquet", mode="join")


def test_join_mode_writes_the_columns_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("url,a\nhttps://a.com,1\n")
    (tmp_path / "b.csv").write_text("b,url\n2,https://b.com\n")
    bulk.run(tmp_path.glob("*.csv"), tmp_path / "out.parquet", mode="join")
    found = [(row["url"], row["a"], row["b"], row["canonical_url"]) for row in read_rows(tmp_path / "out.parquet")]
    assert found == [("https://a.com", "1", None, "https://a.com/"), ("https://b.com", None, "2", "https://b.com/")]
    pq.write_table(pa.table({"url": ["https://c.com"], "a": [[1]]}), tmp_path / "c.parquet")
    with pytest.raises(bulk.BulkError, match="incompatible types"):
        bulk.run([tmp_path / "a.csv", tmp_path / "c.parquet"], tmp_path / "out.parquet", mode="join", overwrite=True)


def test_diff_mode_writes_the_rows_for_which_two_policies_differ(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("https://a.com/b/\nhttps://a.com/b\nhttps://www.a.com/\nnope\n https://a.com/\n")
    bulk.run([tmp_path / "a.txt"], tmp_path / "out.parquet", mode="diff", policy="exact", against="crawl")
    found = read_rows(tmp_path / "out.parquet")
    assert list(found[0]) == ["original_url", "before", "after", "before_hash", "after_hash", "file", "row"]
    assert [(row["row"], row["before"], row["after"]) for row in found] == [
        (1, "https://a.com/b/", "https://a.com/b"),
        *(
            (row, *(canonry.normalize_many([url], policy)[0] for policy in ("exact", "crawl")))
            for row, url in ((5, " https://a.com/"),)
        ),
    ]
    for row in found:
        assert [row["before_hash"], row["after_hash"]] == [
            make_hash(url) if url else None for url in (row["before"], row["after"])
        ]
    assert set(read_invalid_reasons(tmp_path / "out.parquet")) == {4}
    with pytest.raises(bulk.BulkError, match="--against"):
        bulk.run([tmp_path / "a.txt"], tmp_path / "x.parquet", mode="diff")
    with pytest.raises(bulk.BulkError, match="--against"):
        bulk.run([tmp_path / "a.txt"], tmp_path / "x.parquet", against="crawl")


def test_hashes_out_of_order_are_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("https://a.com/\nhttps://b.com/\nhttps://c.com/\n")
    merge = duckdb_engine._merge

    def merge_unordered(*arguments: Any) -> Any:
        return [pa.concat_tables(list(merge(*arguments))).take([2, 0, 1])]

    monkeypatch.setattr(duckdb_engine, "_merge", merge_unordered)
    with pytest.raises(bulk.BulkError, match="out of order"):
        bulk.run([tmp_path / "a.txt"], tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_empty_inputs_make_an_empty_output(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"")
    pq.write_table(pa.table({"url": pa.array([], pa.string())}), tmp_path / "a.parquet")
    for mode in ("dedupe", "normalize"):
        report = bulk.run(tmp_path.glob("a.*"), tmp_path / "out.parquet", mode=mode, overwrite=True)
        assert (report.rows, report.written) == (0, 0)
        assert pq.read_table(tmp_path / "out.parquet").column_names[:2] == ["url", "canonical_hash"]
    assert list(line_blocks.read_line_blocks(pa.BufferReader(b""), 10)) == []


def test_jobs_that_cannot_run_are_refused_in_one_line(tmp_path: Path) -> None:
    file, out = tmp_path / "a.txt", tmp_path / "out.parquet"
    file.write_text("https://a.com/\n")
    pq.write_table(pa.table({"url": [1]}), tmp_path / "n.parquet")
    (tmp_path / "bad.parquet").write_text("nope")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(b"https://a.com/\n" * 1000)[:-20])
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "twice.csv").write_text("url,url\na,b\n")
    (tmp_path / "other.jsonl").write_text('{"link": 1, "id": 2}\n')
    cases: list[tuple[str, list[Path], dict[str, Any]]] = [
        ("no such file", [tmp_path / "b.txt"], {}),
        ("no file matches", [tmp_path / "*.nope"], {}),
        ("is a folder", [tmp_path], {}),
        ("There are no input files", [], {}),
        ("at least 512MB", [file], {"memory": "100MB"}),
        ("no engine 'x'", [file], {"engine": "x"}),
        ("--master needs --engine spark", [file], {"master": "local"}),
        ("holds int64, not text", [tmp_path / "n.parquet"], {}),
        ("cannot be read as parquet", [tmp_path / "bad.parquet"], {}),
        ("cut.txt.gz cannot be read", [tmp_path / "cut.txt.gz"], {}),
        ("must name its columns", [tmp_path / "empty.csv"], {}),
        ("2 columns 'url'. Rename them", [tmp_path / "twice.csv"], {"mode": "join"}),
        ("no column 'url'.*'link', 'id'", [tmp_path / "other.jsonl"], {}),
    ]
    for message, inputs, options in cases:
        with pytest.raises(canonry.CanonryError, match=message) as caught:
            bulk.run(inputs, out, **options)
        assert "\n" not in str(caught.value)
        assert not out.exists()
    for wrong_out, message in (
        (tmp_path / "no" / "x.parquet", "no such folder"),
        (tmp_path, "is a folder"),
        (file, "is an input"),
        (tmp_path / "x.csv", "the output is a Parquet file"),
    ):
        with pytest.raises(bulk.BulkError, match=message):
            bulk.run([file], wrong_out, overwrite=True)
