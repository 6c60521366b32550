"""A bulk job from its files to its answer: parts, merge, output (contract S3)."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from canonry.atomic_files import move_into_place
from canonry.bulk.arrow import FIELDS
from canonry.bulk.batches import is_rising
from canonry.bulk.job import LEAST_MEMORY, ROW_BITS, Format, Job, Mode, Progress, Report, find_inputs, read_size
from canonry.bulk.output import told_in_one_line, writing
from canonry.bulk.parts import finished_part, refused_rows_of, rows_of, segments_of, work_folder
from canonry.core.normalize import resolve_policy
from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from canonry.bulk.batches import Answer
    from canonry.bulk.parts import Part
    from canonry.core.policy import Policy

pa: Any = pyarrow  # it has no types
pc: Any = pyarrow.compute
pq: Any = pyarrow.parquet


def _columns(names: str, **others: Any) -> Any:
    """Columns of text, unless they are named with another type."""
    return pa.schema([(name, others.get(name, pa.string())) for name in names.split()])


DEDUPED = _columns(
    "url canonical_hash count first_variant first_file first_row", count=pa.int64(), first_row=pa.int64()
)
SCHEMAS = {
    Mode.DEDUPE: DEDUPED,
    Mode.NORMALIZE: _columns("url canonical_hash original_url file row", row=pa.int64()),
    Mode.DIFF: _columns("original_url before after before_hash after_hash file row", row=pa.int64()),
}
INVALID = _columns("file row url reason", row=pa.int64())


class Engine(Protocol):
    """Who makes the parts of a job, and one sorted whole of their runs."""

    def make_parts(self, job: Job, files: Sequence[int], watch: Callable[[Answer], None]) -> Iterator[Part]: ...

    def merge(self, job: Job, parts: Sequence[Part]) -> Iterator[Any]: ...

    def close(self) -> None: ...


def run(
    inputs: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    mode: Mode | str = Mode.DEDUPE,
    column: str = "url",
    policy: Policy | str = "bookmark",
    against: Policy | str | None = None,
    format: Format | str | None = None,  # noqa: A002
    engine: str = "duckdb",
    master: str | None = None,
    memory: int | str = "1GB",
    overwrite: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Read files of URLs, write one Parquet file of answers; rows that are no URL go to a side file.

    A run that was killed is taken up by the same call: finished input files are not read again.
    """
    job = Job(
        find_inputs(inputs),
        os.fspath(out),
        resolve_policy(policy),
        Mode(mode),
        column,
        None if against is None else resolve_policy(against),
        None if format is None else Format(format),
        read_size(memory),
    )
    _refuse(job, overwrite=overwrite)
    chosen = _engine(engine, master)
    watch = _Watch(job, on_progress)
    with work_folder(job), closing(chosen):
        parts, kept = _parts(job, chosen, watch)
        with told_in_one_line(f"{job.out} cannot be written"):
            written, invalid = _finish(job, chosen, parts, watch)
    return Report(
        out=job.out,
        rows=sum(part.rows for part in parts),
        written=written,
        invalid=invalid,
        empty=sum(part.empty for part in parts),
        files=len(parts),
        kept=kept,
        invalid_file=job.invalid if invalid else None,
    )


def _refuse(job: Job, *, overwrite: bool) -> None:
    """What cannot become a job."""
    if (job.mode is Mode.DIFF) != (job.against is not None):
        raise BulkError("diff compares two policies, and only diff does: name the second one with --against")
    if job.memory < LEAST_MEMORY:
        raise BulkError(f"--memory must be at least {LEAST_MEMORY // 1000**2}MB")
    out = Path(job.out)
    if not out.parent.is_dir():
        raise BulkError(f"{out.parent}: no such folder")
    if out.is_dir():
        raise BulkError(f"{out} is a folder; name the Parquet file to write")
    for file in (job.out, job.invalid):
        if any(os.path.exists(file) and os.path.samefile(file, each) for each in job.inputs):
            raise BulkError(f"{file} is an input; write to another file")
        # A run that was killed between the two renames left the side file of this job.
        is_ours = file == job.invalid and job.work.exists()
        if os.path.lexists(file) and not overwrite and not is_ours:
            raise BulkError(f"{file} exists; --overwrite replaces it")


def _engine(name: str, master: str | None) -> Engine:
    if name == "duckdb":
        if master is not None:
            raise BulkError("--master is for --engine spark")
        from canonry.bulk.duckdb import DuckDB

        return DuckDB()
    if name == "spark":
        from canonry.bulk.spark import Spark

        return Spark(master)
    raise BulkError(f"no engine {name!r}: duckdb or spark")


