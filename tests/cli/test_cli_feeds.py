"""`canonry ingest` and `canonry feeds`, run as users run them, against a server on loopback."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

import command
import terminal
from canonry.feeds.opml import OpmlFeed, read_opml, write_opml
from feed_texts import rss

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
FIELDS = "outcome feed_url title url keys dedupe_key match_confidence first_seen_at last_seen_at".split()


class Answerer(BaseHTTPRequestHandler):
    """`/feed/N` has three posts of its own; `/hang` keeps its client waiting."""

    asked = Event()
    leave = Event()
    version = 1

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        name = path.strip("/").replace("/", "-")
        if path == "/hang":
            self.asked.set()
            self.leave.wait(30)
        etag = f'"{self.version}"'
        if path.startswith("/feed/") and self.headers.get("If-None-Match") == etag:
            return self._answer(304, "text/xml", "")
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
    Answerer.version = 1
    Answerer.asked.clear()
    Answerer.leave.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Answerer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        Answerer.leave.set()
        server.shutdown()


class User:
    """Somebody at a shell, with a store of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {**ALLOWED, "CANONRY_DATABASE_URL": f"sqlite:///{folder}/feeds.db"}

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = command.run(*arguments, cwd=self.folder, environment={**os.environ, **self.variables})
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    def records(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*arguments, code=code).stdout.splitlines()]

    def sees(self, *arguments: str) -> str:
        return terminal.run([*CANONRY, *arguments], cwd=self.folder, environment=self.variables)

    def starts(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*CANONRY, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, **self.variables},
        )


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


# ingest


def test_new_and_updated_items_are_json_lines(user: User, site: str) -> None:
    records = user.records("ingest", f"{site}/feed/1", f"{site}/feed/2")
    assert len(records) == 6
    assert all(list(record) == FIELDS for record in records)
    assert {record["outcome"] for record in records} == {"new"}
    assert {record["feed_url"] for record in records} == {f"{site}/feed/1", f"{site}/feed/2"}
    assert [key["key_type"] for key in records[0]["keys"]] == ["guid", "canonical_url", "legacy_guid"]
    assert user.records("ingest", f"{site}/feed/1", f"{site}/feed/2") == []
    Answerer.version = 2
    assert [record["title"] for record in user.records("ingest", f"{site}/feed/1")] == ["Post feed-1-4"]


def test_the_talk_is_on_standard_error(user: User, site: str) -> None:
    done = user.run("ingest", f"{site}/feed/1", f"{site}/bad", f"{site}/gone", "nope", code=1)
    assert len(done.stdout.splitlines()) == 3
    said = done.stderr.splitlines()
    assert sorted(said[:3]) == [
        f"failed: {site}/bad: answered 500",
        "failed: nope: no scheme and no host name",
        f"stopped: {site}/gone: answered 410",
    ]
    assert [line.split() for line in said[3:10]] == [
        ["outcome", "count", "of"],
        ["new", "3", "items"],
        ["updated", "0", "items"],
        ["duplicate", "0", "items"],
        ["failed", "2", "feeds"],
        ["ingested", "1", "feeds"],
        ["stopped", "1", "feeds"],
    ]
    assert len(said[10:]) == 5
    assert all(line.startswith("[x] ") for line in said[10:])


def test_without_urls_all_active_feeds(user: User, site: str) -> None:
    done = user.run("ingest", code=1)
    assert done.stderr == "canonry: no feeds to poll. Add one with `canonry feeds add URL`.\n"
    user.run("ingest", f"{site}/feed/1", f"{site}/feed/2", f"{site}/gone", code=1)
    Answerer.version = 2
    done = user.run("ingest")  # the stopped one is left alone
    assert len(done.stdout.splitlines()) == 2


def test_jsonl_is_appended(user: User, site: str) -> None:
    file = user.folder / "new.jsonl"
    file.write_text('{"cut": ')
    assert len(user.records("ingest", "--jsonl", "new.jsonl", f"{site}/feed/1")) == 3
    Answerer.version = 2
    user.sees("ingest", "--jsonl", "new.jsonl", f"{site}/feed/1")
    first, *lines = file.read_text().splitlines()
    assert first == '{"cut": '
    assert [json.loads(line)["title"][-1] for line in lines] == ["1", "2", "3", "4"]


