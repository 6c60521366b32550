"""contract C: one site, each page once. Seed 002 rule by rule, and a site with every trap, over real connections."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import canonry
from canonry.crawler.crawl import crawl
from canonry.crawler.crawl_store import CrawlStore
from canonry.crawler.pages import Summary
from canonry.crawler.reasons import SkipReason
from canonry.net.guard import Guard
from canonry.net.response import Response
from canonry.store.database import Database
from crawl_site import EXTENSIONS, HOST, MAX_DEPTH, PAGES, SEED, SKIPPED, WANTED, html, links, moved
from loopback import ADDRESS, EVERY_PORT, Listener, LoopbackWeb, http_answer, in_a_loop, make_client, read_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from canonry.crawler.pages import Page

OPTIONS: dict[str, Any] = {"engine": "http", "store": "sqlite://", "backoff": 0.01}
NO_ROBOTS = {"status": 404, "headers": {}, "body": ""}


def site(paths: Mapping[str, Mapping[str, Any]], host: str = HOST) -> dict[str, Mapping[str, Any]]:
    return {f"http://{host}{path}": page for path, page in {"/robots.txt": NO_ROBOTS, **paths}.items()}


async def crawled(web: LoopbackWeb, seed: str = SEED, **options: Any) -> list[Page]:
    async with web.client() as client:
        return [page async for page in crawl(seed, client=client, **(OPTIONS | options))]


def paths(pages: list[Page]) -> list[str]:
    return sorted(page.url.partition("://")[2].partition("/")[2] for page in pages)


def by_path(pages: list[Page]) -> dict[str, Page]:
    return {"/" + page.url.partition("://")[2].partition("/")[2]: page for page in pages}


def _without_scheme(page: Page) -> str:
    return repr(replace(page, url=page.url.partition(":")[2]))


@in_a_loop
async def test_a_site_with_every_trap() -> None:
    async with LoopbackWeb(PAGES) as web:
        with Database("sqlite://") as database:
            pages = await crawled(web, depth=MAX_DEPTH, store=database, retries=0)
            counts = await CrawlStore(database).count_pages(1)
    found = by_path(pages)
    [loop] = [path for path in found if path.startswith("/loop/")]
    assert "redirects in a circle" in found[loop].error
    assert {path: page.depth for path, page in found.items() if path != loop} == WANTED
    assert len(pages) == len(found)
    asked = Counter(url for _, url in web.requests)
    again = {url for url, count in asked.items() if count > 1}
    assert again <= {f"http://{HOST}/loop/a", f"http://{HOST}/loop/b"}, "each once; what leads in a circle to see it"
    assert web.refused == []
    assert {request.headers["accept"] for request in web.seen if request.target != "/robots.txt"} == {
        "text/html, application/xhtml+xml, */*;q=0.8"
    }
    assert found["/tls"].requested_url == "http://site.example.com/tls"
    assert found["/secure"].requested_url == "https://site.example.com/secure"
    assert (found["/about"].requested_url, found["/about"].final_url) == (f"{SEED}about/", f"{SEED}about/")
    assert (found["/only-old"].final_url, found["/only-old"].title) == (f"{SEED}only-new/", "Only new")
    assert [(link.url, link.verdict) for link in found["/leaves"].external] == [
        ("https://other.example.org/landing", "external")
    ]
    assert "redirects in a circle" in found["/self-loop"].error
    assert "scheme file" in found["/to-file"].error
    assert (found["/gone"].status, found["/gone"].links) == (404, ())
    assert (found["/broken"].status, found["/broken"].error) == (500, "the server answered 500")
    assert (found["/data"].status, found["/data"].links, found["/data"].error) == (200, (), "")
    assert {page.engine for page in pages} == {"http"}
    home = found["/"]
    assert home.title == "Home"
    assert [link.url for link in home.external] == [
        "https://www.example.com/",
        "http://www.site.example.com/",
        "https://other.example.org/a.html",
    ]
    skipped = [link for link in home.links if link.verdict == "skip"]
    assert len(skipped) == len(SKIPPED) + 2, "and two to itself"
    assert all(link.reason for link in home.links)
    assert counts.skipped == {SkipReason.REDIRECT_TO_PAGE: 2, SkipReason.DUPLICATE: 1}
    assert counts.duplicates_avoided > 10


@in_a_loop
async def test_the_records_are_what_the_store_has() -> None:
    async with LoopbackWeb(PAGES) as web:
        with Database("sqlite://") as database:
            pages = await crawled(web, depth=2, store=database, retries=0)
            before = len(web.requests)
            again = await crawled(web, store=database, resume=True)
    assert sorted(map(repr, again)) == sorted(map(repr, pages)) or {page.url[:5] for page in again} == {
        "http:",
        "https",
    }
    assert Counter(paths(again)) == Counter(paths(pages))
    assert len(web.requests) == before, "it was done"


@in_a_loop
async def test_a_link_that_is_no_url_says_why() -> None:
    page = html(links("http://a.example:99999/", "http://[bad/", "/fine"))
    async with LoopbackWeb(site({"/": page, "/fine": html("")})) as web:
        start = next(each for each in await crawled(web) if each.links)
    assert [(str(link.verdict), link.reason) for link in start.links[:2]] == [
        ("skip", "port out of range"),
        ("skip", "not an IPv6 address"),
    ]


RULES = [
    # seed 002, rule by rule: hrefs on the start page, paths that are crawled
    ("lowercase scheme and host", ["HTTP://SITE.EXAMPLE.COM/Path"], ["", "Path"]),
    ("the path stays as it is", ["/Path", "/path"], ["", "Path", "path"]),
    ("no fragments", ["/page#section", "/page"], ["", "page"]),
    ("no trailing slash", ["/about/", "/about"], ["", "about"]),
    ("the root has one", ["http://site.example.com", "http://site.example.com/"], [""]),
    ("no default port", ["http://site.example.com:80/page", "/page"], ["", "page"]),
    ("unreserved characters are decoded", ["/%68ello%2Dworld", "/hello-world"], ["", "hello-world"]),
    ("others are not", ["/a%2Fb", "/a/b"], ["", "a%2Fb", "a/b"]),
    ("queries tell pages apart", ["/p?a=1", "/p?a=2", "/p"], ["", "p", "p?a=1", "p?a=2"]),
    ("www is another site", ["http://www.site.example.com/x"], [""]),
    ("a name below it, too", ["http://sub.site.example.com/x"], [""]),
    ("skipped schemes", ["mailto:a@b.c", "tel:1", "javascript:0", "data:,x", "ws://site.example.com/"], [""]),
    ("skipped extensions", [f"/x.{extension}" for extension in EXTENSIONS], [""]),
    ("skipped patterns", ["#section", "", "/", "?", "/#top"], [""]),
]


@pytest.mark.parametrize(("why", "hrefs", "wanted"), RULES)
@in_a_loop
async def test_seed_002(why: str, hrefs: list[str], wanted: list[str]) -> None:
    spellings = [
        "/Path",
        "/path",
        "/page",
        "/about/",
        "/about",
        "/%68ello%2Dworld",
        "/a%2Fb",
        "/a/b",
        "/p?a=1",
        "/p?a=2",
        "/p",
    ]
    async with LoopbackWeb(site({"/": html(links(*hrefs)), **dict.fromkeys(spellings, html(""))})) as web:
        assert paths(await crawled(web)) == sorted(wanted), why
        asked = [url for _, url in web.requests]
    assert len(asked) == len(wanted) + 1, "robots.txt, and each page once"


@in_a_loop
async def test_https_goes_before_http() -> None:
    pages = site({"/": html(links("/a", "/b")), "/a": html(links("https://site.example.com/b"))})
    pages["http://site.example.com/b"] = html("", delay_ms=50)
    async with LoopbackWeb(pages) as web:
        with Database("sqlite://") as database:
            await crawled(web, store=database)
            stored = [each.page for each in await CrawlStore(database).list_pages(1)]
        assert Counter(url for _, url in web.requests)["http://site.example.com/b"] == 1
    assert [page.url for page in stored if page.url.endswith("/b")] == ["https://site.example.com/b"]


@in_a_loop
async def test_a_start_page_on_another_host() -> None:
    pages = site({"/": moved("http://www.example.org/home")}) | site(
        {"/home": html(links("/a")), "/a": html("")}, "www.example.org"
    )
    async with LoopbackWeb(pages) as web:
        with pytest.raises(canonry.StartMoved) as caught:
            await crawled(web)
        assert caught.value.target == "http://www.example.org/home"
        found = await crawled(web, follow_start=True)
    assert [page.url for page in found] == ["http://www.example.org/home", "http://www.example.org/a"]


@in_a_loop
async def test_www_of_the_seed_counts() -> None:
    pages = site({"/": html(links("http://site.example.com/no", "/yes")), "/yes": html("")}, "www.site.example.com")
    async with LoopbackWeb(pages) as web:
        assert paths(await crawled(web, "http://www.site.example.com/")) == ["", "yes"]


@in_a_loop
async def test_limits() -> None:
    async with LoopbackWeb(PAGES) as web:
        assert len(await crawled(web, max_pages=7)) == 7
        assert {page.depth for page in await crawled(web, depth=1)} == {0, 1}
        assert paths(await crawled(web, depth=0)) == [""]


ROBOTS = """
User-agent: *
Disallow: /
User-agent: canonry
Disallow: /private
Allow: /private/open
Crawl-delay: 0.05
"""


@in_a_loop
async def test_robots() -> None:
    pages = site(
        {
            "/robots.txt": {"status": 200, "headers": {"Content-Type": "text/plain"}, "body": ROBOTS},
            "/": html(links("/private", "/private/open", "/a", "/to-private")),
            "/private/open": html(""),
            "/a": html(""),
            "/to-private": moved("/private/x"),
        }
    )
    async with LoopbackWeb(pages) as web:
        started = time.monotonic()
        with Database("sqlite://") as database:
            found = await crawled(web, store=database)
            counts = await CrawlStore(database).count_pages(1)
        assert time.monotonic() - started > 3 * 0.05
        assert paths(found) == ["", "a", "private/open"]
        assert counts.skipped == {SkipReason.ROBOTS_DISALLOWED: 1, SkipReason.REDIRECT_DISALLOWED: 1}
        assert [url for _, url in web.requests].count(f"{SEED}robots.txt") == 1
        assert web.refused == []


@in_a_loop
async def test_what_is_skipped_does_not_count_as_a_page() -> None:
    refused, fine = [f"/private/{number}" for number in range(20)], [f"/a/{number}" for number in range(20)]
    again = [f"/again/{number}" for number in range(20)]
    pages = site(
        {
            "/robots.txt": {
                "status": 200,
                "headers": {"Content-Type": "text/plain"},
                "body": ROBOTS.replace("0.05", "0"),
            },
            "/": html(links(*refused, *again, *fine)),
            **dict.fromkeys(again, moved("/")),
            **dict.fromkeys(fine, html("")),
        }
    )
    async with LoopbackWeb(pages) as web:
        for most in (1, 2, 10, 21, 50):
            assert len(await crawled(web, max_pages=most)) == min(most, 21)


@pytest.mark.parametrize(("status", "count"), [(404, 2), (403, 2), (500, 1), (503, 1)])
@in_a_loop
async def test_robots_that_cannot_be_read(status: int, count: int) -> None:
    pages = site({"/robots.txt": {"status": status, "headers": {}, "body": ""}, "/": html(links("/a")), "/a": html("")})
    async with LoopbackWeb(pages) as web:
        found = await crawled(web)
    assert len(found) == count
    if count == 1:
        assert found[0].error == f"robots.txt cannot be read: the server answered {status}"
    async with LoopbackWeb(pages) as web:
        assert len(await crawled(web, robots=False)) == 2
        assert "robots" not in repr(web.requests)


@in_a_loop
async def test_a_robots_that_comes_to_itself() -> None:
    pages = site({"/robots.txt": {"sequence": [{"status": 503}, {"status": 200}], "body": ""}, "/": html("")})
    async with LoopbackWeb(pages) as web:
        assert [page.status for page in await crawled(web)] == [200]


@in_a_loop
async def test_delay() -> None:
    pages = site({"/": html(links("/a", "/b", "/c")), **dict.fromkeys(["/a", "/b", "/c"], html(""))})
    async with LoopbackWeb(pages) as web:
        started = time.monotonic()
        assert len(await crawled(web, delay=0.1)) == 4
        assert time.monotonic() - started > 0.3


@in_a_loop
async def test_retries() -> None:
    pages = site(
        {
            "/": html(links("/503", "/429", "/500", "/404")),
            "/503": html("<title>up</title>", sequence=[{"status": 503}, {"status": 200}]),
            "/429": html("", sequence=[{"status": 429, "headers": {"Retry-After": "1"}}, {"status": 200}]),
            "/500": html("", status=500),
            "/404": html("", status=404),
        }
    )
    async with LoopbackWeb(pages) as web:
        started = time.monotonic()
        found = by_path(await crawled(web))
        asked = Counter(url for _, url in web.requests)
    assert time.monotonic() - started > 1
    assert {path: page.status for path, page in found.items()} == {
        "/": 200,
        "/503": 200,
        "/429": 200,
        "/500": 500,
        "/404": 404,
    }
    assert [asked[SEED + str(status)] for status in (503, 429, 500, 404)] == [2, 2, 3, 1]
    summary = Summary()
    for page in found.values():
        summary.add(page)
    assert (summary.pages, summary.failed, summary.is_seed_failed) == (5, 1, False)


SITEMAP = """<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc> http://site.example.com/a?x=1&amp;y=2 </loc><image:loc xmlns:image="i">/no</image:loc></url>
<url><loc>http://site.example.com/skip.pdf</loc></url><url><loc>http://elsewhere.example.com/</loc></url>
<url><loc>not a url</loc></url></urlset>"""
INDEX = """<sitemapindex><sitemap><loc>http://site.example.com/one.xml.gz</loc></sitemap>
<sitemap><loc>http://site.example.com/two.txt</loc></sitemap><sitemap><loc>http://site.example.com/index.xml</loc></sitemap>
<sitemap><loc>http://site.example.com/none.xml</loc></sitemap></sitemapindex>"""


