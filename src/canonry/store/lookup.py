"""What the keys of a document point to, in as few statements as the document allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sqlalchemy import Connection, Row, and_, bindparam, or_, select

from canonry.core.identity import KeyType
from canonry.core.merge import Keyed, Known, Lookup, hash_keys, place_of
from canonry.store.schema import entries, entry_identities, sightings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

T = TypeVar("T")
# Which entry a key belongs to.
Owners: TypeAlias = dict[tuple[str, str], int]

_CHUNK = 500  # values in one IN (…)


# Built once: building a statement costs more than running it.
_HERE = {
    column: select(
        sightings.c.entry_id,
        sightings.c.guid,
        sightings.c.title,
        sightings.c.published,
        sightings.c.place,
        sightings.c.content_hash,
        sightings.c.last_seen_at,
    ).where(sightings.c.feed_id == bindparam("feed"), sightings.c[column].in_(bindparam("values", expanding=True)))
    for column in ("entry_id", "place")
}
_ELSEWHERE = {
    column: select(
        entries.c.id,
        entries.c.guid,
        entries.c.title,
        entries.c.published,
        entries.c.canonical_url,
        entries.c.content_hash,
        entries.c.dedupe_key,
    )
    .where(entries.c[column].in_(bindparam("values", expanding=True)))
    .order_by(entries.c.id)
    for column in ("id", "canonical_url", "dedupe_key")
}
_OWNERS = select(entry_identities.c.key_type, entry_identities.c.key_value, entry_identities.c.entry_id).where(
    or_(
        *(
            and_(
                entry_identities.c.key_type == key_type,
                entry_identities.c.key_value.in_(bindparam(str(key_type), expanding=True)),
            )
            for key_type in KeyType
        )
    )
)
_SHOWN = select(sightings.c.entry_id).where(
    sightings.c.feed_id == bindparam("feed"), sightings.c.entry_id.in_(bindparam("values", expanding=True))
)
_SCOPED = (
    select(entry_identities.c.entry_id)
    .where(
        entry_identities.c.key_type == KeyType.GUID,
        entry_identities.c.entry_id.in_(bindparam("values", expanding=True)),
    )
    .distinct()
)


def looked_up(connection: Connection, feed_id: int, feed_url: str, items: Sequence[Keyed]) -> tuple[Owners, Lookup]:
    """The owners of all keys of a document, and the entries they and its URLs lead to."""
    owners = _owners(connection, feed_url, items)
    here = _here(connection, feed_id, set(owners.values()), {each.place for each in items if each.place})
    by_place: dict[str, list[Known]] = {}
    for known in here.values():
        by_place.setdefault(known.place, []).append(known)
    # Most items of most documents are known here, and need no look at other feeds.
    strangers = [
        each
        for each in items
        if owners.get((KeyType.GUID, each.key(KeyType.GUID))) not in here and each.place not in by_place
    ]
    elsewhere = _elsewhere(connection, feed_id, set(owners.values()) - set(here), strangers)
    found = {**{known.entry_id: known for known, _, _ in elsewhere}, **here}

    def owned(key_type: KeyType) -> dict[str, Known]:
        return {value: found[entry] for (kind, value), entry in owners.items() if kind == key_type and entry in found}

    by_url: dict[str, list[Known]] = {}
    by_dedupe_key: dict[str, Known] = {}
    for known, canonical_url, key in elsewhere:
        by_url.setdefault(canonical_url, []).append(known)
        by_dedupe_key.setdefault(key, known)
    return owners, Lookup(
        by_guid=owned(KeyType.GUID),
        by_place=by_place,
        by_legacy_guid=owned(KeyType.LEGACY_GUID),
        by_dedupe_key=by_dedupe_key,
        by_url=by_url,
        by_hash=owned(KeyType.FALLBACK_HASH),
    )


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """As many values as one statement takes."""
    for start in range(0, len(values), _CHUNK):
        yield values[start : start + _CHUNK]


def _owners(connection: Connection, feed_url: str, items: Sequence[Keyed]) -> Owners:
    wanted: dict[str, list[str]] = {}
    for each in items:
        for key in each.keys:
            wanted.setdefault(key.key_type, []).append(key.key_value)
    wanted[KeyType.FALLBACK_HASH] = hash_keys(items, feed_url)
    found: Owners = {}
    for start in range(0, max(map(len, wanted.values()), default=0), _CHUNK):
        values = {str(key_type): wanted.get(key_type, [])[start : start + _CHUNK] for key_type in KeyType}
        for key_type, value, entry_id in connection.execute(_OWNERS, values):
            found[key_type, value] = entry_id
    return found


def _here(connection: Connection, feed_id: int, ids: Collection[int], places: Collection[str]) -> dict[int, Known]:
    """The entries of these that the feed has shown, the latest first."""
    rows: dict[int, tuple[str, Known]] = {}
    wanted: tuple[tuple[str, list[Any]], ...] = ("entry_id", sorted(ids)), ("place", sorted(places))
    for column, values in wanted:
        for chunk in chunks(values):
            for row in connection.execute(_HERE[column], {"feed": feed_id, "values": chunk}):
                rows[row[0]] = row[6], Known(row[0], True, True, *row[1:6])  # noqa: FBT003
    latest = sorted(rows.values(), key=lambda row: (row[0], row[1].entry_id), reverse=True)
    return {known.entry_id: known for _, known in latest}


def _elsewhere(
    connection: Connection, feed_id: int, ids: Collection[int], strangers: Sequence[Keyed]
) -> list[tuple[Known, str, str]]:
    """Entries the feed has not shown, by id, URL or old key, each with its URL and key."""
    rows: dict[int, Row[int, str, str, str, str, str, str]] = {}
    urls = sorted({each.canonical_url for each in strangers if each.canonical_url})
    keys = sorted({each.dedupe_key for each in strangers})
    wanted: tuple[tuple[str, list[Any]], ...] = ("id", sorted(ids)), ("canonical_url", urls), ("dedupe_key", keys)
    for column, values in wanted:
        for chunk in chunks(values):
            for row in connection.execute(_ELSEWHERE[column], {"values": chunk}):
                rows[row[0]] = row
    scoped: set[int] = set()
    for chunk in chunks(sorted(rows)):
        for entry_id in connection.execute(_SHOWN, {"feed": feed_id, "values": chunk}).scalars():
            del rows[entry_id]
        scoped.update(connection.execute(_SCOPED, {"values": chunk}).scalars())
    found: list[tuple[Known, str, str]] = []
    for entry_id, guid, title, published, url, digest, key in rows.values():
        known = Known(
            entry_id,
            is_here=False,
            has_guid_key=entry_id in scoped,
            guid=guid,
            title=title,
            published=published,
            place=place_of(url),
            content_hash=digest,
        )
        found.append((known, url, key))
    return found
