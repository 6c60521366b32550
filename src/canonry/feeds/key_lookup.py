"""Load the stored entries that the keys of a document point to, with at most seven statements."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import Connection, and_, bindparam, or_, select

from canonry.core.keys import KeyType, list_guid_twins, make_first_fallback_hash, make_guid_key
from canonry.feeds.item_matching import KnownEntries, KnownEntry
from canonry.feeds.keyed_items import find_repeated_keys, make_fallback_hashes
from canonry.store.schema import entries, entry_identities, item_links, sightings
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from canonry.feeds.keyed_items import DocumentKey, KeyedItem

T = TypeVar("T")
# The id of the entry that a key belongs to, by type and value of the key.
KeyOwners: TypeAlias = dict[tuple[str, str], int]

_CHUNK_VALUES = 500  # in one IN (…)
_KEY_TYPES = tuple(key_type.value for key_type in KeyType)


class _OtherEntry(NamedTuple):
    """An entry that the feed has not shown, with the other values that it is looked up by."""

    entry: KnownEntry
    dedupe_key: str


_SELECT_SIGHTINGS = Prepared(
    lambda is_one_of: select(
        sightings.c.entry_id,
        sightings.c.guid,
        sightings.c.title,
        sightings.c.published,
        sightings.c.place,
        sightings.c.content_hash,
        sightings.c.url,
        sightings.c.stable_hash,
        sightings.c.last_seen_at,
    ).where(
        sightings.c.feed_id == bindparam("feed"),
        or_(is_one_of(sightings.c.entry_id, "ids"), is_one_of(sightings.c.place, "places")),
    )
)
_SELECT_ENTRIES = Prepared(
    lambda is_one_of: (
        select(
            entries.c.id,
            entries.c.guid,
            entries.c.title,
            entries.c.published,
            entries.c.place,
            entries.c.content_hash,
            entries.c.url,
            entries.c.dedupe_key,
        )
        .where(
            or_(
                is_one_of(entries.c.id, "ids"),
                is_one_of(entries.c.place, "places"),
                is_one_of(entries.c.dedupe_key, "keys"),
            )
        )
        .order_by(entries.c.id)
    )
)
_SELECT_KEY_OWNERS = Prepared(
    lambda is_one_of: select(
        entry_identities.c.key_type, entry_identities.c.key_value, entry_identities.c.entry_id
    ).where(
        or_(
            *(
                and_(
                    entry_identities.c.key_type == key_type,
                    is_one_of(entry_identities.c.key_value, key_type),
                )
                for key_type in _KEY_TYPES
            )
        )
    )
)
_SELECT_FEEDS_OF_ENTRIES = Prepared(
    lambda is_one_of: select(sightings.c.entry_id, sightings.c.feed_id).where(is_one_of(sightings.c.entry_id, "ids"))
)
_SELECT_KEY_TYPES = Prepared(
    lambda is_one_of: select(entry_identities.c.entry_id, entry_identities.c.key_type).where(
        is_one_of(entry_identities.c.entry_id, "ids")
    )
)
_SELECT_PAGE_OWNERS = Prepared(
    lambda is_one_of: (
        select(item_links.c.page_place, item_links.c.entry_id)
        .where(is_one_of(item_links.c.page_place, "places"))
        .order_by(item_links.c.entry_id)
    )
)


def look_up_entries(
    connection: Connection,
    feed_id: int,
    feed_url: str,
    items: Sequence[KeyedItem],
    ambiguous: Collection[DocumentKey],
    *,
    is_first_document: bool,
    has_page_places: bool,
) -> tuple[KeyOwners, KnownEntries]:
    """Return the owners of all keys of a document, and the entries that these keys and its URLs lead to.

    With `has_page_places`, entries whose link is proven to lead to one of these URLs, too.
    """
    owners = _load_key_owners(connection, feed_url, items, ambiguous)
    if not is_first_document:
        owners |= _load_owners_of_guid_twins(connection, feed_url, items, owners)
    page_owners: list[tuple[str, int]] = []
    if has_page_places and (page_places := {item.place for item in items if item.place}):
        page_owners = [(row[0], row[1]) for row in _SELECT_PAGE_OWNERS.fetch_all(connection, places=tuple(page_places))]
    owner_ids = {*owners.values(), *(entry_id for _, entry_id in page_owners)}
    in_feed: dict[int, KnownEntry] = {}
    candidates = items
    by_place: dict[str, list[KnownEntry]] = {}
    if not is_first_document:
        places = {item.place for item in items if item.place}
        in_feed = _load_entries_of_feed(connection, feed_id, owner_ids, places)
        for entry in in_feed.values():
            if entry.place:
                by_place.setdefault(entry.place, []).append(entry)
        all_ambiguous = find_repeated_keys(items).union(ambiguous)
        candidates = _select_unknown(items, owners, in_feed, by_place, all_ambiguous)
    others = _load_other_entries(connection, feed_id, owner_ids - set(in_feed), candidates, feed_url)
    found = {**{other.entry.entry_id: other.entry for other in others}, **in_feed}

    by_key: dict[str, dict[str, KnownEntry]] = {key_type: {} for key_type in _KEY_TYPES}
    for (key_type, value), entry_id in owners.items():
        if entry_id in found:
            by_key[key_type][value] = found[entry_id]
    by_url: dict[str, list[KnownEntry]] = {}
    by_page: dict[str, list[KnownEntry]] = {}
    for place, entry_id in page_owners:
        if entry_id in found:
            by_page.setdefault(place, []).append(found[entry_id])
    by_dedupe_key: dict[str, KnownEntry] = {}
    for entry, dedupe_key in others:
        by_url.setdefault(entry.place, []).append(entry)
        if entry.is_imported:
            by_dedupe_key.setdefault(dedupe_key, entry)
    return owners, KnownEntries(
        by_guid=by_key[KeyType.GUID],
        by_place=by_place,
        by_legacy_guid=by_key[KeyType.LEGACY_GUID],
        by_dedupe_key=by_dedupe_key,
        by_url=by_url,
        by_hash=by_key[KeyType.FALLBACK_HASH],
        by_page=by_page,
    )


def split_into_chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the values in slices that fit into one statement."""
    for start in range(0, len(values), _CHUNK_VALUES):
        yield values[start : start + _CHUNK_VALUES]


