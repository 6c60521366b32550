"""`canonry worker`: it polls due feeds, a second one on SQLite is refused, SIGTERM ends it."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

import command
from canonry.feeds.feed_store import FeedStore
from canonry.store.database import Database
from command import Forked
from feed_texts import rss

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from canonry.feeds.feed_values import StoredItem

ENVIRONMENT = {**os.environ, "CANONRY_ALLOW_NETWORKS": "127.0.0.0/8", "CANONRY_ALLOW_PORTS": "1-65535"}


class Feeds(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = rss(*(f"{self.path}-{number}" for number in range(3))).encode()
        self.send_response(200)
        self.send_header("content-type", "application/rss+xml")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def site() -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Feeds) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def start(url: str, log: Path) -> Forked:
    arguments = ("worker", "--db", url, "--every", "1")
    return Forked("canonry", *arguments, cwd=log.parent, environment=ENVIRONMENT, out=log, err=log)


def read_items(url: str) -> list[StoredItem]:
    with Database(url) as database:
        return asyncio.run(FeedStore(database).list_items())


@pytest.mark.slow
def test_worker_polls_due_feeds_until_it_is_stopped(database_url: str, site: str, tmp_path: Path) -> None:
    async def add(names: list[str]) -> None:
        with Database(database_url) as database:
            for name in names:
                await FeedStore(database).add(f"{site}/{name}", datetime.now(UTC))

    asyncio.run(add(["a", "b", "c"]))
    log = tmp_path / "first"
    worker = start(database_url, log)
    try:
        deadline = time.monotonic() + 120
        while len(read_items(database_url)) < 9 and time.monotonic() < deadline and worker.poll() is None:
            time.sleep(0.1)
        if database_url.startswith("sqlite"):
            assert start(database_url, tmp_path / "second").wait(120) == 1
            refusal = (tmp_path / "second").read_text()
            assert refusal.startswith(f"canonry: {database_url}: ") and refusal.count("\n") == 1
        worker.terminate()
        assert worker.wait(120) == 0, log.read_text()
    finally:
        worker.kill()
        worker.wait()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {line["logger"] for line in lines} >= {"canonry.jobs"}
    polled = {line["event"] for line in lines if line["event"].startswith("feed ")}
    assert polled >= {f"feed {number} at {site}/… ingested: 3 new, 0 updated" for number in (1, 2, 3)}
    assert len(read_items(database_url)) == 9


def test_a_store_that_cannot_be_opened_is_one_line_without_credentials(tmp_path: Path) -> None:
    arguments = ("worker", "--db", "postgresql://user:secret@127.0.0.1:1/none")
    refused = command.run(*arguments, cwd=tmp_path, environment=os.environ)
    assert refused.returncode == 1
    assert refused.stderr.startswith("canonry: postgresql://***@127.0.0.1:1/none: ")
    assert "secret" not in refused.stderr and len(refused.stderr.splitlines()) == 1
