"""Read the index files of web archives: CDX (a header names the columns) and CDXJ (JSON after key and time)."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.errors import LearnError
from canonry.learner.duckdb_engine import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

pa: Any = pyarrow  # pyarrow has no type stubs
_BATCH_ROWS = 65_536
# The letters of a CDX header: https://iipc.github.io/warc-specifications/specifications/cdx-format/
_URL, _TIME, _STATUS, _DIGEST = "a", "b", "s", "k"
_DEFAULT_HEADER = "N b a m s k r M S V g"
_USEFUL_STATUSES = ("200", "-", "")  # a revisit record has no status

_Row = tuple[str, str, float | None]


def read_cdx(path: str) -> Iterator[Any]:
    """Yield batches of a CDX or CDXJ file; redirects and errors are left out."""
    rows: list[_Row] = []
    try:
        with _open(path) as file:
            for row in _read_lines(path, file):
                rows.append(row)
                if len(rows) == _BATCH_ROWS:
                    yield _make_batch(rows)
                    rows = []
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise LearnError(f"{path} cannot be read: {error}") from None
    if rows:
        yield _make_batch(rows)


def _open(path: str) -> IO[str]:
    if path.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8")
    return open(path, encoding="utf-8")


def _read_lines(path: str, file: IO[str]) -> Iterator[_Row]:
    letters: list[str] = list(_DEFAULT_HEADER.split())
    for number, line in enumerate(file, 1):
        text = line.strip()
        if not text or text.startswith("!"):  # `!OpenWayback-CDXJ 1.0`
            continue
        if text.startswith("CDX "):
            letters = text.split()[1:]
            continue
        row = _read_json_line(text) if text.endswith("}") else _read_plain_line(text, letters)
        if row is None:
            raise LearnError(f"{path}: line {number} is not a line of a CDX or CDXJ file: {text[:80]}")
        url, digest, status, time = row
        if status in _USEFUL_STATUSES and digest not in ("", "-"):
            yield url, digest, _read_time(time)


def _read_plain_line(text: str, letters: list[str]) -> tuple[str, str, str, str] | None:
    fields = dict(zip(letters, text.split(" "), strict=False))
    if _URL not in fields or _DIGEST not in fields:
        return None
    return fields[_URL], fields[_DIGEST], fields.get(_STATUS, ""), fields.get(_TIME, "")


def _read_json_line(text: str) -> tuple[str, str, str, str] | None:
    start = text.find("{")
    head = text[:start].split()
    try:
        fields: Any = json.loads(text[start:])
    except ValueError:
        return None
    url = fields.get("url") or fields.get("uri")
    if not isinstance(url, str):
        return None
    time = head[1] if len(head) > 1 else str(fields.get("timestamp", ""))
    return url, str(fields.get("digest") or fields.get("sha") or ""), str(fields.get("status") or ""), time


def _read_time(text: str) -> float | None:
    """Return the seconds of a 14-digit timestamp; None if it is not one."""
    try:
        return datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _make_batch(rows: list[_Row]) -> Any:
    urls, digests, times = zip(*rows, strict=True)
    nulls = [None] * len(rows)
    columns = [list(urls), list(digests), nulls, nulls, list(times)]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
