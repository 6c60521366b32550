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
    make_fallback_hash,
    make_keys,
    normalize_link,
    replace_unstorable,
    shorten_key,
    strip_scheme_and_www,
)
from canonry.feeds.content import content_hash, content_hash_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

# A guid (`KeyType.GUID`) or a place (`KeyType.CANONICAL_URL`) as the document has it, without the URL of the feed.
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
    place: str  # the canonical URL without its scheme and `www.`
    content_hash: str
    keys: tuple[Key, ...]
    dedupe_key: str
    has_strong_key: bool  # a guid or a URL, not only a hash

    def get_key(self, key_type: KeyType) -> str:
        """Return the value of the key of this type, or an empty text if the item has none."""
        for key in self.keys:
            if key.key_type is key_type:
                return key.key_value
        return ""


def make_keyed_items(items: Iterable[Item], feed_url: str, policy: str = ENTRY_POLICY) -> list[KeyedItem]:
    """Return the items with their keys, the links normalized under the policy.

    Items with the same guid, link and content are one item (contract I3).
    """
    found: dict[tuple[str, str, str], KeyedItem] = {}
    for item in map(_make_storable, items):
        canonical_url = normalize_link(item.link, policy=policy)
        # The content hash always uses the entry policy: a rekey must not make unchanged items look updated.
        digest = content_hash_at(canonical_url, item) if policy == ENTRY_POLICY else content_hash(item)
        guid, url = item.guid.strip(), shorten_key(canonical_url)
        if (guid, url, digest) in found:
            continue
        keys = make_keys(canonical_url, item, feed_url, policy=policy)
        dedupe_key = format_dedupe_key(keys[0])
        if len(dedupe_key) + len(canonical_url) > MAX_KEY_BYTES // 4:  # otherwise every key fits
            guid, dedupe_key, keys = shorten_key(guid), shorten_key(dedupe_key), list(map(_shorten, keys))
        found[item.guid.strip(), url, digest] = KeyedItem(
            item,
            guid,
            item.link.strip(),
            " ".join(item.title.split()),
            item.published.strip(),
            url,
            strip_scheme_and_www(url),
            digest,
            tuple(keys),
            dedupe_key,
            keys[0].key_type is not KeyType.FALLBACK_HASH,
        )
    return list(found.values())


def find_repeated_keys(items: Collection[KeyedItem]) -> set[DocumentKey]:
    """Return the guids and places that several items of one document carry: they identify none of them (I3)."""
    guids = _find_repeated([item.guid for item in items if item.guid])
    places = _find_repeated([item.place for item in items if item.place])
    return {(KeyType.GUID, guid) for guid in guids} | {(KeyType.CANONICAL_URL, place) for place in places}


def make_fallback_hashes(
    items: Collection[KeyedItem], feed_url: str, ambiguous: Collection[DocumentKey] = frozenset()
) -> list[str]:
    """Return the fallback hashes of the items that their URL does not identify: they may have no other key."""
    repeated = find_repeated_keys(items)
    return [
        make_fallback_hash(item.parsed, feed_url)
        for item in items
        if not item.place or (key := (KeyType.CANONICAL_URL, item.place)) in ambiguous or key in repeated
    ]


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