def test_jsonl_to_standard_output_is_written_once(user: User, site: str) -> None:
    assert len(user.records("ingest", "--jsonl", "-", "--json", f"{site}/feed/1")) == 3
    shown = user.sees("ingest", "--jsonl", "-", f"{site}/feed/2")
    assert shown.count('{"outcome": "new"') == 3


def test_a_list_of_feeds(user: User, site: str) -> None:
    (user.folder / "f.opml").write_text(
        f'<opml><outline xmlUrl="{site}/feed/1"/><outline xmlUrl="{site}/feed/1"/></opml>'
    )
    assert len(user.records("ingest", "--opml", "f.opml", f"{site}/feed/2")) == 6
    (user.folder / "bad.opml").write_text("<opml>\n<outline>")
    done = user.run("ingest", "--opml", "bad.opml", code=1)
    assert done.stderr == "canonry: bad.opml: line 2: no element found\n"
    user.run("ingest", "--opml", "none.opml", code=2)


def test_folders_survive(user: User, site: str) -> None:
    rows = f'<outline text="A &amp; B"><outline text="c"><outline xmlUrl="{site}/feed/1"/></outline></outline>'
    (user.folder / "f.opml").write_text(f'<opml>{rows}<outline xmlUrl="{site}/feed/2"/></opml>')
    user.run("feeds", "import", "f.opml")
    assert sorted(each["folder"] for each in user.records("feeds", "list")) == ["", "A & B/c"]
    user.run("feeds", "export", "out.opml")
    user.run("feeds", "import", "--no-fetch", "--db", f"sqlite:///{user.folder}/other.db", "out.opml")
    told = user.records("feeds", "list", "--db", f"sqlite:///{user.folder}/other.db")
    assert {each["url"]: each["folder"] for each in told} == {f"{site}/feed/1": "A & B/c", f"{site}/feed/2": ""}


def test_on_a_terminal_a_bar_a_table_and_the_checklist(user: User, site: str) -> None:
    shown = user.sees("ingest", *(f"{site}/feed/{number}" for number in range(10)))
    bar, _, rest = shown.rpartition("\r\033[K")
    assert "[####################] 10/10 feeds, 30 new, 0 updated, 0 failed" in bar
    lines = rest.splitlines()
    assert lines[0].split() == ["outcome", "title", "url"]
    assert lines[1].startswith("new      Post feed-")
    assert lines[21] == "and 10 more"
    assert lines[22].split() == ["outcome", "count", "of"]
    assert lines[-1].startswith("[x] No full-text extraction and no summarization were performed (0 of the last 30 ")


def test_a_title_cannot_steer_the_terminal(user: User, site: str) -> None:
    shown = user.sees("ingest", f"{site}/steer") + user.sees("feeds", "items") + user.sees("feeds", "list")
    assert "pwned" in shown
    assert "\033]" not in shown
    assert "\033[2J" not in shown
    assert "\a" not in shown


@pytest.mark.slow
def test_secrets_are_masked(user: User, site: str) -> None:
    secret = site.replace("//", "//me:secret@")
    done = user.run("ingest", f"{secret}/feed/1", f"{secret}/bad", code=1)
    shown = user.sees("ingest", f"{secret}/feed/2", f"{secret}/bad")
    for arguments in (
        ["list"],
        ["items"],
        ["add", f"{secret}/feed/1", f"{secret}/feed/3"],
        ["remove", f"{secret}/feed/2"],
    ):
        printed = user.run("feeds", *arguments)
        shown += printed.stdout + printed.stderr + user.sees("feeds", *arguments)
    assert "secret" not in done.stdout + done.stderr + shown
    assert "***@" in shown
    assert f"{secret}/feed/1" in user.run("feeds", "export").stdout  # here the URL is the answer


def test_a_store_of_a_newer_release(user: User, site: str) -> None:
    user.run("feeds", "list", "--db", f"sqlite:///{user.folder}/x.db")
    connection = sqlite3.connect(user.folder / "x.db")
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = '9'")
    connection.close()
    done = user.run("ingest", "--db", f"sqlite:///{user.folder}/x.db", f"{site}/feed/1", code=1)
    assert done.stdout == ""
    assert "made by a newer canonry (tables 9); nothing was changed" in done.stderr
    assert "in memory" not in done.stderr


