"""`canonry bookmarks`, run as a command over a store of its own."""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

import command
import terminal
from canonry.evidence.fact_store import save_aliases
from canonry.evidence.facts import PageAlias
from canonry.evidence.same_page import Evidence
from canonry.store.database import Database
from http_server import serve_http

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

ALLOWED = {"CANONRY_ALLOW_NETWORKS": "127.0.0.0/8", "CANONRY_ALLOW_PORTS": "1-65535"}
VIDEO = "https://www.youtube.com/watch?v=dQw4w9WgXcQ"
SPELLINGS = (f"{VIDEO}&feature=share", "https://m.youtube.com/watch?v=dQw4w9WgXcQ&utm_source=x")
TOKEN = "secret-token"


LISTS: dict[str, list[dict[str, Any]]] = {
    "/api/bookmarks/": [
        {"url": f"https://example.com/{name}", "title": name, "tag_names": [name], "unread": False}
        for name in ("first", "second")
    ],
    "/api/bookmarks/archived/": [{"url": "https://example.com/first?utm_source=x", "tag_names": ["old"]}],
}


class Linkding(BaseHTTPRequestHandler):
    """Serves two bookmarks and an archived one, one on each page, as linkding's REST API does."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path.startswith("/moved"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/moved"))
            self.end_headers()
            return
        is_allowed = self.headers.get("Authorization") == f"Token {TOKEN}"
        rows = LISTS.get(parts.path)
        self.send_response(404 if rows is None else 200 if is_allowed else 401)
        self.end_headers()
        if rows is not None and is_allowed:
            offset = int(parse_qs(parts.query)["offset"][0])
            page: dict[str, Any] = {"count": len(rows), "results": rows[offset : offset + 1], "next": None}
            if offset + 1 < len(rows):
                page["next"] = f"http://elsewhere.example/?offset={offset + 1}"
            self.wfile.write(json.dumps(page).encode())

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


class Terminal:
    """Runs commands in a folder, with a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {**ALLOWED, "CANONRY_DATABASE_URL": f"sqlite:///{folder}/x.db"}

    def run(self, *arguments: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.variables, **variables}
        done = command.run("bookmarks", *arguments, cwd=self.folder, environment=environment)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    def run_for_json(self, *arguments: str, code: int = 0, **variables: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*arguments, code=code, **variables).stdout.splitlines()]


