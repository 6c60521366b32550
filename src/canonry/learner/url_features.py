"""The features of a URL: the reference of native/features.c, which does the same for columns.

The URLs were written by the core (parse only), so a URL is `scheme://host[:port]/path[?query]` in ASCII and can be cut
at its first `/` and `?`. No list of names is used anywhere: a feature is any part that may come and go. Its id is a
text of which the learner only keeps 64 bits:

    param:sid        a query parameter             value:page=1      one value of it
    folder:/shop/|a  a parameter below a folder    sem:jsessionid    a `;name=value` in the path
    seg:first:amp    a path segment                shape:first:s-#   a generated one
    ext:html         a file extension              slash  scheme  order  case:last
    host:m           a label before the site       slug:/q/#         text after an id
    id-end:/news     text before an id             slug-head:/dp/#   a segment before one
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from canonry.core import override_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_PARTS = 64  # a URL with more parameters or segments has no features
MAX_VALUE = 60  # a longer parameter is no default value
MASK = (1 << 64) - 1


class FeatureKind(IntEnum):
    """The kinds of features. The numbers are those of native/features.h."""

    PARAM = 0
    SEM = 1
    SEG = 2
    SHAPE = 3
    CASE = 4
    EXT = 5
    SLUG = 6
    SLUG_HEAD = 7
    ID_END = 8
    ID_START = 9
    SLASH = 10
    SCHEME = 11
    ORDER = 12
    VALUE = 13
    FOLDER_1 = 14  # a parameter below a folder of this depth
    FOLDER_2 = 15
    FOLDER_3 = 16
    PAGE_1 = 17  # a parameter of one path with so many slashes
    PAGE_2 = 18
    PAGE_3 = 19
    HOST = 20  # made in SQL: only there it is known which hosts are one site


FOLDERS = (FeatureKind.FOLDER_1, FeatureKind.FOLDER_2, FeatureKind.FOLDER_3)
PAGES = (FeatureKind.PAGE_1, FeatureKind.PAGE_2, FeatureKind.PAGE_3)


class Feature(NamedTuple):
    """A part of a URL. `name` is its id; `value` is 64 bits of the text.

    `base` depends on the kind: of a value or folder the id of the parameter, of a segment its text in lower case, of
    the case all texts in lower case.
    """

    kind: FeatureKind
    name: bytes
    value: int
    base: int


class UrlParts(NamedTuple):
    """A URL, cut into pieces. `path` is without the `;name=value` parts, which are in `sems`."""

    scheme: bytes
    authority: bytes  # user information and port, without the host
    path: bytes
    segments: list[bytes]
    has_slash: bool
    sems: list[bytes]
    params: list[bytes]


def hash_text(text: bytes) -> int:
    """Return 64 bits of a text: FNV-1a, then the mixer of MurmurHash3."""
    state = 0xCBF29CE484222325
    for byte in text:
        state = ((state ^ byte) * 0x100000001B3) & MASK
    return mix(state)


def mix(value: int) -> int:
    """Return 64 bits that all depend on all bits of a number: the mixer of MurmurHash3."""
    value = ((value ^ (value >> 33)) * 0xFF51AFD7ED558CCD) & MASK
    value = ((value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53) & MASK
    return value ^ (value >> 33)


def cut_url(url: bytes) -> UrlParts:
    """Cut a URL into its parts."""
    scheme, _, rest = url.partition(b"://")
    place, _, query = rest.partition(b"?")
    host, slash, path = place.partition(b"/")
    path = slash + path
    user, _, _ = host.rpartition(b"@")
    port = re.search(rb":[0-9]+$", host)
    authority = (user + b"@" if b"@" in host else b"") + (port.group() if port else b"")
    sems = [part for segment in path.split(b"/") for part in segment.split(b";")[1:] if part]
    plain = b"/".join(segment.partition(b";")[0] for segment in path.split(b"/"))
    has_slash = plain.endswith(b"/")
    inner = plain[1:-1] if has_slash else plain[1:]
    segments = [] if plain in (b"", b"/") else inner.split(b"/")
    return UrlParts(scheme, authority, plain, segments, has_slash, sems, query.split(b"&") if query else [])


def cut_host(url: bytes) -> bytes:
    """Return the host of a URL."""
    place = url.partition(b"://")[2].partition(b"?")[0].partition(b"/")[0]
    return re.sub(rb":[0-9]+$", b"", place.rpartition(b"@")[2])


def get_name(part: bytes) -> bytes:
    """Return the name of `name=value`, in lower case."""
    # Not that of the override rules: `bytes.lower` changes only ASCII letters, as the C code does.
    return part.partition(b"=")[0].lower()


def has_digit(segment: bytes) -> bool:
    """Return whether a text has a digit."""
    return override_rules.has_digit(segment.decode("latin-1"))


def get_shape(segment: bytes) -> bytes:
    """Return a text with `#` for runs of letters and digits, `0` for runs of digits: `s-8f3ab2` → `s-#`."""
    return _apply(override_rules.make_shape, segment)


def get_extension(segment: bytes) -> bytes:
    """Return the file extension of a segment, or nothing."""
    return _apply(override_rules.get_extension, segment) if b"." in segment else b""


def get_text_before_id(segment: bytes) -> bytes:
    """`a-title-123.html` → `a-title-`."""
    return _apply(override_rules.get_text_before_id, segment)


def get_text_after_id(segment: bytes) -> bytes:
    """`123-a-title.html` → `-a-title`."""
    return _apply(override_rules.get_text_after_id, segment)


def _apply(function: Callable[[str], str], segment: bytes) -> bytes:
    """Apply a function of the override rules: what the learner drops must be what a learned rule drops."""
    return function(segment.decode("latin-1")).encode("latin-1")


def make_template(segments: list[bytes]) -> bytes:
    """`/q/123/a-title`: words stay, segments with a digit become `#`."""
    return override_rules.make_template([segment.decode("latin-1") for segment in segments]).encode("latin-1")


def get_place(index: int, count: int) -> bytes:
    """Return where a segment is; the only one is the last."""
    return override_rules.get_place(index, count).encode()


def list_scopes(path: bytes) -> list[tuple[FeatureKind, bytes]]:
    """Return the folders of a path to the third, and the path if it is not so deep: `/shop/`, `/shop/view.php`."""
    slashes = [i for i, byte in enumerate(path) if byte == ord("/")]
    scopes = [(kind, path[: place + 1]) for kind, place in zip(FOLDERS, slashes[1:], strict=False)]
    if 0 < len(slashes) <= len(PAGES) and (len(slashes) == 1 or not path.endswith(b"/")):
        scopes.append((PAGES[len(slashes) - 1], path))
    return scopes


def has_too_many_parts(parts: UrlParts) -> bool:
    """Return whether a URL has more parts than the learner looks at: it has no features, and nothing is dropped."""
    return max(len(parts.params), len(parts.segments), len(parts.sems)) > MAX_PARTS


def list_features(url: bytes) -> list[Feature]:
    """Return the features of a URL; several parts with one name are one feature."""
    found: dict[bytes, Feature] = {}
    for part in list_parts(cut_url(url)):
        value = hash_text(part.value) if part.value else 0
        base = hash_text(part.base) if part.base is not None else 0
        before = found.get(part.name)
        if before is None:
            found[part.name] = Feature(part.kind, part.name, value, base)
        else:
            base = (before.base + base) & MASK if part.kind is FeatureKind.CASE else before.base
            found[part.name] = before._replace(value=(before.value + value) & MASK, base=base)
    return list(found.values())


def find_name(url: bytes, kind: int, feature_id: int) -> bytes:
    """Return the name of a feature that a URL has, by its kind and 64 bits."""
    names = [part.name for part in list_parts(cut_url(url)) if part.kind == kind]
    return names[0] if len(names) == 1 else next(name for name in names if hash_text(name) == feature_id)


class NamedPart(NamedTuple):
    """A part of a URL as text, before it becomes a feature."""

    kind: FeatureKind
    name: bytes
    value: bytes = b""
    base: bytes | None = None


def list_parts(parts: UrlParts) -> Iterator[NamedPart]:
    """Yield the parts of a URL that a rule may drop or rewrite."""
    if has_too_many_parts(parts):
        return
    kinds = FeatureKind
    names = [get_name(param) for param in parts.params]
    for name, param in zip(names, parts.params, strict=True):
        own = b"param:" + name
        yield NamedPart(kinds.PARAM, own, param, own)
        if len(param) < MAX_VALUE and names.count(name) == 1:
            yield NamedPart(kinds.VALUE, b"value:" + param, param, own)
        for kind, scope in list_scopes(parts.path):
            yield NamedPart(kind, b"folder:" + scope + b"|" + name, param, own)
    for sem in parts.sems:
        yield NamedPart(kinds.SEM, b"sem:" + get_name(sem), sem)
    yield from _list_path_parts(parts.segments, has_slash=parts.has_slash)
    yield NamedPart(kinds.SCHEME, b"scheme", parts.scheme)
    if len(parts.params) > 1:
        yield NamedPart(kinds.ORDER, b"order", b"&".join(parts.params))


def _list_path_parts(segments: list[bytes], *, has_slash: bool) -> Iterator[NamedPart]:
    kinds = FeatureKind
    count = len(segments)
    for i, segment in enumerate(segments):
        place, lower = get_place(i, count), segment.lower()
        yield NamedPart(kinds.SEG, b"seg:" + place + b":" + segment, segment, lower)
        if has_digit(segment):
            yield NamedPart(kinds.SHAPE, b"shape:" + place + b":" + get_shape(segment), segment, lower)
        yield NamedPart(kinds.CASE, b"case:" + place, segment, lower)
    if not segments:
        return
    first, last = segments[0], segments[-1]
    if extension := get_extension(last):
        yield NamedPart(kinds.EXT, b"ext:" + extension.lower(), extension)
    if count > 1 and has_digit(segments[-2]):
        yield NamedPart(kinds.SLUG, b"slug:" + make_template(segments[:-1]), last, last.lower())
    if count > 1 and has_digit(last) and not has_digit(first):
        yield NamedPart(kinds.SLUG_HEAD, b"slug-head:" + make_template(segments[1:]), first, first.lower())
    if text := get_text_before_id(last):
        yield NamedPart(kinds.ID_END, b"id-end:" + make_template(segments[:-1]), text)
    if text := get_text_after_id(last):
        yield NamedPart(kinds.ID_START, b"id-start:" + make_template(segments[:-1]), text)
    if has_slash:
        yield NamedPart(kinds.SLASH, b"slash")
