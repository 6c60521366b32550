"""Reading input files: rows, row numbers and the kinds of invalid rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import canonry
from canonry.errors import BadInputFile

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
from canonry.bulk.job import BulkJob, Mode  # noqa: E402
from canonry.bulk.read_inputs import read_batches  # noqa: E402
from canonry.bulk.row_batches import InvalidRowKind  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path


def read_invalid_kinds(file: Path, **options: Any) -> dict[int, InvalidRowKind]:
    job = BulkJob((str(file),), "out.parquet", canonry.policy("bookmark"), "/w", "/", **options)
    return {row.row: row.reason.kind for batch in read_batches(job, 0) for row in batch.invalid}


def test_rows_count_from_1_even_if_a_block_is_one_line() -> None:
    job = BulkJob((__file__,), "out.parquet", canonry.policy("bookmark"), "/w", "/", memory=1)
    assert next(read_batches(job, 0)).rows[0] == 1


@pytest.mark.parametrize("urls", [2, 2_000_000])
def test_a_file_whose_lines_end_in_cr_alone_is_refused(urls: int, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"https://a.com/\r" * urls)
    with pytest.raises(BadInputFile, match="end in CR alone"):
        read_invalid_kinds(file)
    for fine in (b"https://a.com/\r", b"https://a.com/\r\nhttps://b.com/\r\n", b"\r\r"):
        file.write_bytes(fine)
        assert read_invalid_kinds(file) == {}


def test_csv_records_that_do_not_fit_the_header_are_invalid(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b'id,url\n1\n2,https://a.com/,x\n3,"https://a.com/\nb"\n4,"https://a.com/"x\n5,"https://a.com/c\n')
    assert read_invalid_kinds(file) == {
        1: InvalidRowKind.WRONG_COLUMN_COUNT,
        2: InvalidRowKind.WRONG_COLUMN_COUNT,
        3: InvalidRowKind.UNCLOSED_QUOTE,
        4: InvalidRowKind.WRONG_COLUMN_COUNT,
        5: InvalidRowKind.NOT_CSV,
        6: InvalidRowKind.NOT_CSV,
    }


@pytest.mark.parametrize(
    ("stray", "invalid"),
    [
        ('https://a.com/stray,"text', 1),  # up to the next quote, in a column of text
        ('"https://a.com/stray,text', 1),  # in the column of URLs
        ('https://a.com/stray,"text\nhttps://a.com/stray,"text', 2),
    ],
)
@pytest.mark.parametrize("end", ["", 'https://a.com/last,"closed"\n'])
def test_a_stray_quote_costs_its_own_line_only(stray: str, invalid: int, end: str, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    lines = [f"https://a.com/{number},text {number}\n" for number in range(5000)]
    file.write_text("url,text\n" + "".join(lines[:10]) + stray + "\n" + "".join(lines[10:]) + end)
    job = BulkJob((str(file),), "out.parquet", canonry.policy("bookmark"), "/w", "/")
    batches = list(read_batches(job, 0))
    reasons = [row.reason.kind for batch in batches for row in batch.invalid]
    assert reasons == [InvalidRowKind.UNCLOSED_QUOTE] * invalid
    assert sum(len(batch.urls) for batch in batches) == 5000 + bool(end)


def test_a_text_of_several_lines_is_one_value(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    text = "\n".join(f"line {number}, of a poem; https://b.com/" for number in range(200))
    file.write_text(f'url,text\nhttps://a.com/,"{text}"\nhttps://a.com/2,"a ""quoted""\nword"\n')
    assert read_invalid_kinds(file) == {}


@pytest.mark.parametrize("mode", [Mode.DEDUPE, Mode.JOIN])
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_column_that_is_there_twice_is_refused_if_it_is_read(name: str, mode: Mode, tmp_path: Path) -> None:
    file = tmp_path / name
    write_repeated_columns(file, ["url", "t", "t"])
    if mode is Mode.JOIN:
        with pytest.raises(BadInputFile, match="2 columns 't'"):
            read_invalid_kinds(file, mode=mode)
        return
    assert read_invalid_kinds(file) == {}
    with pytest.raises(BadInputFile, match="2 columns 't'"):
        read_invalid_kinds(file, keep=("t",))
    write_repeated_columns(file, ["url", "t", "url"])
    with pytest.raises(BadInputFile, match="2 columns 'url'"):
        read_invalid_kinds(file)


def write_repeated_columns(file: Path, names: list[str]) -> None:
    if file.suffix == ".csv":
        file.write_text(f"{','.join(names)}\n{','.join(['https://a.com/'] * len(names))}\n")
    else:
        pq.write_table(pa.Table.from_arrays([pa.array(["https://a.com/"])] * len(names), names=names), file)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.bz2"])
def test_an_empty_compressed_file_is_damaged(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(BadInputFile, match="is empty"):
        read_invalid_kinds(tmp_path / name)


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl", "a.parquet"])
def test_short_rows_make_batches_of_few_rows(name: str, tmp_path: Path) -> None:
    """Each invalid row costs memory of its own, so bytes alone do not limit the memory of a batch."""
    file, count = tmp_path / name, 300_000
    lines = {"a.txt": b"x\n" * count, "a.csv": b"url\n" + b"x\n" * count, "a.jsonl": b'{"url":1}\n' * count}
    if name in lines:
        file.write_bytes(lines[name])
    else:
        pq.write_table(pa.table({"url": pa.nulls(count, pa.string())}), file)
    job = BulkJob((str(file),), "out.parquet", canonry.policy("bookmark"), "/w", "/", memory=512 * 1000**2)
    batches = list(read_batches(job, 0))
    assert max(len(batch.rows) for batch in batches) < 150_000
    assert sum(len(batch.rows) for batch in batches) == count
    assert [batch.rows[0] for batch in batches[:2]] == [1, 1 + len(batches[0].rows)]


def test_jsonl_lines_that_are_not_objects_with_the_column_are_invalid(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"url": "https://a.com/"}\n\nnope\n[1]\n{"id": 1}\n{"url": "\xff"}\n' + b"[" * 10_000)
    assert read_invalid_kinds(file) == {
        3: InvalidRowKind.NOT_JSON,
        4: InvalidRowKind.NOT_AN_OBJECT,
        5: InvalidRowKind.MISSING_COLUMN,
        6: InvalidRowKind.NOT_UTF8,
        7: InvalidRowKind.NOT_JSON,
    }


def test_join_mode_rejects_rows_with_a_column_that_is_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"id,url\n\xff,https://a.com/\n")
    assert read_invalid_kinds(file, mode=Mode.JOIN) == {1: InvalidRowKind.COLUMN_NOT_UTF8}
    assert read_invalid_kinds(file) == {}


@pytest.mark.parametrize(
    ("name", "line"),
    [("a.txt", b"%b"), ("a.csv", b"url\n%b"), ("a.jsonl", b'{"url": "%b"}')],
    ids=["text", "csv", "jsonl"],
)
def test_long_lines_and_long_urls_are_invalid(
    name: str, line: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / name
    file.write_bytes(line % (b"https://a.com/" + b"x" * (2 << 20)))
    assert read_invalid_kinds(file) == {1: InvalidRowKind.LONG_URL}
    monkeypatch.setattr("canonry.bulk.line_blocks.MAX_LINE_BYTES", 1 << 20)
    assert read_invalid_kinds(file) == {1: InvalidRowKind.LONG_LINE}
