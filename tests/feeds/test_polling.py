"""Polling over a real web on loopback: when a feed is polled again, and where it moves (contract I1, I7)."""

from __future__ import annotations

from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest

from canonry.errors import FailureKind
from canonry.feeds.due import is_ahead
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedStatus
from canonry.feeds.ingest_report import FeedResult
from canonry.store.schema import entries, entry_identities, feed_aliases, stamp
from feed_texts import gone, moved, ok, rss
from ingest_runs import START, URL, all_met, counts, feed_of, item, result, running, turns
from loopback import in_a_loop

if TYPE_CHECKING:
    from pathlib import Path


# When to poll again


@pytest.mark.parametrize(
    ("after", "wait"), [("120", 120), (format_datetime(START + timedelta(hours=5), usegmt=True), 5 * 3600)]
)
@in_a_loop
async def test_retry_after_is_respected(tmp_path: Path, after: str, wait: int) -> None:
    async with running({URL: turns(gone(503, **{"Retry-After": after}), ok(rss()))}, tmp_path) as runs_:
        assert result(await runs_.run()) == (FeedResult.FAILED, FailureKind.STATUS)
        feed = await runs_.feed()
        assert feed.retry_at == stamp(START + timedelta(seconds=wait))
        assert feed.next_check_at is not None and feed.next_check_at >= feed.retry_at
        runs_.now += timedelta(seconds=wait - 1)
        report = await runs_.run()
        assert result(report) == (FeedResult.WAITING, None)
        assert (report.failed, all_met(report)) == (0, True)
        assert len(runs_.web.seen) == 1
        runs_.now += timedelta(seconds=1)
        assert result(await runs_.run()) == (FeedResult.INGESTED, None)
        assert (await runs_.feed()).retry_at is None


@in_a_loop
async def test_retry_after_is_limited_to_a_week(tmp_path: Path) -> None:
    async with running({URL: gone(429, **{"Retry-After": "9" * 50})}, tmp_path) as runs_:
        await runs_.run()
        assert (await runs_.feed()).retry_at == stamp(START + timedelta(days=7))


@in_a_loop
async def test_410_stops_a_feed(tmp_path: Path) -> None:
    async with running({URL: turns(ok(rss()), gone(410))}, tmp_path) as runs_:
        await runs_.run()
        report = await runs_.later()
        assert result(report) == (FeedResult.STOPPED, FailureKind.STATUS)
        assert report.failed == 1
        assert (await runs_.feed()).status is FeedStatus.STOPPED
        assert await runs_.store.list_due(runs_.now + timedelta(days=5)) == []
        assert len(await runs_.rows(entries)) == 3


@in_a_loop
async def test_a_stopped_feed_is_checked_weekly_and_active_once_it_answers(tmp_path: Path) -> None:
    pages = {URL: turns(ok(rss(), etag='"1"'), gone(410), gone(410), gone(500), gone(304))}
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        await runs_.later()
        for _ in range(2):  # 410, then 500: it stays stopped, and is not asked more often
            assert await runs_.store.list_due(runs_.now + timedelta(days=5)) == []
            [due] = await runs_.store.list_due(runs_.now + timedelta(days=7))
            assert due.status is FeedStatus.STOPPED
            await runs_.later(days=7)
        assert (await runs_.feed()).status is FeedStatus.STOPPED
        assert result(await runs_.later(days=7)) == (FeedResult.NO_CHANGE, None)
        feed = await runs_.feed()
        assert (feed.status, feed.failures, feed.failure) == (FeedStatus.ACTIVE, 0, "")


@in_a_loop
async def test_a_stopped_feed_that_is_polled_explicitly_and_answers_is_active(tmp_path: Path) -> None:
    async with running({URL: turns(gone(410), ok(rss()))}, tmp_path) as runs_:
        await runs_.run()
        assert counts(await runs_.later()) == (3, 0, 0)
        assert (await runs_.feed()).status is FeedStatus.ACTIVE


@in_a_loop
async def test_a_paused_feed_is_never_due_and_stays_paused(tmp_path: Path) -> None:
    async with running({URL: turns(ok(rss()), gone(410), ok(rss()))}, tmp_path) as runs_:
        await runs_.run()
        await runs_.store.change((await runs_.feed()).id, {"paused": True})
        assert await runs_.store.list_due(START + timedelta(days=400)) == []
        for _ in range(2):  # an explicit poll does not resume or stop it
            await runs_.later()
            assert (await runs_.feed()).status is FeedStatus.PAUSED
        resumed = await runs_.store.change((await runs_.feed()).id, {"paused": False})
        assert resumed.status is FeedStatus.ACTIVE
        assert await runs_.store.list_due(runs_.now) == [resumed]


