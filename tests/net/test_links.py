"""Links are those that Chrome finds (`anchor_cases.json`), except links that scripts create."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canonry.core.url import join
from canonry.errors import FailureKind, InvalidUrl
from canonry.net.engine import PageFailure
from canonry.net.http_engine import HttpEngine
from canonry.net.links import read_page, resolve_href
from canonry.net.origin import Origin
from canonry.net.response import Response

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "cases" / "anchor_cases.json").read_text())[
    "cases"
]
PAGE = "http://site.example/dir/page.html?q=1"
BY_SCRIPT = {"js-base"}


def get_expected_links(case: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the expected links: an SVG link is its resolved raw value; a MathML link does not count."""
    found: list[tuple[str, str]] = []
    for link in case["chrome_links"]:
        if link["href"] != "UNDEF":
            href = link["href"]
            found.append((resolve_href(PAGE, href[4:]) if href.startswith("SVG:") else href, link["text"]))
    return found


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["name"] not in BY_SCRIPT], ids=lambda case: case["name"]
)
def test_links_are_those_of_chrome(case: dict[str, Any]) -> None:
    body = base64.b64decode(case["html_base64"]) if "html_base64" in case else case["html"].encode()
    links = read_page(body, url=PAGE, content_type="text/html").links
    assert [(link.url, link.text) for link in links] == get_expected_links(case)


def find_urls(html: str | bytes, content_type: str = "text/html; charset=utf-8") -> list[str]:
    body = html.encode() if isinstance(html, str) else html
    return [link.url for link in read_page(body, url=PAGE, content_type=content_type).links]


BASES = [
    ("the first one counts", "<base href=/a/><base href=/b/><a href=x>", "http://site.example/a/x"),
    ("one without href does not count", "<base target=_top><base href=/b/><a href=x>", "http://site.example/b/x"),
    ("one after the link counts, too", "<a href=x></a><base href=/b/>", "http://site.example/b/x"),
    ("on another host", "<base href=//cdn.example/d/><a href=x>", "http://cdn.example/d/x"),
    ("a javascript URL does not count", "<base href=javascript:1><a href=x>", "http://site.example/dir/x"),
    ("an invalid URL does not count", "<base href=http://[><a href=x>", "http://site.example/dir/x"),
    ("a mail address resolves nothing", "<base href=mailto:a><a href=x>", "x"),
    ("one in a template does not count", "<template><base href=/a/></template><a href=x>", "http://site.example/dir/x"),
]


@pytest.mark.parametrize(("why", "html", "href"), BASES)
def test_links_are_relative_to_the_base_element(why: str, html: str, href: str) -> None:
    assert find_urls(html) == [href], why


CHARSETS = [
    # charset, bytes of the query, what the browser asks for
    ("iso-8859-1", "é€".encode("cp1252"), "%E9%80"),
    ("windows-1251", "ж".encode("cp1251"), "%E6"),
    ("shift_jis", "表".encode("cp932"), "%95\\"),
    ("gb2312", "中".encode("gbk"), "%D6%D0"),
    ("utf-8", "é".encode(), "%C3%A9"),
    ("no-such-charset", "é".encode(), "%C3%A9"),
    ("punycode", "é".encode(), "%C3%A9"),
]


@pytest.mark.parametrize(("charset", "query", "asked"), CHARSETS)
def test_queries_are_in_the_charset_of_the_document(charset: str, query: bytes, asked: str) -> None:
    page = b'<meta charset="%s"><a href="/p?q=%s#x">' % (charset.encode(), query)
    for body, kind in ((page, "text/html"), (page.replace(b"charset", b"x"), f"text/html; charset={charset}")):
        assert find_urls(body, kind) == [f"http://site.example/p?q={asked}#x"]


def test_a_character_that_the_charset_lacks_is_a_character_reference() -> None:
    assert find_urls(b"<a href='/&#26085;?q=&#26085;#&#26085;'>", "text/html; charset=windows-1252") == [
        "http://site.example/%E6%97%A5?q=%26%2326085%3B#%E6%97%A5"
    ]


def test_queries_of_other_schemes_are_utf_8() -> None:
    assert find_urls(b"<a href='mailto:a@b.c?subject=\xe9'>", "text/html; charset=windows-1252") == [
        "mailto:a@b.c?subject=%C3%A9"
    ]


