"""Rows of JSON files from other services, with the names that `exchange_rows` reads (contract B8).

linkding (its REST API), Miniflux (`/v1/entries?starred=true`), FreshRSS and other programs with the Google Reader
format (starred items), and Karakeep. Texts of articles are left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

LIST_NAMES = ("bookmarks", "results", "entries", "items")  # ours and Karakeep, linkding, Miniflux, Google Reader
_LABEL = re.compile(r"user/[^/]*/label/(.+)", re.DOTALL)
_MINIFLUX_DEFAULT_CATEGORY = "All"


def find_rows(document: object) -> list[object] | None:
    """Return the rows of a JSON document: the document itself or its list; None if it has none."""
    if isinstance(document, dict):
        named = cast("dict[str, object]", document)
        document = next((named[name] for name in LIST_NAMES if isinstance(named.get(name), list)), None)
    return cast("list[object]", document) if isinstance(document, list) else None


def translate_row(row: Mapping[str, object]) -> Mapping[str, object]:
    """Return a row with our names; a row of a service that is not known stays as it is."""
    if "alternate" in row or "canonical" in row:
        return _translate_reader_item(row)
    if isinstance(row.get("feed"), dict) and "url" in row:
        return _translate_miniflux_entry(row)
    if isinstance(row.get("content"), dict) and "url" not in row:
        return _translate_karakeep_bookmark(row)
    if "tag_names" in row:
        return _translate_linkding_bookmark(row)
    return row


def _translate_reader_item(row: Mapping[str, object]) -> Mapping[str, object]:
    url = _find_href(row.get("canonical")) or _find_href(row.get("alternate"))
    labels = [found[1] for each in _list_texts(row.get("categories")) if (found := _LABEL.fullmatch(each))]
    created = row.get("crawltimemsec") or row.get("published")
    tags = list(dict.fromkeys([*labels, *_list_texts(row.get("labels"))]))
    return {"url": url, "title": row.get("title"), "tags": tags, "created_at": created}


def _translate_miniflux_entry(row: Mapping[str, object]) -> Mapping[str, object]:
    category = _get_text(_get_object(row.get("feed")).get("category"), "title")
    return {
        "url": row["url"],
        "title": row.get("title"),
        "status": row.get("status"),
        "folder": "" if category == _MINIFLUX_DEFAULT_CATEGORY else category,
        "created_at": row.get("published_at") or row.get("created_at"),
    }


def _translate_karakeep_bookmark(row: Mapping[str, object]) -> Mapping[str, object]:
    return {
        "url": _get_text(row["content"], "url"),
        "title": row.get("title"),
        "note": row.get("note"),
        "tags": row.get("tags"),
        "created_at": row.get("createdat"),
    }


def _translate_linkding_bookmark(row: Mapping[str, object]) -> Mapping[str, object]:
    snapshot = row.get("web_archive_snapshot_url")
    return {
        **row,
        "title": row.get("title") or row.get("website_title"),
        "description": row.get("description") or row.get("website_description"),
        "archive_urls": [snapshot] if snapshot else [],
    }


def _find_href(links: object) -> str:
    """Return the first `href` of a list of links."""
    found = cast("list[object]", links) if isinstance(links, list) else []
    return next((href for link in found if (href := _get_text(link, "href"))), "")


def _get_object(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _get_text(value: object, name: str) -> str:
    text = _get_object(value).get(name)
    return text if isinstance(text, str) else ""


def _list_texts(value: object) -> list[str]:
    return [each for each in cast("list[object]", value) if isinstance(each, str)] if isinstance(value, list) else []
