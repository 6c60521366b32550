"""Imported legacy entries are not new when a feed shows them (contract I3)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from canonry.core.keys import Item, dedupe_key
from canonry.errors import StoreError
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument, MergedFeed
from canonry.feeds.item_matching import ItemOutcome
from canonry.feeds.legacy_entries import import_legacy
from canonry.store.database import Database
from canonry.store.schema import entries, entry_identities

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FEED = "https://a.com/feed"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NEW, DUPLICATE = ItemOutcome.NEW, ItemOutcome.DUPLICATE


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with Database(database_url) as database:
        yield database


def legacy(folder: Path, columns: str, *rows: tuple[object, ...]) -> Path:
    file = folder / "legacy.db"
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"CREATE TABLE entries ({columns})")
        marks = ", ".join("?" * len(columns.split(",")))
        connection.executemany(f"INSERT INTO entries VALUES ({marks})", rows)
    return file


def show(database: Database, *items: Item, feed_url: str = FEED) -> MergedFeed:
    async def work() -> MergedFeed:
        store = FeedStore(database)
        feed, _ = await store.add(feed_url, NOW)
        return await store.merge(feed.id, FeedDocument("A", "rss", (), items), NOW, seen_ttl_days=30)

    return asyncio.run(work())


def rows(database: Database) -> list[Any]:
    return database.read_now(lambda on: list(on.execute(select(entries).order_by(entries.c.id))))


def keys(database: Database) -> set[tuple[str, str]]:
    query = select(entry_identities.c.key_type, entry_identities.c.key_value)
    return database.read_now(lambda on: {(row[0], row[1]) for row in on.execute(query)})


ITEM = Item(guid="1", link="https://a.com/1", title="One", published="2026-01-01")
BARE = Item(title="Bare", published="2026-01-02")

# What the other program knows of an item, and what the item is when a feed shows it.
CASES: list[tuple[str, str, tuple[object, ...], Item, ItemOutcome]] = [
    # why, columns, row, item, outcome
    ("scoped guid", "dedupe_key", (f"guid:{FEED}:1",), ITEM, DUPLICATE),
    ("scoped guid and its column", "dedupe_key, guid", (f"guid:{FEED}:1", "1"), ITEM, DUPLICATE),
    ("scoped guid, no link", "dedupe_key", (f"guid:{FEED}:1",), Item(guid="1", title="x"), DUPLICATE),
    ("guid of another feed", "dedupe_key", ("guid:https://b.com/feed:1",), ITEM, NEW),
    ("plain guid", "dedupe_key", ("guid:1",), ITEM, DUPLICATE),
    ("guid that is a URL", "dedupe_key", ("guid:https://a.com/?p=1",), Item(guid="https://a.com/?p=1"), DUPLICATE),
    ("guid with a port", "dedupe_key", ("guid:https://a.com:8080/1",), Item(guid="https://a.com:8080/1"), DUPLICATE),
    ("guid with colons", "dedupe_key", ("guid:tag:a.com,2026:1",), Item(guid="tag:a.com,2026:1"), DUPLICATE),
    ("reused guid", "dedupe_key, title, link", ("guid:1", "Other", "https://a.com/0"), ITEM, NEW),
    ("reused scoped guid", "dedupe_key, title, url", (f"guid:{FEED}:1", "Other", "https://a.com/0"), ITEM, NEW),
    ("URL", "dedupe_key", ("url:https://a.com/1",), ITEM, DUPLICATE),
    ("URL, no guid", "dedupe_key", ("url:https://a.com/1",), Item(link="https://a.com/1", title="x"), DUPLICATE),
    ("URL under older rules", "dedupe_key", ("url:HTTPS://a.com/1?utm_source=x",), ITEM, DUPLICATE),
    ("URL and title", "dedupe_key, title", ("url:https://a.com/1", "One"), ITEM, DUPLICATE),
    ("URL and another title", "dedupe_key, title", ("url:https://a.com/1", "Else"), ITEM, NEW),
    ("guid unknown, link and title equal", "dedupe_key, link, title", ("guid:9", "https://a.com/1", "One"), ITEM, DUPLICATE),
    ("hash", "dedupe_key", (dedupe_key(BARE, FEED),), BARE, DUPLICATE),
    ("hash of another", "dedupe_key", (f"hash:{'0' * 64}",), BARE, NEW),
    ("a form nobody knows", "dedupe_key", ("1",), ITEM, NEW),
    ("URL that is none", "dedupe_key", ("url:nonsense",), ITEM, NEW),
    ("nothing after the colon", "dedupe_key", ("guid:",), ITEM, NEW),
    ("longer than an index allows", "dedupe_key", ("guid:" + "é" * 5000,), Item(guid="é" * 5000), DUPLICATE),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "row", "item", "wanted"), [pytest.param(*row[1:], id=row[0]) for row in CASES])
def test_an_imported_entry_is_recognized(
    database: Database, tmp_path: Path, columns: str, row: tuple[object, ...], item: Item, wanted: ItemOutcome
) -> None:
    assert import_legacy(database, legacy(tmp_path, columns, row), now=NOW) == 1
    found = show(database, item)
    assert [each.outcome for each in found.items] == [wanted]
    assert found.conflicts == ()
    assert len(rows(database)) == (1 if wanted is DUPLICATE else 2)
    again = show(database, item)
    assert [each.outcome for each in again.items] == [DUPLICATE]
    assert import_legacy(database, tmp_path / "legacy.db", now=NOW) == 0


def test_all_columns_of_a_row_are_imported(database: Database, tmp_path: Path) -> None:
    file = legacy(
        tmp_path,
        "id, dedupe_key, guid, url, title, published, content_hash, first_seen_at, last_seen_at",
        (1, "guid:1", "1", "https://a.com/1?utm_id=1", " One\n two ", "then", "abc", "2025-01-01 10:00:00", "2025-02-01T10:00:00+02:00"),
        (2, "guid:2", None, None, None, None, None, 1735725600, "nonsense"),
        (3, "guid:3", None, b"\xff", None, None, None, None, None),
        (4, None, "4", None, None, None, None, None, None),
        (5, "guid:1", None, None, "again", None, None, None, None),
    )  # fmt: skip
    assert import_legacy(database, file, now=NOW) == 3
    first, second, third = rows(database)
    assert first[1:] == (
        "guid:1", "1", "https://a.com/1?utm_id=1", "https://a.com/1", "One two", "then", "abc", "high",
        "2025-01-01T10:00:00.000000Z", "2025-02-01T08:00:00.000000Z", "//a.com/1",
    )  # fmt: skip
    assert second.first_seen_at == second.last_seen_at == "2025-01-01T10:00:00.000000Z"
    assert third.first_seen_at == third.last_seen_at == "2026-01-01T00:00:00.000000Z"
    assert keys(database) == {("legacy_guid", f"guid:{number}") for number in (1, 2, 3)}


def test_the_first_sighting_completes_an_imported_entry(database: Database, tmp_path: Path) -> None:
    import_legacy(database, legacy(tmp_path, "dedupe_key, first_seen_at", ("guid:1", "2020-01-01")), now=NOW)
    (found,) = show(database, ITEM).items
    assert (found.outcome, found.first_seen_at[:10]) == (DUPLICATE, "2020-01-01")
    (row,) = rows(database)
    assert (row.title, row.url, row.canonical_url) == ("One", "https://a.com/1", "https://a.com/1")
    assert ("guid", f"{FEED}:1") in keys(database)
    # From now on a change is an update, as for any other entry.
    (found,) = show(database, Item(guid="1", link="https://a.com/1", title="Two")).items
    assert found.outcome is ItemOutcome.UPDATED


def test_known_entries_are_not_imported_again(database: Database, tmp_path: Path) -> None:
    show(database, ITEM, BARE, Item(link="https://a.com/2", title="Two"))
    file = legacy(
        tmp_path,
        "dedupe_key",
        (f"guid:{FEED}:1",),
        ("guid:1",),
        ("url:https://a.com/1",),
        ("url:https://a.com/2",),
        (dedupe_key(BARE, FEED),),
    )
    assert import_legacy(database, file, now=NOW) == 0
    assert len(rows(database)) == 3


def test_imported_entries_do_not_expire_before_a_feed_has_shown_them(database: Database, tmp_path: Path) -> None:
    import_legacy(database, legacy(tmp_path, "dedupe_key, last_seen_at", ("guid:1", "2000-01-01")), now=NOW)
    assert show(database, Item(guid="2")).deleted == 0
    assert len(rows(database)) == 2


def test_many_rows_and_repeated_keys_are_imported_once(database: Database, tmp_path: Path) -> None:
    file = legacy(tmp_path, "dedupe_key", *((f"guid:{each % 1200}",) for each in range(2400)))
    assert import_legacy(database, file, now=NOW) == 1200
    assert import_legacy(database, file, now=NOW) == 0
    found = show(database, *(Item(guid=str(each), title=f"t{each}") for each in range(1201)))
    assert [each.outcome for each in found.items] == [DUPLICATE] * 1200 + [NEW]


def test_files_without_legacy_entries_are_refused(database: Database, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("text " * 1000)
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE entries (title)")
    for name, said in (
        ("none.db", "this file does not exist"),
        ("text.db", "not a database"),
        ("other.db", "has no table `entries` with a column `dedupe_key`"),
    ):
        with pytest.raises(StoreError, match=f"{name}: .*{said}"):
            import_legacy(database, tmp_path / name)
    assert not (tmp_path / "none.db").exists()
