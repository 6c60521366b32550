"""Group the URLs of sites by what remains of them, and find groups with several contents (contract L3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.learner.feature_tables import list_active, write_keys
from canonry.learner.url_features import FeatureKind

if TYPE_CHECKING:
    import duckdb

JUNK_GROUPS = 6  # a content in so many groups is a soft 404 or a login wall
_MAX_URLS_OF_CONFLICT = 60

# keyed: what remains of URLs, in groups of several.
MAKE_TABLES = """
CREATE OR REPLACE TABLE keyed (uid UBIGINT, site UINTEGER, key UBIGINT, cid UBIGINT, kept_order UBIGINT,
    kept_case UBIGINT);
CREATE OR REPLACE TABLE conflicts (site UINTEGER, key UBIGINT, uid UBIGINT, part UBIGINT, merged BIGINT,
    late UBIGINT);
CREATE OR REPLACE TABLE edited_sites AS
SELECT site FROM (SELECT site, uid FROM seen GROUP BY site, uid HAVING min(cid) <> max(cid))
GROUP BY site HAVING count(*) >= 5
"""

_READ_PAGES = "SELECT uid, url, site, label, cid, first_at, last_at, fetches FROM pages SEMI JOIN {sites} USING (site)"

_MAKE_GROUPS = f"""
CREATE OR REPLACE TABLE junk AS
SELECT site, cid FROM (
    SELECT DISTINCT site, cid, key FROM keys SEMI JOIN (
        SELECT site, cid FROM keys GROUP BY site, cid HAVING count(*) >= {JUNK_GROUPS}) USING (site, cid))
GROUP BY site, cid HAVING count(*) >= {JUNK_GROUPS};
CREATE OR REPLACE TABLE several AS
SELECT site, key, min(cid) <> max(cid) AS is_mixed FROM keys ANTI JOIN junk USING (site, cid)
GROUP BY site, key HAVING min(uid) <> max(uid);
DELETE FROM keyed WHERE site IN (SELECT site FROM {{sites}});
INSERT INTO keyed SELECT uid, site, key, cid, kept_order, kept_case
FROM keys SEMI JOIN several USING (site, key) ANTI JOIN junk USING (site, cid);
CREATE OR REPLACE TABLE mixed AS
SELECT site, key, uid, cid, first_at, last_at, fetches
FROM keys SEMI JOIN (FROM several WHERE is_mixed) USING (site, key) ANTI JOIN junk USING (site, cid);
-- Contents of one URL are versions of one page. Two passes join the versions that URLs have in common.
CREATE OR REPLACE TABLE versioned AS
SELECT DISTINCT site, key FROM (
    SELECT site, key, uid FROM mixed GROUP BY site, key, uid HAVING min(cid) <> max(cid));
CREATE OR REPLACE TABLE parts AS
WITH by_url AS (
    SELECT *, min(cid) OVER (PARTITION BY site, key, uid) AS a FROM mixed SEMI JOIN versioned USING (site, key)),
by_content AS (SELECT *, min(a) OVER (PARTITION BY site, key, cid) AS b FROM by_url),
by_url_again AS (SELECT *, min(b) OVER (PARTITION BY site, key, uid) AS c FROM by_content),
by_content_again AS (SELECT *, min(c) OVER (PARTITION BY site, key, cid) AS d FROM by_url_again)
SELECT site, key, uid, min(d) AS part, min(first_at) AS first_at, max(last_at) AS last_at, sum(fetches) AS fetches
FROM by_content_again GROUP BY site, key, uid
UNION ALL SELECT site, key, uid, cid, first_at, last_at, fetches FROM mixed ANTI JOIN versioned USING (site, key);
-- A page that was edited between two rounds of fetches: two contents, one after the other in time, with so many
-- fetches of each that this is no accident (or fewer, on a site whose URLs are known to change).
CREATE OR REPLACE TABLE edited AS
WITH spans AS (
    SELECT site, key, part, sum(fetches) AS n, min(first_at) AS a, max(last_at) AS b FROM parts
    GROUP BY site, key, part),
pairs AS (
    SELECT site, key, count(*) AS parts, min(n) AS least, max(n) AS most, max(a) AS last_start, min(b) AS first_end,
        arg_max(part, a) AS late
    FROM spans GROUP BY site, key)
SELECT site, key, late FROM pairs LEFT JOIN edited_sites e USING (site)
WHERE parts = 2 AND first_end < last_start
    AND CASE WHEN e.site IS NULL THEN least >= 2 AND least + most >= 7 ELSE least >= 2 OR most >= 4 END;
-- Some URLs of each group, how many contents would be merged with another one, and of an edit the later content.
CREATE OR REPLACE TABLE open_conflicts AS
WITH in_conflict AS (
    SELECT site, key, count(DISTINCT part) AS n FROM parts GROUP BY site, key HAVING min(part) <> max(part))
SELECT site, key, p.uid, p.part, n - 1 AS merged, e.late
FROM parts p JOIN in_conflict USING (site, key) LEFT JOIN edited e USING (site, key)
QUALIFY row_number() OVER (PARTITION BY site, key ORDER BY p.uid) <= {_MAX_URLS_OF_CONFLICT};
DELETE FROM conflicts WHERE site IN (SELECT site FROM {{sites}});
INSERT INTO conflicts SELECT * FROM open_conflicts WHERE late IS NULL
"""


def group_urls(connection: duckdb.DuckDBPyConnection, sites: str) -> None:
    """Update the tables `keyed` (uid, site, key, cid …) without junk, and `conflicts` (site, key, uid, part).

    `sites` is the table of the sites whose features changed; `open_conflicts` has the conflicts of these sites.
    """
    aliases = connection.execute(f"SELECT fid FROM active WHERE kind = {FeatureKind.HOST}").fetchall()
    query = _READ_PAGES.replace("{sites}", sites)
    write_keys(connection, query, list_active(connection), frozenset(row[0] for row in aliases))
    connection.execute(_MAKE_GROUPS.replace("{sites}", sites))
