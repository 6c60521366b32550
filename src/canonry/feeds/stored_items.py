"""The query for stored items, as `canonry feeds items` and `/api/items` list them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, or_, select
from sqlalchemy import exists as exists_where

from canonry.feeds.feed_values import MatchConfidence, StoredItem
from canonry.store.schema import entries, feeds, sightings

if TYPE_CHECKING:
    from sqlalchemy import Connection


def select_items(
    connection: Connection,
    *,
    since: str | None,
    only_duplicates: bool,
    feed_id: int | None,
    limit: int | None,
    offset: int,
) -> list[StoredItem]:
    """Return entries as their feeds show them, the newest first.

    Duplicates are entries that several feeds show, and different entries at one URL.
    """
    query = (
        select(
            entries.c.id.label("entry_id"),
            feeds.c.url.label("feed_url"),
            sightings.c.title,
            entries.c.url,
            entries.c.dedupe_key,
            entries.c.match_confidence,
            sightings.c.first_seen_at,
            sightings.c.last_seen_at,
        )
        .join(sightings, sightings.c.entry_id == entries.c.id)
        .join(feeds, feeds.c.id == sightings.c.feed_id)
        .order_by(sightings.c.first_seen_at.desc(), entries.c.id, feeds.c.id)
    )
    if since is not None:
        query = query.where(sightings.c.first_seen_at >= since)
    if feed_id is not None:
        query = query.where(feeds.c.id == feed_id)
    if only_duplicates:
        other_sighting, other_entry = sightings.alias(), entries.alias()
        query = query.where(
            or_(
                exists_where().where(
                    other_sighting.c.entry_id == entries.c.id, other_sighting.c.feed_id != sightings.c.feed_id
                ),
                and_(
                    entries.c.place != "",
                    exists_where().where(other_entry.c.place == entries.c.place, other_entry.c.id != entries.c.id),
                ),
            )
        )
    return [
        StoredItem(
            row.entry_id,
            row.feed_url,
            row.title,
            row.url,
            row.dedupe_key,
            MatchConfidence(row.match_confidence),
            row.first_seen_at,
            row.last_seen_at,
        )
        for row in connection.execute(query.limit(limit).offset(offset))
    ]
