"""Pages of crawls without JavaScript: start, stop, delete; hostile and large sites; the link graph."""

from __future__ import annotations

import asyncio
import json
import re
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import insert

from canonry.crawler.crawl_options import CrawlOptions
from canonry.crawler.crawl_views import Node
from canonry.crawler.known_pages import make_page_key
from canonry.crawler.results import PageState, PageUrl
from canonry.server.pages import crawl_graph
from canonry.server.pages import crawls as crawls_page
from canonry.server.service import ServiceOptions
from canonry.store.schema import crawl_pages, crawls
from crawl_server import Site, client, serving, tree
from server.pages.visitor import Visitor, add_user
from service import serving as service_of
from service import until

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from service import Running


@pytest.fixture
def site() -> Generator[Site]:
    with serving(tree(20)) as made:
        yield made


@pytest.fixture
def running(sqlite_url: str) -> Generator[Running]:
    with service_of(sqlite_url, client=client) as found:
        yield found


def is_over(running: Running, crawl_id: int = 1) -> bool:
    return bool(running.get(f"/api/crawls/{crawl_id}").json()["state"] != "running")


def test_a_crawl_from_its_start_to_its_end(visitor: Visitor, running: Running, site: Site) -> None:
    site.pages["/1"] = "->/missing-host"
    started = visitor.post("/crawls", {"seed": f"{site.url}/0", "engine": "http", "max_pages": "", "depth": "2"})
    assert started.answer.headers["location"] == "/crawls/1"
    until(lambda: is_over(running))
    page = visitor.get("/crawls/1")
    assert "done" in page.words and "page limit" not in page.words
    assert page.tree.css_first("svg.graph[role=img]") is not None
    assert not page.tree.css("[hx-get]"), "what is over is not asked for again"
    rows = [[cell.text(strip=True) for cell in row.css("td, th")] for row in page.tree.css("#graph-table tbody tr")]
    assert rows[0][0] == "1" and rows[0][1].startswith(f"{site.url}/0") and rows[0][3:5] == ["0", "–"]
    assert {row[4] for row in rows if row[3] == "1"} == {"1"}, "found on the first"
    kept = running.get("/api/crawls/1/pages").json()
    assert len(rows) == len(kept) == len(page.tree.css("svg .node"))
    listed = visitor.get("/crawls")
    assert f"{len(kept)} pages" in listed.words and "/crawls/1" in listed.links


@pytest.mark.parametrize(
    ("form", "begins"), [("jsonl", "{"), ("csv", "url,"), ("graphml", "<?xml"), ("dot", "digraph")]
)
def test_a_crawl_is_downloaded_as_a_file(visitor: Visitor, running: Running, form: str, begins: str) -> None:
    fill(running, 3)
    assert f"/crawls/1/export/{form}" in visitor.get("/crawls/1").links
    page = visitor.get(f"/crawls/1/export/{form}")
    assert page.text.startswith(begins) and "attachment" in page.answer.headers["content-disposition"]
    assert visitor.get("/crawls/1/export/exe").status == 400
    assert visitor.get(f"/crawls/2/export/{form}").status == 404


def test_errors_of_the_form_are_shown_at_their_field(visitor: Visitor, running: Running) -> None:
    for fields, name, said in (
        ({"seed": "http://10.0.0.1/"}, "seed", "Refused"),
        ({"seed": "javascript:alert(1)"}, "seed", "http"),
        ({"seed": "https://example.com/", "max_pages": "many"}, "max_pages", "Enter a whole number."),
        ({"seed": "https://example.com/", "depth": "-1"}, "depth", "Enter at least 0."),
        ({"seed": "https://example.com/", "delay": "long"}, "delay", "Enter a number."),
        ({"seed": "https://example.com/", "delay": "nan"}, "delay", ""),
        ({"seed": "https://example.com/", "engine": "lynx"}, "engine", ""),
        ({"seed": "https://example.com/", "routes": "1"}, "routes", "Chrome"),
        ({"seed": "https://example.com/", "scroll": "1"}, "scroll", "Chrome"),
    ):
        page = visitor.post("/crawls", {"engine": "http", **fields})
        assert page.status == 400
        [error] = page.tree.css(".error")
        assert error.attributes["id"] == f"{name}-error" and said in error.text(), fields
        assert page.value("seed") == fields["seed"]
    assert visitor.post("/crawls", {"seed": "https://example.com/"}, csrf="wrong").status == 403
    assert running.get("/api/crawls").json() == []


