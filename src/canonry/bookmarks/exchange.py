"""Bookmarks in and out of files (contract B8): Netscape HTML, JSON and CSV.

A file is hostile until it is read: there are limits for all of it, and what is no bookmark is refused
with its row and the reason, while the rest of the file goes on.

JSON is a list of objects, or `{"bookmarks": [...]}`, with our names or Pinboard's.

CSV is told by its header: ours, Raindrop's, Pocket's, Instapaper's, Pinboard's names (exchange_rows.py),
in any order, with commas, semicolons or tabs between cells. Tags have commas between them; blanks where
the URL is called `href` (Pinboard), bars where there is a `time_added` (Pocket). A spreadsheet takes a
cell that begins with `=`, `+`, `-` or `@` for a formula, so we write a `'` before it, and before one
that begins with `'`; reading a file with our header takes it off.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from io import StringIO
from typing import TYPE_CHECKING, cast

from canonry.bookmarks.exchange_rows import URL_NAMES, Unusable, draft_of, join_marked, one_a_line
from canonry.bookmarks.netscape import read_netscape, write_netscape
from canonry.errors import CanonryError, mask_credentials
from canonry.net.charset import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from canonry.bookmarks.draft import Draft
    from canonry.bookmarks.exchange_rows import Bookmark

MAX_BYTES = 50 * 1000 * 1000
MAX_ROWS = 1_000_000
MAX_REFUSED = 100_000
_MAX_LINES = 10_000_000  # of a CSV file; a description has many
_MAX_LINE = 1_000_000
_MAX_BRACKETS = 5_000_000  # of a JSON file: lists and objects cost far more memory than text
_SHOWN = 200
_CHUNK = 64 * 1024
_COLUMNS = (
    *("url", "original_url", "title", "description", "tags", "folder", "to_read", "private", "created_at"),
    *("archive_urls", "episode_urls", "exact_url"),
)
# What spreadsheets take for a formula (OWASP, CSV injection), and the sign that it is none.
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠']|[\t\r\n]")
_LONG_LINE = re.compile(rf"^[^\n]{{{_MAX_LINE}}}", re.MULTILINE)


class Format(StrEnum):
    """The kinds of files."""

    NETSCAPE = "netscape"
    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """What is no bookmark: the number of the link or object, in CSV of the row, its text and the reason."""

    row: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file has."""

    drafts: list[Draft]
    refused: list[RefusedRow]


@dataclass(frozen=True, slots=True)
class _Row:
    """A row by the names of its fields, none for a blank line; `problem` where it cannot have any."""

    said: Mapping[str, object]
    problem: str = ""


def guess_format(data: bytes, file_name: str = "") -> Format:
    """What a file is, by how it begins, else by the end of its name, else CSV."""
    start = decode(data[:1000], "charset=utf-8").lstrip("\ufeff \t\r\n")[:1]
    if start == "<" or (start not in {"[", "{"} and file_name.lower().endswith((".html", ".htm"))):
        return Format.NETSCAPE
    return Format.JSON if start in {"[", "{"} or file_name.lower().endswith(".json") else Format.CSV


def read_bookmarks(data: bytes, format: Format | None = None, file_name: str = "") -> Parsed:  # noqa: A002
    """The bookmarks of a file in their order, twins included; CanonryError where it is no such file."""
    if len(data) > MAX_BYTES:
        raise CanonryError(f"a file of more than {MAX_BYTES // 1_000_000} MB")
    if not data.strip():
        raise CanonryError("the file is empty")
    kind = format or guess_format(data, file_name)
    first = 2 if kind is Format.CSV else 1
    parsed = Parsed([], [])
    for number, row in enumerate(_READERS[kind](data), first):
        if number - first >= MAX_ROWS:
            raise CanonryError(f"more than {MAX_ROWS:,} rows")
        try:
            _keep(row, parsed)
        except Unusable as error:
            if len(parsed.refused) >= MAX_REFUSED:
                raise CanonryError(f"more than {MAX_REFUSED:,} rows are no bookmarks") from None
            parsed.refused.append(RefusedRow(number, _shown(row.said), mask_credentials(_sendable(str(error)))))
    return parsed


def write_bookmarks(format: Format, bookmarks: Iterable[Bookmark]) -> Iterator[str]:  # noqa: A002
    """A file in pieces for UTF-8; Netscape has one block for each run of bookmarks of a folder."""
    waiting: list[str] = []
    size = 0
    for piece in _WRITERS[format](bookmarks):
        waiting.append(piece)
        size += len(piece)
        if size >= _CHUNK:
            yield _sendable("".join(waiting))
            waiting, size = [], 0
    if waiting:
        yield _sendable("".join(waiting))


def _keep(row: _Row, parsed: Parsed) -> None:
    if row.problem:
        raise Unusable(row.problem)
    if row.said:
        parsed.drafts.append(draft_of(row.said))


def _shown(said: Mapping[str, object]) -> str:
    """The URL of a row, else all of it, for people."""
    url = next((said[name] for name in URL_NAMES if said.get(name)), "")
    text = str(url) or " ".join(str(value) for value in said.values() if value)
    return _sendable(mask_credentials(text.replace("\0", "")).strip()[:_SHOWN])


