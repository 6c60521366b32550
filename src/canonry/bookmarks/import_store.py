"""Uploaded bookmark files, stored until every row is imported, so that a crash loses none (contract B5, B8)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, insert, select, update

from canonry.bookmarks.bookmark import OnDuplicate, PutOutcome
from canonry.bookmarks.bookmark_store import put_bookmark
from canonry.bookmarks.import_problems import RefusedRow, RowProblem
from canonry.errors import ImportNotFound
from canonry.store.schema import imports, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from canonry.bookmarks.bookmark import BookmarkFields, BookmarkUrl
    from canonry.store.database import Database


@dataclass(frozen=True, slots=True)
class BookmarkImport:
    """An import and its progress; `failure` says why the whole file could not be read, if that happened."""

    id: int
    format: str
    exact_url: bool
    total: int
    done: int
    created: int
    refused: tuple[RefusedRow, ...]
    failure: str
    started_at: str
    finished_at: str | None


@dataclass(frozen=True, slots=True)
class PendingImport:
    """An import that is not finished, with its owner and the bytes of the file."""

    owner: int
    progress: BookmarkImport
    content: bytes


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A bookmark of a file, ready to be saved."""

    url: BookmarkUrl
    fields: BookmarkFields
    created_at: str


_COLUMNS = [imports.c[each.name] for each in fields(BookmarkImport)]


class ImportStore:
    """The imports of a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def start(
        self, owner: int, file_format: str, content: bytes, total: int, now: datetime, *, exact_url: bool
    ) -> BookmarkImport:
        """Store a file; none of its bookmarks is saved yet."""
        row = {"owner_id": owner, "format": file_format, "content": content, "total": total}
        query = insert(imports).values(**row, exact_url=int(exact_url), started_at=stamp(now)).returning(*_COLUMNS)
        return await self.database.write(lambda connection: _parse_row(connection.execute(query).one()))

    async def get(self, owner: int, import_id: int) -> BookmarkImport:
        """Return an import of the owner; ImportNotFound if there is none with this id."""
        query = select(*_COLUMNS).where(imports.c.owner_id == owner, imports.c.id == import_id)
        row = await self.database.read(lambda connection: connection.execute(query).first())
        if row is None:
            raise ImportNotFound(import_id)
        return _parse_row(row)

    async def get_pending(self, import_id: int) -> PendingImport | None:
        """Return an import and its file for a background job; None if it is finished."""
        query = select(imports.c.owner_id, imports.c.content, *_COLUMNS).where(
            imports.c.id == import_id, imports.c.finished_at.is_(None)
        )
        found = await self.database.read(lambda connection: connection.execute(query).first())
        if found is None:
            return None
        owner, content, *row = tuple(found)
        return PendingImport(owner, _parse_row(row), bytes(content))

    async def list_unfinished(self) -> list[int]:
        """Return the ids of the imports that are not finished, oldest first."""
        query = select(imports.c.id).where(imports.c.finished_at.is_(None)).order_by(imports.c.id)
        return await self.database.read(lambda connection: list(connection.execute(query).scalars()))

    async def save_rows(
        self, import_id: int, owner: int, begin: int, rows: Sequence[ImportRow], now: datetime
    ) -> Counter[PutOutcome]:
        """Save the rows after the first `begin` unless that was done before; return the outcomes of the saved ones."""
        return await self.database.write(
            partial(_save_rows, import_id=import_id, owner=owner, begin=begin, rows=rows, now=stamp(now))
        )

    async def finish(self, import_id: int, refused: Sequence[RefusedRow], now: datetime, *, failure: str = "") -> None:
        """Mark an import as finished and delete its file."""
        stored = json.dumps([asdict(row) for row in refused], ensure_ascii=False)
        values = {"refused": stored, "failure": failure, "content": b"", "finished_at": stamp(now)}
        change = update(imports).where(imports.c.id == import_id).values(values)
        await self.database.write(lambda connection: connection.execute(change))


def _save_rows(
    connection: Connection, import_id: int, owner: int, begin: int, rows: Sequence[ImportRow], now: str
) -> Counter[PutOutcome]:
    lock = select(imports.c.done).where(imports.c.id == import_id).with_for_update()
    outcomes = Counter[PutOutcome]()
    if connection.execute(lock).scalar() != begin:
        return outcomes  # another run of the same job has saved them
    for row in rows:
        put = put_bookmark(connection, owner, row.url, row.fields, now, OnDuplicate.RETURN, created_at=row.created_at)
        outcomes[put.outcome] += 1
    values = {"done": begin + len(rows), "created": imports.c.created + outcomes[PutOutcome.CREATED]}
    connection.execute(update(imports).where(imports.c.id == import_id).values(values))
    return outcomes


def _parse_row(row: Sequence[Any]) -> BookmarkImport:
    values: dict[str, Any] = dict(zip((each.name for each in fields(BookmarkImport)), row, strict=True))
    values["exact_url"] = bool(values["exact_url"])
    values["refused"] = tuple(_parse_refused(each) for each in json.loads(values["refused"]))
    return BookmarkImport(**values)


def _parse_refused(stored: dict[str, Any]) -> RefusedRow:
    kind = RowProblem(stored.get("kind", RowProblem.OTHER))  # rows of earlier versions have none
    return RefusedRow(stored["row"], stored["text"], stored["reason"], kind)
