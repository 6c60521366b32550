"""`canonry ingest` and `canonry feeds`, run as commands against a server on loopback."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

import command
import terminal
from canonry.feeds.opml import OpmlFeed, read_opml, write_opml
from canonry.feeds.read import read_feed
from canonry.store.database import Database
from feed_texts import rss
from http_server import serve_http

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CANONRY = [sys.executable, "-m", "canonry"]
ALLOWED = {"CANONRY_ALLOW_NETWORKS": "127.0.0.0/8", "CANONRY_ALLOW_PORTS": "1-65535"}
PAGE = '<html><link rel="alternate" type="application/rss+xml" href="/feed/1">'
STEERING = {
    "version": "https://jsonfeed.org/version/1.1",
    "title": "\033]0;pwned\a",
    "items": [{"id": "1", "title": "\033]0;pwned\a", "url": "https://example.com/\033[2J"}],
}
WAIT_SECONDS = 120  # for an event on a busy machine
FIELDS = (
    "outcome feed_url title url keys dedupe_key match_confidence first_seen_at last_seen_at"
    " number entry_id guid published published_at author categories enclosures feeds"
).split()


class FeedSite(BaseHTTPRequestHandler):
    """Serves `/feed/N` with three posts of its own, and `/hang`, which answers only after the test."""

    asked = Event()
    leave = Event()
    version = 1

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        name = path.strip("/").replace("/", "-")
        if path == "/hang":
            self.asked.set()
            self.leave.wait(4 * WAIT_SECONDS)
        etag = f'"{self.version}"'
        if path.startswith("/feed/") and self.headers.get("If-None-Match") == etag:
            return self._answer(304, "text/xml", "")
        if path == "/cut":
            return self._answer(200, "text/xml", rss("whole", "half")[:-40])
        if path == "/steer":
            return self._answer(200, "application/json", json.dumps(STEERING))
        if path.startswith("/feed/"):
            posts = [f"{name}-{number}" for number in range(self.version, self.version + 3)]
            return self._answer(200, "text/xml", rss(*posts, title=f"Feed {name}"))
        return self._answer(*{"/": (200, "text/html", PAGE), "/gone": (410, "text/plain", "")}.get(path, (500, "", "")))

    def _answer(self, status: int, kind: str, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("ETag", f'"{self.version}"')
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.fixture
def site() -> Iterator[str]:
    FeedSite.version = 1
    FeedSite.asked.clear()
    FeedSite.leave.clear()
    with serve_http(FeedSite) as port:
        yield f"http://127.0.0.1:{port}"
        FeedSite.leave.set()


class Shell:
    """Runs commands in a folder, with a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {**ALLOWED, "CANONRY_DATABASE_URL": f"sqlite:///{folder}/feeds.db"}

    def create_store(self) -> None:
        Database(self.variables["CANONRY_DATABASE_URL"]).close()

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = command.run(*arguments, cwd=self.folder, environment={**os.environ, **self.variables})
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    def run_for_json(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*arguments, code=code).stdout.splitlines()]

    def run_on_terminal(self, *arguments: str) -> str:
        return terminal.run([*CANONRY, *arguments], cwd=self.folder, environment=self.variables)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*CANONRY, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, **self.variables},
        )


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


# ingest


def test_new_and_updated_items_are_json_lines(shell: Shell, site: str) -> None:
    records = shell.run_for_json("ingest", f"{site}/feed/1", f"{site}/feed/2")
    assert len(records) == 6
    assert all(list(record) == FIELDS for record in records)
    assert {record["outcome"] for record in records} == {"new"}
    assert {record["feed_url"] for record in records} == {f"{site}/feed/1", f"{site}/feed/2"}
    assert [key["key_type"] for key in records[0]["keys"]] == ["guid", "canonical_url", "legacy_guid"]
    assert shell.run_for_json("ingest", f"{site}/feed/1", f"{site}/feed/2") == []
    FeedSite.version = 2
    assert [record["title"] for record in shell.run_for_json("ingest", f"{site}/feed/1")] == ["Post feed-1-4"]


