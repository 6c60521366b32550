"""Groups with several contents vote for the feature that tells the contents apart (contract L3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.learner.confidence import TOLERATED
from canonry.learner.feature_tables import list_active, write_pieces
from canonry.learner.url_features import FeatureKind

if TYPE_CHECKING:
    import duckdb

_MIN_VERSIONS = 8  # groups; a value that is on one side of fewer edits may be there by accident
_CONFLICTING = "pages SEMI JOIN (SELECT DISTINCT uid FROM open_conflicts) USING (uid)"
READ_CONFLICTING = f"SELECT uid, any_value(url) AS url, any_value(site) AS site FROM {_CONFLICTING} GROUP BY uid"

_VOTE = f"""
INSERT INTO pieces SELECT DISTINCT p.uid, p.site, a.kind, a.fid, a.fid, 0 FROM
(SELECT * FROM {_CONFLICTING} WHERE label <> 0) p
JOIN active a ON a.site = p.site AND a.fid = p.label AND a.kind = {FeatureKind.HOST};
CREATE OR REPLACE TABLE best AS
WITH placed AS (
    SELECT DISTINCT c.site, c.key, p.kind, p.fid FROM open_conflicts c JOIN pieces p USING (uid, site)),
valued AS (
    SELECT c.site, c.key, f.kind, f.fid, c.part, coalesce(p.value, 0) AS value, count(*) AS n,
        min(coalesce(p.base, 0)) AS least_base, max(coalesce(p.base, 0)) AS most_base
    FROM open_conflicts c JOIN placed f USING (site, key)
    LEFT JOIN pieces p ON p.uid = c.uid AND p.site = c.site AND p.fid = f.fid AND p.kind = f.kind
    GROUP BY c.site, c.key, f.kind, f.fid, c.part, coalesce(p.value, 0)),
-- capital letters are to blame only if the texts are the same without them, or if nothing else is
cased AS (
    SELECT site, key, kind, fid FROM valued WHERE kind = {FeatureKind.CASE} GROUP BY ALL
    HAVING min(least_base) <> max(most_base)),
sizes AS (
    SELECT site, key, count(*) AS total, any_value(merged) AS merged, any_value(late) AS late
    FROM open_conflicts GROUP BY site, key),
part_sizes AS (SELECT site, key, part, count(*) AS of_part FROM open_conflicts GROUP BY site, key, part),
value_sizes AS (
    SELECT site, key, kind, fid, value, sum(n)::BIGINT AS of_value FROM valued GROUP BY site, key, kind, fid, value),
-- how well the values tell the contents apart: mutual information by joint entropy, 1 if they correspond
scores AS (
    SELECT v.site, v.key, v.kind, v.fid, any_value(s.merged) AS merged, any_value(s.late) IS NOT NULL AS is_edited,
        round(sum(v.n * ln(v.n * s.total / (w.of_value * p.of_part)))
            / greatest(sum(v.n * ln(s.total / v.n)), 1e-9), 6) AS score
    FROM valued v JOIN sizes s USING (site, key)
    JOIN part_sizes p USING (site, key, part) JOIN value_sizes w USING (site, key, kind, fid, value)
    GROUP BY v.site, v.key, v.kind, v.fid),
-- A value that is only on one side of the edits of many pages tells versions apart, and these are no edits.
versions AS (
    SELECT DISTINCT site, kind, fid FROM (
        SELECT v.site, v.kind, v.fid, v.value, count(*) AS n, count(*) FILTER (v.part = s.late) AS of_late
        FROM valued v JOIN sizes s USING (site, key) WHERE s.late IS NOT NULL GROUP BY ALL)
    WHERE n >= {_MIN_VERSIONS} AND of_late NOT BETWEEN 0.05 * n AND 0.95 * n),
voting AS (
    FROM scores WHERE NOT is_edited UNION ALL FROM scores SEMI JOIN versions USING (site, kind, fid) WHERE is_edited),
electable AS (
    SELECT v.*, c.fid IS NOT NULL AS is_cased, bool_and(c.fid IS NOT NULL) OVER (PARTITION BY site, key) AS is_last
    FROM voting v LEFT JOIN cased c USING (site, key, kind, fid) WHERE score > 0.001 AND ({{blame}})),
highest AS (
    SELECT * EXCLUDE (is_cased, is_last), max(score) OVER (PARTITION BY site, key) AS highest FROM electable
    WHERE is_last OR NOT is_cased)
SELECT *, count(*) OVER (PARTITION BY site, key) AS ties FROM highest WHERE score >= highest - 0.001;
CREATE OR REPLACE TABLE blamed AS
SELECT site, kind, fid, sum(merged)::BIGINT AS against, sum(1 / ties) AS votes, count(*) FILTER (ties = 1) AS sole
FROM best GROUP BY site, kind, fid;
CREATE OR REPLACE TABLE worst AS
SELECT site, kind, fid, against, support, base, sample FROM (
    SELECT b.*, a.support, a.base, a.sample, max(votes) OVER (PARTITION BY b.site) AS most,
        row_number() OVER (PARTITION BY b.site ORDER BY round(votes, 6) DESC, a.support, b.kind, b.fid) AS place
    FROM blamed b JOIN active a USING (site, kind, fid))
WHERE (place = 1 OR 2 * sole >= most) AND against > {TOLERATED} * support;
-- with each a counter-example: two URLs of one group with different values and different contents
CREATE OR REPLACE TABLE losers AS
WITH places AS (
    SELECT w.site, w.kind, w.fid, min(b.key) AS key FROM worst w JOIN best b USING (site, kind, fid) GROUP BY ALL),
valued AS (
    SELECT p.site, p.kind, p.fid, c.uid, c.part, coalesce(v.value, 0) AS value
    FROM places p JOIN open_conflicts c USING (site, key)
    LEFT JOIN pieces v ON v.uid = c.uid AND v.site = c.site AND v.fid = p.fid AND v.kind = p.kind),
firsts AS (
    SELECT site, kind, fid, arg_min(struct_pack(uid, part, value), (value, uid)) AS a FROM valued GROUP BY ALL)
SELECT w.site, w.kind, w.fid, any_value(w.base) AS base, any_value(w.sample) AS sample, any_value(w.against) AS against,
    any_value(w.support) AS support, any_value(f.a.uid) AS one,
    arg_min(v.uid, (v.value, v.uid)) FILTER (v.part <> f.a.part AND v.value <> f.a.value) AS other
FROM worst w LEFT JOIN firsts f USING (site, kind, fid) LEFT JOIN valued v USING (site, kind, fid)
GROUP BY w.site, w.kind, w.fid
"""


def blame_features(connection: duckdb.DuckDBPyConnection, blame: str = "true") -> bool:
    """Make the table `losers` of the features to take away; return whether there are any.

    `blame` is the condition for features that can be taken away.
    """
    row = connection.execute("SELECT count(*) FROM open_conflicts").fetchone()
    if not (row and row[0]):
        return False
    write_pieces(connection, READ_CONFLICTING, list_active(connection))
    connection.execute(_VOTE.replace("{blame}", blame))
    row = connection.execute("SELECT count(*) FROM losers").fetchone()
    return bool(row and row[0])
