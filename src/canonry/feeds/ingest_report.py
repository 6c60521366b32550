"""What a run of ingest says: of every feed, of every new or updated item, and of itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canonry.core.keys import Key
    from canonry.feeds.feed_values import MergedItem
    from canonry.feeds.item_matching import ItemOutcome


class FeedResult(StrEnum):
    """What became of a feed in a run."""

    INGESTED = "ingested"
    NO_CHANGE = "no_change"
    FAILED = "failed"
    STOPPED = "stopped"  # gone for good
    WAITING = "waiting"  # its server asked to be left alone until later


@dataclass(frozen=True, slots=True)
class FeedOutcome:
    """What became of a feed, and how many of its items were what."""

    feed_url: str
    result: FeedResult
    reason: str = ""
    new: int = 0
    updated: int = 0
    duplicate: int = 0
    conflicts: int = 0
    milliseconds: int = 0


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """A new or updated item, as it is written out."""

    outcome: ItemOutcome
    feed_url: str
    title: str
    url: str
    keys: tuple[Key, ...]
    dedupe_key: str
    match_confidence: str
    first_seen_at: str
    last_seen_at: str


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the quality checklist."""

    name: str
    is_met: bool
    detail: str


@dataclass(slots=True)
class Report:
    """What a run did; `items` are the new and updated ones, unless they went to `on_item`."""

    feeds: list[FeedOutcome] = field(default_factory=list[FeedOutcome])
    items: list[ItemRecord] = field(default_factory=list[ItemRecord])
    warnings: list[str] = field(default_factory=list[str])
    checklist: list[Check] = field(default_factory=list[Check])
    new: int = 0
    updated: int = 0
    duplicate: int = 0
    no_change: int = 0
    failed: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """By outcome: items new, updated, duplicate; feeds without change and failed."""
        return {name: getattr(self, name) for name in ("new", "updated", "duplicate", "no_change", "failed")}


def record_of(item: MergedItem, shown_url: str) -> ItemRecord:
    """An item as it is written out; credentials of its feed are out of sight."""
    keys, dedupe_key = item.keys, item.dedupe_key
    if "@" in dedupe_key or any("@" in key.key_value for key in keys):
        keys = tuple(replace(key, key_value=masked_key(key.key_value)) for key in keys)
        dedupe_key = masked_key(dedupe_key)
    return ItemRecord(
        item.outcome,
        shown_url,
        item.title,
        item.url,
        keys,
        dedupe_key,
        item.match_confidence,
        item.first_seen_at,
        item.last_seen_at,
    )


def masked_key(key: str) -> str:
    """A key as it is shown: those of a feed with credentials in its URL begin with that URL."""
    return re.sub(r"\A((?:guid:)?https?://)[^/?#\s]*@", r"\1***@", key)
