"""Identity keys: the texts by which a feed item is recognised in a later fetch (contract I2, I3).

The hash of a URL (contract N6) is `canonry.canonical_hash`, in `normalize.py`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

from canonry.core.native import normalize
from canonry.core.rules import normalize_escapes, strip_www
from canonry.core.url import UNCHANGED_URL, parse
from canonry.url_errors import InvalidUrl

ENTRY_POLICY = "entry@1"
# Longer keys are stored as a digest: a PostgreSQL index row holds at most 2,704 bytes.
MAX_KEY_BYTES = 2000
# NUL and lone surrogates: feeds contain them, and databases refuse them in a text.
UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_UNCHANGED = re.compile(UNCHANGED_URL)
_MIN_GUID_CHARS = 8  # of a guid that says something outside its feed
_WHITESPACE = " \t\n\v\f\r\x1c\x1d\x1e\x1f"


class KeyType(StrEnum):
    """The part of an item that a key is made from."""

    GUID = "guid"
    CANONICAL_URL = "canonical_url"
    LEGACY_GUID = "legacy_guid"
    FALLBACK_HASH = "fallback_hash"


@dataclass(frozen=True, slots=True)
class Key:
    """One identity of an item. Items that share a key are the same item (contract I3 has the exceptions)."""

    key_type: KeyType
    key_value: str
    policy: str = ENTRY_POLICY


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A file that belongs to an item; `length` is in bytes, None if the feed does not say it."""

    url: str
    type: str = ""
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """The fields of a feed item; empty if the feed has none.

    Those up to `enclosures` decide its identity and whether it changed. Author, categories and `media` (the
    enclosures with type and length) decide nothing, and are left out of comparisons.
    """

    guid: str = ""
    link: str = ""
    title: str = ""
    published: str = ""
    text: str = ""
    enclosures: tuple[str, ...] = ()
    updated: str = ""
    author: str = field(default="", compare=False)
    categories: tuple[str, ...] = field(default=(), compare=False)
    media: tuple[Enclosure, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, item: object) -> Item:
        """Return the item, made from a mapping or object with these field names (or `id`, `url`, `content`)."""
        if isinstance(item, Item):
            return item
        fields = cast("Mapping[str, object]", item) if isinstance(item, Mapping) else _read_attributes(item)
        enclosures = fields.get("enclosures")
        return cls(
            guid=_find_text(fields, "guid", "id"),
            link=_find_text(fields, "link", "url"),
            title=_find_text(fields, "title"),
            published=_find_text(fields, "published"),
            text=_find_text(fields, "text", "content"),
            enclosures=tuple(map(str, cast("list[object]", enclosures)))
            if isinstance(enclosures, list | tuple)
            else (),
        )


def identity_keys(item: object, feed_url: str, *, policy: str = ENTRY_POLICY) -> list[Key]:
    """Return the keys of an item in the order of lookup: at least one.

    The item is an `Item`, or a mapping or object that has its fields. Its link is normalized under `policy`.
    """
    known = Item.of(item)
    return make_keys(normalize_link(known.link, policy=policy), known, feed_url, policy=policy)


def make_keys(canonical_url: str, item: Item, feed_url: str, *, policy: str) -> list[Key]:
    """Return the identity keys of an item whose normalized link is known."""
    guid = item.guid.strip()
    keys: list[Key] = []
    if guid:
        keys.append(Key(KeyType.GUID, f"{feed_url}:{guid}"))
    if canonical_url:
        keys.append(Key(KeyType.CANONICAL_URL, canonical_url, policy))
    if guid:
        keys.append(Key(KeyType.LEGACY_GUID, f"guid:{guid}"))
    return keys or [Key(KeyType.FALLBACK_HASH, make_fallback_hash(item, feed_url))]


def dedupe_key(item: object, feed_url: str, *, policy: str = ENTRY_POLICY) -> str:
    """Return the first key of an item as one readable text, for stores with a single column for it."""
    return format_dedupe_key(identity_keys(item, feed_url, policy=policy)[0])


def format_dedupe_key(key: Key) -> str:
    """Write a key as a `dedupe_key`: `guid:…`, `url:…` or `hash:…`."""
    prefix = {KeyType.GUID: "guid", KeyType.CANONICAL_URL: "url"}.get(key.key_type, "hash")
    return f"{prefix}:{key.key_value}"


