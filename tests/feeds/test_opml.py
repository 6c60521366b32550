"""Reading and writing OPML: files of other readers, broken files, hostile files."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canonry.errors import CanonryError
from canonry.feeds.opml import MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS, OpmlFeed, read_opml, write_opml

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)


def make_opml(body: str, head: str = "") -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<opml version="2.0">{head}<body>\n{body}\n</body></opml>'.encode()


FEED = '<outline type="rss" text="A" xmlUrl="https://a.com/feed"/>'
A = OpmlFeed("https://a.com/feed", "A")
CASES = [
    # why                        given                                                                    wanted
    ("one", FEED, [A]),
    ("none", "", []),
    ("title before text", '<outline title="T" text="x" xmlUrl="a.com"/>', [OpmlFeed("a.com", "T")]),
    ("no title", '<outline xmlUrl="a.com"/>', [OpmlFeed("a.com")]),
    ("the URL is no title", '<outline text="a.com" xmlUrl="a.com"/>', [OpmlFeed("a.com")]),
    ("lower case", '<outline text="A" xmlurl="https://a.com/feed"/>', [A]),
    ("upper case", '<OUTLINE TEXT="A" XMLURL="https://a.com/feed"/>', [A]),
    ("without type", '<outline text="A" xmlUrl="https://a.com/feed"/>', [A]),
    ("url of an rss outline", '<outline type="rss" text="A" url="https://a.com/feed"/>', [A]),
    ("a link is no feed", '<outline type="link" text="A" url="https://a.com/"/>', []),
    ("htmlUrl is no feed", '<outline text="A" htmlUrl="https://a.com/"/>', []),
    ("white space", '<outline text=" A \n b " xmlUrl=" https://a.com/feed\n"/>', [OpmlFeed(A.url, "A b")]),
    ("empty URL is kept for the report", '<outline type="rss" text="A" xmlUrl=""/>', [OpmlFeed("", "A")]),
    ("twins are kept for the report", FEED + FEED, [A, A]),
    ("folder", f'<outline text="News">{FEED}</outline>{FEED}', [OpmlFeed(A.url, "A", "News"), A]),
    (
        "folders",
        f'<outline text="N"><outline title="M">{FEED}</outline>{FEED}</outline>',
        [OpmlFeed(A.url, "A", "N/M"), OpmlFeed(A.url, "A", "N")],
    ),
    ("folder without name", f"<outline>{FEED}</outline>", [A]),
    ("feed in a feed", f'<outline text="P" xmlUrl="p.com">{FEED}</outline>', [OpmlFeed("p.com", "P"), OpmlFeed(A.url, "A", "P")]),
    ("other elements", f"<other><b/>{FEED}</other>", [A]),
    ("prefix", '<o:outline xmlns:o="x" text="A" xmlUrl="https://a.com/feed"/>', [A]),
    ("escaped", '<outline text="&lt;&amp;&#x41;" xmlUrl="a.com/?a=1&amp;b=2"/>', [OpmlFeed("a.com/?a=1&b=2", "<&A")]),
    ("bare ampersand", '<outline text="R&D" xmlUrl="a.com/?a=1&b=2"/>', [OpmlFeed("a.com/?a=1&b=2", "R&D")]),
    ("HTML's names", '<outline text="caf&eacute;&lt;" xmlUrl="a.com"/>', [OpmlFeed("a.com", "café<")]),
    ("an unknown name", '<outline text="&what;" xmlUrl="a.com"/>', [OpmlFeed("a.com", "&what;")]),
    ("control characters", '<outline text="a\x01b" xmlUrl="a.com"/>', [OpmlFeed("a.com", "ab")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_the_subscriptions_of_a_file(text: str, wanted: list[OpmlFeed]) -> None:
    assert read_opml(make_opml(text)) == wanted


@pytest.mark.parametrize(
    ("body", "title"),
    [
        ('<opml><outline text="é" xmlUrl="a.com"/></opml>'.encode(), "é"),
        ('<?xml version="1.0" encoding="iso-8859-1"?><opml><outline text="é" xmlUrl="a.com"/></opml>'.encode("latin-1"), "é"),
        ('<?xml version="1.0" encoding="utf-8"?><opml><outline text="é" xmlUrl="a.com"/></opml>'.encode("latin-1"), "é"),
        ('<?xml version="1.0" encoding="iso-8859-1"?><opml><outline text="é" xmlUrl="a.com"/></opml>'.encode(), "é"),
        ('<?xml version="1.0" encoding="utf-16"?><opml><outline text="é" xmlUrl="a.com"/></opml>'.encode("utf-16"), "é"),
        ('\ufeff<opml><outline text="é" xmlUrl="a.com"/></opml>'.encode(), "é"),
        ('\n\n <?xml version="1.0"?><opml><outline text="é" xmlUrl="a.com"/></opml>'.encode(), "é"),
        (b'<!DOCTYPE opml SYSTEM "http://127.0.0.1:1/opml.dtd"><opml><outline text="e" xmlUrl="a.com"/></opml>', "e"),
    ],
)  # fmt: skip
def test_a_file_is_read_in_its_charset_and_after_any_prolog(body: bytes, title: str) -> None:
    assert read_opml(body) == [OpmlFeed("a.com", title)]


def test_the_page_of_a_feed_survives_reading_and_writing() -> None:
    feeds = [OpmlFeed("https://a.com/feed", "A", site_url='https://a.com/?a=1&b="2"')]
    assert read_opml(write_opml(feeds, datetime(2026, 1, 31, tzinfo=UTC)).encode()) == feeds


def test_each_feed_has_its_line_number() -> None:
    assert [feed.line for feed in read_opml(b"\n\n" + make_opml(f"{FEED}\n\n{FEED}"))] == [5, 7]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "line 1: no element found"),
        (b"  ", "line 1: no element found"),
        (b"<html><body>no</body></html>", "line 1: the root element is <html>, not <opml>"),
        (b'{"feeds": []}', "line 1: not well-formed (invalid token)"),
        (b"<opml><body>\n<outline xmlUrl='a.com'>\n</body></opml>", "line 3: mismatched tag"),
        (b"\n\n<opml><body>\n<outline xmlUrl='a", "line 4: unclosed token"),
        (b"<opml><outline a='1' a='2'/></opml>", "line 1: duplicate attribute"),
        (b'<!DOCTYPE x [\n<!ENTITY a "b">]><opml>&a;</opml>', "line 2: entity declarations are not allowed"),
        (
            b'<!DOCTYPE x [<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;]><opml/>',
            "line 1: entity declarations are not allowed",
        ),
        (b"<opml>" + b"<outline>" * MAX_DEPTH, f"line 1: elements nested more than {MAX_DEPTH} deep"),
        (b"<opml>" + b'<outline xmlUrl="a"/>' * MAX_ELEMENTS, f"line 1: more than {MAX_ELEMENTS} elements"),
        (b" " * (MAX_BYTES + 1), "larger than 10 MiB"),
    ],
)
def test_an_invalid_file_is_refused_with_line_and_reason(body: bytes, reason: str) -> None:
    with pytest.raises(CanonryError) as raised:
        read_opml(body, file="feeds.opml")
    assert str(raised.value) == f"feeds.opml: {reason}"


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
HOSTILE = [
    ("a million laughs", f'<!DOCTYPE opml [<!ENTITY l0 "ha">{LAUGHS}]><opml>&l9;</opml>'.encode()),
    ("a million tags", b"<opml>" + b"<outline/>" * 1_000_000 + b"</opml>"),
    ("a million open tags", b"<opml>" + b"<outline>" * 1_000_000),
    ("a million attributes", b"<opml><outline " + b" ".join(b"a%d='1'" % n for n in range(600_000)) + b"/></opml>"),
    ("a million ampersands", b"<opml><outline text='" + b"&" * 5_000_000 + b"'/></opml>"),
    ("one long value", b"<opml><outline xmlUrl='" + b"a" * 10_000_000 + b"'/></opml>"),
    ("a million quotes", b"<opml><outline " + b"'\"" * 4_000_000),
    ("an endless comment", b"<opml><!--" + b"-" * 9_000_000),
]


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in HOSTILE])
def test_a_hostile_file_costs_little_time(body: bytes) -> None:
    started = time.process_time()
    with suppress(CanonryError):
        read_opml(body)
    assert time.process_time() - started < 20  # seconds of CPU; linear time takes less than one


def test_the_written_file_is_opml_2() -> None:
    text = write_opml([OpmlFeed("https://b.com/?a=1&b=2", 'B "<x>"', "News/Far"), A, OpmlFeed("https://c.com/")], NOW)
    root = ET.fromstring(text)
    assert (root.tag, root.attrib) == ("opml", {"version": "2.0"})
    assert root.findtext("head/dateCreated") == "Sat, 31 Jan 2026 10:00:00 +0000"
    assert [outline.get("text") for outline in root.iter("outline")] == [
        "https://c.com/",
        "A",
        "News",
        "Far",
        'B "<x>"',
    ]
    assert {outline.get("type") for outline in root.iter("outline") if outline.get("xmlUrl")} == {"rss"}


def test_the_written_file_is_sorted_whatever_the_order_of_the_feeds() -> None:
    feeds = [OpmlFeed(f"https://{name}.com/", name, folder) for folder in ("", "x", "x/y", "b") for name in "bca"]
    assert write_opml(feeds, NOW) == write_opml(reversed(feeds), NOW)
    assert [(feed.folder, feed.title) for feed in read_opml(write_opml(feeds, NOW).encode())] == [
        (folder, name) for folder in ("", "b", "x", "x/y") for name in "abc"
    ]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(
    st.lists(st.builds(OpmlFeed, st.from_regex(r"https?://[a-z]{1,5}\.com/[!-~]{0,20}", fullmatch=True), TEXT, TEXT))
)
def test_writing_what_was_read_gives_the_same_file(feeds: list[OpmlFeed]) -> None:
    text = write_opml(feeds, NOW)
    found = read_opml(text.encode())
    assert sorted(feed.url for feed in found) == sorted(feed.url for feed in feeds)
    assert write_opml(found, NOW) == text
