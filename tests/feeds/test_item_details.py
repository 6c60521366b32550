"""Author, categories and enclosures of items, in every format (contract I10)."""

from __future__ import annotations

import pytest

from canonry.core.keys import Enclosure
from canonry.feeds.read import read_feed

RSS = (
    '<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd">'
    "<channel><managingEditor>boss@a.example</managingEditor><item>{}</item></channel></rss>"
)
ATOM = '<feed xmlns="http://www.w3.org/2005/Atom"><author><name>Feed</name></author><entry>{}</entry></feed>'
JSON = (
    '{{"version": "https://jsonfeed.org/version/1.1", "authors": [{{"name": "Feed"}}], "items": [{{"id": "1", {}}}]}}'
)

AUTHORS = [
    # why                             given                                                                    wanted
    ("RSS author", RSS.format("<author>a@b.example (Ann)</author>"), "a@b.example (Ann)"),
    ("creator before author", RSS.format("<author>a@b.example</author><dc:creator>Ann</dc:creator>"), "Ann"),
    ("podcast", RSS.format("<itunes:author>Ann</itunes:author>"), "Ann"),
    ("several creators", RSS.format("<dc:creator>Ann</dc:creator><dc:creator>Bob</dc:creator>"), "Ann, Bob"),
    ("empty creator", RSS.format("<dc:creator> </dc:creator><author>Ann</author>"), "Ann"),
    ("the editor of a channel is no author", RSS.format("<guid>1</guid>"), ""),
    ("RSS author with a name inside", RSS.format("<author><name>Ann</name></author>"), "Ann"),
    ("Atom", ATOM.format("<author><name>Ann</name><email>x@y.example</email></author>"), "Ann"),
    ("Atom without a name", ATOM.format("<author><email>x@y.example</email></author>"), "x@y.example"),
    ("two Atom authors", ATOM.format("<author><name>Ann</name></author><author><name>Bob</name></author>"), "Ann, Bob"),
    ("author of the feed", ATOM.format("<id>1</id>"), "Feed"),
    ("UTF-8 that was read as Latin-1", RSS.format("<dc:creator>AndrÃ©</dc:creator>"), "André"),
    ("JSON 1.1", JSON.format('"authors": [{"name": "Ann"}, {"name": "Bob"}]'), "Ann, Bob"),
    ("JSON 1.0", JSON.format('"author": {"name": "Ann"}'), "Ann"),
    ("JSON author of the feed", JSON.format('"title": "t"'), "Feed"),
    ("JSON author of the wrong type", JSON.format('"author": "Ann"'), "Feed"),
    ("a long name is cut", RSS.format(f"<author>{'x' * 9000}</author>"), "x" * 500),
]
CATEGORIES = [
    ("RSS", RSS.format("<category> a </category><category>b</category>"), ("a", "b")),
    ("each once", RSS.format("<category>a</category><category>a</category><category/>"), ("a",)),
    ("dc:subject", RSS.format("<dc:subject>a</dc:subject>"), ("a",)),
    ("itunes", RSS.format('<itunes:category text="News"/>'), ("News",)),
    ("Atom term before label", ATOM.format('<category term="a" label="A"/><category label="B"/>'), ("a", "B")),
    ("JSON", JSON.format('"tags": ["a", 7, null, ["x"], ""]'), ("a", "7")),
    ("JSON of the wrong type", JSON.format('"tags": "a"'), ()),
    (
        "too many are cut",
        RSS.format("".join(f"<category>{n}</category>" for n in range(500))),
        tuple(map(str, range(100))),
    ),
]
ENCLOSURES = [
    ("RSS", RSS.format('<enclosure url="https://a.example/1" type="audio/mpeg" length="12"/>'), (Enclosure("https://a.example/1", "audio/mpeg", 12),)),
    ("relative", RSS.format('<enclosure url="/1"/>'), (Enclosure("https://a.example/1"),)),
    ("a length that is none", RSS.format('<enclosure url="/1" length="12 MB"/><enclosure url="/2" length="-1"/>'), (Enclosure("https://a.example/1"), Enclosure("https://a.example/2"))),
    ("a length that no database holds", RSS.format(f'<enclosure url="/1" length="{10**19}"/>'), (Enclosure("https://a.example/1"),)),
    ("each once", RSS.format('<enclosure url="/1" length="1"/><enclosure url="/1" length="2"/>'), (Enclosure("https://a.example/1", "", 1),)),
    ("without a URL", RSS.format("<enclosure length='1'/>"), ()),
    ("Atom", ATOM.format('<link rel="enclosure" href="/1" type="audio/mpeg" length="12"/><link href="/x"/>'), (Enclosure("https://a.example/1", "audio/mpeg", 12),)),
    ("base of the element", ATOM.format('<link rel="enclosure" href="1" xml:base="https://b.example/c/"/>'), (Enclosure("https://b.example/c/1"),)),
    ("JSON", JSON.format('"attachments": [{"url": "/1", "mime_type": "a/b", "size_in_bytes": 12}, {}, 1]'), (Enclosure("https://a.example/1", "a/b", 12),)),
]  # fmt: skip


@pytest.mark.parametrize(("document", "wanted"), [row[1:] for row in AUTHORS], ids=[row[0] for row in AUTHORS])
def test_the_author_of_an_item(document: str, wanted: str) -> None:
    assert [item.author for item in read_feed(document.encode()).items] == [wanted]


@pytest.mark.parametrize(("document", "wanted"), [row[1:] for row in CATEGORIES], ids=[row[0] for row in CATEGORIES])
def test_the_categories_of_an_item(document: str, wanted: tuple[str, ...]) -> None:
    assert [item.categories for item in read_feed(document.encode()).items] == [wanted]


@pytest.mark.parametrize(("document", "wanted"), [row[1:] for row in ENCLOSURES], ids=[row[0] for row in ENCLOSURES])
def test_the_enclosures_of_an_item(document: str, wanted: tuple[Enclosure, ...]) -> None:
    [item] = read_feed(document.encode(), url="https://a.example/feed").items
    assert item.media == wanted
    assert item.enclosures == tuple(each.url for each in wanted)
