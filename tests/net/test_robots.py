"""robots.txt: what it allows, how fast, and what happens when it cannot be read."""

from __future__ import annotations

import time

import pytest

import canonry
from canonry.errors import FailureKind
from canonry.net.origin import Origin
from canonry.net.robots import (
    MAX_BYTES,
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


@pytest.mark.parametrize(
    "name",
    ["canonry", "Canonry/1.0", "CANONRY/2 # a comment", "canonry (+https://example.org/)", "Canonry bot", "canonry*"],
)
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


@pytest.mark.parametrize("line_end", ["\n", "\r", "\r\n"])
@in_a_loop
async def test_the_line_that_the_size_limit_cuts_is_not_read(line_end: str) -> None:
    begin = f"User-agent: *{line_end}Disallow: /a{line_end}#"
    comment = "x" * (MAX_BYTES - len(f"{begin}{line_end}Disallow: /"))
    body = f"{begin}{comment}{line_end}Disallow: /private".encode()

    async def fetch(url: str, **_: object) -> canonry.Response:
        return canonry.Response(200, url, {}, body)

    assert body[:MAX_BYTES].endswith(b"Disallow: /")
    robots = await fetch_robots("https://example.com", fetch, "canonry", origin=Origin.PERSON)
    assert (robots.allows(PAGE), robots.allows(f"{PAGE}a")) == (True, False)


# why                        robots.txt                                                        path        is allowed
SYNTAX = [
    ("a byte order mark",    "\ufeffUser-agent: *\nDisallow: /a",                             "/a",       False),
    ("CRLF",                 "User-agent: *\r\nDisallow: /a\r\n",                             "/a",       False),
    ("CR",                   "User-agent: *\rDisallow: /a\r",                                 "/a",       False),
    ("groups are merged",    "User-agent: canonry\nDisallow: /b\n\nUser-agent: canonry/2\nDisallow: /a", "/b", False),
    ("an empty line",        "User-agent: canonry\n\nDisallow: /a",                            "/a",       False),
    ("longest rule",         "User-agent: *\nDisallow: /\nAllow: /a",                          "/a",       True),
    ("equally long",         "User-agent: *\nDisallow: /a\nAllow: /a",                         "/a",       True),
    ("wildcard",             "User-agent: *\nDisallow: /*.php",                               "/b/a.php?c", False),
    ("end",                  "User-agent: *\nDisallow: /*.php$",                              "/a.php?c", True),
    ("a dollar inside",      "User-agent: *\nDisallow: /a$b",                                 "/a$b",     False),
    ("encoded",              "User-agent: *\nDisallow: /%c3%a4",                              "/%C3%A4",  False),
    ("not encoded",          "User-agent: *\nDisallow: /ä",                                   "/%C3%A4",  False),
    ("encoded slash",        "User-agent: *\nDisallow: /a/b",                                 "/a%2Fb",   True),
    ("empty rule",           "User-agent: *\nDisallow:",                                      "/a",       True),
    ("group without rules",  "User-agent: *\nDisallow: /a\n\nUser-agent: canonry",            "/a",       True),
    ("HTML",                 "<!doctype html><p>User-agent: *<p>Disallow: /",                  "/a",       True),
    ("another star",         "User-agent: *bot\nDisallow: /a",                                "/a",       True),
]  # fmt: skip


@pytest.mark.parametrize(("why", "text", "path", "is_allowed"), SYNTAX, ids=[row[0] for row in SYNTAX])
@in_a_loop
async def test_odd_files_are_read_as_rfc_9309_says(why: str, text: str, path: str, is_allowed: bool) -> None:
    async def fetch(url: str, **_: object) -> canonry.Response:
        return canonry.Response(200, url, {}, text.encode())

    robots = await fetch_robots("https://example.com", fetch, "canonry", origin=Origin.PERSON)
    assert robots.allows(f"https://example.com{path}") is is_allowed


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
