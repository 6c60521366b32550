"""Which items the reading list shows, as its address says it, and the folders and feeds beside it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from canonry.errors import mask_credentials
from canonry.feeds.item_states import ItemStatus
from canonry.feeds.stored_items import ItemSearch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from canonry.feeds.feed_values import FeedState
    from canonry.feeds.item_states import UnreadItems

_MAX_FEEDS = 60  # listed beside the items


class ReadingView(StrEnum):
    """A tab of the reading list."""

    UNREAD = "unread"
    ALL = "all"
    SAVED = "saved"
    READ = "read"


_STATUSES = {
    ReadingView.UNREAD: ItemStatus.UNREAD,
    ReadingView.ALL: None,
    ReadingView.SAVED: ItemStatus.SAVED,
    ReadingView.READ: ItemStatus.READ,
}


@dataclass(frozen=True, slots=True)
class ReadingFilter:
    """The filter of the reading list; an empty value does not filter."""

    view: ReadingView = ReadingView.UNREAD
    folder: str = ""
    feed_id: int | None = None
    words: str = ""

    @property
    def is_narrowed(self) -> bool:
        return bool(self.folder or self.feed_id or self.words)

    def make_search(self, owner: int) -> ItemSearch:
        return replace(self.make_search_of_all(), owner_id=owner, status=_STATUSES[self.view])

    def make_search_of_all(self) -> ItemSearch:
        """Return the search for the items of every state."""
        return ItemSearch(feed_id=self.feed_id, folder=self.folder, words=self.words)

    def make_path(self, **changes: object) -> str:
        """Return the address of this list, or of one with other values; `cursor` and `notice` are added."""
        values = {"state": self.view, "folder": self.folder, "feed": self.feed_id, "q": self.words, **changes}
        query = {name: value for name, value in values.items() if value}
        if query.get("state") == ReadingView.UNREAD:
            del query["state"]
        return f"/read?{urlencode(query)}" if query else "/read"

    def make_document_path(self, ending: str) -> str:
        """Return the address of the Atom or JSON Feed document; documents have the items of every state."""
        values = {"folder": self.folder, "feed": self.feed_id, "q": self.words}
        query = urlencode({name: value for name, value in values.items() if value})
        return f"/api/items.{ending}" + (f"?{query}" if query else "")


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A folder beside the list, with the unread items of its feeds and of the folders in it."""

    path: str
    unread: int

    @property
    def depth(self) -> int:
        return self.path.count("/")

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """A feed beside the list, with its unread items."""

    id: int
    title: str
    unread: int


@dataclass(frozen=True, slots=True)
class ReadingSidebar:
    """The folders, and the feeds of the folder that is open; outside of folders, the feeds without one."""

    folders: tuple[FolderEntry, ...]
    feeds: tuple[FeedEntry, ...]
    has_more_feeds: bool


def make_sidebar(
    feeds: Sequence[FeedState], unread: Mapping[int, UnreadItems], chosen: ReadingFilter
) -> ReadingSidebar:
    """Return what stands beside the list; feeds with unread items come first."""
    counts = {feed.id: unread[feed.id].count if feed.id in unread else 0 for feed in feeds}
    totals: Counter[str] = Counter()
    for feed in feeds:
        for path in _list_paths(feed.folder):
            totals[path] += counts[feed.id]
    folder = chosen.folder or next((feed.folder for feed in feeds if feed.id == chosen.feed_id), "")
    listed = sorted(
        (feed for feed in feeds if feed.folder == folder or (folder and feed.folder.startswith(f"{folder}/"))),
        key=lambda feed: (feed.id != chosen.feed_id, not counts[feed.id], name_feed(feed).casefold()),
    )
    return ReadingSidebar(
        tuple(FolderEntry(path, totals[path]) for path in sorted(totals, key=lambda path: path.casefold().split("/"))),
        tuple(FeedEntry(feed.id, name_feed(feed), counts[feed.id]) for feed in listed[:_MAX_FEEDS]),
        len(listed) > _MAX_FEEDS,
    )


def name_feed(feed: FeedState) -> str:
    """Return what a feed is called: its title, or its URL without credentials."""
    return feed.shown_title or mask_credentials(feed.url)


def _list_paths(folder: str) -> list[str]:
    """Return a folder and the folders around it: `a/b` → `a`, `a/b`."""
    parts = folder.split("/") if folder else []
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]