@in_a_loop
async def test_a_clock_that_was_ahead_does_not_keep_feeds_from_being_polled(tmp_path: Path) -> None:
    other = "https://example.com/busy"
    pages = {URL: ok(rss()), other: turns(gone(503, **{"retry-after": "3600"}), ok(rss(4)))}
    async with running(pages, tmp_path) as runs_:
        runs_.now += timedelta(days=365)
        await runs_.run(URL, other)
        runs_.now -= timedelta(days=365)
        assert {feed.url for feed in await runs_.store.list_due(runs_.now)} == {URL, other}
        report = await runs_.run(URL, other)
        assert {outcome.result for outcome in report.feeds} == {FeedResult.INGESTED}


@pytest.mark.parametrize(
    ("ahead", "wanted"),
    [
        (timedelta(seconds=-1), False),
        (timedelta(0), False),
        (timedelta(seconds=1), True),
        (timedelta(days=7), True),
        (timedelta(days=7, seconds=1), False),  # from a wrong clock
        (timedelta(days=365), False),
    ],
)
def test_times_that_are_too_far_ahead_count_as_past(*, ahead: timedelta, wanted: bool) -> None:
    assert is_ahead(stamp(START + ahead), START) is wanted
    assert not is_ahead(None, START)


@in_a_loop
async def test_backoff_grows_and_ends_with_the_first_success(tmp_path: Path) -> None:
    async with running({URL: turns(*[gone(500)] * 8, ok(rss()))}, tmp_path) as runs_:
        waits: list[float] = []
        for failures in range(1, 9):
            await runs_.later()
            feed = await runs_.feed()
            assert feed.failures == failures
            assert feed.next_check_at is not None
            waits.append((datetime.fromisoformat(feed.next_check_at) - runs_.now) / timedelta(hours=1))
        for number, wait in enumerate(waits):
            assert 0.75 * min(2**number, 24) <= wait <= 1.25 * min(2**number, 24)
        await runs_.later()
        feed = await runs_.feed()
        assert (feed.failures, feed.failure) == (0, "")


@pytest.mark.parametrize(
    ("headers", "ttl", "hours"),
    [
        ({}, "", 1),
        ({}, "<ttl>360</ttl>", 6),
        ({}, "<ttl>5</ttl>", 1),
        ({}, "<ttl>99999999</ttl>", 24),
        ({"Cache-Control": "public, max-age=10800"}, "", 3),
        ({"Cache-Control": "max-age=10800"}, "<ttl>360</ttl>", 6),
        ({"Cache-Control": "max-age=99999999999999999999"}, "", 24),
        ({"Cache-Control": "no-cache"}, "", 1),
    ],
)
@in_a_loop
async def test_ttl_and_cache_control_delay_the_next_check(
    tmp_path: Path, headers: dict[str, str], ttl: str, hours: int
) -> None:
    async with running({URL: ok(rss(extra=ttl), **headers)}, tmp_path) as runs_:
        await runs_.run()
        feed = await runs_.feed()
        assert feed.next_check_at is not None
        wait = (datetime.fromisoformat(feed.next_check_at) - START) / timedelta(hours=1)
        assert 0.95 * hours <= wait <= 1.05 * hours
        assert await runs_.store.list_due(START + timedelta(hours=0.9 * hours)) == []
        assert [each.url for each in await runs_.store.list_due(START + timedelta(hours=1.1 * hours))] == [URL]


@in_a_loop
async def test_the_ttl_of_the_last_document_applies_after_a_304(tmp_path: Path) -> None:
    async with running({URL: ok(rss(extra="<ttl>360</ttl>"), etag='"1"')}, tmp_path) as runs_:
        await runs_.run()
        await runs_.later(days=1)
        feed = await runs_.feed()
        assert feed.next_check_at is not None
        assert 5.7 <= (datetime.fromisoformat(feed.next_check_at) - runs_.now) / timedelta(hours=1) <= 6.3


# Where feeds move


NEW_URL = "https://new.example.com/feed"


@in_a_loop
async def test_a_permanent_redirect_is_adopted_after_three_sightings(tmp_path: Path) -> None:
    pages = {URL: turns(ok(rss()), moved(NEW_URL)), NEW_URL: ok(rss(2, 3, 4), etag='"1"')}
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        for sightings_ in (1, 2):
            report = await runs_.later()
            feed = await runs_.feed()
            assert (feed.url, feed.moved_to, feed.moved_sightings) == (URL, NEW_URL, sightings_)
        await runs_.later()
        feed = await runs_.feed(NEW_URL)
        assert (feed.url, feed.key_url, feed.moved_to) == (NEW_URL, URL, "")
        assert (await runs_.feed(URL)).id == feed.id  # the alias is kept
        assert [row["url"] for row in await runs_.rows(feed_aliases)] == [URL]
        asked = len(runs_.web.seen)
        report = await runs_.later(URL, NEW_URL)
        assert [request.url for request in runs_.web.seen[asked:]] == [NEW_URL] * len(report.feeds)
        assert counts(report)[:2] == (0, 0)  # keys are those of the first URL
        guids = {row["key_value"] for row in await runs_.rows(entry_identities) if row["key_type"] == "guid"}
        assert guids == {f"{URL}:id-{number}" for number in (1, 2, 3, 4)}


