"""A removed feed is restored with its items and what users did with them, on both databases (contract U2)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from canonry.core.keys import Item
from canonry.errors import FeedNotFound
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDescription, FeedDocument
from canonry.feeds.item_states import ItemStateStore
from canonry.feeds.removed_feeds import RESTORABLE_FOR, Restoration, list_removed_feeds, restore_feed
from canonry.store.database import Database
from canonry.store.schema import metadata

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
ONE, TWO, SHARED = (Item(name, f"https://a.com/{name}", f"Post {name}") for name in ("one", "two", "shared"))
OWNER = 7


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    with Database(database_url) as database:
        yield database


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def show(database: Database, url: str, *items: Item, when: datetime = NOW) -> int:
    """Follow a feed if it is not followed, store a document with these items, and return the id of the feed."""
    store = FeedStore(database)
    description = FeedDescription(own_title="Mine", folder="news")
    feed, _ = await store.add(url, when, ["https://alias.com/feed"] if "a.com" in url else [], description=description)
    await store.merge(feed.id, FeedDocument("A", "rss", (), items), when, seen_ttl_days=365)
    return feed.id


def load_all(database: Database) -> dict[str, list[Any]]:
    skipped = ("removed_feeds", "changes", "change_numbers")
    return database.read_now(
        lambda connection: {
            table.name: sorted(map(tuple, connection.execute(select(table))), key=repr)
            for table in metadata.sorted_tables
            if table.name not in skipped
        }
    )


async def use_items(database: Database, feed_id: int) -> None:
    items = [item.entry_id for item in await FeedStore(database).list_items()]
    await ItemStateStore(database).set_read(OWNER, items, is_read=True)
    await ItemStateStore(database).set_saved(OWNER, items[:1], is_saved=True)
    await FeedStore(database).change(feed_id, {"headers": {"Authorization": "secret"}})


def test_a_restored_feed_has_all_its_items_and_states(database: Database) -> None:
    feed = run(show(database, "https://a.com/feed", ONE, TWO, SHARED))
    run(show(database, "https://b.com/feed", SHARED))
    run(use_items(database, feed))
    before = load_all(database)
    run(FeedStore(database).remove(feed, NOW))
    assert len(run(FeedStore(database).list_items())) == 1
    [removed] = run(list_removed_feeds(database, NOW))
    assert (removed.title, removed.url) == ("Mine", "https://a.com/feed")
    assert run(restore_feed(database, removed.id)) == Restoration(feed, is_restored=True)
    assert load_all(database) == before
    assert run(list_removed_feeds(database, NOW)) == []
    with pytest.raises(FeedNotFound):
        run(restore_feed(database, removed.id))


def test_an_item_that_another_feed_brought_meanwhile_stays_one(database: Database) -> None:
    feed = run(show(database, "https://a.com/feed", ONE, TWO))
    run(use_items(database, feed))
    run(FeedStore(database).remove(feed, NOW))
    run(show(database, "https://b.com/feed", ONE, when=NOW + timedelta(hours=1)))
    [removed] = run(list_removed_feeds(database, NOW))
    run(restore_feed(database, removed.id))
    items = run(FeedStore(database).list_items())
    assert sorted((item.title, len(item.feeds)) for item in items) == [("Post one", 2), ("Post two", 1)]
    states = run(ItemStateStore(database).get_states(OWNER, [item.entry_id for item in items]))
    assert all(state.is_read for state in states.values())
    run(show(database, "https://a.com/feed", ONE, TWO, when=NOW + timedelta(hours=2)))
    assert len(run(FeedStore(database).list_items())) == 2, "the next document brings nothing twice"


def test_an_item_of_another_feed_with_the_same_guid_or_url_stays_another(database: Database) -> None:
    link = "https://a.com/"
    feed = run(show(database, "https://a.com/feed", Item("1", f"{link}1", "Mine"), Item("two-of-mine", link, "Two")))
    run(use_items(database, feed))
    run(FeedStore(database).remove(feed, NOW))
    others = (Item("1", "https://b.com/1", "Yours"), Item("2", link, "All posts"))
    run(show(database, "https://b.com/feed", *others, when=NOW + timedelta(hours=1)))
    [removed] = run(list_removed_feeds(database, NOW))
    run(restore_feed(database, removed.id))
    items = run(FeedStore(database).list_items())
    shown = sorted((item.title, [each.url for each in item.feeds]) for item in items)
    mine, yours = ["https://a.com/feed"], ["https://b.com/feed"]
    assert shown == [("All posts", yours), ("Mine", mine), ("Two", mine), ("Yours", yours)]
    states = run(ItemStateStore(database).get_states(OWNER, [item.entry_id for item in items]))
    assert {item.title for item in items if states[item.entry_id].is_read} == {"Mine", "Two"}


def test_the_next_poll_of_a_restored_feed_asks_for_the_whole_document(database: Database) -> None:
    feed = run(show(database, "https://a.com/feed", ONE))
    document = FeedDocument("A", "rss", (), (ONE,), etag='"1"', last_modified="Sat, 31 Jan 2026 10:00:00 GMT")
    run(FeedStore(database).merge(feed, document, NOW, seen_ttl_days=365))
    run(FeedStore(database).remove(feed, NOW))
    [removed] = run(list_removed_feeds(database, NOW))
    run(restore_feed(database, removed.id))
    state = run(FeedStore(database).get(feed))
    assert (state.etag, state.last_modified) == ("", "")


def test_a_feed_that_is_followed_again_is_left_alone(database: Database) -> None:
    feed = run(show(database, "https://a.com/feed", ONE))
    run(FeedStore(database).remove(feed, NOW))
    again = run(show(database, "https://a.com/feed", ONE, TWO))
    [removed] = run(list_removed_feeds(database, NOW))
    before = load_all(database)
    assert run(restore_feed(database, removed.id)) == Restoration(again, is_restored=False)
    assert load_all(database) == before


def test_what_was_removed_is_kept_for_some_weeks(database: Database) -> None:
    feed = run(show(database, "https://a.com/feed", ONE))
    other = run(show(database, "https://b.com/feed", TWO))
    run(FeedStore(database).remove(feed, NOW))
    later = NOW + RESTORABLE_FOR
    assert run(list_removed_feeds(database, later)) == []
    run(FeedStore(database).remove(other, later))
    assert [each.url for each in run(list_removed_feeds(database, later))] == ["https://b.com/feed"]
    with pytest.raises(FeedNotFound):
        run(restore_feed(database, 1))
