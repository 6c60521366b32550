"""ingest over a real web on loopback: seed 001 point by point (contract I1–I6), then what users expect beyond it (I7)."""

from __future__ import annotations

import asyncio
import gzip
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import insert, select, text

import canonry
from canonry.core.keys import KeyType
from canonry.errors import StoreError
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.ingest_report import CheckName, FeedOutcome, FeedResult, ItemRecord, Report
from canonry.feeds.item_matching import ItemOutcome
from canonry.feeds.read import Feed, read_feed
from canonry.net.response import Response
from canonry.store.database import Database
from canonry.store.schema import entries, entry_identities, feed_aliases, rekeys, runs, sightings, stamp
from feed_texts import gone, moved, ok, rss
from loopback import Listener, LoopbackWeb, http_answer, in_a_loop, make_client, read_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from canonry.feeds.feed_values import FeedState
    from canonry.net.fetch import Client

START = datetime(2026, 1, 31, 10, tzinfo=UTC)
URL = "https://example.com/feed"


@dataclass
class Runs:
    """Runs over one web and one store, at a time of the test's choice."""

    web: LoopbackWeb
    client: Client
    store: FeedStore
    now: datetime = START
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    async def run(self, *urls: str, **options: Any) -> Report:
        """One run; every line of the checklist holds unless the test looks at it."""
        report = await canonry.ingest(
            urls or [URL], self.store.database, fetch=self.client.fetch, clock=lambda: self.now, **options
        )
        assert [line.name for line in report.checklist] == list(CheckName)
        return report

    async def later(self, *urls: str, days: float = 0, hours: float = 2, **options: Any) -> Report:
        self.now += timedelta(days=days, hours=hours)
        return await self.run(*urls, **options)

    async def feed(self, url: str = URL) -> FeedState:
        found = await self.store.find([url])
        assert found is not None
        return found

    async def rows(self, table: Any) -> list[dict[str, Any]]:
        return await self.store.database.read(
            lambda connection: [dict(row._mapping) for row in connection.execute(select(table))]
        )


@asynccontextmanager
async def running(pages: Mapping[str, Mapping[str, Any]], folder: Path) -> AsyncIterator[Runs]:
    with Database(f"sqlite:///{folder}/feeds.db") as database:
        async with LoopbackWeb(pages) as web, web.client() as client:
            yield Runs(web, client, FeedStore(database))


def counts(report: Report) -> tuple[int, int, int]:
    return report.new, report.updated, report.duplicate


def result(report: Report) -> tuple[FeedResult, str]:
    (outcome,) = report.feeds
    return outcome.result, outcome.reason


def unmet(report: Report) -> list[CheckName]:
    return [line.name for line in report.checklist if not line.is_met]


def all_met(report: Report) -> bool:
    return not unmet(report)


def turns(*answers: dict[str, Any]) -> dict[str, Any]:
    return {"sequence": list(answers)}


def item(title: str = "", link: str = "", guid: str = "", text: str = "") -> str:
    parts = {"title": title, "link": link, "guid": guid, "description": text}
    return f"<item>{''.join(f'<{name}>{value}</{name}>' for name, value in parts.items() if value)}</item>"


def feed_of(*items: str, extra: str = "") -> str:
    return f'<rss version="2.0"><channel><title>Blog</title>{extra}{"".join(items)}</channel></rss>'


# Seed 001: persistent dedupe


@in_a_loop
async def test_state_is_kept_and_sent_with_the_next_request(tmp_path: Path) -> None:
    first = ok(rss(), etag='W/"1"', **{"last-modified": "Sat, 31 Jan 2026 09:00:00 GMT"})
    async with running({URL: turns(first, {"status": 304, "headers": {}})}, tmp_path) as runs_:
        report = await runs_.run()
        assert counts(report) == (3, 0, 0)
        feed = await runs_.feed()
        assert (feed.etag, feed.last_modified) == ('W/"1"', "Sat, 31 Jan 2026 09:00:00 GMT")
        assert feed.last_checked_at == stamp(START)
        report = await runs_.later()
        asked = [
            (request.headers.get("if-none-match"), request.headers.get("if-modified-since"))
            for request in runs_.web.seen
        ]
        assert asked == [(None, None), ('W/"1"', "Sat, 31 Jan 2026 09:00:00 GMT")]
        assert result(report) == (FeedResult.NO_CHANGE, "")
        assert report.counts == {"new": 0, "updated": 0, "duplicate": 0, "no_change": 1, "failed": 0}
        assert all_met(report)


