"""The feed store against every kind of database: SQLite in a file and in memory, PostgreSQL (contract I1–I5)."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import IntegrityError

from canonry.core.keys import Item, KeyType, normalize_link
from canonry.errors import FeedNotFound, StoreError
from canonry.feeds import items
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument, FeedState, FeedStatus, MergedFeed, StoredItem
from canonry.feeds.item_matching import ItemOutcome
from canonry.feeds.items import merge_document
from canonry.feeds.key_lookup import look_up_entries
from canonry.feeds.stored_items import ItemSearch
from canonry.store.database import Database
from canonry.store.schema import entries, entry_identities, feeds, sightings, stamp, tombstones

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from sqlalchemy import Table

T = TypeVar("T")
NEW, UPDATED, DUPLICATE = ItemOutcome.NEW, ItemOutcome.UPDATED, ItemOutcome.DUPLICATE
START = datetime(2026, 1, 1, tzinfo=UTC)
FEED = "https://a.com/feed"
WAIT_SECONDS = 300


class Store:
    """A feed store with synchronous methods, and with days instead of times."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.feeds = FeedStore(database)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work)

    def add(self, url: str = FEED, *aliases: str) -> int:
        return self.run(self.feeds.add(url, START, aliases))[0].id

    def show(self, feed: int, *items: Item, day: float = 0, ttl: int = 30, etag: str = "") -> MergedFeed:
        document = FeedDocument(title="A", format="rss", hubs=(), items=items, etag=etag)
        return self.run(self.feeds.merge(feed, document, START + timedelta(days=day), seen_ttl_days=ttl))

    def touch(self, feed: int, day: float) -> None:
        self.run(self.feeds.touch(feed, START + timedelta(days=day)))

    def state(self, url: str = FEED) -> FeedState:
        found = self.run(self.feeds.find([url]))
        assert found is not None
        return found

    def items(self, *, only_duplicates: bool = False) -> list[StoredItem]:
        return self.run(self.feeds.list_items(ItemSearch(only_duplicates=only_duplicates)))

    def count(self, table: Table = entries) -> int:
        return self.run(self.database.read(lambda on: on.execute(select(func.count()).select_from(table)).scalar_one()))

    def keys(self, entry_id: int) -> set[tuple[str, str]]:
        query = select(entry_identities.c.key_type, entry_identities.c.key_value).where(
            entry_identities.c.entry_id == entry_id
        )
        return self.run(self.database.read(lambda on: {(row[0], row[1]) for row in on.execute(query)}))


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Database(database_url) as database:
        yield Store(database)


@pytest.fixture
def memory() -> Iterator[Store]:
    with Database("sqlite://") as database:
        yield Store(database)


def outcomes(merge: MergedFeed) -> list[ItemOutcome]:
    return [item.outcome for item in merge.items]


def ids(merge: MergedFeed) -> list[int]:
    return [item.entry_id for item in merge.items]


def post(number: int, **changes: str) -> Item:
    return make_post(number, **changes)


def make_post(number: int, **changes: str) -> Item:
    item = Item(f"g{number}", f"https://a.com/{number}", f"Post {number}", f"2026-01-{number:02}")
    return replace(item, **changes)  # type: ignore[arg-type]


