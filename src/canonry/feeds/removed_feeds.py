"""Remove a feed, and restore it for some weeks with its items and what users did with them (contract U2)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy import exists as exists_where
from sqlalchemy.dialects import postgresql

from canonry.core.keys import is_weak_guid
from canonry.errors import FeedNotFound
from canonry.feeds.item_evidence import get_fragment, is_same_text
from canonry.feeds.items import delete_unseen_entries
from canonry.feeds.key_lookup import split_into_chunks
from canonry.store.pinned_policies import ENTRY, find_unfinished_rekey
from canonry.store.schema import (
    ambiguous_keys,
    entries,
    entry_identities,
    feed_aliases,
    feeds,
    item_links,
    item_states,
    pinned_policies,
    removed_feeds,
    sightings,
    stamp,
    tombstones,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Column, Table

    from canonry.store.database import Database

    _Row = dict[str, Any]

RESTORABLE_FOR = timedelta(days=30)
_OF_FEED = (feed_aliases, ambiguous_keys, tombstones)
_OF_ENTRIES = (entry_identities, item_links, item_states)
_MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class RemovedFeed:
    """A feed that can be restored."""

    id: int  # of the removal
    title: str
    url: str
    removed_at: str


@dataclass(frozen=True, slots=True)
class Restoration:
    """The result of a restoration. Without `is_restored`, the feed is followed again already, as `feed_id`."""

    feed_id: int
    is_restored: bool


async def list_removed_feeds(database: Database, now: datetime) -> list[RemovedFeed]:
    """Return the feeds that can be restored, the latest first."""
    table = removed_feeds.c
    query = select(table.id, table.title, table.url, table.removed_at)
    query = query.where(table.removed_at > stamp(now - RESTORABLE_FOR)).order_by(table.id.desc()).limit(_MAX_LISTED)
    return await database.read(lambda connection: [RemovedFeed(*row) for row in connection.execute(query)])


async def restore_feed(database: Database, removal_id: int) -> Restoration:
    """Restore a feed, its items and their states; FeedNotFound if it cannot be restored any more."""
    return await database.write(partial(_restore, removal_id=removal_id))


def remove_feed(connection: Connection, feed_id: int, now: datetime) -> None:
    """Delete a feed and the entries that only this feed has shown, and keep their rows to restore them."""
    feed = connection.execute(select(feeds).where(feeds.c.id == feed_id).with_for_update()).mappings().first()
    if feed is None:
        return
    shown = _load_rows(connection, sightings, sightings.c.feed_id, [feed_id])
    entry_ids = [row["entry_id"] for row in shown]
    other = sightings.alias()
    is_shared = exists_where().where(other.c.entry_id == sightings.c.entry_id, other.c.feed_id != feed_id)
    own = select(sightings.c.entry_id).where(sightings.c.feed_id == feed_id, ~is_shared)
    own_ids = list(connection.execute(own).scalars())
    rows = {
        "policy": _find_settled_policy(connection),
        "feed": dict(feed),
        "sightings": shown,
        "entries": _load_rows(connection, entries, entries.c.id, own_ids),
        **{table.name: _load_rows(connection, table, table.c.feed_id, [feed_id]) for table in _OF_FEED},
        **{table.name: _load_rows(connection, table, table.c.entry_id, own_ids) for table in _OF_ENTRIES},
    }
    connection.execute(delete(feeds).where(feeds.c.id == feed_id))
    delete_unseen_entries(connection, entry_ids)
    connection.execute(delete(removed_feeds).where(removed_feeds.c.removed_at <= stamp(now - RESTORABLE_FOR)))
    title = feed["own_title"] or feed["title"] or feed["url"]
    connection.execute(
        insert(removed_feeds).values(title=title, url=feed["url"], rows=json.dumps(rows), removed_at=stamp(now))
    )


def _restore(connection: Connection, removal_id: int) -> Restoration:
    query = select(removed_feeds.c.rows).where(removed_feeds.c.id == removal_id).with_for_update()
    text = connection.execute(query).scalar()
    if text is None:
        raise FeedNotFound(removal_id)
    rows: dict[str, Any] = json.loads(text)
    feed: _Row = rows["feed"]
    is_same = feeds.c.url.in_([feed["url"], feed["key_url"]]) | (feeds.c.key_url == feed["key_url"])
    if (followed := connection.execute(select(feeds.c.id).where(is_same)).scalar()) is not None:
        return Restoration(followed, is_restored=False)
    # The next poll gets the whole document, also with the items that cannot be restored.
    _insert(connection, feeds, [{**feed, "etag": "", "last_modified": ""}])
    for table in _OF_FEED:
        _insert(connection, table, rows[table.name])
    # The keys of items depend on the policy. After a rekey, the next poll brings the items with new keys.
    if rows["policy"] and rows["policy"] == _find_settled_policy(connection):
        _restore_items(connection, rows)
    connection.execute(delete(removed_feeds).where(removed_feeds.c.id == removal_id))
    return Restoration(feed["id"], is_restored=True)


def _find_settled_policy(connection: Connection) -> str:
    """Return the policy that made the keys of all items; empty before the first item and during a rekey."""
    if find_unfinished_rekey(connection) is not None:
        return ""
    query = select(pinned_policies.c.policy).where(pinned_policies.c.purpose == ENTRY)
    return connection.execute(query).scalar() or ""


def _restore_items(connection: Connection, rows: dict[str, list[_Row]]) -> None:
    """Insert the items again; one that another feed brought meanwhile is that entry."""
    moved = _find_brought_again(connection, rows["entries"], shown={row["entry_id"] for row in rows["sightings"]})
    _insert(connection, entries, [row for row in rows["entries"] if row["id"] not in moved])
    shown = _move(rows["sightings"], moved)
    wanted = [row["entry_id"] for row in shown]
    stored = {row["id"] for row in _load_rows(connection, entries, entries.c.id, wanted)}  # a shared one may be deleted
    _insert(connection, sightings, [row for row in shown if row["entry_id"] in stored])
    for table in _OF_ENTRIES:
        _insert(connection, table, [row for row in _move(rows[table.name], moved) if row["entry_id"] in stored])


def _find_brought_again(connection: Connection, removed: list[_Row], shown: set[int]) -> dict[int, int]:
    """Return the entries by which other feeds brought removed ones again, by the id of the removed one.

    As in a document of the feed, that needs the same URL, and the same guid or title (contract I3). The entries that
    the feed has `shown` are others.
    """
    at_place: dict[str, list[_Row]] = {}
    for row in _load_rows(connection, entries, entries.c.place, [row["place"] for row in removed if row["place"]]):
        at_place.setdefault(row["place"], []).append(row)
    found: dict[int, int] = {}
    taken = set(shown)
    for row in removed:
        for other in at_place.get(row["place"], ()):
            if other["id"] not in taken and _has_same_guid_or_title(row, other):
                found[row["id"]] = other["id"]
                taken.add(other["id"])
                break
    return found


def _has_same_guid_or_title(one: _Row, other: _Row) -> bool:
    """Return whether two entries with one URL have the guid or title in common that rule 5 of `item_matching` asks for.

    Stricter than the rule: an imported entry without both, and a title and date under another fragment, are no match.
    """
    has_same_guid = is_same_text(one["guid"], other["guid"]) and not is_weak_guid(one["guid"])
    has_same_fragment = get_fragment(one["url"]) == get_fragment(other["url"])
    return has_same_guid or (has_same_fragment and is_same_text(one["title"], other["title"]))


def _move(rows: Sequence[_Row], moved: dict[int, int]) -> list[_Row]:
    return [{**row, "entry_id": moved.get(row["entry_id"], row["entry_id"])} for row in rows]


def _load_rows(connection: Connection, table: Table, column: Column[Any], values: Sequence[Any]) -> list[_Row]:
    return [
        dict(row)
        for chunk in split_into_chunks(sorted(set(values)))
        for row in connection.execute(select(table).where(column.in_(chunk))).mappings()
    ]


def _insert(connection: Connection, table: Table, rows: Sequence[_Row]) -> None:
    """Insert rows of this or an older version; what exists stays."""
    known = [{name: value for name, value in row.items() if name in table.c} for row in rows]
    if known:
        connection.execute(postgresql.insert(table).on_conflict_do_nothing(), known)