@in_a_loop
async def test_a_304_is_not_parsed_and_counts_as_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {URL: turns(ok(rss(), etag='"1"'), {"status": 304, "headers": {"ETag": '"2"'}, "body": "<not a feed"})}
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        monkeypatch.setattr("canonry.feeds.read.read_feed", None)  # whoever calls it fails
        await runs_.later(days=40)
        assert {row["last_seen_at"] for row in await runs_.rows(entries)} == {stamp(runs_.now)}
        assert {row["last_seen_at"] for row in await runs_.rows(sightings)} == {stamp(runs_.now)}
        assert {row["first_seen_at"] for row in await runs_.rows(entries)} == {stamp(START)}
        assert (await runs_.feed()).last_checked_at == stamp(runs_.now)


@in_a_loop
async def test_a_304_that_nobody_asked_for_is_no_answer(tmp_path: Path) -> None:
    async with running({URL: {"status": 304, "headers": {}}}, tmp_path) as runs_:
        assert result(await runs_.run()) == (FeedResult.FAILED, "answered 304")


@in_a_loop
async def test_keys_of_an_item(tmp_path: Path) -> None:
    link = "HTTPS://Posts.Example.com/1?utm_source=rss&amp;id=7#top"
    async with running({URL: ok(feed_of(item("One", link, "id-1")))}, tmp_path) as runs_:
        (record,) = (await runs_.run()).items
        assert {str(key.key_type): key.key_value for key in record.keys} == {
            "guid": f"{URL}:id-1",
            "canonical_url": "https://posts.example.com/1?id=7",
            "legacy_guid": "guid:id-1",
        }
        assert record == ItemRecord(
            ItemOutcome.NEW,
            URL,
            "One",
            "HTTPS://Posts.Example.com/1?utm_source=rss&id=7#top",
            record.keys,
            f"guid:{URL}:id-1",
            "high",
            stamp(START),
            stamp(START),
        )
        assert len(await runs_.rows(entry_identities)) == 3


@in_a_loop
async def test_without_guid_the_url_and_without_both_a_hash_of_low_confidence(tmp_path: Path) -> None:
    body = feed_of(item("By URL", "https://p.example.com/1"), item("Neither"), item(guid="alone"))
    async with running({URL: ok(body)}, tmp_path) as runs_:
        report = await runs_.run()
        by_url, neither, alone = report.items
        assert (by_url.dedupe_key, by_url.match_confidence) == ("url:https://p.example.com/1", "high")
        assert neither.dedupe_key.startswith("hash:")
        assert ([key.key_type for key in neither.keys], neither.match_confidence) == ([KeyType.FALLBACK_HASH], "low")
        assert (alone.dedupe_key, alone.match_confidence) == (f"guid:{URL}:alone", "high")
        assert all_met(report)
        assert counts(await runs_.later()) == (0, 0, 3)


@in_a_loop
async def test_order_of_lookups(tmp_path: Path) -> None:
    """guid before URL before the legacy keys; what matched by one learns the others."""
    one = item("One", "https://p.example.com/1", "g1")
    two = item("Two", "https://p.example.com/2", "g2")
    swapped = item("One", "https://p.example.com/2", "g1"), item("Two", "https://p.example.com/1", "g2")
    async with running({URL: turns(ok(feed_of(one, two)), ok(feed_of(*swapped)))}, tmp_path) as runs_:
        await runs_.run()
        before = {row["guid"]: row["id"] for row in await runs_.rows(entries)}
        report = await runs_.later()
        assert counts(report) == (0, 2, 0)  # known by guid although the URL belongs to the other
        assert {row["guid"]: row["id"] for row in await runs_.rows(entries)} == before


@in_a_loop
async def test_a_guid_that_changes_is_followed_by_the_url(tmp_path: Path) -> None:
    old = item("One", "http://www.p.example.com/1", "old")
    new = item("One", "https://p.example.com/1?utm_medium=feed", "new")
    elsewhere = item("One", "https://q.example.com/1", "new")
    async with running({URL: turns(ok(feed_of(old)), ok(feed_of(new)), ok(feed_of(elsewhere)))}, tmp_path) as runs_:
        assert counts(await runs_.run()) == (1, 0, 0)
        assert (await runs_.later()).new == 0
        assert (await runs_.later()).new == 0  # it has learned the new guid
        assert len(await runs_.rows(entries)) == 1


