"""contract N1, N7: typed URLs, links on pages, and parsing."""

from __future__ import annotations

import random
import re

import pytest
from ada_url import normalize_url

import canonry
import corpora
from canonry.core.url import UNCHANGED_URL, join, parse

READ = [
    # why, typed, read
    ("a URL", "https://example.com/A?b#c", "https://example.com/A?b#c"),
    ("kept as typed", "HTTPS://Example.com:443", "HTTPS://Example.com:443"),
    (
        "spaces, NBSP, zero-width space, BOM",
        "\ufeff\u200b\xa0 https://example.com/\u200b\xa0\n",
        "https://example.com/",
    ),
    ("no scheme", "example.com/feed", "https://example.com/feed"),
    ("no scheme, no path", "example.com", "https://example.com"),
    ("host and port", "example.com:8080/x", "https://example.com:8080/x"),
    ("host and port alone", "example.com:8080", "https://example.com:8080"),
    ("host, port, query", "example.com:8080?a", "https://example.com:8080?a"),
    ("localhost", "localhost:8000/x", "https://localhost:8000/x"),
    ("localhost without port", "LocalHost/x", "https://LocalHost/x"),
    ("an address", "192.0.2.1/x", "https://192.0.2.1/x"),
    ("a host that ends in a digit", "Example.C2", "https://Example.C2"),
    ("an IPv6 address", "[2001:db8::1]/x", "https://[2001:db8::1]/x"),
    ("IDN", "münchen.de", "https://münchen.de"),
    ("protocol-relative", "//h/p", "https://h/p"),
    ("protocol-relative with backslashes", "\\\\h\\p", "https:\\\\h\\p"),
    ("feed://", "feed://h/p", "https://h/p"),
    ("feed:https://", "feed:https://h/p", "https://h/p"),
    ("feed:http://", "feed:http://h/p", "http://h/p"),
    ("feed://https://", "feed://https://h/p", "https://h/p"),
    ("feed: and a host", "feed:example.com/p", "https://example.com/p"),
    ("feed:feed://", "feed:feed://h.com/p", "https://h.com/p"),
    ("feed: and a space", "feed: https://h.com/p", "https://h.com/p"),
    ("a tab inside the scheme", "ht\ttps://h.com/p", "https://h.com/p"),
    ("a tab after the scheme", "feed:\thttps://h.com/p", "https://h.com/p"),
    ("line breaks inside", "exam\r\nple.com/x", "https://example.com/x"),
    ("an exclamation mark belongs to it", "https://example.com/wow!", "https://example.com/wow!"),
    ("rss", "rss://h/p", "https://h/p"),
    ("pcast", "pcast://h/p", "https://h/p"),
    ("itpc", "ITPC://h/p", "https://h/p"),
    ("podcast", "podcast://h/p", "https://h/p"),
    ("https without slashes", "https:example.com", "https:example.com"),
    ("a scheme is not repaired twice", "https://pps.org/feed", "https://pps.org/feed"),
    ("a host that looks like a scheme", "feed.example.com/x", "https://feed.example.com/x"),
]


@pytest.mark.parametrize(("why", "typed", "read"), READ, ids=[case[0] for case in READ])
def test_read_url_reads_typed_text(why: str, typed: str, read: str) -> None:
    assert canonry.read_url(typed) == read, why
    assert canonry.read_url(read) == read
    canonry.normalize(read)


