"""Netscape bookmark HTML: what browsers and bookmark services write and read.

Nobody closes DT and DD, and browsers nest the rest as they like, so this reads tags one after the
other and builds no tree: each character is looked at a fixed number of times.
"""

from __future__ import annotations

import re
from datetime import datetime
from html import escape, unescape
from html.entities import html5
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from canonry.bookmarks.exchange_rows import MAX_TITLE, Unusable, join_marked, one_a_line, path_of, read_time
from canonry.errors import CanonryError
from canonry.net.charset import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from canonry.bookmarks.exchange_rows import Bookmark

MAX_TAGS = 5_000_000
MAX_DEPTH = 100
_MAX_ATTRIBUTES = 100
_META = re.compile(rb"<meta[^>]{0,200}charset\s*=[^>]{0,60}", re.IGNORECASE)
_HEAD = 2_000  # bytes in which the charset and the kind of file are looked for
_TAG = re.compile(r"<(?:!--|(/?)([a-z][a-z0-9]*+))", re.IGNORECASE)
_REST = re.compile(r"""(?>[^>=]++|=\s*+(?>"[^"]*+"|'[^']*+')?+)*+>""")
_COMMENT_END = re.compile(r"(?>[^-]++|-(?!->))*+-->")
_ATTRIBUTE = re.compile(r"""([^\s/>=]++)(?>\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]*+)))?+""")
# `?a=1&copy=2` means what it says, as in browsers: only what has its semicolon is a reference.
_REFERENCE = re.compile(r"&(?:(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6})|([A-Za-z][A-Za-z0-9]{1,31}));")
_BLOCKS = frozenset({"a", "dd", "dl", "dt", "h1", "h3", "li"})  # what ends the text before it
_DATES = ("created_at", "add_date", "time_added", "last_modified")
_TOP = """\
<!DOCTYPE NETSCAPE-Bookmark-file-1>
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">
<TITLE>Bookmarks</TITLE>
<H1>Bookmarks</H1>
<DL><p>
"""


class _Tag(NamedTuple):
    """A tag, its attributes unread, and the text before it."""

    before: str
    name: str
    is_end: bool
    attributes: str


def read_netscape(data: bytes) -> Iterator[dict[str, object]]:
    """The links of a file in their order, as rows for `draft_of`."""
    head = data[:_HEAD]
    meta = _META.search(head)
    text = decode(data, meta[0].decode("latin-1") if meta else "charset=utf-8").replace("\0", "")
    if text.count("<") > MAX_TAGS:
        raise CanonryError(f"more than {MAX_TAGS:,} tags")
    if not re.search(r"<(?:a|dl)[\s>]|<!doctype netscape-bookmark-file", text, re.IGNORECASE):
        raise CanonryError("not a bookmark file: it has neither links nor folders")
    return _Reader().read(text.replace("\r\n", "\n").replace("\r", "\n"))


def write_netscape(bookmarks: Iterable[Bookmark]) -> Iterator[str]:
    """The file piece by piece; bookmarks of one folder that come together stand in it together."""
    yield _TOP
    opened: list[str] = []
    for bookmark in bookmarks:
        path = path_of(bookmark.folder)
        kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(opened, path, strict=False)))
        yield from (f"{'    ' * depth}</DL><p>\n" for depth in range(len(opened), kept, -1))
        for depth, name in enumerate(path[kept:], kept + 1):
            indent = "    " * depth
            yield f"{indent}<DT><H3>{_escaped(name)}</H3>\n{indent}<DL><p>\n"
        opened = path
        yield _link(bookmark, "    " * (len(path) + 1))
    yield from (f"{'    ' * depth}</DL><p>\n" for depth in range(len(opened), -1, -1))


