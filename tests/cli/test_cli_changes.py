"""`canonry feeds changes`, `canonry feeds webhook` and `ingest --jsonl` with kills, run as commands (contract I8, I10)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

import command
import terminal
from canonry.core.keys import Item
from canonry.feeds.changes import ChangeFeed
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument
from canonry.feeds.websub import DueFeed, Subscription
from canonry.feeds.websub_store import WebSubStore
from canonry.net.origin import Origin
from canonry.store.database import Database
from feed_texts import rss
from webhook_server import run_webhook_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CANONRY = [sys.executable, "-m", "canonry"]
WAIT_SECONDS = 120
KILLS = 8


class Shell:
    """Runs commands on one store, and stores items in it."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self.url = database_url
        self.folder = folder
        self.variables = {
            "CANONRY_ALLOW_NETWORKS": "127.0.0.0/8",
            "CANONRY_ALLOW_PORTS": "1-65535",
            "CANONRY_DATABASE_URL": database_url,
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
        }

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = command.run(*arguments, cwd=self.folder, environment=self.variables)
        assert done.returncode == code, done.stderr
        return done

    def run_for_json(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*arguments).stdout.splitlines()]

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen([*CANONRY, *arguments], text=True, cwd=self.folder, env=self.variables, **streams)

    def show(self, *guids: str) -> None:
        async def merge() -> None:
            with Database(self.url) as database:
                store, now = FeedStore(database), datetime.now(UTC)
                feed, _ = await store.add("https://a.com/feed", now)
                items = tuple(Item(guid, title=f"Post {guid}") for guid in guids)
                document = FeedDocument(title="A", format="rss", hubs=(), items=items)
                await store.merge(feed.id, document, now, seen_ttl_days=30)

        asyncio.run(merge())


@pytest.fixture
def shell(sqlite_url: str, tmp_path: Path) -> Shell:
    return Shell(sqlite_url, tmp_path)


# feeds changes


def test_changes_are_json_lines_in_a_pipe(shell: Shell) -> None:
    shell.show("1", "2", "3")
    changes = shell.run_for_json("feeds", "changes")
    assert [(change["number"], change["guid"], change["outcome"]) for change in changes] == [
        (1, "1", "new"),
        (2, "2", "new"),
        (3, "3", "new"),
    ]
    assert shell.run_for_json("feeds", "changes", "--after", "1", "--limit", "1") == [changes[1]]
    assert shell.run_for_json("feeds", "changes", "--after", "3") == []
    assert shell.run_for_json("feeds", "changes", "--after", "last") == []


def test_changes_are_a_table_on_a_terminal(shell: Shell) -> None:
    shell.show("1")
    shown = terminal.run([*CANONRY, "feeds", "changes"], cwd=shell.folder, environment=shell.variables)
    header, row = shown.splitlines()
    assert header.split() == ["number", "outcome", "title", "url", "feed"]
    assert row.split() == ["1", "new", "Post", "1", "https://a.com/feed"]


def test_a_number_of_another_store_is_an_error(shell: Shell) -> None:
    shell.show("1")
    done = shell.run("feeds", "changes", "--after", "5", code=1)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    for wrong in ("-1", "x", "1.5", ""):
        shell.run("feeds", "changes", "--after", wrong, code=2)


def test_a_store_that_does_not_exist_is_not_created(shell: Shell) -> None:
    shell.run("feeds", "changes", "--db", "sqlite:///none.db", code=1)
    assert not (shell.folder / "none.db").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_follow_prints_new_changes_until_a_signal(shell: Shell, number: signal.Signals, code: int) -> None:
    shell.show("1")
    with shell.start("feeds", "changes", "--follow") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["guid"] == "1"
        shell.show("1", "2", "3")
        assert [json.loads(process.stdout.readline())["guid"] for _ in range(2)] == ["2", "3"]
        process.send_signal(number)
        rest, errors = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, rest, errors) == (code, "", "")


