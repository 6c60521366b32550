"""Versions of the tables: a new store is made, an old one is backed up and migrated, a newer one refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from canonry.errors import NewerStore, StoreError, mask_credentials
from canonry.store.schema import metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.store.database import Database

# One file of `migrations/versions` each, the newest last.
VERSIONS = ("0001", "0002", "0003", "0004", "0005", "0006")


def bring_up_to_date(database: Database, say: Callable[[str], object]) -> None:
    """Make, migrate or refuse the tables of a database."""
    version = database.read_now(version_of)
    if version == VERSIONS[-1]:
        return
    if version is None:
        database.write_now(_make)
    elif version in VERSIONS:
        from canonry.store.migrations.run import migrate

        migrate(database, version, say)
    else:
        raise NewerStore(
            f"{mask_credentials(database.url)}: made by a newer canonry (tables {version}); nothing was changed"
        )


def version_of(connection: Connection) -> str | None:
    """The version of the tables; None where there are none of ours yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def lock_tables(connection: Connection) -> None:
    """Let nobody else make or migrate the tables until this transaction ends."""
    if connection.dialect.name == "postgresql":  # on SQLite, BEGIN IMMEDIATE has done it
        connection.execute(text("SELECT pg_advisory_xact_lock(7203041)"))


def lock_rows(connection: Connection) -> None:
    """Let nobody else write until this transaction ends."""
    if connection.dialect.name == "postgresql":
        names = set(inspect(connection).get_table_names()) & set(metadata.tables)
        # Whoever merges a document begins with its feed: first wait for those.
        for name in sorted(names, key=lambda name: (name != "feeds", name)):
            connection.execute(text(f'LOCK TABLE "{name}" IN EXCLUSIVE MODE'))


def _make(connection: Connection) -> None:
    lock_tables(connection)  # two processes that start at once
    if version_of(connection) is not None:
        return
    strangers = sorted(set(inspect(connection).get_table_names()) & set(metadata.tables))
    if strangers:
        url = mask_credentials(connection.engine.url.render_as_string(hide_password=False))
        raise StoreError(f"{url}: not a store of canonry, but has tables named {', '.join(strangers)}")
    metadata.create_all(connection)
    connection.execute(
        text(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
            "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    )
    connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": VERSIONS[-1]})
