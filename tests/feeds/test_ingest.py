"""Ingest over a real web on loopback: deduplication, failures, many feeds at once (contract I1–I7)."""

from __future__ import annotations

import asyncio
import base64
import gzip
import socket
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import insert, text

import canonry
from canonry.core.keys import KeyType
from canonry.errors import FailureKind, NewerStore, RekeyUnfinished, StoreError
from canonry.feeds.ingest_report import CheckName, FeedOutcome, FeedResult, ItemRecord
from canonry.feeds.item_matching import ItemOutcome
from canonry.feeds.read import Feed, read_feed
from canonry.feeds.stored_items import ItemSearch
from canonry.net.response import Response
from canonry.store.database import Database
from canonry.store.schema import entries, entry_identities, rekeys, runs, sightings, stamp
from feed_texts import gone, moved, ok, rss
from ingest_runs import START, URL, Runs, all_met, counts, feed_of, item, result, running, turns, unmet
from loopback import Listener, LoopbackWeb, in_a_loop, make_client, make_http_response, read_request

if TYPE_CHECKING:
    from pathlib import Path


# Persistent deduplication (contract I1–I5)


@in_a_loop
async def test_validators_are_stored_and_sent_with_the_next_request(tmp_path: Path) -> None:
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
        assert result(report) == (FeedResult.NO_CHANGE, None)
        assert report.counts == {"new": 0, "updated": 0, "duplicate": 0, "no_change": 1, "failed": 0}
        assert all_met(report)


@in_a_loop
async def test_a_304_is_not_parsed_and_its_items_count_as_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {URL: turns(ok(rss(), etag='"1"'), {"status": 304, "headers": {"ETag": '"2"'}, "body": "<not a feed"})}
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        monkeypatch.setattr("canonry.feeds.read.read_feed", None)  # calling it fails
        await runs_.later(days=40)
        assert {row["last_seen_at"] for row in await runs_.rows(entries)} == {stamp(runs_.now)}
        assert {row["last_seen_at"] for row in await runs_.rows(sightings)} == {stamp(runs_.now)}
        assert {row["first_seen_at"] for row in await runs_.rows(entries)} == {stamp(START)}
        assert (await runs_.feed()).last_checked_at == stamp(runs_.now)


@in_a_loop
async def test_a_document_that_was_cut_short_is_fetched_again_as_a_whole(tmp_path: Path) -> None:
    whole = feed_of(
        item("One", "https://posts.example.com/1", "id-1"), item("Two", "https://posts.example.com/2", "id-2")
    )
    cut = whole[: whole.index("id-2") + 2]
    async with running({URL: turns(ok(cut, etag='"1"'), ok(whole, etag='"1"'))}, tmp_path) as runs_:
        report = await runs_.run()
        assert (counts(report), report.cut_items, report.feeds[0].cut_items) == ((1, 0, 0), 1, 1)
        assert (await runs_.feed()).etag == ""
        report = await runs_.later()
        assert (counts(report), report.cut_items) == ((1, 0, 1), 0)
        assert runs_.web.seen[-1].headers.get("if-none-match") is None


@in_a_loop
async def test_a_document_that_was_cut_between_two_items_is_fetched_again_and_deletes_nothing(tmp_path: Path) -> None:
    first, second = (item(name, f"https://posts.example.com/{name}", f"id-{name}") for name in ("1", "2"))
    whole = feed_of(first, second)
    cut = whole[: whole.index("</item>") + len("</item>")]
    pages = {URL: turns(ok(whole), ok(cut, etag='"1"'), ok(whole, etag='"1"'))}
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        assert counts(await runs_.later(days=40)) == (0, 0, 1)
        assert (await runs_.feed()).etag == "" and len(await runs_.rows(entries)) == 2
        assert counts(await runs_.later()) == (0, 0, 2)
        assert runs_.web.seen[-1].headers.get("if-none-match") is None


@in_a_loop
async def test_a_document_that_was_cut_deletes_nothing(tmp_path: Path) -> None:
    first, second = (item(name, f"https://posts.example.com/{name}", f"id-{name}") for name in ("1", "2"))
    cut = feed_of(first, second)[:-60]
    pages = {URL: turns(ok(feed_of(first, second)), ok(cut), ok(feed_of(first)))}
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        assert (await runs_.later(days=40)).cut_items == 1
        assert len(await runs_.rows(entries)) == 2
        await runs_.later(days=1)
        assert len(await runs_.rows(entries)) == 1