class _Reader:
    """One reading: the folders that are open, the link that is not yet at its end, and the text of it."""

    def __init__(self) -> None:
        self._paths = [""]
        self._link: dict[str, object] | None = None
        self._heard: list[str] = []
        self._into = ""  # what the text is part of: h1, h3, title or description
        self._names = {"h1": "", "h3": ""}

    def read(self, text: str) -> Iterator[dict[str, object]]:
        for tag in _tags(text):
            if self._into:
                self._heard += [tag.before, "\n" if tag.name in {"br", "p"} else ""]
            if tag.name not in _BLOCKS:
                continue
            self._keep_text()
            if self._link is not None and tag.name != "dd" and (not tag.is_end or tag.name == "dl"):
                yield self._link
                self._link = None
            self._take(tag)
        if self._link is not None:
            yield self._link

    def _keep_text(self) -> None:
        text = _unescaped("".join(self._heard)).strip()
        if self._into in self._names:
            self._names[self._into] = text
        elif self._into and self._link is not None:
            self._link[self._into] = text
        self._into, self._heard = "", []

    def _take(self, tag: _Tag) -> None:
        if tag.name == "dl":
            self._leave() if tag.is_end else self._enter()
        elif tag.is_end:
            return
        elif tag.name == "a":
            self._link, self._into = _link_of(tag.attributes, self._paths[-1], self._names["h1"]), "title"
        elif tag.name in self._names:
            self._into = tag.name
        elif tag.name == "dd" and self._link is not None:  # that of a folder is not kept
            self._into = "description"

    def _enter(self) -> None:
        if len(self._paths) > MAX_DEPTH:
            raise CanonryError(f"folders nested more than {MAX_DEPTH} deep")
        name = join_marked([" ".join(self._names["h3"].split())], "/")
        path = "/".join(filter(None, (self._paths[-1], name)))
        self._paths.append(path[: MAX_TITLE + 1])  # too long is refused with each link, and not kept for all
        self._names["h3"] = ""

    def _leave(self) -> None:
        del self._paths[max(1, len(self._paths) - 1) :]
        self._names["h3"] = ""


def _tags(text: str) -> Iterator[_Tag]:
    """The tags of a text; one that has no end is the end, as in browsers."""
    place, end = 0, len(text)
    while (start := _TAG.search(text, place)) is not None:
        name = start[2]
        rest = (_REST if name else _COMMENT_END).match(text, start.end())
        if rest is None:
            end = start.start()
            break
        attributes = rest[0][:-1] if name in {"a", "A"} else ""
        yield _Tag(text[place : start.start()], (name or "").lower(), bool(start[1]), attributes)
        place = rest.end()
    yield _Tag(text[place:end], "dt", is_end=True, attributes="")


def _link_of(attributes: str, folder: str, heading: str) -> dict[str, object]:
    given: dict[str, str] = {}
    for found in islice(_ATTRIBUTE.finditer(attributes), _MAX_ATTRIBUTES):
        given.setdefault(found[1].lower(), _unescaped(found[2] or found[3] or found[4] or ""))
    is_unread = "time_added" in given and heading.lower() == "unread"  # Pocket
    return {
        "url": given.get("href", ""),
        "original_url": given.get("original_url", ""),
        "title": "",
        "description": "",
        "tags": given.get("tags", ""),
        "folder": folder,
        "to_read": is_unread or given.get("toread", ""),
        "private": given.get("private", ""),
        "created_at": next((date for name in _DATES if (date := given.get(name, "").strip()).strip("0")), ""),
        "archive_urls": given.get("archive_urls", ""),
        "episode_urls": given.get("episode_urls", ""),
        "exact_url": given.get("exact_url", ""),
    }


def _link(bookmark: Bookmark, indent: str) -> str:
    given = {
        "HREF": bookmark.url,
        **_dates(bookmark.created_at),
        "PRIVATE": "1" if bookmark.private else "0",
        "TOREAD": "1" if bookmark.to_read else "",
        "TAGS": join_marked(bookmark.tags, ","),
        "ORIGINAL_URL": bookmark.original_url or "",
        "ARCHIVE_URLS": one_a_line(bookmark.archive_urls),
        "EPISODE_URLS": one_a_line(bookmark.episode_urls),
        "EXACT_URL": "1" if bookmark.exact_url else "",
    }
    attributes = "".join(f' {name}="{_escaped(value)}"' for name, value in given.items() if value)
    link = f"{indent}<DT><A{attributes}>{_escaped(bookmark.title)}</A>\n"
    # Line breaks stay in a description, for people who read the file.
    described = _escaped(bookmark.description).replace("&#10;", "\n")
    return f"{link}{indent}<DD>{described}\n" if described else link


def _dates(created_at: str) -> dict[str, str]:
    """Seconds for everybody, and the exact time for ourselves where they do not tell it."""
    try:
        exact = read_time(created_at)
        if not exact:
            return {}
        seconds = str(int(datetime.fromisoformat(exact).timestamp()))
        return {"ADD_DATE": seconds} if read_time(seconds) == exact else {"ADD_DATE": seconds, "CREATED_AT": exact}
    except Unusable:
        return {}


def _escaped(text: str) -> str:
    return escape(text).replace("\r", "&#13;").replace("\n", "&#10;")


def _unescaped(text: str) -> str:
    return _REFERENCE.sub(_meaning, text) if "&" in text else text


def _meaning(reference: re.Match[str]) -> str:
    return unescape(reference[0]) if reference[1] else html5.get(f"{reference[2]};", reference[0])
