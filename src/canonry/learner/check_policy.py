"""Compare a policy with the evidence: what it merges wrongly, and what it keeps apart (contract L4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk import arrow
from canonry.learner.group_urls import JUNK_GROUPS
from canonry.learner.values import Learned, Pair

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canonry.core.policy import Policy

pa: Any = pyarrow  # pyarrow has no type stubs
_EXAMPLES = 20


@dataclass(frozen=True, slots=True)
class PolicyCheck:
    """Counts of normal forms that merge too much, and of pages that the learned rules would merge."""

    policy: str
    urls: int
    merged_wrongly: int
    merged_examples: tuple[Pair, ...]
    kept_apart: int
    apart_examples: tuple[Pair, ...]


def check_policy(batches: Iterable[Any], learned: Learned, policy: Policy) -> PolicyCheck:
    """Return where the policy and the evidence disagree. The rows are read again."""
    with_rules = policy.without_overrides().with_overrides(learned.overrides()) if learned.rules else policy
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute("CREATE TABLE rows (url VARCHAR, content VARCHAR, form VARCHAR, learned VARCHAR)")
        for batch in batches:
            columns = [batch.column("url"), batch.column("content_hash")]
            forms = [arrow.normalize(batch.column("url"), each) for each in (policy, with_rules)]
            connection.register("batch", pa.table([*columns, *forms], names=["url", "content", "form", "learned"]))
            connection.execute("INSERT INTO rows SELECT DISTINCT * FROM batch WHERE form IS NOT NULL")
            connection.unregister("batch")
        connection.execute(f"""
            CREATE TABLE pages AS SELECT DISTINCT * FROM rows WHERE content IS NOT NULL AND content NOT IN (
                SELECT content FROM rows WHERE content IS NOT NULL GROUP BY content
                HAVING count(DISTINCT learned) >= {JUNK_GROUPS});
            -- One URL with several contents was edited: only forms with two URLs that never agree are wrong.
            CREATE TABLE wrong AS
            SELECT form, min(url) AS one, max(url) AS other FROM pages GROUP BY form
            HAVING count(DISTINCT url) > 1 AND count(DISTINCT content) > count(*) - count(DISTINCT url) + 1;
            CREATE TABLE apart AS
            SELECT learned, min(form) AS one, max(form) AS other FROM pages GROUP BY learned
            HAVING min(form) <> max(form)
        """)
        urls = _count(connection, "SELECT count(DISTINCT url) FROM rows")
        return PolicyCheck(
            policy.id,
            urls,
            _count(connection, "SELECT count(*) FROM wrong"),
            _read_pairs(connection, "wrong"),
            _count(connection, "SELECT count(*) FROM apart"),
            _read_pairs(connection, "apart"),
        )


def _count(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def _read_pairs(connection: duckdb.DuckDBPyConnection, table: str) -> tuple[Pair, ...]:
    rows = connection.execute(f"SELECT one, other FROM {table} ORDER BY one, other LIMIT {_EXAMPLES}").fetchall()
    return tuple(Pair(one, other) for one, other in rows)
