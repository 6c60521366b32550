"""Bookmarks, their URLs and fields, and what saving and searching them returns."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypedDict

from canonry.evidence.same_page import Evidence  # noqa: TC001 (pydantic resolves the annotations of responses)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ExpansionState(StrEnum):
    """Whether the URL is a short link, and whether its target is known."""

    NONE = "none"
    PENDING = "pending"
    EXPANDED = "expanded"
    FAILED = "failed"


class OnDuplicate(StrEnum):
    """The action for a new bookmark whose URL is saved already."""

    RETURN = "return"
    UPDATE = "update"
    ERROR = "error"
    ALLOW = "allow"


class PutOutcome(StrEnum):
    """The effect of putting a bookmark."""

    CREATED = "created"
    UPDATED = "updated"
    NO_CHANGE = "no_change"


class BookmarkFields(TypedDict, total=False):
    """The fields of a bookmark that people write; an update leaves missing fields unchanged."""

    title: str
    description: str
    tags: Sequence[str]
    folder: str
    to_read: bool
    private: bool
    archive_urls: Sequence[str]
    episode_urls: Sequence[str]


@dataclass(frozen=True, slots=True)
class BookmarkUrl:
    """The URL to save, and how it was made from the text that the user gave."""

    url: str
    original_url: str | None  # the text that the user gave, if it differs from `url`
    normalized_url: str  # equal for duplicates; differs from `url` only for an exact URL
    exact_url: bool
    policy: str
    expansion: ExpansionState = ExpansionState.NONE
    expansion_reason: str = ""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A saved bookmark."""

    id: int
    url: str
    original_url: str | None
    exact_url: bool
    title: str
    description: str
    tags: tuple[str, ...]
    folder: str
    to_read: bool
    private: bool
    archive_urls: tuple[str, ...]
    episode_urls: tuple[str, ...]
    expansion: ExpansionState
    expansion_reason: str
    policy: str
    created_at: str
    updated_at: str
    deleted_at: str | None

    @property
    def etag(self) -> str:
        """The HTTP entity tag; it changes whenever the bookmark does."""
        return f'"{self.id}-{hashlib.sha256(repr(self).encode(errors="replace")).hexdigest()[:16]}"'


@dataclass(frozen=True, slots=True)
class OwnedBookmark:
    """A bookmark and the id of its owner."""

    owner: int
    bookmark: Bookmark


@dataclass(frozen=True, slots=True)
class PutResult:
    """The bookmark after a put, and what the put changed.

    If the page was saved under another URL, `alias` is the URL that was put, and `evidence` proves that both show it.
    """

    bookmark: Bookmark
    outcome: PutOutcome
    alias: str | None = None
    evidence: Evidence | None = None


class BookmarkSort(StrEnum):
    """The order of a list of bookmarks."""

    NEWEST = "newest"
    OLDEST = "oldest"
    TITLE = "title"
    SITE = "site"
    CHANGED = "changed"  # the bookmark that was changed last comes first


@dataclass(frozen=True, slots=True)
class BookmarkSearch:
    """Which bookmarks to list, and in which order; `words` is what a person types, see `search_query`."""

    words: str = ""
    tag: str = ""
    folder: str = ""
    to_read: bool | None = None
    in_trash: bool = False
    sort: BookmarkSort = BookmarkSort.NEWEST


@dataclass(frozen=True, slots=True)
class BookmarkPage:
    """A page of a search; `next_cursor` is None on the last page."""

    bookmarks: tuple[Bookmark, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class BookmarkInFolder:
    """The id of a bookmark and its folder."""

    id: int
    folder: str
