"""Bulk jobs on one machine: threads make the parts, DuckDB merges them, in as much memory as it may use.

A part is made of runs that are sorted by hash, so a range of hashes lies in few row groups of each. The
merge goes range by range: each fits into memory, and their results in order are the whole in order.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.batches import reduced
from canonry.bulk.parts import make_part, segments_of
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from canonry.bulk.batches import Answer
    from canonry.bulk.job import Job
    from canonry.bulk.parts import Part

pa: Any = pyarrow  # it has no types
# What a process has in memory before it reads a row, and what DuckDB does not count.
_BASE = 300 * 1000**2
_RANGE_SHARE = 5  # DuckDB gets so many times the memory that the rows of a range take
_MOST_RANGES = 4096
_PIECE = 1 << 14  # rows that are handed over at once
# Sorting spills to disk and reads back what it needs; a hash table that holds texts does not do that as well.
_SORTED = """
SELECT canonical_hash, url, first_variant, place, count FROM read_parquet($files)
WHERE canonical_hash >= $low AND canonical_hash < $high ORDER BY canonical_hash, place
"""


class DuckDB:
    """The engine for one machine."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or len(os.sched_getaffinity(0))

    def make_parts(self, job: Job, files: Sequence[int], watch: Callable[[Answer], None]) -> Iterator[Part]:
        """The parts of these input files, one after the other; the batches of each on all threads."""
        for file in files:
            yield make_part(job, file, threads=self._threads, watch=watch)

    def close(self) -> None:
        """Nothing is left behind."""

    def merge(self, job: Job, parts: Sequence[Part]) -> Iterator[Any]:
        """The runs of all parts as one, in rising order of hashes, piece by piece."""
        paths = [str(path) for part in parts for path in segments_of(job, part)]
        if not paths:
            return
        memory = max(job.memory - _BASE, job.memory // 4)
        spill = job.work / "spill"
        options: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{memory}B",
            "temp_directory": str(spill),
            "threads": str(self._threads),
        }
        ranges = min(sum(part.bytes for part in parts) * _RANGE_SHARE // memory + 1, _MOST_RANGES)
        with duckdb.connect(":memory:", config=options) as connection:
            for number in range(ranges):
                bounds = {"low": _bound(number, ranges), "high": _bound(number + 1, ranges)}
                try:
                    found: Any = connection.sql(_SORTED, params={"files": paths, **bounds})
                    yield from reduced(_tables(found.to_arrow_reader(_PIECE)))
                except duckdb.Error as error:
                    raise _told(error, job) from None


def _tables(reader: Any) -> Iterator[Any]:
    for batch in reader:
        yield pa.Table.from_batches([batch])


def _bound(number: int, ranges: int) -> str:
    """Where a range of hashes begins; behind the last is what no hex digit reaches."""
    return "g" if number == ranges else f"{(number << 32) // ranges:08x}"


def _told(error: duckdb.Error, job: Job) -> BulkError:
    said = str(error).partition("\n")[0]
    if isinstance(error, duckdb.OutOfMemoryException):
        return BulkError(f"{job.memory // 1000**2} MB are not enough for the merge; give more with --memory ({said})")
    return BulkError(f"the merge stopped: {said}; the same command goes on from here")
