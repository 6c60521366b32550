"""Learn on one machine with DuckDB: rows in, rules out, the same for any order of the rows (contract L2, L6).

Rows are stored in a temporary database and learned in parts, each with whole sites, so that a part fits into memory.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk import arrow
from canonry.bulk.disk_errors import get_first_line
from canonry.core.policy import Policy
from canonry.errors import LearnError
from canonry.learner import split_urls
from canonry.learner.choose_contents import choose_contents
from canonry.learner.export_rules import make_entries
from canonry.learner.find_rules import collect_evidence, compute_confidence, find_rules
from canonry.learner.values import Learned, LearnedRule, Pair, RefusalReason, RefusedRule, describe, get_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

pa: Any = pyarrow  # pyarrow has no type stubs
SCHEMA = pa.schema(
    [
        ("url", pa.string()),
        ("content_hash", pa.string()),
        ("simhash", pa.uint64()),
        ("canonical_url", pa.string()),
        ("fetched_at", pa.float64()),
    ]
)
DEFAULT_MEMORY = 1000**3
_BASE_MEMORY = 200 * 1000**2  # of Python and Arrow, which DuckDB does not count
_ROWS_PER_PART = 1_000_000
PARSE_ONLY = Policy("learn", 1, normalize_escapes=True, fragment="drop")

_STORE_ROWS = """
INSERT INTO stored
SELECT md5_number_lower(array_to_string(string_split(
        regexp_extract(url, '^https?://(?:[^/@]*@)?([^/:?]+)', 1), '.')[-2:], '.')),
    md5_number_lower(url), url, content_hash, simhash, canonical_url, fetched_at
