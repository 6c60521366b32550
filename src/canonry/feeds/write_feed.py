"""Write stored items as Atom (RFC 4287) and JSON Feed 1.1, so that any reader can follow the stream (contract I9)."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from canonry.feeds.ingest_report import mask_item
from canonry.feeds.published import choose_published
from canonry.feeds.read.xml_parser import FORBIDDEN_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from canonry.feeds.feed_values import StoredItem

ATOM_MEDIA_TYPE = "application/atom+xml; charset=utf-8"
JSON_FEED_MEDIA_TYPE = "application/feed+json; charset=utf-8"
_NAMESPACE = uuid.UUID("5d1b3f0e-6d0f-4f4b-8a55-0c6f1d7c2e90")  # of the ids in these documents; never changes
_NEVER = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class FeedHead:
    """The head of a written feed; `name` identifies the list, for example by its URL without a cursor."""

    title: str
    name: str
    self_url: str = ""
    next_url: str = ""  # the next page, with older items (RFC 5005)


def write_atom(items: Sequence[StoredItem], head: FeedHead) -> str:
    """Return an Atom document; credentials in URLs are masked."""
    updated = max((_format_time(item.first_seen_at) for item in items), default=_NEVER)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"  <id>{_make_id('list', head.name)}</id>",
        f"  <title>{_escape(head.title)}</title>",
        f"  <updated>{updated}</updated>",
        "  <author><name>canonry</name></author>",
        "  <generator>canonry</generator>",
    ]
    for relation, url in (("self", head.self_url), ("next", head.next_url)):
        if url:
            lines.append(f'  <link rel="{relation}" type="application/atom+xml" href={_quote(url)}/>')
    for item in items:
        lines += _write_entry(mask_item(item))
    return "\n".join([*lines, "</feed>", ""])


def write_json_feed(items: Sequence[StoredItem], head: FeedHead) -> str:
    """Return a JSON Feed; credentials in URLs are masked."""
    document: dict[str, object] = {"version": "https://jsonfeed.org/version/1.1", "title": head.title}
    if head.self_url:
        document["feed_url"] = head.self_url
    if head.next_url:
        document["next_url"] = head.next_url
    document["items"] = [_make_json_item(mask_item(item)) for item in items]
    return f"{json.dumps(document, ensure_ascii=False, indent=1)}\n"


def make_item_id(item: StoredItem) -> str:
    """Return the id of an item in these documents.

    In a SQLite store of an earlier release, a new entry may have the number of a deleted one, so the id is made from
    the time as well.
    """
    return _make_id("entry", f"{item.entry_id} {item.first_seen_at}")


def _make_id(kind: str, name: str) -> str:
    return f"urn:uuid:{uuid.uuid5(_NAMESPACE, f'{kind} {name}')}"


def _write_entry(item: StoredItem) -> Iterator[str]:
    title = item.title or item.url or "untitled"
    yield "  <entry>"
    yield f"    <id>{make_item_id(item)}</id>"
    yield f"    <title>{_escape(title)}</title>"
    if _is_link(item.url):
        yield f'    <link rel="alternate" href={_quote(item.url)}/>'
    else:
        yield f'    <content type="text">{_escape(title)}</content>'  # an entry without a link must have content
    yield f"    <published>{_format_published(item)}</published>"
    yield f"    <updated>{_format_time(item.first_seen_at)}</updated>"
    for feed in item.feeds[1:]:
        yield f'    <link rel="via" href={_quote(feed.url)} title={_quote(feed.title)}/>'
    for feed in item.feeds[:1]:
        yield "    <source>"
        yield f"      <id>{_escape(feed.url)}</id>"
        yield f"      <title>{_escape(feed.title)}</title>"
        yield f"      <updated>{_format_time(item.first_seen_at)}</updated>"
        yield f'      <link rel="self" href={_quote(feed.url)}/>'
        yield "    </source>"
    yield "  </entry>"


def _make_json_item(item: StoredItem) -> dict[str, object]:
    title = item.title or item.url or "untitled"
    made: dict[str, object] = {"id": make_item_id(item)}
    if _is_link(item.url):
        made["url"] = item.url
    return made | {
        "title": title,
        "content_text": title,  # an item must have content, and the text of items is not stored
        "date_published": _format_published(item),
        "_canonry": {
            "dedupe_key": item.dedupe_key,
            "first_seen_at": item.first_seen_at,
            "feeds": [{"id": feed.id, "url": feed.url, "title": feed.title} for feed in item.feeds],
        },
    }


def _is_link(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


def _format_published(item: StoredItem) -> str:
    return _format_time(choose_published(item.published, item.first_seen_at))


def _format_time(stamp: str) -> str:
    return f"{stamp[:19]}Z"


def _escape(text: str) -> str:
    return escape(FORBIDDEN_CHARACTERS.sub("", text))


def _quote(text: str) -> str:
    return quoteattr(FORBIDDEN_CHARACTERS.sub("", text))
