"""Count the items of each feed, and how many are new in a week (contract U2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, case, func, select

from canonry.store.schema import sightings, stamp

if TYPE_CHECKING:
    from canonry.store.database import Database

_WINDOW = timedelta(days=28)
_WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class FeedActivity:
    """The stored items of a feed, and the new ones in a week; None in its first week."""

    items: int = 0
    per_week: float | None = None
    newest_at: str = ""  # when the newest item was first seen


NO_ACTIVITY = FeedActivity()


async def load_activity(database: Database, now: datetime, *, feed_id: int | None = None) -> dict[int, FeedActivity]:
    """Return the activity of every feed that has items, or of one feed, by id."""
    return await database.read(partial(_load, now=now, feed_id=feed_id))


def _load(connection: Connection, now: datetime, feed_id: int | None) -> dict[int, FeedActivity]:
    since = stamp(now - _WINDOW)
    seen = sightings.c.first_seen_at
    query = select(
        sightings.c.feed_id,
        func.count().label("items"),
        func.min(seen).label("first"),
        func.max(seen).label("newest"),
        func.sum(case((seen >= since, 1), else_=0)).label("recent"),
    ).group_by(sightings.c.feed_id)
    if feed_id is not None:
        query = query.where(sightings.c.feed_id == feed_id)
    rows = connection.execute(query).all()
    # The items of the first document say nothing: they may be years old.
    at_start = _count_first_items(connection, [row.feed_id for row in rows if row.first >= since])
    return {
        row.feed_id: FeedActivity(
            row.items,
            _calculate_rate(row.recent - at_start.get(row.feed_id, 0), max(row.first, since), now),
            row.newest,
        )
        for row in rows
    }


def _count_first_items(connection: Connection, feed_ids: list[int]) -> dict[int, int]:
    """Return how many items the first document of each of these feeds had."""
    if not feed_ids:
        return {}
    is_wanted = sightings.c.feed_id.in_(feed_ids)
    first = (
        select(sightings.c.feed_id, func.min(sightings.c.first_seen_at).label("at"))
        .where(is_wanted)
        .group_by(sightings.c.feed_id)
        .subquery()
    )
    is_first = and_(first.c.feed_id == sightings.c.feed_id, first.c.at == sightings.c.first_seen_at)
    query = select(sightings.c.feed_id, func.count()).join(first, is_first).group_by(sightings.c.feed_id)
    return {found: count for found, count in connection.execute(query)}  # noqa: C416 (a row is not a tuple for mypy)


def _calculate_rate(count: int, since: str, now: datetime) -> float | None:
    time = now - datetime.fromisoformat(since)
    return count / (time / _WEEK) if time >= _WEEK else None
