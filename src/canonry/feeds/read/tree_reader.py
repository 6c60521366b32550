"""Read titles, links, ids and dates of a feed and its items from an XML tree (contract F4, I2).

The rules are those of feedparser; comments say where and why this reader differs.
"""

from __future__ import annotations

import re
from base64 import b64decode
from contextlib import suppress
from typing import TYPE_CHECKING

from canonry.core.keys import Item
from canonry.feeds.read.item_details import read_details, read_feed_author
from canonry.feeds.read.references import resolve_reference
from canonry.feeds.read.xml_parser import ITEMS, MAX_ITEMS, Names

if TYPE_CHECKING:
    from canonry.feeds.read.xml_parser import Element

_MAX_LINKS = 100  # hubs or enclosures of a feed or an item
_MAX_BASE_CHARACTERS = 2_000  # of an xml:base, which becomes part of each link
_MAX_WRAPPERS = 4  # nested unknown elements around items
_XML_BASE = "xml:base"
_IANA_RELATION_PREFIX = "http://www.iana.org/assignments/relation/"  # rel="…/self" is rel="self" (RFC 4287 4.2.7.2)
_HTML_TYPES = frozenset({"html", "xhtml", "text/html", "application/xhtml+xml"})
_CHILDREN_WITH_OTHER_TITLES = frozenset({"image", "textinput", "author", "contributor", "source"})
_MEDIA_GROUP, _MEDIA_CONTENT = "media:group", "media:content"
_GROUPS = frozenset({_MEDIA_GROUP, _MEDIA_CONTENT})
_GROUP_FIELDS = frozenset({"media:title", "media:description"})
# The name of an element (see Names) → the field that it fills.
_FIELDS = {
    "title": "title", "dc:title": "dc_title", "media:title": "media_title",
    "guid": "guid", "id": "id", "link": "link", "enclosure": "enclosure", "ttl": "ttl",
    "pubdate": "published", "published": "published", "issued": "published", "dcterms:issued": "published",
    "dc:date": "date", "updated": "updated", "modified": "updated", "dcterms:modified": "updated",
    "content:encoded": "content", "content": "content", "fullitem": "content", "body": "content",
    "xhtml:body": "content", "description": "summary", "summary": "summary", "dc:description": "summary",
    "media:description": "other_summary", "itunes:summary": "other_summary",
}  # fmt: skip
_TEXT_FIELDS = frozenset(_FIELDS.values()) - {"guid", "id", "link", "enclosure"}
# A match without an end tag takes all that follows, so that the search is linear.
_SCRIPT = re.compile(r"<(script|style|applet)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL | re.IGNORECASE)
# Character references to C1 controls mean windows-1252, as in browsers.
_CP1252 = {code: bytes([code]).decode("cp1252") for code in range(128, 160) if code not in b"\x81\x8d\x8f\x90\x9d"}


class ElementFields:
    """The fields that the children of a feed or an item filled."""

    __slots__ = ("enclosures", "has_guid", "has_text_link", "hubs", "is_permalink", "link", "self_url", "texts")

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.link = ""
        self.self_url = ""
        self.is_permalink = False
        self.has_guid = False  # of RSS: a foreign `id` does not replace it
        self.has_text_link = False  # of RSS: an `atom:link` does not replace it
        self.hubs: list[str] = []
        self.enclosures: list[str] = []

    def get_text(self, *names: str) -> str:
        """Return the first of these texts that is not empty."""
        for name in names:
            if found := self.texts.get(name):
                return found
        return ""


class TreeReader:
    """Reads a tree once, from top to bottom, into `feed` and `items`."""

    def __init__(self, root: Element, *, document: str, url: str) -> None:
        self.feed = ElementFields()
        self.items: list[Item] = []
        self.cut_items = 0  # beyond the limit
        self._names = Names(document)
        self._url = url
        self._has_base = _XML_BASE in document
        self.root_name = self._names[root.tag]
        base = self._get_base(root, "")
        self._author = read_feed_author(root, self._names)
        if self.root_name in ITEMS:
            self._read_items(root, base)
        else:
            self._read_container(root, base, 0)
        self.title = _fix_mojibake(self.feed.get_text("title", "dc_title"))
        self.link = self._choose_link(self.feed, base)

    def _read_container(self, element: Element, base: str, wrappers: int) -> None:
        for child in element:
            name = self._names[child.tag]
            if name in ITEMS:
                self._read_items(child, base)
            elif name in _FIELDS:
                self._add_field(self.feed, _FIELDS[name], child, base)
            elif name not in _CHILDREN_WITH_OTHER_TITLES and len(child) and wrappers < _MAX_WRAPPERS:
                self._read_container(child, self._get_base(child, base), wrappers + 1)

    def _read_items(self, element: Element, base: str) -> None:
        """Add an item, and the items nested in it."""
        if len(self.items) >= MAX_ITEMS:
            self.cut_items += 1
            return
        pending = [element]
        while pending and len(self.items) < MAX_ITEMS:
            item = pending.pop()
            self.items.append(self._read_item(item, self._get_base(item, base), pending))
        self.cut_items += len(pending)

    def _read_item(self, element: Element, base: str, pending: list[Element]) -> Item:
        fields, names = ElementFields(), self._names
        if element.attrib:
            attributes = self._get_attributes(element)
            fields.texts["guid"] = attributes.get("rdf:about", "").strip()
            fields.link = self._make_absolute(base, attributes.get("href", ""))  # CDF
        for child in element:
            name = names[child.tag]
            field_name = _FIELDS.get(name)
            if field_name is not None:
                self._add_field(fields, field_name, child, base)
            elif name in _GROUPS:
                for grandchild in child:
                    if (media_name := names[grandchild.tag]) in _GROUP_FIELDS:
                        self._add_field(fields, _FIELDS[media_name], grandchild, base)
            elif name in ITEMS:
                pending.append(child)
        link = self._choose_link(fields, base)
        if not link and not fields.enclosures and not fields.get_text("guid"):
            # Nothing else may tell such items apart. Other items are not compared by their media (contract I2).
            self._add_media(fields.enclosures, element, base)
        details = read_details(element, names, lambda child, url: self._make_absolute(self._get_base(child, base), url))
        return Item(
            guid=fields.get_text("guid"),
            link=link,
            title=_fix_mojibake(fields.get_text("title", "dc_title", "media_title")),
            published=fields.get_text("published", "date"),
            text=fields.get_text("content", "summary", "other_summary"),
            enclosures=tuple(dict.fromkeys(fields.enclosures)) if fields.enclosures else (),
            updated=fields.get_text("updated"),
            author=_fix_mojibake(details.author) or self._author,
            categories=tuple(map(_fix_mojibake, details.categories)),
            media=details.enclosures,
        )

    def _add_field(self, fields: ElementFields, name: str, child: Element, base: str) -> None:
        """Fill a field from a child element. Of several texts, the first that is not empty counts."""
        if name in _TEXT_FIELDS:
            if not fields.texts.get(name):
                fields.texts[name] = self._decode_text(name, child) if child.attrib else _get_markup(child)
            return
        if self._has_base:
            base = self._get_base(child, base)
        if name == "link":
            self._add_link(fields, child, base)
        elif name in {"guid", "id"}:
            # As written: an id must not depend on the URL of the feed (RFC 4287 4.2.6); feedparser resolves it.
            guid = _get_text(child)
            if not guid or (name == "id" and fields.has_guid):
                return
            fields.texts["guid"] = guid
            fields.has_guid = name == "guid"
            # Many feeds leave out isPermaLink where the guid is no URL: a relative one is no link (contract I3).
            is_url = guid[:8].lower().startswith(("http://", "https://"))
            fields.is_permalink = is_url and not self._is_marked_no_permalink(child)
        elif name == "enclosure":
            attributes = self._get_attributes(child)
            self._add_url(fields.enclosures, attributes.get("url") or attributes.get("href") or "", base)

    def _add_link(self, fields: ElementFields, child: Element, base: str) -> None:
        attributes = self._get_attributes(child)
        href = attributes.get("href") or attributes.get("url")
        if href is None:
            if link := self._make_absolute(base, _get_text(child).replace("&amp;", "&")):
                fields.link, fields.has_text_link = link, True
            return
        relations = attributes.get("rel", "alternate").lower().replace(_IANA_RELATION_PREFIX, "").split()
        if "self" in relations and not fields.self_url:
            fields.self_url = resolve_reference(base, href.strip())
        if "hub" in relations:
            self._add_url(fields.hubs, href, base)
        if "enclosure" in relations:
            self._add_url(fields.enclosures, href, base)
        if (
            "alternate" in relations
            and not fields.has_text_link
            and attributes.get("type", "html").lower() in _HTML_TYPES
        ):
            fields.link = self._make_absolute(base, href)

    def _add_url(self, urls: list[str], reference: str, base: str) -> None:
        if reference and len(urls) < _MAX_LINKS:
            urls.append(self._make_absolute(base, reference))

    def _add_media(self, urls: list[str], element: Element, base: str) -> None:
        """Add the URLs of the media of an item, also of those in a group."""
        for child in element:
            name = self._names[child.tag]
            if name == _MEDIA_CONTENT:
                self._add_url(urls, self._get_attributes(child).get("url", ""), base)
            elif name == _MEDIA_GROUP:
                self._add_media(urls, child, base)

    def _decode_text(self, name: str, child: Element) -> str:
        """Return a text, decoded from base64 or without scripts if the attributes of the element ask for it."""
        attributes = self._get_attributes(child)
        kind = attributes.get("type", "").lower()
        text = _get_markup(child)
        if attributes.get("mode") == "base64" or ("/" in kind and not kind.startswith("text/") and "xml" not in kind):
            with suppress(ValueError):
                return b64decode(text).decode()
        return _SCRIPT.sub("", text) if name == "title" and kind in _HTML_TYPES else text

    def _choose_link(self, fields: ElementFields, base: str) -> str:
        """Return the link, or else the guid if it is a permalink."""
        return fields.link or (self._make_absolute(base, fields.get_text("guid")) if fields.is_permalink else "")

    def _make_absolute(self, base: str, reference: str) -> str:
        return resolve_reference(base or self._url, reference.strip())

    def _is_marked_no_permalink(self, guid: Element) -> bool:
        return self._get_attributes(guid).get("ispermalink", "").strip().lower() == "false"

    def _get_attributes(self, element: Element) -> dict[str, str]:
        names = self._names
        return {names[key]: value for key, value in element.attrib.items()} if element.attrib else {}

    def _get_base(self, element: Element, base: str) -> str:
        """Return the xml:base that applies inside an element; empty if the document has none."""
        declared = self._get_attributes(element).get(_XML_BASE, "") if self._has_base else ""
        return self._make_absolute(base, declared) if 0 < len(declared) <= _MAX_BASE_CHARACTERS else base


def _fix_mojibake(text: str) -> str:
    """Repair UTF-8 that was decoded as Latin-1, and C1 controls that mean windows-1252."""
    if text.isascii():
        return text
    with suppress(UnicodeError):
        text = text.encode("latin-1").decode("utf-8")
    return text.translate(_CP1252)


def _get_text(element: Element) -> str:
    """Return the text of an element without markup."""
    return _fix_mojibake("".join(element.itertext()).strip() if len(element) else (element.text or "").strip())


def _get_markup(element: Element) -> str:
    """Return the contents of an element as text, or as markup if it has children; one div around all is dropped."""
    if not len(element):
        return (element.text or "").strip()
    only = element[0] if len(element) == 1 else None
    if only is not None and _get_local_name(only.tag) == "div" and not f"{element.text or ''}{only.tail or ''}".strip():
        element = only
    pieces = [_escape(element.text)]
    pending: list[Element | str] = list(reversed(element))
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            pieces.append(node)
            continue
        name = _get_local_name(node.tag)
        attributes = "".join(f' {_get_local_name(key)}="{_escape(value)}"' for key, value in node.attrib.items())
        pieces.append(f"<{name}{attributes}>{_escape(node.text)}")
        pending.append(f"</{name}>{_escape(node.tail)}")
        pending.extend(reversed(node))
    return "".join(pieces).strip()


def _get_local_name(tag: str) -> str:
    return tag.rpartition("}")[2].rpartition(":")[2].lower()


def _escape(text: str | None) -> str:
    return (text or "").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