def _load_key_owners(
    connection: Connection, feed_url: str, items: Sequence[KeyedItem], ambiguous: Collection[DocumentKey]
) -> KeyOwners:
    wanted: dict[str, list[str]] = {key_type: [] for key_type in _KEY_TYPES}
    for item in items:
        for key in item.keys:
            wanted[key.key_type].append(key.key_value)
    wanted[KeyType.FALLBACK_HASH] = make_fallback_hashes(items, feed_url, ambiguous)
    values = {key_type: tuple(key_values) for key_type, key_values in wanted.items()}
    rows = _SELECT_KEY_OWNERS.fetch_all(connection, **values)
    return {(key_type, value): entry_id for key_type, value, entry_id in rows}


def _load_owners_of_guid_twins(
    connection: Connection, feed_url: str, items: Sequence[KeyedItem], owners: KeyOwners
) -> KeyOwners:
    """Return the owners of the guids that unknown items may have had before, with another scheme or `www.`."""
    twins = [
        make_guid_key(twin, feed_url)
        for item in items
        if item.guid and (KeyType.GUID, item.get_key(KeyType.GUID)) not in owners
        for twin in list_guid_twins(item.guid)
    ]
    if not twins:
        return {}
    values = {key_type: tuple(twins) if key_type == KeyType.GUID else () for key_type in _KEY_TYPES}
    rows = _SELECT_KEY_OWNERS.fetch_all(connection, **values)
    return {(key_type, value): entry_id for key_type, value, entry_id in rows}