# Documents of one feed, one after the other: the outcome of each item, and which items are one entry.
# Columns: why; documents; outcomes; entries, numbered by first appearance.
ROWS: list[tuple[str, list[list[Item]], list[list[ItemOutcome]], list[list[int]]]] = [
    ("the same again", [[post(1)], [post(1)]], [[NEW], [DUPLICATE]], [[1], [1]]),
    ("another text", [[post(1)], [post(1, title="Post 1, corrected")]], [[NEW], [UPDATED]], [[1], [1]]),
    ("back to the old text", [[post(1)], [post(1, title="x")], [post(1)]], [[NEW], [UPDATED], [UPDATED]], [[1]] * 3),
    ("two items", [[post(1), post(2)], [post(2), post(3)]], [[NEW, NEW], [DUPLICATE, NEW]], [[1, 2], [2, 3]]),
    ("twice in one document, word for word", [[post(1), post(1)]], [[NEW]], [[1]]),
    ("a tracking parameter", [[post(1)], [post(1, link="https://a.com/1?utm_source=x")]], [[NEW], [DUPLICATE]], [[1], [1]]),
    (
        "one item, one constant link, other guids",
        [[post(1, link="https://a.com/")], [post(2, link="https://a.com/")], [post(3, link="https://a.com/")]],
        [[NEW], [NEW], [NEW]],
        [[1], [2], [3]],
    ),
    (
        "one item, one constant link, no guid, other titles",
        [[post(1, guid="", link="https://a.com/")], [post(2, guid="", link="https://a.com/")]],
        [[NEW], [UPDATED]],
        [[1], [1]],
    ),
    (
        "items that share a URL",
        [[post(1, link="https://a.com/"), post(2, link="https://a.com/")], [post(2, link="https://a.com/")]],
        [[NEW, NEW], [DUPLICATE]],
        [[1, 2], [2]],
    ),
    (
        "items that share a URL and have no guid",
        [[post(1, guid="", link="https://a.com/"), post(2, guid="", link="https://a.com/")]] * 2,
        [[NEW, NEW], [DUPLICATE, DUPLICATE]],
        [[1, 2], [1, 2]],
    ),
    (
        "a shared URL stays no identity later",
        [
            [post(1, guid="", link="https://a.com/"), post(2, guid="", link="https://a.com/")],
            [post(3, guid="", link="https://a.com/")],
        ],
        [[NEW, NEW], [NEW]],
        [[1, 2], [3]],
    ),
    (
        "items that share a guid",
        [[post(1, guid="x"), post(2, guid="x")], [post(2, guid="x"), post(3, guid="x")]],
        [[NEW, NEW], [DUPLICATE, NEW]],
        [[1, 2], [2, 3]],
    ),
    (
        "a shared guid stays no identity later",
        [[post(1, guid="x"), post(2, guid="x")], [post(3, guid="x")], [post(3, guid="x", title="Post 3, corrected")]],
        [[NEW, NEW], [NEW], [UPDATED]],
        [[1, 2], [3], [3]],
    ),
    (
        "items that share a URL lose their guids",
        [
            [post(1, link="https://a.com/"), post(2, link="https://a.com/")],
            [post(1, guid="", link="https://a.com/"), post(2, guid="", link="https://a.com/")],
            [post(1, guid="", link="https://a.com/", text="x"), post(3, guid="", link="https://a.com/")],
        ],
        [[NEW, NEW], [DUPLICATE, DUPLICATE], [UPDATED, NEW]],
        [[1, 2], [1, 2], [1, 3]],
    ),
    (
        "items that share a URL get guids",
        [
            [post(1, guid="", link="https://a.com/"), post(2, guid="", link="https://a.com/")],
            [post(1, link="https://a.com/"), post(2, link="https://a.com/"), post(3, link="https://a.com/")],
            [post(1, link="https://a.com/", text="x"), post(2, link="https://a.com/")],
        ],
        [[NEW, NEW], [DUPLICATE, DUPLICATE, NEW], [UPDATED, DUPLICATE]],
        [[1, 2], [1, 2, 3], [1, 2]],
    ),
    (
        "one of several items at a URL loses its guid",
        [
            [post(1, link="https://a.com/"), post(2, link="https://a.com/")],
            [post(1, link="https://a.com/"), post(1, guid="", link="https://a.com/", published="2026-02-01")],
        ],
        [[NEW, NEW], [DUPLICATE, NEW]],
        [[1, 2], [1, 3]],
    ),
    ("guid and URL shared", [[post(1, guid="x", link="https://a.com/"), post(2, guid="x", link="https://a.com/")]] * 2, [[NEW, NEW], [DUPLICATE, DUPLICATE]], [[1, 2], [1, 2]]),
    (
        "a guid reused for another item",
        [[post(1)], [post(2, guid="g1")], [post(2, guid="g1")]],
        [[NEW], [NEW], [DUPLICATE]],
        [[1], [2], [2]],
    ),
    (
        "guids are places in the document, and all dates are equal",
        [[post(number, guid=f"{place}", published="d") for place, number in enumerate(shown)] for shown in ((3, 2, 1), (4, 3, 2), (5, 4, 3))],
        [[NEW, NEW, NEW], [NEW, DUPLICATE, DUPLICATE], [NEW, DUPLICATE, DUPLICATE]],
        [[1, 2, 3], [4, 1, 2], [5, 4, 1]],
    ),
    *(
        (
            f"guids are places in the document, {why}",
            [[post(number, guid=f"{place}", **same) for place, number in enumerate(shown)] for shown in ((2, 1), (3, 2, 1), (4, 3), (4, 3))],
            [[NEW, NEW], [NEW, DUPLICATE, DUPLICATE], [NEW, DUPLICATE], [DUPLICATE, DUPLICATE]],
            [[1, 2], [3, 1, 2], [4, 3], [4, 3]],
        )
        for why, same in {
            "no links": {"link": ""},
            "neither links nor dates": {"link": "", "published": ""},
            "one link": {"link": "https://a.com/"},
            "one title": {"title": "Open thread"},
        }.items()
    ),
    (
        "a title without link is edited while another item has the old one under another guid and date",
        [[post(1, link=""), post(2, link="")], [post(1, link="", title="x"), post(2, link="", title="Post 1")]],
        [[NEW, NEW], [UPDATED, UPDATED]],
        [[1, 2], [1, 2]],
    ),
    (
        "guids are URLs with another scheme and host, and all links are equal",
        [
            [post(number, guid=f"{start}a.com/{number}", link="https://a.com/", published="") for number in shown]
            for start, shown in (("http://", (1, 2)), ("https://www.", (3, 1, 2)), ("https://www.", (3, 1, 2)), ("http://", (3, 1)))
        ],
        [[NEW, NEW], [NEW, DUPLICATE, DUPLICATE], [DUPLICATE] * 3, [DUPLICATE] * 2],
        [[1, 2], [3, 1, 2], [3, 1, 2], [3, 1]],
    ),
    (
        "an item appears again with an ambiguous guid",
        [[known := post(1, guid="", published="")], [replace(known, guid="x"), post(2, guid="x", link=""), known]],
        [[NEW], [DUPLICATE, NEW]],
        [[1], [1, 2]],
    ),
    (
        "the old guid is still there",
        [[post(1, guid="http://a.com/1")], [post(1, guid="http://a.com/1"), post(2, guid="https://a.com/1")]],
        [[NEW], [DUPLICATE, NEW]],
        [[1], [1, 2]],
    ),
    ("another item under the guid with another scheme", [[post(1, guid="http://a.com/x")], [post(2, guid="https://a.com/x")]], [[NEW], [NEW]], [[1], [2]]),
    ("guid kept, URL changed", [[post(1)], [post(1, link="https://a.com/moved")]], [[NEW], [UPDATED]], [[1], [1]]),
    (
        "guid changed, title kept",
        [[post(1)], [post(1, guid="new", published="")], [post(1, guid="new", title="x", link="https://a.com/x")]],
        [[NEW], [UPDATED], [NEW]],
        [[1], [1], [2]],
    ),
    ("guid changed, date kept", [[post(1)], [post(1, guid="new", title="x")]], [[NEW], [UPDATED]], [[1], [1]]),
    ("guid changed, title and date too", [[post(1)], [post(2, link="https://a.com/1")]], [[NEW], [NEW]], [[1], [2]]),
    (
        "another guid at the URL while the old one is there",
        [[post(1)], [post(1), post(2, link="https://a.com/1", title="Post 1")]],
        [[NEW], [DUPLICATE, NEW]],
        [[1], [1, 2]],
    ),
    (
        "a guid appears",
        [[post(1, guid="")], [post(1)], [post(1, link="https://a.com/moved")]],
        [[NEW], [DUPLICATE], [UPDATED]],
        [[1], [1], [1]],
    ),
    ("a guid disappears", [[post(1)], [post(1, guid="")]], [[NEW], [DUPLICATE]], [[1], [1]]),
    ("http becomes https", [[post(1, guid="", link="http://www.a.com/1")], [post(1, guid="")]], [[NEW], [UPDATED]], [[1], [1]]),
    ("neither guid nor link", [[Item(title="a", published="1")]] * 2, [[NEW], [DUPLICATE]], [[1], [1]]),
    ("neither, another text", [[Item(title="a")], [Item(title="a", text="b")]], [[NEW], [NEW]], [[1], [2]]),
    (
        "neither, another text, same title and date",
        [[Item(title="a", published="1")], [Item(title="a", published="1", text="b")], [Item(title="a", published="1", text="c")]],
        [[NEW], [UPDATED], [UPDATED]],
        [[1], [1], [1]],
    ),
    ("only texts", [[Item(text="a"), Item(text="b")], [Item(text="b"), Item(text="c")]], [[NEW, NEW], [DUPLICATE, NEW]], [[1, 2], [2, 3]]),
    (
        "only enclosures",
        [[Item(enclosures=("https://a.com/1.mp3",)), Item(enclosures=("https://a.com/2.mp3",))]] * 2,
        [[NEW, NEW], [DUPLICATE, DUPLICATE]],
        [[1, 2], [1, 2]],
    ),
    (
        "headline and slug edited again and again",
        [[post(1)], [post(1, title="x", link="https://a.com/x")], [post(1, title="y", link="https://a.com/y")]],
        [[NEW], [UPDATED], [UPDATED]],
        [[1], [1], [1]],
    ),
    (
        "slash, escapes, scheme and www come and go",
        [
            [post(1, guid="", link="https://a.com/%e8")],
            [post(1, guid="", link="https://a.com/%E8/")],
            [post(1, guid="", link="http://www.a.com/%E8")],
            [post(1, guid="", link="http://www.a.com/%E8")],
        ],
        [[NEW], [UPDATED], [UPDATED], [DUPLICATE]],
        [[1]] * 4,
    ),
    (
        "sections of one page, one at a time",
        [[post(number, guid="", link=f"https://a.com/log#{number}")] for number in (1, 2, 3)],
        [[NEW], [NEW], [NEW]],
        [[1], [2], [3]],
    ),
    (
        "sections of one page, all at once, edited",
        [
            [post(number, guid="", link=f"https://a.com/log#{number}") for number in (1, 2)],
            [post(number, guid="", link=f"https://a.com/log#{number}", title=f"{number}!", published="") for number in (1, 2)],
            [post(number, guid="", link=f"https://a.com/log#{number}") for number in (3, 2)],
        ],
        [[NEW, NEW], [UPDATED, UPDATED], [NEW, UPDATED]],
        [[1, 2], [1, 2], [3, 2]],
    ),
    (
        "listed twice with another text and date",
        [[post(1), post(2), post(1, text="t", published="")], [post(1), post(2), post(1, text="t", published="")]],
        [[NEW, NEW], [DUPLICATE, DUPLICATE]],
        [[1, 2], [1, 2]],
    ),
    (
        "listed twice for a while",
        [[post(1)], [post(1), post(1, text="t")], [post(1)]],
        [[NEW], [DUPLICATE], [DUPLICATE]],
        [[1], [1], [1]],
    ),
    ("neither, another title", [[Item(title="a")], [Item(title="b")]], [[NEW], [NEW]], [[1], [2]]),
    ("nothing at all", [[Item()], [Item()]], [[NEW], [DUPLICATE]], [[1], [1]]),
    ("a link that is no URL", [[Item(link="mailto:a@b.c", title="a")]] * 2, [[NEW], [DUPLICATE]], [[1], [1]]),
    ("NUL and half a character", [[post(1, guid="\0\ud800", title="a\0")]] * 2, [[NEW], [DUPLICATE]], [[1], [1]]),
    ("longer than an index allows", [[post(1, guid="é" * 5000, link=f"https://a.com/{'1' * 5000}"), post(2, guid="é" * 5001, link=f"https://a.com/{'1' * 5001}")]] * 2, [[NEW, NEW], [DUPLICATE, DUPLICATE]], [[1, 2], [1, 2]]),
]  # fmt: skip