@in_a_loop
async def test_a_feed_that_is_removed_before_its_move_is_adopted_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "https://example.com/other"
    pages = {URL: turns(ok(rss()), moved(NEW_URL)), NEW_URL: ok(rss()), other: ok(rss(7))}
    async with running(pages, tmp_path) as runs_:
        for _ in range(3):
            await runs_.later()
        adopt = FeedStore.adopt

        async def remove_and_adopt(store: FeedStore, feed_id: int, url: str, **options: Any) -> bool:
            await store.remove(feed_id, runs_.now)
            return await adopt(store, feed_id, url, **options)

        monkeypatch.setattr(FeedStore, "adopt", remove_and_adopt)
        report = await runs_.later(URL, other, concurrency=1)
        assert [outcome.result for outcome in report.feeds] == [FeedResult.REMOVED, FeedResult.INGESTED]
        assert (report.warnings, all_met(report)) == ([], True)  # the store did not fail
        assert [feed.url for feed in await runs_.store.list_all()] == [other]
        assert await runs_.rows(feed_aliases) == []


@in_a_loop
async def test_a_redirect_to_other_content_is_never_adopted(tmp_path: Path) -> None:
    """Although its items are known from the second time on, also under another URL."""
    parked = feed_of(*(item(f"Ad {number}", f"https://ads.example.com/{number}") for number in range(3)))
    second_url = "https://example.com/parked"
    pages = {
        URL: turns(ok(rss()), *[moved(NEW_URL)] * 5, moved(second_url)),
        NEW_URL: ok(parked),
        second_url: ok(parked),
    }
    async with running(pages, tmp_path) as runs_:
        for _ in range(11):
            await runs_.later()
        assert runs_.web.seen[-1].url == second_url
        assert (await runs_.feed()).url == URL


@in_a_loop
async def test_a_redirect_is_adopted_after_one_to_other_content_was_repaired(tmp_path: Path) -> None:
    parked = feed_of(item("Ad", "https://ads.example.com/"))
    pages = {URL: turns(ok(rss()), moved(NEW_URL), ok(rss()), moved(NEW_URL)), NEW_URL: turns(ok(parked), ok(rss()))}
    async with running(pages, tmp_path) as runs_:
        for _ in range(6):
            await runs_.later()
        assert (await runs_.feed()).url == NEW_URL


@in_a_loop
async def test_a_temporary_redirect_is_not_adopted_and_resets_the_count(tmp_path: Path) -> None:
    pages = {
        URL: turns(ok(rss()), moved(NEW_URL), moved(NEW_URL), moved(NEW_URL, 302), moved(NEW_URL), moved(NEW_URL)),
        NEW_URL: ok(rss()),
    }
    async with running(pages, tmp_path) as runs_:
        for _ in range(6):
            await runs_.later()
        feed = await runs_.feed()
        assert (feed.url, feed.moved_sightings) == (URL, 2)


@in_a_loop
async def test_a_304_behind_a_redirect_counts_as_a_sighting_but_not_as_content(tmp_path: Path) -> None:
    unchanged = {"status": 304, "headers": {}}
    pages = {
        URL: turns(ok(rss(), etag='"1"'), moved(NEW_URL)),
        NEW_URL: turns(unchanged, ok(rss(), etag='"2"'), unchanged, unchanged, unchanged, ok(rss(2, 3, 4))),
    }
    async with running(pages, tmp_path) as runs_:
        for _ in range(5):
            await runs_.later()
        feed = await runs_.feed()
        assert (feed.url, feed.moved_sightings) == (URL, 4)
        assert (await runs_.later()).new == 1
        assert (await runs_.feed()).url == NEW_URL


@pytest.mark.parametrize("status", [301, 302])
@in_a_loop
async def test_validators_of_one_url_say_nothing_about_another(tmp_path: Path, status: int) -> None:
    """A 304 of the new target of a redirect must not hide the items that it has."""
    date = format_datetime(START - timedelta(days=1), usegmt=True)
    unchanged = {"status": 304, "headers": {}}
    first = ok(rss(), **{"last-modified": date})
    pages = {
        URL: turns(first, moved(NEW_URL, status)),
        NEW_URL: turns(unchanged, ok(rss(2, 3, 4), **{"last-modified": date}), ok(rss(2, 3, 4, 5))),
    }
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        assert (await runs_.later()).new == 1
        asked = len(runs_.web.seen)
        assert (await runs_.later()).new == 1
        headers = runs_.web.seen[asked + 1].headers
        assert headers.get("if-modified-since", "") == (date if status == 301 else "")


