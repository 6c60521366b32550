"""Read the index files of web archives: CDX (a header names the columns) and CDXJ (JSON after key and time)."""

from __future__ import annotations

import gzip
import zlib
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.cdx_lines import CdxParser
from canonry.errors import LearnError
from canonry.learner.duckdb_engine import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

pa: Any = pyarrow  # pyarrow has no type stubs
_BATCH_ROWS = 65_536
_USEFUL_STATUSES = ("200", None, "")  # a revisit record has no status


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
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise LearnError(f"{path} cannot be read: {error}") from None
    if rows:
        yield _make_batch(rows)


def _open(path: str) -> IO[str]:
    if path.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8")
    return open(path, encoding="utf-8")


def _read_lines(path: str, file: IO[str]) -> Iterator[_Row]:
    parser = CdxParser()
    for number, line in enumerate(file, 1):
        columns = parser.parse(line)
        if columns is None or (columns and not columns.get("url")):
            raise LearnError(f"{path}: line {number} is not a line of a CDX or CDXJ file: {line.strip()[:80]}")
        url, digest = columns.get("url"), columns.get("digest")
        if url and digest and columns.get("status") in _USEFUL_STATUSES:
            yield url, digest, _read_time(columns.get("timestamp") or "")


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
