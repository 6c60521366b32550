"""robots.txt: what it allows, how fast, and what happens when it cannot be read."""

from __future__ import annotations

import time

import pytest

import canonry
from canonry.errors import FailureKind
from canonry.net.origin import Origin
from canonry.net.robots import (
    MAX_DELAY_SECONDS,
    RobotsVerdict,
    fetch_robots,
    get_robots_token,
    read_robots,
)
from loopback import in_a_loop

TEXT = """
User-agent: other
Disallow: /

User-agent: canonry
Disallow: /private
Allow: /private/open$
Crawl-delay: 2
Sitemap: https://example.com/map.xml
"""
PAGE = "https://example.com/"


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [("canonry/0.1.0", "canonry"), ("my-bot (+https://example.com/)", "my-bot"), ("", "*")],
)
def test_the_token_is_the_product_name_of_the_user_agent(user_agent: str, token: str) -> None:
    assert get_robots_token(user_agent) == token


def test_the_group_of_the_crawler_decides() -> None:
    robots = read_robots(TEXT, "canonry")
    allowed = [robots.allows(f"https://example.com{path}") for path in ("/", "/private", "/private/open", "/private/x")]
    assert allowed == [True, False, True, False]
    assert (robots.delay, robots.sitemaps) == (2.0, ("https://example.com/map.xml",))
    assert read_robots(TEXT, "other").judge(PAGE) is RobotsVerdict.DISALLOWED
    assert read_robots(TEXT, "third").judge("https://example.com/private") is RobotsVerdict.ALLOWED


@pytest.mark.parametrize("name", ["canonry", "Canonry/1.0", "CANONRY/2 # a comment"])
def test_a_group_names_the_crawler_with_or_without_a_version(name: str) -> None:
    text = f"User-agent: {name}\nDisallow: /private\n\nUser-agent: *\nDisallow: /\n"
    assert read_robots(text, "canonry").allows(PAGE)
    assert not read_robots(text, "canonry").allows(f"{PAGE}private")
    assert not read_robots(text, "canon").allows(PAGE)


@pytest.mark.parametrize(
    ("delay", "seconds"), [("99999999", MAX_DELAY_SECONDS), ("1e9", MAX_DELAY_SECONDS), ("inf", 0.0), ("-1", 0.0)]
)
def test_a_crawl_delay_is_limited(delay: str, seconds: float) -> None:
    assert read_robots(f"User-agent: *\nCrawl-delay: {delay}", "canonry").delay == seconds


def test_a_request_rate_is_a_delay() -> None:
    assert read_robots("User-agent: *\nRequest-rate: 1/10s", "canonry").delay == 10


def test_hostile_patterns_are_matched_in_bounded_time() -> None:
    text = "\0\ufffd" * 1000 + "\nDisallow: /\n" + "User-agent: *\nDisallow: /" + "*a" * 5000
    started = time.process_time()
    assert read_robots(text, "c").allows("https://example.com/" + "a" * 5000 + "b") is False
    assert time.process_time() - started < 60  # seconds of CPU


@pytest.mark.parametrize(
    ("answer", "verdict", "kind"),
    [
        (200, RobotsVerdict.DISALLOWED, None),
        (404, RobotsVerdict.ALLOWED, None),
        (403, RobotsVerdict.ALLOWED, None),
        (429, RobotsVerdict.UNREACHABLE, FailureKind.UNAVAILABLE),
        (503, RobotsVerdict.UNREACHABLE, FailureKind.UNAVAILABLE),
        (canonry.FetchFailed(PAGE, kind=FailureKind.TIMEOUT), RobotsVerdict.UNREACHABLE, FailureKind.TIMEOUT),
        (canonry.UnsafeUrl(PAGE), RobotsVerdict.UNREACHABLE, FailureKind.REFUSED),
        (ConnectionResetError(), RobotsVerdict.UNREACHABLE, FailureKind.OTHER),
    ],
)
@in_a_loop
async def test_without_a_file_all_is_allowed_and_without_an_answer_nothing(
    answer: int | Exception, verdict: RobotsVerdict, kind: FailureKind | None
) -> None:
    async def fetch(url: str, **_: object) -> canonry.Response:
        assert url == "https://example.com/robots.txt"
        if isinstance(answer, Exception):
            raise answer
        return canonry.Response(answer, url, {}, b"User-agent: *\nDisallow: /")

    robots = await fetch_robots("https://example.com", fetch, "canonry", origin=Origin.PERSON)
    assert (robots.judge(PAGE), robots.failure and robots.failure.kind) == (verdict, kind)
