"""The journal of a rekey: every entry as it was, and the places of every feed, for the undo."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, insert, select

from canonry.feeds.key_lookup import in_chunks
from canonry.rekey.entry_keys import KeyedEntry, UrlKeys
from canonry.store.schema import rekeyed_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_OF_FEED = 0  # entry_id of the rows that are about a feed; entries are numbered from 1


@dataclass(frozen=True, slots=True)
class Kept:
    """An entry, and the policy of each URL it is registered under."""

    entry: KeyedEntry
    policies: Mapping[str, str]
    journal_id: int = 0


@dataclass(frozen=True, slots=True)
class KeptFeed:
    """The ambiguous places of a feed before and after a rekey, and the hashes its entries got."""

    feed_id: int
    before: list[str]
    after: list[str]
    hashes: list[str] = field(default_factory=list[str])


def keep_entries(connection: Connection, rekey_id: int, kept: Mapping[int, Kept]) -> None:
    """Write down entries, in the order of their ids."""
    rows = [{"rekey_id": rekey_id, "entry_id": entry_id, "row": _entry_json(each)} for entry_id, each in kept.items()]
    connection.execute(insert(rekeyed_rows), rows)


def kept_entries(connection: Connection, rekey_id: int, size: int, *, after: int = 0) -> dict[int, Kept]:
    """The first entries that are written down, by id; those after a row of the journal."""
    c = rekeyed_rows.c
    query = select(c.id, c.entry_id, c.row).where(c.rekey_id == rekey_id, c.id > after, c.entry_id != _OF_FEED)
    rows = connection.execute(query.order_by(c.id).limit(size))
    return {entry_id: _entry(journal_id, text) for journal_id, entry_id, text in rows}


def forget(connection: Connection, rekey_id: int, journal_ids: Sequence[int]) -> None:
    """Strike out what is restored."""
    c = rekeyed_rows.c
    for chunk in in_chunks(journal_ids):
        connection.execute(delete(rekeyed_rows).where(c.rekey_id == rekey_id, c.id.in_(chunk)))


def keep_feeds(connection: Connection, rekey_id: int, kept: Iterable[KeptFeed]) -> None:
    """Write down the places of feeds."""
    rows = [
        {
            "rekey_id": rekey_id,
            "entry_id": _OF_FEED,
            "row": json.dumps(
                {"feed_id": each.feed_id, "before": each.before, "after": each.after, "hashes": each.hashes}
            ),
        }
        for each in kept
    ]
    if rows:
        connection.execute(insert(rekeyed_rows), rows)


def take_feeds(connection: Connection, rekey_id: int) -> list[KeptFeed]:
    """The feeds that are written down, which they are no longer after this."""
    is_of_feed = (rekeyed_rows.c.rekey_id == rekey_id, rekeyed_rows.c.entry_id == _OF_FEED)
    rows = connection.execute(select(rekeyed_rows.c.row).where(*is_of_feed).order_by(rekeyed_rows.c.id)).scalars().all()
    connection.execute(delete(rekeyed_rows).where(*is_of_feed))
    return [KeptFeed(**json.loads(row)) for row in rows]


def _entry_json(kept: Kept) -> str:
    entry, keys = kept.entry, kept.entry.keys
    return json.dumps(
        {
            "url": entry.url,
            "first_seen_at": entry.first_seen_at,
            "canonical_url": keys.canonical_url,
            "dedupe_key": keys.dedupe_key,
            "registered": dict(kept.policies),
            "places": dict(keys.places),
        }
    )


def _entry(journal_id: int, text: str) -> Kept:
    row = json.loads(text)
    places = {int(feed_id): place for feed_id, place in row["places"].items()}
    keys = UrlKeys(row["canonical_url"], row["dedupe_key"], tuple(row["registered"]), places)
    return Kept(KeyedEntry(row["url"], row["first_seen_at"], keys), row["registered"], journal_id)
