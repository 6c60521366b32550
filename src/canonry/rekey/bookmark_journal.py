"""The journal of a rekey of bookmarks: what it changed, row by row, so that an undo restores the rows (contract N10).

A row of the journal is either a change (the columns of a bookmark that a rekey sets, as they were) or a merge, whose
rows `bookmark_merges` has. The undo reads the journal backwards. What a user changed since then stays.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, func, insert, select, update

from canonry.bookmarks.bookmark_rows import URL_COLUMNS, dump_json, make_key
from canonry.bookmarks.duplicates import find_edits, restore_row
from canonry.bookmarks.search_words import make_search_columns
from canonry.feeds.key_lookup import split_into_chunks
from canonry.store.schema import bookmark_merges, bookmarks, rekeyed_bookmarks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import RowMapping

    from canonry.bookmarks.bookmark import Bookmark

_PAGE_COLUMNS = ("page_state", "page_attempts", "page_retry_at")  # a bookmark with a new URL is read again
_TOUCHED = ("updated_at", "haystack")


class Journal:
    """The rows of one transaction, written at its end; `rekey_id` None writes nothing."""

    def __init__(self, connection: Connection, rekey_id: int | None) -> None:
        self._connection = connection
        self._rekey_id = rekey_id
        self._rows: list[dict[str, Any]] = []

    def add_change(self, bookmark: Bookmark, *, new_url: str, now: str) -> None:
        """Remember a bookmark whose URL is about to change, at the time `now`."""
        if self._rekey_id is not None:
            columns = [bookmarks.c[name] for name in (*URL_COLUMNS, *_PAGE_COLUMNS, *_TOUCHED)]
            row = self._connection.execute(select(*columns).where(bookmarks.c.id == bookmark.id)).mappings().one()
            self._add(bookmark.id, None, {**row, "new_url": new_url, "moved_at": now})

    def add_merge(self, owner: int, kept_id: int) -> None:
        """Remember the merge that was just made."""
        if self._rekey_id is not None:
            c = bookmark_merges.c
            query = select(func.max(c.id)).where(c.owner_id == owner, c.kept_id == kept_id)
            self._add(kept_id, self._connection.execute(query).scalar_one(), {})

    def write(self) -> None:
        """Write the rows."""
        if self._rows:
            self._connection.execute(insert(rekeyed_bookmarks), self._rows)

    def _add(self, bookmark_id: int, merge_id: int | None, row: dict[str, Any]) -> None:
        self._rows.append(
            {"rekey_id": self._rekey_id, "bookmark_id": bookmark_id, "merge_id": merge_id, "row": dump_json(row)}
        )


def restore_bookmarks(connection: Connection, rekey_id: int, size: int, *, now: str) -> int:
    """Restore what the last rows of a journal say, and delete these rows; return how many there were."""
    query = select(rekeyed_bookmarks).where(rekeyed_bookmarks.c.rekey_id == rekey_id)
    rows = connection.execute(query.order_by(rekeyed_bookmarks.c.id.desc()).limit(size)).all()
    for row in rows:
        if row.merge_id is None:
            _restore_change(connection, row.bookmark_id, json.loads(row.row))
        else:
            _restore_merge(connection, row.merge_id, now)
    for ids in split_into_chunks([row.id for row in rows]):
        connection.execute(delete(rekeyed_bookmarks).where(rekeyed_bookmarks.c.id.in_(ids)))
    return len(rows)


def _restore_change(connection: Connection, bookmark_id: int, before: dict[str, Any]) -> None:
    """Give a bookmark the URL that it had, unless a user gave it another one since; its other fields stay."""
    found = connection.execute(select(bookmarks).where(bookmarks.c.id == bookmark_id).with_for_update())
    for current in found.mappings():
        if current["url"] == before["new_url"]:
            _set_url(connection, current, before)


def _set_url(connection: Connection, current: RowMapping, before: Mapping[str, Any]) -> None:
    values = {name: before[name] for name in URL_COLUMNS}
    if current["deleted_at"] is None:
        values["key"] = _find_free_key(connection, current["owner_id"], current["id"], before)
    values |= make_search_columns({**current, **values})
    if "moved_at" in before:
        is_unchanged = current["updated_at"] in {before["moved_at"], before["updated_at"]}
    else:  # the journal of an earlier release
        is_unchanged = values["haystack"] == before["haystack"]
    if is_unchanged:
        values["updated_at"] = before["updated_at"]
        if current["url"] != before["url"]:
            values |= {name: before[name] for name in _PAGE_COLUMNS if name in before}
    connection.execute(update(bookmarks).where(bookmarks.c.id == current["id"]).values(values))


def _restore_merge(connection: Connection, merge_id: int, now: str) -> None:
    """Restore the bookmarks of a merge, unless a user undid it; what a user changed in the kept one stays."""
    merge = connection.execute(
        select(bookmark_merges).where(bookmark_merges.c.id == merge_id, bookmark_merges.c.undone_at.is_(None))
    ).first()
    if merge is None:
        return
    rows: list[dict[str, Any]] = [{**row, "owner_id": merge.owner_id} for row in json.loads(merge.rows)]
    query = select(bookmarks).where(bookmarks.c.id == rows[0]["id"], bookmarks.c.owner_id == merge.owner_id)
    current = connection.execute(query.with_for_update()).mappings().first()
    if current is None:
        rows = rows[1:]
    else:
        rows[0] |= find_edits(dict(current), rows, now=now)
        if current["deleted_at"] is not None:
            rows[0] |= {"deleted_at": current["deleted_at"], "updated_at": current["updated_at"]}
        connection.execute(delete(bookmarks).where(bookmarks.c.id == current["id"]))
    for row in rows:
        if row["deleted_at"] is None:
            row["key"] = _find_free_key(connection, row["owner_id"], row["id"], row)
        restore_row(connection, row)
    connection.execute(update(bookmark_merges).where(bookmark_merges.c.id == merge_id).values(undone_at=now))


def _find_free_key(connection: Connection, owner: int, bookmark_id: int, before: Mapping[str, Any]) -> str:
    """Return the key that a bookmark had, or a random one if its URL was saved again since.

    Keys are unique outside the trash. In it, the key tells whether the URL was saved again.
    """
    query = select(bookmarks.c.id).where(
        bookmarks.c.owner_id == owner,
        bookmarks.c.key == before["key"],
        bookmarks.c.id != bookmark_id,
        bookmarks.c.deleted_at.is_(None),
    )
    if connection.execute(query).first() is None:
        return str(before["key"])
    return make_key(f"{before['url']} {uuid.uuid4()}")
