"""Feeds that a person names for a run: one rule with `feeds import` for what is the same feed (contract F16, I11)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDescription, FeedStatus
from canonry.feeds.given_feeds import choose_feeds, describe_feeds, join_twins, leave_out_recent
from canonry.feeds.opml import OpmlFeed
from canonry.feeds.subscriptions import import_unfetched
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canonry.feeds.feed_settings import FeedChanges

NOW = datetime(2026, 1, 31, tzinfo=UTC)
PLAIN, TRACKED = "https://a.com/feed.xml", "https://a.com/feed.xml?utm_source=opml"


@pytest.fixture
def store(sqlite_url: str) -> Iterator[FeedStore]:
    with Database(sqlite_url) as database:
        yield FeedStore(database)


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        ([PLAIN, TRACKED], [PLAIN, PLAIN]),
        ([TRACKED, PLAIN], [TRACKED, TRACKED]),  # the first is fetched: it may be the only one that works
        ([PLAIN, PLAIN], [PLAIN]),
        (["a.com/feed.xml", f"{PLAIN}#top"], [PLAIN, PLAIN]),
        ([PLAIN, "https://a.com/feed.xml?page=2"], [PLAIN, "https://a.com/feed.xml?page=2"]),
        (["no url", "no url"], ["no url"]),
    ],
)
def test_twins_among_the_given_feeds_are_joined(texts: list[str], wanted: list[str]) -> None:
    assert list(join_twins(texts, {}, {}).values()) == wanted


@pytest.mark.parametrize("texts", [[PLAIN, TRACKED], [TRACKED, PLAIN], [TRACKED]])
def test_the_chosen_feeds_are_those_that_an_import_follows(store: FeedStore, texts: list[str]) -> None:
    async def run() -> None:
        chosen = await choose_feeds([], [OpmlFeed(text) for text in texts], store, now=NOW)
        imported = await import_unfetched([OpmlFeed(text) for text in texts], store, now=NOW)
        assert set(chosen.urls) == {outcome.url for outcome in imported}

    asyncio.run(run())


def test_known_feeds_are_found_under_their_other_urls(store: FeedStore) -> None:
    async def run() -> None:
        feed, _ = await store.add(PLAIN, NOW, ["https://a.com/old"])
        chosen = await choose_feeds([TRACKED, "https://a.com/old", "b.com"], [], store, now=NOW)
        assert chosen.urls == (PLAIN, "https://b.com/")
        # Two feeds that are followed separately stay separate.
        await store.add(TRACKED, NOW)
        assert (await choose_feeds([TRACKED, PLAIN], [], store, now=NOW)).urls == (TRACKED, PLAIN)
        assert feed.url == PLAIN

    asyncio.run(run())


@pytest.mark.parametrize(
    ("changes", "status", "in_opml", "by_url"),
    [
        ({}, FeedStatus.ACTIVE, (PLAIN,), (PLAIN,)),
        ({"paused": True}, FeedStatus.PAUSED, (), (PLAIN,)),
        ({}, FeedStatus.STOPPED, (), (PLAIN,)),
    ],
)
def test_paused_and_stopped_feeds_are_polled_only_if_named(
    store: FeedStore, changes: FeedChanges, status: FeedStatus, in_opml: tuple[str, ...], by_url: tuple[str, ...]
) -> None:
    async def run() -> None:
        feed, _ = await store.add(PLAIN, NOW)
        await store.change(feed.id, changes)
        if status is FeedStatus.STOPPED:
            await store.fail(feed.id, "gone", NOW, next_check_at=NOW.replace(month=2, day=5), is_gone=True)
        rows = [OpmlFeed(TRACKED)]
        chosen = await choose_feeds([], rows, store, now=NOW)
        assert (chosen.urls, chosen.skipped) == (in_opml, 1 - len(in_opml))
        named = await choose_feeds([PLAIN], rows, store, now=NOW)
        assert (named.urls, named.skipped) == (by_url, 0)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("minutes_ago", "wanted"),
    [(0, False), (59, False), (60, True), (1000, True), (-1, True)],  # in the future: the clock was set back
)
def test_polls_that_no_store_remembers_are_not_repeated_within_an_hour(*, minutes_ago: int, wanted: bool) -> None:
    polled_at = {PLAIN: NOW - timedelta(minutes=minutes_ago)}
    assert leave_out_recent([PLAIN, TRACKED], polled_at, NOW) == ((PLAIN, TRACKED) if wanted else (TRACKED,))


def test_what_a_person_has_said_is_kept(store: FeedStore) -> None:
    async def run() -> None:
        feed, _ = await store.add(PLAIN, NOW, title="Blog")
        await describe_feeds({PLAIN: FeedDescription("Blog", "news", "https://a.com/")}, store)
        stored = await store.get(feed.id)
        assert (stored.own_title, stored.folder, stored.site_url) == ("", "news", "https://a.com/")
        await describe_feeds({PLAIN: FeedDescription("Mine", "other", "https://b.com/")}, store)
        stored = await store.get(feed.id)
        assert (stored.own_title, stored.folder, stored.site_url) == ("Mine", "news", "https://a.com/")
        await describe_feeds({PLAIN: FeedDescription("Another"), "https://b.com/unknown": FeedDescription("x")}, store)
        assert (await store.get(feed.id)).own_title == "Mine"

    asyncio.run(run())
