"""Read RSS, RDF, Atom and JSON feeds, well-formed or not, into values (docs/decisions/0006-feed-parsers.md)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from canonry.errors import NotAFeed
from canonry.feeds.read.feed import Feed, FeedFormat
from canonry.feeds.read.json_reader import read_json_feed
from canonry.feeds.read.tree_reader import TreeReader
from canonry.feeds.read.xml_parser import CONTAINERS, count_items, parse_lenient, parse_strict
from canonry.net.charset import decode

if TYPE_CHECKING:
    from canonry.feeds.read.xml_parser import Element

__all__ = ["MAX_BYTES", "Feed", "FeedFormat", "is_web_page", "read_feed"]

MAX_BYTES = 10 * 1024 * 1024  # of a document, unless the caller has another limit; the rest is ignored
_MAX_JUNK_CHARACTERS = 100_000  # before the root element

_ROOTS = CONTAINERS | {"entry"}
# All that may precede the root element, and its name. Possessive quantifiers keep the match linear.
_PROLOG = re.compile(
    r"(?>\s++|\ufeff|<\?[^>]*+>|<!--.*?-->"
    r"|<!DOCTYPE(?>[^\[<>\"']|\"[^\"]*\"|'[^']*')*+"
    r"(?>\[(?>[^\]\"'<]|\"[^\"]*\"|'[^']*'|<!--.*?-->|<(?!!--))*+\]\s*+)?+>)*+"
    r"<(?P<name>[A-Za-z_][\w.:-]*+)",
    re.DOTALL | re.IGNORECASE,
)
_ROOT = re.compile(r"<(?P<name>(?:[A-Za-z_][\w.-]*:)?(?:rss|rdf|feed))(?=[\s/>])", re.IGNORECASE)
# A feed inside another document, such as a SOAP envelope. RDF is left out: SVG files contain it as metadata.
_WRAPPED = re.compile(
    r"<(?P<name>(?:[A-Za-z_][\w.-]*:)?(?:rss(?=\s[^<>]*version)|feed(?=\s[^<>]*2005/Atom)))(?=\s)", re.IGNORECASE
)
_RSS_IN_RDF = re.compile(r"http://purl\.org/rss/1\.0/|http://my\.netscape\.com/rdf/")
_PAGE = re.compile(r"<(?P<name>!doctype\s+html|html|head|body|title|div)\b", re.IGNORECASE)
# Elements that only a web page begins with, and those that scraps of one may begin with.
_PAGE_ROOTS = frozenset({"html", "head", "body"})
_HTML = _PAGE_ROOTS | {
    "a", "article", "b", "base", "br", "center", "div", "em", "font", "form", "h1", "h2", "h3", "header", "hr", "i",
    "iframe", "img", "link", "main", "meta", "nav", "noscript", "ol", "p", "pre", "script", "section", "span", "strong",
    "style", "table", "title", "ul",
}  # fmt: skip


def read_feed(body: bytes, *, url: str = "", content_type: str = "", max_bytes: int = MAX_BYTES) -> Feed:
    """Read a feed, as far as it can be read; raise NotAFeed if the bytes are not one.

    `url` is the base of relative links. Only the charset of `content_type` matters. The document is cut at `max_bytes`.
    """
    if not body.strip():
        raise NotAFeed(url, "empty")
    text = decode(body[:max_bytes], content_type)
    if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return read_json_feed(text, url)
    root = _find_root(text)
    if root is None:
        raise NotAFeed(url, "neither XML nor JSON")
    name = _get_local_name(root["name"])
    if name in _HTML:
        raise NotAFeed(url, "a web page")
    if name not in _ROOTS:
        raise NotAFeed(url, f"the root element is <{root['name'][:60]}>")
    start = root.start("name") - 1
    feed = _read_xml(text[start:], text[:start], url)
    if len(body) <= max_bytes:
        return feed
    cut_items = feed.cut_items + count_items(decode(body[max_bytes:], content_type))
    return replace(feed, cut_items=cut_items, is_cut_short=False)


def is_web_page(body: bytes) -> bool:
    """Whether the bytes are HTML, where a feed was expected."""
    root = _find_root(decode(body[:MAX_BYTES]))
    return root is not None and _get_local_name(root["name"]) in _HTML


def _find_root(text: str) -> re.Match[str] | None:
    """Find the root element: the first element, or that of a feed after scraps of HTML or other junk."""
    first = _PROLOG.match(text)
    name = _get_local_name(first["name"]) if first else ""
    if name in _ROOTS or name in _PAGE_ROOTS:
        return first
    if first is not None and name not in _HTML:
        return _WRAPPED.search(text, 0, _MAX_JUNK_CHARACTERS) or first
    return _ROOT.search(text, 0, _MAX_JUNK_CHARACTERS) or first or _PAGE.search(text, 0, _MAX_JUNK_CHARACTERS)


def _get_local_name(name: str) -> str:
    name = name.lower()
    return "html" if name.startswith("!doctype") else name.rpartition(":")[2]


def _read_xml(document: str, prolog: str, url: str) -> Feed:
    tree, cut_items, is_cut_short = parse_strict(document), 0, False
    is_recovered = tree is None
    if tree is None:
        tree, cut_items, is_cut_short = parse_lenient(document, prolog)
    reader = TreeReader(tree, document=document, url=url)
    fields = reader.feed
    form, version = _find_format(tree, _get_local_name(reader.root_name), document)
    if form is FeedFormat.RDF and not (reader.items or fields.texts or _RSS_IN_RDF.search(document)):
        raise NotAFeed(url, "the root element is <rdf:RDF>, and it has no channel")
    ttl = fields.get_text("ttl")
    return Feed(
        title=reader.title,
        format=form,
        version=version,
        link=reader.link,
        self_url=fields.self_url,
        hubs=tuple(dict.fromkeys(fields.hubs)),
        ttl=int(ttl) if ttl.isascii() and ttl.isdecimal() and len(ttl) < 10 else None,
        items=tuple(reader.items),
        is_recovered=is_recovered,
        cut_items=cut_items + reader.cut_items,
        is_cut_short=is_cut_short,
    )


def _find_format(root: Element, name: str, document: str) -> tuple[FeedFormat, str]:
    """Return format and version, from the name of the root element, its namespace and its attributes."""
    version = next((value.strip() for key, value in root.attrib.items() if key.lower() == "version"), "")
    if name in {"feed", "entry"}:
        namespace = root.tag.lower()
        known = "1.0" if "2005/atom" in namespace else "0.3" if "purl.org/atom" in namespace else ""
        return FeedFormat.ATOM, known if known == "1.0" else version or known
    if name == "rdf":
        return FeedFormat.RDF, "0.90" if "http://my.netscape.com/rdf/simple/0.9/" in document else "1.0"
    return FeedFormat.RSS, version
