"""Outages: the server of a site is stopped in the middle of a crawl and started again; no page is lost (contract C6)."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import pytest

from canonry.crawler.crawl import crawl
from canonry.crawler.crawl_store import CrawlState, CrawlStore
from canonry.crawler.outage import count_pause_seconds, may_be_outage
from canonry.crawler.reasons import CrawlFailureKind
from canonry.errors import FailureKind
from canonry.net.engine import OpenedPage, PageFailure
from canonry.store.database import Database
from crawl_server import Site, client, serving, tree
from loopback import in_a_loop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from canonry.crawler.crawl_store import Crawl
    from canonry.crawler.pages import Page

URL = "http://a.example/"


def fail(kind: FailureKind, status: int = 0) -> OpenedPage:
    return OpenedPage(URL, status=status, failure=PageFailure(kind, "why"))


SIGNS = [
    # why                           opened                                 errors  wanted
    ("no connection",               fail(FailureKind.CONNECT),                  1, True),
    ("no answer in time",           fail(FailureKind.TIMEOUT),                  1, True),
    ("no name",                     fail(FailureKind.DNS),                      1, True),
    ("robots.txt is unavailable",   fail(FailureKind.UNAVAILABLE),              1, True),
    ("a gateway without a server",  fail(FailureKind.UNAVAILABLE, 502),         1, True),
    ("maintenance",                 OpenedPage(URL, status=503),                1, True),
    ("too many requests",           OpenedPage(URL, status=429),                1, True),
    ("one page with an error",      fail(FailureKind.UNAVAILABLE, 500),         1, False),
    ("every page has an error",     fail(FailureKind.UNAVAILABLE, 500),         5, True),
    ("the page does not exist",     fail(FailureKind.STATUS, 404),              9, False),
    ("Chrome crashed",              fail(FailureKind.BROWSER),                  9, False),
    ("refused by the guard",        fail(FailureKind.REFUSED),                  9, False),
    ("a redirect loop",             fail(FailureKind.REDIRECT_LOOP),            9, False),
]  # fmt: skip


@pytest.mark.parametrize(("why", "opened", "errors", "wanted"), SIGNS, ids=[row[0] for row in SIGNS])
def test_which_results_may_mean_an_outage(why: str, opened: OpenedPage, errors: int, wanted: bool) -> None:
    assert may_be_outage(opened, errors_in_a_row=errors) is wanted


@pytest.mark.parametrize(
    ("retry_after", "down_seconds", "wanted"),
    [(None, 0, 1), (None, 10, 5), (None, 3600, 30), (20.0, 0, 20), (86_400.0, 0, 120), (2.0, 10, 5)],
)
def test_pauses_grow_with_the_outage(retry_after: float | None, down_seconds: float, wanted: float) -> None:
    opened = OpenedPage(URL, status=503, retry_after=retry_after)
    assert count_pause_seconds(opened, down_seconds=down_seconds, backoff=1.0) == wanted


class Server:
    """A site whose server can be stopped and started again at the same port; a context manager."""

    def __init__(self, pages: dict[str, str]) -> None:
        self._pages = pages
        self._running = ExitStack()
        self.site: Site = self._running.enter_context(serving(pages))
        self.seed = f"{self.site.url}/0"
        self.asked = self.site.asked

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def stop(self) -> None:
        self._running.close()

    def start(self) -> None:
        self.site = self._running.enter_context(serving(self._pages, self.site.server_address[1]))
        self.site.asked = self.asked


async def run(
    seed: str, database: Database, on_page: Callable[[int], None] | None = None, **options: Any
) -> list[Page]:
    given: dict[str, Any] = {"engine": "http", "store": database, "backoff": 0.05, "per_host": 8, **options}
    found: list[Page] = []
    async with client() as own:
        async for page in crawl(seed, client=own, **given):
            found.append(page)
            if on_page is not None:
                on_page(len(found))
    return found


async def get_crawl(database: Database) -> Crawl:
    [found] = await CrawlStore(database).list_crawls()
    return found


async def wait_for_pause(database: Database) -> Crawl:
    async with asyncio.timeout(60):
        while True:
            crawls = await CrawlStore(database).list_crawls()
            if crawls and crawls[0].outage is not None:
                return crawls[0]
            await asyncio.sleep(0.01)


def make_database(folder: Path) -> Database:
    return Database(f"sqlite:///{folder}/crawl.db")


def check_complete(found: list[Page], count: int) -> None:
    assert len({page.url for page in found}) == len(found) == count
    assert [page.url for page in found if page.status != 200] == []


@pytest.mark.parametrize(("count", "seconds"), [(200, 0.5), (600, 4.0)])
@in_a_loop
async def test_an_outage_loses_no_page(count: int, seconds: float, tmp_path: Path) -> None:
    with Server(tree(count)) as server, make_database(tmp_path) as database:

        def stop_in_the_middle(pages: int) -> None:
            if pages == count // 4:
                server.stop()
                threading.Timer(seconds, server.start).start()

        crawling = asyncio.create_task(run(server.seed, database, stop_in_the_middle, retries=0))
        paused = await wait_for_pause(database)
        assert paused.state is CrawlState.RUNNING
        found = await crawling
        ended = await get_crawl(database)
    check_complete(found, count)
    assert (ended.state, ended.outage, ended.failure) == (CrawlState.DONE, None, None)


@in_a_loop
async def test_a_crawl_whose_site_stays_away_pauses_and_is_resumed(tmp_path: Path) -> None:
    count = 400
    with Server(tree(count)) as server, make_database(tmp_path) as database:

        def stop_in_the_middle(pages: int) -> None:
            if pages == count // 4:
                server.stop()

        first = await run(server.seed, database, stop_in_the_middle, patience=0.2, retries=0)
        paused = await get_crawl(database)
        assert paused.state is CrawlState.PAUSED
        assert paused.failure is not None and paused.failure.kind is CrawlFailureKind.NO_ANSWER
        again = await run(server.seed, database, resume=True, retries=0)
        assert (await get_crawl(database)).state is CrawlState.PAUSED
        assert {page.url for page in again} == {page.url for page in first}, "nothing failed while the server was down"
        server.start()
        found = await run(server.seed, database, resume=True)
        ended = await get_crawl(database)
    check_complete(found, count)
    assert (ended.state, ended.failure) == (CrawlState.DONE, None)


@in_a_loop
async def test_a_start_page_that_failed_is_tried_again_by_resuming(tmp_path: Path) -> None:
    with Server(tree(10)) as server, make_database(tmp_path) as database:
        server.stop()
        began = datetime.now(UTC)
        [failed] = await run(server.seed, database)
        assert datetime.now(UTC) - began < timedelta(seconds=60), "no patience with a site that never answered"
        assert failed.failure is FailureKind.CONNECT
        assert (await get_crawl(database)).state is CrawlState.DONE
        server.start()
        check_complete(await run(server.seed, database, resume=True), 10)


@in_a_loop
async def test_pages_that_fail_alone_do_not_pause_the_crawl(tmp_path: Path) -> None:
    pages = tree(40)
    with Server(pages) as server, make_database(tmp_path) as database:
        server.site.broken = {"/37", "/38", "/39"}
        found = await run(server.seed, database, patience=0.0, retries=1)
        assert (await get_crawl(database)).state is CrawlState.DONE
        assert len(found) == 40
        assert {page.failure for page in found if page.status != 200} == {FailureKind.DISCONNECTED}
        assert min(server.asked[path] for path in ("/37", "/38", "/39")) >= 2, "each was tried again"
        server.site.broken = set()
        check_complete(await run(server.seed, database, resume=True), 40)


@in_a_loop
async def test_the_last_retry_waits_for_the_end_of_the_crawl(tmp_path: Path) -> None:
    with Server(tree(40)) as server, make_database(tmp_path) as database:
        server.site.broken = {"/1"}

        def repair(pages: int) -> None:
            if pages == 26:  # all but /1 and the 13 pages below it
                server.site.broken = set()

        found = await run(server.seed, database, repair, retries=1, backoff=0.001)
    check_complete(found, 40)


@in_a_loop
async def test_sitemaps_wait_for_the_site(tmp_path: Path) -> None:
    pages = {"/0": "<title>start</title>", "/listed": "", "/sitemap.xml": ""}
    with Server(pages) as server, make_database(tmp_path) as database:
        pages["/sitemap.xml"] = f"<urlset><url><loc>{server.site.url}/listed</loc></url></urlset>"

        def stop(pages: int) -> None:
            if pages == 1:
                server.stop()
                threading.Timer(0.3, server.start).start()

        check_complete(await run(server.seed, database, stop, sitemaps=True), 2)
