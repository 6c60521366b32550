"""`series.canonry.normalize("bookmark")`, `.key(…)` and `.hash(…)` for pandas.

Importing this module registers the accessor. Missing values and anything that is not an http(s) URL give a missing
value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas  # pyright: ignore[reportMissingTypeStubs]
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk import url_columns
from canonry.core.normalize import resolve_policy

if TYPE_CHECKING:
    from canonry.core.policy import Policy

pd: Any = pandas
pa: Any = pyarrow


class CanonryAccessor:
    """The accessor of a Series of URLs; results keep its index, its name and, if it holds text, its dtype."""

    def __init__(self, series: Any) -> None:
        self._series = series

    def normalize(self, policy: Policy | str = "bookmark") -> Any:
        """Return the normalized URLs."""
        return self._apply(url_columns.normalize_column, policy)

    def key(self, policy: Policy | str = "bookmark") -> Any:
        """Return each normalized URL, or its digest if the URL is too long for an index."""
        return self._apply(url_columns.make_key_column, policy)

    def hash(self, policy: Policy | str = "bookmark") -> Any:
        """Return the hex sha256 of each normalized URL."""
        return self._apply(url_columns.hash_column, policy)

    def _apply(self, function: url_columns.ColumnFunction, policy: Policy | str) -> Any:
        results = function(_make_column(self._series), resolve_policy(policy))
        dtype = _choose_dtype(self._series.dtype)
        # An object column has None for a missing value; other dtypes have a missing value of their own.
        values = results.to_pylist() if dtype == "object" else results.to_pandas().array
        return pd.Series(values, index=self._series.index, name=self._series.name, dtype=dtype)


pd.api.extensions.register_series_accessor("canonry")(CanonryAccessor)


def _make_column(series: Any) -> Any:
    if series.dtype == "object":  # the values may be of any type
        return pa.array([value if isinstance(value, str) else None for value in series], pa.large_string())
    return pa.array(series, from_pandas=True)


def _choose_dtype(dtype: Any) -> Any:
    """Return the text dtype of the results for a Series of this dtype."""
    if isinstance(dtype, pd.CategoricalDtype):
        return _choose_dtype(dtype.categories.dtype)
    return dtype if dtype == "object" or pd.api.types.is_string_dtype(dtype) else "string"
