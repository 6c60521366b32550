"""Normalize a batch of rows: every engine and every mode gets its answers here."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk import arrow
from canonry.bulk.hash_groups import group_hashes, view_hash_bytes
from canonry.bulk.job import BulkJob, Mode
from canonry.bulk.merge_runs import make_run_schema
from canonry.bulk.row_batches import MALFORMED_KINDS, InvalidRowKind, InvalidRowReason, make_invalid_row
from canonry.core.native import normalize
from canonry.errors import BulkError, InvalidUrl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from canonry.bulk.row_batches import InvalidRow, RowBatch
    from canonry.core.policy import Policy

pa: Any = pyarrow  # pyarrow has no type stubs
pc: Any = pyarrow.compute
_INVALID_SCHEMA = pa.schema([("row", pa.int64()), ("url", pa.string()), ("reason", pa.string())])


@dataclass(frozen=True, slots=True)
class NormalizedBatch:
    """The result of a batch: output rows, invalid rows for the side file, and counts of the input."""

    table: Any
    invalid: Any
    rows: int
    empty: int
    malformed: int  # rows that are not in the format of the file
    position: int  # bytes of the file read so far


def normalize_batch(job: BulkJob, batch: RowBatch) -> NormalizedBatch:
    """Normalize the rows of a batch in the mode of the job."""
    row_count = len(batch.rows) + len(batch.invalid) + batch.empty
    normalized = arrow.normalize(batch.urls, job.policy, hash=True)
    urls, hashes = normalized.field(0), normalized.field(1)
    is_valid: NDArray[np.bool_] = np.asarray(urls.is_valid())
    if job.mode is Mode.DEDUPE:
        table = _make_run(job, batch, urls, hashes)
    elif job.mode is Mode.NORMALIZE:
        table = _make_rows(batch, urls, hashes)
    elif job.mode is Mode.JOIN:
        table = _append_columns(job, batch, urls, hashes)
    else:
        table, is_valid = _compare_policies(job, batch, urls, hashes)
    invalid = [*batch.invalid, *_find_invalid_rows(job.policy, batch, is_valid)]
    invalid.sort(key=lambda each: each.row)
    malformed = sum(each.reason.kind in MALFORMED_KINDS for each in batch.invalid)
    return NormalizedBatch(table, _make_invalid_table(invalid), row_count, batch.empty, malformed, batch.position)


def _find_invalid_rows(policy: Policy, batch: RowBatch, is_valid: NDArray[np.bool_]) -> list[InvalidRow]:
    invalid: list[InvalidRow] = []
    for index in np.flatnonzero(~is_valid).tolist():
        raw = _get_bytes(batch.urls[index])
        invalid.append(make_invalid_row(int(batch.rows[index]), raw, _find_reason(raw, policy)))
    return invalid


def _find_reason(raw: bytes, policy: Policy) -> InvalidRowReason:
    if not raw:
        return InvalidRowReason(InvalidRowKind.EMPTY_URL)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return InvalidRowReason(InvalidRowKind.NOT_UTF8)
    try:
        normalize(text, policy)
    except InvalidUrl as error:
        return InvalidRowReason(InvalidRowKind.NOT_A_URL, error.reason)
    raise AssertionError(f"arrow.normalize and normalize disagree on {text!r}")


def _make_invalid_table(invalid: list[InvalidRow]) -> Any:
    columns = [[each.row for each in invalid], [each.url for each in invalid], [str(each.reason) for each in invalid]]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _INVALID_SCHEMA.types, strict=True)]
    return pa.table(arrays, _INVALID_SCHEMA)


def _make_run(job: BulkJob, batch: RowBatch, urls: Any, hashes: Any) -> Any:
    """Return the batch as a run: sorted by key, each key once, with its count and its first row."""
    variants, rows = batch.urls, batch.rows
    kept: Any = batch.table
    if urls.null_count:
        is_valid = urls.is_valid()
        variants, urls, hashes = variants.filter(is_valid), urls.filter(is_valid), hashes.filter(is_valid)
        rows, kept = rows[np.asarray(is_valid)], None if kept is None else kept.filter(is_valid)
    keys = hashes if job.group_by is None else _hash_values(kept.column(job.group_by), urls)
    firsts, counts = group_hashes(view_hash_bytes(keys))
    indices = pa.array(firsts)
    variants, urls = variants.take(indices), urls.take(indices)
    variants = pc.if_else(pc.equal(variants, urls), pa.scalar(None, pa.string()), variants)
    columns = [keys.take(indices), urls, variants, pa.array(rows[firsts]), pa.array(counts)]
    if job.group_by is not None:
        columns.append(hashes.take(indices))
    columns += [kept.column(name).take(indices) for name in job.kept_columns]
    return pa.table(columns, schema=make_run_schema(job))


def _hash_values(values: Any, urls: Any) -> Any:
    """Return the keys to group by: the hash of the value; without a value, a hash that only the same URL has."""
    pairs = zip(values.to_pylist(), urls.to_pylist(), strict=True)
    texts = (f"\0{url}" if value is None or not value else value for value, url in pairs)
    return pa.array([sha256(text.encode()).hexdigest() for text in texts], pa.string())


def _make_rows(batch: RowBatch, urls: Any, hashes: Any) -> Any:
    names = ["url", "canonical_hash", "original_url", "row"]
    table = pa.table([urls, hashes, batch.urls, pa.array(batch.rows)], names=names)
    return table.filter(urls.is_valid()) if urls.null_count else table


def _compare_policies(job: BulkJob, batch: RowBatch, urls: Any, hashes: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Return the rows for which the policies differ, and which rows are valid under at least one policy.

    Where one policy rejects the URL, its columns are null.
    """
    assert job.against is not None
    other = arrow.normalize(batch.urls, job.against, hash=True)
    other_urls, other_hashes = other.field(0), other.field(1)
    is_valid = pc.or_(urls.is_valid(), other_urls.is_valid())
    differs = pc.invert(pc.fill_null(pc.equal(urls, other_urls), False))  # noqa: FBT003
    names = ["original_url", "before", "after", "before_hash", "after_hash", "row"]
    columns = [batch.urls, urls, other_urls, hashes, other_hashes, pa.array(batch.rows)]
    return pa.table(columns, names=names).filter(pc.and_(is_valid, differs)), np.asarray(is_valid)


def _append_columns(job: BulkJob, batch: RowBatch, urls: Any, hashes: Any) -> Any:
    table = batch.table
    for name, column in zip(arrow.FIELDS, (urls, hashes), strict=True):
        if name in table.column_names:
            raise BulkError(f"The input already has a column {name!r}. Remove or rename it.")
        table = table.append_column(name, column)
    if urls.null_count and table.column(job.column).type == pa.string():
        # A string column cannot hold bytes that are not UTF-8; the side file has them, escaped.
        invalid = np.flatnonzero(~np.asarray(urls.is_valid())).tolist()
        not_utf8 = [index for index in invalid if not _is_utf8(_get_bytes(batch.urls[index]))]
        if not_utf8:
            table = table.take(pa.array(np.delete(np.arange(len(table)), not_utf8)))
    return table


def _get_bytes(text: Any) -> bytes:
    """Return the bytes of an unchecked string; none for null."""
    buffer = text.as_buffer()
    return b"" if buffer is None else buffer.to_pybytes()


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