@in_a_loop
@pytest.mark.parametrize("opened", ["<![CDATA[", "<!--"])
async def test_what_follows_an_unclosed_section_is_read_from_the_mended_document(tmp_path: Path, opened: str) -> None:
    items = [item(name, f"https://posts.example.com/{name}", f"id-{name}") for name in ("1", "2", "3")]
    whole, old = feed_of(*items), feed_of(items[0], items[2])
    broken = whole.replace("<title>2", f"<title>{opened}2")
    assert broken != whole
    pages = {URL: turns(ok(old), ok(broken, etag='"1"'), ok(whole, etag='"1"'))}
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        report = await runs_.later(days=40)
        assert (counts(report), report.cut_items) == ((0, 0, 1), 2)
        assert len(await runs_.rows(entries)) == 2  # the third item may still be in the document
        assert (counts(await runs_.later()), runs_.web.seen[-1].headers.get("if-none-match")) == ((1, 0, 2), None)


@in_a_loop
async def test_a_304_to_an_unconditional_request_is_a_failure(tmp_path: Path) -> None:
    async with running({URL: {"status": 304, "headers": {}}}, tmp_path) as runs_:
        assert result(await runs_.run()) == (FeedResult.FAILED, FailureKind.STATUS)


@in_a_loop
async def test_an_item_is_recorded_with_all_its_keys(tmp_path: Path) -> None:
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
            number=1,
            entry_id=1,
            guid="id-1",
            feeds=(URL,),
        )
        assert len(await runs_.rows(entry_identities)) == 3


@in_a_loop
async def test_items_without_guid_or_link_are_known_by_what_they_have(tmp_path: Path) -> None:
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
async def test_the_guid_decides_before_the_url(tmp_path: Path) -> None:
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
async def test_an_item_with_a_new_guid_is_recognized_by_its_url(tmp_path: Path) -> None:
    old = item("One", "http://www.p.example.com/1", "old")
    new = item("One", "https://p.example.com/1?utm_medium=feed", "new")
    elsewhere = item("One", "https://q.example.com/1", "new")
    async with running({URL: turns(ok(feed_of(old)), ok(feed_of(new)), ok(feed_of(elsewhere)))}, tmp_path) as runs_:
        assert counts(await runs_.run()) == (1, 0, 0)
        assert (await runs_.later()).new == 0
        assert (await runs_.later()).new == 0  # it has learned the new guid
        assert len(await runs_.rows(entries)) == 1


@in_a_loop
async def test_items_are_recognized_by_legacy_keys(tmp_path: Path) -> None:
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
        shared = await runs_.store.list_items(ItemSearch(only_duplicates=True))
        assert sorted((each.title, [feed.url for feed in each.feeds]) for each in shared) == [
            ("One", [URL, planet]),
            ("Other", [planet]),
            ("Two", [URL]),
        ]


@in_a_loop
async def test_equal_content_is_a_duplicate_and_other_content_an_update(tmp_path: Path) -> None:
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
async def test_an_item_is_deleted_when_a_document_lacks_it_long_after_it_was_last_seen(tmp_path: Path) -> None:
    pages = {URL: turns(ok(rss(1, 2)), ok(rss(2, 3)), gone(500), ok(rss(2, 3)), ok(rss(2, 3)), ok(rss(1, 2, 3)))}
    async with running(pages, tmp_path) as runs_:
        await runs_.run()
        await runs_.later(days=10)  # 1 is gone from the document; last seen on day 0
        await runs_.later(days=25)  # an outage deletes nothing
        assert len(await runs_.rows(entries)) == 3
        await runs_.later(hours=-26 + 2)
        assert len(await runs_.rows(entries)) == 2
        await runs_.later(days=1)
        assert counts(await runs_.later()) == (0, 0, 3)  # and is no news when it comes back
        assert len(await runs_.rows(entries)) == 3


@pytest.mark.parametrize(("days", "left"), [(1, 1), (30, 2)])
@in_a_loop
async def test_seen_ttl_days_sets_how_long_items_are_kept(tmp_path: Path, days: int, left: int) -> None:
    async with running({URL: turns(ok(rss(1)), ok(rss(2)))}, tmp_path) as runs_:
        await runs_.run()
        await runs_.later(days=2, seen_ttl_days=days)
        assert len(await runs_.rows(entries)) == left


