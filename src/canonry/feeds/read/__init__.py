"""Feeds: RSS, RDF, Atom and JSON Feed, well-formed or not, as values (docs/decisions/0006-feed-parsers.md)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from canonry.core.keys import Item
from canonry.errors import NotAFeed
from canonry.feeds.read.tree_reader import TreeReader, resolved
from canonry.feeds.read.xml_parser import CONTAINERS, MAX_ITEMS, parse_carefully, parse_strictly
from canonry.net.charset import decode

if TYPE_CHECKING:
    from canonry.feeds.read.xml_parser import Element

MAX_BYTES = 10 * 1024 * 1024  # of a document; the rest is not read
_MAX_VALUES = 500_000  # objects and lists of a JSON document
_JUNK = 100_000  # characters before the feed that are looked through

_ROOTS = CONTAINERS | {"entry"}
_PROLOG = re.compile(
    r"(?>\s++|\ufeff|<\?[^>]*+>|<!--.*?-->"
    r"|<!DOCTYPE(?>[^\[<>\"']|\"[^\"]*\"|'[^']*')*+"
    r"(?>\[(?>[^\]\"'<]|\"[^\"]*\"|'[^']*'|<!--.*?-->|<(?!!--))*+\]\s*+)?+>)*+"
    r"<(?P<name>[A-Za-z_][\w.:-]*+)",
    re.DOTALL | re.IGNORECASE,
)
_ROOT = re.compile(r"<(?P<name>(?:[A-Za-z_][\w.-]*:)?(?:rss|rdf|feed))(?=[\s/>])", re.IGNORECASE)
# A feed inside another document, such as a SOAP envelope; RDF is not looked for, SVG is full of it.
_WRAPPED = re.compile(
    r"<(?P<name>(?:[A-Za-z_][\w.-]*:)?(?:rss(?=\s[^<>]*version)|feed(?=\s[^<>]*2005/Atom)))(?=\s)", re.IGNORECASE
)
_RSS_IN_RDF = re.compile(r"http://purl\.org/rss/1\.0/|http://my\.netscape\.com/rdf/")
_PAGE = re.compile(r"<(?P<name>!doctype\s+html|html|head|body|title|div)\b", re.IGNORECASE)
_PAGE_ROOTS = frozenset({"html", "head", "body"})
_HTML = _PAGE_ROOTS | {
    "a", "article", "b", "base", "br", "center", "div", "em", "font", "form", "h1", "h2", "h3", "header", "hr", "i",
    "iframe", "img", "link", "main", "meta", "nav", "noscript", "ol", "p", "pre", "script", "section", "span", "strong",
    "style", "table", "title", "ul",
}  # fmt: skip


class FeedFormat(StrEnum):
    """What a feed is written in: RSS 0.9x and 2.0, RDF (RSS 0.90 and 1.0), Atom 0.3 and 1.0, JSON Feed."""

    RSS = "rss"
    RDF = "rdf"
    ATOM = "atom"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed as its document tells it; empty where it says nothing.

    `self_url` is as declared, resolved only where the document has an xml:base; `ttl` is in minutes;
    `is_careful` says that the document is broken and was read as far as it can be.
    """

    title: str
    format: FeedFormat
    version: str
    link: str
    self_url: str
    hubs: tuple[str, ...]
    ttl: int | None
    items: tuple[Item, ...]
    is_careful: bool


def read_feed(body: bytes, *, url: str = "", content_type: str = "") -> Feed:
    """The feed these bytes are, as far as it can be read; of the content type only its charset counts."""
    if not body.strip():
        raise NotAFeed(url, "empty")
    text = decode(body[:MAX_BYTES], content_type)
    if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return _read_json(text, url)
    root = _find_root(text)
    if root is None:
        raise NotAFeed(url, "neither XML nor JSON")
    name = _local(root["name"])
    if name in _HTML:
        raise NotAFeed(url, "a web page")
    if name not in _ROOTS:
        raise NotAFeed(url, f"the root element is <{root['name'][:60]}>")
    start = root.start("name") - 1
    return _read_xml(text[start:], text[:start], url)


def is_web_page(body: bytes) -> bool:
    """Is this HTML, where a feed was expected?"""
    root = _find_root(decode(body[:MAX_BYTES]))
    return root is not None and _local(root["name"]) in _HTML


