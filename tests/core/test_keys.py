"""contract N6, I2, F5: hashes, identity keys and feed signatures."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import pytest

import canonry
from canonry.core.keys import (
    MAX_KEY_BYTES,
    Item,
    list_guid_twins,
    loosen_place,
    make_guid_key,
    make_link_key,
    make_place,
    replace_unstorable,
    shorten_key,
    strip_scheme_and_www,
)
from canonry.feeds.content import is_overlapping, is_same_signature

FEED = "https://example.com/feed"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_canonical_hash_is_the_sha256_of_the_normalized_url() -> None:
    assert canonry.canonical_hash("HTTPS://Example.com//a/?utm_x=1&b=2&a=1#c") == sha256(
        "https://example.com/a?a=1&b=2"
    )
    assert canonry.canonical_hash("https://www.a.com/", "feed-aggressive") == sha256("https://a.com/")
    with pytest.raises(canonry.InvalidUrl):
        canonry.canonical_hash("nope")


def keys(item: object) -> list[tuple[str, str]]:
    return [(key.key_type, key.key_value) for key in canonry.identity_keys(item, FEED)]


def test_keys_of_an_item_with_everything() -> None:
    item = Item(guid=" 1 ", link="https://A.com/x?utm_source=y#z", title="T", published="P")
    assert keys(item) == [
        ("guid", f"{FEED}:1"),
        ("canonical_url", "https://a.com/x"),
        ("legacy_guid", "guid:1"),
    ]
    assert canonry.dedupe_key(item, FEED) == f"guid:{FEED}:1"
    assert {key.policy for key in canonry.identity_keys(item, FEED)} == {"entry@1"}


def test_keys_without_guid() -> None:
    assert keys({"link": "https://a.com/x#y", "guid": ""}) == [("canonical_url", "https://a.com/x")]
    assert canonry.dedupe_key({"link": "https://a.com/x#y"}, FEED) == "url:https://a.com/x"


def test_keys_without_link() -> None:
    assert keys({"id": "1", "link": None}) == [("guid", f"{FEED}:1"), ("legacy_guid", "guid:1")]


@pytest.mark.parametrize("link", ["", " ", "/relative", "mailto:a@b.c", "http://", "\ud800"])
def test_an_unusable_link_identifies_nothing(link: str) -> None:
    found = canonry.identity_keys({"link": link, "title": "T", "published": "P"}, FEED)
    assert [key.key_type for key in found] == ["fallback_hash"]
    assert canonry.dedupe_key({"link": link, "title": "T", "published": "P"}, FEED) == f"hash:{found[0].key_value}"


def test_links_that_are_not_urls_distinguish_items() -> None:
    assert canonry.dedupe_key({"link": "/a"}, FEED) != canonry.dedupe_key({"link": "/b"}, FEED)
    assert canonry.dedupe_key({"link": " "}, FEED) == canonry.dedupe_key({}, FEED)


def test_the_fallback_hash_covers_feed_title_and_date() -> None:
    rows = [("T", "P", FEED), ("U", "P", FEED), ("T", "Q", FEED), ("T", "P", "https://b.com/"), ("TP", "", FEED)]
    hashes = {canonry.dedupe_key({"title": title, "published": date}, feed) for title, date, feed in rows}
    assert len(hashes) == len(rows)
    assert canonry.dedupe_key({"title": "T ", "published": "P"}, FEED) in hashes
    assert len(canonry.dedupe_key({}, FEED)) == len("hash:") + 64
    assert canonry.dedupe_key({"title": "\ud800"}, FEED)


def test_an_item_from_a_mapping() -> None:
    given = {"id": 7, "url": "https://a.com/", "title": None, "content": "c", "enclosures": ["https://a.com/1.mp3"]}
    assert Item.of(given) == Item("7", "https://a.com/", "", "", "c", ("https://a.com/1.mp3",))
    assert Item.of(SimpleNamespace(**given)) == Item.of(given)
    assert Item.of({"guid": "g", "id": "i", "enclosures": "x"}) == Item("g")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("fine 😀", "fine 😀"), ("a\0b", "a\ufffdb"), ("\ud83d", "\ufffd"), ("", "")],
)
def test_characters_that_databases_refuse_are_replaced(text: str, wanted: str) -> None:
    assert replace_unstorable(text) == wanted


def test_keys_that_are_too_long_for_an_index_become_digests() -> None:
    fits, long = "é" * (MAX_KEY_BYTES // 2), "é" * (MAX_KEY_BYTES // 2) + "x"
    assert shorten_key(fits) == fits
    assert shorten_key(long) == f"sha256:{sha256(long)}"
    assert make_link_key(f"https://a.com/{long}") == shorten_key(canonry.normalize(f"https://a.com/{long}", "entry"))
    assert make_link_key("HTTPS://A.com/#x") == "https://a.com/"
    assert make_link_key("no url") == ""


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://a.com/x", "//a.com/x"),
        ("http://a.com/x", "//a.com/x"),
        ("https://www.a.com/x", "//a.com/x"),
        ("https://www.com/x", "//www.com/x"),
        ("https://a.com:8080/x?b#c", "//a.com:8080/x?b#c"),
        ("https://www.www.a.com/x/?b=%20", "//a.com/x/?b=%20"),
        ("https://u:p@www.a.com/", "//u:p@a.com/"),
        ("https://[::1]/x", "//[::1]/x"),
        ("sha256:0123", "sha256:0123"),
        ("", ""),
    ],
)
def test_a_url_without_scheme_and_www(url: str, wanted: str) -> None:
    assert strip_scheme_and_www(url) == wanted


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://www.a.com/%7ex/?b", "//a.com/~x?b"),
        ("https://a.com/x//", "//a.com/x"),
        ("https://a.com/x//?b=/", "//a.com/x?b=/"),
        ("https://a.com/x//y", "//a.com/x//y"),
        ("https://a.com//", "//a.com"),
        ("https://a.com/x/?", "//a.com/x"),
        ("https://a.com/%252f/", "//a.com/%252f"),
        ("sha256:0123", "sha256:0123"),
        ("", ""),
    ],
)
def test_a_place_stays_as_it_is(url: str, wanted: str) -> None:
    """A rekey and its undo make places from places."""
    assert make_place(url) == wanted
    assert loosen_place(wanted) == wanted


@pytest.mark.parametrize(
    ("guid", "wanted"),
    [
        ("http://a.com/1", ["https://a.com/1", "https://www.a.com/1", "http://www.a.com/1"]),
        ("https://www.a.com/1", ["https://a.com/1", "http://a.com/1", "http://www.a.com/1"]),
        ("tag:a.com,2026:1", []),
        ("ftp://a.com/1", []),
        ("http://", []),
        ("42", []),
    ],
)
def test_only_a_guid_that_is_a_url_has_twins(guid: str, wanted: list[str]) -> None:
    assert list_guid_twins(guid) == wanted


def test_the_key_of_a_guid_is_that_of_an_item_with_it() -> None:
    item = {"guid": "http://a.com/1"}
    assert make_guid_key("http://a.com/1", FEED) == canonry.identity_keys(item, FEED)[0].key_value


def test_content_hash_covers_what_readers_see() -> None:
    item = {
        "title": "T",
        "link": "https://a.com/x",
        "text": "text",
        "published": "P",
        "enclosures": ["a", "b"],
        "guid": "1",
    }
    base = canonry.content_hash(item)
    for field in ("title", "text", "published"):
        assert canonry.content_hash({**item, field: "other"}) != base, field
    assert canonry.content_hash({**item, "link": "https://a.com/y"}) != base
    assert canonry.content_hash({**item, "link": "nope"}) != base
    assert canonry.content_hash({**item, "enclosures": ["a"]}) != base
    same = {**item, "title": " T ", "link": "https://a.com/x?utm_x=1#y", "enclosures": ["b", "a"], "guid": "2"}
    assert canonry.content_hash(same) == base


def signature(*numbers: int, title: str = "Blog", url: str = FEED, text: str = "text") -> canonry.FeedSignature:
    items = [{"guid": f"id-{n}", "title": f"Post {n}", "text": text} for n in numbers]
    return canonry.feed_signature(title, items, url)


def test_feeds_with_the_same_title_and_items_have_the_same_signature() -> None:
    assert is_same_signature(signature(1, 2), signature(2, 1))
    assert is_same_signature(signature(1, title="A  blog\n"), signature(1, title="A blog"))
    assert not is_same_signature(signature(1, 2), signature(1, 2, 3))
    assert not is_same_signature(signature(1), signature(1, title="Other"))
    assert is_same_signature(signature(1, text="x" * 10), signature(1, text="x" * 20))
    assert not is_same_signature(signature(1, text="x" * 10), signature(1, text="x" * 21))
    assert not is_same_signature(signature(1, text=""), signature(1, text="x"))
    assert not is_same_signature(signature(), signature())


def test_a_signature_ignores_scheme_and_www_of_the_own_host_and_tracking() -> None:
    one = [
        {"link": "http://www.example.com/1?utm_source=a", "title": "T", "enclosures": ["https://cdn1.com/a.mp3?x=1"]}
    ]
    other = [{"link": "https://example.com/1", "title": " T", "enclosures": ["http://cdn2.com/a.mp3"]}]
    assert canonry.feed_signature("B", one, "http://www.example.com/f") == canonry.feed_signature("B", other, FEED)


@pytest.mark.parametrize(
    "other",
    [
        {"link": "https://www.elsewhere.com/1", "title": "T"},
        {"link": "https://elsewhere.com/1", "title": "U"},
        {"link": "https://elsewhere.com/2", "title": "T"},
        {"link": "http://elsewhere.com/1", "title": "T"},
        {"guid": "x", "link": "https://elsewhere.com/1", "title": "T"},
        {"link": "https://elsewhere.com/1", "title": "T", "enclosures": ["not a url"]},
    ],
)
def test_different_items_have_different_signatures(other: dict[str, object]) -> None:
    item = {"link": "https://elsewhere.com/1", "title": "T"}
    assert canonry.feed_signature("B", [item], FEED) != canonry.feed_signature("B", [other], FEED)


def test_items_with_only_text_are_compared_by_text() -> None:
    def signed(*texts: str) -> canonry.FeedSignature:
        return canonry.feed_signature("T", [{"text": text} for text in texts], FEED)

    assert is_same_signature(signed("a", "b"), signed("b", "a "))
    assert not is_same_signature(signed("a", "b"), signed("c", "d"))


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        (range(10), range(10), True),
        (range(10), range(2, 12), True),
        (range(10), range(3, 13), False),
        (range(5), range(3), True),
        (range(6), range(3), False),
        (range(2), range(2), False),
        (range(3), range(3), True),
        (range(100), range(20, 100), True),
        (range(100), range(21, 100), False),
        (range(0), range(0), False),
    ],
)
def test_feeds_overlap_if_they_share_most_items(one: range, other: range, overlaps: bool) -> None:
    assert is_overlapping(signature(*one), signature(*other)) is overlaps
    assert is_overlapping(signature(*other), signature(*one)) is overlaps
    assert not is_overlapping(signature(*one), signature(*other, title="Other"))
