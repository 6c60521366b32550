"""canonry.bulk.run on one machine: right answers, every format, nothing lost."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import canonry
from bulk_reference import deduped, mixed_lines, write_lines
from canonry import bulk

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")
from canonry.bulk import batches, blocks, job, readers, running  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ["url", "canonical_hash", "count", "first_variant", "first_file", "first_row"]


def rows(file: Path | str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    return found


def sha(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()


def invalid(out: Path) -> dict[int, str]:
    return {row["row"]: row["reason"] for row in rows(out.with_name(f"{out.stem}.invalid.parquet"))}


@pytest.mark.parametrize("policy", ["bookmark", "exact", "feed-aggressive"])
def test_the_answers_of_plain_python(policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job.Job, "block", property(lambda _: 20_000))  # many runs
    monkeypatch.setattr("canonry.bulk.duckdb._RANGE_SHARE", 2_000)  # many ranges
    files = write_lines(tmp_path, mixed_lines(20_000), 3)
    out = tmp_path / "out.parquet"
    report = bulk.run(reversed(files), out, policy=policy)
    table = pq.read_table(out)
    assert table.column_names == COLUMNS
    wanted = deduped(files, policy)
    assert table.to_pylist() == wanted
    assert report.written == len(wanted)
    assert report.rows == report.empty + report.invalid + sum(row["count"] for row in wanted)
    assert report.rows == sum(len(file.read_bytes().removesuffix(b"\n").split(b"\n")) for file in files)
    assert len(rows(str(report.invalid_file))) == report.invalid
    assert not list(tmp_path.glob(".*"))


def test_the_first_variant_is_of_the_smallest_name_then_row(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("https://a.com/?utm_source=b\n")
    (tmp_path / "a.txt").write_text("nope\nhttps://A.com\nhttps://a.com/\n")
    bulk.run([tmp_path / "b.txt", str(tmp_path / "*.txt")], tmp_path / "out.parquet")
    (row,) = rows(tmp_path / "out.parquet")
    assert row == {
        "url": "https://a.com/", "canonical_hash": sha("https://a.com/"), "count": 3,
        "first_variant": "https://A.com", "first_file": str(tmp_path / "a.txt"), "first_row": 2,
    }  # fmt: skip


def test_every_format_and_compression(tmp_path: Path) -> None:
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
        found = [(row["url"], row["count"], row["first_variant"], row["first_row"]) for row in rows(out)]
        wanted = [("https://a.com/", 2, urls[0], 1), ("https://b.com/%C3%A9?a=1&b=2", 1, urls[1], 2)]
        assert sorted(found) == wanted, name
        assert (report.rows, report.invalid) == (4, 1), name


def test_text_that_is_read_in_small_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = mixed_lines(300)
    file = tmp_path / "a.txt"
    file.write_bytes(b"\n".join(lines))
    wanted = deduped([file])
    sizes: list[int] = []
    monkeypatch.setattr(job.Job, "block", property(lambda _: sizes[-1]))
    for size in (1, 2, 3, 7, 64, 1000):
        sizes.append(size)
        bulk.run([file], tmp_path / "out.parquet", overwrite=True)
        assert rows(tmp_path / "out.parquet") == wanted


def test_lines_that_are_too_long_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = b"https://a.com/" + b"x" * (10 << 20)
    (tmp_path / "a.txt").write_bytes(b"https://a.com/1\n" + long + b"\nhttps://a.com/2\n")
    (tmp_path / "b.csv").write_bytes(b"url\nhttps://a.com/1\n" + long + b"\nhttps://a.com/2\n")
    (tmp_path / "c.jsonl").write_bytes(b'{"url":"https://a.com/1"}\n{"url":"%b"}\n{"url":"https://a.com/2"}' % long)
    for limit in (16 << 20, 1 << 20):
        for module in ("blocks", "rows"):
            monkeypatch.setattr(f"canonry.bulk.{module}.LONGEST_LINE", limit)
        for name in ("a.txt", "b.csv", "c.jsonl"):
            report = bulk.run([tmp_path / name], tmp_path / "out.parquet", overwrite=True)
            assert (report.rows, report.written, report.invalid) == (3, 2, 1), (name, limit)
            (told,) = rows(tmp_path / "out.invalid.parquet")
            assert told["row"] == 2
            assert "bytes" in told["reason"]
            assert "https://a.com/xxx" in told["url"] and len(told["url"]) < 5000


def test_rows_that_are_none_are_in_the_side_file(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    (tmp_path / "a.csv").write_bytes(
        b'id,url\n1\n2,https://a.com/,x\n3,\n\n4,https://a.com/\xff\n5,"https://a.com/\nb"\n6,"https://a.com/"x\n'
        b'7,https://a.com/\x00\n8,"https://a.com/c\n9,https://a.com/d\n'
    )
    report = bulk.run([tmp_path / "a.csv"], out)
    assert (report.rows, report.written, report.invalid, report.empty) == (9, 1, 7, 1)
    assert invalid(out) == {
        1: "1 columns where the header has 2", 2: "3 columns where the header has 2", 3: "'url' is empty",
        5: "not UTF-8", 6: "a line break in the URL (lines 7 to 8: is a quote not closed?)",
        7: "not CSV: ',' expected after '\"'",
        9: "not CSV: unexpected end of data (lines 11 to 12: is a quote not closed?)",
    }  # fmt: skip
    (tmp_path / "a.jsonl").write_bytes(
        b'{"url": "https://a.com/"}\n\nnope\n[1]\n{"id": 1}\n{"url": null}\n{"url": 5}\n{"url": ""}\n'
        b'{"url": "\\ud800"}\n{"url": "https://a.com/\xff"}\n{"url": "https://a.com/", "url": "x:y"}\n' + b"[" * 10_000
    )
    report = bulk.run([tmp_path / "a.jsonl"], out, overwrite=True)
    assert (report.rows, report.written, report.invalid, report.empty) == (12, 1, 10, 1)
    told = invalid(out)
    assert told[3].startswith("not JSON: ") and told[12].startswith("not JSON: ")
    assert (told[4], told[5]) == ("not a JSON object", "no 'url' in this object")
    assert (told[6], told[8], told[9], told[10]) == ("'url' is empty", "'url' is empty", "not UTF-8", "not UTF-8")
    pq.write_table(pa.table({"url": ["https://a.com/", None, "", "nope"]}), tmp_path / "a.parquet")
    report = bulk.run([tmp_path / "a.parquet"], out, overwrite=True)
    assert invalid(out) == {2: "'url' is empty", 3: "'url' is empty", 4: "no scheme"}


def test_a_row_for_each_url(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("https://b.com/?utm_id=1\nnope\n\nhttps://a.com\nhttps://b.com/\n")
    bulk.run([tmp_path / "a.txt"], tmp_path / "out.parquet", mode="normalize")
    found = rows(tmp_path / "out.parquet")
    assert list(found[0]) == ["url", "canonical_hash", "original_url", "file", "row"]
    assert [(row["url"], row["original_url"], row["row"]) for row in found] == [
        ("https://b.com/", "https://b.com/?utm_id=1", 1),
        ("https://a.com/", "https://a.com", 4),
        ("https://b.com/", "https://b.com/", 5),
    ]
    assert all(row["canonical_hash"] == sha(row["url"]) and row["file"] == str(tmp_path / "a.txt") for row in found)


def test_the_input_with_two_more_columns(tmp_path: Path) -> None:
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
    assert table.column("canonical_hash").to_pylist() == [sha("https://a.com/"), None, None]
    assert len(invalid(tmp_path / "out.parquet")) == 2
    bulk.run([tmp_path / "b.jsonl"], tmp_path / "out.parquet", mode="join", column="link", overwrite=True)
    assert not (tmp_path / "out.invalid.parquet").exists()
    found = rows(tmp_path / "out.parquet")
    assert list(found[0]) == ["link", "more", "n", "canonical_url", "canonical_hash"]
    assert [row["more"] for row in found] == ['{"x": [1]}', None]
    (tmp_path / "c.txt").write_bytes(b"https://a.com/\xff\nhttps://a.com\nnope\n")
    bulk.run([tmp_path / "c.txt"], tmp_path / "out.parquet", mode="join", overwrite=True)
    assert [row["url"] for row in rows(tmp_path / "out.parquet")] == ["https://a.com", "nope"]
    pq.write_table(pa.table({"url": ["x"], "canonical_hash": ["y"]}), tmp_path / "d.parquet")
    with pytest.raises(bulk.BulkError, match="has a column 'canonical_hash' already"):
        bulk.run([tmp_path / "d.parquet"], tmp_path / "d-out.parquet", mode="join")


def test_files_of_different_columns_are_joined_under_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("url,a\nhttps://a.com,1\n")
    (tmp_path / "b.csv").write_text("b,url\n2,https://b.com\n")
    bulk.run(tmp_path.glob("*.csv"), tmp_path / "out.parquet", mode="join")
    found = [(row["url"], row["a"], row["b"], row["canonical_url"]) for row in rows(tmp_path / "out.parquet")]
    assert found == [("https://a.com", "1", None, "https://a.com/"), ("https://b.com", None, "2", "https://b.com/")]
    pq.write_table(pa.table({"url": ["https://c.com"], "a": [[1]]}), tmp_path / "c.parquet")
    with pytest.raises(bulk.BulkError, match="do not fit together"):
        bulk.run([tmp_path / "a.csv", tmp_path / "c.parquet"], tmp_path / "out.parquet", mode="join", overwrite=True)


def test_where_two_policies_differ(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("https://a.com/b/\nhttps://a.com/b\nhttps://www.a.com/\nnope\n https://a.com/\n")
    bulk.run([tmp_path / "a.txt"], tmp_path / "out.parquet", mode="diff", policy="exact", against="crawl")
    found = rows(tmp_path / "out.parquet")
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
            sha(url) if url else None for url in (row["before"], row["after"])
        ]
    assert set(invalid(tmp_path / "out.parquet")) == {4}
    with pytest.raises(bulk.BulkError, match="--against"):
        bulk.run([tmp_path / "a.txt"], tmp_path / "x.parquet", mode="diff")
    with pytest.raises(bulk.BulkError, match="--against"):
        bulk.run([tmp_path / "a.txt"], tmp_path / "x.parquet", against="crawl")


def test_hashes_with_equal_beginnings_are_told_apart() -> None:
    texts = ["0" * 16 + ending * 48 for ending in "bacab"] + ["f" * 64, "0" * 64]
    raw = np.frombuffer("".join(texts).encode(), np.uint8).reshape(-1, 64)
    firsts, counts = batches._groups(raw)
    assert [texts[at] for at in firsts] == sorted(set(texts))
    assert firsts.tolist() == [6, 1, 0, 2, 5] and counts.tolist() == [1, 2, 2, 1, 1]
    assert batches._equal_neighbours(raw[[0, 4, 1, 3, 5]]).tolist() == [True, False, True, False]
    assert batches.is_rising(pa.array(sorted(set(texts))), "") and not batches.is_rising(pa.array(texts[:2]), "")
    assert not batches.is_rising(pa.array(["a" * 64]), "a" * 64) and batches.is_rising(pa.array([], pa.string()), "x")


def test_hashes_out_of_order_never_become_an_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("https://a.com/\nhttps://b.com/\nhttps://c.com/\n")
    merge = running._engine("duckdb", None).merge

    class Wrong:
        def __init__(self) -> None:
            self.make_parts = running_engine.make_parts
            self.close = running_engine.close

        def merge(self, *given: Any) -> Any:
            tables = list(merge(*given))
            return [pa.concat_tables(tables).take([2, 0, 1])]

    running_engine = running._engine("duckdb", None)
    monkeypatch.setattr(running, "_engine", lambda *_: Wrong())
    with pytest.raises(bulk.BulkError, match="out of order"):
        bulk.run([tmp_path / "a.txt"], tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_groups_that_cross_pieces_are_one() -> None:
    rows = [("a" * 64, 1), ("a" * 64, 2), ("a" * 64, 3), ("b" * 64, 4), ("c" * 64, 5), ("c" * 64, 6)]
    fields = [
        pa.array([key for key, _ in rows]), pa.array([f"https://{key[0]}" for key, _ in rows]),
        pa.array([None if place != 1 else "first" for _, place in rows]), pa.array([place for _, place in rows]),
        pa.array([10**place for _, place in rows]),
    ]  # fmt: skip
    table = pa.table(fields, schema=batches.RUN)
    for size in range(1, 8):
        pieces = [table.slice(at, size) for at in range(0, 6, size)]
        found = pa.concat_tables(list(batches.reduced([table.slice(0, 0), *pieces]))).to_pylist()
        assert [(row["url"], row["count"], row["first_variant"], row["place"], row["runs"]) for row in found] == [
            ("https://a", 1110, "first", 1, 3), ("https://b", 10_000, "https://b", 4, 1), ("https://c", 1_100_000, "https://c", 5, 2),
        ]  # fmt: skip
    assert list(batches.reduced([])) == []


def test_nothing_at_all(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"")
    pq.write_table(pa.table({"url": pa.array([], pa.string())}), tmp_path / "a.parquet")
    for mode in ("dedupe", "normalize"):
        report = bulk.run(tmp_path.glob("a.*"), tmp_path / "out.parquet", mode=mode, overwrite=True)
        assert (report.rows, report.written) == (0, 0)
        assert pq.read_table(tmp_path / "out.parquet").column_names[:2] == ["url", "canonical_hash"]
    assert list(blocks.line_blocks(pa.BufferReader(b""), 10)) == []


@pytest.mark.parametrize(
    ("text", "size"), [("1GB", 10**9), ("512MiB", 512 << 20), ("2g", 2 * 10**9), ("1.5 GB", 15 * 10**8), ("7", 7)]
)
def test_sizes(text: str, size: int) -> None:
    assert job.read_size(text) == job.read_size(size) == size


@pytest.mark.parametrize("text", ["", "GB", "1XB", "-1GB", "1.2.3GB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(bulk.BulkError, match="not an amount of memory"):
        job.read_size(text)


def test_jobs_that_are_refused(tmp_path: Path) -> None:
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
        ("no input files", [], {}),
        ("at least 512MB", [file], {"memory": "100MB"}),
        ("no engine 'x'", [file], {"engine": "x"}),
        ("--master is for", [file], {"master": "local"}),
        ("holds int64, not text", [tmp_path / "n.parquet"], {}),
        ("cannot be read as parquet", [tmp_path / "bad.parquet"], {}),
        ("cut.txt.gz cannot be read", [tmp_path / "cut.txt.gz"], {}),
        ("begins with the names", [tmp_path / "empty.csv"], {}),
        ("several columns of one name", [tmp_path / "twice.csv"], {"mode": "join"}),
        ("no column 'url', but 'link', 'id'", [tmp_path / "other.jsonl"], {}),
    ]
    for said, inputs, options in cases:
        with pytest.raises(canonry.CanonryError, match=said.replace("*", r"\*")) as caught:
            bulk.run(inputs, out, **options)
        assert "\n" not in str(caught.value)
        assert not out.exists()
    for wrong, said in (
        (tmp_path / "no" / "x.parquet", "no such folder"),
        (tmp_path, "is a folder"),
        (file, "is an input"),
    ):
        with pytest.raises(bulk.BulkError, match=said):
            bulk.run([file], wrong, overwrite=True)


def test_a_row_group_of_the_output_does_not_depend_on_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from canonry.bulk import output

    monkeypatch.setattr(output, "_GROUP", 1000)
    schema = pa.schema([("url", pa.string())])
    table = pa.table({"url": [f"https://a.com/{number}" for number in range(5300)]})
    written = []
    for size in (1, 999, 1000, 2500, 9999):
        with output.writing(tmp_path / "x.parquet", schema) as writer:
            for at in range(0, 5300, size):
                writer.add(table.slice(at, size))
        written.append((tmp_path / "x.parquet").read_bytes())
        assert writer.rows == 5300
    assert len(set(written)) == 1
    assert pq.read_table(tmp_path / "x.parquet").equals(table)


def test_a_job_is_frozen_and_says_where_things_are() -> None:
    made = job.Job(("a",), "x/out.parquet", canonry.policy("bookmark"))
    assert (str(made.work), made.invalid) == ("x/.out.parquet.work", "x/out.invalid.parquet")
    assert replace(made, out="x/out").invalid == "x/out.invalid.parquet"
    assert made.block < made.memory // 50
    assert next(readers.read(replace(made, memory=1), __file__)).rows[0] == 1
