"""The learner: which features of a site's URLs do not change the content (contract L2, L3).

1. A candidate is a feature that varies within at least five contents.
2. All candidates of a site are dropped at once, and the URLs are grouped by what remains.
3. A content in six or more groups is junk (soft 404, login wall): it counts neither for nor against.
4. A group with several contents is a conflict. It votes for the dropped feature that separates its contents best;
   the features with the most votes are taken away, and the URLs are grouped again.
5. Parameters that were taken away are tried again below folders and as single values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.learner.blame_features import READ_CONFLICTING, blame_features
from canonry.learner.feature_tables import list_active, write_pieces
from canonry.learner.find_candidates import MIN_CONTENTS, add_retries, find_candidates
from canonry.learner.find_moves import find_moves
from canonry.learner.find_proofs import MAKE_PROOFS, drop_unconfirmed, find_proofs
from canonry.learner.find_sites import make_pages
from canonry.learner.group_urls import MAKE_TABLES, group_urls
from canonry.learner.redundant_features import remove_redundant
from canonry.learner.url_features import FOLDERS, FeatureKind

if TYPE_CHECKING:
    import duckdb

_MAX_ROUNDS = 12
_EXAMPLES = 2
_IS_RETRY = f"kind >= {FeatureKind.VALUE} AND kind <> {FeatureKind.HOST}"


def find_rules(connection: duckdb.DuckDBPyConnection, min_confidence: float) -> None:
    """Leave the features that can be dropped in the table `active`, and those that cannot in `refused`."""
    make_pages(connection, MIN_CONTENTS)
    connection.execute(MAKE_TABLES)
    connection.execute(MAKE_PROOFS)
    connection.execute("""
        CREATE OR REPLACE TABLE refused (site UINTEGER, kind UTINYINT, fid UBIGINT, base UBIGINT, sample UBIGINT,
            against BIGINT, support BIGINT, one UBIGINT, other UBIGINT)
    """)
    find_moves(connection, min_confidence, MIN_CONTENTS)
    find_candidates(connection)
    connection.execute("CREATE OR REPLACE TABLE open_sites AS SELECT DISTINCT site FROM active")
    _settle(connection, blame="true")
    for depth in range(1, len(FOLDERS) + 1):
        if not add_retries(connection, depth):
            break
        # Features that survived the first pass are not tested again.
        connection.execute(f"""
            CREATE OR REPLACE TABLE open_sites AS SELECT DISTINCT site FROM active SEMI JOIN again USING (site)
            WHERE {_IS_RETRY}
        """)
        _settle(connection, blame=_IS_RETRY)
    connection.execute("CREATE OR REPLACE TABLE all_sites AS SELECT DISTINCT site FROM active")
    find_proofs(connection, "all_sites")
    if remove_redundant(connection):
        # A removed feature may have kept URLs out of a group, so the remaining features are tested once more.
        connection.execute("CREATE OR REPLACE TABLE open_sites AS SELECT DISTINCT site FROM changed_sites")
        _settle(connection, blame="true")
        find_proofs(connection, "changed_sites")
    drop_unconfirmed(connection, MIN_CONTENTS)


def _settle(connection: duckdb.DuckDBPyConnection, *, blame: str) -> None:
    """Take features away until the groups of no site are in conflict."""
    for _ in range(_MAX_ROUNDS):
        group_urls(connection, "open_sites")
        if not blame_features(connection, blame):
            return
        connection.execute("""
            INSERT INTO refused SELECT site, kind, fid, base, sample, against, support, one, other FROM losers;
            DELETE FROM active USING losers l
            WHERE active.site = l.site AND active.kind = l.kind AND active.fid = l.fid;
            CREATE OR REPLACE TABLE open_sites AS SELECT DISTINCT site FROM losers
        """)
    # Still in conflict after many rounds: nothing is proposed for these sites.
    connection.execute("""
        INSERT INTO refused SELECT site, kind, fid, base, sample, 0, 0, NULL, NULL
        FROM active SEMI JOIN open_sites USING (site);
        DELETE FROM active WHERE site IN (SELECT site FROM open_sites)
    """)


def collect_evidence(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables of what was found: `found`, `pairs` (example URLs of a rule), `rule_hosts`."""
    connection.execute("""
        CREATE OR REPLACE TABLE blamed (site UINTEGER, kind UTINYINT, fid UBIGINT, against BIGINT);
        CREATE OR REPLACE TABLE open_conflicts AS
        SELECT * FROM conflicts SEMI JOIN (SELECT DISTINCT site FROM active) USING (site)
    """)
    blame_features(connection)
    connection.execute(f"""
        CREATE OR REPLACE TABLE found AS
        SELECT s.site, s.kind, s.fid, s.support, coalesce(b.against, 0) AS against, a.sample
        FROM (SELECT site, kind, fid, count(DISTINCT cid) AS support FROM proofs GROUP BY ALL) s
        JOIN active a USING (site, kind, fid) LEFT JOIN blamed b USING (site, kind, fid);
        CREATE OR REPLACE TABLE shown AS
        SELECT site, kind, fid, key FROM proofs SEMI JOIN active USING (site, kind, fid)
        QUALIFY row_number() OVER (PARTITION BY site, kind, fid ORDER BY cid, key) <= {_EXAMPLES};
        CREATE OR REPLACE TABLE open_conflicts AS
        SELECT DISTINCT k.uid FROM keyed k SEMI JOIN shown s ON s.site = k.site AND s.key = k.key
    """)
    _make_pairs(connection)
    # On which hosts of a site a feature was proven; a site with one host needs no proof.
    connection.execute("""
        CREATE OR REPLACE TABLE rule_hosts AS
        SELECT p.site, p.kind, p.fid, h.host, count(DISTINCT p.cid) AS n
        FROM (SELECT * FROM proofs SEMI JOIN (
            SELECT site FROM hosts GROUP BY site HAVING count(*) > 1) s ON s.site = proofs.site) p
        JOIN keyed k ON k.site = p.site AND k.key = p.key JOIN texts t ON t.uid = k.uid
        JOIN hosts h ON h.hid = t.hid GROUP BY ALL
    """)


def _make_pairs(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the table `pairs`: two URLs of each group of `shown`, the second one without the feature if there is one."""
    write_pieces(connection, READ_CONFLICTING, list_active(connection))
    connection.execute(f"""
        INSERT INTO pieces SELECT DISTINCT p.uid, p.site, {FeatureKind.HOST}, p.label, p.label, 0 FROM pages p
        SEMI JOIN open_conflicts USING (uid) WHERE p.label <> 0;
        CREATE OR REPLACE TABLE pairs AS
        WITH members AS (
            SELECT DISTINCT s.site, s.kind, s.fid, s.key, t.url, coalesce(p.value, 0) AS value
            FROM shown s JOIN keyed k ON k.site = s.site AND k.key = s.key JOIN texts t ON t.uid = k.uid
            LEFT JOIN pieces p ON p.uid = k.uid AND p.kind = s.kind AND p.fid = s.fid)
        SELECT site, kind, fid, arg_max(url, (value, url)) AS one, arg_min(url, (value, url)) AS other
        FROM members GROUP BY site, kind, fid, key
    """)
