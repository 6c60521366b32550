"""What goes into the store with a document of a feed, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from canonry.errors import CanonryError

if TYPE_CHECKING:
    from datetime import datetime

    from canonry.core.keys import Item, Key
    from canonry.feeds.item_matching import Conflict, Outcome


class NoSuchFeed(CanonryError, LookupError):
    """No feed has this number; it may have been removed a moment ago."""

    def __init__(self, feed_id: int) -> None:
        super().__init__(feed_id)
        self.feed_id = feed_id

    def __str__(self) -> str:
        return f"no feed has the number {self.feed_id}, or not any more"


@dataclass(frozen=True, slots=True)
class FeedDocument:
    """What is kept of a document, and of the answer it came with."""

    title: str
    format: str
    hubs: tuple[str, ...]
    items: tuple[Item, ...]
    etag: str = ""
    last_modified: str = ""
    next_check_at: datetime | None = None
    ttl: int | None = None


class MergedItem(NamedTuple):
    """What became of one item."""

    outcome: Outcome
    entry_id: int
    title: str
    url: str
    keys: tuple[Key, ...]
    dedupe_key: str
    match_confidence: str
    first_seen_at: str
    last_seen_at: str
    shares_url_with: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MergedFeed:
    """What a document changed."""

    items: tuple[MergedItem, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    deleted: int = 0
