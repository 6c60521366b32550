"""Find duplicate bookmarks, merge them, and undo a merge (contract B7)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, func, insert, select, update

from canonry.bookmarks.bookmark import Bookmark  # noqa: TC001 (pydantic resolves the annotations of responses)
from canonry.bookmarks.bookmark_rows import bookmark_columns, dump_json, make_search_text, parse_row
from canonry.bookmarks.bookmark_store import load_bookmark
from canonry.errors import BookmarkNotFound, DuplicatesNotFound, MergeNotFound, UndoConflict
from canonry.store.schema import bookmark_merges, bookmarks, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from canonry.store.database import Database

    _Columns = dict[str, Any]  # all columns of a bookmark: what the undo of a merge restores

_MAX_LISTED_MERGES = 50


class MergeReason(StrEnum):
    """Why bookmarks were merged."""

    REVIEW = "review"  # a user merged a group of duplicates
    EXPANSION = "expansion"  # the target of a short link was saved already
    POLICY = "policy"  # a rekey gave both the same URL


@dataclass(frozen=True, slots=True)
class DuplicateGroup:
    """Bookmarks of one owner with the same normalized URL, oldest first; `id` names the group in URLs."""

    id: str
    bookmarks: tuple[Bookmark, ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge that can be undone; `id` is the id of the group."""

    id: str
    kept_id: int
    merged_ids: tuple[int, ...]
    why: MergeReason
    created_at: str


