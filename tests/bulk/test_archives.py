"""Web archives, standard input and compressed files as inputs of a bulk job."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from canonry import bulk

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")

if TYPE_CHECKING:
    from pathlib import Path

URLS = ["https://a.com/?utm_source=x", "https://b.com/", "https://A.com/"]
WANTED = [("https://a.com/", 2, "sha1:AAA"), ("https://b.com/", 1, "sha1:BBB")]
DIGESTS = ["sha1:AAA", "sha1:BBB", "sha1:AAA"]


def make_warc_record(kind: str, url: str, digest: str) -> bytes:
    body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + b"x" * 9000
    target = f"WARC-Target-URI: {url}\r\nWARC-Payload-Digest: {digest}\r\n" if url else ""
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{kind}>\r\nWARC-Date: 2026-01-01T00:00:00Z\r\n"
        f"{target}Content-Type: application/http; msgtype={kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body + b"\r\n\r\n"


def write_warc(file: Path, *, is_compressed: bool) -> None:
    records = [make_warc_record("warcinfo", "", "")]
    for url, digest in zip(URLS, DIGESTS, strict=True):
        records += [make_warc_record("request", url, digest), make_warc_record("response", url, digest)]
    file.write_bytes(b"".join(gzip.compress(record) if is_compressed else record for record in records))


def write_archives(folder: Path) -> list[Path]:
    pairs = list(zip(URLS, DIGESTS, strict=True))
    json_lines = [
        f"com,a)/ 20260101000000 {json.dumps({'url': url, 'digest': digest, 'status': 200})}" for url, digest in pairs
    ]
    plain = [f"com,a)/ 20260101000000 {url} text/html 200 {digest}" for url, digest in pairs]
    texts = {
        "a.cdxj": ["!OpenWayback-CDXJ 1.0", *json_lines],
        "b.cdx": [" CDX N b a m s k S", *(f"{line} -" for line in plain)],
        "c.cdx": [f"{line} - - 512 1024 x.warc.gz" for line in plain],  # without a header
        "d.cdx": ["CDX a k", *(f"{url} {digest}" for url, digest in pairs)],
    }
    for name, lines in texts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    (folder / "e.cdx.gz").write_bytes(gzip.compress((folder / "b.cdx").read_bytes()))
    write_warc(folder / "f.warc", is_compressed=False)
    write_warc(folder / "g.warc.gz", is_compressed=True)
    return sorted(folder.iterdir())


def test_archives_and_their_indexes_give_the_same_rows(tmp_path: Path) -> None:
    inputs, out = tmp_path / "in", tmp_path / "out.parquet"
    inputs.mkdir()
    for file in write_archives(inputs):
        report = bulk.run([file], out, keep=["digest"], overwrite=True)
        rows = pq.read_table(out).to_pylist()
        assert sorted((row["url"], row["count"], row["digest"]) for row in rows) == WANTED, file
        assert (report.rows - report.empty, report.invalid) == (3, 0), file


def test_damaged_archives_are_reported(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    (tmp_path / "a.cdx").write_text(" CDX N b a\nx 2026 https://a.com/\nonly-one\nx y\n")
    assert bulk.run([tmp_path / "a.cdx"], out).invalid == 2
    write_warc(tmp_path / "a.warc.gz", is_compressed=True)
    (tmp_path / "not.warc").write_text("nothing of the kind\n")
    (tmp_path / "empty.warc.gz").write_bytes(b"")
    for name, message in (("not.warc", "instead of WARC/1.0"), ("empty.warc.gz", "it has no records")):
        with pytest.raises(bulk.BulkError, match=message):
            bulk.run([tmp_path / name], tmp_path / "x.parquet")
    with pytest.raises(bulk.BulkError, match="no column 'title'"):
        bulk.run([tmp_path / "a.warc.gz"], tmp_path / "x.parquet", keep=["title"])


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("missing", [5, 3_000, 9_300])  # bytes of the last record: its end, half of it, its headers too
def test_an_archive_that_ends_inside_a_record_is_not_taken_for_a_shorter_one(
    missing: int, is_compressed: bool, tmp_path: Path
) -> None:
    file = tmp_path / ("a.warc.gz" if is_compressed else "a.warc")
    write_warc(tmp_path / "whole.warc", is_compressed=False)
    cut = (tmp_path / "whole.warc").read_bytes()[:-missing]
    file.write_bytes(gzip.compress(cut) if is_compressed else cut)
    with pytest.raises(bulk.BulkError, match="it ends inside"):
        bulk.run([file], tmp_path / "x.parquet")
    write_warc(file, is_compressed=is_compressed)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(bulk.BulkError, match="cannot be read"):
        bulk.run([file], tmp_path / "x.parquet")


def test_headers_of_archives_in_other_spellings(tmp_path: Path) -> None:
    head = b"\r\nWARC/1.0\nwarc-type: resource\nWARC-TARGET-URI:\n <https://a.com/\n long>\nContent-Length:0\n\n"
    (tmp_path / "a.warc").write_bytes(head + head.replace(b"resource", b"metadata"))
    bulk.run([tmp_path / "a.warc"], tmp_path / "out.parquet", mode="normalize")
    [row] = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert (row["original_url"], row["row"]) == ("https://a.com/ long", 1)
    (tmp_path / "b.warc").write_bytes(b"WARC/1.0\r\nContent-Length: many\r\n\r\n")
    with pytest.raises(bulk.BulkError, match="the Content-Length b'many'"):
        bulk.run([tmp_path / "b.warc"], tmp_path / "x.parquet")


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    command = f"{sys.executable} -m canonry bulk <(printf 'https://a.com/\\n') -o out.parquet --quiet"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert pq.read_metadata(tmp_path / "out.parquet").num_rows == 1


def test_standard_input_is_read_once_and_named_by_a_dash(tmp_path: Path) -> None:
    def run(*options: str, text: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "canonry", "bulk", "-", "-o", "out.parquet", "--overwrite", *options]
        return subprocess.run(command, input=text, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert run(text="https://a.com/\nnope\n").returncode == 0
    [row] = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert (row["url"], row["first_file"], row["first_row"]) == ("https://a.com/", "-", 1)
    assert run("--format", "jsonl", text='{"url": "https://b.com"}\n').returncode == 0
    assert [row["url"] for row in pq.read_table(tmp_path / "out.parquet").to_pylist()] == ["https://b.com/"]
    refused = run("--format", "parquet", text="x")
    assert refused.returncode == 1 and "standard input" in refused.stderr
