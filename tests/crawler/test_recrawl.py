"""Recrawls: each page is new, changed, gone or the same since the earlier crawl (contract C6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from canonry.crawler.crawl import crawl
from canonry.crawler.crawl_store import CrawlStore
from canonry.crawler.recrawl import Reading, decide_change
from canonry.crawler.results import PageChange, PageOutcome
from canonry.errors import OptionsFixed
from canonry.net.page_facts import PageFacts
from canonry.store.database import Database
from chrome import make_page, needs_chrome, run_engine
from loopback import LoopbackWeb, in_a_loop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from canonry.crawler.pages import Page

SITE = "http://site.example"
READ, MISSING, FAILED = PageOutcome.READ, PageOutcome.MISSING, PageOutcome.FAILED
REFUSED, SKIPPED = PageOutcome.REFUSED, PageOutcome.SKIPPED


def read(text_hash: str = "", title: str = "", etag: str = "", final_url: str = "/a") -> Reading:
    return Reading(READ, final_url, title, text_hash, PageFacts(etag=etag))


def leave(final_url: str) -> Reading:
    return Reading(READ, final_url, leaves_site=True)


def read_file(size: int | None, content_type: str = "application/pdf", etag: str = "") -> Reading:
    return Reading(READ, "/a", facts=PageFacts(content_type, size, etag=etag))


# fmt: off
CHANGES = [
    # why                              before                after                    wanted
    ("unknown before",                 None,                 read("1"),               PageChange.NEW),
    ("failed before",                  Reading(FAILED),      read("1"),               PageChange.NEW),
    ("redirected before",              Reading(SKIPPED),     read("1"),               PageChange.NEW),
    ("the same text",                  read("1", "t"),       read("1", "t"),          PageChange.SAME),
    ("another text",                   read("1", "t"),       read("2", "t"),          PageChange.CHANGED),
    ("another title",                  read("1", "t"),       read("1", "u"),          PageChange.CHANGED),
    ("the text decides, not the etag", read("1", etag="x"),  read("1", etag="y"),     PageChange.SAME),
    ("an etag decides without a text", read(etag="x"),       read(etag="x"),          PageChange.SAME),
    ("another etag",                   read(etag="x"),       read(etag="y"),          PageChange.CHANGED),
    ("nothing to compare",             read(),               read(),                  PageChange.CHANGED),
    ("no text any more",               read("1"),            read(),                  PageChange.CHANGED),
    ("a file of the same size",        read_file(7),         read_file(7),            PageChange.SAME),
    ("a file of another size",         read_file(7),         read_file(8),            PageChange.CHANGED),
    ("a file of another type",         read_file(7),         read_file(7, "image/x"), PageChange.CHANGED),
    ("a file of unknown size",         read_file(None),      read_file(None),         PageChange.CHANGED),
    ("an etag decides, not the size",  read_file(7, etag="x"), read_file(7, etag="y"), PageChange.CHANGED),
    ("missing now",                    read("1"),            Reading(MISSING),        PageChange.GONE),
    ("missing as before",              Reading(MISSING),     Reading(MISSING),        None),
    ("missing and never known",        None,                 Reading(MISSING),        None),
    ("failed now",                     read("1"),            Reading(FAILED),         None),
    ("refused now",                    read("1"),            Reading(REFUSED),        None),
    ("redirects now",                  read("1"),            Reading(SKIPPED, "/b"),  PageChange.GONE),
    ("redirects as before",            read("1", final_url="/b"), Reading(SKIPPED, "/b"), None),
    ("leaves the site now",            read("1"),            leave("//x/"),           PageChange.GONE),
    ("leaves the site as before",      leave("//x/"),        leave("//x/"),           PageChange.SAME),
    ("leaves the site elsewhere",      leave("//x/"),        leave("//y/"),           PageChange.CHANGED),
    ("a page of its own again",        leave("//x/"),        read("1"),               PageChange.CHANGED),
    ("skipped and never known",        None,                 Reading(SKIPPED, "/b"),  None),
]
# fmt: on


@pytest.mark.parametrize(("why", "before", "after", "wanted"), CHANGES, ids=[row[0] for row in CHANGES])
def test_how_a_page_changed(why: str, before: Reading | None, after: Reading, wanted: PageChange | None) -> None:
    assert decide_change(before, after) is wanted


def link(*paths: str) -> str:
    return "".join(f'<a href="{path}">{path}</a>' for path in paths)


def site(pages: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{SITE}/robots.txt": {"status": 404}} | {f"{SITE}{path}": page for path, page in pages.items()}


BEFORE = site(
    {
        "/": make_page(link("/same", "/changed", "/gone", "/unlinked", "/moved", "/broken")),
        "/same": make_page("<title>s</title><p>text</p>" + link("/deep")),
        "/deep": make_page("deep"),
        "/changed": make_page("old"),
        "/gone": make_page("gone"),
        "/unlinked": make_page("unlinked"),
        "/moved": make_page("moved"),
        "/broken": make_page("broken"),
    }
)
AFTER = site(
    {
        "/": make_page(link("/same", "/changed", "/gone", "/moved", "/broken", "/new")),
        "/same": make_page("<title>s</title>\n<p class=x>\n text\n</p>\n" + link("/deep")),
        "/deep": make_page("deep"),
        "/changed": make_page("young"),
        "/gone": {"status": 410, "headers": {"Content-Type": "text/html"}, "body": "gone"},
        "/unlinked": make_page("unlinked"),
        "/moved": {"status": 301, "headers": {"Location": "/new"}},
        "/broken": {"status": 500, "headers": {"Content-Type": "text/html"}, "body": "error"},
        "/new": make_page("new"),
    }
)
WANTED = {
    "/": PageChange.CHANGED,
    "/same": PageChange.SAME,
    "/deep": PageChange.SAME,
    "/changed": PageChange.CHANGED,
    "/gone": PageChange.GONE,
    "/unlinked": PageChange.SAME,
    "/broken": None,
    "/new": PageChange.NEW,
}


async def run(web: LoopbackWeb, database: Database, engine: str = "http", **options: Any) -> dict[str, Page]:
    given: dict[str, Any] = {"store": database, "backoff": 0.001, "retries": 1, **options}
    found: list[Page] = []
    async with web.client() as client:
        if engine == "http":
            found += [page async for page in crawl(f"{SITE}/", engine="http", client=client, **given)]
        else:
            async with run_engine(web.lookup) as chrome:
                found += [page async for page in crawl(f"{SITE}/", engine=chrome, client=client, **given)]
    assert len({page.url for page in found}) == len(found)
    return {page.url.removeprefix(SITE): page for page in found}


@pytest.mark.parametrize("engine", ["http", pytest.param("chrome", marks=needs_chrome)])
@in_a_loop
async def test_each_page_is_new_changed_gone_or_the_same(engine: str) -> None:
    with Database("sqlite://") as database:
        async with LoopbackWeb(BEFORE) as web:
            first = await run(web, database, engine, again=True)
        assert {page.change for page in first.values()} == {None}, "there is no earlier crawl to compare with"
        async with LoopbackWeb(AFTER) as web:
            second = await run(web, database, engine, again=True)
        crawls = CrawlStore(database)
        latest, earlier = await crawls.list_crawls()
        counts = await crawls.count_pages(latest.id)
        stored = {each.page.url.removeprefix(SITE): each.page for each in await crawls.list_pages(latest.id)}
    assert {path: page.change for path, page in second.items()} == WANTED
    assert (latest.previous_id, earlier.previous_id) == (earlier.id, None)
    assert stored == second, "the store has what the crawl returned"
    assert counts.changes == {PageChange.NEW: 1, PageChange.CHANGED: 2, PageChange.GONE: 2, PageChange.SAME: 3}
    assert second["/unlinked"].referrer == "" and second["/new"].referrer == f"{SITE}/"


def with_validators(pages: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return pages with an ETag, which the server answers 304 for."""
    return {
        url: {**page, "headers": {**page.get("headers", {}), "ETag": f'"{number}"'}, "revalidates": True}
        for number, (url, page) in enumerate(pages.items())
    }


