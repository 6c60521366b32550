"""Crawls of sites on loopback (contract C): every rule for URLs, and a site with every trap."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import canonry
from canonry.crawler.crawl import crawl, start_crawl
from canonry.crawler.crawl_options import CrawlOptions
from canonry.crawler.crawl_store import CrawlStore
from canonry.crawler.pages import Summary
from canonry.crawler.reasons import SkipReason
from canonry.errors import FailureKind, InvalidFields
from canonry.net.guard import Guard
from canonry.net.response import Response
from canonry.store.database import Database
from crawl_site import EXTENSIONS, HOST, MAX_DEPTH, PAGES, SEED, SKIPPED, WANTED, html, links, moved
from loopback import (
    ADDRESS,
    EVERY_PORT,
    Listener,
    LoopbackWeb,
    in_a_loop,
    make_client,
    make_http_response,
    read_request,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from canonry.crawler.pages import Page

OPTIONS: dict[str, Any] = {"engine": "http", "store": "sqlite://", "backoff": 0.01}
NO_ROBOTS = {"status": 404, "headers": {}, "body": ""}


def make_site(pages: Mapping[str, Mapping[str, Any]], host: str = HOST) -> dict[str, Mapping[str, Any]]:
    return {f"http://{host}{path}": page for path, page in {"/robots.txt": NO_ROBOTS, **pages}.items()}


async def crawl_site(web: LoopbackWeb, seed: str = SEED, **options: Any) -> list[Page]:
    async with web.client() as client:
        return [page async for page in crawl(seed, client=client, **(OPTIONS | options))]


def get_paths(pages: list[Page]) -> list[str]:
    return sorted(page.url.partition("://")[2].partition("/")[2] for page in pages)


def index_by_path(pages: list[Page]) -> dict[str, Page]:
    return {"/" + page.url.partition("://")[2].partition("/")[2]: page for page in pages}


def _remove_scheme(page: Page) -> str:
    """A page for comparison: its URL becomes https when an https link is found later (contract C1)."""
    return repr(replace(page, url=page.url.partition(":")[2]))


@in_a_loop
async def test_each_page_of_a_site_with_every_trap_is_crawled_once() -> None:
    async with LoopbackWeb(PAGES) as web:
        with Database("sqlite://") as database:
            pages = await crawl_site(web, depth=MAX_DEPTH, store=database, retries=0)
            counts = await CrawlStore(database).count_pages(1)
    found = index_by_path(pages)
    [loop] = [path for path in found if path.startswith("/loop/")]
    assert found[loop].failure is FailureKind.REDIRECT_LOOP
    assert {path: page.depth for path, page in found.items() if path != loop} == WANTED
    assert len(pages) == len(found)
    asked = Counter(url for _, url in web.requests)
    again = {url for url, count in asked.items() if count > 1}
    assert again <= {f"http://{HOST}/loop/a", f"http://{HOST}/loop/b"}, "each page once, except redirect loops"
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
    assert found["/self-loop"].failure is FailureKind.REDIRECT_LOOP
    assert found["/to-file"].failure is FailureKind.REFUSED
    assert (found["/gone"].status, found["/gone"].failure) == (404, FailureKind.STATUS)
    assert [link.href for link in found["/gone"].links] == [SEED]
    assert (found["/broken"].status, found["/broken"].failure) == (500, FailureKind.UNAVAILABLE)
    assert (found["/data"].status, found["/data"].links, found["/data"].failure) == (200, (), None)
    assert {page.engine for page in pages} == {"http"}
    home = found["/"]
    assert home.title == "Home"
    assert [link.url for link in home.external] == [
        "https://www.example.com/",
        "http://www.site.example.com/",
        "https://other.example.org/a.html",
    ]
    skipped = [link for link in home.links if link.verdict == "skip"]
    assert len(skipped) == len(SKIPPED) + 2, "and two links to the page itself"
    assert all(link.reason for link in home.links)
    assert counts.skipped == {SkipReason.REDIRECT_TO_PAGE: 2, SkipReason.DUPLICATE: 1}
    assert counts.duplicates_avoided > 10


@in_a_loop
async def test_a_resumed_crawl_yields_the_pages_that_are_stored() -> None:
    async with LoopbackWeb(PAGES) as web:
        with Database("sqlite://") as database:
            pages = await crawl_site(web, depth=2, store=database, retries=0)
            before = len(web.requests)
            again = await crawl_site(web, store=database, resume=True)
    assert sorted(map(_remove_scheme, again)) == sorted(map(_remove_scheme, pages))
    assert len(web.requests) == before, "the crawl was done"


@pytest.mark.parametrize("option", [{"wait": "load"}, {"scroll": True}, {"routes": True}, {"load_images": True}])
@in_a_loop
async def test_options_that_only_chrome_follows_are_refused_for_the_http_engine(
    option: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "site.warc.gz"
    async with LoopbackWeb(PAGES) as web:
        with Database("sqlite://") as database:
            with pytest.raises(InvalidFields) as caught:
                await crawl_site(web, store=database, warc=file, **option)
            assert set(caught.value.reasons) == set(option)
            assert not web.requests and not file.exists()
            await crawl_site(web, store=database, max_pages=1)
            for again in ("resume", "again"):  # of a crawl whose engine is stored
                with pytest.raises(InvalidFields):
                    await crawl_site(web, store=database, **{"engine": None, again: True, **option})


@in_a_loop
async def test_a_stored_crawl_continues_with_options_that_its_engine_cannot_follow() -> None:
    async with LoopbackWeb(PAGES) as web:
        with Database("sqlite://") as database:
            crawls = CrawlStore(database)
            stored = replace(CrawlOptions(), engine="http", scroll=True)
            await start_crawl(crawls, SEED, stored, datetime.now(UTC))
            assert await crawl_site(web, store=database, resume=True, depth=0)


@in_a_loop
async def test_a_link_that_is_no_url_is_skipped_with_a_reason() -> None:
    page = html(links("http://a.example:99999/", "http://[bad/", "/fine"))
    async with LoopbackWeb(make_site({"/": page, "/fine": html("")})) as web:
        start = next(each for each in await crawl_site(web) if each.links)
    assert [(str(link.verdict), link.reason != "") for link in start.links[:2]] == [("skip", True), ("skip", True)]


RULES = [
    # why, links of the start page, paths that are crawled (contract C1 to C3)
    ("lowercase scheme and host", ["HTTP://SITE.EXAMPLE.COM/Path"], ["", "Path"]),
    ("the path stays as it is", ["/Path", "/path"], ["", "Path", "path"]),
    ("no fragments", ["/page#section", "/page"], ["", "page"]),
    ("no trailing slash", ["/about/", "/about"], ["", "about"]),
    ("the root path keeps its slash", ["http://site.example.com", "http://site.example.com/"], [""]),
    ("no default port", ["http://site.example.com:80/page", "/page"], ["", "page"]),
    ("unreserved characters are decoded", ["/%68ello%2Dworld", "/hello-world"], ["", "hello-world"]),
    ("other characters stay escaped", ["/a%2Fb", "/a/b"], ["", "a%2Fb", "a/b"]),
    ("a query makes another page", ["/p?a=1", "/p?a=2", "/p"], ["", "p", "p?a=1", "p?a=2"]),
    ("www is another site", ["http://www.site.example.com/x"], [""]),
    ("a subdomain is another site", ["http://sub.site.example.com/x"], [""]),
    ("skipped schemes", ["mailto:a@b.c", "tel:1", "javascript:0", "data:,x", "ws://site.example.com/"], [""]),
    ("skipped extensions", [f"/x.{extension}" for extension in EXTENSIONS], [""]),
    ("skipped patterns", ["#section", "", "/", "?", "/#top"], [""]),
]


@pytest.mark.parametrize(("why", "hrefs", "wanted"), RULES)
@in_a_loop
async def test_a_rule_for_urls_decides_which_pages_are_crawled(why: str, hrefs: list[str], wanted: list[str]) -> None:
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
    async with LoopbackWeb(make_site({"/": html(links(*hrefs)), **dict.fromkeys(spellings, html(""))})) as web:
        assert get_paths(await crawl_site(web)) == sorted(wanted), why
        asked = [url for _, url in web.requests]
    assert len(asked) == len(wanted) + 1, "robots.txt and each page once"


@in_a_loop
async def test_https_is_preferred_to_http() -> None:
    pages = make_site({"/": html(links("/a", "/b")), "/a": html(links("https://site.example.com/b"))})
    pages["http://site.example.com/b"] = html("", delay_ms=50)
    async with LoopbackWeb(pages) as web:
        with Database("sqlite://") as database:
            await crawl_site(web, store=database)
            stored = [each.page for each in await CrawlStore(database).list_pages(1)]
        assert Counter(url for _, url in web.requests)["http://site.example.com/b"] == 1
    assert [page.url for page in stored if page.url.endswith("/b")] == ["https://site.example.com/b"]


@in_a_loop
async def test_a_start_page_on_another_host_is_crawled_only_on_request() -> None:
    pages = make_site({"/": moved("http://www.example.org/home")}) | make_site(
        {"/home": html(links("/a")), "/a": html("")}, "www.example.org"
    )
    async with LoopbackWeb(pages) as web:
        with pytest.raises(canonry.StartMoved) as caught:
            await crawl_site(web)
        assert caught.value.target == "http://www.example.org/home"
        found = await crawl_site(web, follow_start=True)
    assert [page.url for page in found] == ["http://www.example.org/home", "http://www.example.org/a"]


@in_a_loop
async def test_www_of_the_seed_is_part_of_the_host() -> None:
    pages = make_site(
        {"/": html(links("http://site.example.com/no", "/yes")), "/yes": html("")}, "www.site.example.com"
    )
    async with LoopbackWeb(pages) as web:
        assert get_paths(await crawl_site(web, "http://www.site.example.com/")) == ["", "yes"]


@in_a_loop
async def test_a_crawl_respects_its_limits_of_pages_and_depth() -> None:
    async with LoopbackWeb(PAGES) as web:
        assert len(await crawl_site(web, max_pages=7)) == 7
        assert {page.depth for page in await crawl_site(web, depth=1)} == {0, 1}
        assert get_paths(await crawl_site(web, depth=0)) == [""]


ROBOTS = """
User-agent: *
Disallow: /
User-agent: canonry
Disallow: /private
Allow: /private/open
Crawl-delay: 0.05
"""


@in_a_loop
async def test_robots_txt_is_obeyed() -> None:
    pages = make_site(
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
            found = await crawl_site(web, store=database)
            counts = await CrawlStore(database).count_pages(1)
        assert time.monotonic() - started > 3 * 0.05
        assert get_paths(found) == ["", "a", "private/open"]
        assert counts.skipped == {SkipReason.ROBOTS_DISALLOWED: 1, SkipReason.REDIRECT_DISALLOWED: 1}
        assert [url for _, url in web.requests].count(f"{SEED}robots.txt") == 1
        assert web.refused == []


@in_a_loop
async def test_skipped_pages_do_not_count_towards_the_limit() -> None:
    refused, fine = [f"/private/{number}" for number in range(20)], [f"/a/{number}" for number in range(20)]
    again = [f"/again/{number}" for number in range(20)]
    pages = make_site(
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
            assert len(await crawl_site(web, max_pages=most)) == min(most, 21)


@in_a_loop
async def test_the_target_of_many_redirects_is_read_once() -> None:
    walled = [f"/{number}" for number in range(10)]
    pages = make_site(
        {
            "/": html(links("/first")),
            **dict.fromkeys(["/first", *walled], moved("/login", 302)),
            "/login": html("<title>Log in</title>" + links("/help")),
            "/help": html(links("/login", *walled)),
        }
    )
    async with LoopbackWeb(pages) as web:
        found = index_by_path(await crawl_site(web))
        assert (sorted(found), found["/first"].final_url) == (["/", "/first", "/help"], f"{SEED}login")
        assert [url for _, url in web.requests].count(f"{SEED}login") == 1


@pytest.mark.parametrize(("status", "count"), [(404, 2), (403, 2), (500, 1), (503, 1)])
@in_a_loop
async def test_an_unreadable_robots_txt_stops_the_crawl_and_a_missing_one_does_not(status: int, count: int) -> None:
    pages = make_site(
        {"/robots.txt": {"status": status, "headers": {}, "body": ""}, "/": html(links("/a")), "/a": html("")}
    )
    async with LoopbackWeb(pages) as web:
        found = await crawl_site(web, retries=2)
        asked = [url for _, url in web.requests].count(f"{SEED}robots.txt")
    assert len(found) == count
    assert asked == (3 if count == 1 else 1), "once for each attempt to read the start page"
    if count == 1:
        assert found[0].failure is FailureKind.UNAVAILABLE
    async with LoopbackWeb(pages) as web:
        assert len(await crawl_site(web, robots=False)) == 2
        assert "robots" not in repr(web.requests)


@in_a_loop
async def test_robots_txt_is_retried() -> None:
    pages = make_site({"/robots.txt": {"sequence": [{"status": 503}, {"status": 200}], "body": ""}, "/": html("")})
    async with LoopbackWeb(pages) as web:
        assert [page.status for page in await crawl_site(web)] == [200]


@in_a_loop
async def test_requests_are_at_least_the_delay_apart() -> None:
    pages = make_site({"/": html(links("/a", "/b", "/c")), **dict.fromkeys(["/a", "/b", "/c"], html(""))})
    async with LoopbackWeb(pages) as web:
        started = time.monotonic()
        assert len(await crawl_site(web, delay=0.1)) == 4
        assert time.monotonic() - started > 0.3


@in_a_loop
async def test_answers_429_and_5xx_are_retried() -> None:
    pages = make_site(
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
        found = index_by_path(await crawl_site(web))
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
async def test_pages_of_sitemaps_are_crawled_on_request() -> None:
    import base64

    pages = make_site(
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
        assert get_paths(await crawl_site(web, sitemaps=True)) == ["", "a?x=1&y=2", "b", "c"]
        assert get_paths(await crawl_site(web)) == [""]
        with Database("sqlite://") as database:
            assert get_paths(await crawl_site(web, store=database)) == [""]
            again = await crawl_site(web, store=database, resume=True, sitemaps=True)
            assert get_paths(again) == ["", "a?x=1&y=2", "b", "c"]
            before = len(web.requests)
            assert get_paths(await crawl_site(web, store=database, resume=True)) == ["", "a?x=1&y=2", "b", "c"]
            assert len(web.requests) == before, "the sitemaps were read"


@in_a_loop
async def test_robots_txt_may_name_a_sitemap_by_its_path() -> None:
    robots = "Sitemap: http://[\nSitemap: /maps/pages.txt"
    pages = make_site(
        {
            "/robots.txt": {"status": 200, "headers": {}, "body": robots},
            "/maps/pages.txt": {"body": f"{SEED}a"},
            "/": html(""),
            "/a": html(""),
        }
    )
    async with LoopbackWeb(pages) as web:
        assert get_paths(await crawl_site(web, sitemaps=True)) == ["", "a"]


@in_a_loop
async def test_a_sitemap_that_fails_for_a_moment_is_requested_again() -> None:
    answers = [{"status": 503}, {"headers": {"Content-Encoding": "gzip"}, "body": "cut short"}, {"body": f"{SEED}a"}]
    pages = make_site({"/sitemap.xml": {"sequence": answers}, "/": html(""), "/a": html("")})
    async with LoopbackWeb(pages) as web:
        assert get_paths(await crawl_site(web, sitemaps=True, retries=2)) == ["", "a"]
    async with LoopbackWeb(pages) as web:
        with Database("sqlite://") as database:
            assert get_paths(await crawl_site(web, store=database, sitemaps=True, retries=1)) == [""]
            store = CrawlStore(database)
            [failure] = (await store.get(1)).sitemap_failures
            assert await store.has_retries(1)
            assert get_paths(await crawl_site(web, store=database, resume=True)) == ["", "a"]
            assert not await store.has_retries(1)
    assert failure.url == f"{SEED}sitemap.xml"
    assert failure.reason


@in_a_loop
async def test_sitemaps_of_a_robots_txt_that_fails_for_a_moment_are_read() -> None:
    named = {"status": 200, "headers": {}, "body": "Sitemap: /maps/pages.txt"}
    robots = {"sequence": [named, {"status": 503}, named]}
    pages = make_site({"/maps/pages.txt": {"body": f"{SEED}a"}, "/": html(""), "/a": html("")})
    pages[f"{SEED}robots.txt"] = robots
    async with LoopbackWeb(pages) as web:
        with Database("sqlite://") as database:
            assert get_paths(await crawl_site(web, store=database)) == [""]
            assert get_paths(await crawl_site(web, store=database, resume=True, sitemaps=True)) == ["", "a"]


@in_a_loop
async def test_a_resumed_crawl_reads_the_sitemaps_of_the_host_that_it_followed_to() -> None:
    pages = make_site({"/": moved("http://www.site.example.com/")}) | make_site(
        {
            "/": html(""),
            "/sitemap.xml": {"status": 200, "headers": {}, "body": "http://www.site.example.com/listed"},
            "/listed": html(""),
        },
        f"www.{HOST}",
    )
    async with LoopbackWeb(pages) as web:
        with Database("sqlite://") as database:
            options: dict[str, Any] = {"store": database, "follow_start": True, "sitemaps": True}
            assert get_paths(await crawl_site(web, **options, max_pages=1)) == [""]
            assert get_paths(await crawl_site(web, **options, max_pages=None, resume=True)) == ["", "listed"]
        async with web.client() as client:
            with Database("sqlite://") as database:
                interrupted = crawl(SEED, client=client, **(OPTIONS | options | {"store": database}))
                assert (await anext(interrupted)).url == f"http://www.{HOST}/"
                await interrupted.aclose()
                options["store"] = database
                assert get_paths(await crawl_site(web, **options, resume=True)) == ["", "listed"]


@in_a_loop
async def test_a_fetch_function_of_the_caller_replaces_the_client() -> None:
    async def fetch(url: str, **_: object) -> Response:
        if url.endswith("/robots.txt"):
            raise OSError("no such thing")
        return Response(200, url, {"Content-Type": "text/html"}, links("/a").encode())

    found = [page async for page in canonry.crawl(SEED, engine="http", store="sqlite://", fetch=fetch, robots=False)]
    assert get_paths(found) == ["", "a"]


@in_a_loop
async def test_a_crawl_that_is_closed_early_can_be_resumed() -> None:
    async with LoopbackWeb(PAGES) as web, web.client() as client:
        with Database("sqlite://") as database:
            pages = crawl(SEED, client=client, **(OPTIONS | {"store": database, "depth": 3, "retries": 0}))
            async for _ in pages:
                break
            await pages.aclose()
            assert (await CrawlStore(database).count_pages(1)).fetching == 0
            rest = await crawl_site(web, store=database, resume=True)
    wanted = {path for path, depth in WANTED.items() if depth <= 3}
    assert {path for path in index_by_path(rest) if not path.startswith("/loop")} == wanted


@in_a_loop
async def test_credentials_are_sent_to_their_origin_and_not_recorded() -> None:
    secret = {"require_auth": "user:secret"}
    pages = make_site(
        {
            "/robots.txt": {**NO_ROBOTS, **secret},
            "/": html(links("a", "http://site.example.com/b"), **secret),
            "/a": html("", **secret),
            "/b": html("", **secret),
        }
    )
    async with LoopbackWeb(pages) as web:
        with Database("sqlite://") as database:
            found = await crawl_site(web, "http://user:secret@site.example.com/", store=database)
    assert [page.status for page in found] == [200, 200, 200]
    assert "secret" not in repr(found)


@in_a_loop
async def test_the_guard_checks_every_page() -> None:
    """The name resolves to an allowed address at first and to a private one later."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await read_request(reader) is not None:
            headers = {"Content-Type": "text/html", "Connection": "close"}
            writer.write(make_http_response(200, headers, "GET", links("/a").encode()))
            return

    async with Listener(talk) as public, Listener(talk, address="127.0.0.3") as inside:
        addresses = iter([(ADDRESS, public.port), (ADDRESS, public.port)])

        async def lookup(host: str, port: int) -> list[tuple[str, int]]:
            return [next(addresses, ("127.0.0.3", inside.port))]

        guard = Guard([f"{ADDRESS}/32"], EVERY_PORT)
        async with make_client(lookup=lookup, guard=guard) as client:
            found = [page async for page in crawl(SEED, client=client, **OPTIONS)]
        assert [(page.status, page.failure) for page in found] == [(200, None), (0, FailureKind.REFUSED)]
        assert inside.accepted == 0


