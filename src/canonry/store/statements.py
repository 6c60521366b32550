"""Statements that are compiled once and run by their text: for those of every document that is most of their cost."""

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

    # `column IN (…)`, the values being one value with this name: the text does not depend on how many there are.
    OneOf: TypeAlias = Callable[[ColumnElement[Any], str], ColumnElement[bool]]

Row: TypeAlias = "tuple[object, ...]"


class Prepared:
    """A statement whose values have names; a list for a `OneOf` is given as a tuple."""

    def __init__(self, make: Callable[[OneOf], Executable], columns: Sequence[str] | None = None) -> None:
        self._make = make
        self._columns = columns  # of an INSERT
        self._texts: dict[str, _Text] = {}

    def rows(self, connection: Connection, **values: object) -> list[tuple[Any, ...]]:
        """All rows of a SELECT or of what a change returns."""
        text = self._text(connection.dialect)
        with DriverCursor(connection, text.sql) as cursor:
            cursor.execute(text.sql, text.bound(values))
            return list(cursor.fetchall())

    def run(self, connection: Connection, **values: object) -> None:
        """Do it once."""
        text = self._text(connection.dialect)
        with DriverCursor(connection, text.sql) as cursor:
            cursor.execute(text.sql, text.bound(values))

    def run_many(self, connection: Connection, rows: Iterable[Mapping[str, object]]) -> None:
        """Once for each row, if there are any; a row has no lists."""
        text = self._text(connection.dialect)
        if bound := list(map(text.bound_row, rows)):
            with DriverCursor(connection, text.sql) as cursor:
                cursor.executemany(text.sql, bound)

    def insert(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Insert these rows, if there are any; their values are in the order of the columns."""
        text = self._text(connection.dialect)
        if rows:
            columns = self._columns or ()
            bound = rows if text.is_positional else [dict(zip(columns, row, strict=True)) for row in rows]
            with DriverCursor(connection, text.sql) as cursor:
                cursor.executemany(text.sql, bound)

    def _text(self, dialect: Any) -> _Text:
        text = self._texts.get(dialect.name)
        if text is None:
            statement: Any = self._make(_is_in_json if dialect.name == "sqlite" else _is_any_of)
            text = self._texts[dialect.name] = _Text(
                statement.compile(dialect=dialect, column_keys=self._columns), self._columns
            )
        return text


class DriverCursor:
    """A cursor of the driver itself, whose errors are those SQLAlchemy would raise.

    SQLAlchemy would look at every statement and at every column of every result: more than the statement takes.
    """

    __slots__ = ("_made", "connection", "sql")

    def __init__(self, connection: Connection, sql: str) -> None:
        self.connection = connection
        self.sql = sql

    def __enter__(self) -> Any:
        self._made = self.connection.connection.cursor()
        return self._made

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        connection, cursor = self.connection, self._made
        try:
            if isinstance(error, connection.dialect.loaded_dbapi.Error):
                is_lost = connection.dialect.is_disconnect(error, connection.connection.driver_connection, cursor)
                if is_lost:
                    connection.invalidate(error)
                raise DBAPIError(self.sql, None, error, connection_invalidated=is_lost) from error
        finally:
            cursor.close()


class _Text:
    """SQL as a driver wants it."""

    def __init__(self, compiled: Any, columns: Sequence[str] | None) -> None:
        self.sql = str(compiled)
        self._order: list[str] | None = compiled.positiontup
        assert columns is None or self._order is None or self._order == [*columns], "not the order of the table"
        self.is_positional = self._order is not None
        binds: dict[str, BindParameter[Any]] = compiled.binds
        self._constants = {name: bind.effective_value for name, bind in binds.items() if not bind.required}
        self.bound_row: Callable[[Mapping[str, object]], Any] = dict
        if self._order is not None and len(self._order) > 1:
            self.bound_row = itemgetter(*self._order)

    def bound(self, values: Mapping[str, object]) -> Any:
        """The values in the order the text has them, or with its names."""
        if self._constants:
            values = {**self._constants, **values}
        if self._order is None:
            return {name: _listed(value) for name, value in values.items()}
        found = [values[name] for name in self._order]
        return tuple([json.dumps(value) if isinstance(value, tuple) else value for value in found])


def _listed(value: Any) -> Any:
    return [*cast_type("tuple[object, ...]", value)] if isinstance(value, tuple) else value


def _is_in_json(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    return column.in_(select(func.json_each(bindparam(name)).table_valued("value").c.value))


def _is_any_of(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    return column == func.any(cast(bindparam(name), ARRAY(column.type)))
