"""What links to a known page change: its depth, https and other spellings, also after the page was read."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from canonry.core.presets import get_newest
from canonry.crawler.crawl import crawl
from canonry.crawler.crawl_options import choose_crawl_policy, parse_options
from canonry.crawler.crawl_store import CrawlStore
from canonry.crawler.known_pages import KnownPage, Spelling, improve_page, try_next_spelling
from canonry.crawler.results import PageState, PageUrl
from canonry.errors import OptionsFixed
from canonry.store.database import Database
from crawl_site import html, links
from loopback import LoopbackWeb, in_a_loop

if TYPE_CHECKING:
    from canonry.crawler.pages import Page

SITE = "http://site.example.com"
NO_ROBOTS: dict[str, Any] = {"status": 404, "headers": {}, "body": ""}
QUEUED = KnownPage(1, "key", f"{SITE}/docs", f"{SITE}/docs", "", 3, PageState.QUEUED)
READ = replace(QUEUED, state=PageState.DONE, status=200, is_begun=True)
MISSING = replace(READ, status=404)
TRIED = (Spelling(f"{SITE}/docs/", "", is_tried=True),)
SLASH = Spelling(f"{SITE}/docs/", "")
HTTPS = PageUrl("https://site.example.com/docs", "https://site.example.com/docs")

IMPROVED: list[tuple[str, KnownPage, PageUrl, int, dict[str, Any]]] = [
    # why, the known page, the found one, its depth, what changes
    ("nothing new", QUEUED, PageUrl(f"{SITE}/docs", f"{SITE}/docs"), 5, {}),
    ("nearer", QUEUED, PageUrl(f"{SITE}/docs", f"{SITE}/docs"), 2, {"depth": 2}),
    ("nearer, and read already", READ, PageUrl(f"{SITE}/docs", f"{SITE}/docs"), 2, {"depth": 2}),
    ("a spelling, just in case", QUEUED, PageUrl(f"{SITE}/docs", f"{SITE}/docs/"), 3, {"spellings": (SLASH,)}),
    ("a spelling of a page that was read", READ, PageUrl(f"{SITE}/docs", f"{SITE}/docs/"), 3, {}),
    (
        "a spelling of a missing page",
        MISSING,
        PageUrl(f"{SITE}/docs", f"{SITE}/docs/"),
        3,
        {
            "state": PageState.QUEUED,
            "requested_url": f"{SITE}/docs/",
            "spellings": (Spelling(f"{SITE}/docs", "", is_tried=True),),
        },
    ),
    ("a spelling that is missing, too", replace(MISSING, spellings=TRIED), PageUrl(f"{SITE}/docs", f"{SITE}/docs/"), 3, {}),
    (
        "https before the page was opened",
        QUEUED,
        HTTPS,
        3,
        {"url": HTTPS.url, "requested_url": HTTPS.url, "spellings": (Spelling(f"{SITE}/docs", ""),)},
    ),
    ("https of a page that was read", READ, HTTPS, 3, {"url": HTTPS.url}),
]  # fmt: skip


@pytest.mark.parametrize(("why", "known", "found", "depth", "changes"), IMPROVED, ids=[row[0] for row in IMPROVED])
def test_what_a_link_adds_to_a_known_page(
    why: str, known: KnownPage, found: PageUrl, depth: int, changes: dict[str, Any]
) -> None:
    assert improve_page(known, found, depth) == replace(known, **changes)


def test_each_spelling_is_tried_once() -> None:
    page: KnownPage | None = replace(QUEUED, spellings=(SLASH, Spelling(f"{SITE}/docs//", "")))
    tried: list[str] = []
    while page is not None:
        tried.append(page.requested_url)
        page = try_next_spelling(page)
    assert tried == [f"{SITE}/docs", f"{SITE}/docs/", f"{SITE}/docs//"]


def make_site(pages: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{SITE}{path}": page for path, page in {"/robots.txt": NO_ROBOTS, **pages}.items()}


async def run(web: LoopbackWeb, database: Database, **options: Any) -> dict[str, Page]:
    given: dict[str, Any] = {"engine": "http", "backoff": 0.01, **options}
    async with web.client() as client:
        found = [page async for page in crawl(f"{SITE}/", client=client, store=database, **given)]
    return {page.url.removeprefix(SITE): page for page in found}


MISSING_PAGE: dict[str, Any] = {"status": 404, "headers": {}, "body": ""}
DOCS: dict[str, dict[str, Any]] = {
    "/docs": MISSING_PAGE,
    "/docs/": html(links("/docs/a", "/docs/b")),
    "/docs/a": html(""),
    "/docs/b": html(""),
}


@pytest.mark.parametrize(
    ("start", "more"),
    [(["/docs", "/docs/"], {}), (["/docs", "/later"], {"/later": html(links("/docs/"))})],
    ids=["on one page", "found later"],
)
@in_a_loop
async def test_a_missing_spelling_does_not_close_a_page(start: list[str], more: dict[str, Any]) -> None:
    async with LoopbackWeb(make_site({"/": html(links(*start)), **DOCS, **more})) as web:
        with Database("sqlite://") as database:
            found = await run(web, database, per_host=1)
            stored = [each.page for each in await CrawlStore(database).list_pages(1)]
        asked = [url for _, url in web.requests]
    assert {"/docs", "/docs/a", "/docs/b"} <= found.keys()
    assert {page.url: page.status for page in stored}[f"{SITE}/docs"] == 200
    assert len(stored) == len({page.url for page in stored})
    assert len(asked) == len(set(asked)), "each spelling once"


@pytest.mark.parametrize("is_found", [False, True])
@in_a_loop
async def test_a_page_that_is_missing_under_each_spelling_is_returned_once(*, is_found: bool) -> None:
    docs = {"/docs": MISSING_PAGE, "/docs/": html("") if is_found else MISSING_PAGE}
    pages = {"/": html(links("/docs", "/later")), "/later": html(links("/docs/")), **docs}
    async with LoopbackWeb(make_site(pages)) as web, web.client() as client:
        with Database("sqlite://") as database:
            found = [page async for page in crawl(f"{SITE}/", engine="http", client=client, store=database, per_host=1)]
            statuses = [page.status for page in found if page.url == f"{SITE}/docs"]
            assert statuses == ([404, 200] if is_found else [404])
        asked = [url for _, url in web.requests]
    assert {f"{SITE}/docs", f"{SITE}/docs/"} <= set(asked)


CHAIN = make_site(
    {"/": html(links("/1"))} | {f"/{n}": html(links(f"/{n + 1}", "/")) for n in range(1, 6)} | {"/6": html("")}
)


@in_a_loop
async def test_a_higher_maximum_depth_continues_a_crawl() -> None:
    async with LoopbackWeb(CHAIN) as web:
        with Database("sqlite://") as database:
            assert (await run(web, database, depth=0)).keys() == {"/"}
            assert (await run(web, database, depth=2, resume=True)).keys() == {"/", "/1", "/2"}
            assert (await run(web, database, resume=True)).keys() == {"/", "/1", "/2"}, "the option is kept"
            found = await run(web, database, depth=None, resume=True)
        assert {path: page.depth for path, page in found.items()} == {"/": 0, **{f"/{n}": n for n in range(1, 7)}}
        asked = [url for _, url in web.requests if not url.endswith("/robots.txt")]
        assert len(asked) == 7, "each page once"


@in_a_loop
async def test_a_higher_maximum_depth_follows_links_of_every_source() -> None:
    body = "<a href=/a>a</a><map><area href=/b></map><iframe src=/c></iframe><svg><a xlink:href=/d>d</a></svg>"
    site = make_site({"/": html(body), **{f"/{name}": html("") for name in "abcd"}})
    async with LoopbackWeb(site) as web:
        with Database("sqlite://") as database:
            assert (await run(web, database, depth=0)).keys() == {"/"}
            assert (await run(web, database, depth=1, resume=True)).keys() == {"/", "/a", "/b", "/c", "/d"}


@in_a_loop
async def test_a_lower_maximum_depth_leaves_queued_pages() -> None:
    async with LoopbackWeb(CHAIN) as web:
        with Database("sqlite://") as database:
            await run(web, database, max_pages=3)
            found = await run(web, database, max_pages=None, depth=2, resume=True)
            assert (set(found), (await CrawlStore(database).count_pages(1)).queued) == ({"/", "/1", "/2"}, 1)
            assert len(await run(web, database, depth=None, resume=True)) == 7


@pytest.mark.parametrize("depth", [None, 3])
@in_a_loop
async def test_a_slow_page_does_not_stall_its_level_and_depths_stay_exact(depth: int | None) -> None:
    """The slow page has a short way to /c, whose other way is longer: all is read before the slow page answers."""
    pages = {
        "/": html(links("/slow", "/a")),
        "/a": html(links("/b")),
        "/b": html(links("/c")),
        "/c": html(links("/d")),
        "/d": html(links("/e")),
        "/e": html(links("/f")),
        "/f": html(""),
        "/slow": html(links("/c"), delay_ms=1000),
    }
    async with LoopbackWeb(make_site(pages)) as web:
        with Database("sqlite://") as database:
            async with web.client() as client, asyncio.timeout(60):
                pages_read = crawl(f"{SITE}/", engine="http", client=client, store=database, depth=depth)
                order = [page.url.removeprefix(SITE) async for page in pages_read]
            stored = {
                each.page.url.removeprefix(SITE): each.page.depth for each in await CrawlStore(database).list_pages(1)
            }
    wanted = {"/": 0, "/slow": 1, "/a": 1, "/b": 2, "/c": 2, "/d": 3, "/e": 4, "/f": 5}
    assert stored == {path: each for path, each in wanted.items() if depth is None or each <= depth}
    assert order.index("/c") < order.index("/slow"), "the slow page held nothing up"


DECORATED = make_site(
    {
        "/": html(links("/a?utm_source=x", "/a?utm_source=y#top", "/b?x=1&y=2", "/b?y=2&x=1")),
        "/a?utm_source=x": html(""),
        "/a?utm_source=y": html(""),
        "/b?x=1&y=2": html(""),
        "/b?y=2&x=1": html(""),
    }
)


@pytest.mark.parametrize(("policy", "count"), [("crawl@1", 5), ("bookmark", 3)])
@in_a_loop
async def test_the_policy_decides_which_urls_are_one_page(policy: str, count: int) -> None:
    async with LoopbackWeb(DECORATED) as web:
        with Database("sqlite://") as database:
            assert len(await run(web, database, policy=policy)) == count
            [stored] = await CrawlStore(database).list_crawls()
            assert stored.options.policy.startswith(policy)
            assert len(await run(web, database, resume=True)) == count
            with pytest.raises(OptionsFixed):
                await run(web, database, resume=True, policy="article@0")


@in_a_loop
async def test_a_policy_that_strips_www_stays_on_the_host() -> None:
    host = "http://www.site.example.com"
    pages = {f"{host}/robots.txt": NO_ROBOTS, f"{host}/": html(links("/a", "http://site.example.com/b"))}
    async with LoopbackWeb({**pages, f"{host}/a": html("")}) as web, web.client() as client:
        read = crawl(f"{host}/", engine="http", store="sqlite://", client=client, policy="bookmark")
        assert [page.requested_url async for page in read] == [f"{host}/", f"{host}/a"]


def test_a_name_without_version_means_the_newest_policy() -> None:
    assert choose_crawl_policy("crawl")["policy"] == get_newest("crawl").id
    assert parse_options("{}").policy == "crawl@1", "crawls of older stores"
