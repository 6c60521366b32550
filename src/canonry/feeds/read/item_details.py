"""Author, categories and enclosures of an item: metadata that is passed on and decides nothing (contract I10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from canonry.core.keys import Enclosure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from canonry.feeds.read.xml_parser import Element, Names

_MAX_VALUES = 100  # categories or enclosures of an item
_MAX_CHARS = 500  # of a name, a category or a media type
_MAX_LENGTH = 2**63
# In the order of preference: a person's name is said more often in the first ones.
_AUTHORS = ("dc:creator", "author", "itunes:author")
_CATEGORIES = frozenset({"category", "dc:subject", "media:category", "itunes:category"})


class ItemDetails(NamedTuple):
    """The fields of an item other than its identity and its text."""

    author: str = ""
    categories: tuple[str, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()


def read_details(element: Element, names: Names, make_absolute: Callable[[Element, str], str]) -> ItemDetails:
    """Read the details of an item from its children; `make_absolute` resolves a relative URL in an element."""
    authors: dict[str, list[str]] = {}
    categories: list[str] = []
    enclosures: list[Enclosure] = []
    for child in element:
        name = names[child.tag]
        if name in _AUTHORS:
            authors.setdefault(name, []).append(_read_person(child, names))
        elif name in _CATEGORIES:
            attributes = _get_attributes(child, names)
            text = "".join(child.itertext()).strip()
            categories.append(text or attributes.get("term") or attributes.get("label") or attributes.get("text") or "")
        elif name == "enclosure" or (name == "link" and child.attrib):
            attributes = _get_attributes(child, names)
            url = attributes.get("url") or attributes.get("href") or ""
            if url and (name == "enclosure" or "enclosure" in attributes.get("rel", "").lower().split()):
                size, kind = attributes.get("length", ""), attributes.get("type", "")
                enclosures.append(make_enclosure(make_absolute(child, url), kind, size))
    if not authors and not categories and not enclosures:  # true of many items
        return _NO_DETAILS
    author = next((joined for name in _AUTHORS if (joined := ", ".join(clean_values(authors.get(name, ()))))), "")
    return ItemDetails(author[:_MAX_CHARS], clean_values(categories), merge_enclosures(enclosures))


def read_feed_author(root: Element, names: Names) -> str:
    """Return the author of an Atom feed, who is the author of its entries that name none (RFC 4287 4.2.1)."""
    if names[root.tag] != "feed":
        return ""
    people = [_read_person(child, names) for child in root if names[child.tag] == "author"]
    return ", ".join(clean_values(people))[:_MAX_CHARS]


def make_enclosure(url: str, media_type: str, size: str) -> Enclosure:
    """Return an enclosure; a length that is not a number of bytes is left out."""
    size = size.strip()
    is_number = size.isascii() and size.isdecimal() and len(size) < 20 and int(size) < _MAX_LENGTH
    return Enclosure(url, media_type.strip()[:_MAX_CHARS], int(size) if is_number else None)


def merge_enclosures(enclosures: Iterable[Enclosure]) -> tuple[Enclosure, ...]:
    """Return the first enclosure at each URL."""
    found: dict[str, Enclosure] = {}
    for each in enclosures:
        found.setdefault(each.url, each)
    return tuple(found.values())[:_MAX_VALUES]


def clean_values(values: Iterable[str]) -> tuple[str, ...]:
    """Return each value once, without white space around it and with a limit on its length; empty ones are left out."""
    return tuple(dict.fromkeys(text for value in values if (text := " ".join(value.split())[:_MAX_CHARS])))[
        :_MAX_VALUES
    ]


def _read_person(element: Element, names: Names) -> str:
    """Return the name of a person, or else the e-mail address or the URI; in RSS the text of the element."""
    parts = {names[child.tag]: "".join(child.itertext()).strip() for child in element}
    for part in ("name", "email", "uri", "url"):
        if parts.get(part):
            return parts[part]
    return (element.text or "").strip()


def _get_attributes(element: Element, names: Names) -> dict[str, str]:
    return {names[key]: value for key, value in element.attrib.items()}


_NO_DETAILS = ItemDetails()
