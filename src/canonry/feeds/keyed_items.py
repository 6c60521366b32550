"""Items of a document with the keys they may be known by (contract I2)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from canonry.core.keys import (
    ENTRY_POLICY,
    MAX_KEY_BYTES,
    UNSTORABLE,
    Item,
    Key,
    KeyType,
    format_dedupe_key,
    loosen_place,
    make_fallback_hash,
    make_first_fallback_hash,
    make_keys,
    normalize_link,
    replace_unstorable,
    shorten_key,
    strip_scheme_and_www,
)
from canonry.feeds.content import content_hash, content_hash_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

# A guid (`KeyType.GUID`) or an exact place (`KeyType.CANONICAL_URL`) of a document, without the URL of the feed.
DocumentKey: TypeAlias = tuple[KeyType, str]


class KeyedItem(NamedTuple):
    """An item of a document, cleaned up, with its keys.

    A named tuple, as every item of every document becomes one: making it takes a third of the time of a frozen
    dataclass.
    """

    parsed: Item  # as the document has it
    guid: str
    link: str
    title: str
    published: str
    canonical_url: str
    place: str  # the canonical URL as links are compared: see `make_place`
    exact_place: str  # the canonical URL without its scheme and `www.`, with the fragment of the link
    content_hash: str
    keys: tuple[Key, ...]
    dedupe_key: str
    has_strong_key: bool  # a guid or a URL, not only a hash
    older_keys: tuple[Key, ...] = ()  # of the first version: registered, but not shown

    def get_key(self, key_type: KeyType) -> str:
        """Return the value of the key of this type, or an empty text if the item has none."""
        for key in self.keys:
            if key.key_type is key_type:
                return key.key_value
        return ""


def make_keyed_items(items: Iterable[Item], feed_url: str, policy: str = ENTRY_POLICY) -> list[KeyedItem]:
    """Return the items with their keys, the links normalized under the policy.

    An item that a document lists twice is one item (contract I3).
    """
    found: dict[tuple[str, ...], KeyedItem] = {}
    for item in map(_make_storable, items):
        canonical_url = normalize_link(item.link, policy=policy)
        # The content hash always uses the entry policy: a rekey must not make unchanged items look updated.
        digest = content_hash_at(canonical_url, item) if policy == ENTRY_POLICY else content_hash(item)
        guid, url, title, published = (
            item.guid.strip(),
            shorten_key(canonical_url),
            " ".join(item.title.split()),
            item.published.strip(),
        )
        address = strip_scheme_and_www(url)
        place = loosen_place(address)
        fragment = item.link.partition("#")[2].strip() if "#" in item.link and url else ""
        name: tuple[str, ...]
        if title and guid:
            name = (guid, place, fragment, title)
        elif title and published and place:
            name = (place, fragment, title, published, "")
        else:
            name = (guid, url, fragment, digest, "", "")
        if name in found:
            continue
        keys = make_keys(canonical_url, item, feed_url, policy=policy)
        dedupe_key = format_dedupe_key(keys[0])
        if len(dedupe_key) + len(canonical_url) > MAX_KEY_BYTES // 4:  # otherwise every key fits
            guid, dedupe_key, keys = shorten_key(guid), shorten_key(dedupe_key), list(map(_shorten, keys))
        found[name] = KeyedItem(
            item,
            guid,
            item.link.strip(),
            title,
            published,
            url,
            place,
            f"{address}#{fragment}" if fragment else address,
            digest,
            tuple(keys),
            dedupe_key,
            keys[0].key_type is not KeyType.FALLBACK_HASH,
        )
    return list(found.values())


def find_repeated_keys(items: Collection[KeyedItem]) -> set[DocumentKey]:
    """Return the guids and exact places that several items of one document carry: they identify none of them (I3)."""
    guids = _find_repeated([item.guid for item in items if item.guid])
    places = _find_repeated([item.exact_place for item in items if item.exact_place])
    return {(KeyType.GUID, guid) for guid in guids} | {(KeyType.CANONICAL_URL, place) for place in places}


def find_shared_urls(items: Collection[KeyedItem]) -> set[str]:
    """Return the canonical URLs of several items, which may differ in the fragment: they are the key of none."""
    return set(_find_repeated([item.canonical_url for item in items if item.canonical_url]))


def make_fallback_hashes(
    items: Collection[KeyedItem], feed_url: str, ambiguous: Collection[DocumentKey] = frozenset()
) -> list[str]:
    """Return the fallback hashes, of both versions, of the items whose URL is no key: they may have no other key."""
    repeated, shared = find_repeated_keys(items), find_shared_urls(items)
    hashes: list[str] = []
    for item in items:
        key = (KeyType.CANONICAL_URL, item.exact_place)
        if not item.place or key in ambiguous or key in repeated or item.canonical_url in shared:
            hashes.append(make_fallback_hash(item.parsed, feed_url))
            hashes.append(make_first_fallback_hash(item.parsed, feed_url))
    return hashes


def _find_repeated(values: list[str]) -> list[str]:
    if len(set(values)) == len(values):  # true of most documents
        return []
    return [value for value, count in Counter(values).items() if count > 1]


def _shorten(key: Key) -> Key:
    value = shorten_key(key.key_value)
    return key if value is key.key_value else replace(key, key_value=value)


def _make_storable(item: Item) -> Item:
    """Return the item without the characters that no database stores."""
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