@pytest.mark.parametrize(("documents", "wanted", "same"), [pytest.param(*row[1:], id=row[0]) for row in ROWS])
def test_documents_of_one_feed(
    store: Store, documents: list[list[Item]], wanted: list[list[ItemOutcome]], same: list[list[int]]
) -> None:
    check_one_feed(store, documents, wanted, same)


@pytest.mark.parametrize(("documents", "wanted", "same"), [pytest.param(*row[1:], id=row[0]) for row in ROWS])
def test_documents_of_one_feed_in_memory(
    memory: Store, documents: list[list[Item]], wanted: list[list[ItemOutcome]], same: list[list[int]]
) -> None:
    check_one_feed(memory, documents, wanted, same)


def check_one_feed(
    store: Store, documents: list[list[Item]], wanted: list[list[ItemOutcome]], same: list[list[int]]
) -> None:
    feed = store.add()
    merges = [store.show(feed, *items, day=day) for day, items in enumerate(documents)]
    assert [outcomes(merge) for merge in merges] == wanted
    numbers: dict[int, int] = {}
    assert [[numbers.setdefault(each, len(numbers) + 1) for each in ids(merge)] for merge in merges] == same
    assert store.count() == len(numbers)
    for merge in merges:
        assert merge.conflicts == ()


def test_equal_guids_of_different_feeds_are_different_items(store: Store) -> None:
    first, second = store.add(), store.add("https://b.com/feed")
    store.show(first, post(1, guid="1"))
    assert outcomes(store.show(second, Item(guid="1", link="https://b.com/1", title="Other"))) == [NEW]
    assert store.count() == 2


