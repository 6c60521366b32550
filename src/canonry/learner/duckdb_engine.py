"""Learn on one machine with DuckDB: rows in, rules out, the same for any order of the rows (contract L2, L6).

Rows are stored in tables that spill to disk, and learned in parts with whole sites, so that a part fits into memory.
The rows of a site go to one of eight tables, so that the rows of other parts are not read.
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
from canonry.learner.feature_tables import insert_rows
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
_FREED_MEMORY = 0.25  # of the rest: freed, but not yet given back to the system
_BYTES_PER_ROW = 1000  # of the tables that are made of a part
_TABLES = 8  # a power of two
PARSE_ONLY = Policy("learn", 1, normalize_escapes=True, fragment="drop")

_MAKE_TABLE = """
CREATE TABLE stored_{number} (family UBIGINT, uid UBIGINT, host UBIGINT, url VARCHAR, content UBIGINT,
    is_decision BOOLEAN, simhash UBIGINT, canonical UBIGINT, fetched DOUBLE)
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
            "memory_limit": f"{int((memory - _BASE_MEMORY) * (1 - _FREED_MEMORY))}B",
            "temp_directory": str(Path(folder, "spill")),
            "threads": "1",  # a second thread costs a fifth more processor time; Spark runs a task on each core
            "preserve_insertion_order": False,
        }
        try:
            with duckdb.connect(":memory:", config=options) as connection:
                connection.execute("SET enable_progress_bar = false")  # it would be printed to standard output
                rows, invalid = _store(connection, batches, on_rows)
                parts = _list_parts(rows * _BYTES_PER_ROW // memory + 1)
                rules, refused = _learn_parts(connection, parts, min_confidence)
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
    for number in range(_TABLES):
        connection.execute(_MAKE_TABLE.replace("{number}", str(number)))
    rows = invalid = 0
    for batch in batches:
        urls = arrow.normalize(batch.column("url"), PARSE_ONLY)
        rows += len(urls)
        if urls.null_count:
            invalid += urls.null_count
            batch, urls = batch.filter(urls.is_valid()), urls.drop_null()  # noqa: PLW2901
        made = _make_columns(batch, urls)
        numbers = pc.bit_wise_and(made.column("family"), pa.scalar(_TABLES - 1, pa.uint64()))
        for number in range(_TABLES):
            insert_rows(connection, f"stored_{number}", made.filter(pc.equal(numbers, number)))
        if on_rows is not None:
            on_rows(rows)
    return rows, invalid


def _make_columns(batch: Any, urls: Any) -> Any:
    """Return the columns of the tables: texts are replaced by 64 bits of them, but for the URL."""
    contents = batch.column("content_hash")
    uid, host, family = hash_urls(urls)
    return pa.table(
        {
            "family": family,
            "uid": uid,
            "host": host,
            "url": urls,
            "content": hash_column(contents),
            "is_decision": pc.fill_null(pc.starts_with(contents, DECISION_PREFIX), False),  # noqa: FBT003
            "simhash": batch.column("simhash"),
            "canonical": hash_column(batch.column("canonical_url")),
            "fetched": batch.column("fetched_at"),
        }
    )


def _list_parts(wanted: int) -> list[str]:
    """Return the queries of about as many parts as wanted: several tables, or a share of one."""
    if wanted <= _TABLES:
        size = _TABLES // wanted
        chunks = (range(start, min(start + size, _TABLES)) for start in range(0, _TABLES, size))
        return [" UNION ALL ".join(f"FROM stored_{number}" for number in chunk) for chunk in chunks]
    shares = -(-wanted // _TABLES)
    return [
        f"FROM stored_{number} WHERE family // {_TABLES} % {shares} = {share}"
        for number in range(_TABLES)
        for share in range(shares)
    ]


def _learn_parts(
    connection: duckdb.DuckDBPyConnection, parts: list[str], min_confidence: float
) -> tuple[list[LearnedRule], list[RefusedRule]]:
    rules: list[LearnedRule] = []
    refused: list[RefusedRule] = []
    for part in parts:
        connection.execute(f"CREATE OR REPLACE VIEW raw AS {part}")
        find_sites(connection)
        choose_contents(connection)
        find_rules(connection, min_confidence)
        collect_evidence(connection)
        found, not_found = read_results(connection, min_confidence)
        rules += found
        refused += not_found
        _drop_tables(connection)
    return rules, refused


def _drop_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Free the memory of a part."""
    query = "SELECT table_name FROM duckdb_tables() WHERE NOT starts_with(table_name, 'stored_')"
    for (name,) in connection.execute(query).fetchall():
        connection.execute(f"DROP TABLE {name}")
