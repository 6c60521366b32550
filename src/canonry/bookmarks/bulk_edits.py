"""Change many bookmarks at once, and undo that exactly (contract U3)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from canonry.bookmarks.bookmark_rows import dump_json
from canonry.bookmarks.bookmark_search import list_matching_ids
from canonry.bookmarks.draft import clean_tags
from canonry.bookmarks.search_words import make_search_columns
from canonry.core.keys import replace_unstorable
from canonry.errors import BulkEditNotFound
from canonry.store.schema import bookmark_edits, bookmarks, stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from canonry.bookmarks.bookmark import BookmarkSearch
    from canonry.store.database import Database

    _Columns = dict[str, Any]

_CHUNK = 500  # rows in one query
# Columns that changes read: make_search_columns needs those that people write.
_READ = [
    bookmarks.c[name]
    for name in (
        *("id", "key", "url", "original_url", "title", "description", "tags", "folder", "archive_urls"),
        *("episode_urls", "to_read", "updated_at", "deleted_at"),
    )
]


class BulkAction(StrEnum):
    """An edit of the selected bookmarks."""

    TAG = "tag"
    UNTAG = "untag"
    MOVE = "move"
    MARK_READ = "mark_read"
    MARK_UNREAD = "mark_unread"
    DELETE = "delete"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True)
class BulkChange:
    """A change of many bookmarks; `tags` are those to add or remove, `folder` the one to move to."""

    action: BulkAction
    tags: tuple[str, ...] = ()
    folder: str = ""


@dataclass(frozen=True, slots=True)
class BulkEdit:
    """A change that was made; `count` is the number of bookmarks that it changed."""

    id: int
    action: BulkAction
    count: int
    is_undone: bool = False


@dataclass(frozen=True, slots=True)
class BulkUndo:
    """The result of an undo. Bookmarks that were changed again in the meantime stay as they are."""

    restored: int
    skipped: int


class BulkEditStore:
    """Changes of many bookmarks of a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def apply(self, owner: int, ids: Sequence[int], change: BulkChange, now: datetime) -> BulkEdit:
        """Change these bookmarks; skip those of other owners, and those that need no change."""
        return await self.database.write(partial(_apply, owner=owner, ids=ids, change=change, now=stamp(now)))

    async def apply_to_matches(self, owner: int, search: BookmarkSearch, change: BulkChange, now: datetime) -> BulkEdit:
        """Change all bookmarks that match."""

        def work(connection: Connection) -> BulkEdit:
            return _apply(connection, owner, list_matching_ids(connection, owner, search), change, stamp(now))

        return await self.database.write(work)

    async def get(self, owner: int, edit_id: int) -> BulkEdit:
        """Return a change; BulkEditNotFound if there is none."""
        return await self.database.read(lambda connection: _load(connection, owner, edit_id)[0])

    async def undo(self, owner: int, edit_id: int, now: datetime) -> BulkUndo:
        """Restore the bookmarks of a change as they were before it; BulkEditNotFound if it is undone already."""
        return await self.database.write(partial(_undo, owner=owner, edit_id=edit_id, now=stamp(now)))

    async def delete_before(self, before: datetime) -> None:
        """Delete the journal of changes from before a time: they cannot be undone any more."""
        old = delete(bookmark_edits).where(bookmark_edits.c.created_at < stamp(before))
        await self.database.write(lambda connection: connection.execute(old))


def change_columns(row: _Columns, change: BulkChange, now: str) -> _Columns:
    """Return the columns that a change gives a bookmark; empty if the bookmark already is as wanted."""
    wanted: _Columns = {}
    match change.action:
        case BulkAction.TAG:
            wanted = {"tags": dump_json(list(clean_tags((*json.loads(row["tags"]), *change.tags))))}
        case BulkAction.UNTAG:
            removed = set(change.tags)
            wanted = {"tags": dump_json([tag for tag in json.loads(row["tags"]) if tag not in removed])}
        case BulkAction.MOVE:
            wanted = {"folder": replace_unstorable(change.folder)}
        case BulkAction.MARK_READ | BulkAction.MARK_UNREAD:
            wanted = {"to_read": int(change.action is BulkAction.MARK_UNREAD)}
        case BulkAction.DELETE:
            return {} if row["deleted_at"] else {"deleted_at": now, "updated_at": now}
        case BulkAction.RESTORE:
            return {"deleted_at": None, "updated_at": now} if row["deleted_at"] else {}
    if row["deleted_at"] or all(row[name] == value for name, value in wanted.items()):
        return {}
    return {**wanted, "updated_at": now}


