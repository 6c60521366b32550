"""The output of an earlier dedupe, into which a new one merges its rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.disk_errors import get_first_line
from canonry.bulk.hash_groups import parse_leading_digits, view_hash_bytes
from canonry.bulk.job import MAX_FILES, ROW_BITS
from canonry.bulk.merge_runs import KEPT_PREFIX, make_merge_schema
from canonry.bulk.storage import is_folder, list_files, open_parquet
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from canonry.bulk.job import BulkJob

pa: Any = pyarrow  # pyarrow has no type stubs
pc: Any = pyarrow.compute
_LEADING_BITS = 64


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """A row group of a known file: its keys and its size in memory."""

    path: str
    number: int
    first_key: str
    last_key: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The row groups of an earlier output in the order of their keys, and the files that its rows came from."""

    groups: tuple[KnownGroup, ...]
    first_files: tuple[str, ...]

    @property
    def rows(self) -> int:
        """The number of known keys."""
        return sum(group.rows for group in self.groups)


def load_known_keys(job: BulkJob, path: str) -> KnownKeys:
    """Return the known keys of a file or of a folder of files; their rows are read later.

    Raises BulkError if they were made with another policy or other columns.
    """
    files = list_files(path, ".parquet") if is_folder(path) else [path]
    groups: list[KnownGroup] = []
    first_files: dict[str, None] = {}
    for file in files:
        try:
            with open_parquet(file) as opened:
                _check_known_file(job, file, opened.schema_arrow)
                for number in range(opened.num_row_groups):
                    groups.append(_describe_group(job, file, number, opened.metadata.row_group(number)))
                    names = opened.read_row_group(number, columns=["first_file"]).column(0)
                    first_files.update(dict.fromkeys(names.unique().to_pylist()))
        except (OSError, pa.ArrowException) as error:
            raise BulkError(f"--known {file} cannot be read: {get_first_line(error)}") from None
    if not files:
        raise BulkError(f"--known {path}: the folder has no Parquet files.")
    if len(first_files) + len(job.inputs) >= MAX_FILES:
        raise BulkError(f"--known {path} and the inputs have more than {MAX_FILES} files.")
    groups.sort(key=lambda group: group.first_key)
    if any(group.last_key >= after.first_key for group, after in pairwise(groups)):
        raise BulkError(f"--known {path} is not sorted by {job.key_column}, as the output of a dedupe is.")
    return KnownKeys(tuple(groups), tuple(first_files))


def _check_known_file(job: BulkJob, file: str, schema: Any) -> None:
    metadata: dict[bytes, bytes] = schema.metadata or {}
    digest = metadata.get(b"canonry.policy_digest", b"").decode()
    if digest != job.policy.digest:
        policy = metadata.get(b"canonry.policy", b"an unknown policy").decode()
        raise BulkError(f"--known {file} was made with {policy}, this job uses {job.policy.id}. Use the same policy.")
    if schema.names != make_dedupe_schema(job).names:
        raise BulkError(
            f"--known {file} has the columns {', '.join(schema.names)}. The output of this job would have "
            f"{', '.join(make_dedupe_schema(job).names)}."
        )


def make_dedupe_schema(job: BulkJob) -> Any:
    """Return the columns of the output of a dedupe."""
    names = ["url", "canonical_hash", "count", "first_variant", "first_file", "first_row"]
    names += [] if job.group_by is None else [job.key_column]
    numbers = {"count", "first_row"}
    return pa.schema([(name, pa.int64() if name in numbers else pa.string()) for name in (*names, *job.kept_columns)])


def _describe_group(job: BulkJob, file: str, number: int, metadata: Any) -> KnownGroup:
    columns = {metadata.column(each).path_in_schema: each for each in range(metadata.num_columns)}
    statistics = metadata.column(columns[job.key_column]).statistics
    if statistics is None or not statistics.has_min_max:
        raise BulkError(f"--known {file} has no statistics of {job.key_column}. It must be the output of a dedupe.")
    return KnownGroup(file, number, statistics.min, statistics.max, metadata.num_rows, metadata.total_byte_size)


def measure_known_buckets(known: KnownKeys, bits: int) -> NDArray[np.int64]:
    """Return about how many bytes of known rows belong to each bucket: hashes are spread evenly."""
    sizes = np.zeros(1 << bits, np.int64)
    for group in known.groups:
        first, last = _find_bucket(group.first_key, bits), _find_bucket(group.last_key, bits)
        sizes[first : last + 1] += group.bytes // (last + 1 - first) + 1
    return sizes


def _find_bucket(key: str, bits: int) -> int:
    return int(key[: _LEADING_BITS // 4], 16) >> (_LEADING_BITS - bits)


def read_known_rows(job: BulkJob, buckets: range) -> Iterator[Any]:
    """Yield the known rows of neighbouring buckets, as rows to merge."""
    if job.known is None:
        return
    shift = _LEADING_BITS - job.bucket_bits
    files = pa.array(job.known.first_files, pa.string())
    for group in job.known.groups:
        first, last = (_find_bucket(key, job.bucket_bits) for key in (group.first_key, group.last_key))
        if last < buckets.start or first >= buckets.stop:
            continue
        with open_parquet(group.path) as opened:
            table = opened.read_row_group(group.number).combine_chunks()
        numbers = parse_leading_digits(view_hash_bytes(table.column(job.key_column).chunk(0))) >> np.uint64(shift)
        start, stop = np.searchsorted(numbers, np.array([buckets.start, buckets.stop], np.uint64)).tolist()
        yield _make_merge_rows(job, table.slice(start, stop - start), files)


def _make_merge_rows(job: BulkJob, table: Any, files: Any) -> Any:
    numbers = pc.index_in(table.column("first_file"), files).cast(pa.int64())
    places = pc.bit_wise_or(pc.shift_left(numbers, ROW_BITS), table.column("first_row"))
    columns = {"key": table.column(job.key_column), "place": places}
    columns |= {name: table.column(name) for name in ("url", "first_variant", "count", "canonical_hash")}
    columns |= {f"{KEPT_PREFIX}{name}": table.column(name) for name in job.kept_columns}
    schema = make_merge_schema(job)
    return pa.table([columns[name] for name in schema.names], schema=schema).combine_chunks()
