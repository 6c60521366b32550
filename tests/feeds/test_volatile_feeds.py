"""Feeds that change on every request: recognised after three polls, and only empty updates are damped (contract I11)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from canonry.core.keys import Item
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument, FeedNote
from canonry.feeds.item_matching import ItemOutcome
from canonry.feeds.volatile_feeds import make_stable_hash
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

NEW, UPDATED, DUPLICATE = ItemOutcome.NEW, ItemOutcome.UPDATED, ItemOutcome.DUPLICATE
START = datetime(2026, 1, 1, tzinfo=UTC)
ITEMS = [Item(f"guid-{n}", f"https://a.com/{n}", f"Post {n}", "2026-01-01", f"The text of post {n}.") for n in range(5)]


class Polls:
    """The polls of one feed, an hour apart."""

    def __init__(self, database: Database) -> None:
        self.store = FeedStore(database)
        self.now = START
        self.feed_id = asyncio.run(self.store.add("https://a.com/feed", START))[0].id

    def show(self, *items: Item) -> list[ItemOutcome]:
        self.now += timedelta(hours=1)
        document = FeedDocument("A", "rss", (), items)
        merged = asyncio.run(self.store.merge(self.feed_id, document, self.now, seen_ttl_days=30))
        return [item.outcome for item in merged.items]

    def get_note(self) -> FeedNote:
        return asyncio.run(self.store.get(self.feed_id)).note


@pytest.fixture
def polls() -> Iterator[Polls]:
    with Database("sqlite://") as database:
        yield Polls(database)


def make_noise(kind: str, item: Item, poll: int) -> Item:
    """Return the item as a request at this time would show it."""
    token = f"{poll * 7919 + 104729:x}f0e1d2c3"
    match kind:
        case "date":
            return replace(item, published=f"Thu, 01 Jan 2026 10:{poll:02}:00 GMT")
        case "comment":
            return replace(item, text=f"{item.text} <!-- served at {poll} -->")
        case "token in the text":
            return replace(
                item, text=f'{item.text} <img src="https://ads.example/p.gif?cb={poll}" id="x{poll}"> {token}'
            )
        case "token in the link":
            return replace(item, link=f"{item.link}?session={poll}")
        case "token in the enclosure":
            return replace(item, enclosures=(f"https://a.com/{token}/1.mp3?token={poll}",))
        case _:
            raise ValueError(kind)


KINDS = ["date", "comment", "token in the text", "token in the link", "token in the enclosure"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_feed_that_changes_on_every_request_is_recognised_after_three_polls(polls: Polls, kind: str) -> None:
    def show(poll: int, *changed: Item) -> list[ItemOutcome]:
        items = {item.guid: item for item in (*ITEMS, *changed)}
        return polls.show(*(make_noise(kind, item, poll) for item in items.values()))

    assert show(0) == [NEW] * 5
    assert (show(1), polls.get_note()) == ([UPDATED] * 5, FeedNote.NONE)
    assert (show(2), polls.get_note()) == ([UPDATED] * 5, FeedNote.CHANGES_ON_EVERY_REQUEST)
    assert show(3) == [DUPLICATE] * 5
    assert show(4) == [DUPLICATE] * 5
    # What a reader sees is still an update, and reported once.
    for poll, changed in enumerate(
        (
            replace(ITEMS[1], title="Post 1, corrected"),
            replace(ITEMS[1], title="Post 1, corrected", text="The text of post 1, with a price of 12 euros."),
            replace(ITEMS[1], title="Post 1, corrected", text="The text of post 1, with a price of 13 euros."),
        ),
        start=5,
    ):
        assert show(2 * poll, changed) == [DUPLICATE, UPDATED, *[DUPLICATE] * 3]
        assert show(2 * poll + 1, changed) == [DUPLICATE] * 5
    last = replace(ITEMS[1], title="Post 1, corrected", text="The text of post 1, with a price of 13 euros.")
    new = Item("guid-9", "https://a.com/9", "Post 9", "2026-01-02", "New.")
    assert show(20, last, new) == [DUPLICATE] * 5 + [NEW]
    assert show(21, last, new) == [DUPLICATE] * 6
    assert polls.get_note() is FeedNote.CHANGES_ON_EVERY_REQUEST


def test_a_feed_that_becomes_quiet_loses_its_note(polls: Polls) -> None:
    for poll in range(6):
        polls.show(*(make_noise("date", item, poll) for item in ITEMS))
    assert polls.show(*ITEMS) == [DUPLICATE] * 5
    assert polls.get_note() is FeedNote.CHANGES_ON_EVERY_REQUEST  # one quiet document is not enough
    for _ in range(4):
        assert polls.show(*ITEMS) == [DUPLICATE] * 5
    assert polls.get_note() is FeedNote.NONE
    assert polls.show(replace(ITEMS[0], published="2026-01-05"), *ITEMS[1:]) == [UPDATED] + [DUPLICATE] * 4


def test_a_change_of_one_date_is_an_update_in_a_feed_with_random_texts(polls: Polls) -> None:
    for poll in range(4):
        polls.show(*(make_noise("comment", item, poll) for item in ITEMS))
    changed = [replace(ITEMS[0], published="2026-01-09"), *ITEMS[1:]]
    shown = polls.show(*(make_noise("comment", item, 9) for item in changed))
    assert shown == [UPDATED] + [DUPLICATE] * 4


def test_one_item_that_is_edited_often_is_reported_every_time(polls: Polls) -> None:
    polls.show(ITEMS[0])
    for poll in range(8):
        assert polls.show(replace(ITEMS[0], text=f"It is {poll} degrees.")) == [UPDATED]


# why, one text, another, whether they are the same but for noise
TEXTS = [
    ("white space", "a  b\n", "a b", True),
    ("words", "a b", "a c", False),
    ("small numbers", "2 : 1", "3 : 1", False),
    ("a price", "1,250.00 euros", "1,350.00 euros", False),
    ("a year", "since 1998", "since 1999", False),
    ("a time of day", "at 10:30", "at 11:30", False),
    ("a time stamp", "at 2026-01-01T10:00:00Z", "at 2026-01-01T10:00:01Z", True),
    ("seconds since 1970", "t=1767261600", "t=1767261601", True),
    ("a link", '<a href="https://a.com/1">', '<a href="https://a.com/2">', False),
    ("the query of a link", '<a href="https://a.com/1?x=1">', '<a href="https://a.com/1?x=2">', True),
    ("hex", "build 8f3a9c2e", "build 7b1d0e4f", True),
    ("a word that is hex", "the facade", "the decade", False),
    ("a nonce", '<script nonce="x">', '<script nonce="y">', True),
    ("a long word", "Donaudampfschifffahrt", "Donaudampfschiffskapitän", False),
]


@pytest.mark.parametrize(("one", "other", "is_same"), [row[1:] for row in TEXTS], ids=[row[0] for row in TEXTS])
def test_the_stable_hash_ignores_times_and_random_tokens_only(one: str, other: str, is_same: bool) -> None:
    assert (make_stable_hash(Item(text=one)) == make_stable_hash(Item(text=other))) == is_same
