"""Migration 0007: what an earlier release stored is found again by the rules of this one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select, text

from canonry.core.keys import Item, make_first_fallback_hash, make_place, strip_scheme_and_www
from canonry.feeds.content import content_hash
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument, FeedNote, MergedFeed
from canonry.feeds.item_matching import ItemOutcome
from canonry.store.database import Database, _make_engine
from canonry.store.migrations import migrate
from canonry.store.schema import ambiguous_keys, entries, sightings

if TYPE_CHECKING:
    from pathlib import Path

NEW, UPDATED, DUPLICATE = ItemOutcome.NEW, ItemOutcome.UPDATED, ItemOutcome.DUPLICATE
FEED = "https://a.com/feed"
THEN = "2026-01-01T00:00:00.000000Z"
URLS = [
    "https://a.com/1",
    "https://www.a.com/slash/",
    "http://www.a.com/caf%c3%a9%7e/?q=%2f",
    "https://www.com/x",
    "https://u:p@www.a.com:8080/",
    "https://a.com/empty?",
    "https://a.com/slashes//?q",
    "sha256:0123",
    "",
]
SECTIONS = [Item("", f"https://a.com/log#{n}", f"Part {n}", "d") for n in (1, 2)]
BARE, TEXT_ONLY = Item(title="Bare", text="old"), Item(text="only a text")


@pytest.fixture(autouse=True)
def _data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def make_store(url: str) -> None:
    """A store of schema 0006 with one feed: items at `URLS`, sections of one page, and items with only a hash."""
    engine = _make_engine(url)
    rows = [(f"guid-{n}", link, link, f"Post {n}", "", "") for n, link in enumerate(URLS)]
    rows += [("", item.link, "https://a.com/log", item.title, item.published, content_hash(item)) for item in SECTIONS]
    rows += [("", "", "", item.title, "", content_hash(item)) for item in (BARE, TEXT_ONLY)]
    with engine.begin() as connection:
        migrate.upgrade(connection, "0006")
        connection.execute(
            text("INSERT INTO feeds (id, key_url, url, created_at, document) VALUES (1, :url, :url, :now, 1)"),
            {"url": FEED, "now": THEN},
        )
        for number, (guid, link, canonical_url, title, published, digest) in enumerate(rows, start=1):
            values = {
                "id": number, "guid": guid, "url": link, "canonical_url": canonical_url, "title": title,
                "published": published, "digest": digest, "now": THEN, "place": strip_scheme_and_www(canonical_url),
            }  # fmt: skip
            connection.execute(
                text(
                    "INSERT INTO entries (id, dedupe_key, guid, url, canonical_url, title, published, content_hash,"
                    " match_confidence, first_seen_at, last_seen_at) VALUES (:id, 'x', :guid, :url, :canonical_url,"
                    " :title, :published, :digest, 'high', :now, :now)"
                ),
                {name: value for name, value in values.items() if name != "place"},
            )
            del values["canonical_url"]
            connection.execute(
                text(
                    "INSERT INTO sightings (feed_id, entry_id, guid, place, title, published, content_hash, document,"
                    " first_seen_at, last_seen_at, url) VALUES (1, :id, :guid, :place, :title, :published, :digest, 1,"
                    " :now, :now, :url)"
                ),
                values,
            )
        hashes = {len(rows) - 1: BARE, len(rows): TEXT_ONLY}
        for entry_id, item in hashes.items():
            connection.execute(
                text("INSERT INTO entry_identities VALUES ('fallback_hash', :value, :id, 'entry@1')"),
                {"value": make_first_fallback_hash(item, FEED), "id": entry_id},
            )
        connection.execute(text("INSERT INTO ambiguous_keys VALUES (1, 'canonical_url', '//a.com/log')"))
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT setval('entries_id_seq', 100)"))
            connection.execute(text("SELECT setval('feeds_id_seq', 100)"))
    engine.dispose()


def show(database: Database, *items: Item) -> MergedFeed:
    document = FeedDocument("A", "rss", (), items)
    merge = FeedStore(database).merge(1, document, datetime(2026, 1, 2, tzinfo=UTC), seen_ttl_days=30)
    return asyncio.run(merge)


def test_places_are_made_as_this_release_makes_them(empty_url: str) -> None:
    make_store(empty_url)
    with Database(empty_url) as database:
        columns = select(entries.c.canonical_url, entries.c.place, sightings.c.place).join(sightings)
        rows = database.read_now(lambda on: on.execute(columns).all())
        assert len(rows) == len(URLS) + 4
        for canonical_url, place, shown_place in rows:
            assert place == shown_place == make_place(canonical_url)
        assert database.read_now(lambda on: on.execute(select(ambiguous_keys.c.key_value)).scalars().all()) == [
            "//a.com/log"
        ]
        assert asyncio.run(FeedStore(database).get(1)).note is FeedNote.NONE


def test_items_of_an_earlier_release_are_found_again(empty_url: str) -> None:
    make_store(empty_url)
    items = (
        Item("", "https://a.com/slash", "Post 1"),  # the slash is gone
        *SECTIONS,  # the page is ambiguous, the sections are not
        BARE,
        TEXT_ONLY,
        Item(text="another text"),  # its first hash is that of the other text
    )
    with Database(empty_url) as database:
        merged = show(database, *items)
        assert [item.outcome for item in merged.items] == [UPDATED, DUPLICATE, DUPLICATE, DUPLICATE, DUPLICATE, NEW]
        assert [item.entry_id for item in merged.items][:5] == [2, *range(len(URLS) + 1, len(URLS) + 5)]
        assert {item.outcome for item in show(database, *items).items} == {DUPLICATE}
