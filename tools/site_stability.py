"""Prove at compile time that a page, once written, is found again, so that the C core need not look once more.

The tables are applied until nothing changes (site_pages.py, rewrite_path). For most pages it is certain beforehand that
the first round is the last: what the page writes is matched by its own path, and by no page that is tried before it. A
proof here may fail for a page that is stable; it must never succeed for one that is not. The C core then applies the
tables again, which costs time and nothing else.
"""

from __future__ import annotations

import enum
import re
from typing import Any

from canonry.core.site_patterns import FILTERS, Capture, list_fields, make_expression, split_pattern

_MAIN_GROUP = 0
_ANY_SEGMENT = "[^/]+"


class Stability(enum.Enum):
    """When a page is found again in what it writes."""

    ALWAYS = enum.auto()
    GONE = enum.auto()  # what it writes shows no kind of page at all
    SAME_PATH = enum.auto()  # if its path stays, and it renames no parameter and drops none for its value
    UNKNOWN = enum.auto()


def judge_stability(pages: tuple[dict[str, Any], ...], number: int) -> Stability:
    """Judge a page of a block; the pages before it are tried first."""
    page = pages[number]
    if _leaves(page):
        return Stability.UNKNOWN
    on_main = [each for each in pages if _is_on_main_host(each)]
    before = [each for each in pages[:number] if _is_on_main_host(each)]
    if "write" in page:
        output = _read_template(page)
        if "?" not in page["write"] and all(_are_apart(output, each) for each in on_main):
            return Stability.GONE
        is_apart = _matches_itself(output, page) and all(_are_apart(output, each) for each in before)
    else:
        rivals = [each for each in before if _has_conditions(each)]
        is_apart = all(_are_apart(_read_path(path, page), each) for path in page["path"] for each in rivals)
    if not _is_on_main_host(page) or not _keeps_own_conditions(page):
        return Stability.UNKNOWN
    if is_apart and not (page.get("rename") and _has_conditions(page)):
        return Stability.ALWAYS
    return Stability.SAME_PATH if all(_fails_as_before(page, each) for each in before) else Stability.UNKNOWN


def _is_on_main_host(page: dict[str, Any]) -> bool:
    return _MAIN_GROUP in page.get("groups", (_MAIN_GROUP,))


def _leaves(page: dict[str, Any]) -> bool:
    """Return whether a page leads to another host, or is kept as it is."""
    return (
        any(key in page for key in ("target", "target_code", "whole")) or page.get("write", "").startswith("https://")
    )  # fmt: skip


def _has_conditions(page: dict[str, Any]) -> bool:
    """Return whether a page asks for something about the parameters, which may change when they are dropped."""
    return bool(page.get("query") or page.get("without") or page.get("no_other_params"))


# --- parameters ---


def _keeps_own_conditions(page: dict[str, Any]) -> bool:
    """Return whether the parameters that are left meet the conditions of the page itself."""
    query: dict[str, str] = page.get("query", {})
    if "write" in page:
        if _list_added(page) and (page.get("without") or page.get("no_other_params")):
            return False
        return all(_is_written_back(page, name) for name in query)
    dropped = _Names(page.get("drop", ()))
    kept = _Names(page["keep"]) if "keep" in page else None
    return not any(
        name.lower() in dropped
        or name.lower() in page.get("defaults", {})
        or (kept is not None and name.lower() not in kept)
        for name in query
    )


