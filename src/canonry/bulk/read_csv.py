"""Read CSV files with a header."""

from __future__ import annotations

import csv
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from canonry.bulk.job import BulkJob, Mode
from canonry.bulk.line_blocks import MAX_LINE_BYTES, LongLine, read_line_blocks
from canonry.bulk.row_batches import BatchBuilder, InvalidRowKind, InvalidRowReason, RowBatch, make_missing_column_error
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_BLOCK_BYTES = 1 << 20


def read_csv(job: BulkJob, file: str, stream: Any, *, delimiter: str) -> Iterator[RowBatch]:
    """Yield the records after the header; a record with more or fewer columns than the header is invalid."""
    builder, lines, number = BatchBuilder(job, "surrogateescape"), _RecordLines(stream), 0
    with _limit_field_size(MAX_LINE_BYTES):
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        header = _read_header(reader, file)
        lines.start_record()
        if job.column not in header:
            raise make_missing_column_error(file, job.column, header)
        if len(set(header)) < len(header) and job.mode is Mode.JOIN:
            raise BulkError(f"{file} has several columns with the same name. Rename them: {', '.join(header)}")
        url_index = header.index(job.column)
        while (record := _read_record(reader, header, url_index, lines)) is not None:
            number += 1
            builder.size += len(lines.text)
            if isinstance(record, InvalidRowReason):
                builder.add_invalid(number, lines.text, record)
            elif not record:
                builder.empty += 1
            else:
                columns = dict(zip(header, record, strict=True)) if builder.keeps_columns else {}
                builder.add(number, record[url_index], columns)
            lines.start_record()
            if builder.is_full:
                yield builder.take_batch()
    yield builder.take_batch()


def _read_record(
    reader: Iterator[list[str]], header: list[str], url_index: int, lines: _RecordLines
) -> list[str] | InvalidRowReason | None:
    """Return the next record, empty for an empty line, or what is wrong with it; None at the end of the file."""
    try:
        record = next(reader, None)
    except _LineTooLong:
        return InvalidRowReason(InvalidRowKind.LONG_LINE, f"more than {MAX_LINE_BYTES} bytes")
    except csv.Error as error:
        return InvalidRowReason(InvalidRowKind.NOT_CSV, f"{error}{lines.describe_span()}")
    if not record:
        return record
    if len(record) != len(header):
        counts = f"{len(record)}, but the header has {len(header)}"
        return InvalidRowReason(InvalidRowKind.WRONG_COLUMN_COUNT, f"{counts}{lines.describe_span()}")
    if "\n" in record[url_index]:
        return InvalidRowReason(InvalidRowKind.LINE_BREAK, lines.describe_span().strip(" ()"))
    return record


class _LineTooLong(csv.Error):
    """A line has more than MAX_LINE_BYTES."""


class _RecordLines:
    """Give the csv module the lines of a stream as text, and remember the lines of the current record."""

    def __init__(self, stream: Any) -> None:
        self._blocks = read_line_blocks(stream, _BLOCK_BYTES)
        self._block_lines: Iterator[bytes] = iter(())
        self._record_lines: list[bytes] = []
        self._line_number = 0

    def __iter__(self) -> _RecordLines:
        return self

    def __next__(self) -> str:
        line = next(self._block_lines, None)
        while line is None:
            block = next(self._blocks)
            if isinstance(block, LongLine):
                self._remember(block.start)
                raise _LineTooLong
            lines = block.split(b"\n")  # not splitlines: a CR alone may stand inside quotes
            last = lines.pop()
            self._block_lines = iter([each + b"\n" for each in lines] + ([last] if last else []))
            line = next(self._block_lines, None)
        self._remember(line)
        return line.decode("utf-8", "surrogateescape")

    def _remember(self, line: bytes) -> None:
        self._line_number += 1
        self._record_lines.append(line)

    @property
    def text(self) -> bytes:
        """The lines of the current record."""
        lines = self._record_lines
        return (lines[0] if len(lines) == 1 else b"".join(lines)).rstrip(b"\r\n")

    def start_record(self) -> None:
        """Forget the lines of the current record."""
        self._record_lines.clear()

    def describe_span(self) -> str:
        """Return the line numbers of a record of several lines: the usual cause is a quote without its pair."""
        count = len(self._record_lines)
        first = self._line_number - count + 1
        return "" if count < 2 else f" (lines {first} to {self._line_number}; a quote may not be closed)"


def _read_header(reader: Iterator[list[str]], file: str) -> list[str]:
    try:
        header = next((record for record in reader if record), None)
    except _LineTooLong:
        raise BulkError(f"{file} cannot be read as csv: its header has more than {MAX_LINE_BYTES} bytes") from None
    except csv.Error as error:
        raise BulkError(f"{file} cannot be read as csv: {error}") from None
    if header is None:
        raise BulkError(f"{file} is empty. The first line of a CSV file must name its columns.")
    return header


@contextmanager
def _limit_field_size(limit: int) -> Generator[None]:
    """Set the limit of the csv module, which is global, and restore it."""
    before = csv.field_size_limit(limit)
    try:
        yield
    finally:
        csv.field_size_limit(before)
