"""`canonry crawl`: standard output, files, the terminal, and exit codes."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest

import command
import terminal
from crawl_server import SETTINGS, Site, serving, tree

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

COUNT = 13
CANONRY = [sys.executable, "-m", "canonry"]


@pytest.fixture
def site() -> Generator[Site]:
    with serving(
        {**tree(COUNT), "/": "<title>Home</title><a href=/0>zero</a>", "/away": "->http://127.0.0.3/x"}
    ) as made:
        yield made


class User:
    """Runs commands in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {**SETTINGS, "CANONRY_DATABASE_URL": f"sqlite:///{folder / 'canonry.db'}"}

    def crawl(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, **self.variables}
        done = command.run("crawl", "--engine", "http", *arguments, cwd=self.folder, environment=variables)
        assert done.returncode == code, done.stderr
        return done

    def crawl_records(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.crawl(*arguments, code=code).stdout.splitlines()]


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


@pytest.mark.parametrize("option", ["--wait=load", "--scroll", "--routes", "--load-images"])
def test_options_that_only_chrome_follows_are_wrong_usage(user: User, site: Site, option: str) -> None:
    assert option.partition("=")[0] in user.crawl(site.url, option, code=2).stderr
    assert user.crawl(site.url, option, "--workers", code=2).stdout == ""


def test_pages_are_printed_as_json_lines(user: User, site: Site) -> None:
    records = user.crawl_records(site.url)
    assert {record["url"] for record in records} == {f"{site.url}/", *(f"{site.url}/{n}" for n in range(COUNT))}
    home = next(record for record in records if record["depth"] == 0)
    assert home.pop("fetched_at").endswith("Z")
    assert (len(home.pop("text_hash")), len(home.pop("simhash")), home.pop("skip_reason")) == (64, 16, None)
    assert home.pop("words") == 1
    assert home == {
        "url": f"{site.url}/",
        "requested_url": f"{site.url}/",
        "final_url": f"{site.url}/",
        "status": 200,
        "title": "Home",
        "depth": 0,
        "engine": "http",
        "links": [
            {
                "href": f"{site.url}/0",
                "url": f"{site.url}/0",
                "text": "zero",
                "verdict": "crawl",
                "reason": "on 127.0.0.2",
            }
        ],
        "external": [],
        "error": "",
        "outcome": "read",
        "content_type": "text/html; charset=utf-8",
        "size": len(site.pages["/"]),
        "robots_directives": [],
        "hreflangs": [],
        "canonical_url": "",
        "is_still_changing": False,
        "referrer": "",
        "change": None,
        "repeats_url": "",
        "hops": [],
    }
    zero = next(record for record in records if record["title"] == "Page 0")
    assert [link["url"] for link in zero["external"]] == ["https://other.example.org/"]
    assert [link["reason"] for link in zero["links"] if link["verdict"] == "skip"] == [
        "links to the page itself",
        "links to the page itself",
        "a .pdf file is not a page",
    ]
    assert max(site.asked.values()) == 1


def test_the_summary_is_on_standard_error(user: User, site: Site) -> None:
    shown = user.crawl(site.url).stderr
    assert re.search(r"^pages +14 +[\d.]+ pages/s$", shown, re.MULTILINE)
    assert re.search(r"^link skipped +13 +a .pdf file is not a page$", shown, re.MULTILINE)
    assert re.search(r"^external +1 +URLs of other sites$", shown, re.MULTILINE)
    assert re.search(r"^duplicates avoided +\d+ +links to pages already known$", shown, re.MULTILINE)


@pytest.mark.slow
def test_sitemaps_that_cannot_be_read_are_reported(user: User, site: Site) -> None:
    shown = user.crawl(f"{site.url}/0", "--engine", "http", "--max-pages", "1", "--sitemaps").stderr
    assert re.search(rf"{re.escape(site.url)}/sitemap.xml +the server answered 404", shown)


