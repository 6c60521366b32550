"""The change feed: every new and updated item, numbered in the order of the commits (contract I10).

A transaction takes its numbers last, from one row that it then holds until it has committed. So no number becomes
visible before a smaller one, and a reader that continues after the last number it has seen misses nothing. On
SQLite, which has one writer, the same holds without waiting. docs/decisions/0018-change-feed.md has the measurements.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from json.encoder import encode_basestring_ascii as quote
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sqlalchemy import BigInteger, Connection, bindparam, delete, insert, select, update
from sqlalchemy import cast as cast_sql

from canonry.core.keys import Enclosure, Key, KeyType, replace_unstorable
from canonry.errors import ChangesLost, mask_credentials
from canonry.feeds.ingest_report import RECORD_FIELDS, ItemRecord, clean_enclosure, mask_key, mask_keys
from canonry.feeds.item_matching import ItemOutcome
from canonry.feeds.published import format_published
from canonry.store.schema import change_numbers, changes, entries, feeds, sightings, stamp
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from canonry.feeds.feed_values import MergedItem
    from canonry.store.database import Database
    from canonry.store.statements import Row

CHANGES_RETENTION = timedelta(days=365)
MAX_PAGE_CHANGES = 1000
_ROW_ID = 1  # of the only row of change_numbers
_DELETE_BATCH = 1000
_STORED_FIELDS = frozenset(RECORD_FIELDS) - {"number", "entry_id", "outcome", "feeds"}

_TAKE_NUMBERS = Prepared(
    lambda _: (
        update(change_numbers)
        .where(change_numbers.c.id == _ROW_ID)
        .values(last=change_numbers.c.last + cast_sql(bindparam("count"), BigInteger))
        .returning(change_numbers.c.last)
    )
)
_INSERT_CHANGES = Prepared(lambda _: insert(changes), tuple(column.name for column in changes.c))
_SELECT_FEEDS = Prepared(
    lambda is_one_of: (
        select(sightings.c.entry_id, feeds.c.url)
        .join(feeds, feeds.c.id == sightings.c.feed_id)
        .where(is_one_of(sightings.c.entry_id, "ids"))
        .order_by(sightings.c.first_seen_at, feeds.c.id)
    )
)
_SELECT_FIRST_SEEN = Prepared(
    lambda is_one_of: select(entries.c.id, entries.c.first_seen_at).where(is_one_of(entries.c.id, "ids"))
)
_IS_IN_PAGE = (changes.c.number > bindparam("after")) & (changes.c.number <= bindparam("last"))
_SELECT_PAGE = Prepared(
    lambda _: select(changes).where(_IS_IN_PAGE).order_by(changes.c.number).limit(bindparam("count"))
)
_SELECT_PAGE_OF_FEEDS = Prepared(
    lambda is_one_of: (
        select(changes)
        .where(_IS_IN_PAGE, is_one_of(changes.c.feed_id, "feed_ids"))
        .order_by(changes.c.number)
        .limit(bindparam("count"))
    )
)


class _ChangeRow(NamedTuple):
    """A row of the table `changes`, in the order of its columns."""

    number: int
    entry_id: int
    feed_id: int
    outcome: str
    changed_at: str
    record: str


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes in the order of their numbers; `next` is the `after` of the next page, `last` the newest number."""

    changes: tuple[ItemRecord, ...]
    next: int
    last: int


@dataclass(frozen=True, slots=True)
class ChangeBounds:
    """The numbers of the newest change and of the last one that is no longer stored; 0 if there is none."""

    last: int = 0
    deleted: int = 0
    store_id: str = ""

    def check(self, after: int) -> None:
        """Raise ChangesLost unless all changes after this number are stored."""
        if not self.deleted <= after <= self.last:
            raise ChangesLost(after, deleted=self.deleted, last=self.last)