def _select_unknown(
    items: Sequence[KeyedItem],
    owners: KeyOwners,
    in_feed: dict[int, KnownEntry],
    by_place: dict[str, list[KnownEntry]],
    ambiguous: set[DocumentKey],
) -> list[KeyedItem]:
    """Return the items that may be entries of other feeds: all but those that this feed certainly has shown."""
    guid_owners = [owners.get((KeyType.GUID, item.get_key(KeyType.GUID))) for item in items]
    claims = Counter(guid_owners)  # how many items of the document carry the guid of an entry

    def is_known(item: KeyedItem, owner: int | None) -> bool:
        if ambiguous and not ambiguous.isdisjoint(
            ((KeyType.GUID, item.guid), (KeyType.CANONICAL_URL, item.exact_place))
        ):
            return False
        if not item.guid:
            at_place = by_place.get(item.place, ())
            return any(not claims[entry.entry_id] and entry.link == item.link for entry in at_place)
        entry = in_feed.get(owner) if owner is not None and claims[owner] == 1 else None
        return entry is not None and entry.guid == item.guid and entry.place == item.place

    return [item for item, owner in zip(items, guid_owners, strict=True) if not is_known(item, owner)]


def _load_entries_of_feed(
    connection: Connection, feed_id: int, ids: Collection[int], places: Collection[str]
) -> dict[int, KnownEntry]:
    """Return the entries with these ids or at these places that the feed has shown, by id, the last seen first."""
    rows = _SELECT_SIGHTINGS.fetch_all(connection, feed=feed_id, ids=tuple(ids), places=tuple(places))
    found: list[tuple[str, KnownEntry]] = []
    for entry_id, guid, title, published, place, digest, link, stable_hash, last_seen_at in rows:
        values = (entry_id, True, True, guid, title, published, place, digest, False, link, stable_hash)
        entry = KnownEntry(*values)  # without names, for speed
        found.append((last_seen_at, entry))
    found.sort(key=lambda seen: (seen[0], seen[1].entry_id), reverse=True)
    return {entry.entry_id: entry for _, entry in found}


def _load_other_entries(
    connection: Connection, feed_id: int, ids: Collection[int], items: Sequence[KeyedItem], feed_url: str
) -> list[_OtherEntry]:
    """Return the entries that the feed has not shown, with these ids or the places or dedupe keys of the items."""
    places = {item.place for item in items if item.place}
    dedupe_keys = {item.dedupe_key for item in items}
    for item in items:
        if not item.has_strong_key:
            dedupe_keys.add(f"hash:{make_first_fallback_hash(item.parsed, feed_url)}")
    if not ids and not places and not dedupe_keys:
        return []
    found = _SELECT_ENTRIES.fetch_all(connection, ids=tuple(ids), places=tuple(places), keys=tuple(dedupe_keys))
    rows = {row[0]: row for row in found}  # by entry id
    with_guid_key: set[int] = set()
    shown: set[int] = set()
    if rows:
        for entry_id, shown_by in _SELECT_FEEDS_OF_ENTRIES.fetch_all(connection, ids=tuple(rows)):
            shown.add(entry_id)
            if shown_by == feed_id:
                del rows[entry_id]
        for entry_id, key_type in _SELECT_KEY_TYPES.fetch_all(connection, ids=tuple(rows)):
            if key_type == KeyType.GUID:
                with_guid_key.add(entry_id)
    others: list[_OtherEntry] = []
    for entry_id, guid, title, published, place, digest, link, dedupe_key in rows.values():
        entry = KnownEntry(
            entry_id,
            is_in_feed=False,
            has_guid_key=entry_id in with_guid_key,
            guid=guid,
            title=title,
            published=published,
            place=place,
            content_hash=digest,
            is_imported=entry_id not in shown,
            link=link,
        )
        others.append(_OtherEntry(entry, dedupe_key))
    return others
