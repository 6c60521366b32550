"""Batches of rows, and the formats that Python reads row by row: CSV and JSONL."""

from __future__ import annotations

import csv
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.blocks import LONGEST_LINE, LongLine, line_blocks, raw_strings
from canonry.bulk.job import Job, Mode
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray

pa: Any = pyarrow  # it has no types
LONGEST_URL = 1 << 20
_SHOWN = 4096  # characters of a refused row that the side file repeats
_MOST_COLUMNS = 1000
_REFUSED_SIZE = 1000  # bytes that a refused row counts for, so that a file of nothing else is no single batch
_TOO_LONG = f"the line has more than {LONGEST_LINE} bytes"


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that is no URL: as it was given, and why."""

    row: int
    url: str
    reason: str


@dataclass(slots=True)
class Batch:
    """Rows of a file: their URLs as bytes that should be UTF-8, their numbers, all columns where they are asked for."""

    urls: Any
    rows: NDArray[np.int64]
    others: Any = None
    refused: list[Refused] = field(default_factory=list[Refused])
    empty: int = 0
    position: int = 0  # bytes of the file that were read so far


def refused_row(row: int, given: bytes, reason: str) -> Refused:
    """Bytes that are no text are escaped, the end of a long one is cut."""
    text = given[: _SHOWN * 4].decode("utf-8", "backslashreplace")
    return Refused(row, text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…", reason)


def without_long(batch: Batch) -> Batch:
    """The batch without URLs that nobody can mean."""
    offsets = np.frombuffer(batch.urls.buffers()[1] or b"\0\0\0\0", np.int32)
    lengths = np.diff(offsets[batch.urls.offset : batch.urls.offset + len(batch.urls) + 1])
    is_long = lengths > LONGEST_URL
    if not is_long.any():
        return batch
    for at in np.flatnonzero(is_long).tolist():
        start = batch.urls[at].as_buffer()[: _SHOWN * 4].to_pybytes()
        reason = f"the URL has {lengths[at]} bytes, more than {LONGEST_URL}"
        batch.refused.append(refused_row(int(batch.rows[at]), start, reason))
    kept = pa.array(~is_long)
    others = None if batch.others is None else batch.others.filter(kept)
    return Batch(batch.urls.filter(kept), batch.rows[~is_long], others, batch.refused, batch.empty)


def no_column(file: str, column: str, columns: list[str]) -> BulkError:
    """The error that names the columns there are."""
    shown = [name.encode("utf-8", "backslashreplace").decode()[:100] for name in columns[:30]]
    return BulkError(f"{file} has no column {column!r}, but {', '.join(map(repr, shown))}: choose with --column")


class _Gathered:
    """Rows until they make a batch; `errors` is how their text came from bytes."""

    def __init__(self, job: Job, errors: str) -> None:
        self._errors = errors
        self._most = job.block
        self._names: dict[str, None] = {}
        self.keeps_others = job.mode is Mode.JOIN
        self._clear()

    def _clear(self) -> None:
        self._urls: list[bytes | None] = []
        self._numbers: list[int] = []
        self._records: list[dict[str, str | None]] = []
        self._refused: list[Refused] = []
        self.empty = 0
        self.size = 0

    @property
    def is_full(self) -> bool:
        return self.size >= self._most

    def add(self, number: int, url: str | None, record: dict[str, str | None]) -> None:
        """A row; its other columns, where they are wanted, must be texts that can be written."""
        raw = None if url is None else url.encode("utf-8", self._errors)
        if self.keeps_others:
            texts = (text for pair in record.items() for text in pair)
            if not all(text is None or text.isascii() or _is_text(text) for text in texts):
                self.refuse(number, raw or b"", "a column of this row is not UTF-8")
                return
            self._names.update(dict.fromkeys(record))
            if len(self._names) > _MOST_COLUMNS:
                raise BulkError(f"row {number} has column {len(self._names)}; join takes {_MOST_COLUMNS} columns")
            self._records.append(record)
        self._numbers.append(number)
        self._urls.append(raw)

    def refuse(self, number: int, given: bytes, reason: str) -> None:
        """A row that is none."""
        self._refused.append(refused_row(number, given, reason))
        self.size += _REFUSED_SIZE

    def batch(self) -> Batch:
        """What was gathered since the last one."""
        others = None
        if self.keeps_others:
            columns = [pa.array([record.get(name) for record in self._records], pa.string()) for name in self._names]
            others = pa.table(columns, names=list(self._names))
        numbers = np.array(self._numbers, np.int64)
        made = Batch(raw_strings(self._urls), numbers, others, self._refused, self.empty)
        self._clear()
        return without_long(made)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_jsonl(job: Job, file: str, stream: Any) -> Iterator[Batch]:
    """One JSON object a line; values that are no text come as JSON."""
    rows, number, is_found = _Gathered(job, "surrogatepass"), 0, False
    others: dict[str, None] = {}
    for block in line_blocks(stream, min(job.block, 4 << 20)):
        if isinstance(block, LongLine):
            number += 1
            rows.refuse(number, block.start, _TOO_LONG)
            continue
        for line in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            rows.size += len(line)
            if not line.strip():
                rows.empty += 1
                continue
            record = _json_object(line)
            if isinstance(record, str):
                rows.refuse(number, line, record)
            elif job.column not in record:
                if len(others) < _MOST_COLUMNS:
                    others.update(dict.fromkeys(record))
                rows.refuse(number, line, f"no {job.column!r} in this object")
            else:
                is_found = True
                wanted = record if rows.keeps_others else {}
                kept = {name: _json_text(value) for name, value in wanted.items()}
                rows.add(number, _json_text(record[job.column]), kept)
        if rows.is_full:
            yield rows.batch()
    if others and not is_found:
        raise no_column(file, job.column, list(others))
    yield rows.batch()


def _json_object(line: bytes) -> dict[str, object] | str:
    """The object, or why there is none."""
    try:
        record: object = json.loads(line.decode())
    except UnicodeDecodeError:
        return "not UTF-8"
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return cast("dict[str, object]", record) if isinstance(record, dict) else "not a JSON object"


def _json_text(value: object) -> str | None:
    return value if isinstance(value, str) or value is None else json.dumps(value)


def read_csv(job: Job, file: str, stream: Any, *, delimiter: str) -> Iterator[Batch]:
    """Records behind a header that names their columns; one with more or fewer columns is refused."""
    rows, lines, number = _Gathered(job, "surrogateescape"), _Lines(stream), 0
    with _field_limit(LONGEST_LINE):
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        header = _header(reader, file)
        lines.forget()
        if job.column not in header:
            raise no_column(file, job.column, header)
        if len(set(header)) < len(header) and job.mode is Mode.JOIN:
            raise BulkError(f"{file} has several columns of one name: {', '.join(header)}")
        at = header.index(job.column)
        while (record := _record(reader)) is not None:
            number += 1
            rows.size += len(lines.taken)
            if not record:
                rows.empty += 1
            elif isinstance(record, str) or len(record) != len(header) or "\n" in record[at]:
                rows.refuse(number, lines.taken, _why_no_record(record, header, lines))
            else:
                rows.add(number, record[at], dict(zip(header, record, strict=True)) if rows.keeps_others else {})
            lines.forget()
            if rows.is_full:
                yield rows.batch()
    yield rows.batch()


def _record(reader: Iterator[list[str]]) -> list[str] | str | None:
    """The next record, what is wrong with it, or None at the end."""
    try:
        return next(reader, None)
    except csv.Error as error:
        return f"not CSV: {error}"


def _why_no_record(record: list[str] | str, header: list[str], lines: _Lines) -> str:
    if isinstance(record, str):
        reason = record
    elif len(record) != len(header):
        reason = f"{len(record)} columns where the header has {len(header)}"
    else:
        reason = "a line break in the URL"
    first = lines.number - lines.held + 1
    return reason if lines.held < 2 else f"{reason} (lines {first} to {lines.number}: is a quote not closed?)"


class _Lines:
    """The lines of a stream as text, for the csv module; and those of the record that it is at."""

    def __init__(self, stream: Any) -> None:
        self._blocks = line_blocks(stream, 1 << 20)
        self._lines: Iterator[bytes] = iter(())
        self._taken: list[bytes] = []
        self.number = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines, None)
        while line is None:
            block = next(self._blocks)
            if isinstance(block, LongLine):
                self._took(block.start)
                raise csv.Error(_TOO_LONG)
            lines = block.split(b"\n")  # a CR alone may stand inside quotes
            last = lines.pop()
            self._lines = iter([each + b"\n" for each in lines] + ([last] if last else []))
            line = next(self._lines, None)
        self._took(line)
        return line.decode("utf-8", "surrogateescape")

    def _took(self, line: bytes) -> None:
        self.number += 1
        self._taken.append(line)

    @property
    def held(self) -> int:
        """How many lines this record has."""
        return len(self._taken)

    @property
    def taken(self) -> bytes:
        """The lines of this record."""
        return (self._taken[0] if len(self._taken) == 1 else b"".join(self._taken)).rstrip(b"\r\n")

    def forget(self) -> None:
        """The next record begins."""
        self._taken.clear()


def _header(reader: Iterator[list[str]], file: str) -> list[str]:
    try:
        header = next((record for record in reader if record), None)
    except csv.Error as error:
        raise BulkError(f"{file} cannot be read as csv: {error}") from None
    if header is None:
        raise BulkError(f"{file} is empty: a CSV file begins with the names of its columns")
    return header


@contextmanager
def _field_limit(limit: int) -> Generator[None]:
    before = csv.field_size_limit(limit)
    try:
        yield
    finally:
        csv.field_size_limit(before)
