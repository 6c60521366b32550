"""The change feed on both databases: numbered in commit order, never missed, never reused (contract I8, I10)."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from sqlalchemy import Connection, select, text

import change_writer
from canonry.core.keys import Enclosure, Item, Key, KeyType
from canonry.errors import ChangesLost
from canonry.feeds import changes as changes_module
from canonry.feeds.changes import ChangeFeed
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument, MergedFeed
from canonry.feeds.ingest_report import ItemRecord, make_record
from canonry.feeds.item_matching import ItemOutcome
from canonry.feeds.items import merge_document
from canonry.store.backup import backup, restore
from canonry.store.database import Database
from canonry.store.schema import change_numbers, changes, stamp
from command import Forked

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

T = TypeVar("T")
NEW, UPDATED = ItemOutcome.NEW, ItemOutcome.UPDATED
START = datetime(2026, 1, 1, tzinfo=UTC)
A, B = "https://a.com/feed", "https://b.com/feed"
WAIT_SECONDS = 300
WRITERS = 4
KILLS = 12


class Store:
    """Feeds and their changes, with synchronous methods, and with days instead of times."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.feeds = FeedStore(database)
        self.changes = ChangeFeed(database)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work)

    def add(self, url: str = A) -> int:
        return self.run(self.feeds.add(url, START))[0].id

    def show(self, feed: int, *items: Item, day: float = 0, ttl: int = 30) -> MergedFeed:
        document = FeedDocument(title="A", format="rss", hubs=(), items=items)
        return self.run(self.feeds.merge(feed, document, START + timedelta(days=day), seen_ttl_days=ttl))

    def read(self, after: int | None = None, **options: Any) -> tuple[ItemRecord, ...]:
        return self.run(self.changes.read(after, **options)).changes

    def read_numbers(self, after: int | None = None, **options: Any) -> list[int | None]:
        return [change.number for change in self.read(after, **options)]


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Database(database_url) as database:
        yield Store(database)


def test_new_and_updated_items_are_numbered_and_duplicates_are_not(store: Store) -> None:
    feed = store.add()
    store.show(feed, Item("1", title="One"), Item("2", title="Two"))
    store.show(feed, Item("1", title="One"), Item("2", title="Two, edited"), Item("3"))
    store.show(feed, Item("1", title="One"), Item("2", title="Two, edited"), Item("3"))
    assert [(change.number, change.outcome, change.guid) for change in store.read()] == [
        (1, NEW, "1"),
        (2, NEW, "2"),
        (3, UPDATED, "2"),
        (4, NEW, "3"),
    ]


def test_a_merge_returns_the_records_that_the_change_feed_has(store: Store) -> None:
    feed = store.add()
    merged = store.show(feed, Item("1", title="One"), Item("2"))
    assert tuple(make_record(item, A, number=item.number) for item in merged.items) == store.read()
    again = store.show(feed, Item("1", title="One"), Item("2", title="edited"))
    assert [item.number for item in again.items] == [None, 3]


def test_a_change_has_all_metadata_and_no_text(store: Store) -> None:
    item = Item(
        " id\0-1 ",
        "https://a.com/1?utm_source=x",
        "One",
        "Sat, 31 Jan 2026 12:00:00 +0200",
        "The text of the item, which is not stored anywhere",
        ("https://a.com/1.mp3",),
        author="Ann \ud800",
        categories=("a", "b\0"),
        media=(Enclosure("https://a.com/1.mp3", "audio/mpeg", 12), Enclosure("https://a.com/2.mp3")),
    )
    store.show(store.add("https://me:secret@a.com/feed"), item)
    assert store.read() == (
        ItemRecord(
            NEW,
            "https://***@a.com/feed",
            "One",
            "https://a.com/1?utm_source=x",
            (
                Key(KeyType.GUID, "https://***@a.com/feed:id\ufffd-1"),
                Key(KeyType.CANONICAL_URL, "https://a.com/1", "entry@2"),
                Key(KeyType.LEGACY_GUID, "guid:id\ufffd-1"),
            ),
            "guid:https://***@a.com/feed:id\ufffd-1",
            "high",
            stamp(START),
            stamp(START),
            number=1,
            entry_id=1,
            guid="id\ufffd-1",
            published="Sat, 31 Jan 2026 12:00:00 +0200",
            published_at="2026-01-31T10:00:00.000000Z",
            author="Ann \ufffd",
            categories=("a", "b\ufffd"),
            enclosures=(Enclosure("https://a.com/1.mp3", "audio/mpeg", 12), Enclosure("https://a.com/2.mp3")),
            feeds=("https://***@a.com/feed",),
        ),
    )
    rows = store.run(store.database.read(lambda on: str(on.execute(select(changes)).all())))
    assert "The text" not in rows
    assert "secret" not in rows


