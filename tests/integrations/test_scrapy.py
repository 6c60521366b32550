"""Scrapy with canonry: a site of 400 pages under ten spellings each, crawled by Scrapy itself."""

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
from canonry.integrations.scrapy import Fingerprinter, Identity, link_filter

SITE = Path(__file__).parent / "scrapy_site.py"
# Pages that are different, and must be under the conservative setting.
APART = [
    "https://a.com/x",
    "https://a.com/x/",
    "http://a.com/x",
    "https://www.a.com/x",
    "https://a.com/X",
    "https://a.com//x",
    "https://a.com/x?",  # without its empty query it is the first
    "https://a.com/x?a=1&b=2",
    "https://a.com/x?b=2&a=1",
    "https://a.com/x?a=1&b=2&utm_source=y",
    "https://a.com/x?a",
    "https://a.com/x?a=",
    "https://a.com/%2Fx",
    "https://a.com:8443/x",
    "https://u:p@a.com/x",
]


def crawled(way: str, pages: int = 1) -> dict[str, Any]:
    command = [sys.executable, str(SITE), way, str(pages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fingerprint(url: str, policy: str = "conservative", **options: Any) -> bytes:
    return Fingerprinter(Identity.named(policy)).fingerprint(Request(url, **options))


@pytest.mark.slow
@pytest.mark.parametrize(("way", "pages"), [("conservative", 400), ("aggressive", 200), ("redirects", 200)])
def test_each_page_is_asked_for_once(way: str, pages: int) -> None:
    found = crawled(way, pages)
    # A redirect from one spelling of a page to another is followed, so that each page is seen.
    assert sum(way != "redirects" or "/?" in path for path in found["asked"]) == pages
    assert sorted(map(int, found["titles"])) == list(range(pages))


def test_method_body_and_headers_make_another_request() -> None:
    asked = crawled("posting", 4)["asked"]
    assert sorted(line.split(" ", 2)[2] for line in asked) == ["x de", "x fr", "y de", "y fr"]


def test_conservative_never_merges_different_pages() -> None:
    prints = {url: fingerprint(url) for url in APART}
    assert len(set(prints.values())) == len(APART) - 1
    assert prints["https://a.com/x"] == prints["https://a.com/x?"]


def test_aggressive_merges_what_hardly_differs() -> None:
    same = [
        "https://a.com/x?a=1&b=2",
        "http://www.a.com//x/?b=2&a=1&utm_source=y#z",
        "HTTPS://A.com:443/x/?fbclid=1&a=1&b=2",
    ]
    assert len({fingerprint(url, "aggressive") for url in same}) == 1
    assert fingerprint(same[0], "aggressive") != fingerprint("https://a.com/x?a=1&b=3", "aggressive")


def test_a_redirect_between_spellings_is_no_repetition() -> None:
    plain = fingerprint("https://a.com/x/", "aggressive")
    assert plain == fingerprint("https://a.com/x", "aggressive")
    assert plain != fingerprint("https://a.com/x/", "aggressive", meta={"redirect_urls": ["http://a.com/x"]})
    assert plain == fingerprint("https://a.com/x/", "aggressive", meta={"redirect_urls": ["https://a.com/old"]})


@pytest.mark.parametrize("url", ["data:,x", "ftp://a.com/x", "s3://bucket/key"])
def test_other_schemes_are_left_to_scrapy(url: str) -> None:
    assert fingerprint(url) == request.fingerprint(Request(url))


def test_a_verbatim_url_stays_as_it_is() -> None:
    one, other = (fingerprint(url, meta={"verbatim_url": True}) for url in ("https://a.com/%7ex", "https://a.com/~x"))
    assert one != other


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        (None, "scrapy-conservative@1"),
        ("aggressive", "scrapy-aggressive@1"),
        ("crawl", "crawl@1"),
        (canonry.policy("entry"), "entry@1"),
    ],
)
def test_settings(policy: Any, wanted: str) -> None:
    crawler = get_crawler(settings_dict={"CANONRY_POLICY": policy} if policy else {})
    assert Fingerprinter.from_crawler(crawler)._identity.policy.id == wanted


def test_a_policy_that_is_not_there_is_named() -> None:
    with pytest.raises(NotConfigured, match="CANONRY_POLICY: no policy 'none'; the shipped policies are .* aggressive"):
        Fingerprinter.from_crawler(get_crawler(settings_dict={"CANONRY_POLICY": "none"}))


def test_links_are_filtered_as_they_were_found() -> None:
    urls = ["https://a.com/x/?utm_source=1", "https://a.com/x", "mailto:a@b.c", "https://a.com/y", "https://A.com/y#z"]
    links = [Link(url, text=str(at)) for at, url in enumerate(urls)]
    assert [link.url for link in link_filter()(links)] == [urls[0], urls[1], urls[3]]
    assert [link.url for link in link_filter("aggressive")(links)] == [urls[0], urls[3]]
    assert link_filter()([]) == []
