"""Canonicalize over a web in a dict: the URL returned, the reason, and the requests sent (contract F1–F14)."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from typing import Any

import pytest

import canonry
from canonry.errors import FailureKind, RefusalKind
from canonry.feeds.canonicalize.result import CandidateVerdict, DifferenceKind, Reason, Source
from canonry.feeds.read.feed import FeedFormat
from canonry.net.search_fetcher import EventKind
from dict_web import DictWeb
from feed_texts import empty_rss, gone, moved, ok, rss

A, WWW = "https://example.com", "https://www.example.com"
FEED = rss()


def permalinks(build: int) -> str:
    """A feed as most blogs write it: ids are links to its own host."""
    items = "".join(f"<item><title>P{n}</title><guid>{A}/p/{n}</guid></item>" for n in range(5))
    own = f'<atom:link xmlns:atom="http://www.w3.org/2005/Atom" rel="self" href="{A}/feed"/>'
    return f'<rss version="2.0"><channel><title>B</title>{own}<lastBuildDate>{build}</lastBuildDate>{items}</channel></rss>'


def run_canonicalize(url: str, pages: dict[str, Any], **options: Any) -> tuple[canonry.Canonical, DictWeb]:
    web = DictWeb(pages)
    return canonry.canonicalize_sync(url, fetch=web.fetch, **options), web


# Ten edge cases: input, pages, URL, requests after the first.
EDGE_CASES: dict[int, tuple[str, dict[str, Any], str, int]] = {
    1: (
        f"{A}/feed?utm_source=twitter",
        {
            f"{A}/feed{query}": ok(rss(self_url=f"{A}/feed?utm_source=rss"))
            for query in ("?utm_source=twitter", "?utm_source=rss", "")
        },
        f"{A}/feed",
        1,
    ),
    2: (f"{WWW}/feed", {f"{host}/feed": ok(rss(self_url=f"{A}/feed")) for host in (A, WWW)}, f"{A}/feed", 1),
    3: (
        "http://example.com/feed",
        {f"{scheme}://example.com/feed": ok(rss(self_url="http://example.com/feed")) for scheme in ("http", "https")},
        f"{A}/feed",
        1,
    ),
    4: (
        f"{A}/feed.php?id=123&utm_source=twitter",
        {
            f"{A}/feed.php?id=123&utm_source=twitter": ok(rss(self_url=f"{A}/feed.php?id=123")),
            f"{A}/feed.php?id=123": ok(rss(self_url=f"{A}/feed.php?id=123")),
            f"{A}/feed.php": ok(rss("other")),
        },
        f"{A}/feed.php?id=123",
        1,
    ),
    5: (
        f"{A}/feed",
        {f"{A}/feed": ok(rss(self_url=f"{A}/old-feed")), f"{A}/old-feed": ok(rss("old", title="Old"))},
        f"{A}/feed",
        1,
    ),
    6: (
        "https://old.example.com/rss",
        {
            "https://old.example.com/rss": moved("https://new.example.com/rss"),
            "https://new.example.com/rss": moved(f"{A}/feed"),
            f"{A}/feed": ok(rss(self_url=f"{A}/feed")),
        },
        f"{A}/feed",
        0,
    ),
    7: (
        "https://cdn.example.com/feed",
        {f"{host}/feed": ok(rss(self_url=f"{A}/feed")) for host in (A, "https://cdn.example.com")},
        f"{A}/feed",
        1,
    ),
    8: (
        f"{A}/feed",
        {
            f"{A}/feed": ok(rss(self_url=f"{WWW}/feed")),
            f"{WWW}/feed": ok(rss(self_url=f"{WWW}/feed", extra="<ttl>5</ttl>")),
        },
        f"{A}/feed",
        0,
    ),
    9: (f"{A}//feed", {f"{A}{path}": ok(rss(self_url=f"{A}/feed")) for path in ("//feed", "/feed")}, f"{A}/feed", 1),
    10: (
        "https://münchen.example.com/feed",
        {"https://xn--mnchen-3ya.example.com/feed": ok(rss(self_url="https://münchen.example.com/feed"))},
        "https://xn--mnchen-3ya.example.com/feed",
        0,
    ),
}


@pytest.mark.parametrize("number", EDGE_CASES)
def test_an_edge_case_gives_its_url_with_few_requests(number: int) -> None:
    url, pages, wanted, requests = EDGE_CASES[number]
    found, _ = run_canonicalize(url, pages)
    assert found.url == wanted
    assert found.requests == requests


# why, input, pages, options, URL, reason
CASES: list[tuple[str, str, dict[str, Any], dict[str, Any], str, Reason]] = [
    ("clean", f"{A}/feed", {f"{A}/feed": ok(FEED)}, {}, f"{A}/feed", Reason.RESPONSE_URL),
    (
        "variant",
        f"{A}/feed/",
        {f"{A}/feed/": ok(FEED), f"{A}/feed": ok(FEED)},
        {},
        f"{A}/feed",
        Reason.CONTENT_VERIFIED,
    ),
    (
        "nothing cleaner works",
        f"{A}/feed?utm_id=1",
        {f"{A}/feed?utm_id=1": ok(FEED)},
        {},
        f"{A}/feed?utm_id=1",
        Reason.FALLBACK,
    ),
    (
        "a temporary target is not adopted",
        f"{A}/feed",
        {f"{A}/feed": moved("https://cdn.example.net/x1", 302), "https://cdn.example.net/x1": ok(FEED)},
        {},
        f"{A}/feed",
        Reason.RESPONSE_URL,
    ),
    (
        "permanent, then temporary",
        "https://old.example.com/a",
        {
            "https://old.example.com/a": moved(f"{A}/feed", 308),
            f"{A}/feed": moved("https://cdn.example.net/x1", 307),
            "https://cdn.example.net/x1": moved("https://cdn.example.net/x2", 301),
            "https://cdn.example.net/x2": ok(FEED),
        },
        {},
        f"{A}/feed",
        Reason.RESPONSE_URL,
    ),
    (
        "a variant that leads back confirms",
        f"{A}/feed/",
        {f"{A}/feed/": ok(FEED), f"{A}/feed": moved(f"{A}/feed/", 302)},
        {},
        f"{A}/feed/",
        Reason.REDIRECT_VERIFIED,
    ),
    (
        "the input that redirected here is not fetched again",
        f"{A}/feed",
        {f"{A}/feed": moved(f"{WWW}/feed/"), f"{WWW}/feed/": ok(FEED)},
        {},
        f"{WWW}/feed/",
        Reason.REDIRECT_VERIFIED,
    ),
    (
        "a variant that moved for good gives its place",
        f"{WWW}/feed",
        {f"{WWW}/feed": ok(FEED), f"{A}/feed": moved(f"{A}/rss.xml"), f"{A}/rss.xml": ok(FEED)},
        {},
        f"{A}/rss.xml",
        Reason.CONTENT_VERIFIED,
    ),
    (
        "a self link that leads back confirms the response",
        f"{A}/rss",
        {f"{A}/rss": ok(rss(self_url=f"{A}/self")), f"{A}/self": moved(f"{A}/rss")},
        {},
        f"{A}/rss",
        Reason.REDIRECT_VERIFIED,
    ),
    (
        "self differs by a build date",
        "https://mirror.example.net/f",
        {
            "https://mirror.example.net/f": ok(rss(self_url=f"{A}/feed", extra="<lastBuildDate>1</lastBuildDate>")),
            f"{A}/feed": ok(rss(self_url=f"{A}/feed", extra="<lastBuildDate>2</lastBuildDate>")),
        },
        {},
        f"{A}/feed",
        Reason.SIGNATURE_VERIFIED,
    ),
    (
        "no signatures",
        "https://mirror.example.net/f",
        {
            "https://mirror.example.net/f": ok(rss(self_url=f"{A}/feed", extra="<lastBuildDate>1</lastBuildDate>")),
            f"{A}/feed": ok(rss(self_url=f"{A}/feed", extra="<lastBuildDate>2</lastBuildDate>")),
        },
        {"use_signature": False},
        "https://mirror.example.net/f",
        Reason.RESPONSE_URL,
    ),
    (
        "overlap is no evidence between places",
        "https://mirror.example.net/f",
        {
            "https://mirror.example.net/f": ok(rss(1, 2, 3, self_url=f"{A}/feed")),
            f"{A}/feed": ok(rss(1, 2, 3, 4, self_url=f"{A}/feed")),
        },
        {},
        "https://mirror.example.net/f",
        Reason.RESPONSE_URL,
    ),
    (
        "an excerpt feed is another one",
        "https://mirror.example.net/f",
        {
            "https://mirror.example.net/f": ok(rss(self_url=f"{A}/feed", text="A long text " * 20)),
            f"{A}/feed": ok(rss(self_url=f"{A}/feed")),
        },
        {},
        "https://mirror.example.net/f",
        Reason.RESPONSE_URL,
    ),
    (
        "empty feeds are not merged",
        "https://mirror.example.net/f",
        {
            "https://mirror.example.net/f": ok(
                empty_rss().replace(
                    "</title>", f'</title><link xmlns="http://www.w3.org/2005/Atom" rel="self" href="{A}/feed"/>'
                )
            ),
            f"{A}/feed": ok(
                empty_rss().replace(
                    "</title>", f'</title><link xmlns="http://www.w3.org/2005/Atom" rel="self" href="{A}/feed"/>'
                )
            ),
        },
        {},
        "https://mirror.example.net/f",
        Reason.RESPONSE_URL,
    ),
    (
        "an empty feed and its own clean form, byte for byte",
        f"{A}/feed/",
        {f"{A}/feed/": ok(empty_rss()), f"{A}/feed": ok(empty_rss())},
        {},
        f"{A}/feed",
        Reason.CONTENT_VERIFIED,
    ),
    (
        "an empty feed and its own clean form, one byte off",
        f"{A}/feed/",
        {f"{A}/feed/": ok(empty_rss()), f"{A}/feed": ok(empty_rss() + " ")},
        {},
        f"{A}/feed/",
        Reason.FALLBACK,
    ),
    (
        "https self of an http feed, one request",
        "http://example.com/feed",
        {u: ok(rss(self_url=f"{A}/feed")) for u in ("http://example.com/feed", f"{A}/feed")},
        {"max_requests": 1},
        f"{A}/feed",
        Reason.CONTENT_VERIFIED,
    ),
    (
        "https is not wanted",
        "http://example.com/feed",
        {u: ok(FEED) for u in ("http://example.com/feed", f"{A}/feed")},
        {"prefer_https": False},
        "http://example.com/feed",
        Reason.RESPONSE_URL,
    ),
    (
        "https that leads back to http",
        "http://example.com/feed",
        {"http://example.com/feed": ok(FEED), f"{A}/feed": moved("http://example.com/feed")},
        {},
        "http://example.com/feed",
        Reason.RESPONSE_URL,
    ),
    (
        "www stays",
        f"{WWW}/feed/",
        {f"{host}{path}": ok(FEED) for host in (A, WWW) for path in ("/feed", "/feed/")},
        {"prefer_no_www": False},
        f"{WWW}/feed",
        Reason.CONTENT_VERIFIED,
    ),
    (
        "another list of tracking parameters",
        f"{A}/feed?from=mail&utm_id=1",
        {f"{A}/feed{query}": ok(FEED) for query in ("?from=mail&utm_id=1", "?utm_id=1", "")},
        {"tracking_params": ["from"]},
        f"{A}/feed?utm_id=1",
        Reason.CONTENT_VERIFIED,
    ),
    (
        "one preset",
        f"{WWW}/feed/?utm_id=1",
        {f"{host}{path}": ok(FEED) for host in (A, WWW) for path in ("/feed", "/feed/", "/feed/?utm_id=1")},
        {"presets": ["feed-conservative"]},
        f"{WWW}/feed/",
        Reason.CONTENT_VERIFIED,
    ),
    (
        "no requests",
        "http://example.com/feed/",
        {u: ok(FEED) for u in ("http://example.com/feed/", "http://example.com/feed", f"{A}/feed/")},
        {"max_requests": 0},
        "http://example.com/feed/",
        Reason.FALLBACK,
    ),
    (
        "WordPress, atom, in a folder, other parameters kept",
        f"{A}/blog/index.php?cat=5&feed=atom",
        {f"{A}/blog/index.php?cat=5&feed=atom": ok(FEED), f"{A}/blog/feed/atom/?cat=5": ok(FEED)},
        {},
        f"{A}/blog/feed/atom/?cat=5",
        Reason.CONTENT_VERIFIED,
    ),
    (
        "a probe that serves another feed",
        f"{A}/?feed=rss2",
        {f"{A}/?feed=rss2": ok(FEED), f"{A}/feed/": ok(rss("other"))},
        {},
        f"{A}/?feed=rss2",
        Reason.RESPONSE_URL,
    ),
    (
        "no probes",
        f"{A}/?feed=rss2",
        {f"{A}/?feed=rss2": ok(FEED), f"{A}/feed/": ok(FEED)},
        {"probes": False},
        f"{A}/?feed=rss2",
        Reason.RESPONSE_URL,
    ),
    (
        "Blogger's country host",
        "http://blog.blogspot.de/atom.xml",
        {"https://blog.blogspot.com/feeds/posts/default": ok(FEED)},
        {},
        "https://blog.blogspot.com/feeds/posts/default",
        Reason.RESPONSE_URL,
    ),
    (
        "the rewritten form is dead, the given one lives",
        "https://feedproxy.google.com/Blog",
        {"https://feedproxy.google.com/Blog": ok(FEED), "https://feeds.feedburner.com/Blog": gone()},
        {},
        "https://feedproxy.google.com/Blog",
        Reason.FALLBACK,
    ),
    (
        "no rewrites",
        "https://feedproxy.google.com/Blog",
        {f"https://{host}/Blog": ok(FEED) for host in ("feedproxy.google.com", "feeds.feedburner.com")},
        {"rewrites": False, "max_requests": 0},
        "https://feedproxy.google.com/Blog",
        Reason.FALLBACK,
    ),
    (
        "a mirror of a feed whose items are known by links on its own host",
        "https://cdn.example.net/feed",
        {f"{host}/feed": ok(permalinks(build)) for build, host in enumerate(("https://cdn.example.net", A))},
        {},
        f"{A}/feed",
        Reason.SIGNATURE_VERIFIED,
    ),
    (
        "empty items are no evidence",
        "https://mirror.example.net/f",
        {
            f"{host}": ok(rss(self_url=f"{A}/f").split("<item>")[0] + f"<item/><item/><ttl>{n}</ttl></channel></rss>")
            for n, host in enumerate(("https://mirror.example.net/f", f"{A}/f"))
        },
        {},
        "https://mirror.example.net/f",
        Reason.RESPONSE_URL,
    ),
    (
        "a variant that moved to a worse place is no gain",
        f"{WWW}/f",
        {
            f"{WWW}/f": ok(FEED),
            f"{A}/f": moved("http://old.example.net/f/?utm_id=1"),
            "http://old.example.net/f/?utm_id=1": ok(FEED),
        },
        {},
        f"{WWW}/f",
        Reason.FALLBACK,
    ),
    (
        "a self link cannot plant credentials",
        f"{A}/f",
        {f"{A}/f": ok(rss(self_url="https://a:pw@example.com/f"))},
        {},
        f"{A}/f",
        Reason.RESPONSE_URL,
    ),
    ("feed scheme", "feed://example.com/feed", {f"{A}/feed": ok(FEED)}, {}, f"{A}/feed", Reason.RESPONSE_URL),
    (
        "feed scheme, http only",
        "feed://example.com/feed",
        {"http://example.com/feed": ok(FEED)},
        {},
        "http://example.com/feed",
        Reason.FALLBACK,
    ),
    (
        "a self link with other entities is left alone",
        f"{A}/x",
        {f"{A}/x": ok(rss(self_url=f"{A}/f?a=1&amp;copy=2&amp;amp=3")), f"{A}/f?a=1&copy=2&amp=3": ok(FEED)},
        {},
        f"{A}/f?a=1&copy=2&amp=3",
        Reason.SIGNATURE_VERIFIED,
    ),
    (
        "a self link that is no URL",
        f"{A}/dir/feed",
        {f"{A}/dir/feed": ok(rss(self_url="https://"))},
        {},
        f"{A}/dir/feed",
        Reason.RESPONSE_URL,
    ),
    (
        "a self link to where a temporary redirect leads",
        f"{A}/feed",
        {f"{A}/feed": moved("/de/feed", 302), f"{A}/de/feed": ok(rss(self_url=f"{A}/de/feed"))},
        {},
        f"{A}/feed",
        Reason.RESPONSE_URL,
    ),
    (
        "a self link that moved to where a temporary redirect leads",
        f"{A}/feed",
        {
            f"{A}/feed": moved("https://de.example.com/feed", 307),
            "https://de.example.com/feed": ok(rss(self_url=f"{A}/de")),
            f"{A}/de": moved("https://de.example.com/feed"),
        },
        {},
        f"{A}/feed",
        Reason.RESPONSE_URL,
    ),
    (
        "a permanent redirect to a session",
        f"{A}/feed",
        {f"{A}/feed": moved("/feed;jsessionid=1A2B"), f"{A}/feed;jsessionid=1A2B": ok(rss(self_url=f"{A}/feed"))},
        {},
        f"{A}/feed",
        Reason.RESPONSE_URL,
    ),
    (
        "a permanent redirect to a signed URL, and a stable self link",
        "https://old.example.com/rss",
        {
            "https://old.example.com/rss": moved(f"{A}/f.xml?X-Amz-Signature=1&X-Amz-Expires=60"),
            f"{A}/f.xml?X-Amz-Signature=1&X-Amz-Expires=60": ok(rss(self_url=f"{A}/f.xml")),
            f"{A}/f.xml": moved(f"{A}/f.xml?X-Amz-Signature=2&X-Amz-Expires=60"),
            f"{A}/f.xml?X-Amz-Signature=2&X-Amz-Expires=60": ok(rss(self_url=f"{A}/f.xml")),
        },
        {},
        f"{A}/f.xml",
        Reason.CONTENT_VERIFIED,
    ),
    (
        "every variant failed, the response URL among them",
        f"{WWW}/feed",
        {f"{WWW}/feed": ok(FEED), f"{A}/feed": gone()},
        {},
        f"{WWW}/feed",
        Reason.FALLBACK,
    ),
    (
        "the https twin failed",
        "http://example.com/feed",
        {"http://example.com/feed": ok(FEED), f"{A}/feed": gone(500)},
        {},
        "http://example.com/feed",
        Reason.FALLBACK,
    ),
    (
        "the https twin of an http self link that fails",
        "https://cdn.example.net/feed",
        {
            "https://cdn.example.net/feed": ok(rss(self_url="http://example.com/feed")),
            f"{A}/feed": ok(rss(self_url="http://example.com/feed")),
        },
        {},
        f"{A}/feed",
        Reason.CONTENT_VERIFIED,
    ),
    (
        "the http self link serves another feed: no twin",
        "https://cdn.example.net/feed",
        {
            "https://cdn.example.net/feed": ok(rss(self_url="http://example.com/feed")),
            "http://example.com/feed": ok(rss("other", title="Other")),
            f"{A}/feed": ok(rss(self_url="http://example.com/feed")),
        },
        {},
        "https://cdn.example.net/feed",
        Reason.RESPONSE_URL,
    ),
    (
        "a FeedBurner alias as self link",
        f"{A}/feed",
        {
            f"{A}/feed": ok(rss(self_url="https://feedproxy.google.com/Blog")),
            "https://feeds.feedburner.com/Blog": ok(rss(self_url="https://feedproxy.google.com/Blog")),
        },
        {},
        "https://feeds.feedburner.com/Blog",
        Reason.CONTENT_VERIFIED,
    ),
    (
        "a FeedBurner alias as self link of FeedBurner itself",
        "https://feeds.feedburner.com/Blog",
        {"https://feeds.feedburner.com/Blog": ok(rss(self_url="http://feeds2.feedburner.com/Blog?format=xml"))},
        {},
        "https://feeds.feedburner.com/Blog",
        Reason.RESPONSE_URL,
    ),
    (
        "a self link that names its feed twice in the WordPress way",
        f"{A}/blog/feed/?feed=rss2",
        {f"{A}/blog/feed/{query}": ok(FEED) for query in ("?feed=rss2", "")},
        {},
        f"{A}/blog/feed/",
        Reason.CONTENT_VERIFIED,
    ),
    (
        "a self link of another scheme",
        f"{A}/feed",
        {f"{A}/feed": ok(rss(self_url="mailto:me@example.com"))},
        {},
        f"{A}/feed",
        Reason.RESPONSE_URL,
    ),
]


@pytest.mark.parametrize("case", [pytest.param(row, id=row[0]) for row in CASES])
def test_the_url_and_the_reason_of_a_case(case: tuple[str, str, dict[str, Any], dict[str, Any], str, Reason]) -> None:
    _, url, pages, options, wanted, reason = case
    found, web = run_canonicalize(url, pages, **options)
    assert (found.url, found.reason) == (wanted, reason)
    assert found.url in web.fetched
    assert len(web.asked) == len(set(web.asked)) == found.total_requests
    assert found.requests <= options.get("max_requests", 3)
    assert found.url not in found.aliases


def test_every_field_of_a_result() -> None:
    pages = {
        "http://www.example.com/feed/?utm_source=x": moved("http://www.example.com/feed/"),
        "http://www.example.com/feed/": ok(rss(title="A blog", self_url="http://www.example.com/feed/")),
        "http://example.com/feed": ok(rss(title="A blog", self_url="http://www.example.com/feed/")),
        f"{A}/feed": ok(rss(title="A blog", self_url="http://www.example.com/feed/")),
    }
    found, _ = run_canonicalize("http://www.example.com/feed/?utm_source=x", pages)
    assert found.url == f"{A}/feed"
    assert (found.reason, found.source, found.preset) == (Reason.UPGRADE_HTTPS, Source.RESPONSE, "feed-aggressive")
    assert (found.requests, found.total_requests) == (2, 3)
    assert found.feed is not None
    assert (found.feed.title, found.feed.format, found.feed.item_count) == ("A blog", "rss", 3)
    assert found.input_url == "http://www.example.com/feed/?utm_source=x"
    assert found.response_url == found.self_url == "http://www.example.com/feed/"
    assert [(hop.status, hop.location) for hop in found.hops] == [(301, "http://www.example.com/feed/")]
    assert found.aliases == (
        "http://www.example.com/feed/?utm_source=x",
        "http://www.example.com/feed/",
        "http://example.com/feed",
    )
    assert [each.verdict for each in found.candidates] == [
        CandidateVerdict.FETCHED,
        CandidateVerdict.SAME,
        CandidateVerdict.SAME,
    ]
    assert found.candidates[1].score == canonry.score("http://example.com/feed").total
    again = json.loads(json.dumps(dataclasses.asdict(found)))
    assert again["reason"] == "upgrade_https"
    assert again["candidates"][0]["verdict"] == "fetched"


@pytest.mark.parametrize(
    ("why", "url", "pages", "error", "reason"),
    [
        ("no server", f"{A}/feed", {}, canonry.FetchFailed, "ConnectionRefused"),
        ("an error", f"{A}/feed", {f"{A}/feed": gone(500)}, canonry.FetchFailed, "answered 500"),
        ("a page", f"{A}/", {f"{A}/": ok("<html><title>x</title></html>")}, canonry.NotAFeed, "without links to feeds"),
        (
            "a page with a feed",
            f"{A}/",
            {f"{A}/": ok('<html><link rel="alternate" type="application/rss+xml" href="/feed">')},
            canonry.NotAFeed,
            "links to 1 feed;",
        ),
        ("nothing", f"{A}/feed", {f"{A}/feed": ok("")}, canonry.NotAFeed, "empty"),
        ("a private address", f"{A}/feed", {f"{A}/feed": moved("http://10.0.0.1/f")}, canonry.UnsafeUrl, "private"),
    ],
)
def test_a_failure_names_the_cause_and_what_was_tried(
    why: str, url: str, pages: dict[str, Any], error: type[canonry.FetchFailed], reason: str
) -> None:
    pages = {**pages, "http://10.0.0.1/f": ok(FEED)}
    with pytest.raises(error, match=reason) as caught:
        run_canonicalize(url, pages)
    assert [getattr(each, "url", "") for each in caught.value.tried] == [url]


def test_a_rate_limit_reports_when_to_retry() -> None:
    with pytest.raises(canonry.FetchFailed) as caught:
        run_canonicalize(f"{A}/feed", {f"{A}/feed": gone(429, **{"retry-after": "120"})})
    assert (caught.value.status, caught.value.retry_after) == (429, 120)
    found, _ = run_canonicalize(f"{A}/feed/", {f"{A}/feed/": ok(FEED), f"{A}/feed": gone(503, **{"retry-after": "60"})})
    assert found.candidates[1].reason == "answered 503, retry after 60 s"


@pytest.mark.parametrize("text", ["", "not a url", "mailto:a@example.com", "ftp://example.com/feed"])
def test_text_that_is_not_a_url_is_refused(text: str) -> None:
    with pytest.raises(canonry.InvalidUrl):
        run_canonicalize(text, {})


@pytest.mark.parametrize("url", ["http://127.0.0.1/feed", "http://169.254.169.254/", "http://localhost/feed"])
def test_the_default_client_refuses_private_addresses(url: str) -> None:
    with pytest.raises(canonry.UnsafeUrl):
        canonry.canonicalize_sync(url)


@pytest.mark.parametrize("self_url", ["http://192.168.1.1/feed", "http://localhost/feed", "http://example.com:22/feed"])
def test_an_unsafe_self_link_is_never_fetched(self_url: str) -> None:
    found, web = run_canonicalize(f"{A}/feed", {f"{A}/feed": ok(rss(self_url=self_url)), self_url: ok(FEED)})
    assert web.asked == [f"{A}/feed"]
    assert found.url == f"{A}/feed"
    assert [each.verdict for each in found.candidates] == [CandidateVerdict.FETCHED, CandidateVerdict.UNSAFE]
    assert found.self_url is None


def test_a_variant_that_leads_to_a_private_address_is_not_adopted() -> None:
    pages = {f"{A}/feed/": ok(FEED), f"{A}/feed": moved("http://10.0.0.1/f"), "http://10.0.0.1/f": ok(FEED)}
    found, _ = run_canonicalize(f"{A}/feed/", pages)
    assert found.url == f"{A}/feed/"
    assert found.candidates[1].verdict is CandidateVerdict.UNSAFE


def test_exists_gets_all_candidates_in_one_batch() -> None:
    batches: list[list[str]] = []

    async def exists(urls: list[str]) -> canonry.Existing | None:
        batches.append(urls)
        return None

    pages = {f"{WWW}/feed/": ok(rss(self_url="https://self.example.com/f")), f"{A}/feed": ok(FEED)}
    run_canonicalize(f"{WWW}/feed/", pages, exists=exists)
    assert len(batches) == 1
    hosts = ("www.example.com/feed/", "example.com/feed", "www.example.com/feed", "self.example.com/f")
    assert set(batches[0]) == {f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts}
    run_canonicalize(f"{WWW}/feed/", pages, exists=exists, check_before_fetch=True)
    assert len(batches) == 3
    assert "https://self.example.com/f" not in batches[1]


def test_a_url_that_exists_wins_over_everything_else() -> None:
    async def exists(urls: list[str]) -> canonry.Existing | None:
        return canonry.Existing("https://elsewhere.example.com/known", {"id": 7})

    found, web = run_canonicalize(f"{A}/feed", {}, exists=exists, check_before_fetch=True)
    assert web.asked == []
    assert (found.url, found.reason) == ("https://elsewhere.example.com/known", Reason.EXISTS_IN_DB)
    assert (found.data, found.total_requests, found.feed, found.response_url) == ({"id": 7}, 0, None, None)
    found, web = run_canonicalize(f"{A}/feed", {f"{A}/feed": ok(FEED)}, exists=exists)
    assert (found.url, found.requests, found.total_requests) == ("https://elsewhere.example.com/known", 0, 1)


def test_verify_can_veto_a_url() -> None:
    pages = {f"{WWW}/feed/": ok(FEED), f"{A}/feed": ok(FEED), f"{WWW}/feed": ok(FEED)}
    found, web = run_canonicalize(f"{WWW}/feed/", pages, verify=lambda url: url != f"{A}/feed")
    assert found.url == f"{WWW}/feed"
    assert f"{A}/feed" not in web.asked

    async def never(url: str) -> bool:
        return False

    with pytest.raises(canonry.UnsafeUrl) as caught:
        run_canonicalize(f"{A}/feed", pages, verify=never)
    assert caught.value.kind is RefusalKind.VETOED


def test_the_caller_can_replace_parser_and_hash() -> None:
    from canonry.feeds.read import read_feed

    pages = {f"{A}/feed/": ok(rss(extra="<ttl>1</ttl>")), f"{A}/feed": ok(rss(extra="<ttl>2</ttl>"))}
    read: list[str] = []

    def parse(response: canonry.Response) -> Any:
        read.append(response.url)
        return read_feed(response.body, url=response.url)

    found, _ = run_canonicalize(f"{A}/feed/", pages, parse=parse, hash=lambda text: "equal", use_signature=False)
    assert (found.url, found.reason) == (f"{A}/feed", Reason.CONTENT_VERIFIED)
    assert read == [f"{A}/feed/", f"{A}/feed"]


class Broken(Exception):
    """An exception that canonry does not know."""


@pytest.mark.parametrize("callback", ["exists", "verify", "parse", "hash", "on_event"])
def test_an_exception_of_a_callback_reaches_the_caller(callback: str) -> None:
    def broken(*_: object) -> Any:
        raise Broken(callback)

    with pytest.raises(Broken, match=callback):
        run_canonicalize(f"{A}/feed/", {f"{A}/feed/": ok(FEED), f"{A}/feed": ok(FEED)}, **{callback: broken})


@pytest.mark.parametrize("callback", ["verify", "hash", "on_event"])
def test_a_canonry_error_raised_by_a_callback_reaches_the_caller(callback: str) -> None:
    calls: list[object] = []

    def broken(value: object) -> Any:
        calls.append(value)
        if len(calls) > 1:
            raise canonry.FetchFailed("the callback's own")
        return True

    with pytest.raises(canonry.FetchFailed, match="the callback's own"):
        run_canonicalize(f"{A}/feed/", {f"{A}/feed/": ok(FEED), f"{A}/feed": ok(FEED)}, **{callback: broken})


def test_an_exception_of_the_fetch_reaches_the_caller() -> None:
    async def fetch(url: str, **_: object) -> canonry.Response:
        raise Broken(url)

    with pytest.raises(Broken):
        canonry.canonicalize_sync(f"{A}/feed", fetch=fetch)


def test_events_and_errors_mask_credentials() -> None:
    events: list[canonry.Event] = []
    pages = {
        f"{A}/feed/": {**ok(FEED), "require_auth": "me:secret"},
        f"{A}/feed": {**ok(FEED), "require_auth": "me:secret"},
    }
    found, _ = run_canonicalize("https://me:secret@example.com/feed/", pages, on_event=events.append)
    assert found.url == "https://me:secret@example.com/feed"
    assert [event.kind for event in events] == [
        EventKind.FETCHING,
        EventKind.FETCHED,
        EventKind.FETCHING,
        EventKind.FETCHED,
        EventKind.MATCHED,
    ]
    assert "secret" not in repr(events)
    assert events[0].url == "https://***@example.com/feed/"
    for url, error in (("/none", canonry.FetchFailed), ("/page", canonry.NotAFeed), ("/feed", canonry.UnsafeUrl)):
        web = {f"{A}/page": ok("<html>"), f"{A}/feed": moved("http://10.0.0.1/")}
        with pytest.raises(error) as caught:
            run_canonicalize(f"https://me:secret@example.com{url}", {**web, "http://10.0.0.1/": ok(FEED)})
        assert "secret" not in f"{caught.value}{caught.value!r}{caught.value.tried}"
    with pytest.raises(canonry.InvalidUrl) as refused:
        run_canonicalize("https://me:secret@example.com:99999/", {})
    assert "secret" not in str(refused.value)


def test_credentials_stay_with_their_host_and_scheme() -> None:
    pages = {f"{host}{path}": ok(FEED) for host in (A, WWW) for path in ("/feed", "/feed/")}
    found, web = run_canonicalize("https://me:pw@www.example.com/feed/", pages)
    assert found.url == "https://me:pw@www.example.com/feed"
    assert all("@example.com" not in url for url in web.asked)
    assert found.candidates[1].verdict is CandidateVerdict.SKIPPED
    with pytest.raises(canonry.FetchFailed):
        _, web = run_canonicalize("feed://me:pw@example.com/feed", {"http://example.com/feed": ok(FEED)})


def test_a_304_uses_the_body_the_caller_passed() -> None:
    seen: list[dict[str, object]] = []

    async def fetch(url: str, **options: object) -> canonry.Response:
        seen.append(options)
        is_conditional = "validators" in options
        return canonry.Response(304 if is_conditional else 200, url, {}, b"" if is_conditional else FEED.encode())

    validators = canonry.Validators(etag='"1"')
    found = canonry.canonicalize_sync(f"{A}/feed/", fetch=fetch, validators=validators, body=FEED.encode())
    assert found.url == f"{A}/feed"
    assert [options.get("validators") for options in seen] == [validators, None]
    with pytest.raises(canonry.FetchFailed) as caught:
        canonry.canonicalize_sync(f"{A}/feed/", fetch=fetch, validators=validators)
    assert caught.value.status == 304


def test_the_validators_of_a_page_are_not_sent_to_the_feed_that_it_links_to() -> None:
    """A server may answer 304 to the date of the page, and the body of the page is no feed."""
    page = '<html><head><link rel="alternate" type="application/rss+xml" href="/feed"></head></html>'

    async def fetch(url: str, **options: object) -> canonry.Response:
        is_conditional = "validators" in options
        return canonry.Response(304 if is_conditional else 200, url, {}, b"" if is_conditional else FEED.encode())

    found = canonry.canonicalize_sync(
        f"{A}/", fetch=fetch, validators=canonry.Validators(etag='"1"'), body=page.encode(), discover=True
    )
    assert found.url == f"{A}/feed"


def test_discover_lists_all_feeds_and_opens_the_first() -> None:
    page = (
        '<html><head><base href="/blog/"><link rel="alternate" type="application/rss+xml" title="Posts" href="feed/">'
        '<link rel="alternate" type="application/atom+xml" href="http://10.0.0.1/atom">'
    )
    pages = {f"{A}/": ok(page), f"{A}/blog/feed/": ok(FEED), f"{A}/blog/feed": moved(f"{A}/blog/feed/")}
    found, _ = run_canonicalize("example.com", pages, discover=True)
    assert found.url == f"{A}/blog/feed/"
    assert [(link.url, link.title, link.format) for link in found.discovered] == [
        (f"{A}/blog/feed/", "Posts", "rss"),
        ("http://10.0.0.1/atom", "", "atom"),
    ]
    assert found.input_url == f"{A}/"
    assert (found.requests, found.total_requests) == (1, 3)
    with pytest.raises(canonry.UnsafeUrl):
        run_canonicalize(
            f"{A}/", {**pages, f"{A}/": ok(page.replace('href="feed/"', 'href="http://10.0.0.1/"'))}, discover=True
        )


def test_a_candidate_that_times_out_is_skipped() -> None:
    pages = {f"{A}/feed/": ok(FEED), f"{A}/feed": {**ok(FEED), "delay_ms": 60_000}}
    found, _ = run_canonicalize(f"{A}/feed/", pages, timeout=3)
    assert found.url == f"{A}/feed/"
    assert found.candidates[1].verdict is CandidateVerdict.FAILED
    assert found.candidates[1].reason == "no complete response within 3 s"


def test_at_the_deadline_the_best_proven_url_is_returned() -> None:
    pages = {f"{A}/feed/": ok(FEED), f"{A}/feed": {**ok(FEED), "delay_ms": 60_000}}
    started = time.monotonic()
    found, _ = run_canonicalize(f"{A}/feed/", pages, deadline=5, timeout=60)
    assert found.url == f"{A}/feed/"
    with pytest.raises(canonry.FetchFailed) as caught:
        run_canonicalize(f"{A}/feed", pages, deadline=0.1, timeout=60)
    assert (caught.value.kind, caught.value.reason) == (FailureKind.TIMEOUT, "no feed within 0.1 s")
    assert time.monotonic() - started < 50


def test_a_store_that_does_not_answer_before_the_deadline_is_a_failure() -> None:
    async def exists(urls: list[str]) -> canonry.Existing | None:
        await asyncio.sleep(60)
        return None

    with pytest.raises(canonry.FetchFailed) as caught:
        run_canonicalize(f"{A}/feed", {f"{A}/feed": ok(FEED)}, exists=exists, deadline=0.1)
    assert caught.value.kind is FailureKind.TIMEOUT


def test_credentials_in_a_redirect_of_the_callers_fetch_are_dropped() -> None:
    pages = {f"{A}/feed": moved("https://a:pw@example.org/g"), "https://example.org/g": ok(FEED)}
    assert run_canonicalize(f"{A}/feed", pages)[0].url == "https://example.org/g"


def test_canonicalize_sync_inside_an_event_loop_is_refused() -> None:
    async def run() -> None:
        with pytest.raises(RuntimeError, match="await canonicalize"):
            canonry.canonicalize_sync(f"{A}/feed")

    asyncio.run(run())


def test_a_body_over_the_limit_is_refused() -> None:
    with pytest.raises(canonry.FetchFailed) as caught:
        run_canonicalize(f"{A}/feed", {f"{A}/feed": ok(FEED)}, max_bytes=100)
    assert (caught.value.kind, caught.value.reason) == (FailureKind.TOO_LARGE, "the body is larger than 100 bytes")


def test_a_body_within_a_larger_limit_is_read_to_its_end() -> None:
    body = rss(*range(3), text="x" * (4 * 1024 * 1024))
    found, _ = run_canonicalize(f"{A}/feed", {f"{A}/feed": ok(body)}, max_bytes=20 * 1024 * 1024)
    assert found.feed is not None and found.feed.item_count == 3


def test_unknown_probes_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown probes: joomla; known: wordpress"):
        run_canonicalize(f"{A}/feed", {}, probes=["joomla"])


def test_a_call_can_be_cancelled() -> None:
    async def run() -> None:
        web = DictWeb({f"{A}/feed": {**ok(FEED), "delay_ms": 60_000}})
        task = asyncio.create_task(canonry.canonicalize(f"{A}/feed", fetch=web.fetch))
        while not web.asked:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def podcast(token: str, *, folder: str = "audio", build: int = 0) -> str:
    """A podcast whose server writes a token of the request into the path of every enclosure."""
    items = "".join(
        f"<item><title>E{n}</title><guid>e{n}</guid>"
        f'<enclosure url="https://cdn.example.net/{folder}/{token}/e{n}.mp3" type="audio/mpeg" length="1"/></item>'
        for n in range(4)
    )
    head = f"<title>Cast</title><lastBuildDate>{build}</lastBuildDate>"
    return f'<rss version="2.0"><channel>{head}{items}</channel></rss>'


@pytest.mark.parametrize(
    "tokens",
    [
        ("8f3a9c2b17d04e55", "c01d7e5590ab3f12"),
        ("token=abc", "token=xyz"),
        ("exp=1700000000~hmac=aa", "exp=1700000500~hmac=bb"),
        ("1700000000", "1700000500"),
        ("3f0e8a52-6c1d-4b7e-9d3a-0a1b2c3d4e5f", "7d9c1b2a-0e4f-4a6b-8c5d-9e8f7a6b5c4d"),
        ("aZ3kP9qLm2Xv8RtY", "bQ7wN1sHd5Gc4JfK"),
    ],
)
def test_tokens_in_the_paths_of_enclosures_are_no_difference(tokens: tuple[str, str]) -> None:
    pages = {f"{A}/feed/": ok(podcast(tokens[0])), f"{A}/feed": ok(podcast(tokens[1], build=1))}
    found, _ = run_canonicalize(f"{A}/feed/", pages)
    assert (found.url, found.reason) == (f"{A}/feed", Reason.SIGNATURE_VERIFIED)


@pytest.mark.parametrize("folders", [("hd", "sd"), ("free", "premium"), ("season1", "season2"), ("2024", "2025")])
def test_other_folders_of_enclosures_are_a_difference(folders: tuple[str, str]) -> None:
    pages = {
        f"{A}/a": ok(podcast("x", folder=folders[0]).replace("<title>Cast", '<atom:link xmlns:atom="http://www.w3.org/2005/Atom" rel="self" href="/b"/><title>Cast')),
        f"{A}/b": ok(podcast("x", folder=folders[1], build=1)),
    }  # fmt: skip
    found, _ = run_canonicalize(f"{A}/a", pages)
    assert found.url == f"{A}/a"
    assert [each.kind for each in found.candidates[1].differences] == [DifferenceKind.ITEMS]


# fmt: off
DIFFERENCES = [
    # why                 the other feed                     options                    what differs: kind, first, other
    ("title and items",   rss("other", title="Other"),       {},                        [("title", "Blog", "Other"), ("items", "3", "1")]),
    ("items",             rss(1, 2, 4),                      {},                        [("items", "1", "1")]),
    ("no items",          empty_rss(),                       {},                        [("no_items", "3", "0")]),
    ("size",              rss(text="Text of " * 50),         {},                        [("text_size", "27", None)]),
    ("bytes",             rss(extra="<ttl>5</ttl>"),         {"use_signature": False},  [("content", None, None)]),
]
# fmt: on


@pytest.mark.parametrize("row", [pytest.param(row, id=row[0]) for row in DIFFERENCES])
def test_a_candidate_that_serves_something_else_says_what_differs(row: Any) -> None:
    _, other, options, wanted = row
    pages = {f"{A}/feed": ok(rss(self_url=f"{A}/other")), f"{A}/other": ok(other)}
    found, _ = run_canonicalize(f"{A}/feed", pages, **options)
    candidate = next(each for each in found.candidates if each.url == f"{A}/other")
    assert candidate.verdict is CandidateVerdict.DIFFERENT
    for difference, (kind, first, second) in zip(candidate.differences, wanted, strict=True):
        assert difference.kind == kind
        assert first in (None, difference.first) and second in (None, difference.candidate)


def test_callbacks_may_be_plain_functions() -> None:
    pages = {f"{A}/feed": ok(FEED)}
    asked: list[str] = []

    def fetch(url: str, **_: object) -> canonry.Response:
        asked.append(url)
        return canonry.Response(200, url, {}, FEED.encode())

    def exists(urls: list[str]) -> canonry.Existing | None:
        return canonry.Existing(urls[0], data=7) if len(asked) > 1 else None

    found = canonry.canonicalize_sync(f"{A}/feed", fetch=fetch, exists=exists, verify=lambda _: True)
    assert (found.url, found.reason) == (f"{A}/feed", Reason.RESPONSE_URL)
    asked.append("again")
    known, _ = run_canonicalize(f"{A}/feed", pages, exists=exists)
    assert (known.reason, known.data) == (Reason.EXISTS_IN_DB, 7)


@pytest.mark.parametrize(
    "callback",
    [{"fetch": lambda _url, **_: None}, {"exists": lambda urls: urls[0]}, {"exists": lambda _: True}],
)
def test_a_callback_that_returns_something_else_is_a_type_error(callback: dict[str, Any]) -> None:
    [name] = callback
    with pytest.raises(TypeError, match=f"{name} must return canonry"):
        canonry.canonicalize_sync(f"{A}/feed", **{"fetch": DictWeb({f"{A}/feed": ok(FEED)}).fetch, **callback})


def test_a_caller_can_parse_with_the_public_feed() -> None:
    feed = canonry.Feed(title="Mine", format=FeedFormat.RSS, items=(canonry.Item(guid="1", title="one"),))
    found, _ = run_canonicalize(f"{A}/feed", {f"{A}/feed": ok("anything")}, parse=lambda _: feed)
    assert found.feed is not None and found.feed.title == "Mine"