def test_failures_summary_and_checklist_are_on_standard_error(shell: Shell, site: str) -> None:
    done = shell.run("ingest", f"{site}/feed/1", f"{site}/bad", f"{site}/gone", "nope", code=1)
    assert len(done.stdout.splitlines()) == 3
    lines = done.stderr.splitlines()
    assert sorted(lines[:3]) == [
        f"failed: {site}/bad: answered 500",
        "failed: nope: no scheme and no host name",
        f"stopped: {site}/gone: answered 410",
    ]
    assert [line.split() for line in lines[3:10]] == [
        ["outcome", "count", "of"],
        ["new", "3", "items"],
        ["updated", "0", "items"],
        ["duplicate", "0", "items"],
        ["failed", "2", "feeds"],
        ["ingested", "1", "feeds"],
        ["stopped", "1", "feeds"],
    ]
    assert len(lines[10:]) == 5
    assert all(line.startswith("[x] ") for line in lines[10:])


def test_without_urls_all_active_feeds_are_polled(shell: Shell, site: str) -> None:
    shell.create_store()
    done = shell.run("ingest", code=1)
    assert done.stderr == "canonry: no feeds to poll. Add one with `canonry feeds add URL`.\n"
    shell.run("ingest", f"{site}/feed/1", f"{site}/feed/2", f"{site}/gone", code=1)
    FeedSite.version = 2
    done = shell.run("ingest")  # without the stopped one
    assert len(done.stdout.splitlines()) == 2


def test_jsonl_is_appended_after_an_unfinished_line(shell: Shell, site: str) -> None:
    file = shell.folder / "new.jsonl"
    file.write_text('{"cut": ')
    assert len(shell.run_for_json("ingest", "--jsonl", "new.jsonl", f"{site}/feed/1")) == 3
    FeedSite.version = 2
    shell.run_on_terminal("ingest", "--jsonl", "new.jsonl", f"{site}/feed/1")
    first, *lines = file.read_text().splitlines()
    assert first == '{"cut": '
    assert [json.loads(line)["title"][-1] for line in lines] == ["1", "2", "3", "4"]