def test_a_crawl_is_stopped_resumed_and_deleted(visitor: Visitor, running: Running, site: Site) -> None:
    site.pages["/robots.txt"] = "User-agent: *\nCrawl-delay: 0.1"
    visitor.post("/crawls", {"seed": f"{site.url}/0", "engine": "http"})
    until(lambda: running.get("/api/crawls/1").json()["pages"]["done"] > 1)
    page = visitor.get("/crawls/1")
    assert "/crawls/1/stop" in page.links and "running" in page.words
    assert "/crawls/1" in page.links and "/crawls/1/graph" in page.links, "htmx asks again"
    page = visitor.follow(visitor.post("/crawls/1/stop"))
    assert "stopped" in page.words and "/crawls/1/resume" in page.links
    page = visitor.follow(visitor.post("/crawls/1/resume"))
    assert "running" in page.words
    page = visitor.follow(visitor.post("/crawls/1/remove"))
    assert page.notice == "removed" and not page.tree.css(".bookmarks li")
    for path in ("stop", "resume", "remove"):
        assert visitor.post(f"/crawls/1/{path}").status == 404
    assert visitor.get("/crawls/1").status == 404
    assert visitor.get("/crawls/1/graph", **{"HX-Request": "true"}).status == 404


def test_a_failed_start_page_shows_the_reason(visitor: Visitor, running: Running, site: Site) -> None:
    site.pages["/away"] = "->http://other.example.org/x?a=1&b=2"
    site.pages["/inside"] = "->http://10.0.0.1/"
    for number, path in enumerate(("/away", "/inside"), 1):
        visitor.post("/crawls", {"seed": f"{site.url}{path}", "engine": "http"})
        until(lambda number=number: is_over(running, number))  # type: ignore[misc]
    page = visitor.get("/crawls/1")
    assert "redirects to another host" in page.words
    there = next(link for link in page.links if link.startswith("/crawls?seed="))
    assert visitor.get(there).value("seed") == "http://other.example.org/x?a=1&b=2"
    assert "The start page failed: Refused: 10.0.0.1 is a private address" in visitor.get("/crawls/2").words


def test_sitemaps_that_cannot_be_read_are_shown(visitor: Visitor, running: Running, site: Site) -> None:
    visitor.post("/crawls", {"seed": f"{site.url}/0", "engine": "http", "depth": "0", "sitemaps": "on"})
    until(lambda: is_over(running))
    failure = {"url": f"{site.url}/sitemap.xml", "reason": "the server answered 404"}
    assert running.get("/api/crawls/1").json()["sitemap_failures"] == [failure]
    assert f"Sitemaps that could not be read {failure['url']} {failure['reason']}" in visitor.get("/crawls/1").words


def test_titles_and_urls_are_escaped_everywhere(visitor: Visitor, running: Running, site: Site) -> None:
    evil = "</title></svg><script>alert(1)</script><img src=x onerror=alert(1)>"
    site.pages["/0"] = (
        f"<title>{evil.replace('<', '&lt;')}</title>"
        '<a href="/%3Csvg%20onload=alert(1)%3E">x</a><a href="/&quot;onclick=alert(1)&quot;">y</a><a href="/{{7*7}}">z</a>'
        '<a href="/%E2%80%AEtxt.exe">rtl</a><a href="/a%00%1b%5B2J">control</a>'
    )
    visitor.post("/crawls", {"seed": f"{site.url}/0", "engine": "http"})
    until(lambda: is_over(running))
    for path in ("/crawls/1", "/crawls"):
        page = visitor.get(path)
        assert "<script>alert" not in page.text and "<img" not in page.text
        assert not [node for node in page.tree.css("*") for name in node.attributes if name.startswith("on")]
    page = visitor.get("/crawls/1")
    assert evil.replace("</title>", "") in page.text.replace("&lt;", "<").replace("&gt;", ">").replace("</title>", "")
    drawn = re.search(r"<svg.*?</svg>", page.text, re.DOTALL)
    assert drawn is not None
    ET.fromstring(drawn[0])  # well-formed, too
    assert "\u202e" not in drawn[0] and "\x1b" not in page.text
    piece = visitor.get("/crawls/1/graph", **{"HX-Request": "true"})
    assert "<script>alert" not in piece.text and 'hx-swap-oob="true"' in piece.text and "<html" not in piece.text


