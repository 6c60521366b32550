"""Read and write files of bookmarks: Netscape HTML, JSON and CSV (contract B8).

Files are untrusted input: everything has a limit. A row that is not a bookmark is refused with its number and the
reason; the other rows are read.

JSON is a list of objects, or an object that has such a list, with our field names or those of another service
(service_rows.py).

CSV needs a header with our column names, or those of Raindrop, Pocket, Instapaper or Pinboard (exchange_rows.py), in
any order; commas, semicolons or tabs separate cells. Commas separate tags; blanks if the URL column is called `href`
(Pinboard), bars if there is a `time_added` (Pocket). Spreadsheets run a cell that begins with `=`, `+`, `-` or `@` as
a formula, so we write a `'` before such a cell, and before one that begins with `'`; a file with our header is read
without it.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from io import StringIO
from typing import TYPE_CHECKING, cast

from canonry.bookmarks.exchange_rows import URL_NAMES, join_escaped, join_lines, parse_draft
from canonry.bookmarks.import_problems import BadBookmarkFile, FileProblem, RefusedRow, RowProblem, RowRefused
from canonry.bookmarks.netscape import read_netscape, write_netscape
from canonry.bookmarks.service_rows import LIST_NAMES, find_rows, translate_row
from canonry.errors import mask_credentials
from canonry.net.charset import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from canonry.bookmarks.draft import Draft
    from canonry.bookmarks.exchange_rows import ExportedBookmark

MAX_BYTES = 50 * 1000 * 1000
MAX_ROWS = 1_000_000
MAX_REFUSED = 100_000
_MAX_LINES = 10_000_000  # of a CSV file; a description can have many
_MAX_LINE_CHARS = 1_000_000
_MAX_BRACKETS = 5_000_000  # of a JSON file: lists and objects cost far more memory than text
_MAX_SHOWN_CHARS = 200
_CHUNK_CHARS = 64 * 1024
_COLUMNS = (
    *("url", "original_url", "title", "description", "tags", "folder", "to_read", "private", "created_at"),
    *("archive_urls", "episode_urls", "exact_url"),
)
# Cells that spreadsheets run as formulas (OWASP, CSV injection), and the `'` that prevents it.
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠']|[\t\r\n]")
_OPML = re.compile(rb"<opml[\s>]", re.IGNORECASE)
_MAX_OPML_START = 4096
_LONG_LINE = re.compile(rf"^[^\n]{{{_MAX_LINE_CHARS}}}", re.MULTILINE)


class FileFormat(StrEnum):
    """The formats of bookmark files."""

    NETSCAPE = "netscape"
    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The bookmarks of a file, and the rows that are not bookmarks."""

    drafts: list[Draft]
    refused: list[RefusedRow]
    numbers: list[int] = field(default_factory=list[int], compare=False)  # of the rows of `drafts`


@dataclass(frozen=True, slots=True)
class _FileRow:
    """The values of a row by field name, empty for a blank line; `refused` says why a row has no fields to read."""

    values: Mapping[str, object]
    refused: RowRefused | None = None


def guess_format(data: bytes, file_name: str = "") -> FileFormat:
    """Return the format by the first character of a file, else by its name, else CSV."""
    start = decode(data[:1000], "charset=utf-8").lstrip("\ufeff \t\r\n")[:1]
    if start == "<" or (start not in {"[", "{"} and file_name.lower().endswith((".html", ".htm"))):
        return FileFormat.NETSCAPE
    return FileFormat.JSON if start in {"[", "{"} or file_name.lower().endswith(".json") else FileFormat.CSV


