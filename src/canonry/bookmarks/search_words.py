"""The words of a bookmark as the full-text index has them, and words of a search in the same form (contract U3).

Both databases index the same words, made here: accents and case are folded, and everything that is not a letter or
digit separates words. Scripts without blanks between words are indexed character by character, so that any part of
their texts is found, and so are symbols such as emoji. Labels are words that no text contains: they find the tags,
folders and sites of a bookmark.
"""

from __future__ import annotations

import json
import re
import unicodedata
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from canonry.core.rules import strip_www
from canonry.core.url import parse
from canonry.errors import InvalidUrl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MAX_WORD_CHARS = 100  # longer words are cut; PostgreSQL accepts 2046 bytes
_MAX_TEXT_CHARS = 200_000  # of all words of a bookmark; a tsvector has at most 1 MiB
_MAX_SORTED_CHARS = 100
# Between two texts, so that no phrase begins in one and ends in the next. It is not a letter: no search contains it.
_BETWEEN = "§"
_LISTS = ("tags", "archive_urls", "episode_urls")
_TEXTS = ("title", "description", "folder", "url", "original_url")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_SYMBOLS = "\u2600-\u27bf\U0001f000-\U0001faff"
_WORD = re.compile(f"[{_UNSPACED}{_SYMBOLS}]|[^\\W_{_UNSPACED}]+")
# Letters that people type without their stroke, and that Unicode does not decompose.
_STROKES = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"})


class LabelKind(StrEnum):
    """The kinds of labels; the value is the first character of the label."""

    TAG = "¶"
    FOLDER = "‡"
    SITE = "¤"


def fold_text(text: str) -> str:
    """Return a text without case and accents: `Crème BRÛLÉE` → `creme brulee`."""
    if text.isascii():  # most texts; the rest would give the same
        return text.lower()
    plain = unicodedata.normalize("NFKD", text).casefold()
    letters = (char for char in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(char))
    return "".join(letters).translate(_STROKES)


def split_words(text: str) -> list[str]:
    """Return the words of a text: `Don't read a_b/2.html` → `don t read a b 2 html`."""
    return [word[:MAX_WORD_CHARS] for word in _WORD.findall(fold_text(text))]


def make_label(kind: LabelKind, text: str) -> str:
    """Return the word that finds a tag, folder or site; texts that differ by more than case and accents differ."""
    # The databases separate words at ASCII characters that are not letters or digits.
    plain = "".join(char if char.isalnum() else f"·{ord(char):x}·" for char in fold_text(" ".join(text.split())))
    return f"{kind}{plain}"[:MAX_WORD_CHARS]


def find_site(url: str) -> str:
    """Return the host of a URL without `www.`; empty if it cannot be read."""
    try:
        return strip_www(parse(url).host)
    except InvalidUrl:
        return ""


def make_search_columns(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns that searching and sorting need, made from the other columns of a bookmark."""
    site = find_site(row["url"])
    title = row["title"] or row["url"].partition("://")[2]
    return {
        "haystack": _make_search_text(row),
        "site": site[:MAX_WORD_CHARS],
        "sort_title": " ".join(split_words(title[: 2 * _MAX_SORTED_CHARS]))[:_MAX_SORTED_CHARS],
    }


def _make_search_text(row: Mapping[str, Any]) -> str:
    """Return the words and labels of a bookmark, with a blank before and after each."""
    words: list[str] = []
    for text in _list_texts(row):
        words += [*split_words(text), _BETWEEN]
    labels = " ".join(dict.fromkeys(_list_labels(row)))
    text = " ".join(words)
    if len(text) > _MAX_TEXT_CHARS:
        text = text[:_MAX_TEXT_CHARS].rpartition(" ")[0]
    return f" {labels} {text} " if labels else f" {text} "


def _list_texts(row: Mapping[str, Any]) -> Iterator[str]:
    for name in _TEXTS:
        if row[name]:
            yield row[name]
    for name in _LISTS:
        yield from json.loads(row[name])


def _list_labels(row: Mapping[str, Any]) -> Iterator[str]:
    yield from (make_label(LabelKind.TAG, tag) for tag in json.loads(row["tags"]))
    yield from _list_paths(LabelKind.FOLDER, row["folder"].split("/"), "/")
    labels = find_site(row["url"]).split(".")
    yield from (make_label(LabelKind.SITE, ".".join(labels[start:])) for start in range(len(labels)) if labels[start])


def _list_paths(kind: LabelKind, parts: Iterable[str], separator: str) -> Iterator[str]:
    """Yield the label of a folder and of every folder above it."""
    path: list[str] = []
    for part in parts:
        if part.strip():
            path.append(part.strip())
            yield make_label(kind, separator.join(path))
