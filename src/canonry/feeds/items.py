"""Store a document: each of its items once, in one transaction with its metadata and validators (contract I2–I5)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy import Connection, delete, insert
from sqlalchemy import exists as exists_where

from canonry.core.keys import KeyType, replace_unstorable
from canonry.errors import FeedNotFound
from canonry.feeds import item_statements as statements
from canonry.feeds.changes import record_changes
from canonry.feeds.feed_values import FeedDocument, FeedNote, MatchConfidence, MergedFeed, MergedItem
from canonry.feeds.item_matching import ItemMatch, ItemOutcome, match_items
from canonry.feeds.key_lookup import KeyOwners, look_up_entries, split_into_chunks
from canonry.feeds.keyed_items import make_keyed_items
from canonry.feeds.tombstones import ExpiredItem, bury_items, recall_items
from canonry.feeds.volatile_feeds import (
    VOLATILE_AFTER_DOCUMENTS,
    count_changed_documents,
    damp_updates,
    make_stable_hash,
)
from canonry.store.pinned_policies import ENTRY, get_or_pin_policy
from canonry.store.schema import ambiguous_keys, entries, sightings, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.feeds.item_matching import DocumentMatch
    from canonry.feeds.keyed_items import DocumentKey
    from canonry.store.statements import Row

    # Each item with the id of its entry, old or new.
    StoredMatches: TypeAlias = list[tuple[ItemMatch, int]]

_KEY_TYPE_NAMES = {key_type: key_type.value for key_type in KeyType}
_FEED_SCOPED_KEYS = frozenset({KeyType.GUID, KeyType.FALLBACK_HASH})
_TEXT_START_CHARS = 200  # enough to recognise a text, little enough to hold in memory for many items


def merge_document(
    connection: Connection,
    *,
    feed_id: int,
    document: FeedDocument,
    now: str,
    expired_before: str,
    forgotten_before: str = "",
) -> MergedFeed:
    """Store each item of a document once; delete what the document lacks and was last seen before `expired_before`.

    An item that was deleted and comes back is not reported as new, unless it was deleted before `forgotten_before`.
    Raises FeedNotFound if the feed has been removed.
    """
    locked = statements.LOCK_FEED.fetch_all(connection, feed_id=feed_id)
    if not locked:
        raise FeedNotFound(feed_id)
    [(key_url, last_number, feed_url, changed_before, has_tombstones, has_page_places)] = locked
    owners, ambiguous, match = match_document(
        connection,
        document,
        feed_id=feed_id,
        key_url=key_url,
        last_number=last_number,
        policy=get_or_pin_policy(connection, ENTRY),
        recalls_since=forgotten_before if has_tombstones else None,
        has_page_places=has_page_places,
    )
    matches, changed_documents = match.items, 0
    if last_number:
        changed_documents = count_changed_documents(changed_before, matches)
        if changed_before >= VOLATILE_AFTER_DOCUMENTS:
            matches = damp_updates(matches)
    number = last_number + 1
    stored, first_seen = _write_entries(connection, matches, now)
    _write_sightings(connection, feed_id, number, stored, now, has_stable_hashes=changed_documents > 0)
    _register_keys(connection, owners, stored)
    if new := match.ambiguous - ambiguous:
        key_rows = [{"feed_id": feed_id, "key_type": key_type, "key_value": value} for key_type, value in sorted(new)]
        connection.execute(insert(ambiguous_keys), key_rows)
    # What a document lacks because it was cut is not gone.
    is_whole = last_number > 0 and not document.is_cut
    deleted = 0
    if is_whole and (expired := _load_expired(connection, feed_id, number, expired_before)):
        bury_items(connection, feed_id, expired, ambiguous=match.ambiguous, now=now, since=forgotten_before)
        statements.DELETE_EXPIRED.run(connection, feed_id=feed_id, number=number, before=expired_before)
        deleted = delete_unseen_entries(connection, [item.entry_id for item in expired])
    is_volatile = changed_documents >= VOLATILE_AFTER_DOCUMENTS
    statements.UPDATE_FEED.run(
        connection,
        feed_id=feed_id,
        title=replace_unstorable(document.title),
        format=str(document.format),
        hubs=replace_unstorable("\n".join(document.hubs)),
        topic=replace_unstorable(document.topic),
        hubs_origin=str(document.hubs_origin) if document.hubs else "",
        ttl=document.ttl,
        etag=replace_unstorable(document.etag),
        last_modified=replace_unstorable(document.last_modified),
        number=number,
        changed_documents=changed_documents,
        note=(FeedNote.CHANGES_ON_EVERY_REQUEST if is_volatile else FeedNote.NONE).value,
        now=now,
        next_check_at=None if document.next_check_at is None else stamp(document.next_check_at),
    )
    merged = _make_merged_items(stored, first_seen, now)
    merged = record_changes(connection, merged, feed_id=feed_id, feed_url=feed_url, now=now)  # must come last
    return MergedFeed(merged, tuple(match.conflicts), deleted)


def match_document(
    connection: Connection,
    document: FeedDocument,
    *,
    feed_id: int,
    key_url: str,
    last_number: int,
    policy: str,
    recalls_since: str | None,
    has_page_places: bool,
) -> tuple[KeyOwners, set[DocumentKey], DocumentMatch]:
    """Decide what each item of a document is; also return the owners of its keys and the ambiguous keys. Only reads.

    Items that were deleted after `recalls_since` are not new. With `has_page_places`, links of some entries were read.
    """
    items = make_keyed_items(document.items, key_url, policy)
    ambiguous: set[DocumentKey] = set()
    if last_number:
        rows = statements.SELECT_AMBIGUOUS_KEYS.fetch_all(connection, feed_id=feed_id)
        ambiguous = {(KeyType(key_type), value) for key_type, value in rows}
    owners, known = look_up_entries(
        connection,
        feed_id,
        key_url,
        items,
        ambiguous,
        is_first_document=not last_number,
        has_page_places=has_page_places,
    )
    match = match_items(items, known, ambiguous, key_url, policy)
    if recalls_since is not None:
        recalled = recall_items(connection, feed_id, match.items, ambiguous=match.ambiguous, since=recalls_since)
        match = replace(match, items=recalled)
    return owners, ambiguous, match


def delete_unseen_entries(connection: Connection, ids: Sequence[int]) -> int:
    """Delete the entries that no feed shows any more, and return how many were deleted."""
    is_seen = exists_where().where(sightings.c.entry_id == entries.c.id)
    deleted = 0
    for chunk in split_into_chunks(sorted(ids)):
        if connection.dialect.name == "postgresql":
            # Another transaction that adds a sighting of one of them commits before this check or waits for it.
            connection.execute(statements.LOCK_ENTRIES_TO_DELETE, {"values": chunk})
        deleted += connection.execute(delete(entries).where(entries.c.id.in_(chunk), ~is_seen)).rowcount
    return deleted


def _write_entries(connection: Connection, matches: list[ItemMatch], now: str) -> tuple[StoredMatches, dict[int, str]]:
    """Insert the new entries, update the changed ones, touch the others.

    Returns the matches with the ids of their entries, and when the old entries were first seen.
    """
    old_ids = sorted(match.entry.entry_id for match in matches if match.entry is not None)
    if connection.dialect.name == "postgresql":
        # All writers lock in the order of the ids: feeds that share entries cannot deadlock.
        for chunk in split_into_chunks(old_ids):
            connection.execute(statements.LOCK_ENTRIES_TO_UPDATE, {"values": chunk})
    new_ids = iter(_reserve_ids(connection, len(matches) - len(old_ids)))
    stored = [(match, next(new_ids) if match.entry is None else match.entry.entry_id) for match in matches]
    statements.INSERT_ENTRIES.insert(
        connection, [_make_entry_row(match, entry_id, now) for match, entry_id in stored if match.entry is None]
    )
    statements.UPDATE_ENTRY.run_many(
        connection,
        [
            {
                **dict(zip(statements.ENTRY_COLUMNS, _make_entry_row(match, entry_id, now), strict=True)),
                "entry": entry_id,
            }
            for match, entry_id in stored
            if match.entry is not None and (match.outcome is ItemOutcome.UPDATED or match.is_imported)
        ],
    )
    if not old_ids:
        return stored, {}
    touched = statements.TOUCH_ENTRIES.fetch_all(connection, ids=tuple(old_ids), now=now)
    return stored, {entry_id: first_seen_at for entry_id, first_seen_at in touched}  # noqa: C416 – typed, unlike dict()


def _reserve_ids(connection: Connection, count: int) -> Sequence[int]:
    """Return the next ids of entries; SQLite has one writer, so the ids after the last one given are free."""
    if not count:
        return ()
    if connection.dialect.name == "postgresql":
        return [entry_id for (entry_id,) in statements.SELECT_NEXT_ENTRY_IDS.fetch_all(connection, count=count)]
    [(last,)] = statements.SELECT_LAST_ENTRY_ID.fetch_all(connection)
    return range(last + 1, last + 1 + count)


def _make_entry_row(match: ItemMatch, entry_id: int, now: str) -> Row:
    item = match.item
    return (
        entry_id,
        item.dedupe_key,
        item.guid,
        item.link,
        item.canonical_url,
        item.title,
        item.published,
        item.content_hash,
        _get_confidence(match).value,
        now,
        now,
        item.place,
    )


def _write_sightings(
    connection: Connection, feed_id: int, number: int, stored: StoredMatches, now: str, *, has_stable_hashes: bool
) -> None:
    """Record how the feed shows each entry in this document."""
    unchanged: list[int] = []
    changed: list[Row] = []
    new: list[Row] = []
    for match, entry_id in stored:
        if match.is_unchanged:
            unchanged.append(entry_id)
            continue
        item = match.item
        (changed if match.is_in_feed else new).append(
            (
                feed_id,
                entry_id,
                item.guid,
                item.place,
                item.title,
                item.published,
                item.content_hash,
                number,
                now,
                now,
                item.link,
                make_stable_hash(item.parsed) if has_stable_hashes else "",
            )
        )
    if unchanged:
        statements.TOUCH_SIGHTINGS.run(connection, feed_id=feed_id, ids=tuple(unchanged), number=number, now=now)
    statements.UPDATE_SIGHTING.run_many(
        connection,
        [
            {**values, "feed": feed_id, "entry": values["entry_id"]}
            for values in (dict(zip(statements.SIGHTING_COLUMNS, row, strict=True)) for row in changed)
        ],
    )
    statements.INSERT_SIGHTINGS.insert(connection, new)


def _register_keys(connection: Connection, owners: KeyOwners, stored: StoredMatches) -> None:
    """Register the keys that no entry has yet, in sorted order, so that two writers cannot deadlock.

    A guid or hash that belongs to an entry which this document shows as another item moves to the item that
    carries it now: otherwise that item would be new in every document.
    """
    free: dict[tuple[str, str], Row] = {}
    moved: list[dict[str, object]] = []
    shown = {entry_id for _, entry_id in stored}
    for match, entry_id in stored:
        item = match.item
        for key in (*item.keys, *item.older_keys) if item.older_keys else item.keys:
            key_type = _KEY_TYPE_NAMES[key.key_type]
            name = key_type, key.key_value
            owner = owners.get(name)
            if owner is None:
                if name not in free:
                    free[name] = (key_type, key.key_value, entry_id, key.policy)
            elif owner != entry_id and owner in shown and key.key_type in _FEED_SCOPED_KEYS:
                moved.append({"of_type": key_type, "of_value": key.key_value, "entry": entry_id})
    statements.INSERT_KEYS.insert(connection, [free[name] for name in sorted(free)])
    statements.MOVE_KEY.run_many(connection, moved)


def _load_expired(connection: Connection, feed_id: int, number: int, before: str) -> list[ExpiredItem]:
    """Return what this document lacks and was last seen before a time."""
    rows = statements.SELECT_EXPIRED.fetch_all(connection, feed_id=feed_id, number=number, before=before)
    return [ExpiredItem(*row) for row in rows]


def _make_merged_items(stored: StoredMatches, first_seen: dict[int, str], now: str) -> tuple[MergedItem, ...]:
    return tuple(
        [
            MergedItem(
                match.outcome,
                entry_id,
                match.item.title,
                match.item.link,
                match.item.keys,
                match.item.dedupe_key,
                _get_confidence(match),
                first_seen.get(entry_id, now),
                now,
                match.shares_url_with,
                match.item.parsed.text[:_TEXT_START_CHARS],
                match.item.parsed,
            )
            for match, entry_id in stored
        ]
    )


def _get_confidence(match: ItemMatch) -> MatchConfidence:
    return MatchConfidence.HIGH if match.item.has_strong_key else MatchConfidence.LOW
