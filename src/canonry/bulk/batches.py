"""What every engine does with a batch of rows: the one place where bulk answers are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk import arrow
from canonry.bulk.job import ROW_BITS, Job, Mode
from canonry.bulk.rows import refused_row
from canonry.core.native import normalize
from canonry.errors import BulkError, InvalidUrl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from canonry.bulk.rows import Batch, Refused
    from canonry.core.policy import Policy

pa: Any = pyarrow  # it has no types
pc: Any = pyarrow.compute
HASH_LENGTH = 64
# What a part of a dedupe holds: a run of rows, sorted by hash, each hash once. `first_variant` is null where
# it is the canonical URL itself; `place` is file and row in one number, so the smallest one is the first.
RUN = pa.schema(
    [
        ("canonical_hash", pa.string()),
        ("url", pa.string()),
        ("first_variant", pa.string()),
        ("place", pa.int64()),
        ("count", pa.int64()),
    ]
)
MERGED = pa.schema(
    [
        ("url", pa.string()),
        ("canonical_hash", pa.string()),
        ("count", pa.int64()),
        ("first_variant", pa.string()),
        ("place", pa.int64()),
        ("runs", pa.int64()),
    ]
)
REFUSED = pa.schema([("row", pa.int64()), ("url", pa.string()), ("reason", pa.string())])


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a batch: rows for the part, rows for the side file, and how many were read."""

    table: Any
    refused: Any
    rows: int
    empty: int
    position: int


def answer(job: Job, file: int, batch: Batch) -> Answer:
    """The rows of a batch under the job's policy; `file` is the file's number among the inputs."""
    refused = list(batch.refused)
    rows = len(batch.rows) + len(refused) + batch.empty
    made = arrow.normalize(batch.urls, job.policy, hash=True)
    urls, hashes = made.field(0), made.field(1)
    if job.mode is Mode.DIFF:
        table, is_usable = _diff(job, batch, urls, hashes)
    else:
        is_usable = np.asarray(urls.is_valid())
        table = {Mode.DEDUPE: _run, Mode.NORMALIZE: _normalized, Mode.JOIN: _joined}[job.mode](
            job, file, batch, (urls, hashes)
        )
    refused += _refusals(job.policy, job.column, batch, is_usable)
    refused.sort(key=lambda each: each.row)
    return Answer(table, _refused_table(refused), rows, batch.empty, batch.position)


def _refusals(policy: Policy, column: str, batch: Batch, is_usable: NDArray[np.bool_]) -> list[Refused]:
    refused: list[Refused] = []
    for at in np.flatnonzero(~is_usable).tolist():
        buffer = batch.urls[at].as_buffer()
        raw: bytes = b"" if buffer is None else buffer.to_pybytes()
        reason = f"{column!r} is empty" if not raw else _why_refused(raw, policy)
        refused.append(refused_row(int(batch.rows[at]), raw, reason))
    return refused


def _why_refused(raw: bytes, policy: Policy) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "not UTF-8"
    try:
        normalize(text, policy)
    except InvalidUrl as error:
        return error.reason
    raise AssertionError(f"a column and a single call differ on {text!r}")


def _refused_table(refused: list[Refused]) -> Any:
    columns = [[getattr(each, name) for each in refused] for name in REFUSED.names]
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, REFUSED.types, strict=True)], REFUSED)


def _run(_job: Job, file: int, batch: Batch, made: tuple[Any, Any]) -> Any:
    """The batch as a run: sorted by hash, each hash once, with the number of its rows and the first of them."""
    given, rows, (urls, hashes) = batch.urls, batch.rows, made
    if urls.null_count:
        usable = urls.is_valid()
        given, urls, hashes = given.filter(usable), urls.filter(usable), hashes.filter(usable)
        rows = rows[np.asarray(usable)]
    firsts, counts = _groups(_hash_bytes(hashes))
    taken = pa.array(firsts)
    variants, urls = given.take(taken), urls.take(taken)
    variants = pc.if_else(pc.equal(variants, urls), pa.scalar(None, pa.string()), variants)
    places = (np.int64(file) << ROW_BITS) | rows[firsts]
    return pa.table([hashes.take(taken), urls, variants, pa.array(places), pa.array(counts)], schema=RUN)


def reduced(sorted_rows: Iterable[Any]) -> Iterator[Any]:
    """Rows of runs in the order of hash and place as rows of the answer: each hash once, its counts added up.

    `runs` is the number of rows that went into one.
    """
    held: Any = None  # the last row so far, which may go on in the next piece
    for piece in sorted_rows:
        if not len(piece):
            continue
        rows = _first_of_each(piece.combine_chunks())
        if held is not None:
            if held.column("canonical_hash")[0] == rows.column("canonical_hash")[0]:
                held, rows = _added(held, rows), rows.slice(1)
            if len(rows):
                yield held
        if len(rows):
            yield rows.slice(0, len(rows) - 1)
            held = rows.slice(len(rows) - 1)
    if held is not None:
        yield held


def _first_of_each(table: Any) -> Any:
    is_same = _equal_neighbours(_hash_bytes(table.column("canonical_hash").chunk(0)))
    starts = np.concatenate(([0], np.flatnonzero(~is_same) + 1))
    counts = table.column("count").to_numpy()
    firsts = table if len(starts) == len(table) else table.take(pa.array(starts))
    columns = {
        "url": firsts.column("url"),
        "canonical_hash": firsts.column("canonical_hash"),
        "count": pa.array(np.add.reduceat(counts, starts)),
        "first_variant": pc.coalesce(firsts.column("first_variant"), firsts.column("url")),
        "place": firsts.column("place"),
        "runs": pa.array(np.diff(np.append(starts, len(table)))),
    }
    return pa.table(columns, schema=MERGED)