def test_a_new_item_registers_all_its_keys(store: Store) -> None:
    found = store.show(store.add(), post(1), Item(title="bare"))
    assert store.keys(found.items[0].entry_id) == {
        ("guid", f"{FEED}:g1"),
        ("canonical_url", "https://a.com/1"),
        ("legacy_guid", "guid:g1"),
    }
    assert [kind for kind, _ in store.keys(found.items[1].entry_id)] == ["fallback_hash"]
    assert [item.match_confidence for item in found.items] == ["high", "low"]
    assert found.items[0].dedupe_key == f"guid:{FEED}:g1"
    assert found.items[1].dedupe_key.startswith("hash:")


def test_a_changed_guid_is_registered(store: Store) -> None:
    feed = store.add()
    found = store.show(feed, post(1))
    store.show(feed, post(1, guid="new"), day=1)
    assert ("guid", f"{FEED}:new") in store.keys(found.items[0].entry_id)


def test_a_link_blog_and_its_source_are_two_entries(store: Store) -> None:
    source, blog = store.add(), store.add("https://blog.com/feed")
    found = store.show(source, post(1))
    linked = store.show(blog, Item(guid="b1", link="https://a.com/1", title="Look at this"))
    assert outcomes(linked) == [NEW]
    assert linked.items[0].shares_url_with == (found.items[0].entry_id,)
    assert store.count() == 2
    assert {item.title for item in store.items(only_duplicates=True)} == {"Post 1", "Look at this"}


def test_a_link_blog_without_guids_and_its_source_are_two_entries(store: Store) -> None:
    """Both have the URL as `dedupe_key`, which must not make them one entry."""
    source, blog = store.add(), store.add("https://blog.com/feed")
    store.show(source, post(1, guid=""))
    linked = store.show(blog, Item(link="https://a.com/1", title="Look at this"))
    assert (outcomes(linked), store.count()) == ([NEW], 2)


