"""`canonry crawl --again`, `--warc`, `--ignore-nofollow` and `--workers`, and URLs that robots.txt refuses."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import command
import terminal
from crawl_server import SETTINGS, Site, serving

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

CANONRY = [sys.executable, "-m", "canonry"]
PAGES = {
    "/robots.txt": "User-agent: *\nDisallow: /private\n",
    "/": "<title>Home</title><a href=/a>a</a><a href=/b>b</a><a href=/private/1>p</a><a href=/n rel=nofollow>n</a>",
    "/a": "<p>a</p>",
    "/b": "<p>b</p><a href=/private/2>p</a>",
    "/n": "<p>n</p>",
}


@pytest.fixture
def site() -> Generator[Site]:
    with serving(dict(PAGES)) as made:
        yield made


class User:
    """Runs commands in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {**SETTINGS, "CANONRY_DATABASE_URL": f"sqlite:///{folder / 'canonry.db'}"}

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = command.run(*arguments, cwd=self.folder, environment={**os.environ, **self.variables})
        assert done.returncode == code, done.stderr
        return done

    def crawl(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run("crawl", "--engine", "http", *arguments, code=code)

    def read_records(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def test_a_crawl_is_repeated_and_compared(user: User, site: Site) -> None:
    first = user.crawl(site.url, "--again", "--out", "first.jsonl")
    assert "no finished crawl" in first.stderr
    site.pages |= {"/a": "<p>changed</p>", "/c": "<p>c</p>"}
    site.pages["/"] = site.pages["/"].replace("<a href=/b>b</a>", "<a href=/c>c</a>")
    del site.pages["/b"]
    second = user.crawl(site.url, "--again", "--out", "second.jsonl")
    changes = {record["url"].removeprefix(site.url): record["change"] for record in user.read_records("second.jsonl")}
    assert changes == {"/": "changed", "/a": "changed", "/c": "new", "/b": "gone"}
    for line in ("new                 1", "changed             2", "gone                1"):
        assert line in second.stderr
    shown = json.loads(user.run("crawls", "show", "2", "--json").stdout)
    assert (shown["previous_id"], shown["changes"]) == (1, {"new": 1, "changed": 2, "gone": 1})
    screen = terminal.run([*CANONRY, "crawls", "show", "2"], cwd=user.folder, environment=user.variables)
    assert f"gone     {site.url}/b" in screen
    assert user.crawl(site.url, "--again", "--resume", code=2).stdout == ""
    assert user.crawl(site.url, "--again", "--exclude", "/a", code=1).stdout == "", "the same pages must be left out"


def test_an_interrupted_repetition_prints_the_command_that_continues_it(user: User, site: Site) -> None:
    user.crawl(site.url)
    site.asked.clear()
    command = [*CANONRY, "crawl", site.url, "--engine", "http", "--again", "--delay", "60"]
    process = subprocess.Popen(
        command, cwd=user.folder, env={**os.environ, **user.variables}, stderr=subprocess.PIPE, text=True
    )
    while not site.asked["/"]:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert errors.splitlines()[-1] == f"  canonry crawl {site.url} --engine http --delay 60 --resume"
    user.crawl(site.url, "--delay", "0", "--resume", "--out", "site.jsonl")
    assert {record["change"] for record in user.read_records("site.jsonl")} == {"same"}


@pytest.mark.parametrize("option", ["--delay", "--patience"])
@pytest.mark.parametrize("seconds", ["nan", "inf"])
def test_seconds_are_finite_numbers(user: User, site: Site, option: str, seconds: str) -> None:
    assert f"'{seconds}' is not a number of seconds" in user.crawl(site.url, option, seconds, code=2).stderr


def test_records_say_where_when_and_what_was_read(user: User, site: Site) -> None:
    user.crawl(site.url, "--out", "site.jsonl")
    record = next(each for each in user.read_records("site.jsonl") if each["url"].endswith("/a"))
    assert record["referrer"] == f"{site.url}/"
    assert record["content_type"] == "text/html; charset=utf-8" and record["size"] == len(PAGES["/a"])
    assert record["fetched_at"].endswith("Z") and record["change"] is None
    assert (record["robots_directives"], record["hreflangs"], record["canonical_url"]) == ([], [], "")


def test_urls_that_robots_txt_refuses_are_listed(user: User, site: Site) -> None:
    user.crawl(site.url, "--out", "site.jsonl")
    refused = [f"{site.url}/private/1", f"{site.url}/private/2"]
    assert not {record["url"] for record in user.read_records("site.jsonl")} & set(refused)
    shown = json.loads(user.run("crawls", "show", "1", "--json").stdout)
    assert shown["refused"] == [{"url": url, "reason": "disallowed by robots.txt"} for url in refused]
    for name in ("refused.jsonl", "refused.csv"):
        user.run("crawls", "export", "1", name, "--refused")
    records = user.read_records("refused.jsonl")
    assert [(record["url"], record["outcome"]) for record in records] == [(url, "refused") for url in refused]
    assert records[1]["referrer"] == f"{site.url}/b"
    assert (user.folder / "refused.csv").read_text().count("/private/") >= 2
    screen = terminal.run([*CANONRY, "crawls", "show", "1"], cwd=user.folder, environment=user.variables)
    assert all(f"refused  {url}" in screen for url in refused)
    assert not any("private" in path for path in site.asked)


def test_nofollow_is_respected_unless_it_is_ignored(user: User, site: Site) -> None:
    site.pages |= {"/b": "<meta name=robots content=nofollow><a href=/only-here>x</a>", "/only-here": "<p>x"}
    user.crawl(site.url, "--out", "site.jsonl")
    records = {record["url"].removeprefix(site.url): record for record in user.read_records("site.jsonl")}
    assert set(records) == {"/", "/a", "/b"}
    [link] = [link for link in records["/"]["links"] if link["href"].endswith("/n")]
    assert link["verdict"] == "skip" and "nofollow" in link["reason"]
    assert [link["verdict"] for link in records["/b"]["links"]] == ["skip"]
    user.crawl(site.url, "--ignore-nofollow", "--out", "all.jsonl")
    found = {record["url"].removeprefix(site.url) for record in user.read_records("all.jsonl")}
    assert found == {"/", "/a", "/b", "/n", "/only-here"}


@pytest.mark.parametrize("option", ["--warc", "--out"])
def test_a_warc_file_is_written(user: User, site: Site, option: str) -> None:
    user.crawl(site.url, option, "site.warc.gz")
    content = gzip.decompress((user.folder / "site.warc.gz").read_bytes())
    assert content.count(b"WARC-Type: response") == content.count(b"WARC-Type: request") == 4
    assert user.crawl(site.url, option, "site.warc.gz", code=2).stdout == "", "it is not replaced"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--warc", "site.warc"],
        ["--warc", "missing/site.warc.gz"],
        ["--warc", "a.warc.gz", "--out", "b.warc.gz"],
        ["--warc", "a.warc.gz", "--workers"],
    ],
)
def test_wrong_usage_requests_nothing(user: User, site: Site, arguments: list[str]) -> None:
    user.crawl(site.url, *arguments, code=2)
    assert not site.asked


def test_a_crawl_without_a_worker_says_so(user: User, site: Site) -> None:
    variables = {**os.environ, **user.variables}
    words = [*CANONRY, "crawl", "--engine", "http", site.url, "--workers"]
    with subprocess.Popen(words, cwd=user.folder, env=variables, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert "no worker has opened a page" in line and not site.asked
