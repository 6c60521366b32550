"""Candidates: features that vary within at least five contents, and parameters that are tried again (contract L2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.learner.feature_columns import FeatureChoice, Wanted, list_pairs
from canonry.learner.feature_tables import MAX_URLS, count_varying, get_bits
from canonry.learner.url_features import FOLDERS, PAGES, FeatureKind

if TYPE_CHECKING:
    import duckdb

MIN_CONTENTS = 5
_FIRST_KINDS = [kind for kind in FeatureKind if kind < FeatureKind.VALUE]

# The URLs of shared contents, in groups. Of a content with very many URLs some are enough.
_READ_MEMBERS = f"""
WITH members AS (SELECT p.g, p.uid, p.site, p.url FROM pages p {{where}} WHERE p.g > 0),
large AS (SELECT g FROM shared WHERE n > {MAX_URLS})
SELECT * FROM members ANTI JOIN large USING (g)
UNION ALL SELECT * FROM members SEMI JOIN large USING (g)
    QUALIFY row_number() OVER (PARTITION BY g ORDER BY uid) <= {MAX_URLS}
ORDER BY g
"""


def find_candidates(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the table `active` (site, kind, fid, base, sample, support) of candidates."""
    wanted = Wanted(get_bits(_FIRST_KINDS))
    count_varying(connection, _READ_MEMBERS.replace("{where}", ""), wanted, min_groups=MIN_CONTENTS)
    connection.execute(f"""
        CREATE OR REPLACE TABLE active AS SELECT site, kind, fid, base, sample, n AS support FROM varied;
        INSERT INTO active
        SELECT site, {FeatureKind.HOST}, label, 0, min(uid), count(*) FROM (
            SELECT p.site, p.g, p.label, min(p.uid) AS uid FROM pages p JOIN shared c USING (g) WHERE p.label <> 0
            GROUP BY p.site, p.g, p.label HAVING count(*) < any_value(c.n))
        GROUP BY site, label HAVING count(*) >= {MIN_CONTENTS}
    """)


def add_retries(connection: duckdb.DuckDBPyConnection, depth: int) -> bool:
    """Make candidates of refused parameters below a folder and with one value; return whether there are any.

    At the first depth of all refused parameters, then of those that were refused below a folder of the depth before.
    """
    failed = FeatureKind.PARAM if depth == 1 else FOLDERS[depth - 2]
    connection.execute(f"""
        CREATE OR REPLACE TABLE again AS SELECT DISTINCT site, base FROM refused WHERE kind = {failed};
        CREATE OR REPLACE TABLE again_sites AS SELECT DISTINCT site FROM again
    """)
    rows = connection.execute("SELECT site, base FROM again").fetchall()
    if not rows:
        return False
    kinds = get_bits([FeatureKind.VALUE, FOLDERS[depth - 1], *PAGES[:depth]])
    wanted = Wanted(kinds, FeatureChoice.LISTED_PARAMS, *list_pairs((row[0] for row in rows), (row[1] for row in rows)))
    query = _READ_MEMBERS.replace("{where}", "SEMI JOIN again_sites a ON a.site = p.site")
    count_varying(connection, query, wanted, min_groups=MIN_CONTENTS)
    connection.execute("""
        INSERT INTO active
        SELECT v.site, v.kind, v.fid, v.base, v.sample, v.n FROM varied v
        ANTI JOIN refused r ON r.site = v.site AND r.fid = v.fid
        ANTI JOIN active a ON a.site = v.site AND a.fid = v.fid
    """)
    return True