def test_a_store_that_cannot_be_opened(user: User, site: str) -> None:
    (user.folder / "file").write_text("no database")
    store = f"sqlite:///{user.folder}/file/x.db"
    done = user.run("ingest", "--db", store, f"{site}/feed/1", code=1)
    assert len(done.stdout.splitlines()) == 3
    assert "this run remembers items in memory only" in done.stderr
    assert "[ ] Feed and entry metadata were persisted successfully" in done.stderr
    for arguments in (["ingest"], ["feeds", "list"], ["feeds", "add", f"{site}/feed/1"]):
        done = user.run(*arguments, "--db", store, code=1)
        assert done.stderr.startswith("canonry: sqlite:///")
        assert done.stderr.count("\n") == 1


def test_an_answer_that_cannot_be_written(user: User, site: str) -> None:
    command = f"{' '.join(CANONRY)} ingest {site}/feed/1 >/dev/full"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, env={**os.environ, **user.variables}
    )
    assert (done.returncode, done.stderr) == (1, "canonry: [Errno 28] No space left on device\n")
    command = f"{' '.join(CANONRY)} ingest {site}/feed/2 {site}/feed/3 | head -n 1"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, env={**os.environ, **user.variables}
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["--concurrency", "0"], ["--per-host", "x"], ["--delay", "-1"], ["--every", "0"], ["--seen-ttl-days", "-1"]],
)
def test_wrong_usage(user: User, arguments: list[str]) -> None:
    user.run("ingest", *arguments, "https://example.com/", code=2)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(user: User, site: str, number: signal.Signals, code: int) -> None:
    with user.starts("ingest", f"{site}/feed/1", f"{site}/hang", "--jsonl", "new.jsonl") as process:
        assert Answerer.asked.wait(30)
        while not (user.folder / "new.jsonl").exists() or (user.folder / "new.jsonl").read_bytes().count(b"\n") < 3:
            time.sleep(0.01)
        started = time.monotonic()
        process.send_signal(number)
        out, said = process.communicate(timeout=30)
    assert time.monotonic() - started < 5
    assert process.returncode == code
    assert len(out.splitlines()) == 3
    assert said == "canonry: stopped after 1 feeds, 3 new, 0 updated, 0 failed; stored items stay stored\n"
    assert len(user.records("feeds", "items")) == 3


@pytest.mark.slow
def test_killed_and_repeated(user: User, site: str) -> None:
    """contract I8: no item lost, none twice."""
    urls = [f"{site}/feed/{number}" for number in range(40)]
    for lines in (1, 20, 50):
        with user.starts("ingest", *urls, "--concurrency", "4", "--delay", "0.01") as process:
            assert process.stdout is not None
            for _ in range(lines):
                process.stdout.readline()
            process.kill()
    user.run("ingest", *urls)
    items = user.records("feeds", "items")
    assert len(items) == len({item["dedupe_key"] for item in items}) == 120
    assert user.records("ingest", *urls) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch(user: User, site: str, number: signal.Signals) -> None:
    user.run("feeds", "add", f"{site}/feed/1")
    with user.starts("ingest", "--watch", "--every", "0.2", f"{site}/feed/2") as process:
        assert process.stdout is not None and process.stderr is not None
        first = [json.loads(process.stdout.readline())["feed_url"] for _ in range(6)]
        assert first == [f"{site}/feed/2"] * 3 + [f"{site}/feed/1"] * 3  # what was asked for, then what is due
        Answerer.version = 2
        _make_due(user)
        later = sorted(json.loads(process.stdout.readline())["title"] for _ in range(2))
        assert later == ["Post feed-1-4", "Post feed-2-4"]
        rounds = [process.stderr.readline().strip() for _ in range(3)]
        process.send_signal(number)
        out, last = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert [line.split(maxsplit=1)[1] for line in rounds] == [
        "1 feeds: 3 new",
        "1 feeds: 3 new",
        "2 feeds: 2 new, 4 duplicate",
    ]
    assert last == "canonry: stopped after 4 feeds, 8 new, 0 updated, 0 failed; stored items stay stored\n"


