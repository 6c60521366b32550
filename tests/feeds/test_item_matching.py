"""What each item of a document is, given the entries that its keys point to (contract I3, I4)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from canonry.core.keys import Item, Key, KeyType, make_first_fallback_hash
from canonry.feeds.item_matching import (
    DocumentMatch,
    ItemOutcome,
    KeyConflict,
    KnownEntries,
    KnownEntry,
    match_items,
)
from canonry.feeds.keyed_items import make_fallback_hashes, make_keyed_items

NEW, UPDATED, DUPLICATE = ItemOutcome.NEW, ItemOutcome.UPDATED, ItemOutcome.DUPLICATE
FEED = "https://a.com/feed"
GUID, URL = KeyType.GUID, KeyType.CANONICAL_URL
ITEM = Item(guid="g1", link="https://a.com/1", title="One", published="2026-01-01")
STRONG = replace(ITEM, guid="tag:a.com,2026:1")


def known(
    entry_id: int = 1,
    item: Item = ITEM,
    *,
    is_in_feed: bool = True,
    has_guid_key: bool = True,
    is_imported: bool = False,
) -> KnownEntry:
    """Return the entry that this item has made."""
    (keyed,) = make_keyed_items([item], FEED)
    return KnownEntry(
        entry_id,
        is_in_feed,
        has_guid_key,
        keyed.guid,
        keyed.title,
        keyed.published,
        keyed.place,
        keyed.content_hash,
        is_imported,
        item.link,
    )


@dataclass
class Stored:
    """What the store knows, by the key that leads to it."""

    guid: dict[str, KnownEntry] = field(default_factory=dict)
    place: dict[str, list[KnownEntry]] = field(default_factory=dict)
    legacy: dict[str, KnownEntry] = field(default_factory=dict)
    dedupe: dict[str, KnownEntry] = field(default_factory=dict)
    url: dict[str, list[KnownEntry]] = field(default_factory=dict)
    hash: dict[str, KnownEntry] = field(default_factory=dict)
    page: dict[str, list[KnownEntry]] = field(default_factory=dict)
    ambiguous: set[tuple[KeyType, str]] = field(default_factory=set)

    def match(self, *items: Item) -> DocumentMatch:
        known_entries = KnownEntries(
            by_guid={f"{FEED}:{guid}": entry for guid, entry in self.guid.items()},
            by_place=self.place,
            by_legacy_guid={f"guid:{guid}": entry for guid, entry in self.legacy.items()},
            by_dedupe_key=self.dedupe,
            by_url=self.url,
            by_hash=self.hash,
            by_page=self.page,
        )
        return match_items(make_keyed_items(items, FEED), known_entries, self.ambiguous, FEED)


ELSEWHERE = known(is_in_feed=False)
BARE = Item(title="Bare")
DATED = Item(title="Bare", published="2026-01-01")
BARE_HASH = make_fallback_hashes(make_keyed_items([BARE], FEED), FEED)[0]
OLD = known(is_in_feed=False, has_guid_key=False, is_imported=True)
NOTHING = OLD._replace(guid="", title="", published="", place="", content_hash="")
CLICK = replace(ITEM, link="https://click.test/r/1")
PAGE_OWNER = known(7, CLICK, is_in_feed=False)

# why, what is known, the item, what it is, the entry it is
CASES: list[tuple[str, Stored, Item, ItemOutcome, int | None]] = [
    ("nothing known", Stored(), ITEM, NEW, None),
    ("guid", Stored(guid={"g1": known()}), ITEM, DUPLICATE, 1),
    ("guid, other text", Stored(guid={"g1": known()}), replace(ITEM, text="x"), UPDATED, 1),
    ("guid, other title", Stored(guid={"g1": known()}), replace(ITEM, title="x"), UPDATED, 1),
    ("guid, other URL", Stored(guid={"g1": known()}), replace(ITEM, link="https://a.com/2"), UPDATED, 1),
    ("guid reused", Stored(guid={"g1": known()}), Item("g1", "https://a.com/2", "x", "2026-01-02"), NEW, None),
    ("guid reused, no dates", Stored(guid={"g1": known(item=Item("g1", "https://a.com/1", "One"))}), Item("g1", "https://a.com/2", "x"), NEW, None),
    ("headline and slug edited, same date", Stored(guid={"g1": known()}), replace(ITEM, link="https://a.com/2", title="x"), UPDATED, 1),
    ("guid, trailing slash, other title", Stored(guid={"g1": known()}), Item("g1", "https://a.com/1/", "x"), UPDATED, 1),
    ("guid, no URL then, other title", Stored(guid={"g1": known(item=replace(ITEM, link=""))}), replace(ITEM, title="x"), UPDATED, 1),
    ("ambiguous guid", Stored(guid={"g1": known()}, ambiguous={(GUID, "g1")}), ITEM, NEW, None),
    ("place", Stored(place={"//a.com/1": [known()]}), replace(ITEM, guid=""), DUPLICATE, 1),
    ("place, http and www", Stored(place={"//a.com/1": [known()]}), replace(ITEM, guid="", link="http://www.a.com/1"), UPDATED, 1),
    ("place, same guid", Stored(place={"//a.com/1": [known()]}), ITEM, DUPLICATE, 1),
    ("place, no guid then", Stored(place={"//a.com/1": [known(item=replace(ITEM, guid=""))]}), ITEM, DUPLICATE, 1),
    ("place, other guid, same title", Stored(place={"//a.com/1": [known()]}), replace(ITEM, guid="g2", published=""), UPDATED, 1),
    ("place, other guid, same date", Stored(place={"//a.com/1": [known()]}), replace(ITEM, guid="g2", title="x"), UPDATED, 1),
    ("place, other guid, nothing else", Stored(place={"//a.com/1": [known()]}), replace(ITEM, guid="g2", title="x", published=""), NEW, None),
    ("place, other guid, both untitled", Stored(place={"//a.com/1": [known(item=replace(ITEM, title="", published=""))]}), replace(ITEM, guid="g2", title="", published=""), NEW, None),
    ("place, the second of two", Stored(place={"//a.com/1": [known(2, Item("g2", ITEM.link, "Two")), known(1)]}), ITEM, DUPLICATE, 1),
    ("ambiguous place", Stored(place={"//a.com/1": [known()]}, ambiguous={(URL, "//a.com/1")}), replace(ITEM, guid="g2"), NEW, None),
    ("ambiguous guid and place, unchanged", Stored(place={"//a.com/1": [known()]}, ambiguous={(GUID, "g1"), (URL, "//a.com/1")}), ITEM, DUPLICATE, 1),
    ("ambiguous place, unchanged, no guid, title, date", Stored(place={"//a.com/1": [known(item=Item(link=ITEM.link))]}, ambiguous={(URL, "//a.com/1")}), Item(link=ITEM.link), DUPLICATE, 1),
    ("ambiguous guid and place, other text", Stored(place={"//a.com/1": [known()]}, ambiguous={(GUID, "g1"), (URL, "//a.com/1")}), replace(ITEM, text="x"), UPDATED, 1),
    ("ambiguous guid and place, other title", Stored(place={"//a.com/1": [known()]}, ambiguous={(GUID, "g1"), (URL, "//a.com/1")}), replace(ITEM, title="x"), NEW, None),
    ("ambiguous guid and place, other date", Stored(place={"//a.com/1": [known()]}, ambiguous={(GUID, "g1"), (URL, "//a.com/1")}), replace(ITEM, published="x"), NEW, None),
    ("ambiguous place, no date, other text", Stored(place={"//a.com/1": [known(item=Item(link=ITEM.link, title="One"))]}, ambiguous={(URL, "//a.com/1")}), Item(link=ITEM.link, title="One", text="x"), NEW, None),
    ("ambiguous guid, no place, unchanged", Stored(guid={"g1": known(item=replace(ITEM, link=""))}, ambiguous={(GUID, "g1")}), replace(ITEM, link=""), DUPLICATE, 1),
    ("ambiguous guid, no place, other title", Stored(guid={"g1": known(item=replace(ITEM, link=""))}, ambiguous={(GUID, "g1")}), replace(ITEM, link="", title="x"), NEW, None),
    ("ambiguous guid, no place any more", Stored(guid={"g1": known()}, ambiguous={(GUID, "g1")}), replace(ITEM, link=""), NEW, None),
    ("ambiguous guid and place, other guid", Stored(place={"//a.com/1": [known()]}, ambiguous={(GUID, "g2"), (URL, "//a.com/1")}), replace(ITEM, guid="g2"), NEW, None),
    ("trailing slash, same title", Stored(place={"//a.com/1": [known()]}), replace(ITEM, guid="", link="https://a.com/1/", published=""), UPDATED, 1),
    ("trailing slash, same date", Stored(place={"//a.com/1": [known()]}), replace(ITEM, guid="", link="https://a.com/1/", title="x"), UPDATED, 1),
    ("trailing slash, nothing else", Stored(place={"//a.com/1": [known()]}), Item(link="https://a.com/1/", title="x"), NEW, None),
    ("trailing slash before a query", Stored(place={"//a.com/1?b": [known(item=replace(ITEM, link="https://a.com/1?b"))]}), replace(ITEM, guid="", link="https://a.com/1/?b"), UPDATED, 1),
    ("trailing slash, other guid, same title", Stored(place={"//a.com/1": [known()]}), replace(ITEM, guid="g2", link="https://a.com/1/", published=""), UPDATED, 1),
    ("trailing slash, other guid, nothing else", Stored(place={"//a.com/1": [known()]}), Item("g2", "https://a.com/1/", "x"), NEW, None),
    ("escapes, same title", Stored(place={"//a.com/%E8~": [known(item=replace(ITEM, link="https://a.com/%e8%7e"))]}), replace(ITEM, guid="", link="https://a.com/%E8~", published=""), UPDATED, 1),
    ("escapes, nothing else", Stored(place={"//a.com/%E8~": [known(item=replace(ITEM, link="https://a.com/%e8%7e"))]}), Item(link="https://a.com/%E8~", title="x"), NEW, None),
    ("a reserved escape is another URL", Stored(place={"//a.com/1/2": [known(item=replace(ITEM, link="https://a.com/1/2"))]}), replace(ITEM, guid="", link="https://a.com/1%2F2"), NEW, None),
    ("other fragment, no guids, other title", Stored(place={"//a.com/1": [known(item=Item("", "https://a.com/1#a", "One", "d"))]}), Item("", "https://a.com/1#b", "x", "d"), NEW, None),
    ("other fragment, no guids, other date", Stored(place={"//a.com/1": [known(item=Item("", "https://a.com/1#a", "One", "d"))]}), Item("", "https://a.com/1#b", "One", "e"), NEW, None),
    ("other fragment, no guids, same title and date", Stored(place={"//a.com/1": [known(item=Item("", "https://a.com/1#a", "One", "d"))]}), Item("", "https://a.com/1#b", "One", "d"), DUPLICATE, 1),
    ("a fragment appears, other title", Stored(place={"//a.com/1": [known(item=Item("", "https://a.com/1", "One", "d"))]}), Item("", "https://a.com/1#b", "x", "e"), NEW, None),
    ("same fragment, other title and date", Stored(place={"//a.com/1": [known(item=Item("", "https://a.com/1#a", "One", "d"))]}), Item("", "https://a.com/1#a", "x", "e"), UPDATED, 1),
    ("other fragment, a guid appears, same title", Stored(place={"//a.com/1": [known(item=Item("", "https://a.com/1#a", "One", "d"))]}), Item("g1", "https://a.com/1#b", "One", "e"), NEW, None),
    ("other fragment, other guid, same title", Stored(place={"//a.com/1": [known(item=Item("g1", "https://a.com/1#a", "One", "d"))]}), Item("g2", "https://a.com/1#b", "One", "e"), NEW, None),
    ("other fragment, other guid, same title and date", Stored(place={"//a.com/1": [known(item=Item("g1", "https://a.com/1#a", "One", "d"))]}), Item("g2", "https://a.com/1#b", "One", "d"), DUPLICATE, 1),
    ("an empty query appears", Stored(place={"//a.com/1": [known()]}), replace(ITEM, guid="", link="https://a.com/1?", published=""), UPDATED, 1),
    ("link not known, nothing else", Stored(place={"//a.com/1": [known()._replace(link="")]}), Item(link="https://a.com/1/", title="x"), UPDATED, 1),
    ("page of another feed's link, same title", Stored(page={"//a.com/1": [PAGE_OWNER]}), replace(ITEM, guid="g2"), DUPLICATE, 7),
    ("page of another feed's link, other title", Stored(page={"//a.com/1": [PAGE_OWNER]}), replace(ITEM, title="x"), NEW, None),
    ("page of a link, a section of it", Stored(page={"//a.com/1": [PAGE_OWNER]}), replace(ITEM, link="https://a.com/1#a"), NEW, None),
    ("page of a link, ambiguous place", Stored(page={"//a.com/1": [PAGE_OWNER]}, ambiguous={(URL, "//a.com/1")}), ITEM, NEW, None),
    ("page of a link of this feed, same title", Stored(page={"//a.com/1": [known(7, CLICK)]}), ITEM, UPDATED, 7),
    ("page of a link of this feed, other title", Stored(page={"//a.com/1": [known(7, CLICK)]}), replace(ITEM, title="x"), NEW, None),
    ("legacy guid, same feed", Stored(legacy={"g1": known()}), ITEM, DUPLICATE, 1),
    ("legacy guid of another feed", Stored(legacy={"g1": ELSEWHERE}), ITEM, NEW, None),
    ("legacy guid, imported", Stored(legacy={"g1": OLD}), ITEM, DUPLICATE, 1),
    ("legacy guid, imported, changed", Stored(legacy={"g1": OLD}), replace(ITEM, text="x"), DUPLICATE, 1),
    ("legacy guid, nothing more known", Stored(legacy={"g1": NOTHING}), ITEM, DUPLICATE, 1),
    ("legacy guid, reused", Stored(legacy={"g1": OLD}), Item("g1", "https://a.com/2", "x"), NEW, None),
    ("legacy guid, ambiguous", Stored(legacy={"g1": OLD}, ambiguous={(GUID, "g1")}), ITEM, NEW, None),
    ("dedupe key", Stored(dedupe={f"guid:{FEED}:g1": NOTHING}), ITEM, DUPLICATE, 1),
    ("dedupe key, reused", Stored(dedupe={f"guid:{FEED}:g1": OLD}), Item("g1", "https://a.com/2", "x"), NEW, None),
    ("dedupe key, ambiguous", Stored(dedupe={f"guid:{FEED}:g1": NOTHING}, ambiguous={(GUID, "g1")}), ITEM, NEW, None),
    ("dedupe key by URL", Stored(dedupe={"url:https://a.com/1": NOTHING}), replace(ITEM, guid=""), DUPLICATE, 1),
    ("dedupe key by hash", Stored(dedupe={f"hash:{BARE_HASH}": NOTHING}), BARE, DUPLICATE, 1),
    ("URL elsewhere, same guid", Stored(url={"//a.com/1": [known(item=STRONG, is_in_feed=False)]}), replace(STRONG, title="x"), DUPLICATE, 1),
    ("URL elsewhere, same short guid", Stored(url={"//a.com/1": [ELSEWHERE]}), replace(ITEM, title="x"), NEW, None),
    ("URL elsewhere, same number as guid", Stored(url={"//a.com/1": [ELSEWHERE._replace(guid="1234567890")]}), replace(ITEM, guid="1234567890", title="x"), NEW, None),
    ("URL elsewhere, http and www", Stored(url={"//a.com/1": [ELSEWHERE]}), replace(ITEM, guid="g2", link="http://www.a.com/1"), DUPLICATE, 1),
    ("URL elsewhere, slash and escapes", Stored(url={"//a.com/~b": [ELSEWHERE._replace(place="//a.com/~b", link="https://a.com/~b")]}), replace(ITEM, guid="g2", link="http://a.com/%7Eb/"), DUPLICATE, 1),
    ("URL elsewhere, other fragment, same title", Stored(url={"//a.com/1": [ELSEWHERE]}), replace(ITEM, guid="g2", link="https://a.com/1#b", published=""), NEW, None),
    ("URL elsewhere, other fragment, same title and date", Stored(url={"//a.com/1": [ELSEWHERE]}), replace(ITEM, guid="g2", link="https://a.com/1#b"), DUPLICATE, 1),
    ("URL elsewhere, same title", Stored(url={"//a.com/1": [ELSEWHERE]}), replace(ITEM, guid="g2"), DUPLICATE, 1),
    ("URL elsewhere, nothing else", Stored(url={"//a.com/1": [ELSEWHERE]}), replace(ITEM, guid="g2", title="x"), NEW, None),
    ("URL elsewhere, both untitled", Stored(url={"//a.com/1": [ELSEWHERE._replace(guid="", title="")]}), replace(ITEM, guid="", title=""), NEW, None),
    ("URL imported, nothing more known", Stored(url={"//a.com/1": [NOTHING]}), ITEM, DUPLICATE, 1),
    ("URL imported, other title", Stored(url={"//a.com/1": [OLD._replace(guid="", title="x")]}), ITEM, NEW, None),
    ("URL imported, other guid, no title", Stored(url={"//a.com/1": [OLD._replace(guid="g0", title="")]}), ITEM, NEW, None),
    ("hash", Stored(hash={BARE_HASH: known(item=BARE)}), BARE, DUPLICATE, 1),
    ("hash, other text", Stored(hash={BARE_HASH: known(item=BARE)}), replace(BARE, text="x"), NEW, None),
    ("hash, other enclosure", Stored(hash={BARE_HASH: known(item=BARE)}), replace(BARE, enclosures=("https://a.com/1.mp3",)), NEW, None),
    ("first hash, same content", Stored(hash={make_first_fallback_hash(BARE, FEED): known(item=BARE)}), BARE, DUPLICATE, 1),
    ("first hash, other text", Stored(hash={make_first_fallback_hash(BARE, FEED): known(item=BARE)}), replace(BARE, text="x"), NEW, None),
    ("first hash with title and date, other text", Stored(hash={make_first_fallback_hash(DATED, FEED): known(item=DATED)}), replace(DATED, text="x"), UPDATED, 1),
    ("first hash, imported", Stored(hash={make_first_fallback_hash(BARE, FEED): NOTHING}), replace(BARE, text="x"), DUPLICATE, 1),
    ("dedupe key by first hash", Stored(dedupe={f"hash:{make_first_fallback_hash(BARE, FEED)}": NOTHING}), replace(BARE, text="x"), DUPLICATE, 1),
    ("hash of what has a guid", Stored(hash={BARE_HASH: known(item=BARE)}), replace(BARE, guid="g"), NEW, None),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "item", "outcome", "entry"), [pytest.param(*row[1:], id=row[0]) for row in CASES])
def test_an_item_is_matched_with_the_entry_its_keys_point_to(
    stored: Stored, item: Item, outcome: ItemOutcome, entry: int | None
) -> None:
    match = stored.match(item)
    (matched,) = match.items
    assert (matched.outcome, matched.entry_id) == (outcome, entry)
    assert match.conflicts == []


def test_a_match_knows_where_its_entry_was_seen_before() -> None:
    (same,) = Stored(guid={"g1": known()}).match(ITEM).items
    assert (same.is_in_feed, same.is_imported, same.is_unchanged) == (True, False, True)
    (changed,) = Stored(guid={"g1": known()}).match(replace(ITEM, text="x")).items
    assert (changed.is_in_feed, changed.is_unchanged) == (True, False)
    (renamed,) = Stored(place={"//a.com/1": [known()]}).match(replace(ITEM, guid="")).items
    assert (renamed.outcome, renamed.is_unchanged) == (DUPLICATE, False)
    (elsewhere,) = Stored(url={"//a.com/1": [ELSEWHERE]}).match(ITEM).items
    assert (elsewhere.is_in_feed, elsewhere.is_imported, elsewhere.is_unchanged) == (False, False, False)
    (old,) = Stored(legacy={"g1": OLD}).match(ITEM).items
    assert (old.is_in_feed, old.is_imported, old.is_unchanged) == (False, True, False)
    (new,) = Stored().match(ITEM).items
    assert (new.is_in_feed, new.is_imported, new.is_unchanged, new.entry_id) == (False, False, False, None)


def test_other_entries_at_the_same_url_are_reported() -> None:
    others = [known(2, Item("g2", ITEM.link, "Two")), known(3, Item("g3", ITEM.link, "Three"))]
    stored = Stored(guid={"g1": known()}, place={"//a.com/1": [known(), others[0]]}, url={"//a.com/1": [others[1]]})
    (matched,) = stored.match(ITEM).items
    assert matched.shares_url_with == (2, 3)
    (new,) = Stored(place={"//a.com/1": [others[0]]}).match(ITEM).items
    assert (new.outcome, new.shares_url_with) == (NEW, (2,))
    (unlinked,) = Stored(place={"": [others[0]]}, url={"": [others[1]]}).match(Item(guid="g")).items
    assert unlinked.shares_url_with == ()


def test_keys_that_point_to_two_entries_are_a_conflict() -> None:
    other = known(2, replace(ITEM, guid=""))
    match = Stored(guid={"g1": known()}, place={"//a.com/1": [other]}, legacy={"g1": OLD._replace(entry_id=3)}).match(
        ITEM
    )
    assert [matched.entry_id for matched in match.items] == [1]
    assert match.conflicts == [KeyConflict("One", 1, 2), KeyConflict("One", 1, 3)]


def test_an_entry_of_another_feed_at_the_same_url_is_no_conflict() -> None:
    stored = Stored(
        guid={"g1": known()}, place={"//a.com/1": [known()]}, url={"//a.com/1": [known(2, is_in_feed=False)]}
    )
    assert stored.match(ITEM).conflicts == []


def test_an_entry_goes_to_the_item_with_the_strongest_key() -> None:
    """The item with the guid gets it, although an item with the URL stands before it."""
    stored = Stored(guid={"g1": known()}, place={"//a.com/1": [known()]})
    match = stored.match(Item(guid="", link="http://a.com/1?utm_id=1", title="Two"), replace(ITEM, link=""))
    assert [(matched.outcome, matched.entry_id) for matched in match.items] == [(NEW, None), (UPDATED, 1)]


def test_an_entry_keeps_its_guid_while_the_document_has_it() -> None:
    stored = Stored(guid={"g1": known()}, place={"//a.com/1": [known()]})
    match = stored.match(replace(ITEM, guid="g2", link="https://a.com/1"), replace(ITEM, link="https://a.com/9"))
    assert [(matched.outcome, matched.entry_id) for matched in match.items] == [(NEW, None), (UPDATED, 1)]


def test_an_ambiguous_old_guid_does_not_keep_its_entry() -> None:
    stored = Stored(place={"//a.com/1": [known()]}, ambiguous={(GUID, "g1")})
    match = stored.match(replace(ITEM, guid="g2"), Item(guid="g1", link="https://a.com/3", title="Three"))
    assert [matched.entry_id for matched in match.items] == [1, None]


def test_keys_that_several_items_carry_identify_none_of_them() -> None:
    first, second = Item("g", "https://a.com/1", "One"), Item("g", "https://a.com/2", "Two")
    third, fourth = Item("3", "https://a.com/", "Three"), Item("4", "https://www.a.com/", "Four")
    match = Stored(guid={"g": known()}).match(first, second, third, fourth)
    assert [matched.outcome for matched in match.items] == [NEW] * 4
    assert match.ambiguous == {(GUID, "g"), (URL, "//a.com/")}
    assert [[key.key_type for key in matched.item.keys] for matched in match.items] == [
        [URL],
        [URL],
        [GUID, KeyType.LEGACY_GUID],
        [GUID, KeyType.LEGACY_GUID],
    ]
    assert [matched.item.dedupe_key for matched in match.items] == [
        "url:https://a.com/1",
        "url:https://a.com/2",
        f"guid:{FEED}:3",
        f"guid:{FEED}:4",
    ]


def test_items_with_only_a_hash_are_told_apart_by_their_text() -> None:
    twins = [Item("g", "https://a.com/", "", text="1"), Item("g", "https://a.com/", "", text="2")]
    matched, other = Stored().match(*twins).items
    assert matched.item.keys != other.item.keys
    assert not matched.item.has_strong_key
    assert matched.item.keys == (
        Key(KeyType.FALLBACK_HASH, make_fallback_hashes(make_keyed_items(twins, FEED), FEED)[0]),
    )
    assert matched.item.dedupe_key == f"hash:{matched.item.keys[0].key_value}"


def test_a_reused_guid_becomes_ambiguous() -> None:
    match = Stored(guid={"g1": known()}).match(Item("g1", "https://a.com/2", "x"))
    assert match.ambiguous == {(GUID, "g1")}
    assert [key.key_type for key in match.items[0].item.keys] == [URL]


def test_a_guid_that_goes_to_another_item_leaves_its_entry_to_the_unchanged_item() -> None:
    """Without URLs, only equal content shows that the guids are numbers."""
    first, second = Item("1", "", "One", "d", "x"), Item("2", "", "Two", "d", "y")
    stored = Stored(guid={"1": known(1, first), "2": known(2, second)})
    found = stored.match(Item("1", "", "New", "d", "z"), replace(first, guid="2"), replace(second, guid="3"))
    assert [(match.outcome, match.entry_id) for match in found.items] == [(NEW, None), (DUPLICATE, 1), (DUPLICATE, 2)]
    assert found.ambiguous == {(GUID, "1"), (GUID, "2")}
    # The item that was shown under the guid is no longer in the document, but the feed has shown the other one.
    found = stored.match(Item("1", "", "New", "d", "z"), replace(first, guid="2"))
    assert [(match.outcome, match.entry_id) for match in found.items] == [(NEW, None), (DUPLICATE, 1)]
    found = stored.match(Item("1", "", "New", "d", "z"), replace(first, guid=""))
    assert [(match.outcome, match.entry_id) for match in found.items] == [(NEW, None), (DUPLICATE, 1)]
    # An item that only another feed has shown says nothing about the guids of this one.
    elsewhere = Stored(guid={"1": known(1, first), "2": known(2, second, is_in_feed=False)})
    found = elsewhere.match(replace(second, guid="1"))
    assert [(match.outcome, match.entry_id) for match in found.items] == [(UPDATED, 1)]
    edited = stored.match(replace(first, title="Edited"), second)
    assert [(match.outcome, match.entry_id) for match in edited.items] == [(UPDATED, 1), (DUPLICATE, 2)]


def test_equal_items_of_one_document_are_one_item() -> None:
    assert len(make_keyed_items([ITEM, replace(ITEM)], FEED)) == 1
    assert len(make_keyed_items([ITEM, replace(ITEM, text="longer", published="later")], FEED)) == 1
    assert len(make_keyed_items([ITEM, replace(ITEM, link="http://www.a.com/1/")], FEED)) == 1
    assert len(make_keyed_items([ITEM, replace(ITEM, title="Two")], FEED)) == 2
    assert len(make_keyed_items([ITEM, replace(ITEM, guid="g2")], FEED)) == 2
    # Without a guid the date must be equal, without a title everything.
    unnamed = replace(ITEM, guid="")
    assert len(make_keyed_items([unnamed, replace(unnamed, text="longer")], FEED)) == 1
    assert len(make_keyed_items([unnamed, replace(unnamed, published="later")], FEED)) == 2
    assert len(make_keyed_items([unnamed, replace(unnamed, link="https://a.com/1#2")], FEED)) == 2
    untitled = replace(ITEM, title="")
    assert len(make_keyed_items([untitled, replace(untitled, text="longer")], FEED)) == 2


def test_items_that_differ_in_the_fragment_are_matched_by_their_links() -> None:
    """Several sections of one page: their URL is the key of none, but their links tell them apart."""
    sections = [Item("", f"https://a.com/log#v{number}", f"Version {number}", "d") for number in (1, 2)]
    first = Stored().match(*sections)
    assert [[key.key_type for key in each.item.keys] for each in first.items] == [[KeyType.FALLBACK_HASH]] * 2
    assert first.ambiguous == set()
    stored = Stored(place={"//a.com/log": [known(1, sections[0]), known(2, sections[1])]})
    edited = [Item("", section.link, f"{section.title}, corrected", "e") for section in reversed(sections)]
    assert [(each.outcome, each.entry_id) for each in stored.match(*edited).items] == [(UPDATED, 2), (UPDATED, 1)]


def test_the_item_at_the_very_same_link_comes_first() -> None:
    """The item with the slash stands first, and has the same title."""
    stored = Stored(place={"//a.com/1": [known()]})
    match = stored.match(replace(ITEM, guid="", link="https://a.com/1/"), replace(ITEM, guid="", published="x"))
    assert [each.entry_id for each in match.items] == [None, 1]


def test_equal_titles_and_dates_of_one_document_are_no_identity() -> None:
    stored = Stored(hash={make_first_fallback_hash(DATED, FEED): known(item=DATED)})
    match = stored.match(replace(DATED, text="x"), replace(DATED, text="y"))
    assert [each.outcome for each in match.items] == [NEW, NEW]
    assert [each.item.older_keys for each in match.items] == [(), ()]


def test_a_known_item_is_not_new_when_another_one_takes_its_guid_and_url() -> None:
    stored = Stored(guid={"g1": known()}, place={"//a.com/1": [known()]})
    found = stored.match(replace(ITEM, title="Other"), ITEM)
    assert [(match.outcome, match.entry_id) for match in found.items] == [(NEW, None), (DUPLICATE, 1)]


def test_of_several_items_with_the_same_title_and_date_only_the_unchanged_one_is_known() -> None:
    bare = replace(ITEM, guid="")
    found = Stored(place={"//a.com/1": [known(item=bare)]}).match(
        replace(ITEM, guid="a", text="x"), replace(ITEM, guid="b", text="y"), bare
    )
    assert [match.entry_id for match in found.items] == [None, None, 1]


def test_characters_that_no_database_stores_are_replaced() -> None:
    [item] = make_keyed_items([Item(guid="a\0", link="https://a.com/1", title="\ud800b", published="c")], FEED)
    assert (item.parsed.guid, item.parsed.title) == ("a\ufffd", "\ufffdb")
