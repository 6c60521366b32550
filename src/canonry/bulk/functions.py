"""SQL functions `url_normalize`, `url_key` and `url_hash` for SQLite, DuckDB and Spark.

Each takes a URL and, as a second argument that may be left out, the name of a policy. Null for null and for what is
no http(s) URL; an error for a policy there is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from canonry.core.keys import shorten_key
from canonry.core.native import canonical_hash, normalize
from canonry.core.presets import policy as shipped
from canonry.errors import CanonryError, InvalidUrl, PolicyError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from canonry.core.policy import Policy

# A version for good, not the newest: an index or a table made with the function must stay true.
DEFAULT_POLICY = "bookmark@1"


def register_sqlite(connection: sqlite3.Connection, *, policies: Iterable[Policy] = ()) -> None:
    """Give a connection of the `sqlite3` module the functions; deterministic, so they can be indexed.

    `policies` are your own, known in SQL by their id and name. SQLite's driver hides what an error says:
    a wrong policy is only "user-defined function raised exception".
    """
    known = _Policies.of(policies)
    for name, answer in (("url_normalize", normalize), ("url_key", _key), ("url_hash", canonical_hash)):
        function = _for_one(answer, known)
        connection.create_function(name, 1, function, deterministic=True)
        connection.create_function(name, 2, function, deterministic=True)


def register_duckdb(connection: Any, *, policies: Iterable[Policy] = ()) -> None:
    """Give a DuckDB connection, and all others of its database, the functions: whole columns, through Arrow.

    `policies` are your own, known in SQL by their id and name.
    """
    import duckdb

    own = tuple(policies)
    for name, function in _for_columns(own).items():
        try:
            _create(connection, name, function)
        except duckdb.NotImplementedException:  # this connection has it from an earlier call
            connection.remove_function(name)
            _create(connection, name, function)
        except duckdb.CatalogException:  # another connection has it, and this one with it
            if own:
                raise CanonryError(f"{name} is there already, from another connection of this database") from None


def register_spark(spark: Any, *, policies: Iterable[Policy] = ()) -> None:
    """Give a Spark session (4.1 or newer) the functions: whole columns, through Arrow; canonry on every worker.

    `policies` are your own, known in SQL by their id and name.
    """
    from canonry.bulk.columns import pa

    functions: Any = import_module("pyspark.sql.functions")
    for name, function in _for_columns(policies).items():
        # By its types Spark knows that it takes and gives Arrow columns.
        setattr(function, "__annotations__", dict.fromkeys(("urls", "policies", "return"), pa.Array))  # noqa: B010
        spark.udf.register(name, functions.arrow_udf(function, "string"))


@dataclass(frozen=True, slots=True)
class _Policies:
    """Policies as SQL names them: ours by name or id, and those the user brought."""

    own: dict[str, Policy] = field(default_factory=dict[str, "Policy"])

    @classmethod
    def of(cls, policies: Iterable[Policy]) -> _Policies:
        # The name alone is ours where an id says that options of a shipped policy were changed.
        found = list(policies)
        plain = {policy.name: policy for policy in found if policy.id == f"{policy.name}@{policy.version}"}
        return cls(plain | {policy.id: policy for policy in found})

    def named(self, name: object) -> Policy:
        if not isinstance(name, str):
            raise PolicyError(f"the name of a policy is a text, not {name!r}")
        return self.own.get(name) or shipped(name)


def _for_one(answer: Callable[[str, Policy], str], known: _Policies) -> Callable[..., str | None]:
    def function(url: object, policy: object = DEFAULT_POLICY) -> str | None:
        if policy is None:
            return None
        chosen = known.named(policy)
        try:
            return answer(url, chosen) if isinstance(url, str) else None
        except InvalidUrl:
            return None

    return function


def _key(url: str, policy: Policy) -> str:
    return shorten_key(normalize(url, policy))


def _for_columns(policies: Iterable[Policy]) -> dict[str, Callable[..., Any]]:
    from canonry.bulk import columns

    known = _Policies.of(policies)

    def function(ask: columns.Ask) -> Callable[..., Any]:
        def answer(urls: Any, policies: Any = None) -> Any:
            if policies is None:
                return columns.plain(ask(urls, known.named(DEFAULT_POLICY)))
            return columns.under_each(ask, urls, policies, known.named)

        return answer

    asked = {"url_normalize": columns.normalized, "url_key": columns.keyed, "url_hash": columns.hashed}
    return {name: function(ask) for name, ask in asked.items()}


def _create(connection: Any, name: str, function: Callable[..., Any]) -> None:
    import duckdb

    def takes_any_number(*given: Any) -> Any:  # how DuckDB lets the second argument be left out
        return function(*given)

    connection.create_function(
        name, takes_any_number, None, duckdb.sqltype("VARCHAR"), type="arrow", null_handling="special"
    )
