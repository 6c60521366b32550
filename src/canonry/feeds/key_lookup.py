"""What the keys of a document point to, in as few statements as the document allows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sqlalchemy import Connection, and_, bindparam, or_, select

from canonry.core.keys import KeyType, strip_scheme_and_www
from canonry.feeds.item_matching import Keyed, Known, Lookup, hash_keys, shared
from canonry.store.schema import entries, entry_identities, sightings
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

T = TypeVar("T")
# Which entry a key belongs to.
Owners: TypeAlias = dict[tuple[str, str], int]

_CHUNK = 500  # values in one IN (…)
_TYPES = tuple(key_type.value for key_type in KeyType)


_HERE = Prepared(
    lambda is_one_of: select(
        sightings.c.entry_id,
        sightings.c.guid,
        sightings.c.title,
        sightings.c.published,
        sightings.c.place,
        sightings.c.content_hash,
        sightings.c.last_seen_at,
    ).where(
        sightings.c.feed_id == bindparam("feed"),
        or_(is_one_of(sightings.c.entry_id, "ids"), is_one_of(sightings.c.place, "places")),
    )
)
_ELSEWHERE = Prepared(
    lambda is_one_of: (
        select(
            entries.c.id,
            entries.c.guid,
            entries.c.title,
            entries.c.published,
            entries.c.canonical_url,
            entries.c.content_hash,
            entries.c.dedupe_key,
        )
        .where(
            or_(
                is_one_of(entries.c.id, "ids"),
                is_one_of(entries.c.canonical_url, "urls"),
                is_one_of(entries.c.dedupe_key, "keys"),
            )
        )
        .order_by(entries.c.id)
    )
)
_OWNERS = Prepared(
    lambda is_one_of: select(
        entry_identities.c.key_type, entry_identities.c.key_value, entry_identities.c.entry_id
    ).where(
        or_(
            *(
                and_(
                    entry_identities.c.key_type == key_type,
                    is_one_of(entry_identities.c.key_value, key_type),
                )
                for key_type in _TYPES
            )
        )
    )
)
_SHOWN = Prepared(
    lambda is_one_of: select(sightings.c.entry_id, sightings.c.feed_id).where(is_one_of(sightings.c.entry_id, "ids"))
)
_KINDS = Prepared(
    lambda is_one_of: select(entry_identities.c.entry_id, entry_identities.c.key_type).where(
        is_one_of(entry_identities.c.entry_id, "ids")
    )
)


def looked_up(
    connection: Connection,
    feed_id: int,
    feed_url: str,
    items: Sequence[Keyed],
    ambiguous: Collection[tuple[KeyType, str]],
    *,
    is_first: bool,
) -> tuple[Owners, Lookup]:
    """The owners of all keys of a document, and the entries they and its URLs lead to; the feed's first has none."""
    owners = _owners(connection, feed_url, items, ambiguous)
    places = {each.place for each in items if each.place}
    here = {} if is_first else _here(connection, feed_id, set(owners.values()), places)
    by_place: dict[str, list[Known]] = {}
    for known in here.values():
        if known.place:
            by_place.setdefault(known.place, []).append(known)
    strangers = items if is_first else _strangers(items, owners, here, by_place, shared(items).union(ambiguous))
    elsewhere = _elsewhere(connection, feed_id, set(owners.values()) - set(here), strangers)
    found = {**{known.entry_id: known for known, _, _ in elsewhere}, **here}

    owned: dict[str, dict[str, Known]] = {key_type: {} for key_type in _TYPES}
    for (kind, value), entry in owners.items():
        if entry in found:
            owned[kind][value] = found[entry]
    by_url: dict[str, list[Known]] = {}
    by_dedupe_key: dict[str, Known] = {}
    for known, canonical_url, key in elsewhere:
        by_url.setdefault(canonical_url, []).append(known)
        if known.is_imported:
            by_dedupe_key.setdefault(key, known)
    return owners, Lookup(
        by_guid=owned[KeyType.GUID],
        by_place=by_place,
        by_legacy_guid=owned[KeyType.LEGACY_GUID],
        by_dedupe_key=by_dedupe_key,
        by_url=by_url,
        by_hash=owned[KeyType.FALLBACK_HASH],
    )


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """As many values as one statement takes."""
    for start in range(0, len(values), _CHUNK):
        yield values[start : start + _CHUNK]


