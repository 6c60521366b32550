"""Arrow columns of URLs: string, large_string, string_view, dictionaries of them; whole, sliced or chunked.

The native core reads the column where it lies and works without the interpreter's lock, so threads
that each have a column run side by side. Without it the reference gives the same answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.core import native as fast
from canonry.core.normalize import resolve_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.core.policy import Policy

pa: Any = pyarrow  # it has no types
FIELDS = ("canonical_url", "canonical_hash")
_ENTRY_SIZES: dict[object, int] = {pa.string(): 4, pa.large_string(): 8, pa.string_view(): 16}
Answers = list[Any]  # the URLs, then their hashes where these are asked for


def normalize(array: Any, policy: Policy | str = "bookmark", *, hash: bool = False) -> Any:  # noqa: A002
    """The column normalized, null where a row is null or no http(s) URL.

    `array` is a pyarrow Array or ChunkedArray, or anything that gives one through the Arrow C data
    interface (polars, DuckDB …). A string column comes back in its own type, a dictionary as plain
    strings. With `hash` it is a struct of `canonical_url` and `canonical_hash` (hex sha256).
    """
    column = _column(array)
    chosen = resolve_policy(policy)
    if isinstance(column, pa.ChunkedArray):
        chunks = [_normalized(chunk, chosen, with_hash=hash) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=_type_of_answers(column.type, with_hash=hash))
    return _normalized(column, chosen, with_hash=hash)


def _column(array: Any) -> Any:
    if isinstance(array, pa.Array | pa.ChunkedArray):
        return array
    if hasattr(array, "__arrow_c_stream__"):
        return pa.chunked_array(array)
    if hasattr(array, "__arrow_c_array__"):
        return pa.array(array)
    raise TypeError(f"an Arrow column is wanted, not {type(array).__name__}")


def _type_of_answers(kind: Any, *, with_hash: bool) -> Any:
    url = _value_type(kind)
    return pa.struct([(FIELDS[0], url), (FIELDS[1], _hash_type(url))]) if with_hash else url


def _value_type(kind: Any) -> Any:
    url = kind.value_type if pa.types.is_dictionary(kind) else kind
    if url not in _ENTRY_SIZES:
        raise TypeError(f"a column of texts is wanted, not {kind}")
    return url


def _hash_type(url: Any) -> Any:
    return pa.large_string() if url == pa.large_string() else pa.string()


def _normalized(array: Any, policy: Policy, *, with_hash: bool) -> Any:
    if pa.types.is_dictionary(array.type):
        values = _answers(array.dictionary, policy, with_hash=with_hash)
        answers = [value.take(array.indices) for value in values]
    else:
        answers = _answers(array, policy, with_hash=with_hash)
    return pa.StructArray.from_arrays(answers, names=FIELDS) if with_hash else answers[0]


def _answers(array: Any, policy: Policy, *, with_hash: bool) -> Answers:
    kind = _value_type(array.type)
    normalize_column = _native_column()
    if normalize_column is None:
        return _reference_answers(array, policy, with_hash=with_hash)
    validity, entries, *data = array.buffers()
    nulls, valid, ends, urls, hash_ends, hashes = normalize_column(
        policy,
        _ENTRY_SIZES[kind],
        array.offset,
        len(array),
        validity if array.null_count else None,
        b"" if entries is None else entries,
        tuple(b"" if each is None else each for each in data),
        with_hash,
    )
    made = pa.large_string() if kind == pa.large_string() else pa.string()
    mask = pa.py_buffer(valid) if nulls else None
    pairs = [(ends, urls), (hash_ends, hashes)] if with_hash else [(ends, urls)]
    answers = [
        pa.Array.from_buffers(made, len(array), [mask, pa.py_buffer(places), pa.py_buffer(texts)], nulls)
        for places, texts in pairs
    ]
    return [answers[0] if kind == made else answers[0].cast(kind), *answers[1:]]


def _native_column() -> Callable[..., Any] | None:
    if fast.CORE != "native":
        return None
    from canonry.core.native._fast import normalize_column

    return normalize_column


def _reference_answers(array: Any, policy: Policy, *, with_hash: bool) -> Answers:
    kind = array.type
    urls: list[str | None] = [_text(url) for url in array.cast(pa.large_binary()).to_pylist()]
    if not with_hash:
        return [pa.array(fast.normalize_many(urls, policy), kind)]  # type: ignore[arg-type]
    pairs = fast.normalize_and_hash_many(urls, policy)  # type: ignore[arg-type]
    return [
        pa.array([pair and pair[0] for pair in pairs], kind),
        pa.array([pair and pair[1] for pair in pairs], _hash_type(kind)),
    ]


def _text(raw: bytes | None) -> str | None:
    """Bytes that are not UTF-8 become lone surrogates, which no URL may hold."""
    return None if raw is None else raw.decode("utf-8", "surrogateescape")