async def _serve_hostile_pages(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve an endless page, one without an answer, one with 250,000 links, a wrong charset, and others."""
    while (request := await read_request(reader)) is not None:
        kind = {"Content-Type": "text/html"}
        match request.target:
            case "/":
                hrefs = ["/endless", "/slow", "/links", "/charset", "/private", "/bomb", "/cut", "/fine"]
                writer.write(make_http_response(200, kind, "GET", links(*hrefs).encode()))
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
                    make_http_response(
                        200, kind, "GET", b"".join(b"<a href=/fine?%d>" % (n % 3) for n in range(250_000))
                    )
                )
            case "/charset":
                body = '<a href="/fine?é">é</a>\udcff<a href=/fine?4>'.encode("utf-8", "surrogateescape")
                writer.write(make_http_response(200, {"Content-Type": "text/html; charset=utf-16"}, "GET", body))
            case "/private":
                writer.write(make_http_response(302, {"Location": "http://127.0.0.1/secret"}))
            case "/bomb":
                body = gzip.compress(b"<a href=/fine?bomb>" + b" " * 50_000_000)
                writer.write(make_http_response(200, {**kind, "Content-Encoding": "gzip"}, "GET", body))
            case "/cut":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort")
                return
            case "/robots.txt":
                writer.write(make_http_response(404, {}))
            case _:
                writer.write(make_http_response(200, kind, "GET", b"<title>fine</title>"))
        await writer.drain()


@pytest.mark.slow
@in_a_loop
async def test_hostile_pages_cost_one_page_each() -> None:
    async with Listener(_serve_hostile_pages) as server, make_client(timeout=20.0) as client:
        seed = f"http://{ADDRESS}:{server.port}/"
        found = index_by_path(
            [page async for page in crawl(seed, client=client, **(OPTIONS | {"retries": 0, "per_host": 8}))]
        )
    failures = {path: page.failure for path, page in found.items()}
    assert failures["/endless"] is failures["/bomb"] is failures["/links"] is FailureKind.TRUNCATED
    assert "/from-endless" in found and "/fine?bomb" in found
    assert failures["/slow"] is FailureKind.TIMEOUT
    assert len(found["/links"].links) == 10_000
    assert failures["/private"] is FailureKind.REFUSED
    assert failures["/cut"] is FailureKind.DISCONNECTED
    assert failures["/charset"] is None
    assert found["/fine"].title == "fine"
