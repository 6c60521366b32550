"""The keys of the items of a document (contract I2, I3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from canonry.core.keys import (
    Item,
    KeyType,
    make_fallback_hash,
    make_first_fallback_hash,
    make_link_key,
    replace_unstorable,
    shorten_key,
    strip_scheme_and_www,
)
from canonry.feeds.keyed_items import find_repeated_keys, make_fallback_hashes, make_keyed_items

FEED = "https://a.com/feed"
GUID, URL = KeyType.GUID, KeyType.CANONICAL_URL
ITEM = Item(guid="g1", link="https://a.com/1", title="One", published="2026-01-01")
BARE = Item(title="Bare")


def test_an_item_that_a_document_lists_twice_is_one_item() -> None:
    items = make_keyed_items([ITEM, ITEM, replace(ITEM, guid=" g1 ", title=" One\n"), BARE], FEED)
    assert [each.parsed for each in items] == [ITEM, BARE]
    assert items[0].get_key(GUID) == f"{FEED}:g1"
    assert items[0].get_key(KeyType.FALLBACK_HASH) == ""
    assert [each.has_strong_key for each in items] == [True, False]
    (crawled,) = make_keyed_items([replace(ITEM, link="https://a.com/1/")], FEED, "crawl@1")
    assert (crawled.canonical_url, crawled.keys[1].policy) == ("https://a.com/1", "crawl@1")


def test_characters_that_no_database_stores_are_replaced() -> None:
    (each,) = make_keyed_items([Item(guid="a\0", link="https://a.com/\0", title="\ud800x", published="\udfff")], FEED)
    assert (each.guid, each.title, each.published) == ("a\ufffd", "\ufffdx", "\ufffd")
    assert each.canonical_url == "https://a.com/%EF%BF%BD"
    assert replace_unstorable("fine 😀") == "fine 😀"


def test_every_key_fits_into_an_index() -> None:
    long = "é" * 1001
    assert shorten_key("é" * 1000) == "é" * 1000
    assert shorten_key(long) != shorten_key(long + "x")
    (each,) = make_keyed_items([Item(guid=long, link=f"https://a.com/{long}")], FEED)
    texts = each.guid, each.canonical_url, each.place, each.dedupe_key, *(key.key_value for key in each.keys)
    assert all(text.startswith("sha256:") and len(text) == 71 for text in texts)
    assert make_link_key("no url") == ""


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("", ""),
        ("https://www.a.com/1?b#c", "//a.com/1?b#c"),
        ("http://a.com:8080/", "//a.com:8080/"),
        ("sha256:ab", "sha256:ab"),
    ],
)
def test_a_place_has_neither_scheme_nor_www(url: str, place: str) -> None:
    assert strip_scheme_and_www(url) == place


def test_keys_that_several_items_carry_are_found() -> None:
    first, second = Item("g", "https://a.com/1", "One"), Item("g", "https://a.com/2", "Two")
    third, fourth = Item("3", "https://a.com/", "Three"), Item("4", "https://www.a.com/", "Four")
    items = make_keyed_items([first, second, third, fourth, Item(), Item(title="x")], FEED)
    assert find_repeated_keys(items) == {(GUID, "g"), (URL, "//a.com/")}


def test_only_items_whose_url_is_no_key_have_fallback_hashes() -> None:
    own, ambiguous = Item("1", "https://a.com/1", "One"), Item("2", "https://a.com/2", "Two")
    third, fourth = Item("3", "https://a.com/3#a", "Three"), Item("4", "https://a.com/3#b", "Four")
    items = make_keyed_items([own, ambiguous, third, fourth, BARE], FEED)
    makers = make_fallback_hash, make_first_fallback_hash
    wanted = [make(item, FEED) for item in (ambiguous, third, fourth, BARE) for make in makers]
    assert make_fallback_hashes(items, FEED, {(URL, "//a.com/2")}) == wanted
