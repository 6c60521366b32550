"""List and search the bookmarks of an owner, page by page (contract B3, U3)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, and_, cast, column, false, func, literal, literal_column, not_, select, table, tuple_
from sqlalchemy.dialects import postgresql

from canonry.bookmarks.bookmark import BookmarkPage, BookmarkSort
from canonry.bookmarks.bookmark_rows import bookmark_columns, dump_json, parse_row
from canonry.bookmarks.search_query import Flag, parse_search
from canonry.core.keys import replace_unstorable
from canonry.store.schema import bookmarks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import ColumnElement

    from canonry.bookmarks.bookmark import BookmarkSearch
    from canonry.bookmarks.search_query import FlagTerm, Phrase

NEWEST_FIRST = (bookmarks.c.created_at.desc(), bookmarks.c.id.desc())
_MAX_ID_DIGITS = 18
_MAX_SELECTED = 100_000
_SORT_COLUMNS = {
    BookmarkSort.NEWEST: bookmarks.c.created_at,
    BookmarkSort.OLDEST: bookmarks.c.created_at,
    BookmarkSort.TITLE: bookmarks.c.sort_title,
    BookmarkSort.SITE: bookmarks.c.site,
    BookmarkSort.CHANGED: bookmarks.c.updated_at,
}
_DESCENDING = frozenset({BookmarkSort.NEWEST, BookmarkSort.CHANGED})
# The virtual table of SQLite, and the generated column of PostgreSQL.
_WORDS = table("bookmark_words", column("rowid"), column("bookmark_words"))
_VECTOR: ColumnElement[Any] = literal_column("bookmarks.words")
_FLAGS: dict[Flag, ColumnElement[bool]] = {
    Flag.UNREAD: bookmarks.c.to_read == 1,
    Flag.READ: bookmarks.c.to_read == 0,
    Flag.PRIVATE: bookmarks.c.private == 1,
    Flag.PUBLIC: bookmarks.c.private == 0,
    Flag.EXACT: bookmarks.c.exact_url == 1,
    Flag.TAGGED: bookmarks.c.tags != "[]",
    Flag.UNTAGGED: bookmarks.c.tags == "[]",
}


class Position(NamedTuple):
    """The last bookmark of a page: the next page begins after it."""

    sorted_by: str
    bookmark_id: int


def search_bookmarks(
    connection: Connection, owner: int, search: BookmarkSearch, after: Position | None, limit: int
) -> BookmarkPage:
    """Return the first bookmarks after a position, in the order that the search asks for."""
    key = _SORT_COLUMNS[search.sort]
    is_descending = search.sort in _DESCENDING
    order = (key.desc(), bookmarks.c.id.desc()) if is_descending else (key.asc(), bookmarks.c.id.asc())
    query = (
        select(*bookmark_columns, key.label("sorted_by"))
        .where(*_make_conditions(connection, owner, search))
        .order_by(*order)
        .limit(limit + 1)
    )
    if after is not None:
        place = tuple_(key, bookmarks.c.id)
        query = query.where(place < after if is_descending else place > after)
    result: Any = connection.execute(query)
    rows: list[Any] = list(result)
    shown = rows[:limit]
    cursor = _make_cursor(shown[-1].sorted_by, shown[-1].id) if len(rows) > limit else None
    return BookmarkPage(tuple(parse_row(row[:-1]) for row in shown), cursor)


def count_matches(connection: Connection, owner: int, search: BookmarkSearch) -> int:
    """Return how many bookmarks match."""
    query = select(func.count()).select_from(bookmarks).where(*_make_conditions(connection, owner, search))
    return int(connection.execute(query).scalar_one())


def list_matching_ids(connection: Connection, owner: int, search: BookmarkSearch) -> list[int]:
    """Return the ids of all bookmarks that match, the oldest first."""
    query = select(bookmarks.c.id).where(*_make_conditions(connection, owner, search))
    return list(connection.execute(query.order_by(bookmarks.c.id).limit(_MAX_SELECTED)).scalars())


def parse_cursor(cursor: str) -> Position:
    """Return the position of a cursor; ValueError if the cursor is not from a `BookmarkPage`."""
    sorted_by, blank, bookmark_id = urlsafe_b64decode(cursor).decode().rpartition(" ")
    if not bookmark_id.isdecimal() or len(bookmark_id) > _MAX_ID_DIGITS or not blank:
        raise ValueError("not a cursor")
    return Position(replace_unstorable(sorted_by), int(bookmark_id))


def _make_cursor(sorted_by: str, bookmark_id: int) -> str:
    return urlsafe_b64encode(f"{sorted_by} {bookmark_id}".encode()).decode()


def _make_conditions(connection: Connection, owner: int, search: BookmarkSearch) -> Iterator[ColumnElement[bool]]:
    is_sqlite = connection.dialect.name == "sqlite"
    yield bookmarks.c.owner_id == owner
    in_trash = bookmarks.c.deleted_at.is_not(None)
    yield in_trash if search.in_trash else ~in_trash
    wanted = parse_search(replace_unstorable(search.words))
    if wanted.has_only_signs:
        yield false()
    make_condition = _match_on_sqlite if is_sqlite else _match_on_postgresql
    for phrase in wanted.phrases:
        yield make_condition(phrase)
    for term in wanted.flags:
        yield _make_flag_condition(term)
    if search.tag:
        yield from _make_tag_conditions(replace_unstorable(search.tag), is_sqlite=is_sqlite)
    if search.folder:
        yield bookmarks.c.folder == replace_unstorable(search.folder)
    if search.to_read is not None:
        yield bookmarks.c.to_read == int(search.to_read)


def _match_on_sqlite(phrase: Phrase) -> ColumnElement[bool]:
    # Words have no quotes. https://www.sqlite.org/fts5.html#fts5_phrases
    wanted = f'"{" ".join(phrase.words)}"{" *" if phrase.is_prefix else ""}'
    found = select(_WORDS.c.rowid).where(_WORDS.c.bookmark_words.op("MATCH")(wanted))
    return bookmarks.c.id.not_in(found) if phrase.is_negated else bookmarks.c.id.in_(found)


def _match_on_postgresql(phrase: Phrase) -> ColumnElement[bool]:
    # The words have no character that LIKE understands.
    pattern = f"% {' '.join(phrase.words)}{'' if phrase.is_prefix else ' '}%"
    if phrase.is_negated:
        return bookmarks.c.haystack.not_like(pattern)
    *whole, last = phrase.words
    wanted = " & ".join([*(f"'{word}'" for word in whole), f"'{last}':*" if phrase.is_prefix else f"'{last}'"])
    has_words = _VECTOR.op("@@", is_comparison=True)(cast(wanted, postgresql.TSQUERY))
    return and_(has_words, bookmarks.c.haystack.like(pattern))  # the index does not know in which order the words are


def _make_flag_condition(term: FlagTerm) -> ColumnElement[bool]:
    condition = _FLAGS[term.flag]
    return not_(condition) if term.is_negated else condition


def _make_tag_conditions(tag: str, *, is_sqlite: bool) -> Iterator[ColumnElement[bool]]:
    """Yield conditions for exactly this tag, with its case and accents."""
    # Not LIKE, which ignores case on SQLite: `Polish` is not `polish`.
    find: Callable[..., Any] = func.instr if is_sqlite else func.strpos
    # A cheap filter first. It also matches text that begins in one tag and ends in the next.
    yield find(bookmarks.c.tags, dump_json(tag)) > 0
    if is_sqlite:
        yield literal(tag).in_(select(func.json_each(bookmarks.c.tags).table_valued("value").c.value))
    else:
        yield func.jsonb_exists(cast(bookmarks.c.tags, postgresql.JSONB), tag)