def test_follow_ends_when_its_reader_has_ended(shell: Shell) -> None:
    """Also if no change comes: a command in a pipe must not stay behind."""
    shell.show("1")
    with shell.start("feeds", "changes", "--follow") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(WAIT_SECONDS) == 1
        assert process.stderr.read() == ""


def test_follow_ends_at_its_limit(shell: Shell) -> None:
    shell.show("1")
    with shell.start("feeds", "changes", "--follow", "--limit", "2") as process:
        assert process.stdout is not None
        process.stdout.readline()
        shell.show("1", "2", "3")
        rest, _ = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, [json.loads(line)["guid"] for line in rest.splitlines()]) == (0, ["2"])


@pytest.mark.slow
def test_follow_goes_on_after_the_store_was_unavailable(tmp_path: Path) -> None:
    import postgres

    with postgres.run_crashable_server() as server:
        shell = Shell(server.url, tmp_path)
        shell.show("1")
        with shell.start("feeds", "changes", "--follow") as process:
            try:
                assert process.stdout is not None and process.stderr is not None
                assert json.loads(process.stdout.readline())["guid"] == "1"
                server.crash()
                assert process.stderr.readline().startswith("canonry: ")
                server.start()
                shell.show("1", "2")
                assert json.loads(process.stdout.readline())["guid"] == "2"
            finally:
                process.terminate()
                process.communicate(timeout=WAIT_SECONDS)  # reads on: a closed pipe would end the process too, with 1
        assert process.returncode == 143


# ingest --jsonl


class GrowingFeeds(BaseHTTPRequestHandler):
    """Serves `/feed/N`: each request gets one more item, and the first item changes."""

    lock = threading.Lock()
    counts: dict[str, int]

    def do_GET(self) -> None:
        with self.lock:
            count = self.counts[self.path] = self.counts.get(self.path, 0) + 1
        name = self.path.strip("/").replace("/", "-")
        posts = [f"{name}-{number}" for number in range(count)]
        body = rss(*posts).replace(f"Text of {posts[0]}<", f"Text of {posts[0]}, edited {count}<").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def feed_urls() -> Iterator[list[str]]:
    GrowingFeeds.counts = {}
    with ThreadingHTTPServer(("127.0.0.1", 0), GrowingFeeds) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that were killed
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield [f"http://127.0.0.1:{server.server_port}/feed/{number}" for number in range(30)]
        server.shutdown()
        thread.join()


def read_all_changes(url: str) -> list[int]:
    async def read() -> list[int]:
        with Database(url) as database:
            feed, found, after = ChangeFeed(database), list[int](), 0
            while (page := await feed.read(after, limit=1000)).changes:
                found += [change.number or 0 for change in page.changes]
                after = page.next
            return found

    return asyncio.run(read())


@pytest.mark.slow
def test_killed_runs_lose_nothing_in_the_jsonl_file(shell: Shell, feed_urls: list[str]) -> None:
    """Kills at random moments, also between the commit of items and their output."""
    chance, file = random.Random(20260131), shell.folder / "new.jsonl"
    arguments = ("ingest", *feed_urls, "--jsonl", "new.jsonl", "--concurrency", "8", "--per-host", "8")
    for _ in range(KILLS):
        with shell.start(*arguments) as process:
            assert process.stdout is not None
            for _ in range(chance.randint(1, 40)):  # each line is printed after its commit
                process.stdout.readline()
            time.sleep(chance.uniform(0, 0.01))
            process.kill()
    shell.run(*arguments)
    lines = [json.loads(line) for line in _read_complete_lines(file)]
    stored = read_all_changes(shell.url)
    assert len(stored) > 30 * 2
    assert {line["number"] for line in lines} == set(stored)


def _read_complete_lines(file: Path) -> list[str]:
    """Return the lines of a file without those that a kill cut short."""
    return [line for line in file.read_text().splitlines() if line.endswith("}")]


