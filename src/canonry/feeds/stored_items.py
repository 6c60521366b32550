"""List what was ingested: each entry once, with the feeds that carried it, page by page (contract I9)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import and_, func, or_, select
from sqlalchemy import exists as exists_where

from canonry.core.keys import replace_unstorable
from canonry.feeds.feed_values import ItemFeed, MatchConfidence, StoredItem
from canonry.feeds.item_states import ItemStatus, make_status_condition
from canonry.store.schema import entries, feeds, sightings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection

    from canonry.store.database import Database

_MAX_ID_DIGITS = 18
_PAGE_ITEMS = 500
_MAX_WORDS = 50  # of a search; each is a condition, and databases refuse a statement with thousands
_NEWEST_FIRST = (entries.c.first_seen_at.desc(), entries.c.id)  # ids follow the order of the document
_OLDEST_FIRST = (entries.c.first_seen_at, entries.c.id)
_COLUMNS = [
    entries.c.id,
    entries.c.title,
    entries.c.url,
    entries.c.dedupe_key,
    entries.c.match_confidence,
    entries.c.published,
    entries.c.first_seen_at,
    entries.c.last_seen_at,
]


@dataclass(frozen=True, slots=True)
class ItemSearch:
    """Which items to list; times are UTC texts of `first_seen_at`, and an empty value does not limit the list."""

    since: str = ""
    until: str = ""  # exclusive
    feed_id: int | None = None
    folder: str = ""  # of the feeds, folders in it included
    words: str = ""  # the first 50 are all in the title or the URL
    only_duplicates: bool = False  # entries that several feeds have, and different entries at one URL
    owner_id: int | None = None  # the user whose list `status` names
    status: ItemStatus | None = None
    entry_ids: tuple[int, ...] | None = None
    oldest_first: bool = False


EVERYTHING = ItemSearch()


@dataclass(frozen=True, slots=True)
class ItemPage:
    """Items, the newest first; `next_cursor` is None on the last page."""

    items: tuple[StoredItem, ...]
    next_cursor: str | None = None


class _Position(NamedTuple):
    """The last item of a page: the next page begins after it, also if newer items arrive meanwhile."""

    first_seen_at: str
    entry_id: int


async def search_items(
    database: Database,
    search: ItemSearch = EVERYTHING,
    *,
    cursor: str | None = None,
    limit: int = _PAGE_ITEMS,
    offset: int = 0,
) -> ItemPage:
    """Return a page of items; ValueError if the cursor is not from an `ItemPage`."""
    after = None if cursor is None else _parse_cursor(cursor)
    return await database.read(partial(_select_page, search=search, after=after, limit=limit, offset=offset))


async def iterate_items(
    database: Database, search: ItemSearch = EVERYTHING, *, limit: int | None = None
) -> AsyncGenerator[StoredItem]:
    """Yield the items, the newest first, reading one page after the other."""
    cursor, left = None, limit
    while left is None or left > 0:
        page = await search_items(
            database, search, cursor=cursor, limit=_PAGE_ITEMS if left is None else min(left, _PAGE_ITEMS)
        )
        for item in page.items:
            yield item
        if left is not None:
            left -= len(page.items)
        if (cursor := page.next_cursor) is None:
            return


def _select_page(
    connection: Connection, *, search: ItemSearch, after: _Position | None, limit: int, offset: int
) -> ItemPage:
    is_sqlite = connection.dialect.name == "sqlite"
    query = select(*_COLUMNS).where(*make_conditions(search, is_sqlite=is_sqlite))
    query = query.order_by(*(_OLDEST_FIRST if search.oldest_first else _NEWEST_FIRST))
    if after is not None:
        query = query.where(_make_position_condition(after, oldest_first=search.oldest_first))
    rows = connection.execute(query.limit(limit + 1).offset(offset)).all()
    carriers = _select_feeds(connection, [row.id for row in rows[:limit]])
    items = tuple(
        StoredItem(
            row.id,
            carriers[row.id][0].url if carriers[row.id] else "",
            row.title,
            row.url,
            row.dedupe_key,
            MatchConfidence(row.match_confidence),
            row.first_seen_at,
            row.last_seen_at,
            row.published,
            tuple(carriers[row.id]),
        )
        for row in rows[:limit]
    )
    return ItemPage(items, _make_cursor(items[-1]) if len(rows) > limit else None)


def _make_position_condition(after: _Position, *, oldest_first: bool) -> ColumnElement[bool]:
    seen = entries.c.first_seen_at
    if oldest_first:
        return and_(seen >= after.first_seen_at, or_(seen > after.first_seen_at, entries.c.id > after.entry_id))
    return and_(seen <= after.first_seen_at, or_(seen < after.first_seen_at, entries.c.id > after.entry_id))


def _select_feeds(connection: Connection, entry_ids: Sequence[int]) -> defaultdict[int, list[ItemFeed]]:
    """Return the feeds that carried each entry, the first one first."""
    query = (
        select(sightings.c.entry_id, feeds.c.id, feeds.c.url, feeds.c.title, feeds.c.own_title)
        .join(feeds, feeds.c.id == sightings.c.feed_id)
        .where(sightings.c.entry_id.in_(entry_ids))
        .order_by(sightings.c.first_seen_at, feeds.c.id)
    )
    found: defaultdict[int, list[ItemFeed]] = defaultdict(list)
    for entry_id, feed_id, url, title, own_title in connection.execute(query):
        found[entry_id].append(ItemFeed(feed_id, url, own_title or title))
    return found


def make_conditions(search: ItemSearch, *, is_sqlite: bool) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions for the entries that match."""
    if search.feed_id is None and not search.folder:
        # Entries that another program has seen, and no feed since, are not items of a feed.
        yield exists_where().where(sightings.c.entry_id == entries.c.id)
    if search.feed_id is not None:
        yield entries.c.id.in_(select(sightings.c.entry_id).where(sightings.c.feed_id == search.feed_id))
    if search.folder:
        folder = replace_unstorable(search.folder).strip("/")
        is_in_folder = or_(feeds.c.folder == folder, feeds.c.folder.startswith(f"{folder}/", autoescape=True))
        yield entries.c.id.in_(
            select(sightings.c.entry_id).join(feeds, feeds.c.id == sightings.c.feed_id).where(is_in_folder)
        )
    if search.since:
        yield entries.c.first_seen_at >= search.since
    if search.until:
        yield entries.c.first_seen_at < search.until
    words = dict.fromkeys(replace_unstorable(search.words).split())
    for word in islice(words, _MAX_WORDS):
        yield or_(*(_contains(column, word, is_sqlite=is_sqlite) for column in (entries.c.title, entries.c.url)))
    if search.owner_id is not None and search.status is not None:
        yield make_status_condition(search.owner_id, search.status)
    if search.entry_ids is not None:
        yield entries.c.id.in_(search.entry_ids)
    if search.only_duplicates:
        yield _make_duplicate_condition()


