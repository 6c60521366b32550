"""Which items of a document are known already, and as which entry (contract I3, I4).

Pure: `key_lookup` loads the entries that the keys of a document point to, `match_items` decides, `items` writes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from canonry.core.keys import (
    ENTRY_POLICY,
    Key,
    KeyType,
    is_weak_guid,
    list_guid_twins,
    make_fallback_hash,
    make_first_fallback_hash,
    make_guid_key,
    normalize_link,
    shorten_key,
    strip_scheme_and_www,
)
from canonry.feeds.item_evidence import (
    get_fragment,
    has_compatible_guid,
    has_other_place_and_title,
    is_alike,
    is_same_text,
)
from canonry.feeds.keyed_items import find_repeated_keys, find_shared_urls

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from canonry.feeds.keyed_items import DocumentKey, KeyedItem


class ItemOutcome(StrEnum):
    """The kind of match of an item."""

    NEW = "new"
    UPDATED = "updated"
    DUPLICATE = "duplicate"


# The two named tuples below are made for every item of every document: see `KeyedItem`.


class KnownEntry(NamedTuple):
    """A stored entry that a key of the document points to.

    The texts are those this feed showed last if it has shown the entry (`is_in_feed`), otherwise those of the entry.
    """

    entry_id: int
    is_in_feed: bool
    has_guid_key: bool  # a feed has shown it with a guid; false for imported entries
    guid: str
    title: str
    published: str
    place: str
    content_hash: str
    is_imported: bool = False  # from another program's store, and no feed has shown it yet
    link: str = ""  # as given; empty if it is not known
    stable_hash: str = ""  # see `volatile_feeds`; empty if it is not known


@dataclass(frozen=True, slots=True)
class KnownEntries:
    """The stored entries that the keys of a document point to, by key."""

    by_guid: Mapping[str, KnownEntry]  # the feed-scoped key
    by_place: Mapping[str, Sequence[KnownEntry]]  # in this feed, the last seen first
    by_legacy_guid: Mapping[str, KnownEntry]
    by_dedupe_key: Mapping[str, KnownEntry]  # imported entries
    by_url: Mapping[str, Sequence[KnownEntry]]  # entries that only other feeds have shown, by place
    by_hash: Mapping[str, KnownEntry]
    by_page: Mapping[str, Sequence[KnownEntry]]  # by the place that the link of the entry is proven to lead to


class ItemMatch(NamedTuple):
    """The match of one item: a new entry (`entry` is None) or a known one."""

    item: KeyedItem  # with only those keys that identify it
    outcome: ItemOutcome
    entry: KnownEntry | None = None
    shares_url_with: tuple[int, ...] = ()  # ids of other entries at its URL

    @property
    def entry_id(self) -> int | None:
        return None if self.entry is None else self.entry.entry_id

    @property
    def is_in_feed(self) -> bool:
        """Whether this feed has shown the entry before."""
        return self.entry is not None and self.entry.is_in_feed

    @property
    def is_imported(self) -> bool:
        """Whether this is the first time that a feed shows an imported entry."""
        return self.entry is not None and self.entry.is_imported

    @property
    def is_unchanged(self) -> bool:
        """Whether the feed shows the entry as it did last time, guid included."""
        entry, item = self.entry, self.item
        if entry is None or not entry.is_in_feed or self.outcome is not ItemOutcome.DUPLICATE:
            return False
        return entry.guid == item.guid and entry.content_hash == item.content_hash


@dataclass(frozen=True, slots=True)
class KeyConflict:
    """Keys of one item that point to two entries; the item was matched with `entry_id`."""

    title: str
    entry_id: int
    other_entry_id: int


@dataclass(frozen=True, slots=True)
class DocumentMatch:
    """The match of each item, in the order of the document, and the keys learned from it."""

    items: list[ItemMatch]
    ambiguous: set[DocumentKey]
    conflicts: list[KeyConflict]


def match_items(
    items: Sequence[KeyedItem],
    known: KnownEntries,
    ambiguous: Collection[DocumentKey],
    feed_url: str,
    policy: str = ENTRY_POLICY,
) -> DocumentMatch:
    """Decide what each item of a document is; `ambiguous` are the keys that earlier documents made ambiguous.

    The policy is that of the places.
    """
    return _Matcher(items, known, find_repeated_keys(items) | set(ambiguous), feed_url, policy).match()


class _Matcher:
    """Matches one document, rule by rule in the lookup order of contract I3.

    A rule is applied to all items before the next one. An entry goes to the item with the strongest key, wherever
    that item stands in the document, and to one item only.
    """

    def __init__(
        self,
        items: Sequence[KeyedItem],
        known: KnownEntries,
        ambiguous: set[DocumentKey],
        feed_url: str,
        policy: str,
    ) -> None:
        self.items = items
        self.known = known
        self.ambiguous = ambiguous
        self.feed_url = feed_url
        self.policy = policy
        self.shared_urls = find_shared_urls(items)
        self.guids = {item.guid for item in items}
        self.matched: dict[int, KnownEntry] = {}  # by the position of the item
        self.matched_ids: set[int] = set()
        self.conflicts: list[KeyConflict] = []
        self._first_hashes: Counter[str] | None = None

    def match(self) -> DocumentMatch:
        known = self.known
        if known.by_guid:
            self._apply(self._find_by_guid)
            self._apply(self._find_by_guid_twin, is_last_resort=True)
        if known.by_place:
            self._apply(self._find_at_exact_place)
            self._apply(self._find_near_place)
        if self.ambiguous:
            self._apply(self._find_identical, is_last_resort=True)
            self._apply(self._find_renumbered, is_last_resort=True)
        if known.by_legacy_guid or known.by_dedupe_key:
            self._apply(self._find_by_legacy_key)
        if known.by_url:
            self._apply(self._find_in_other_feeds, is_last_resort=True)
        if known.by_page:
            self._apply(self._find_by_page, is_last_resort=True)
        if known.by_hash:
            self._apply(self._find_by_hash, is_last_resort=True)
            self._apply(self._find_by_first_hash, is_last_resort=True)
        found: dict[int | str, tuple[KeyedItem, KnownEntry | None]] = {}
        for position, item in enumerate(self.items):
            identified = self._keep_identifying_keys(item)
            # Items that only have a hash, and the same one, cannot be told apart: they are one item.
            name = position if identified.has_strong_key else identified.dedupe_key
            first, entry = found.get(name, (identified, None))
            found[name] = first, entry or self.matched.get(position)
        matches = [_make_match(item, entry, known) for item, entry in found.values()]
        return DocumentMatch(matches, self.ambiguous, self.conflicts)

    def _apply(self, find: Callable[[KeyedItem], Sequence[KnownEntry]], *, is_last_resort: bool = False) -> None:
        """Match the items with the entries that a rule finds; an earlier match wins, and a conflict is reported.

        A rule of last resort looks only at items that no rule has matched, and so reports no conflict.
        """
        matched, matched_ids = self.matched, self.matched_ids
        for position, item in enumerate(self.items):
            earlier = matched.get(position)
            if earlier is not None and is_last_resort:
                continue
            found = find(item)
            if not found:
                continue
            if earlier is not None:
                if found[0].entry_id != earlier.entry_id:
                    self.conflicts.append(KeyConflict(item.title, earlier.entry_id, found[0].entry_id))
                continue
            for entry in found:
                if entry.entry_id not in matched_ids:
                    matched[position] = entry
                    matched_ids.add(entry.entry_id)
                    break

    # The rules, in the order of contract I3.

    def _find_by_guid(self, item: KeyedItem) -> Sequence[KnownEntry]:
        """Rule 1: the same guid in the same feed, unless the publisher reused it for another item."""
        entry = self.known.by_guid.get(item.get_key(KeyType.GUID))
        if entry is None or not self._is_identifying(KeyType.GUID, item.guid):
            return ()
        if self._is_guid_reused(item, entry):
            self.ambiguous.add((KeyType.GUID, item.guid))
            return ()
        return (entry,)

    def _find_by_guid_twin(self, item: KeyedItem) -> Sequence[KnownEntry]:
        """Rule 1, for a guid that is a URL with another scheme or `www.` than before: the old guid is gone."""
        if not self._is_identifying(KeyType.GUID, item.guid):
            return ()
        twins = [
            twin
            for twin in list_guid_twins(item.guid)
            if twin not in self.guids and self._is_identifying(KeyType.GUID, twin)
        ]
        entries = [self.known.by_guid.get(make_guid_key(twin, self.feed_url)) for twin in twins]
        return [entry for entry in entries if entry is not None and not self._is_guid_reused(item, entry)]

    def _find_at_exact_place(self, item: KeyedItem) -> Sequence[KnownEntry]:
        """Rule 2: the same URL in the same feed, whatever its scheme and `www.`."""
        return [
            entry
            for entry in self._list_at_place(item)
            if self._is_at_exact_place(item, entry)
            and (has_compatible_guid(item, entry) or self._has_renamed_guid(item, entry))
        ]

    def _find_near_place(self, item: KeyedItem) -> Sequence[KnownEntry]:
        """Rule 2, for links that differ in a trailing slash, in escapes or in the fragment: title or date are equal.

        Other fragments of one page are other items, unless title and date are equal.
        """
        found: list[KnownEntry] = []
        for entry in self._list_at_place(item):
            if self._is_at_exact_place(item, entry):
                continue
            is_same = has_compatible_guid(item, entry) or self._has_renamed_guid(item, entry)
            if get_fragment(item.link) != get_fragment(entry.link):
                is_same = is_same and item.title == entry.title and item.published == entry.published
            if is_same and is_alike(item, entry):
                found.append(entry)
        return found

    def _find_identical(self, item: KeyedItem) -> Sequence[KnownEntry]:
        """Rule 2, for an item whose URL has become ambiguous, and its guid too: it is shown as before, unchanged.

        Title and date are enough if no other item of the document has them. Otherwise known items would be new when
        a second item with their guid and URL appears, or when the items at one URL lose their guids or get some.
        """
        if self._is_identifying(KeyType.CANONICAL_URL, item.exact_place):
            return ()
        return [
            entry
            for entry in self._list_with_same_keys(item)
            if entry.is_in_feed
            and self._has_guid_of(item, entry)
            and self._is_at_exact_place(item, entry)
            and (entry.content_hash == item.content_hash or self._has_same_title_and_date(item, entry))
        ]

    def _has_guid_of(self, item: KeyedItem, entry: KnownEntry) -> bool:
        """Return whether the guids are equal and ambiguous, or one of both has none and the old guid is gone."""
        if entry.guid == item.guid:
            return not self._is_identifying(KeyType.GUID, item.guid)
        return not (item.guid and entry.guid) and entry.guid not in self.guids

    def _find_renumbered(self, item: KeyedItem) -> Sequence[KnownEntry]:
        """Rule 2, for an entry whose guid has gone to another item: it is shown under another guid, unchanged."""
        return [
            entry
            for entry in self._entries_by_content.get(item.content_hash, ())
            if entry.guid != item.guid and entry.guid in self.guids and (KeyType.GUID, entry.guid) in self.ambiguous
        ]

    def _find_by_legacy_key(self, item: KeyedItem) -> Sequence[KnownEntry]:
        """Rules 3 and 4: the guid without a feed, in this feed or on an entry without one; an imported dedupe key."""
        found: list[KnownEntry] = []
        entry = self.known.by_legacy_guid.get(item.get_key(KeyType.LEGACY_GUID))
        is_ours = entry is not None and (entry.is_in_feed or not entry.has_guid_key)
        is_identifying = self._is_identifying(KeyType.GUID, item.guid)
        if entry is not None and is_ours and is_identifying and not self._is_guid_reused(item, entry):
            found.append(entry)
        imported = self.known.by_dedupe_key.get(item.dedupe_key)
        if imported is None and not item.has_strong_key:
            imported = self.known.by_dedupe_key.get(f"hash:{make_first_fallback_hash(item.parsed, self.feed_url)}")
        # An item with an ambiguous guid has lost the dedupe key that was made from it.
        is_own_key = imported is not None and self._keep_identifying_keys(item).dedupe_key == item.dedupe_key
        if imported is not None and is_own_key and not self._is_guid_reused(item, imported):
            found.append(imported)
        return found

    def _find_in_other_feeds(self, item: KeyedItem) -> Sequence[KnownEntry]:
        """Rule 5: the same URL in another feed, if the guid or the title is equal too."""
        entries = self.known.by_url.get(item.place)
        if not entries or not self._is_identifying(KeyType.CANONICAL_URL, item.exact_place):
            return ()
        found: list[KnownEntry] = []
        for entry in entries:
            # An imported entry may have nothing but its URL: then nothing could tell it apart.
            has_only_url = entry.is_imported and not entry.guid and not entry.title
            has_same_guid = is_same_text(item.guid, entry.guid) and not is_weak_guid(item.guid)
            has_same_title = is_same_text(item.title, entry.title)
            if entry.link and get_fragment(item.link) != get_fragment(entry.link):
                has_same_title = has_same_title and is_same_text(item.published, entry.published)
            if has_only_url or has_same_guid or has_same_title:
                found.append(entry)
        # Of several, the one at the very same URL comes first.
        return sorted(found, key=lambda entry: entry.link != item.link) if len(found) > 1 else found

    def _find_by_page(self, item: KeyedItem) -> Sequence[KnownEntry]:
        """Rule 5, for the URL that the link of an entry is proven to lead to (contract E4): the title is equal.

        In the same feed, the guids must not differ, or the old one is gone.
        """
        entries = self.known.by_page.get(item.place)
        if not entries or not self._is_identifying(KeyType.CANONICAL_URL, item.exact_place) or "#" in item.link:
            return ()
        return [
            entry
            for entry in entries
            if is_same_text(item.title, entry.title)
            and (not entry.is_in_feed or has_compatible_guid(item, entry) or self._has_renamed_guid(item, entry))
        ]

    def _find_by_hash(self, item: KeyedItem) -> Sequence[KnownEntry]:
        """Rule 6: the same fallback hash, for an item that neither guid nor URL identifies."""
        if self._has_identity(item):
            return ()
        entry = self.known.by_hash.get(make_fallback_hash(item.parsed, self.feed_url))
        return () if entry is None else (entry,)

    def _find_by_first_hash(self, item: KeyedItem) -> Sequence[KnownEntry]:
        """Rule 7: the hash of the first version, if the content is equal, or else the title and the date."""
        if self._has_identity(item):
            return ()
        entry = self.known.by_hash.get(digest := make_first_fallback_hash(item.parsed, self.feed_url))
        if entry is None:
            return ()
        has_title_and_date = bool(item.title and item.published) and self._count_first_hashes()[digest] == 1
        is_same = has_title_and_date or entry.is_imported or entry.content_hash == item.content_hash
        return (entry,) if is_same else ()

    # What the rules share.

    def _is_guid_reused(self, item: KeyedItem, entry: KnownEntry) -> bool:
        """Return whether the publisher gave the guid of an entry to another item: URL and title both differ.

        With the same date, headline and slug of the same item were edited, unless both items are there: the document
        shows the entry under its own URL and title, or the feed has shown the item under its own as another entry.
        """
        if item.content_hash == entry.content_hash:
            return False
        if not has_other_place_and_title(item, entry):
            return entry.is_in_feed and self._is_guid_renumbered(item, entry)
        if not is_same_text(item.published, entry.published) or (entry.place, entry.title) in self._places_and_titles:
            return True
        return any(other.title == item.title for other in self.known.by_place.get(item.place, ()))

    def _is_guid_renumbered(self, item: KeyedItem, entry: KnownEntry) -> bool:
        """Return whether URL or title cannot tell, but both items are there, unchanged, under other guids or none.

        Feeds that number the items of each document do this. Their items may have no URLs, or titles that repeat. With
        the same title and date, only the URL or the text of the item was edited.
        """
        if (item.title, item.published) == (entry.title, entry.published):
            return False
        if any(guid != item.guid for guid in self._guids_by_content.get(entry.content_hash, ())):
            return True
        return any(other.entry_id != entry.entry_id for other in self._entries_by_content.get(item.content_hash, ()))

    @cached_property
    def _guids_by_content(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for item in self.items:
            found.setdefault(item.content_hash, set()).add(item.guid)
        return found

    @cached_property
    def _entries_by_content(self) -> dict[str, list[KnownEntry]]:
        """The entries that this feed has shown under the guids of the document."""
        found: dict[str, dict[int, KnownEntry]] = {}
        for entry in self.known.by_guid.values():
            if entry.is_in_feed:
                found.setdefault(entry.content_hash, {})[entry.entry_id] = entry
        return {content_hash: list(entries.values()) for content_hash, entries in found.items()}

    @cached_property
    def _places_and_titles(self) -> set[tuple[str, str]]:
        return {(item.place, item.title) for item in self.items}

    def _list_with_same_keys(self, item: KeyedItem) -> Sequence[KnownEntry]:
        """Return the entries of this feed at the URL of an item, or with its guid if it has no URL."""
        if item.place:
            return self.known.by_place.get(item.place, ())
        entry = self.known.by_guid.get(item.get_key(KeyType.GUID))
        return () if entry is None or entry.place else (entry,)

    def _has_same_title_and_date(self, item: KeyedItem, entry: KnownEntry) -> bool:
        """Return whether title and date are equal and not empty, and no other ambiguous item has both."""
        if not is_same_text(item.title, entry.title) or not is_same_text(item.published, entry.published):
            return False
        return self._count_first_hashes()[make_first_fallback_hash(item.parsed, self.feed_url)] == 1

    def _list_at_place(self, item: KeyedItem) -> Sequence[KnownEntry]:
        is_identifying = self._is_identifying(KeyType.CANONICAL_URL, item.exact_place)
        return self.known.by_place.get(item.place, ()) if is_identifying else ()

    def _is_at_exact_place(self, item: KeyedItem, entry: KnownEntry) -> bool:
        """Return whether the links are equal, apart from scheme and `www.`; an unknown link counts as equal."""
        if not entry.link or entry.link == item.link:
            return True
        address = strip_scheme_and_www(shorten_key(normalize_link(entry.link, policy=self.policy)))
        fragment = get_fragment(entry.link)
        return item.exact_place == (f"{address}#{fragment}" if fragment else address)

    def _has_renamed_guid(self, item: KeyedItem, entry: KnownEntry) -> bool:
        """Return whether another guid is a new name of the same item: title or date is equal, the old guid is gone."""
        is_old_guid_present = entry.guid in self.guids and self._is_identifying(KeyType.GUID, entry.guid)
        return is_alike(item, entry) and not is_old_guid_present

    def _has_identity(self, item: KeyedItem) -> bool:
        is_guid_identifying = self._is_identifying(KeyType.GUID, item.guid)
        return is_guid_identifying or self._is_identifying(KeyType.CANONICAL_URL, item.exact_place)

    def _count_first_hashes(self) -> Counter[str]:
        if self._first_hashes is None:
            self._first_hashes = Counter(
                make_first_fallback_hash(item.parsed, self.feed_url)
                for item in self.items
                if not self._is_identifying(KeyType.GUID, item.guid)
            )
        return self._first_hashes

    def _is_identifying(self, key_type: KeyType, value: str) -> bool:
        return bool(value) and (key_type, value) not in self.ambiguous

    def _keep_identifying_keys(self, item: KeyedItem) -> KeyedItem:
        """Return the item without its ambiguous keys; if none is left, with its fallback hash."""
        if not self.ambiguous and not self.shared_urls and item.has_strong_key:
            return item
        has_guid = self._is_identifying(KeyType.GUID, item.guid)
        has_place = self._is_identifying(KeyType.CANONICAL_URL, item.exact_place)
        has_place = has_place and item.canonical_url not in self.shared_urls
        if not has_guid and not has_place:
            digest = make_fallback_hash(item.parsed, self.feed_url)
            return item._replace(
                keys=(Key(KeyType.FALLBACK_HASH, digest),),
                dedupe_key=f"hash:{digest}",
                has_strong_key=False,
                older_keys=self._make_older_keys(item),
            )
        if item.guid and not has_guid:
            keys = tuple(key for key in item.keys if key.key_type is KeyType.CANONICAL_URL)
            return item._replace(keys=keys, dedupe_key=f"url:{item.canonical_url}")
        if item.place and not has_place:
            return item._replace(keys=tuple(key for key in item.keys if key.key_type is not KeyType.CANONICAL_URL))
        return item

    def _make_older_keys(self, item: KeyedItem) -> tuple[Key, ...]:
        """Return the hash of the first version if it identifies the item: with it, an edited text is an update."""
        if not item.title or not item.published:
            return ()
        digest = make_first_fallback_hash(item.parsed, self.feed_url)
        return (Key(KeyType.FALLBACK_HASH, digest),) if self._count_first_hashes()[digest] == 1 else ()


def _make_match(item: KeyedItem, entry: KnownEntry | None, known: KnownEntries) -> ItemMatch:
    """Return the match of an item with an entry, or with none; equal content hashes make a duplicate (contract I4)."""
    others: dict[int, None] = {}
    if item.canonical_url and (known.by_place or known.by_url):
        for other in (*known.by_place.get(item.place, ()), *known.by_url.get(item.place, ())):
            if entry is None or other.entry_id != entry.entry_id:
                others[other.entry_id] = None
    if entry is None:
        return ItemMatch(item, ItemOutcome.NEW, None, tuple(others))
    # Content is compared per feed: the first sighting in another feed is no update.
    is_same = not entry.is_in_feed or entry.content_hash == item.content_hash
    return ItemMatch(item, ItemOutcome.DUPLICATE if is_same else ItemOutcome.UPDATED, entry, tuple(others))
