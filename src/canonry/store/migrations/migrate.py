"""Migrate an old store: back it up, then migrate in one transaction; a failure changes nothing."""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect, text

from canonry.atomic_files import create_private_folder, replace_file
from canonry.errors import StoreError, mask_credentials
from canonry.settings import get_data_folder
from canonry.store.backup import write_backup
from canonry.store.schema import metadata
from canonry.store.schema_versions import VERSIONS, lock_rows, lock_tables, read_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.store.database import Database

MIGRATIONS = Path(__file__).parent
# Alembic logs its set-up at the level INFO, which would fill the log of a worker.
logging.getLogger("alembic").setLevel(logging.WARNING)
# Alembic's `context` and `op` are globals of the process.
_alembic_lock = threading.Lock()


def migrate(database: Database, version: str, say: Callable[[str], object]) -> None:
    """Back up the store and migrate it to the newest version, unless another process just did.

    If that fails the backup is deleted: a service that is started again and again would fill the disk with copies.
    """
    file = _choose_backup_file(database)
    try:
        database.write_now(partial(_migrate, database=database, file=file, say=say, expected=version))
    except StoreError as error:
        if not file.exists() or database.read_now(read_version) != version:
            raise
        file.unlink()
        raise StoreError(f"{error}; the store is as it was before, and {file} was deleted") from error


def upgrade(connection: Connection, version: str = VERSIONS[-1]) -> None:
    """Run the migrations up to this version in the connection's transaction."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    with _alembic_lock:
        command.upgrade(config, version)


def _migrate(
    connection: Connection, *, database: Database, file: Path, say: Callable[[str], object], expected: str
) -> None:
    lock_tables(connection)
    version = read_version(connection)
    if version != expected:  # another process was faster
        return
    lock_rows(connection)
    try:
        if database.is_sqlite:
            _copy(str(database.engine.url.database), file)
        else:
            create_private_folder(file.parent)
            write_backup(connection, file)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"{mask_credentials(database.url)}: not migrated, because the backup to {file} failed: {error}."
            " Free disk space or fix the permissions."
        ) from error
    say(f"backed up the store to {file}; migrating its schema from {version} to {VERSIONS[-1]}")
    upgrade(connection)
    _verify(connection, mask_credentials(database.url))


def _choose_backup_file(database: Database) -> Path:
    """Return a file beside a SQLite store; for PostgreSQL, one in canonry's data folder on this machine."""
    suffix = f".before-{VERSIONS[-1]}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    name = database.engine.url.database or ""
    if database.is_sqlite:
        return Path(f"{name}{suffix}")
    return get_data_folder() / f"{Path(name).name}{suffix}.jsonl.gz"


def _copy(source: str, file: Path) -> None:
    """Copy with SQLite's backup API, which includes the write-ahead log; the file appears when it is complete."""
    with (
        replace_file(file, is_private=True) as part,
        closing(sqlite3.connect(source)) as old,
        closing(sqlite3.connect(part)) as new,
    ):
        new.execute("PRAGMA journal_mode=OFF")  # after an error the whole file is deleted
        old.backup(new)


def _verify(connection: Connection, name: str) -> None:
    """Raise, and so roll back, where the tables are not what this version expects."""
    inspector = inspect(connection)
    for table in metadata.tables.values():
        # `schema` adds generated columns with statements of their own: only PostgreSQL has them.
        found = {column["name"] for column in inspector.get_columns(table.name) if "computed" not in column}
        if found != set(table.columns.keys()):
            raise StoreError(
                f"{name}: not migrated: table {table.name} does not have the expected columns. Nothing was changed."
            )
    if read_version(connection) != VERSIONS[-1]:
        raise StoreError(f"{name}: not migrated: unexpected schema version. Nothing was changed.")
    if connection.dialect.name == "sqlite" and connection.execute(text("PRAGMA foreign_key_check")).first():
        raise StoreError(f"{name}: not migrated: a foreign key points to a missing row. Nothing was changed.")