@in_a_loop
async def test_a_304_of_a_feed_that_no_longer_redirects_is_not_that_of_the_target(tmp_path: Path) -> None:
    unchanged = {"status": 304, "headers": {}}
    pages = {
        URL: turns(moved(NEW_URL), moved(NEW_URL), unchanged, ok(rss(2, 3, 4))),
        NEW_URL: turns(ok(rss(), etag='"1"'), unchanged),
    }
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        assert result(await runs_.later()) == (FeedResult.NO_CHANGE, None)
        assert (await runs_.later()).new == 1


@in_a_loop
async def test_a_redirect_to_another_followed_feed_is_not_adopted(tmp_path: Path) -> None:
    pages = {URL: turns(ok(rss()), moved(NEW_URL)), NEW_URL: ok(rss())}
    async with running(pages, tmp_path) as runs_:
        for _ in range(5):
            await runs_.later(URL, NEW_URL)
        assert {feed.url for feed in await runs_.store.list_all()} == {URL, NEW_URL}
        assert len(await runs_.rows(entries)) == 3


@in_a_loop
async def test_a_page_is_replaced_by_the_feed_it_links_to(tmp_path: Path) -> None:
    page = '<html><link rel="alternate" type="application/rss+xml" href="/feed#top"><p>Hello'
    pages = {"https://example.com/": ok(page, **{"content-type": "text/html"}), URL: ok(rss())}
    async with running(pages, tmp_path) as runs_:
        assert counts(await runs_.run("https://example.com/")) == (3, 0, 0)
        assert (await runs_.feed("https://example.com/")).url == URL
        asked = len(runs_.web.seen)
        assert counts(await runs_.later("https://example.com/")) == (0, 0, 3)
        assert [request.url for request in runs_.web.seen[asked:]] == [URL]


@in_a_loop
async def test_a_page_in_place_of_a_known_feed_is_a_transient_failure(tmp_path: Path) -> None:
    page = '<html><link rel="alternate" type="application/rss+xml" href="https://ads.example.com/feed">'
    async with running({URL: turns(ok(rss()), ok(page), ok(rss()))}, tmp_path) as runs_:
        await runs_.run()
        assert result(await runs_.later()) == (FeedResult.FAILED, FailureKind.NOT_A_FEED)
        assert counts(await runs_.later()) == (0, 0, 3)


@in_a_loop
async def test_a_page_that_links_to_no_feed_is_a_failure(tmp_path: Path) -> None:
    async with running({URL: ok("<html><p>Hello")}, tmp_path) as runs_:
        assert result(await runs_.run()) == (FeedResult.FAILED, FailureKind.NOT_A_FEED)


@in_a_loop
async def test_hubs_are_recorded(tmp_path: Path) -> None:
    hubs = "".join(f'<atom:link rel="hub" href="https://hub{number}.example.com/"/>' for number in (1, 2))
    async with running({URL: ok(rss(extra=hubs))}, tmp_path) as runs_:
        await runs_.run()
        feed = await runs_.feed()
        assert feed.hubs.split("\n") == ["https://hub1.example.com/", "https://hub2.example.com/"]
        assert (feed.title, feed.format) == ("Blog", "rss")


@in_a_loop
async def test_a_json_feed_is_ingested(tmp_path: Path) -> None:
    body = '{"version": "https://jsonfeed.org/version/1.1", "title": "J", "items": [{"id": "1", "title": "One"}]}'
    async with running({URL: ok(body)}, tmp_path) as runs_:
        assert counts(await runs_.run()) == (1, 0, 0)


@in_a_loop
async def test_credentials_are_sent_and_not_shown(tmp_path: Path) -> None:
    async with running({URL: {**ok(rss(1)), "require_auth": "me:secret"}}, tmp_path) as runs_:
        report = await runs_.run("https://me:secret@example.com/feed")
        (record,) = report.items
        assert "secret" not in repr(record)
        assert record.dedupe_key == "guid:https://***@example.com/feed:id-1"
        assert counts(await runs_.later("https://me:secret@example.com/feed")) == (0, 0, 1)


@in_a_loop
async def test_a_guid_with_an_at_sign_is_shown_as_it_is(tmp_path: Path) -> None:
    async with running({URL: ok(feed_of(item("One", guid="news:1@example.com")))}, tmp_path) as runs_:
        (record,) = (await runs_.run()).items
        assert record.dedupe_key == f"guid:{URL}:news:1@example.com"
        assert record.keys[-1].key_value == "guid:news:1@example.com"