@in_a_loop
async def test_legacy_keys_are_known(tmp_path: Path) -> None:
    async with running({URL: ok(rss(1, 2, 3))}, tmp_path) as runs_:
        await _legacy_entry(runs_, dedupe_key="x", key=("legacy_guid", "guid:id-1"))
        await _legacy_entry(runs_, dedupe_key=f"guid:{URL}:id-2", key=None)
        assert counts(await runs_.run()) == (1, 0, 2)
        assert counts(await runs_.later()) == (0, 0, 3)


async def _legacy_entry(runs_: Runs, *, dedupe_key: str, key: tuple[str, str] | None) -> None:
    def write(connection: Any) -> None:
        values = {"dedupe_key": dedupe_key, "match_confidence": "high", "first_seen_at": "2025", "last_seen_at": "2025"}
        made = connection.execute(entries.insert().values(values).returning(entries.c.id)).scalar_one()
        if key is not None:
            row = {"key_type": key[0], "key_value": key[1], "entry_id": made, "policy": "entry@1"}
            connection.execute(entry_identities.insert().values(row))

    await runs_.store.database.write(write)


@in_a_loop
async def test_one_entry_with_a_sighting_per_feed(tmp_path: Path) -> None:
    planet = "https://planet.example.com/feed"
    one, two = item("One", "https://p.example.com/1", "a"), item("Two", "https://p.example.com/2", "b")
    copied, other = item("One", "https://p.example.com/1", "c"), item("Other", "https://p.example.com/2", "d")
    async with running({URL: ok(feed_of(one, two)), planet: ok(feed_of(copied, other))}, tmp_path) as runs_:
        await runs_.run()
        assert counts(await runs_.run(planet)) == (1, 0, 1)
        shared = await runs_.store.items(only_duplicates=True)
        assert sorted((each.title, each.feed_url) for each in shared) == [
            ("One", URL),
            ("One", planet),
            ("Other", planet),
            ("Two", URL),
        ]
        assert len({each.entry_id for each in shared}) == 3


@in_a_loop
async def test_same_content_is_a_touch_and_other_content_an_update(tmp_path: Path) -> None:
    edited = rss(1).replace("Text of 1", "Text of 1, corrected")
    async with running({URL: turns(ok(rss(1)), ok(rss(1)), ok(edited))}, tmp_path) as runs_:
        await runs_.run()
        assert counts(await runs_.later()) == (0, 0, 1)
        (row,) = await runs_.rows(entries)
        assert (row["first_seen_at"], row["last_seen_at"]) == (stamp(START), stamp(runs_.now))
        report = await runs_.later()
        assert counts(report) == (0, 1, 0)
        (record,) = report.items
        assert (record.outcome, record.first_seen_at) == ("updated", stamp(START))
        (after,) = await runs_.rows(entries)
        assert after["content_hash"] != row["content_hash"]
        assert after["id"] == row["id"]


@in_a_loop
async def test_retention(tmp_path: Path) -> None:
    """A record goes only when a document, read long enough after it was last seen, lacks it."""
    pages = {URL: turns(ok(rss(1, 2)), ok(rss(2, 3)), gone(500), ok(rss(2, 3)), ok(rss(2, 3)), ok(rss(1, 2, 3)))}
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        await runs_.later(days=10)  # 1 is gone from the document; last seen on day 0
        await runs_.later(days=25)  # an outage deletes nothing
        assert len(await runs_.rows(entries)) == 3
        await runs_.later(hours=-26 + 2)
        assert len(await runs_.rows(entries)) == 2
        await runs_.later(days=1)
        assert counts(await runs_.later()) == (1, 0, 2)  # and is new when it comes back


@pytest.mark.parametrize(("days", "left"), [(1, 1), (30, 2)])
@in_a_loop
async def test_seen_ttl_days(tmp_path: Path, days: int, left: int) -> None:
    async with running({URL: turns(ok(rss(1)), ok(rss(2)))}, tmp_path) as runs_:
        await runs_.run()
        await runs_.later(days=2, seen_ttl_days=days)
        assert len(await runs_.rows(entries)) == left


# Seed 001: error handling


