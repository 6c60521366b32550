"""The journal of a rekey: entries and feeds as they were before, for its undo (contract N10)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, insert, select

from canonry.core.keys import loosen_place
from canonry.feeds.key_lookup import split_into_chunks
from canonry.rekey.entry_keys import KeyedEntry, UrlKeys
from canonry.store.pinned_policies import RekeyStatus
from canonry.store.schema import rekeyed_rows, rekeys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_FEED_ROW = 0  # in place of an entry id; entries are numbered from 1


@dataclass(frozen=True, slots=True)
class JournaledEntry:
    """An entry, and the policy of each URL that it is registered under."""

    entry: KeyedEntry
    policies: Mapping[str, str]
    journal_id: int = 0  # 0 until the entry is written to the journal


@dataclass(frozen=True, slots=True)
class JournaledFeed:
    """The ambiguous places of a feed before and after a rekey, and the fallback hashes that the rekey added."""

    feed_id: int
    before: list[str]
    after: list[str]
    hashes: list[str] = field(default_factory=list[str])


def write_entries(connection: Connection, rekey_id: int, found: Mapping[int, JournaledEntry]) -> None:
    """Add entries, which must be in the order of their ids."""
    rows = [{"rekey_id": rekey_id, "entry_id": entry_id, "row": _dump_entry(each)} for entry_id, each in found.items()]
    connection.execute(insert(rekeyed_rows), rows)


def read_entries(connection: Connection, rekey_id: int, size: int, *, after: int = 0) -> dict[int, JournaledEntry]:
    """Return the first entries, by id; with `after`, those after this row of the journal."""
    c = rekeyed_rows.c
    query = select(c.id, c.entry_id, c.row).where(c.rekey_id == rekey_id, c.id > after, c.entry_id != _FEED_ROW)
    rows = connection.execute(query.order_by(c.id).limit(size))
    return {entry_id: _parse_entry(journal_id, text) for journal_id, entry_id, text in rows}


def delete_entries(connection: Connection, rekey_id: int, journal_ids: Sequence[int]) -> None:
    """Delete the rows of entries that are restored."""
    c = rekeyed_rows.c
    for chunk in split_into_chunks(journal_ids):
        connection.execute(delete(rekeyed_rows).where(c.rekey_id == rekey_id, c.id.in_(chunk)))


def delete_forgotten(connection: Connection, size: int) -> int:
    """Delete rows of rekeys that cannot be undone; return how many."""
    c = rekeyed_rows.c
    forgotten = select(rekeys.c.id).where(rekeys.c.status == RekeyStatus.FORGOTTEN)
    ids = connection.execute(select(c.id).where(c.rekey_id.in_(forgotten)).order_by(c.id).limit(size)).scalars().all()
    for chunk in split_into_chunks(ids):
        connection.execute(delete(rekeyed_rows).where(c.id.in_(chunk)))
    return len(ids)


def write_feeds(connection: Connection, rekey_id: int, found: Iterable[JournaledFeed]) -> None:
    """Add the ambiguous places of feeds."""
    rows = [{"rekey_id": rekey_id, "entry_id": _FEED_ROW, "row": _dump_feed(each)} for each in found]
    if rows:
        connection.execute(insert(rekeyed_rows), rows)


def pop_feeds(connection: Connection, rekey_id: int) -> list[JournaledFeed]:
    """Return the feeds and delete them from the journal."""
    is_feed = (rekeyed_rows.c.rekey_id == rekey_id, rekeyed_rows.c.entry_id == _FEED_ROW)
    rows = connection.execute(select(rekeyed_rows.c.row).where(*is_feed).order_by(rekeyed_rows.c.id)).scalars().all()
    connection.execute(delete(rekeyed_rows).where(*is_feed))
    return [JournaledFeed(**json.loads(row)) for row in rows]


def _dump_feed(feed: JournaledFeed) -> str:
    return json.dumps({"feed_id": feed.feed_id, "before": feed.before, "after": feed.after, "hashes": feed.hashes})


def _dump_entry(journaled: JournaledEntry) -> str:
    entry, keys = journaled.entry, journaled.entry.keys
    return json.dumps(
        {
            "url": entry.url,
            "first_seen_at": entry.first_seen_at,
            "canonical_url": keys.canonical_url,
            "dedupe_key": keys.dedupe_key,
            "registered": dict(journaled.policies),
            "places": dict(keys.places),
        }
    )


def _parse_entry(journal_id: int, text: str) -> JournaledEntry:
    row = json.loads(text)
    # Journals of earlier releases have places with trailing slashes and needless escapes.
    places = {int(feed_id): loosen_place(place) for feed_id, place in row["places"].items()}
    keys = UrlKeys(row["canonical_url"], row["dedupe_key"], tuple(row["registered"]), places)
    return JournaledEntry(KeyedEntry(row["url"], row["first_seen_at"], keys), row["registered"], journal_id)
