"""The start page over HTTP: the box finds by identity or by words, and offers what to do next (contract U1)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from canonry.core.keys import Item
from canonry.evidence.fact_store import save_aliases
from canonry.evidence.facts import PageAlias
from canonry.evidence.same_page import Evidence
from canonry.feeds.feed_values import FeedDocument
from canonry.server.service import ServiceOptions
from server.pages.visitor import Visitor, add_user
from service import serving, until

if TYPE_CHECKING:
    from collections.abc import Generator

    from server.pages.visitor import Page
    from service import Running

KEPT = "https://example.com/a?b=1"
HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """A service with three bookmarks, two feeds that share an item, and a proven alias."""
    path = tmp_path_factory.mktemp("home") / "x.db"
    with serving(f"sqlite:///{path}", ServiceOptions(runs_jobs=False)) as running:
        running.put(KEPT, title="Apples", tags=["fruit"])
        running.put("https://Example.com/exact?utm_source=x", "?exact_url=true", title="As given")
        running.put("https://example.com/hostile", title=HOSTILE, description=HOSTILE)
        asyncio.run(fill_feeds(running))
        alias = PageAlias("https://example.org/moved", KEPT, Evidence.REDIRECT)
        running.service.database.write_now(lambda connection: save_aliases(connection, [alias], "2026-01-01"))
        yield running


async def fill_feeds(running: Running) -> None:
    feeds, now = running.service.feeds, running.service.clock()
    for name in ("one", "two"):
        feed, _ = await feeds.add(f"https://{name}.example/feed", now)
        items = (Item("guid-of-the-post", "https://www.example.net/post?utm_source=rss", "A post"),)
        await feeds.merge(feed.id, FeedDocument(name, "rss", (), items), now, seen_ttl_days=30)


def ask(running: Running, text: str) -> Page:
    return Visitor(running).get(f"/?{urlencode({'q': text})}")


def list_found(page: Page) -> list[str | None]:
    return [node.attributes["data-found"] for node in page.tree.css("[data-found]")]


FINDINGS: list[tuple[str, str, list[str]]] = [
    # why                      text                                                   found
    ("as saved",               KEPT,                                                  ["bookmark"]),
    ("another spelling",       "HTTPS://EXAMPLE.com:443/a?utm_source=mail&b=1",       ["bookmark"]),
    ("saved as given",         "https://example.com/exact",                           ["bookmark"]),
    ("a proven alias",         "https://example.org/moved",                           ["bookmark"]),
    ("an item of two feeds",   "http://example.net/post",                             ["item", "new"]),
    ("a feed that is followed", "https://one.example/feed",                           ["feed", "new"]),
    ("unknown",                "https://example.com/unknown",                         ["new"]),
    ("without a scheme",       "example.com/a?b=1",                                   ["bookmark"]),
    ("words",                  "apples",                                              []),
    ("not a URL",              "https://[",                                           []),
    ("nothing",                " ",                                                   []),
]  # fmt: skip


@pytest.mark.parametrize(("why", "text", "wanted"), FINDINGS)
def test_the_box_finds_by_identity(full: Running, why: str, text: str, wanted: list[str]) -> None:
    page = ask(full, text)
    assert (page.status, list_found(page)) == (200, wanted), why
    assert page.value("q") == text.strip()
    if "bookmark" in wanted:
        assert not [link for link in page.links if link.startswith("/add?")]


def test_findings_say_where_and_when(full: Running) -> None:
    assert "under another URL" in ask(full, "https://example.com/a?b=1&utm_source=x").words
    assert "under another URL" not in ask(full, KEPT).words
    assert "In 2 of your feeds" in ask(full, "http://example.net/post").words


def test_words_search_the_library(full: Running) -> None:
    page = ask(full, "apples")
    assert [node.text() for node in page.tree.css("#found .row-title")] == ["Apples"]
    assert "/bookmarks" in ask(full, "nothing-like-that").links


def test_an_unknown_url_offers_what_to_do(full: Running) -> None:
    url = "https://example.com/unknown?x=1&y=2"
    query = urlencode({"url": url})
    offers = [f"{path}?{query}" for path in ("/add", "/feeds/add", "/explain", "/resolve")]
    page = ask(full, url)
    assert {*offers, f"/crawls?{urlencode({'seed': url})}"} <= set(page.links)
    for offer in (*offers, f"/crawls?{urlencode({'seed': url})}"):
        assert url in [node.attributes.get("value") for node in Visitor(full).get(offer).tree.css("input")], offer


def test_as_you_type_only_the_findings_are_sent(full: Running) -> None:
    piece = Visitor(full).get(f"/?{urlencode({'q': KEPT})}", **{"HX-Request": "true"})
    assert "<html" not in piece.text and list_found(piece) == ["bookmark"]


def test_examples_work(full: Running) -> None:
    examples = [node.attributes["value"] or "" for node in Visitor(full).get("/").tree.css("button[name=q]")]
    assert len(examples) == 3
    for url in examples:
        page = ask(full, url)
        assert list_found(page) == ["new"] and page.tree.css_first("del, ins") is not None


def test_hostile_titles_are_texts(full: Running) -> None:
    for page in (Visitor(full).get("/"), ask(full, "https://example.com/hostile"), ask(full, HOSTILE)):
        assert "<script>alert" not in page.text and page.status == 200


def test_someone_with_bookmarks_sees_the_latest(full: Running) -> None:
    titles = [node.text() for node in Visitor(full).get("/").tree.css("[aria-labelledby=recent] .row-title")]
    assert titles == [HOSTILE, "As given", "Apples"]


def test_a_newcomer_sees_where_to_begin(visitor: Visitor) -> None:
    assert {"/import", "/bookmarklet", "/tour"} <= {
        node.attributes["href"] for node in visitor.get("/").tree.css("main a")
    }


def test_the_box_finds_only_own_bookmarks(running: Running) -> None:
    running.put(KEPT, title="Of ada")
    add_user(running, "ada")
    token = add_user(running, "bob")
    until(lambda: running.get("/api/bookmarks").status == 401)
    bob = Visitor(running)
    bob.post("/signin", {"token": token})
    for text in (KEPT, "of ada", ""):
        page = bob.get(f"/?{urlencode({'q': text})}")
        assert page.status == 200 and "Of ada" not in page.words and list_found(page) != ["bookmark"]
        assert not [link for link in page.links if link.startswith(("/crawls?", "/feeds/add?"))]
