"""User names and passwords in the URLs of a crawl are in none of its outputs (contract G3)."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from canonry.core.scope import Verdict
from canonry.crawler.crawl_options import CrawlOptions
from canonry.crawler.crawl_store import CrawlStore
from canonry.crawler.crawl_views import CrawlViews
from canonry.crawler.export import open_writer
from canonry.crawler.pages import Page, PageLink, make_record, mask_url
from canonry.crawler.results import PageResult, PageState, PageUrl
from canonry.errors import FailureKind
from canonry.net.engine import PageFailure
from canonry.store.database import Database

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 31, tzinfo=UTC)
SECRET = "http://ada:s3cret@site.example.com/a"
LINKS = (
    PageLink(SECRET, SECRET, "x", Verdict.CRAWL, ""),
    PageLink(
        "https://bob:s3cret@other.example.org/", "https://bob:s3cret@other.example.org/", "", Verdict.EXTERNAL, ""
    ),
    PageLink("mailto:ada@example.com", None, "", Verdict.SKIP, ""),
)
PAGE = Page(SECRET, SECRET, SECRET, 200, "Title", 0, "http", LINKS, LINKS[1:2], f"failed at {SECRET}")


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet", "graphml", "dot"])
def test_files_have_no_passwords(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"out.{suffix}"
    with open_writer(file) as writer:
        writer.add(PAGE)
    content = str(pq.read_table(file).to_pylist()) if suffix == "parquet" else file.read_text()
    assert "s3cret" not in content
    assert "ada:" not in content
    assert "site.example.com/a" in content
    assert "other.example.org" in content


def test_records_have_no_passwords_but_addresses_of_people() -> None:
    record = json.dumps(make_record(PAGE))
    assert "s3cret" not in record
    assert "mailto:ada@example.com" in record


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/@ada/post", "https://example.com/@ada/post"),
        ("https://example.com/a@b", "https://example.com/a@b"),
        ("MAILTO:ada@example.com", "MAILTO:ada@example.com"),
        ("https://ada@example.com/", "https://***@example.com/"),
        ("https://e.com/?u=http%3A%2F%2Fa%3Ab%40c.com", "https://e.com/?u=http%3A%2F%2F***%40c.com"),
    ],
)
def test_only_credentials_are_masked(url: str, shown: str) -> None:
    assert mask_url(url) == shown


def test_pages_of_the_service_have_no_passwords() -> None:
    async def run(database: Database) -> str:
        crawls = CrawlStore(database)
        crawl = await crawls.start(PageUrl(SECRET, SECRET), "site.example.com", CrawlOptions(), NOW)
        batch = await crawls.record_and_lease(crawl.id, "me", [], crawl.options, want=1, now=NOW)
        opened = repr(await CrawlViews(database).get_activity(crawl.id))
        result = PageResult(
            batch.leased[0],
            PageState.DONE,
            SECRET,
            200,
            SECRET,
            failure=PageFailure(FailureKind.TRUNCATED, f"read half of {SECRET}"),
            links=LINKS,
        )
        await crawls.record_and_lease(crawl.id, "me", [result], crawl.options, want=1, now=NOW)
        nodes = await CrawlViews(database).list_nodes(crawl.id, 10)
        assert len(nodes) == 1
        assert nodes[0].targets == (nodes[0].url,)
        return opened + repr(nodes) + repr(await CrawlViews(database).get_activity(crawl.id))

    with Database("sqlite://") as database:
        shown = asyncio.run(run(database))
    assert "site.example.com" in shown
    assert "s3cret" not in shown