@in_a_loop
async def test_sitemaps() -> None:
    import base64

    pages = site(
        {
            "/robots.txt": {"status": 200, "headers": {}, "body": "Sitemap: http://site.example.com/index.xml"},
            "/index.xml": {"status": 200, "headers": {}, "body": INDEX},
            "/one.xml.gz": {"headers": {}, "body_base64": base64.b64encode(gzip.compress(SITEMAP.encode())).decode()},
            "/two.txt": {"status": 200, "headers": {}, "body": "http://site.example.com/b\nhttp://site.example.com/"},
            "/none.xml": {"status": 404, "headers": {}, "body": ""},
            "/": html(""),
            "/a?x=1&y=2": html(""),
            "/b": html(links("/c")),
            "/c": html(""),
        }
    )
    async with LoopbackWeb(pages) as web:
        assert paths(await crawled(web, sitemaps=True)) == ["", "a?x=1&y=2", "b", "c"]
        assert paths(await crawled(web)) == [""]


@in_a_loop
async def test_a_fetch_of_the_callers_own() -> None:
    async def fetch(url: str, **_: object) -> Response:
        if url.endswith("/robots.txt"):
            raise OSError("no such thing")
        return Response(200, url, {"Content-Type": "text/html"}, links("/a").encode())

    found = [page async for page in canonry.crawl(SEED, engine="http", store="sqlite://", fetch=fetch, robots=False)]
    assert paths(found) == ["", "a"]


