"""Uploaded bookmark files, stored until every row is imported, so that a crash loses none (contract B5, B8)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, insert, select, update

from canonry.bookmarks.bookmark import Address, OnDuplicate, PutOutcome
from canonry.bookmarks.bookmark_store import put_now
from canonry.errors import CanonryError
from canonry.store.schema import imports, stamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from canonry.store.database import Database


@dataclass(frozen=True, slots=True)
class Import:
    """How far an import has come; `refused` has the rows that cannot be kept, each with its reason."""

    id: int
    format: str
    exact_url: bool
    total: int
    done: int
    created: int
    refused: tuple[Mapping[str, Any], ...]
    failure: str
    started_at: str
    finished_at: str | None


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A bookmark of a file, ready to be kept."""

    address: Address
    texts: Mapping[str, Any]
    created_at: str


class NoImport(CanonryError):
    """The owner has no import with this id."""


_COLUMNS = [imports.c[name] for name in Import.__dataclass_fields__]


class ImportStore:
    """The imports of a database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def start(
        self, owner: int, form: str, content: bytes, total: int, now: datetime, *, exact_url: bool
    ) -> Import:
        """Take a file in; nothing of it is kept yet."""
        row = {"owner_id": owner, "format": form, "content": content, "total": total, "exact_url": int(exact_url)}
        query = insert(imports).values(**row, started_at=stamp(now)).returning(*_COLUMNS)
        return await self.database.write(lambda connection: _import(connection.execute(query).one()))

    async def get(self, owner: int, import_id: int) -> Import:
        query = select(*_COLUMNS).where(imports.c.owner_id == owner, imports.c.id == import_id)
        row = await self.database.read(lambda connection: connection.execute(query).first())
        if row is None:
            raise NoImport(f"no import {import_id}")
        return _import(row)

    async def content(self, import_id: int) -> tuple[int, Import, bytes] | None:
        """Whose import it is, how far it has come, and the file; None where there is nothing to do."""
        query = select(imports.c.owner_id, imports.c.content, *_COLUMNS).where(
            imports.c.id == import_id, imports.c.finished_at.is_(None)
        )
        found: Any = await self.database.read(lambda connection: connection.execute(query).first())
        return None if found is None else (found[0], _import(found[2:]), bytes(found[1]))

    async def unfinished(self) -> list[int]:
        query = select(imports.c.id).where(imports.c.finished_at.is_(None)).order_by(imports.c.id)
        return await self.database.read(lambda connection: list(connection.execute(query).scalars()))

    async def keep(self, import_id: int, owner: int, begin: int, rows: Sequence[ImportRow], now: datetime) -> int:
        """Keep the next rows, in one transaction, unless that was done; how many were new."""
        return await self.database.write(
            partial(_keep, import_id=import_id, owner=owner, begin=begin, rows=rows, now=stamp(now))
        )

    async def finish(
        self, import_id: int, refused: Sequence[Mapping[str, Any]], now: datetime, *, failure: str = ""
    ) -> None:
        """All of it is kept, but for the refused rows."""
        values = {"refused": json.dumps(list(refused), ensure_ascii=False), "failure": failure, "content": b""}
        change = update(imports).where(imports.c.id == import_id).values(**values, finished_at=stamp(now))
        await self.database.write(lambda connection: connection.execute(change))


def _keep(connection: Connection, import_id: int, owner: int, begin: int, rows: Sequence[ImportRow], now: str) -> int:
    lock = select(imports.c.done).where(imports.c.id == import_id).with_for_update()
    if connection.execute(lock).scalar() != begin:
        return 0  # another run of the same job has been here
    created = 0
    for row in rows:
        put = put_now(connection, owner, row.address, row.texts, now, OnDuplicate.RETURN, created_at=row.created_at)
        created += put.outcome is PutOutcome.CREATED
    values = {"done": begin + len(rows), "created": imports.c.created + created}
    connection.execute(update(imports).where(imports.c.id == import_id).values(values))
    return created


def _import(row: Sequence[Any]) -> Import:
    values: dict[str, Any] = dict(zip(Import.__dataclass_fields__, row, strict=True))
    values |= {"exact_url": bool(values["exact_url"]), "refused": tuple(json.loads(values["refused"]))}
    return Import(**values)
