"""What remains of a URL without some features, and which features vary in a group of URLs.

The reference of native/features.c, which does the same for columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from canonry.learner.url_features import (
    MASK,
    Feature,
    FeatureKind,
    UrlParts,
    cut_url,
    get_extension,
    get_name,
    get_place,
    get_shape,
    get_text_after_id,
    get_text_before_id,
    has_digit,
    has_too_many_parts,
    hash_text,
    list_features,
    list_scopes,
    make_template,
    mix,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

_GOLDEN = 0x9E3779B97F4A7C15
_PLACED = frozenset({FeatureKind.SEG, FeatureKind.SHAPE, FeatureKind.SLUG, FeatureKind.SLUG_HEAD})
_MUST_DIFFER = frozenset({FeatureKind.ID_END, FeatureKind.ID_START})


class UrlKey(NamedTuple):
    """64 bits of what remains; `order` and `case` are those of the texts before they were sorted and lower-cased."""

    key: int
    order: int
    case: int


class _Names:
    """The features that are dropped on a site, asked for by their text."""

    def __init__(self, dropped: Collection[int]) -> None:
        self._dropped = dropped

    def has(self, name: bytes) -> bool:
        return hash_text(name) in self._dropped

    def has_segment(self, place: bytes, segment: bytes) -> bool:
        return self.has(b"seg:" + place + b":" + segment) or (
            has_digit(segment) and self.has(b"shape:" + place + b":" + get_shape(segment))
        )


def make_key(url: bytes, dropped: Collection[int]) -> UrlKey:
    """Return the key of a URL without the features with these ids."""
    parts, names = cut_url(url), _Names(dropped)
    if has_too_many_parts(parts):
        return UrlKey(hash_text(url), 0, 0)
    kept, ends_with_slash = _keep_segments(parts, names)
    sems = [sem for sem in parts.sems if not names.has(b"sem:" + get_name(sem))]
    params = [param for param in parts.params if not _is_dropped(param, parts.path, names)]
    lowered = [
        segment.lower() if names.has(b"case:" + get_place(i, len(kept))) else segment for i, segment in enumerate(kept)
    ]
    has_cases = any(names.has(b"case:" + place) for place in (b"first", b"mid", b"last"))
    is_sorted = names.has(b"order")
    scheme = b"" if names.has(b"scheme") else parts.scheme
    slash = b"/" if ends_with_slash else b""
    head = b"\1".join((scheme, parts.authority, b";".join(sems), b"/".join(lowered), slash))
    in_order = hash_text(b"&".join(params))
    query = sum(map(hash_text, params)) & MASK if is_sorted else in_order
    key = mix((hash_text(head) + query * _GOLDEN) & MASK)
    return UrlKey(key, in_order if is_sorted else 0, hash_text(b"/".join(kept)) if has_cases else 0)


def _is_dropped(param: bytes, path: bytes, names: _Names) -> bool:
    name = get_name(param)
    return (
        names.has(b"param:" + name)
        or names.has(b"value:" + param)
        or any(names.has(b"folder:" + scope + b"|" + name) for _, scope in list_scopes(path))
    )


def _keep_segments(parts: UrlParts, names: _Names) -> tuple[list[bytes], bool]:
    """Return the segments that remain, and whether the path ends with a slash.

    As with exported rules, segments are dropped until nothing changes: `/x/1/1` → `/x`.
    """
    segments, has_slash = parts.segments, parts.has_slash
    while segments:
        kept, has_kept_slash = _drop_segments(segments, names, has_slash=has_slash)
        if kept == segments:
            break
        segments, has_slash = kept, has_kept_slash
    return segments, has_slash and bool(segments) and not names.has(b"slash")


def _drop_segments(segments: list[bytes], names: _Names, *, has_slash: bool) -> tuple[list[bytes], bool]:
    """Return the segments that remain after each was looked at once, and whether the path ends with a slash."""
    count, last = len(segments), segments[-1]
    front = make_template(segments[:-1])
    is_named = names.has(b"seg:last:" + last)
    has_slug = count > 1 and has_digit(segments[-2]) and names.has(b"slug:" + front)
    has_head = (
        count > 1
        and has_digit(last)
        and not has_digit(segments[0])
        and names.has(b"slug-head:" + make_template(segments[1:]))
    )
    kept: list[bytes] = []
    only_first = True  # so far every segment can be dropped at the start, so the next one is the first then
    for i, segment in enumerate(segments):
        only_first = only_first and names.has_segment(b"first", segment)
        if i == count - 1 and (is_named or has_slug):
            continue
        if (i == 0 and has_head) or names.has_segment(get_place(i, count), segment):
            continue
        if i < count - 1 and only_first:
            continue
        kept.append(_shorten(segment, front, names) if i == count - 1 else segment)
    # `/a/index.html` is `/a/`, but `/a/print` is `/a`
    return kept, (is_named and b"." in last) or has_slash


def _shorten(last: bytes, front: bytes, names: _Names) -> bytes:
    """Return the last segment without the text beside an id, and without the extension."""
    extension = get_extension(last)
    has_extension = bool(extension) and names.has(b"ext:" + extension.lower())
    before = get_text_before_id(last) if names.has(b"id-end:" + front) else b""
    after = b"" if before or not names.has(b"id-start:" + front) else get_text_after_id(last)
    if has_extension:
        last = last[: -len(extension) - 1]
    if before:
        return last[len(before) :]
    return last.replace(after, b"", 1) if after else last


@dataclass(slots=True)
class _Variation:
    """The values of a feature in a group of URLs."""

    feature: Feature
    row: int  # of a URL that has it
    count: int = 0
    values: set[int] = field(default_factory=set[int])
    bases: set[int] = field(default_factory=set[int])


class Varying(NamedTuple):
    """A feature that varies in a group, with a row that has it."""

    row: int
    feature: Feature


def find_varying(
    urls: Sequence[bytes], rows: Iterable[int], is_wanted: Callable[[Feature], bool], *, is_strict: bool
) -> Iterator[Varying]:
    """Yield the features that some of the URLs lack, or that have several values in them.

    With `is_strict`, as candidates: a segment that only moved did not vary, the case and the order vary if two URLs
    are the same without them, a text beside an id if it has two values, and a default value if the parameter is absent
    from a URL.
    """
    found: dict[bytes, _Variation] = {}
    names: dict[int, int] = {}
    inside: dict[int, int] = {}
    rows = list(rows)
    for row in rows:
        features = list_features(urls[row])
        for base in {each.base for each in features if each.kind is FeatureKind.SEG}:
            inside[base] = inside.get(base, 0) + 1
        for feature in features:
            if feature.kind is FeatureKind.PARAM:
                names[feature.base] = names.get(feature.base, 0) + 1
            if is_wanted(feature):
                each = found.setdefault(feature.name, _Variation(feature, row))
                each.count += 1
                each.values.add(feature.value)
                each.bases.add(feature.base)
    flags = _compare_urls([urls[row] for row in rows]) if is_strict else (True, True)
    for each in found.values():
        kind, total = each.feature.kind, len(rows)
        if not (each.count < total or len(each.values) > 1):
            continue
        if is_strict and (
            (kind in _MUST_DIFFER and len(each.values) == 1)
            or (kind in _PLACED and min(inside[min(each.bases)], inside[max(each.bases)]) >= total)
            or (kind is FeatureKind.CASE and not flags[0])
            or (kind is FeatureKind.ORDER and not flags[1])
            or (kind is FeatureKind.VALUE and names[each.feature.base] >= total)
        ):
            continue
        yield Varying(each.row, each.feature)


def _compare_urls(urls: list[bytes]) -> tuple[bool, bool]:
    """Return whether two URLs have the same path but for capital letters, and the same parameters but in order."""
    parts = [cut_url(url) for url in urls]
    paths = {each.path for each in parts}
    queries = {tuple(each.params) for each in parts}
    return (
        len({path.lower() for path in paths}) < len(paths),
        len({tuple(sorted(query)) for query in queries}) < len(queries),
    )
