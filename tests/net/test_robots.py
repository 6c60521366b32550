"""robots.txt and sitemaps as texts: what they allow, name, and cannot do to us."""

from __future__ import annotations

import gzip
import time

import pytest

from canonry.net.robots import LONGEST_DELAY, read_robots, token_of
from canonry.net.sitemap import MAX_URLS, read_sitemap

TEXT = """
User-agent: other
Disallow: /

User-agent: canonry
Disallow: /private
Allow: /private/open$
Crawl-delay: 2
Sitemap: https://example.com/map.xml
"""


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [("canonry/0.1.0", "canonry"), ("my-bot (+https://example.com/)", "my-bot"), ("", "*")],
)
def test_tokens(user_agent: str, token: str) -> None:
    assert token_of(user_agent) == token


def test_rules() -> None:
    robots = read_robots(TEXT, "canonry")
    allowed = [robots.allows(f"https://example.com{path}") for path in ("/", "/private", "/private/open", "/private/x")]
    assert allowed == [True, False, True, False]
    assert (robots.delay, robots.sitemaps) == (2.0, ("https://example.com/map.xml",))
    assert not read_robots(TEXT, "other").allows("https://example.com/")
    assert read_robots(TEXT, "third").allows("https://example.com/private")


@pytest.mark.parametrize("delay", ["99999999", "inf", "1e9"])
def test_a_delay_has_an_end(delay: str) -> None:
    assert read_robots(f"User-agent: *\nCrawl-delay: {delay}", "canonry").delay <= LONGEST_DELAY


def test_request_rate() -> None:
    assert read_robots("User-agent: *\nRequest-rate: 1/10s", "canonry").delay == 10


def test_robots_of_any_bytes() -> None:
    started = time.process_time()
    assert read_robots("\0\ufffd" * 1000 + "\nDisallow: /\n" + "User-agent: *\nDisallow: /" + "*a" * 5000, "c").allows(
        "https://example.com/" + "a" * 5000 + "b"
    ) in {True, False}
    assert time.process_time() - started < 10


def test_a_bomb_is_no_sitemap() -> None:
    bomb = """<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>
    <urlset><url><loc>https://example.com/&b;</loc></url></urlset>"""
    assert read_sitemap(bomb.encode()).pages == ()
    assert len(gzip.compress(b"<urlset>" + b" " * 100_000_000)) < 200_000
    assert read_sitemap(gzip.compress(b"<urlset>" + b" " * 100_000_000)).pages == ()
    assert read_sitemap(b"\x1f\x8bnot gzip").pages == ()


def test_what_came_before_the_fault_counts() -> None:
    assert read_sitemap(b"<urlset><url><loc>https://example.com/a</loc></url><url></broken>").pages == (
        "https://example.com/a",
    )
    assert read_sitemap(b"<a>" * 100_000).pages == ()


def test_not_more_than_the_protocol_allows() -> None:
    many = b"<urlset>" + b"<url><loc>https://example.com/a</loc></url>" * (MAX_URLS + 10)
    assert len(read_sitemap(many).pages) == MAX_URLS
    assert (
        read_sitemap(b"<urlset><url><loc>https://example.com/" + b"x" * 10_000 + b"</loc></url></urlset>").pages == ()
    )
