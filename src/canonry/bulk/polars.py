"""`pl.col("url").canonry.normalize("bookmark")`, `.key(…)` and `.hash(…)` for polars expressions and Series.

Importing this module registers the namespace. Null and anything that is not an http(s) URL give null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from canonry.bulk import url_columns
from canonry.core.normalize import resolve_policy

if TYPE_CHECKING:
    from canonry.core.policy import Policy


@pl.api.register_series_namespace("canonry")
class CanonrySeries:
    """The namespace of a Series of URLs."""

    def __init__(self, series: pl.Series) -> None:
        self._series = series

    def normalize(self, policy: Policy | str = "bookmark") -> pl.Series:
        """Return the normalized URLs."""
        return _apply(url_columns.normalize_column, self._series, policy)

    def key(self, policy: Policy | str = "bookmark") -> pl.Series:
        """Return each normalized URL, or its digest if the URL is too long for an index."""
        return _apply(url_columns.make_key_column, self._series, policy)

    def hash(self, policy: Policy | str = "bookmark") -> pl.Series:
        """Return the hex sha256 of each normalized URL."""
        return _apply(url_columns.hash_column, self._series, policy)


@pl.api.register_expr_namespace("canonry")
class CanonryExpression:
    """The namespace of an expression that gives URLs."""

    def __init__(self, expression: pl.Expr) -> None:
        self._expression = expression

    def normalize(self, policy: Policy | str = "bookmark") -> pl.Expr:
        """Return the normalized URLs."""
        return self._map(url_columns.normalize_column, policy)

    def key(self, policy: Policy | str = "bookmark") -> pl.Expr:
        """Return each normalized URL, or its digest if the URL is too long for an index."""
        return self._map(url_columns.make_key_column, policy)

    def hash(self, policy: Policy | str = "bookmark") -> pl.Expr:
        """Return the hex sha256 of each normalized URL."""
        return self._map(url_columns.hash_column, policy)

    def _map(self, function: url_columns.ColumnFunction, policy: Policy | str) -> pl.Expr:
        chosen = resolve_policy(policy)  # a wrong policy raises here, not when the query runs
        return self._expression.map_batches(
            lambda series: _apply(function, series, chosen), return_dtype=pl.String, is_elementwise=True
        )


def _apply(function: url_columns.ColumnFunction, series: pl.Series, policy: Policy | str) -> pl.Series:
    untyped: Any = series  # `to_arrow` returns pyarrow, which has no type stubs
    return pl.Series(series.name, function(untyped.to_arrow(), resolve_policy(policy)), dtype=pl.String)
