"""What bookmarks are: their values, what putting them did, and what can be wrong."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from canonry.errors import CanonryError


class ExpansionState(StrEnum):
    """How far the following of a short link has come."""

    NONE = "none"
    PENDING = "pending"
    EXPANDED = "expanded"
    FAILED = "failed"


class OnDuplicate(StrEnum):
    """What to do with a bookmark whose URL is kept already."""

    RETURN = "return"
    UPDATE = "update"
    ERROR = "error"
    ALLOW = "allow"


class PutOutcome(StrEnum):
    """What putting a bookmark did."""

    CREATED = "created"
    UPDATED = "updated"
    NO_CHANGE = "no_change"


class NoBookmark(CanonryError):
    """The owner has no bookmark with this id."""

    def __init__(self, bookmark_id: int) -> None:
        super().__init__(f"no bookmark {bookmark_id}")


class AlreadyKept(CanonryError):
    """Another bookmark of the owner has this URL; `bookmark_id` says which."""

    def __init__(self, bookmark_id: int) -> None:
        super().__init__(f"bookmark {bookmark_id} has this URL already")
        self.bookmark_id = bookmark_id


class Changed(CanonryError):
    """The bookmark is no longer the one whose ETag was given."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a bookmark leads: the URL to keep, what was given where that differs, and how it came about."""

    url: str
    original_url: str | None
    same_url: str  # the normal form, also of an exact URL
    exact_url: bool
    policy: str
    expansion: ExpansionState = ExpansionState.NONE
    expansion_reason: str = ""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A bookmark as it is kept and shown."""

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
        """Changes whenever the bookmark does."""
        return f'"{self.id}-{hashlib.sha256(repr(self).encode(errors="replace")).hexdigest()[:16]}"'


@dataclass(frozen=True, slots=True)
class Put:
    """What a put did, and the bookmark as it is now."""

    bookmark: Bookmark
    outcome: PutOutcome


@dataclass(frozen=True, slots=True)
class Search:
    """Which bookmarks to list; words must all be somewhere in the texts of a bookmark."""

    words: str = ""
    tag: str = ""
    folder: str = ""
    to_read: bool | None = None
    in_trash: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Some bookmarks, the newest first, and where the next ones begin."""

    bookmarks: tuple[Bookmark, ...]
    next_cursor: str | None
