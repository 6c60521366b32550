"""Normalize Arrow columns of URLs: string, large_string, string_view or dictionaries of them, sliced or chunked.

The native core reads the column's buffers without a copy and without the interpreter's lock, so threads with a column
each run in parallel. Without the native core the Python code gives the same results.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.core import native as fast
from canonry.core.normalize import resolve_policy

if TYPE_CHECKING:
    from types import ModuleType

    from canonry.core.policy import Policy

pa: Any = pyarrow  # pyarrow has no type stubs
FIELDS = ("canonical_url", "canonical_hash")
_ENTRY_BYTES: dict[object, int] = {pa.string(): 4, pa.large_string(): 8, pa.string_view(): 16}


def normalize(array: Any, policy: Policy | str = "bookmark", *, hash: bool = False) -> Any:  # noqa: A002
    """Return the normalized URLs, null where a row is null or not an http(s) URL.

    `array` is a pyarrow Array or ChunkedArray, or any object with the Arrow C data interface (polars, DuckDB …).
    The result has the string type of the column; a dictionary becomes plain strings. With `hash` the result is a
    struct of `canonical_url` and `canonical_hash` (hex sha256).
    """
    column = _import_column(array)
    core = _get_native_core()
    chosen = resolve_policy(policy) if core is None else core.resolve_policy(policy)
    if isinstance(column, pa.ChunkedArray):
        chunks = [_normalize_array(chunk, chosen, with_hash=hash) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=_get_result_type(column.type, with_hash=hash))
    return _normalize_array(column, chosen, with_hash=hash)


def _import_column(array: Any) -> Any:
    if isinstance(array, pa.Array | pa.ChunkedArray):
        return array
    if hasattr(array, "__arrow_c_stream__"):
        return pa.chunked_array(array)
    if hasattr(array, "__arrow_c_array__"):
        return pa.array(array)
    raise TypeError(f"expected an Arrow column, got {type(array).__name__}")


def _get_result_type(kind: Any, *, with_hash: bool) -> Any:
    url = _get_value_type(kind)
    return pa.struct([(FIELDS[0], url), (FIELDS[1], _get_hash_type(url))]) if with_hash else url


def _get_value_type(kind: Any) -> Any:
    url = kind.value_type if pa.types.is_dictionary(kind) else kind
    if url not in _ENTRY_BYTES:
        raise TypeError(f"expected a column of strings, got {kind}")
    return url


def _get_hash_type(url: Any) -> Any:
    return pa.large_string() if url == pa.large_string() else pa.string()


def _normalize_array(array: Any, policy: Policy, *, with_hash: bool) -> Any:
    if pa.types.is_dictionary(array.type):
        values = _normalize_strings(array.dictionary, policy, with_hash=with_hash)
        columns = [value.take(array.indices) for value in values]
    else:
        columns = _normalize_strings(array, policy, with_hash=with_hash)
    return pa.StructArray.from_arrays(columns, names=FIELDS) if with_hash else columns[0]


def _normalize_strings(array: Any, policy: Policy, *, with_hash: bool) -> list[Any]:
    """Return the column of URLs and, with `with_hash`, the column of hashes."""
    kind = _get_value_type(array.type)
    core = _get_native_core()
    if core is None:
        return _normalize_in_python(array, policy, with_hash=with_hash)
    validity, entries, *data = array.buffers()
    null_count, validity_bits, url_offsets, urls, hash_offsets, hashes = core.normalize_column(
        policy,
        _ENTRY_BYTES[kind],
        array.offset,
        len(array),
        validity if array.null_count else None,
        b"" if entries is None else entries,
        tuple(b"" if each is None else each for each in data),
        with_hash,
    )
    # The native core writes offsets of 4 or 8 bytes, so a string_view is cast at the end.
    made_type = pa.large_string() if kind == pa.large_string() else pa.string()
    mask = pa.py_buffer(validity_bits) if null_count else None
    pairs = [(url_offsets, urls), (hash_offsets, hashes)] if with_hash else [(url_offsets, urls)]
    columns = [
        pa.Array.from_buffers(made_type, len(array), [mask, pa.py_buffer(offsets), pa.py_buffer(texts)], null_count)
        for offsets, texts in pairs
    ]
    return [columns[0] if kind == made_type else columns[0].cast(kind), *columns[1:]]


def _get_native_core() -> ModuleType | None:
    return _import_native_core() if fast.CORE == "native" else None


@cache
def _import_native_core() -> ModuleType:
    from canonry.core.native import _fast

    return _fast


def _normalize_in_python(array: Any, policy: Policy, *, with_hash: bool) -> list[Any]:
    kind = array.type
    urls: list[str | None] = [_decode(url) for url in array.cast(pa.large_binary()).to_pylist()]
    if not with_hash:
        return [pa.array(fast.normalize_many(urls, policy), kind)]  # type: ignore[arg-type]
    pairs = fast.normalize_and_hash_many(urls, policy)  # type: ignore[arg-type]
    return [
        pa.array([pair and pair[0] for pair in pairs], kind),
        pa.array([pair and pair[1] for pair in pairs], _get_hash_type(kind)),
    ]


def _decode(raw: bytes | None) -> str | None:
    """Decode bytes; those that are not UTF-8 become lone surrogates, which make the URL invalid."""
    return None if raw is None else raw.decode("utf-8", "surrogateescape")
