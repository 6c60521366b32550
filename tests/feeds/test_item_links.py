"""Links of new items are read if so set, and an item is known under the URL of its page, too (contract E4, I3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

import canonry
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.item_links import ItemLink, LinkCounts, LinkReading, choose_links
from canonry.net.guard import Guard
from canonry.rekey.entry_rekey import rekey, undo_rekey
from canonry.rekey.entry_rekey_store import EntryRekeyStore
from canonry.store.database import Database
from canonry.store.schema import item_links
from feed_texts import moved, ok
from loopback import EVERY_PORT, LoopbackWeb, in_a_loop, make_public
from page_texts import make_page

if TYPE_CHECKING:
    from collections.abc import Generator

    from canonry.net.fetch import Client

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
FEED, OTHER_FEED = "https://one.example.com/feed", "https://two.example.com/feed"
LINK, PAGE = "https://click.example.com/r/1", "https://news.example.com/1"
ARTICLE = make_page({"article": 1, "title": "The article"})
MISSING = make_page({"status": 404, "body": "missing"})
ROBOTS = {"https://click.example.com/robots.txt": {"status": 404}}


def feed_of(link: str, title: str = "The article", guid: str = "") -> dict[str, Any]:
    """Return a feed of one item."""
    name = f'<guid isPermaLink="false">{guid}</guid>' if guid else ""
    return ok(
        f"<rss version='2.0'><channel><item><title>{title}</title><link>{link}</link>{name}</item></channel></rss>"
    )


@dataclass(slots=True)
class Reader:
    database: Database
    client: Client
    now: datetime = NOW

    async def ingest(self, *urls: str, **options: Any) -> canonry.Report:
        return await canonry.ingest(urls, self.database, fetch=self.client.fetch, clock=lambda: self.now, **options)

    async def read(self) -> LinkCounts:
        links = LinkReading(self.database, self.client.fetch, clock=lambda: self.now, user_agent="canonry/1", pause=0)
        return await links.read_due()

    async def list_links(self) -> list[tuple[str, str, str]]:
        table = item_links.c
        query = select(table.state, table.page_url, table.evidence).order_by(table.entry_id)
        return await self.database.read(lambda connection: [tuple(row) for row in connection.execute(query)])


@pytest.fixture(autouse=True)
def _public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Links of items are named by servers, which may name public addresses only."""
    make_public(monkeypatch)


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    with Database(database_url) as database:
        yield database


@pytest.fixture
def sqlite(sqlite_url: str) -> Generator[Database]:
    with Database(sqlite_url) as database:
        yield database


@in_a_loop
async def test_an_item_is_known_under_the_page_that_its_link_redirects_to(database: Database) -> None:
    pages = {
        FEED: feed_of(LINK, guid="first"),
        OTHER_FEED: feed_of("http://www.news.example.com/1/", guid="second"),
        "https://three.example.com/feed": feed_of(PAGE, title="Another headline"),
        LINK: moved(PAGE),
        PAGE: ARTICLE,
    }
    async with LoopbackWeb(pages, MISSING) as web, web.client(guard=Guard([], EVERY_PORT)) as client:
        reader = Reader(database, client)
        await reader.ingest(FEED)
        assert await reader.read() == LinkCounts(read=1, learned=1)
        assert await reader.list_links() == [("read", PAGE, "redirect")]
        asked = [url for _, url in web.requests]
        assert asked[1:] == ["https://click.example.com/robots.txt", LINK, PAGE, asked[-1]], "and one made-up URL"
        assert await reader.read() == LinkCounts()
        assert len(web.requests) == len(asked), "no link is read twice"

        report = await reader.ingest(OTHER_FEED)
        assert (report.new, report.duplicate) == (0, 1)
        [item] = await FeedStore(database).list_items()
        assert len(item.feeds) == 2
        assert (await reader.ingest(OTHER_FEED, force=True)).duplicate == 1, "also when the feed is read again"
        assert (await reader.ingest("https://three.example.com/feed")).new == 1, "another title is another item"


CANONICAL = make_page({"article": 1, "title": "The article", "head": f'<link rel=canonical href="{LINK}/clean">'})
LOGIN = make_page({"article": 9, "title": "Sign in"})
# why, pages besides the feed, the answer for all others, the state of the link, and the evidence for its page
CASES: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("declared", {LINK: CANONICAL, f"{LINK}/clean": ARTICLE}, MISSING, "read", "declared"),
    ("declared, another text", {LINK: CANONICAL, f"{LINK}/clean": LOGIN}, MISSING, "read", ""),
    ("declared everywhere", {LINK: CANONICAL, f"{LINK}/clean": ARTICLE}, CANONICAL, "read", ""),
    ("declared, gone", {LINK: CANONICAL}, MISSING, "read", ""),
    ("nothing declared", {LINK: ARTICLE}, MISSING, "read", ""),
    (
        "all links redirect",
        {LINK: moved("/login"), "https://click.example.com/login": LOGIN},
        moved("/login"),
        "read",
        "",
    ),
    ("redirects to the root", {LINK: moved("/"), "https://click.example.com/": LOGIN}, MISSING, "read", ""),
    ("moved for now", {LINK: moved(PAGE, 302), PAGE: ARTICLE}, MISSING, "read", ""),
    ("another form", {LINK: moved(f"{LINK}/"), f"{LINK}/": ARTICLE}, MISSING, "read", ""),
    ("missing", {}, MISSING, "failed", ""),
    ("busy", {LINK: {"status": 503}}, MISSING, "pending", ""),
    ("into a private network", {LINK: moved("http://127.0.0.1/")}, MISSING, "failed", ""),
    (
        "robots.txt",
        {LINK: CANONICAL, "https://click.example.com/robots.txt": {"body": "User-agent: *\nDisallow: /r/"}},
        MISSING,
        "failed",
        "",
    ),
    (
        "robots.txt fails",
        {LINK: ARTICLE, "https://click.example.com/robots.txt": {"status": 500}},
        MISSING,
        "pending",
        "",
    ),
]


