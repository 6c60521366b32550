"""Content: has an item changed, and are two documents the same feed? (SPEC I2, F5)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from canonry.core.identity import Item, canonical_link, digest_of
from canonry.core.rules import without_www
from canonry.core.url import parse
from canonry.errors import InvalidUrl

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMMON = 3  # items two documents must share before their overlap means anything
_NEW = 2  # posts that may have come or gone between two fetches


@dataclass(frozen=True, slots=True)
class ItemIdentity:
    """An item as a signature sees it: nothing that changes between two fetches of one feed."""

    name: str
    title: str
    enclosures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FeedSignature:
    """What stays the same when one feed is fetched twice or from two addresses."""

    title: str
    items: frozenset[ItemIdentity]
    text_length: int


def content_hash(item: object) -> str:
    """Hex sha256 over what readers see of an item: another hash, an update."""
    seen = Item.of(item)
    link = canonical_link(seen.link) or seen.link.strip()
    return digest_of(seen.title.strip(), link, seen.text.strip(), seen.published.strip(), sorted(seen.enclosures))


def feed_signature(title: str, items: Iterable[object], feed_url: str) -> FeedSignature:
    """The signature of a feed fetched from `feed_url`, whose own scheme and `www.` it ignores."""
    listed = [Item.of(item) for item in items]
    own_host = without_www(parse(feed_url).host)
    identities = frozenset(
        ItemIdentity(
            _name(item, own_host),
            " ".join(item.title.split()),
            tuple(sorted(_path(enclosure) for enclosure in item.enclosures)),
        )
        for item in listed
    )
    return FeedSignature(" ".join(title.split()), identities, sum(len(item.text) for item in listed))


def is_same_signature(one: FeedSignature, other: FeedSignature) -> bool:
    """Same title, same items in any order, and texts within a factor of two; never without items."""
    shorter, longer = sorted((one.text_length, other.text_length))
    return bool(one.items) and one.title == other.title and one.items == other.items and longer <= 2 * shorter


def is_overlapping(one: FeedSignature, other: FeedSignature) -> bool:
    """Same title and nearly the same items: 80 % of the larger set, or all but two of it.

    Evidence only for two URLs with the same `feed-aggressive` form.
    """
    common = len(one.items & other.items)
    larger = max(len(one.items), len(other.items))
    return one.title == other.title and common >= _COMMON and (common * 5 >= larger * 4 or common >= larger - _NEW)


def _name(item: Item, own_host: str) -> str:
    """The id, else the link: an http(s) URL without tracking, and on the own host without scheme and www.

    An item that has neither, nor a title, is known by its text alone.
    """
    name = item.guid.strip() or item.link.strip()
    if not name and not item.title.strip():
        return digest_of(item.text.strip())
    url = canonical_link(name)
    if not url:
        return name
    parts = parse(url)
    if without_www(parts.host) != own_host:
        return url
    parts.host = own_host
    return str(parts).partition(":")[2]


def _path(enclosure: str) -> str:
    try:
        return parse(enclosure).path
    except InvalidUrl:
        return enclosure