class ChangeFeed:
    """The changes of a database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def read(
        self, after: int | None = None, *, limit: int = 100, feed_ids: Collection[int] | None = None
    ) -> ChangePage:
        """Return the changes after a number, or from the oldest that is stored; only those of some feeds if given.

        Raises ChangesLost if some of them are no longer stored, or if the store has not come to this number.
        """
        return await self.database.read(partial(_read_page, after=after, limit=limit, feed_ids=feed_ids))

    async def get_bounds(self) -> ChangeBounds:
        """Return the numbers between which changes are stored."""
        return await self.database.read(read_bounds)

    async def get_or_make_bounds(self) -> ChangeBounds:
        """Return the bounds; a store without changes gets the id by which a saved position belongs to it."""
        bounds = await self.get_bounds()
        return bounds if bounds.store_id else await self.database.write(_make_bounds)

    async def delete_before(self, when: datetime) -> int:
        """Delete the changes made before a time, and return how many; see CHANGES_RETENTION."""
        deleted = 0
        while count := await self.database.write(partial(_delete_batch, before=stamp(when))):
            deleted += count
        return deleted


def record_changes(
    connection: Connection, items: Sequence[MergedItem], *, feed_id: int, feed_url: str, now: str
) -> tuple[MergedItem, ...]:
    """Number the new and updated items of a document, and return all items with their numbers.

    Must be the last work of a transaction: from here to the commit, other writers of changes wait.
    """
    changed = [item for item in items if item.outcome is not ItemOutcome.DUPLICATE]
    if not changed:
        return tuple(items)
    shown_url = mask_credentials(feed_url)
    carriers = _select_carriers(connection, {item.entry_id for item in changed if item.outcome is ItemOutcome.UPDATED})
    dates = [format_published(item.parsed.published) for item in changed]
    texts = [_write_record(item, date, shown_url) for item, date in zip(changed, dates, strict=True)]
    number = _take_numbers(connection, len(changed)) - len(changed)
    rows: list[Row] = []
    numbered: dict[int, MergedItem] = {}
    for item, date, text in zip(changed, dates, texts, strict=True):
        number += 1
        entry_id = item.entry_id
        rows.append((number, entry_id, feed_id, item.outcome.value, now, text))
        feeds_of_item = carriers.get(entry_id, (shown_url,))
        numbered[entry_id] = item._replace(number=number, published_at=date, feeds=feeds_of_item)
    _INSERT_CHANGES.insert(connection, rows)
    return tuple([numbered.get(item.entry_id, item) for item in items])


def _take_numbers(connection: Connection, count: int) -> int:
    """Return the last of the next numbers; the row stays locked until the transaction ends."""
    taken = _TAKE_NUMBERS.fetch_all(connection, count=count)
    if not taken:
        # Two writers may insert the row at once: the second one fails with a conflict and is retried.
        connection.execute(insert(change_numbers).values(id=_ROW_ID, last=0, deleted=0, store_id=str(uuid.uuid4())))
        taken = _TAKE_NUMBERS.fetch_all(connection, count=count)
    return int(taken[0][0])


def _make_bounds(connection: Connection) -> ChangeBounds:
    _take_numbers(connection, 0)
    return read_bounds(connection)


def read_bounds(connection: Connection) -> ChangeBounds:
    """Return the numbers between which changes are stored."""
    query = select(change_numbers.c.last, change_numbers.c.deleted, change_numbers.c.store_id)
    row = connection.execute(query).first()
    return ChangeBounds() if row is None else ChangeBounds(*row)


def _read_page(connection: Connection, after: int | None, limit: int, feed_ids: Collection[int] | None) -> ChangePage:
    # On PostgreSQL every statement sees its own moment. All numbers up to `last` are visible to the statements after
    # it, and changes that were deleted before the page was selected are counted in the bounds that are read after it.
    last = read_bounds(connection).last
    start = read_bounds(connection).deleted if after is None else after
    values: dict[str, object] = {"after": start, "last": max(last, start), "count": limit}
    if feed_ids is None:
        found = _SELECT_PAGE.fetch_all(connection, **values)
    else:
        found = _SELECT_PAGE_OF_FEEDS.fetch_all(connection, **values, feed_ids=tuple(feed_ids))
    rows = [_ChangeRow(*row) for row in found]
    replace(read_bounds(connection), last=last).check(start)
    is_cut = len(rows) == limit
    return ChangePage(_make_records(connection, rows), rows[-1].number if is_cut else last, last)


def _make_records(connection: Connection, rows: Sequence[_ChangeRow]) -> tuple[ItemRecord, ...]:
    ids = {row.entry_id for row in rows}
    carriers = _select_carriers(connection, ids)
    # In a SQLite store of an earlier release, the id of a deleted entry may belong to another entry now.
    first_seen = dict(_SELECT_FIRST_SEEN.fetch_all(connection, ids=tuple(ids))) if ids else {}
    found: list[ItemRecord] = []
    for row in rows:
        record = _read_record(row.record, number=row.number, entry_id=row.entry_id, outcome=ItemOutcome(row.outcome))
        is_stored = first_seen.get(row.entry_id) == record.first_seen_at
        shown = carriers.get(row.entry_id, ()) if is_stored else ()
        found.append(replace(record, feeds=shown or (record.feed_url,)))
    return tuple(found)


def _select_carriers(connection: Connection, entry_ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return the URLs of the feeds that show each entry, the first one first; credentials are masked."""
    ids = tuple(entry_ids)
    found: dict[int, tuple[str, ...]] = {}
    for entry_id, url in _SELECT_FEEDS.fetch_all(connection, ids=ids) if ids else ():
        found[entry_id] = (*found.get(entry_id, ()), mask_credentials(url))
    return found