@pytest.mark.parametrize(
    "twin",
    [
        post(1, guid="other"),
        post(1, guid="tag:a.com,2026:1", title="Another title"),
        post(1, guid="other", link="http://www.a.com/1"),
        post(1, guid="other", link="https://a.com/1/"),
    ],
    ids=["title", "guid", "http and www", "slash"],
)
def test_one_item_in_two_feeds_is_one_entry(store: Store, twin: Item) -> None:
    first, second = store.add(), store.add("https://b.com/feed")
    post = partial(make_post, guid="tag:a.com,2026:1")
    found = store.show(first, post(1))
    again = store.show(second, twin, day=1)
    assert outcomes(again) == [DUPLICATE]
    assert ids(again) == ids(found)
    assert (store.count(), store.count(sightings)) == (1, 2)
    [listed] = store.items(only_duplicates=True)
    assert [feed.url for feed in listed.feeds] == [FEED, "https://b.com/feed"]
    # Each feed has its own version: what one says does not look like a change in the other.
    assert outcomes(store.show(first, post(1), day=2)) == [DUPLICATE]
    assert outcomes(store.show(second, twin, day=3)) == [DUPLICATE]
    [listed] = store.items()
    assert (listed.feed_url, listed.first_seen_at[:10], listed.last_seen_at[:10]) == (FEED, "2026-01-01", "2026-01-04")
    query = select(feeds.c.url, sightings.c.title, sightings.c.first_seen_at, sightings.c.last_seen_at).join(feeds)
    rows = store.run(store.database.read(lambda on: on.execute(query).all()))
    assert {url: (title, first[:10], last[:10]) for url, title, first, last in rows} == {
        FEED: ("Post 1", "2026-01-01", "2026-01-03"),
        "https://b.com/feed": (twin.title, "2026-01-02", "2026-01-04"),
    }


def test_a_feed_that_moves_keeps_its_keys(store: Store) -> None:
    feed = store.add("http://a.com/feed")
    store.show(feed, post(1), etag="e1")
    store.run(store.feeds.set_moved(feed, FEED, 2))
    assert store.state("http://a.com/feed").moved_sightings == 2
    assert store.run(store.feeds.adopt(feed, FEED))
    state = store.state()
    assert (state.id, state.url, state.key_url, state.etag) == (feed, FEED, "http://a.com/feed", "")
    assert store.state("http://a.com/feed") == state
    moved = store.show(feed, post(1), post(2), day=1)
    assert outcomes(moved) == [DUPLICATE, NEW]
    assert moved.items[1].keys[0].key_value == "http://a.com/feed:g2"
    assert store.run(store.feeds.adopt(feed, FEED))  # again changes nothing
    assert store.add(FEED) == feed
    other = store.add("https://c.com/feed")
    assert not store.run(store.feeds.adopt(other, FEED))


def test_a_feed_is_found_by_its_aliases(store: Store) -> None:
    feed = store.add(FEED, "https://a.com/rss", FEED)
    assert store.run(store.feeds.add("https://a.com/rss", START))[1] is False
    assert store.add("https://new.com/feed", "https://a.com/rss") == feed
    assert store.run(store.feeds.find(["https://unknown.com/", "https://a.com/rss"])) == store.state()
    assert store.count(feeds) == 1
    store.run(store.feeds.remove(feed, START))
    assert store.run(store.feeds.find([FEED, "https://a.com/rss"])) is None


def test_not_modified_touches_the_items_of_the_last_document(store: Store) -> None:
    feed = store.add()
    store.show(feed, post(1), post(2), etag="e1")
    store.show(feed, post(2), day=1, etag="e2")
    store.touch(feed, day=5)
    assert {item.title: item.last_seen_at[:10] for item in store.items()} == {
        "Post 1": "2026-01-01",
        "Post 2": "2026-01-06",
    }
    state = store.state()
    assert state.etag == "e2"
    assert (state.last_checked_at or "")[:10] == "2026-01-06"


@pytest.mark.parametrize(
    ("day", "kept"), [(29.99999, True), (30, False), (30.00001, False)], ids=["under", "exactly", "over"]
)
def test_an_item_is_deleted_thirty_days_after_it_was_last_seen(store: Store, day: float, kept: bool) -> None:
    feed = store.add()
    store.show(feed, post(1), post(2))
    merge = store.show(feed, post(2), day=day)
    assert (merge.deleted, store.count()) == ((0, 2) if kept else (1, 1))
    assert store.count(entry_identities) == (6 if kept else 3)
    assert outcomes(store.show(feed, post(1), day=day + 1)) == [DUPLICATE]  # it comes back: no news
    assert store.count() == 2


def test_a_quiet_feed_and_an_outage_delete_nothing(store: Store) -> None:
    quiet, broken = store.add(), store.add("https://b.com/feed")
    store.show(quiet, post(1))
    store.show(broken, Item(guid="x", title="x"))
    store.touch(quiet, day=400)
    for day in range(0, 400, 40):
        store.run(store.feeds.fail(broken, "500", START + timedelta(days=day)))
    assert store.count() == 2
    assert outcomes(store.show(quiet, post(1), day=800)) == [DUPLICATE]  # still in the document: seen
    merge = store.show(broken, Item(guid="x", title="x"), Item(guid="y", title="y"), day=800)
    assert (outcomes(merge), merge.deleted) == ([DUPLICATE, NEW], 0)
    assert store.state("https://b.com/feed").failures == 0


