r"""The fields of a bookmark as files name them, made a `Draft` or refused with a reason.

A folder is a path: `a/b` is b in a. A name that has a `/` itself is written `\/`, and a `\` is written `\\`;
the same holds for the commas between tags.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol, cast

from canonry.bookmarks.draft import Draft, clean_tags
from canonry.core.url import read_url
from canonry.errors import InvalidUrl
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_TITLE = 10_000  # and that of a folder with all that it is in
MAX_TEXT = 100_000  # a description, a URL, the archive URLs together
MAX_TAG = 255
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
_STAMP = len("2026-01-31T10:00:00.000000Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS, _MICROSECONDS = 1e11, 1e14  # as seconds, the year 5138 and later


class Bookmark(Protocol):
    """What can be written: a `Draft`, or a stored row."""

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


class Unusable(Exception):
    """The reason why a row is no bookmark."""


def draft_of(said: Mapping[str, object]) -> Draft:
    """The bookmark of a row, its URL as given; Unusable says why there is none."""
    texts = {name: text for name, value in said.items() if name in _KNOWN and (text := _text(value, name))}
    if "href" in said and "extended" in said:  # Pinboard, which calls a title a description
        texts["title"] = texts.pop("description", "")
    url = _first(texts, URL_NAMES) or texts.get("original_url", "")
    _read_url(_within(url, MAX_TEXT, "a URL"))
    description = "\n\n".join(dict.fromkeys(texts[name] for name in _DESCRIPTION if name in texts))
    return Draft(
        url=url,
        title=_within(_first(texts, _TITLE), MAX_TITLE, "title"),
        description=_within(description, MAX_TEXT, "description"),
        tags=_tags(said, texts),
        folder=_within(clean_folder(_first(texts, _FOLDER)), MAX_TITLE, "folder"),
        to_read=any(_is(name, texts) for name in _TO_READ) or _is_unread(said, texts),
        private=_is("private", texts) or any(name in texts and not _is(name, texts) for name in _SHARED),
        created_at=read_time(_first(texts, _CREATED)),
        archive_urls=_urls(_listed("archive_urls", said, texts, mark="\n"), "archive_urls"),
        episode_urls=_urls(_listed("episode_urls", said, texts, mark="\n"), "episode_urls"),
        exact_url=_is("exact_url", texts),
        original_url=_original_url(texts, url),
    )


def read_time(text: str) -> str:
    """A time as the tables have it, from ISO 8601 or from (milli-, micro-)seconds since 1970; 0 is none.

    `1769853600` → `2026-01-31T10:00:00.000000Z`
    """
    if not text.strip("0"):
        return ""
    try:
        when = _since_1970(float(text)) if _NUMBER.fullmatch(text) else datetime.fromisoformat(text[:40])
        found = stamp(when if when.tzinfo else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise Unusable(f"not a time: {text[:40]}") from None
    if len(found) != _STAMP:  # the year 999 has three digits and would sort last
        raise Unusable(f"not a time in our days: {text[:40]}")
    return found


def clean_folder(text: str) -> str:
    """The path of a folder without blanks around its names and without empty ones: ` a //b` → `a/b`."""
    return join_marked(path_of(text), "/")


def path_of(folder: str) -> list[str]:
    r"""The names on the way to a folder: `TCP\/IP/routers` → `["TCP/IP", "routers"]`."""
    return [name for part in split_marked(folder, "/") if (name := " ".join(part.split()))]


def split_marked(text: str, mark: str) -> list[str]:
    """The parts of a text between marks, where a backslash makes a mark a character."""
    if "\\" not in text:
        return text.split(mark)
    parts: list[list[str]] = [[]]
    for piece in re.findall(rf"\\[\\{mark}]|[^\\{mark}]+|.", text, re.DOTALL):
        if piece == mark:
            parts.append([])
        else:
            parts[-1].append(piece[-1] if piece.startswith("\\") else piece)
    return ["".join(part) for part in parts]


def join_marked(parts: Iterable[str], mark: str) -> str:
    """The text that `split_marked` takes apart again."""
    return mark.join(part.replace("\\", "\\\\").replace(mark, f"\\{mark}") for part in parts)


def one_a_line(urls: Iterable[str]) -> str:
    """URLs as one text; a line break means nothing inside of one."""
    return "\n".join(url.replace("\n", "") for url in urls)


def _text(value: object, name: str) -> str:
    """A field without blanks around it and without NUL, which PostgreSQL cannot keep; lists are read elsewhere."""
    if value is None or (name in _LISTS and isinstance(value, list)):
        return ""
    if not isinstance(value, str | int | float):
        raise Unusable(f"{name} is not a text")
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unusable(f"{name} contains a lone surrogate, which is not text") from None
    return text.replace("\0", "").strip()


def _first(texts: Mapping[str, str], names: Iterable[str]) -> str:
    return next((texts[name] for name in names if name in texts), "")


def _within(text: str, limit: int, name: str) -> str:
    if len(text) > limit:
        raise Unusable(f"{name} of more than {limit:,} characters")
    return text


def _is(name: str, texts: Mapping[str, str]) -> bool:
    text = texts.get(name, "").lower()
    if text not in _YES and text not in _NO:
        raise Unusable(f"{name} is neither yes nor no")
    return text in _YES


def _is_unread(said: Mapping[str, object], texts: Mapping[str, str]) -> bool:
    """Pocket has a column for it, Instapaper a folder."""
    return texts.get("folder" if "selection" in said else "status", "").lower() == "unread"


def _read_url(text: str, name: str = "") -> str:
    try:
        return read_url(text)
    except InvalidUrl as error:
        raise Unusable(f"{name}{error.reason}") from None


def _original_url(texts: Mapping[str, str], url: str) -> str | None:
    original = _within(texts.get("original_url", ""), MAX_TEXT, "original_url")
    if original in {"", url}:
        return None
    _read_url(original, "original_url: ")
    return original


def _tags(said: Mapping[str, object], texts: Mapping[str, str]) -> tuple[str, ...]:
    name = next((name for name in _TAGS if said.get(name)), "tags")
    tags = clean_tags(_listed(name, said, texts, mark=_tag_mark(said)))
    if len(tags) > MAX_TAGS:
        raise Unusable(f"more than {MAX_TAGS} tags")
    for tag in tags:
        _within(tag, MAX_TAG, "a tag")
    return tags


def _tag_mark(said: Mapping[str, object]) -> str:
    """What stands between tags: blanks in Pinboard's files, bars in Pocket's, else commas."""
    if "href" in said:
        return " "
    return "|" if "time_added" in said else ","


def _urls(texts: Iterable[str], name: str) -> tuple[str, ...]:
    urls = dict.fromkeys(_read_url(url, f"{name}: ") for text in texts if (url := text.strip()))
    if len(urls) > MAX_URLS:
        raise Unusable(f"more than {MAX_URLS} {name}")
    _within("\n".join(urls), MAX_TEXT, name)
    return tuple(urls)


def _listed(name: str, said: Mapping[str, object], texts: Mapping[str, str], *, mark: str) -> list[str]:
    text, value = texts.get(name, ""), said.get(name)
    if text.startswith("[") and "selection" in said:  # Instapaper's tags
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise Unusable(f"{name} is not a list of texts") from None
    if not isinstance(value, list):
        return split_marked(text, mark) if mark == "," else text.split(mark)
    values = cast("list[object]", value)
    if not all(isinstance(each, str) for each in values):
        raise Unusable(f"{name} is not a list of texts")
    return [_text(each, name) for each in values]


def _since_1970(number: float) -> datetime:
    size = abs(number)
    unit = 1_000_000 if size >= _MICROSECONDS else 1_000 if size >= _MILLISECONDS else 1
    return _EPOCH + timedelta(seconds=number / unit)