def test_jsonl_to_a_pipe(shell: Shell, site: str) -> None:
    os.mkfifo(shell.folder / "pipe")
    reader = os.open(shell.folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert len(shell.run_for_json("ingest", "--jsonl", "pipe", f"{site}/feed/1")) == 3
        assert len(os.read(reader, 100_000).splitlines()) == 3
    finally:
        os.close(reader)
    assert not list(shell.folder.glob("*.position"))


def test_jsonl_to_standard_output_is_written_once(shell: Shell, site: str) -> None:
    assert len(shell.run_for_json("ingest", "--jsonl", "-", "--json", f"{site}/feed/1")) == 3
    shown = shell.run_on_terminal("ingest", "--jsonl", "-", f"{site}/feed/2")
    assert shown.count('{"outcome": "new"') == 3


def test_the_feeds_of_an_opml_file_are_polled(shell: Shell, site: str) -> None:
    (shell.folder / "f.opml").write_text(
        f'<opml><outline xmlUrl="{site}/feed/1"/><outline xmlUrl="{site}/feed/1"/></opml>'
    )
    assert len(shell.run_for_json("ingest", "--opml", "f.opml", f"{site}/feed/2")) == 6
    (shell.folder / "bad.opml").write_text("<opml>\n<outline>")
    done = shell.run("ingest", "--opml", "bad.opml", code=1)
    assert done.stderr == "canonry: bad.opml: line 2: no element found\n"
    shell.run("ingest", "--opml", "none.opml", code=2)


def test_folders_survive_import_and_export(shell: Shell, site: str) -> None:
    rows = f'<outline text="A &amp; B"><outline text="c"><outline xmlUrl="{site}/feed/1"/></outline></outline>'
    (shell.folder / "f.opml").write_text(f'<opml>{rows}<outline xmlUrl="{site}/feed/2"/></opml>')
    shell.run("feeds", "import", "f.opml")
    assert sorted(each["folder"] for each in shell.run_for_json("feeds", "list")) == ["", "A & B/c"]
    shell.run("feeds", "export", "out.opml")
    shell.run("feeds", "import", "--no-fetch", "--db", f"sqlite:///{shell.folder}/other.db", "out.opml")
    listed = shell.run_for_json("feeds", "list", "--db", f"sqlite:///{shell.folder}/other.db")
    assert {each["url"]: each["folder"] for each in listed} == {f"{site}/feed/1": "A & B/c", f"{site}/feed/2": ""}


def test_an_empty_list_of_items_says_what_to_do(shell: Shell) -> None:
    shell.run("feeds", "add", "--no-fetch", "https://example.com/feed")
    assert "`canonry ingest`" in shell.run_on_terminal("feeds", "items")
    assert "`canonry ingest`" not in shell.run_on_terminal("feeds", "items", "--search", "none")


def test_a_terminal_shows_progress_items_and_the_checklist(shell: Shell, site: str) -> None:
    shown = shell.run_on_terminal("ingest", *(f"{site}/feed/{number}" for number in range(10)))
    bar, _, rest = shown.rpartition("\r\033[K")
    assert "[####################] 10/10 feeds, 30 new, 0 updated, 0 failed" in bar
    lines = rest.splitlines()
    assert lines[0].split() == ["outcome", "title", "url"]
    assert lines[1].startswith("new      Post feed-")
    assert lines[21] == "and 10 more"
    assert lines[22].split() == ["outcome", "count", "of"]
    assert lines[-1].startswith("[x] No full-text extraction and no summarization were performed (0 of the last 30 ")


def test_control_characters_of_a_title_do_not_reach_the_terminal(shell: Shell, site: str) -> None:
    shown = (
        shell.run_on_terminal("ingest", f"{site}/steer")
        + shell.run_on_terminal("feeds", "items")
        + shell.run_on_terminal("feeds", "list")
    )
    assert "pwned" in shown
    assert "\033]" not in shown
    assert "\033[2J" not in shown
    assert "\a" not in shown


@pytest.mark.slow
def test_credentials_are_masked_except_in_exports(shell: Shell, site: str) -> None:
    secret = site.replace("//", "//me:secret@")
    done = shell.run("ingest", f"{secret}/feed/1", f"{secret}/bad", code=1)
    shown = shell.run_on_terminal("ingest", f"{secret}/feed/2", f"{secret}/bad")
    for arguments in (
        ["list"],
        ["items"],
        ["add", f"{secret}/feed/1", f"{secret}/feed/3"],
        ["remove", f"{secret}/feed/2"],
    ):
        printed = shell.run("feeds", *arguments)
        shown += printed.stdout + printed.stderr + shell.run_on_terminal("feeds", *arguments)
    assert "secret" not in done.stdout + done.stderr + shown
    assert "***@" in shown
    assert f"{secret}/feed/1" in shell.run("feeds", "export").stdout  # here the URL is the answer


def test_a_store_of_a_newer_release_is_not_used(shell: Shell, site: str) -> None:
    Database(f"sqlite:///{shell.folder}/x.db").close()
    connection = sqlite3.connect(shell.folder / "x.db")
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = '9'")
    connection.close()
    done = shell.run("ingest", "--db", f"sqlite:///{shell.folder}/x.db", f"{site}/feed/1", code=1)
    assert done.stdout == ""
    assert done.stderr.startswith(f"canonry: sqlite:///{shell.folder}/x.db: ")
    assert done.stderr.count("\n") == 1  # one error, no summary of a run in memory


def test_ingest_goes_on_without_a_store_and_feeds_does_not(shell: Shell, site: str) -> None:
    (shell.folder / "file").write_text("no database")
    store = f"sqlite:///{shell.folder}/file/x.db"
    done = shell.run("ingest", "--db", store, f"{site}/feed/1", code=1)
    assert len(done.stdout.splitlines()) == 3
    assert "this run stores items in memory only" in done.stderr
    assert "[ ] Feed and entry metadata were persisted successfully" in done.stderr
    for arguments in (["ingest"], ["feeds", "list"], ["feeds", "add", f"{site}/feed/1"]):
        done = shell.run(*arguments, "--db", store, code=1)
        assert done.stderr.startswith("canonry: sqlite:///")
        assert done.stderr.count("\n") == 1


def test_items_that_were_left_out_are_reported(shell: Shell, site: str) -> None:
    done = shell.run("ingest", f"{site}/cut")
    assert len(done.stdout.splitlines()) == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("left out:")]
    assert f"{site}/cut: 1 items" in line
    assert ["left", "out", "1", "items"] in [line.split() for line in done.stderr.splitlines()]


