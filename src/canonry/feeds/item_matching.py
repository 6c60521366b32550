"""Merge: which items of a document are known, and what to remember of them (contract I3, I4).

Pure: the store looks up what the keys of a document point to, this decides, the store writes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from canonry.core.keys import (
    ENTRY_POLICY,
    MAX_KEY_BYTES,
    UNSTORABLE,
    Item,
    Key,
    KeyType,
    format_dedupe_key,
    make_fallback_hash,
    make_keys,
    normalize_link,
    replace_unstorable,
    shorten_key,
    strip_scheme_and_www,
)
from canonry.feeds.content import content_hash, content_hash_at

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence


class Outcome(StrEnum):
    """What an item turned out to be."""

    NEW = "new"
    UPDATED = "updated"
    DUPLICATE = "duplicate"


# The three below are made for every item of every document: a tuple takes a third of the time of a frozen dataclass.


class Keyed(NamedTuple):
    """An item of a document with everything it may be known by."""

    item: Item
    guid: str
    title: str
    canonical_url: str
    place: str  # the canonical URL, whatever its scheme and www
    content_hash: str
    keys: tuple[Key, ...]
    dedupe_key: str
    is_certain: bool  # known by guid or URL, not by a hash alone

    def key(self, key_type: KeyType) -> str:
        """The value of one of its keys; empty where it has none of that type."""
        for key in self.keys:
            if key.key_type is key_type:
                return key.key_value
        return ""


class Known(NamedTuple):
    """An entry of the store that a key of the document points to.

    What the feed last said of it where the feed has shown it before (`is_here`), else what the entry says.
    """

    entry_id: int
    is_here: bool
    has_guid_key: bool  # a feed-scoped one: it is not from before feeds were told apart
    guid: str
    title: str
    published: str
    place: str
    content_hash: str
    is_imported: bool = False  # from another store, and no feed has shown it yet


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the store found for the keys of a document, by key."""

    by_guid: Mapping[str, Known]  # the feed-scoped key
    by_place: Mapping[str, Sequence[Known]]  # in this feed, the latest first
    by_legacy_guid: Mapping[str, Known]
    by_dedupe_key: Mapping[str, Known]  # imported ones
    by_url: Mapping[str, Sequence[Known]]  # in other feeds
    by_hash: Mapping[str, Known]


class Decision(NamedTuple):
    """What to do with one item: a new entry, or the one it is; `shares_url_with` are other entries at its URL."""

    keyed: Keyed
    outcome: Outcome
    known: Known | None = None
    shares_url_with: tuple[int, ...] = ()

    @property
    def entry_id(self) -> int | None:
        return None if self.known is None else self.known.entry_id

    @property
    def is_here(self) -> bool:
        """Has this feed shown it before?"""
        return self.known is not None and self.known.is_here

    @property
    def is_imported(self) -> bool:
        """Is this the first sighting of an entry from another store?"""
        return self.known is not None and self.known.is_imported

    @property
    def is_as_shown(self) -> bool:
        """Does the feed show it as before, guid included?"""
        is_same = self.known is not None and self.known.is_here and self.known.guid == self.keyed.guid
        return is_same and self.outcome is Outcome.DUPLICATE


@dataclass(frozen=True, slots=True)
class Conflict:
    """Keys of one item that point to two entries; the first of them was followed."""

    title: str
    entry_id: int
    other_entry_id: int


@dataclass(frozen=True, slots=True)
class Merge:
    """Decisions for a whole document, in its order, and what was learned on the way."""

    decisions: list[Decision]
    ambiguous: set[tuple[KeyType, str]]
    conflicts: list[Conflict]


def keyed(items: Iterable[Item], feed_url: str, policy: str = ENTRY_POLICY) -> list[Keyed]:
    """The items of a document with their keys, links under the policy; one that is there twice, word for word, once."""
    found: dict[object, Keyed] = {}
    for item in map(_keepable, items):
        canonical_url = normalize_link(item.link, policy=policy)
        # The hash stays under its own policy: after a rekey nothing looks updated that nobody touched.
        digest = content_hash_at(canonical_url, item) if policy == ENTRY_POLICY else content_hash(item)
        guid, link = item.guid.strip(), shorten_key(canonical_url)
        if (guid, link, digest) in found:
            continue
        keys = make_keys(canonical_url, item, feed_url, policy=policy)
        name = format_dedupe_key(keys[0])
        if len(name) + len(canonical_url) > MAX_KEY_BYTES // 4:  # else every key fits
            guid, name, keys = shorten_key(guid), shorten_key(name), list(map(_fitting, keys))
        found[item.guid.strip(), link, digest] = Keyed(
            item,
            guid,
            " ".join(item.title.split()),
            link,
            strip_scheme_and_www(link),
            digest,
            tuple(keys),
            name,
            keys[0].key_type is not KeyType.FALLBACK_HASH,
        )
    return list(found.values())


