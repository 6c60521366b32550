"""`canonry worker`: it polls due feeds, a second one on SQLite is refused, SIGTERM ends it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import MetaData, select

import command
from canonry.errors import FetchFailed
from canonry.feeds.feed_store import FeedStore
from canonry.jobs.queues import SCHEMA, JobKind, Jobs
from canonry.jobs.worker import Worker
from canonry.net.origin import Origin
from canonry.store.database import Database
from command import Forked
from feed_texts import rss
from http_server import serve_http
from jobs.statuses import count_by_status
from service import until

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from canonry.feeds.feed_values import StoredItem

ENVIRONMENT = {**os.environ, "CANONRY_ALLOW_NETWORKS": "127.0.0.0/8", "CANONRY_ALLOW_PORTS": "1-65535"}


class Feeds(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/broken"):
            self.send_error(404)
            return
        body = rss(*(f"{self.path}-{number}" for number in range(3))).encode()
        self.send_response(200)
        self.send_header("content-type", "application/rss+xml")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def site() -> Generator[str]:
    with serve_http(Feeds) as port:
        yield f"http://127.0.0.1:{port}"


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
                await FeedStore(database).add(f"{site}/{name}", datetime.now(UTC), origin=Origin.PERSON)

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


SECRETS = ("private.xml", "hunter2", "api_key", "zoe")


@pytest.mark.slow
@pytest.mark.parametrize("debug", [False, True], ids=["usual", "debug"])
def test_logs_and_job_tables_have_no_paths_queries_and_users(
    database_url: str, site: str, tmp_path: Path, debug: bool
) -> None:
    secret = site.replace("http://", "http://zoe:hunter2@") + "/private.xml?token=hunter2&api_key=hunter2"

    async def add() -> None:
        with Database(database_url) as database:
            feeds = FeedStore(database)
            await feeds.add(secret, datetime.now(UTC))
            await feeds.add(secret.replace("/private.xml", "/broken/private.xml"), datetime.now(UTC))

    async def fail(_: str) -> None:
        raise FetchFailed(secret, f"redirected to {secret}")

    async def run_failing_job() -> None:
        with Database(database_url) as database, Jobs(database) as jobs:
            await jobs.enqueue("failing")
            async with Worker(jobs, [JobKind("failing", fail)]):
                while (await count_by_status(jobs, "failing"))["ERROR"] != 1:
                    await asyncio.sleep(0.05)

    asyncio.run(add())
    log = tmp_path / "log"
    log.touch()
    arguments = ("worker", "--db", database_url, "--every", "1", *(["--debug"] if debug else []))
    worker = Forked("canonry", *arguments, cwd=tmp_path, environment=ENVIRONMENT, out=log, err=log)
    try:
        until(lambda: worker.poll() is not None or log.read_text().count('"feed ') >= 2, 120)
        worker.terminate()
        assert worker.wait(120) == 0, log.read_text()
    finally:
        worker.kill()
        worker.wait()
    asyncio.run(run_failing_job())
    assert [each for each in SECRETS if each in dump_job_tables(database_url)] == []
    text = log.read_text()
    assert "zoe" not in text
    assert ("private.xml" in text) is debug
    assert all(json.loads(line) for line in text.splitlines())


def dump_job_tables(database_url: str) -> str:
    """All texts in the tables of DBOS."""
    with Database(database_url) as database, Jobs(database) as jobs:
        schema = None if jobs.file else SCHEMA
        tables = MetaData()
        tables.reflect(jobs.engine, schema=schema)
        assert tables.tables
        with jobs.engine.connect() as connection:
            return "\n".join(str(row) for table in tables.sorted_tables for row in connection.execute(select(table)))


def test_a_store_that_cannot_be_opened_is_one_line_without_credentials(tmp_path: Path) -> None:
    arguments = ("worker", "--db", "postgresql://user:secret@127.0.0.1:1/none")
    refused = command.run(*arguments, cwd=tmp_path, environment=os.environ)
    assert refused.returncode == 1
    assert refused.stderr.startswith("canonry: postgresql://***@127.0.0.1:1/none: ")
    assert "secret" not in refused.stderr and len(refused.stderr.splitlines()) == 1
