"""Bookmarks as rows of their table, and back."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from canonry.bookmarks.bookmark import Address, Bookmark, ExpansionState
from canonry.core.keys import replace_unstorable
from canonry.store.schema import bookmarks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMES = [each.name for each in fields(Bookmark)]
bookmark_columns = [bookmarks.c[name] for name in NAMES]
_LISTS = frozenset({"tags", "archive_urls", "episode_urls"})
_TRUTHS = frozenset({"exact_url", "to_read", "private"})
_SEARCHED = ("url", "original_url", "title", "description", "tags", "folder", "archive_urls", "episode_urls")
# What people write; the rest of a row is ours.
TEXTS = ("title", "description", "tags", "folder", "to_read", "private", "archive_urls", "episode_urls")


def key_of(url: str) -> str:
    """What is unique for an owner: a digest of the URL."""
    return hashlib.sha256(url.encode()).hexdigest()


def as_bookmark(row: Sequence[Any]) -> Bookmark:
    """A row of the table, its columns in the order of the fields."""
    values = dict(zip(NAMES, row, strict=True))
    for name in _LISTS:
        values[name] = tuple(json.loads(values[name]))
    for name in _TRUTHS:
        values[name] = bool(values[name])
    values["expansion"] = ExpansionState(values["expansion"])
    return Bookmark(**values)


def empty_row() -> dict[str, Any]:
    return {"title": "", "description": "", "folder": "", "to_read": 0, "private": 0} | dict.fromkeys(_LISTS, "[]")


def stored_texts(texts: Mapping[str, Any]) -> dict[str, Any]:
    """What people wrote, as the table has it."""
    return {name: _value(name, value) for name, value in texts.items() if name in TEXTS}


def _value(name: str, value: Any) -> object:
    if name in _LISTS:
        return as_json([replace_unstorable(each) for each in value])
    return int(value) if name in _TRUTHS else replace_unstorable(value)


def placed(address: Address) -> dict[str, Any]:
    return {
        "url": address.url,
        "original_url": address.original_url,
        "same_key": key_of(address.same_url),
        "exact_url": int(address.exact_url),
        "policy": address.policy,
        "expansion": address.expansion.value,
        "expansion_reason": replace_unstorable(address.expansion_reason),
    }


def row_of(kept: Bookmark) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(kept, name) for name in NAMES}
    for name in _LISTS:
        row[name] = as_json(row[name])
    for name in _TRUTHS:
        row[name] = int(row[name])
    return row | {"expansion": kept.expansion.value}


def searchable(row: Mapping[str, Any]) -> str:
    """The texts of a row that search looks at."""
    texts = {name: "\n".join(json.loads(row[name])) if name in _LISTS else row[name] or "" for name in _SEARCHED}
    return "\n".join(texts.values()).lower()


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