def shared(items: Collection[Keyed]) -> set[tuple[KeyType, str]]:
    """Guids and URLs that several items of one document carry: they identify none of them."""
    guids = _repeated([each.guid for each in items if each.guid])
    places = _repeated([each.place for each in items if each.place])
    return {(KeyType.GUID, guid) for guid in guids} | {(KeyType.CANONICAL_URL, place) for place in places}


def _repeated(values: list[str]) -> list[str]:
    """The values that are there more than once; most documents have none."""
    if len(set(values)) == len(values):
        return []
    return [value for value, count in Counter(values).items() if count > 1]


def merged(items: Sequence[Keyed], known: Lookup, ambiguous: Collection[tuple[KeyType, str]], feed_url: str) -> Merge:
    """What each item of a document is, in its order."""
    return _Matching(items, known, shared(items) | set(ambiguous), feed_url).merge()


def hash_keys(
    items: Collection[Keyed], feed_url: str, ambiguous: Collection[tuple[KeyType, str]] = frozenset()
) -> list[str]:
    """The fallback hash of each item that may be known by nothing else: its URL does not identify it."""
    several = shared(items)
    return [
        make_fallback_hash(each.item, feed_url)
        for each in items
        if not each.place or (name := (KeyType.CANONICAL_URL, each.place)) in ambiguous or name in several
    ]