def test_a_date_that_cannot_be_read_is_passed_on_as_given(store: Store) -> None:
    store.show(store.add(), Item("1", published="soon"), Item("2"))
    assert [(change.published, change.published_at) for change in store.read()] == [("soon", None), ("", None)]


def test_a_change_names_all_feeds_that_carry_the_item(store: Store) -> None:
    one, other = store.add(A), store.add(B)
    item = Item("id-number-1", "https://news.com/1", "One")
    store.show(one, item)
    assert [change.feeds for change in store.read()] == [(A,)]
    store.show(other, item, day=1)
    assert [change.feeds for change in store.read()] == [(A, B)]
    merged = store.show(other, replace(item, text="edited"), day=2)
    assert [each.feeds for each in merged.items] == [(A, B)]
    assert [(change.feed_url, change.feeds) for change in store.read(1)] == [(B, (A, B))]


def test_a_change_outlives_its_item_and_does_not_get_the_feeds_of_another(store: Store) -> None:
    one = store.add(A)
    store.show(one, Item("1", title="One"))
    store.run(store.feeds.remove(one, START))
    store.show(store.add(B), Item("2", title="Two"), day=1)  # SQLite gives the id of the deleted entry again
    assert [(change.guid, change.feeds) for change in store.read()] == [("1", (A,)), ("2", (B,))]


def test_pages_follow_each_other(store: Store) -> None:
    one, other = store.add(A), store.add(B)
    store.show(one, *[Item(f"a{number}") for number in range(5)])
    store.show(other, *[Item(f"b{number}") for number in range(3)])
    pages = [store.run(store.changes.read(after, limit=3)) for after in (None, 3, 6, 8)]
    assert [[change.number for change in page.changes] for page in pages] == [[1, 2, 3], [4, 5, 6], [7, 8], []]
    assert [(page.next, page.last) for page in pages] == [(3, 8), (6, 8), (8, 8), (8, 8)]
    only = store.run(store.changes.read(2, limit=2, feed_ids=[other]))
    assert ([change.guid for change in only.changes], only.next) == (["b0", "b1"], 7)
    rest = store.run(store.changes.read(7, limit=2, feed_ids=[one]))
    assert (rest.changes, rest.next) == ((), 8)


def test_an_empty_store_has_an_empty_page(store: Store) -> None:
    for after in (None, 0):
        page = store.run(store.changes.read(after))
        assert (page.changes, page.next, page.last) == ((), 0, 0)
    with pytest.raises(ChangesLost):
        store.read(1)


def test_numbers_are_not_reused_after_deletion(store: Store) -> None:
    feed = store.add()
    store.show(feed, Item("1"), Item("2"))
    store.run(store.feeds.remove(feed, START))
    assert store.run(store.changes.delete_before(START + timedelta(days=1))) == 2
    store.show(store.add(), Item("3"))
    assert store.read_numbers() == [3]


def test_a_reader_learns_which_changes_it_can_no_longer_get(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_module, "_DELETE_BATCH", 2)
    feed = store.add()
    for day in range(5):
        store.show(feed, Item(f"{day}-1"), Item(f"{day}-2"), day=day)
    assert store.run(store.changes.delete_before(START + timedelta(days=2))) == 4
    assert store.run(store.changes.delete_before(START + timedelta(days=2))) == 0
    assert store.read_numbers() == store.read_numbers(4) == [5, 6, 7, 8, 9, 10]
    for after, continue_after in ((0, 4), (3, 4), (11, 10), (99, 10)):
        with pytest.raises(ChangesLost) as raised:
            store.read(after)
        assert raised.value.continue_after == continue_after
        assert str(continue_after) in str(raised.value)


def test_changes_stay_when_the_clock_was_wrong(store: Store) -> None:
    """Only the oldest are deleted: one with an old time between newer ones stays."""
    feed = store.add()
    store.show(feed, Item("1"), day=5)
    store.show(feed, Item("2"), day=0)
    assert store.run(store.changes.delete_before(START + timedelta(days=3))) == 0
    assert store.read_numbers(0) == [1, 2]


