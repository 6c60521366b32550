"""The keys of an entry under another policy, and after the undo of a rekey (contract N10)."""

from __future__ import annotations

from dataclasses import replace

import pytest

import canonry
from canonry.core.keys import Item, normalize_link, shorten_key, strip_scheme_and_www
from canonry.feeds.content import content_hash
from canonry.feeds.keyed_items import make_keyed_items
from canonry.rekey.entry_keys import (
    KeyedEntry,
    UrlKeys,
    rekey_entry,
    rekey_exact_place,
    rekey_link,
    rekey_place,
    undo_entry,
)

ENTRY, COARSE, EXACT = "entry@1", "feed-aggressive@1", "exact@1"
LONG = f"https://www.a.com/?q={'x' * 2000}"


def test_keys_are_made_under_the_policy() -> None:
    item = Item(guid="1", link=" https://www.A.com/x/?yclid=1#y\n", title="T")
    keys = canonry.identity_keys(item, "https://f.com/", policy=COARSE)
    assert [(key.key_type, key.policy) for key in keys] == [
        ("guid", ENTRY),
        ("canonical_url", COARSE),
        ("legacy_guid", ENTRY),
    ]
    assert keys[1].key_value == "https://a.com/x"
    assert canonry.dedupe_key(replace(item, guid=""), "https://f.com/", policy=COARSE) == "url:https://a.com/x"
    assert normalize_link(item.link, policy=EXACT) == "https://www.A.com/x/?yclid=1#y"


def test_the_content_hash_is_the_same_under_every_policy() -> None:
    item = Item(link="https://a.com/x/?yclid=1#y", title="T")
    hashes = {make_keyed_items([item], "https://f.com/", policy)[0].content_hash for policy in (ENTRY, COARSE, EXACT)}
    assert hashes == {content_hash(item)}


LINKS = [
    # why                           link                       key under entry@1        to      wanted
    ("coarser",                     "https://a.com/x/?yclid=1", "https://a.com/x/?yclid=1", COARSE, "https://a.com/x"),
    ("finer, from the link",        "https://a.com/x#1",       "https://a.com/x",       EXACT,  "https://a.com/x#1"),
    ("a key of another link",       "https://a.com/x#1",       "https://a.com/old/",    EXACT,  "https://a.com/old/"),
    ("a key of another link",       "",                        "https://a.com/old/",    COARSE, "https://a.com/old"),
    ("no key",                      "/relative",               "",                      COARSE, ""),
    ("no key, though it has a link", "https://a.com/x",        "",                      COARSE, ""),
    ("a long one",                  LONG,                      shorten_key(LONG),           COARSE, shorten_key(LONG.replace("www.", ""))),
    ("a digest of another link",    "https://a.com/x",         shorten_key(LONG),           COARSE, shorten_key(LONG)),
]  # fmt: skip


@pytest.mark.parametrize(("why", "link", "key", "after", "wanted"), LINKS)
def test_the_key_of_a_link_is_rekeyed(why: str, link: str, key: str, after: str, wanted: str) -> None:
    assert rekey_link(link, key, ENTRY, after) == wanted, why


def test_a_place_is_rekeyed_without_its_link() -> None:
    assert rekey_place("//a.com/x/?yclid=1", COARSE) == "//a.com/x"
    assert rekey_place("", COARSE) == ""
    assert rekey_exact_place("//a.com/x/?yclid=1#part", COARSE) == "//a.com/x#part"
    assert rekey_exact_place("//a.com/x/", "exact@1") == "//a.com/x/"
    assert rekey_exact_place("", COARSE) == ""
    assert rekey_place(shorten_key(LONG), COARSE) == shorten_key(LONG)


def make_entry(
    url: str, *registered: str, dedupe_key: str = "guid:1", policy: str = ENTRY, **places: str
) -> KeyedEntry:
    """Return an entry as it is ingested under the policy."""
    key = make_keyed_items([Item(link=url)], "https://f.com/", policy)[0].canonical_url
    there = {1: strip_scheme_and_www(key)} | {int(feed[1:]): place for feed, place in places.items()}
    return KeyedEntry(url, "2026", UrlKeys(key, dedupe_key, registered or (key,), there))