class DuplicateStore:
    """The duplicate bookmarks of a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def list_groups(self, owner: int, *, limit: int = 100) -> list[DuplicateGroup]:
        """Return groups of duplicates, the largest first."""
        return await self.database.read(partial(_list_groups, owner=owner, limit=limit))

    async def merge(self, owner: int, group_id: str, now: datetime, *, keep: int | None = None) -> Bookmark:
        """Merge a group into the bookmark `keep`, or into the oldest; return the merged bookmark."""
        return await self.database.write(
            partial(_merge_group, owner=owner, group_id=group_id, now=stamp(now), keep=keep)
        )

    async def undo(self, owner: int, group_id: str, now: datetime) -> list[Bookmark]:
        """Undo the last merge of a group; return its bookmarks as they were before."""
        return await self.database.write(partial(_undo, owner=owner, group_id=group_id, now=stamp(now)))

    async def list_merges(self, owner: int) -> list[Merge]:
        """Return the latest merges that can be undone, newest first."""
        return await self.database.read(partial(_list_merges, owner=owner))


def merge_bookmarks(
    connection: Connection, owner: int, kept_id: int, others: Sequence[int], *, now: str, why: MergeReason
) -> Bookmark:
    """Merge the others into one bookmark and delete them; every row is stored for an undo."""
    rows = [_lock_row(connection, owner, each) for each in (kept_id, *others)]
    kept, *deleted = rows
    connection.execute(
        insert(bookmark_merges).values(
            owner_id=owner,
            same_key=kept["same_key"],
            kept_id=kept_id,
            rows=dump_json(rows),
            why=why.value,
            created_at=now,
        )
    )
    connection.execute(delete(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id.in_(others)))
    values = _combine([kept, *deleted]) | {"updated_at": now}
    values["haystack"] = make_search_text({**kept, **values})
    connection.execute(update(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id == kept_id).values(values))
    return load_bookmark(connection, owner, kept_id)


def _combine(rows: list[_Columns]) -> _Columns:
    """Combine the columns that people wrote; title and folder come from the first row that has one."""
    lists = {
        name: dump_json(list(dict.fromkeys(each for row in rows for each in json.loads(row[name]))))
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


def _list_groups(connection: Connection, owner: int, limit: int) -> list[DuplicateGroup]:
    is_saved = (bookmarks.c.owner_id == owner) & bookmarks.c.deleted_at.is_(None)
    duplicate_keys = (
        select(bookmarks.c.same_key)
        .where(is_saved)
        .group_by(bookmarks.c.same_key)
        .having(func.count() > 1)
        .order_by(func.count().desc(), bookmarks.c.same_key)
        .limit(limit)
    )
    found: dict[str, list[Bookmark]] = {key: [] for key in connection.execute(duplicate_keys).scalars()}
    query = select(bookmarks.c.same_key, *bookmark_columns).where(is_saved, bookmarks.c.same_key.in_(found))
    for key, *row in connection.execute(query.order_by(bookmarks.c.created_at, bookmarks.c.id)):
        found[key].append(parse_row(row))
    return [DuplicateGroup(key, tuple(members)) for key, members in found.items()]


def _merge_group(connection: Connection, owner: int, group_id: str, now: str, keep: int | None) -> Bookmark:
    query = (
        select(bookmarks.c.id)
        .where(bookmarks.c.owner_id == owner, bookmarks.c.same_key == group_id, bookmarks.c.deleted_at.is_(None))
        .order_by(bookmarks.c.created_at, bookmarks.c.id)
    )
    ids = list(connection.execute(query).scalars())
    if len(ids) < 2:
        raise DuplicatesNotFound(group_id)
    if keep is not None and keep not in ids:
        raise BookmarkNotFound(keep)
    kept_id = ids[0] if keep is None else keep
    others = [each for each in ids if each != kept_id]
    return merge_bookmarks(connection, owner, kept_id, others, now=now, why=MergeReason.REVIEW)


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
        raise MergeNotFound(group_id)
    # The rows may have been stored before the first user was added, under another owner id.
    rows: list[_Columns] = [{**row, "owner_id": owner} for row in json.loads(found.rows)]
    kept_id: int = rows[0]["id"]  # `merge_bookmarks` stores the kept bookmark first
    _require_unused_keys(connection, owner, [row["key"] for row in rows], except_id=kept_id)
    connection.execute(delete(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id == kept_id))
    restored = [_restore_row(connection, row) for row in rows]
    connection.execute(update(bookmark_merges).where(bookmark_merges.c.id == found.id).values(undone_at=now))
    return [load_bookmark(connection, owner, each) for each in restored]


def _restore_row(connection: Connection, row: _Columns) -> int:
    """Insert a row again and return its id: a new one if an older canonry has given its id to another bookmark."""
    is_taken = connection.execute(select(bookmarks.c.id).where(bookmarks.c.id == row["id"])).first() is not None
    values = {name: value for name, value in row.items() if name != "id"} if is_taken else row
    return int(connection.execute(insert(bookmarks).values(values).returning(bookmarks.c.id)).scalar_one())


def _require_unused_keys(connection: Connection, owner: int, keys: list[str], *, except_id: int) -> None:
    """Raise UndoConflict if another bookmark of the owner has one of these keys."""
    query = select(bookmarks.c.id).where(
        bookmarks.c.owner_id == owner,
        bookmarks.c.deleted_at.is_(None),
        bookmarks.c.key.in_(keys),
        bookmarks.c.id != except_id,
    )
    if (other := connection.execute(query).scalar()) is not None:
        raise UndoConflict(other)


def _list_merges(connection: Connection, owner: int) -> list[Merge]:
    query = (
        select(bookmark_merges)
        .where(bookmark_merges.c.owner_id == owner, bookmark_merges.c.undone_at.is_(None))
        .order_by(bookmark_merges.c.id.desc())
        .limit(_MAX_LISTED_MERGES)
    )
    return [
        Merge(
            id=row.same_key,
            kept_id=row.kept_id,
            merged_ids=tuple(each["id"] for each in json.loads(row.rows)[1:]),
            why=MergeReason(row.why),
            created_at=row.created_at,
        )
        for row in connection.execute(query)
    ]


def _lock_row(connection: Connection, owner: int, bookmark_id: int) -> _Columns:
    query = select(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id == bookmark_id)
    row = connection.execute(query.with_for_update()).mappings().first()  # the merge must combine the latest version
    if row is None:
        raise BookmarkNotFound(bookmark_id)
    return dict(row)