def _delete_batch(connection: Connection, before: str) -> int:
    """Delete the oldest changes up to the first one that is not old; return how many."""
    query = select(changes.c.number, changes.c.changed_at).order_by(changes.c.number).limit(_DELETE_BATCH)
    last = 0
    for number, changed_at in connection.execute(query):
        if changed_at >= before:
            break
        last = number
    if not last:
        return 0
    deleted = connection.execute(delete(changes).where(changes.c.number <= last)).rowcount
    connection.execute(update(change_numbers).where(change_numbers.c.deleted < last).values(deleted=last))
    return deleted


def _write_record(item: MergedItem, published_at: str | None, shown_url: str) -> str:
    """Return what is stored of an item as JSON: all of its record that is not in a column of its own."""
    keys, dedupe_key = mask_keys(item)
    parsed = item.parsed
    details = ""
    if parsed.author or parsed.categories or parsed.media:
        enclosures = [(each.url, each.type, each.length) for each in map(clean_enclosure, parsed.media)]
        categories = list(map(replace_unstorable, parsed.categories))
        author = replace_unstorable(parsed.author)
        details = (
            f',"author":{quote(author)},"categories":{json.dumps(categories)},"enclosures":{json.dumps(enclosures)}'
        )
    # Put together by hand, which takes a third of the time of json.dumps: this runs for every new item.
    key_texts = [f'["{key.key_type.value}",{quote(key.key_value)},{quote(key.policy)}]' for key in keys]
    return (
        f'{{"feed_url":{quote(shown_url)},"title":{quote(item.title)},"url":{quote(mask_key(item.url))}'
        f',"keys":[{",".join(key_texts)}],"dedupe_key":{quote(dedupe_key)}'
        f',"match_confidence":"{item.match_confidence.value}","first_seen_at":"{item.first_seen_at}"'
        f',"last_seen_at":"{item.last_seen_at}","guid":{quote(mask_key(parsed.guid.strip()))}'
        f',"published":{quote(parsed.published.strip())}'
        f',"published_at":{"null" if published_at is None else quote(published_at)}{details}}}'
    )


def _read_record(text: str, *, number: int, entry_id: int, outcome: ItemOutcome) -> ItemRecord:
    stored = cast("dict[str, Any]", json.loads(text))
    values = {name: value for name, value in stored.items() if name in _STORED_FIELDS}
    values["keys"] = tuple(Key(KeyType(key_type), value, policy) for key_type, value, policy in stored["keys"])
    values["categories"] = tuple(stored.get("categories", ()))
    values["enclosures"] = tuple(clean_enclosure(Enclosure(*each)) for each in stored.get("enclosures", ()))
    # Earlier releases stored credentials, and the first ones no guid.
    values |= {name: mask_key(values[name]) for name in ("url", "guid") if name in values}
    return ItemRecord(outcome=outcome, number=number, entry_id=entry_id, **values)
