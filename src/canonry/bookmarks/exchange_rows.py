r"""Parse a row of a bookmark file, with the field names of several services, into a `Draft`.

A folder is a path: `a/b` is b in a. A `/` in a name is written `\/`, and a `\` is written `\\`;
the same escapes the commas between tags.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol, cast

from canonry.bookmarks.draft import Draft, clean_tags
from canonry.bookmarks.import_problems import RowProblem, RowRefused
from canonry.core.url import read_url
from canonry.errors import InvalidUrl
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_TITLE_CHARS = 10_000  # of a title, the path of a folder
MAX_TEXT_CHARS = 100_000  # of a description, a URL, all archive URLs together
MAX_TAG_CHARS = 255
MAX_TAGS = 500
MAX_URLS = 100  # archive URLs, episode URLs

URL_NAMES = ("url", "href", "link", "uri")
_TITLE = ("title", "name")
_DESCRIPTION = ("description", "extended", "note", "notes", "excerpt", "selection")
_TAGS = ("tags", "tag_names", "labels")
_FOLDER = ("folder", "collection")
_TO_READ = ("to_read", "toread", "unread")
_CREATED = ("created_at", "created", "time", "time_added", "timestamp", "date_added", "date")
_SHARED = ("shared", "public")
_LISTS = (*_TAGS, "archive_urls", "episode_urls")
_KNOWN = frozenset((*URL_NAMES, *_TITLE, *_DESCRIPTION, *_FOLDER, *_TO_READ, *_CREATED, *_SHARED, *_LISTS)).union(
    {"exact_url", "original_url", "private", "status"}
)
_YES = frozenset({"1", "true", "yes", "y", "on", "x"})
_NO = frozenset({"", "0", "false", "no", "n", "off"})

_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,9})?")
_MIN_TIME = "1000"  # an earlier year is a mistake, or the way of a program to say that it has no date
_MAX_SHOWN_TIME_CHARS = 40
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Larger numbers are milliseconds and microseconds: as seconds they would be in the year 5138 or later.
_MIN_MILLISECONDS, _MIN_MICROSECONDS = 1e11, 1e14


class ExportedBookmark(Protocol):
    """A row of an export: a stored `Bookmark` or a `Draft`."""

    @property
    def url(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def folder(self) -> str: ...
    @property
    def to_read(self) -> bool: ...
    @property
    def private(self) -> bool: ...
    @property
    def created_at(self) -> str: ...
    @property
    def archive_urls(self) -> Sequence[str]: ...
    @property
    def episode_urls(self) -> Sequence[str]: ...
    @property
    def exact_url(self) -> bool: ...
    @property
    def original_url(self) -> str | None: ...


def parse_draft(row: Mapping[str, object]) -> Draft:
    """Return the bookmark of a row, its URL not normalized; RowRefused if a field is invalid."""
    texts = {name: text for name, value in row.items() if name in _KNOWN and (text := _read_text(value, name))}
    if "href" in row and "extended" in row:  # Pinboard calls the title `description`
        texts["title"] = texts.pop("description", "")
    url = _get_first(texts, URL_NAMES) or texts.get("original_url", "")
    _read_url(_check_length(url, MAX_TEXT_CHARS, "url"), "url")
    description = "\n\n".join(dict.fromkeys(texts[name] for name in _DESCRIPTION if name in texts))
    return Draft(
        url=url,
        title=_check_length(_get_first(texts, _TITLE), MAX_TITLE_CHARS, "title"),
        description=_check_length(description, MAX_TEXT_CHARS, "description"),
        tags=_read_tags(row, texts),
        folder=_check_length(clean_folder(_get_first(texts, _FOLDER)), MAX_TITLE_CHARS, "folder"),
        to_read=any(_read_boolean(name, texts) for name in _TO_READ) or _is_unread(row, texts),
        private=_read_boolean("private", texts)
        or any(name in texts and not _read_boolean(name, texts) for name in _SHARED),
        created_at=read_time(_get_first(texts, _CREATED)),
        archive_urls=_read_urls(_read_list("archive_urls", row, texts, separator="\n"), "archive_urls"),
        episode_urls=_read_urls(_read_list("episode_urls", row, texts, separator="\n"), "episode_urls"),
        exact_url=_read_boolean("exact_url", texts),
        original_url=_read_original_url(texts, url),
    )


def read_time(text: str) -> str:
    """Return a time as the tables store it, from ISO 8601 or from (milli-, micro-)seconds since 1970; 0 is none.

    `1769853600` → `2026-01-31T10:00:00.000000Z`
    """
    if not text.strip("0"):
        return ""
    shown = text[:_MAX_SHOWN_TIME_CHARS]
    try:
        when = _add_to_epoch(float(text)) if _NUMBER.fullmatch(text) else datetime.fromisoformat(shown)
        found = stamp(when if when.tzinfo else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise RowRefused(RowProblem.NOT_A_TIME, "created_at", detail=shown) from None
    if found < _MIN_TIME:
        raise RowRefused(RowProblem.NOT_A_TIME, "created_at", detail=shown)
    return found


def clean_folder(text: str) -> str:
    """Return the path of a folder without surrounding blanks and without empty names: ` a //b` → `a/b`."""
    return join_escaped(split_folder(text), "/")


def split_folder(folder: str) -> list[str]:
    r"""Return the names on the path of a folder: `TCP\/IP/routers` → `["TCP/IP", "routers"]`."""
    return [name for part in split_escaped(folder, "/") if (name := " ".join(part.split()))]


def split_escaped(text: str, separator: str) -> list[str]:
    """Split a text at a separator, except where a backslash escapes it."""
    if "\\" not in text:
        return text.split(separator)
    parts: list[list[str]] = [[]]
    for piece in re.findall(rf"\\[\\{separator}]|[^\\{separator}]+|.", text, re.DOTALL):
        if piece == separator:
            parts.append([])
        else:
            parts[-1].append(piece[-1] if piece.startswith("\\") else piece)
    return ["".join(part) for part in parts]


def join_escaped(parts: Iterable[str], separator: str) -> str:
    """Return the text that `split_escaped` splits into these parts."""
    return separator.join(part.replace("\\", "\\\\").replace(separator, f"\\{separator}") for part in parts)


def join_lines(urls: Iterable[str]) -> str:
    """Return URLs one per line; a line break inside a URL has no meaning."""
    return "\n".join(url.replace("\n", "") for url in urls)


def _read_text(value: object, name: str) -> str:
    """Return a field without surrounding blanks and without NUL, which PostgreSQL cannot store; "" for a list."""
    if value is None or (name in _LISTS and isinstance(value, list)):
        return ""
    if not isinstance(value, str | int | float):
        raise RowRefused(RowProblem.NOT_TEXT, name)
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RowRefused(RowProblem.LONE_SURROGATE, name) from None
    return text.replace("\0", "").strip()


def _get_first(texts: Mapping[str, str], names: Iterable[str]) -> str:
    return next((texts[name] for name in names if name in texts), "")


def _check_length(text: str, limit: int, field: str) -> str:
    if len(text) > limit:
        raise RowRefused(RowProblem.TOO_LONG, field, limit=limit)
    return text


def _read_boolean(name: str, texts: Mapping[str, str]) -> bool:
    text = texts.get(name, "").lower()
    if text not in _YES and text not in _NO:
        raise RowRefused(RowProblem.NOT_A_BOOLEAN, name)
    return text in _YES


def _is_unread(row: Mapping[str, object], texts: Mapping[str, str]) -> bool:
    """Return whether a row is marked as unread: in Pocket by the column `status`, in Instapaper by the folder."""
    return texts.get("folder" if "selection" in row else "status", "").lower() == "unread"


def _read_url(text: str, field: str) -> str:
    try:
        return read_url(text)
    except InvalidUrl as error:
        raise RowRefused(RowProblem.INVALID_URL, field, detail=error.reason) from None


def _read_original_url(texts: Mapping[str, str], url: str) -> str | None:
    original = _check_length(texts.get("original_url", ""), MAX_TEXT_CHARS, "original_url")
    if original in {"", url}:
        return None
    _read_url(original, "original_url")
    return original


def _read_tags(row: Mapping[str, object], texts: Mapping[str, str]) -> tuple[str, ...]:
    name = next((name for name in _TAGS if row.get(name)), "tags")
    tags = clean_tags(_read_list(name, row, texts, separator=_find_tag_separator(row)))
    if len(tags) > MAX_TAGS:
        raise RowRefused(RowProblem.TOO_MANY, "tags", limit=MAX_TAGS)
    for tag in tags:
        _check_length(tag, MAX_TAG_CHARS, "tag")
    return tags


def _find_tag_separator(row: Mapping[str, object]) -> str:
    """Return the separator of tags: blanks in files of Pinboard, bars in those of Pocket, otherwise commas."""
    if "href" in row:
        return " "
    return "|" if "time_added" in row else ","


def _read_urls(texts: Iterable[str], name: str) -> tuple[str, ...]:
    urls = dict.fromkeys(_read_url(url, name) for text in texts if (url := text.strip()))
    if len(urls) > MAX_URLS:
        raise RowRefused(RowProblem.TOO_MANY, name, limit=MAX_URLS)
    _check_length("\n".join(urls), MAX_TEXT_CHARS, name)
    return tuple(urls)


def _read_list(name: str, row: Mapping[str, object], texts: Mapping[str, str], *, separator: str) -> list[str]:
    text, value = texts.get(name, ""), row.get(name)
    if text.startswith("[") and "selection" in row:  # Instapaper writes tags as JSON
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise RowRefused(RowProblem.NOT_A_LIST, name) from None
    if not isinstance(value, list):
        return split_escaped(text, separator) if separator == "," else text.split(separator)
    values = cast("list[object]", value)
    if not all(isinstance(each, str) for each in values):
        raise RowRefused(RowProblem.NOT_A_LIST, name)
    return [_read_text(each, name) for each in values]


def _add_to_epoch(number: float) -> datetime:
    size = abs(number)
    unit = 1_000_000 if size >= _MIN_MICROSECONDS else 1_000 if size >= _MIN_MILLISECONDS else 1
    return _EPOCH + timedelta(seconds=number / unit)
