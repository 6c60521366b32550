"""Tables of features in DuckDB: URLs go to `feature_columns.py` in batches, and come back as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from canonry.learner.feature_columns import KEY_NAMES, FeatureChoice, Wanted, find_varying, list_pairs, make_keys, split
from canonry.learner.url_features import FeatureKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import duckdb

pa: Any = pyarrow  # pyarrow has no type stubs
pc: Any = pyarrow.compute
ALL_KINDS = (1 << FeatureKind.HOST) - 1
_BATCH_ROWS = 100_000
MAX_URLS = 200  # of a group that are looked at


def get_bits(kinds: Iterable[FeatureKind]) -> int:
    """Return kinds as the bits of a number."""
    return sum(1 << kind for kind in kinds)


def list_active(connection: duckdb.DuckDBPyConnection, where: str = "true") -> tuple[bytes, bytes]:
    """Return the active features as pairs of site and number."""
    rows = connection.execute(f"SELECT site, fid FROM active WHERE {where}").fetchall()
    return list_pairs((row[0] for row in rows), (row[1] for row in rows))


def write_keys(
    connection: duckdb.DuckDBPyConnection, query: str, dropped: tuple[bytes, bytes], aliases: frozenset[int]
) -> None:
    """Make the table `keys`: the pages of a query with what remains of their URLs. `aliases` are labels to drop."""
    connection.execute("""
        CREATE OR REPLACE TABLE keys (uid UBIGINT, site UINTEGER, cid UBIGINT, first_at DOUBLE, last_at DOUBLE,
            fetches UBIGINT, key UBIGINT, kept_order UBIGINT, kept_case UBIGINT)
    """)
    names = ["uid", "site", "cid", "first_at", "last_at", "fetches"]
    for batch in _read_batches(connection, query):
        key, order, case = make_keys(batch.column("url"), batch.column("site"), dropped)
        columns = [*map(batch.column, names), add_labels(key, batch.column("label"), aliases), order, case]
        insert_rows(connection, "keys", pa.table(columns, names=[*names, *KEY_NAMES]))


def add_labels(keys: Any, labels: Any, aliases: Iterable[int]) -> Any:
    """Return keys that differ for different hosts of a site, unless these are aliases."""
    none = pa.array([0, *aliases], pa.uint64())
    return pc.if_else(pc.is_in(labels, value_set=none), keys, pc.bit_wise_xor(keys, labels))


def write_pieces(connection: duckdb.DuckDBPyConnection, query: str, active: tuple[bytes, bytes]) -> None:
    """Make the table `pieces` (uid, site, kind, fid, value, base): the active features of the URLs of a query.

    No value is 0, which stands for URLs without the feature: a slash at the end has no other value than being there.
    """
    connection.execute("""
        CREATE OR REPLACE TABLE pieces (uid UBIGINT, site UINTEGER, kind UTINYINT, fid UBIGINT, value UBIGINT,
            base UBIGINT)
    """)
    wanted = Wanted(ALL_KINDS, FeatureChoice.LISTED, *active)
    for batch in _read_batches(connection, query):
        found = split(batch.column("url"), batch.column("site"), wanted)
        rows = batch.take(found.column("row").combine_chunks())
        kind, fid, value, base = (found.column(i) for i in range(1, 5))
        values = pc.max_element_wise(value, pa.scalar(1, pa.uint64()))
        columns = [rows.column("uid"), rows.column("site"), kind, fid, values, base]
        insert_rows(connection, "pieces", pa.table(columns, names=["uid", "site", "kind", "fid", "value", "base"]))


def write_varying(connection: duckdb.DuckDBPyConnection, query: str, wanted: Wanted, *, is_strict: bool) -> None:
    """Make the table `varied` (g, site, kind, fid, base, sample): the features that vary in groups of URLs.

    The query returns uid, url, site and g, ordered by g. `sample` is the uid of a URL with the feature.
    """
    connection.execute("""
        CREATE OR REPLACE TABLE varied (g UBIGINT, site UINTEGER, kind UTINYINT, fid UBIGINT, base UBIGINT,
            sample UBIGINT)
    """)
    for batch in _read_groups(connection, query):
        insert_rows(connection, "varied", _find_varying(batch, wanted, is_strict=is_strict))


def count_varying(connection: duckdb.DuckDBPyConnection, query: str, wanted: Wanted, *, min_groups: int) -> None:
    """Make the table `varied` (site, kind, fid, base, sample, n): in how many groups features vary, at least so many.

    The query is as above, with the groups of each site together.
    """
    connection.execute("""
        CREATE OR REPLACE TABLE counted (site UINTEGER, kind UTINYINT, fid UBIGINT, base UBIGINT, sample UBIGINT,
            n BIGINT)
    """)
    for batch in _read_groups(connection, query):
        found = _find_varying(batch, wanted, is_strict=True)
        counts = found.group_by(["site", "kind", "fid"], use_threads=False).aggregate(
            [("base", "min"), ("sample", "min"), ("g", "count")]
        )
        # The first and the last site of a batch may go on in another one.
        sites = batch.column("site")
        is_cut = pc.is_in(counts.column("site"), value_set=pa.array([sites[0].as_py(), sites[-1].as_py()], pa.uint32()))
        rows = counts.filter(pc.or_(is_cut, pc.greater_equal(counts.column("g_count"), min_groups)))
        names = ["site", "kind", "fid", "base_min", "sample_min", "g_count"]
        insert_rows(connection, "counted", rows.select(names))
    connection.execute(f"""
        CREATE OR REPLACE TABLE varied AS
        SELECT site, kind, fid, min(base) AS base, min(sample) AS sample, sum(n)::UBIGINT AS n FROM counted
        GROUP BY site, kind, fid HAVING sum(n) >= {min_groups}
    """)


def _find_varying(batch: Any, wanted: Wanted, *, is_strict: bool) -> Any:
    found = find_varying(batch.column("url"), batch.column("site"), batch.column("g"), wanted, is_strict=is_strict)
    rows = batch.take(found.column("row").combine_chunks())
    columns = [rows.column("g"), rows.column("site"), *map(found.column, ("kind", "fid", "base")), rows.column("uid")]
    return pa.table(columns, names=["g", "site", "kind", "fid", "base", "sample"])


def _read_batches(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[Any]:
    """Yield the rows of a query as Arrow batches; a cursor of its own reads while the connection writes."""
    with connection.cursor() as cursor:
        result: Any = cursor.sql(query)
        yield from result.to_arrow_reader(_BATCH_ROWS)


def _read_groups(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[Any]:
    """Yield the rows of a query in tables that have whole groups."""
    kept: Any = None
    for batch in _read_batches(connection, query):
        table = pa.Table.from_batches([batch])
        if kept is not None:
            table = pa.concat_tables([kept, table]).combine_chunks()
        groups = table.column("g")
        last, start = groups[-1], len(table) - 1
        while start > 0 and groups[start - 1] == last:
            start -= 1
        kept = table.slice(start)
        if start > 0:
            yield table.slice(0, start)
    if kept is not None:
        yield kept


def insert_rows(connection: duckdb.DuckDBPyConnection, table: str, rows: Any) -> None:
    """Append the rows of an Arrow table to a table of the database."""
    connection.register("made", rows)
    connection.execute(f"INSERT INTO {table} SELECT * FROM made")
    connection.unregister("made")
