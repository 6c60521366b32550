"""Read CSV files with a header."""

from __future__ import annotations

import csv
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from canonry.bulk.line_blocks import MAX_LINE_BYTES, LongLine, read_line_blocks
from canonry.bulk.row_batches import BatchBuilder, InvalidRowKind, InvalidRowReason, RowBatch, check_columns
from canonry.errors import BadInputFile

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from canonry.bulk.job import BulkJob

_BLOCK_BYTES = 1 << 20
_MAX_CHECKED_LINES = 100  # of a record, to see whether it swallowed others


def read_csv(job: BulkJob, file: str, stream: Any, *, delimiter: str) -> Iterator[RowBatch]:
    """Yield the records after the header; a record with more or fewer columns than the header is invalid.

    A quote that is not closed would swallow all lines up to the next quote. Such a line is reported as invalid, and
    reading goes on with the next line.
    """
    builder, lines, number = BatchBuilder(job, "surrogateescape"), _RecordLines(stream, delimiter), 0
    with _limit_field_size(MAX_LINE_BYTES):
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        header = _read_header(reader, file)
        lines.start_record()
        check_columns(job, file, header)
        url_index = header.index(job.column)
        while (record := _read_record(reader, header, url_index, lines)) is not None:
            number += 1
            if isinstance(record, InvalidRowReason):
                if lines.count > 1:
                    lines.return_all_but_first()
                    reader = csv.reader(lines, delimiter=delimiter, strict=True)
                builder.size += len(lines.text)
                builder.add_invalid(number, lines.text, record)
            elif not record:
                builder.empty += 1
            else:
                builder.size += len(lines.text)
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
        if lines.count > 1:
            return InvalidRowReason(InvalidRowKind.UNCLOSED_QUOTE)
        return InvalidRowReason(InvalidRowKind.LONG_LINE, f"more than {MAX_LINE_BYTES} bytes")
    except csv.Error as error:
        kind = InvalidRowKind.UNCLOSED_QUOTE if lines.count > 1 else InvalidRowKind.NOT_CSV
        return InvalidRowReason(kind, str(error))
    if not record:
        return record
    is_whole = len(record) == len(header) and "\n" not in record[url_index]
    if lines.count > 1 and (not is_whole or lines.contains_records(len(header), url_index)):
        return InvalidRowReason(InvalidRowKind.UNCLOSED_QUOTE, f"lines up to the next quote: {lines.count - 1}")
    if len(record) != len(header):
        return InvalidRowReason(InvalidRowKind.WRONG_COLUMN_COUNT, f"{len(record)}, but the header has {len(header)}")
    return record


class _LineTooLong(csv.Error):
    """A line has more than MAX_LINE_BYTES."""


class _RecordLines:
    """Give the csv module the lines of a stream as text, and remember the lines of the current record."""

    def __init__(self, stream: Any, delimiter: str) -> None:
        self._delimiter = delimiter
        self._blocks = read_line_blocks(stream, _BLOCK_BYTES)
        self._block_lines: Iterator[bytes | LongLine] = iter(())
        self._returned: deque[bytes | LongLine] = deque()  # lines to read again
        self._record_lines: list[bytes | LongLine] = []

    def __iter__(self) -> _RecordLines:
        return self

    def __next__(self) -> str:
        line = self._returned.popleft() if self._returned else self._read_line()
        self._record_lines.append(line)
        if isinstance(line, LongLine):
            raise _LineTooLong
        return line.decode("utf-8", "surrogateescape")

    def _read_line(self) -> bytes | LongLine:
        while (line := next(self._block_lines, None)) is None:
            block = next(self._blocks)
            if isinstance(block, LongLine):
                return block
            lines = block.split(b"\n")  # not splitlines: a CR alone may stand inside quotes
            last = lines.pop()
            self._block_lines = iter([each + b"\n" for each in lines] + ([last] if last else []))
        return line

    @property
    def text(self) -> bytes:
        """The lines of the current record; the start of a line that is too long."""
        lines = [line.start if isinstance(line, LongLine) else line for line in self._record_lines]
        return (lines[0] if len(lines) == 1 else b"".join(lines)).rstrip(b"\r\n")

    @property
    def count(self) -> int:
        """The number of lines of the current record."""
        return len(self._record_lines)

    def return_all_but_first(self) -> None:
        """Keep the first line of the current record; the others are read again."""
        first, *others = self._record_lines
        self._record_lines = [first]
        self._returned.extendleft(reversed(others))

    def contains_records(self, column_count: int, url_index: int) -> bool:
        """Return whether most lines inside the current record are records of their own: a quote swallowed them.

        A text of several lines is a legitimate value; lines with the right number of columns and a URL in the right
        one are not part of a text.
        """
        inner = self._record_lines[1:-1][:_MAX_CHECKED_LINES]
        found = 0
        for line in inner:
            if isinstance(line, LongLine):
                continue
            try:
                [fields] = csv.reader([line.decode("utf-8", "surrogateescape")], delimiter=self._delimiter)
            except csv.Error:
                continue
            is_record = len(fields) == column_count and fields[url_index].lower().startswith(("http:", "https:"))
            found += is_record
        return found * 2 > len(inner)

    def start_record(self) -> None:
        """Forget the lines of the current record."""
        self._record_lines.clear()


def _read_header(reader: Iterator[list[str]], file: str) -> list[str]:
    try:
        header = next((record for record in reader if record), None)
    except _LineTooLong:
        message = f"{file} cannot be read as csv: its header has more than {MAX_LINE_BYTES} bytes"
        raise BadInputFile(file, message) from None
    except csv.Error as error:
        raise BadInputFile(file, f"{file} cannot be read as csv: {error}") from None
    if header is None:
        raise BadInputFile(file, f"{file} is empty. The first line of a CSV file must name its columns.")
    return header


@contextmanager
def _limit_field_size(limit: int) -> Generator[None]:
    """Set the limit of the csv module, which is global, and restore it."""
    before = csv.field_size_limit(limit)
    try:
        yield
    finally:
        csv.field_size_limit(before)