def normalize_link(link: str, *, policy: str = ENTRY_POLICY) -> str:
    """Normalize the link of an item; empty for a link that is not an http(s) URL and so identifies nothing."""
    try:
        # Only a policy with `parse = false` would keep the white space around a link.
        return normalize(link.strip(_WHITESPACE), policy)
    except InvalidUrl:
        return ""


def make_link_key(link: str, *, policy: str = ENTRY_POLICY) -> str:
    """Return the key of a link: normalized, as a digest if that is too long, empty if it is not a URL."""
    return shorten_key(normalize_link(link, policy=policy))


def shorten_key(key: str) -> str:
    """Return the key, or its digest if it is longer than `MAX_KEY_BYTES`."""
    is_short = len(key) <= MAX_KEY_BYTES // 4 or len(key.encode()) <= MAX_KEY_BYTES
    return key if is_short else f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def replace_unstorable(text: str) -> str:
    """Replace the characters that databases refuse (NUL, lone surrogates) with U+FFFD."""
    return UNSTORABLE.sub("\ufffd", text)


def strip_scheme_and_www(canonical_url: str) -> str:
    """Return `//example.com/a` for `http://www.example.com/a`; an empty text or a digest is returned as it is.

    Feeds move between http and https, and to or from www, while their items stay the same.
    """
    if not canonical_url.startswith("http"):
        return canonical_url
    address = canonical_url.partition(":")[2]
    if not address.startswith("//www.") and _UNCHANGED.fullmatch(canonical_url):  # most URLs: no need to parse
        return address
    parts = parse(canonical_url)
    parts.host = strip_www(parts.host)
    return str(parts).partition(":")[2]


def make_place(canonical_url: str) -> str:
    """Return where a link leads, without what publishers change while the item stays the same (contract I3).

    `http://www.example.com/%7ea/?b` → `//example.com/~a?b`: no scheme, `www.`, trailing slashes and needless escapes.
    """
    return loosen_place(strip_scheme_and_www(canonical_url))


def loosen_place(address: str) -> str:
    """Return an address without scheme and `www.` also without trailing slashes and needless escapes."""
    if "%" in address:
        address = normalize_escapes(address)
    if not address.endswith(("/", "?")) and "/?" not in address:  # most addresses
        return address
    path, _, query = address.partition("?")
    path = path.rstrip("/")  # all, so that a place stays as it is
    return f"{path}?{query}" if query else path


def make_guid_key(guid: str, feed_url: str) -> str:
    """Return the value of the key of a guid as it is stored."""
    return shorten_key(f"{feed_url}:{guid}")


def list_guid_twins(guid: str) -> list[str]:
    """Return the other texts of a guid that is a URL: with the other scheme, with and without `www.`."""
    scheme, _, address = guid.partition("://")
    if scheme not in {"http", "https"} or not address:
        return []
    host = address.removeprefix("www.")
    return [twin for start in ("https://", "http://") for www in ("", "www.") if (twin := start + www + host) != guid]


def is_weak_guid(guid: str) -> bool:
    """Whether a guid is so short or plain that other feeds may use it for other items: `42`, `post-1`."""
    return len(guid) < _MIN_GUID_CHARS or guid.isdecimal()


def hash_fields(*fields: object) -> str:
    """Return the hex sha256 of several fields; moving text from one field to the next changes it."""
    # ASCII escapes, because a lone surrogate from a broken feed has no UTF-8 bytes.
    return hashlib.sha256(json.dumps(fields, ensure_ascii=True).encode()).hexdigest()


def make_fallback_hash(item: Item, feed_url: str) -> str:
    """Return the hash that identifies an item without guid and without a usable link."""
    link, title, published, text = item.link.strip(), item.title.strip(), item.published.strip(), item.text.strip()
    # A link that is not a URL still distinguishes two items.
    return hash_fields("2", feed_url, title, published, text, sorted(item.enclosures), link)


def make_first_fallback_hash(item: Item, feed_url: str) -> str:
    """Return the fallback hash of the first version, which covers neither text nor enclosures."""
    link = [item.link.strip()] if item.link.strip() else []
    return hash_fields(feed_url, item.title.strip(), item.published.strip(), *link)


def _read_attributes(item: object) -> dict[str, object]:
    names = ("guid", "id", "link", "url", "title", "published", "text", "content", "enclosures")
    return {name: getattr(item, name, None) for name in names}


def _find_text(item: Mapping[str, object], *names: str) -> str:
    """Return the first of these fields that is not empty, as text; empty if all are."""
    return next((str(value) for value in map(item.get, names) if value not in (None, "")), "")
