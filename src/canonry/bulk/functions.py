"""SQL functions `url_normalize`, `url_key` and `url_hash` for SQLite, DuckDB and Spark.

Each takes a URL and, as an optional second argument, the name of a policy. Null and anything that is not an http(s)
URL give null; an unknown policy is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from canonry.core.configured_overrides import TAKES_OVERRIDES
from canonry.core.keys import shorten_key
from canonry.core.native import canonical_hash, normalize
from canonry.core.presets import policy as get_shipped_policy
from canonry.errors import CanonryError, InvalidUrl, PolicyError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from canonry.core.policy import Policy

# A fixed version, not the newest one: indexes and tables built with the functions must stay valid.
DEFAULT_POLICY = "bookmark@2"


def register_sqlite(connection: sqlite3.Connection, *, policies: Iterable[Policy] = ()) -> None:
    """Register the functions with a connection of the `sqlite3` module, as deterministic: they can be indexed.

    `policies` are your own policies, known in SQL by their id and name. The driver hides error messages: an
    unknown policy is only reported as "user-defined function raised exception".
    """
    known = _KnownPolicies.collect(policies)
    for name, function in (("url_normalize", normalize), ("url_key", _make_key), ("url_hash", canonical_hash)):
        sql_function = _make_scalar_function(function, known)
        connection.create_function(name, 1, sql_function, deterministic=True)
        connection.create_function(name, 2, sql_function, deterministic=True)


def register_duckdb(connection: Any, *, policies: Iterable[Policy] = ()) -> None:
    """Register the functions for all connections of a DuckDB database; they take whole columns through Arrow.

    `policies` are your own policies, known in SQL by their id and name.
    """
    import duckdb

    own_policies = tuple(policies)
    for name, function in _make_column_functions(own_policies).items():
        try:
            _create_duckdb_function(connection, name, function)
        except duckdb.NotImplementedException:  # this connection registered it before
            connection.remove_function(name)
            _create_duckdb_function(connection, name, function)
        except duckdb.CatalogException:  # another connection registered it, for this one too
            if own_policies:
                raise CanonryError(
                    f"{name} was already registered by another connection of this database. "
                    "Pass `policies` to the first registration."
                ) from None


def register_spark(spark: Any, *, policies: Iterable[Policy] = ()) -> None:
    """Register the functions with a Spark session (4.1 or newer); they take whole columns through Arrow.

    canonry must be installed on every worker. `policies` are your own policies, known in SQL by their id and name.
    """
    from canonry.bulk.url_columns import pa

    functions: Any = import_module("pyspark.sql.functions")
    for name, function in _make_column_functions(policies).items():
        # Spark decides by the annotations that the function takes and returns Arrow columns.
        setattr(function, "__annotations__", dict.fromkeys(("urls", "policies", "return"), pa.Array))  # noqa: B010
        spark.udf.register(name, functions.arrow_udf(function, "string"))


@dataclass(frozen=True, slots=True)
class _KnownPolicies:
    """The policies that SQL can name: the shipped ones by name or id, and the user's own."""

    own: dict[str, Policy] = field(default_factory=dict[str, "Policy"])

    @classmethod
    def collect(cls, policies: Iterable[Policy]) -> _KnownPolicies:
        # A shipped policy with changed options is known by its id only: its name stays the shipped policy's.
        # Names that depend on the overrides file are looked up once: a query must not mix two files, and a worker on
        # another machine has no such file.
        found = list(policies)
        configured = {name: get_shipped_policy(name) for name in TAKES_OVERRIDES}
        configured |= {policy.id: policy for policy in configured.values()}
        by_name = {policy.name: policy for policy in found if policy.id == f"{policy.name}@{policy.version}"}
        return cls(configured | by_name | {policy.id: policy for policy in found})

    def get(self, name: object) -> Policy:
        if not isinstance(name, str):
            raise PolicyError(f"the policy name must be text, not {name!r}")
        return self.own.get(name) or get_shipped_policy(name)


def _make_scalar_function(function: Callable[[str, Policy], str], known: _KnownPolicies) -> Callable[..., str | None]:
    def sql_function(url: object, policy: object = DEFAULT_POLICY) -> str | None:
        if policy is None:
            return None
        chosen = known.get(policy)
        try:
            return function(url, chosen) if isinstance(url, str) else None
        except InvalidUrl:
            return None

    return sql_function


def _make_key(url: str, policy: Policy) -> str:
    return shorten_key(normalize(url, policy))


def _make_column_functions(own_policies: Iterable[Policy]) -> dict[str, Callable[..., Any]]:
    from canonry.bulk import url_columns

    known = _KnownPolicies.collect(own_policies)

    def make_sql_function(function: url_columns.ColumnFunction) -> Callable[..., Any]:
        def sql_function(urls: Any, policies: Any = None) -> Any:
            if policies is None:
                return url_columns.cast_to_string(function(urls, known.get(DEFAULT_POLICY)))
            return url_columns.apply_named_policies(function, urls, policies, known.get)

        return sql_function

    return {
        "url_normalize": make_sql_function(url_columns.normalize_column),
        "url_key": make_sql_function(url_columns.make_key_column),
        "url_hash": make_sql_function(url_columns.hash_column),
    }


def _create_duckdb_function(connection: Any, name: str, function: Callable[..., Any]) -> None:
    import duckdb

    def call(*columns: Any) -> Any:  # DuckDB allows an optional second argument only for `*args`
        return function(*columns)

    connection.create_function(name, call, None, duckdb.sqltype("VARCHAR"), type="arrow", null_handling="special")
