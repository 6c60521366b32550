"""OPML: the lists in which people carry their subscriptions from one reader to another.

A file is hostile until it is read: no entity is resolved, no tree is built, and there are limits for all of it.
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
from canonry.net.charset import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

MAX_BYTES = 10 * 1024 * 1024
MAX_ELEMENTS = 100_000
MAX_DEPTH = 100
_MAX_REPAIRS = 100_000  # ampersands
_FEED_TYPES = frozenset({"rss", "atom"})
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});)(?:(\w{1,40});)?")


@dataclass(frozen=True, slots=True)
class OpmlFeed:
    """A subscription as a file has it; `folder` is the path to it, `a/b`, and `line` where it stands."""

    url: str
    title: str = ""
    folder: str = ""
    line: int = field(default=0, compare=False)


def read_opml(body: bytes, *, file: str = "OPML") -> list[OpmlFeed]:
    """The subscriptions of a file in their order, twins included; CanonryError names the line and the reason."""
    if len(body) > MAX_BYTES:
        raise CanonryError(f"{file}: more than {MAX_BYTES // 1024 // 1024} MiB")
    text = decode(body)
    document = text.lstrip("\ufeff \t\r\n")
    line = text[: len(text) - len(document)].count("\n")
    try:
        try:
            return _Reader(line).read(document)
        except _Broken:
            repaired = _REFERENCE.sub(_meaning, _FORBIDDEN.sub("", document), _MAX_REPAIRS)
            return _Reader(line).read(repaired)
    except _Refused as error:
        raise CanonryError(f"{file}: {error}") from None


def write_opml(feeds: Iterable[OpmlFeed], when: datetime, *, title: str = "Subscriptions") -> str:
    """An OPML 2.0 document with these subscriptions, by folder, title and URL."""
    ordered = sorted(feeds, key=lambda feed: (_path(feed.folder), _line(feed.title).lower(), feed.url))
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<opml version="2.0">',
        "  <head>",
        f"    <title>{escape(_line(title))}</title>",
        f"    <dateCreated>{format_datetime(when)}</dateCreated>",
        "  </head>",
        "  <body>",
        *_outlines(ordered),
        "  </body>",
        "</opml>",
    ]
    return "\n".join(lines) + "\n"


class _Refused(Exception):
    """The line and the reason why a file is not read."""


class _Broken(_Refused):
    """It is not well-formed, and may be repaired."""


class _Reader:
    """One reading; keeps the outlines that are open, and nothing of the rest."""

    def __init__(self, line: int) -> None:
        self._first_line = line
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.EntityDeclHandler = self._refuse_entity
        self._elements = self._depth = 0
        self._folders: list[str] = []
        self._feeds: list[OpmlFeed] = []

    def read(self, text: str) -> list[OpmlFeed]:
        try:
            self._parser.Parse(text, True)  # noqa: FBT003
        except expat.ExpatError as error:
            raise _Broken(f"line {self._line}: {expat.ErrorString(error.code)}") from None
        return self._feeds

    def _start(self, name: str, given: dict[str, str]) -> None:
        local = name.rpartition(":")[2].lower()
        if not self._depth and local != "opml":
            raise self._refused(f"the root element is <{name[:60]}>, not <opml>")
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            raise self._refused(f"more than {MAX_ELEMENTS} elements")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._refused(f"nested more than {MAX_DEPTH} deep")
        self._folders.append("")
        if local == "outline":
            self._outline({key.lower(): " ".join(value.split()) for key, value in given.items()})

    def _outline(self, said: dict[str, str]) -> None:
        title = said.get("title") or said.get("text", "")
        url = said.get("xmlurl")
        if url is None and said.get("type", "").lower() in _FEED_TYPES:
            url = said.get("url", "")
        if url is not None:
            folder = "/".join(filter(None, self._folders))
            self._feeds.append(OpmlFeed(url, "" if title == url else title, folder, self._line))
        self._folders[-1] = "/".join(_path(title))

    def _end(self, _: str) -> None:
        self._depth -= 1
        self._folders.pop()

    def _refuse_entity(self, *_: object) -> None:
        raise self._refused("it declares entities, which are not read")

    def _refused(self, reason: str) -> _Refused:
        return _Refused(f"line {self._line}: {reason}")

    @property
    def _line(self) -> int:
        return self._first_line + self._parser.CurrentLineNumber


def _meaning(reference: re.Match[str]) -> str:
    """A bare ampersand as one, and a name of HTML as its character."""
    named = html5.get(f"{reference[1]};") if reference[1] else None
    return escape(named) if named is not None else f"&amp;{reference[0][1:]}"


def _outlines(ordered: Iterable[OpmlFeed], depth: int = 0) -> Iterator[str]:
    """The feeds of one folder, then its folders."""
    indent = "  " * (depth + 2)
    for name, group in groupby(ordered, key=lambda feed: (*_path(feed.folder)[depth : depth + 1], "")[0]):
        if name:
            yield f'{indent}<outline text="{_quoted(name)}" title="{_quoted(name)}">'
            yield from _outlines(group, depth + 1)
            yield f"{indent}</outline>"
            continue
        for feed in group:
            shown = _quoted(_line(feed.title) or feed.url)
            yield f'{indent}<outline type="rss" text="{shown}" title="{shown}" xmlUrl="{_quoted(feed.url)}"/>'


def _path(folder: str) -> list[str]:
    return [name for part in folder.split("/") if (name := _line(part))]


def _line(text: str) -> str:
    """The text on one line, as an attribute keeps it."""
    return " ".join(_FORBIDDEN.sub("", text).split())


def _quoted(text: str) -> str:
    return escape(_FORBIDDEN.sub("", text), {'"': "&quot;"})