NOT_READ = [
    ("", "empty"),
    ("\u200b", "empty"),
    ("hello", "no scheme and no host name"),
    ("hello world", "a character that no host may contain"),
    ("/relative/path", "no host"),
    ("mailto:me@example.com", "scheme mailto: is not http or https"),
    ("me@example.com", "looks like an e-mail address; write https:// before it if it is a URL"),
    ("javascript:alert(1)", "scheme javascript: is not http or https"),
    ("data:text/html,x", "scheme data: is not http or https"),
    ("file:///etc/passwd", "scheme file: is not http or https"),
    ("1", "no scheme and no host name"),
    ("1.5", "no scheme and no host name"),
    (".", "no scheme and no host name"),
    ("./x", "no scheme and no host name"),
    ("example.", "no scheme and no host name"),
    ("feed:ftp://h.com/p", "scheme ftp: is not http or https"),
    ("router:80", "scheme router: is not http or https"),
    ("exam\fple.com", "a character that no host may contain"),
    ("feed:feed:feed://a.com", "scheme feed: is not http or https"),
    ("feed:feed:feed:feed://a.com", "scheme feed: is not http or https"),
    ("tel:5551234", "scheme tel: is not http or https"),
    ("feed:", "no host"),
    ("example.com:99999/x", "port out of range"),
    ("a.b\ud800", "contains a lone surrogate, which is not text"),
]


@pytest.mark.parametrize(("typed", "reason"), NOT_READ, ids=[repr(case[0]) for case in NOT_READ])
def test_read_url_refuses_text_that_is_not_a_url(typed: str, reason: str) -> None:
    with pytest.raises(canonry.InvalidUrl) as caught:
        canonry.read_url(typed)
    assert (caught.value.input, caught.value.reason) == (typed, reason)


def test_join_resolves_a_reference() -> None:
    assert join("https://a.com/b/c?d", "../e") == "https://a.com/e"
    assert join("https://a.com/", "mailto:x@y.z") == "mailto:x@y.z"
    with pytest.raises(canonry.InvalidUrl, match="cannot be resolved against"):
        join("https://a.com/", "https://[")


@pytest.mark.parametrize(
    "text", ["www." * 500_000, "." * 2_000_000, "1." * 500_000, "feed:" * 200_000, "a" * 2_000_000]
)
def test_read_url_takes_linear_time(text: str) -> None:
    for ending in (":80:80", " ", "@"):
        with pytest.raises(canonry.InvalidUrl):
            canonry.read_url(f"{text}{ending}/")


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://a.com/", 80), ("https://a.com/", 443), ("https://a.com:80/", 80), ("http://a.com:8080/", 8080)],
)
def test_the_port_is_the_one_of_the_scheme_unless_the_url_has_another(url: str, port: int) -> None:
    assert parse(url).get_port() == port


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://u:p@A.com:80/b?c#d", "http://a.com"),
        ("https://a.com:8443/", "https://a.com:8443"),
        ("https://[::1]/", "https://[::1]"),
    ],
)
def test_the_origin_is_scheme_host_and_port(url: str, origin: str) -> None:
    assert parse(url).get_origin() == origin


UNCHANGED = [
    # url, does the pattern prove that parsing changes nothing?
    ("https://a.com/", True),
    ("http://www.a-b_c.com:8080/a/b.html?c=%20d&e#f", True),
    ("https://a.com//b/", True),
    ("https://a.com", False),
    ("https://A.com/", False),
    ("https://a.com:443/", False),
    ("https://a.com/b/../c", False),
    ("https://a.com/%2e/c", False),
    ("https://xn--mnchen-3ya.de/", False),
    ("https://www.xn--mnchen-3ya.de/", False),
    ("https://127.1/", False),
    ("https://a.com/?", False),
    ("https://a.com/#", False),
    ("https://u@a.com/", False),
]


@pytest.mark.parametrize(("url", "is_unchanged"), UNCHANGED)
def test_the_pattern_matches_only_urls_that_parsing_leaves_unchanged(url: str, is_unchanged: bool) -> None:
    assert (re.fullmatch(UNCHANGED_URL, url) is not None) is is_unchanged


def test_parsing_leaves_urls_alone_that_match_the_pattern_for_unchanged_urls() -> None:
    choose = random.Random(1)
    mutated = (corpora.mutate_url(choose, url) for url in corpora.get_real_or_generated_urls()[:20_000])
    found = [
        url for url in (*corpora.get_real_or_generated_urls()[:20_000], *mutated) if re.fullmatch(UNCHANGED_URL, url)
    ]
    assert len(found) > 1_000
    assert [url for url in found if not url == normalize_url(url) == str(parse(url))] == []