# Failures (contract I6)


@in_a_loop
async def test_a_bad_source_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    bad = "https://example.com/bad"
    async with running({URL: ok(rss()), bad: ok("<svg/>")}, tmp_path) as runs_:
        report = await runs_.run(bad, "no url", "ftp://example.com/", "http://me:secret@10.0.0.1/", URL)
        found = {outcome.feed_url: (outcome.result, outcome.failure) for outcome in report.feeds}
        assert found[bad] == (FeedResult.FAILED, FailureKind.NOT_A_FEED)
        invalid = (FeedResult.FAILED, FailureKind.INVALID_URL)
        assert (found["no url"], found["ftp://example.com/"]) == (invalid, invalid)
        assert found["http://me:secret@10.0.0.1/"] == (FeedResult.FAILED, FailureKind.REFUSED)
        assert found[URL] == (FeedResult.INGESTED, None)
        assert (report.new, report.failed) == (3, 4)
        [reason] = [outcome.reason for outcome in report.feeds if outcome.feed_url == bad]
        assert (await runs_.feed(bad)).failure == reason == "the root element is <svg>"
        (run,) = await runs_.rows(runs)
        assert run["finished_at"] == stamp(START)
        assert '"failed": 4' in run["counts"]


@pytest.mark.parametrize("where", ["a file as a folder", "no database", "no server"])
@in_a_loop
async def test_a_run_without_a_store_deduplicates_in_memory(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("this is not a database, and long enough to be looked at as one\n" * 100)
    store = {
        "a file as a folder": f"sqlite:///{tmp_path}/file/feeds.db",
        "no database": f"sqlite:///{tmp_path}/file",
        "no server": "postgresql://me:secret@127.0.0.1:1/feeds",
    }[where]
    twin = "https://example.com/again"
    async with LoopbackWeb({URL: ok(rss()), twin: ok(rss())}) as web, web.client() as client:
        report = await canonry.ingest([URL, twin], store, fetch=client.fetch, concurrency=1)
    (warning,) = report.warnings
    assert warning.endswith("this run stores items in memory only")
    assert "secret" not in warning
    assert counts(report) == (3, 0, 3)  # deduplicated in memory
    assert unmet(report) == [CheckName.PERSISTED]


@in_a_loop
async def test_an_unfinished_rekey_ends_the_run(tmp_path: Path) -> None:
    async with running({URL: ok(rss())}, tmp_path) as runs_:
        row = {
            "from_policy": "entry@1",
            "to_policy": "bookmark@1",
            "status": "running",
            "started_at": stamp(START),
        }
        await runs_.store.database.write(lambda connection: connection.execute(insert(rekeys).values(row)))
        with pytest.raises(RekeyUnfinished):
            await runs_.run()


@in_a_loop
async def test_a_store_of_a_newer_release_ends_the_run(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/feeds.db"
    with Database(url) as database:
        database.write_now(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '9'")))
    with pytest.raises(NewerStore):
        await canonry.ingest([URL], url, fetch=lambda *_, **__: pytest.fail("nothing is asked"))


@in_a_loop
async def test_a_run_goes_on_in_memory_when_the_store_breaks(tmp_path: Path) -> None:
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
async def test_callbacks_receive_masked_urls(tmp_path: Path) -> None:
    url, seen = URL.replace("//", "//me:secret@"), list[object]()
    async with running({URL: ok(rss())}, tmp_path) as runs_:
        report = await runs_.run(url, on_feed=seen.append, on_item=seen.append)
    assert report.new and len(seen) > report.new
    assert "secret" not in repr(seen)
    assert [each.feed_url for each in report.feeds] == [url]  # not masked: the caller must recognise its own URL


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
async def test_an_exception_of_the_callers_fetch_fails_only_its_feed() -> None:
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
async def test_an_unexpected_exception_fails_only_its_feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = "https://example.com/bad"

    def read_or_fail(body: bytes, **options: Any) -> Feed:
        if b"unreadable" in body:
            raise ZeroDivisionError("at https://me:secret@example.com/")
        return read_feed(body, **options)

    monkeypatch.setattr("canonry.feeds.read.read_feed", read_or_fail)
    async with running({URL: ok(rss()), bad: ok("<rss>unreadable</rss>")}, tmp_path) as runs_:
        report = await runs_.run(bad, URL)
        found = {outcome.feed_url: (outcome.result, outcome.reason) for outcome in report.feeds}
        assert found[bad] == (FeedResult.FAILED, "ZeroDivisionError: at https://***@example.com/")
        assert found[URL] == (FeedResult.INGESTED, "")
        assert (await runs_.feed(bad)).failure == found[bad][1]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (ok(rss()), (FeedResult.REMOVED, None)),
        ({"status": 304, "headers": {}}, (FeedResult.NO_CHANGE, None)),
        ({"status": 500}, (FeedResult.FAILED, FailureKind.STATUS)),
    ],
)
@in_a_loop
async def test_a_feed_may_be_removed_while_it_is_polled(
    tmp_path: Path, answer: dict[str, Any], outcome: tuple[FeedResult, FailureKind | None]
) -> None:
    async with running({URL: turns(ok(rss(), etag='"1"'), answer)}, tmp_path) as runs_:
        await runs_.run()

        async def removing(url: str, **options: Any) -> Response:
            response = await runs_.client.fetch(url, **options)
            await runs_.store.remove((await runs_.feed()).id, START)
            return response

        report = await canonry.ingest([URL], runs_.store.database, fetch=removing, clock=lambda: runs_.now)
        assert result(report) == outcome
        assert await runs_.rows(entries) == []
        assert await runs_.store.list_all() == []


@pytest.mark.parametrize("is_read_only", [False, True])
@in_a_loop
async def test_a_feed_that_is_removed_after_it_was_listed_is_not_added_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_read_only: bool
) -> None:
    other = "https://example.com/other"
    async with running({URL: ok(rss()), other: ok(rss(7))}, tmp_path) as runs_:
        await runs_.run(URL, other)
        await runs_.store.remove((await runs_.feed()).id, START)
        if is_read_only:

            async def fail(*_: object) -> None:
                raise StoreError("the disk is full")

            monkeypatch.setattr(runs_.store.database, "write", fail)
        asked = len(runs_.web.seen)
        report = await runs_.run(URL, other, only_stored=True)
        results = {outcome.feed_url: outcome.result for outcome in report.feeds}
        assert results == {URL: FeedResult.REMOVED, other: FeedResult.INGESTED}
        assert [request.url for request in runs_.web.seen[asked:]] == [other]
        assert report.failed == 0
        assert [feed.url for feed in await runs_.store.list_all()] == [other]