def read_bookmarks(data: bytes, format: FileFormat | None = None, file_name: str = "") -> ParsedFile:  # noqa: A002
    """Return the bookmarks of a file in their order, duplicates included; BadBookmarkFile if it cannot be read."""
    if len(data) > MAX_BYTES:
        raise BadBookmarkFile(FileProblem.TOO_LARGE, f"The file is larger than {MAX_BYTES // 1_000_000} MB.")
    if not data.strip():
        raise BadBookmarkFile(FileProblem.EMPTY, "The file is empty.")
    file_format = format or guess_format(data, file_name)
    if file_format is FileFormat.NETSCAPE and _OPML.search(data[:_MAX_OPML_START]):
        raise BadBookmarkFile(
            FileProblem.OPML,
            "This file is a list of feeds (OPML). Import it on the page Feeds, or with `canonry feeds import FILE`.",
        )
    first = 2 if file_format is FileFormat.CSV else 1  # the header of CSV is row 1
    parsed = ParsedFile([], [])
    for number, row in enumerate(_READERS[file_format](data), first):
        if number - first >= MAX_ROWS:
            raise _make_too_many_rows_error()
        try:
            draft = _parse_row(row)
        except RowRefused as error:
            if len(parsed.refused) >= MAX_REFUSED:
                raise BadBookmarkFile(
                    FileProblem.TOO_MANY_REFUSED, f"More than {MAX_REFUSED:,} rows of the file are not bookmarks."
                ) from None
            reason = mask_credentials(_replace_surrogates(str(error)))
            parsed.refused.append(RefusedRow(number, _show_row(row.values), reason, error.kind))
            continue
        if draft is not None:
            parsed.drafts.append(draft)
            parsed.numbers.append(number)
    return parsed


def write_bookmarks(format: FileFormat, bookmarks: Iterable[ExportedBookmark]) -> Iterator[str]:  # noqa: A002
    """Yield a file in pieces that UTF-8 can encode; in Netscape, successive bookmarks of a folder share one block."""
    pieces: list[str] = []
    size = 0
    for piece in _WRITERS[format](bookmarks):
        pieces.append(piece)
        size += len(piece)
        if size >= _CHUNK_CHARS:
            yield _replace_surrogates("".join(pieces))
            pieces, size = [], 0
    if pieces:
        yield _replace_surrogates("".join(pieces))


def _parse_row(row: _FileRow) -> Draft | None:
    """Return the bookmark of a row, None for a blank line; RowRefused if it is not a bookmark."""
    if row.refused is not None:
        raise row.refused
    return parse_draft(row.values) if row.values else None


def _show_row(values: Mapping[str, object]) -> str:
    """Return a short text that shows people which row it is: its URL, or all its values if it has no URL."""
    url = next((values[name] for name in URL_NAMES if values.get(name)), "")
    text = str(url) or " ".join(str(value) for value in values.values() if value)
    return _replace_surrogates(mask_credentials(text.replace("\0", "")).strip()[:_MAX_SHOWN_CHARS])