def _find_root(text: str) -> re.Match[str] | None:
    """The root element: the first there is, but that of a feed where scraps of a page or other junk come before it."""
    first = _PROLOG.match(text)
    name = _local(first["name"]) if first else ""
    if name in _ROOTS or name in _PAGE_ROOTS:
        return first
    if first is not None and name not in _HTML:
        return _WRAPPED.search(text, 0, _JUNK) or first
    return _ROOT.search(text, 0, _JUNK) or first or _PAGE.search(text, 0, _JUNK)


def _local(name: str) -> str:
    name = name.lower()
    return "html" if name.startswith("!doctype") else name.rpartition(":")[2]


def _read_xml(document: str, prolog: str, url: str) -> Feed:
    tree = parse_strictly(document)
    is_careful = tree is None
    if tree is None:
        tree = parse_carefully(document, prolog)
    reader = TreeReader(tree, document=document, url=url)
    feed = reader.feed
    form, version = _format(tree, _local(reader.root_name), document)
    if form is FeedFormat.RDF and not (reader.items or feed.texts or _RSS_IN_RDF.search(document)):
        raise NotAFeed(url, "the root element is <rdf:RDF>, and it has no channel")
    ttl = feed.text("ttl")
    return Feed(
        title=reader.title,
        format=form,
        version=version,
        link=reader.link,
        self_url=feed.self_url,
        hubs=tuple(dict.fromkeys(feed.hubs)),
        ttl=int(ttl) if ttl.isascii() and ttl.isdecimal() and len(ttl) < 10 else None,
        items=tuple(reader.items),
        is_careful=is_careful,
    )


def _format(root: Element, name: str, document: str) -> tuple[FeedFormat, str]:
    version = next((value.strip() for key, value in root.attrib.items() if key.lower() == "version"), "")
    if name in {"feed", "entry"}:
        namespace = root.tag.lower()
        known = "1.0" if "2005/atom" in namespace else "0.3" if "purl.org/atom" in namespace else ""
        return FeedFormat.ATOM, known if known == "1.0" else version or known
    if name == "rdf":
        return FeedFormat.RDF, "0.90" if "http://my.netscape.com/rdf/simple/0.9/" in document else "1.0"
    return FeedFormat.RSS, version


def _read_json(text: str, url: str) -> Feed:
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
    feed = cast("dict[str, object]", document)
    version = _json_text(feed, "version")
    if not isinstance(feed.get("items"), list):
        raise NotAFeed(url, "JSON without a list of items")
    if "jsonfeed.org/version/" not in version and not feed.keys() & {"feed_url", "home_page_url"}:
        raise NotAFeed(url, "JSON, but not a JSON Feed")
    # An item without an id is to be left out (JSON Feed 1.1).
    items = [_json_item(item, url) for item in _objects(feed, "items")[:MAX_ITEMS] if _json_text(item, "id")]
    return Feed(
        title=_json_text(feed, "title"),
        format=FeedFormat.JSON,
        version=version.rstrip("/").rpartition("/")[2],
        link=resolved(url, _json_text(feed, "home_page_url")),
        self_url=_json_text(feed, "feed_url"),
        hubs=tuple(hub for one in _objects(feed, "hubs") if (hub := resolved(url, _json_text(one, "url")))),
        ttl=None,
        items=tuple(items),
        is_careful=False,
    )


def _json_item(item: dict[str, object], url: str) -> Item:
    attachments = [resolved(url, _json_text(one, "url")) for one in _objects(item, "attachments")]
    return Item(
        guid=_json_text(item, "id"),
        link=resolved(url, _json_text(item, "url", "external_url")),
        title=_json_text(item, "title"),
        published=_json_text(item, "date_published"),
        text=_json_text(item, "content_html", "content_text", "summary"),
        enclosures=tuple(dict.fromkeys(filter(None, attachments))),
        updated=_json_text(item, "date_modified"),
    )


def _objects(parent: dict[str, object], name: str) -> list[dict[str, object]]:
    listed = parent.get(name)
    values = cast("list[object]", listed) if isinstance(listed, list) else []
    return [cast("dict[str, object]", value) for value in values if isinstance(value, dict)]


def _json_text(parent: dict[str, object], *names: str) -> str:
    """The first of these that is text or a number; a lone surrogate, which is not text, becomes a question mark."""
    for value in map(parent.get, names):
        if isinstance(value, str | int | float) and not isinstance(value, bool) and (text := str(value).strip()):
            return text if text.isascii() else text.encode("utf-8", "replace").decode()
    return ""