def test_a_touched_item_is_kept_thirty_days_longer(store: Store) -> None:
    feed = store.add()
    store.show(feed, post(1))
    store.touch(feed, day=100)
    assert store.show(feed, post(2), day=129).deleted == 0
    assert store.show(feed, post(2), day=130).deleted == 1


def test_an_entry_stays_while_another_feed_shows_it(store: Store) -> None:
    first, second = store.add(), store.add("https://b.com/feed")
    store.show(first, post(1))
    store.show(second, post(1))
    assert store.show(first, post(2), day=40).deleted == 0
    assert {item.feed_url for item in store.items() if item.title == "Post 1"} == {"https://b.com/feed"}
    assert store.show(second, Item(guid="z"), day=40).deleted == 1


def test_seen_ttl_days_shortens_retention(store: Store) -> None:
    feed = store.add()
    store.show(feed, post(1))
    assert store.show(feed, post(2), day=2, ttl=1).deleted == 1


def test_removing_a_feed_deletes_the_entries_only_it_had(store: Store) -> None:
    first, second = store.add(), store.add("https://b.com/feed")
    store.show(first, post(1), post(2))
    store.show(second, post(2))
    store.run(store.feeds.remove(first, START))
    assert [(item.title, item.feed_url) for item in store.items()] == [("Post 2", "https://b.com/feed")]
    assert store.count() == 1


def test_many_feeds_are_added_at_once(store: Store) -> None:
    old = store.add()
    store.run(store.feeds.adopt(old, "https://new.a.com/feed"))
    known, _ = store.run(store.feeds.add("https://b.com/feed", START, ["https://b.com/rss"]))
    urls = ["https://c.com/", FEED, "https://new.a.com/feed", "https://b.com/rss", "https://c.com/", "https://d.com/"]
    found = store.run(store.feeds.add_all(urls, START))
    assert [feed.id for feed in found[1:4]] == [old, old, known.id]
    assert [found[number].url for number in (0, 4, 5)] == ["https://c.com/", "https://c.com/", "https://d.com/"]
    assert found[0] == found[4]
    assert len(store.run(store.feeds.list_all())) == 4
    assert store.run(store.feeds.add_all(urls, START)) == found
    assert store.run(store.feeds.add_all([], START)) == []


def test_an_unknown_feed_is_an_error(store: Store) -> None:
    with pytest.raises(FeedNotFound, match="no feed with id 7"):
        store.run(store.feeds.get(7))


def test_keys_that_point_to_two_entries_are_reported(store: Store) -> None:
    feed = store.add()
    found = store.show(feed, post(1), post(2, guid=""))
    # The guid of one, at the URL of the other.
    merge = store.show(feed, post(1, link="https://a.com/2"), day=1)
    assert (outcomes(merge), ids(merge)) == ([UPDATED], ids(found)[:1])
    assert [(each.title, each.entry_id, each.other_entry_id) for each in merge.conflicts] == [("Post 1", *ids(found))]
    assert store.count() == 2
    assert ("canonical_url", "https://a.com/2") in store.keys(ids(found)[1])


def test_no_key_has_two_owners(store: Store) -> None:
    first, second = store.add(), store.add("https://b.com/feed")
    for day in range(3):
        store.show(first, *(post(number, guid=str(number % 3)) for number in range(1, 9)), day=day)
        store.show(second, *(post(number, title=f"Post {number % 2}") for number in range(1, 9)), day=day)

    def owners(connection: Any) -> int:
        keys = select(entry_identities.c.key_type, entry_identities.c.key_value)
        return len(connection.execute(keys).all()) - len(connection.execute(keys.distinct()).all())

    assert store.run(store.database.read(owners)) == 0
    claim = entry_identities.insert().from_select(entry_identities.columns.keys(), select(entry_identities))
    with store.database.engine.begin() as connection, pytest.raises(IntegrityError, match=r"(?i)unique"):
        connection.execute(claim)


def test_items_and_validators_are_one_transaction(store: Store) -> None:
    feed = store.add()
    store.show(feed, post(1), etag="old")
    before = store.state(), store.items(), store.count(entry_identities)

    def forbid(connection: Any) -> None:
        if store.database.is_sqlite:
            connection.execute(
                text(
                    "CREATE TRIGGER no_boom BEFORE INSERT ON sightings WHEN NEW.title = 'boom' "
                    "BEGIN SELECT RAISE(ABORT, 'boom'); END"
                )
            )
        else:
            connection.execute(text("ALTER TABLE sightings ADD CONSTRAINT no_boom CHECK (title <> 'boom')"))

    store.database.write_now(forbid)
    with pytest.raises(StoreError, match="boom"):
        store.show(feed, post(1, title="changed"), post(2), post(3, title="boom"), day=1, etag="new")
    assert (store.state(), store.items(), store.count(entry_identities)) == before
    assert outcomes(store.show(feed, post(1), post(2), day=1, etag="new")) == [DUPLICATE, NEW]
    assert store.state().etag == "new"


