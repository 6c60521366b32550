"""Crawls that workers do: one worker on SQLite, two on PostgreSQL, one of which is killed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from canonry.crawler.crawl import read_pages, start_crawl, work_on_crawl
from canonry.crawler.crawl_options import CrawlOptions
from canonry.crawler.crawl_store import CrawlStore
from canonry.jobs.crawl_jobs import enqueue_crawl
from canonry.jobs.queues import Jobs
from canonry.store.database import Database
from command import Forked
from crawl_server import SETTINGS, client, serving, tree

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from crawl_server import Site
    from jobs.running import Workers

COUNT = 60
KILLS = int(os.environ.get("CANONRY_TEST_KILLS", "6"))  # set more for a long run by hand
WORKER = Path(__file__).with_name("crawl_worker.py")


@contextmanager
def run_worker(url: str, folder: Path) -> Generator[Forked]:
    process = start_command(folder, "worker", "--db", url)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(120)


def start_crawl_command(url: str, site: Site, folder: Path) -> Forked:
    options = ("--engine", "http", "--workers", "--db", url, "--out", str(folder / "site.jsonl"), "--delay", "0.02")
    return start_command(folder, "crawl", f"{site.url}/0", *options)


def start_command(folder: Path, *arguments: str) -> Forked:
    output = folder / "output"
    return Forked("canonry", *arguments, cwd=folder, environment={**os.environ, **SETTINGS}, out=output, err=output)


def read_records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "site.jsonl").read_text().splitlines()]


def test_one_worker_crawls_each_page_once(sqlite_url: str, tmp_path: Path) -> None:
    with serving(tree(COUNT)) as site, run_worker(sqlite_url, tmp_path):
        assert start_crawl_command(sqlite_url, site, tmp_path).wait(300) == 0
        assert sorted(page["title"] for page in read_records(tmp_path)) == sorted(f"Page {n}" for n in range(COUNT))
        assert site.asked.pop("/robots.txt") >= 1, "every job reads it"
        assert set(site.asked.values()) == {1}


@pytest.mark.slow
def test_two_workers_finish_a_crawl_when_one_is_killed(postgres_database: str, tmp_path: Path) -> None:
    with serving(tree(COUNT * 3)) as site, ExitStack() as stack:
        first = stack.enter_context(run_worker(postgres_database, tmp_path))
        stack.enter_context(run_worker(postgres_database, tmp_path))
        command = start_crawl_command(postgres_database, site, tmp_path)
        while site.asked.total() < COUNT:
            assert command.poll() is None
            time.sleep(0.01)
        first.kill()
        assert command.wait(300) == 0
        assert sorted(page["title"] for page in read_records(tmp_path)) == sorted(f"Page {n}" for n in range(COUNT * 3))


@pytest.mark.slow
def test_killed_workers_change_nothing_in_a_crawl(postgres_database: str, workers: Callable[[str], Workers]) -> None:
    """The same pages as in an undisturbed crawl, at the same depths with the same links, none twice (contract C6)."""
    chance, count = random.Random(20260131), 300
    with serving(tree(count)) as site, Database(postgres_database) as database, Jobs(database) as jobs:
        crawls, both = CrawlStore(database), workers(postgres_database)
        pair = [both.start(script=WORKER), both.start(script=WORKER)]

        def start() -> int:
            options = CrawlOptions(engine="http", shared=True, delay=0.01)
            crawl = asyncio.run(start_crawl(crawls, f"{site.url}/0", options, datetime.now(UTC)))
            asyncio.run(enqueue_crawl(jobs, crawl))
            return crawl.id

        def is_over(crawl_id: int) -> bool:
            return asyncio.run(crawls.get(crawl_id)).state == "done"

        async def read_recorded(crawl_id: int) -> Counter[tuple[str, int, str]]:
            return Counter([(page.url, page.depth, repr(page.links)) async for page in read_pages(crawls, crawl_id)])

        calm = start()
        both.wait_for(lambda: is_over(calm))
        wanted = asyncio.run(read_recorded(calm))
        assert len(wanted) == count and set(wanted.values()) == {1}
        assert max(number for path, number in site.asked.items() if path != "/robots.txt") == 1

        killed = 0
        while killed < KILLS:
            site.asked.clear()
            disturbed, most = start(), min(killed + 12, KILLS)
            for step in range(12):
                moment = (step + chance.random()) * count / 12
                both.wait_for(lambda moment=moment, crawl=disturbed: site.asked.total() > moment or is_over(crawl))  # type: ignore[misc]
                time.sleep(chance.uniform(0, 0.05))
                if killed == most or is_over(disturbed):
                    break
                number = chance.randrange(2)
                both.kill(pair[number])
                killed += 1
                # Without waiting, so that some workers are killed while they start.
                pair[number] = both.start(script=WORKER, wait=False)
            both.wait_for(lambda disturbed=disturbed: is_over(disturbed))  # type: ignore[misc]
            assert asyncio.run(read_recorded(disturbed)) == wanted
        twice = text("SELECT key FROM crawl_pages GROUP BY crawl_id, key HAVING COUNT(*) > 1")
        assert database.read_now(lambda connection: connection.execute(twice).all()) == []


def test_a_crawl_whose_jobs_were_lost_is_enqueued_again(sqlite_url: str, workers: Callable[[str], Workers]) -> None:
    with serving(tree(10)) as site, Database(sqlite_url) as database:
        crawls = CrawlStore(database)
        options = CrawlOptions(engine="http", shared=True)
        lost = asyncio.run(start_crawl(crawls, f"{site.url}/0", options, datetime.now(UTC)))
        alone = asyncio.run(start_crawl(crawls, f"{site.url}/0", CrawlOptions(engine="http"), datetime.now(UTC)))
        both = workers(sqlite_url)
        both.start(script=WORKER)
        both.wait_for(lambda: asyncio.run(crawls.get(lost.id)).state == "done")
        assert asyncio.run(crawls.get(alone.id)).taken == 0, "a crawl of the command line is not touched"


@contextmanager
def serve_listed_pages(count: int) -> Generator[Site]:
    """A site whose pages are found only in its sitemap, which is not answered until `held` is set."""
    pages = {f"/{number}": f"<title>Page {number}</title>" for number in range(count)}
    with serving(pages) as site:
        listed = "".join(f"<url><loc>{site.url}{path}</loc></url>" for path in pages)
        pages["/sitemap.xml"] = f"<urlset>{listed}</urlset>"
        site.held["/sitemap.xml"] = threading.Event()
        try:
            yield site
        finally:
            site.held["/sitemap.xml"].set()


def test_another_worker_reads_the_sitemaps_when_one_is_killed(
    sqlite_url: str, workers: Callable[[str], Workers]
) -> None:
    with serve_listed_pages(10) as site, Database(sqlite_url) as database, Jobs(database) as jobs:
        crawls, both = CrawlStore(database), workers(sqlite_url)
        first = both.start(script=WORKER)
        options = CrawlOptions(engine="http", shared=True, sitemaps=True)
        crawl = asyncio.run(start_crawl(crawls, f"{site.url}/0", options, datetime.now(UTC)))
        asyncio.run(enqueue_crawl(jobs, crawl))
        both.wait_for(lambda: site.asked["/sitemap.xml"] == 1)
        both.kill(first)
        site.held["/sitemap.xml"].set()
        both.start(script=WORKER)
        both.wait_for(lambda: asyncio.run(crawls.get(crawl.id)).state == "done")
        assert asyncio.run(read_titles(crawls, crawl.id)) == sorted(f"Page {n}" for n in range(10))


async def read_titles(crawls: CrawlStore, crawl_id: int) -> list[str]:
    return sorted([page.title async for page in read_pages(crawls, crawl_id)])


def test_a_crawl_does_not_end_while_a_worker_reads_the_sitemaps(database_url: str) -> None:
    async def work(site: Site) -> None:
        with Database(database_url) as database:
            crawls = CrawlStore(database)
            options = CrawlOptions(engine="http", shared=True, sitemaps=True)
            crawl = await start_crawl(crawls, f"{site.url}/0", options, datetime.now(UTC))

            async def work_for(seconds: float) -> bool:
                async with client() as http_client:
                    return await work_on_crawl(
                        crawls, crawl, slots=2, seconds=seconds, client=http_client, clock=lambda: datetime.now(UTC)
                    )

            first = asyncio.create_task(work_for(60.0))
            while not site.asked["/sitemap.xml"]:
                await asyncio.sleep(0.01)
            assert not await work_for(0.01), "it has nothing to do, but the crawl is not over"
            assert site.asked["/sitemap.xml"] == 1
            site.held["/sitemap.xml"].set()
            assert await first
            assert (await crawls.get(crawl.id)).state == "done"
            assert await read_titles(crawls, crawl.id) == sorted(f"Page {n}" for n in range(10))

    with serve_listed_pages(10) as site:
        asyncio.run(work(site))