def test_a_transaction_that_is_undone_leaves_no_change(store: Store) -> None:
    feed = store.add()

    def fail(connection: Connection) -> None:
        document = FeedDocument(title="A", format="rss", hubs=(), items=(Item("1"),))
        merge_document(connection, feed_id=feed, document=document, now=stamp(START), expired_before=stamp(START))
        raise KeyError

    with pytest.raises(KeyError):
        store.database.write_now(fail)
    assert store.read(0) == ()
    store.show(feed, Item("1"))
    assert store.read_numbers(0) == [1]


def test_a_number_is_not_visible_before_a_smaller_one(store: Store) -> None:
    """The second writer has its items ready first, and waits for the commit of the first one."""
    one, other = store.add(A), store.add(B)
    store.show(one, Item("0"))
    second = threading.Thread(target=store.show, args=(other, Item("2")))

    def write_first(connection: Connection) -> None:
        document = FeedDocument(title="A", format="rss", hubs=(), items=(Item("0"), Item("1")))
        merge_document(connection, feed_id=one, document=document, now=stamp(START), expired_before=stamp(START))
        second.start()
        if not store.database.is_sqlite:
            _wait_for_a_waiting_transaction(store.database)
        with Database(store.database.url) as reading:
            assert [change.number for change in asyncio.run(ChangeFeed(reading).read(1)).changes] == []

    with store.database.engine.begin() as connection:
        write_first(connection)
    second.join(WAIT_SECONDS)
    assert [(change.number, change.guid) for change in store.read(1)] == [(2, "1"), (3, "2")]


def _wait_for_a_waiting_transaction(database: Database) -> None:
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    deadline = time.monotonic() + WAIT_SECONDS
    while not database.read_now(lambda connection: connection.execute(waiting).scalar_one()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_a_follower_sees_every_change_of_writers_that_are_killed(database_url: str, tmp_path: Path) -> None:
    chance = random.Random(20260131)
    seen: list[int] = []
    stop = threading.Event()

    def follow() -> None:
        with Database(database_url) as reading:
            feed = ChangeFeed(reading)
            after, is_last = 0, False
            while True:
                page = asyncio.run(feed.read(after, limit=7))
                seen.extend(change.number or 0 for change in page.changes)
                after = page.next
                if is_last and after == page.last:
                    return
                is_last = stop.is_set()

    def start(name: str) -> Forked:
        script = str(Path(change_writer.__file__))
        out = tmp_path / f"{name}.log"
        return Forked(script, database_url, name, cwd=tmp_path, environment=os.environ, out=out, err=out)

    def count(database: Database) -> int:
        return database.read_now(lambda on: on.execute(select(change_numbers.c.last)).scalar() or 0)

    follower = threading.Thread(target=follow)
    follower.start()
    writers = {f"writer{number}": start(f"writer{number}") for number in range(WRITERS)}
    try:
        with Database(database_url) as database:
            deadline = time.monotonic() + WAIT_SECONDS
            for _ in range(KILLS):
                wanted = count(database) + chance.randint(1, 60)
                while count(database) < wanted:
                    assert time.monotonic() < deadline, "no writer writes"
                    time.sleep(chance.uniform(0, 0.005))
                name = chance.choice(sorted(writers))
                writers[name].kill()
                writers[name].wait()
                writers[name] = start(name)
    finally:
        for writer in writers.values():
            writer.kill()
            writer.wait()
        stop.set()
        follower.join(WAIT_SECONDS)
    with Database(database_url) as database:
        stored = database.read_now(
            lambda on: on.execute(select(changes.c.number, changes.c.entry_id, changes.c.outcome)).all()
        )
        entries = database.read_now(lambda on: set(on.execute(text("SELECT id FROM entries")).scalars()))
    assert seen == sorted(row.number for row in stored) == list(range(1, len(stored) + 1))
    assert len(seen) > KILLS
    assert {row.entry_id for row in stored if row.outcome == NEW} == entries
    assert sum(row.outcome == NEW for row in stored) == len(entries)  # each item is new once


def test_a_restored_store_gives_no_number_again(store: Store, tmp_path: Path) -> None:
    feed = store.add()
    store.show(feed, Item("1"))
    backup(store.database, tmp_path / "backup")
    store.show(feed, Item("1"), Item("2"), day=1)
    [lost] = store.read_numbers(1)
    restore(store.database, tmp_path / "backup", replace=True)
    assert store.read_numbers(0) == [1]
    store.show(feed, Item("1"), Item("3"), day=2)
    assert lost is not None
    assert [change.guid for change in store.read(lost)] == ["3"]
