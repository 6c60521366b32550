"""The report of an ingest run: about every feed, every new or updated item, and the run itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from canonry.errors import mask_credentials

if TYPE_CHECKING:
    from canonry.core.keys import Key
    from canonry.errors import FailureKind
    from canonry.feeds.feed_values import MergedItem, StoredItem
    from canonry.feeds.item_matching import ItemOutcome


_USERINFO = re.compile(r"://[^/?#\\\s]*@")


class FeedResult(StrEnum):
    """How polling a feed ended."""

    INGESTED = "ingested"
    NO_CHANGE = "no_change"
    FAILED = "failed"
    STOPPED = "stopped"  # gone for good: the server answered 410
    REMOVED = "removed"  # from the store, while it was polled
    WAITING = "waiting"  # not polled: its server asked to wait

    @property
    def is_failure(self) -> bool:
        """Whether the feed counts as failed."""
        return self in _FAILURES


_FAILURES = frozenset({FeedResult.FAILED, FeedResult.STOPPED, FeedResult.REMOVED})


@dataclass(frozen=True, slots=True)
class FeedOutcome:
    """How polling a feed ended, and the number of its items by outcome.

    `reason` is a sentence for people; code decides by `result` and `failure`.
    """

    feed_url: str
    result: FeedResult
    reason: str = ""
    new: int = 0
    updated: int = 0
    duplicate: int = 0
    conflicts: int = 0
    milliseconds: int = 0
    failure: FailureKind | None = None


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """A new or updated item, as the JSON lines output shows it."""

    outcome: ItemOutcome
    feed_url: str
    title: str
    url: str
    keys: tuple[Key, ...]
    dedupe_key: str
    match_confidence: str
    first_seen_at: str
    last_seen_at: str


class CheckName(StrEnum):
    """The lines of the quality checklist (contract I6)."""

    CANONICAL_URLS = "URL canonicalization was applied before dedupe"
    CONDITIONAL_REQUESTS = "Conditional request state was applied when available"
    IDENTITY_KEYS = "Every output item has at least one stable identity key"
    PERSISTED = "Feed and entry metadata were persisted successfully"
    METADATA_ONLY = "No full-text extraction and no summarization were performed"


@dataclass(frozen=True, slots=True)
class ChecklistLine:
    """One line of the quality checklist."""

    name: CheckName
    is_met: bool
    detail: str


@dataclass(slots=True)
class Report:
    """What a run did; `items` are the new and updated ones, unless `on_item` received them."""

    feeds: list[FeedOutcome] = field(default_factory=list[FeedOutcome])
    items: list[ItemRecord] = field(default_factory=list[ItemRecord])
    warnings: list[str] = field(default_factory=list[str])
    checklist: list[ChecklistLine] = field(default_factory=list[ChecklistLine])
    new: int = 0
    updated: int = 0
    duplicate: int = 0
    no_change: int = 0
    failed: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """By outcome: items new, updated, duplicate; feeds without change and failed."""
        return {
            "new": self.new,
            "updated": self.updated,
            "duplicate": self.duplicate,
            "no_change": self.no_change,
            "failed": self.failed,
        }

    @property
    def is_stored(self) -> bool:
        """Whether the results of the run are in the store, not only in memory."""
        return all(line.is_met for line in self.checklist if line.name is CheckName.PERSISTED)

    def add(self, outcome: FeedOutcome) -> None:
        """Add the outcome of one feed to the list and to the counts."""
        self.feeds.append(outcome)
        self.new += outcome.new
        self.updated += outcome.updated
        self.duplicate += outcome.duplicate
        self.no_change += outcome.result is FeedResult.NO_CHANGE
        self.failed += outcome.result.is_failure


def make_record(item: MergedItem, shown_url: str) -> ItemRecord:
    """Return the record of an item; credentials in the URL of its feed are masked."""
    keys, dedupe_key = item.keys, item.dedupe_key
    if "@" in dedupe_key or any("@" in key.key_value for key in keys):
        keys = tuple(replace(key, key_value=mask_key(key.key_value)) for key in keys)
        dedupe_key = mask_key(dedupe_key)
    return ItemRecord(
        item.outcome,
        shown_url,
        item.title,
        mask_link(item.url),
        keys,
        dedupe_key,
        item.match_confidence,
        item.first_seen_at,
        item.last_seen_at,
    )


def mask_key(key: str) -> str:
    """Return the key with the credentials of its URLs masked; a guid such as `tag:me@example.com` stays as it is."""
    return _USERINFO.sub("://***@", key)


def mask_link(url: str) -> str:
    """Return the link of an item with its credentials masked, otherwise as it is."""
    return _USERINFO.sub("://***@", url)


def mask_item(item: StoredItem) -> StoredItem:
    """Return the item with the credentials of all its URLs masked."""
    return replace(
        item,
        feed_url=mask_credentials(item.feed_url),
        url=mask_link(item.url),
        dedupe_key=mask_key(item.dedupe_key),
        feeds=tuple(replace(feed, url=mask_credentials(feed.url)) for feed in item.feeds),
    )
