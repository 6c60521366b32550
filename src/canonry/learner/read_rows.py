"""Read the rows to learn from: files, Arrow tables and Python values, as Arrow batches (contract L1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from glob import glob
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.disk_errors import get_first_line
from canonry.errors import LearnError
from canonry.learner.duckdb_engine import SCHEMA
from canonry.learner.read_cdx import read_cdx

if TYPE_CHECKING:
    from collections.abc import Generator

pa: Any = pyarrow  # pyarrow has no type stubs
_BATCH_ROWS = 65_536
# The names that a column may have: ours, then those of Common Crawl's index and of archives.
_NAMES = {
    "url": ("url",),
    "content_hash": ("content_hash", "content_digest", "digest", "text_hash"),
    "simhash": ("simhash",),
    "canonical_url": ("canonical_url", "canonical"),
    "fetched_at": ("fetched_at", "fetch_time", "timestamp"),
}
_STATUS_NAMES = ("fetch_status", "status")
_READERS = {
    ".parquet": "read_parquet($files, union_by_name = true)",
    ".pq": "read_parquet($files, union_by_name = true)",
    ".csv": "read_csv($files, all_varchar = true, header = true)",
    ".tsv": "read_csv($files, all_varchar = true, header = true, delim = '\t')",
    ".jsonl": "read_json($files, format = 'newline_delimited', union_by_name = true)",
    ".ndjson": "read_json($files, format = 'newline_delimited', union_by_name = true)",
}
_ARCHIVE_SUFFIXES = (".cdx", ".cdxj")
_COMPRESSIONS = (".gz", ".zst")


def read_rows(source: object) -> Iterator[Any]:
    """Yield Arrow batches with the columns of SCHEMA from a path, a table, or an iterable of rows or paths."""
    if isinstance(source, str | Path):
        yield from read_file(str(source))
    elif isinstance(source, Mapping):
        raise LearnError("Rows must be a list of mappings or tuples, not one mapping.")
    elif hasattr(source, "__arrow_c_stream__"):
        with _connect() as connection:
            connection.register("given", pa.table(source))
            yield from _select(connection, "given", "the table", {})
    elif isinstance(source, Iterable):
        yield from _read_values(iter(source))  # pyright: ignore[reportUnknownArgumentType]
    else:
        raise LearnError(f"Cannot learn from {type(source).__name__}: give a path, a table or rows.")


def _read_values(values: Iterator[Any]) -> Iterator[Any]:
    while chunk := list(islice(values, _BATCH_ROWS)):
        if all(isinstance(value, str | Path) for value in chunk):
            for value in chunk:
                yield from read_file(str(value))
            continue
        rows = [_make_row(value) for value in chunk]
        with _connect() as connection:
            connection.register("given", pa.table({name: _make_column(rows, name) for name in SCHEMA.names}))
            yield from _select(connection, "given", "the rows", {})


def _make_row(value: object) -> dict[str, object]:
    if isinstance(value, Mapping):
        row: dict[str, object] = dict(value)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, tuple | list):
        row = dict(zip(SCHEMA.names, value, strict=False))  # pyright: ignore[reportUnknownArgumentType]
    else:
        row = {name: getattr(value, name) for name in SCHEMA.names if hasattr(value, name)}
    if "url" not in row:
        raise LearnError(f"A row has no url: {value!r}"[:300])
    return {
        name: next((row[each] for each in names if row.get(each) is not None), None) for name, names in _NAMES.items()
    }


def _make_column(rows: list[dict[str, object]], name: str) -> Any:
    values = [row[name] for row in rows]
    if all(value is None for value in values):
        return pa.nulls(len(values), pa.string())
    try:
        if name == "simhash" and all(value is None or isinstance(value, int) for value in values):
            return pa.array([None if value is None else value % (1 << 64) for value in values], pa.uint64())  # type: ignore[operator]
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise LearnError(f"The rows have a wrong {name}: {get_first_line(error)}") from None


def read_file(pattern: str) -> Iterator[Any]:
    """Yield batches of a file or of the files that a pattern names."""
    suffix, paths = _get_suffix(pattern), [pattern]
    if any(letter in pattern for letter in "*?[") and not Path(pattern).exists():
        paths = sorted(glob(pattern, recursive=True))
        if not paths:
            raise LearnError(f"There is no file {pattern}.")
    elif not Path(pattern).exists():
        raise LearnError(f"{pattern} does not exist.")
    elif Path(pattern).is_file() and Path(pattern).stat().st_size == 0:
        raise LearnError(f"{pattern} is empty.")
    if suffix in _ARCHIVE_SUFFIXES:
        for path in paths:
            yield from read_cdx(path)
        return
    if suffix not in _READERS:
        known = ", ".join([*_READERS, *_ARCHIVE_SUFFIXES])
        raise LearnError(f"{pattern} has no known format. Name the file with one of {known}, or .gz after it.")
    with _connect() as connection:
        yield from _select(connection, _READERS[suffix], pattern, {"files": pattern})


def _get_suffix(path: str) -> str:
    lower = Path(path.lower())
    return Path(lower.stem).suffix if lower.suffix in _COMPRESSIONS else lower.suffix


@contextmanager
def _connect() -> Generator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "300MB"}) as connection:
        connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
        yield connection


def _select(connection: duckdb.DuckDBPyConnection, table: str, name: str, params: dict[str, str]) -> Iterator[Any]:
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM {table}", params or None).fetchall()
        columns = {row[0]: row[1] for row in described}
        if list(columns) == ["json"]:
            raise LearnError(f'{name} has no JSON object on each line, like {{"url": …, "content_hash": …}}.')
        spelled = {column.lower(): column for column in columns}
        found = {wanted: next((spelled[each] for each in names if each in spelled), None)
                 for wanted, names in _NAMES.items()}  # fmt: skip
        if found["url"] is None or not (found["content_hash"] or found["simhash"] or found["canonical_url"]):
            raise LearnError(
                f"{name} needs a column url and a column content_hash, simhash or canonical_url; "
                f"it has {', '.join(columns) or 'none'}."
            )
        selected = ", ".join(_cast(wanted, column, columns) for wanted, column in found.items())
        status = next((spelled[each] for each in _STATUS_NAMES if each in spelled), None)
        where = (
            f"WHERE TRY_CAST({_quote(status)} AS INT) IS NULL OR TRY_CAST({_quote(status)} AS INT) = 200"
            if status
            else ""
        )
        result: Any = connection.sql(f"SELECT {selected} FROM {table} {where}", params=params or None)
        for batch in result.to_arrow_reader(_BATCH_ROWS):
            yield pa.table(batch.columns, names=SCHEMA.names).cast(SCHEMA)
    except duckdb.Error as error:
        raise LearnError(f"{name} cannot be read: {_describe(error)}") from None


def _describe(error: duckdb.Error) -> str:
    """Return one line; of an error in a CSV file the number of the line and what is wrong with it."""
    paragraph = str(error).partition("\n\n")[0].splitlines()
    if len(paragraph) > 1 and "CSV Error" in paragraph[0]:
        return f"{paragraph[0]}: {paragraph[-1]}"  # between the two, the text of the line
    return get_first_line(error)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cast(wanted: str, column: str | None, types: dict[str, str]) -> str:
    """Return the expression for a column; text that is empty counts as missing."""
    if column is None:
        kind = {"simhash": "UBIGINT", "fetched_at": "DOUBLE"}.get(wanted, "VARCHAR")
        return f"NULL::{kind}"
    name, kind = _quote(column), types[column]
    if wanted == "simhash":
        if kind == "VARCHAR":  # decimal, or 16 hex digits
            return (
                f"CASE WHEN regexp_full_match({name}, '[0-9A-Fa-f]{{16}}') THEN TRY_CAST('0x' || {name} AS UBIGINT) "
                f"ELSE TRY_CAST({name} AS UBIGINT) END"
            )
        return f"(({name}::HUGEINT + 18446744073709551616) % 18446744073709551616)::UBIGINT"
    if wanted == "fetched_at":
        if kind == "VARCHAR":
            return f"coalesce(TRY_CAST({name} AS DOUBLE), epoch(TRY_CAST({name} AS TIMESTAMPTZ)))"
        return f"{name}::DOUBLE" if not kind.startswith(("TIMESTAMP", "DATE")) else f"epoch({name})"
    return f"nullif({name}::VARCHAR, '')"