def fill(running: Running, count: int, links: int = 30) -> None:
    """A crawl with so many pages, as if it had been read."""
    store, now = running.service.crawls, datetime.now(UTC)
    seed = "http://big.example/"
    options = CrawlOptions(engine="http")
    crawl = asyncio.run(store.start(PageUrl(seed, seed), "big.example", options, now))
    urls = [f"{seed}p/{number}" for number in range(1, count)]

    def row(number: int, url: str) -> dict[str, object]:
        targets = [f"{seed}p/{(number * 7 + step) % count}" for step in range(links)]
        return {
            "crawl_id": crawl.id,
            "key": make_page_key(url),
            "url": url,
            "requested_url": url,
            "depth": 1 + number // 40,
            "referrer": seed if number < 40 else urls[number - 40],
            "state": "done" if number % 5 else "queued",
            "status": 200,
            "title": f"Page {number}",
            "engine": "http",
            "followed": links,
            "links": json.dumps([[url, url, "text of the link", "crawl", "the same site"] for url in targets]),
        }

    rows = [row(number, url) for number, url in enumerate(urls)]
    running.service.database.write_now(lambda connection: connection.execute(insert(crawl_pages), rows))


def test_a_large_crawl_is_shown_as_fast_as_a_small_one(visitor: Visitor, running: Running) -> None:
    fill(running, 5000)
    visitor.get("/crawls/1")
    for path, headers in (("/crawls/1", {}), ("/crawls/1", {"HX-Request": "true"}), ("/crawls", {})):
        begun = time.process_time()  # the service is in this process
        page = visitor.get(path, **headers)
        assert time.process_time() - begun < 2.0
        assert page.status == 200 and len(page.text) < 300_000
    page = visitor.get("/crawls/1")
    assert len(page.tree.css("svg .node")) == len(page.tree.css("#graph-table tbody tr")) == crawl_graph.MAX_PAGES
    assert len(page.tree.css("svg line")) < 1000


def test_a_page_with_many_links_does_not_slow_down_the_graph(visitor: Visitor, running: Running) -> None:
    fill(running, 60, links=10_000)
    begun = time.process_time()  # the service is in this process
    page = visitor.get("/crawls/1")
    assert time.process_time() - begun < 2.0
    assert "many" in page.words and len(page.tree.css("svg .found")) > 30, "where each was found is known"


def test_older_crawls_are_on_the_next_page(visitor: Visitor, running: Running) -> None:
    rows = [
        {
            "seed": f"https://a.com/{each}",
            "host": "a.com",
            "options": CrawlOptions().to_json(),
            "state": "done",
        }
        | {"started_at": "2026-01-31T10:00:00Z", "finished_at": "2026-01-31T10:00:01Z"}
        for each in range(crawls_page._CRAWLS_PER_PAGE + 1)
    ]
    running.service.database.write_now(lambda connection: connection.execute(insert(crawls), rows))
    page = visitor.get("/crawls")
    assert [link.attributes.get("rel") for link in page.tree.css("nav.pages a")] == ["next"]
    following = page.tree.css_first("a[rel=next]")
    assert following is not None
    last = visitor.get(following.attributes["href"] or "")
    assert "https://a.com/0" in last.text
    assert [link.attributes["href"] for link in last.tree.css("nav.pages a")] == ["/crawls"]


def test_crawls_are_for_admins(tmp_path: Path) -> None:
    with service_of(f"sqlite:///{tmp_path / 'x.db'}", ServiceOptions(runs_jobs=False), client=client) as running:
        ada, ben = add_user(running, "ada"), add_user(running, "ben")
        fill(running, 3)
        until(lambda: running.get("/api/bookmarks").status == 401)
        first, second = Visitor(running), Visitor(running)
        first.post("/signin", {"token": ada})
        second.post("/signin", {"token": ben})
        assert first.get("/crawls/1").status == 200 and "/crawls" in first.get("/").links
        assert "/crawls" not in second.get("/").links
        for path in ("/crawls", "/crawls/1", "/crawls/1/graph", "/crawls/1/export/jsonl"):
            assert second.get(path).status == 403
        for path in ("/crawls", "/crawls/1/stop", "/crawls/1/resume", "/crawls/1/remove"):
            page = second.post(path, {"seed": "https://example.com/"})
            assert page.status == 403 and "big.example" not in page.text
        assert first.get("/crawls/1").status == 200


