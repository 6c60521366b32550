"""Schema versions: create the tables of a new store, migrate an old one after a backup, refuse a newer one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from canonry.errors import NewerStore, StoreError, mask_credentials
from canonry.store.schema import metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.store.database import Database

# One file of `migrations/versions` for each, the newest last. Numbers that are missing here never existed.
VERSIONS = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    "0013",
    "0014",
    "0015",
    "0016",
    "0018",
    "0019",
    "0020",
    "0021",
    "0022",
    "0023",
    "0024",
    "0025",
    "0026",
    "0027",
    "0028",
    "0029",
    "0030",
    "0031",
    "0032",
    "0033",
)


def bring_up_to_date(database: Database, say: Callable[[str], object], *, must_exist: bool = False) -> None:
    """Create or migrate the tables of a database, or refuse to use it; with `must_exist`, refuse one without tables."""
    version = database.read_now(read_version)
    if version == VERSIONS[-1]:
        return
    if version is None and must_exist:
        raise make_missing(database.url)
    if version is None:
        database.write_now(_create)
    elif version in VERSIONS:
        from canonry.store.migrations.migrate import migrate

        migrate(database, version, say)
    else:
        raise NewerStore(
            f"{mask_credentials(database.url)}: created by a newer canonry"
            f" (schema {version}, this one knows {VERSIONS[-1]}). Nothing was changed. Upgrade canonry."
        )


def make_missing(url: str) -> StoreError:
    """Return the error for a database that is not there, or has no tables of canonry."""
    return StoreError(
        f"{mask_credentials(url)}: there is no store here. Check --db and the setting database_url (`canonry config`)."
        " `canonry feeds add`, `canonry bookmarks add`, `canonry crawl` and `canonry serve` create a store."
    )


def read_version(connection: Connection) -> str | None:
    """Return the schema version; None for a database without tables of canonry."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def lock_tables(connection: Connection) -> None:
    """Keep others from creating or migrating the tables until this transaction ends."""
    if connection.dialect.name == "postgresql":  # on SQLite, BEGIN IMMEDIATE is the lock
        connection.execute(text("SELECT pg_advisory_xact_lock(7203041)"))


def lock_rows(connection: Connection) -> None:
    """Keep others from writing until this transaction ends."""
    if connection.dialect.name == "postgresql":
        names = set(inspect(connection).get_table_names()) & set(metadata.tables)
        # Transactions that merge a feed document lock their feed first, so lock feeds first too.
        for name in sorted(names, key=lambda name: (name != "feeds", name)):
            connection.execute(text(f'LOCK TABLE "{name}" IN EXCLUSIVE MODE'))


def _create(connection: Connection) -> None:
    lock_tables(connection)  # two processes may start at once
    if read_version(connection) is not None:
        return
    foreign = sorted(set(inspect(connection).get_table_names()) & set(metadata.tables))
    if foreign:
        url = mask_credentials(connection.engine.url.render_as_string(hide_password=False))
        raise StoreError(
            f"{url}: not a store of canonry, but has tables of the same names: {', '.join(foreign)}."
            " Use another database."
        )
    metadata.create_all(connection)
    connection.execute(
        text(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
            "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    )
    connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": VERSIONS[-1]})
