"""Check the values of a backup before they reach the database: types, sizes, states and JSON (no I/O)."""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Any

from sqlalchemy import Float, Integer, LargeBinary

from canonry.store.pinned_policies import RekeyStatus

if TYPE_CHECKING:
    from sqlalchemy import Column

_STATES: dict[tuple[str, str], frozenset[str]] = {
    ("feeds", "status"): frozenset({"active", "stopped", "paused"}),
    ("entries", "match_confidence"): frozenset({"high", "low"}),
    ("bookmarks", "expansion"): frozenset({"none", "pending", "expanded", "failed"}),
    ("rekeys", "status"): frozenset(RekeyStatus),
    ("crawls", "state"): frozenset({"running", "done", "failed", "stopped", "paused"}),
    ("crawl_pages", "change"): frozenset({"", "new", "changed", "gone", "same"}),
    ("crawl_pages", "state"): frozenset({"queued", "fetching", "done", "failed", "skipped"}),
}
_JSON: dict[tuple[str, str], type[list[Any]] | type[dict[Any, Any]]] = {
    ("runs", "counts"): dict,
    ("bookmarks", "tags"): list,
    ("bookmarks", "archive_urls"): list,
    ("bookmarks", "episode_urls"): list,
    ("imports", "refused"): list,
    ("crawls", "options"): dict,
    ("crawls", "sitemap_failures"): list,
    ("crawl_pages", "links"): list,
    ("crawl_pages", "spellings"): list,
    ("crawl_pages", "facts"): dict,
}


def find_bad_value(column: Column[Any], value: object) -> str:
    """Return why a column cannot hold a value of a backup; empty if it can."""
    if value is None:
        return "" if column.nullable else "is empty"
    if isinstance(column.type, Integer):
        if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
            return "is not a whole number of 64 bits"
        return ""
    if isinstance(column.type, Float):
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        return "" if is_number else "is not a number"
    if not isinstance(value, str):
        return "is not a text"
    if isinstance(column.type, LargeBinary):
        return ""  # base64, which is decoded where it is inserted
    if not _is_storable(value):
        return "contains characters that no database can store"
    place = (column.table.name, column.name)
    if value not in _STATES.get(place, {value}):
        return "is not one of its values"
    return "" if place not in _JSON or _is_json(value, _JSON[place]) else "is not valid JSON"


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_json(text: str, kind: type[list[Any]] | type[dict[Any, Any]]) -> bool:
    try:
        return isinstance(json.loads(text), kind)
    except (ValueError, RecursionError):
        return False