@in_a_loop
async def test_no_text_is_stored(tmp_path: Path) -> None:
    async with running({URL: ok(rss(text="The whole story of"))}, tmp_path) as runs_:
        assert all_met(await runs_.run())
    assert not [file for file in tmp_path.iterdir() if b"whole story" in file.read_bytes()]


# Many feeds at once (contract I7)


@in_a_loop
async def test_each_url_is_fetched_once_and_hosts_take_turns(tmp_path: Path) -> None:
    urls = [f"https://{host}.example.com/{number}" for host in "abcd" for number in range(5)]
    async with running({url: {**ok(rss()), "delay_ms": 20} for url in urls}, tmp_path) as runs_:
        report = await runs_.run(*urls, *urls, concurrency=8, per_host=2)
        assert sorted(outcome.feed_url for outcome in report.feeds) == urls
        assert len(runs_.web.seen) == 20
        first = [request.headers["host"] for request in runs_.web.seen[:8]]
        assert len(set(first)) == 4  # though the list begins with five of one host


@in_a_loop
async def test_per_host_and_delay_limit_what_a_server_sees() -> None:
    open_now = most = 0
    begun: list[float] = []
    is_busy = asyncio.Event()  # as many requests are open at once as may be

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        while await read_request(reader) is not None:
            begun.append(asyncio.get_running_loop().time())
            open_now += 1
            most = max(most, open_now)
            if open_now == 3:
                is_busy.set()
            await is_busy.wait()
            await asyncio.sleep(0.05)  # time for a request too many
            open_now -= 1
            writer.write(make_http_response(200, {"Content-Type": "text/xml"}, body=rss().encode()))
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
async def test_two_runs_at_once_store_each_item_once(tmp_path: Path) -> None:
    urls = [f"https://{number}.example.com/feed" for number in range(20)]
    pages = {url: ok(feed_of(item("T", f"https://p.example.com/{url}", "g"), item("S", "https://p.example.com/s"))) for url in urls}  # fmt: skip
    async with running(pages, tmp_path) as runs_:
        await asyncio.gather(runs_.run(*urls), runs_.run(*reversed(urls)))
        assert len(await runs_.rows(entries)) == 21
        assert len(await runs_.rows(sightings)) == 40
        assert len(await runs_.store.list_all()) == 20


