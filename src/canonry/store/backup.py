"""Backup and restore: one file format for both databases, gzipped JSON lines.

First a header, `{"canonry": …, "tables": "0003", "created_at": …, "last_ids": {…}}`, then a line for each row,
`{"table": …, "row": {…}}` with bytes as base64, and last `{"rows": …, "sha256": …}` over all lines
before it, so that a truncated or changed file is refused.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import stat
import zlib
from base64 import b64decode, b64encode
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from sqlalchemy import Connection, LargeBinary, MetaData, Table, delete, func, insert, inspect, select, text, update
from sqlalchemy.exc import DataError, IntegrityError

import canonry
from canonry.atomic_files import replace_file
from canonry.errors import StoreError, mask_credentials
from canonry.store.backup_values import find_bad_value
from canonry.store.last_ids import read_last_ids, write_last_id
from canonry.store.schema import change_numbers, metadata, stamp
from canonry.store.schema_versions import VERSIONS, lock_rows, lock_tables, read_version

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from sqlalchemy import Column

    from canonry.store.database import Database

    # Called with the amount done and the total.
    Progress = Callable[[int, int], object]

_BATCH = 1000
_MAX_LINE_BYTES = 256 * 1024 * 1024
# Compressed rows are rarely smaller than a twentieth. A file that exceeds both is a decompression bomb.
_MAX_RATIO = 200
_MAX_PLAIN_BYTES = 256 * 1024 * 1024
_MAX_QUOTED_CHARACTERS = 50
_MAX_REASON_CHARACTERS = 200
# Tables in which a store that was just created may have rows.
_TABLES_OF_EMPTY_STORE = {"cache", "change_numbers", "pinned_policies", "runs"}
# The store of a backup may have gone on afterwards. Readers that know its later changes must not take new ones for
# these, so numbering continues so much later.
_SKIPPED_CHANGE_NUMBERS = 1_000_000


@dataclass(frozen=True, slots=True)
class BackupHeader:
    """The first line of a backup."""

    canonry: str
    tables: str
    created_at: str
    last_ids: Mapping[str, int] = field(default_factory=dict[str, int])  # by table; older backups have none


def backup(database: Database, file: str | Path, progress: Progress = lambda _done, _of: None) -> int:
    """Write a consistent snapshot of every row to a file, which appears when it is complete; return the row count."""
    return database.read_now(partial(write_backup, file=Path(file), progress=progress))


def restore(
    database: Database, file: str | Path, *, replace: bool = False, progress: Progress = lambda _done, _of: None
) -> int:
    """Fill the store from a backup of this or an older version, all or nothing; return the row count."""
    verify_backup(Path(file))
    return database.write_now(partial(_restore, file=Path(file), replace=replace, progress=progress))


def read_header(file: str | Path) -> BackupHeader:
    """Return the header of a backup; StoreError for another file, or a backup of a newer canonry."""
    with _open_backup(Path(file)) as reader:
        return reader.header


def write_backup(connection: Connection, file: Path, progress: Progress = lambda _done, _of: None) -> int:
    """Like `backup`, inside a transaction that has not read anything yet or has locked the tables."""
    if connection.dialect.name == "postgresql" and connection.get_execution_options().get("canonry_reads"):
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
    version = read_version(connection)
    tables = _reflect_tables(connection)
    total = sum(connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables)
    header = {
        "canonry": canonry.__version__,
        "tables": version,
        "created_at": stamp(datetime.now(UTC)),
        "last_ids": read_last_ids(connection, tables),
    }
    with replace_file(file, is_private=True) as part, _open_gzip(part) as out:
        writer = _BackupWriter(out)
        writer.write_line(header)
        rows = 0
        for table in tables:
            with closing(_read_rows(connection, table)) as found:
                for row in found:
                    writer.write_line({"table": table.name, "row": row})
                    rows += 1
                    if rows % _BATCH == 0:
                        progress(rows, total)
        writer.write_line({"rows": rows, "sha256": writer.sha256.hexdigest()})
    return rows


class _BackupWriter:
    """Write lines and compute their checksum."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out = out
        self.sha256 = hashlib.sha256()

    def write_line(self, value: object) -> None:
        line = json.dumps(value, separators=(",", ":")).encode() + b"\n"
        self.sha256.update(line)
        self.out.write(line)


