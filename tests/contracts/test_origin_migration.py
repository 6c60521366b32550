"""Migration 0011: who named the URLs of feeds and pages that an older release stored."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from canonry.feeds.feed_store import FeedStore
from canonry.net.origin import Origin
from canonry.store.database import Database, _make_engine
from canonry.store.migrations import migrate

if TYPE_CHECKING:
    from pathlib import Path

FEEDS = [
    # key_url          url               alias            origin afterwards
    ("http://a/feed", "http://a/feed", "", Origin.PERSON),
    ("http://b/feed", "http://b/new", "", Origin.UNKNOWN),  # it has moved
    ("http://c/feed", "http://c/feed", "http://c/", Origin.UNKNOWN),  # found from another URL
]
PAGES = [
    # crawl  depth  referrer      origin afterwards
    (1, 0, "", "person"),
    (1, 0, "http://s/", "server:10.0.0.1"),  # the start page has redirected there
    (1, 2, "http://s/", "server:10.0.0.1"),
    (2, 0, "", "person"),
    (2, 1, "http://s/", ""),
]


@pytest.fixture(autouse=True)
def _data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_only_what_a_person_typed_counts_as_typed(empty_url: str) -> None:
    engine = _make_engine(empty_url)
    with engine.begin() as connection:
        migrate.upgrade(connection, "0006")
        for number, (key_url, url, alias, _) in enumerate(FEEDS, 1):
            values = {"id": number, "key_url": key_url, "url": url, "alias": alias}
            connection.execute(
                text("INSERT INTO feeds (id, key_url, url, created_at) VALUES (:id, :key_url, :url, 'now')"), values
            )
            if alias:
                connection.execute(text("INSERT INTO feed_aliases (url, feed_id) VALUES (:alias, :id)"), values)
        for address in ("10.0.0.1", ""):
            connection.execute(
                text("INSERT INTO crawls (seed, host, address, started_at) VALUES ('http://s/', 's', :address, 'now')"),
                {"address": address},
            )
        for number, (crawl_id, depth, referrer, _) in enumerate(PAGES):
            connection.execute(
                text(
                    "INSERT INTO crawl_pages (crawl_id, key, url, requested_url, depth, referrer)"
                    " VALUES (:crawl_id, :key, 'http://s/', 'http://s/', :depth, :referrer)"
                ),
                {"crawl_id": crawl_id, "key": str(number), "depth": depth, "referrer": referrer},
            )
    engine.dispose()
    with Database(empty_url) as database:
        feeds = asyncio.run(FeedStore(database).list_all())
        assert {feed.key_url: feed.origin for feed in feeds} == {key: origin for key, _, _, origin in FEEDS}
        stored = database.read_now(
            lambda connection: list(connection.execute(text("SELECT origin FROM crawl_pages ORDER BY id")).scalars())
        )
        assert stored == [origin for *_, origin in PAGES]
