"""Migration 0006: sentences that earlier releases stored for crawls become reasons."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import column as sql_column
from sqlalchemy import insert, table, text

from canonry.crawler.crawl_store import CrawlStore
from canonry.crawler.reasons import CrawlFailure, CrawlFailureKind, SkipReason
from canonry.errors import FailureKind
from canonry.store.database import Database, _make_engine
from canonry.store.migrations import migrate

if TYPE_CHECKING:
    from pathlib import Path

# state, status, and the sentence that an earlier release stored → the reason, and what is left as text
PAGES = [
    ("done",    200, "",                                               "",                    ""),
    ("done",    200, "only the first 5242880 bytes were read",         FailureKind.TRUNCATED, "same"),
    ("done",    404, "the server answered 404",                        FailureKind.STATUS,    "same"),
    ("failed",  500, "the server answered 500",                        FailureKind.UNAVAILABLE, "same"),
    ("failed",  0,   "robots.txt refuses it",                          FailureKind.ROBOTS,    "same"),
    ("failed",  0,   "robots.txt cannot be read: no connection",       FailureKind.UNAVAILABLE, "same"),
    ("failed",  0,   "refused: not public: loopback: 'http://a/'",     FailureKind.REFUSED,   "same"),
    ("failed",  0,   "not fetched: redirects in a circle: 'http://a'", FailureKind.REDIRECT_LOOP, "same"),
    ("failed",  0,   "not fetched: anything else",                     FailureKind.OTHER,     "same"),
    ("skipped", 0,   "robots.txt refuses it",                          SkipReason.ROBOTS_DISALLOWED, ""),
    ("skipped", 301, "redirects to what robots.txt refuses",           SkipReason.REDIRECT_DISALLOWED, ""),
    ("skipped", 301, "redirects to a page of its own",                 SkipReason.REDIRECT_TO_PAGE, ""),
    ("skipped", 301, "redirects to another host",                      SkipReason.OTHER_HOST, ""),
    ("skipped", 0,   "the same page as http://a.example/x",            SkipReason.DUPLICATE,  ""),
    ("queued",  0,   "",                                               "",                    ""),
]  # fmt: skip
CRAWLS = [
    ("done",   "",                                  None),
    ("failed", "redirects to http://b.example/x?y", CrawlFailure(CrawlFailureKind.START_MOVED, "", "http://b.example/x?y")),
    ("failed", "no Chrome at /no/chrome",           CrawlFailure(CrawlFailureKind.ENGINE, "no Chrome at /no/chrome")),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_sentences_become_reasons(empty_url: str) -> None:
    engine = _make_engine(empty_url)
    crawl_columns = ("seed", "host", "state", "failure", "started_at")
    page_columns = ("crawl_id", "key", "url", "requested_url", "depth", "state", "status", "error")
    old_crawls = table("crawls", *map(sql_column, crawl_columns))
    old_pages = table("crawl_pages", *map(sql_column, page_columns))
    with engine.begin() as connection:
        migrate.upgrade(connection, "0005")
        for state, failure, _ in CRAWLS:
            row = ("http://a.example/", "a.example", state, failure, "2026-01-31T10:00:00.000000Z")
            connection.execute(insert(old_crawls).values(dict(zip(crawl_columns, row, strict=True))))
        for number, (state, status, error, *_) in enumerate(PAGES):
            url = f"http://a.example/{number}"
            values = (1, str(number), url, url, 1, state, status, error)
            connection.execute(insert(old_pages).values(dict(zip(page_columns, values, strict=True))))
    engine.dispose()
    with Database(empty_url) as database:
        store = CrawlStore(database)
        query = text("SELECT state, status, failure, skip_reason, error FROM crawl_pages ORDER BY id")
        found = [tuple(row) for row in database.read_now(lambda connection: connection.execute(query).all())]
        assert found == [
            (state, status, *((reason, "") if state != "skipped" else ("", reason)), error if left == "same" else left)
            for state, status, error, reason, left in PAGES
        ]
        crawls = reversed(asyncio.run(store.list_crawls()))
        assert [crawl.failure for crawl in crawls] == [failure for *_, failure in CRAWLS]
        assert asyncio.run(store.count_pages(1)).skipped == {
            SkipReason(reason): 1 for state, _, _, reason, _ in PAGES if state == "skipped"
        }
        assert [each.page.failure for each in asyncio.run(store.list_pages(1))] == [
            reason or None for state, _, _, reason, _ in PAGES if state in ("done", "failed")
        ]
