"""The settings of one feed: checked, stored, used by every poll, and never shown with their secrets (contract I11)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from canonry.errors import FailureKind, FeedNotFound, InvalidFields
from canonry.feeds.feed_settings import (
    FeedChanges,
    check_changes,
    mask_headers,
    parse_duration,
    parse_header,
)
from canonry.feeds.feed_values import NO_FAILURE, FeedState, FeedStatus
from canonry.feeds.ingest_report import FeedResult
from canonry.store.schema import stamp
from feed_texts import gone, moved, ok, rss
from ingest_runs import URL, all_met, counts, make_feed_state, result, running, turns
from loopback import in_a_loop

if TYPE_CHECKING:
    from pathlib import Path

    from ingest_runs import Runs

FEED = make_feed_state(headers='{"X-Token": "secret"}')
STOPPED, PAUSED = replace(FEED, status=FeedStatus.STOPPED), replace(FEED, status=FeedStatus.PAUSED)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), (90, 90), ("90s", 90), ("15m", 900), (" 15 M ", 900), ("6h", 21_600), ("2d", 172_800), ("0", 0)],
)
def test_a_duration_is_read(text: int | str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "m", "-5m", "1.5h", "5w", "5 minutes", "٣m", "9" * 20])
def test_texts_that_are_not_durations(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_headers_are_parsed() -> None:
    assert parse_header("X-Token: a:b ") == ("X-Token", "a:b")
    assert parse_header("X-Token:") == ("X-Token", None)
    with pytest.raises(ValueError, match="header"):
        parse_header("X-Token")


@pytest.mark.parametrize(
    ("feed", "changes", "values"),
    [
        (FEED, {}, {}),
        (FEED, {"title": " My\nfeed "}, {"own_title": "My feed"}),
        (FEED, {"title": None}, {"own_title": ""}),
        (FEED, {"folder": "/a//b /"}, {"folder": "a/b"}),
        (FEED, {"interval": "15m"}, {"interval_seconds": 900, "next_check_at": None}),
        (FEED, {"interval": None}, {"interval_seconds": None, "next_check_at": None}),
        (STOPPED, {"interval": "15m"}, {"interval_seconds": 900}),  # does not become due
        (replace(FEED, retry_at="2026"), {"interval": "15m"}, {"interval_seconds": 900}),
        (FEED, {"timeout": 30, "max_bytes": "20M"}, {"timeout_seconds": 30, "max_bytes": 20 * 10**6}),
        (FEED, {"timeout": None, "max_bytes": None}, {"timeout_seconds": None, "max_bytes": None}),
        (FEED, {"user_agent": "me/1.0"}, {"user_agent": "me/1.0"}),
        (FEED, {"headers": {"A": "1"}}, {"headers": '{"X-Token": "secret", "A": "1"}'}),
        (FEED, {"headers": {"x-token": "other"}}, {"headers": '{"x-token": "other"}'}),
        (FEED, {"headers": {"X-Token": "***"}}, {"headers": '{"X-Token": "secret"}'}),  # as it was shown
        (FEED, {"headers": {"x-token": None}}, {"headers": "{}"}),
        (FEED, {"headers": None}, {"headers": "{}"}),
        (FEED, {"paused": True}, {"status": "paused"}),
        (FEED, {"paused": False}, {}),
        (PAUSED, {"paused": False}, {"status": "active", "next_check_at": None, **NO_FAILURE}),
        (STOPPED, {"paused": False}, {"status": "active", "next_check_at": None, **NO_FAILURE}),
    ],
)
def test_changes_become_columns(feed: FeedState, changes: FeedChanges, values: dict[str, Any]) -> None:
    assert check_changes(changes, feed) == values


@pytest.mark.parametrize(
    "changes",
    [
        {"interval": "59s"},
        {"interval": "8d"},
        {"interval": "soon"},
        {"timeout": "0"},
        {"timeout": "6m"},
        {"max_bytes": "1"},
        {"max_bytes": "1G"},
        {"user_agent": "x\x00y"},
        {"user_agent": "x" * 501},
        {"title": "x" * 1001},
        {"headers": {"": "x"}},
        {"headers": {"a b": "x"}},
        {"headers": {"X": "a\r\nHost: b"}},
        {"headers": {"X": "☃"}},
        {"headers": {"X": "x" * 5000}},
        {"headers": {"HOST": "b"}},
        {"headers": {"Accept-Encoding": "br"}},
        {"headers": {"If-None-Match": "*"}},
        {"headers": {"User-Agent": "me"}},
        {"headers": {f"X-{number}": "x" for number in range(30)}},
    ],
)
def test_invalid_settings_are_named(changes: FeedChanges) -> None:
    with pytest.raises(InvalidFields) as raised:
        check_changes(changes, FEED)
    assert list(raised.value.reasons) == list(changes)


def test_every_invalid_setting_is_named_and_secrets_are_not_shown() -> None:
    with pytest.raises(InvalidFields) as raised:
        check_changes({"interval": "x", "timeout": "y", "title": "fine"}, FEED)
    assert list(raised.value.reasons) == ["interval", "timeout"]
    assert mask_headers(FEED) == {"X-Token": "***"}
    assert "secret" not in repr(FEED)


async def change(runs_: Runs, **changes: Any) -> FeedState:
    return await runs_.store.change((await runs_.feed()).id, cast("FeedChanges", changes))


@in_a_loop
async def test_headers_and_user_agent_are_sent_and_stay_with_the_origin(tmp_path: Path) -> None:
    other = "https://other.example/feed"
    pages = {URL: turns(ok(rss()), ok(rss()), moved(other), ok(rss())), other: ok(rss())}
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        await change(runs_, headers={"X-Token": "secret"}, user_agent="me/1.0")
        await runs_.later()
        await runs_.later()
        await change(runs_, headers=None, user_agent=None)
        await runs_.later()
        sent = [
            (request.url, request.headers.get("x-token"), request.headers["user-agent"]) for request in runs_.web.seen
        ]
        default = sent[0][2]
        assert default.startswith("canonry/")
        assert sent == [
            (URL, None, default),
            (URL, "secret", "me/1.0"),
            (URL, "secret", "me/1.0"),
            (other, None, "me/1.0"),  # a redirect to another origin
            (URL, None, default),
        ]


@in_a_loop
async def test_an_authorization_header_replaces_the_credentials_of_the_url(tmp_path: Path) -> None:
    url = URL.replace("//", "//me:password@")
    async with running({URL: ok(rss())}, tmp_path) as runs_:
        await runs_.run(url)
        feed = await runs_.feed(url)
        await runs_.store.change(feed.id, {"headers": {"authorization": "Bearer token"}})
        await runs_.later(url)
        sent = [request.headers["authorization"] for request in runs_.web.seen]
        assert sent == ["Basic bWU6cGFzc3dvcmQ=", "Bearer token"]


@in_a_loop
async def test_the_size_limit_of_a_feed(tmp_path: Path) -> None:
    async with running({URL: ok(rss(text="x" * 2000))}, tmp_path) as runs_:
        await runs_.run()
        await change(runs_, max_bytes="2k")
        assert result(await runs_.later()) == (FeedResult.FAILED, FailureKind.TOO_LARGE)
        await change(runs_, max_bytes=None)
        assert counts(await runs_.later(days=1)) == (0, 0, 3)


@pytest.mark.parametrize("is_json", [False, True])
@in_a_loop
async def test_a_feed_with_a_larger_size_limit_is_read_to_its_end(tmp_path: Path, *, is_json: bool) -> None:
    text = "x" * (6 * 1024 * 1024)
    items = [{"id": str(number), "content_text": text} for number in range(3)]
    document = {"version": "https://jsonfeed.org/version/1.1", "title": "Blog", "items": items}
    async with running({URL: ok(json.dumps(document) if is_json else rss(text=text))}, tmp_path) as runs_:
        assert result(await runs_.run()) == (FeedResult.FAILED, FailureKind.TOO_LARGE)
        await change(runs_, max_bytes="20MiB")
        report = await runs_.later(days=1)
        assert (counts(report), report.cut_items) == ((3, 0, 0), 0)


@in_a_loop
async def test_the_timeout_of_a_feed(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    async with running({URL: ok(rss())}, tmp_path) as runs_:

        async def fetch(url: str, **options: Any) -> Any:
            seen.append(options)
            return await runs_.client.fetch(url, **options)

        await runs_.run(fetch=fetch)
        await change(runs_, timeout="45s")
        await runs_.later(fetch=fetch)
        assert [options.get("timeout") for options in seen] == [None, 45.0]


@pytest.mark.parametrize("interval", ["15m", "7d"])
@in_a_loop
async def test_the_interval_of_a_feed_decides_when_it_is_due(tmp_path: Path, interval: str) -> None:
    slow = ok(rss(extra="<ttl>600</ttl>"), **{"cache-control": "max-age=7200"})
    wanted = parse_duration(interval)
    async with running({URL: slow}, tmp_path) as runs_:
        await runs_.run()
        changed = await change(runs_, interval=interval)
        assert await runs_.store.list_due(runs_.now) == [changed]  # at once
        await runs_.run()
        assert await runs_.store.list_due(runs_.now) == []
        assert await runs_.store.list_due(runs_.now + wanted * 0.94) == []
        assert len(await runs_.store.list_due(runs_.now + wanted * 1.06)) == 1


@in_a_loop
async def test_failures_back_off_from_the_interval_of_the_feed(tmp_path: Path) -> None:
    async with running({URL: gone(500)}, tmp_path) as runs_:
        await runs_.run()
        await change(runs_, interval="5m")
        await runs_.later()
        feed = await runs_.feed()
        assert feed.next_check_at is not None
        assert feed.next_check_at < stamp(runs_.now + timedelta(minutes=13))


@in_a_loop
async def test_force_asks_without_validators(tmp_path: Path) -> None:
    pages = {URL: turns(ok(rss(), etag='"1"'), ok(rss(1, 2, 3, 4), etag='"2"'), gone(304), gone(304))}
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        forced = await runs_.later(force=True)
        assert (counts(forced), all_met(forced)) == ((1, 0, 3), True)
        assert (await runs_.feed()).etag == '"2"'
        assert result(await runs_.later()) == (FeedResult.NO_CHANGE, None)
        assert result(await runs_.later(force=True))[0] is FeedResult.FAILED  # a 304 that nobody asked for
        assert [request.headers.get("if-none-match") for request in runs_.web.seen] == [None, None, '"2"', None]


@in_a_loop
async def test_a_title_of_ones_own_survives_polling(tmp_path: Path) -> None:
    async with running({URL: turns(ok(rss()), ok(rss(title="Renamed")))}, tmp_path) as runs_:
        await runs_.run()
        await change(runs_, title="Mine")
        await runs_.later()
        feed = await runs_.feed()
        assert (feed.title, feed.own_title, feed.shown_title) == ("Renamed", "Mine", "Mine")
        assert (await change(runs_, title=None)).shown_title == "Renamed"


@in_a_loop
async def test_a_feed_that_does_not_exist_cannot_be_changed(tmp_path: Path) -> None:
    async with running({}, tmp_path) as runs_:
        with pytest.raises(FeedNotFound):
            await runs_.store.change(7, {"title": "x"})
