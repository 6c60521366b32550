"""What the box of the start page finds: a bookmark or an item by identity, or bookmarks by words (contract U1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from canonry.bookmarks.bookmark import BookmarkSearch
from canonry.bookmarks.save import looks_like_url
from canonry.bookmarks.url_pipeline import read_http_url
from canonry.errors import InvalidUrl
from canonry.feeds.item_lookup import find_item

if TYPE_CHECKING:
    from canonry.bookmarks.bookmark import Bookmark
    from canonry.bookmarks.identity_lookup import BookmarkMatch
    from canonry.bookmarks.url_pipeline import Preview
    from canonry.feeds.feed_values import FeedState, StoredItem
    from canonry.server.service import Service

_MAX_MATCHES = 8


@dataclass(frozen=True, slots=True)
class UrlFinding:
    """Facts about a URL; `preview` is the bookmark that saving it would make."""

    preview: Preview
    match: BookmarkMatch | None
    item: StoredItem | None
    feed: FeedState | None

    @property
    def is_known(self) -> bool:
        return bool(self.match or self.item or self.feed)

    @property
    def is_other_url(self) -> bool:
        """Whether the bookmark was saved under a URL that differs from the one that was entered."""
        if self.match is None:
            return False
        entered = self.preview.original_url or self.preview.url
        return entered not in {self.match.bookmark.url, self.match.bookmark.original_url}


@dataclass(frozen=True, slots=True)
class WordFinding:
    """The first bookmarks that match words, and how many match."""

    bookmarks: tuple[Bookmark, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Finding:
    """The meaning of a text in the box. `node.js` may be a URL or a word: both are looked up."""

    text: str
    url: UrlFinding | None = None
    words: WordFinding | None = None
    error: str = ""

    def list_bookmarks(self) -> list[Bookmark]:
        """Return the bookmarks that are shown."""
        matched = [self.url.match.bookmark] if self.url and self.url.match else []
        return [*matched, *(self.words.bookmarks if self.words else ())]


async def find(service: Service, owner: int, text: str) -> Finding:
    """Look a text up; sends no request and stores nothing."""
    text = text.strip()
    if not text:
        return Finding(text)
    if not looks_like_url(text):
        return Finding(text, words=await _find_words(service, owner, text))
    try:
        url = await _find_url(service, owner, text)
    except InvalidUrl as error:
        if "://" in text:
            return Finding(text, error=error.reason)
        return Finding(text, words=await _find_words(service, owner, text))
    if url.is_known or "://" in text:
        return Finding(text, url=url)
    words = await _find_words(service, owner, text)
    return Finding(text, url=url, words=words if words.bookmarks else None)


async def _find_url(service: Service, owner: int, text: str) -> UrlFinding:
    given = read_http_url(text)
    preview = await service.bookmarks.pipeline.preview(text)
    match = await service.bookmarks.find_by_identity(owner, text)
    item = await find_item(service.database, owner, given)
    feed = await service.feeds.find(list(dict.fromkeys((given, preview.url))))
    return UrlFinding(preview, match, item, feed)


async def _find_words(service: Service, owner: int, text: str) -> WordFinding:
    store, search = service.bookmarks.store, BookmarkSearch(text)
    page = await store.search(owner, search, limit=_MAX_MATCHES)
    count = await store.count_matches(owner, search) if page.next_cursor else len(page.bookmarks)
    return WordFinding(page.bookmarks, count)