@in_a_loop
async def test_a_bad_source_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    bad = "https://example.com/bad"
    async with running({URL: ok(rss()), bad: ok("<svg/>")}, tmp_path) as runs_:
        report = await runs_.run(bad, "no url", "ftp://example.com/", "http://me:secret@10.0.0.1/", URL)
        found = {outcome.feed_url: (outcome.result, outcome.reason) for outcome in report.feeds}
        assert found[bad] == (FeedResult.FAILED, "the root element is <svg>")
        assert found["no url"][0] == found["ftp://example.com/"][0] == FeedResult.FAILED
        assert "10.0.0.1 is a private address" in found["http://me:secret@10.0.0.1/"][1]
        assert found[URL] == (FeedResult.INGESTED, "")
        assert (report.new, report.failed) == (3, 4)
        assert (await runs_.feed(bad)).failure == "the root element is <svg>"
        (run,) = await runs_.rows(runs)
        assert run["finished_at"] == stamp(START)
        assert '"failed": 4' in run["counts"]


@pytest.mark.parametrize("where", ["a file as a folder", "no database", "another kind"])
@in_a_loop
async def test_a_store_that_cannot_be_opened(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("this is not a database, and long enough to be looked at as one\n" * 100)
    store = {
        "a file as a folder": f"sqlite:///{tmp_path}/file/feeds.db",
        "no database": f"sqlite:///{tmp_path}/file",
        "another kind": "mysql://me:secret@127.0.0.1/feeds",
    }[where]
    twin = "https://example.com/again"
    async with LoopbackWeb({URL: ok(rss()), twin: ok(rss())}) as web, web.client() as client:
        report = await canonry.ingest([URL, twin], store, fetch=client.fetch, concurrency=1)
    (warning,) = report.warnings
    assert warning.endswith("this run remembers items in memory only")
    assert "secret" not in warning
    assert counts(report) == (3, 0, 3)  # deduplicated in memory
    assert unmet(report) == [CheckName.PERSISTED]


@in_a_loop
async def test_an_unfinished_rekey_is_said_and_not_worked_around(tmp_path: Path) -> None:
    async with running({URL: ok(rss())}, tmp_path) as runs_:
        row = {
            "from_policy": "entry@1",
            "to_policy": "bookmark@1",
            "status": "running",
            "started_at": stamp(START),
        }
        await runs_.store.database.write(lambda connection: connection.execute(insert(rekeys).values(row)))
        with pytest.raises(StoreError, match="canonry rekey entry@1 bookmark@1"):
            await runs_.run()


@in_a_loop
async def test_a_store_of_a_newer_release_is_said_and_not_worked_around(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/feeds.db"
    with Database(url) as database:
        database.write_now(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '9'")))
    with pytest.raises(StoreError, match="made by a newer canonry"):
        await canonry.ingest([URL], url, fetch=lambda *_, **__: pytest.fail("nothing is asked"))


@in_a_loop
async def test_a_store_that_breaks_in_the_middle(tmp_path: Path) -> None:
    urls = [f"https://example.com/{number}" for number in range(4)]
    pages = {url: ok(feed_of(item("T", f"https://p.example.com/{url[-1]}", "g")), etag='"1"') for url in urls}
    async with running(pages, tmp_path) as runs_:
        await runs_.run(*urls)

        def breaks(_: FeedOutcome) -> None:
            runs_.store.database.write_now(
                lambda connection: connection.execute(text("DROP TABLE IF EXISTS sightings"))
            )

        report = await runs_.later(*urls, on_feed=breaks, concurrency=2)
        assert len(report.feeds) == 4
        assert report.failed == 0
        assert report.new > 0
        (warning,) = report.warnings
        assert "no such table: sightings" in warning
        assert unmet(report) == [CheckName.PERSISTED]


@in_a_loop
async def test_callbacks_see_no_passwords(tmp_path: Path) -> None:
    url, seen = URL.replace("//", "//me:secret@"), list[object]()
    async with running({URL: ok(rss())}, tmp_path) as runs_:
        report = await runs_.run(url, on_feed=seen.append, on_item=seen.append)
    assert report.new and len(seen) > report.new
    assert "secret" not in repr(seen)
    assert [each.feed_url for each in report.feeds] == [url]  # for the caller to know which it was


@in_a_loop
async def test_what_a_callback_raises_reaches_the_caller(tmp_path: Path) -> None:
    def refuse(_: object) -> None:
        raise OSError("no space left")

    async with running({URL: ok(rss())}, tmp_path) as runs_:
        with pytest.raises(OSError, match="no space left"):
            await runs_.run(on_item=refuse)
        with pytest.raises(OSError, match="no space left"):
            await runs_.run(on_feed=refuse)


@in_a_loop
async def test_a_fetch_of_the_callers_own_may_fail_in_its_own_way() -> None:
    async def fetch(url: str, **_: object) -> Response:
        if url == URL:
            return Response(200, url, body=rss().encode())
        raise ConnectionRefusedError("by https://me:secret@example.com/")

    report = await canonry.ingest([URL, "https://example.org/"], "sqlite://", fetch=fetch)
    assert sorted((each.result, each.reason) for each in report.feeds) == [
        ("failed", "ConnectionRefusedError: by https://***@example.com/"),
        ("ingested", ""),
    ]


@in_a_loop
async def test_what_nobody_thought_of_costs_one_feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = "https://example.com/bad"

    def stumbles(body: bytes, **options: Any) -> Feed:
        if b"stumble" in body:
            raise ZeroDivisionError("at https://me:secret@example.com/")
        return read_feed(body, **options)

    monkeypatch.setattr("canonry.feeds.read.read_feed", stumbles)
    async with running({URL: ok(rss()), bad: ok("<rss>stumble</rss>")}, tmp_path) as runs_:
        report = await runs_.run(bad, URL)
        found = {outcome.feed_url: (outcome.result, outcome.reason) for outcome in report.feeds}
        assert found[bad] == (FeedResult.FAILED, "ZeroDivisionError: at https://***@example.com/")
        assert found[URL] == (FeedResult.INGESTED, "")
        assert (await runs_.feed(bad)).failure == found[bad][1]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (ok(rss()), (FeedResult.REMOVED, "the feed was removed while it was polled")),
        ({"status": 304, "headers": {}}, (FeedResult.NO_CHANGE, "")),
        ({"status": 500}, (FeedResult.FAILED, "answered 500")),
    ],
)
@in_a_loop
async def test_a_feed_that_is_removed_while_it_is_polled(
    tmp_path: Path, answer: dict[str, Any], outcome: tuple[FeedResult, str]
) -> None:
    async with running({URL: turns(ok(rss(), etag='"1"'), answer)}, tmp_path) as runs_:
        await runs_.run()

        async def removing(url: str, **options: Any) -> Response:
            response = await runs_.client.fetch(url, **options)
            await runs_.store.remove((await runs_.feed()).id)
            return response

        report = await canonry.ingest([URL], runs_.store.database, fetch=removing, clock=lambda: runs_.now)
        assert result(report) == outcome
        assert await runs_.rows(entries) == []
        assert await runs_.store.all() == []


# Seed 001: metadata only


@in_a_loop
async def test_no_text_is_kept(tmp_path: Path) -> None:
    async with running({URL: ok(rss(text="The whole story of"))}, tmp_path) as runs_:
        assert all_met(await runs_.run())
    assert not [file for file in tmp_path.iterdir() if b"whole story" in file.read_bytes()]


# Beyond the seed: when to ask again


@pytest.mark.parametrize(
    ("after", "wait"), [("120", 120), (format_datetime(START + timedelta(hours=5), usegmt=True), 5 * 3600)]
)
@in_a_loop
async def test_retry_after_is_respected(tmp_path: Path, after: str, wait: int) -> None:
    async with running({URL: turns(gone(503, **{"Retry-After": after}), ok(rss()))}, tmp_path) as runs_:
        assert result(await runs_.run()) == (FeedResult.FAILED, f"answered 503, retry after {wait} s")
        feed = await runs_.feed()
        assert feed.retry_at == stamp(START + timedelta(seconds=wait))
        assert feed.next_check_at is not None and feed.next_check_at >= feed.retry_at
        runs_.now += timedelta(seconds=wait - 1)
        report = await runs_.run()
        assert result(report) == (FeedResult.WAITING, f"the server asked to wait until {feed.retry_at}")
        assert (report.failed, all_met(report)) == (0, True)
        assert len(runs_.web.seen) == 1
        runs_.now += timedelta(seconds=1)
        assert result(await runs_.run()) == (FeedResult.INGESTED, "")
        assert (await runs_.feed()).retry_at is None


@in_a_loop
async def test_a_server_cannot_make_us_wait_forever(tmp_path: Path) -> None:
    async with running({URL: gone(429, **{"Retry-After": "9" * 50})}, tmp_path) as runs_:
        await runs_.run()
        assert (await runs_.feed()).retry_at == stamp(START + timedelta(days=7))


@in_a_loop
async def test_gone_is_stopped(tmp_path: Path) -> None:
    async with running({URL: turns(ok(rss()), gone(410))}, tmp_path) as runs_:
        await runs_.run()
        report = await runs_.later()
        assert result(report) == (FeedResult.STOPPED, "answered 410")
        assert report.failed == 1
        assert (await runs_.feed()).status == "stopped"
        assert await runs_.store.due(START + timedelta(days=400)) == []
        assert len(await runs_.rows(entries)) == 3


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
async def test_ttl_and_cache_control(tmp_path: Path, headers: dict[str, str], ttl: str, hours: int) -> None:
    async with running({URL: ok(rss(extra=ttl), **headers)}, tmp_path) as runs_:
        await runs_.run()
        feed = await runs_.feed()
        assert feed.next_check_at is not None
        wait = (datetime.fromisoformat(feed.next_check_at) - START) / timedelta(hours=1)
        assert 0.95 * hours <= wait <= 1.05 * hours
        assert await runs_.store.due(START + timedelta(hours=0.9 * hours)) == []
        assert [each.url for each in await runs_.store.due(START + timedelta(hours=1.1 * hours))] == [URL]


@in_a_loop
async def test_the_ttl_holds_after_a_304(tmp_path: Path) -> None:
    async with running({URL: ok(rss(extra="<ttl>360</ttl>"), etag='"1"')}, tmp_path) as runs_:
        await runs_.run()
        await runs_.later(days=1)
        feed = await runs_.feed()
        assert feed.next_check_at is not None
        assert 5.7 <= (datetime.fromisoformat(feed.next_check_at) - runs_.now) / timedelta(hours=1) <= 6.3


# Beyond the seed: where feeds go


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
async def test_a_redirect_to_other_content_is_never_adopted(tmp_path: Path) -> None:
    parked = feed_of(*(item(f"Ad {number}", f"https://ads.example.com/{number}") for number in range(3)))
    pages = {URL: turns(ok(rss()), moved(NEW_URL)), NEW_URL: turns(ok(parked), ok(parked.replace("ads", "bds")))}
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        await runs_.later()
        assert (await runs_.feed()).url == URL


@in_a_loop
async def test_a_temporary_redirect_is_not_adopted_and_ends_the_count(tmp_path: Path) -> None:
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
async def test_a_304_behind_a_redirect_is_a_sighting_but_no_content(tmp_path: Path) -> None:
    unchanged = {"status": 304, "headers": {}}
    pages = {
        URL: turns(ok(rss(), etag='"1"'), moved(NEW_URL)),
        NEW_URL: turns(unchanged, unchanged, unchanged, unchanged, ok(rss(2, 3, 4))),
    }
    async with running(pages, tmp_path) as runs_:
        for _ in range(5):
            await runs_.later()
        feed = await runs_.feed()
        assert (feed.url, feed.moved_sightings) == (URL, 4)
        assert (await runs_.later()).new == 1
        assert (await runs_.feed()).url == NEW_URL


@in_a_loop
async def test_a_move_onto_a_feed_that_is_kept_already(tmp_path: Path) -> None:
    pages = {URL: turns(ok(rss()), moved(NEW_URL)), NEW_URL: ok(rss())}
    async with running(pages, tmp_path) as runs_:
        for _ in range(5):
            await runs_.later(URL, NEW_URL)
        assert {feed.url for feed in await runs_.store.all()} == {URL, NEW_URL}
        assert len(await runs_.rows(entries)) == 3


@in_a_loop
async def test_a_page_leads_to_its_feed(tmp_path: Path) -> None:
    page = '<html><link rel="alternate" type="application/rss+xml" href="/feed#top"><p>Hello'
    pages = {"https://example.com/": ok(page, **{"content-type": "text/html"}), URL: ok(rss())}
    async with running(pages, tmp_path) as runs_:
        assert counts(await runs_.run("https://example.com/")) == (3, 0, 0)
        assert (await runs_.feed("https://example.com/")).url == URL
        asked = len(runs_.web.seen)
        assert counts(await runs_.later("https://example.com/")) == (0, 0, 3)
        assert [request.url for request in runs_.web.seen[asked:]] == [URL]


@in_a_loop
async def test_a_page_where_a_feed_was_is_an_error_of_the_day(tmp_path: Path) -> None:
    page = '<html><link rel="alternate" type="application/rss+xml" href="https://ads.example.com/feed">'
    async with running({URL: turns(ok(rss()), ok(page), ok(rss()))}, tmp_path) as runs_:
        await runs_.run()
        assert result(await runs_.later()) == (FeedResult.FAILED, "a web page")
        assert counts(await runs_.later()) == (0, 0, 3)


@in_a_loop
async def test_a_page_without_a_feed(tmp_path: Path) -> None:
    async with running({URL: ok("<html><p>Hello")}, tmp_path) as runs_:
        assert result(await runs_.run()) == (FeedResult.FAILED, "the URL is a web page that links to no feed")


@in_a_loop
async def test_hubs_are_recorded(tmp_path: Path) -> None:
    hubs = "".join(f'<atom:link rel="hub" href="https://hub{number}.example.com/"/>' for number in (1, 2))
    async with running({URL: ok(rss(extra=hubs))}, tmp_path) as runs_:
        await runs_.run()
        feed = await runs_.feed()
        assert feed.hubs.split("\n") == ["https://hub1.example.com/", "https://hub2.example.com/"]
        assert (feed.title, feed.format) == ("Blog", "rss")


@in_a_loop
async def test_json_feeds(tmp_path: Path) -> None:
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


# Beyond the seed: many at once, and politely


@in_a_loop
async def test_each_url_is_asked_once_and_every_worker_has_work(tmp_path: Path) -> None:
    urls = [f"https://{host}.example.com/{number}" for host in "abcd" for number in range(5)]
    async with running({url: {**ok(rss()), "delay_ms": 20} for url in urls}, tmp_path) as runs_:
        report = await runs_.run(*urls, *urls, concurrency=8, per_host=2)
        assert sorted(outcome.feed_url for outcome in report.feeds) == urls
        assert len(runs_.web.seen) == 20
        first = [request.headers["host"] for request in runs_.web.seen[:8]]
        assert len(set(first)) == 4  # though the list begins with five of one host


@in_a_loop
async def test_the_server_sees_the_limit_and_the_delay() -> None:
    open_now = most = 0
    begun: list[float] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        while await read_request(reader) is not None:
            begun.append(asyncio.get_running_loop().time())
            open_now += 1
            most = max(most, open_now)
            await asyncio.sleep(0.05)
            open_now -= 1
            writer.write(http_answer(200, {"Content-Type": "text/xml"}, body=rss().encode()))
            await writer.drain()

    async with Listener(talk) as server, make_client() as client:
        urls = [f"http://127.0.0.2:{server.port}/{number}" for number in range(8)]
        report = await canonry.ingest(urls, "sqlite://", fetch=client.fetch, per_host=3)
        assert (len(report.feeds), report.failed, most) == (8, 0, 3)
        begun.clear()
        most = 0
        report = await canonry.ingest(urls[:4], "sqlite://", fetch=client.fetch, per_host=2, delay=0.1)
        assert (report.failed, len(begun)) == (0, 4)
        assert begun[-1] - begun[0] > 0.25


@in_a_loop
async def test_two_runs_at_once_keep_each_item_once(tmp_path: Path) -> None:
    urls = [f"https://{number}.example.com/feed" for number in range(20)]
    pages = {url: ok(feed_of(item("T", f"https://p.example.com/{url}", "g"), item("S", "https://p.example.com/s"))) for url in urls}  # fmt: skip
    async with running(pages, tmp_path) as runs_:
        await asyncio.gather(runs_.run(*urls), runs_.run(*reversed(urls)))
        assert len(await runs_.rows(entries)) == 21
        assert len(await runs_.rows(sightings)) == 40
        assert len(await runs_.store.all()) == 20


@in_a_loop
async def test_stopped_in_the_middle_and_repeated(tmp_path: Path) -> None:
    """What was committed stays, the rest comes with the next run: nothing is lost, nothing twice."""
    urls = [f"https://{number}.example.com/feed" for number in range(20)]
    pages = {url: {**ok(rss(url[8:].partition(".")[0])), "delay_ms": 5} for url in urls}
    async with running(pages, tmp_path) as runs_:
        done: list[FeedOutcome] = []

        def stop_after_five(outcome: FeedOutcome) -> None:
            done.append(outcome)
            if len(done) == 5:
                task.cancel()

        task = asyncio.create_task(runs_.run(*urls, on_feed=stop_after_five, concurrency=4))
        with pytest.raises(asyncio.CancelledError):
            await task
        kept = len(await runs_.rows(entries))
        assert len(done) <= kept < 20
        assert (await runs_.later(*urls)).new == 20 - kept
        assert len(await runs_.rows(entries)) == 20


# The worst of the web, beside what is good


GOOD = {f"https://good{number}.example.com/feed": ok(rss(number)) for number in range(10)}
BOMB = gzip.compress(b"<rss version='2.0'><channel><title>" + b"A" * 50_000_000)
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "https://bad.example.com/html": (
        ok("<!doctype html><title>Sorry</title>"),
        "the URL is a web page that links to no feed",
    ),
    "https://bad.example.com/500": (gone(500), "answered 500"),
    "https://bad.example.com/404": (gone(404), "answered 404"),
    "https://bad.example.com/empty": (ok(""), "empty"),
    "https://bad.example.com/text": (ok("just words"), "neither XML nor JSON"),
    "https://bad.example.com/json": (ok('{"items": ['), "broken JSON"),
    "https://bad.example.com/deep": (ok("[" * 100_000), "JSON nested too deep"),
    "https://bad.example.com/loop": (moved("https://bad.example.com/pool"), "redirect loop"),
    "https://bad.example.com/pool": (moved("https://bad.example.com/loop"), "redirect loop"),
    "https://bad.example.com/inside": (moved("http://169.254.169.254/latest"), "metadata"),
    "https://bad.example.com/slow": ({**ok(rss()), "delay_ms": 60_000}, "no complete response within 5 s"),
    "https://bad.example.com/large": (
        {"status": 200, "body_repeat": {"prefix": rss()[:-20], "unit": " ", "count": 11 * 1024 * 1024}},
        "larger than 10485760 bytes",
    ),
}
READABLE: dict[str, tuple[dict[str, Any], int]] = {
    "https://odd.example.com/cut": (ok(rss(*range(100, 150))[:-500]), 45),
    "https://odd.example.com/latin": (
        {"status": 200, "headers": {"content-type": "text/xml; charset=utf-8"}, "body_base64": "PHJzcz48Y2hhbm5lbD48aXRlbT48dGl0bGU+Y2Fm6TwvdGl0bGU+PGd1aWQ+eDwvZ3VpZD48L2l0ZW0+PC9jaGFubmVsPjwvcnNzPg=="},
        1,
    ),
    "https://odd.example.com/laughs": (
        ok(f'<!DOCTYPE rss [<!ENTITY l0 "ha">{LAUGHS}]>{feed_of(item("&l9;", guid="laughs"))}'), 1
    ),
    "https://odd.example.com/ten-megabytes": (ok(feed_of(item("Big", guid="big", text="x" * 9_000_000))), 1),
}  # fmt: skip


