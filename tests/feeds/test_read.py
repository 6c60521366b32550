"""Reading feeds: the corpus and feedparser, formats, broken documents, charsets, refusals, limits, random bytes."""

from __future__ import annotations

import codecs
import html
import re
import resource
import warnings
from dataclasses import replace
from typing import NamedTuple

import feedparser  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from canonry.core.keys import Item
from canonry.core.url import join
from canonry.errors import InvalidUrl, NotAFeed
from canonry.feeds import read as feed_reader
from canonry.feeds.read import Feed, FeedFormat, is_web_page, read_feed, xml_parser
from canonry.net.charset import decode
from feed_cases import DEFAULT_URL, FeedCase, ItemFacts, Parser, load_feed_cases

CASES = load_feed_cases()
XML_CASES = [case for case in CASES if case.parser in {Parser.STRICT, Parser.LENIENT}]

RSS = '<rss version="2.0"><channel><title>T</title>{}</channel></rss>'
ATOM = '<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title>{}</feed>'
JSON = '{{"version": "https://jsonfeed.org/version/1.1", "title": "T", "items": [{}]}}'


def read(text: str, url: str = "") -> Feed:
    return read_feed(text.encode(), url=url)


def get_only_item(document: Feed) -> Item:
    (item,) = document.items
    return item


# --- The corpus ---------------------------------------------------------------------------------------------------


class FeedFacts(NamedTuple):
    """What readers of a feed can be compared by."""

    title: str | None
    self_url: str | None
    items: list[ItemFacts]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_document_is_read_as_its_facts_say(case: FeedCase) -> None:
    if case.format is None:
        with pytest.raises(NotAFeed):
            read_feed(case.body, url=case.url, content_type=case.content_type)
        return
    found = read_feed(case.body, url=case.url, content_type=case.content_type)
    assert (found.format, found.title, found.self_url) == (case.format, case.title, case.self_url)
    assert [ItemFacts(guid=item.guid, link=item.link, title=item.title) for item in found.items] == case.items
    assert found.is_recovered == (case.parser is Parser.LENIENT)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_feedparser_agrees_with_the_facts_unless_they_say_why_not(case: FeedCase) -> None:
    wanted = FeedFacts(case.title, case.self_url, case.items)
    found = read_with_feedparser(case)
    is_equal = found is not None and normalize_facts(found, case.url) == normalize_facts(wanted, case.url)
    assert is_equal == (not case.feedparser_differs)


def test_the_corpus_is_large_enough() -> None:
    assert len(CASES) >= 300
    assert sum(bool(case.feedparser_differs) for case in XML_CASES) < len(CASES) / 10
    assert sum(case.parser is Parser.LENIENT for case in CASES) >= 50


