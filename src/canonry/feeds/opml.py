"""Read and write OPML, the format in which feed readers exchange subscription lists (https://opml.org/spec2.opml).

Files are untrusted: no entity is resolved, no tree is built, and size, elements and depth are limited.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from email.utils import format_datetime
from html.entities import html5
from itertools import groupby
from typing import TYPE_CHECKING
from xml.parsers import expat
from xml.sax.saxutils import escape

from canonry.errors import CanonryError
from canonry.feeds.feed_values import FeedDescription
from canonry.feeds.read.xml_parser import FORBIDDEN_CHARACTERS
from canonry.net.charset import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

MAX_BYTES = 10 * 1024 * 1024
MAX_ELEMENTS = 100_000
MAX_DEPTH = 100
_MAX_REPAIRED_REFERENCES = 100_000
_FEED_TYPES = frozenset({"rss", "atom"})
# An ampersand that does not begin a reference of XML; group 1 is the name of an HTML entity, if there is one.
_INVALID_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});)(?:(\w{1,40});)?")


@dataclass(frozen=True, slots=True)
class OpmlFeed:
    """A subscription in an OPML file; `folder` is its path, `a/b`, and `line` its line in the file."""

    url: str
    title: str = ""
    folder: str = ""
    line: int = field(default=0, compare=False)
    site_url: str = ""  # htmlUrl: the web page of the feed

    @property
    def description(self) -> FeedDescription:
        """The details of the feed in the file."""
        return FeedDescription(self.title, self.folder, self.site_url)


def read_opml(body: bytes, *, file: str = "OPML") -> list[OpmlFeed]:
    """Return the subscriptions of a file in their order, duplicates included.

    Raises CanonryError with the name of the file, the line and the reason.
    """
    if len(body) > MAX_BYTES:
        raise CanonryError(f"{file}: larger than {MAX_BYTES // 1024 // 1024} MiB")
    text = decode(body)
    document = text.lstrip("\ufeff \t\r\n")
    skipped_lines = text[: len(text) - len(document)].count("\n")
    try:
        try:
            return _OpmlParser(skipped_lines).parse(document)
        except _NotWellFormed:
            return _OpmlParser(skipped_lines).parse(_repair(document))
    except _InvalidOpml as error:
        raise CanonryError(f"{file}: {error}") from None


def write_opml(feeds: Iterable[OpmlFeed], when: datetime, *, title: str = "Subscriptions") -> str:
    """Write an OPML 2.0 document, sorted by folder, title and URL."""
    ordered = sorted(feeds, key=lambda feed: (_split_path(feed.folder), _join_lines(feed.title).lower(), feed.url))
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<opml version="2.0">',
        "  <head>",
        f"    <title>{escape(_join_lines(title))}</title>",
        f"    <dateCreated>{format_datetime(when)}</dateCreated>",
        "  </head>",
        "  <body>",
        *_write_outlines(ordered),
        "  </body>",
        "</opml>",
    ]
    return "\n".join(lines) + "\n"


class _InvalidOpml(Exception):
    """A file that cannot be read; the message is the line and the reason."""


class _NotWellFormed(_InvalidOpml):
    """A file that is not well-formed XML, and may be repaired."""


class _OpmlParser:
    """Parses one document; remembers the folders of open outlines, and nothing else of the tree."""

    def __init__(self, skipped_lines: int) -> None:
        self._skipped_lines = skipped_lines
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.EntityDeclHandler = self._refuse_entity
        self._element_count = self._depth = 0
        self._folders: list[str] = []
        self._feeds: list[OpmlFeed] = []

    def parse(self, text: str) -> list[OpmlFeed]:
        try:
            self._parser.Parse(text, True)  # noqa: FBT003
        except expat.ExpatError as error:
            raise _NotWellFormed(f"line {self._line}: {expat.ErrorString(error.code)}") from None
        return self._feeds

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local_name = name.rpartition(":")[2].lower()
        if not self._depth and local_name != "opml":
            raise self._make_error(f"the root element is <{name[:60]}>, not <opml>")
        self._element_count += 1
        if self._element_count > MAX_ELEMENTS:
            raise self._make_error(f"more than {MAX_ELEMENTS} elements")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._make_error(f"elements nested more than {MAX_DEPTH} deep")
        self._folders.append("")
        if local_name == "outline":
            self._read_outline({key.lower(): " ".join(value.split()) for key, value in attributes.items()})

    def _read_outline(self, attributes: dict[str, str]) -> None:
        title = attributes.get("title") or attributes.get("text", "")
        url = attributes.get("xmlurl")
        if url is None and attributes.get("type", "").lower() in _FEED_TYPES:
            url = attributes.get("url", "")
        if url is not None:
            folder = "/".join(filter(None, self._folders))
            site_url = attributes.get("htmlurl", "")
            self._feeds.append(OpmlFeed(url, "" if title == url else title, folder, self._line, site_url))
        self._folders[-1] = "/".join(_split_path(title))

    def _end(self, _: str) -> None:
        self._depth -= 1
        self._folders.pop()

    def _refuse_entity(self, *_: object) -> None:
        raise self._make_error("entity declarations are not allowed")

    def _make_error(self, reason: str) -> _InvalidOpml:
        return _InvalidOpml(f"line {self._line}: {reason}")

    @property
    def _line(self) -> int:
        return self._skipped_lines + self._parser.CurrentLineNumber


def _repair(document: str) -> str:
    """Remove forbidden characters, escape bare ampersands and replace HTML entities by their characters."""
    return _INVALID_REFERENCE.sub(_replace_reference, FORBIDDEN_CHARACTERS.sub("", document), _MAX_REPAIRED_REFERENCES)


def _replace_reference(reference: re.Match[str]) -> str:
    character = html5.get(f"{reference[1]};") if reference[1] else None
    return escape(character) if character is not None else f"&amp;{reference[0][1:]}"


def _write_outlines(ordered: Iterable[OpmlFeed], depth: int = 0) -> Iterator[str]:
    """Write the feeds of one folder, then the folders in it."""
    indent = "  " * (depth + 2)
    for name, group in groupby(ordered, key=lambda feed: (*_split_path(feed.folder)[depth : depth + 1], "")[0]):
        if name:
            yield f'{indent}<outline text="{_quote(name)}" title="{_quote(name)}">'
            yield from _write_outlines(group, depth + 1)
            yield f"{indent}</outline>"
            continue
        for feed in group:
            title = _quote(_join_lines(feed.title) or feed.url)
            site = f' htmlUrl="{_quote(_join_lines(feed.site_url))}"' if feed.site_url else ""
            yield f'{indent}<outline type="rss" text="{title}" title="{title}" xmlUrl="{_quote(feed.url)}"{site}/>'


def _split_path(folder: str) -> list[str]:
    return [name for part in folder.split("/") if (name := _join_lines(part))]


def _join_lines(text: str) -> str:
    """Put a text on one line, as XML attributes do."""
    return " ".join(FORBIDDEN_CHARACTERS.sub("", text).split())


def _quote(text: str) -> str:
    return escape(FORBIDDEN_CHARACTERS.sub("", text), {'"': "&quot;"})
