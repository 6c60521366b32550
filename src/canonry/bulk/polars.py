"""`pl.col("url").canonry.normalize("bookmark")`, `.key(…)`, `.hash(…)`, for expressions and Series, lazy or not.

Importing this module gives them to polars. Null for null and for what is no http(s) URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from canonry.bulk import columns
from canonry.core.normalize import resolve_policy

if TYPE_CHECKING:
    from canonry.core.policy import Policy


@pl.api.register_series_namespace("canonry")
class CanonrySeries:
    """What canonry says of a Series of URLs."""

    def __init__(self, series: pl.Series) -> None:
        self._series = series

    def normalize(self, policy: Policy | str = "bookmark") -> pl.Series:
        """The URLs normalized."""
        return _asked(columns.normalized, self._series, policy)

    def key(self, policy: Policy | str = "bookmark") -> pl.Series:
        """The normal form, or a digest of it where it is too long for an index."""
        return _asked(columns.keyed, self._series, policy)

    def hash(self, policy: Policy | str = "bookmark") -> pl.Series:
        """Hex sha256 of the normal form."""
        return _asked(columns.hashed, self._series, policy)


@pl.api.register_expr_namespace("canonry")
class CanonryExpression:
    """What canonry says of an expression that gives URLs."""

    def __init__(self, expression: pl.Expr) -> None:
        self._expression = expression

    def normalize(self, policy: Policy | str = "bookmark") -> pl.Expr:
        """The URLs normalized."""
        return self._mapped(columns.normalized, policy)

    def key(self, policy: Policy | str = "bookmark") -> pl.Expr:
        """The normal form, or a digest of it where it is too long for an index."""
        return self._mapped(columns.keyed, policy)

    def hash(self, policy: Policy | str = "bookmark") -> pl.Expr:
        """Hex sha256 of the normal form."""
        return self._mapped(columns.hashed, policy)

    def _mapped(self, ask: columns.Ask, policy: Policy | str) -> pl.Expr:
        chosen = resolve_policy(policy)  # what is wrong with it is said here, not when the query runs
        return self._expression.map_batches(
            lambda series: _asked(ask, series, chosen), return_dtype=pl.String, is_elementwise=True
        )


def _asked(ask: columns.Ask, series: pl.Series, policy: Policy | str) -> pl.Series:
    given: Any = series  # what it gives, pyarrow, has no types
    return pl.Series(series.name, ask(given.to_arrow(), resolve_policy(policy)), dtype=pl.String)