@pytest.mark.parametrize("case", XML_CASES, ids=lambda case: case.name)
def test_both_parsers_agree_on_well_formed_documents(case: FeedCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a document that is broken for one day would update all its items."""
    strict = read_feed(case.body, content_type=case.content_type)
    monkeypatch.setattr(feed_reader, "parse_strict", lambda text: None)
    lenient = read_feed(case.body, content_type=case.content_type)
    assert lenient.is_recovered
    assert strict.is_recovered or lenient == replace(strict, is_recovered=True)


def read_with_feedparser(case: FeedCase) -> FeedFacts | None:
    """Return what feedparser finds, or None if it raises."""
    headers = {"content-location": case.url} | ({"content-type": case.content_type} if case.content_type else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            parsed = feedparser.parse(case.body, response_headers=headers)
        except ValueError:
            return None
    links = parsed.feed.get("links", [])
    self_url = next((link["href"] for link in links if link.get("rel") == "self" and link.get("href")), None)
    items = [
        ItemFacts(guid=entry.get("id"), link=entry.get("link"), title=entry.get("title")) for entry in parsed.entries
    ]
    return FeedFacts(parsed.feed.get("title"), self_url, items)


def normalize_facts(facts: FeedFacts, url: str) -> FeedFacts:
    """Return facts that are equal for two ways to write the same thing."""
    self_url = make_absolute(facts.self_url, url)
    return FeedFacts(
        strip_markup(facts.title),
        "" if self_url == make_absolute(url, url) else self_url,  # the URL it came from adds nothing (contract F4)
        [
            ItemFacts(guid=item["guid"] or "", link=make_absolute(item["link"], url), title=strip_markup(item["title"]))
            for item in facts.items
        ],
    )


def strip_markup(title: str | None) -> str:
    """Return a title as it looks: feedparser leaves markup, entities and control characters in."""
    text = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", "", title or "")
    return " ".join(re.sub(r"<[^<>]*>", "", html.unescape(html.unescape(text))).split())


def make_absolute(link: str | None, url: str) -> str:
    """A link as a browser would follow it."""
    try:
        return join(url, link) if link else ""
    except InvalidUrl:
        return link or ""


# --- Items and feeds ----------------------------------------------------------------------------------------------

ITEMS = [
    # why                          given                                                             wanted
    ("guid is the link", RSS.format("<item><guid>https://a.example/1</guid></item>"), Item("https://a.example/1", "https://a.example/1")),
    ("no permalink", RSS.format('<item><guid isPermaLink="false">https://a.example/1</guid></item>'), Item("https://a.example/1")),
    ("a link wins", RSS.format("<item><guid>https://a.example/1</guid><link>https://a.example/2</link></item>"), Item("https://a.example/1", "https://a.example/2")),
    ("an empty link does not", RSS.format("<item><link/><guid>https://a.example/1</guid></item>"), Item("https://a.example/1", "https://a.example/1")),
    ("dates", RSS.format("<item><pubDate> Mon, 06 Jan 2025 </pubDate></item>"), Item(published="Mon, 06 Jan 2025")),
    ("dc:date without pubDate", RSS.format('<item xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:date>2025</dc:date></item>'), Item(published="2025")),
    ("pubDate before dc:date", RSS.format("<item><dc:date>2024</dc:date><pubDate>2025</pubDate></item>"), Item(published="2025")),
    ("content before description", RSS.format("<item><description>d</description><content:encoded>c</content:encoded></item>"), Item(text="c")),
    ("enclosures, each once", RSS.format('<item><enclosure url="https://a.example/1.mp3"/><enclosure url="https://a.example/1.mp3"/></item>'), Item(enclosures=("https://a.example/1.mp3",))),
    ("upper case", "<RSS VERSION='2.0'><CHANNEL><ITEM><TITLE>t</TITLE><GUID ISPERMALINK='false'>g</GUID></ITEM></CHANNEL></RSS>", Item("g", title="t")),
    ("rdf:about", '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"><item rdf:about="urn:1"><link>https://a.example/</link></item></rdf:RDF>', Item("urn:1", "https://a.example/")),
    ("alternate, not self", ATOM.format('<entry><id>urn:1</id><link rel="self" href="https://a.example/s"/><link href="https://a.example/a"/></entry>'), Item("urn:1", "https://a.example/a")),
    ("self is no link", ATOM.format('<entry><id>urn:1</id><link rel="self" href="https://a.example/s"/></entry>'), Item("urn:1")),
    ("an id may be the link", ATOM.format("<entry><id>https://a.example/1</id></entry>"), Item("https://a.example/1", "https://a.example/1")),
    ("Atom dates", ATOM.format("<entry><published>1</published><updated>2</updated></entry>"), Item(published="1", updated="2")),
    ("Atom 0.3 dates", '<feed version="0.3" xmlns="http://purl.org/atom/ns#"><entry><issued>1</issued><modified>2</modified></entry></feed>', Item(published="1", updated="2")),
    ("rel=enclosure", ATOM.format('<entry><link rel="enclosure" href="https://a.example/1.mp3"/></entry>'), Item(enclosures=("https://a.example/1.mp3",))),
    ("html title", ATOM.format('<entry><title type="html">a &lt;b>b&lt;/b></title></entry>'), Item(title="a <b>b</b>")),
    ("text title", ATOM.format('<entry><title type="text">a &lt; b</title></entry>'), Item(title="a < b")),
    ("xhtml title", ATOM.format('<entry><title type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">a <b>b</b> &amp; c</div></title></entry>'), Item(title="a <b>b</b> &amp; c")),
    ("html title without script", ATOM.format('<entry><title type="html">a&lt;script>b&lt;/script></title></entry>'), Item(title="a")),
    ("text title with script", ATOM.format("<entry><title>&lt;script>b&lt;/script></title></entry>"), Item(title="<script>b</script>")),
    ("source is not the entry", ATOM.format("<entry><source><id>s</id><title>s</title></source><id>urn:1</id></entry>"), Item("urn:1")),
    ("XHTML content", ATOM.format('<entry><content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p class="x">a<br/>b</p></div></content></entry>'), Item(text='<p class="x">a<br></br>b</p>')),
    ("base64", ATOM.format('<entry><title mode="base64">dA==</title></entry>'), Item(title="t")),
    ("not base64 after all", ATOM.format('<entry><title mode="base64">t</title></entry>'), Item(title="t")),
    ("media:title only alone", RSS.format('<item xmlns:media="http://search.yahoo.com/mrss/"><media:group><media:title>m</media:title></media:group></item>'), Item(title="m")),
    ("numbers of windows-1252", RSS.format("<item><title>don&#146;t</title></item>"), Item(title="don’t")),
    ("UTF-8 that was read as Latin-1", RSS.format("<item><title>Ã©</title></item>"), Item(title="é")),
    ("JSON", JSON.format('{"id": "1", "url": "https://a.example/1", "title": "t", "content_html": "c", "summary": "s", "date_published": "d", "date_modified": "m", "attachments": [{"url": "https://a.example/1.mp3"}, {}, 1]}'), Item("1", "https://a.example/1", "t", "d", "c", ("https://a.example/1.mp3",), "m")),
    ("JSON number as id", JSON.format('{"id": 7, "external_url": "https://a.example/"}'), Item("7", "https://a.example/")),
    ("JSON without id", JSON.format('{"id": true, "url": "https://a.example/", "title": ["t"]}'), Item(link="https://a.example/")),
    ("JSON without id and URL", JSON.format('{"content_text": "t"}'), Item(text="t")),
    ("guid that is no URL", RSS.format("<item><guid>2024-01-07</guid></item>"), Item("2024-01-07")),
    ("guid of another scheme", RSS.format('<item><guid isPermaLink="true">tag:a.example,2024:1</guid></item>'), Item("tag:a.example,2024:1")),
    ("permalink marked oddly", RSS.format('<item><guid isPermaLink=" False ">https://a.example/1</guid></item>'), Item("https://a.example/1")),
    ("permalink marked in capitals", RSS.format('<item><guid isPermaLink="TRUE">https://a.example/1</guid></item>'), Item("https://a.example/1", "https://a.example/1")),
    ("an empty second guid", RSS.format('<item><guid isPermaLink="false">g</guid><guid/></item>'), Item("g")),
    ("guid and link in media", RSS.format('<item xmlns:media="http://search.yahoo.com/mrss/"><guid isPermaLink="false">g</guid><link>https://a.example/1</link><media:group><guid>m</guid><link>https://a.example/m</link><id>i</id><media:content url="https://a.example/v"><guid>n</guid><enclosure url="https://a.example/e"/></media:content></media:group><media:content><link>https://a.example/n</link><pubDate>x</pubDate></media:content></item>'), Item("g", "https://a.example/1")),
    ("guid and link of a foreign default namespace", RSS.format('<item><guid isPermaLink="false">g</guid><link>https://a.example/1</link><guid xmlns="urn:other">x</guid><link xmlns="urn:other">https://a.example/x</link></item>').replace("<rss ", '<rss xmlns="http://purl.org/rss/1.0/" ', 1), Item("g", "https://a.example/1")),
    ("guid and link of a foreign prefix", RSS.format('<item xmlns:o="urn:other"><o:guid>x</o:guid><guid isPermaLink="false">g</guid><link>https://a.example/1</link><o:link>https://a.example/x</o:link></item>'), Item("g", "https://a.example/1")),
    ("Atom beside RSS", RSS.format('<item xmlns:atom="http://www.w3.org/2005/Atom"><atom:id>x</atom:id><guid isPermaLink="false">g</guid><link>https://a.example/1</link><atom:link href="https://a.example/x"/><atom:id>y</atom:id></item>'), Item("g", "https://a.example/1")),
    ("JSON with half a character", JSON.format('{"id": "1", "title": "\\ud83d"}'), Item("1", title="?")),
]  # fmt: skip


@pytest.mark.parametrize(("document", "wanted"), [row[1:] for row in ITEMS], ids=[row[0] for row in ITEMS])
def test_the_fields_of_an_item(document: str, wanted: Item) -> None:
    found = read(document)
    assert get_only_item(found) == wanted
    undeclared = [each for each in ("content", "dc") if f"<{each}:" in document and f"xmlns:{each}=" not in document]
    assert found.is_recovered == bool(undeclared)


RELATIVE = [
    # why                      given                                                                              wanted
    ("against the URL", RSS.format("<item><link>/1</link></item>"), "https://h.example/1"),
    ("against xml:base", '<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://b.example/x/"><entry><link href="1"/></entry></feed>', "https://b.example/x/1"),
    ("xml:base itself relative", '<feed xmlns="http://www.w3.org/2005/Atom" xml:base="x/"><entry xml:base="y/"><link href="1"/></entry></feed>', "https://h.example/a/x/y/1"),
    ("JSON", JSON.format('{"id": "1", "url": "1"}'), "https://h.example/a/1"),
    ("absolute ones stay as written", RSS.format("<item><link>HTTP://A.example</link></item>"), "HTTP://A.example"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "wanted"), [row[1:] for row in RELATIVE], ids=[row[0] for row in RELATIVE])
def test_a_relative_link_is_resolved(document: str, wanted: str) -> None:
    assert get_only_item(read(document, url="https://h.example/a/feed")).link == wanted


def test_a_guid_does_not_depend_on_the_url_of_the_feed() -> None:
    document = '<rss xml:base="https://b.example/"><channel><item><guid>1</guid></item></channel></rss>'
    assert get_only_item(read(document, url="https://h.example/")).guid == "1"


FEEDS = [
    # why        given                                                                        format, version
    ("RSS 2.0", '<rss version="2.0"><channel/></rss>', (FeedFormat.RSS, "2.0")),
    ("RSS 0.91", '<rss version="0.91"><channel/></rss>', (FeedFormat.RSS, "0.91")),
    ("RSS without version", "<rss/>", (FeedFormat.RSS, "")),
    ("a channel alone", "<channel><item/></channel>", (FeedFormat.RSS, "")),
    ("RSS 1.0", '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"/>', (FeedFormat.RDF, "1.0")),
    ("RSS 0.90", '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://my.netscape.com/rdf/simple/0.9/"><channel/></rdf:RDF>', (FeedFormat.RDF, "0.90")),
    ("Atom 1.0", ATOM.format(""), (FeedFormat.ATOM, "1.0")),
    ("Atom 0.3", '<feed version="0.3" xmlns="http://purl.org/atom/ns#"/>', (FeedFormat.ATOM, "0.3")),
    ("Atom with a prefix", '<a:feed xmlns:a="http://www.w3.org/2005/Atom"/>', (FeedFormat.ATOM, "1.0")),
    ("an entry alone", '<entry xmlns="http://www.w3.org/2005/Atom"/>', (FeedFormat.ATOM, "1.0")),
    ("JSON Feed 1.0", '{"version": "https://jsonfeed.org/version/1", "items": []}', (FeedFormat.JSON, "1")),
    ("JSON Feed 1.1", JSON.format(""), (FeedFormat.JSON, "1.1")),
    ("JSON Feed without version", '{"feed_url": "", "items": []}', (FeedFormat.JSON, "")),
]  # fmt: skip


@pytest.mark.parametrize(("document", "wanted"), [row[1:] for row in FEEDS], ids=[row[0] for row in FEEDS])
def test_format_and_version_with_both_parsers(document: str, wanted: tuple[FeedFormat, str]) -> None:
    found = read(document)
    assert (found.format, found.version) == wanted
    broken = read(document.replace(">", ">&", 1)) if document.startswith("<") else found
    assert (broken.format, broken.version) == wanted


def test_the_fields_of_a_feed() -> None:
    found = read(
        '<rss version="2.0" xmlns:a10="http://www.w3.org/2005/Atom"><channel><title>A &amp; B</title>'
        '<link>https://a.example/</link><ttl> 60 </ttl><a10:link rel="self" href="feed.xml"/>'
        '<a10:link rel="hub" href="https://hub.example/"/><a10:link rel="hub" href="https://hub.example/"/>'
        "<image><title>i</title><link>https://i.example/</link></image></channel></rss>",
        url="https://a.example/x/",
    )
    assert found == Feed(
        title="A & B",
        format=FeedFormat.RSS,
        version="2.0",
        link="https://a.example/",
        self_url="feed.xml",
        hubs=("https://hub.example/",),
        ttl=60,
        items=(),
        is_recovered=False,
    )


@pytest.mark.parametrize("ttl", ["", "soon", "-5", "1.5", "²", "9" * 5000])
def test_an_invalid_ttl_is_ignored(ttl: str) -> None:
    assert read(RSS.format(f"<ttl>{ttl}</ttl>")).ttl is None


def test_a_self_url_is_resolved_only_against_xml_base() -> None:
    link = '<link rel="self" href="feed"/>'
    assert read(ATOM.format(link), url="https://h.example/").self_url == "feed"
    based = ATOM.format(link).replace("<feed ", '<feed xml:base="https://b.example/x/" ')
    assert read(based, url="https://h.example/").self_url == "https://b.example/x/feed"


# --- Broken documents ---------------------------------------------------------------------------------------------

ITEM = "<item><title>{}</title><link>https://a.example/{}</link><guid>{}</guid></item>"
TWO = RSS.format(ITEM.format("a", 1, "g1") + ITEM.format("b", 2, "g2"))
BROKEN = [
    # why                         given
    ("bare ampersand", TWO.replace("<title>T", "<title>Q & A")),
    ("HTML entity", TWO.replace("<title>T", "<title>&eacute;&nbsp;&hellip;")),
    ("undeclared prefix", TWO.replace("<item>", "<item><dc:date>2025</dc:date><media:thumbnail url='x'/>")),
    ("control characters", TWO.replace("<title>T", "<title>\x08\x1b\x00")),
    ("PHP warning", "<br />\n<b>Warning</b>: nothing <b>here</b><br />\n<?xml version='1.0'?>" + TWO + "<!-- -- -->"),
    ("text before", "Notice: <x> & y\n" + TWO + "&"),
    ("item not closed", TWO.replace("</item>", "")),
    ("titles not closed", TWO.replace("</title>", "")),
    ("links not closed", TWO.replace("</link>", "")),
    ("stray end tags", TWO.replace("</title>", "</b></title></p>")),
    ("description not closed", TWO.replace("<guid>", "<description>d <p>e<guid>")),
    ("channel closed early", TWO.replace("<item>", "</channel><item>")),
    ("root not closed", TWO.replace("</rss>", "")),
    ("junk after the root", TWO + "<script>x</script><item><title>c</title></item>"),
    ("quotes not closed", TWO.replace('version="2.0"', 'version="2.0')),
    ("unclosed comment at the end", TWO.replace("</channel>", "<!-- ")),
    ("document type with an entity", '<!DOCTYPE rss [<!ENTITY x "T"> <!-- ] > -->]>' + TWO.replace("T<", "&x;<")),
    ("unclosed document type", "<!DOCTYPE rss [ <!ENTITY x 'T'> " + TWO.replace("<title>T", "<title>&")),
    ("wrapped", f"<response>{TWO}</response>"),
]  # fmt: skip


@pytest.mark.parametrize("document", [row[1] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_items_survive_a_broken_document(document: str) -> None:
    found = read(document)
    wanted = [("a", "https://a.example/1", "g1"), ("b", "https://a.example/2", "g2")]
    assert [(item.title, item.link, item.guid) for item in found.items] == wanted
    assert found.is_recovered


TITLES = [
    # why                               given                                       wanted
    ("bare ampersand", "R&D & more", "R&D & more"),
    ("names of HTML", "caf&eacute;&hellip; &copy;", "café… ©"),
    ("no semicolon, no entity", "&copy=1 &eacute", "&copy=1 &eacute"),
    ("unknown names stay", "&nothing; & &amp;lt;", "&nothing; & &lt;"),
    ("numbers", "&#233;&#xe9;&#xE9; &", "ééé &"),
    ("numbers that are no characters", "&#0;&#xD800;&#x110000;&#1; &", "\ufffd\ufffd\ufffd\ufffd &"),
    ("less than", "1 < 2 & 3", "1 < 2 & 3"),
    ("CDATA", "<![CDATA[a & <b>]]> &", "a & <b> &"),
    ("markup", "a <b>b <i>c</b> &", "a <b>b <i>c</i></b> &amp;"),
    ("line ends", "a\r\nb &", "a\nb &"),
    ("tags that have no end", "a <br> b <img src=x> c", 'a <br></br> b <img src="x"></img> c'),
]


@pytest.mark.parametrize(("title", "wanted"), [row[1:] for row in TITLES], ids=[row[0] for row in TITLES])
def test_a_title_with_broken_markup(title: str, wanted: str) -> None:
    found = read(RSS.format(f"<item><title>{title}</title></item>") + "&")
    assert get_only_item(found).title == wanted
    assert found.is_recovered


@pytest.mark.parametrize("end", ["</gui", "</", "<", "", "&am"])
@pytest.mark.parametrize("name", ["guid", "link", "title", "pubDate"])
def test_an_item_and_a_value_cut_by_the_end_of_the_document_are_dropped(name: str, end: str) -> None:
    """Half an id would be a different id."""
    found = read(f"<rss><channel><item/><item><description>d</description><{name}>https://a.example/1{end}")
    assert (found.items, found.cut_items) == ((Item(),), 1)
    assert read(f"<rss><channel><{name}>https://a.example/1{end}").title == ""


@pytest.mark.parametrize("size", range(1, len(TWO)))
def test_a_document_cut_anywhere_has_whole_items_or_none(size: int) -> None:
    whole = read(TWO).items
    try:
        found = read(TWO[:size])
    except NotAFeed:
        assert size < len("<rss ")
        return
    assert found.items == whole[: len(found.items)]
    begun = len(re.findall(r"<item(?:>|\Z)", TWO[:size]))
    assert found.cut_items == begun - len(found.items)
    # Also if it ends between two items: otherwise its ETag would be stored, and a 304 would hide the rest.
    assert found.is_cut_short or len(found.items) == len(whole)


FOUR = RSS.format("".join(ITEM.format(n, n, n) for n in range(4)))
UNCLOSED = [
    # why                        given                                                                      items, cut items
    ("CDATA in a title", FOUR.replace("<title>2", "<title><![CDATA[2"), 2, 2),
    ("CDATA in a last title", FOUR.replace("<title>3", "<title><![CDATA[3"), 3, 1),
    ("CDATA between items", FOUR.replace("</item>", "</item><![CDATA[", 2), 1, 3),
    ("CDATA after the items", FOUR.replace("</channel>", "<![CDATA[ </channel>"), 4, 0),
    ("comment in an item", FOUR.replace("<title>2", "<!-- no > end <title>2"), 2, 2),
    ("comment between items", FOUR.replace("</item>", "</item><!-- > <!---", 2), 1, 3),
    ("comment after the items", FOUR.replace("</channel>", "<!-- </channel>"), 4, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "items", "cut_items"), [row[1:] for row in UNCLOSED], ids=[row[0] for row in UNCLOSED]
)
def test_an_unclosed_section_or_comment_cuts_the_document(document: str, items: int, cut_items: int) -> None:
    """Also if the end tag of the root follows: nobody knows what belongs to the section."""
    found = read(document)
    assert [item.guid for item in found.items] == [str(number) for number in range(items)]
    assert (found.cut_items, found.is_cut_short) == (cut_items, True)


ATTRIBUTES = [
    ("RDF", '<rdf:RDF xmlns="http://purl.org/rss/1.0/" xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">', "rdf:RDF", "rdf:about"),
    ("Atom", '<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://a.example/">', "feed", "xml:base"),
]  # fmt: skip


@pytest.mark.parametrize(("start", "root", "attribute"), [row[1:] for row in ATTRIBUTES], ids=["RDF", "Atom"])
def test_an_item_cut_inside_its_own_tag_is_not_read(start: str, root: str, attribute: str) -> None:
    name = "entry" if root == "feed" else "item"
    items = "".join(f'<{name} {attribute}="https://a.example/{n}/"><title>{n}</title></{name}>' for n in range(3))
    document = f"{start}{items}</{root}>"
    whole = read(document).items
    assert len(whole) == 3
    for size in range(len(start), len(document)):
        found = read(document[:size])
        assert found.items == whole[: len(found.items)], document[:size]


@pytest.mark.parametrize("group", [False, True])
def test_items_with_nothing_but_media_are_told_apart(group: bool) -> None:
    media = [f'<media:content url="/{n}.mp4"/>' for n in range(3)]
    items = "".join(
        f"<item><media:group>{one}</media:group></item>" if group else f"<item>{one}</item>" for one in media
    )
    document = RSS.format(items).replace("<rss ", '<rss xmlns:media="http://search.yahoo.com/mrss/" ')
    assert [item.enclosures for item in read(document).items] == [(f"/{n}.mp4",) for n in range(3)]


# --- Charsets -----------------------------------------------------------------------------------------------------

RUSSIAN, JAPANESE, FRENCH = "Записки с чердака", "路地裏の喫茶帳", "Où poser «les ruches» – l’été"
XML = '<?xml version="1.0"{}?>' + RSS.format("").replace(">T<", ">{}<")


def encode_feed(title: str, charset: str, *, declared: str = "", mark: bytes = b"") -> bytes:
    declaration = f' encoding="{declared}"' if declared else ""
    return mark + XML.format(declaration, title).encode(charset)


CHARSETS = [
    # why                             body                                                          content type  wanted
    ("UTF-8", encode_feed(RUSSIAN, "utf-8"), "", RUSSIAN),
    ("UTF-8 with mark", encode_feed(RUSSIAN, "utf-8", mark=codecs.BOM_UTF8), "", RUSSIAN),
    ("the mark wins", encode_feed(RUSSIAN, "utf-8", declared="koi8-r", mark=codecs.BOM_UTF8), "a; charset=koi8-r", RUSSIAN),
    ("UTF-16 LE with mark", encode_feed(RUSSIAN, "utf-16-le", declared="utf-8", mark=codecs.BOM_UTF16_LE), "", RUSSIAN),
    ("UTF-16 BE with mark", encode_feed(RUSSIAN, "utf-16-be", mark=codecs.BOM_UTF16_BE), "", RUSSIAN),
    ("UTF-16 LE without", encode_feed(RUSSIAN, "utf-16-le", declared="utf-16"), "", RUSSIAN),
    ("UTF-16 BE without", encode_feed(RUSSIAN, "utf-16-be"), "text/xml; charset=utf-8", RUSSIAN),
    ("UTF-32 LE", encode_feed(RUSSIAN, "utf-32-le", mark=codecs.BOM_UTF32_LE), "", RUSSIAN),
    ("UTF-32 BE without mark", encode_feed(RUSSIAN, "utf-32-be"), "", RUSSIAN),
    ("said to be UTF-16", encode_feed(RUSSIAN, "utf-8", declared="utf-16"), "", RUSSIAN),
    ("KOI8-R", encode_feed(RUSSIAN, "koi8-r", declared="KOI8-R"), "", RUSSIAN),
    ("KOI8-R by the server", encode_feed(RUSSIAN, "koi8-r"), 'text/xml; CharSet="koi8-r"', RUSSIAN),
    ("server wrong, document right", encode_feed(RUSSIAN, "koi8-r", declared="koi8-r"), "text/xml; charset=utf-8", RUSSIAN),
    ("server right, document wrong", encode_feed(RUSSIAN, "koi8-r", declared="utf-8"), "text/xml; charset=koi8-r", RUSSIAN),
    ("server's default is no statement", encode_feed(RUSSIAN, "utf-8"), "text/xml; charset=iso-8859-1", RUSSIAN),
    ("Shift_JIS", encode_feed(JAPANESE, "shift_jis", declared="Shift_JIS"), "", JAPANESE),
    ("Shift_JIS of Windows", encode_feed("①", "cp932", declared="Shift_JIS"), "", "①"),
    ("EUC-JP", encode_feed(JAPANESE, "euc-jp", declared="euc-jp"), "", JAPANESE),
    ("ISO-2022-JP", encode_feed(JAPANESE, "iso-2022-jp", declared="iso-2022-jp"), "", JAPANESE),
    ("GB18030 said to be GB2312", encode_feed("囍€", "gb18030", declared="gb2312"), "", "囍€"),
    ("GBK said to be GB2312, nearly UTF-8", encode_feed("通通通通囍", "gbk", declared="gb2312"), "", "通通通通囍"),
    ("bytes that are UTF-8, too", encode_feed("联通", "gbk", declared="gbk"), "", "联通"),
    ("windows-1252 said to be Latin-1", encode_feed(FRENCH, "cp1252", declared="iso-8859-1"), "", FRENCH),
    ("windows-1252 said to be UTF-8", encode_feed(FRENCH, "cp1252", declared="utf-8"), "", FRENCH),
    ("windows-1252 without a word", encode_feed(FRENCH, "cp1252"), "", FRENCH),
    ("one bad byte", encode_feed(RUSSIAN, "utf-8").replace(b"</title>", b"\xff</title>"), "", RUSSIAN + "\ufffd"),
    ("one bad byte in Japanese", encode_feed(JAPANESE, "euc-jp", declared="euc-jp").replace(b"</title>", b"\xff</title>"), "", JAPANESE + "\ufffd"),
    ("no charset", encode_feed(RUSSIAN, "utf-8", declared="nothing"), "text/xml; charset=", RUSSIAN),
    ("a codec that is no charset", encode_feed("a-b", "utf-8", declared="punycode"), "text/xml; charset=idna", "a-b"),
    ("a codec of escapes", encode_feed("\\u0041", "utf-8", declared="unicode_escape"), "", "\\u0041"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "content_type", "wanted"), [row[1:] for row in CHARSETS], ids=[row[0] for row in CHARSETS]
)
def test_a_title_is_decoded(body: bytes, content_type: str, wanted: str) -> None:
    assert read_feed(body, content_type=content_type).title == wanted


@pytest.mark.parametrize("content_type", ["charset=iso-8859-1", "charset=us-ascii", "charset=cp1252", "charset=no", ""])
def test_valid_utf8_wins_over_charsets_that_are_mostly_defaults(content_type: str) -> None:
    """Tested on the text: titles are repaired afterwards, which would hide a wrong charset."""
    assert decode("<a>é…</a>".encode(), content_type) == "<a>é…</a>"


def test_valid_utf8_wins_if_server_or_document_names_it() -> None:
    body = '<?xml version="1.0" encoding="utf-8"?><a>é…</a>'.encode()
    assert decode(body, "text/xml; charset=koi8-r") == body.decode()
    assert decode(body.replace(b"utf-8", b"koi8-r"), "text/xml; charset=utf-8").endswith("<a>é…</a>")
    assert decode(body.replace(b"utf-8", b"koi8-r"), "") == body.replace(b"utf-8", b"koi8-r").decode("koi8-r")


def test_every_byte_decodes_in_every_charset() -> None:
    every = bytes(range(256))
    for charset in (
        "utf-8",
        "ascii",
        "latin-1",
        "cp1252",
        "shift_jis",
        "euc_kr",
        "utf-16",
        "hz",
        "no",
        "hex",
        "undefined",
    ):
        decode(b"<rss>" + every, f"text/xml; charset={charset}").encode()


# --- Refused documents ---------------------------------------------------------------------------------------------

WEB_PAGES = [
    ("HTML", b"<!DOCTYPE html><html><head><title>T</title></head></html>"),
    ("HTML with a mark", codecs.BOM_UTF8 + b"\n<!-- c --><HTML>"),
    ("HTML in UTF-16", "<html></html>".encode("utf-16")),
    ("XHTML", b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"/>'),
    ("HTML that shows a feed", b"<html><body><rss version='2.0'></rss></body></html>"),
    ("HTML after an error", b"Warning: x\n<!doctype html><p>"),
    ("scraps of HTML", b"<div>404</div>"),
]
REFUSED = [
    # why                       given                                                              reason
    ("nothing", b"", "empty"),
    ("white space", b" \r\n\t ", "empty"),
    ("OPML", b'<?xml version="1.0"?><opml version="2.0"><body/></opml>', "the root element is <opml>"),
    ("sitemap", b"<urlset><url/></urlset>", "the root element is <urlset>"),
    ("SVG", b'<svg xmlns="x"><metadata><rdf:RDF/></metadata></svg>', "the root element is <svg>"),
    ("list of feeds", b"<feeds><feed url='x'/></feeds>", "the root element is <feeds>"),
    ("long name", b"<" + b"a" * 1000 + b"/>", f"the root element is <{'a' * 60}>"),
    ("RDF", b'<rdf:RDF xmlns:rdf="x"><rdf:Description/></rdf:RDF>', "the root element is <rdf:RDF>, and it has no channel"),
    ("text", b"404 page not found", "neither XML nor JSON"),
    ("bytes", bytes(range(256)), "neither XML nor JSON"),
    ("PDF", b"%PDF-1.7\n<< /Type /Catalog >>", "neither XML nor JSON"),
    ("JSON list", b"[]", "JSON, but not an object"),
    ("JSON of another kind", b'{"items": []}', "JSON, but not a JSON Feed"),
    ("JSON without items", b'{"version": "https://jsonfeed.org/version/1"}', "JSON without a list of items"),
    ("items that are none", b'{"version": "https://jsonfeed.org/version/1", "items": {}}', "JSON without a list of items"),
    ("deep JSON", b'{"a":' * 100_000, "JSON nested too deep"),
    ("wide JSON", b'{"items": [' + b"{}," * 500_000 + b"{}]}", "JSON with too many values"),
]  # fmt: skip


@pytest.mark.parametrize("body", [row[1] for row in WEB_PAGES], ids=[row[0] for row in WEB_PAGES])
def test_a_web_page_is_recognized_and_refused(body: bytes) -> None:
    assert is_web_page(body)
    with pytest.raises(NotAFeed) as caught:
        read_feed(body, url=DEFAULT_URL)
    assert (caught.value.target, caught.value.reason) == (DEFAULT_URL, "a web page")


@pytest.mark.parametrize(("body", "reason"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_document_that_is_not_a_feed_is_refused(body: bytes, reason: str) -> None:
    assert not is_web_page(body)
    with pytest.raises(NotAFeed) as caught:
        read_feed(body, url=DEFAULT_URL)
    assert (caught.value.target, caught.value.reason) == (DEFAULT_URL, reason)


@pytest.mark.parametrize("body", ['{"items": [],}', "{'a': 1}", '{"items": [', '{"id": ' + "1" * 5000 + "}"])
def test_broken_json_is_refused(body: str) -> None:
    with pytest.raises(NotAFeed, match="broken JSON"):
        read(body)


def test_a_feed_is_not_a_web_page() -> None:
    assert not is_web_page(TWO.encode())
    assert not is_web_page(b"")


# --- Limits -------------------------------------------------------------------------------------------------------

MEGABYTE = 1_000_000
LAUGHS = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
HOSTILE = [
    # why                          given                                                                        items
    ("nested tags", RSS.format("<a>" * 100_000), 0),
    ("nested tags, closed", RSS.format("<a>" * 50_000 + "</a>" * 50_000), 0),
    ("nested items", "<rss>" + "<item>" * 50_000 + "</item>" * 50_000 + "</rss>", xml_parser.MAX_ITEMS),
    ("nested markup", RSS.format("<item><title>" + "<b>" * 50_000 + "</b>" * 50_000 + "</title></item>"), 1),
    ("nested div", RSS.format("<item><title>" + "<div>" * 50_000 + "</div>" * 50_000 + "</title></item>"), 1),
    ("billion laughs", f'<!DOCTYPE rss [<!ENTITY e0 "ha">{LAUGHS}]>' + RSS.format("<item><title>&e11;</title></item>"), 1),
    ("long entity", f'<!DOCTYPE rss [<!ENTITY e "{"x" * 100_000}">]>' + RSS.format(f"<item><title>{'&e;' * 100_000}</title></item>"), 1),
    ("many references", '<!DOCTYPE rss [<!ENTITY e "x">]>' + RSS.format(f"<item><title>{'&e;' * 3_000_000}</title></item>"), 0),
    ("external entity", '<!DOCTYPE rss [<!ENTITY e SYSTEM "file:///etc/passwd">]>' + RSS.format("<item><title>&e;</title></item>"), 1),
    ("long text", RSS.format(f"<item><description>{'x' * 10 * MEGABYTE}</description></item>"), 1),
    ("long CDATA without end", RSS.format(f"<item/><item><description><![CDATA[{'x' * 10 * MEGABYTE}"), 1),
    ("many items", RSS.format("".join(ITEM.format(n, n, n) for n in range(200_000))), None),
    ("many empty items", RSS.format("<item/>" * 200_000), xml_parser.MAX_ITEMS),
    ("long attribute", RSS.format(f'<item a="{"x" * MEGABYTE}"/>'), 1),
    ("long attribute, broken", RSS.format(f'<item a="{"x" * MEGABYTE}"/>&'), 1),
    ("long namespace", f'<rss xmlns="{"u" * MEGABYTE}">' + "<item/>" * 5_000 + "</rss>", 5_000),
    ("long namespace with prefix", f'<rss xmlns:x="{"u" * MEGABYTE}">' + "<x:y/><item/>" * 5_000 + "</rss>", 5_000),
    ("long xml:base", f'<rss xml:base="https://a.example/{"u/" * MEGABYTE}">' + "<item><link>x</link></item>" * 5_000 + "</rss>", 5_000),
    ("many attributes", f"<rss {'a=1 ' * 500_000}><item/></rss>", 1),
    ("many namespaces", "<rss>" + "".join(f'<x:a xmlns:x="u{n}"/>' for n in range(150_000)) + "</rss>", 0),
    ("comments with another end", RSS.format("<item/>" + "<!-- >" * 600_000), 1),
    ("comments without end", RSS.format("<item/>" + "<!--" * MEGABYTE), 1),
    ("CDATA without end", RSS.format("<item/>" + "<![CDATA[" * MEGABYTE), 1),
    ("quotes without end", RSS.format("<item/>" + "<a '\"" * MEGABYTE), 1),
    ("ends without start", RSS.format("<item/>" + "</a>" * MEGABYTE), 1),
    ("scripts in a title", ATOM.format(f'<entry><title type="html">{"&lt;script" * 500_000}</title></entry>'), 1),
    ("comments in a document type", "<!DOCTYPE a [" + "<!--" * 2 * MEGABYTE, None),
    ("brackets in a document type", "<!DOCTYPE a " + "[" * 10 * MEGABYTE, None),
    ("punycode", '<?xml version="1.0" encoding="punycode"?>' + RSS.format("-x" * MEGABYTE), 0),
    ("deep JSON", '{"items": ' + "[" * 5 * MEGABYTE, None),
    ("wide JSON", JSON.format("{}," * 3 * MEGABYTE + "{}"), None),
    ("many JSON items", JSON.format(",".join(['{"id": 1}'] * 200_000)), xml_parser.MAX_ITEMS),
]  # fmt: skip


@pytest.mark.parametrize(("document", "items"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_a_hostile_document_costs_little_time_and_memory(document: str, items: int | None) -> None:
    """At most 3 s of CPU (1 s was measured), and texts not much larger than the document."""
    body = document.encode()
    before = get_cpu_seconds()
    try:
        found = read_feed(body, url=DEFAULT_URL)
    except NotAFeed:
        assert items is None
        found = None
    assert get_cpu_seconds() - before < 3.0
    if found is None:
        return
    assert items is None or len(found.items) == items
    assert 0 <= len(found.items) <= xml_parser.MAX_ITEMS
    assert sum(len(item.title) + len(item.text) + len(item.link) for item in found.items) < 2 * len(body) + 3 * MEGABYTE


def test_entities_are_not_fetched_and_expand_only_once() -> None:
    outside = '<!DOCTYPE rss [<!ENTITY e SYSTEM "file:///etc/hostname"><!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>'
    assert get_only_item(read(outside + RSS.format("<item><title>a&e;</title></item>"))).title == "a&e;"
    laughing = f'<!DOCTYPE rss [<!ENTITY e0 "ha">{LAUGHS}]>' + RSS.format("<item><title>&e2;</title></item>")
    assert get_only_item(read(laughing)).title == "&e1;" * 10
    many = (
        '<!DOCTYPE rss [<!ENTITY e "' + "x" * 1000 + '">]>' + RSS.format(f"<item><title>{'&e;' * 5000}</title></item>")
    )
    assert get_only_item(read(many)).title.count("x") == 1000 * 1000


def test_the_lenient_parser_limits_depth_references_tags_and_characters() -> None:
    deep = read(RSS.format(f"<item><title>{'<b>' * 1000}t</title></item>") + "&")
    assert get_only_item(deep).title.count("<b>") == xml_parser.MAX_DEPTH - 4 and "t" in get_only_item(deep).title
    references = read(RSS.format(f"<item><description>{'&eacute;' * 300_000}</description></item>"))
    assert get_only_item(references).text.count("é") == 250_000
    tags = read(RSS.format("<item/>" + "<a/>" * xml_parser.MAX_STEPS + "<item/>") + "&")
    characters = read(RSS.format("<item/>" + "x" * 4_000_000 + "<item/>") + "&")
    assert len(tags.items) == len(characters.items) == 1


def test_markup_in_cdata_does_not_count_as_tags() -> None:
    content = "<![CDATA[" + "<p>" * xml_parser.MAX_TAGS + "]]>"
    found = read(RSS.format(f"<item><description>{content}</description></item>"))
    assert not found.is_recovered and get_only_item(found).text == "<p>" * xml_parser.MAX_TAGS


def test_only_the_first_10_mib_of_a_document_are_read() -> None:
    found = read(RSS.format("<item/>" + " " * feed_reader.MAX_BYTES + "<item/>"))
    assert len(found.items) == 1 and found.is_recovered


def test_a_caller_can_have_another_limit_on_bytes() -> None:
    document = RSS.format("<item/>" + " " * feed_reader.MAX_BYTES + "<item/>").encode()
    assert len(feed_reader.read_feed(document, max_bytes=len(document)).items) == 2
    assert feed_reader.read_feed(document, max_bytes=1000).cut_items == 1


def get_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# --- Random bytes -------------------------------------------------------------------------------------------------

DOCUMENTS = [case.body for case in CASES]
SCRAPS = [
    b"<", b">", b"&", b'"', b"</", b"/>", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<?", b"<!DOCTYPE x [", b"]>", b"&#0;",
    b"<item>", b"</item>", b"<rss>", b"</rss>", b"<link href=", b"<guid>", b' xml:base="http://[', b' xmlns:dc="', b"{",
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xe2\x82", b' encoding="utf-7"', b' encoding="hex"', b"\\ud800", b"1e999",
    b'mode="base64">', b"<a:b:c>", b"<{x}y>",
]  # fmt: skip


@st.composite
def mutate_documents(draw: st.DrawFn) -> bytes:
    """Documents of the corpus with pieces removed, inserted and replaced."""
    body = bytearray(draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, len(body)))
        size = draw(st.sampled_from([0, 0, 1, 3, 40]))
        scrap = draw(st.sampled_from(SCRAPS) | st.binary(max_size=4))
        body[at : at + size] = scrap
    return bytes(body[: draw(st.sampled_from([len(body), len(body), len(body) // 2]))])


@settings(max_examples=400, deadline=None)
@given(
    mutate_documents(),
    st.sampled_from(["", "https://h.example/f", "no url"]),
    st.sampled_from(["", "text/xml; charset=hz"]),
)
def test_a_broken_feed_is_read_or_refused(body: bytes, url: str, content_type: str) -> None:
    check_read_or_refused(body, url, content_type)


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"<rss>", b"{", b"<?xml encoding='x'?><feed ", b"\xff\xfe"]),
    st.text(),
)
@example(b"<rss/><item>", b"", "")
@example(b"</rss>", b"<9:rss>", "")
def test_any_bytes_are_read_or_refused(body: bytes, start: bytes, url: str) -> None:
    check_read_or_refused(start + body, url, "")


def check_read_or_refused(body: bytes, url: str, content_type: str) -> None:
    """Check that NotAFeed is raised, or that all texts can be encoded."""
    is_page = is_web_page(body)
    try:
        found = read_feed(body, url=url, content_type=content_type)
    except NotAFeed as refused:
        assert refused.reason
        return
    assert not is_page or content_type
    texts = [found.title, found.link, found.self_url, found.version, *found.hubs]
    for item in found.items:
        texts += [item.guid, item.link, item.title, item.text, item.published, item.updated, *item.enclosures]
    for text in texts:
        text.replace(url, "").encode()


MANY = xml_parser.MAX_ITEMS + 7
CUT_BY_A_LIMIT = [
    # why                 given                                                        left out
    ("RSS", RSS.format("<item/>" * MANY), 7),
    ("RSS, not well-formed", RSS.format("<item/>" * MANY) + "&", 7),
    ("nested", "<rss>" + "<item>" * MANY + "</item>" * MANY + "</rss>", 1),
    ("JSON", JSON.format(",".join(['{"id": 1}'] * MANY)), 7),
    ("JSON, not all objects", JSON.format('{"id": 1}, 2, null'), 2),
    ("more tags than the lenient parser reads", "<rss>" + "<a></a>" * 39_990 + "<item></item>" * 20 + "</rss>&", 11),
    ("more characters than are read", RSS.format(f"<item>{' ' * xml_parser.MAX_LENIENT_CHARACTERS}</item><item/>") + "&", 2),
    ("more bytes than are read", RSS.format(f"<item>{' ' * 10 * 1024 * 1024}</item><item/>"), 2),
    ("nothing", RSS.format("<item/>" * xml_parser.MAX_ITEMS), 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "cut"), [row[1:] for row in CUT_BY_A_LIMIT], ids=[row[0] for row in CUT_BY_A_LIMIT]
)
def test_items_left_out_are_counted(document: str, cut: int) -> None:
    assert read(document).cut_items == cut
