"""`kill -9` at any moment, eight processes at once, a server that crashes: no item lost, none twice (I6, I8)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
from sqlalchemy import Connection, text

import canonry
import postgres
from canonry.feeds.ingest import ingest
from canonry.feeds.ingest_report import CheckName, FeedResult
from canonry.store.database import Database
from ingest_process import ADDRESS, ENDS, WROTE, Order

if TYPE_CHECKING:
    from collections.abc import Generator

FEEDS = 6
STEPS = 5
KILLS = 20  # per kind of database
MIN_KILLS_INSIDE = 5  # of these, at least so many while a transaction had written and not ended
WAIT_SECONDS = 300  # for an event on a busy machine
SCRIPT = Path(__file__).parents[1] / "ingest_process.py"


def document(feed: int, step: int) -> str:
    """Return the document of a feed at a step: a window over its posts, one for each difficult case of contract I3."""
    posts: list[str] = []
    for number in range(step, step + 6):
        title, text_of, guid = f"Post {number}", f"Text {number}", f"{feed}-{number}"
        link = f"https://blog{feed}.example.com/{number}"
        match number % 8:
            case 0:  # edited at every second step
                text_of += f", edited {step // 2}"
            case 1:  # gets another guid while it is there
                guid += f"-{step - number < -2}"
            case 2:
                guid = ""
            case 3:
                link = ""
            case 4:  # nothing but a title
                guid = link = ""
            case 5:  # a guid that is used again for another post
                guid = f"{feed}-again-{number % 16}"
            case 6:  # in all feeds, as one entry
                guid, link = f"news-{number}", f"https://news.example.com/{number}"
            case _:  # the link of all feeds, under a title of their own
                title, link = f"Post {number} of {feed}", f"https://news.example.com/all/{number}"
        posts.append(
            f"<item><title>{title}</title><description>{text_of}</description>"
            + (f'<guid isPermaLink="false">{guid}</guid>' if guid else "")
            + (f"<link>{link}</link></item>" if link else "</item>")
        )
    return f'<rss version="2.0"><channel><title>Feed {feed}</title>{"".join(posts)}</channel></rss>'


class FeedWeb(ThreadingHTTPServer):
    """Serves the feeds on loopback, at the step that is set."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 1000

    def __init__(self) -> None:
        super().__init__((ADDRESS, 0), _FeedAnswer)
        self.step = 0

    def handle_error(self, *_: object) -> None:
        """Ignore clients that were killed."""


class _FeedAnswer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FeedWeb

    def do_GET(self) -> None:
        feed = int(self.headers["host"].partition(".")[0].removeprefix("blog"))
        etag, body = f'"{self.server.step}"', document(feed, self.server.step).encode()
        is_same = self.headers["if-none-match"] == etag
        self.send_response(304 if is_same else 200)
        self.send_header("ETag", etag)
        if not is_same:
            self.send_header("Content-Type", "application/rss+xml")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not is_same:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Ingests:
    """Starts ingests in their own processes, watches their transactions and kills them; a context manager."""

    def __init__(self) -> None:
        self._markers, writing = os.pipe()
        os.set_blocking(self._markers, False)
        self._parent = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(writing)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[writing],
        )
        os.close(writing)
        self._running: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:  # only after a failed test
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        assert self._parent.stdin and self._parent.stdout
        self._parent.stdin.close()
        self._parent.wait(WAIT_SECONDS)
        self._parent.stdout.close()
        os.close(self._markers)

    def run(self, order: Order) -> list[dict[str, Any]]:
        """Run an ingest in each process to its end, and return their reports."""
        self._start(order)
        reports, statuses = self._end()
        assert statuses == [0] * order.processes
        return reports

    def kill(self, order: Order, moment: float, writes: int | None = None) -> bool | None:
        """Kill an ingest `moment` seconds after its start or after so many writes.

        Returns whether it was inside a transaction, or None if it had ended before.
        """
        self._start(order)
        seen = self._watch(writes, moment)
        with suppress(ProcessLookupError):
            os.kill(self._running[0], signal.SIGKILL)
        _, statuses = self._end()
        seen += self._read()
        if statuses != [signal.SIGKILL]:
            assert statuses == [0]
            return None
        last = dict(zip(seen[::2], seen[1::2], strict=True))
        assert set(last.values()) <= {WROTE, ENDS}
        return WROTE in last.values()

    def _start(self, order: Order) -> None:
        assert self._parent.stdin
        self._read()
        self._parent.stdin.write(f"{json.dumps(asdict(order))}\n".encode())
        self._parent.stdin.flush()
        self._running = self._line()["started"]

    def _watch(self, writes: int | None, moment: float) -> bytes:
        """Return the markers up to this many writes; then wait until the moment of the kill."""
        seen = b""
        assert self._parent.stdout
        output = self._parent.stdout.fileno()
        while writes is not None and seen[1::2].count(WROTE) < writes:
            ready, _, _ = select.select([self._markers, output], [], [], WAIT_SECONDS)
            assert ready, "no write and no output"
            if self._markers not in ready:
                return seen  # the process has ended
            seen += self._read()
        time.sleep(moment)
        return seen

    def _end(self) -> tuple[list[dict[str, Any]], list[int]]:
        reports: list[dict[str, Any]] = []
        while "ended" not in (line := self._line()):
            reports.append(line)
        self._running = []
        return reports, line["ended"]

    def _line(self) -> dict[str, Any]:
        assert self._parent.stdout
        line: dict[str, Any] = json.loads(self._parent.stdout.readline())
        return line

    def _read(self) -> bytes:
        seen = b""
        with suppress(BlockingIOError):
            while some := os.read(self._markers, 65536):
                seen += some
        return seen


