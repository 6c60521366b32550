"""A plugin for the `reader` library that merges twin subscriptions.

    make_reader("db.sqlite", plugins=["canonry.integrations.reader"])

After each update of feeds, subscriptions whose URLs differ only in spelling and that brought the same feed become one.
The plugin asks for nothing itself: what reader has fetched is the evidence.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import canonry
from canonry.core.keys import normalize_link, strip_scheme_and_www
from canonry.feeds.content import is_overlapping, is_same_signature

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reader import Entry, Feed, Reader

# Twins may be there where this form is equal, whatever the scheme; more than spelling differs where the other is not.
_FORM, _SPELLING = "feed-aggressive@1", "feed-conservative@1"
_FEW = 3  # entries from which on an overlap says something
MERGED = "merged"
"""The tag `.plugin.canonry.merged` of a feed lists the URLs of subscriptions that became part of it."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Merged:
    """A subscription that became part of another."""

    url: str
    into: str


def init_reader(reader: Reader) -> None:
    """Merge twins after each `update_feeds`."""
    reader.after_feeds_update_hooks.append(_after_update)


def _after_update(reader: Reader) -> None:
    for merged in merge_twins(reader):
        _log.info("%s is now part of %s", merged.url, merged.into)


def merge_twins(reader: Reader) -> list[Merged]:
    """Make one of the subscriptions that are the same feed; what you marked, tagged and named is kept."""
    by_form: dict[str, list[Feed]] = defaultdict(list)
    for feed in reader.get_feeds():
        form = canonry.normalize_many([feed.url], _FORM)[0]
        if form is not None:
            by_form[form.partition(":")[2]].append(feed)
    done: list[Merged] = []
    for feeds in by_form.values():
        rest = sorted(feeds, key=_rank)
        while len(rest) > 1 and _is_alive(rest[0]):
            kept, *others = rest
            twins = [feed for feed in others if _is_same(reader, kept, feed)]
            for twin in twins:
                _merge(reader, kept.url, twin)
                done.append(Merged(twin.url, kept.url))
            rest = [feed for feed in others if feed not in twins]
    return done


def _rank(feed: Feed) -> tuple[Any, ...]:
    """The subscription to keep comes first: one that works and is wanted, then the cleanest URL, then the oldest."""
    return (not _is_alive(feed), not feed.updates_enabled, -canonry.score(feed.url).total, feed.added)


def _is_alive(feed: Feed) -> bool:
    return feed.last_updated is not None and feed.last_exception is None


def _is_same(reader: Reader, one: Feed, other: Feed) -> bool:
    """Did both bring the same feed? One that brought nothing is the same if its URL is only spelled differently."""
    is_spelling = len(set(canonry.normalize_many([one.url, other.url], _SPELLING))) == 1
    if not _is_alive(other):
        return is_spelling
    ours, theirs = _latest(reader, one), _latest(reader, other)
    if not ours or not theirs:
        return is_spelling and not ours and not theirs
    # A subscription remembers more than the document has: compare what is newest in both.
    size = min(len(ours), len(theirs))
    urls = one.url, other.url
    signed = [
        canonry.feed_signature(feed.title or "", map(_item, entries[:size]), *urls)
        for feed, entries in ((one, ours), (other, theirs))
    ]
    if size < _FEW and len(ours) != len(theirs):
        return False
    return is_same_signature(*signed) or is_overlapping(*signed)


def _latest(reader: Reader, feed: Feed) -> list[Entry]:
    entries = [entry for entry in reader.get_entries(feed=feed) if entry.added_by == "feed"]
    return sorted(entries, key=lambda entry: (entry.published or entry.updated or entry.added, entry.id), reverse=True)


def _item(entry: Entry) -> canonry.Item:
    text = "".join([entry.summary or "", *(content.value for content in entry.content)])
    enclosures = tuple(enclosure.href for enclosure in entry.enclosures)
    return canonry.Item(guid=entry.id, link=entry.link or "", title=entry.title or "", text=text, enclosures=enclosures)


def _merge(reader: Reader, kept: str, twin: Feed) -> None:
    """Take over what the twin has, then delete it: killed in between, the next run does the rest."""
    known = _Entries(reader.get_entries(feed=kept))
    for entry in reader.get_entries(feed=twin):
        ours = known.like(entry)
        if ours is None:
            reader.copy_entry(entry, (kept, entry.id))
        else:
            _merge_entry(reader, ours, entry)
    feed = reader.get_feed(kept)
    if not feed.user_title and twin.user_title:
        reader.set_feed_user_title(feed, twin.user_title)
    tag = reader.make_plugin_reserved_name("canonry", MERGED)
    merged: Any = [*reader.get_tag(feed, tag, []), twin.url, *reader.get_tag(twin, tag, [])]
    _merge_tags(reader, feed, ((key, value) for key, value in reader.get_tags(twin) if key != tag))
    reader.set_tag(feed, tag, list(dict.fromkeys(merged)))
    if twin.updates_enabled:
        reader.enable_feed_updates(feed)
    reader.delete_feed(twin)


class _Entries:
    """Entries of a feed, found by what another subscription calls them."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._by_id: dict[str, Entry] = {}
        self._by_place: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for entry in entries:
            self._by_id[entry.id] = entry
            self._by_place[_place(entry)].append(entry)

    def like(self, entry: Entry) -> Entry | None:
        """The one of the same id, or else the only one of the same title and place, where it has one."""
        found = self._by_place.get(_place(entry), []) if _place(entry)[0] else []
        return self._by_id.get(entry.id) or (found[0] if len(found) == 1 else None)


def _place(entry: Entry) -> tuple[str, str]:
    return strip_scheme_and_www(normalize_link(entry.link or "")), entry.title or ""


def _merge_entry(reader: Reader, ours: Entry, theirs: Entry) -> None:
    if theirs.read and not ours.read:
        reader.set_entry_read(ours, True, theirs.read_modified)  # noqa: FBT003
    if theirs.important is not None and not ours.important and theirs.important != ours.important:
        reader.set_entry_important(ours, theirs.important, theirs.important_modified)
    _merge_tags(reader, ours, reader.get_tags(theirs))


def _merge_tags(reader: Reader, ours: Feed | Entry, theirs: Iterable[tuple[str, Any]]) -> None:
    """Tags of a twin too; another value for the same tag is named as reader's own `entry_dedupe` does."""
    known: dict[str, Any] = dict(reader.get_tags(ours))
    for key, value in theirs:
        others = (reader.make_reader_reserved_name(f"duplicate.{number}.of.{key}") for number in count(1))
        name = next(name for name in chain([key], others) if known.get(name, value) == value)
        if name not in known:
            reader.set_tag(ours, name, value)
            known[name] = value