def test_output_that_cannot_be_written_is_an_error_without_a_traceback(shell: Shell, site: str) -> None:
    command = f"{' '.join(CANONRY)} ingest {site}/feed/1 >/dev/full"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, env={**os.environ, **shell.variables}
    )
    assert (done.returncode, done.stderr) == (1, "canonry: [Errno 28] No space left on device\n")
    command = f"{' '.join(CANONRY)} ingest {site}/feed/2 {site}/feed/3 | head -n 1"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, env={**os.environ, **shell.variables}
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["--concurrency", "0"], ["--per-host", "x"], ["--delay", "-1"], ["--every", "0"], ["--seen-ttl-days", "-1"]],
)
def test_invalid_numbers_are_wrong_usage(shell: Shell, arguments: list[str]) -> None:
    shell.run("ingest", *arguments, "https://example.com/", code=2)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_keeps_what_it_has_stored(
    shell: Shell, site: str, number: signal.Signals, code: int
) -> None:
    with shell.start("ingest", f"{site}/feed/1", f"{site}/hang", "--jsonl", "new.jsonl") as process:
        assert FeedSite.asked.wait(WAIT_SECONDS)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]  # /hang would keep it running
        process.send_signal(number)
        rest, message = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == code
    assert (len(lines), rest) == (3, "")
    assert (shell.folder / "new.jsonl").read_text() == "".join(lines)
    assert message == "canonry: stopped after 1 feed, 3 new, 0 updated, 0 failed; stored items stay stored\n"
    assert len(shell.run_for_json("feeds", "items")) == 3


@pytest.mark.slow
def test_killed_runs_lose_nothing_and_store_nothing_twice(shell: Shell, site: str) -> None:
    """contract I8: no item lost, none twice."""
    urls = [f"{site}/feed/{number}" for number in range(40)]
    for lines in (1, 20, 50):
        with shell.start("ingest", *urls, "--concurrency", "4", "--delay", "0.01") as process:
            assert process.stdout is not None
            for _ in range(lines):
                process.stdout.readline()
            process.kill()
    shell.run("ingest", *urls)
    items = shell.run_for_json("feeds", "items")
    assert len(items) == len({item["dedupe_key"] for item in items}) == 120
    assert shell.run_for_json("ingest", *urls) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_polls_given_feeds_then_those_that_are_due(shell: Shell, site: str, number: signal.Signals) -> None:
    shell.run("feeds", "add", f"{site}/feed/1")
    with shell.start("ingest", "--watch", "--every", "0.2", f"{site}/feed/2") as process:
        assert process.stdout is not None and process.stderr is not None
        first = [json.loads(process.stdout.readline())["feed_url"] for _ in range(6)]
        assert first == [f"{site}/feed/2"] * 3 + [f"{site}/feed/1"] * 3
        FeedSite.version = 2
        _make_due(shell)
        later = sorted(json.loads(process.stdout.readline())["title"] for _ in range(2))
        assert later == ["Post feed-1-4", "Post feed-2-4"]
        rounds = [process.stderr.readline().strip() for _ in range(3)]
        process.send_signal(number)
        out, last = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, out) == (0, "")
    assert [line.split(maxsplit=1)[1] for line in rounds] == [
        "1 feed: 3 new",
        "1 feed: 3 new",
        "2 feeds: 2 new, 4 duplicate",
    ]
    assert last == "canonry: stopped after 4 feeds, 8 new, 0 updated, 0 failed; stored items stay stored\n"


def _make_due(shell: Shell) -> None:
    with sqlite3.connect(shell.folder / "feeds.db", timeout=WAIT_SECONDS) as store:
        store.execute("UPDATE feeds SET next_check_at = NULL")
    store.close()


# feeds


def test_add_reports_new_known_twin_and_refused(shell: Shell, site: str) -> None:
    (new,) = shell.run_for_json("feeds", "add", f"{site}/feed/1/?utm_source=x")
    assert new == {
        "result": "new",
        "input_url": f"{site}/feed/1/?utm_source=x",
        "url": f"{site}/feed/1",
        "title": "Feed feed-1",
        "aliases": [f"{site}/feed/1/?utm_source=x"],
        "reason": "",
    }
    known, other, page, bad = shell.run_for_json(
        "feeds", "add", f"{site}/feed/1", f"{site}/feed/2", f"{site}/", f"{site}/bad", code=1
    )
    assert (known["result"], known["url"]) == ("known", f"{site}/feed/1")
    assert (other["result"], page["result"], page["url"]) == ("new", "twin", f"{site}/feed/1")
    assert (bad["result"], bad["reason"]) == ("refused", "answered 500")


