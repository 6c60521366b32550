"""Read and write Netscape bookmark HTML, the format that browsers and bookmark services share.

No program closes DT and DD, and each nests the other elements differently. So the reader takes one tag after the
other and builds no tree; it looks at each character a fixed number of times.
"""

from __future__ import annotations

import re
from datetime import datetime
from html import escape, unescape
from html.entities import html5
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from canonry.bookmarks.exchange_rows import MAX_TITLE_CHARS, join_escaped, join_lines, read_time, split_folder
from canonry.bookmarks.import_problems import BadBookmarkFile, FileProblem, RowRefused
from canonry.net.charset import decode_html

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from canonry.bookmarks.exchange_rows import ExportedBookmark

MAX_TAGS = 5_000_000
MAX_DEPTH = 100
_MAX_ATTRIBUTES = 100
_TAG = re.compile(r"<(?:!--|(/?)([a-z][a-z0-9]*+))", re.IGNORECASE)
_TAG_REST = re.compile(r"""(?>[^>=]++|=\s*+(?>"[^"]*+"|'[^']*+')?+)*+>""")
_COMMENT_END = re.compile(r"(?>[^-]++|-(?!->))*+-->")
_ATTRIBUTE = re.compile(r"""([^\s/>=]++)(?>\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]*+)))?+""")
# Only a name with its semicolon is a character reference: `?a=1&copy=2` stays as it is, as in browsers.
_REFERENCE = re.compile(r"&(?:(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6})|([A-Za-z][A-Za-z0-9]{1,31}));")
_BLOCKS = frozenset({"a", "dd", "dl", "dt", "h1", "h3", "li"})  # these tags end the text before them
_DATES = ("created_at", "add_date", "time_added", "last_modified")
_LINKDING_NOTES = "[linkding-notes]", "[/linkding-notes]"
_FILE_HEADER = """\
<!DOCTYPE NETSCAPE-Bookmark-file-1>
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">
<TITLE>Bookmarks</TITLE>
<H1>Bookmarks</H1>
<DL><p>
"""


class _Tag(NamedTuple):
    """A tag, its unparsed attributes, and the text before it."""

    before: str
    name: str
    is_end: bool
    attributes: str


def read_netscape(data: bytes) -> Iterator[dict[str, object]]:
    """Yield the links of a file in their order, as rows for `parse_draft`; BadBookmarkFile if it cannot be read."""
    text = decode_html(data).replace("\0", "")
    if text.count("<") > MAX_TAGS:
        raise BadBookmarkFile(FileProblem.TOO_COMPLEX, f"The file has more than {MAX_TAGS:,} tags.")
    if not re.search(r"<(?:a|dl)[\s>]|<!doctype netscape-bookmark-file", text, re.IGNORECASE):
        raise BadBookmarkFile(
            FileProblem.NOT_NETSCAPE, "This is not a bookmark file: it has neither links nor folders."
        )
    return _NetscapeReader().read(text.replace("\r\n", "\n").replace("\r", "\n"))


def write_netscape(bookmarks: Iterable[ExportedBookmark]) -> Iterator[str]:
    """Yield a file piece by piece; successive bookmarks of the same folder share one block."""
    yield _FILE_HEADER
    opened: list[str] = []
    for bookmark in bookmarks:
        path = split_folder(bookmark.folder)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(opened, path, strict=False)))
        yield from (f"{'    ' * depth}</DL><p>\n" for depth in range(len(opened), shared, -1))
        for depth, name in enumerate(path[shared:], shared + 1):
            indent = "    " * depth
            yield f"{indent}<DT><H3>{_escape(name)}</H3>\n{indent}<DL><p>\n"
        opened = path
        yield _format_link(bookmark, "    " * (len(path) + 1))
    yield from (f"{'    ' * depth}</DL><p>\n" for depth in range(len(opened), -1, -1))