def _make_due(user: User) -> None:
    with sqlite3.connect(user.folder / "feeds.db", timeout=30) as store:
        store.execute("UPDATE feeds SET next_check_at = NULL")
    store.close()


# feeds


def test_add(user: User, site: str) -> None:
    (new,) = user.records("feeds", "add", f"{site}/feed/1/?utm_source=x")
    assert new == {
        "result": "new",
        "input_url": f"{site}/feed/1/?utm_source=x",
        "url": f"{site}/feed/1",
        "title": "Feed feed-1",
        "aliases": [f"{site}/feed/1/?utm_source=x"],
        "reason": "",
    }
    known, other, page, bad = user.records(
        "feeds", "add", f"{site}/feed/1", f"{site}/feed/2", f"{site}/", f"{site}/bad", code=1
    )
    assert (known["result"], known["url"]) == ("known", f"{site}/feed/1")
    assert (other["result"], page["result"], page["url"]) == ("new", "twin", f"{site}/feed/1")
    assert (bad["result"], bad["reason"]) == ("refused", "answered 500")


def test_add_on_a_terminal(user: User, site: str) -> None:
    shown = user.sees("feeds", "add", f"{site}/feed/1/", "nope").rpartition("\r\033[K")[2]
    assert shown.splitlines() == [
        f"new  {site}/feed/1 (Feed feed-1)",
        f"  alias: {site}/feed/1/",
        "refused  nope: no scheme and no host name",
    ]
    shown = user.sees("feeds", "add", f"{site}/feed/1/").rpartition("\r\033[K")[2]
    assert shown == f"known  {site}/feed/1/ is followed as {site}/feed/1 (Feed feed-1)\n"


def test_add_without_a_request(user: User) -> None:
    (new,) = user.records("feeds", "add", "--no-fetch", "http://127.0.0.1:1/feed")
    assert (new["result"], new["url"]) == ("new", "http://127.0.0.1:1/feed")


@pytest.mark.slow
def test_list(user: User, site: str) -> None:
    assert user.records("feeds", "list") == []
    assert user.sees("feeds", "list") == "canonry: you follow no feeds yet. Add one with `canonry feeds add URL`.\n"
    user.run("feeds", "add", f"{site}/feed/1")
    user.run("feeds", "add", "--no-fetch", f"{site}/gone")
    user.run("ingest", code=1)
    first, second = user.records("feeds", "list")
    assert list(first) == "url title folder status last_checked_at failures failure next_check_at format hubs".split()
    assert (first["url"], first["title"], first["status"], first["failures"]) == (
        f"{site}/feed/1",
        "Feed feed-1",
        "active",
        0,
    )
    assert (second["status"], second["failures"], second["failure"]) == ("stopped", 1, "answered 410")
    header, one, two = user.sees("feeds", "list").splitlines()
    assert header.split("  ")[0] == "url"
    assert f"{site}/feed/1" in one
    assert two.endswith("answered 410")


@pytest.mark.slow
def test_remove(user: User, site: str) -> None:
    user.run("ingest", f"{site}/feed/1", f"{site}/feed/2")
    done = user.run("feeds", "remove", "nope", f"{site}/none", f"{site}/feed/1", code=1)
    assert done.stdout == f"removed {site}/feed/1\n"
    assert done.stderr.count("you do not follow") == 2
    assert [feed["url"] for feed in user.records("feeds", "list")] == [f"{site}/feed/2"]
    assert {item["feed_url"] for item in user.records("feeds", "items")} == {f"{site}/feed/2"}