class _BackupReader:
    """Read a backup and compare its last line, the checksum, with the lines before."""

    def __init__(self, file: Path, raw: IO[bytes], lines: IO[bytes]) -> None:
        self.file = file
        self._raw = raw
        self._lines = lines
        self._sha256 = hashlib.sha256()
        self._size = os.fstat(raw.fileno()).st_size
        self._bytes_left = _MAX_PLAIN_BYTES + _MAX_RATIO * self._size
        self.header = self._read_header()

    @property
    def position(self) -> tuple[int, int]:
        """The bytes read so far, and the size of the file."""
        return self._raw.tell(), self._size

    def read_rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each row with the name of its table."""
        rows = 0
        while True:
            before = self._sha256.hexdigest()
            line = self._read_record()
            if "sha256" in line:
                if line != {"rows": rows, "sha256": before} or self._read_line():
                    raise self.make_error("checksum mismatch")
                return
            if not isinstance(line.get("table"), str) or not isinstance(line.get("row"), dict):
                raise self.make_error("a line is not a row")
            rows += 1
            yield line["table"], line["row"]

    def make_error(self, reason: str) -> StoreError:
        return StoreError(f"{self.file}: the backup is damaged: {reason}. Nothing was restored.")

    def _read_header(self) -> BackupHeader:
        header = self._read_record()
        last_ids = header.get("last_ids", {})
        is_header = all(isinstance(header.get(name), str) for name in ("canonry", "tables", "created_at"))
        if not is_header or not isinstance(last_ids, dict):
            raise _make_foreign_error(self.file)
        ids = {name: last for name, last in cast("dict[str, Any]", last_ids).items() if isinstance(last, int)}
        found = BackupHeader(header["canonry"], header["tables"], header["created_at"], ids)
        if found.tables not in VERSIONS:
            raise StoreError(
                f"{self.file}: written by canonry {_quote(found.canonry)} with a newer schema ({_quote(found.tables)})."
                " Nothing was restored. Upgrade canonry."
            )
        return found

    def _read_record(self) -> dict[str, Any]:
        line = self._read_line()
        if not line.endswith(b"\n"):
            raise self.make_error("the file is truncated")
        self._sha256.update(line)
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise _make_foreign_error(self.file)
        return cast("dict[str, Any]", value)

    def _read_line(self) -> bytes:
        try:
            line = self._lines.readline(min(_MAX_LINE_BYTES, self._bytes_left))
        except gzip.BadGzipFile:
            raise _make_foreign_error(self.file) from None
        except (EOFError, OSError, zlib.error) as error:
            raise self.make_error(str(error)) from None
        self._bytes_left -= len(line)
        if not self._bytes_left:
            raise self.make_error(f"it decompresses to more than {_MAX_RATIO} times its size")
        return line


def _make_foreign_error(file: Path) -> StoreError:
    return StoreError(f"{file}: not a backup of canonry, or damaged. Nothing was restored.")


@contextmanager
def _open_backup(file: Path) -> Generator[_BackupReader]:
    try:
        if not stat.S_ISREG(file.stat().st_mode):  # the file is read twice, which a pipe cannot be
            raise StoreError(f"{file}: not a regular file. Nothing was restored.")
        raw = file.open("rb")
    except OSError as error:
        raise StoreError(f"{file}: cannot be read: {error.strerror}") from None
    with raw, gzip.open(raw) as lines:
        yield _BackupReader(file, raw, cast("IO[bytes]", lines))


def verify_backup(file: Path) -> None:
    """Read the whole file before anything is changed, so that a damaged file changes nothing."""
    with _open_backup(file) as reader:
        for _ in reader.read_rows():
            pass


def _restore(connection: Connection, file: Path, *, replace: bool, progress: Progress) -> int:
    with _open_backup(file) as reader:
        lock_tables(connection)
        lock_rows(connection)
        if not replace and not _is_empty(connection):
            name = mask_credentials(connection.engine.url.render_as_string(hide_password=False))
            raise StoreError(
                f"{name}: the store is not empty. Nothing was restored. Add --replace to replace its content."
            )
        _clear(connection, reader.header.tables)
        tables = {table.name: table for table in _reflect_tables(connection)}
        rows = 0
        for name, group in groupby(reader.read_rows(), key=lambda pair: pair[0]):
            if name not in tables:
                raise reader.make_error(f"unknown table {_quote(name)}")
            for batch in _split_into_batches(group):
                _insert_batch(connection, tables[name], batch, reader)
                rows += len(batch)
                progress(*reader.position)
    if reader.header.tables != VERSIONS[-1]:
        from canonry.store.migrations.migrate import upgrade

        upgrade(connection)
    _continue_ids(connection, reader.header.last_ids)
    connection.execute(update(change_numbers).values(last=change_numbers.c.last + _SKIPPED_CHANGE_NUMBERS))
    return rows


def _is_empty(connection: Connection) -> bool:
    return all(
        connection.execute(select(text("1")).select_from(table).limit(1)).first() is None
        for table in metadata.sorted_tables
        if table.name not in _TABLES_OF_EMPTY_STORE
    )


def _clear(connection: Connection, version: str) -> None:
    """Leave empty tables of this schema version."""
    if version == VERSIONS[-1]:
        for table in reversed(metadata.sorted_tables):
            connection.execute(delete(table))
        return
    from canonry.store.migrations.migrate import upgrade

    metadata.drop_all(connection)
    connection.execute(text("DELETE FROM alembic_version"))
    upgrade(connection, version)


def _insert_batch(connection: Connection, table: Table, batch: list[dict[str, Any]], reader: _BackupReader) -> None:
    for row in batch:
        if row.keys() != {column.name for column in _list_columns(table)}:
            raise reader.make_error(f"a row of {table.name} has unexpected columns")
        for column in _list_columns(table):
            if problem := find_bad_value(column, row[column.name]):
                raise reader.make_error(f"{column.name} of a row of {table.name} {problem}")
        for name in _find_binary_columns(table):
            try:
                row[name] = None if row[name] is None else b64decode(row[name], validate=True)
            except (TypeError, ValueError):
                raise reader.make_error(f"bytes of {table.name} are not base64") from None
    try:
        connection.execute(insert(table), batch)
    except (IntegrityError, DataError) as error:
        reason = " ".join(str(error.orig).split())[:_MAX_REASON_CHARACTERS]
        raise reader.make_error(f"rows of {table.name} contradict each other ({reason})") from None


def _continue_ids(connection: Connection, last_ids: Mapping[str, int]) -> None:
    """Continue the ids of every table after the last one that the old store gave, even if its row is deleted."""
    current = read_last_ids(connection, metadata.sorted_tables)
    for table in metadata.sorted_tables:
        if table.autoincrement_column is not None:
            largest = connection.execute(select(func.max(table.autoincrement_column))).scalar() or 0
            write_last_id(connection, table.name, max(largest, current.get(table.name, 0), last_ids.get(table.name, 0)))


def _reflect_tables(connection: Connection) -> list[Table]:
    """Return our tables as they are in this database, which may be an older version; parents before children."""
    names = set(inspect(connection).get_table_names()) & set(metadata.tables)
    found = MetaData()
    found.reflect(connection, only=sorted(names))
    return found.sorted_tables


def _read_rows(connection: Connection, table: Table) -> Generator[dict[str, Any]]:
    as_bytes = _find_binary_columns(table)
    query = select(*_list_columns(table)).order_by(*table.primary_key.columns).execution_options(yield_per=_BATCH)
    with connection.execute(query) as result:
        for row in result.mappings():
            values = cast("dict[str, Any]", dict(row))
            for name in as_bytes:
                values[name] = None if values[name] is None else b64encode(values[name]).decode()
            yield values


def _list_columns(table: Table) -> list[Column[Any]]:
    """Return the columns of a reflected table without those that the database makes from others."""
    return [column for column in table.columns if column.computed is None]


def _quote(text: str) -> str:
    """Return a text of a file for a message: on one line, and not longer than a line."""
    return repr(text[:_MAX_QUOTED_CHARACTERS])


def _find_binary_columns(table: Table) -> list[str]:
    return [column.name for column in _list_columns(table) if isinstance(column.type, LargeBinary)]


def _split_into_batches(group: Iterator[tuple[str, dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for _, row in group:
        batch.append(row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


@contextmanager
def _open_gzip(file: Path) -> Generator[IO[bytes]]:
    """Open a file for compressed writing; equal content makes equal bytes."""
    with file.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as out:
        yield cast("IO[bytes]", out)
