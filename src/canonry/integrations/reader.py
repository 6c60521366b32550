"""A plugin for the `reader` library that merges duplicate subscriptions ("twins").

    make_reader("db.sqlite", plugins=["canonry.integrations.reader"])

After each update, subscriptions with similar URLs that serve the same feed are merged into one. The plugin sends no
requests: it compares what reader has fetched.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import canonry

# Not public: `canonry.feed_signature` makes signatures, only canonicalize and this plugin compare them.
from canonry.errors import mask_credentials
from canonry.feeds.content import is_overlapping, is_same_signature

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reader import Entry, Feed, Reader

# Subscriptions are compared if their URLs are equal under this policy, apart from the scheme.
_SIMILAR_POLICY = "feed-aggressive@2"
# URLs that are equal under this policy are the same feed, also if one of them cannot be compared.
_SAME_POLICY = "feed-conservative@2"
_ENTRY_POLICY = "entry@2"
_MIN_ENTRIES = 3  # for an overlap to be evidence
MERGED = "merged"
"""The tag `.plugin.canonry.merged` of a feed lists the URLs of the subscriptions that were merged into it."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MergedSubscription:
    """The URL of a deleted subscription, and the URL of the one it was merged into."""

    url: str
    into: str


def init_reader(reader: Reader) -> None:
    """Register the plugin: it merges twins after each `update_feeds`."""
    reader.after_feeds_update_hooks.append(_merge_and_log)


def _merge_and_log(reader: Reader) -> None:
    for merged in merge_twins(reader):
        _log.info("merged subscription %s into %s", mask_credentials(merged.url), mask_credentials(merged.into))


def merge_twins(reader: Reader) -> list[MergedSubscription]:
    """Merge subscriptions that are the same feed; read marks, tags and titles are kept."""
    by_similar_url: dict[str, list[Feed]] = defaultdict(list)
    for feed in reader.get_feeds():
        similar_url = canonry.normalize_many([feed.url], _SIMILAR_POLICY)[0]
        if similar_url is not None:
            by_similar_url[similar_url.partition(":")[2]].append(feed)
    merges: list[MergedSubscription] = []
    for feeds in by_similar_url.values():
        remaining = sorted(feeds, key=_make_sort_key)
        while len(remaining) > 1 and _is_working(remaining[0]):
            kept, *others = remaining
            twins = [feed for feed in others if _is_same_feed(reader, kept, feed)]
            for twin in twins:
                _merge_feed(reader, kept.url, twin)
                merges.append(MergedSubscription(twin.url, kept.url))
            remaining = [feed for feed in others if feed not in twins]
    return merges


def _make_sort_key(feed: Feed) -> tuple[Any, ...]:
    """Sort the subscription to keep first: it works, is updated, has the cleanest URL, is the oldest."""
    return (not _is_working(feed), not feed.updates_enabled, -canonry.score(feed.url).total, feed.added)


def _is_working(feed: Feed) -> bool:
    return feed.last_updated is not None and feed.last_exception is None


def _is_same_feed(reader: Reader, one: Feed, other: Feed) -> bool:
    """Return whether both serve the same feed; a failing or empty one must have an equal URL to be the same."""
    has_equal_url = len(set(canonry.normalize_many([one.url, other.url], _SAME_POLICY))) == 1
    if not _is_working(other):
        return has_equal_url
    ours, theirs = _get_newest_entries(reader, one), _get_newest_entries(reader, other)
    if not ours or not theirs:
        return has_equal_url and not ours and not theirs
    # reader keeps entries that have left the feed document: compare the newest entries of both.
    size = min(len(ours), len(theirs))
    urls = one.url, other.url
    signatures = [
        canonry.feed_signature(feed.title or "", map(_make_item, entries[:size]), *urls)
        for feed, entries in ((one, ours), (other, theirs))
    ]
    if size < _MIN_ENTRIES and len(ours) != len(theirs):
        return False
    return is_same_signature(*signatures) or is_overlapping(*signatures)


def _get_newest_entries(reader: Reader, feed: Feed) -> list[Entry]:
    entries = [entry for entry in reader.get_entries(feed=feed) if entry.added_by == "feed"]
    return sorted(entries, key=lambda entry: (entry.published or entry.updated or entry.added, entry.id), reverse=True)


def _make_item(entry: Entry) -> canonry.Item:
    text = "".join([entry.summary or "", *(content.value for content in entry.content)])
    enclosures = tuple(enclosure.href for enclosure in entry.enclosures)
    return canonry.Item(guid=entry.id, link=entry.link or "", title=entry.title or "", text=text, enclosures=enclosures)


def _merge_feed(reader: Reader, kept: str, twin: Feed) -> None:
    """Copy the data of the twin, then delete the twin; if this is interrupted, the next update completes it."""
    known = _EntryIndex(reader.get_entries(feed=kept))
    for entry in reader.get_entries(feed=twin):
        ours = known.find(entry)
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


class _EntryIndex:
    """Find the entry of a feed that is the same as an entry of another subscription."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._by_id: dict[str, Entry] = {}
        self._by_link_and_title: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for entry in entries:
            self._by_id[entry.id] = entry
            self._by_link_and_title[_get_link_and_title(entry)].append(entry)

    def find(self, entry: Entry) -> Entry | None:
        """Return the entry with the same id, or else the only entry with the same link and title."""
        link, title = _get_link_and_title(entry)
        matches = self._by_link_and_title.get((link, title), []) if link else []
        return self._by_id.get(entry.id) or (matches[0] if len(matches) == 1 else None)


def _get_link_and_title(entry: Entry) -> tuple[str, str]:
    """Return the link without scheme and `www.`, empty if it is not a URL, and the title."""
    link = canonry.normalize_many([(entry.link or "").strip()], _ENTRY_POLICY)[0] or ""
    return link.partition("://")[2].removeprefix("www."), entry.title or ""


def _merge_entry(reader: Reader, ours: Entry, theirs: Entry) -> None:
    if theirs.read and not ours.read:
        reader.set_entry_read(ours, True, theirs.read_modified)  # noqa: FBT003
    if theirs.important is not None and not ours.important and theirs.important != ours.important:
        reader.set_entry_important(ours, theirs.important, theirs.important_modified)
    _merge_tags(reader, ours, reader.get_tags(theirs))


def _merge_tags(reader: Reader, ours: Feed | Entry, theirs: Iterable[tuple[str, Any]]) -> None:
    """Add the tags of a twin; a tag with another value is renamed as reader's own `entry_dedupe` plugin does."""
    known: dict[str, Any] = dict(reader.get_tags(ours))
    for key, value in theirs:
        others = (reader.make_reader_reserved_name(f"duplicate.{number}.of.{key}") for number in count(1))
        name = next(name for name in chain([key], others) if known.get(name, value) == value)
        if name not in known:
            reader.set_tag(ours, name, value)
            known[name] = value