def test_pages_are_written_in_every_format(user: User, site: Site) -> None:
    done = user.crawl(site.url, "--out", "site.jsonl")
    assert done.stdout == ""
    pages = [json.loads(line) for line in (user.folder / "site.jsonl").read_text().splitlines()]
    assert len(pages) == COUNT + 1
    asked = site.asked.total()
    for name in ("site.csv", "site.parquet", "site.graphml", "site.dot"):
        user.crawl(site.url, "--resume", "--out", name)
    assert site.asked.total() == asked, "all pages come from the store"
    rows = list(csv.DictReader((user.folder / "site.csv").read_text().splitlines()))
    assert [row["url"] for row in rows] == [page["url"] for page in pages]
    assert json.loads(rows[0]["links"]) == pages[0]["links"]
    arrow = pytest.importorskip("pyarrow.parquet", reason="pip install pyarrow")
    columns = arrow.read_table(user.folder / "site.parquet").to_pylist()
    for page in columns:  # a column of every link, which records leave out if it is empty
        assert {link.pop("source") for link in page["links"] + page["external"]} <= {None}
    assert columns == pages
    space = {"g": "http://graphml.graphdrawing.org/xmlns"}
    graph = ET.parse(user.folder / "site.graphml")
    assert len(graph.findall(".//g:node", space)) == COUNT + 2, "with the other site"
    edges = {(edge.get("source"), edge.get("target")) for edge in graph.findall(".//g:edge", space)}
    assert len(edges) == len(graph.findall(".//g:edge", space)) > COUNT
    dot = (user.folder / "site.dot").read_text()
    assert dot.startswith("digraph site {\n") and dot.count(" -> ") == len(edges)
    assert sorted(file.name for file in user.folder.iterdir() if file.name.startswith(".")) == []


def test_limits_of_pages_and_depth(user: User, site: Site) -> None:
    assert len(user.crawl_records(site.url, "--max-pages", "5")) == 5
    assert {record["depth"] for record in user.crawl_records(site.url, "--depth", "1")} == {0, 1}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--out", "site.txt"],
        ["--out", "no/such/site.csv"],
        ["--depth", "-1"],
        ["--depth", "9" * 30],
        ["--engine", "lynx"],
    ],
    ids=" ".join,
)
def test_wrong_usage_requests_nothing(user: User, site: Site, arguments: list[str]) -> None:
    user.crawl(site.url, *arguments, code=2)
    assert not site.asked


def test_a_failed_start_page_gives_exit_code_one(user: User, site: Site) -> None:
    [record] = user.crawl_records(f"{site.url}/nothing", code=1)
    assert (record["status"], record["error"]) == (404, "the server answered 404")
    [record] = user.crawl_records("http://127.0.0.2:1/", "--no-robots", code=1)
    assert "no connection" in record["error"]
    assert "not a usable URL" in user.crawl("nope:", code=1).stderr
    done = user.crawl(f"{site.url}/nothing", "--out", "site.jsonl", code=1)
    assert done.stderr.count("the server answered 404") == 1, "not only in the file"


def test_an_empty_login_command_is_an_error_in_one_line(user: User, site: Site) -> None:
    assert user.crawl(site.url, "--login", " ", code=1).stderr.count("\n") == 1
    assert not site.asked


def test_a_start_page_on_another_host_prints_the_command_for_it(user: User, site: Site) -> None:
    user.variables["CANONRY_ALLOW_NETWORKS"] = "127.0.0.0/8"
    done = user.crawl(f"{site.url}/away", "--depth", "1", code=1)
    assert done.stderr.splitlines() == [
        f"canonry: {site.url}/away redirects to another host, 127.0.0.3. To crawl that host:",
        "  canonry crawl --engine http http://127.0.0.3/x --depth 1",
    ]


def test_an_interrupted_crawl_is_resumed(user: User, site: Site) -> None:
    command = [*CANONRY, "crawl", site.url, "--engine", "http", "--delay", "0.2", "--out", "site.jsonl"]
    process = subprocess.Popen(
        command, cwd=user.folder, env={**os.environ, **user.variables}, stderr=subprocess.PIPE, text=True
    )
    while site.asked.total() < 4:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert re.fullmatch(
        rf"canonry: stopped after (1 page|\d+ pages)\. To continue:\n  canonry crawl {site.url} --engine http --delay 0.2 --out site.jsonl --resume\n",
        errors,
    )
    assert not (user.folder / "site.jsonl").exists()
    user.crawl(site.url, "--delay", "0", "--out", "site.jsonl", "--resume")
    urls = [json.loads(line)["url"] for line in (user.folder / "site.jsonl").read_text().splitlines()]
    assert len(urls) == len(set(urls)) == COUNT + 1


