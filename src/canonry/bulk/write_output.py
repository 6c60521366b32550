"""Write the output and the side file of a job from its parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from canonry.atomic_files import move_into_place
from canonry.bulk.arrow import FIELDS
from canonry.bulk.disk_errors import get_first_line
from canonry.bulk.hash_groups import is_ascending
from canonry.bulk.job import ROW_BITS, BulkJob, Mode
from canonry.bulk.parquet_output import open_parquet_writer
from canonry.bulk.work_folder import FilePart, get_segment_paths, read_invalid_rows, read_part_rows
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    Merge: TypeAlias = "Callable[[BulkJob, Sequence[FilePart]], Iterator[Any]]"

pa: Any = pyarrow  # pyarrow has no type stubs
pc: Any = pyarrow.compute
pq: Any = pyarrow.parquet


class ReportWritten(Protocol):
    """Called with the number of rows written, and how many of the `total` rows of all parts they stand for."""

    def __call__(self, rows: int, done: int, total: int) -> None: ...


def _make_schema(names: str, **types: Any) -> Any:
    """Return a schema of text columns, except where `types` names another type."""
    return pa.schema([(name, types.get(name, pa.string())) for name in names.split()])


_DEDUPE_SCHEMA = _make_schema(
    "url canonical_hash count first_variant first_file first_row", count=pa.int64(), first_row=pa.int64()
)
_SCHEMAS = {
    Mode.DEDUPE: _DEDUPE_SCHEMA,
    Mode.NORMALIZE: _make_schema("url canonical_hash original_url file row", row=pa.int64()),
    Mode.DIFF: _make_schema("original_url before after before_hash after_hash file row", row=pa.int64()),
}
_INVALID_SCHEMA = _make_schema("file row url reason", row=pa.int64())


def write_output(job: BulkJob, merge: Merge, parts: Sequence[FilePart], report_written: ReportWritten) -> int:
    """Write the output and return its number of rows.

    The output is moved into place after the side file: where the output exists, both are complete.
    """
    new_output, new_side_file = job.work_folder / "out.parquet", job.work_folder / "invalid.parquet"
    schema = _choose_schema(job, parts)
    schema = schema.with_metadata({"canonry.policy": job.policy.id, "canonry.policy_digest": job.policy.digest})
    with open_parquet_writer(new_output, schema, is_sorted=job.mode is Mode.DEDUPE) as output:
        for table in _make_tables(job, merge, parts, report_written):
            output.add(_add_missing_columns(table, schema))
    if any(part.invalid for part in parts):
        with open_parquet_writer(new_side_file, _INVALID_SCHEMA) as side_file:
            for file, table in read_invalid_rows(job, parts):
                side_file.add(_insert_file_column(table, job.inputs[file], 0))
        move_into_place(new_side_file, Path(job.invalid_file))
    else:
        Path(job.invalid_file).unlink(missing_ok=True)
    move_into_place(new_output, Path(job.out))
    return output.rows


def _make_tables(job: BulkJob, merge: Merge, parts: Sequence[FilePart], report_written: ReportWritten) -> Iterator[Any]:
    """Yield the rows of the output."""
    rows, done, total = 0, 0, sum(part.written for part in parts)
    if job.mode is Mode.DEDUPE:
        files, last_hash = pa.array(job.inputs), ""
        for merged in merge(job, parts):
            last_hash = _check_order(merged.column("canonical_hash"), last_hash)
            rows, done = rows + len(merged), done + int(pc.sum(merged.column("runs")).as_py() or 0)
            report_written(rows, done, total)
            yield _split_places(merged, files)
        return
    for file, table in read_part_rows(job, parts):
        rows += len(table)
        report_written(rows, rows, total)
        if job.mode is Mode.JOIN:
            yield table
        else:
            yield _insert_file_column(table, job.inputs[file], table.column_names.index("row"))


def _check_order(hashes: Any, last_hash: str) -> str:
    """Return the last of the hashes; raise BulkError if they do not ascend, because readers rely on the order."""
    for chunk in hashes.chunks:
        if not is_ascending(chunk, last_hash):
            raise BulkError("The engine returned hashes out of order. Nothing was written. Please report this bug.")
        last_hash = chunk[-1].as_py() if len(chunk) else last_hash
    return last_hash


def _split_places(merged: Any, files: Any) -> Any:
    """Return merged rows as output rows: the place becomes a file name and a row number."""
    places = merged.column("place")
    columns = {
        "url": merged.column("url"),
        "canonical_hash": merged.column("canonical_hash"),
        "count": merged.column("count"),
        "first_variant": merged.column("first_variant"),
        "first_file": files.take(pc.shift_right(places, ROW_BITS)),
        "first_row": pc.bit_wise_and(places, (1 << ROW_BITS) - 1),
    }
    return pa.table(columns).cast(_DEDUPE_SCHEMA)


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
    if job.mode is not Mode.JOIN:
        return _SCHEMAS[job.mode]
    schemas = [pq.read_schema(path) for part in parts for path in get_segment_paths(job, part)]
    try:
        columns = pa.unify_schemas([schema.remove_metadata() for schema in schemas], promote_options="permissive")
    except pa.ArrowException as error:
        raise BulkError(f"The columns of the inputs have incompatible types: {get_first_line(error)}") from None
    fields = [field for field in columns if field.name not in FIELDS]
    return pa.schema([*fields, *((name, pa.string()) for name in FIELDS)])