class _NetscapeReader:
    """The state while a file is read: the open folders, the current link and its text."""

    def __init__(self) -> None:
        self._paths = [""]
        self._link: dict[str, object] | None = None
        self._text_parts: list[str] = []
        self._text_target = ""  # where the text belongs: h1, h3, title, description, or nowhere
        self._names = {"h1": "", "h3": ""}

    def read(self, text: str) -> Iterator[dict[str, object]]:
        for tag in _split_tags(text):
            if self._text_target:
                self._text_parts += [tag.before, "\n" if tag.name in {"br", "p"} else ""]
            if tag.name not in _BLOCKS:
                continue
            self._end_text()
            if self._link is not None and tag.name != "dd" and (not tag.is_end or tag.name == "dl"):
                yield self._link
                self._link = None
            self._begin(tag)
        if self._link is not None:
            yield self._link

    def _end_text(self) -> None:
        text = _unescape("".join(self._text_parts)).strip()
        if self._text_target in self._names:
            self._names[self._text_target] = text
        elif self._text_target and self._link is not None:
            self._link[self._text_target] = _unwrap_notes(text) if self._text_target == "description" else text
        self._text_target, self._text_parts = "", []

    def _begin(self, tag: _Tag) -> None:
        if tag.name == "dl":
            self._leave_folder() if tag.is_end else self._enter_folder()
        elif tag.is_end:
            return
        elif tag.name == "a":
            self._link, self._text_target = _parse_link(tag.attributes, self._paths[-1], self._names["h1"]), "title"
        elif tag.name in self._names:
            self._text_target = tag.name
        elif tag.name == "dd" and self._link is not None:  # the description of a folder is not read
            self._text_target = "description"

    def _enter_folder(self) -> None:
        if len(self._paths) > MAX_DEPTH:
            raise BadBookmarkFile(
                FileProblem.TOO_COMPLEX, f"The folders of the file are nested more than {MAX_DEPTH} deep."
            )
        name = join_escaped([" ".join(self._names["h3"].split())], "/")
        path = "/".join(filter(None, (self._paths[-1], name)))
        self._paths.append(path[: MAX_TITLE_CHARS + 1])  # one character too many, so that each link in it is refused
        self._names["h3"] = ""

    def _leave_folder(self) -> None:
        del self._paths[max(1, len(self._paths) - 1) :]
        self._names["h3"] = ""


def _split_tags(text: str) -> Iterator[_Tag]:
    """Yield the tags of a text; an unclosed tag ends the text, as in browsers."""
    position, end = 0, len(text)
    while (start := _TAG.search(text, position)) is not None:
        name = start[2]
        rest = (_TAG_REST if name else _COMMENT_END).match(text, start.end())
        if rest is None:
            end = start.start()
            break
        attributes = rest[0][:-1] if name in {"a", "A"} else ""
        yield _Tag(text[position : start.start()], (name or "").lower(), bool(start[1]), attributes)
        position = rest.end()
    yield _Tag(text[position:end], "dt", is_end=True, attributes="")


def _unwrap_notes(description: str) -> str:
    """Return a description without linkding's marks: `text[linkding-notes]note[/linkding-notes]` → text and note."""
    begin, end = _LINKDING_NOTES
    text, mark, notes = description.partition(begin)
    if not mark or not notes.endswith(end):
        return description
    return "\n\n".join(filter(None, (text.strip(), notes.removesuffix(end).strip())))


def _parse_link(attributes: str, folder: str, heading: str) -> dict[str, object]:
    given: dict[str, str] = {}
    for found in islice(_ATTRIBUTE.finditer(attributes), _MAX_ATTRIBUTES):
        given.setdefault(found[1].lower(), _unescape(found[2] or found[3] or found[4] or ""))
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


def _format_link(bookmark: ExportedBookmark, indent: str) -> str:
    values = {
        "HREF": bookmark.url,
        **_format_dates(bookmark.created_at),
        "PRIVATE": "1" if bookmark.private else "0",
        "TOREAD": "1" if bookmark.to_read else "",
        "TAGS": join_escaped(bookmark.tags, ","),
        "ORIGINAL_URL": bookmark.original_url or "",
        "ARCHIVE_URLS": join_lines(bookmark.archive_urls),
        "EPISODE_URLS": join_lines(bookmark.episode_urls),
        "EXACT_URL": "1" if bookmark.exact_url else "",
    }
    attributes = "".join(f' {name}="{_escape(value)}"' for name, value in values.items() if value)
    link = f"{indent}<DT><A{attributes}>{_escape(bookmark.title)}</A>\n"
    # Line breaks stay in a description: people read these files too.
    description = _escape(bookmark.description).replace("&#10;", "\n")
    return f"{link}{indent}<DD>{description}\n" if description else link


def _format_dates(created_at: str) -> dict[str, str]:
    """Return ADD_DATE in seconds, which every program reads, and our CREATED_AT if that is more exact."""
    try:
        exact = read_time(created_at)
        if not exact:
            return {}
        seconds = str(int(datetime.fromisoformat(exact).timestamp()))
        return {"ADD_DATE": seconds} if read_time(seconds) == exact else {"ADD_DATE": seconds, "CREATED_AT": exact}
    except RowRefused:
        return {}


def _escape(text: str) -> str:
    return escape(text).replace("\r", "&#13;").replace("\n", "&#10;")


def _unescape(text: str) -> str:
    return _REFERENCE.sub(_resolve_reference, text) if "&" in text else text


def _resolve_reference(reference: re.Match[str]) -> str:
    return unescape(reference[0]) if reference[1] else html5.get(f"{reference[2]};", reference[0])