@pytest.fixture
def shell(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


@pytest.fixture
def linkding() -> Iterator[str]:
    with serve_http(Linkding) as port:
        yield f"http://127.0.0.1:{port}"


def test_a_page_is_saved_once_and_found_by_any_spelling(shell: Terminal) -> None:
    [saved] = shell.run_for_json("add", SPELLINGS[0], "--tag", "music", "--title", "Song")
    assert (saved["outcome"], saved["url"], saved["original_url"]) == ("created", VIDEO, SPELLINGS[0])
    [known] = shell.run_for_json("add", SPELLINGS[1], "-t", "eighties", "--title", "Other")
    assert (known["outcome"], known["id"]) == ("updated", saved["id"])
    assert (known["tags"], known["title"]) == (["music", "eighties"], "Song"), "tags are added, a title stays"
    assert shell.run_for_json("add", VIDEO)[0]["outcome"] == "no_change"
    [found] = shell.run_for_json("search", "https://youtu.be/dQw4w9WgXcQ?si=abc")
    assert found["id"] == saved["id"]
    assert [each["id"] for each in shell.run_for_json("list", "--tag", "eighties")] == [saved["id"]]
    assert shell.run_for_json("search", "nothing", "like", "that") == []


def test_a_page_that_is_saved_under_a_proven_alias_is_not_saved_again(shell: Terminal) -> None:
    url, alias = "https://example.com/page", "https://example.com/old"
    [saved] = shell.run_for_json("add", url, "--title", "Page")
    with Database(shell.variables["CANONRY_DATABASE_URL"]) as database:
        rows = [PageAlias(alias, url, Evidence.REDIRECT)]
        database.write_now(lambda connection: save_aliases(connection, rows, "2026-01-01"))
    [known] = shell.run_for_json("add", alias, "-t", "new", "--title", "Other")
    assert (known["outcome"], known["id"], known["url"]) == ("updated", saved["id"], url)
    assert (known["title"], known["tags"]) == ("Page", ["new"])
    assert shell.run_for_json("add", f"{alias}#part")[0]["outcome"] == "created"


def test_an_invalid_url_is_named_and_the_others_are_saved(shell: Terminal) -> None:
    done = shell.run("add", "javascript:alert(1)", "https://example.com/", code=1)
    assert [json.loads(line)["url"] for line in done.stdout.splitlines()] == ["https://example.com/"]
    assert "javascript:alert(1)" in done.stderr
    limited = shell.run_for_json("add", *(f"https://example.com/{number}" for number in range(3)))
    assert [each["id"] for each in shell.run_for_json("list", "--limit", "2")] == [limited[2]["id"], limited[1]["id"]]


def test_an_import_says_what_happened_to_each_row(shell: Terminal) -> None:
    shell.run("add", VIDEO, "--tag", "music")
    rows = f"url,tags\n{SPELLINGS[0]},music\n{SPELLINGS[1]},eighties\njavascript:1,x\nhttps://example.com/,x\n"
    (shell.folder / "x.csv").write_text(rows)
    found = shell.run_for_json("import", "x.csv", code=1)
    assert [(row["row"], row["outcome"]) for row in found] == [
        *((2, "known"), (3, "merged"), (4, "refused"), (5, "added")),
    ]  # fmt: skip
    assert [row["bookmark_url"] for row in found] == [VIDEO, VIDEO, None, "https://example.com/"]
    assert [bool(row["reason"]) for row in found] == [False, False, True, False]
    [video] = shell.run_for_json("search", "youtube")
    assert video["tags"] == ["music", "eighties"]
    assert {row["outcome"] for row in shell.run_for_json("import", "x.csv", code=1)} == {"known", "refused"}


def test_all_bookmarks_of_a_linkding_service_are_imported(shell: Terminal, linkding: str) -> None:
    found = shell.run_for_json("import", "--linkding", f"{linkding}/", CANONRY_LINKDING_TOKEN=TOKEN)
    assert [(row["outcome"], row["bookmark_url"]) for row in found] == [
        *(("added", "https://example.com/first"), ("added", "https://example.com/second")),
        ("merged", "https://example.com/first"),
    ]
    assert sorted(each["tags"] for each in shell.run_for_json("list")) == [["first", "old"], ["second"]]
    assert shell.run("import", "--linkding", linkding, code=2).stdout == "", "without a token"
    for address, token in ((linkding, "wrong"), (f"{linkding}/moved", TOKEN), (f"{linkding}/other", TOKEN)):
        done = shell.run("import", "--linkding", address, code=1, CANONRY_LINKDING_TOKEN=token)
        assert done.stdout == "" and address in done.stderr and token not in done.stderr


@pytest.mark.parametrize("name", ["x.html", "x.json", "x.csv"])
def test_an_export_can_be_imported_into_another_store(shell: Terminal, tmp_path: Path, name: str) -> None:
    shell.run("add", VIDEO, "--tag", "a", "--folder", "f/g", "--to-read", "--description", "two\nlines")
    shell.run("export", name)
    (tmp_path / "other").mkdir()
    other = Terminal(tmp_path / "other")
    assert [row["outcome"] for row in other.run_for_json("import", f"../{name}")] == ["added"]
    names = ("url", "title", "tags", "folder", "to_read", "description", "created_at")
    [before], [after] = shell.run_for_json("list"), other.run_for_json("list")
    assert {each: before[each] for each in names} == {each: after[each] for each in names}
    assert shell.run("export", "--format", "json").stdout.startswith("[")


def test_errors_are_one_line_that_says_what_to_do(shell: Terminal) -> None:
    assert shell.run("list", code=1).stderr.count("\n") == 1, "there is no store"
    shell.run("add", VIDEO)
    (shell.folder / "feeds.opml").write_text('<opml version="2.0"><body/></opml>')
    assert "canonry feeds" in shell.run("import", "feeds.opml", code=1).stderr
    done = shell.run("list", "--user", "nobody", code=1)
    assert "nobody" in done.stderr and done.stderr.count("\n") == 1
    shown = terminal.run(
        [sys.executable, "-m", "canonry", "bookmarks", "list"], cwd=shell.folder, environment=shell.variables
    )
    assert VIDEO in shown
