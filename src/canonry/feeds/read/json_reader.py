"""Read JSON Feed 1.0 and 1.1 (https://www.jsonfeed.org/version/1.1/)."""

from __future__ import annotations

import json
from typing import TypeAlias, cast

from canonry.core.keys import Item
from canonry.errors import NotAFeed
from canonry.feeds.read.feed import Feed, FeedFormat
from canonry.feeds.read.item_details import clean_values, make_enclosure, merge_enclosures
from canonry.feeds.read.references import resolve_reference
from canonry.feeds.read.xml_parser import MAX_ITEMS

JsonObject: TypeAlias = dict[str, object]

_MAX_VALUES = 500_000  # objects and lists of a document


def read_json_feed(text: str, url: str) -> Feed:
    """Read a JSON Feed; raise NotAFeed if the text is not one."""
    document = _parse_object(text, url)
    version = _get_text(document, "version")
    if not isinstance(document.get("items"), list):
        raise NotAFeed(url, "JSON without a list of items")
    listed = len(cast("list[object]", document["items"]))
    if "jsonfeed.org/version/" not in version and not document.keys() & {"feed_url", "home_page_url"}:
        raise NotAFeed(url, "JSON, but not a JSON Feed")
    hubs = [resolve_reference(url, _get_text(hub, "url")) for hub in _get_objects(document, "hubs")]
    # JSON Feed 1.1 discards an item without an id; its URL or its content identifies it as well (contract I3).
    items = _get_objects(document, "items")[:MAX_ITEMS]
    return Feed(
        title=_get_text(document, "title"),
        format=FeedFormat.JSON,
        version=version.rstrip("/").rpartition("/")[2],
        link=resolve_reference(url, _get_text(document, "home_page_url")),
        self_url=_get_text(document, "feed_url"),
        hubs=tuple(filter(None, hubs)),
        ttl=None,
        items=tuple(_read_item(item, url, author=_read_authors(document)) for item in items),
        is_recovered=False,
        cut_items=listed - len(items),
    )


def _parse_object(text: str, url: str) -> JsonObject:
    if text.count("{") + text.count("[") > _MAX_VALUES:
        raise NotAFeed(url, "JSON with too many values")
    try:
        document = json.loads(text.strip("\ufeff \t\r\n"))
    except RecursionError:
        raise NotAFeed(url, "JSON nested too deep") from None
    except ValueError as error:
        raise NotAFeed(url, f"broken JSON: {error}") from None
    if not isinstance(document, dict):
        raise NotAFeed(url, "JSON, but not an object")
    return cast("JsonObject", document)


def _read_item(item: JsonObject, url: str, *, author: str) -> Item:
    """Read an item; `author` is that of the feed, for items that name none."""
    media = merge_enclosures(
        make_enclosure(address, _get_text(one, "mime_type"), _get_text(one, "size_in_bytes"))
        for one in _get_objects(item, "attachments")
        if (address := resolve_reference(url, _get_text(one, "url")))
    )
    tags = item.get("tags")
    return Item(
        guid=_get_text(item, "id"),
        link=resolve_reference(url, _get_text(item, "url", "external_url")),
        title=_get_text(item, "title"),
        published=_get_text(item, "date_published"),
        text=_get_text(item, "content_html", "content_text", "summary"),
        enclosures=tuple(one.url for one in media),
        updated=_get_text(item, "date_modified"),
        author=_read_authors(item) or author,
        categories=clean_values(filter(None, (_get_text({"tag": tag}, "tag") for tag in cast("list[object]", tags))))
        if isinstance(tags, list)
        else (),
        media=media,
    )


def _read_authors(parent: JsonObject) -> str:
    """Return the names of the authors, of version 1.1 or of 1.0, where there is one; else their URLs."""
    author = parent.get("author")
    people = _get_objects(parent, "authors") or _get_objects({"author": [author]}, "author")
    return ", ".join(clean_values(_get_text(person, "name", "url") for person in people))


def _get_objects(parent: JsonObject, name: str) -> list[JsonObject]:
    """Return the objects of a list; anything else in it is ignored."""
    value = parent.get(name)
    values = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("JsonObject", value) for value in values if isinstance(value, dict)]


def _get_text(parent: JsonObject, *names: str) -> str:
    """Return the first of these that is text or a number. Lone surrogates become question marks."""
    for value in map(parent.get, names):
        if isinstance(value, str | int | float) and not isinstance(value, bool) and (text := str(value).strip()):
            return text if text.isascii() else text.encode("utf-8", "replace").decode()
    return ""
