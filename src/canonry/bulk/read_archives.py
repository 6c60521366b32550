"""Read web archives: WARC files, and their index files CDX and CDXJ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canonry.bulk.cdx_lines import CdxParser
from canonry.bulk.line_blocks import MAX_LINE_BYTES, LongLine, read_line_blocks
from canonry.bulk.row_batches import BatchBuilder, InvalidRowKind, InvalidRowReason, RowBatch, make_missing_column_error
from canonry.bulk.warc_records import DamagedArchive, read_record_headers
from canonry.errors import BadInputFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canonry.bulk.job import BulkJob

_MAX_BLOCK_BYTES = 4 << 20
_WARC_COLUMNS = {
    "url": b"warc-target-uri",
    "timestamp": b"warc-date",
    "digest": b"warc-payload-digest",
    "mime": b"warc-identified-payload-type",
    "record_id": b"warc-record-id",
}
# Records of a page; others describe the crawl, a request or the connection.
_PAGE_RECORDS = frozenset({b"response", b"resource", b"revisit"})
_ROW_BYTES = 300  # of the record headers that are in memory for each row


def read_cdx_rows(job: BulkJob, file: str, stream: Any) -> Iterator[RowBatch]:
    """Yield the lines of a CDX or CDXJ file; headers and empty lines count as empty."""
    builder, parser, number, known_columns = BatchBuilder(job, "surrogateescape"), CdxParser(), 0, {"url"}
    is_found = False
    for block in read_line_blocks(stream, min(job.block_bytes, _MAX_BLOCK_BYTES)):
        if isinstance(block, LongLine):
            number += 1
            reason = InvalidRowReason(InvalidRowKind.LONG_LINE, f"more than {MAX_LINE_BYTES} bytes")
            builder.add_invalid(number, block.start, reason)
            continue
        for line in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            builder.size += len(line)
            columns = parser.parse(line.decode("utf-8", "surrogateescape"))
            if columns is None:
                builder.add_invalid(number, line, InvalidRowReason(InvalidRowKind.NOT_CDX))
            elif not columns:
                builder.empty += 1
            elif job.column not in columns:
                known_columns.update(columns)
                builder.add_invalid(number, line, InvalidRowReason(InvalidRowKind.MISSING_COLUMN, repr(job.column)))
            else:
                is_found = True
                builder.add(number, columns[job.column], columns)
            if builder.is_full:
                yield builder.take_batch()
    if len(known_columns) > 1 and not is_found:
        raise make_missing_column_error(file, job.column, sorted(known_columns))
    yield builder.take_batch()


def read_warc_rows(job: BulkJob, file: str, stream: Any) -> Iterator[RowBatch]:
    """Yield a row for each page of a WARC file; rows count responses, resources and revisits."""
    for column in (job.column, *(job.read_columns or ())):
        if column not in _WARC_COLUMNS:
            raise make_missing_column_error(file, column, list(_WARC_COLUMNS))
    builder, number, has_record = BatchBuilder(job, "surrogateescape"), 0, False
    try:
        for headers in read_record_headers(stream):
            has_record = True
            if headers.get(b"warc-type") not in _PAGE_RECORDS:
                continue
            number += 1
            builder.size += _ROW_BYTES
            values = {name: headers.get(header) for name, header in _WARC_COLUMNS.items()}
            texts = {
                name: None if value is None else value.decode("utf-8", "surrogateescape")
                for name, value in values.items()
            }
            texts["url"] = (texts["url"] or "").removeprefix("<").removesuffix(">")  # as old writers put it
            builder.add(number, texts[job.column], texts)
            if builder.is_full:
                yield builder.take_batch()
    except DamagedArchive as error:
        raise BadInputFile(file, f"{file} cannot be read as warc: {error}") from None
    if not has_record:
        raise BadInputFile(file, f"{file} cannot be read as warc: it has no records")
    yield builder.take_batch()