def node(path: str, depth: int, referrer: str = "", *targets: str) -> Node:
    site = "http://a.example"
    found = tuple(f"{site}{target}" for target in targets)
    return Node(f"{site}{path}", "", 200, depth, PageState.DONE, "", f"{site}{referrer}", found)


def test_a_page_is_one_ring_beyond_the_page_it_was_found_on() -> None:
    pages = [
        node("/", 0, "", "/a", "/b", "/"),
        node("/a", 1, "/", "/c", "/b"),
        node("/b", 1, "/"),
        node("/c", 2, "/a", "/"),
    ]
    graph = crawl_graph.make_graph(pages)
    assert [(row.number, row.found_on, row.out, row.into) for row in graph.rows] == [
        (1, None, 3, 2),
        (2, 1, 2, 1),
        (3, 1, 0, 2),
        (4, 2, 1, 1),
    ]
    assert sum(edge.is_tree for edge in graph.edges) == 3
    assert len(graph.edges) == 5, "no line from a page to itself"
    assert graph.links == 6 and graph.summary.startswith("4 pages of http://a.example/, 6 links between them")
    middle = crawl_graph.SIZE / 2
    far = [round(((place.x - middle) ** 2 + (place.y - middle) ** 2) ** 0.5) for place in graph.places]
    assert far[0] == 0 and far[1] == far[2] and abs(far[3] - 2 * far[1]) <= 1


@pytest.mark.parametrize("depth", [1, 79])
def test_the_graph_stays_inside_the_drawing(depth: int) -> None:
    pages = [node("/", 0)]
    pages += [node(f"/{'x' * 50}{n}", min(n, depth), "/" if depth == 1 else pages[-1].url[16:]) for n in range(1, 80)]
    graph = crawl_graph.make_graph(pages)
    assert all(0 < place.x < crawl_graph.SIZE and 0 < place.y < crawl_graph.SIZE for place in graph.places)
    assert len({(place.x, place.y) for place in graph.places}) == 80
    assert all(len(place.label) <= 20 for place in graph.places)


def test_graphs_of_no_page_one_page_and_unknown_referrers() -> None:
    assert crawl_graph.make_graph([]).places == ()
    assert len(crawl_graph.make_graph([node("/", 0)]).places) == 1
    lost = [node("/", 0), node("/a", 1, "/unknown"), node("/b", 0, "/a"), replace(node("/c", 3, "/a"), targets=None)]
    graph = crawl_graph.make_graph(lost)
    assert [row.found_on for row in graph.rows] == [None, 1, 1, 2]
    assert graph.rows[3].out is None


def test_a_crawl_is_repeated_and_the_page_shows_changes_and_refused_urls(
    visitor: Visitor, running: Running, site: Site
) -> None:
    site.pages["/robots.txt"] = "User-agent: *\nDisallow: /3\n"
    options = {"seed": f"{site.url}/0", "engine": "http", "max_pages": "", "depth": "", "exclude": "/19$\n/18$"}
    visitor.post("/crawls", {**options, "ignore_nofollow": "1"})
    until(lambda: is_over(running))
    stored = running.get("/api/crawls/1").json()["options"]
    assert (stored["exclude"], stored["nofollow"]) == (["/19$", "/18$"], False)
    assert f"{site.url}/3" in visitor.get("/crawls/1").words
    site.pages["/1"] += "<p>more</p>"
    again = visitor.post("/crawls/1/again", {})
    assert again.answer.headers["location"] == "/crawls/2"
    until(lambda: is_over(running, 2))
    page = visitor.get("/crawls/2")
    assert "Changes since crawl 1" in page.words and f"changed {site.url}/1" in page.words
    assert visitor.post("/crawls", {**options, "delay": "soon"}).answer.status == 400