def test_a_jsonl_file_gets_what_other_processes_found(shell: Shell, feed_urls: list[str]) -> None:
    """A worker or another command may poll the feed first."""
    one, other = feed_urls[:2]
    shell.run("ingest", one, "--jsonl", "new.jsonl")
    shell.run("ingest", one, other)
    shell.run("ingest", one, "--jsonl", "new.jsonl")
    lines = [json.loads(line) for line in (shell.folder / "new.jsonl").read_text().splitlines()]
    assert {line["feed_url"] for line in lines} == {one}
    assert [line["title"] for line in lines if line["outcome"] == "new"] == [
        f"Post feed-0-{number}" for number in range(3)
    ]


def test_without_a_store_the_jsonl_file_gets_the_items_of_the_run(shell: Shell, feed_urls: list[str]) -> None:
    (shell.folder / "file").write_text("no database")
    store = f"sqlite:///{shell.folder}/file/x.db"
    shell.run("ingest", feed_urls[0], "--jsonl", "new.jsonl", "--db", store, code=1)
    [line] = (shell.folder / "new.jsonl").read_text().splitlines()
    assert json.loads(line)["number"] is None


# feeds webhook


def test_webhooks_are_added_listed_tested_and_removed(shell: Shell) -> None:
    with run_webhook_server() as server:
        [added] = shell.run_for_json("feeds", "webhook", "add", server.url)
        secret = added.pop("secret")
        assert shell.run_for_json("feeds", "webhook", "list") == [added]
        assert (added["id"], added["url"], added["state"], added["position"]) == (1, server.url, "active", 0)
        shell.run("feeds", "webhook", "test", "1")
        assert server.is_signed(secret)
        server.answer = lambda _: 500
        done = shell.run("feeds", "webhook", "test", "1", code=1)
        assert done.stderr.count("\n") == 1
        shell.run("feeds", "webhook", "resume", "1")
        shell.run("feeds", "webhook", "remove", "1")
        assert shell.run_for_json("feeds", "webhook", "list") == []
        for action in ("test", "resume", "remove"):
            shell.run("feeds", "webhook", action, "1", code=1)


def test_a_webhook_on_a_terminal_shows_its_secret_once(shell: Shell) -> None:
    run = [*CANONRY, "feeds", "webhook"]
    shown = terminal.run([*run, "add", "https://a.com/hook"], cwd=shell.folder, environment=shell.variables)
    secret = shown.splitlines()[-1]
    assert secret.startswith("whsec_")
    listed = terminal.run([*run, "list"], cwd=shell.folder, environment=shell.variables)
    assert "https://a.com/hook" in listed and secret not in listed


def test_webhooks_that_cannot_be_reached_are_refused(shell: Shell) -> None:
    for url in ("ftp://a.com/", "http://10.0.0.1/", "no url", "http://169.254.169.254/"):
        shell.run("feeds", "webhook", "add", url, code=1)
    shell.run("feeds", "webhook", "add", "https://a.com/", "--after", "7", code=1)
    assert shell.run_for_json("feeds", "webhook", "list") == []


def test_subscriptions_at_hubs_are_listed_without_their_secrets(shell: Shell) -> None:
    assert shell.run("feeds", "websub").stdout == ""

    async def subscribe() -> Subscription:
        with Database(shell.url) as database:
            now = datetime.now(UTC)
            feed, _ = await FeedStore(database).add("https://a.com/feed", now)
            hub = "https://me:pass@hub.example.com/"
            due = DueFeed(feed.id, feed.url, hub, "", Origin.UNKNOWN, None)
            callbacks = "https://feeds.example.net/websub/"
            return await WebSubStore(database).start(due, hub, feed.url, callbacks=callbacks, next_at=now)

    made = asyncio.run(subscribe())
    output = shell.run("feeds", "websub").stdout
    [shown] = map(json.loads, output.splitlines())
    assert (shown["feed_id"], shown["topic"], shown["state"]) == (made.feed_id, "https://a.com/feed", "pending")
    assert made.secret not in output and made.callback not in output and "pass" not in output
