"""Compare content: has an item changed, and are two documents the same feed? (contract I2, F5)"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from canonry.core.keys import Item, hash_fields, normalize_link
from canonry.core.rules import strip_www
from canonry.core.url import parse
from canonry.errors import InvalidUrl

if TYPE_CHECKING:
    from collections.abc import Iterable

_MIN_COMMON_ITEMS = 3  # for an overlap to be evidence
_MAX_NEW_ITEMS = 2  # that may appear or disappear between two fetches
# A path segment that may differ between two requests: `token=…`, a hex digest or UUID, a time in seconds, or a long
# random text (letters and digits mixed, no words).
_TOKEN = re.compile(
    r"""\A(?:
        [a-z_-]*(?:token|sig|signature|hmac|hash|expires?|exp|key|auth)[=~:].*
        | (?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8,}
        | [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
        | [0-9]{10,}
        | (?=(?:[0-9]*[a-z]+[0-9]+){3})[a-z0-9]{16,}={0,2}
    )(?=\.[A-Za-z0-9]{2,4}\Z|\Z)""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class ItemIdentity:
    """The identity of an item in a signature, without anything that changes between two fetches of one feed."""

    name: str
    title: str
    enclosures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FeedSignature:
    """The content of a feed that stays the same when it is fetched twice or from two URLs."""

    title: str
    items: frozenset[ItemIdentity]
    text_length: int


def content_hash(item: object) -> str:
    """Return the hex sha256 of what readers see of an item; a different hash means that the item was updated."""
    seen = Item.of(item)
    return content_hash_at(normalize_link(seen.link), seen)


def content_hash_at(canonical_url: str, item: Item) -> str:
    """Return the `content_hash` of an item whose canonical URL is known."""
    link = canonical_url or item.link.strip()
    return hash_fields(item.title.strip(), link, item.text.strip(), item.published.strip(), sorted(item.enclosures))


def feed_signature(title: str, items: Iterable[object], *feed_urls: str) -> FeedSignature:
    """Return the signature of a feed, which ignores scheme and `www.` of the hosts in `feed_urls`.

    To compare a feed with its mirror, pass the URLs of both each time. Empty items are left out.
    """
    found = [item for item in map(Item.of, items) if _has_content(item)]
    own_hosts = {strip_www(parse(url).host) for url in feed_urls}
    identities = frozenset(
        ItemIdentity(
            _make_name(item, own_hosts),
            " ".join(item.title.split()),
            tuple(sorted(_get_path(enclosure) for enclosure in item.enclosures)),
        )
        for item in found
    )
    return FeedSignature(" ".join(title.split()), identities, sum(len(item.text) for item in found))


def is_same_signature(one: FeedSignature, other: FeedSignature) -> bool:
    """Whether title and items are equal, in any order, and the texts within a factor of two; false without items."""
    return bool(one.items) and one.title == other.title and one.items == other.items and is_similar_length(one, other)


def is_similar_length(one: FeedSignature, other: FeedSignature) -> bool:
    """Whether the texts are within a factor of two."""
    shorter, longer = sorted((one.text_length, other.text_length))
    return longer <= 2 * shorter


def is_overlapping(one: FeedSignature, other: FeedSignature) -> bool:
    """Whether the titles are equal and the items nearly so: 80 % of the larger set, or all but two of it.

    Evidence only for two URLs with the same `feed-aggressive` form.
    """
    common = len(one.items & other.items)
    larger = max(len(one.items), len(other.items))
    return (
        one.title == other.title
        and common >= _MIN_COMMON_ITEMS
        and (common * 5 >= larger * 4 or common >= larger - _MAX_NEW_ITEMS)
    )


def _has_content(item: Item) -> bool:
    return any(text.strip() for text in (item.guid, item.link, item.title, item.text, *item.enclosures))


def _make_name(item: Item, own_hosts: set[str]) -> str:
    """Return the id, or else the link. URLs lose tracking, and on own hosts also scheme and `www.`.

    An item without id, link and title is identified by its text.
    """
    name = item.guid.strip() or item.link.strip()
    if not name and not item.title.strip():
        return hash_fields(item.text.strip())
    url = normalize_link(name)
    if not url:
        return name
    parts = parse(url)
    if strip_www(parts.host) not in own_hosts:
        return url
    parts.host = strip_www(parts.host)
    return str(parts).partition(":")[2]


def _get_path(enclosure: str) -> str:
    """Return the path of an enclosure without what a server makes for each request: session ids and tokens.

    `/t/8f3a9c2b17d04e55/ep1.mp3;jsessionid=1` → `/t/*/ep1.mp3`. Two items need equal ids and titles too.
    """
    try:
        path = parse(enclosure).path
    except InvalidUrl:
        return enclosure
    return "/".join(_TOKEN.sub("*", segment.partition(";")[0]) for segment in path.split("/"))