@in_a_loop
async def test_a_cancelled_run_can_be_repeated(tmp_path: Path) -> None:
    """What was committed stays, the rest comes with the next run: nothing is lost or stored twice."""
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


# Hostile feeds


GOOD = {f"https://good{number}.example.com/feed": ok(rss(number)) for number in range(10)}
BOMB = gzip.compress(b"<rss version='2.0'><channel><title>" + b"A" * 50_000_000)
SLOW = "https://bad.example.com/slow"
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
FAILING: dict[str, tuple[dict[str, Any], FailureKind]] = {
    "https://bad.example.com/html": (
        ok("<!doctype html><title>Sorry</title>"),
        FailureKind.NOT_A_FEED,
    ),
    "https://bad.example.com/500": (gone(500), FailureKind.STATUS),
    "https://bad.example.com/404": (gone(404), FailureKind.STATUS),
    "https://bad.example.com/empty": (ok(""), FailureKind.NOT_A_FEED),
    "https://bad.example.com/text": (ok("just words"), FailureKind.NOT_A_FEED),
    "https://bad.example.com/json": (ok('{"items": ['), FailureKind.NOT_A_FEED),
    "https://bad.example.com/deep": (ok("[" * 100_000), FailureKind.NOT_A_FEED),
    "https://bad.example.com/loop": (moved("https://bad.example.com/pool"), FailureKind.REDIRECT_LOOP),
    "https://bad.example.com/pool": (moved("https://bad.example.com/loop"), FailureKind.REDIRECT_LOOP),
    "https://bad.example.com/inside": (moved("http://169.254.169.254/latest"), FailureKind.REFUSED),
    SLOW: ({**ok(rss()), "delay_ms": 600_000}, FailureKind.TIMEOUT),
    "https://bad.example.com/large": (
        {"status": 200, "body_repeat": {"prefix": rss()[:-20], "unit": " ", "count": 11 * 1024 * 1024}},
        FailureKind.TOO_LARGE,
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
async def test_hostile_feeds_fail_and_good_feeds_are_ingested_beside_them(tmp_path: Path) -> None:
    bomb = {"status": 200, "headers": {"Content-Encoding": "gzip"}, "body_base64": base64.b64encode(BOMB).decode()}
    wanted = {url: kind for url, (_, kind) in FAILING.items()}
    pages = {**GOOD, **{url: page for url, (page, _) in (*FAILING.items(), *READABLE.items())}}
    pages["https://bad.example.com/bomb"] = bomb
    wanted["https://bad.example.com/bomb"] = FailureKind.TOO_LARGE

    async def answer_without_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"220 mail.example.com ESMTP\r\n")

    async def answer_half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(make_http_response(200, {"Content-Length": "100000"}, body=rss().encode()))

    async with (
        running(pages, tmp_path) as runs_,
        Listener(answer_without_http) as mail,
        Listener(answer_half) as cut,
        runs_.web.client(timeout=300) as client,
    ):

        async def fetch(url: str, **options: Any) -> Response:
            return await client.fetch(url, **options, timeout=1 if url == SLOW else None)

        wanted[f"http://127.0.0.2:{mail.port}/"] = FailureKind.PROTOCOL
        wanted[f"http://127.0.0.2:{cut.port}/"] = FailureKind.DISCONNECTED
        with socket.socket() as closed:
            closed.bind(("127.0.0.2", 0))
            wanted[f"http://127.0.0.2:{closed.getsockname()[1]}/"] = FailureKind.CONNECT
            report = await runs_.run(*wanted, *READABLE, *GOOD, per_host=20, fetch=fetch)
        found = {outcome.feed_url: outcome for outcome in report.feeds}
        assert len(report.feeds) == len(wanted) + len(READABLE) + len(GOOD)
        failures = {url: (found[url].result, found[url].failure) for url in wanted}
        assert failures == {url: (FeedResult.FAILED, kind) for url, kind in wanted.items()}
        assert all(found[url].reason for url in wanted)
        assert [found[url].new for url in GOOD] == [1] * 10
        for url, (_, least) in READABLE.items():
            assert found[url].new >= least, found[url]
        assert all_met(report)
