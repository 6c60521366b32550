"""The rules that only an overrides file of the format overrides.v1 may have (contract L4, docs/howto/overrides.md).

All rules of a host make a URL smaller in a fixed order of measures: fewer parameters, a shorter path and query, fewer
capital letters, https, sorted parameters. So they end, whatever the URL is (docs/decisions/0023-learned-rules.md).

A place in a path is `first`, `mid` or `last`. A path with one segment has only a `last`, which is never dropped as
`first`. In a template, `#` stands for a segment that contains a digit: `/questions/#`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from canonry.core.rules import lower_ascii, lower_unescaped, sort_params

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.core.url import Parts

PLACES = ("first", "mid", "last")
_MIXED_RUN = re.compile("[A-Za-z]+[0-9][A-Za-z0-9]*|[0-9]+[A-Za-z][A-Za-z0-9]*")
_DIGITS = re.compile("[0-9]+")
_EXTENSION = re.compile(r".*[^.]\.([A-Za-z][A-Za-z0-9]{0,5})", re.DOTALL)
_TEXT_BEFORE_ID = re.compile(r"(.*[A-Za-z].*[-_,.])[A-Za-z]?[0-9]+(?:\.[A-Za-z][A-Za-z0-9]*)?", re.DOTALL)
_TEXT_AFTER_ID = re.compile(r"[0-9]+([-_,][^.]*[A-Za-z][^.]*)(?:\.[A-Za-z][A-Za-z0-9]*)?", re.DOTALL)
_PATH_VALUE = re.compile(r"[^/+?#;.%\\][^/+?#;\\]*")


class SlugKind(StrEnum):
    """Where a text that the server ignores stands beside an id."""

    AFTER_ID = "after-id"  # /questions/123/any-text
    BEFORE_ID = "before-id"  # /any-text/p/123
    ENDS_WITH_ID = "ends-with-id"  # /news/any-text-123.html
    STARTS_WITH_ID = "starts-with-id"  # /news/123-any-text.html


@dataclass(frozen=True, slots=True)
class Slug:
    """A text beside an id; `path` is a template of the other segments."""

    kind: SlugKind
    path: str


@dataclass(frozen=True, slots=True)
class QueryToPath:
    """`path?param=X` is written as `to` + X."""

    path: str
    param: str
    to: str


@dataclass(frozen=True, slots=True)
class HostRules:
    """The rules of overrides.v1 for one host."""

    drop_below: tuple[tuple[str, tuple[str, ...]], ...] = ()
    drop_at: tuple[tuple[str, tuple[str, ...]], ...] = ()
    drop_values: frozenset[str] = frozenset()
    drop_path_params: frozenset[str] = frozenset()
    drop_segments: frozenset[tuple[str, str]] = frozenset()
    drop_shapes: frozenset[tuple[str, str]] = frozenset()
    drop_extensions: frozenset[str] = frozenset()
    slugs: frozenset[Slug] = frozenset()
    query_to_path: tuple[QueryToPath, ...] = ()
    lower_case: frozenset[str] = frozenset()
    strip_trailing_slash: bool = False
    sort_params: bool = False
    scheme: str | None = None
    host: str | None = None
    matchers: tuple[tuple[str, Callable[[str], bool]], ...] = field(default=(), compare=False, repr=False)
    path_matchers: tuple[tuple[str, Callable[[str], bool]], ...] = field(default=(), compare=False, repr=False)

    def apply(self, parts: Parts) -> None:
        """Change the parts of a URL of this host, once; the host itself when nothing else is left to change."""
        before = str(parts) if self.host is not None else ""
        if self.scheme is not None and parts.scheme != self.scheme and parts.port is None:
            parts.scheme = self.scheme
        self._edit_query(parts)
        self._edit_path(parts)
        if self.host is not None and str(parts) == before:
            parts.host = self.host

    def _edit_query(self, parts: Parts) -> None:
        for move in self.query_to_path:
            move_to_path(parts, move)
        if parts.query is None:
            return
        params = parts.query.split("&")
        kept = [param for param in params if param not in self.drop_values]
        for folder, is_dropped in self.matchers:
            if parts.path.startswith(folder):
                kept = [param for param in kept if not is_dropped(param)]
        for path, is_dropped in self.path_matchers:
            if parts.path == path:
                kept = [param for param in kept if not is_dropped(param)]
        if len(kept) < len(params):
            parts.query = "&".join(kept) or None
        if self.sort_params:
            parts.query = sort_params(parts.query)

    def _edit_path(self, parts: Parts) -> None:
        path = parts.path
        if self.drop_path_params and ";" in path:
            path = _drop_path_params(path, self.drop_path_params)
        if path != "/":
            has_slash = path.endswith("/")
            segments = (path[1:-1] if has_slash else path[1:]).split("/")
            segments, has_slash = self._edit_segments(segments, has_slash=has_slash, has_path_params=";" in path)
            if self.strip_trailing_slash:
                has_slash = False
            path = "/" + "/".join(segments) + ("/" if has_slash and segments else "")
        # `//host` would be read as a host if the path were moved to another place
        parts.path = path if not path.startswith("//") else parts.path

    def _edit_segments(self, segments: list[str], *, has_slash: bool, has_path_params: bool) -> tuple[list[str], bool]:
        while len(segments) > 1 and self._is_dropped(segments[0], "first"):
            segments = segments[1:]
        if self.drop_segments or self.drop_shapes:
            middle = [segment for segment in segments[1:-1] if not self._is_dropped(segment, "mid")]
            segments = [*segments[: len(segments) > 1], *middle, segments[-1]]
            if self._is_dropped(segments[-1], "last"):
                has_slash = has_slash or "." in segments[-1]  # `/a/index.html` is `/a/`, `/a/print` is `/a`
                segments = segments[:-1]
        if segments and self.slugs and not has_path_params:  # `;page=2` is no part of a slug
            segments = self._drop_slugs(segments)
        if segments and self.drop_extensions:
            extension = get_extension(segments[-1])
            if extension.lower() in self.drop_extensions:
                segments = [*segments[:-1], segments[-1][: -len(extension) - 1]]
        if self.lower_case:
            segments = [
                lower_unescaped(segment) if get_place(at, len(segments)) in self.lower_case else segment
                for at, segment in enumerate(segments)
            ]
        return segments, has_slash

    def _is_dropped(self, segment: str, place: str) -> bool:
        return (place, segment) in self.drop_segments or (
            bool(self.drop_shapes) and has_digit(segment) and (place, make_shape(segment)) in self.drop_shapes
        )

    def _drop_slugs(self, segments: list[str]) -> list[str]:
        last = segments[-1]
        folder = make_template(segments[:-1])
        if len(segments) > 1 and has_digit(segments[-2]) and Slug(SlugKind.AFTER_ID, folder) in self.slugs:
            return segments[:-1]
        has_head = len(segments) > 1 and has_digit(last) and not has_digit(segments[0])
        if has_head and Slug(SlugKind.BEFORE_ID, make_template(segments[1:])) in self.slugs:
            return segments[1:]
        if has_digit(last) and Slug(SlugKind.ENDS_WITH_ID, folder) in self.slugs:
            last = last[len(get_text_before_id(last)) :]
        if has_digit(last) and Slug(SlugKind.STARTS_WITH_ID, folder) in self.slugs:
            last = last.replace(get_text_after_id(last), "", 1) if get_text_after_id(last) else last
        return [*segments[:-1], last]


def move_to_path(parts: Parts, move: QueryToPath) -> None:
    """`/index.php?title=X&a=1` → `/wiki/X?a=1`, if the value can be a segment."""
    if parts.query is None or parts.path != move.path:
        return
    params = parts.query.split("&")
    named = [param for param in params if lower_ascii_name(param) == move.param]
    value = named[0].partition("=")[2] if len(named) == 1 else ""
    if _PATH_VALUE.fullmatch(value):
        parts.path = move.to + value
        parts.query = "&".join(param for param in params if param is not named[0]) or None


def lower_ascii_name(param: str) -> str:
    """Return the name in `name=value` in lower case."""
    return param.partition("=")[0].lower()


def get_place(at: int, count: int) -> str:
    """Return the place of segment `at` (from 0) of a path."""
    return "last" if at == count - 1 else "first" if at == 0 else "mid"


def has_digit(text: str) -> bool:
    """Return whether the text contains an ASCII digit."""
    return _DIGITS.search(text) is not None


def make_shape(segment: str) -> str:
    """`s-8f3ab2` → `s-#` (letters and digits), `p-12` → `p-0` (digits)."""
    return _DIGITS.sub("0", _MIXED_RUN.sub("#", segment))


def make_template(segments: list[str]) -> str:
    """`["questions", "123"]` → `/questions/#`."""
    return "/" + "/".join("#" if has_digit(segment) else segment for segment in segments)


def get_extension(segment: str) -> str:
    """`page.html` → `html`; empty if there is none."""
    match = _EXTENSION.fullmatch(segment)
    return match[1] if match else ""


def get_text_before_id(segment: str) -> str:
    """`a-title-123.html` → `a-title-`; empty if the segment does not end with an id."""
    match = _TEXT_BEFORE_ID.fullmatch(segment)
    return match[1] if match else ""


def get_text_after_id(segment: str) -> str:
    """`123-a-title.html` → `-a-title`; empty if the segment does not start with an id."""
    match = _TEXT_AFTER_ID.fullmatch(segment)
    return match[1] if match else ""


def _drop_path_params(path: str, names: frozenset[str]) -> str:
    def clean(segment: str) -> str:
        text, *params = segment.split(";")
        return ";".join([text, *(param for param in params if lower_ascii(param.partition("=")[0]) not in names)])

    return "/".join(clean(segment) if ";" in segment else segment for segment in path.split("/"))
