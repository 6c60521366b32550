"""contract I3, I4 without a store: what each item of a document is, given what the keys point to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from canonry.core.keys import Item, Key, KeyType, make_url_key, replace_unstorable, shorten_key, strip_scheme_and_www
from canonry.feeds.item_matching import (
    Conflict,
    Known,
    Lookup,
    Merge,
    Outcome,
    hash_keys,
    keyed,
    merged,
    shared,
)

NEW, UPDATED, DUPLICATE = Outcome.NEW, Outcome.UPDATED, Outcome.DUPLICATE
FEED = "https://a.com/feed"
GUID, URL = KeyType.GUID, KeyType.CANONICAL_URL
ITEM = Item(guid="g1", link="https://a.com/1", title="One", published="2026-01-01")


def known(entry_id: int = 1, item: Item = ITEM, *, here: bool = True, scoped: bool = True, imported: bool = False) -> Known:  # fmt: skip
    """The entry that this item once made."""
    (each,) = keyed([item], FEED)
    return Known(entry_id, here, scoped, each.guid, each.title, item.published, each.place, each.content_hash, imported)


@dataclass
class World:
    """What the store knows, by what leads to it."""

    guid: dict[str, Known] = field(default_factory=dict)
    place: dict[str, list[Known]] = field(default_factory=dict)
    legacy: dict[str, Known] = field(default_factory=dict)
    dedupe: dict[str, Known] = field(default_factory=dict)
    url: dict[str, list[Known]] = field(default_factory=dict)
    hash: dict[str, Known] = field(default_factory=dict)
    ambiguous: set[tuple[KeyType, str]] = field(default_factory=set)

    def merge(self, *items: Item) -> Merge:
        lookup = Lookup(
            by_guid={f"{FEED}:{guid}": entry for guid, entry in self.guid.items()},
            by_place=self.place,
            by_legacy_guid={f"guid:{guid}": entry for guid, entry in self.legacy.items()},
            by_dedupe_key=self.dedupe,
            by_url=self.url,
            by_hash=self.hash,
        )
        return merged(keyed(items, FEED), lookup, self.ambiguous, FEED)


ELSEWHERE = known(here=False)
BARE = Item(title="Bare")
BARE_HASH = hash_keys(keyed([BARE], FEED), FEED)[0]
OLD = known(here=False, scoped=False, imported=True)
NOTHING = OLD._replace(guid="", title="", published="", place="", content_hash="")

# why, what is known, the item, what it is, the entry it is
CASES: list[tuple[str, World, Item, Outcome, int | None]] = [
    ("nothing known", World(), ITEM, NEW, None),
    ("guid", World(guid={"g1": known()}), ITEM, DUPLICATE, 1),
    ("guid, other text", World(guid={"g1": known()}), replace(ITEM, text="x"), UPDATED, 1),
    ("guid, other title", World(guid={"g1": known()}), replace(ITEM, title="x"), UPDATED, 1),
    ("guid, other URL", World(guid={"g1": known()}), replace(ITEM, link="https://a.com/2"), UPDATED, 1),
    ("guid reused", World(guid={"g1": known()}), replace(ITEM, link="https://a.com/2", title="x"), NEW, None),
    ("guid, no URL then, other title", World(guid={"g1": known(item=replace(ITEM, link=""))}), replace(ITEM, title="x"), UPDATED, 1),
    ("ambiguous guid", World(guid={"g1": known()}, ambiguous={(GUID, "g1")}), ITEM, NEW, None),
    ("place", World(place={"//a.com/1": [known()]}), replace(ITEM, guid=""), DUPLICATE, 1),
    ("place, http and www", World(place={"//a.com/1": [known()]}), replace(ITEM, guid="", link="http://www.a.com/1"), UPDATED, 1),
    ("place, same guid", World(place={"//a.com/1": [known()]}), ITEM, DUPLICATE, 1),
    ("place, no guid then", World(place={"//a.com/1": [known(item=replace(ITEM, guid=""))]}), ITEM, DUPLICATE, 1),
    ("place, other guid, same title", World(place={"//a.com/1": [known()]}), replace(ITEM, guid="g2", published=""), UPDATED, 1),
    ("place, other guid, same date", World(place={"//a.com/1": [known()]}), replace(ITEM, guid="g2", title="x"), UPDATED, 1),
    ("place, other guid, nothing else", World(place={"//a.com/1": [known()]}), replace(ITEM, guid="g2", title="x", published=""), NEW, None),
    ("place, other guid, both untitled", World(place={"//a.com/1": [known(item=replace(ITEM, title="", published=""))]}), replace(ITEM, guid="g2", title="", published=""), NEW, None),
    ("place, the second of two", World(place={"//a.com/1": [known(2, Item("g2", ITEM.link, "Two")), known(1)]}), ITEM, DUPLICATE, 1),
    ("ambiguous place", World(place={"//a.com/1": [known()]}, ambiguous={(URL, "//a.com/1")}), replace(ITEM, guid="g2"), NEW, None),
    ("legacy guid, same feed", World(legacy={"g1": known()}), ITEM, DUPLICATE, 1),
    ("legacy guid of another feed", World(legacy={"g1": ELSEWHERE}), ITEM, NEW, None),
    ("legacy guid, imported", World(legacy={"g1": OLD}), ITEM, DUPLICATE, 1),
    ("legacy guid, imported, changed", World(legacy={"g1": OLD}), replace(ITEM, text="x"), DUPLICATE, 1),
    ("legacy guid, nothing more known", World(legacy={"g1": NOTHING}), ITEM, DUPLICATE, 1),
    ("legacy guid, reused", World(legacy={"g1": OLD}), replace(ITEM, link="https://a.com/2", title="x"), NEW, None),
    ("legacy guid, ambiguous", World(legacy={"g1": OLD}, ambiguous={(GUID, "g1")}), ITEM, NEW, None),
    ("dedupe key", World(dedupe={f"guid:{FEED}:g1": NOTHING}), ITEM, DUPLICATE, 1),
    ("dedupe key, reused", World(dedupe={f"guid:{FEED}:g1": OLD}), replace(ITEM, link="https://a.com/2", title="x"), NEW, None),
    ("dedupe key, ambiguous", World(dedupe={f"guid:{FEED}:g1": NOTHING}, ambiguous={(GUID, "g1")}), ITEM, NEW, None),
    ("dedupe key by URL", World(dedupe={"url:https://a.com/1": NOTHING}), replace(ITEM, guid=""), DUPLICATE, 1),
    ("dedupe key by hash", World(dedupe={f"hash:{BARE_HASH}": NOTHING}), BARE, DUPLICATE, 1),
    ("URL elsewhere, same guid", World(url={"https://a.com/1": [ELSEWHERE]}), replace(ITEM, title="x"), DUPLICATE, 1),
    ("URL elsewhere, same title", World(url={"https://a.com/1": [ELSEWHERE]}), replace(ITEM, guid="g2"), DUPLICATE, 1),
    ("URL elsewhere, nothing else", World(url={"https://a.com/1": [ELSEWHERE]}), replace(ITEM, guid="g2", title="x"), NEW, None),
    ("URL elsewhere, both untitled", World(url={"https://a.com/1": [ELSEWHERE._replace(guid="", title="")]}), replace(ITEM, guid="", title=""), NEW, None),
    ("URL imported, nothing more known", World(url={"https://a.com/1": [NOTHING]}), ITEM, DUPLICATE, 1),
    ("URL imported, other title", World(url={"https://a.com/1": [OLD._replace(guid="", title="x")]}), ITEM, NEW, None),
    ("URL imported, other guid, no title", World(url={"https://a.com/1": [OLD._replace(guid="g0", title="")]}), ITEM, NEW, None),
    ("hash", World(hash={BARE_HASH: known(item=BARE)}), BARE, DUPLICATE, 1),
    ("hash, changed", World(hash={BARE_HASH: known(item=BARE)}), replace(BARE, text="x"), UPDATED, 1),
    ("hash of what has a guid", World(hash={BARE_HASH: known(item=BARE)}), replace(BARE, guid="g"), NEW, None),
]  # fmt: skip


@pytest.mark.parametrize(("world", "item", "outcome", "entry"), [pytest.param(*row[1:], id=row[0]) for row in CASES])
def test_one_item(world: World, item: Item, outcome: Outcome, entry: int | None) -> None:
    merge = world.merge(item)
    (decision,) = merge.decisions
    assert (decision.outcome, decision.entry_id) == (outcome, entry)
    assert merge.conflicts == []


def test_what_a_decision_says() -> None:
    (same,) = World(guid={"g1": known()}).merge(ITEM).decisions
    assert (same.is_here, same.is_imported, same.is_as_shown) == (True, False, True)
    (changed,) = World(guid={"g1": known()}).merge(replace(ITEM, text="x")).decisions
    assert (changed.is_here, changed.is_as_shown) == (True, False)
    (renamed,) = World(place={"//a.com/1": [known()]}).merge(replace(ITEM, guid="")).decisions
    assert (renamed.outcome, renamed.is_as_shown) == (DUPLICATE, False)
    (elsewhere,) = World(url={"https://a.com/1": [ELSEWHERE]}).merge(ITEM).decisions
    assert (elsewhere.is_here, elsewhere.is_imported, elsewhere.is_as_shown) == (False, False, False)
    (old,) = World(legacy={"g1": OLD}).merge(ITEM).decisions
    assert (old.is_here, old.is_imported, old.is_as_shown) == (False, True, False)
    (new,) = World().merge(ITEM).decisions
    assert (new.is_here, new.is_imported, new.is_as_shown, new.entry_id) == (False, False, False, None)


def test_others_at_its_url_are_named() -> None:
    others = [known(2, Item("g2", ITEM.link, "Two")), known(3, Item("g3", ITEM.link, "Three"))]
    world = World(guid={"g1": known()}, place={"//a.com/1": [known(), others[0]]}, url={"https://a.com/1": [others[1]]})
    (decision,) = world.merge(ITEM).decisions
    assert decision.shares_url_with == (2, 3)
    (new,) = World(place={"//a.com/1": [others[0]]}).merge(ITEM).decisions
    assert (new.outcome, new.shares_url_with) == (NEW, (2,))
    (unlinked,) = World(place={"": [others[0]]}, url={"": [others[1]]}).merge(Item(guid="g")).decisions
    assert unlinked.shares_url_with == ()


def test_keys_that_point_to_two_entries() -> None:
    other = known(2, replace(ITEM, guid=""))
    merge = World(guid={"g1": known()}, place={"//a.com/1": [other]}, legacy={"g1": OLD._replace(entry_id=3)}).merge(
        ITEM
    )
    assert [decision.entry_id for decision in merge.decisions] == [1]
    assert merge.conflicts == [Conflict("One", 1, 2), Conflict("One", 1, 3)]


def test_what_only_speaks_for_itself_is_no_conflict() -> None:
    world = World(guid={"g1": known()}, place={"//a.com/1": [known()]}, url={"https://a.com/1": [known(2, here=False)]})
    assert world.merge(ITEM).conflicts == []


def test_an_entry_is_taken_once() -> None:
    """The strongest key of all items goes first: the one with the guid gets it, wherever it stands."""
    world = World(guid={"g1": known()}, place={"//a.com/1": [known()]})
    merge = world.merge(Item(guid="", link="http://a.com/1?utm_id=1", title="Two"), replace(ITEM, link=""))
    assert [(decision.outcome, decision.entry_id) for decision in merge.decisions] == [(NEW, None), (UPDATED, 1)]


def test_the_old_guid_in_the_document_keeps_its_entry() -> None:
    world = World(guid={"g1": known()}, place={"//a.com/1": [known()]})
    merge = world.merge(replace(ITEM, guid="g2", link="https://a.com/1"), replace(ITEM, link="https://a.com/9"))
    assert [(decision.outcome, decision.entry_id) for decision in merge.decisions] == [(NEW, None), (UPDATED, 1)]


def test_an_old_guid_that_identifies_nothing_does_not_hold_the_place() -> None:
    world = World(place={"//a.com/1": [known()]}, ambiguous={(GUID, "g1")})
    merge = world.merge(replace(ITEM, guid="g2"), Item(guid="g1", link="https://a.com/3", title="Three"))
    assert [decision.entry_id for decision in merge.decisions] == [1, None]


def test_guids_and_urls_that_several_items_carry_identify_none() -> None:
    first, second = Item("g", "https://a.com/1", "One"), Item("g", "https://a.com/2", "Two")
    third, fourth = Item("3", "https://a.com/", "Three"), Item("4", "https://www.a.com/", "Four")
    assert shared(keyed([first, second, third, fourth, Item(), Item(title="x")], FEED)) == {
        (GUID, "g"),
        (URL, "//a.com/"),
    }
    merge = World(guid={"g": known()}).merge(first, second, third, fourth)
    assert [decision.outcome for decision in merge.decisions] == [NEW] * 4
    assert merge.ambiguous == {(GUID, "g"), (URL, "//a.com/")}
    assert [[key.key_type for key in decision.keyed.keys] for decision in merge.decisions] == [
        [URL],
        [URL],
        [GUID, KeyType.LEGACY_GUID],
        [GUID, KeyType.LEGACY_GUID],
    ]
    assert [decision.keyed.dedupe_key for decision in merge.decisions] == [
        "url:https://a.com/1",
        "url:https://a.com/2",
        f"guid:{FEED}:3",
        f"guid:{FEED}:4",
    ]


def test_two_that_nothing_tells_apart_are_one() -> None:
    twins = [Item("g", "https://a.com/", "Same", text="1"), Item("g", "https://a.com/", "Same", text="2")]
    (decision,) = World().merge(*twins).decisions
    assert not decision.keyed.is_certain
    assert decision.keyed.keys == (Key(KeyType.FALLBACK_HASH, hash_keys(keyed(twins, FEED), FEED)[0]),)
    assert decision.keyed.dedupe_key == f"hash:{decision.keyed.keys[0].key_value}"


def test_a_reused_guid_is_remembered() -> None:
    merge = World(guid={"g1": known()}).merge(replace(ITEM, link="https://a.com/2", title="x"))
    assert merge.ambiguous == {(GUID, "g1")}
    assert [key.key_type for key in merge.decisions[0].keyed.keys] == [URL]


def test_keyed() -> None:
    items = keyed([ITEM, ITEM, replace(ITEM, guid=" g1 ", title=" One\n"), BARE], FEED)
    assert [each.item for each in items] == [ITEM, BARE]
    assert items[0].key(GUID) == f"{FEED}:g1"
    assert items[0].key(KeyType.FALLBACK_HASH) == ""
    assert [each.is_certain for each in items] == [True, False]
    (crawled,) = keyed([replace(ITEM, link="https://a.com/1/")], FEED, "crawl@1")
    assert (crawled.canonical_url, crawled.keys[1].policy) == ("https://a.com/1", "crawl@1")


def test_every_text_can_be_kept() -> None:
    (each,) = keyed([Item(guid="a\0", link="https://a.com/\0", title="\ud800x", published="\udfff")], FEED)
    assert (each.guid, each.title, each.item.published) == ("a\ufffd", "\ufffdx", "\ufffd")
    assert each.canonical_url == "https://a.com/%EF%BF%BD"
    assert replace_unstorable("fine 😀") == "fine 😀"


def test_every_key_fits_an_index() -> None:
    long = "é" * 1001
    assert shorten_key("é" * 1000) == "é" * 1000
    assert shorten_key(long) != shorten_key(long + "x")
    (each,) = keyed([Item(guid=long, link=f"https://a.com/{long}")], FEED)
    texts = each.guid, each.canonical_url, each.place, each.dedupe_key, *(key.key_value for key in each.keys)
    assert all(text.startswith("sha256:") and len(text) == 71 for text in texts)
    assert make_url_key("no url") == ""


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("", ""),
        ("https://www.a.com/1?b#c", "//a.com/1?b#c"),
        ("http://a.com:8080/", "//a.com:8080/"),
        ("sha256:ab", "sha256:ab"),
    ],
)
def test_place(url: str, place: str) -> None:
    assert strip_scheme_and_www(url) == place