def _replace_surrogates(text: str) -> str:
    """Return the text with a `?` for each lone surrogate, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _read_netscape(data: bytes) -> Iterator[_FileRow]:
    return (_FileRow(link) for link in read_netscape(data))


def _read_json(data: bytes) -> Iterator[_FileRow]:
    text = decode(data, "charset=utf-8")
    if text.count("[") + text.count("{") > _MAX_BRACKETS:
        raise BadBookmarkFile(FileProblem.TOO_COMPLEX, f"The file has more than {_MAX_BRACKETS:,} lists and objects.")
    try:
        found: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadBookmarkFile(
            FileProblem.NOT_JSON, f"The file is not valid JSON: line {error.lineno}: {error.msg}."
        ) from None
    except (ValueError, RecursionError):
        raise BadBookmarkFile(
            FileProblem.NOT_JSON, "The file cannot be read: it has a number with too many digits, or too deep nesting."
        ) from None
    rows = find_rows(found)
    if rows is None:
        names = ", ".join(LIST_NAMES)
        raise BadBookmarkFile(
            FileProblem.NOT_A_LIST, f"The file is neither a list of bookmarks nor an object with one of: {names}."
        )
    if len(rows) > MAX_ROWS:
        raise _make_too_many_rows_error()
    return (_parse_json_row(row) for row in rows)


def _make_too_many_rows_error() -> BadBookmarkFile:
    return BadBookmarkFile(FileProblem.TOO_MANY_ROWS, f"The file has more than {MAX_ROWS:,} rows.")


def _parse_json_row(row: object) -> _FileRow:
    if not isinstance(row, dict):
        return _FileRow({"": row}, RowRefused(RowProblem.NOT_AN_OBJECT))
    values = {name.lower(): value for name, value in cast("dict[str, object]", row).items()}
    return _FileRow(translate_row(values), None if values else RowRefused(RowProblem.EMPTY))


def _read_csv(data: bytes) -> Iterator[_FileRow]:
    text = decode(data, "charset=utf-8").replace("\0", "").lstrip("\ufeff\r\n")
    if long := _LONG_LINE.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise BadBookmarkFile(
            FileProblem.LINE_TOO_LONG, f"Line {line} of the file has more than {_MAX_LINE_CHARS:,} characters."
        )
    if text.count("\n") > _MAX_LINES:
        raise BadBookmarkFile(FileProblem.TOO_COMPLEX, f"The file has more than {_MAX_LINES:,} lines.")
    header_line = text.partition("\n")[0]
    separator = max(",;\t", key=header_line.count)
    rows = csv.reader(StringIO(text, newline=""), delimiter=separator)
    try:
        header = tuple("_".join(name.lower().replace("-", " ").split()) for name in next(rows))
    except (csv.Error, StopIteration):
        header = ()
    if not set(URL_NAMES).intersection(header):
        raise BadBookmarkFile(
            FileProblem.NO_URL_COLUMN,
            f"Read as CSV, the file has no column for the URL: one of {', '.join(URL_NAMES)}."
            " A bookmark file is HTML, JSON or CSV.",
        )
    return _parse_csv_rows(rows, header)


def _parse_csv_rows(rows: Iterator[list[str]], header: tuple[str, ...]) -> Iterator[_FileRow]:
    is_ours = header == _COLUMNS
    while True:
        try:
            cells = next(rows, None)
        except csv.Error as error:
            yield _FileRow({}, RowRefused(RowProblem.BAD_CSV, detail=str(error)))
            continue
        if cells is None:
            return
        if is_ours:
            cells = [cell[1:] if cell[:1] == "'" and _FORMULA.match(cell, 1) else cell for cell in cells]
        if any(cells[len(header) :]):
            yield _FileRow({"": " ".join(cells)}, RowRefused(RowProblem.EXTRA_CELLS))
            continue
        yield _FileRow(dict(zip(header, cells, strict=False)) if any(cells) else {})


def _write_json(bookmarks: Iterable[ExportedBookmark]) -> Iterator[str]:
    before = "[\n"
    for bookmark in bookmarks:
        values = {
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
        yield before + json.dumps(values, ensure_ascii=False)
        before = ",\n"
    yield "\n]\n" if before == ",\n" else "[]\n"


def _write_csv(bookmarks: Iterable[ExportedBookmark]) -> Iterator[str]:
    yield ",".join(_COLUMNS) + "\r\n"
    for bookmark in bookmarks:
        cells = (
            bookmark.url,
            bookmark.original_url or "",
            bookmark.title,
            bookmark.description,
            join_escaped(bookmark.tags, ","),
            bookmark.folder,
            "true" if bookmark.to_read else "false",
            "true" if bookmark.private else "false",
            bookmark.created_at,
            join_lines(bookmark.archive_urls),
            join_lines(bookmark.episode_urls),
            "true" if bookmark.exact_url else "false",
        )
        # Every cell is quoted, so a spreadsheet that splits at semicolons finds no formula after one.
        yield ",".join(f'"{_escape_cell(cell)}"' for cell in cells) + "\r\n"


def _escape_cell(cell: str) -> str:
    return ("'" if _FORMULA.match(cell) else "") + cell.replace('"', '""')


_READERS: dict[FileFormat, Callable[[bytes], Iterator[_FileRow]]] = {
    FileFormat.NETSCAPE: _read_netscape,
    FileFormat.JSON: _read_json,
    FileFormat.CSV: _read_csv,
}
_WRITERS: dict[FileFormat, Callable[[Iterable[ExportedBookmark]], Iterator[str]]] = {
    FileFormat.NETSCAPE: write_netscape,
    FileFormat.JSON: _write_json,
    FileFormat.CSV: _write_csv,
}