@in_a_loop
async def test_a_consumer_that_leaves_early_loses_nothing() -> None:
    async with LoopbackWeb(PAGES) as web, web.client() as client:
        with Database("sqlite://") as database:
            pages = crawl(SEED, client=client, **(OPTIONS | {"store": database, "depth": 3, "retries": 0}))
            async for _ in pages:
                break
            await pages.aclose()
            assert (await CrawlStore(database).count_pages(1)).fetching == 0
            rest = await crawled(web, store=database, resume=True)
    wanted = {path for path, depth in WANTED.items() if depth <= 3}
    assert {path for path in by_path(rest) if not path.startswith("/loop")} == wanted


@in_a_loop
async def test_credentials_go_to_their_origin_and_nowhere_else() -> None:
    secret = {"require_auth": "user:secret"}
    pages = site(
        {
            "/robots.txt": {**NO_ROBOTS, **secret},
            "/": html(links("a", "http://site.example.com/b"), **secret),
            "/a": html("", **secret),
            "/b": html("", **secret),
        }
    )
    async with LoopbackWeb(pages) as web:
        with Database("sqlite://") as database:
            found = await crawled(web, "http://user:secret@site.example.com/", store=database)
    assert [page.status for page in found] == [200, 200, 200]
    assert "secret" not in repr(found)