def test_stopped_feeds_are_not_due_until_they_are_active_again(store: Store) -> None:
    feed = store.add()
    later = START + timedelta(days=1)
    store.run(store.feeds.fail(feed, "429", START, next_check_at=later, retry_at=later))
    assert store.run(store.feeds.list_due(START)) == []
    assert [each.id for each in store.run(store.feeds.list_due(later))] == [feed]
    store.run(store.feeds.fail(feed, "410", later, is_gone=True))
    assert store.state().status is FeedStatus.STOPPED
    assert store.run(store.feeds.list_due(later + timedelta(days=9))) == []
    store.run(store.feeds.set_status(feed, FeedStatus.ACTIVE))
    assert [each.id for each in store.run(store.feeds.list_due(START))] == [feed]


def test_a_document_may_have_more_items_than_one_statement_takes(store: Store) -> None:
    feed = store.add()
    items = [Item(guid=f"g{number}", link=f"https://a.com/{number}", title=f"t{number}") for number in range(1700)]
    assert outcomes(store.show(feed, *items)) == [NEW] * 1700
    assert outcomes(store.show(feed, *items, day=1)) == [DUPLICATE] * 1700
    assert store.show(feed, Item(guid="only"), day=40).deleted == 1700
    assert store.count() == 1


WORKERS, PROCESSES, ROUNDS = 8, 4, 6


def _merge_again_and_again(url: str, number: int) -> int:
    """Merge as one of several processes: into the feed all share, and into a feed of its own with the same items."""
    with Database(url) as database:
        return _work(Store(database), number)


def _work(store: Store, number: int) -> int:
    shared = store.add()
    own = store.add(f"https://a.com/feed{number}")
    new = 0
    for turn in range(ROUNDS):
        items = [post(each) for each in range(turn, turn + 10)]
        for feed in (own, shared):
            new += outcomes(store.show(feed, *items, day=turn)).count(NEW)
    return new


def _check_worked(store: Store, new: int, workers: int = WORKERS) -> None:
    wanted = ROUNDS + 9
    assert (store.count(), new) == (wanted, wanted)
    assert store.count(feeds) == workers + 1
    assert store.count(sightings) == (workers + 1) * wanted
    assert {normalize_link(item.url) for item in store.items()} == {post(each).link for each in range(wanted)}


def test_eight_threads_store_each_item_once(store: Store) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(lambda number: _work(store, number), range(WORKERS)))
    _check_worked(store, sum(found))


def test_eight_threads_in_memory_store_each_item_once(memory: Store) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(lambda number: _work(memory, number), range(WORKERS)))
    _check_worked(memory, sum(found))


def test_processes_that_open_a_new_store_at_once_store_each_item_once(empty_url: str) -> None:
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(_merge_again_and_again, [empty_url] * PROCESSES, range(PROCESSES)))
    with Database(empty_url) as database:
        _check_worked(Store(database), sum(found), PROCESSES)


