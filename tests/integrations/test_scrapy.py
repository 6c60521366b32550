"""Scrapy with canonry: Scrapy crawls a site whose pages have ten URLs each, and fetches each page once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import NotConfigured
from scrapy.link import Link
from scrapy.utils import request
from scrapy.utils.test import get_crawler

import canonry
from canonry.integrations.scrapy import Fingerprinter, PageIdentity, link_filter

SITE = Path(__file__).parent / "scrapy_site.py"
# URLs that the conservative setting must not merge.
DIFFERENT_PAGES = [
    "https://a.com/x",
    "https://a.com/x/",
    "http://a.com/x",
    "https://www.a.com/x",
    "https://a.com/X",
    "https://a.com//x",
    "https://a.com/x?",  # the exception: an empty query is merged with the first URL
    "https://a.com/x?a=1&b=2",
    "https://a.com/x?b=2&a=1",
    "https://a.com/x?a=1&b=2&utm_source=y",
    "https://a.com/x?a",
    "https://a.com/x?a=",
    "https://a.com/%2Fx",
    "https://a.com:8443/x",
    "https://u:p@a.com/x",
]


def run_crawl(scenario: str, pages: int = 1) -> dict[str, Any]:
    command = [sys.executable, str(SITE), scenario, str(pages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fingerprint(url: str, policy: str = "conservative", **options: Any) -> bytes:
    return Fingerprinter(PageIdentity.from_name(policy)).fingerprint(Request(url, **options))


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "pages"), [("conservative", 400), ("aggressive", 200), ("redirects", 200)])
def test_each_page_is_fetched_once(scenario: str, pages: int) -> None:
    found = run_crawl(scenario, pages)
    # A redirect from one URL of a page to another is followed, so that each page is reached.
    assert sum(scenario != "redirects" or "/?" in path for path in found["requests"]) == pages
    assert sorted(map(int, found["titles"])) == list(range(pages))


def test_another_method_body_or_header_is_another_request() -> None:
    requests = run_crawl("posting", 4)["requests"]
    assert sorted(line.split(" ", 2)[2] for line in requests) == ["x de", "x fr", "y de", "y fr"]


def test_conservative_never_merges_different_pages() -> None:
    prints = {url: fingerprint(url) for url in DIFFERENT_PAGES}
    assert len(set(prints.values())) == len(DIFFERENT_PAGES) - 1
    assert prints["https://a.com/x"] == prints["https://a.com/x?"]


def test_aggressive_merges_urls_that_rarely_differ() -> None:
    same = [
        "https://a.com/x?a=1&b=2",
        "http://www.a.com//x/?b=2&a=1&utm_source=y#z",
        "HTTPS://A.com:443/x/?fbclid=1&a=1&b=2",
    ]
    assert len({fingerprint(url, "aggressive") for url in same}) == 1
    assert fingerprint(same[0], "aggressive") != fingerprint("https://a.com/x?a=1&b=3", "aggressive")


def test_a_redirect_to_another_url_of_the_same_page_is_followed() -> None:
    plain = fingerprint("https://a.com/x/", "aggressive")
    assert plain == fingerprint("https://a.com/x", "aggressive")
    assert plain != fingerprint("https://a.com/x/", "aggressive", meta={"redirect_urls": ["http://a.com/x"]})
    assert plain == fingerprint("https://a.com/x/", "aggressive", meta={"redirect_urls": ["https://a.com/old"]})


@pytest.mark.parametrize("url", ["data:,x", "ftp://a.com/x", "s3://bucket/key"])
def test_other_schemes_are_left_to_scrapy(url: str) -> None:
    assert fingerprint(url) == request.fingerprint(Request(url))


def test_verbatim_urls_are_not_merged() -> None:
    one, other = (fingerprint(url, meta={"verbatim_url": True}) for url in ("https://a.com/%7ex", "https://a.com/~x"))
    assert one != other


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        (None, "scrapy-conservative@1"),
        ("aggressive", "scrapy-aggressive@1"),
        ("crawl", "crawl@2"),
        (canonry.policy("entry"), "entry@2"),
    ],
)
def test_the_policy_setting(policy: Any, wanted: str) -> None:
    crawler = get_crawler(settings_dict={"CANONRY_POLICY": policy} if policy else {})
    assert Fingerprinter.from_crawler(crawler)._identity.policy.id == wanted


def test_an_unknown_policy_is_reported_with_the_setting() -> None:
    with pytest.raises(NotConfigured, match="CANONRY_POLICY.*'none'"):
        Fingerprinter.from_crawler(get_crawler(settings_dict={"CANONRY_POLICY": "none"}))


def test_the_link_filter_keeps_the_first_link_to_each_page() -> None:
    urls = ["https://a.com/x/?utm_source=1", "https://a.com/x", "mailto:a@b.c", "https://a.com/y", "https://A.com/y#z"]
    links = [Link(url, text=str(at)) for at, url in enumerate(urls)]
    assert [link.url for link in link_filter()(links)] == [urls[0], urls[1], urls[3]]
    assert [link.url for link in link_filter("aggressive")(links)] == [urls[0], urls[3]]
    assert link_filter()([]) == []
