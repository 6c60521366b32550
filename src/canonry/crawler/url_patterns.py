"""Patterns of URLs that a site can produce without end (calendars, filters, growing paths), and kinds of pages."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

_NUMBER = re.compile(r"\d+")
_RANDOM = re.compile(r"(?=[^/]*\d)[0-9A-Fa-f]{16,}|(?=[^/]*\d)[0-9A-Za-z]{24,}")
_SLUG = re.compile(r".*[-_+%].*")
_MAX_SEGMENTS = 8  # of a path that does not count as growing
_MAX_REPEATS = 3
_YEAR, _MONTH, _DAY = r"(?:19|2[01])\d\d", r"(?:0?[1-9]|1[0-2])", r"(?:0?[1-9]|[12]\d|3[01])"
_DATE = rf"{_YEAR}(?:[-_./]{_MONTH}(?:[-_./]{_DAY})?|-?[Ww]\d\d?)"
_DATE_AT_END = re.compile(rf"/{_DATE}/?$")
_DATE_VALUE = re.compile(rf"{_DATE}(?:[T ].*)?")
_DATE_NAMES = re.compile(r"(?:.*[-_\[])?(?:date|day|month|year|week|yyyy|cal(?:endar)?)\]?", re.IGNORECASE)
_NUMERIC = re.compile(r"[\d./:-]+")
_CALENDAR_SEGMENT = re.compile(r"[ck]alend.*|cal", re.IGNORECASE)


class UrlKind(StrEnum):
    """Why a site may have URLs of a pattern without end."""

    CALENDAR = "calendar"  # a date: each page leads to the next month
    GROWING_PATH = "growing_path"  # /a/b/a/b/a/b, which relative links make
    FACETS = "facets"  # several parameters, which filter and sort one list
    NUMBERED = "numbered"  # numbers, or one parameter


class UrlPattern(NamedTuple):
    """A pattern: the path with `N` for numbers, and the names of the parameters."""

    kind: UrlKind
    text: str


def find_pattern(url: str) -> UrlPattern | None:
    """Return the pattern of a normalized URL; None for a URL without numbers and parameters.

    https://a.example/shop/3?colour=red&size=m → facets /shop/N?colour&size
    """
    head, _, query = url.partition("#")[0].partition("?")
    path = "/" + head.partition("://")[2].partition("/")[2]
    values = _read_values(query)
    names = "&".join(sorted({_NUMBER.sub("N", name) for name in values}))
    segments = [segment for segment in path.split("/") if segment]
    shape = [_generalize(segment) for segment in segments]
    text = "/" + "/".join(shape) + (f"?{names}" if names else "")
    if (growing := _find_growth(segments, shape)) is not None:
        return UrlPattern(UrlKind.GROWING_PATH, growing)
    if _has_date(path, segments, values):
        return UrlPattern(UrlKind.CALENDAR, text)
    if len(values) > 1:
        return UrlPattern(UrlKind.FACETS, text)
    return UrlPattern(UrlKind.NUMBERED, text) if names or shape != segments else None


def name_page_kind(url: str, *, form: str) -> str:
    """Return the kind of page that a normalized URL names: its path without ids, and the names of its parameters.

    `form` is the URL without what is known not to change the page. If that has parameters, they tell the pages of a
    path apart, and words with hyphens in the path are not ids.

    https://a.example/news/red-shoes-3?visit=7 (form …/news/red-shoes-3) → /news/*?visit
    https://a.example/news-list/3?id=4&visit=7 (form …/news-list/3?id=4) → /news-list/N?id&visit
    """
    head, _, query = url.partition("#")[0].partition("?")
    segments = head.partition("://")[2].split("/")[1:]
    has_slugs = "?" not in form
    shape = ["*" if has_slugs and _SLUG.fullmatch(segment) else _generalize(segment) for segment in segments]
    names = sorted({_NUMBER.sub("N", pair.partition("=")[0]) for pair in query.split("&") if pair})
    return "/" + "/".join(shape) + (f"?{'&'.join(names)}" if names else "")


def _read_values(query: str) -> dict[str, str]:
    """Return the parameters that have a value; of a repeated one, the last."""
    pairs = [pair.partition("=") for pair in query.split("&")]
    return {name: value for name, _, value in pairs if name and value}


def _generalize(segment: str) -> str:
    return "X" if _RANDOM.fullmatch(segment) else _NUMBER.sub("N", segment)


def _find_growth(segments: list[str], shape: list[str]) -> str | None:
    """Return the pattern of a path that repeats itself, or is very long."""
    is_repeated = any(segments.count(segment) >= _MAX_REPEATS for segment in segments)
    numbers = sum(segment == "N" for segment in shape)
    if is_repeated or numbers > _MAX_REPEATS:  # a date has three numbers
        return "/" + "/".join(dict.fromkeys(shape)) + "/…"
    return "/" + "/".join(shape[:2]) + "/…" if len(segments) > _MAX_SEGMENTS else None


def _has_date(path: str, segments: list[str], values: dict[str, str]) -> bool:
    """Return whether a URL names a day, week, month or year; a slug after the date names an article."""
    if _DATE_AT_END.search(path):
        return True
    if segments and _NUMERIC.fullmatch(segments[-1]) and any(_CALENDAR_SEGMENT.fullmatch(each) for each in segments):
        return True
    return any(
        _DATE_VALUE.fullmatch(value) or (_DATE_NAMES.fullmatch(name) and _NUMERIC.fullmatch(value))
        for name, value in values.items()
    )