def _contains(column: ColumnElement[str], word: str, *, is_sqlite: bool) -> ColumnElement[bool]:
    """Return the condition that a text contains a word in upper or lower case."""
    if not is_sqlite:
        return func.lower(column).contains(word.lower(), autoescape=True)
    if word.isascii():  # LIKE ignores the case of the letters of ASCII; a function of ours would be called for each row
        return column.contains(word, autoescape=True)
    return func.casefold(column).contains(word.casefold(), autoescape=True)


def _make_duplicate_condition() -> ColumnElement[bool]:
    other_entry = entries.alias()
    feed_count = select(func.count()).where(sightings.c.entry_id == entries.c.id).scalar_subquery()
    shares_url = exists_where().where(other_entry.c.place == entries.c.place, other_entry.c.id != entries.c.id)
    return or_(feed_count > 1, and_(entries.c.place != "", shares_url))


def _parse_cursor(cursor: str) -> _Position:
    first_seen_at, _, entry_id = urlsafe_b64decode(cursor).decode().rpartition(" ")
    if not (entry_id.isascii() and entry_id.isdecimal()) or len(entry_id) > _MAX_ID_DIGITS or not first_seen_at.strip():
        raise ValueError("not a cursor")
    return _Position(replace_unstorable(first_seen_at), int(entry_id))


def _make_cursor(last: StoredItem) -> str:
    return urlsafe_b64encode(f"{last.first_seen_at} {last.entry_id}".encode()).decode()
