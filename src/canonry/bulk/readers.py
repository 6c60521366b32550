"""Input files as batches of URLs, each with the number of its row; what is no row is told, not dropped.

Rows count from 1 in each file: lines of text and JSONL, records of CSV (behind its header) and Parquet.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.blocks import LONGEST_LINE, LongLine, line_blocks, raw_strings, split_lines
from canonry.bulk.job import Format, Job, Mode
from canonry.bulk.rows import Batch, no_column, read_csv, read_jsonl, refused_row, without_long
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

pa: Any = pyarrow  # it has no types
pc: Any = pyarrow.compute
pq: Any = pyarrow.parquet
_COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_FORMATS = {
    ".csv": Format.CSV, ".tsv": Format.CSV, ".jsonl": Format.JSONL, ".ndjson": Format.JSONL,
    ".parquet": Format.PARQUET, ".pq": Format.PARQUET,
}  # fmt: skip
_PARQUET_ROWS = 16_384


def read(job: Job, file: str) -> Generator[Batch]:
    """The file in batches of about `job.block` bytes."""
    kind = job.format or _FORMATS.get(_suffix(file), Format.TEXT)
    try:
        if kind is Format.PARQUET:
            yield from _parquet(job, file)
            return
        with _opened(file) as (stream, raw):
            for batch in _batches(kind, job, file, stream):
                batch.position = raw.tell()
                yield batch
    except pa.ArrowException as error:
        raise BulkError(f"{file} cannot be read as {kind}: {_first_line(error)}") from None
    except OSError as error:
        raise BulkError(f"{file} cannot be read: {error.strerror or _first_line(error)}") from None


def _batches(kind: Format, job: Job, file: str, stream: Any) -> Iterator[Batch]:
    if kind is Format.TEXT:
        return _text(job, stream)
    if kind is Format.JSONL:
        return read_jsonl(job, file, stream)
    return read_csv(job, file, stream, delimiter="\t" if _suffix(file) == ".tsv" else ",")


def _suffix(file: str) -> str:
    """What says how it is written, before .gz or .zst."""
    path = Path(file.lower())
    return Path(path.stem).suffix if path.suffix in _COMPRESSED else path.suffix


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


@contextmanager
def _opened(file: str) -> Generator[tuple[Any, Any]]:
    """The bytes of a file without its compression; and the file itself, for its position."""
    compression = _COMPRESSED.get(Path(file.lower()).suffix)
    with open(file, "rb") as raw:
        yield raw if compression is None else pa.input_stream(raw, compression=compression), raw


def _text(job: Job, stream: Any) -> Iterator[Batch]:
    row = 1
    for block in line_blocks(stream, job.block):
        if isinstance(block, LongLine):
            refused = refused_row(row, block.start, f"the line has more than {LONGEST_LINE} bytes")
            yield Batch(raw_strings([]), np.empty(0, np.int64), refused=[refused])
            row += 1
            continue
        lines = split_lines(block)
        batch = Batch(lines.texts, lines.numbers + row, empty=lines.count - len(lines.numbers))
        if job.mode is Mode.JOIN:
            batch.others = pa.table([lines.texts], names=[job.column])
        row += lines.count
        yield without_long(batch)


def _parquet(job: Job, file: str) -> Iterator[Batch]:
    with pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as opened:
        schema, total = opened.schema_arrow, opened.metadata.num_rows
        if job.column not in schema.names:
            raise no_column(file, job.column, schema.names)
        kind = schema.field(job.column).type
        if not _holds_text(kind):
            raise BulkError(f"{file}: column {job.column!r} holds {kind}, not text")
        size_of_row = Path(file).stat().st_size / max(total, 1)
        columns = None if job.mode is Mode.JOIN else [job.column]
        row, size = 1, 0
        held: list[Any] = []
        for piece in opened.iter_batches(_PARQUET_ROWS, columns=columns):
            held.append(piece)
            size += piece.nbytes
            if size >= job.block:
                batch = _parquet_batch(job, pa.Table.from_batches(held), row)
                row, held, size = row + sum(map(len, held)), [], 0
                batch.position = int((row - 1) * size_of_row)
                yield batch
        if held:
            yield _parquet_batch(job, pa.Table.from_batches(held), row)


def _holds_text(kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    texts = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.null())
    return kind in texts


def _parquet_batch(job: Job, table: Any, row: int) -> Batch:
    column = table.column(job.column)
    column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    column = pa.concat_arrays(column.cast(pa.binary()).chunks)
    # Bytes that are no UTF-8 are told as such, as in a text file.
    validity, offsets, data = column.buffers()
    urls = pa.Array.from_buffers(pa.string(), len(column), [validity, offsets, data], column.null_count, column.offset)
    rows = np.arange(row, row + len(urls), dtype=np.int64)
    return without_long(Batch(urls, rows, table if job.mode is Mode.JOIN else None))