@pytest.mark.parametrize(("why", "pages", "missing", "state", "evidence"), CASES, ids=[case[0] for case in CASES])
@in_a_loop
async def test_what_a_link_proves(
    sqlite: Database, why: str, pages: dict[str, Any], missing: dict[str, Any], state: str, evidence: str
) -> None:
    async with (
        LoopbackWeb({FEED: feed_of(LINK), **ROBOTS, **pages}, missing) as web,
        web.client(guard=Guard([], EVERY_PORT)) as client,
    ):
        reader = Reader(sqlite, client)
        await reader.ingest(FEED)
        before = len(web.requests)
        counts = await reader.read()
        assert (counts.learned, counts.failed) == (bool(evidence), state != "read")
        [(stored_state, page_url, stored_evidence)] = await reader.list_links()
        assert (stored_state, stored_evidence) == (state, evidence) and bool(page_url) == bool(evidence)
        asked = [url for _, url in web.requests[before:]]
        assert len(asked) <= 5, "robots.txt, the link with its redirect, and two to prove what it claims"
        if why.startswith("robots.txt"):
            assert asked == ["https://click.example.com/robots.txt"]


@in_a_loop
async def test_a_link_that_cannot_be_read_now_is_read_later(sqlite: Database) -> None:
    busy_first = {"sequence": [{"status": 503}, ARTICLE]}
    async with (
        LoopbackWeb({FEED: feed_of(LINK), **ROBOTS, LINK: busy_first}, MISSING) as web,
        web.client(guard=Guard([], EVERY_PORT)) as client,
    ):
        reader = Reader(sqlite, client)
        await reader.ingest(FEED)
        assert (await reader.read()).failed == 1
        assert await reader.read() == LinkCounts(), "not before it is due"
        reader.now += timedelta(minutes=2)
        assert await reader.read() == LinkCounts(read=1)
        assert await reader.list_links() == [("read", "", "")]


@in_a_loop
async def test_links_are_read_only_if_asked_for_and_only_of_new_items(sqlite: Database) -> None:
    async with (
        LoopbackWeb({FEED: feed_of(LINK), LINK: ARTICLE}, MISSING) as web,
        web.client(guard=Guard([], EVERY_PORT)) as client,
    ):
        reader = Reader(sqlite, client)
        assert (await reader.ingest(FEED)).links is None
        assert {url for _, url in web.requests} == {FEED}
        reader.now += timedelta(days=3)
        assert await reader.read() == LinkCounts()
        assert {url for _, url in web.requests} == {FEED}
        assert (await reader.ingest(FEED, fetch_links=True)).links == LinkCounts()


@in_a_loop
async def test_a_rekey_moves_the_urls_of_pages_and_its_undo_restores_them(database: Database) -> None:
    page = f"{PAGE}?utm_source=feed&b=2&a=1"
    pages = {FEED: feed_of(LINK), LINK: moved(page), page: ARTICLE}

    async def get_place() -> str:
        return await database.read(lambda connection: connection.execute(select(item_links.c.page_place)).scalar_one())

    async with LoopbackWeb(pages, MISSING) as web, web.client(guard=Guard([], EVERY_PORT)) as client:
        reader = Reader(database, client)
        await reader.ingest(FEED)
        assert (await reader.read()).learned == 1
        before = await get_place()
        store = EntryRekeyStore(database)
        await rekey(store, "entry@2", "crawl@1", now=NOW)
        assert await get_place() == "//news.example.com/1?utm_source=feed&b=2&a=1" != before
        await undo_rekey(store, "entry@2", "crawl@1", now=NOW)
        assert await get_place() == before


def test_few_links_of_each_host_are_chosen() -> None:
    links = [ItemLink(number, f"https://a.test/{number}#top", 0) for number in range(50)]
    links += [ItemLink(99, "https://b.test/", 0)]
    links += [ItemLink(100, url, 0) for url in ("https://u:p@c.test/", "https://d.test/#!/inbox", "mailto:a@b.c", "x")]
    chosen = choose_links(links)
    assert [link.entry_id for link in chosen] == [*range(20), 99]
    assert chosen[0].url == "https://a.test/0"
