"""Rekey: what the keys of an entry become when another policy takes the place of theirs (contract N10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from canonry.core.keys import make_url_key, normalize_link, shorten_key, strip_scheme_and_www

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class UrlKeys:
    """What of an entry is decided by links and the policy."""

    canonical_url: str
    dedupe_key: str
    registered: tuple[str, ...]  # the URLs it is known by: its own, earlier ones, those of other feeds
    places: Mapping[int, str]  # by feed


@dataclass(frozen=True, slots=True)
class KeyedEntry:
    """An entry: what tells whether it is still the one a rekey saw, and its keys."""

    url: str
    first_seen_at: str
    keys: UrlKeys


def rekeyed_link(url: str, key: str, before: str, after: str) -> str:
    """The key under `after` for a link whose key under `before` is `key`.

    Made from the link if the key was; else from the key, which is then all that is known.
    """
    return make_url_key(url, policy=after) if make_url_key(url, policy=before) == key else _rekeyed_key(key, after)


def rekeyed_place(place: str, after: str) -> str:
    """A place under another policy where its link is not known."""
    return strip_scheme_and_www(_rekeyed_key(f"https:{place}", after)) if place.startswith("//") else place


def rekeyed(entry: KeyedEntry, before: str, after: str) -> UrlKeys:
    """The keys of an entry under the policy `after`, which are under `before` now."""
    keys = entry.keys
    old, new = keys.canonical_url, rekeyed_link(entry.url, keys.canonical_url, before, after)
    old_place, new_place = strip_scheme_and_www(old), strip_scheme_and_www(new)
    return UrlKeys(
        canonical_url=new,
        dedupe_key=_rekeyed_dedupe_key(entry, new, before, after),
        registered=_named((new, *(new if each == old else _rekeyed_key(each, after) for each in keys.registered))),
        places={
            feed: new_place if place == old_place else rekeyed_place(place, after)
            for feed, place in keys.places.items()
        },
    )


def restored(entry: KeyedEntry, kept: KeyedEntry | None, before: str, after: str) -> UrlKeys:
    """The keys of an entry when a rekey from `before` to `after` is undone; `kept` is what it was before that.

    As they were where nothing has changed since, made anew under `before` where something has.
    """
    anew = rekeyed(entry, after, before)
    if kept is None or kept.first_seen_at != entry.first_seen_at:  # it came since, perhaps under the id of another
        return anew
    left = rekeyed(kept, before, after)
    learned = (_rekeyed_key(each, before) for each in entry.keys.registered if each not in left.registered)
    is_same = entry.url == kept.url and entry.keys.dedupe_key == left.dedupe_key
    own, claimed = (kept.keys, ()) if is_same else (anew, (anew.canonical_url,))
    # The same place under `after` may have been reached by another link since.
    moved = "" if is_same else strip_scheme_and_www(entry.keys.canonical_url)
    return UrlKeys(
        canonical_url=own.canonical_url,
        dedupe_key=own.dedupe_key,
        registered=_named((*kept.keys.registered, *claimed, *learned)),
        places={
            feed: kept.keys.places[feed] if left.places.get(feed) == place != moved else anew.places[feed]
            for feed, place in entry.keys.places.items()
        },
    )


def _rekeyed_key(key: str, after: str) -> str:
    """A key under another policy where its link is not known; of a digest nothing is known at all."""
    return make_url_key(key, policy=after) if key.startswith("http") else key


def _rekeyed_dedupe_key(entry: KeyedEntry, new: str, before: str, after: str) -> str:
    key = entry.keys.dedupe_key
    if not new or key.startswith(("guid:", "hash:")):
        return key
    if key == f"url:{entry.keys.canonical_url}":
        return f"url:{new}"
    # A long one is a digest of the whole.
    is_digest = key == shorten_key(f"url:{normalize_link(entry.url, policy=before)}")
    return shorten_key(f"url:{normalize_link(entry.url, policy=after)}") if is_digest else key


def _named(urls: tuple[str, ...]) -> tuple[str, ...]:
    """Each once, without those that name nothing."""
    return tuple(dict.fromkeys(url for url in urls if url))
