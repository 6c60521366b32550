"""Lists of items as Atom and JSON Feed: valid documents with stable ids, read back with our reader and feedparser."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import feedparser  # type: ignore[import-untyped,unused-ignore]
import pytest

from canonry.feeds.feed_values import ItemFeed, MatchConfidence, StoredItem
from canonry.feeds.read import read_feed
from canonry.feeds.write_feed import FeedHead, make_item_id, write_atom, write_json_feed

ATOM = "{http://www.w3.org/2005/Atom}"
HEAD = FeedHead("canonry: a & b", "/api/items", "https://c.example/api/items.atom?q=a&x", "https://c.example/next?a&b")
ITEM = StoredItem(
    1,
    "https://a.example/feed",
    "A <b>bold</b> & 'quoted' title",
    "https://a.example/1?a=1&b=2",
    "guid:https://a.example/feed:1",
    MatchConfidence.HIGH,
    "2026-01-31T10:00:00.123456Z",
    "2026-02-01T10:00:00.000000Z",
    "Sat, 31 Jan 2026 10:30:00 +0200",
    (ItemFeed(1, "https://a.example/feed", "A & A"), ItemFeed(2, "https://b.example/feed", '"B"')),
)
HOSTILE = replace(
    ITEM,
    entry_id=2,
    title="]]>\x00\x0b\ufffe</title>\ud800",
    url="javascript:alert(1)",
    published="yesterday",
    feeds=(ItemFeed(3, "https://me:secret@a.example/feed", ""),),
    feed_url="https://me:secret@a.example/feed",
)
BARE = replace(ITEM, entry_id=3, title="", url="", published="", feeds=(), feed_url="")
SECRET = replace(ITEM, entry_id=4, url="https://me:secret@a.example/4", dedupe_key="url:https://me:secret@a.example/4")
ITEMS = [ITEM, HOSTILE, BARE, SECRET]


def encode(text: str) -> bytes:
    return text.encode(errors="replace")


def test_an_atom_document_is_valid() -> None:
    root = ElementTree.fromstring(encode(write_atom(ITEMS, HEAD)))
    assert root.tag == f"{ATOM}feed"
    for element in [root, *root.iter(f"{ATOM}entry")]:  # RFC 4287, 4.1.1 and 4.1.2
        for name in ("id", "title", "updated"):
            assert len(element.findall(f"{ATOM}{name}")) == 1
            assert element.findtext(f"{ATOM}{name}")
    for entry in root.iter(f"{ATOM}entry"):
        links = [link for link in entry.findall(f"{ATOM}link") if link.get("rel") == "alternate"]
        assert len(links) + len(entry.findall(f"{ATOM}content")) == 1
    assert root.find(f"{ATOM}author/{ATOM}name") is not None
    ids = [element.text for element in root.iter(f"{ATOM}id") if (element.text or "").startswith("urn:uuid:")]
    assert len(set(ids)) == len(ITEMS) + 1


@pytest.mark.parametrize("write", [write_atom, write_json_feed])
def test_our_reader_reads_the_documents(write: type) -> None:
    body = encode(write(ITEMS, HEAD))
    feed = read_feed(body, url="https://c.example/")
    assert not feed.is_recovered
    assert (feed.title, feed.self_url) == (HEAD.title, HEAD.self_url)
    assert [item.guid for item in feed.items] == [make_item_id(item) for item in ITEMS]
    assert (feed.items[0].title, feed.items[0].link) == (ITEM.title, ITEM.url)
    assert feed.items[0].published == "2026-01-31T08:30:00Z"
    assert feed.items[1].published == "2026-01-31T10:00:00Z"  # first seen
    assert [item.link for item in feed.items] == [ITEM.url, "", "", "https://***@a.example/4"]
    assert b"secret" not in body


@pytest.mark.parametrize(
    "published", ["", "yesterday", "2031-01-01", "0950-06-01", "31 Jan 26 10:00 EST", "0001-01-01"]
)
def test_dates_are_valid_and_not_later_than_the_first_sight(published: str) -> None:
    """RFC 4287 and JSON Feed want times of RFC 3339; readers sort by them."""
    items = [replace(ITEM, published=published)]
    atom = re.findall(r"<(?:published|updated)>(.*?)</", write_atom(items, HEAD))
    shown = json.loads(write_json_feed(items, HEAD))["items"][0]["date_published"]
    assert len(atom) == 4
    for time in (*atom, shown):
        assert re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", time)
        assert time <= "2026-01-31T10:00:00Z"


def test_feedparser_reads_the_atom_document() -> None:
    feed = feedparser.parse(encode(write_atom(ITEMS, HEAD)))
    assert not feed.bozo
    assert feed.version == "atom10"
    first = feed.entries[0]
    assert (first.id, first.link, first.published) == (make_item_id(ITEM), ITEM.url, "2026-01-31T08:30:00Z")
    assert (first.source.id, first.source.title) == ("https://a.example/feed", "A & A")
    assert [link.href for link in first.links if link.rel == "via"] == ["https://b.example/feed"]
    assert {link.rel: link.href for link in feed.feed.links} == {"self": HEAD.self_url, "next": HEAD.next_url}


def test_the_json_feed_has_what_the_format_requires() -> None:
    document = json.loads(encode(write_json_feed(ITEMS, HEAD)))
    assert document["version"] == "https://jsonfeed.org/version/1.1"
    assert (document["feed_url"], document["next_url"]) == (HEAD.self_url, HEAD.next_url)
    for item in document["items"]:
        assert item["id"]
        assert item["content_text"]
    assert [feed["url"] for feed in document["items"][0]["_canonry"]["feeds"]] == [feed.url for feed in ITEM.feeds]


def test_ids_stay_when_an_item_changes_and_differ_when_a_number_is_used_again() -> None:
    changed = replace(ITEM, title="x", url="y", last_seen_at="2027", dedupe_key="z", feeds=())
    assert make_item_id(changed) == make_item_id(ITEM) == "urn:uuid:e334c1b2-2ca5-5584-97e2-c504dd7c849e"
    assert make_item_id(replace(ITEM, first_seen_at="2026-03-01T10:00:00.000000Z")) != make_item_id(ITEM)
    assert write_atom(ITEMS, HEAD) == write_atom(ITEMS, HEAD)


@pytest.mark.parametrize("write", [write_atom, write_json_feed])
def test_an_empty_list_is_a_feed(write: type) -> None:
    feed = read_feed(encode(write([], FeedHead("none", "none"))))
    assert (feed.title, feed.items, feed.is_recovered) == ("none", (), False)
