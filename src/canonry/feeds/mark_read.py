"""Mark all items of a list as read, and undo it (contract U2)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects import postgresql

from canonry.feeds.item_states import ItemStatus, write_read
from canonry.feeds.stored_items import EVERYTHING, ItemSearch, make_conditions
from canonry.store.schema import entries, item_states, read_marks, stamp

if TYPE_CHECKING:
    from datetime import datetime

    from canonry.store.database import Database

# On PostgreSQL an id may become visible after a larger one. The mark stays behind ids that are younger than this, so
# that no item becomes read before anyone could see it; newer items get rows.
_SETTLED_AFTER = timedelta(hours=1)


async def mark_all_read(database: Database, owner: int, search: ItemSearch = EVERYTHING, *, now: datetime) -> int:
    """Mark the items that match as read; return how many were unread. `search.until` leaves newer items unread."""
    return await database.write(partial(_mark_all, owner=owner, search=search, now=now))


async def undo_mark_all_read(database: Database, owner: int) -> int:
    """Make the items unread again that the last "mark all read" of a user has marked; return how many."""
    return await database.write(partial(_undo, owner=owner))


def _mark_all(connection: Connection, owner: int, search: ItemSearch, now: datetime) -> int:
    unread = replace(search, owner_id=owner, status=ItemStatus.UNREAD)
    is_sqlite = connection.dialect.name == "sqlite"
    query = select(entries.c.id).where(*make_conditions(unread, is_sqlite=is_sqlite))
    ids = list(connection.execute(query).scalars())
    mark = 0
    if replace(search, until="", owner_id=None, status=None) == EVERYTHING:
        mark = _find_settled_id(connection, min(stamp(now - _SETTLED_AFTER), search.until or stamp(now)))
    change = postgresql.insert(read_marks).values(owner_id=owner, read_through=mark, unread_before=json.dumps(ids))
    moved = func.max if is_sqlite else func.greatest
    connection.execute(
        change.on_conflict_do_update(
            index_elements=["owner_id"],
            set_={
                "read_through": moved(read_marks.c.read_through, change.excluded.read_through),
                "unread_before": change.excluded.unread_before,
            },
        )
    )
    is_before_mark = (item_states.c.owner_id == owner) & (item_states.c.entry_id <= mark)
    connection.execute(delete(item_states).where(is_before_mark, item_states.c.is_saved == 0))
    connection.execute(update(item_states).where(is_before_mark).values(is_read=1))
    write_read(connection, owner, [entry_id for entry_id in ids if entry_id > mark], is_read=True)
    return len(ids)


def _find_settled_id(connection: Connection, before: str) -> int:
    """Return the largest id up to which every entry was first seen before a time."""
    first_later = connection.execute(select(func.min(entries.c.id)).where(entries.c.first_seen_at >= before)).scalar()
    if first_later is not None:
        return int(first_later) - 1
    return int(connection.execute(select(func.max(entries.c.id))).scalar() or 0)


def _undo(connection: Connection, owner: int) -> int:
    is_own = read_marks.c.owner_id == owner
    query = select(read_marks.c.unread_before).where(is_own).with_for_update()
    ids: list[int] = json.loads(connection.execute(query).scalar() or "[]")
    if ids:
        write_read(connection, owner, ids, is_read=False)
        connection.execute(update(read_marks).where(is_own).values(unread_before="[]"))
    return len(ids)
