"""contract F14: the feeds that a web page names."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canonry.net.html import FeedLink, find_feed_links

URL = "https://example.com/dir/page.html"
RSS = 'type="application/rss+xml"'


def links(html: str | bytes, content_type: str = "text/html", url: str = URL) -> list[FeedLink]:
    body = html.encode() if isinstance(html, str) else html
    return find_feed_links(body, url=url, content_type=content_type)


@pytest.mark.parametrize(
    ("why", "html", "wanted"),
    [
        ("relative", f'<link rel="alternate" {RSS} href="feed">', ["https://example.com/dir/feed"]),
        ("root", f'<link rel="alternate" {RSS} href="/feed">', ["https://example.com/feed"]),
        ("other host", f'<link rel="alternate" {RSS} href="//b.example.org/f">', ["https://b.example.org/f"]),
        ("base", f'<base href="/b/"><link rel="alternate" {RSS} href="feed">', ["https://example.com/b/feed"]),
        (
            "base is no URL",
            f'<base href="http://"><link rel="alternate" {RSS} href="f">',
            ["https://example.com/dir/f"],
        ),
        (
            "base of a JavaScript URL",
            '<base href="javascript:1"><link rel=feed href="f">',
            ["https://example.com/dir/f"],
        ),
        ("base of another scheme", '<base href="ftp://b.example/"><link rel=feed href="f">', []),
        (
            "upper case",
            '<LINK REL="ALTERNATE" TYPE="Application/Atom+XML; charset=utf-8" HREF="/a">',
            ["https://example.com/a"],
        ),
        ("two words", f'<link rel="home alternate" {RSS} href="/a">', ["https://example.com/a"]),
        ("rel=feed", '<link rel="feed" href="/a">', ["https://example.com/a"]),
        ("in the body", f'<p>text<link rel="alternate" {RSS} href="/a">', ["https://example.com/a"]),
        ("entities", f'<link rel="alternate" {RSS} href="/?a=1&amp;b=2">', ["https://example.com/?a=1&b=2"]),
        ("spaces", f'<link rel="alternate" {RSS} href=" /a ">', ["https://example.com/a"]),
        ("once", f'<link rel="alternate" {RSS} href="/a"><link rel="feed" href="/a">', ["https://example.com/a"]),
        ("feed scheme", '<link rel="feed" href="feed://example.com/f">', ["https://example.com/f"]),
        # not feeds
        ("empty", f'<link rel="alternate" {RSS} href="">', []),
        ("WordPress API", '<link rel="alternate" type="application/json" href="/wp-json/wp/v2/pages/1">', []),
        ("style sheet", '<link rel="alternate stylesheet" type="text/xml" href="/a">', []),
        ("another language", '<link rel="alternate" hreflang="de" href="/de">', []),
        ("a page", '<link rel="alternate" type="text/html" href="/a">', []),
        ("no href", f'<link rel="alternate" {RSS}>', []),
        ("script", f'<link rel="alternate" {RSS} href="javascript:alert(1)">', []),
        ("a comment", f'<!-- <link rel="alternate" {RSS} href="/a"> -->', []),
        ("in a script", f"<script>'<link rel=alternate {RSS} href=/a>'</script>", []),
    ],
)
def test_feed_links_of_a_page(why: str, html: str, wanted: list[str]) -> None:
    assert [link.url for link in links(html)] == wanted


def test_a_feed_link_has_a_title_and_a_format() -> None:
    page = '<link rel="alternate" type="application/feed+json" title=" All \n posts " href="/f">'
    assert links(page) == [FeedLink("https://example.com/f", "All posts", "json")]


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("Grüße".encode("latin-1"), "text/html; charset=iso-8859-1"),
        (b'<meta charset="iso-8859-1">' + "Grüße".encode("latin-1"), "text/html"),
        ("Grüße".encode(), "text/html; charset=no-such-charset"),
        ("\ufeffGrüße".encode("utf-16-le"), "text/html"),
    ],
)
def test_a_page_is_decoded_in_its_charset(body: bytes, content_type: str) -> None:
    is_wide = body.startswith(b"\xff\xfe")
    encoding = "utf-16-le" if is_wide else "ascii"
    before, after = f'<link rel="alternate" {RSS} href="/f" title="'.encode(encoding), '">'.encode(encoding)
    html = body[:2] + before + body[2:] + after if is_wide else b"".join(split_before(body, before)) + after
    assert [link.title for link in links(html, content_type)] == ["Grüße"]


def split_before(body: bytes, before: bytes) -> tuple[bytes, bytes, bytes]:
    at = body.index(b"Gr")
    return body[:at], before, body[at:]


def test_the_number_of_feed_links_is_limited() -> None:
    page = "".join(f'<link rel="feed" href="/{number}">' for number in range(50_000))
    assert len(links(page)) == 100


@pytest.mark.parametrize("tag", ["div", "ul><li", "b", "a", "table", "svg"])
def test_deep_nesting_takes_little_time(tag: str) -> None:
    started = time.process_time()
    found = links('<link rel="feed" href="/f">' + f"<{tag}>" * (900_000 // len(tag)))
    assert time.process_time() - started < 30  # seconds of CPU; linear time takes a fraction of one
    assert len(found) == 1


@given(st.binary(max_size=200), st.text(max_size=40))
def test_any_bytes_are_read_without_an_error(body: bytes, content_type: str) -> None:
    links(b"<link rel=alternate type=text/xml href=" + body, content_type)