class _Names:
    """Names of parameters; one that ends with `*` is a prefix."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._exact = {name for name in names if not name.endswith("*")}
        self._prefixes = tuple(name[:-1] for name in names if name.endswith("*"))

    def __contains__(self, name: str) -> bool:
        return name in self._exact or name.startswith(self._prefixes)


def _is_written_back(page: dict[str, Any], name: str) -> bool:
    """Return whether the template writes a parameter of the URL with the value that it has."""
    written = str(page["write"]).partition("?")[2]
    pieces = list(split_pattern(page["query"][name]))
    if len(pieces) != 1 or not isinstance(pieces[0], Capture):
        return False
    return written.split("&").count(f"{name}={{{pieces[0].name}}}") == 1


def _list_added(page: dict[str, Any]) -> set[str]:
    """List the parameters that the template writes and the page does not ask for."""
    written = page.get("write", "").partition("?")[2]
    return {param.partition("=")[0] for param in written.split("&") if param} - set(page.get("query", {}))


def _fails_as_before(page: dict[str, Any], rival: dict[str, Any]) -> bool:
    """Return whether a page that is tried before does not match, if the path stays as it was.

    It did not match the URL. If its path did, a parameter was missing or had another value; what the page drops makes
    no new one, and what it writes back stays.
    """
    if rival.get("without") or rival.get("no_other_params"):
        return False
    asked = set(rival.get("query", {}))
    return not _list_added(page) & asked and all(
        "write" not in page or _is_written_back(page, name) for name in asked & set(page.get("query", {}))
    )


# --- paths ---


class _Segment:
    """What a segment of a path may hold: some words, or what an expression matches."""

    def __init__(self, words: frozenset[str] | None, expression: str, lengths: tuple[int, int] | None = None) -> None:
        self.words = words
        self.expression = expression
        self.lengths = lengths  # of one capture that is the whole segment; 0 for no longest

    def is_apart_from(self, other: _Segment) -> bool:
        """Return whether no text can be in both."""
        if self.words is not None:
            return not any(re.fullmatch(other.expression, word) for word in self.words)
        if other.words is not None:
            return not any(re.fullmatch(self.expression, word) for word in other.words)
        if self.lengths is None or other.lengths is None:
            return False
        (a, b), (c, d) = self.lengths, other.lengths
        return bool(b and c > b) or bool(d and a > d)


class _Path:
    """The segments of a path; `has_rest` if one or more others follow."""

    def __init__(self, segments: list[_Segment], *, has_rest: bool) -> None:
        self.segments = segments
        self.has_rest = has_rest

    def is_apart_from(self, other: _Path) -> bool:
        """Return whether no path can be in both."""
        mine, others = len(self.segments), len(other.segments)
        if not self.has_rest and not other.has_rest and mine != others:
            return True
        if self.has_rest and not other.has_rest and others <= mine:
            return True
        if other.has_rest and not self.has_rest and mine <= others:
            return True
        return any(a.is_apart_from(b) for a, b in zip(self.segments, other.segments, strict=False))


def _are_apart(path: _Path, page: dict[str, Any]) -> bool:
    return all(path.is_apart_from(_read_path(each, page)) for each in page["path"])


def _read_path(path: str, page: dict[str, Any]) -> _Path:
    """Read a pattern; case is ignored as the page says."""
    ignore_case = page.get("ignore_case", False)
    segments: list[_Segment] = []
    texts = [] if path == "/" else path[1:].split("/")
    for text in texts:
        pieces = list(split_pattern(text))
        if len(pieces) == 1 and isinstance(pieces[0], Capture):
            capture = pieces[0]
            if capture.spans:
                return _Path(segments, has_rest=True)
            lengths = None if capture.choices or capture.kind == "text" else (capture.shortest, capture.longest)
            words = frozenset(capture.choices) if capture.choices and not ignore_case else None
            segments.append(_Segment(words, make_expression(text, ignore_case=ignore_case), lengths))
        else:
            words = frozenset([text]) if "{" not in text and not ignore_case else None
            segments.append(_Segment(words, make_expression(text, ignore_case=ignore_case)))
    return _Path(segments, has_rest=False)


def _read_template(page: dict[str, Any]) -> _Path:
    """Read what a template writes as a path."""
    captures = {
        piece.name: piece
        for pattern in (page["path"][0], *page.get("query", {}).values())
        for piece in split_pattern(pattern)
        if isinstance(piece, Capture)
    }
    template = _get_path(page)
    segments: list[_Segment] = []
    for text in [] if template == "/" else template[1:].split("/"):
        fields = list_fields(text)
        if not fields:
            segments.append(_Segment(frozenset([text]), re.escape(text)))
            continue
        name, filters = fields[0]
        capture = captures[name]
        is_whole = text == "{" + "|".join((name, *filters)) + "}"
        if any(captures[each].spans or each in _list_query_names(page) for each, _ in fields):
            return _Path(segments, has_rest=True)  # one segment or more
        if is_whole and capture.choices and not page.get("ignore_case"):
            words = frozenset(_filter(word, filters) for word in capture.choices)
            segments.append(_Segment(words, "|".join(map(re.escape, words))))
        elif is_whole and not filters and not capture.choices:
            pattern = make_expression(_write_pattern(capture))
            lengths = None if capture.kind == "text" else (capture.shortest, capture.longest)
            segments.append(_Segment(None, pattern, lengths))
        else:
            segments.append(_Segment(None, _ANY_SEGMENT))
    return _Path(segments, has_rest=False)


def _get_path(page: dict[str, Any]) -> str:
    """Return the template of the path, without a slash at its end: pages are matched without it."""
    return str(page["write"]).partition("?")[0].rstrip("/") or "/"


def _list_query_names(page: dict[str, Any]) -> set[str]:
    """List the captures that come from the query: a text from there may hold a slash."""
    return {
        piece.name
        for pattern in page.get("query", {}).values()
        for piece in split_pattern(pattern)
        if isinstance(piece, Capture)
    }


def _write_pattern(capture: Capture) -> str:
    length = "" if (capture.shortest, capture.longest) == (1, 0) else f":{capture.shortest}-{capture.longest or ''}"
    if length.endswith("-"):
        return f"{{{capture.name}:{capture.kind}}}"  # shorter ones too: more than it may hold
    return f"{{{capture.name}:{capture.kind}{length}}}"


def _filter(word: str, filters: tuple[str, ...]) -> str:
    for name in filters:
        word = FILTERS[name](word)
    return word


def _matches_itself(output: _Path, page: dict[str, Any]) -> bool:
    """Return whether a path of the page is what it writes, segment for segment, with the same captures."""
    fields = list_fields(_get_path(page))
    if any(name in _list_query_names(page) for name, _ in fields) or not _has_equal_captures(page):
        return False
    if any(not _stays_in_class(page, name, filters) for name, filters in fields):
        return False
    plain = [_drop_classes(path) for path in page["path"]]
    written = _drop_classes(_get_path(page))
    if written not in plain:
        return False
    # Words that are left out are compared with what the first path that matches captures.
    others = page["path"][: plain.index(written)]
    return not page.get("not") or (
        not any(filters for _, filters in fields)
        and all(output.is_apart_from(_read_path(path, page)) for path in others)
    )


def _drop_classes(pattern: str) -> str:
    """`/a/{id:digits}`, `/a/{id|lower}` → `/a/{id}`."""
    return re.sub(r"\{([a-z][a-z0-9_]*)[^}]*\}", r"{\1}", pattern)


def _has_equal_captures(page: dict[str, Any]) -> bool:
    """Return whether the captures of every path have the same class and length."""
    found = [sorted(re.findall(r"\{[^}]*\}", path)) for path in page["path"]]
    return all(each == found[0] for each in found)


# Filters that change the case of letters, or replace what `text` may hold by something else that it may hold.
_CASELESS = {"any", "text", "letters", "hex", "alnum", "word", "id", "name"}
_LOWERED = _CASELESS | {"digits", "lower", "base36", "label"}
_RAISED = _CASELESS | {"digits", "code"}
_KEPT_CLASSES = {
    "lower": _LOWERED,
    "upper": _RAISED,
    "capital": _RAISED,
    "underscores": {"any", "text"},
    "unescape": {"text"},
}


def _stays_in_class(page: dict[str, Any], name: str, filters: tuple[str, ...]) -> bool:
    """Return whether a capture matches its pattern again after the filters."""
    (capture,) = (
        piece for piece in split_pattern(page["path"][0]) if isinstance(piece, Capture) and piece.name == name
    )
    if capture.choices:
        return not filters or (
            not page.get("ignore_case") and {_filter(word, filters) for word in capture.choices} <= set(capture.choices)
        ) or (
            bool(page.get("ignore_case")) and set(filters) <= {"lower", "upper", "capital"}
        )  # fmt: skip
    if filters and (capture.shortest, capture.longest) != (1, 0) and set(filters) & {"underscores", "unescape"}:
        return False
    allowed = {
        "lower": _LOWERED,
        "upper": _RAISED,
        "capital": _RAISED,
        "underscores": {"any", "text"},
        "unescape": {"text"},
    }
    return all(capture.kind in allowed.get(each, ()) for each in filters)
