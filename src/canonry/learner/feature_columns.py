"""Features of Arrow columns of URLs: in C if the extension was built, by the reference otherwise."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from canonry.core import native
from canonry.learner import url_groups
from canonry.learner.url_features import Feature, cut_host, hash_text, list_features

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

pa: Any = pyarrow  # pyarrow has no type stubs
pc: Any = pyarrow.compute
FEATURE_SCHEMA = pa.schema(
    [("row", pa.uint32()), ("kind", pa.uint8()), ("fid", pa.uint64()), ("value", pa.uint64()), ("base", pa.uint64())]
)
KEY_NAMES = ("key", "kept_order", "kept_case")


class FeatureChoice(IntEnum):
    """Which features are wanted: all, those of a list, or those whose parameter is in a list."""

    ALL = 0
    LISTED = 1
    LISTED_PARAMS = 2


@dataclass(frozen=True, slots=True)
class Wanted:
    """Features by site and number; `kinds` has a bit for each kind."""

    kinds: int
    choice: FeatureChoice = FeatureChoice.ALL
    sites: bytes = b""
    ids: bytes = b""


def list_pairs(sites: Iterable[int], ids: Iterable[int]) -> tuple[bytes, bytes]:
    """Return the numbers of sites and features as the C code reads them."""
    return array("I", sites).tobytes(), array("Q", ids).tobytes()


def hash_column(texts: Any) -> Any:
    """Return 64 bits of each text, null for null."""
    column = _combine(texts)
    (hashes, _, _) = _hash(column, has_hosts=False)
    return hashes if not column.null_count else pc.if_else(column.is_valid(), hashes, pa.scalar(None, pa.uint64()))


def hash_urls(urls: Any) -> tuple[Any, Any, Any]:
    """Return 64 bits of each URL, of its host, and of the last two labels of the host."""
    return _hash(_combine(urls), has_hosts=True)


def split(urls: Any, sites: Any, wanted: Wanted) -> Any:
    """Return a table of the wanted features, each with the row of its URL."""
    column, site_bytes = _combine(urls), _get_bytes(sites, pa.uint32())
    if functions := _get_native():
        done = functions.split(*_get_buffers(column), site_bytes, wanted.kinds, wanted.choice, wanted.sites, wanted.ids)
        return _make_table(*done)
    is_wanted = _make_filter(wanted)
    rows = enumerate(zip(column.to_pylist(), sites.to_pylist(), strict=True))
    return _make_rows(
        (row, feature)
        for row, (url, site) in rows
        for feature in list_features(url.encode())
        if is_wanted(site, feature)
    )


def find_varying(urls: Any, sites: Any, groups: Any, wanted: Wanted, *, is_strict: bool) -> Any:
    """Return a table of the features that vary in groups, each with a row that has it. Groups are runs of rows."""
    column, site_bytes = _combine(urls), _get_bytes(sites, pa.uint32())
    if functions := _get_native():
        done = functions.find_varying(
            *_get_buffers(column), site_bytes, _get_bytes(groups, pa.uint64()), wanted.kinds, wanted.choice,
            wanted.sites, wanted.ids, is_strict,
        )  # fmt: skip
        return _make_table(*done)
    texts, numbers = [url.encode() for url in column.to_pylist()], groups.to_pylist()
    site_of, is_wanted = sites.to_pylist(), _make_filter(wanted)
    found: list[tuple[int, Feature]] = []
    for _, run in groupby(range(len(texts)), key=lambda row: numbers[row]):
        rows = list(run)
        found += url_groups.find_varying(texts, rows, partial(is_wanted, site_of[rows[0]]), is_strict=is_strict)
    return _make_rows(found)


def make_keys(urls: Any, sites: Any, dropped: tuple[bytes, bytes]) -> list[Any]:
    """Return the columns KEY_NAMES: 64 bits of what remains of each URL without the features dropped on its site."""
    column, site_bytes = _combine(urls), _get_bytes(sites, pa.uint32())
    if functions := _get_native():
        return [_make_numbers(each) for each in functions.make_keys(*_get_buffers(column), site_bytes, *dropped)]
    by_site: dict[int, set[int]] = {}
    for site, number in zip(array("I", dropped[0]), array("Q", dropped[1]), strict=True):
        by_site.setdefault(site, set()).add(number)
    keys = [
        url_groups.make_key(url.encode(), by_site.get(site, set()))
        for url, site in zip(column.to_pylist(), sites.to_pylist(), strict=True)
    ]
    return [pa.array([key[i] for key in keys], pa.uint64()) for i in range(len(KEY_NAMES))]


def _hash(column: Any, *, has_hosts: bool) -> tuple[Any, Any, Any]:
    if functions := _get_native():
        one, two, three = functions.hash_texts(*_get_buffers(column), has_hosts)
        return _make_numbers(one), _make_numbers(two), _make_numbers(three)
    texts = [(text or "").encode() for text in column.to_pylist()]
    hosts = [cut_host(text) for text in texts] if has_hosts else []
    families = [b".".join(host.split(b".")[-2:]) for host in hosts]
    made = [pa.array([hash_text(each) for each in texts], pa.uint64()) for texts in (texts, hosts, families)]
    return made[0], made[1], made[2]


def _make_filter(wanted: Wanted) -> Callable[[int, Feature], bool]:
    pairs = set(zip(array("I", wanted.sites), array("Q", wanted.ids), strict=True))

    def is_wanted(site: int, feature: Feature) -> bool:
        if not wanted.kinds >> feature.kind & 1:
            return False
        if wanted.choice is FeatureChoice.ALL:
            return True
        number = hash_text(feature.name) if wanted.choice is FeatureChoice.LISTED else feature.base
        return (site, number) in pairs

    return is_wanted


def _make_rows(found: Iterable[tuple[int, Feature]]) -> Any:
    rows = [(row, each.kind, hash_text(each.name), each.value, each.base) for row, each in found]
    columns = zip(*rows, strict=True) if rows else [()] * len(FEATURE_SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, FEATURE_SCHEMA, strict=True)], schema=FEATURE_SCHEMA)


def _make_table(count: int, *columns: bytes) -> Any:
    arrays = [
        pa.Array.from_buffers(field.type, count, [None, pa.py_buffer(data)])
        for field, data in zip(FEATURE_SCHEMA, columns, strict=True)
    ]
    return pa.table(arrays, schema=FEATURE_SCHEMA)


def _make_numbers(data: bytes) -> Any:
    return pa.Array.from_buffers(pa.uint64(), len(data) // 8, [None, pa.py_buffer(data)])


def _combine(column: Any) -> Any:
    """Return a column as one array of strings with 32-bit offsets."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column if column.type == pa.string() else column.cast(pa.string())


def _get_buffers(column: Any) -> tuple[int, Any, Any]:
    _, offsets, data = column.buffers()
    rows = len(column)
    if offsets is None or rows == 0:
        return 0, b"\0\0\0\0", b""
    return rows, memoryview(offsets)[column.offset * 4 : (column.offset + rows + 1) * 4], data or b""


def _get_bytes(column: Any, kind: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    column = column.cast(kind)
    _, data = column.buffers()
    size = kind.bit_width // 8
    return b"" if data is None else memoryview(data)[column.offset * size : (column.offset + len(column)) * size]


def _get_native() -> Any:
    """Return the module in C, or None."""
    if native.CORE != "native":
        return None
    try:
        from canonry.learner.native import _features
    except ImportError:
        return None
    return _features
