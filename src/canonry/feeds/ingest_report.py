"""The report of an ingest run: about every feed, every new or updated item, and the run itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from canonry.core.keys import Enclosure, Item, Key, replace_unstorable
from canonry.errors import mask_credentials
from canonry.feeds.item_matching import ItemOutcome  # noqa: TC001 – the service reads the types of the record

if TYPE_CHECKING:
    from canonry.errors import FailureKind
    from canonry.feeds.feed_values import MergedItem, StoredItem
    from canonry.feeds.item_links import LinkCounts


# Also a link without a scheme, //user:password@host/, which feeds may have.
_USERINFO = re.compile(r"(?:(?<=:)|\A)//[^/?#\\\s]*@")


class FeedResult(StrEnum):
    """How polling a feed ended."""

    INGESTED = "ingested"
    NO_CHANGE = "no_change"
    FAILED = "failed"
    STOPPED = "stopped"  # gone for good: the server answered 410
    REMOVED = "removed"  # from the store, before or while it was polled
    WAITING = "waiting"  # not polled: its server asked to wait

    @property
    def is_failure(self) -> bool:
        """Whether the feed counts as failed."""
        return self in _FAILURES


_FAILURES = frozenset({FeedResult.FAILED, FeedResult.STOPPED})


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
    cut_items: int = 0  # left out: beyond a limit, or cut by the end of the document


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """A new or updated item, as JSON lines, the change feed and webhooks show it.

    `number` is its place in the change feed, None if it was stored in memory only. `published` is as given,
    `published_at` the same in UTC, None if it cannot be read. `feeds` are all feeds that have shown the item.
    """

    outcome: ItemOutcome
    feed_url: str
    title: str
    url: str
    keys: tuple[Key, ...]
    dedupe_key: str
    match_confidence: str
    first_seen_at: str
    last_seen_at: str
    number: int | None = None
    entry_id: int = 0
    guid: str = ""
    published: str = ""
    published_at: str | None = None
    author: str = ""
    categories: tuple[str, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    feeds: tuple[str, ...] = ()


RECORD_FIELDS = tuple(each.name for each in fields(ItemRecord))


@dataclass(frozen=True, slots=True)
class IngestedItem(ItemRecord):
    """The argument of `on_item`: the record, and the item as the feed has it, with its text, which is not stored."""

    item: Item = field(default_factory=Item, kw_only=True)


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
    """The result of a run; `items` are the new and updated ones, unless `on_item` received them.

    If the database cannot be written, the counts include items that are in memory only: `unstored` says how many.
    """

    feeds: list[FeedOutcome] = field(default_factory=list[FeedOutcome])
    items: list[ItemRecord] = field(default_factory=list[ItemRecord])
    warnings: list[str] = field(default_factory=list[str])
    checklist: list[ChecklistLine] = field(default_factory=list[ChecklistLine])
    new: int = 0
    updated: int = 0
    duplicate: int = 0
    no_change: int = 0
    failed: int = 0
    cut_items: int = 0  # left out of all documents
    unstored: int = 0  # of the new and updated items: in memory only
    links: LinkCounts | None = None  # None if links were not fetched

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
        self.cut_items += outcome.cut_items


def make_record(item: MergedItem, shown_url: str, *, number: int | None) -> ItemRecord:
    """Return the record of an item; credentials of its feed are masked, also where its link has them."""
    return ItemRecord(*_list_values(item, shown_url, number))


def make_ingested_item(item: MergedItem, shown_url: str, *, number: int | None) -> IngestedItem:
    """Return the record of an item together with the item itself."""
    return IngestedItem(*_list_values(item, shown_url, number), item=item.parsed)


def _list_values(item: MergedItem, shown_url: str, number: int | None) -> tuple[Any, ...]:
    """Return the values of an `ItemRecord`, in the order of its fields."""
    keys, dedupe_key = mask_keys(item)
    parsed = item.parsed
    return (
        item.outcome,
        shown_url,
        item.title,
        mask_key(item.url),
        keys,
        dedupe_key,
        item.match_confidence.value,
        item.first_seen_at,
        item.last_seen_at,
        number,
        item.entry_id,
        mask_key(parsed.guid.strip()),
        parsed.published.strip(),
        item.published_at,
        replace_unstorable(parsed.author),
        tuple(map(replace_unstorable, parsed.categories)),
        tuple(map(clean_enclosure, parsed.media)),
        item.feeds,
    )


def clean_enclosure(enclosure: Enclosure) -> Enclosure:
    """Return the enclosure as a record has it: storable, and with the credentials of its URL masked."""
    url, media_type = mask_key(replace_unstorable(enclosure.url)), replace_unstorable(enclosure.type)
    return Enclosure(url, media_type, enclosure.length)


def mask_keys(item: MergedItem) -> tuple[tuple[Key, ...], str]:
    """Return the keys and the dedupe key of an item; credentials in the URL of its feed are masked."""
    keys, dedupe_key = item.keys, item.dedupe_key
    if "@" in dedupe_key or any("@" in key.key_value for key in keys):
        keys = tuple(replace(key, key_value=mask_key(key.key_value)) for key in keys)
        dedupe_key = mask_key(dedupe_key)
    return keys, dedupe_key


def get_record(found: IngestedItem) -> ItemRecord:
    """Return the record of an item without the item itself."""
    return ItemRecord(*[getattr(found, name) for name in RECORD_FIELDS])


def mask_key(key: str) -> str:
    """Return a key or link with the credentials of its URLs masked; `tag:me@example.com` stays as it is."""
    return _USERINFO.sub("//***@", key)


def mask_item(item: StoredItem) -> StoredItem:
    """Return the item with the credentials of all its URLs masked."""
    return replace(
        item,
        feed_url=mask_credentials(item.feed_url),
        url=mask_key(item.url),
        dedupe_key=mask_key(item.dedupe_key),
        feeds=tuple(replace(feed, url=mask_credentials(feed.url)) for feed in item.feeds),
    )