def _sendable(text: str) -> str:
    """The text without lone surrogates, which UTF-8 does not have."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _read_netscape(data: bytes) -> Iterator[_Row]:
    return (_Row(link) for link in read_netscape(data))


def _read_json(data: bytes) -> Iterator[_Row]:
    text = decode(data, "charset=utf-8")
    if text.count("[") + text.count("{") > _MAX_BRACKETS:
        raise CanonryError(f"more than {_MAX_BRACKETS:,} lists and objects")
    try:
        found: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise CanonryError(f"not JSON: line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError):  # a number of more digits, or lists deeper than anybody means
        raise CanonryError("not JSON that can be read") from None
    if isinstance(found, dict):
        found = cast("dict[str, object]", found).get("bookmarks")
    if not isinstance(found, list):
        raise CanonryError('not a list of bookmarks, nor {"bookmarks": [...]}')
    rows = cast("list[object]", found)
    if len(rows) > MAX_ROWS:
        raise CanonryError(f"more than {MAX_ROWS:,} rows")
    return (_json_row(row) for row in rows)


def _json_row(row: object) -> _Row:
    if not isinstance(row, dict):
        return _Row({"": row}, "not an object")
    said = {name.lower(): value for name, value in cast("dict[str, object]", row).items()}
    return _Row(said) if said else _Row(said, "empty")


def _read_csv(data: bytes) -> Iterator[_Row]:
    text = decode(data, "charset=utf-8").replace("\0", "").lstrip("\ufeff\r\n")
    if long := _LONG_LINE.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise CanonryError(f"line {line} has more than {_MAX_LINE:,} characters")
    if text.count("\n") > _MAX_LINES:
        raise CanonryError(f"more than {_MAX_LINES:,} lines")
    header_line = text.partition("\n")[0]
    mark = max(",;\t", key=header_line.count)
    rows = csv.reader(StringIO(text, newline=""), delimiter=mark)
    try:
        header = tuple("_".join(name.lower().replace("-", " ").split()) for name in next(rows))
    except (csv.Error, StopIteration):
        header = ()
    if not set(URL_NAMES).intersection(header):
        raise CanonryError(f"no column of the CSV file is called {', '.join(URL_NAMES)}")
    return _csv_rows(rows, header)


def _csv_rows(rows: Iterator[list[str]], header: tuple[str, ...]) -> Iterator[_Row]:
    is_ours = header == _COLUMNS
    while True:
        try:
            cells = next(rows, None)
        except csv.Error as error:
            yield _Row({}, str(error))
            continue
        if cells is None:
            return
        if is_ours:
            cells = [cell[1:] if cell[:1] == "'" and _FORMULA.match(cell, 1) else cell for cell in cells]
        if any(cells[len(header) :]):
            yield _Row({"": " ".join(cells)}, "more cells than the header")
            continue
        said = dict(zip(header, cells, strict=False))
        yield _Row(said if any(cells) else {})


def _write_json(bookmarks: Iterable[Bookmark]) -> Iterator[str]:
    before = "[\n"
    for bookmark in bookmarks:
        said = {
            "url": bookmark.url,
            "original_url": bookmark.original_url or None,
            "title": bookmark.title,
            "description": bookmark.description,
            "tags": list(bookmark.tags),
            "folder": bookmark.folder,
            "to_read": bookmark.to_read,
            "private": bookmark.private,
            "created_at": bookmark.created_at,
            "archive_urls": list(bookmark.archive_urls),
            "episode_urls": list(bookmark.episode_urls),
            "exact_url": bookmark.exact_url,
        }
        yield before + json.dumps(said, ensure_ascii=False)
        before = ",\n"
    yield "\n]\n" if before == ",\n" else "[]\n"


def _write_csv(bookmarks: Iterable[Bookmark]) -> Iterator[str]:
    yield ",".join(_COLUMNS) + "\r\n"
    for bookmark in bookmarks:
        cells = (
            bookmark.url,
            bookmark.original_url or "",
            bookmark.title,
            bookmark.description,
            join_marked(bookmark.tags, ","),
            bookmark.folder,
            "true" if bookmark.to_read else "false",
            "true" if bookmark.private else "false",
            bookmark.created_at,
            one_a_line(bookmark.archive_urls),
            one_a_line(bookmark.episode_urls),
            "true" if bookmark.exact_url else "false",
        )
        # All in quotes: a spreadsheet that splits at semicolons finds no formula after one either.
        yield ",".join(f'"{_harmless(cell)}"' for cell in cells) + "\r\n"


def _harmless(cell: str) -> str:
    return ("'" if _FORMULA.match(cell) else "") + cell.replace('"', '""')


_READERS: dict[Format, Callable[[bytes], Iterator[_Row]]] = {
    Format.NETSCAPE: _read_netscape,
    Format.JSON: _read_json,
    Format.CSV: _read_csv,
}
_WRITERS: dict[Format, Callable[[Iterable[Bookmark]], Iterator[str]]] = {
    Format.NETSCAPE: write_netscape,
    Format.JSON: _write_json,
    Format.CSV: _write_csv,
}