def _owners(
    connection: Connection, feed_url: str, items: Sequence[Keyed], ambiguous: Collection[tuple[KeyType, str]]
) -> Owners:
    wanted: dict[str, list[str]] = {key_type: [] for key_type in _TYPES}
    for each in items:
        for key in each.keys:
            wanted[key.key_type].append(key.key_value)
    wanted[KeyType.FALLBACK_HASH] = hash_keys(items, feed_url, ambiguous)
    values = {key_type: tuple(some) for key_type, some in wanted.items()}
    return {(kind, value): entry_id for kind, value, entry_id in _OWNERS.rows(connection, **values)}


def _strangers(
    items: Sequence[Keyed],
    owners: Owners,
    here: dict[int, Known],
    by_place: dict[str, list[Known]],
    ambiguous: set[tuple[KeyType, str]],
) -> list[Keyed]:
    """The items that may be those of other feeds: all but those that are surely known here, which most are."""
    by_guid = [owners.get((KeyType.GUID, each.key(KeyType.GUID))) for each in items]
    claims = Counter(by_guid)

    def is_known(each: Keyed, owner: int | None) -> bool:
        if ambiguous and not ambiguous.isdisjoint(((KeyType.GUID, each.guid), (KeyType.CANONICAL_URL, each.place))):
            return False
        if not each.guid:
            return any(not claims[known.entry_id] for known in by_place.get(each.place, ()))
        known = here.get(owner) if owner is not None and claims[owner] == 1 else None
        return known is not None and known.guid == each.guid and known.place == each.place

    return [each for each, owner in zip(items, by_guid, strict=True) if not is_known(each, owner)]


def _here(connection: Connection, feed_id: int, ids: Collection[int], places: Collection[str]) -> dict[int, Known]:
    """The entries of these that the feed has shown, the latest first."""
    rows: dict[int, tuple[str, Known]] = {}
    for row in _HERE.rows(connection, feed=feed_id, ids=tuple(ids), places=tuple(places)):
        rows[row[0]] = row[6], Known(row[0], True, True, *row[1:6])  # noqa: FBT003
    latest = sorted(rows.values(), key=lambda row: (row[0], row[1].entry_id), reverse=True)
    return {known.entry_id: known for _, known in latest}


def _elsewhere(
    connection: Connection, feed_id: int, ids: Collection[int], strangers: Sequence[Keyed]
) -> list[tuple[Known, str, str]]:
    """Entries the feed has not shown, by id, URL or old key, each with its URL and key."""
    urls = {each.canonical_url for each in strangers if each.canonical_url}
    keys = {each.dedupe_key for each in strangers}
    if not ids and not urls and not keys:
        return []
    wanted = {"ids": tuple(ids), "urls": tuple(urls), "keys": tuple(keys)}
    rows: dict[int, Any] = {row[0]: row for row in _ELSEWHERE.rows(connection, **wanted)}
    scoped: set[int] = set()
    shown: set[int] = set()
    if rows:
        for entry_id, by_feed in _SHOWN.rows(connection, ids=tuple(rows)):
            shown.add(entry_id)
            if by_feed == feed_id:
                del rows[entry_id]
        scoped.update(entry_id for entry_id, kind in _KINDS.rows(connection, ids=tuple(rows)) if kind == KeyType.GUID)
    found: list[tuple[Known, str, str]] = []
    for entry_id, guid, title, published, url, digest, key in rows.values():
        known = Known(
            entry_id,
            is_here=False,
            has_guid_key=entry_id in scoped,
            guid=guid,
            title=title,
            published=published,
            place=strip_scheme_and_www(url),
            content_hash=digest,
            is_imported=entry_id not in shown,
        )
        found.append((known, url, key))
    return found
