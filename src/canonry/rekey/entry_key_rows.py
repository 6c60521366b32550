"""Read and write the keys of a batch of entries (contract N10).

A URL that becomes the key of several entries belongs to the first of them. If an entry that is not moved yet still has
this URL as its old key, the new key waits under another type (`_STAGED`) until all entries are moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from canonry.core.keys import KeyType, make_place
from canonry.feeds.key_lookup import split_into_chunks
from canonry.rekey.entry_journal import JournaledEntry
from canonry.rekey.entry_keys import KeyedEntry, UrlKeys
from canonry.store.schema import entries, entry_identities, sightings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STAGED = "canonical_url staged"
_URL_KEY_TYPES = (KeyType.CANONICAL_URL.value, _STAGED)


@dataclass(frozen=True, slots=True)
class IdRange:
    """The entries of a batch: ids after `start` up to `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class UrlClaim:
    """A URL that is to become a key of an entry, and the policy that made it."""

    url: str
    entry_id: int
    policy: str


def load_keys(connection: Connection, rows: Sequence[Row[Any]], ids: IdRange) -> dict[int, JournaledEntry]:
    """Return the rows of `entries` by id, with everything that a rekey changes."""
    policies: dict[int, dict[str, str]] = {}
    i, s = entry_identities.c, sightings.c
    query = select(i.entry_id, i.key_value, i.policy).where(
        i.key_type.in_(_URL_KEY_TYPES), i.entry_id > ids.start, i.entry_id <= ids.end
    )
    for entry_id, url, policy in connection.execute(query.order_by(i.entry_id, i.key_value)):
        policies.setdefault(entry_id, {})[url] = policy
    places: dict[int, dict[int, str]] = {}
    query = select(s.entry_id, s.feed_id, s.place).where(s.entry_id > ids.start, s.entry_id <= ids.end)
    for entry_id, feed_id, place in connection.execute(query.order_by(s.entry_id, s.feed_id)):
        places.setdefault(entry_id, {})[feed_id] = place
    found: dict[int, JournaledEntry] = {}
    for row in rows:
        urls = policies.get(row.id, {})
        keys = UrlKeys(row.canonical_url, row.dedupe_key, tuple(urls), places.get(row.id, {}))
        found[row.id] = JournaledEntry(KeyedEntry(row.url, row.first_seen_at, keys), urls)
    return found


def write_keys(
    connection: Connection,
    ids: IdRange,
    found: Mapping[int, JournaledEntry],
    keys: Mapping[int, UrlKeys],
    claims: Sequence[UrlClaim],
) -> None:
    """Write the new keys of the entries of a batch; `found` is the result of `load_keys`."""
    old_keys = {entry_id: each.entry.keys for entry_id, each in found.items()}
    c, s, i = entries.c, sightings.c, entry_identities.c
    changed_entries = [
        {
            "entry": entry_id,
            "new_url": new.canonical_url,
            "new_key": new.dedupe_key,
            "new_place": make_place(new.canonical_url),
        }
        for entry_id, new in keys.items()
        if (new.canonical_url, new.dedupe_key) != (old_keys[entry_id].canonical_url, old_keys[entry_id].dedupe_key)
    ]
    if changed_entries:
        change = update(entries).where(c.id == bindparam("entry"))
        change = change.values(
            canonical_url=bindparam("new_url"), dedupe_key=bindparam("new_key"), place=bindparam("new_place")
        )
        connection.execute(change, changed_entries)
    changed_places = [
        {"feed": feed_id, "entry": entry_id, "new_place": place}
        for entry_id, new in keys.items()
        for feed_id, place in new.places.items()
        if place != old_keys[entry_id].places[feed_id]
    ]
    if changed_places:
        change = update(sightings).where(s.feed_id == bindparam("feed"), s.entry_id == bindparam("entry"))
        connection.execute(change.values(place=bindparam("new_place")), changed_places)
    in_batch = (i.key_type.in_(_URL_KEY_TYPES), i.entry_id > ids.start, i.entry_id <= ids.end)
    connection.execute(delete(entry_identities).where(*in_batch))
    _register_urls(connection, ids.end, claims)


def _register_urls(connection: Connection, last_id: int, claims: Sequence[UrlClaim]) -> None:
    """Register each URL for the first entry that claims it, unless an entry that was moved before has it."""
    first_claims: dict[str, UrlClaim] = {}
    for claim in claims:
        first_claims.setdefault(claim.url, claim)
    owners: dict[tuple[str, str], int] = {}
    c = entry_identities.c
    for chunk in split_into_chunks(sorted(first_claims)):
        query = select(c.key_type, c.key_value, c.entry_id).where(
            c.key_type.in_(_URL_KEY_TYPES), c.key_value.in_(chunk)
        )
        owners.update(((row.key_type, row.key_value), row.entry_id) for row in connection.execute(query))
    rows: list[dict[str, object]] = []
    for url, claim in sorted(first_claims.items()):
        owner = owners.get((KeyType.CANONICAL_URL, url))
        if (owner is None or owner > last_id) and (_STAGED, url) not in owners:
            key_type = KeyType.CANONICAL_URL.value if owner is None else _STAGED
            rows.append({"key_type": key_type, "key_value": url, "entry_id": claim.entry_id, "policy": claim.policy})
    if rows:
        connection.execute(insert(entry_identities), rows)


def publish_staged_keys(connection: Connection) -> None:
    """Turn staged keys into real ones when all entries are moved; drop those whose URL another entry has."""
    c = entry_identities.c
    other = entry_identities.alias()
    is_free = ~(
        select(other.c.key_value)
        .where(other.c.key_type == KeyType.CANONICAL_URL, other.c.key_value == c.key_value)
        .exists()
    )
    publish = update(entry_identities).where(c.key_type == _STAGED, is_free)
    connection.execute(publish.values(key_type=KeyType.CANONICAL_URL.value))
    connection.execute(delete(entry_identities).where(c.key_type == _STAGED))
