"""Normalize, key or hash a column of URLs; null for null and for anything that is not an http(s) URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk import arrow
from canonry.core.keys import MAX_KEY_BYTES, shorten_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from canonry.core.policy import Policy

    ColumnFunction: TypeAlias = "Callable[[Any, Policy], Any]"

pa: Any = pyarrow  # pyarrow has no type stubs
pc: Any = pyarrow.compute
_IS_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def normalize_column(urls: Any, policy: Policy | str) -> Any:
    """Return the normalized URLs."""
    return arrow.normalize(_require_texts(urls), policy)


def hash_column(urls: Any, policy: Policy | str) -> Any:
    """Return the hex sha256 of each normalized URL."""
    return pc.struct_field(arrow.normalize(_require_texts(urls), policy, hash=True), 1)


def make_key_column(urls: Any, policy: Policy | str) -> Any:
    """Return each normalized URL, or its digest if the URL is too long for an index.

    Two keys are equal exactly when the normalized URLs are equal.
    """
    keys = normalize_column(urls, policy)
    longest = pc.max(pc.binary_length(keys.cast(pa.large_string()))).as_py()
    if longest is None or longest <= MAX_KEY_BYTES:
        return keys
    shortened = [key and shorten_key(key) for key in keys.to_pylist()]
    return pa.array(shortened, keys.type) if isinstance(keys, pa.Array) else pa.chunked_array([shortened], keys.type)


def apply_named_policies(
    function: ColumnFunction, urls: Any, names: Any, get_policy: Callable[[object], Policy]
) -> Any:
    """Apply a function to each URL under the policy named in the same row; null where the name is null."""
    results = pa.nulls(len(urls), pa.string())
    for name in pc.unique(names).to_pylist():  # usually one
        if name is not None:
            results = pc.if_else(pc.equal(names, name), cast_to_string(function(urls, get_policy(name))), results)
    return results


def cast_to_string(column: Any) -> Any:
    """Return the column with Arrow's `string` type, which every database accepts."""
    return column if column.type == pa.string() else column.cast(pa.string())


def _require_texts(urls: Any) -> Any:
    """Return the column, or nulls if it does not hold text: a number is not a URL."""
    kind = urls.type.value_type if pa.types.is_dictionary(urls.type) else urls.type
    return urls if any(is_text(kind) for is_text in _IS_TEXT) else pa.nulls(len(urls), pa.string())
