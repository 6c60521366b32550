"""Values that go into the feed store and come out of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from canonry.core.keys import Item, Key
    from canonry.feeds.item_matching import ItemOutcome, KeyConflict
    from canonry.net.origin import Origin


class FeedStatus(StrEnum):
    """Whether a feed is polled."""

    ACTIVE = "active"
    STOPPED = "stopped"  # its server answered 410; adding the feed again makes it active


class FeedNote(StrEnum):
    """What was noticed about a feed."""

    NONE = ""
    CHANGES_ON_EVERY_REQUEST = "changes_on_every_request"  # updates that change nothing a reader sees are left out


class MatchConfidence(StrEnum):
    """How surely an entry is recognised (contract I4)."""

    HIGH = "high"  # by guid or URL
    LOW = "low"  # by a hash only


@dataclass(frozen=True, slots=True)
class FeedState:
    """A feed as stored; times are UTC texts."""

    id: int
    url: str
    key_url: str
    title: str
    format: str
    status: FeedStatus
    etag: str
    last_modified: str
    hubs: str
    failures: int
    failure: str  # the last failure, as a sentence for people
    last_checked_at: str | None
    next_check_at: str | None
    retry_at: str | None
    moved_to: str
    moved_sightings: int
    ttl: int | None
    folder: str
    note: FeedNote
    origin: Origin  # who named `url`


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An entry as one feed shows it."""

    entry_id: int
    feed_url: str
    title: str
    url: str
    dedupe_key: str
    match_confidence: MatchConfidence
    first_seen_at: str
    last_seen_at: str


@dataclass(frozen=True, slots=True)
class FeedDocument:
    """What is stored of a document, and of the response it came with."""

    title: str
    format: str
    hubs: tuple[str, ...]
    items: tuple[Item, ...]
    etag: str = ""
    last_modified: str = ""
    next_check_at: datetime | None = None
    ttl: int | None = None  # minutes
    is_cut: bool = False  # some items of the document were left out


class MergedItem(NamedTuple):
    """What one item of a document turned out to be."""

    outcome: ItemOutcome
    entry_id: int
    title: str
    url: str
    keys: tuple[Key, ...]
    dedupe_key: str
    match_confidence: MatchConfidence
    first_seen_at: str
    last_seen_at: str
    shares_url_with: tuple[int, ...]
    text_start: str  # the first characters of its text, which is not stored
    parsed: Item  # as the document has it
    # Of a new or updated item:
    number: int | None = None  # in the change feed
    published_at: str | None = None  # the date in UTC, if it can be read
    feeds: tuple[str, ...] = ()  # the feeds that have shown it; credentials are masked


@dataclass(frozen=True, slots=True)
class MergedFeed:
    """What a document changed in the store."""

    items: tuple[MergedItem, ...] = ()
    conflicts: tuple[KeyConflict, ...] = ()
    deleted: int = 0  # entries