def test_add_on_a_terminal(shell: Shell, site: str) -> None:
    shown = shell.run_on_terminal("feeds", "add", f"{site}/feed/1/", "nope").rpartition("\r\033[K")[2]
    assert shown.splitlines() == [
        f"new  {site}/feed/1 (Feed feed-1)",
        f"  alias: {site}/feed/1/",
        "refused  nope: no scheme and no host name",
    ]
    shown = shell.run_on_terminal("feeds", "add", f"{site}/feed/1/").rpartition("\r\033[K")[2]
    assert shown == f"known  {site}/feed/1/ is followed as {site}/feed/1 (Feed feed-1)\n"


def test_add_without_a_request(shell: Shell) -> None:
    (new,) = shell.run_for_json("feeds", "add", "--no-fetch", "http://127.0.0.1:1/feed")
    assert (new["result"], new["url"]) == ("new", "http://127.0.0.1:1/feed")


@pytest.mark.slow
def test_list_shows_status_and_failures(shell: Shell, site: str) -> None:
    shell.create_store()
    assert shell.run_for_json("feeds", "list") == []
    assert (
        shell.run_on_terminal("feeds", "list")
        == "canonry: you follow no feeds yet. Add one with `canonry feeds add URL`.\n"
    )
    shell.run("feeds", "add", f"{site}/feed/1")
    shell.run("feeds", "add", "--no-fetch", f"{site}/gone")
    shell.run("ingest", code=1)
    first, second = shell.run_for_json("feeds", "list")
    assert (
        list(first)
        == (
            "url title folder status last_checked_at failures failure next_check_at format hubs note "
            "own_title site_url interval timeout max_bytes user_agent headers"
        ).split()
    )
    assert first["note"] == ""
    assert (first["url"], first["title"], first["status"], first["failures"]) == (
        f"{site}/feed/1",
        "Feed feed-1",
        "active",
        0,
    )
    assert (second["status"], second["failures"], second["failure"]) == ("stopped", 1, "answered 410")
    header, one, two = shell.run_on_terminal("feeds", "list").splitlines()
    assert header.split("  ")[0] == "url"
    assert f"{site}/feed/1" in one
    assert two.endswith("answered 410")


@pytest.mark.slow
def test_remove_deletes_feeds_and_their_items(shell: Shell, site: str) -> None:
    shell.run("ingest", f"{site}/feed/1", f"{site}/feed/2")
    done = shell.run("feeds", "remove", "nope", f"{site}/none", f"{site}/feed/1", code=1)
    assert done.stdout == f"removed {site}/feed/1\n"
    assert done.stderr.count("you do not follow") == 2
    assert [feed["url"] for feed in shell.run_for_json("feeds", "list")] == [f"{site}/feed/2"]
    assert {item["feed_url"] for item in shell.run_for_json("feeds", "items")} == {f"{site}/feed/2"}


@pytest.mark.slow
def test_import_and_export_round_trip(shell: Shell, site: str) -> None:
    (shell.folder / "in.opml").write_text(
        f'<opml version="2.0"><body>\n<outline text="F"><outline text="One" xmlUrl="{site}/feed/1/"/></outline>\n'
        f'<outline text="Again" XMLURL="{site}/feed/1"/>\n<outline text="R&D" xmlUrl="{site}/feed/2?a=1&b=2"/>\n'
        f'<outline text="Bad" xmlUrl="{site}/bad"/>\n<outline text="Mail" xmlUrl="mailto:me@example.com"/></body></opml>'
    )
    done = shell.run("feeds", "import", "in.opml", code=1)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["result"] for each in results] == ["new", "twin", "new", "refused", "refused"]
    assert results[1]["reason"] == f"the same feed as {site}/feed/1/"
    assert done.stderr == "canonry: 5 feeds in in.opml: 2 new, 0 known, 1 twin, 2 refused\n"
    shell.run("feeds", "export", "out.opml")
    exported = read_opml((shell.folder / "out.opml").read_bytes())
    assert exported == [
        OpmlFeed(f"{site}/feed/2?a=1&b=2", "R&D"),
        OpmlFeed(f"{site}/feed/1", "One", "F"),
    ]
    done = shell.run("feeds", "import", "out.opml", "--db", f"sqlite:///{shell.folder}/other.db", "--no-fetch")
    assert done.stderr == "canonry: 2 feeds in out.opml: 2 new, 0 known, 0 twin, 0 refused\n"
    again = shell.run("feeds", "export", "--db", f"sqlite:///{shell.folder}/other.db").stdout
    assert read_opml(again.encode()) == exported


