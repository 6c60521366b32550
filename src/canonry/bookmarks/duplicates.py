"""Bookmarks that look the same: shown in groups, made one, and made several again (contract B7)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, func, insert, select, update

from canonry.bookmarks.bookmark import NoBookmark
from canonry.bookmarks.bookmark_rows import as_bookmark, bookmark_columns, searchable
from canonry.bookmarks.bookmark_store import get_now
from canonry.errors import CanonryError
from canonry.store.schema import bookmark_merges, bookmarks, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from canonry.bookmarks.bookmark import Bookmark
    from canonry.store.database import Database

_MERGES_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Group:
    """Bookmarks of one owner that lead to the same place; `id` names the group in URLs."""

    id: str
    bookmarks: tuple[Bookmark, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """Bookmarks that were made one, and can be made several again."""

    id: str
    kept_id: int
    merged_ids: tuple[int, ...]
    why: str
    created_at: str


class NoGroup(CanonryError):
    """There is nothing with this name to merge or to undo."""


class CannotUndo(CanonryError):
    """A bookmark has come since that is in the way."""


class DuplicateStore:
    """Groups of bookmarks that look the same."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def groups(self, owner: int, *, limit: int = 100) -> list[Group]:
        """The groups with most bookmarks first."""
        return await self.database.read(partial(_groups, owner=owner, limit=limit))

    async def merge(self, owner: int, group_id: str, now: datetime, *, keep: int | None = None) -> Bookmark:
        """Make one of a group: `keep`, or the oldest; it gets the tags, texts and archives of all."""
        return await self.database.write(
            partial(_merge_group, owner=owner, group_id=group_id, now=stamp(now), keep=keep)
        )

    async def undo(self, owner: int, group_id: str, now: datetime) -> list[Bookmark]:
        """Take the last merge of a group back: every row as it was."""
        return await self.database.write(partial(_undo, owner=owner, group_id=group_id, now=stamp(now)))

    async def merges(self, owner: int) -> list[Merged]:
        """The latest merges that can be undone."""
        return await self.database.read(partial(_merges, owner=owner))


def merge_now(
    connection: Connection, owner: int, kept_id: int, others: Sequence[int], *, now: str, why: str
) -> Bookmark:
    """Make bookmarks one, in a transaction: the others go for good but for the undo, which remembers every row."""
    rows = [_whole_row(connection, owner, each) for each in (kept_id, *others)]
    kept, *gone = rows
    connection.execute(
        insert(bookmark_merges).values(
            owner_id=owner,
            same_key=kept["same_key"],
            kept_id=kept_id,
            rows=json.dumps(rows, ensure_ascii=False),
            why=why,
            created_at=now,
        )
    )
    connection.execute(delete(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id.in_(others)))
    values = _together(kept, gone) | {"updated_at": now}
    values["haystack"] = searchable({**kept, **values})
    connection.execute(update(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id == kept_id).values(values))
    return get_now(connection, owner, kept_id)


def _together(kept: dict[str, Any], gone: list[dict[str, Any]]) -> dict[str, Any]:
    """What one bookmark says in place of several: nothing anybody wrote is dropped."""
    rows = [kept, *gone]
    lists = {
        name: json.dumps(
            list(dict.fromkeys(each for row in rows for each in json.loads(row[name]))), ensure_ascii=False
        )
        for name in ("tags", "archive_urls", "episode_urls")
    }
    texts = {name: next((row[name] for row in rows if row[name]), "") for name in ("title", "folder")}
    return {
        **lists,
        **texts,
        "description": "\n\n".join(dict.fromkeys(row["description"] for row in rows if row["description"])),
        "to_read": max(row["to_read"] for row in rows),
        "private": max(row["private"] for row in rows),
        "created_at": min(row["created_at"] for row in rows),
    }