def rekey(one: KeyedEntry, after: str = COARSE) -> KeyedEntry:
    return replace(one, keys=rekey_entry(one, ENTRY, after))


def test_all_keys_of_an_entry_are_rekeyed() -> None:
    one = make_entry(
        "https://www.a.com/x/#1",
        "https://www.a.com/x/",
        "https://a.com/old/",
        dedupe_key="url:https://www.a.com/x/",
        f2="//b.com/y/",
    )
    assert rekey_entry(one, ENTRY, COARSE) == UrlKeys(
        "https://a.com/x",
        "url:https://a.com/x",
        ("https://a.com/x", "https://a.com/old"),
        {1: "//a.com/x", 2: "//b.com/y"},
    )


DEDUPE_KEYS = [
    # why                   link    key                             wanted
    ("a guid",              "https://a.com/x/", "guid:https://a.com/x/", "guid:https://a.com/x/"),
    ("a hash",              "https://a.com/x/", "hash:00",               "hash:00"),
    ("the URL",             "https://a.com/x/", "url:https://a.com/x/",  "url:https://a.com/x"),
    ("of another program",  "https://a.com/x/", "url:a.com/x",           "url:a.com/x"),
    ("a digest of the URL", LONG,   shorten_key(f"url:{LONG}"),         shorten_key(f"url:{LONG.replace('www.', '')}")),
    ("no URL",              "",     "url:",                         "url:"),
]  # fmt: skip


@pytest.mark.parametrize(("why", "link", "key", "wanted"), DEDUPE_KEYS)
def test_a_dedupe_key_is_rekeyed_only_if_it_is_made_from_the_url(why: str, link: str, key: str, wanted: str) -> None:
    assert rekey_entry(make_entry(link, dedupe_key=key), ENTRY, COARSE).dedupe_key == wanted, why


def test_undo_of_an_unchanged_entry_restores_its_keys() -> None:
    one = make_entry(
        "https://www.a.com/x/#1", "https://a.com/not-its-own/", dedupe_key="url:https://www.a.com/x/", f2="//b.com/y/"
    )
    assert undo_entry(rekey(one), one, ENTRY, COARSE) == one.keys


def test_undo_of_a_new_entry_makes_its_keys_under_the_first_policy() -> None:
    new = make_entry("https://www.a.com/new/#1", policy=COARSE)
    wanted = UrlKeys("https://www.a.com/new/", "guid:1", ("https://www.a.com/new/",), {1: "//a.com/new"})
    assert undo_entry(new, None, ENTRY, COARSE) == wanted
    assert (
        undo_entry(new, replace(new, first_seen_at="2025"), ENTRY, COARSE) == wanted
    )  # it has the id of a deleted one


def test_undo_keeps_a_url_and_a_place_that_were_learned_since() -> None:
    one = make_entry("https://www.a.com/x/#1")
    now = rekey(one)
    keys = replace(
        now.keys, registered=(*now.keys.registered, "https://b.com/y"), places={1: "//a.com/x", 2: "//b.com/y"}
    )
    assert undo_entry(replace(now, keys=keys), one, ENTRY, COARSE) == UrlKeys(
        "https://www.a.com/x/", "guid:1", ("https://www.a.com/x/", "https://b.com/y"), {1: "//a.com/x/", 2: "//b.com/y"}
    )


def test_undo_of_an_entry_with_a_new_link_keeps_that_link() -> None:
    one = make_entry("https://www.a.com/x/#1", f2="//a.com/elsewhere/")
    keys = replace(rekey(one).keys, registered=("https://a.com/x",))
    same_place = replace(one, url="https://a.com/x?yclid=2", keys=keys)
    assert undo_entry(same_place, one, ENTRY, COARSE) == UrlKeys(
        "https://a.com/x?yclid=2",
        "guid:1",
        ("https://www.a.com/x/", "https://a.com/x?yclid=2"),
        {1: "//a.com/x?yclid=2", 2: "//a.com/elsewhere/"},
    )
