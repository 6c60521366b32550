"""Find duplicate bookmarks, merge them, and undo a merge (contract B7)."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, select, update

from canonry.bookmarks.bookmark import Bookmark  # noqa: TC001 (pydantic resolves the annotations of responses)
from canonry.bookmarks.bookmark_rows import URL_COLUMNS, bookmark_columns, dump_json, parse_row
from canonry.bookmarks.bookmark_store import load_bookmark
from canonry.bookmarks.find_duplicates import find_groups
from canonry.bookmarks.search_words import make_search_columns
from canonry.bookmarks.twins import Twin  # noqa: TC001
from canonry.errors import BookmarkNotFound, DuplicatesNotFound, MergeNotFound, UndoConflict
from canonry.evidence.fact_store import refuse_pair
from canonry.store.schema import bookmark_merges, bookmarks, stamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Row

    from canonry.bookmarks.duplicate_groups import IdGroup
    from canonry.store.database import Database

    _Columns = dict[str, Any]  # all columns of a bookmark: what the undo of a merge restores

_MAX_LISTED_MERGES = 50
_MAX_REFUSED = 40  # URLs of a group
_CHUNK = 500  # ids in one query


class MergeReason(StrEnum):
    """Why bookmarks were merged."""

    REVIEW = "review"  # a user merged a group of duplicates
    EXPANSION = "expansion"  # the target of a short link was saved already
    POLICY = "policy"  # a rekey gave both the same URL


@dataclass(frozen=True, slots=True)
class DuplicateGroup:
    """Bookmarks of one owner that are the same, oldest first; `id` names the group in URLs.

    Their URLs have the same normal form, or their pages are the same as `twins` says. A group that `is_proven` can be
    merged without a review.
    """

    id: str
    bookmarks: tuple[Bookmark, ...]
    twins: tuple[Twin, ...] = ()
    is_proven: bool = True


@dataclass(frozen=True, slots=True)
class DuplicatePage:
    """Some of an owner's groups of duplicates, and how many there are."""

    groups: tuple[DuplicateGroup, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge that can be undone; `id` is the id of the group, `title` the title of the kept bookmark, or its URL."""

    id: str
    kept_id: int
    title: str
    merged_ids: tuple[int, ...]
    why: MergeReason
    created_at: str


class DuplicateStore:
    """The duplicate bookmarks of a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def list_groups(self, owner: int, *, limit: int = 100) -> list[DuplicateGroup]:
        """Return groups of duplicates, the largest first."""
        return list((await self.get_page(owner, limit=limit)).groups)

    async def get_page(self, owner: int, *, start: int = 0, limit: int) -> DuplicatePage:
        """Return a part of the groups of duplicates, the largest first."""
        return await self.database.read(partial(_get_page, owner=owner, start=start, limit=limit))

    async def merge(self, owner: int, group_id: str, now: datetime, *, keep: int | None = None) -> Bookmark:
        """Merge a group into the bookmark `keep`, or into the oldest; return the merged bookmark."""
        return await self.database.write(
            partial(_merge_group, owner=owner, group_id=group_id, now=stamp(now), keep=keep)
        )

    async def merge_proven(self, owner: int, now: datetime) -> list[Bookmark]:
        """Merge every group whose pages are proven to be the same, each into its oldest bookmark; return these."""
        return await self.database.write(partial(_merge_proven, owner=owner, now=stamp(now)))

    async def refuse(self, owner: int, group_id: str, now: datetime) -> None:
        """Remember that the bookmarks of a group are not the same page, whatever the evidence."""
        await self.database.write(partial(_refuse_group, owner=owner, group_id=group_id, now=stamp(now)))

    async def undo(self, owner: int, group_id: str, now: datetime) -> list[Bookmark]:
        """Undo the last merge of a group; return its bookmarks as they were before, with what was edited since."""
        return await self.database.write(partial(_undo, owner=owner, group_id=group_id, now=stamp(now)))

    async def list_merges(self, owner: int) -> list[Merge]:
        """Return the latest merges that can be undone, newest first."""
        return await self.database.read(partial(_list_merges, owner=owner))


def merge_bookmarks(
    connection: Connection,
    owner: int,
    kept_id: int,
    others: Sequence[int],
    *,
    now: str,
    why: MergeReason,
    group_id: str | None = None,
) -> Bookmark:
    """Merge the others into one bookmark and delete them; every row is stored for an undo under `group_id`."""
    rows = [_lock_row(connection, owner, each) for each in (kept_id, *others)]
    kept, *deleted = rows
    connection.execute(
        insert(bookmark_merges).values(
            owner_id=owner,
            same_key=group_id or kept["same_key"],
            kept_id=kept_id,
            rows=dump_json(rows),
            why=why.value,
            created_at=now,
        )
    )
    connection.execute(delete(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id.in_(others)))
    values = _combine([kept, *deleted]) | {"updated_at": now}
    values |= make_search_columns({**kept, **values})
    connection.execute(update(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id == kept_id).values(values))
    return load_bookmark(connection, owner, kept_id)


def _combine(rows: Sequence[Mapping[str, Any]]) -> _Columns:
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


def _get_page(connection: Connection, owner: int, start: int, limit: int) -> DuplicatePage:
    all_groups = find_groups(connection, owner)
    groups = all_groups[start : start + limit]
    ids = [each for group in groups for each in group.ids]
    found: dict[int, Bookmark] = {}
    for first in range(0, len(ids), _CHUNK):
        query = select(*bookmark_columns).where(
            bookmarks.c.owner_id == owner,
            bookmarks.c.deleted_at.is_(None),
            bookmarks.c.id.in_(ids[first : first + _CHUNK]),
        )
        found |= {row.id: parse_row(row) for row in connection.execute(query)}
    # PostgreSQL: another process may have deleted or merged bookmarks since the groups were found.
    members = ((group, tuple(found[each] for each in group.ids if each in found)) for group in groups)
    shown = (DuplicateGroup(group.id, each, group.twins, group.is_proven) for group, each in members if len(each) > 1)
    return DuplicatePage(tuple(shown), len(all_groups))


def _get_group(connection: Connection, owner: int, group_id: str) -> IdGroup:
    for group in find_groups(connection, owner):
        if group.id == group_id:
            return group
    raise DuplicatesNotFound(group_id)


def _merge_group(connection: Connection, owner: int, group_id: str, now: str, keep: int | None) -> Bookmark:
    ids = _get_group(connection, owner, group_id).ids
    if keep is not None and keep not in ids:
        raise BookmarkNotFound(keep)
    kept_id = ids[0] if keep is None else keep
    others = [each for each in ids if each != kept_id]
    return merge_bookmarks(connection, owner, kept_id, others, now=now, why=MergeReason.REVIEW, group_id=group_id)


def _merge_proven(connection: Connection, owner: int, now: str) -> list[Bookmark]:
    return [
        merge_bookmarks(
            connection, owner, group.ids[0], group.ids[1:], now=now, why=MergeReason.REVIEW, group_id=group.id
        )
        for group in find_groups(connection, owner)
        if group.is_proven and group.twins
    ]


def _refuse_group(connection: Connection, owner: int, group_id: str, now: str) -> None:
    group = _get_group(connection, owner, group_id)
    if not group.twins:
        raise DuplicatesNotFound(group_id)  # equal URLs are equal, whatever a person says
    query = select(bookmarks.c.id, bookmarks.c.url).where(bookmarks.c.id.in_(group.ids))
    urls = [row.url for row in connection.execute(query)]
    for one, other in combinations(sorted(set(urls))[:_MAX_REFUSED], 2):
        refuse_pair(connection, owner, one, other, now)


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
    with suppress(BookmarkNotFound):  # it may have been deleted, or merged with another one
        rows[0] |= find_edits(_lock_row(connection, owner, kept_id), rows, now=now)
    _require_unused_keys(connection, owner, [row["key"] for row in rows], except_id=kept_id)
    connection.execute(delete(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id == kept_id))
    restored = [restore_row(connection, row) for row in rows]
    connection.execute(update(bookmark_merges).where(bookmark_merges.c.id == found.id).values(undone_at=now))
    return [load_bookmark(connection, owner, each) for each in restored]


def find_edits(current: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, now: str) -> _Columns:
    """Return the columns of a kept bookmark that were changed after the merge: an undo must not lose them.

    `rows` are those before the merge, that of the kept bookmark first.
    """
    kept, *others = rows
    edits = {name: current[name] for name, value in _combine(rows).items() if current[name] != value}
    if current["key"] not in {other["key"] for other in others}:  # else a rekey gave it the URL of another one
        edits |= {name: current[name] for name in URL_COLUMNS if current[name] != kept[name]}
    return {**edits, "updated_at": now} if edits else {}


def restore_row(connection: Connection, row: _Columns) -> int:
    """Insert a row again and return its id: a new one if an older canonry has given its id to another bookmark."""
    is_taken = connection.execute(select(bookmarks.c.id).where(bookmarks.c.id == row["id"])).first() is not None
    values = {name: value for name, value in row.items() if name != "id" or not is_taken}
    values |= make_search_columns(row)  # an older canonry may have stored the row
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
    return [_parse_merge(row) for row in connection.execute(query)]


def _parse_merge(row: Row[Any]) -> Merge:
    kept, *merged = json.loads(row.rows)  # `merge_bookmarks` stores the kept bookmark first
    return Merge(
        id=row.same_key,
        kept_id=row.kept_id,
        title=kept["title"] or kept["url"],
        merged_ids=tuple(each["id"] for each in merged),
        why=MergeReason(row.why),
        created_at=row.created_at,
    )


def _lock_row(connection: Connection, owner: int, bookmark_id: int) -> _Columns:
    query = select(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id == bookmark_id)
    row = connection.execute(query.with_for_update()).mappings().first()  # the merge must combine the latest version
    if row is None:
        raise BookmarkNotFound(bookmark_id)
    return dict(row)