@in_a_loop
async def test_pages_that_have_not_changed_are_not_transferred_and_keep_their_links() -> None:
    pages = with_validators({url: page for url, page in AFTER.items() if "/broken" not in url})
    with Database("sqlite://") as database:
        async with LoopbackWeb(pages) as web:
            first = await run(web, database)
        async with LoopbackWeb(pages) as web:
            second = await run(web, database, again=True)
        again = await CrawlStore(database).list_crawls()
    assert {page.change for path, page in second.items() if path not in {"/gone", "/broken"}} == {PageChange.SAME}
    for path, page in second.items():
        before = first[path]
        assert (page.title, page.status, page.links, page.depth) == (
            before.title, before.status, before.links, before.depth,
        )  # fmt: skip
        assert (page.size, page.content_type) == (before.size, before.content_type)
    unchanged = {f"{SITE}{path}" for path in ("/", "/same", "/deep", "/changed", "/new")}
    assert web.not_modified == unchanged, "robots.txt, and pages that are missing, are asked for as usual"
    assert len(again) == 2


@in_a_loop
async def test_a_crawl_is_compared_only_under_the_same_policy_and_patterns() -> None:
    with Database("sqlite://") as database:
        async with LoopbackWeb(BEFORE) as web:
            await run(web, database, exclude=["/gone"])
            with pytest.raises(OptionsFixed):
                await run(web, database, again=True, exclude=["/same"])
            second = await run(web, database, again=True)
    assert "/gone" not in second, "options that are not given are those of the earlier crawl"
    assert {page.change for page in second.values()} == {PageChange.SAME}


@in_a_loop
async def test_an_interrupted_recrawl_is_resumed_with_its_comparison() -> None:
    with Database("sqlite://") as database:
        async with LoopbackWeb(BEFORE) as web:
            await run(web, database)
        async with LoopbackWeb(AFTER) as web, web.client() as client:
            pages = crawl(f"{SITE}/", engine="http", client=client, store=database, again=True, retries=0)
            async for _ in pages:
                break
            await pages.aclose()
            found = await run(web, database, resume=True, retries=0)
            assert len(await CrawlStore(database).list_crawls()) == 2
    assert {path: page.change for path, page in found.items()} == WANTED


@in_a_loop
async def test_a_recrawl_whose_earlier_crawl_was_removed_reads_every_page() -> None:
    with Database("sqlite://") as database:
        async with LoopbackWeb(BEFORE) as web, web.client() as client:
            await run(web, database)
            pages = crawl(f"{SITE}/", engine="http", client=client, store=database, again=True)
            async for _ in pages:
                break
            await pages.aclose()
            crawls = CrawlStore(database)
            await crawls.remove((await crawls.list_crawls())[-1].id)
            found = await run(web, database, resume=True)
    assert set(found) == {url.removeprefix(SITE) for url in BEFORE} - {"/robots.txt"}
