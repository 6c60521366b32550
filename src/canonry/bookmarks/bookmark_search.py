"""List and search the bookmarks of an owner, page by page (contract B3)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection, cast, func, literal, select, tuple_
from sqlalchemy.dialects import postgresql

from canonry.bookmarks.bookmark import BookmarkPage
from canonry.bookmarks.bookmark_rows import bookmark_columns, dump_json, parse_row
from canonry.core.keys import replace_unstorable
from canonry.store.schema import bookmarks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import ColumnElement

    from canonry.bookmarks.bookmark import Bookmark, BookmarkSearch

NEWEST_FIRST = (bookmarks.c.created_at.desc(), bookmarks.c.id.desc())
_MAX_ID_DIGITS = 18


class Position(NamedTuple):
    """The last bookmark of a page: the next page begins after it."""

    created_at: str
    bookmark_id: int


def search_bookmarks(
    connection: Connection, owner: int, search: BookmarkSearch, after: Position | None, limit: int
) -> BookmarkPage:
    """Return the first bookmarks after a position, newest first."""
    query = (
        select(*bookmark_columns)
        .where(bookmarks.c.owner_id == owner, *_make_conditions(search, is_sqlite=connection.dialect.name == "sqlite"))
        .order_by(*NEWEST_FIRST)
        .limit(limit + 1)
    )
    if after is not None:
        query = query.where(tuple_(bookmarks.c.created_at, bookmarks.c.id) < after)
    found = [parse_row(row) for row in connection.execute(query)]
    shown = tuple(found[:limit])
    return BookmarkPage(shown, _make_cursor(shown[-1]) if len(found) > limit else None)


def parse_cursor(cursor: str) -> Position:
    """Return the position of a cursor; ValueError if the cursor is not from a `BookmarkPage`."""
    created_at, _, bookmark_id = urlsafe_b64decode(cursor).decode().rpartition(" ")
    if not bookmark_id.isdecimal() or len(bookmark_id) > _MAX_ID_DIGITS or not created_at:
        raise ValueError("not a cursor")
    return Position(replace_unstorable(created_at), int(bookmark_id))


def _make_cursor(last: Bookmark) -> str:
    return urlsafe_b64encode(f"{last.created_at} {last.id}".encode()).decode()


def _make_conditions(search: BookmarkSearch, *, is_sqlite: bool) -> Iterator[ColumnElement[bool]]:
    in_trash = bookmarks.c.deleted_at.is_not(None)
    yield in_trash if search.in_trash else ~in_trash
    for word in replace_unstorable(search.words).lower().split():
        yield bookmarks.c.haystack.contains(word, autoescape=True)
    if search.tag:
        # Not LIKE, which ignores case on SQLite: `Polish` is not `polish`.
        find = func.instr if is_sqlite else func.strpos
        tag = replace_unstorable(search.tag)
        # A cheap filter first. It also matches text that begins in one tag and ends in the next.
        yield find(bookmarks.c.tags, dump_json(tag)) > 0
        if is_sqlite:
            yield literal(tag).in_(select(func.json_each(bookmarks.c.tags).table_valued("value").c.value))
        else:
            yield func.jsonb_exists(cast(bookmarks.c.tags, postgresql.JSONB), tag)
    if search.folder:
        yield bookmarks.c.folder == replace_unstorable(search.folder)
    if search.to_read is not None:
        yield bookmarks.c.to_read == int(search.to_read)
