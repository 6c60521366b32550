"""The last id that each table has given, also if its row is deleted: a backup takes it along."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Table

_FIND_SEQUENCE = text("SELECT pg_get_serial_sequence(:table, 'id')")


def read_last_ids(connection: Connection, tables: Iterable[Table]) -> dict[str, int]:
    """Return the last id of each table that has given one; nothing for a SQLite store of an older version."""
    names = [table.name for table in tables if list(table.primary_key.columns.keys()) == ["id"]]
    if connection.dialect.name == "sqlite":
        if "sqlite_sequence" not in inspect(connection).get_table_names(sqlite_include_internal=True):
            return {}
        rows = connection.execute(text("SELECT name, seq FROM sqlite_sequence"))
        return {name: last for name, last in rows if name in names and last}
    found: dict[str, int] = {}
    for name in names:
        sequence = connection.execute(_FIND_SEQUENCE, {"table": name}).scalar()
        if sequence is not None:
            last, is_called = connection.execute(text(f"SELECT last_value, is_called FROM {sequence}")).one()  # noqa: S608
            found |= {name: last} if is_called else {}
    return found


def write_last_id(connection: Connection, table: str, last: int) -> None:
    """Let the ids of a table continue after this one; 0 starts at 1."""
    if connection.dialect.name == "sqlite":
        connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :table"), {"table": table})
        connection.execute(
            text("INSERT INTO sqlite_sequence (name, seq) VALUES (:table, :last)"), {"table": table, "last": last}
        )
        return
    connection.execute(
        text("SELECT setval(pg_get_serial_sequence(:table, 'id'), greatest(:last, 1), :is_called)"),
        {"table": table, "last": last, "is_called": last > 0},
    )