FROM batch WHERE url IS NOT NULL
"""


def learn_on_duckdb(
    batches: Iterable[Any],
    *,
    min_confidence: float = 0.8,
    memory: int = DEFAULT_MEMORY,
    on_rows: Callable[[int], None] | None = None,
) -> Learned:
    """Learn from Arrow batches with the columns of SCHEMA; LearnError if the memory or the disk is too small."""
    with tempfile.TemporaryDirectory(prefix="canonry-learn-") as folder:
        options: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{max(memory - _BASE_MEMORY, memory // 2)}B",
            "temp_directory": str(Path(folder, "spill")),
            "threads": str(len(os.sched_getaffinity(0))),
            "preserve_insertion_order": False,
        }
        try:
            with duckdb.connect(str(Path(folder, "rows.duckdb")), config=options) as connection:
                connection.execute("SET enable_progress_bar = false")  # it would be printed to standard output
                rows, invalid = _store(connection, batches, on_rows)
                rules, refused = _learn_parts(connection, rows, min_confidence)
        except duckdb.Error as error:
            if isinstance(error, duckdb.OutOfMemoryException):
                message = f"{memory // 1000**2} MB of memory are not enough. Raise --memory. ({get_first_line(error)})"
                raise LearnError(message) from None
            raise LearnError(f"Learning failed: {get_first_line(error)}") from error
    return sort_results(rules, refused, rows, invalid)


def sort_results(rules: list[LearnedRule], refused: list[RefusedRule], rows: int, invalid: int) -> Learned:
    """Return the result in the order that does not depend on the parts."""
    return Learned(
        tuple(sorted(rules, key=lambda rule: (rule.host, rule.name))),
        tuple(sorted(refused, key=lambda rule: (rule.host, rule.name, rule.reason, rule.support))),
        rows,
        invalid,
    )


def _store(
    connection: duckdb.DuckDBPyConnection, batches: Iterable[Any], on_rows: Callable[[int], None] | None
) -> tuple[int, int]:
    """Store the rows with URLs as the core writes them; return the number of rows and of invalid ones."""
    connection.execute(split_urls.MACROS)
    connection.execute("""
        CREATE TABLE stored (family UBIGINT, uid UBIGINT, url VARCHAR, content VARCHAR, simhash UBIGINT,
            canonical VARCHAR, fetched DOUBLE)
    """)
    rows = invalid = 0
    for batch in batches:
        urls = arrow.normalize(batch.column("url"), PARSE_ONLY)
        columns = [urls, *(batch.column(name) for name in SCHEMA.names[1:])]
        connection.register("batch", pa.table(columns, schema=SCHEMA))
        connection.execute(_STORE_ROWS)
        connection.unregister("batch")
        rows += len(urls)
        invalid += urls.null_count
        if on_rows is not None:
            on_rows(rows)
    return rows, invalid


def _learn_parts(
    connection: duckdb.DuckDBPyConnection, rows: int, min_confidence: float
) -> tuple[list[LearnedRule], list[RefusedRule]]:
    parts = rows // _ROWS_PER_PART + 1
    rules: list[LearnedRule] = []
    refused: list[RefusedRule] = []
    for part in range(parts):
        connection.execute(f"""
            CREATE OR REPLACE TABLE raw AS SELECT * FROM stored WHERE family % {parts} = {part};
            CREATE OR REPLACE TABLE distinct_urls AS SELECT uid, any_value(url) AS url FROM raw GROUP BY uid
        """)
        connection.execute(split_urls.MAKE_CUT)
        connection.execute(split_urls.MAKE_HOSTS)
        connection.execute(split_urls.MAKE_URLS)
        connection.execute("""
            CREATE OR REPLACE TABLE observed AS
            SELECT o.uid, u.site, o.content, o.simhash, o.canonical, count(*) AS fetches, min(o.fetched) AS first_at,
                max(o.fetched) AS last_at
            FROM raw o JOIN urls u USING (uid) GROUP BY ALL
        """)
        choose_contents(connection)
        find_rules(connection, min_confidence)
        collect_evidence(connection)
        found, not_found = _read_results(connection, min_confidence)
        rules += found
        refused += not_found
    return rules, refused


def _read_results(
    connection: duckdb.DuckDBPyConnection, min_confidence: float
) -> tuple[list[LearnedRule], list[RefusedRule]]:
    pairs: dict[tuple[str, str], list[Pair]] = {}
    for site, fid, one, other in connection.execute("SELECT * FROM pairs ORDER BY ALL").fetchall():
        pairs.setdefault((site, fid), []).append(Pair(one, other))
    hosts = _read_hosts(connection)
    sizes = {
        site: (host, has_ports)
        for site, host, has_ports in connection.execute("""
            SELECT h.site, arg_min(h.host, (CASE WHEN h.host = h.site THEN 0 ELSE 1 END, -h.urls, h.host)),
                bool_or(p.has_ports)
            FROM hosts h JOIN (SELECT site, bool_or(authority <> '') AS has_ports FROM urls GROUP BY site) p
                ON p.site = h.site GROUP BY h.site
        """).fetchall()
    }
    aliases = _read_aliases(connection)
    rules: list[LearnedRule] = []
    refused: list[RefusedRule] = []
    found = connection.execute("SELECT site, fid, support, against FROM found ORDER BY ALL").fetchall()
    found += connection.execute("""
        SELECT site, 'path-query:' || path || '|' || name || '|' || start || '/', support, against FROM moves
        ORDER BY ALL
    """).fetchall()
    proven = {(site, f"path-query:{path}|{name}|{start}/") for site, path, name, start in connection.execute(
        "SELECT site, path, name, start FROM proven").fetchall()}  # fmt: skip
    for site, fid, support, against in found:
        main, has_ports = sizes[site]
        own_hosts = hosts.get((site, fid)) or hosts.get((site, ""), (main,))
        target = main if main in aliases.get(site, ()) else next(iter(aliases.get(site, ())), main)
        if fid.startswith("host:"):
            own_hosts = (f"{fid[5:]}.{site}",)
            if own_hosts[0] == target:
                continue
            fid = f"host:{own_hosts[0]}"  # noqa: PLW2901
        shown = tuple(pairs.get((site, fid), pairs.get((site, f"host:{own_hosts[0].partition('.')[0]}"), [])))
        host = target if fid.startswith("host:") or target in own_hosts else own_hosts[0]
        confidence = compute_confidence(support, against)
        text = describe(fid, host)
        is_move = fid.startswith("path-query:")
        if confidence >= min_confidence and (not is_move or (site, fid) in proven):
            entries = make_entries(fid, own_hosts, target, has_ports=has_ports)
            rules.append(
                LearnedRule(host, get_kind(fid), fid, text, support, against, confidence, shown, own_hosts, entries)
            )
        else:
            reason = RefusalReason.CONTENTS_DIFFER if is_move and against else RefusalReason.TOO_FEW
            refused.append(RefusedRule(host, get_kind(fid), fid, text, reason, support, against, confidence, ()))
    query = """
        SELECT r.site, r.fid, r.against, r.support, a.url, b.url FROM refused r
        LEFT JOIN distinct_urls a ON a.uid = r.one LEFT JOIN distinct_urls b ON b.uid = r.other ORDER BY ALL
    """
    for site, fid, against, support, one, other in connection.execute(query).fetchall():
        host = sizes[site][0]
        reason = RefusalReason.CONTENTS_DIFFER if against else RefusalReason.UNDECIDED
        counters = (Pair(one, other),) if one and other else ()
        confidence = compute_confidence(support, against)
        refused.append(
            RefusedRule(host, get_kind(fid), fid, describe(fid, host), reason, support, against, confidence, counters)
        )
    return rules, refused


def _read_hosts(connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return on which hosts of a site a feature was proven, the one with most contents first."""
    hosts: dict[tuple[str, str], tuple[str, ...]] = {}
    query = "SELECT site, fid, host FROM rule_hosts ORDER BY site, fid, n DESC, host"
    for site, fid, host in connection.execute(query).fetchall():
        hosts[site, fid] = (*hosts.get((site, fid), ()), host)
    query = "SELECT site, host FROM hosts ORDER BY site, urls DESC, host"
    for site, host in connection.execute(query).fetchall():
        hosts[site, ""] = (*hosts.get((site, ""), ()), host)
    return hosts


def _read_aliases(connection: duckdb.DuckDBPyConnection) -> dict[str, tuple[str, ...]]:
    """Return the hosts of each site that are aliases of each other, the one to write first."""
    query = """
        SELECT h.site, h.host FROM hosts h
        WHERE h.label = '' OR EXISTS (SELECT 1 FROM active a WHERE a.site = h.site AND a.fid = 'host:' || h.label)
        ORDER BY h.site, h.label <> '', h.urls DESC, h.host
    """
    aliases: dict[str, tuple[str, ...]] = {}
    for site, host in connection.execute(query).fetchall():
        aliases[site] = (*aliases.get(site, ()), host)
    return aliases
