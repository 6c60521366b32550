"""A crawl that is left to workers: one on SQLite, two on PostgreSQL, one of them killed in its middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from crawl_server import SETTINGS, serving, tree

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from crawl_server import Site

COUNT = 60
ENVIRONMENT = {**os.environ, **SETTINGS}


@contextmanager
def worker(url: str) -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "canonry", "worker", "--db", url]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(40)


def crawls(url: str, site: Site, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "canonry", "crawl", f"{site.url}/0", "--engine", "http", "--workers", "--db", url]
    return subprocess.Popen([*command, "--out", str(folder / "site.jsonl"), "--delay", "0.02"], env=ENVIRONMENT)


def pages(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "site.jsonl").read_text().splitlines()]


def test_one_worker(sqlite_url: str, tmp_path: Path) -> None:
    with serving(tree(COUNT)) as site, worker(sqlite_url):
        assert crawls(sqlite_url, site, tmp_path).wait(90) == 0
        assert sorted(page["title"] for page in pages(tmp_path)) == sorted(f"Page {n}" for n in range(COUNT))
        robots = site.asked.pop("/robots.txt")
        assert (robots, set(site.asked.values())) == (4, {1}), "each lane asks what it may"


@pytest.mark.slow
def test_two_workers_and_one_is_killed(
    postgres_database: str, tmp_path: Path, workers: Callable[[str], object]
) -> None:
    with serving(tree(COUNT * 3)) as site, ExitStack() as stack:
        first = stack.enter_context(worker(postgres_database))
        stack.enter_context(worker(postgres_database))
        command = crawls(postgres_database, site, tmp_path)
        while site.asked.total() < COUNT:
            assert command.poll() is None
            time.sleep(0.01)
        first.kill()
        assert command.wait(180) == 0
        assert sorted(page["title"] for page in pages(tmp_path)) == sorted(f"Page {n}" for n in range(COUNT * 3))
