"""How a feed is doing, what to do about it, and how many items it has in a week (contract U2)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from canonry.core.keys import Item
from canonry.errors import FailureKind, FetchFailed
from canonry.feeds.feed_activity import FeedActivity, load_activity
from canonry.feeds.feed_health import FeedAdvice, FeedHealth, choose_advice, judge_health
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument, FeedState, FeedStatus
from canonry.feeds.polling import Polling, poll_feed
from canonry.net.response import Response
from canonry.store.database import Database
from canonry.store.schema import stamp

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FEED = FeedState(
    *(1, "https://a.com/", "https://a.com/", "", "", FeedStatus.ACTIVE, "", "", "", 0, "", None, None, None, "", 0),
    ttl=None,
    folder="",
)
ACTIVE, STOPPED, PAUSED = FeedStatus.ACTIVE, FeedStatus.STOPPED, FeedStatus.PAUSED


@pytest.mark.parametrize(
    ("status", "failures", "is_checked", "wanted"),
    [
        (ACTIVE, 0, False, FeedHealth.NEW),
        (ACTIVE, 0, True, FeedHealth.WORKING),
        (ACTIVE, 1, True, FeedHealth.FAILING),
        (STOPPED, 1, True, FeedHealth.STOPPED),
        (PAUSED, 3, True, FeedHealth.PAUSED),
        (PAUSED, 0, False, FeedHealth.PAUSED),
    ],
)
def test_the_health_of_a_feed(status: FeedStatus, failures: int, *, is_checked: bool, wanted: FeedHealth) -> None:
    checked = stamp(NOW) if is_checked else None
    assert judge_health(replace(FEED, status=status, failures=failures, last_checked_at=checked)) is wanted


@pytest.mark.parametrize(
    ("kind", "status", "failures", "wanted"),
    [
        (FailureKind.STATUS, 404, 1, FeedAdvice.FIND_NEW_ADDRESS),
        (FailureKind.STATUS, 403, 1, FeedAdvice.GIVE_ACCESS),
        (FailureKind.STATUS, 503, 9, FeedAdvice.WAIT),
        (FailureKind.DNS, None, 1, FeedAdvice.WAIT),
        (FailureKind.DNS, None, 3, FeedAdvice.FIND_NEW_ADDRESS),
        (FailureKind.TIMEOUT, None, 2, FeedAdvice.WAIT),
        (FailureKind.TIMEOUT, None, 3, FeedAdvice.RAISE_TIMEOUT),
        (FailureKind.TOO_LARGE, None, 1, FeedAdvice.RAISE_LIMIT),
        (FailureKind.REFUSED, None, 1, FeedAdvice.ALLOW),
        (FailureKind.NOT_A_FEED, 200, 1, FeedAdvice.FIND_NEW_ADDRESS),
        (FailureKind.CERTIFICATE, None, 1, FeedAdvice.ASK_SITE),
        (FailureKind.PROXY, None, 1, FeedAdvice.CHECK_PROXY),
        (FailureKind.OTHER, None, 1, FeedAdvice.WAIT),
        (None, None, 1, FeedAdvice.WAIT),  # stored by an older version
    ],
)
def test_the_advice_for_a_feed_that_fails(
    kind: FailureKind | None, status: int | None, failures: int, wanted: FeedAdvice
) -> None:
    failing = replace(FEED, failure_kind=kind, failure_status=status, failures=failures, failure="x")
    assert choose_advice(failing) is wanted


def test_a_failed_poll_is_stored_with_its_kind_until_the_feed_answers(database_url: str) -> None:
    answers: list[Response | FetchFailed] = [
        FetchFailed("https://a.com/", "answered 404", status=404, kind=FailureKind.STATUS),
        Response(304, "https://a.com/"),
    ]

    async def fetch(url: str, **_: object) -> Response:
        answer = answers.pop(0)
        if isinstance(answer, FetchFailed):
            raise answer
        return answer

    async def work() -> None:
        with Database(database_url) as database:
            store = FeedStore(database)
            feed, _ = await store.add("https://a.com/", NOW)
            await store.merge(feed.id, FeedDocument("A", "rss", (), (), etag="1"), NOW, seen_ttl_days=30)
            seen: list[tuple[FailureKind | None, int | None, int]] = []
            for _ in range(2):
                feed = await store.get(feed.id)
                await poll_feed(feed, store, Polling(fetch, clock=lambda: NOW))
                feed = await store.get(feed.id)
                seen.append((feed.failure_kind, feed.failure_status, feed.failures))
            assert seen == [(FailureKind.STATUS, 404, 1), (None, None, 0)]

    asyncio.run(work())


def test_the_items_of_a_week_leave_out_the_first_document(database_url: str) -> None:
    """Feed 1 is followed for 14 days and had 6 new items since; feed 2 for 60 days, with 4 in 28 days; feed 3 is new."""

    async def work() -> None:
        with Database(database_url) as database:
            store = FeedStore(database)

            async def show(feed_id: int, count: int, days: float) -> None:
                when = NOW - timedelta(days=days)
                items = (
                    Item(f"{feed_id} {days} {each}", f"https://a.com/{feed_id}/{days}/{each}") for each in range(count)
                )
                await store.merge(feed_id, FeedDocument("A", "rss", (), tuple(items)), when, seen_ttl_days=365)

            for number in range(1, 5):
                await store.add(f"https://a.com/{number}", NOW - timedelta(days=90))
            for feed_id, count, days in (
                (1, 50, 14),
                (1, 4, 9),
                (1, 2, 1),
                (2, 9, 60),
                (2, 3, 27),
                (2, 1, 2),
                (3, 7, 3),
            ):
                await show(feed_id, count, days)
            newest = {feed_id: stamp(NOW - timedelta(days=days)) for feed_id, days in ((1, 1), (2, 2), (3, 3))}
            wanted = {
                1: FeedActivity(56, 3.0, newest[1]),
                2: FeedActivity(13, 1.0, newest[2]),
                3: FeedActivity(7, None, newest[3]),
            }
            assert await load_activity(database, NOW) == wanted
            assert await load_activity(database, NOW, feed_id=2) == {2: wanted[2]}

    asyncio.run(work())
