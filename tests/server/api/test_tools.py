"""Answers about URLs over HTTP: normalize, check, canonicalize, policies, rules."""

from __future__ import annotations

import asyncio
import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from canonry import canonicalize
from canonry.cli import render
from canonry.cli.group import canonry as command
from canonry.server.service import ServiceOptions
from feed_texts import gone, ok, rss
from loopback import CONNECTS, LoopbackWeb, in_a_loop
from service import Running, serving

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

QUIET = ServiceOptions(runs_jobs=False)
FEED = "https://www.feeds.example/feed/?utm_source=mail"
PAGES = {
    FEED: ok(rss()),
    "https://feeds.example/feed": ok(rss()),
    "https://page.example/": ok("<html>nothing here</html>"),
    "https://gone.example/feed": gone(410),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with serving(f"sqlite:///{tmp_path_factory.mktemp('service') / 'x.db'}", QUIET) as running:
        yield running


def test_normalize_returns_every_step_and_stores_nothing(service: Running) -> None:
    answer = service.ask("POST", "/api/normalize", {"url": " youtu.be/dQw4w9WgXcQ?si=abc "})
    told = answer.json()
    assert answer.status == 200
    assert told["url"] == "https://www.youtube.com/watch?v=dQw4w9WgXcQ"
    assert told["original_url"] == "youtu.be/dQw4w9WgXcQ?si=abc"
    assert told["policy"] == "bookmark@2"
    assert told["steps"][-1]["after"] == told["url"]
    assert all(step["rule"] and step["reason"] and step["before"] != step["after"] for step in told["steps"])
    assert told["hash"] == hashlib.sha256(told["url"].encode()).hexdigest()
    assert told["score"]["total"] == pytest.approx(sum(v for k, v in told["score"].items() if k != "total"))
    assert service.get("/api/bookmarks").json() == []


def test_normalize_accepts_every_shipped_policy(service: Running) -> None:
    url = "http://www.example.com/a/?b=2&a=1#top"
    told = service.ask("POST", "/api/normalize", {"url": url, "policy": "feed-aggressive"}).json()
    assert (told["url"], told["original_url"]) == ("http://example.com/a?a=1&b=2", url)
    assert told["policy"] == "feed-aggressive@2"
    wrong = service.ask("POST", "/api/normalize", {"url": url, "policy": "../etc/passwd.toml"})
    assert (wrong.status, "no policy" in wrong.json()["detail"]) == (400, True)


def test_normalize_with_exact_url_has_no_steps(service: Running) -> None:
    url = "https://example.com/?utm_source=1"
    told = service.ask("POST", "/api/normalize", {"url": url, "exact_url": True}).json()
    assert (told["url"], told["steps"], told["original_url"]) == (url, [], None)


@pytest.mark.parametrize("url", ["javascript:alert(1)", "", "http://", "https://a.com:99999/"], ids=range(4))
@pytest.mark.parametrize("path", ["normalize", "check", "canonicalize", "resolve"])
def test_an_invalid_url_is_reported_at_its_field(service: Running, path: str, url: str) -> None:
    answer = service.ask("POST", f"/api/{path}", {"url": url})
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert [each["field"] for each in answer.json()["errors"]] == ["url"]


def test_a_saved_url_is_found_under_all_its_spellings(service: Running) -> None:
    kept = service.put("https://example.com/kept?b=1").json()
    try:
        for spelling in ("https://example.com/kept?b=1&utm_source=x", "example.com/kept?b=1"):
            answer = service.ask("POST", "/api/check", {"url": spelling}).json()
            assert (answer["url"], answer["bookmark"]["id"]) == ("https://example.com/kept?b=1", kept["id"])
        exact = service.get("/api/check?url=https://example.com/kept?b=1%26utm_source=x&exact_url=true").json()
        assert (exact["url"], exact["bookmark"]) == ("https://example.com/kept?b=1&utm_source=x", None)
        assert service.get("/api/check?url=https://example.com/other").json()["bookmark"] is None
    finally:
        service.ask("DELETE", f"/api/bookmarks/{kept['id']}")


def test_normalize_and_check_send_no_requests(service: Running) -> None:
    before = len(CONNECTS)
    told = service.ask("POST", "/api/normalize", {"url": "https://bit.ly/abc"}).json()
    service.get("/api/check?url=https://bit.ly/abc")
    assert told["is_short"]
    assert set(CONNECTS[before:]) <= {"127.0.0.1"}  # the question itself


@in_a_loop
async def test_a_feed_is_canonicalized_as_the_command_does(tmp_path: Path) -> None:
    async with LoopbackWeb(PAGES) as web:
        with serving(f"sqlite:///{tmp_path / 'x.db'}", QUIET, client=web.client) as service:
            answer = await asyncio.to_thread(service.ask, "POST", "/api/canonicalize", {"url": FEED})
        async with web.client() as client:
            wanted: dict[str, Any] = json.loads(render.format_json(await canonicalize(FEED, fetch=client.fetch)))
    assert wanted.pop("data") is None
    found = answer.json()
    for each in (*found["candidates"], *wanted["candidates"]):
        each.pop("milliseconds")
    assert found == wanted
    assert found["url"] == "https://feeds.example/feed"


@in_a_loop
async def test_a_problem_without_a_feed_lists_the_urls_tested(tmp_path: Path) -> None:
    async with LoopbackWeb(PAGES) as web:
        with serving(f"sqlite:///{tmp_path / 'x.db'}", QUIET, client=web.client) as service:
            ask = partial(service.ask, "POST", "/api/canonicalize")
            page = await asyncio.to_thread(ask, {"url": "https://page.example/"})
            lost = await asyncio.to_thread(ask, {"url": "https://me:secret@gone.example/feed"})
            unsafe = await asyncio.to_thread(ask, {"url": "http://127.0.0.3/"})
    assert (page.status, lost.status, unsafe.status) == (422, 424, 400)
    assert [answer.json()["candidates"][0]["verdict"] for answer in (page, lost)] == ["not_a_feed", "failed"]
    for answer in (page, lost):
        assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in lost.text


def test_policies_are_the_same_as_in_the_command(service: Running) -> None:
    said = CliRunner().invoke(command, ["policies", "--json"]).stdout.splitlines()
    wanted = [{k: v for k, v in json.loads(line).items() if k != "overrides"} for line in said]
    assert service.get("/api/policies").json() == wanted
    for each in wanted:
        assert service.get(f"/api/policies/{each['id']}").json() == each
    assert service.get("/api/policies/bookmark").json()["id"] == "bookmark@2"
    assert service.get("/api/policies/nothing").status == 404


def test_rules_are_the_same_as_in_the_command(service: Running) -> None:
    said = [json.loads(line) for line in CliRunner().invoke(command, ["rules", "--json"]).stdout.splitlines()]
    found = service.get("/api/rules").json()
    assert [each["rule"] for each in found["rules"]] == [each["rule"] for each in said if each["kind"] == "rule"]
    assert [each["site"] for each in found["sites"]] == [each["site"] for each in said if each["kind"] == "site"]
    assert len(found["params"]) == sum(each["kind"] == "param" for each in said)
    assert {each["host"] for each in found["params"]} >= {None, "open.spotify.com"}
