"""Read input files as batches of URLs with row numbers; rows that cannot be read are reported, not dropped.

Rows count from 1 in each file: lines of text, JSONL and CDX, records of CSV (after the header) and Parquet, pages of
WARC files.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.disk_errors import get_first_line
from canonry.bulk.job import BulkJob, Format, Mode
from canonry.bulk.line_blocks import MAX_LINE_BYTES, LongLine, make_unchecked_strings, read_line_blocks, split_lines
from canonry.bulk.read_archives import read_cdx_rows, read_warc_rows
from canonry.bulk.read_csv import read_csv
from canonry.bulk.read_jsonl import read_jsonl
from canonry.bulk.row_batches import (
    InvalidRowKind,
    InvalidRowReason,
    RowBatch,
    check_columns,
    drop_long_urls,
    make_invalid_row,
    make_missing_column_error,
)
from canonry.bulk.storage import STDIN, get_file_state, open_input, open_parquet
from canonry.errors import BadInputFile

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

pa: Any = pyarrow  # pyarrow has no type stubs
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_FORMATS = {
    ".csv": Format.CSV, ".tsv": Format.CSV, ".jsonl": Format.JSONL, ".ndjson": Format.JSONL,
    ".parquet": Format.PARQUET, ".pq": Format.PARQUET, ".cdx": Format.CDX, ".cdxj": Format.CDX, ".warc": Format.WARC,
}  # fmt: skip
_TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.null())
_MAX_PIECE_ROWS = 16_384
_MAX_DICTIONARY_PIECE_ROWS = 1_024  # of a column whose bytes are unknown until it is decoded
_MIN_PIECE_ROWS = 64


def read_batches(job: BulkJob, number: int) -> Generator[RowBatch]:
    """Yield the rows of an input file in batches of about `job.block_bytes`."""
    file, path = job.inputs[number], job.get_input_path(number)
    format_ = job.format or _FORMATS.get(_get_format_suffix(file), Format.TEXT)
    try:
        if format_ is Format.PARQUET:
            yield from _read_parquet(job, file, path)
            return
        with _open_decompressed(path) as (stream, raw_file):
            has_position = path != STDIN and raw_file.seekable()
            for batch in _read_stream(format_, job, file, stream):
                batch.position = raw_file.tell() if has_position else 0
                yield batch
            if stream is not raw_file and has_position and not raw_file.tell():
                raise BadInputFile(file, f"{file} is empty, which a compressed file never is. It may be damaged.")
    except pa.ArrowException as error:
        raise BadInputFile(file, f"{file} cannot be read as {format_}: {get_first_line(error)}") from None
    except OSError as error:
        raise BadInputFile(file, f"{file} cannot be read: {error.strerror or get_first_line(error)}") from None


def _read_stream(format_: Format, job: BulkJob, file: str, stream: Any) -> Iterator[RowBatch]:
    if format_ is Format.TEXT:
        return _read_text(job, file, stream)
    if format_ is Format.JSONL:
        return read_jsonl(job, file, stream)
    if format_ is Format.CDX:
        return read_cdx_rows(job, file, stream)
    if format_ is Format.WARC:
        return read_warc_rows(job, file, stream)
    return read_csv(job, file, stream, delimiter="\t" if _get_format_suffix(file) == ".tsv" else ",")


def _get_format_suffix(file: str) -> str:
    """Return the suffix before .gz, .zst or .bz2."""
    path = Path(file.lower())
    return Path(path.stem).suffix if path.suffix in _COMPRESSIONS else path.suffix


@contextmanager
def _open_decompressed(path: str) -> Generator[tuple[Any, Any]]:
    """Yield the decompressed stream of a file, and the raw file, whose position shows the progress."""
    compression = _COMPRESSIONS.get(Path(path.lower()).suffix)
    with open_input(path) as raw_file:
        yield raw_file if compression is None else pa.input_stream(raw_file, compression=compression), raw_file


def _read_text(job: BulkJob, file: str, stream: Any) -> Iterator[RowBatch]:
    for column in job.read_columns or ():
        raise make_missing_column_error(file, column, [job.column])
    row = 1
    for block in read_line_blocks(stream, job.block_bytes):
        if row == 1 and _has_lone_returns(block.start if isinstance(block, LongLine) else block):
            raise BadInputFile(
                file, f"{file}: its lines end in CR alone. Convert it first: tr '\\r' '\\n' <FILE >NEW-FILE"
            )
        if isinstance(block, LongLine):
            reason = InvalidRowReason(InvalidRowKind.LONG_LINE, f"more than {MAX_LINE_BYTES} bytes")
            invalid = [make_invalid_row(row, block.start, reason)]
            yield RowBatch(make_unchecked_strings([]), np.empty(0, np.int64), invalid=invalid)
            row += 1
            continue
        for lines in split_lines(block, job.block_rows):
            batch = RowBatch(lines.texts, lines.numbers + row, empty=lines.count - len(lines.numbers))
            if job.mode is Mode.JOIN:
                batch.table = pa.table([lines.texts], names=[job.column])
            row += lines.count
            yield drop_long_urls(batch)


def _has_lone_returns(block: bytes) -> bool:
    """Return whether lines end in CR alone; parsing would drop them and join all URLs to one."""
    return b"\n" not in block and b"\r" in block.rstrip(b"\r")


def _read_parquet(job: BulkJob, file: str, path: str) -> Iterator[RowBatch]:
    if path == STDIN:
        raise BadInputFile(file, "Parquet cannot be read from standard input, because its index is at its end.")
    with open_parquet(path) as opened:
        schema, total = opened.schema_arrow, opened.metadata.num_rows
        check_columns(job, file, schema.names)
        column_type = schema.field(job.column).type
        if (column_type.value_type if pa.types.is_dictionary(column_type) else column_type) not in _TEXT_TYPES:
            message = f"{file}: column {job.column!r} holds {column_type}, not text. Choose one with --column."
            raise BadInputFile(file, message)
        for column in job.read_columns or ():
            if pa.types.is_nested(schema.field(column).type):
                raise BadInputFile(file, f"{file}: column {column!r} holds {schema.field(column).type}, not one value.")
        bytes_per_row = get_file_state(path).size / max(total, 1)
        columns = None if job.read_columns is None else list(dict.fromkeys((job.column, *job.read_columns)))
        row, size = 1, 0
        pieces: list[Any] = []
        for piece in opened.iter_batches(_choose_piece_rows(opened.metadata, job), columns=columns):
            pieces.append(piece)
            size += piece.nbytes
            count = sum(map(len, pieces))
            if size >= job.block_bytes or count >= job.block_rows or row + count > total:
                batch = _make_parquet_batch(job, pa.Table.from_batches(pieces), row)
                row, pieces, size = row + count, [], 0
                batch.position = int((row - 1) * bytes_per_row)
                yield batch


def _choose_piece_rows(metadata: Any, job: BulkJob) -> int:
    """Return how many rows to decode at once, so that long values do not fill the memory."""
    rows, wanted = _MAX_PIECE_ROWS, {job.column, *(job.read_columns or ())}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = [group.column(each) for each in range(group.num_columns)]
        used = [each for each in columns if job.read_columns is None or each.path_in_schema in wanted]
        bytes_per_row = sum(each.total_uncompressed_size for each in used) / max(group.num_rows, 1)
        rows = min(rows, int(job.block_bytes / max(bytes_per_row, 1)))
        if any(each.has_dictionary_page for each in used):
            rows = min(rows, _MAX_DICTIONARY_PIECE_ROWS)
    return max(rows, _MIN_PIECE_ROWS)


def _make_parquet_batch(job: BulkJob, table: Any, row: int) -> RowBatch:
    column = table.column(job.column)
    column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    column = pa.concat_arrays(column.cast(pa.binary()).chunks)
    # Unchecked strings, so that bytes that are not UTF-8 are reported as in a text file.
    validity, offsets, data = column.buffers()
    urls = pa.Array.from_buffers(pa.string(), len(column), [validity, offsets, data], column.null_count, column.offset)
    rows = np.arange(row, row + len(urls), dtype=np.int64)
    if job.read_columns is not None:
        texts = [table.column(name).cast(pa.string()) for name in job.read_columns]
        table = pa.table(texts, names=list(job.read_columns)) if texts else None
    return drop_long_urls(RowBatch(urls, rows, table))
