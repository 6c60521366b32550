"""Rekey of places that identify nothing in a feed, because several items of one document carry them (contract I3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, delete, func, insert, or_, select

from canonry.core.keys import ENTRY_POLICY, Item, KeyType, make_fallback_hash
from canonry.feeds.key_lookup import in_chunks
from canonry.rekey.entry_keys import rekeyed_place
from canonry.rekey.journal import KeptFeed, keep_feeds, take_feeds
from canonry.store.schema import ambiguous_keys, entries, entry_identities, feeds, sightings

if TYPE_CHECKING:
    from collections.abc import Collection

_c = ambiguous_keys.c
_OF_URL = _c.key_type == KeyType.CANONICAL_URL.value


def move_places(connection: Connection, rekey_id: int, policy: str) -> None:
    """The ambiguous places of all feeds under another policy, when all sightings are under it."""
    old, shared = _ambiguous(connection), _shared(connection)
    kept: list[KeptFeed] = []
    for feed_id in sorted({*old, *shared}):
        before = old.get(feed_id, set())
        after = {rekeyed_place(place, policy) for place in before} - {""} | shared.get(feed_id, set())
        _replace(connection, feed_id, before, after)
        kept.append(KeptFeed(feed_id, sorted(before), sorted(after), _learn_hashes(connection, feed_id, after)))
    keep_feeds(connection, rekey_id, kept)


def restore_places(connection: Connection, rekey_id: int, policy: str, *, since: str) -> None:
    """The ambiguous places as they were before a rekey; those learned since it ended under its first policy."""
    now, kept = _ambiguous(connection), {each.feed_id: each for each in take_feeds(connection, rekey_id)}
    shared = _shared(connection, since=since)
    for feed_id in connection.execute(select(feeds.c.id).order_by(feeds.c.id)).scalars().all():
        there = now.get(feed_id, set())
        was = kept.get(feed_id, KeptFeed(feed_id, [], []))
        learned = {rekeyed_place(place, policy) for place in there.difference(was.after)} - {""}
        after = learned.union(was.before, shared.get(feed_id, ()))
        for chunk in in_chunks(was.hashes):
            is_one = and_(
                entry_identities.c.key_type == KeyType.FALLBACK_HASH.value, entry_identities.c.key_value.in_(chunk)
            )
            connection.execute(delete(entry_identities).where(is_one))
        _replace(connection, feed_id, there, after)
        if feed_id in shared:
            _learn_hashes(connection, feed_id, shared[feed_id])


def _ambiguous(connection: Connection) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for feed_id, place in connection.execute(select(_c.feed_id, _c.key_value).where(_OF_URL)):
        found.setdefault(feed_id, set()).add(place)
    return found


def _shared(connection: Connection, *, since: str = "") -> dict[int, set[str]]:
    """Places that several items of one document carry, at least one of them new since a time."""
    s = sightings.c
    query = (
        select(s.feed_id, s.place)
        .where(s.place != "")
        .group_by(s.feed_id, s.place, s.document)
        .having(func.count() > 1, func.max(s.first_seen_at) >= since)
    )
    found: dict[int, set[str]] = {}
    for feed_id, place in connection.execute(query):
        found.setdefault(feed_id, set()).add(place)
    return found


def _replace(connection: Connection, feed_id: int, before: set[str], after: set[str]) -> None:
    for chunk in in_chunks(sorted(before - after)):
        connection.execute(delete(ambiguous_keys).where(_c.feed_id == feed_id, _OF_URL, _c.key_value.in_(chunk)))
    rows = [
        {"feed_id": feed_id, "key_type": KeyType.CANONICAL_URL.value, "key_value": place}
        for place in sorted(after - before)
    ]
    if rows:
        connection.execute(insert(ambiguous_keys), rows)


def _learn_hashes(connection: Connection, feed_id: int, places: Collection[str]) -> list[str]:
    """Register hashes of entries that nothing else identifies in the feed from now on; the hashes.

    A guid identifies an item whatever its URL. One that had only its URL would not be known again.
    """
    s, i = sightings.c, entry_identities.c
    unclear = select(_c.key_value).where(_c.feed_id == feed_id, _c.key_type == KeyType.GUID.value)
    found: dict[str, int] = {}
    for chunk in in_chunks(sorted(places)):
        query = (
            select(
                s.entry_id, s.title, s.published, func.coalesce(func.nullif(s.url, ""), entries.c.url), feeds.c.key_url
            )
            .join(entries, entries.c.id == s.entry_id)
            .join(feeds, feeds.c.id == s.feed_id)
            .where(s.feed_id == feed_id, s.place.in_(chunk), or_(s.guid == "", s.guid.in_(unclear)))
            .order_by(s.entry_id)
        )
        for entry_id, title, published, url, key_url in connection.execute(query):
            digest = make_fallback_hash(Item(title=title, published=published, link=url), key_url)
            found.setdefault(digest, entry_id)
    for chunk in in_chunks(sorted(found)):
        taken = select(i.key_value).where(i.key_type == KeyType.FALLBACK_HASH.value, i.key_value.in_(chunk))
        for digest in connection.execute(taken).scalars():
            del found[digest]
    rows = [
        {
            "key_type": KeyType.FALLBACK_HASH.value,
            "key_value": digest,
            "entry_id": entry_id,
            "policy": ENTRY_POLICY,
        }
        for digest, entry_id in sorted(found.items())
    ]
    if rows:
        connection.execute(insert(entry_identities), rows)
    return sorted(found)