def test_import_without_a_readable_file_is_refused(shell: Shell) -> None:
    shell.run("feeds", "import", code=2)
    shell.run("feeds", "import", "none.opml", code=2)
    (shell.folder / "page.html").write_text("<html>")
    done = shell.run("feeds", "import", "page.html", code=1)
    assert done.stderr == "canonry: page.html: line 1: the root element is <html>, not <opml>\n"


def test_imported_legacy_items_are_not_new(shell: Shell, site: str) -> None:
    with sqlite3.connect(shell.folder / "old.db") as old:
        old.execute("CREATE TABLE entries (dedupe_key TEXT, url TEXT, title TEXT)")
        old.execute("INSERT INTO entries VALUES (?, ?, ?)", (f"guid:{site}/feed/1:id-feed-1-1", "", "Post feed-1-1"))
    old.close()
    done = shell.run("feeds", "import", "--legacy", "old.db")
    assert done.stderr == "canonry: imported 1 item from old.db\n"
    assert len(shell.run_for_json("ingest", f"{site}/feed/1")) == 2


@pytest.mark.slow
def test_items_lists_stored_items(shell: Shell, site: str) -> None:
    shell.run("ingest", f"{site}/feed/1", f"{site}/feed/2")
    items = shell.run_for_json("feeds", "items")
    assert len(items) == 6
    assert list(items[0])[:4] == ["entry_id", "feed_url", "title", "url"]
    assert shell.run_for_json("feeds", "items", "--since", "2999-01-01") == []
    assert len(shell.run_for_json("feeds", "items", "--since", "2020-01-01T10:00+02:00")) == 6
    assert shell.run_for_json("feeds", "items", "--duplicates") == []
    shell.run("feeds", "items", "--since", "yesterday", code=2)
    shown = shell.run_on_terminal("feeds", "items").splitlines()
    assert shown[0].split("  ")[0] == "first seen"
    assert len(shown) == 7


def test_duplicates_are_listed_side_by_side(shell: Shell, site: str) -> None:
    shell.run("ingest", f"{site}/feed/1", f"{site}/feed/1?copy", f"{site}/feed/2")
    items = shell.run_for_json("feeds", "items", "--duplicates")
    assert [item["title"] for item in items] == [f"Post feed-1-{number}" for number in (1, 2, 3)]
    assert [feed["url"] for feed in items[0]["feeds"]] == [f"{site}/feed/1", f"{site}/feed/1?copy"]


def test_an_empty_export_is_valid_opml(shell: Shell) -> None:
    shell.create_store()
    assert read_opml(shell.run("feeds", "export").stdout.encode()) == []


def test_thousands_of_feeds_are_imported_without_a_request(shell: Shell) -> None:
    from datetime import UTC, datetime

    feeds = [OpmlFeed(f"https://{number}.example.com/feed", str(number)) for number in range(1000)]
    (shell.folder / "many.opml").write_text(write_opml(feeds, datetime.now(UTC)))
    done = shell.run("feeds", "import", "--no-fetch", "many.opml")
    assert done.stderr == "canonry: 1,000 feeds in many.opml: 1,000 new, 0 known, 0 twin, 0 refused\n"


def test_a_missing_extra_is_named_with_the_command_that_installs_it() -> None:
    code = "import sys; sys.modules['sqlalchemy'] = None; from canonry.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "feeds", "list"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("pip install 'canonry[feeds]'\n") and done.stderr.count("\n") == 1


