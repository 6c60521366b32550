"""`canonry crawls`: list, show, export, stop, remove."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import command
import terminal
from canonry.store.database import Database
from crawl_server import SETTINGS, Site, serving, tree

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

CANONRY = [sys.executable, "-m", "canonry"]


@pytest.fixture(scope="module")
def site() -> Generator[Site]:
    with serving(tree(13)) as made:
        yield made


class User:
    """Runs commands in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {**os.environ, **SETTINGS, "CANONRY_DATABASE_URL": f"sqlite:///{folder / 'canonry.db'}"}

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = command.run(*words, cwd=self.folder, environment=self.variables)
        assert done.returncode == code, done.stderr
        return done

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        return subprocess.Popen([*CANONRY, *words], cwd=self.folder, env=self.variables, text=True, **pipes)  # type: ignore[call-overload, no-any-return]


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


@pytest.mark.slow
def test_crawls_are_listed_shown_exported_and_removed(user: User, site: Site) -> None:
    for number in ("3", "5"):
        user.run("crawl", f"{site.url}/0", "--engine", "http", "--max-pages", number)
    listed = [json.loads(line) for line in user.run("crawls", "list").stdout.splitlines()]
    assert [(each["id"], each["state"], each["pages"]["done"]) for each in listed] == [(2, "done", 5), (1, "done", 3)]
    assert len(user.run("crawls", "list", "--limit", "1").stdout.splitlines()) == 1
    shown = json.loads(user.run("crawls", "show", "2").stdout)
    assert {name: shown[name] for name in listed[0]} == listed[0]
    assert (shown["externals"], shown["links_skipped"]) == (
        1,
        {"a .pdf file is not a page": 5, "links to the page itself": 2},
    )
    user.run("crawls", "export", "1", "old.jsonl")
    assert len((user.folder / "old.jsonl").read_text().splitlines()) == 3
    user.run("crawls", "export", "2", "links.dot")
    assert (user.folder / "links.dot").read_text().startswith("digraph")
    assert "There is no crawl with id 9." in user.run("crawls", "remove", "1", "9", code=1).stderr
    assert len(user.run("crawls", "list").stdout.splitlines()) == 2, "an unknown id removes nothing"
    user.run("crawls", "remove", "1", "2")
    assert user.run("crawls", "list").stdout == ""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["show", "1"], 1, "canonry: There is no crawl with id 1. It may have been removed.\n"),
        (["stop", "1"], 1, "canonry: There is no crawl with id 1. It may have been removed.\n"),
        (["export", "1", "x.jsonl"], 1, "canonry: There is no crawl with id 1. It may have been removed.\n"),
        (["export", "1", "x.exe"], 2, "must end in"),
        (["remove"], 2, "Missing argument"),
        (["remove", "x"], 2, "not a valid integer"),
        (["show", "0"], 2, "not in the range"),
    ],
)
def test_an_error_is_one_line(user: User, words: list[str], code: int, message: str) -> None:
    store = f"sqlite:///{user.folder / 'made.db'}"
    user.variables["CANONRY_DATABASE_URL"] = store
    Database(store).close()
    failed = user.run("crawls", *words, code=code)
    assert message in failed.stderr and "Traceback" not in failed.stderr
    assert not list(user.folder.glob("*x.jsonl*"))


def test_listing_does_not_make_a_store(user: User) -> None:
    assert user.run("crawls", "list", code=1).stderr.startswith("canonry: ")
    assert not (user.folder / "canonry.db").exists()


def test_a_terminal_shows_tables(user: User, site: Site) -> None:
    user.run("crawl", f"{site.url}/0", "--engine", "http", "--max-pages", "4")
    shown = terminal.run([*CANONRY, "crawls", "list"], cwd=user.folder, environment=user.variables)
    assert [line.split()[:4] for line in shown.splitlines()] == [
        ["id", "state", "pages", "queue"],
        ["1", "done", "4", "9"],
    ]
    shown = terminal.run([*CANONRY, "crawls", "show", "1"], cwd=user.folder, environment=user.variables)
    assert "not fetched         9      left in the queue" in shown and f"{site.url}/0  done" in shown


@pytest.mark.slow
def test_a_crawl_is_stopped_and_removed_from_another_terminal(user: User, site: Site) -> None:
    for word, message in (
        ("stop", "the crawl was stopped. To continue, add --resume."),
        ("remove", "There is no crawl with id 1."),
    ):
        before = site.asked.total()
        crawling = user.start("crawl", f"{site.url}/0", "--engine", "http", "--delay", "1", "--resume")
        try:
            while site.asked.total() < before + 3:
                assert crawling.poll() is None
                time.sleep(0.02)
            user.run("crawls", word, "1")
            _, errors = crawling.communicate(timeout=120)
        finally:
            crawling.kill()
            crawling.communicate()
        assert (crawling.returncode, "Traceback" in errors, message in errors) == (1, False, True), errors
        assert site.asked.total() < before + 13
    assert user.run("crawls", "list").stdout == ""
