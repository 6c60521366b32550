"""The quality checklist (contract I6): a good run meets every line, and each line fails when its rule is broken."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Connection, delete, text, update

import canonry
from canonry.feeds import ingest as ingest_module
from canonry.feeds import keyed_items
from canonry.feeds.ingest_report import CheckName, FeedOutcome, Report
from canonry.feeds.polling import Polling, poll_feed
from canonry.net.response import Response
from canonry.store.database import Database
from canonry.store.schema import entries, sightings
from feed_texts import rss

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.feed_values import FeedState, MergedFeed

URL = "https://example.com/feed"
START = datetime(2026, 1, 31, 10, tzinfo=UTC)
TEXT = "The harbour was quiet that morning; only the pilot boat went out, twice, and came back empty."


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with Database(database_url) as database:
        yield database


async def fetch(url: str, **options: Any) -> Response:
    """Answer 304 to a conditional request, else with a document of three items."""
    validators = options.get("validators")
    if validators is not None and validators.etag == '"1"':
        return Response(304, url)
    return Response(200, url, {"ETag": '"1"'}, rss(text=TEXT).encode())


def run(database: Database | str, hours: int = 0) -> Report:
    now = START + timedelta(hours=hours)
    return asyncio.run(canonry.ingest([URL], database, fetch=fetch, clock=lambda: now))


def unmet(report: Report) -> dict[CheckName, str]:
    return {line.name: line.detail for line in report.checklist if not line.is_met}


def poll_with(
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[FeedStore, MergedFeed], Awaitable[MergedFeed]],
) -> None:
    """Have a run change what polling a feed has stored or returned."""

    async def poll(feed: FeedState, store: FeedStore, polling: Polling) -> tuple[FeedOutcome, MergedFeed]:
        outcome, merged = await poll_feed(feed, store, polling)
        return outcome, await change(store, merged)

    monkeypatch.setattr(ingest_module, "poll_feed", poll)


def write_after_poll(monkeypatch: pytest.MonkeyPatch, write: Callable[[Connection], object]) -> None:
    async def change(store: FeedStore, merged: MergedFeed) -> MergedFeed:
        await store.database.write(write)
        return merged

    poll_with(monkeypatch, change)


def test_a_good_run_meets_every_line(database: Database) -> None:
    first, second = run(database), run(database, hours=2)
    assert [line.name for line in first.checklist] == list(CheckName)
    assert (unmet(first), unmet(second)) == ({}, {})
    details = {line.name: line.detail for line in second.checklist}
    assert details[CheckName.CONDITIONAL_REQUESTS] == "1 of 1 requests for feeds with known validators"


def test_a_key_that_is_not_canonical_fails(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_items, "normalize_link", lambda link, policy: f"{link}?utm_source={policy}")
    report = run(database)
    assert unmet(report) == {
        CheckName.CANONICAL_URLS: "3 of the last 3 new and updated entries have a key that is not canonical"
    }


def test_validators_that_were_not_sent_fail(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unmet(run(database)) == {}

    async def poll(feed: FeedState, store: FeedStore, polling: Polling) -> tuple[FeedOutcome, MergedFeed]:
        return await poll_feed(replace(feed, etag=""), store, polling)

    monkeypatch.setattr(ingest_module, "poll_feed", poll)
    report = run(database, hours=2)
    assert unmet(report) == {CheckName.CONDITIONAL_REQUESTS: "0 of 1 requests for feeds with known validators"}


def test_an_item_without_a_key_fails(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def remove_keys(_: FeedStore, merged: MergedFeed) -> MergedFeed:
        first, *others = merged.items
        return replace(merged, items=(first._replace(keys=()), *others))

    poll_with(monkeypatch, remove_keys)
    assert unmet(run(database)) == {CheckName.IDENTITY_KEYS: "1 items have no key"}


def test_an_entry_that_was_not_persisted_fails(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    write_after_poll(monkeypatch, lambda connection: connection.execute(delete(entries)))
    assert unmet(run(database)) == {CheckName.PERSISTED: "0 of the last 3 new and updated entries are in the store"}


def test_a_run_in_memory_fails() -> None:
    report = run("sqlite:////dev/null/x.db")
    assert unmet(report) == {CheckName.PERSISTED: "3 new and updated items are in memory only"}


@pytest.mark.parametrize("table", [entries, sightings], ids=lambda table: table.name)
def test_a_text_in_the_store_fails(database: Database, monkeypatch: pytest.MonkeyPatch, table: Any) -> None:
    write_after_poll(monkeypatch, lambda connection: connection.execute(update(table).values(published=f"{TEXT} 1")))
    assert unmet(run(database)) == {
        CheckName.METADATA_ONLY: "1 of the last 3 new and updated entries have their text in the store"
    }


@pytest.mark.parametrize("table", ["entries", "sightings"])
def test_a_column_for_text_fails(database: Database, table: str) -> None:
    database.write_now(lambda connection: connection.execute(text(f"ALTER TABLE {table} ADD COLUMN summary TEXT")))
    assert unmet(run(database)) == {
        CheckName.METADATA_ONLY: "0 of the last 3 new and updated entries have their text in the store; "
        "columns that may hold text: summary"
    }


def test_a_text_that_is_also_the_title_is_metadata(database: Database) -> None:
    async def fetch_microblog(url: str, **_: object) -> Response:
        body = f"<item><guid>1</guid><title>{TEXT}</title><description>{TEXT}</description></item>"
        return Response(200, url, body=f"<rss version='2.0'><channel>{body}</channel></rss>".encode())

    report = asyncio.run(canonry.ingest([URL], database, fetch=fetch_microblog))
    assert report.new == 1
    assert unmet(report) == {}
