"""Find proofs: the groups without a conflict in which a dropped feature varies (contract L2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.learner.feature_columns import FeatureChoice, Wanted
from canonry.learner.feature_tables import ALL_KINDS, MAX_URLS, list_active, write_varying
from canonry.learner.url_features import FeatureKind

if TYPE_CHECKING:
    import duckdb

MAKE_PROOFS = """
CREATE OR REPLACE TABLE proofs (site UINTEGER, kind UTINYINT, fid UBIGINT, key UBIGINT, cid UBIGINT)
"""
_MAKE_CLEAN = f"""
CREATE OR REPLACE TABLE clean AS
SELECT row_number() OVER () AS g, * FROM (
    SELECT site, key, min(cid) AS cid, count(*) AS n, min(kept_order) <> max(kept_order) AS orders,
        min(kept_case) <> max(kept_case) AS cases
    FROM keyed SEMI JOIN {{sites}} USING (site) ANTI JOIN conflicts USING (site, key) GROUP BY site, key);
CREATE OR REPLACE TABLE in_clean AS
WITH members AS (
    SELECT c.g, c.n, k.uid, k.cid, k.site FROM keyed k JOIN clean c USING (site, key))
SELECT g, uid, cid, site FROM members WHERE n <= {MAX_URLS}
UNION ALL SELECT g, uid, cid, site FROM members WHERE n > {MAX_URLS}
    QUALIFY row_number() OVER (PARTITION BY g ORDER BY uid, cid) <= {MAX_URLS}
"""
_READ_CLEAN = """
SELECT m.g, m.uid, p.site, p.url FROM in_clean m JOIN pages p ON p.uid = m.uid AND p.cid = m.cid AND p.site = m.site
ORDER BY m.g
"""
_SAVE_PROOFS = f"""
DELETE FROM proofs WHERE site IN (SELECT site FROM {{sites}});
INSERT INTO proofs
SELECT c.site, p.kind, p.fid, c.key, c.cid FROM varied p JOIN clean c USING (g)
WHERE (p.kind <> {FeatureKind.CASE} OR c.cases) AND (p.kind <> {FeatureKind.ORDER} OR c.orders);
INSERT INTO proofs
SELECT c.site, a.kind, a.fid, any_value(c.key), any_value(c.cid)
FROM in_clean m JOIN clean c USING (g) JOIN pages p ON p.uid = m.uid AND p.cid = m.cid
JOIN active a ON a.site = p.site AND a.fid = p.label AND a.kind = {FeatureKind.HOST}
GROUP BY c.site, c.g, a.kind, a.fid HAVING count(*) < least(any_value(c.n), {MAX_URLS})
"""
_DROP_UNCONFIRMED = """
DELETE FROM proofs USING (
    SELECT site, kind, fid FROM proofs p LEFT JOIN (SELECT DISTINCT site, cid FROM declared) d USING (site, cid)
    GROUP BY ALL HAVING count(DISTINCT p.cid) FILTER (d.cid IS NULL) < {least}) f
WHERE proofs.site = f.site AND proofs.kind = f.kind AND proofs.fid = f.fid
    AND (proofs.site, proofs.cid) IN (SELECT site, cid FROM declared)
"""


def find_proofs(connection: duckdb.DuckDBPyConnection, sites: str) -> None:
    """Update the table `proofs` (site, kind, fid, key, cid) for the sites of a table."""
    connection.execute(_MAKE_CLEAN.replace("{sites}", sites))
    active = list_active(connection, f"site IN (SELECT site FROM {sites})")
    write_varying(connection, _READ_CLEAN, Wanted(ALL_KINDS, FeatureChoice.LISTED, *active), is_strict=False)
    connection.execute(_SAVE_PROOFS.replace("{sites}", sites))


def drop_unconfirmed(connection: duckdb.DuckDBPyConnection, min_contents: int) -> None:
    """Delete the proofs that are only declared, of features that too few contents prove (contract L3)."""
    connection.execute(_DROP_UNCONFIRMED.replace("{least}", str(min_contents)))