def _apply(connection: Connection, owner: int, ids: Sequence[int], change: BulkChange, now: str) -> BulkEdit:
    changes: list[_Columns] = []
    for rows in _lock_rows(connection, owner, ids):
        changed = [(row, after) for row in rows if (after := change_columns(row, change, now))]
        if change.action is BulkAction.RESTORE:
            taken = _find_taken_keys(connection, owner, [row["key"] for row, _ in changed])
            # The trash may have several bookmarks of one URL: the one that was deleted last returns.
            latest = {row["key"]: row["id"] for row, _ in sorted(changed, key=lambda each: str(each[0]["deleted_at"]))}
            changed = [
                (row, after) for row, after in changed if latest[row["key"]] == row["id"] and row["key"] not in taken
            ]
        _write(connection, owner, [({**row, **after}, after) for row, after in changed])
        changes += [
            {"id": row["id"], "before": {name: row[name] for name in after}, "after": after} for row, after in changed
        ]
    values = {"owner_id": owner, "action": change.action.value, "rows": dump_json(changes), "created_at": now}
    edit_id = connection.execute(insert(bookmark_edits).values(values).returning(bookmark_edits.c.id)).scalar_one()
    return BulkEdit(edit_id, change.action, len(changes))


def _undo(connection: Connection, owner: int, edit_id: int, now: str) -> BulkUndo:
    edit, changes = _load(connection, owner, edit_id)
    if edit.is_undone:
        raise BulkEditNotFound(edit_id)
    by_id = {change["id"]: change for change in changes}
    restored = 0
    for rows in _lock_rows(connection, owner, list(by_id)):
        same = [row for row in rows if _is_unchanged(row, by_id[row["id"]]["after"])]
        returning = [
            row["key"] for row in same if row["deleted_at"] and by_id[row["id"]]["before"].get("deleted_at", "") is None
        ]
        taken = _find_taken_keys(connection, owner, returning)
        free = [row for row in same if row["key"] not in taken or row["key"] not in returning]
        befores = [(row, by_id[row["id"]]["before"]) for row in free]
        _write(connection, owner, [({**row, **before}, before) for row, before in befores])
        restored += len(free)
    connection.execute(update(bookmark_edits).where(bookmark_edits.c.id == edit_id).values(undone_at=now))
    return BulkUndo(restored, len(changes) - restored)


def _is_unchanged(row: _Columns, after: _Columns) -> bool:
    return all(row[name] == value for name, value in after.items())


def _load(connection: Connection, owner: int, edit_id: int) -> tuple[BulkEdit, list[_Columns]]:
    table = bookmark_edits.c
    query = select(table.action, table.rows, table.undone_at).where(table.id == edit_id, table.owner_id == owner)
    for action, rows, undone_at in connection.execute(query):
        changes: list[_Columns] = json.loads(rows)
        return BulkEdit(edit_id, BulkAction(action), len(changes), undone_at is not None), changes
    raise BulkEditNotFound(edit_id)


def _lock_rows(connection: Connection, owner: int, ids: Sequence[int]) -> Iterator[list[_Columns]]:
    """Yield the rows of these bookmarks in chunks, locked in one order: no deadlock."""
    wanted = sorted(set(ids))
    for start in range(0, len(wanted), _CHUNK):
        query = select(*_READ).where(bookmarks.c.owner_id == owner, bookmarks.c.id.in_(wanted[start : start + _CHUNK]))
        yield [dict(row) for row in connection.execute(query.order_by(bookmarks.c.id).with_for_update()).mappings()]


def _find_taken_keys(connection: Connection, owner: int, keys: Sequence[str]) -> set[str]:
    """Return the keys that saved bookmarks have: a bookmark in the trash with one of them cannot return."""
    query = select(bookmarks.c.key).where(
        bookmarks.c.owner_id == owner, bookmarks.c.key.in_(keys), bookmarks.c.deleted_at.is_(None)
    )
    return set(connection.execute(query).scalars())


def _write(connection: Connection, owner: int, rows: Sequence[tuple[_Columns, _Columns]]) -> None:
    """Write the changed columns of bookmarks; each pair is the whole bookmark after the change, and those columns."""
    if not rows:
        return
    has_texts = not rows[0][1].keys() <= {"to_read", "updated_at", "deleted_at"}
    values = [
        {"row_id": row["id"], **changed, **(make_search_columns(row) if has_texts else {})} for row, changed in rows
    ]
    columns: _Columns = {name: bindparam(name) for name in values[0] if name != "row_id"}
    statement = update(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id == bindparam("row_id"))
    connection.execute(statement.values(columns), values)