def test_two_feeds_with_the_same_new_item_at_once_make_one_entry(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second feed looks the item up before the first has committed, finds nothing, and must not insert it."""
    first, second = store.add(), store.add("https://b.com/feed")
    store.show(first, post(9))  # pins the policy of the store
    has_written, has_looked_up, found = threading.Event(), threading.Event(), list[MergedFeed]()

    def look_up_and_signal(*arguments: Any, **options: Any) -> Any:
        result = look_up_entries(*arguments, **options)
        if threading.current_thread() is not threading.main_thread():
            has_looked_up.set()
        return result

    def show_in_second_feed() -> None:
        has_written.wait()
        found.append(store.show(second, post(1), post(2), day=1))

    def write_first_feed(connection: Connection) -> None:
        document = FeedDocument("A", "rss", (), (post(2), post(1)))
        merge_document(connection, feed_id=first, document=document, now=stamp(START), expired_before="")
        has_written.set()
        if not store.database.is_sqlite:  # SQLite has one writer: there the second feed has not begun
            assert has_looked_up.wait(WAIT_SECONDS)

    monkeypatch.setattr(items, "look_up_entries", look_up_and_signal)
    thread = threading.Thread(target=show_in_second_feed)
    thread.start()
    store.database.write_now(write_first_feed)
    thread.join()
    assert [outcomes(merge) for merge in found] == [[DUPLICATE, DUPLICATE]]
    assert (store.count(), store.count(sightings)) == (3, 5)


def test_an_entry_deleted_by_one_feed_while_another_shows_it_is_not_lost(store: Store) -> None:
    """One writer deletes an entry without sightings, the other has just found it and adds a sighting."""
    first, second = store.add(), store.add("https://b.com/feed")
    for turn in range(10):
        item = post(turn + 1)
        store.show(first, item, day=turn * 100)
        barrier = threading.Barrier(2)

        def at_once(work: Callable[[], object], barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            work()

        with ThreadPoolExecutor(2) as pool:
            day = turn * 100 + 50
            done = [
                pool.submit(at_once, lambda day=day: store.show(first, Item(guid="other"), day=day)),  # type: ignore[misc]
                pool.submit(at_once, lambda item=item, day=day: store.show(second, item, day=day)),  # type: ignore[misc]
            ]
        for each in done:
            each.result()
        shown = [each.title for each in store.items() if any(feed.url != FEED for feed in each.feeds)]
        assert shown == [item.title]
        store.show(second, Item(guid="other2"), day=day + 40)


def test_key_types_have_their_names_in_the_database() -> None:
    assert {"guid", "canonical_url", "legacy_guid", "fallback_hash"} == set(KeyType)


def test_urls_of_unusable_databases_are_refused() -> None:
    for url in ("mysql://localhost/x", "nonsense", "sqlite:////dev/null/x.db", "postgresql://u:secret@127.0.0.1:1/x"):
        with pytest.raises(StoreError) as caught:
            Database(url)
        assert "secret" not in str(caught.value)


# why, the item when it was deleted, when it comes back, what it is then
RETURNS = [
    ("the same", post(1), post(1), DUPLICATE),
    ("another text", post(1), post(1, text="t"), UPDATED),
    ("guid and URL, other title", post(1), post(1, title="x", published="x"), UPDATED),
    ("guid and title, other URL", post(1), post(1, link="https://a.com/x", published="x"), UPDATED),
    ("guid and date, other URL and title", post(1), post(1, link="https://a.com/x", title="x"), UPDATED),
    ("URL and title, other guid", post(1), post(1, guid="other"), DUPLICATE),
    ("trailing slash", post(1, guid=""), post(1, guid="", link="https://a.com/1/"), UPDATED),
    ("no guid, other title, same date", post(1, guid=""), post(1, guid="", title="x"), UPDATED),
    ("no guid, other title and date", post(1, guid=""), post(2, guid="", link="https://a.com/1"), NEW),
    (
        "a section, other title",
        post(1, guid="", link="https://a.com/#1"),
        post(1, guid="", link="https://a.com/#1", title="x"),
        UPDATED,
    ),
    (
        "another section, same title and date",
        post(1, guid="", link="https://a.com/#1"),
        post(1, guid="", link="https://a.com/#2"),
        NEW,
    ),
    (
        "guid and link over https, other title",
        post(1, guid="http://a.com/1", link="http://a.com/1"),
        post(1, guid="https://a.com/1", link="https://a.com/1", title="x"),
        UPDATED,
    ),
    (
        "guid over https, other title and date",
        post(1, guid="http://a.com/1", link="http://a.com/1"),
        post(2, guid="https://a.com/1", link="https://a.com/2"),
        NEW,
    ),
    ("the guid was reused", post(1), post(2, guid="g1"), NEW),
    ("the URL was reused", post(1), post(2, link="https://a.com/1"), NEW),
    ("only the title is equal", post(1), post(2, title="Post 1"), NEW),
    ("no guid, no title", post(1, guid="", title=""), post(1, guid="", title=""), DUPLICATE),
    ("only a guid", Item(guid="g1"), Item(guid="g1"), DUPLICATE),
    ("only a URL", Item(link="https://a.com/1"), Item(link="https://a.com/1"), DUPLICATE),
    ("only a text", Item(text="a"), Item(text="a"), DUPLICATE),
    ("another text only", Item(text="a"), Item(text="b"), NEW),
]


@pytest.mark.parametrize(("old", "back", "wanted"), [row[1:] for row in RETURNS], ids=[row[0] for row in RETURNS])
def test_an_item_that_comes_back_is_not_reported_as_new(
    memory: Store, old: Item, back: Item, wanted: ItemOutcome
) -> None:
    feed, other = memory.add(), post(9, guid="", link="https://a.com/other")
    memory.show(feed, old, other)
    assert memory.show(feed, other, day=31).deleted == 1
    assert outcomes(memory.show(feed, back, other, day=60)) == [wanted, DUPLICATE]
    assert outcomes(memory.show(feed, back, other, day=61)) == [DUPLICATE, DUPLICATE]
    assert memory.count() == 2  # it is stored again and can be found


def test_tombstones_expire(store: Store) -> None:
    feed = store.add()
    store.show(feed, post(1), post(2), post(9))
    assert store.show(feed, post(9), day=31).deleted == 2
    assert store.count(tombstones) > 0
    assert outcomes(store.show(feed, post(1), post(9), day=395)) == [DUPLICATE, DUPLICATE]
    assert outcomes(store.show(feed, post(2), post(9), day=396)) == [NEW, DUPLICATE]
    store.show(feed, post(9), day=800)
    store.show(feed, post(8), day=831)
    store.show(feed, post(8), day=1300)
    store.run(store.feeds.remove(feed, START))
    assert store.count(tombstones) == 0


def test_a_shared_guid_or_url_makes_no_tombstone(store: Store) -> None:
    """Otherwise a new item with the title of a deleted one would be lost."""
    feed = store.add()
    store.show(feed, *(post(number, guid="x", link="https://a.com/") for number in (1, 2)))
    store.show(feed, post(9), day=31)
    again = post(1, guid="x", link="https://a.com/", published="2026-03-01", text="another")
    assert outcomes(store.show(feed, again, post(9), day=60)) == [NEW, DUPLICATE]
