"""The quality checklist at the end of every run (contract I6): each line is checked against the run and the store."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import BindParameter, bindparam, text

from canonry.core.keys import Item, KeyType, make_link_key
from canonry.feeds.ingest_report import ChecklistLine, CheckName
from canonry.feeds.item_matching import ItemOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from canonry.feeds.feed_values import MergedItem

_SAMPLE_SIZE = 100  # of the last new and updated items: a check of all would cost as much as the run
_NO_ITEM = Item()
_MIN_TEXT_CHARS = 40  # a shorter text may be in a title by chance
# The columns that a store of metadata has; any other may hold the text of items.
_METADATA_COLUMNS = frozenset(
    {
        "id",
        "feed_id",
        "entry_id",
        "dedupe_key",
        "guid",
        "url",
        "canonical_url",
        "place",
        "stable_hash",
        "title",
        "published",
        "content_hash",
        "match_confidence",
        "number",
        "outcome",
        "changed_at",
        "record",
        "document",
        "first_seen_at",
        "last_seen_at",
    }
)
# `SELECT *` finds the columns that the database has, not those that the schema of this release expects.
_IDS: BindParameter[int] = bindparam("ids", expanding=True)
_SELECT_ENTRIES = text("SELECT * FROM entries WHERE id IN :ids").bindparams(_IDS)
_SELECT_SIGHTINGS = text("SELECT * FROM sightings WHERE entry_id IN :ids").bindparams(_IDS)
_SELECT_CHANGES = text("SELECT * FROM changes WHERE number IN :ids").bindparams(_IDS)


class SampledItem(NamedTuple):
    """A new or updated item, the feed that showed it, and whether both are in the database, not only in memory."""

    feed_id: int
    item: MergedItem
    is_stored: bool


@dataclass(slots=True)
class RunEvidence:
    """The observations of a run, for its checklist."""

    conditional_requests: int = 0
    conditional_expected: int = 0  # polls of feeds whose validators are stored
    items_without_key: int = 0
    unstored_items: int = 0  # new and updated ones that are in memory only
    sample: deque[SampledItem] = field(default_factory=lambda: deque[SampledItem](maxlen=_SAMPLE_SIZE))

    def add_item(self, feed_id: int, item: MergedItem, *, is_stored: bool) -> None:
        """Count a merged item; a new or updated one joins the sample."""
        self.items_without_key += not item.keys
        if item.outcome is not ItemOutcome.DUPLICATE:
            self.unstored_items += not is_stored
            self.sample.append(SampledItem(feed_id, item._replace(parsed=_NO_ITEM), is_stored))  # without its text

    def select_sample(self, *, is_persistent: bool) -> Sample:
        """Return the part of the sample that the database has, or that the memory has: their ids mean other rows."""
        return Sample([sampled for sampled in self.sample if sampled.is_stored == is_persistent])


@dataclass(frozen=True, slots=True)
class Sample:
    """Some of the new and updated items of one store."""

    items: Sequence[SampledItem]

    @property
    def entry_ids(self) -> list[int]:
        """Their entries."""
        return sorted({sampled.item.entry_id for sampled in self.items})

    @property
    def change_numbers(self) -> list[int]:
        """Their changes."""
        return [sampled.item.number for sampled in self.items if sampled.item.number is not None]

    def __str__(self) -> str:
        return f"the last {len(self.entry_ids)} new and updated entries"


@dataclass(frozen=True, slots=True)
class StoredSample:
    """The sampled entries in the database: the names of all columns, and the values of each row as one text."""

    columns: frozenset[str]
    entries: dict[int, str]
    sightings: dict[tuple[int, int], str]  # by feed and entry
    changes: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])  # by feed and entry

    def get_text(self, feed_id: int, entry_id: int) -> str:
        """Return everything stored of an entry as one feed shows it."""
        shown = feed_id, entry_id
        return "\n".join((self.entries.get(entry_id, ""), self.sightings.get(shown, ""), self.changes.get(shown, "")))


def load_sample(connection: Connection, entry_ids: Sequence[int], numbers: Sequence[int] = ()) -> StoredSample:
    """Load all columns of these entries, of their sightings, and of these changes."""
    entry_rows = connection.execute(_SELECT_ENTRIES, {"ids": list(entry_ids)})
    sighting_rows = connection.execute(_SELECT_SIGHTINGS, {"ids": list(entry_ids)})
    change_rows = connection.execute(_SELECT_CHANGES, {"ids": list(numbers)})
    return StoredSample(
        frozenset({*entry_rows.keys(), *sighting_rows.keys(), *change_rows.keys()}),
        {row["id"]: _join(map(str, row.values())) for row in entry_rows.mappings()},
        {(row["feed_id"], row["entry_id"]): _join(map(str, row.values())) for row in sighting_rows.mappings()},
        # JSON escapes would hide a text.
        {
            (row["feed_id"], row["entry_id"]): _join([str(value) for value in json.loads(row["record"]).values()])
            for row in change_rows.mappings()
        },
    )


def check_run(evidence: RunEvidence, stored: StoredSample, *, is_persistent: bool) -> list[ChecklistLine]:
    """Return the checklist; `is_persistent` is false after a fall-back to memory, which `stored` is then from."""
    sample = evidence.select_sample(is_persistent=is_persistent)
    return [
        _check_canonical_urls(Sample(evidence.sample)),
        _check_conditional_requests(evidence),
        _check_identity_keys(evidence),
        _check_persisted(evidence, sample, stored, is_persistent=is_persistent),
        _check_metadata_only(sample, stored),
    ]


def _check_canonical_urls(sample: Sample) -> ChecklistLine:
    wrong = sum(
        key.key_value != make_link_key(sampled.item.url, policy=key.policy)
        for sampled in sample.items
        for key in sampled.item.keys
        if key.key_type is KeyType.CANONICAL_URL
    )
    detail = f"{wrong} of {sample} have a key that is not canonical"
    return ChecklistLine(CheckName.CANONICAL_URLS, not wrong, detail)


def _check_conditional_requests(evidence: RunEvidence) -> ChecklistLine:
    sent, expected = evidence.conditional_requests, evidence.conditional_expected
    detail = f"{sent} of {expected} requests for feeds with known validators"
    return ChecklistLine(CheckName.CONDITIONAL_REQUESTS, sent == expected, detail)


def _check_identity_keys(evidence: RunEvidence) -> ChecklistLine:
    count = evidence.items_without_key
    return ChecklistLine(CheckName.IDENTITY_KEYS, not count, f"{count} items have no key")


def _check_persisted(
    evidence: RunEvidence, sample: Sample, stored: StoredSample, *, is_persistent: bool
) -> ChecklistLine:
    if not is_persistent:
        detail = f"{evidence.unstored_items} new and updated items are in memory only"
        return ChecklistLine(CheckName.PERSISTED, is_met=False, detail=detail)
    wanted = set(sample.entry_ids)
    detail = f"{len(wanted & set(stored.entries))} of {sample} are in the store"
    return ChecklistLine(CheckName.PERSISTED, wanted <= set(stored.entries), detail)


def _check_metadata_only(sample: Sample, stored: StoredSample) -> ChecklistLine:
    """Check that the database has no column for texts, and that no column has the text of a sampled item."""
    with_text = sum(
        _is_text_stored(sampled.item, stored.get_text(sampled.feed_id, sampled.item.entry_id))
        for sampled in sample.items
    )
    unknown = sorted(stored.columns - _METADATA_COLUMNS)
    detail = f"{with_text} of {sample} have their text in the store"
    if unknown:
        detail += f"; columns that may hold text: {', '.join(unknown)}"
    return ChecklistLine(CheckName.METADATA_ONLY, not with_text and not unknown, detail)


def _is_text_stored(item: MergedItem, stored: str) -> bool:
    start = _join([item.text_start])
    # Some feeds repeat the text as title or guid: then it is metadata.
    metadata = _join([item.title, item.url, item.dedupe_key])
    return len(start) >= _MIN_TEXT_CHARS and start in stored and start not in metadata


def _join(texts: Iterable[str]) -> str:
    """Return the texts, one per line, with white space collapsed as in stored titles."""
    return "\n".join(" ".join(text.split()) for text in texts)
