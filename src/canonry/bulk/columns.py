"""What a column of URLs is asked: its normal form, its key, its hash. Null for null and for what is no http(s) URL."""

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

    Ask: TypeAlias = "Callable[[Any, Policy], Any]"

pa: Any = pyarrow  # it has no types
pc: Any = pyarrow.compute
_IS_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def normalized(urls: Any, policy: Policy | str) -> Any:
    """The URLs normalized."""
    return arrow.normalize(_texts(urls), policy)


def hashed(urls: Any, policy: Policy | str) -> Any:
    """Hex sha256 of each URL's normal form."""
    return pc.struct_field(arrow.normalize(_texts(urls), policy, hash=True), 1)


def keyed(urls: Any, policy: Policy | str) -> Any:
    """The normal form, or a digest where an index has no room for it: equal keys, equal normal forms."""
    keys = normalized(urls, policy)
    longest = pc.max(pc.binary_length(keys.cast(pa.large_string()))).as_py()
    if longest is None or longest <= MAX_KEY_BYTES:
        return keys
    made = [key and shorten_key(key) for key in keys.to_pylist()]
    return pa.array(made, keys.type) if isinstance(keys, pa.Array) else pa.chunked_array([made], keys.type)


def under_each(ask: Ask, urls: Any, names: Any, policy_named: Callable[[object], Policy]) -> Any:
    """What `ask` says of each URL under the policy named beside it; null where no policy is named."""
    answers = pa.nulls(len(urls), pa.string())
    for name in pc.unique(names).to_pylist():  # mostly one
        if name is not None:
            answers = pc.if_else(pc.equal(names, name), plain(ask(urls, policy_named(name))), answers)
    return answers


def plain(column: Any) -> Any:
    """The column as Arrow's plain strings, which every database takes."""
    return column if column.type == pa.string() else column.cast(pa.string())


def _texts(urls: Any) -> Any:
    """The column, or one of nulls where it holds no texts: a number is no URL."""
    kind = urls.type.value_type if pa.types.is_dictionary(urls.type) else urls.type
    return urls if any(is_text(kind) for is_text in _IS_TEXT) else pa.nulls(len(urls), pa.string())