class _Matching:
    """One document against what the store knows: the strongest keys of all items first."""

    def __init__(
        self, items: Sequence[Keyed], known: Lookup, ambiguous: set[tuple[KeyType, str]], feed_url: str
    ) -> None:
        self.items = items
        self.known = known
        self.ambiguous = ambiguous
        self.feed_url = feed_url
        self.guids = {each.guid for each in items}
        self.chosen: dict[int, Known] = {}
        self.taken: set[int] = set()
        self.conflicts: list[Conflict] = []

    def merge(self) -> Merge:
        known = self.known
        if known.by_guid:
            self._settle(self._by_guid, is_last_resort=False)
        if known.by_place:
            self._settle(self._by_place, is_last_resort=False)
        if known.by_legacy_guid or known.by_dedupe_key:
            self._settle(self._by_legacy, is_last_resort=False)
        # In another feed, or by a hash, only what is not known yet is looked for.
        if known.by_url:
            self._settle(self._by_url, is_last_resort=True)
        if known.by_hash:
            self._settle(self._by_hash, is_last_resort=True)
        found: dict[object, Decision] = {}
        for number, each in enumerate(self.items):
            identified = self._identified(each)
            # Two that nothing tells apart are one.
            name = number if identified.is_certain else identified.dedupe_key
            found.setdefault(name, _decision(identified, self.chosen.get(number), self.known))
        return Merge(list(found.values()), self.ambiguous, self.conflicts)

    def _settle(self, find: Callable[[Keyed], Sequence[Known]], *, is_last_resort: bool) -> None:
        chosen, taken = self.chosen, self.taken
        for number, each in enumerate(self.items):
            earlier = chosen.get(number)
            if earlier is not None and is_last_resort:
                continue
            found = find(each)
            if not found:
                continue
            if earlier is not None:
                if found[0].entry_id != earlier.entry_id:
                    self.conflicts.append(Conflict(each.title, earlier.entry_id, found[0].entry_id))
                continue
            for entry in found:
                if entry.entry_id not in taken:
                    chosen[number] = entry
                    taken.add(entry.entry_id)
                    break

    def _by_guid(self, each: Keyed) -> Sequence[Known]:
        entry = self.known.by_guid.get(each.key(KeyType.GUID))
        if entry is None or not self._identifies(KeyType.GUID, each.guid):
            return ()
        if _is_reused(each, entry):
            self.ambiguous.add((KeyType.GUID, each.guid))
            return ()
        return (entry,)

    def _by_place(self, each: Keyed) -> Sequence[Known]:
        there = self.known.by_place.get(each.place)
        if not there or not self._identifies(KeyType.CANONICAL_URL, each.place):
            return ()
        return [entry for entry in there if self._is_same_place(each, entry)]

    def _by_legacy(self, each: Keyed) -> Sequence[Known]:
        found: list[Known] = []
        entry = self.known.by_legacy_guid.get(each.key(KeyType.LEGACY_GUID))
        is_ours = entry is not None and (entry.is_here or not entry.has_guid_key)
        if entry is not None and is_ours and self._identifies(KeyType.GUID, each.guid) and not _is_reused(each, entry):
            found.append(entry)
        old = self.known.by_dedupe_key.get(each.dedupe_key)
        is_by_it = old is not None and self._identified(each).dedupe_key == each.dedupe_key
        if old is not None and is_by_it and not _is_reused(each, old):
            found.append(old)
        return found

    def _by_url(self, each: Keyed) -> Sequence[Known]:
        there = self.known.by_url.get(each.canonical_url)
        if not there or not self._identifies(KeyType.CANONICAL_URL, each.place):
            return ()
        found: list[Known] = []
        for entry in there:
            # An imported entry that has nothing but its URL has nothing that could tell it apart.
            is_bare = entry.is_imported and not entry.guid and not entry.title
            if is_bare or _says_same(each.guid, entry.guid) or _says_same(each.title, entry.title):
                found.append(entry)
        return found

    def _by_hash(self, each: Keyed) -> Sequence[Known]:
        entry = self.known.by_hash.get(self._hash(each))
        return () if entry is None else (entry,)

    def _is_same_place(self, each: Keyed, entry: Known) -> bool:
        """Is the item at this URL the one we know there? With another guid only if the old one is gone."""
        if not each.guid or not entry.guid or each.guid == entry.guid:
            return True
        is_old_there = entry.guid in self.guids and self._identifies(KeyType.GUID, entry.guid)
        is_alike = _says_same(each.title, entry.title) or _says_same(each.item.published.strip(), entry.published)
        return is_alike and not is_old_there

    def _identifies(self, key_type: KeyType, value: str) -> bool:
        return bool(value) and (key_type, value) not in self.ambiguous

    def _identified(self, each: Keyed) -> Keyed:
        """The item with only those keys that identify it in this feed, at least one."""
        if not self.ambiguous and each.is_certain:
            return each
        is_by_guid = self._identifies(KeyType.GUID, each.guid)
        is_by_place = self._identifies(KeyType.CANONICAL_URL, each.place)
        if not is_by_guid and not is_by_place:
            digest = make_fallback_hash(each.item, self.feed_url)
            only = (Key(KeyType.FALLBACK_HASH, digest),)
            return each._replace(keys=only, dedupe_key=f"hash:{digest}", is_certain=False)
        if each.guid and not is_by_guid:
            keys = tuple(key for key in each.keys if key.key_type is KeyType.CANONICAL_URL)
            return each._replace(keys=keys, dedupe_key=f"url:{each.canonical_url}")
        if each.place and not is_by_place:
            return each._replace(keys=tuple(key for key in each.keys if key.key_type is not KeyType.CANONICAL_URL))
        return each

    def _hash(self, each: Keyed) -> str:
        """The fallback hash of an item that has no other identity; empty for the others."""
        if self._identifies(KeyType.GUID, each.guid) or self._identifies(KeyType.CANONICAL_URL, each.place):
            return ""
        return make_fallback_hash(each.item, self.feed_url)


def _fitting(key: Key) -> Key:
    value = shorten_key(key.key_value)
    return key if value is key.key_value else replace(key, key_value=value)


def _keepable(item: Item) -> Item:
    text = f"{item.guid}{item.link}{item.title}{item.published}"
    if (text.isascii() and "\0" not in text) or not UNSTORABLE.search(text):
        return item
    return replace(
        item,
        guid=replace_unstorable(item.guid),
        link=replace_unstorable(item.link),
        title=replace_unstorable(item.title),
        published=replace_unstorable(item.published),
    )


def _decision(each: Keyed, entry: Known | None, known: Lookup) -> Decision:
    others: dict[int, None] = {}
    if each.canonical_url and (known.by_place or known.by_url):
        for other in (*known.by_place.get(each.place, ()), *known.by_url.get(each.canonical_url, ())):
            if entry is None or other.entry_id != entry.entry_id:
                others[other.entry_id] = None
    if entry is None:
        return Decision(each, Outcome.NEW, None, tuple(others))
    is_same = not entry.is_here or entry.content_hash == each.content_hash
    return Decision(each, Outcome.DUPLICATE if is_same else Outcome.UPDATED, entry, tuple(others))


def _is_reused(each: Keyed, entry: Known) -> bool:
    """Has the publisher given a guid to another item? URL and title both say so."""
    is_elsewhere = bool(each.place and entry.place) and each.place != entry.place
    return is_elsewhere and each.title != entry.title


def _says_same(one: str, other: str) -> bool:
    """Equal, and not empty."""
    return bool(one) and one == other