def _groups(connection: Connection, owner: int, limit: int) -> list[Group]:
    is_kept = (bookmarks.c.owner_id == owner) & bookmarks.c.deleted_at.is_(None)
    several = (
        select(bookmarks.c.same_key)
        .where(is_kept)
        .group_by(bookmarks.c.same_key)
        .having(func.count() > 1)
        .order_by(func.count().desc(), bookmarks.c.same_key)
        .limit(limit)
    )
    found: dict[str, list[Bookmark]] = {key: [] for key in connection.execute(several).scalars()}
    query = select(bookmarks.c.same_key, *bookmark_columns).where(is_kept, bookmarks.c.same_key.in_(found))
    for key, *row in connection.execute(query.order_by(bookmarks.c.created_at, bookmarks.c.id)):
        found[key].append(as_bookmark(row))
    return [Group(key, tuple(members)) for key, members in found.items()]


def _merge_group(connection: Connection, owner: int, group_id: str, now: str, keep: int | None) -> Bookmark:
    query = (
        select(bookmarks.c.id)
        .where(bookmarks.c.owner_id == owner, bookmarks.c.same_key == group_id, bookmarks.c.deleted_at.is_(None))
        .order_by(bookmarks.c.created_at, bookmarks.c.id)
    )
    ids = list(connection.execute(query).scalars())
    if len(ids) < 2:
        raise NoGroup("there are no duplicates with this name; they may have been merged already")
    if keep is not None and keep not in ids:
        raise NoBookmark(keep)
    kept = ids[0] if keep is None else keep
    return merge_now(connection, owner, kept, [each for each in ids if each != kept], now=now, why="review")


def _undo(connection: Connection, owner: int, group_id: str, now: str) -> list[Bookmark]:
    query = (
        select(bookmark_merges.c.id, bookmark_merges.c.rows)
        .where(
            bookmark_merges.c.owner_id == owner,
            bookmark_merges.c.same_key == group_id,
            bookmark_merges.c.undone_at.is_(None),
        )
        .order_by(bookmark_merges.c.id.desc())
        .limit(1)
    )
    found = connection.execute(query).first()
    if found is None:
        raise NoGroup("there is no merge with this name to undo")
    # They may be from before the owner had a name.
    rows: list[dict[str, Any]] = [{**row, "owner_id": owner} for row in json.loads(found.rows)]
    _require_room(connection, owner, rows)
    connection.execute(delete(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id == rows[0]["id"]))
    connection.execute(insert(bookmarks), rows)
    connection.execute(update(bookmark_merges).where(bookmark_merges.c.id == found.id).values(undone_at=now))
    return [get_now(connection, owner, row["id"]) for row in rows]


def _require_room(connection: Connection, owner: int, rows: list[dict[str, Any]]) -> None:
    query = select(bookmarks.c.id).where(
        bookmarks.c.owner_id == owner,
        bookmarks.c.deleted_at.is_(None),
        bookmarks.c.key.in_([row["key"] for row in rows]),
        bookmarks.c.id != rows[0]["id"],
    )
    if (other := connection.execute(query).scalar()) is not None:
        raise CannotUndo(f"bookmark {other} has come since and has one of the URLs")


def _merges(connection: Connection, owner: int) -> list[Merged]:
    query = (
        select(bookmark_merges)
        .where(bookmark_merges.c.owner_id == owner, bookmark_merges.c.undone_at.is_(None))
        .order_by(bookmark_merges.c.id.desc())
        .limit(_MERGES_SHOWN)
    )
    return [
        Merged(
            row.same_key, row.kept_id, tuple(each["id"] for each in json.loads(row.rows)[1:]), row.why, row.created_at
        )
        for row in connection.execute(query)
    ]


def _whole_row(connection: Connection, owner: int, bookmark_id: int) -> dict[str, Any]:
    query = select(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id == bookmark_id)
    row = connection.execute(query.with_for_update()).mappings().first()  # what is made of it must be the latest
    if row is None:
        raise NoBookmark(bookmark_id)
    return dict(row)