def test_ingest_and_import_follow_the_same_feeds(shell: Shell, site: str) -> None:
    rows = "".join(
        f'<outline text="{title}" xmlUrl="{site}/feed/1{query}" htmlUrl="https://example.com/{title}"/>'
        for title, query in (("Mine", ""), ("Other", "?utm_source=opml"))
    )
    (shell.folder / "f.opml").write_text(f'<opml><outline text="News">{rows}</outline></opml>')
    assert len(shell.run_for_json("ingest", "--opml", "f.opml")) == 3
    [feed] = shell.run_for_json("feeds", "list")
    found = {name: feed[name] for name in ("url", "title", "folder", "site_url")}
    assert found == {"url": f"{site}/feed/1", "title": "Mine", "folder": "News", "site_url": "https://example.com/Mine"}
    [known, twin] = shell.run_for_json("feeds", "import", "f.opml")
    assert (known["result"], known["title"], twin["result"], twin["url"]) == ("known", "Mine", "twin", f"{site}/feed/1")
    shell.run_for_json("ingest", f"{site}/feed/1?utm_source=mail")
    assert len(shell.run_for_json("feeds", "list")) == 1
    exported = read_opml(shell.run("feeds", "export").stdout.encode())
    assert exported == [OpmlFeed(f"{site}/feed/1", "Mine", "News", site_url="https://example.com/Mine")]


@pytest.mark.slow
def test_settings_of_a_feed(shell: Shell, site: str) -> None:
    secret = site.replace("//", "//me:password@")
    shell.run("feeds", "add", f"{secret}/feed/1")
    shown = f"{site.replace('//', '//***@')}/feed/1"
    options = ["--title", "Mine", "--interval", "15m", "--header", "X-Token: secret", "--max-bytes", "1M"]
    done = shell.run("feeds", "set", shown, *options)
    record = json.loads(done.stdout)
    assert (record["url"], record["own_title"], record["interval"]) == (shown, "Mine", 900)
    assert record["headers"] == {"X-Token": "***"}
    [feed] = shell.run_for_json("feeds", "list")
    assert (feed["title"], feed["max_bytes"], feed["headers"]) == ("Mine", 1_000_000, {"X-Token": "***"})
    assert "secret" not in done.stdout + shell.run_on_terminal("feeds", "set", shown)
    [restored] = shell.run_for_json("feeds", "set", shown, "--title", "default", "--header", "X-Token:")
    assert (restored["own_title"], restored["interval"], restored["headers"]) == ("", 900, {})
    for wrong in (["--interval", "1s"], ["--timeout", "x"], ["--header", "no colon"], ["--header", "Host: x"]):
        shell.run("feeds", "set", shown, *wrong, code=2)
    shell.run("feeds", "set", "https://unknown.example/", "--title", "x", code=1)


def test_a_paused_feed_is_polled_only_by_its_url(shell: Shell, site: str) -> None:
    url = f"{site}/feed/1"
    (shell.folder / "f.opml").write_text(f'<opml><outline xmlUrl="{url}"/></opml>')
    shell.run("feeds", "add", url)
    assert shell.run_for_json("feeds", "pause", url)[0]["status"] == "paused"
    shell.run("ingest", code=1)
    assert shell.run("ingest", "--opml", "f.opml").stdout == ""
    assert len(shell.run_for_json("ingest", url)) == 3
    assert shell.run_for_json("feeds", "list")[0]["status"] == "paused"
    assert shell.run_for_json("feeds", "resume", url)[0]["status"] == "active"
    assert shell.run_for_json("ingest", "--force") == []


def test_items_are_filtered_and_written_as_feeds(shell: Shell, site: str) -> None:
    shell.run("ingest", f"{site}/feed/1", f"{site}/feed/1?copy", f"{site}/feed/2")
    assert len(shell.run_for_json("feeds", "items")) == 6
    assert len(shell.run_for_json("feeds", "items", "--limit", "4")) == 4
    [found] = shell.run_for_json("feeds", "items", "--feed", f"{site}/feed/1?copy", "--search", "FEED-1-2")
    assert [feed["url"] for feed in found["feeds"]] == [f"{site}/feed/1", f"{site}/feed/1?copy"]
    assert shell.run_for_json("feeds", "items", "--until", "2001-01-01") == []
    for name in ("atom", "json-feed"):
        feed = read_feed(shell.run("feeds", "items", "--format", name, "--limit", "5").stdout.encode())
        assert (len(feed.items), feed.is_recovered) == (5, False)
    shell.run("feeds", "items", "--feed", "https://unknown.example/", code=1)


def test_an_empty_opml_file_names_no_feeds(shell: Shell, site: str) -> None:
    shell.run("feeds", "add", f"{site}/feed/1")
    (shell.folder / "f.opml").write_text("<opml></opml>")
    assert shell.run("ingest", "--opml", "f.opml", code=1).stdout == ""
