"""A tree to what it tells: the titles, links, ids and dates of a feed and its items (contract F4, I2).

The rules are those readers know from feedparser; where it loses something, the comment says so.
"""

from __future__ import annotations

import re
from base64 import b64decode
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from canonry.core.keys import Item
from canonry.core.url import join
from canonry.errors import InvalidUrl
from canonry.feeds.read.xml_parser import ITEMS, MAX_ITEMS, Names

if TYPE_CHECKING:
    from canonry.feeds.read.xml_parser import Element

_MAX_LINKS = 100  # hubs or enclosures of one item
_MAX_BASE = 2_000  # characters of an xml:base, which may go into each link
_MAX_AROUND = 4  # unknown elements around items that are looked into
_XML_BASE = "xml:base"
_IANA = "http://www.iana.org/assignments/relation/"  # rel="…/self" is rel="self" (RFC 4287 4.2.7.2)
_HTML_TYPES = frozenset({"html", "xhtml", "text/html", "application/xhtml+xml"})
_APART = frozenset({"image", "textinput", "author", "contributor", "source"})
_GROUPS = frozenset({"media:group", "media:content"})
# The names of elements (see Names) by what they tell.
_FIELDS = {
    "title": "title", "dc:title": "dc_title", "media:title": "media_title",
    "guid": "guid", "id": "id", "link": "link", "enclosure": "enclosure", "ttl": "ttl",
    "pubdate": "published", "published": "published", "issued": "published", "dcterms:issued": "published",
    "dc:date": "date", "updated": "updated", "modified": "updated", "dcterms:modified": "updated",
    "content:encoded": "content", "content": "content", "fullitem": "content", "body": "content",
    "xhtml:body": "content", "description": "summary", "summary": "summary", "dc:description": "summary",
    "media:description": "other_summary", "itunes:summary": "other_summary",
}  # fmt: skip
_PLAIN = frozenset(_FIELDS.values()) - {"guid", "id", "link", "enclosure"}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# Each match ends at its end tag or takes all that follows, so that the search is linear.
_SCRIPT = re.compile(r"<(script|style|applet)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL | re.IGNORECASE)
# Character references that mean windows-1252, as in browsers.
_CP1252 = {code: bytes([code]).decode("cp1252") for code in range(128, 160) if code not in b"\x81\x8d\x8f\x90\x9d"}


class Told:
    """What the children of a feed or an item said."""

    __slots__ = ("enclosures", "hubs", "is_permalink", "link", "self_url", "texts")

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.link = ""
        self.self_url = ""
        self.is_permalink = False
        self.hubs: list[str] = []
        self.enclosures: list[str] = []

    def text(self, *names: str) -> str:
        """The first of these that is not empty."""
        for name in names:
            if found := self.texts.get(name):
                return found
        return ""


class TreeReader:
    """Reads a tree once, top to bottom, into `feed` and `items`."""

    def __init__(self, root: Element, *, document: str, url: str) -> None:
        self.feed = Told()
        self.items: list[Item] = []
        self._names = Names(document)
        self._url = url
        self._has_base = _XML_BASE in document
        self.root_name = self._names[root.tag]
        base = self._base(root, "")
        if self.root_name in ITEMS:
            self._read_items(root, base)
        else:
            self._read_container(root, base, 0)
        self.title = _mended(self.feed.text("title", "dc_title"))
        self.link = self._link(self.feed, base)

    def _read_container(self, element: Element, base: str, around: int) -> None:
        for child in element:
            name = self._names[child.tag]
            if name in ITEMS:
                self._read_items(child, base)
            elif name in _FIELDS:
                self._add(self.feed, _FIELDS[name], child, base)
            elif name not in _APART and len(child) and around < _MAX_AROUND:
                self._read_container(child, self._base(child, base), around + 1)

    def _read_items(self, element: Element, base: str) -> None:
        """Add an item, and those that stand inside it."""
        waiting = [element]
        while waiting and len(self.items) < MAX_ITEMS:
            item = waiting.pop()
            self.items.append(self._item(item, self._base(item, base), waiting))

    def _item(self, element: Element, base: str, waiting: list[Element]) -> Item:
        told, names = Told(), self._names
        if element.attrib:
            attributes = self._attributes(element)
            told.texts["guid"] = attributes.get("rdf:about", "").strip()
            told.link = self._absolute(base, attributes.get("href", ""))  # CDF
        for child in element:
            name = names[child.tag]
            field_name = _FIELDS.get(name)
            if field_name is not None:
                self._add(told, field_name, child, base)
            elif name in _GROUPS:
                for grandchild in child:
                    self._add(told, _FIELDS.get(names[grandchild.tag], ""), grandchild, base)
            elif name in ITEMS:
                waiting.append(child)
        return Item(
            guid=told.text("guid"),
            link=self._link(told, base),
            title=_mended(told.text("title", "dc_title", "media_title")),
            published=told.text("published", "date"),
            text=told.text("content", "summary", "other_summary"),
            enclosures=tuple(dict.fromkeys(told.enclosures)) if told.enclosures else (),
            updated=told.text("updated"),
        )

    def _add(self, told: Told, name: str, child: Element, base: str) -> None:
        """Remember what one child says; of texts the first that says something counts."""
        if name in _PLAIN:
            if not told.texts.get(name):
                told.texts[name] = self._content(name, child) if child.attrib else _markup(child)
            return
        if self._has_base:
            base = self._base(child, base)
        if name == "link":
            self._add_link(told, child, base)
        elif name in {"guid", "id"}:
            # As written: an id must not change with the URL a feed came from (RFC 4287 4.2.6); feedparser resolves it.
            told.texts["guid"] = guid = _line(child)
            if name == "id":
                told.is_permalink = guid[:8].lower().startswith(("http://", "https://"))
            else:
                told.is_permalink = self._attributes(child).get("ispermalink", "true") == "true"
        elif name == "enclosure":
            attributes = self._attributes(child)
            self._add_url(told.enclosures, attributes.get("url") or attributes.get("href") or "", base)

    def _add_link(self, told: Told, child: Element, base: str) -> None:
        attributes = self._attributes(child)
        href = attributes.get("href") or attributes.get("url")
        if href is None:
            told.link = self._absolute(base, _line(child).replace("&amp;", "&")) or told.link
            return
        relations = attributes.get("rel", "alternate").lower().replace(_IANA, "").split()
        if "self" in relations and not told.self_url:
            told.self_url = resolved(base, href.strip())
        if "hub" in relations:
            self._add_url(told.hubs, href, base)
        if "enclosure" in relations:
            self._add_url(told.enclosures, href, base)
        if "alternate" in relations and attributes.get("type", "html").lower() in _HTML_TYPES:
            told.link = self._absolute(base, href)

    def _add_url(self, urls: list[str], reference: str, base: str) -> None:
        if reference and len(urls) < _MAX_LINKS:
            urls.append(self._absolute(base, reference))

    def _content(self, name: str, child: Element) -> str:
        """A text whose attributes say how it is written: in base64 (Atom), or as HTML, of which titles lose scripts."""
        attributes = self._attributes(child)
        kind = attributes.get("type", "").lower()
        text = _markup(child)
        if attributes.get("mode") == "base64" or ("/" in kind and not kind.startswith("text/") and "xml" not in kind):
            with suppress(ValueError):
                return b64decode(text).decode()
        return _SCRIPT.sub("", text) if name == "title" and kind in _HTML_TYPES else text

    def _link(self, told: Told, base: str) -> str:
        """The link; where there is none, a guid that is a permalink."""
        return told.link or (self._absolute(base, told.text("guid")) if told.is_permalink else "")

    def _absolute(self, base: str, reference: str) -> str:
        return resolved(base or self._url, reference.strip())

    def _attributes(self, element: Element) -> dict[str, str]:
        names = self._names
        return {names[key]: value for key, value in element.attrib.items()} if element.attrib else {}

    def _base(self, element: Element, base: str) -> str:
        """The xml:base in force inside an element; empty where the document has none."""
        declared = self._attributes(element).get(_XML_BASE, "") if self._has_base else ""
        return self._absolute(base, declared) if 0 < len(declared) <= _MAX_BASE else base


def resolved(base: str, reference: str) -> str:
    """An absolute reference as it stands, a relative one from its base, if that leads somewhere."""
    if not base or not reference or _SCHEME.match(reference):
        return reference
    try:
        return join(base, reference) if _SCHEME.match(base) else urljoin(base, reference)
    except (InvalidUrl, ValueError):
        return reference


def _mended(text: str) -> str:
    """Text that was UTF-8 read as Latin-1, or has numbers that mean windows-1252, as its author meant it."""
    if text.isascii():
        return text
    with suppress(UnicodeError):
        text = text.encode("latin-1").decode("utf-8")
    return text.translate(_CP1252)


def _line(element: Element) -> str:
    """The text of an element that has no use for markup."""
    return _mended("".join(element.itertext()).strip() if len(element) else (element.text or "").strip())


def _markup(element: Element) -> str:
    """What an element holds: its text, or its markup where it has child elements, without a div around all."""
    if not len(element):
        return (element.text or "").strip()
    only = element[0] if len(element) == 1 else None
    if only is not None and _local(only.tag) == "div" and not f"{element.text or ''}{only.tail or ''}".strip():
        element = only
    pieces = [_escaped(element.text)]
    waiting: list[Element | str] = list(reversed(element))
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            pieces.append(node)
            continue
        name = _local(node.tag)
        attributes = "".join(f' {_local(key)}="{_escaped(value)}"' for key, value in node.attrib.items())
        pieces.append(f"<{name}{attributes}>{_escaped(node.text)}")
        waiting.append(f"</{name}>{_escaped(node.tail)}")
        waiting.extend(reversed(node))
    return "".join(pieces).strip()


def _local(tag: str) -> str:
    return tag.rpartition("}")[2].rpartition(":")[2].lower()


def _escaped(text: str | None) -> str:
    return (text or "").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