class _Watch:
    """Tells how far the job is; rows that an earlier run had read do not count."""

    def __init__(self, job: Job, tell: Callable[[Progress], None] | None) -> None:
        self._tell = tell
        self._whole = sum(os.path.getsize(file) for file in job.inputs)
        self._of_files = len(job.inputs)
        self._files = self._rows = self._bytes = 0
        self._here = 0  # rows of the file that is being read

    def kept(self, part: Part) -> None:
        """An input file that an earlier run had done."""
        self._files += 1
        self._bytes += part.size
        self._say("reading", self._rows, self._bytes, self._whole)

    def part(self, part: Part) -> None:
        """An input file is done."""
        self._here, self._rows = 0, self._rows + part.rows
        self.kept(part)

    def batch(self, answer: Answer) -> None:
        """Some more rows of a file."""
        self._here += answer.rows
        self._say("reading", self._rows + self._here, self._bytes + answer.position, self._whole)

    def written(self, rows: int, seen: int, of: int) -> None:
        """Rows of the output; `seen` of the rows that parts hold are in them."""
        self._say("writing", rows, seen, of)

    def _say(self, stage: str, rows: int, done: int, of: int) -> None:
        if self._tell is not None:
            self._tell(Progress(stage, self._files, self._of_files, rows, done, of))


def _parts(job: Job, engine: Engine, watch: _Watch) -> tuple[list[Part], int]:
    """Every part, in the order of the inputs, and how many an earlier run had made."""
    with told_in_one_line("the inputs cannot be looked at"):
        kept = {part.file: part for part in (finished_part(job, file) for file in range(len(job.inputs))) if part}
    for part in kept.values():
        watch.kept(part)
    made: dict[int, Part] = {}
    for part in engine.make_parts(job, [file for file in range(len(job.inputs)) if file not in kept], watch.batch):
        made[part.file] = part
        watch.part(part)
    return [(kept | made)[file] for file in range(len(job.inputs))], len(kept)


def _finish(job: Job, engine: Engine, parts: list[Part], watch: _Watch) -> tuple[int, int]:
    """Write output and side file, the output last: where it is, all is; how many rows each has."""
    made, side = job.work / "out.parquet", job.work / "invalid.parquet"
    schema = _schema(job, parts)
    with writing(made, schema) as out:
        for table in _answers(job, engine, parts, watch):
            out.add(_under(table, schema))
    invalid = sum(part.invalid for part in parts)
    if invalid:
        with writing(side, INVALID) as refused:
            for file, table in refused_rows_of(job, parts):
                refused.add(_with_file(table, job.inputs[file], 0))
        move_into_place(side, Path(job.invalid))
    else:
        Path(job.invalid).unlink(missing_ok=True)
    move_into_place(made, Path(job.out))
    return out.rows, invalid


def _answers(job: Job, engine: Engine, parts: list[Part], watch: _Watch) -> Iterator[Any]:
    """The rows of the output, piece by piece."""
    rows, seen, of = 0, 0, sum(part.written for part in parts)
    if job.mode is Mode.DEDUPE:
        files, last = pa.array(job.inputs), ""
        for merged in engine.merge(job, parts):
            last = _last_hash(merged.column("canonical_hash"), last)
            rows, seen = rows + len(merged), seen + int(pc.sum(merged.column("runs")).as_py() or 0)
            watch.written(rows, seen, of)
            yield _deduped(merged, files)
        return
    for file, table in rows_of(job, parts):
        rows += len(table)
        watch.written(rows, rows, of)
        yield table if job.mode is Mode.JOIN else _with_file(table, job.inputs[file], table.column_names.index("row"))


def _last_hash(hashes: Any, before: str) -> str:
    """The last of the hashes, each of which is greater than the one before: who reads the output relies on it."""
    for chunk in hashes.chunks:
        if not is_rising(chunk, before):
            raise BulkError("the engine gave hashes out of order; nothing was written")
        before = chunk[-1].as_py() if len(chunk) else before
    return before


def _deduped(merged: Any, files: Any) -> Any:
    places = merged.column("place")
    columns = {
        "url": merged.column("url"),
        "canonical_hash": merged.column("canonical_hash"),
        "count": merged.column("count"),
        "first_variant": merged.column("first_variant"),
        "first_file": files.take(pc.shift_right(places, ROW_BITS)),
        "first_row": pc.bit_wise_and(places, (1 << ROW_BITS) - 1),
    }
    return pa.table(columns).cast(DEDUPED)


def _under(table: Any, schema: Any) -> Any:
    """The table with all columns of the output; null where its file lacks one."""
    if table.column_names == schema.names:
        return table
    columns = [table.column(each.name) if each.name in table.column_names else pa.nulls(len(table)) for each in schema]
    return pa.table(columns, names=schema.names)


def _with_file(table: Any, file: str, at: int) -> Any:
    return table.add_column(at, "file", pa.repeat(pa.scalar(file), len(table)))


def _schema(job: Job, parts: list[Part]) -> Any:
    if job.mode is not Mode.JOIN:
        return SCHEMAS[job.mode]
    schemas = [pq.read_schema(path) for part in parts for path in segments_of(job, part)]
    try:
        columns = pa.unify_schemas([schema.remove_metadata() for schema in schemas], promote_options="permissive")
    except pa.ArrowException as error:
        raise BulkError(f"the inputs do not fit together: {str(error).partition(chr(10))[0]}") from None
    # The answers come last, whatever columns a later file brings.
    fields = [field for field in columns if field.name not in FIELDS]
    return pa.schema([*fields, *((name, pa.string()) for name in FIELDS)])
