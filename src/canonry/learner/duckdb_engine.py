"""Learn on one machine with DuckDB: rows in, rules out, the same for any order of the rows (contract L2, L6).

Rows are stored in tables that spill to disk, and learned in parts with whole sites, so that a part fits into memory.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk import arrow
from canonry.bulk.disk_errors import get_first_line
from canonry.core.policy import Policy
from canonry.errors import LearnError
from canonry.learner.choose_contents import DECISION_PREFIX, choose_contents
from canonry.learner.feature_columns import hash_column, hash_urls
from canonry.learner.find_rules import collect_evidence, find_rules
from canonry.learner.find_sites import find_sites
from canonry.learner.read_results import read_results
from canonry.learner.values import Learned, LearnedRule, RefusedRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

pa: Any = pyarrow  # pyarrow has no type stubs
pc: Any = pyarrow.compute
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

_MAKE_STORED = """
CREATE TABLE stored (family UBIGINT, uid UBIGINT, host UBIGINT, url VARCHAR, content UBIGINT, is_decision BOOLEAN,
    simhash UBIGINT, canonical UBIGINT, fetched DOUBLE)
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
            "threads": "1",  # a second thread costs a fifth more processor time; Spark runs a task on each core
            "preserve_insertion_order": False,
        }
        try:
            with duckdb.connect(":memory:", config=options) as connection:
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
    connection.execute(_MAKE_STORED)
    rows = invalid = 0
    for batch in batches:
        urls = arrow.normalize(batch.column("url"), PARSE_ONLY)
        rows += len(urls)
        if urls.null_count:
            invalid += urls.null_count
            batch, urls = batch.filter(urls.is_valid()), urls.drop_null()  # noqa: PLW2901
        connection.register("batch", _make_columns(batch, urls))
        connection.execute(
            "INSERT INTO stored SELECT * REPLACE (coalesce(is_decision, false) AS is_decision) FROM batch"
        )
        connection.unregister("batch")
        if on_rows is not None:
            on_rows(rows)
    return rows, invalid


def _make_columns(batch: Any, urls: Any) -> Any:
    """Return the columns of `stored`: texts are replaced by 64 bits of them, but for the URL."""
    contents = batch.column("content_hash")
    uid, host, family = hash_urls(urls)
    return pa.table(
        {
            "family": family,
            "uid": uid,
            "host": host,
            "url": urls,
            "content": hash_column(contents),
            "is_decision": pc.starts_with(contents, DECISION_PREFIX),
            "simhash": batch.column("simhash"),
            "canonical": hash_column(batch.column("canonical_url")),
            "fetched": batch.column("fetched_at"),
        }
    )


def _learn_parts(
    connection: duckdb.DuckDBPyConnection, rows: int, min_confidence: float
) -> tuple[list[LearnedRule], list[RefusedRule]]:
    parts = max(rows - 1, 0) // _ROWS_PER_PART + 1
    rules: list[LearnedRule] = []
    refused: list[RefusedRule] = []
    for part in range(parts):
        connection.execute(f"CREATE OR REPLACE VIEW raw AS SELECT * FROM stored WHERE family % {parts} = {part}")
        find_sites(connection)
        choose_contents(connection)
        find_rules(connection, min_confidence)
        collect_evidence(connection)
        found, not_found = read_results(connection, min_confidence)
        rules += found
        refused += not_found
    return rules, refused
