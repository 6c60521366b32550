"""Read JSONL files: one JSON object in each line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from canonry.bulk.line_blocks import MAX_LINE_BYTES, LongLine, read_line_blocks
from canonry.bulk.row_batches import BatchBuilder, InvalidRowKind, InvalidRowReason, RowBatch, make_missing_column_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canonry.bulk.job import BulkJob

_MAX_BLOCK_BYTES = 4 << 20
_MAX_REMEMBERED_NAMES = 1000  # of columns, for the message that the wanted one is missing


def read_jsonl(job: BulkJob, file: str, stream: Any) -> Iterator[RowBatch]:
    """Yield the rows of a JSONL file; values that are not strings become JSON text."""
    builder, number, is_column_found = BatchBuilder(job, "surrogatepass"), 0, False
    other_names: dict[str, None] = {}
    for block in read_line_blocks(stream, min(job.block_bytes, _MAX_BLOCK_BYTES)):
        if isinstance(block, LongLine):
            number += 1
            reason = InvalidRowReason(InvalidRowKind.LONG_LINE, f"more than {MAX_LINE_BYTES} bytes")
            builder.add_invalid(number, block.start, reason)
            continue
        for line in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            builder.size += len(line)
            if not line.strip():
                builder.empty += 1
                continue
            record = _parse_object(line)
            if isinstance(record, InvalidRowReason):
                builder.add_invalid(number, line, record)
            elif job.column not in record:
                if len(other_names) < _MAX_REMEMBERED_NAMES:
                    other_names.update(dict.fromkeys(record))
                builder.add_invalid(number, line, InvalidRowReason(InvalidRowKind.MISSING_COLUMN, repr(job.column)))
            else:
                is_column_found = True
                kept = record if builder.keeps_columns else {}
                texts = {name: _make_text(value) for name, value in kept.items()}
                builder.add(number, _make_text(record[job.column]), texts)
            if builder.is_full:
                yield builder.take_batch()
    if other_names and not is_column_found:
        raise make_missing_column_error(file, job.column, list(other_names))
    yield builder.take_batch()


def _parse_object(line: bytes) -> dict[str, object] | InvalidRowReason:
    try:
        record: object = json.loads(line.decode())
    except UnicodeDecodeError:
        return InvalidRowReason(InvalidRowKind.NOT_UTF8)
    except (ValueError, RecursionError) as error:
        return InvalidRowReason(InvalidRowKind.NOT_JSON, str(error))
    return (
        cast("dict[str, object]", record)
        if isinstance(record, dict)
        else InvalidRowReason(InvalidRowKind.NOT_AN_OBJECT)
    )


def _make_text(value: object) -> str | None:
    return value if isinstance(value, str) or value is None else json.dumps(value)
