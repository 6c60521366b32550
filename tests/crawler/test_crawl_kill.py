"""Crawls that are killed (`kill -9`) and resumed: the same pages as an undisturbed crawl, none twice (contract C6)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest
from sqlalchemy import text

import postgres
from canonry.crawler.crawl import read_pages
from canonry.crawler.crawl_store import CrawlStore
from canonry.store.database import Database
from crawl_server import Site, serving, tree

if TYPE_CHECKING:
    from collections.abc import Generator

SCRIPT = Path(__file__).parents[1] / "crawl_process.py"
PAGES = {**tree(120), "/120": "->/121", "/121": "<title>to</title>", "/5": "<a href=/120></a><a href=/16></a>"}


class Crawls:
    """Starts crawls in separate processes and kills them; a context manager."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen([sys.executable, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._parent.stdin and self._parent.stdout
        self._parent.stdin.close()
        self._parent.wait(120)
        self._parent.stdout.close()

    def start(self, database_url: str, seed: str) -> int:
        assert self._parent.stdin
        self._parent.stdin.write(f"{json.dumps([database_url, seed])}\n".encode())
        self._parent.stdin.flush()
        return self._read_number()

    def kill(self, process: int) -> bool:
        """Kill a crawl; return whether it was still running."""
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        status = self._read_number()
        assert status in {0, signal.SIGKILL}
        return status == signal.SIGKILL

    def wait(self) -> None:
        """Wait until the crawl has ended without an error."""
        assert self._read_number() == 0

    def _read_number(self) -> int:
        assert self._parent.stdout
        return int(self._parent.stdout.readline())


def wait_for_requests(site: Site, count: int) -> None:
    deadline = time.monotonic() + 120
    while site.asked.total() < count:
        assert time.monotonic() < deadline, f"{site.asked.total()} of {count} requests"
        time.sleep(0.001)


def read_recorded(database_url: str) -> Counter[tuple[str, int, str]]:
    async def read() -> Counter[tuple[str, int, str]]:
        with Database(database_url) as database:
            crawls = CrawlStore(database)
            [crawl] = await crawls.list_crawls()
            assert crawl.state == "done"
            return Counter([(page.url, page.depth, repr(page.links)) async for page in read_pages(crawls, crawl.id)])

    return asyncio.run(read())


def crawl_with_kills(site: Site, database_url: str, kills: int, chance: random.Random) -> tuple[int, int]:
    """Crawl and kill, at moments spread over the whole crawl; return the number of kills, and of those in its middle."""
    killed = middle = rounds = 0
    with Crawls() as crawls:
        while killed < kills:
            rounds += 1
            assert rounds < kills * 10
            before = site.asked.total()
            process = crawls.start(database_url, site.url + "/0")
            wanted = chance.randint(0, 2 * len(PAGES) // max(kills, 4))
            # A crawl that has fewer pages left than wanted is killed, or has ended, after a while.
            deadline = time.monotonic() + 5
            while site.asked.total() - before < wanted and time.monotonic() < deadline:
                time.sleep(0.0005)
            time.sleep(chance.uniform(0, 0.01))
            if not crawls.kill(process):
                break
            killed += 1
            middle += site.asked.total() > before
        crawls.start(database_url, site.url + "/0")
        crawls.wait()
    return killed, middle


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[list[str]]:
    """URLs of new databases, one for each crawl."""
    if request.param == "sqlite":
        yield [f"sqlite:///{tmp_path}/{number}.db" for number in range(20)]
        return
    from contextlib import ExitStack

    server: str = request.getfixturevalue("postgres_url")
    with ExitStack() as stack:
        yield [stack.enter_context(postgres.create_database(server)) for _ in range(20)]


def check_kills(databases: list[str], kills: int) -> None:
    chance = random.Random(20260131)
    with serving(PAGES) as site:
        calm, *rest = databases
        with Crawls() as crawls:
            crawls.start(calm, site.url + "/0")
            crawls.wait()
        wanted = read_recorded(calm)
        assert len(wanted) == 121, "one of them reached by a redirect"
        assert max(site.asked.values()) == 1
        killed = middle = 0
        for database in rest:
            some, inside = crawl_with_kills(site, database, min(8, kills - killed), chance)
            killed, middle = killed + some, middle + inside
            assert read_recorded(database) == wanted
            if killed >= kills:
                break
        assert killed >= kills
        assert middle >= kills // 2


@pytest.mark.slow
def test_a_crawl_survives_many_kills(fresh: list[str]) -> None:
    check_kills(fresh, 16 if fresh[0].startswith("sqlite") else 10)


@pytest.mark.slow
def test_two_processes_share_a_crawl(fresh: list[str]) -> None:
    """Two crawl at the same time and one is killed: the other takes over its pages."""
    with serving(PAGES) as site, Crawls() as one, Crawls() as other:
        one.start(fresh[0], site.url + "/0")
        one.wait()
        wanted = read_recorded(fresh[0])
        site.asked.clear()
        process = one.start(fresh[1], site.url + "/0")
        wait_for_requests(site, 10)
        other.start(fresh[1], site.url + "/0")
        wait_for_requests(site, 40)
        one.kill(process)
        one.start(fresh[1], site.url + "/0")  # a new process releases the leases of the dead one
        one.wait()
        other.wait()
        assert read_recorded(fresh[1]) == wanted
        with Database(fresh[1]) as database:
            twice = text("SELECT key FROM crawl_pages GROUP BY crawl_id, key HAVING COUNT(*) > 1")
            assert database.read_now(lambda connection: connection.execute(twice).all()) == []
