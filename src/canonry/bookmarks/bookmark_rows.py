"""Convert bookmarks to rows of their table, and rows to bookmarks."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from canonry.bookmarks.bookmark import Bookmark, BookmarkFields, BookmarkUrl, ExpansionState
from canonry.core.keys import replace_unstorable
from canonry.store.schema import bookmarks

if TYPE_CHECKING:
    from collections.abc import Sequence

# The columns that change with the URL of a bookmark.
URL_COLUMNS = ("key", "same_key", "url", "original_url", "exact_url", "policy", "expansion", "expansion_reason")
EXACT_POLICY = "exact@1"  # of bookmarks whose URL is saved as it was given
_NAMES = [each.name for each in fields(Bookmark)]
bookmark_columns = [bookmarks.c[name] for name in _NAMES]
_LISTS = frozenset({"tags", "archive_urls", "episode_urls"})  # stored as JSON
_BOOLEANS = frozenset({"exact_url", "to_read", "private"})  # stored as 0 and 1
_WRITTEN_BY_PEOPLE = BookmarkFields.__annotations__.keys()


def make_key(url: str) -> str:
    """Return the key of a URL, which is unique per owner: the SHA-256 digest of the URL."""
    return hashlib.sha256(url.encode()).hexdigest()


def parse_row(row: Sequence[Any]) -> Bookmark:
    """Return the bookmark of a row that has the `bookmark_columns`."""
    values = dict(zip(_NAMES, row, strict=True))
    for name in _LISTS:
        values[name] = tuple(json.loads(values[name]))
    for name in _BOOLEANS:
        values[name] = bool(values[name])
    values["expansion"] = ExpansionState(values["expansion"])
    if values["exact_url"]:
        values["policy"] = EXACT_POLICY  # the column names the policy of `same_key`, which finds duplicates
    return Bookmark(**values)


def dump_bookmark(bookmark: Bookmark) -> dict[str, Any]:
    """Return the columns of a bookmark."""
    row: dict[str, Any] = {name: getattr(bookmark, name) for name in _NAMES}
    for name in _LISTS:
        row[name] = dump_json(row[name])
    for name in _BOOLEANS:
        row[name] = int(row[name])
    return row | {"expansion": bookmark.expansion.value}


def make_empty_row() -> dict[str, Any]:
    """Return the columns that people write, all empty, for a bookmark whose page is not read yet."""
    texts = {"title": "", "description": "", "folder": "", "page_state": "pending"}
    unread = {"page_attempts": 0, "page_retry_at": None}
    return texts | unread | {"to_read": 0, "private": 0} | dict.fromkeys(_LISTS, "[]")


def dump_fields(given: BookmarkFields) -> dict[str, Any]:
    """Return the columns of the fields that are given."""
    return {name: _dump_field(name, value) for name, value in given.items() if name in _WRITTEN_BY_PEOPLE}


def _dump_field(name: str, value: Any) -> object:
    if name in _LISTS:
        return dump_json([replace_unstorable(each) for each in value])
    return int(value) if name in _BOOLEANS else replace_unstorable(value)


def dump_url(url: BookmarkUrl) -> dict[str, Any]:
    """Return the columns of a URL; not `key`, which differs for a duplicate that was allowed."""
    return {
        "url": url.url,
        "original_url": url.original_url,
        "same_key": make_key(url.normalized_url),
        "exact_url": int(url.exact_url),
        "policy": url.policy,
        "expansion": url.expansion.value,
        "expansion_reason": replace_unstorable(url.expansion_reason),
    }


def dump_json(value: Any) -> str:
    """Return JSON as the tables store it: without `\\u` escapes, so that a search finds non-ASCII text."""
    return json.dumps(value, ensure_ascii=False)
