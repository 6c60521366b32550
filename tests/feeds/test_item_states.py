"""Items are unread, read or saved for each user, and "mark all read" can be undone (contract U2)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from canonry.core.keys import Item
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDescription, FeedDocument
from canonry.feeds.item_states import ItemState, ItemStateStore, ItemStatus
from canonry.feeds.mark_read import mark_all_read, undo_mark_all_read
from canonry.feeds.stored_items import ItemSearch
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

START = datetime(2026, 1, 1, tzinfo=UTC)
LATER = START + timedelta(days=9)
ME, OTHER = 1, 2
UNREAD, READ, SAVED = ItemStatus.UNREAD, ItemStatus.READ, ItemStatus.SAVED


class Reader:
    """A store with two feeds: `a` has posts 1 and 2, `b` in the folder `news` has posts 2 and 3."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.feeds = FeedStore(database)
        self.states = ItemStateStore(database)
        self.show("a", 1, 2)
        self.show("b", 2, 3, folder="news", days=1)

    def show(self, name: str, *numbers: int, folder: str = "", days: float = 0) -> None:
        async def work() -> None:
            now = START + timedelta(days=days)
            feed, _ = await self.feeds.add(f"https://{name}.com/", now, description=FeedDescription(folder=folder))
            posts = tuple(Item(f"guid-{number}", f"https://p.com/{number}", f"{number}") for number in numbers)
            await self.feeds.merge(feed.id, FeedDocument(name, "rss", (), posts), now, seen_ttl_days=30)

        asyncio.run(work())

    def show_titles(self, status: ItemStatus | None, owner: int = ME, **search: object) -> str:
        """The titles, sorted."""
        wanted = ItemSearch(owner_id=owner, status=status, **search)  # type: ignore[arg-type]
        return "".join(sorted(item.title for item in asyncio.run(self.feeds.list_items(wanted))))

    def find(self, *titles: int) -> list[int]:
        items = asyncio.run(self.feeds.list_items())
        return [item.entry_id for title in titles for item in items if item.title == str(title)]

    def mark_all(self, now: datetime = LATER, **search: object) -> int:
        return asyncio.run(mark_all_read(self.database, ME, ItemSearch(**search), now=now))  # type: ignore[arg-type]

    def undo(self) -> int:
        return asyncio.run(undo_mark_all_read(self.database, ME))


@pytest.fixture
def reader(database_url: str) -> Iterator[Reader]:
    with Database(database_url) as database:
        yield Reader(database)


def test_items_are_unread_until_a_user_reads_them(reader: Reader) -> None:
    assert reader.show_titles(UNREAD) == "123"
    asyncio.run(reader.states.set_read(ME, [*reader.find(1, 2), 999], is_read=True))
    assert (reader.show_titles(UNREAD), reader.show_titles(READ), reader.show_titles(UNREAD, OTHER)) == (
        "3",
        "12",
        "123",
    )
    asyncio.run(reader.states.set_read(ME, reader.find(2), is_read=False))
    assert (reader.show_titles(UNREAD), reader.show_titles(READ)) == ("23", "1")


def test_a_saved_item_keeps_whether_it_is_read(reader: Reader) -> None:
    [first, second] = reader.find(1, 2)
    asyncio.run(reader.states.set_read(ME, [first], is_read=True))
    asyncio.run(reader.states.set_saved(ME, [first, second], is_saved=True, bookmark_id=7))
    assert (reader.show_titles(SAVED), reader.show_titles(READ), reader.show_titles(SAVED, OTHER)) == ("12", "1", "")
    states = asyncio.run(reader.states.get_states(ME, [first, second]))
    assert states == {first: ItemState(True, True, 7), second: ItemState(False, True, 7)}
    asyncio.run(reader.states.set_saved(ME, [first], is_saved=False))
    assert (reader.show_titles(SAVED), reader.show_titles(READ)) == ("2", "1")


def test_marking_all_read_stores_no_row_per_item_and_can_be_undone(reader: Reader) -> None:
    asyncio.run(reader.states.set_read(ME, reader.find(1), is_read=True))
    asyncio.run(reader.states.set_saved(ME, reader.find(3), is_saved=True))
    assert reader.mark_all() == 2
    assert (reader.show_titles(UNREAD), reader.show_titles(READ), reader.show_titles(SAVED)) == ("", "123", "3")
    with reader.database.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM item_states").scalar() == 1  # the saved one
    reader.show("a", 1, 2, 4, days=8)
    assert reader.show_titles(UNREAD) == "4"
    assert (reader.undo(), reader.undo()) == (2, 0)
    assert (reader.show_titles(UNREAD), reader.show_titles(READ), reader.show_titles(SAVED)) == ("234", "1", "3")
    assert reader.mark_all() == 3
    assert reader.show_titles(UNREAD) == ""


def test_only_the_items_of_a_list_are_marked(reader: Reader) -> None:
    assert reader.mark_all(folder="news") == 2
    assert reader.show_titles(UNREAD) == "1"
    assert (reader.undo(), reader.show_titles(UNREAD)) == (2, "123")
    assert reader.mark_all(until="2026-01-01T12:00:00.000000Z") == 2
    assert reader.show_titles(UNREAD) == "3"


def test_items_with_recent_ids_get_rows_because_smaller_ids_may_still_commit(reader: Reader) -> None:
    now = START + timedelta(days=1, minutes=5)
    assert reader.mark_all(now=now) == 3
    with reader.database.engine.connect() as connection:
        mark = connection.exec_driver_sql("SELECT read_through FROM read_marks").scalar()
    assert mark == max(reader.find(1, 2))  # post 3 is five minutes old
    assert reader.show_titles(UNREAD) == ""


def test_unread_items_are_counted_by_feed_and_at_most_to_a_limit(reader: Reader) -> None:
    asyncio.run(reader.states.set_read(ME, reader.find(1), is_read=True))
    counts = asyncio.run(reader.states.count_unread_by_feed(ME))
    assert sorted(unread.count for unread in counts.values()) == [1, 2]
    assert max(unread.newest_at for unread in counts.values()).startswith("2026-01-02")
    assert asyncio.run(reader.states.count_unread(ME)) == 2
    assert asyncio.run(reader.states.count_unread(ME, limit=1)) == 1


def test_items_can_be_listed_by_id_and_oldest_first(reader: Reader) -> None:
    assert reader.show_titles(None, entry_ids=tuple(reader.find(1, 3))) == "13"
    items = asyncio.run(reader.feeds.list_items(ItemSearch(oldest_first=True)))
    assert [item.title for item in items] == ["1", "2", "3"]
