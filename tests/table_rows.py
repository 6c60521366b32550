"""Rows for tests that walk the schema, so that a new table cannot be forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, Float, Integer, LargeBinary, insert

if TYPE_CHECKING:
    from sqlalchemy import Column, Table


def insert_row(connection: Connection, table: Table, **values: object) -> object:
    """Insert a row with something in every column that must have a value; return its first key."""
    needed = [each for each in table.columns if not each.nullable and each is not table.autoincrement_column]
    row = {each.name: _make_value(each) for each in needed if each.server_default is None} | values
    key, *_ = table.primary_key.columns
    return connection.execute(insert(table).values(row).returning(key)).scalar_one()


def _make_value(column: Column[object]) -> object:
    if isinstance(column.type, Integer):
        return 1
    if isinstance(column.type, Float):
        return 0.1
    return b"x" if isinstance(column.type, LargeBinary) else "x"