def test_a_terminal_shows_a_bar_and_a_table(user: User, site: Site) -> None:
    command = [*CANONRY, "crawl", site.url, "--engine", "http", "--delay", "0.15"]
    shown = terminal.run(command, cwd=user.folder, environment=user.variables)
    assert re.search(r"\[#*\.*\] \d+/\d+ \d+ queued, \d+ open, 0 failed, [\d.]+ pages/s, 127.0.0.2", shown)
    assert re.search(rf"^200 +Page 3 +{site.url}/3$", shown, re.MULTILINE)


def test_a_crawl_whose_site_does_not_answer_pauses_with_exit_code_1(user: User) -> None:
    with serving(tree(COUNT)) as site:
        user.crawl(f"{site.url}/0", "--max-pages", "3")
    again = user.crawl(f"{site.url}/0", "--resume", "--max-pages", "50", "--patience", "0", code=1)
    assert "--resume" in again.stderr and "paused" in again.stderr
    with serving(tree(COUNT), site.server_address[1]):
        assert len(user.crawl_records(f"{site.url}/0", "--resume", "--patience", "300")) == COUNT


def test_limits_are_zero_raised_and_removed(user: User, site: Site) -> None:
    def count(*arguments: str) -> int:
        return len(user.crawl_records(f"{site.url}/0", *arguments))

    assert count("--depth", "0", "--delay", "0.01") == 1
    assert count("--resume", "--depth", "1", "--delay", "0") == 4
    shown = command.run("crawls", "show", "1", "--json", cwd=user.folder, environment={**os.environ, **user.variables})
    assert json.loads(shown.stdout)["options"]["delay"] == 0
    assert count("--resume", "--depth", "none", "--max-pages", "5") == 5
    assert count("--resume", "--max-pages", "none") == COUNT
    user.crawl(site.url, "--depth", "all", code=2)
    user.crawl(site.url, "--max-pages", "0", code=2)


def test_outputs_use_one_vocabulary_and_a_terminal_shows_why_pages_were_not_read(user: User) -> None:
    robots = "User-agent: *\nDisallow: /private"
    start = "".join(f"<a href={path}>x</a>" for path in ("/a", "/gone", "/broken", "/private", "/moved"))
    pages = {"/robots.txt": robots, "/": start, "/a": "", "/broken": "", "/private": "", "/moved": "->/a"}
    with serving(pages) as site:
        site.broken = {"/broken"}
        shown = terminal.run(
            [*CANONRY, "crawl", site.url, "--engine", "http"], cwd=user.folder, environment=user.variables
        )
        assert re.search(rf"^missing +{site.url}/gone +the server answered 404", shown, re.MULTILINE)
        assert re.search(rf"^failed +{site.url}/broken +could not fetch .*closed", shown, re.MULTILINE)
        records = {
            record["url"].removeprefix(site.url): record["outcome"] for record in user.crawl_records(site.url, code=1)
        }
        assert records == {"/": "read", "/a": "read", "/gone": "missing", "/broken": "failed"}
    variables = {**os.environ, **user.variables}
    details = command.run("crawls", "show", "2", "--json", cwd=user.folder, environment=variables)
    wanted = {"read": 2, "missing": 1, "failed": 1, "refused": 1, "skipped": 1}
    assert json.loads(details.stdout)["outcomes"] == wanted


def test_a_refused_address_names_the_setting_and_not_robots_txt(user: User, site: Site) -> None:
    del user.variables["CANONRY_ALLOW_NETWORKS"]
    [record] = user.crawl_records(site.url, code=1)
    assert record["outcome"] == "refused"
    assert "CANONRY_ALLOW_NETWORKS" in record["error"] and "robots" not in record["error"]


def test_a_policy_file_is_stored_with_the_crawl(user: User) -> None:
    links = "".join(f"<a href=/page?sid={number}>x</a>" for number in range(5))
    pages = {"/": links} | {f"/page?sid={number}": "" for number in range(5)}
    file = user.folder / "mine.toml"
    file.write_text('name = "mine"\nversion = 1\nbase = "crawl@1"\nwith_params = ["sid"]\n')
    with serving(pages) as site:
        assert len(user.crawl_records(site.url, "--policy", "mine.toml")) == 2
        file.unlink()
        assert len(user.crawl_records(site.url, "--resume")) == 2
        assert len(user.crawl_records(site.url)) == 6
    user.crawl(site.url, "--policy", "unknown", code=1)
