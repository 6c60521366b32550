"""Which items a user has read or saved (contract U2).

Only differences are stored: items with ids up to the user's mark (`read_marks`) are read, later ones are unread, and
`item_states` has a row where an item differs from that or is saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, bindparam, case, func, literal, not_, or_, select
from sqlalchemy import exists as exists_where
from sqlalchemy.dialects import postgresql

from canonry.store.schema import entries, item_states, read_marks, sightings
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement

    from canonry.store.database import Database
    from canonry.store.statements import InList

MAX_COUNTED = 1000  # unread items; counting all of many thousand would slow down every page


class ItemStatus(StrEnum):
    """A list of the items of a user."""

    UNREAD = "unread"
    READ = "read"
    SAVED = "saved"


@dataclass(frozen=True, slots=True)
class ItemState:
    """The state of an item for one user; `bookmark_id` is the bookmark that was made when the item was saved."""

    is_read: bool = False
    is_saved: bool = False
    bookmark_id: int | None = None


@dataclass(frozen=True, slots=True)
class UnreadItems:
    """The unread items of a feed: how many, and when the newest was first seen in it."""

    count: int
    newest_at: str


def _make_upsert(is_one_of: InList, changed: dict[str, str]) -> postgresql.Insert:
    """Return the statement that sets columns for the entries of a list that exist."""
    values: dict[str, ColumnElement[int]] = {name: bindparam(value) for name, value in changed.items()}
    owner: ColumnElement[int] = bindparam("owner")
    is_read = values.get("is_read", _make_read_value(owner))
    rows = select(
        owner,
        entries.c.id,
        is_read,
        values.get("is_saved", literal(0)),
        values.get("bookmark_id", literal(None)),
    ).where(is_one_of(entries.c.id, "ids"))
    # SQLite understands this too; only the construct lives in SQLAlchemy's PostgreSQL dialect.
    columns = ["owner_id", "entry_id", "is_read", "is_saved", "bookmark_id"]
    insertion = postgresql.insert(item_states).from_select(columns, rows)
    return insertion.on_conflict_do_update(
        index_elements=["owner_id", "entry_id"], set_={name: insertion.excluded[name] for name in changed}
    )


def _make_mark(owner: ColumnElement[int]) -> ColumnElement[int]:
    """Return the expression for the id up to which a user has read everything."""
    mark = select(read_marks.c.read_through).where(read_marks.c.owner_id == owner).scalar_subquery()
    return func.coalesce(mark, 0)


def _make_read_value(owner: ColumnElement[int]) -> ColumnElement[int]:
    """Return the expression for whether an entry without a row is read, 0 or 1."""
    return case((entries.c.id <= _make_mark(owner), 1), else_=0)


def make_status_condition(owner: int, status: ItemStatus) -> ColumnElement[bool]:
    """Return the condition for the entries in a list of a user."""
    own = item_states.c.owner_id == owner
    if status is ItemStatus.SAVED:
        return entries.c.id.in_(select(item_states.c.entry_id).where(own, item_states.c.is_saved == 1))
    row = exists_where().where(own, item_states.c.entry_id == entries.c.id)
    is_unread = or_(
        and_(entries.c.id > _make_mark(literal(owner)), not_(row.where(item_states.c.is_read == 1))),
        row.where(item_states.c.is_read == 0),
    )
    return is_unread if status is ItemStatus.UNREAD else not_(is_unread)


_SET_READ = Prepared(lambda is_one_of: _make_upsert(is_one_of, {"is_read": "is_read"}))
_SET_SAVED = Prepared(lambda is_one_of: _make_upsert(is_one_of, {"is_saved": "is_saved", "bookmark_id": "bookmark_id"}))


class ItemStateStore:
    """The states of the items of every user; every method is one transaction. Items are given by entry id."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def get_states(self, owner: int, entry_ids: Sequence[int]) -> dict[int, ItemState]:
        """Return the state of each of these items."""
        return await self.database.read(partial(load_states, owner=owner, entry_ids=entry_ids))

    async def set_read(self, owner: int, entry_ids: Sequence[int], *, is_read: bool) -> None:
        """Mark items as read or unread; ids of items that do not exist are ignored."""
        await self.database.write(partial(write_read, owner=owner, entry_ids=entry_ids, is_read=is_read))

    async def set_saved(
        self, owner: int, entry_ids: Sequence[int], *, is_saved: bool, bookmark_id: int | None = None
    ) -> None:
        """Mark items as saved or not; ids of items that do not exist are ignored."""

        def work(connection: Connection) -> None:
            _SET_SAVED.run(
                connection, owner=owner, ids=tuple(entry_ids), is_saved=int(is_saved), bookmark_id=bookmark_id
            )

        await self.database.write(work)

    async def count_unread(self, owner: int, *, limit: int = MAX_COUNTED) -> int:
        """Return the number of unread items, at most `limit`."""
        has_feed = exists_where().where(sightings.c.entry_id == entries.c.id)
        ids = select(entries.c.id).where(make_status_condition(owner, ItemStatus.UNREAD), has_feed).limit(limit)
        query = select(func.count()).select_from(ids.subquery())
        return await self.database.read(lambda connection: connection.execute(query).scalar_one())

    async def count_unread_by_feed(self, owner: int) -> dict[int, UnreadItems]:
        """Return the unread items of each feed that has some; an item of two feeds counts in both."""
        return await self.database.read(partial(_count_unread_by_feed, owner=owner))


def load_states(connection: Connection, owner: int, entry_ids: Sequence[int]) -> dict[int, ItemState]:
    """Return the state of each of these items."""
    mark = connection.execute(select(_make_mark(literal(owner)))).scalar_one()
    query = select(
        item_states.c.entry_id, item_states.c.is_read, item_states.c.is_saved, item_states.c.bookmark_id
    ).where(item_states.c.owner_id == owner, item_states.c.entry_id.in_(entry_ids))
    states = {entry_id: ItemState(is_read=entry_id <= mark) for entry_id in entry_ids}
    for entry_id, is_read, is_saved, bookmark_id in connection.execute(query):
        states[entry_id] = ItemState(bool(is_read), bool(is_saved), bookmark_id)
    return states


def _count_unread_by_feed(connection: Connection, owner: int) -> dict[int, UnreadItems]:
    # Two queries: with "or" between them, neither database uses an index.
    mark = connection.execute(select(_make_mark(literal(owner)))).scalar_one()
    counted = select(sightings.c.feed_id, func.count(), func.max(sightings.c.first_seen_at))
    own = and_(item_states.c.owner_id == owner, item_states.c.entry_id == sightings.c.entry_id)
    is_read = exists_where().where(own, item_states.c.is_read == 1)
    later = counted.where(sightings.c.entry_id > mark, not_(is_read))
    earlier = counted.join(item_states, own).where(item_states.c.is_read == 0, item_states.c.entry_id <= mark)
    found: dict[int, UnreadItems] = {}
    for query in (later, earlier):
        for feed_id, count, newest in connection.execute(query.group_by(sightings.c.feed_id)):
            other = found.get(feed_id, UnreadItems(0, ""))
            found[feed_id] = UnreadItems(other.count + count, max(other.newest_at, newest))
    return found


def write_read(connection: Connection, owner: int, entry_ids: Sequence[int], *, is_read: bool) -> None:
    """Mark items as read or unread."""
    _SET_READ.run(connection, owner=owner, ids=tuple(entry_ids), is_read=int(is_read))
