"""Values that go into the feed store and come out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from canonry.net.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from canonry.core.keys import Item, Key
    from canonry.errors import FailureKind
    from canonry.feeds.item_matching import ItemOutcome, KeyConflict


class FeedStatus(StrEnum):
    """Whether a feed is polled."""

    ACTIVE = "active"
    STOPPED = "stopped"  # its server answered 410; checked weekly, and active again once it answers
    PAUSED = "paused"  # by a person, until it is resumed


class FeedNote(StrEnum):
    """An observation about a feed."""

    NONE = ""
    CHANGES_ON_EVERY_REQUEST = "changes_on_every_request"  # updates that change nothing a reader sees are left out


class MatchConfidence(StrEnum):
    """How surely an entry is recognised (contract I4)."""

    HIGH = "high"  # by guid or URL
    LOW = "low"  # by a hash only


# The columns of a feed whose last poll did not fail.
NO_FAILURE: Mapping[str, str | int | None] = MappingProxyType(
    {"failures": 0, "failure": "", "failure_kind": "", "failure_status": None}
)


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
    note: FeedNote = FeedNote.NONE
    origin: Origin = Origin.UNKNOWN  # who named `url`
    own_title: str = ""  # given by a person
    site_url: str = ""
    interval_seconds: int | None = None
    timeout_seconds: int | None = None
    max_bytes: int | None = None
    user_agent: str = ""
    headers: str = field(default="{}", repr=False)  # JSON; may hold secrets
    failure_kind: FailureKind | None = None  # of the last failure
    failure_status: int | None = None  # of the answer to the last poll that failed

    @property
    def shown_title(self) -> str:
        """The title that a person gave the feed, otherwise that of its document."""
        return self.own_title or self.title


@dataclass(frozen=True, slots=True)
class FeedDescription:
    """Details of a feed from a person or an OPML file; empty where unknown."""

    own_title: str = ""
    folder: str = ""
    site_url: str = ""


NO_DESCRIPTION = FeedDescription()


@dataclass(frozen=True, slots=True)
class ItemFeed:
    """A feed that carried an item."""

    id: int
    url: str
    title: str


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An entry, and the feeds that carried it; `feed_url` is the first of them."""

    entry_id: int
    feed_url: str
    title: str
    url: str
    dedupe_key: str
    match_confidence: MatchConfidence
    first_seen_at: str
    last_seen_at: str
    published: str = ""
    feeds: tuple[ItemFeed, ...] = ()


@dataclass(frozen=True, slots=True)
class FeedDocument:
    """The stored parts of a document and of its response."""

    title: str
    format: str
    hubs: tuple[str, ...]
    items: tuple[Item, ...]
    etag: str = ""
    last_modified: str = ""
    next_check_at: datetime | None = None
    ttl: int | None = None  # minutes
    is_cut: bool = False  # some items of the document were left out
    topic: str = ""  # the URL under which the hubs know the feed
    hubs_origin: Origin = Origin.UNKNOWN  # who named the hubs


class MergedItem(NamedTuple):
    """The outcome of one item of a document."""

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
    """The changes a document made in the store."""

    items: tuple[MergedItem, ...] = ()
    conflicts: tuple[KeyConflict, ...] = ()
    deleted: int = 0  # entries