@pytest.mark.slow
def test_import_and_export(user: User, site: str) -> None:
    (user.folder / "in.opml").write_text(
        f'<opml version="2.0"><body>\n<outline text="F"><outline text="One" xmlUrl="{site}/feed/1/"/></outline>\n'
        f'<outline text="Again" XMLURL="{site}/feed/1"/>\n<outline text="R&D" xmlUrl="{site}/feed/2?a=1&b=2"/>\n'
        f'<outline text="Bad" xmlUrl="{site}/bad"/>\n<outline text="Mail" xmlUrl="mailto:me@example.com"/></body></opml>'
    )
    done = user.run("feeds", "import", "in.opml", code=1)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["result"] for each in results] == ["new", "twin", "new", "refused", "refused"]
    assert results[1]["reason"] == f"the same feed as {site}/feed/1/"
    assert done.stderr == "canonry: 5 feeds in in.opml: 2 new, 0 known, 1 twin, 2 refused\n"
    user.run("feeds", "export", "out.opml")
    exported = read_opml((user.folder / "out.opml").read_bytes())
    assert exported == [
        OpmlFeed(f"{site}/feed/2?a=1&b=2", "Feed feed-2"),
        OpmlFeed(f"{site}/feed/1", "Feed feed-1", "F"),
    ]
    done = user.run("feeds", "import", "out.opml", "--db", f"sqlite:///{user.folder}/other.db", "--no-fetch")
    assert done.stderr == "canonry: 2 feeds in out.opml: 2 new, 0 known, 0 twin, 0 refused\n"
    again = user.run("feeds", "export", "--db", f"sqlite:///{user.folder}/other.db").stdout
    assert read_opml(again.encode()) == exported


def test_import_wants_a_file(user: User) -> None:
    user.run("feeds", "import", code=2)
    user.run("feeds", "import", "none.opml", code=2)
    (user.folder / "page.html").write_text("<html>")
    done = user.run("feeds", "import", "page.html", code=1)
    assert done.stderr == "canonry: page.html: line 1: the root element is <html>, not <opml>\n"


def test_import_of_what_another_program_has_seen(user: User, site: str) -> None:
    with sqlite3.connect(user.folder / "old.db") as old:
        old.execute("CREATE TABLE entries (dedupe_key TEXT, url TEXT, title TEXT)")
        old.execute("INSERT INTO entries VALUES (?, ?, ?)", (f"guid:{site}/feed/1:id-feed-1-1", "", "Post feed-1-1"))
    old.close()
    done = user.run("feeds", "import", "--legacy", "old.db")
    assert done.stderr == "canonry: imported 1 items from old.db\n"
    assert len(user.records("ingest", f"{site}/feed/1")) == 2


@pytest.mark.slow
def test_items(user: User, site: str) -> None:
    user.run("ingest", f"{site}/feed/1", f"{site}/feed/2")
    items = user.records("feeds", "items")
    assert len(items) == 6
    assert list(items[0])[:4] == ["entry_id", "feed_url", "title", "url"]
    assert user.records("feeds", "items", "--since", "2999-01-01") == []
    assert len(user.records("feeds", "items", "--since", "2020-01-01T10:00+02:00")) == 6
    assert user.records("feeds", "items", "--duplicates") == []
    user.run("feeds", "items", "--since", "yesterday", code=2)
    shown = user.sees("feeds", "items").splitlines()
    assert shown[0].split("  ")[0] == "first seen"
    assert len(shown) == 7


def test_duplicates_stand_side_by_side(user: User, site: str) -> None:
    user.run("ingest", f"{site}/feed/1", f"{site}/feed/1?copy", f"{site}/feed/2")
    items = user.records("feeds", "items", "--duplicates")
    assert [item["title"] for item in items] == [f"Post feed-1-{number}" for number in (1, 1, 2, 2, 3, 3)]


def test_an_empty_export_is_a_list_too(user: User) -> None:
    assert read_opml(user.run("feeds", "export").stdout.encode()) == []


def test_thousands_of_feeds_are_imported_without_a_request(user: User) -> None:
    from datetime import UTC, datetime

    feeds = [OpmlFeed(f"https://{number}.example.com/feed", str(number)) for number in range(1000)]
    (user.folder / "many.opml").write_text(write_opml(feeds, datetime.now(UTC)))
    done = user.run("feeds", "import", "--no-fetch", "many.opml")
    assert done.stderr == "canonry: 1000 feeds in many.opml: 1000 new, 0 known, 0 twin, 0 refused\n"


def test_a_missing_extra_is_named() -> None:
    code = "import sys; sys.modules['sqlalchemy'] = None; from canonry.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "feeds", "list"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "canonry: this needs more than the base install: pip install 'canonry[feeds]'\n"
