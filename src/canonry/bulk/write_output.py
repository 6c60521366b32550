"""Write the output and the side file of a job from its parts.

The output is one file, or a folder of partitions: files named by their order. A partition of a dedupe has the hashes of
a range of buckets, one of another mode has a range of rows, so that the partitions in order are the whole output.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from canonry.atomic_files import copy_permissions, move_into_place
from canonry.bulk.arrow import FIELDS
from canonry.bulk.disk_errors import get_first_line
from canonry.bulk.hash_groups import is_ascending
from canonry.bulk.job import MAX_PARTITIONS, ROW_BITS, BulkJob, Mode
from canonry.bulk.known_keys import make_dedupe_schema
from canonry.bulk.merge_runs import KEPT_PREFIX
from canonry.bulk.parquet_output import open_parquet_writer
from canonry.bulk.storage import (
    create_file,
    delete_file,
    is_remote,
    join_path,
    list_files,
    make_absolute,
    make_folder,
    move_folder,
    open_parquet,
    split_path,
)
from canonry.bulk.work_folder import FilePart, get_segment_paths, read_invalid_rows, read_part_rows
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    # Yields the merged rows of a range of buckets in the order of their keys.
    Merge: TypeAlias = "Callable[[range], Iterable[Any]]"

pa: Any = pyarrow  # pyarrow has no type stubs
pc: Any = pyarrow.compute
SUCCESS_NAME = "_SUCCESS"  # the last file of a folder: where it is, the folder is complete
PARTITION_NAME = "part-{:05}.parquet"
_OUTPUT_BYTES_PER_RUN_BYTE = 0.4  # measured, for choosing the number of partitions by size


@dataclass(frozen=True, slots=True)
class Partition:
    """A file of the output: a range of buckets in dedupe mode, of rows in other modes."""

    path: str
    span: range


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """A plan of the output: its parts, files and schema, the same on all machines."""

    parts: tuple[FilePart, ...]
    partitions: tuple[Partition, ...]
    schema: Any


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """The rows of a file: all, those with keys that were not known, and the part rows that were merged into them."""

    rows: int = 0
    new: int = 0
    merged: int = 0

    def add(self, other: WrittenRows) -> WrittenRows:
        """Return the sum of both."""
        return WrittenRows(self.rows + other.rows, self.new + other.new, self.merged + other.merged)


class ReportWritten(Protocol):
    """Called with the number of rows written, and how many of the `total` rows of all parts they stand for."""

    def __call__(self, rows: int, done: int, total: int) -> None: ...


class OutputEngine(Protocol):
    """Write the partitions of a plan; `report` is called with the rows that were added."""

    def write_partitions(self, job: BulkJob, plan: OutputPlan, report: Callable[[WrittenRows], None]) -> None: ...


def _make_schema(names: str, **types: Any) -> Any:
    """Return a schema of text columns, except where `types` names another type."""
    return pa.schema([(name, types.get(name, pa.string())) for name in names.split()])


_SCHEMAS = {
    Mode.NORMALIZE: _make_schema("url canonical_hash original_url file row", row=pa.int64()),
    Mode.DIFF: _make_schema("original_url before after before_hash after_hash file row", row=pa.int64()),
}
_INVALID_SCHEMA = _make_schema("file row url reason", row=pa.int64())


def write_output(
    job: BulkJob, engine: OutputEngine, parts: Sequence[FilePart], report_written: ReportWritten
) -> WrittenRows:
    """Write the output and return its number of rows.

    The output is moved into place after the side file: where the output exists, both are complete.
    """
    out = make_absolute(job.out, job.current_folder)
    plan = _plan_output(job, out, parts)
    total = sum(part.written for part in parts) + (0 if job.known is None else job.known.rows)
    written = WrittenRows()

    def report(more: WrittenRows) -> None:
        nonlocal written
        written = written.add(more)
        report_written(written.rows, written.merged, total)

    make_folder(split_path(plan.partitions[0].path)[0])
    if job.is_partitioned and is_remote(out):
        delete_file(join_path(out, SUCCESS_NAME))
    engine.write_partitions(job, plan, report)
    _write_side_file(job, parts)
    _publish(job, out, plan)
    return written


def _plan_output(job: BulkJob, out: str, parts: Sequence[FilePart]) -> OutputPlan:
    schema = _choose_schema(job, parts)
    metadata = {"canonry.policy": job.policy.id, "canonry.policy_digest": job.policy.digest, "canonry.mode": job.mode}
    if job.mode is Mode.DEDUPE:
        metadata["canonry.sorted_by"] = job.key_column
    size = 1 << job.bucket_bits if job.mode is Mode.DEDUPE else sum(part.written for part in parts)
    # Remote storage shows a file when it is complete; on a disk the output is made in a hidden folder.
    folder = None if is_remote(out) else job.staging_folder
    if not job.is_partitioned:
        path = out if folder is None else join_path(folder, "out.parquet")
        partitions = [Partition(path, range(size))]
    else:
        count = _count_partitions(job, parts)
        bounds = [number * size // count for number in range(count + 1)]
        folder = out if folder is None else join_path(folder, "out")
        partitions = [
            Partition(join_path(folder, PARTITION_NAME.format(number)), range(bounds[number], bounds[number + 1]))
            for number in range(count)
        ]
    return OutputPlan(tuple(parts), tuple(partitions), schema.with_metadata(metadata))


def _count_partitions(job: BulkJob, parts: Sequence[FilePart]) -> int:
    if job.partition_bytes is None:
        return job.partitions or 1
    run_bytes = sum(part.bytes for part in parts) + sum(
        group.bytes for group in (job.known.groups if job.known else ())
    )
    count = -(-int(run_bytes * _OUTPUT_BYTES_PER_RUN_BYTE) // job.partition_bytes)
    most = min(MAX_PARTITIONS, 1 << job.bucket_bits)
    return min(max(count, 1), most)


def write_partition(
    job: BulkJob, plan: OutputPlan, partition: Partition, merge: Merge, report: Callable[[WrittenRows], None]
) -> WrittenRows:
    """Write one file of the output; `merge` is called in dedupe mode."""
    written = WrittenRows()
    sorted_by = job.key_column if job.mode is Mode.DEDUPE else None
    with open_parquet_writer(partition.path, plan.schema, sorted_by=sorted_by) as output:
        for table, rows in _make_tables(job, plan, partition, merge):
            output.add(_add_missing_columns(table, plan.schema))
            report(rows)
            written = written.add(rows)
    return written


def _make_tables(
    job: BulkJob, plan: OutputPlan, partition: Partition, merge: Merge
) -> Iterator[tuple[Any, WrittenRows]]:
    """Yield the rows of a partition, and how many they are."""
    if job.mode is Mode.DEDUPE:
        files, last_key = pa.array(job.first_file_names, pa.string()), ""
        first_new_place = job.input_offset << ROW_BITS
        for merged in merge(partition.span):
            last_key = _check_order(merged.column("key"), last_key)
            new = pc.sum(pc.greater_equal(merged.column("place"), first_new_place)).as_py() or 0
            done = pc.sum(merged.column("runs")).as_py() or 0
            yield _make_output_rows(job, merged, files), WrittenRows(len(merged), int(new), int(done))
        return
    for file, table in read_part_rows(job, plan.parts, partition.span):
        rows = WrittenRows(len(table), len(table), len(table))
        if job.mode is Mode.JOIN:
            yield table, rows
        else:
            yield _insert_file_column(table, job.inputs[file], table.column_names.index("row")), rows


def _check_order(keys: Any, last_key: str) -> str:
    """Return the last of the keys; raise BulkError if they do not ascend, because readers rely on the order."""
    for chunk in keys.chunks:
        if not is_ascending(chunk, last_key):
            raise BulkError("The engine returned hashes out of order. Nothing was written. Please report this bug.")
        last_key = chunk[-1].as_py() if len(chunk) else last_key
    return last_key


def _make_output_rows(job: BulkJob, merged: Any, files: Any) -> Any:
    """Return merged rows as output rows: the place becomes a file name and a row number."""
    places = merged.column("place")
    columns = {
        "url": merged.column("url"),
        "canonical_hash": merged.column("key" if job.group_by is None else "canonical_hash"),
        "count": merged.column("count"),
        "first_variant": merged.column("first_variant"),
        "first_file": files.take(pc.shift_right(places, ROW_BITS)),
        "first_row": pc.bit_wise_and(places, (1 << ROW_BITS) - 1),
        job.key_column: merged.column("key"),
    }
    columns |= {name: merged.column(f"{KEPT_PREFIX}{name}") for name in job.kept_columns}
    schema = make_dedupe_schema(job)
    return pa.table([columns[name] for name in schema.names], names=schema.names).cast(schema)


def _add_missing_columns(table: Any, schema: Any) -> Any:
    """Return the table with all columns of the output, null where its file lacks one."""
    if table.column_names == schema.names:
        return table
    columns = [table.column(each.name) if each.name in table.column_names else pa.nulls(len(table)) for each in schema]
    return pa.table(columns, names=schema.names)


def _insert_file_column(table: Any, file: str, index: int) -> Any:
    return table.add_column(index, "file", pa.repeat(pa.scalar(file), len(table)))


def _choose_schema(job: BulkJob, parts: Sequence[FilePart]) -> Any:
    """Return the schema of the output; in join mode the columns of all inputs, then the two new ones."""
    if job.mode is Mode.DEDUPE:
        return make_dedupe_schema(job)
    if job.mode is not Mode.JOIN:
        return _SCHEMAS[job.mode]
    schemas = [_read_schema(path) for part in parts for path in get_segment_paths(job, part)]
    try:
        columns = pa.unify_schemas([schema.remove_metadata() for schema in schemas], promote_options="permissive")
    except pa.ArrowException as error:
        raise BulkError(f"The columns of the inputs have incompatible types: {get_first_line(error)}") from None
    fields = [field for field in columns if field.name not in FIELDS]
    return pa.schema([*fields, *((name, pa.string()) for name in FIELDS)])


def _read_schema(path: str) -> Any:
    with open_parquet(path) as opened:
        return opened.schema_arrow


def _write_side_file(job: BulkJob, parts: Sequence[FilePart]) -> None:
    path = make_absolute(job.invalid_file, job.current_folder)
    if not any(part.invalid for part in parts):
        delete_file(path)
        return
    new_file = path if is_remote(path) else join_path(job.staging_folder, "invalid.parquet")
    with open_parquet_writer(new_file, _INVALID_SCHEMA) as side_file:
        for file, table in read_invalid_rows(job, parts):
            side_file.add(_insert_file_column(table, job.inputs[file], 0))
    if new_file != path:
        copy_permissions(Path(path), Path(new_file))
        move_into_place(Path(new_file), Path(path))


def _publish(job: BulkJob, out: str, plan: OutputPlan) -> None:
    """Make the output appear under its name."""
    if not job.is_partitioned:
        if not is_remote(out):
            new_file = Path(plan.partitions[0].path)
            copy_permissions(Path(out), new_file)
            move_into_place(new_file, Path(out))
        return
    folder = split_path(plan.partitions[0].path)[0]
    written = {partition.path for partition in plan.partitions}
    for path in list_files(folder):
        if path not in written:  # of an earlier run with more partitions, or of a task that was repeated
            delete_file(path)
    with create_file(join_path(folder, SUCCESS_NAME)):
        pass
    if not is_remote(out):
        move_folder(Path(folder), Path(out))


def is_output_folder(path: str) -> bool:
    """Return whether a folder has nothing but the files of a partitioned output."""
    names = [split_path(each)[1] for each in list_files(path)]
    if not is_remote(path) and any(each.is_dir() for each in os.scandir(path)):
        return False
    return all(name == SUCCESS_NAME or (name.startswith("part-") and name.endswith(".parquet")) for name in names)
