"""canonry rekey and policy diff over a store, on a terminal and in a pipe."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import command
import terminal
from canonry.bookmarks.draft import Draft
from canonry.bookmarks.save import Bookmarks
from canonry.core.keys import Item
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument
from canonry.store.database import Database
from canonry.store.pinned_policies import ENTRY, get_policy, repin_policy
from service import until

if TYPE_CHECKING:
    from sqlalchemy import Connection

NOW = datetime(2026, 1, 31, tzinfo=UTC)
ITEMS = (
    Item(guid="1", link="https://www.a.com/x/?yclid=1", title="1"),
    Item(guid="2", link="https://a.com/x", title="2"),
    Item(guid="3", link="https://a.com/y#1", title="3"),
    Item(guid="4", link="https://a.com/y#2", title="4"),
    Item(guid="5", title="no link"),
)


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'canonry.db'}"

    async def fill(database: Database) -> None:
        feeds = FeedStore(database)
        feed, _ = await feeds.add("https://a.com/feed", NOW)
        await feeds.merge(feed.id, FeedDocument("A", "rss20", (), ITEMS), NOW, seen_ttl_days=30)

    with Database(url) as database:
        database.write_now(lambda connection: repin_policy(connection, ENTRY, "entry@1"))
        asyncio.run(fill(database))
    return url


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return command.run(*arguments, cwd=Path.cwd(), environment=os.environ)


def answer(*arguments: str) -> dict[str, Any]:
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_rekey_does_what_its_dry_run_shows_and_can_be_undone(store: str) -> None:
    planned = answer("rekey", "entry@1", "feed-aggressive@1", "--db", store, "--dry-run")
    assert planned == {
        "before": "entry@1",
        "after": "feed-aggressive@1",
        "entries": 5,
        "changed": 1,
        "merged": 1,
        "split": 0,
        "changes": [
            {
                "url": "https://www.a.com/x/?yclid=1",
                "before": "https://www.a.com/x/?yclid=1",
                "after": "https://a.com/x",
            }
        ],
        "merges": [{"key": "https://a.com/x", "others": ["https://a.com/x", "https://www.a.com/x/?yclid=1"]}],
        "splits": [],
    }
    assert answer("rekey", "entry@1", "feed-aggressive@1", "--db", store, "--batch", "2") == planned
    undone = {"before": "entry@1", "after": "feed-aggressive@1", "result": "undone", "entries": 5}
    assert answer("rekey", "entry@1", "feed-aggressive@1", "--db", store, "--undo") == undone


def test_a_forgotten_rekey_cannot_be_undone(store: str) -> None:
    arguments = ("rekey", "entry@1", "exact@1", "--db", store)
    answer(*arguments)
    assert answer(*arguments, "--forget")["rows"] >= 5  # the entries and their feed
    assert answer(*arguments, "--forget")["rows"] == 0
    undone = run(*arguments, "--undo")
    assert (undone.returncode, undone.stdout) == (1, "")
    assert answer("rekey", "exact@1", "entry@1", "--db", store)["entries"] == 5


def test_a_rekey_on_a_terminal_prints_a_table(store: str) -> None:
    command = [sys.executable, "-m", "canonry", "rekey", "entry@1", "exact@1", "--db", store]
    assert terminal.run([*command, "--dry-run"]) == (
        "entry@1 → exact@1, would be rekeyed\n"
        "what     count\n"
        "entries  5\n"
        "changed  2\n"
        "merged   0\n"
        "split    1\n"
        "changed  https://a.com/y{+#1+}\n"
        "changed  https://a.com/y{+#2+}\n"
        "split  https://a.com/y →\n"
        "    https://a.com/y#1\n"
        "    https://a.com/y#2\n"
    )
    assert "entry@1 → exact@1, rekeyed\nwhat " in terminal.run(command)  # after a progress bar on a slow machine
    assert terminal.run([*command, "--undo"]) == "Undone: 5 entries are under entry@1 again.\n"


REFUSED = [
    # why                      arguments                                     exit  in the message
    ("both",                   "entry@1 exact@1 --dry-run --undo",           2,    "Use only one of --dry-run, --undo, --forget and --workers."),
    ("the same",               "entry entry@2",                              2,    "Both policies are entry@2."),
    ("an empty batch",         "entry@1 exact@1 --batch 0",                  2,    "0 is not in the range"),
    ("a file",                 "entry@1 my.toml",                            1,    "canonry: my.toml: "),
    ("no policy",              "entry@1 nope",                               1,    "'nope'"),
    ("pinned to another",      "bookmark@1 exact@1",                         1,    "canonry: Nothing in this store is under bookmark@1: its feed entries are under entry@1"),
    ("pinned to another, dry", "bookmark@1 exact@1 --dry-run",               1,    "canonry: Nothing in this store is under bookmark@1: its feed entries are under entry@1"),
    ("nothing to undo",        "entry@1 exact@1 --undo",                     1,    "canonry: The store has no rekey from entry@1 to exact@1, or it was undone."),
]  # fmt: skip


@pytest.mark.parametrize(("why", "arguments", "code", "message"), REFUSED)
def test_a_rekey_that_cannot_be_done_is_refused(store: str, why: str, arguments: str, code: int, message: str) -> None:
    done = run("rekey", *arguments.split(), "--db", store)
    assert (done.returncode, done.stdout) == (code, ""), why
    assert message in done.stderr


@pytest.mark.parametrize(
    "command", ["rekey entry exact --dry-run", "rekey entry exact", "policy diff entry exact --store"]
)
def test_a_missing_store_is_not_created(tmp_path: Path, command: str) -> None:
    file = tmp_path / "nothing.db"
    done = run(*command.split(), "--db", f"sqlite:///{file}")
    assert done.returncode == 1
    assert done.stderr.startswith("canonry: ")
    assert not file.exists()


def test_policy_diff_of_a_store(store: str) -> None:
    found = answer("policy", "diff", "entry@1", "exact", "--store", "--db", store)
    assert (found["urls"], found["refused"], found["changed"], found["split"]) == (4, 0, 2, 1)
    assert found["splits"] == [{"key": "https://a.com/y", "others": ["https://a.com/y#1", "https://a.com/y#2"]}]


def test_policy_diff_refuses_a_store_together_with_a_file(store: str, tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    file.write_text("https://a.com/\n")
    done = run("policy", "diff", "entry", "exact", str(file), "--store", "--db", store)
    assert done.returncode == 2
    assert answer("policy", "diff", "entry", "exact", str(file))["urls"] == 1


def test_a_progress_bar_appears_after_a_second(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from canonry.cli.rekey_bar import RekeyBar
    from canonry.rekey.entry_rekey import RekeyProgress

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    seconds = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    with RekeyBar("moved") as bar:
        for done in (10, 50, 100):
            bar.show(RekeyProgress(done, 100))
    shown = capfd.readouterr().err
    assert "50/100 moved" in shown
    assert shown.endswith("\r\033[K")


def test_policy_diff_of_bookmarks(store: str) -> None:
    async def save(database: Database) -> None:
        def never(_: str) -> Any:
            pytest.fail("no request must be sent")

        bookmarks = Bookmarks(database, never, enqueue=lambda *_: asyncio.sleep(0))
        for url in ("https://www.a.com/x/", "https://www.a.com/x", "https://b.com/#top"):
            await bookmarks.put(1, Draft(url))
        await bookmarks.put(1, Draft("https://b.com/?utm_source=x"), exact_url=True)

    with Database(store) as database:
        asyncio.run(save(database))
    found = answer("policy", "diff", "bookmark", "feed-aggressive", "--bookmarks", "--db", store)
    assert {name: found[name] for name in ("urls", "changed", "merged")} == {
        "urls": 3,
        "changed": 3,
        "merged": 1,
    }
    assert run("policy", "diff", "bookmark", "crawl", "--bookmarks", "--store", "--db", store).returncode == 2


def test_a_queued_rekey_is_done_by_a_worker(store: str) -> None:
    refused = run("rekey", "crawl@1", "feed-aggressive@1", "--db", store, "--workers")
    assert (refused.returncode, refused.stdout) == (1, "")
    queued = answer("rekey", "entry@1", "feed-aggressive@1", "--db", store, "--workers")
    assert queued == {"before": "entry@1", "after": "feed-aggressive@1", "result": "queued"}
    worker = [sys.executable, "-m", "canonry", "worker", "--db", store]
    with Database(store) as database, subprocess.Popen(worker, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: database.read_now(load_policy) == "feed-aggressive@1", seconds=120)
        finally:
            process.terminate()
    assert run("rekey", "entry@1", "feed-aggressive@1", "--db", store, "--undo", "--workers").returncode == 2


def load_policy(connection: Connection) -> str:
    return get_policy(connection, ENTRY)
