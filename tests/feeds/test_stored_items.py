"""What was ingested can be read: each entry once, with its feeds, filtered and page by page (contract I9)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from canonry.core.keys import Item
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDescription, FeedDocument
from canonry.feeds.stored_items import ItemPage, ItemSearch, iterate_items, search_items
from canonry.store.database import Database
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

START = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C = "https://a.com/feed", "https://b.com/feed", "https://c.com/feed"
URL_3 = "https://a.com/3"
PARTS = sorted({URL_3[start:end] for start in range(15) for end in range(start + 1, 16)})  # more than 50

ALL = ["Post 4", "100% ÄRGER", "Post 1", "Post 2", "Post 3"]


def post(number: int, **texts: str) -> Item:
    return Item(texts.get("guid", f"guid-{number}"), f"https://a.com/{number}", texts.get("title", f"Post {number}"))


@pytest.fixture
def store(database_url: str) -> Iterator[FeedStore]:
    """Three feeds: a and b share post 2; b is in the folder `news/tech`, c in `news`."""
    with Database(database_url) as database:
        feeds = FeedStore(database)
        asyncio.run(fill(feeds))
        yield feeds


async def fill(feeds: FeedStore) -> None:
    await add(feeds, A, post(1), post(2), post(3))
    await add(feeds, B, post(2), post(5, title="100% ÄRGER"), folder="news/tech", days=1)
    await add(feeds, C, post(4), folder="news", days=2)


async def add(feeds: FeedStore, url: str, *items: Item, folder: str = "", days: float = 0) -> None:
    now = START + timedelta(days=days)
    feed, _ = await feeds.add(url, now, description=FeedDescription(folder=folder))
    document = FeedDocument(title=f"Feed {url[8]}", format="rss", hubs=(), items=items)
    await feeds.merge(feed.id, document, now, seen_ttl_days=30)


def search(store: FeedStore, wanted: ItemSearch) -> list[str]:
    return [item.title for item in asyncio.run(store.list_items(wanted))]


def test_each_entry_is_listed_once_with_its_feeds(store: FeedStore) -> None:
    items = {item.title: item for item in asyncio.run(store.list_items())}
    assert list(items) == ALL
    shared = items["Post 2"]
    assert [(feed.url, feed.title) for feed in shared.feeds] == [(A, "Feed a"), (B, "Feed b")]
    assert (shared.feed_url, shared.first_seen_at) == (A, stamp(START))
    assert [feed.url for feed in items["Post 4"].feeds] == [C]


@pytest.mark.parametrize(
    ("wanted", "titles"),
    [
        (ItemSearch(since=stamp(START + timedelta(days=1))), ["Post 4", "100% ÄRGER"]),
        (ItemSearch(until=stamp(START + timedelta(days=1))), ["Post 1", "Post 2", "Post 3"]),
        (ItemSearch(since=stamp(START + timedelta(days=3))), []),
        (ItemSearch(folder="news"), ["Post 4", "100% ÄRGER", "Post 2"]),
        (ItemSearch(folder="/news/tech/"), ["100% ÄRGER", "Post 2"]),
        (ItemSearch(folder="new"), []),
        (ItemSearch(folder="news_tech"), []),
        (ItemSearch(words="post 3"), ["Post 3"]),
        (ItemSearch(words="A.COM/3"), ["Post 3"]),
        (ItemSearch(words="100%"), ["100% ÄRGER"]),
        (ItemSearch(words="0%Ä"), []),  # % is no wildcard
        (ItemSearch(words="post nothing"), []),
        (ItemSearch(words="post 3 " * 5_000), ["Post 3"]),
        (ItemSearch(words=" ".join(map(str, range(5_000)))), []),
        (ItemSearch(words=" ".join([*PARTS[:50], "nothing"])), ["Post 3"]),
        (ItemSearch(words=" ".join([*PARTS[:49], "nothing"])), []),
        (ItemSearch(only_duplicates=True), ["Post 2"]),
    ],
)
def test_a_filter_limits_the_list(store: FeedStore, wanted: ItemSearch, titles: list[str]) -> None:
    assert search(store, wanted) == titles


def test_the_case_of_letters_does_not_matter_on_sqlite(sqlite_url: str) -> None:
    with Database(sqlite_url) as database:
        feeds = FeedStore(database)
        asyncio.run(fill(feeds))
        assert search(feeds, ItemSearch(words="ärger")) == ["100% ÄRGER"]


def test_the_items_of_a_feed(store: FeedStore) -> None:
    feed = asyncio.run(store.find([B]))
    assert feed is not None
    assert search(store, ItemSearch(feed_id=feed.id)) == ["100% ÄRGER", "Post 2"]
    assert search(store, ItemSearch(feed_id=feed.id, words="post", folder="news")) == ["Post 2"]


def test_pages_are_stable_while_items_arrive(store: FeedStore) -> None:
    async def run() -> list[str]:
        titles: list[str] = []
        page, number = ItemPage((), ""), 10
        while page.next_cursor is not None:
            page = await search_items(store.database, cursor=page.next_cursor or None, limit=2)
            titles += [item.title for item in page.items]
            await add(store, C, post(number), days=number)
            number += 1
        return titles

    assert asyncio.run(run()) == ALL


def test_pages_of_every_size_have_every_item_once(store: FeedStore) -> None:
    async def run(size: int) -> list[str]:
        titles: list[str] = []
        cursor = None
        while True:
            page = await search_items(store.database, cursor=cursor, limit=size)
            titles += [item.title for item in page.items]
            if (cursor := page.next_cursor) is None:
                return titles

    for size in range(1, 7):
        assert asyncio.run(run(size)) == ALL

    async def take(limit: int) -> list[str]:
        return [item.title async for item in iterate_items(store.database, limit=limit)]

    assert asyncio.run(take(3)) == ALL[:3]


@pytest.mark.parametrize("cursor", ["", "x", "eA==", "MjAyNiB4", "MjAyNiAtMQ==", "ICAx", "/////w=="])
def test_an_invalid_cursor_is_refused(store: FeedStore, cursor: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 – also those of base64 and UTF-8
        asyncio.run(search_items(store.database, cursor=cursor))