@in_a_loop
async def test_hostile_feeds_beside_good_ones(tmp_path: Path) -> None:
    """Each bad one is reported by its name and reason, every good one is ingested."""
    import base64

    bomb = {"status": 200, "headers": {"Content-Encoding": "gzip"}, "body_base64": base64.b64encode(BOMB).decode()}
    wanted = {url: reason for url, (_, reason) in REFUSED.items()}
    pages = {**GOOD, **{url: page for url, (page, _) in (*REFUSED.items(), *READABLE.items())}}
    pages["https://bad.example.com/bomb"] = bomb
    wanted["https://bad.example.com/bomb"] = "larger than 10485760 bytes"

    async def not_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"220 mail.example.com ESMTP\r\n")

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(http_answer(200, {"Content-Length": "100000"}, body=rss().encode()))

    async with running(pages, tmp_path) as runs_, Listener(not_http) as mail, Listener(half) as cut:
        runs_.client = runs_.web.client(timeout=5)
        wanted[f"http://127.0.0.2:{mail.port}/"] = ""
        wanted[f"http://127.0.0.2:{cut.port}/"] = ""
        with socket.socket() as closed:
            closed.bind(("127.0.0.2", 0))
            wanted[f"http://127.0.0.2:{closed.getsockname()[1]}/"] = "no connection"
            async with runs_.client:
                report = await runs_.run(*wanted, *READABLE, *GOOD, per_host=20)
        found = {outcome.feed_url: outcome for outcome in report.feeds}
        for url, reason in wanted.items():
            assert found[url].result is FeedResult.FAILED, found[url]
            assert reason in found[url].reason
            assert found[url].reason
        assert [found[url].new for url in GOOD] == [1] * 10
        for url, (_, least) in READABLE.items():
            assert found[url].new >= least, found[url]
        assert all_met(report)
        assert len(report.feeds) == len(wanted) + len(READABLE) + len(GOOD)
