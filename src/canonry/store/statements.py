"""Prepared statements: SQLAlchemy compiles them once, the driver runs their text. Compiling was most of their cost."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias
from typing import cast as cast_type

from sqlalchemy import ARRAY, BindParameter, bindparam, cast, func, select
from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Executable

    # Make `column IN (…)` with one bound value for the whole list, so that the text does not depend on its length.
    InList: TypeAlias = Callable[[ColumnElement[Any], str], ColumnElement[bool]]

Row: TypeAlias = "tuple[object, ...]"


class Prepared:
    """A statement with named values; pass a tuple for an `InList`."""

    def __init__(self, make: Callable[[InList], Executable], columns: Sequence[str] | None = None) -> None:
        self._make = make
        self._columns = columns  # of an INSERT
        self._texts: dict[str, _Text] = {}

    def fetch_all(self, connection: Connection, **values: object) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT or a RETURNING clause."""
        text = self._get_text(connection.dialect)
        with DriverCursor(connection, text.sql) as cursor:
            cursor.execute(text.sql, text.bind(values))
            return list(cursor.fetchall())

    def run(self, connection: Connection, **values: object) -> None:
        """Run the statement once."""
        text = self._get_text(connection.dialect)
        with DriverCursor(connection, text.sql) as cursor:
            cursor.execute(text.sql, text.bind(values))

    def run_many(self, connection: Connection, rows: Iterable[Mapping[str, object]]) -> None:
        """Run the statement for each row; rows must not contain lists."""
        text = self._get_text(connection.dialect)
        if bound := list(map(text.bind_row, rows)):
            with DriverCursor(connection, text.sql) as cursor:
                cursor.executemany(text.sql, bound)

    def insert(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Insert the rows, whose values are in the order of the columns."""
        text = self._get_text(connection.dialect)
        if rows:
            columns = self._columns or ()
            bound = rows if text.is_positional else [dict(zip(columns, row, strict=True)) for row in rows]
            with DriverCursor(connection, text.sql) as cursor:
                cursor.executemany(text.sql, bound)

    def _get_text(self, dialect: Any) -> _Text:
        text = self._texts.get(dialect.name)
        if text is None:
            statement: Any = self._make(_make_json_condition if dialect.name == "sqlite" else _make_any_condition)
            text = self._texts[dialect.name] = _Text(
                statement.compile(dialect=dialect, column_keys=self._columns), self._columns
            )
        return text


class DriverCursor:
    """A cursor of the driver whose errors are raised as SQLAlchemy's.

    SQLAlchemy's own handling of statements and result columns costs more than these statements.
    """

    __slots__ = ("_cursor", "connection", "sql")

    def __init__(self, connection: Connection, sql: str) -> None:
        self.connection = connection
        self.sql = sql

    def __enter__(self) -> Any:
        self._cursor = self.connection.connection.cursor()
        return self._cursor

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        connection, cursor = self.connection, self._cursor
        try:
            if isinstance(error, connection.dialect.loaded_dbapi.Error):
                is_lost = connection.dialect.is_disconnect(error, connection.connection.driver_connection, cursor)
                if is_lost:
                    connection.invalidate(error)
                raise DBAPIError(self.sql, None, error, connection_invalidated=is_lost) from error
        finally:
            cursor.close()


class _Text:
    """The compiled SQL of one dialect and the order of its values."""

    def __init__(self, compiled: Any, columns: Sequence[str] | None) -> None:
        self.sql = str(compiled)
        self._order: list[str] | None = compiled.positiontup
        assert columns is None or self._order is None or self._order == [*columns], "columns in another order"
        self.is_positional = self._order is not None
        binds: dict[str, BindParameter[Any]] = compiled.binds
        self._constants = {name: bind.effective_value for name, bind in binds.items() if not bind.required}
        self.bind_row: Callable[[Mapping[str, object]], Any] = dict
        if self._order is not None and len(self._order) > 1:
            self.bind_row = itemgetter(*self._order)

    def bind(self, values: Mapping[str, object]) -> Any:
        """Return the values in the order of the text, or by name."""
        if self._constants:
            values = {**self._constants, **values}
        if self._order is None:
            return {name: _convert_tuple(value) for name, value in values.items()}
        found = [values[name] for name in self._order]
        return tuple([json.dumps(value) if isinstance(value, tuple) else value for value in found])


def _convert_tuple(value: Any) -> Any:
    return [*cast_type("tuple[object, ...]", value)] if isinstance(value, tuple) else value


def _make_json_condition(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    return column.in_(select(func.json_each(bindparam(name)).table_valued("value").c.value))


def _make_any_condition(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    return column == func.any(cast(bindparam(name), ARRAY(column.type)))