def _added(row: Any, rows: Any) -> Any:
    """The row with the counts of the first of these rows added."""
    for name in ("count", "runs"):
        at, total = row.column_names.index(name), row.column(name)[0].as_py() + rows.column(name)[0].as_py()
        row = row.set_column(at, name, pa.array([total]))
    return row


def is_rising(hashes: Any, after: str) -> bool:
    """Is each hash of a chunk greater than the one before it, and the first greater than `after`?"""
    if not len(hashes):
        return True
    keys = _leading_bits(_hash_bytes(hashes))
    doubtful = np.flatnonzero(keys[1:] <= keys[:-1]).tolist()
    return hashes[0].as_py() > after and all(hashes[at].as_py() < hashes[at + 1].as_py() for at in doubtful)


def _hash_bytes(hashes: Any) -> NDArray[np.uint8]:
    _, _, data = hashes.buffers()
    if data is None or not len(hashes):
        return np.empty((0, HASH_LENGTH), np.uint8)
    start = hashes.offset * HASH_LENGTH
    return np.frombuffer(data, np.uint8)[start : start + len(hashes) * HASH_LENGTH].reshape(-1, HASH_LENGTH)


def _groups(hashes: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each hash in rising order: the first row that has it, and how many do."""
    if not len(hashes):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    keys = _leading_bits(hashes)
    order = np.argsort(keys)
    keys = keys[order]
    is_same = keys[1:] == keys[:-1]
    at = np.flatnonzero(is_same)
    if not np.array_equal(hashes[order[at]], hashes[order[at + 1]]):
        # Equal in their first 64 bits and yet different: somebody made them so.
        whole = np.ascontiguousarray(hashes).view(f"S{HASH_LENGTH}").ravel()
        order = np.argsort(whole)
        is_same = whole[order[1:]] == whole[order[:-1]]
    starts = np.concatenate(([0], np.flatnonzero(~is_same) + 1))
    counts = np.diff(np.append(starts, len(order)))
    return np.minimum.reduceat(order, starts), counts


def _equal_neighbours(hashes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Is each row equal to the one before it?"""
    words = np.ascontiguousarray(hashes).view(np.uint64)
    is_same: NDArray[np.bool_] = words[1:, 0] == words[:-1, 0]
    at = np.flatnonzero(is_same)
    is_same[at] = (words[at] == words[at + 1]).all(axis=1)
    return is_same


def _leading_bits(hashes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The first sixteen hex digits of each as a number."""
    halves = np.ascontiguousarray(hashes[:, :16]).view(">u8").astype(np.uint64)
    # Eight ASCII digits at once: a letter's low half is 9 less than its value, and bit 6 tells letters.
    letters = (halves >> np.uint64(6)) & np.uint64(0x0101010101010101)
    halves = (halves & np.uint64(0x0F0F0F0F0F0F0F0F)) + np.uint64(9) * letters
    for shift, mask in ((4, 0x00FF00FF00FF00FF), (8, 0x0000FFFF0000FFFF), (16, 0xFFFFFFFF)):
        halves = (halves | (halves >> np.uint64(shift))) & np.uint64(mask)
    leading: NDArray[np.uint64] = (halves[:, 0] << np.uint64(32)) | halves[:, 1]
    return leading


def _normalized(_job: Job, _file: int, batch: Batch, made: tuple[Any, Any]) -> Any:
    urls, hashes = made
    names = ["url", "canonical_hash", "original_url", "row"]
    table = pa.table([urls, hashes, batch.urls, pa.array(batch.rows)], names=names)
    return table.filter(urls.is_valid()) if urls.null_count else table


def _diff(job: Job, batch: Batch, urls: Any, hashes: Any) -> tuple[Any, NDArray[np.bool_]]:
    """The rows for which the policies differ; a row that one of them refuses has nothing there."""
    assert job.against is not None
    other = arrow.normalize(batch.urls, job.against, hash=True)
    other_urls, other_hashes = other.field(0), other.field(1)
    is_either = pc.or_(urls.is_valid(), other_urls.is_valid())
    differs = pc.invert(pc.fill_null(pc.equal(urls, other_urls), False))  # noqa: FBT003
    names = ["original_url", "before", "after", "before_hash", "after_hash", "row"]
    columns = [batch.urls, urls, other_urls, hashes, other_hashes, pa.array(batch.rows)]
    return pa.table(columns, names=names).filter(pc.and_(is_either, differs)), np.asarray(is_either)


def _joined(job: Job, _file: int, batch: Batch, made: tuple[Any, Any]) -> Any:
    table = batch.others
    for name, column in zip(arrow.FIELDS, made, strict=True):
        if name in table.column_names:
            raise BulkError(f"the input has a column {name!r} already; leave it out or rename it")
        table = table.append_column(name, column)
    if made[0].null_count and table.column(job.column).type == pa.string():
        # Bytes that are no text have no place in a column of texts; the side file has them, escaped.
        bad = [at for at in np.flatnonzero(~np.asarray(made[0].is_valid())).tolist() if not _is_utf8(batch.urls[at])]
        if bad:
            table = table.take(pa.array(np.delete(np.arange(len(table)), bad)))
    return table


def _is_utf8(text: Any) -> bool:
    buffer = text.as_buffer()
    try:
        (b"" if buffer is None else buffer.to_pybytes()).decode()
    except UnicodeDecodeError:
        return False
    return True