@contextmanager
def serve_feeds() -> Generator[FeedWeb]:
    web = FeedWeb()
    thread = threading.Thread(target=web.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.shutdown()
        thread.join()
        web.server_close()


@pytest.fixture(params=["sqlite", "postgresql"])
def two_databases(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[tuple[str, str]]:
    """Two new databases: one for the disturbed runs, one to compare it with."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'disturbed.db'}", f"sqlite:///{tmp_path / 'calm.db'}"
        return
    server: str = request.getfixturevalue("postgres_url")
    with ExitStack() as stack:
        disturbed, calm = (stack.enter_context(postgres.create_database(server)) for _ in range(2))
        yield disturbed, calm


def dump_store(connection: Connection) -> dict[str, Counter[tuple[object, ...]]]:
    """Return entries, sightings, keys and feeds without ids and times; an entry is identified by its sightings."""
    rows = connection.execute(
        text(
            "SELECT s.entry_id, f.key_url, s.guid, s.place, s.title, s.published, s.content_hash,"
            " s.document = f.document FROM sightings s JOIN feeds f ON f.id = s.feed_id"
            " ORDER BY f.key_url, s.guid, s.place, s.title, s.content_hash"
        )
    )
    shown: dict[int, tuple[tuple[object, ...], ...]] = {}
    for entry, *sighting in rows:
        shown[entry] = (*shown.get(entry, ()), tuple(map(str, sighting)))
    entries = connection.execute(
        text("SELECT id, guid, url, canonical_url, title, published, content_hash, match_confidence FROM entries")
    )
    # Of several entries at one URL the first has the key, and which feed is first depends on timing.
    urls = connection.execute(
        text(
            "SELECT key_value, policy, canonical_url FROM entry_identities JOIN entries ON id = entry_id"
            " WHERE key_type = 'canonical_url'"
        )
    )
    keys = connection.execute(
        text("SELECT entry_id, key_type, key_value, policy FROM entry_identities WHERE key_type <> 'canonical_url'")
    )
    ambiguous = connection.execute(
        text("SELECT f.key_url, a.key_type, a.key_value FROM ambiguous_keys a JOIN feeds f ON f.id = a.feed_id")
    )
    feeds = connection.execute(text("SELECT key_url, url, title, format, status, etag, failures, failure FROM feeds"))
    return {
        "entries": Counter((*row[1:], shown[row[0]]) for row in entries),
        "urls": Counter(map(tuple, urls)),
        "keys": Counter((*row[1:], shown[row[0]]) for row in keys),
        "ambiguous": Counter(map(tuple, ambiguous)),
        "feeds": Counter(map(tuple, feeds)),
    }


def assert_whole(connection: Connection) -> None:
    """Assert that no transaction has left only part of its work."""
    for what, query in {
        "entries that no feed shows": "SELECT id FROM entries WHERE id NOT IN (SELECT entry_id FROM sightings)",
        "keys without an entry": "SELECT * FROM entry_identities WHERE entry_id NOT IN (SELECT id FROM entries)",
        "sightings without an entry": "SELECT * FROM sightings WHERE entry_id NOT IN (SELECT id FROM entries)",
        "sightings of no feed": "SELECT * FROM sightings WHERE feed_id NOT IN (SELECT id FROM feeds)",
        "sightings in a document that was not parsed": "SELECT f.id FROM sightings s JOIN feeds f ON f.id = s.feed_id"
        " WHERE s.document > f.document",
        "entries that are not in the change feed": "SELECT id FROM entries WHERE id NOT IN"
        " (SELECT entry_id FROM changes WHERE outcome = 'new')",
        "changes that are not counted": "SELECT number FROM changes WHERE number > (SELECT last FROM change_numbers)",
        "numbers without a change": "SELECT last FROM change_numbers WHERE last <> (SELECT count(*) FROM changes)",
        "validators without items": "SELECT f.id FROM feeds f WHERE f.etag <> '' AND f.id NOT IN"
        " (SELECT s.feed_id FROM sightings s WHERE s.document = f.document)",
    }.items():
        assert connection.execute(text(query)).all() == [], what
    if connection.dialect.name == "sqlite":
        assert connection.execute(text("PRAGMA integrity_check")).all() == [("ok",)]
        assert connection.execute(text("PRAGMA foreign_key_check")).all() == []


@pytest.mark.slow
def test_killed_runs_leave_the_same_store_as_undisturbed_runs(two_databases: tuple[str, str]) -> None:
    disturbed, calm = two_databases
    chance = random.Random(20260131)
    inside = 0
    with serve_feeds() as web, Ingests() as ingests:
        port = web.server_address[1]
        for web.step in range(STEPS):
            order = Order(disturbed, port, FEEDS, web.step)
            killed = 0
            for attempt in range(10 * KILLS):
                if killed == KILLS // STEPS:
                    break
                # Later attempts of a step have less left to write.
                if attempt % 5 < 3:
                    was_inside = ingests.kill(order, chance.uniform(0, 0.002), chance.randint(1, 40 // (killed + 1)))
                else:
                    was_inside = ingests.kill(order, chance.uniform(0, 0.3))
                killed += was_inside is not None
                inside += was_inside is True
            assert killed == KILLS // STEPS
            ingests.run(order)
            with Database(disturbed) as database:
                database.read_now(assert_whole)
            ingests.run(Order(calm, port, FEEDS, web.step))
            with Database(disturbed) as one, Database(calm) as other:
                assert one.read_now(dump_store) == other.read_now(dump_store)
    assert inside >= MIN_KILLS_INSIDE


@pytest.mark.slow
def test_eight_processes_at_once_store_each_item_once(two_databases: tuple[str, str]) -> None:
    """On a new store, then after changes of the feeds: each item is new in exactly one process."""
    shared, calm = two_databases
    with serve_feeds() as web, Ingests() as ingests:
        port = web.server_address[1]
        for web.step in range(3):
            alone = ingests.run(Order(calm, port, FEEDS, web.step))[0]
            reports = ingests.run(Order(shared, port, FEEDS, web.step, processes=8))
            assert [(report["warnings"], report["unmet"], report["counts"]["failed"]) for report in reports] == [
                ([], [], 0)
            ] * 8
            assert sum(report["counts"]["new"] for report in reports) == alone["counts"]["new"]
            with Database(shared) as one, Database(calm) as other:
                one.read_now(assert_whole)
                assert one.read_now(dump_store) == other.read_now(dump_store)


@pytest.mark.slow
def test_a_run_goes_on_in_memory_when_the_server_crashes() -> None:
    """Each item is new once in the database and once in memory, and the report says what happened (contract I6)."""
    with postgres.run_crashable_server() as server:
        fetched: list[str] = []

        async def fetch(feed_url: str, **_: object) -> canonry.Response:
            fetched.append(feed_url)
            if len(fetched) == 10:
                server.crash()
            return canonry.Response(200, feed_url, body=document(0, 0).encode())

        report = asyncio.run(
            ingest([f"http://blog{n}.example.com/" for n in range(30)], server.url, fetch=fetch, concurrency=4)
        )
    assert [feed.result for feed in report.feeds] == [FeedResult.INGESTED] * 30
    assert len(report.warnings) == 1
    assert [line.name for line in report.checklist if not line.is_met] == [CheckName.PERSISTED]
    # Most items are shared by all feeds: only the first feed of each store has more than two new ones.
    assert sum(feed.new > 2 for feed in report.feeds) == 2
