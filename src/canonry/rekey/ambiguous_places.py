"""Rekey the ambiguous places of feeds: those that several items of one document share (contract I3, N10).

An ambiguous place identifies no item of its feed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, delete, func, insert, or_, select

from canonry.core.keys import (
    ENTRY_POLICY,
    Item,
    KeyType,
    loosen_place,
    make_first_fallback_hash,
    make_link_key,
    strip_scheme_and_www,
)
from canonry.feeds.key_lookup import split_into_chunks
from canonry.rekey.entry_journal import JournaledFeed, pop_feeds, write_feeds
from canonry.rekey.entry_keys import rekey_exact_place
from canonry.store.schema import ambiguous_keys, entries, entry_identities, feeds, sightings

if TYPE_CHECKING:
    from collections.abc import Collection

_KEYS = ambiguous_keys.c
_IS_PLACE = _KEYS.key_type == KeyType.CANONICAL_URL.value


def move_places(connection: Connection, rekey_id: int, policy: str) -> None:
    """Rekey the ambiguous places of all feeds; all sightings must be under the new policy already."""
    old, shared = _load_ambiguous(connection), _find_shared(connection, policy)
    journal: list[JournaledFeed] = []
    for feed_id in sorted({*old, *shared}):
        before = old.get(feed_id, set())
        after = {rekey_exact_place(place, policy) for place in before} - {""} | shared.get(feed_id, set())
        _replace_places(connection, feed_id, before, after)
        hashes = _register_hashes(connection, feed_id, after, policy)
        journal.append(JournaledFeed(feed_id, sorted(before), sorted(after), hashes))
    write_feeds(connection, rekey_id, journal)


def restore_places(connection: Connection, rekey_id: int, policy: str, *, since: str) -> None:
    """Restore the ambiguous places of all feeds; rekey the places that are newer than `since` to `policy`."""
    current, journal = _load_ambiguous(connection), {each.feed_id: each for each in pop_feeds(connection, rekey_id)}
    shared = _find_shared(connection, policy, since=since)
    for feed_id in connection.execute(select(feeds.c.id).order_by(feeds.c.id)).scalars().all():
        before = current.get(feed_id, set())
        journaled = journal.get(feed_id, JournaledFeed(feed_id, [], []))
        learned = {rekey_exact_place(place, policy) for place in before.difference(journaled.after)} - {""}
        after = learned.union(journaled.before, shared.get(feed_id, ()))
        for chunk in split_into_chunks(journaled.hashes):
            is_added = and_(
                entry_identities.c.key_type == KeyType.FALLBACK_HASH.value, entry_identities.c.key_value.in_(chunk)
            )
            connection.execute(delete(entry_identities).where(is_added))
        _replace_places(connection, feed_id, before, after)
        if feed_id in shared:
            _register_hashes(connection, feed_id, shared[feed_id], policy)


def _load_ambiguous(connection: Connection) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for feed_id, place in connection.execute(select(_KEYS.feed_id, _KEYS.key_value).where(_IS_PLACE)):
        found.setdefault(feed_id, set()).add(place)
    return found


def _find_shared(connection: Connection, policy: str, *, since: str = "") -> dict[int, set[str]]:
    """Return the exact places that several items of one document share, at least one first seen since a time."""
    s = sightings.c
    shared = (
        select(s.feed_id, s.place, s.document)
        .where(s.place != "")
        .group_by(s.feed_id, s.place, s.document)
        .having(func.count() > 1, func.max(s.first_seen_at) >= since)
        .subquery()
    )
    is_shared = and_(s.feed_id == shared.c.feed_id, s.place == shared.c.place, s.document == shared.c.document)
    first_seen: dict[tuple[int, int, str], list[str]] = {}
    query = select(s.feed_id, s.document, s.place, s.url, s.first_seen_at).join(shared, is_shared)
    for feed_id, document, place, url, first_seen_at in connection.execute(query):
        exact_place = _make_exact_place(url, place, policy)
        first_seen.setdefault((feed_id, document, exact_place), []).append(first_seen_at)
    found: dict[int, set[str]] = {}
    for (feed_id, _, exact_place), times in first_seen.items():
        if len(times) > 1 and max(times) >= since:
            found.setdefault(feed_id, set()).add(exact_place)
    return found


def _make_exact_place(url: str, place: str, policy: str) -> str:
    """Return the exact place of a link; of a link that is not known, the place."""
    address = strip_scheme_and_www(make_link_key(url, policy=policy))
    fragment = url.partition("#")[2].strip()
    return (f"{address}#{fragment}" if fragment else address) or place


def _replace_places(connection: Connection, feed_id: int, before: set[str], after: set[str]) -> None:
    for chunk in split_into_chunks(sorted(before - after)):
        connection.execute(
            delete(ambiguous_keys).where(_KEYS.feed_id == feed_id, _IS_PLACE, _KEYS.key_value.in_(chunk))
        )
    rows = [
        {"feed_id": feed_id, "key_type": KeyType.CANONICAL_URL.value, "key_value": place}
        for place in sorted(after - before)
    ]
    if rows:
        connection.execute(insert(ambiguous_keys), rows)


def _register_hashes(connection: Connection, feed_id: int, places: Collection[str], policy: str) -> list[str]:
    """Register the fallback hash of every entry at these places that has no other identity; return the new hashes.

    A guid identifies an item whatever its URL. An item that had only its URL would not be recognised again.
    """
    s, i = sightings.c, entry_identities.c
    ambiguous_guids = select(_KEYS.key_value).where(_KEYS.feed_id == feed_id, _KEYS.key_type == KeyType.GUID.value)
    found: dict[str, int] = {}
    for chunk in split_into_chunks(sorted({loosen_place(place.partition("#")[0]) for place in places})):
        query = (
            select(
                s.entry_id,
                s.title,
                s.published,
                s.place,
                s.url,
                func.coalesce(func.nullif(s.url, ""), entries.c.url),
                feeds.c.key_url,
            )
            .join(entries, entries.c.id == s.entry_id)
            .join(feeds, feeds.c.id == s.feed_id)
            .where(s.feed_id == feed_id, s.place.in_(chunk), or_(s.guid == "", s.guid.in_(ambiguous_guids)))
            .order_by(s.entry_id)
        )
        for entry_id, title, published, place, shown_url, url, key_url in connection.execute(query):
            if _make_exact_place(shown_url, place, policy) not in places:
                continue
            # The text is not stored: the first version of the hash is all that can be made.
            digest = make_first_fallback_hash(Item(title=title, published=published, link=url), key_url)
            found.setdefault(digest, entry_id)
    for chunk in split_into_chunks(sorted(found)):
        registered = select(i.key_value).where(i.key_type == KeyType.FALLBACK_HASH.value, i.key_value.in_(chunk))
        for digest in connection.execute(registered).scalars():
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
