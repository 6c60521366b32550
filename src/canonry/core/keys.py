"""Identity: the hash of a URL and the keys by which a feed item is known again (contract N6, I2)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from canonry.core.native import normalize
from canonry.core.rules import without_www
from canonry.core.url import parse
from canonry.errors import InvalidUrl

ENTRY_POLICY = "entry@1"
# Bytes of the longest key that is kept as it is; PostgreSQL has no room for more than 2,704 in an index.
LONGEST_KEY = 2000
# What a text of a database may not hold, and a careless feed has.
UNKEEPABLE = re.compile("[\0\ud800-\udfff]")
# A place that parsing leaves as it is, whatever the policy: no www, no port, no dot segment, nothing to escape.
_PLAIN_PLACE = re.compile(
    r"//(?!www\.)[a-z][a-z0-9]*+(?>-[a-z0-9]++)*+(?>\.[a-z][a-z0-9]*+(?>-[a-z0-9]++)*+)++"
    r"(?>/[\w~-][\w.~-]*+)*+/?+(?>\?[\w=&.~+-]++)?+",
    re.ASCII,
)
_SPACE = " \t\n\v\f\r\x1c\x1d\x1e\x1f"


class KeyType(StrEnum):
    """What a key is made from."""

    GUID = "guid"
    CANONICAL_URL = "canonical_url"
    LEGACY_GUID = "legacy_guid"
    FALLBACK_HASH = "fallback_hash"


@dataclass(frozen=True, slots=True)
class Key:
    """One identity of an item: equal type and value, the same item (contract I3 has the exceptions)."""

    key_type: KeyType
    key_value: str
    policy: str = ENTRY_POLICY


@dataclass(frozen=True, slots=True)
class Item:
    """What a feed says of one item, as far as identity and change go; empty where it says nothing."""

    guid: str = ""
    link: str = ""
    title: str = ""
    published: str = ""
    text: str = ""
    enclosures: tuple[str, ...] = ()
    updated: str = ""

    @classmethod
    def of(cls, item: object) -> Item:
        """The item itself, or one from a mapping or object with these names (`id` and `url` also count)."""
        if isinstance(item, Item):
            return item
        fields = cast("Mapping[str, object]", item) if isinstance(item, Mapping) else _attributes(item)
        enclosures = fields.get("enclosures")
        return cls(
            guid=_text(fields, "guid", "id"),
            link=_text(fields, "link", "url"),
            title=_text(fields, "title"),
            published=_text(fields, "published"),
            text=_text(fields, "text", "content"),
            enclosures=tuple(map(str, cast("list[object]", enclosures)))
            if isinstance(enclosures, list | tuple)
            else (),
        )


def identity_keys(item: object, feed_url: str, *, policy: str = ENTRY_POLICY) -> list[Key]:
    """The keys of an item, in the order they are looked up; there is always at least one.

    The item is an `Item`, or a mapping or object that has its fields. `policy` is the id of the policy for its link.
    """
    known = Item.of(item)
    return keys_at(canonical_link(known.link, policy=policy), known, feed_url, policy=policy)


def keys_at(canonical_url: str, item: Item, feed_url: str, *, policy: str) -> list[Key]:
    """`identity_keys` of an item whose canonical URL is known."""
    guid = item.guid.strip()
    keys: list[Key] = []
    if guid:
        keys.append(Key(KeyType.GUID, f"{feed_url}:{guid}"))
    if canonical_url:
        keys.append(Key(KeyType.CANONICAL_URL, canonical_url, policy))
    if guid:
        keys.append(Key(KeyType.LEGACY_GUID, f"guid:{guid}"))
    return keys or [Key(KeyType.FALLBACK_HASH, fallback_hash(item, feed_url))]


def dedupe_key(item: object, feed_url: str, *, policy: str = ENTRY_POLICY) -> str:
    """The item's identity as one readable text, for stores that have a single column for it."""
    return readable(identity_keys(item, feed_url, policy=policy)[0])


def readable(key: Key) -> str:
    """The first key of an item as its `dedupe_key`."""
    prefix = {KeyType.GUID: "guid", KeyType.CANONICAL_URL: "url"}.get(key.key_type, "hash")
    return f"{prefix}:{key.key_value}"


def canonical_link(link: str, *, policy: str = ENTRY_POLICY) -> str:
    """The link under the entry policy; empty where it is no http(s) URL and so identifies nothing."""
    try:
        # White space around a link means nothing; only a policy that keeps the text as it is would see it.
        return normalize(link.strip(_SPACE), policy)
    except InvalidUrl:
        return ""


def url_key(link: str, *, policy: str = ENTRY_POLICY) -> str:
    """The link as it is compared: canonical, or a digest of that; empty where it is no URL."""
    return bounded(canonical_link(link, policy=policy))


def bounded(key: str) -> str:
    """The key, or its digest where an index has no room for it."""
    is_short = len(key) <= LONGEST_KEY // 4 or len(key.encode()) <= LONGEST_KEY
    return key if is_short else f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def keepable(text: str) -> str:
    """The text with � for what no database keeps: NUL and halves of characters."""
    return UNKEEPABLE.sub("\ufffd", text)


def place_of(canonical_url: str) -> str:
    """The URL whatever its scheme and www: how a feed names one place over the years."""
    if not canonical_url.startswith("http"):  # none, or a digest
        return canonical_url
    place = canonical_url.partition(":")[2]
    if _PLAIN_PLACE.fullmatch(place):  # as most are
        return place
    parts = parse(canonical_url)
    parts.host = without_www(parts.host)
    return str(parts).partition(":")[2]


def digest_of(*fields: object) -> str:
    """Hex sha256 over fields, each kept apart from the next."""
    # ASCII escapes, so that lone surrogates from a broken feed have bytes too.
    return hashlib.sha256(json.dumps(fields, ensure_ascii=True).encode()).hexdigest()


def fallback_hash(item: Item, feed_url: str) -> str:
    # A link that is no URL still tells two items apart.
    link = [item.link.strip()] if item.link.strip() else []
    return digest_of(feed_url, item.title.strip(), item.published.strip(), *link)


def _attributes(item: object) -> dict[str, object]:
    names = ("guid", "id", "link", "url", "title", "published", "text", "content", "enclosures")
    return {name: getattr(item, name, None) for name in names}


def _text(item: Mapping[str, object], *names: str) -> str:
    """The first of these fields that says something."""
    return next((str(value) for value in map(item.get, names) if value not in (None, "")), "")
