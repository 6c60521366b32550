"""`series.canonry.normalize("bookmark")`, `.key(…)`, `.hash(…)` for pandas.

Importing this module gives them to pandas. A missing value for one and for what is no http(s) URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas  # pyright: ignore[reportMissingTypeStubs]
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk import columns
from canonry.core.normalize import resolve_policy

if TYPE_CHECKING:
    from canonry.core.policy import Policy

pd: Any = pandas
pa: Any = pyarrow


class CanonryAccessor:
    """What canonry says of a Series of URLs; answers keep its index, its name and, where it holds texts, its dtype."""

    def __init__(self, series: Any) -> None:
        self._series = series

    def normalize(self, policy: Policy | str = "bookmark") -> Any:
        """The URLs normalized."""
        return self._asked(columns.normalized, policy)

    def key(self, policy: Policy | str = "bookmark") -> Any:
        """The normal form, or a digest of it where it is too long for an index."""
        return self._asked(columns.keyed, policy)

    def hash(self, policy: Policy | str = "bookmark") -> Any:
        """Hex sha256 of the normal form."""
        return self._asked(columns.hashed, policy)

    def _asked(self, ask: columns.Ask, policy: Policy | str) -> Any:
        answers = ask(_column(self._series), resolve_policy(policy))
        dtype = _dtype(self._series.dtype)
        # None in an object column, as the user has it; elsewhere what the dtype has for a missing value.
        values = answers.to_pylist() if dtype == "object" else answers.to_pandas().array
        return pd.Series(values, index=self._series.index, name=self._series.name, dtype=dtype)


pd.api.extensions.register_series_accessor("canonry")(CanonryAccessor)


def _column(series: Any) -> Any:
    if series.dtype == "object":  # anything may be in there
        return pa.array([value if isinstance(value, str) else None for value in series], pa.large_string())
    return pa.array(series, from_pandas=True)


def _dtype(dtype: Any) -> Any:
    """The dtype of texts in which answers to a Series of this dtype come."""
    if isinstance(dtype, pd.CategoricalDtype):
        return _dtype(dtype.categories.dtype)
    return dtype if dtype == "object" or pd.api.types.is_string_dtype(dtype) else "string"
