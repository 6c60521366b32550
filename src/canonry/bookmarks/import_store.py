"""Uploaded bookmark files, stored until every row is imported, so that a crash loses none (contract B5, B8)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, func, insert, select, update

from canonry.bookmarks.bookmark import BookmarkFields, OnDuplicate, PutOutcome
from canonry.bookmarks.import_problems import RefusedRow, RowProblem
from canonry.bookmarks.put_page import put_page
from canonry.errors import ImportNotFound
from canonry.store.pinned_policies import BOOKMARK, require_pinned
from canonry.store.schema import bookmarks, import_rows, imports, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from canonry.bookmarks.bookmark import Bookmark, BookmarkUrl, PutResult
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

    row: int  # its number in the file
    given_url: str
    url: BookmarkUrl
    fields: BookmarkFields
    created_at: str


class RowOutcome(StrEnum):
    """The outcome of an imported row."""

    ADDED = "added"
    MERGED = "merged"  # its page was saved already, and the bookmark got something from the row, for example a tag
    KNOWN = "known"  # its page was saved already, with everything that the row says
    REFUSED = "refused"


_ROW_OUTCOMES = {
    PutOutcome.CREATED: RowOutcome.ADDED,
    PutOutcome.UPDATED: RowOutcome.MERGED,
    PutOutcome.NO_CHANGE: RowOutcome.KNOWN,
}


@dataclass(frozen=True, slots=True)
class ImportedRow:
    """The result of an imported row: the bookmark that now has its page, or the reason why the row was refused."""

    row: int
    url: str  # as the file has it
    outcome: RowOutcome
    bookmark_id: int | None
    bookmark_url: str | None  # None if the bookmark was deleted since
    reason: str


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

    async def list_latest(self, owner: int, limit: int = 10) -> list[BookmarkImport]:
        """Return the latest imports of the owner, newest first."""
        query = select(*_COLUMNS).where(imports.c.owner_id == owner).order_by(imports.c.id.desc()).limit(limit)
        rows = await self.database.read(lambda connection: connection.execute(query).all())
        return [_parse_row(row) for row in rows]

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
        """Save the rows after the first `begin` unless that was done before; return the outcomes of the saved ones.

        PolicyRepinned, and nothing is saved, if a rekey has begun since the URLs were made.
        """
        return await self.database.write(
            partial(_save_rows, import_id=import_id, owner=owner, begin=begin, rows=rows, now=stamp(now))
        )

    async def finish(self, import_id: int, refused: Sequence[RefusedRow], now: datetime, *, failure: str = "") -> None:
        """Mark an import as finished and delete its file."""
        stored = json.dumps([asdict(row) for row in refused], ensure_ascii=False)
        values = {"refused": stored, "failure": failure, "content": b"", "finished_at": stamp(now)}
        change = update(imports).where(imports.c.id == import_id, imports.c.finished_at.is_(None)).values(values)
        rows = [
            {
                "import_id": import_id,
                "row": each.row,
                "url": each.text,
                "outcome": RowOutcome.REFUSED,
                "reason": each.reason,
            }
            for each in refused
        ]

        def work(connection: Connection) -> None:
            if connection.execute(change).rowcount and rows:  # else another run of the same job has finished it
                connection.execute(insert(import_rows), rows)

        await self.database.write(work)

    async def list_rows(
        self,
        owner: int,
        import_id: int,
        *,
        after: int = 0,
        limit: int = 500,
        outcome: RowOutcome | None = None,
    ) -> list[ImportedRow]:
        """Return the results of the rows after a number, in the order of the file; ImportNotFound for an unknown id."""
        await self.get(owner, import_id)
        found = import_rows.c
        query = (
            select(found.row, found.url, found.outcome, found.bookmark_id, bookmarks.c.url, found.reason)
            .select_from(import_rows.outerjoin(bookmarks, bookmarks.c.id == import_rows.c.bookmark_id))
            .where(found.import_id == import_id, found.row > after)
            .order_by(found.row)
            .limit(limit)
        )
        if outcome is not None:
            query = query.where(found.outcome == outcome)

        def work(connection: Connection) -> list[ImportedRow]:
            return [
                ImportedRow(row, url, RowOutcome(stored), bookmark_id, bookmark_url, reason)
                for row, url, stored, bookmark_id, bookmark_url, reason in connection.execute(query)
            ]

        return await self.database.read(work)

    async def count_rows(self, import_id: int) -> dict[RowOutcome, int]:
        """Return how many rows had each outcome so far."""
        query = (
            select(import_rows.c.outcome, func.count())
            .where(import_rows.c.import_id == import_id)
            .group_by(import_rows.c.outcome)
        )

        def work(connection: Connection) -> dict[RowOutcome, int]:
            return {RowOutcome(outcome): count for outcome, count in connection.execute(query)}

        found = await self.database.read(work)
        return {outcome: found.get(outcome, 0) for outcome in RowOutcome}

    async def delete_rows(self, before: datetime) -> None:
        """Forget what happened to the rows of the imports that finished before a time."""
        old = select(imports.c.id).where(imports.c.finished_at < stamp(before))
        change = delete(import_rows).where(import_rows.c.import_id.in_(old))
        await self.database.write(lambda connection: connection.execute(change))


def _save_rows(
    connection: Connection, import_id: int, owner: int, begin: int, rows: Sequence[ImportRow], now: str
) -> Counter[PutOutcome]:
    lock = select(imports.c.done).where(imports.c.id == import_id).with_for_update()
    outcomes = Counter[PutOutcome]()
    if connection.execute(lock).scalar() != begin:
        return outcomes  # another run of the same job has saved them
    for policy in {row.url.policy for row in rows}:
        require_pinned(connection, BOOKMARK, policy)
    records: list[dict[str, object]] = []
    for row in rows:
        put = _save_row(connection, owner, row, now)
        outcomes[put.outcome] += 1
        records.append(
            {
                "import_id": import_id,
                "row": row.row,
                "url": row.given_url,
                "outcome": _ROW_OUTCOMES[put.outcome],
                "bookmark_id": put.bookmark.id,
            }
        )
    if records:
        connection.execute(insert(import_rows), records)
    values = {"done": begin + len(rows), "created": imports.c.created + outcomes[PutOutcome.CREATED]}
    connection.execute(update(imports).where(imports.c.id == import_id).values(values))
    return outcomes


def _save_row(connection: Connection, owner: int, row: ImportRow, now: str) -> PutResult:
    put = put_page(connection, owner, row.url, row.fields, now, OnDuplicate.RETURN, created_at=row.created_at)
    if put.outcome is PutOutcome.CREATED:
        return put
    added = find_missing_fields(put.bookmark, row.fields)
    return put_page(connection, owner, row.url, added, now, OnDuplicate.UPDATE) if added else put


def find_missing_fields(saved: Bookmark, given: BookmarkFields) -> BookmarkFields:
    """Return the fields that a saved bookmark gets from another one of its page: what it lacks, and more tags."""
    missing = BookmarkFields()
    if not saved.title and (title := given.get("title")):
        missing["title"] = title
    if not saved.description and (description := given.get("description")):
        missing["description"] = description
    if not saved.folder and (folder := given.get("folder")):
        missing["folder"] = folder
    if set(tags := given.get("tags", ())) - set(saved.tags):
        missing["tags"] = tuple(dict.fromkeys((*saved.tags, *tags)))
    if set(urls := given.get("archive_urls", ())) - set(saved.archive_urls):
        missing["archive_urls"] = tuple(dict.fromkeys((*saved.archive_urls, *urls)))
    if set(urls := given.get("episode_urls", ())) - set(saved.episode_urls):
        missing["episode_urls"] = tuple(dict.fromkeys((*saved.episode_urls, *urls)))
    return missing


def _parse_row(row: Sequence[Any]) -> BookmarkImport:
    values: dict[str, Any] = dict(zip((each.name for each in fields(BookmarkImport)), row, strict=True))
    values["exact_url"] = bool(values["exact_url"])
    values["refused"] = tuple(_parse_refused(each) for each in json.loads(values["refused"]))
    return BookmarkImport(**values)


def _parse_refused(stored: dict[str, Any]) -> RefusedRow:
    kind = RowProblem(stored.get("kind", RowProblem.OTHER))  # rows of earlier versions have none
    return RefusedRow(stored["row"], stored["text"], stored["reason"], kind)
