"""Numbers and dates that servers send: none of them ends a crawl or a poll (contract G3)."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from canonry.crawler.crawl_options import CrawlOptions
from canonry.crawler.decide import decide_retry
from canonry.errors import FailureKind, FetchFailed
from canonry.feeds.polling import Polling, _compute_next_check
from canonry.feeds.read import read_feed
from canonry.net.engine import OpenedPage, PageFailure
from canonry.net.html import parse_refresh
from canonry.net.response import Response
from canonry.net.robots import MAX_DELAY_SECONDS, Robots, read_robots
from canonry.net.search_fetcher import raise_for_status
from canonry.net.sitemap import Sitemap, read_sitemap
from ingest_runs import make_feed_state

NOW = datetime(2026, 1, 31, tzinfo=UTC)
DIGITS = "9" * 400
HUGE = [
    DIGITS,
    "9" * 5000,
    f"-{DIGITS}",
    "1e999",
    "-1e999",
    "nan",
    "inf",
    "-inf",
    "0",
    "-1",
    "1_000",
    "٣",
    "1e-999",
    "",
]
DIRECTIVES = ("User-agent", "Disallow", "Allow", "Crawl-delay", "Request-rate", "Visit-time", "Sitemap", "Host", "x")
VALUES = st.one_of(
    st.sampled_from(["*", "canonry", "bot*", "/", "/a*$", "https://example.com/sitemap.xml", "0400-0845"]),
    st.builds("{}/{}{}".format, st.sampled_from([*HUGE, "1"]), st.sampled_from([*HUGE, "5"]), st.sampled_from(["", *"smhdx"])),
    st.sampled_from(HUGE),
    st.text(max_size=30),
)  # fmt: skip
LINES = st.builds("{}{}{}".format, st.sampled_from(DIRECTIVES), st.sampled_from([":", ": ", " ", "\t:", ""]), VALUES)
ROBOTS = st.lists(LINES, max_size=20).map(lambda lines: "User-agent: *\n" + "\n".join(lines))


@given(ROBOTS)
@example(f"User-agent: *\nRequest-rate: 1/{DIGITS}s")
@example(f"User-agent: *\nRequest-rate: {DIGITS}/{DIGITS}d")
@example(f"User-agent: *\nRequest-rate: {DIGITS}/1")
@example("User-agent: *\nCrawl-delay: nan\nCrawl-delay: inf\nCrawl-delay: -1")
@settings(deadline=None)
def test_any_robots_txt_gives_rules_with_a_delay_that_can_be_waited(text: str) -> None:
    robots = read_robots(text, "canonry")
    assert math.isfinite(robots.delay)
    assert 0.0 <= robots.delay <= MAX_DELAY_SECONDS
    assert isinstance(robots, Robots)
    robots.judge("https://example.com/a%ff?b=1")


@pytest.mark.parametrize(
    ("rate", "delay"),
    [
        ("1/5", 5.0),
        ("2/1m", 30.0),
        ("1/1d", MAX_DELAY_SECONDS),
        (f"1/{DIGITS}s", MAX_DELAY_SECONDS),
        (f"{DIGITS}/1", 0.0),
    ],
)
def test_the_delay_of_a_request_rate_is_limited(rate: str, delay: float) -> None:
    assert read_robots(f"User-agent: *\nRequest-rate: {rate}", "canonry").delay == pytest.approx(delay)


def test_a_robots_txt_for_many_crawlers_is_read_in_linear_time() -> None:
    agents = "".join(f"User-agent: crawler{number}\n" for number in range(10_000))
    rules = "".join(f"Disallow: /{number}\n" for number in range(10_000))
    started = time.process_time()
    robots = read_robots(f"{agents}User-Agent : Canonry\n{rules}User-agent: *\nDisallow: /all\n", "canonry")
    assert time.process_time() - started < 20
    assert not robots.allows("https://example.com/7")
    assert robots.allows("https://example.com/all")


SPELLINGS = [
    # line of a group                  whether the group is for `canonry`
    ("User-agent: canonry",            True),
    ("user-agent:CANONRY # ours",      True),
    ("User agent canonry",             True),
    ("useragent: canonry*",            True),
    ("User-agent: *",                  True),
    ("User-agent: canon",              True),
    ("User-agent: canonrybot",         False),
    ("User-agent: other",              False),
    ("User-agent other",               False),
    ("User-agent: not-canonry",        False),
]  # fmt: skip


@pytest.mark.parametrize(("line", "is_ours"), SPELLINGS)
def test_groups_are_found_in_every_spelling(line: str, is_ours: bool) -> None:
    robots = read_robots(f"{line}\nUser-agent: another\nDisallow: /a\n", "canonry")
    assert robots.allows("https://example.com/a") is not is_ours


HEADER_VALUES = st.one_of(
    st.sampled_from(
        [
            *HUGE,
            *("Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 31 Dec 99999 23:59:59 GMT"),
            *("Sat, 31 Jan 2026 00:00:00 -0000", "Sat, 31 Jan 2026 00:00:00 +9999", "31 Jan 2026 99:99:99 GMT", "Sat"),
        ]
    ),
    st.text(max_size=40),
)


@given(HEADER_VALUES)
@settings(deadline=None)
def test_any_retry_after_can_be_waited_for(value: str) -> None:
    response = Response(503, "http://example.com/", {"retry-after": value})
    seconds = response.retry_after(NOW)
    assert seconds is None or (math.isfinite(seconds) and seconds >= 0)
    with pytest.raises(FetchFailed) as caught:
        raise_for_status(response, NOW)
    wait = caught.value.retry_after
    assert wait is None or NOW + min(timedelta(seconds=wait), timedelta(days=7)) >= NOW
    failure = PageFailure(FailureKind.UNAVAILABLE, "")
    retry = decide_retry(
        OpenedPage("u", status=503, retry_after=seconds, failure=failure),
        attempts=0,
        options=CrawlOptions(),
        jitter=0.5,
    )
    assert retry is not None
    assert NOW + timedelta(seconds=retry.seconds) > NOW


@given(
    HEADER_VALUES, st.sampled_from(["max-age={}", 'Max-Age = "{}"', "private, max-age={}, s-maxage={}"]), HEADER_VALUES
)
@settings(deadline=None)
def test_any_cache_control_and_ttl_gives_a_time_of_the_next_poll(age: str, template: str, ttl: str) -> None:
    document = f"<rss version='2.0'><channel><title>x</title><ttl>{ttl.replace('<', '').replace('&', '')}</ttl></channel></rss>"
    feed = read_feed(document.encode(errors="replace"), url="http://example.com/")
    assert feed.ttl is None or 0 <= feed.ttl < 2**31, "fits into the column"
    response = Response(200, "http://example.com/", {"cache-control": template.replace("{}", age)})
    polling = Polling(fetch=None, chance=lambda: 0.5)  # type: ignore[arg-type]
    assert NOW < _compute_next_check(response, make_feed_state(), feed.ttl, NOW, polling) <= NOW + timedelta(days=2)


@given(HEADER_VALUES, st.text(max_size=20))
def test_any_number_of_seconds_may_stand_in_a_refresh(seconds: str, target: str) -> None:
    assert isinstance(parse_refresh(f"{seconds}; url={target}"), str)


@given(st.binary(max_size=300))
@example(b"<urlset><url><loc>http://a/</loc><priority>1e999</priority><lastmod>99999-99-99</lastmod></url></urlset>")
@example(b"\x1f\x8b\x08\x00")
@example(b"<?xml version='1.0' encoding='utf-7'?><urlset><url><loc>x</loc></url></urlset>")
@example(b"<?xml version='1.0' encoding='nonsense'?><urlset/>")
@settings(deadline=None)
def test_any_bytes_are_read_as_a_sitemap(body: bytes) -> None:
    assert isinstance(read_sitemap(body), Sitemap)
    assert isinstance(read_sitemap(b"<urlset>" + body), Sitemap)


@pytest.mark.parametrize(
    "date", ["9999-12-31T23:59:59-23:59", "0000-00-00", "Fri, 31 Dec 99999 00:00:00 GMT", DIGITS, "NaN"]
)
def test_a_feed_with_any_date_is_read(date: str) -> None:
    item = f"<item><title>t</title><guid>1</guid><pubDate>{date}</pubDate></item>"
    feed = read_feed(
        f"<rss version='2.0'><channel><title>x</title>{item}</channel></rss>".encode(), url="http://e.com/"
    )
    assert [each.guid for each in feed.items] == ["1"]
    body = f'{{"version": "https://jsonfeed.org/version/1.1", "title": "x", "items": [{{"id": {DIGITS}, "date_published": "{date}"}}]}}'
    assert len(read_feed(body.encode(), url="http://e.com/").items) == 1
