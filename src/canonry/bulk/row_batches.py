"""Batches of input rows, and the reasons why a row is invalid."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.line_blocks import make_unchecked_strings
from canonry.errors import BadInputFile, BulkError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from canonry.bulk.job import BulkJob

pa: Any = pyarrow  # pyarrow has no type stubs
MAX_URL_BYTES = 1 << 20
_MAX_SHOWN_CHARACTERS = 4096  # of an invalid row, in the side file
_MAX_COLUMNS = 1000
_MAX_LISTED_COLUMNS = 30
_INVALID_ROW_BYTES = 1000  # counted for an invalid row, so that a file full of them still makes several batches


class InvalidRowKind(StrEnum):
    """Why a row is invalid."""

    LONG_LINE = "long_line"
    LONG_URL = "long_url"
    EMPTY_URL = "empty_url"
    NOT_UTF8 = "not_utf8"
    COLUMN_NOT_UTF8 = "column_not_utf8"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    MISSING_COLUMN = "missing_column"
    NOT_CSV = "not_csv"
    UNCLOSED_QUOTE = "unclosed_quote"
    WRONG_COLUMN_COUNT = "wrong_column_count"
    NOT_CDX = "not_cdx"
    NOT_A_URL = "not_a_url"


# A row of these kinds shows that the file is damaged, not only that a URL is wrong.
MALFORMED_KINDS = frozenset({InvalidRowKind.NOT_CSV, InvalidRowKind.UNCLOSED_QUOTE})


_SENTENCES = {
    InvalidRowKind.LONG_LINE: "the line is too long",
    InvalidRowKind.LONG_URL: "the URL is too long",
    InvalidRowKind.EMPTY_URL: "the URL is empty",
    InvalidRowKind.NOT_UTF8: "not UTF-8",
    InvalidRowKind.COLUMN_NOT_UTF8: "a column of this row is not UTF-8",
    InvalidRowKind.NOT_JSON: "not JSON",
    InvalidRowKind.NOT_AN_OBJECT: "not a JSON object",
    InvalidRowKind.MISSING_COLUMN: "the column is missing",
    InvalidRowKind.NOT_CSV: "not CSV",
    InvalidRowKind.UNCLOSED_QUOTE: "a quote opens in this line and is not closed in it",
    InvalidRowKind.WRONG_COLUMN_COUNT: "wrong number of columns",
    InvalidRowKind.NOT_CDX: "not a line of a CDX or CDXJ file",
    InvalidRowKind.NOT_A_URL: "not a URL",
}


@dataclass(frozen=True, slots=True)
class InvalidRowReason:
    """Why a row is invalid; `str()` gives the reason of the side file."""

    kind: InvalidRowKind
    detail: str = ""

    def __str__(self) -> str:
        sentence = _SENTENCES[self.kind]
        return f"{sentence}: {self.detail}" if self.detail else sentence


@dataclass(frozen=True, slots=True)
class InvalidRow:
    """A row for the side file: its number, its text, and why it is invalid."""

    row: int
    url: str
    reason: InvalidRowReason


@dataclass(slots=True)
class RowBatch:
    """Rows of one file: URLs as unchecked strings, row numbers, and a table of other columns if the job needs them."""

    urls: Any
    rows: NDArray[np.int64]
    table: Any = None
    invalid: list[InvalidRow] = field(default_factory=list[InvalidRow])
    empty: int = 0
    position: int = 0  # bytes of the file read so far


def make_invalid_row(row: int, text: bytes, reason: InvalidRowReason) -> InvalidRow:
    """Return an invalid row; its text is shortened, and bytes that are not UTF-8 are escaped."""
    shown = text[: _MAX_SHOWN_CHARACTERS * 4].decode("utf-8", "backslashreplace")
    is_short = len(shown) <= _MAX_SHOWN_CHARACTERS
    return InvalidRow(row, shown if is_short else f"{shown[:_MAX_SHOWN_CHARACTERS]}…", reason)


def drop_long_urls(batch: RowBatch) -> RowBatch:
    """Return the batch with URLs over MAX_URL_BYTES moved to its invalid rows."""
    offsets = np.frombuffer(batch.urls.buffers()[1] or b"\0\0\0\0", np.int32)
    lengths = np.diff(offsets[batch.urls.offset : batch.urls.offset + len(batch.urls) + 1])
    is_long = lengths > MAX_URL_BYTES
    if not is_long.any():
        return batch
    for index in np.flatnonzero(is_long).tolist():
        start = batch.urls[index].as_buffer()[: _MAX_SHOWN_CHARACTERS * 4].to_pybytes()
        reason = InvalidRowReason(InvalidRowKind.LONG_URL, f"{lengths[index]} bytes, at most {MAX_URL_BYTES}")
        batch.invalid.append(make_invalid_row(int(batch.rows[index]), start, reason))
    is_short = pa.array(~is_long)
    table = None if batch.table is None else batch.table.filter(is_short)
    return RowBatch(batch.urls.filter(is_short), batch.rows[~is_long], table, batch.invalid, batch.empty)


def make_missing_column_error(file: str, column: str, columns: list[str]) -> BadInputFile:
    """Return the error for a file without the column, which lists the columns of the file."""
    shown = [name.encode("utf-8", "backslashreplace").decode()[:100] for name in columns[:_MAX_LISTED_COLUMNS]]
    return BadInputFile(
        file,
        f"{file} has no column {column!r}. Choose one of its columns: {', '.join(map(repr, shown))}.",
    )


def check_columns(job: BulkJob, file: str, names: list[str]) -> None:
    """Raise BadInputFile if the file lacks a column that is read, or has two of that name."""
    for column in (job.column, *(job.read_columns or ())):
        if column not in names:
            raise make_missing_column_error(file, column, names)
    used = names if job.read_columns is None else (job.column, *job.read_columns)
    if repeated := next((name for name in used if names.count(name) > 1), None):
        raise BadInputFile(file, f"{file} has {names.count(repeated)} columns {repeated!r}. Rename them.")


class BatchBuilder:
    """Collect rows that Python reads one by one until they make a batch.

    `encoding_errors` is the error handler that turns a text back into the bytes it was decoded from.
    """

    def __init__(self, job: BulkJob, encoding_errors: str) -> None:
        self._encoding_errors = encoding_errors
        self._max_bytes, self._max_rows = job.block_bytes, job.block_rows
        self._column_names: dict[str, None] = {}
        self._wanted = job.read_columns
        self.keeps_columns = self._wanted is None or len(self._wanted) > 0
        if self._wanted is not None:
            self._column_names.update(dict.fromkeys(self._wanted))
        self._clear()

    def _clear(self) -> None:
        self._urls: list[bytes | None] = []
        self._numbers: list[int] = []
        self._records: list[Mapping[str, str | None]] = []
        self._invalid: list[InvalidRow] = []
        self.empty = 0
        self.size = 0

    @property
    def is_full(self) -> bool:
        return self.size >= self._max_bytes or len(self._numbers) >= self._max_rows

    def add(self, number: int, url: str | None, record: Mapping[str, str | None]) -> None:
        """Add a row; the columns that are kept must be valid UTF-8."""
        raw = None if url is None else url.encode("utf-8", self._encoding_errors)
        if self.keeps_columns:
            if self._wanted is not None:
                record = {name: record.get(name) for name in self._wanted}
            texts = (text for pair in record.items() for text in pair)
            if not all(text is None or text.isascii() or _is_encodable(text) for text in texts):
                self.add_invalid(number, raw or b"", InvalidRowReason(InvalidRowKind.COLUMN_NOT_UTF8))
                return
            self._column_names.update(dict.fromkeys(record))
            if len(self._column_names) > _MAX_COLUMNS:
                raise BulkError(f"There are too many columns at row {number}: --mode join takes {_MAX_COLUMNS}.")
            self._records.append(record)
        self._numbers.append(number)
        self._urls.append(raw)

    def add_invalid(self, number: int, text: bytes, reason: InvalidRowReason) -> None:
        """Add a row for the side file."""
        self._invalid.append(make_invalid_row(number, text, reason))
        self.size += _INVALID_ROW_BYTES

    def take_batch(self) -> RowBatch:
        """Return the rows added since the last batch."""
        table = None
        if self.keeps_columns:
            names = list(self._column_names)
            columns = [pa.array([record.get(name) for record in self._records], pa.string()) for name in names]
            table = pa.table(columns, names=names)
        numbers = np.array(self._numbers, np.int64)
        batch = RowBatch(make_unchecked_strings(self._urls), numbers, table, self._invalid, self.empty)
        self._clear()
        return drop_long_urls(batch)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
