"""What an item and an entry have in common: the evidence that the rules of `item_matching` ask for (contract I3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canonry.feeds.item_matching import KnownEntry
    from canonry.feeds.keyed_items import KeyedItem


def has_other_place_and_title(item: KeyedItem, entry: KnownEntry) -> bool:
    """Return whether URL and title both differ; a missing URL differs from none."""
    has_other_place = bool(item.place and entry.place) and item.place != entry.place
    return has_other_place and item.title != entry.title


def has_compatible_guid(item: KeyedItem, entry: KnownEntry) -> bool:
    """Return whether the guids do not differ; a missing guid differs from none."""
    return not item.guid or not entry.guid or item.guid == entry.guid


def is_alike(item: KeyedItem, entry: KnownEntry) -> bool:
    """Return whether title or date is equal."""
    return is_same_text(item.title, entry.title) or is_same_text(item.published, entry.published)


def get_fragment(link: str) -> str:
    """Return the fragment of a link, empty if it has none."""
    return link.partition("#")[2].strip()


def is_same_text(one: str, other: str) -> bool:
    """Return whether two texts are equal and not empty."""
    return bool(one) and one == other