@in_a_loop
async def test_the_guard_holds_for_every_page() -> None:
    """A name that is public at first and leads to an allowed network later."""
    turns: list[str] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            turns.append(request.target)
            writer.write(
                http_answer(200, {"Content-Type": "text/html", "Connection": "close"}, "GET", links("/a").encode())
            )
            return

    async with Listener(talk) as public, Listener(talk, address="127.0.0.3") as inside:
        addresses = iter([(ADDRESS, public.port), (ADDRESS, public.port)])

        async def lookup(host: str, port: int) -> list[tuple[str, int]]:
            return [next(addresses, ("127.0.0.3", inside.port))]

        guard = Guard([f"{ADDRESS}/32"], EVERY_PORT)
        async with make_client(lookup=lookup, guard=guard) as client:
            found = [page async for page in crawl(SEED, client=client, **OPTIONS)]
        assert [(page.status, "is a loopback address" in page.error) for page in found] == [(200, False), (0, True)]
        assert inside.accepted == 0


async def _forever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """/endless never ends, /slow never begins, /links has a million, /charset lies about itself."""
    while (request := await read_request(reader)) is not None:
        kind = {"Content-Type": "text/html"}
        match request.target:
            case "/":
                hrefs = ["/endless", "/slow", "/links", "/charset", "/private", "/bomb", "/cut", "/fine"]
                writer.write(http_answer(200, kind, "GET", links(*hrefs).encode()))
            case "/endless":
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<a href=/from-endless>"
                )
                while True:
                    writer.write(b"x" * 65536)
                    await writer.drain()
            case "/slow":
                await asyncio.sleep(60)
            case "/links":
                writer.write(
                    http_answer(200, kind, "GET", b"".join(b"<a href=/fine?%d>" % (n % 3) for n in range(250_000)))
                )
            case "/charset":
                body = '<a href="/fine?é">é</a>\udcff<a href=/fine?4>'.encode("utf-8", "surrogateescape")
                writer.write(http_answer(200, {"Content-Type": "text/html; charset=utf-16"}, "GET", body))
            case "/private":
                writer.write(http_answer(302, {"Location": "http://127.0.0.1/secret"}))
            case "/bomb":
                body = gzip.compress(b"<a href=/fine?bomb>" + b" " * 50_000_000)
                writer.write(http_answer(200, {**kind, "Content-Encoding": "gzip"}, "GET", body))
            case "/cut":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort")
                return
            case "/robots.txt":
                writer.write(http_answer(404, {}))
            case _:
                writer.write(http_answer(200, kind, "GET", b"<title>fine</title>"))
        await writer.drain()


@pytest.mark.slow
@in_a_loop
async def test_hostile_pages_cost_one_page_each() -> None:
    async with Listener(_forever) as server, make_client(timeout=6.0) as client:
        seed = f"http://{ADDRESS}:{server.port}/"
        found = by_path(
            [page async for page in crawl(seed, client=client, **(OPTIONS | {"retries": 0, "per_host": 8}))]
        )
    errors = {path: page.error for path, page in found.items()}
    assert errors["/endless"] == errors["/bomb"] == "only the first 5242880 bytes were read"
    assert "/from-endless" in found and "/fine?bomb" in found
    assert "within 6 s" in errors["/slow"]
    assert errors["/links"].startswith("only the first 10000 of 250000 links")
    assert "is a loopback address" in errors["/private"]
    assert "closed within the body" in errors["/cut"]
    assert errors["/charset"] == ""
    assert found["/fine"].title == "fine"
