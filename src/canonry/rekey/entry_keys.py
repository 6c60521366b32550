"""Compute the keys of a feed entry under another policy, and restore them for an undo (contract N10).

A place is the canonical URL of an item in a feed, as links are compared: see `make_place`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from canonry.core.keys import make_link_key, make_place, normalize_link, shorten_key, strip_scheme_and_www

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class UrlKeys:
    """The keys of an entry that depend on links and the policy."""

    canonical_url: str
    dedupe_key: str
    registered: tuple[str, ...]  # the URLs that identify the entry: its own, earlier ones, those of other feeds
    places: Mapping[int, str]  # by feed


@dataclass(frozen=True, slots=True)
class KeyedEntry:
    """The keys of an entry, and the two fields that show whether it has changed since a rekey."""

    url: str
    first_seen_at: str
    keys: UrlKeys


def rekey_link(url: str, key: str, before: str, after: str) -> str:
    """Return the key under `after` of a link whose key under `before` is `key`.

    The new key is made from the link if the old key was; otherwise from the old key, because the link is not known.
    """
    return make_link_key(url, policy=after) if make_link_key(url, policy=before) == key else _rekey_key(key, after)


def rekey_place(place: str, after: str) -> str:
    """Return a place under another policy; its link is not known."""
    return make_place(_rekey_key(f"https:{place}", after)) if place.startswith("//") else place


def rekey_exact_place(place: str, after: str) -> str:
    """Return an exact place under another policy; its fragment stays."""
    if not place.startswith("//"):
        return place
    address, mark, fragment = place.partition("#")
    rekeyed = strip_scheme_and_www(_rekey_key(f"https:{address}", after))
    return f"{rekeyed}{mark}{fragment}" if rekeyed else ""


def rekey_entry(entry: KeyedEntry, before: str, after: str) -> UrlKeys:
    """Return the keys of an entry under `after`; they are under `before` now."""
    keys = entry.keys
    old, new = keys.canonical_url, rekey_link(entry.url, keys.canonical_url, before, after)
    old_place, new_place = make_place(old), make_place(new)
    return UrlKeys(
        canonical_url=new,
        dedupe_key=_rekey_dedupe_key(entry, new, before, after),
        registered=_remove_repeated(
            (new, *(new if each == old else _rekey_key(each, after) for each in keys.registered))
        ),
        places={
            feed: new_place if place == old_place else rekey_place(place, after) for feed, place in keys.places.items()
        },
    )


def undo_entry(entry: KeyedEntry, journaled: KeyedEntry | None, before: str, after: str) -> UrlKeys:
    """Return the keys of an entry after the undo of a rekey from `before` to `after`.

    `journaled` is the entry before the rekey. Keys that have not changed since are restored from it; the others are
    recomputed under `before`.
    """
    recomputed = rekey_entry(entry, after, before)
    # In a SQLite store of an earlier release, a newer entry may have the id of a deleted one.
    if journaled is None or journaled.first_seen_at != entry.first_seen_at:
        return recomputed
    rekeyed = rekey_entry(journaled, before, after)
    # URLs that were registered after the rekey, for example because the item appeared at another link.
    learned = (_rekey_key(each, before) for each in entry.keys.registered if each not in rekeyed.registered)
    # Whether the entry still has the link that it had before the rekey.
    is_same = entry.url == journaled.url and entry.keys.dedupe_key == rekeyed.dedupe_key
    own, claimed = (journaled.keys, ()) if is_same else (recomputed, (recomputed.canonical_url,))
    # Another link may have the same place under `after` by now, so the place must be recomputed.
    changed_place = "" if is_same else make_place(entry.keys.canonical_url)
    return UrlKeys(
        canonical_url=own.canonical_url,
        dedupe_key=own.dedupe_key,
        registered=_remove_repeated((*journaled.keys.registered, *claimed, *learned)),
        places={
            feed: journaled.keys.places[feed]
            if rekeyed.places.get(feed) == place != changed_place
            else recomputed.places[feed]
            for feed, place in entry.keys.places.items()
        },
    )


def _rekey_key(key: str, after: str) -> str:
    """Return a key under another policy, made from the key itself; a digest stays as it is."""
    return make_link_key(key, policy=after) if key.startswith("http") else key


def _rekey_dedupe_key(entry: KeyedEntry, new: str, before: str, after: str) -> str:
    key = entry.keys.dedupe_key
    if not new or key.startswith(("guid:", "hash:")):
        return key
    if key == f"url:{entry.keys.canonical_url}":
        return f"url:{new}"
    # The key of a long URL is a digest of the whole.
    is_digest = key == shorten_key(f"url:{normalize_link(entry.url, policy=before)}")
    return shorten_key(f"url:{normalize_link(entry.url, policy=after)}") if is_digest else key


def _remove_repeated(urls: tuple[str, ...]) -> tuple[str, ...]:
    """Return each URL once, without empty ones."""
    return tuple(dict.fromkeys(url for url in urls if url))