def test_link_text_is_trimmed_and_cut_as_in_javascript() -> None:
    [link] = read_page(f"<a href=x>\ufeff\xa0{'😀' * 30}</a>".encode(), url=PAGE).links
    assert link.text == "😀" * 25
    [link] = read_page(f"<a href=x> {'é' * 60}</a>".encode(), url=PAGE).links
    assert link.text == "é" * 50


def test_the_title_is_that_of_the_page() -> None:
    assert read_page(b"<title> A\n b </title><svg><title>no</title></svg>", url=PAGE).title == "A b"


def test_the_number_of_links_is_limited() -> None:
    started = time.process_time()
    content = read_page(b"<a href=/x>x</a>" * 300_000, url=PAGE)
    assert len(content.links) == 10_000
    assert content.failure == PageFailure(FailureKind.TRUNCATED, "only the first 10000 of 300000 links were read")
    assert time.process_time() - started < 60  # seconds of CPU


def test_deep_pages_are_cut() -> None:
    content = read_page(b"<a href=/x>x</a>" + b"<div>" * 1_000_000 + b"<a href=/y>y</a>", url=PAGE)
    assert [link.text for link in content.links] == ["x"]
    assert content.failure is not None
    assert content.failure.kind is FailureKind.TRUNCATED


@pytest.mark.parametrize(
    "html",
    [
        "<svg><title>x</title>" + "<g><path d='M0 0'/></g>" * 5_000 + "</svg>",
        "<a href=/none><svg><use href='#x'/><!-- --></svg></a></b>" * 5_000,
        "<script>text = '" + "<b>bold<\\/b>" * 5_000 + "'</script>",
        "<STYLE>" + "<b>" * 5_000 + "</Style >",
        "<!--" + "<div>" * 5_000 + "-->",
        "<p><b>x</b>" * 5_000,
    ],
    ids=["picture", "pictures", "script", "style", "comment", "paragraphs"],
)
def test_flat_pages_with_many_tags_are_not_cut(html: str) -> None:
    content = read_page(f"{html}<a href=/y>y</a>".encode(), url=PAGE)
    assert (content.links[-1].text, content.failure) == ("y", None)


def test_html_inside_of_formulas_and_pictures() -> None:
    html = "<math><mtext><a href=/m>x</a></mtext><a href=/none>y</a></math><svg><foreignObject><a href=/s>z</a></svg>"
    assert find_urls(html) == ["http://site.example/m", "http://site.example/s"]


SEGMENTS = ("", "a", "b.html", "..", ".", "c d", "é", "%2e", "A", "#f", "?q=1", "?", "x:y", "\\", "a;b", "'")


@given(
    host=st.sampled_from(("http://site.example", "https://site.example:8443", "http://User@site.example")),
    page=st.lists(st.sampled_from(SEGMENTS), max_size=4),
    reference=st.lists(st.sampled_from(SEGMENTS), max_size=4),
    start=st.sampled_from(("", "/", "//", "../", "../../", " ", "#", "?", "http:", "https://")),
)
def test_references_resolve_as_the_parser_resolves_them(
    host: str, page: list[str], reference: list[str], start: str
) -> None:
    base, href = host + "".join(f"/{segment}" for segment in page), start + "/".join(reference)
    try:
        wanted = join(base, href)
    except InvalidUrl:
        wanted = href
    assert resolve_href(base, href) == wanted


def test_references_of_a_page_without_a_path() -> None:
    assert resolve_href("http://site.example", "/a") == "http://site.example/a"
    assert resolve_href("http://site.example", "a") == "http://site.example/a"


@pytest.mark.parametrize(
    ("body", "opened_url"),
    [
        (b"<META content='0;url=/next' HTTP-EQUIV = ' Refresh '>", "http://site.example/next"),
        ("<meta http-equiv=refresh content='0;url=/next'>".encode("utf-16"), "http://site.example/next"),
        (b"<meta http-equiv=content-type content='0;url=/next'> refresh", "http://site.example/"),
    ],
    ids=["spaces and upper case", "UTF-16", "another name"],
)
def test_a_refresh_is_found_in_any_spelling(body: bytes, opened_url: str) -> None:
    async def fetch(url: str, **_: object) -> Response:
        return Response(200, url, {"Content-Type": "text/html"}, body if url == "http://site.example/" else b"")

    opened = asyncio.run(HttpEngine(fetch).open("http://site.example/", origin=Origin.PERSON))
    assert opened.final_url == opened_url
