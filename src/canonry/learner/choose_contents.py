"""SQL that decides what counts as the content of a URL on each site (contract L3).

`content_hash`, if repeated fetches of one URL mostly agree on that site. Otherwise clusters of `simhash` values, with
a distance that is learned for each site: half of the smallest distance between random pages. Otherwise the declared
canonical URL, if the declarations of the site can be believed. Otherwise there is no evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

# A hash that agrees for fewer of the URLs that were fetched twice says nothing (rotating ads, timestamps).
_MIN_AGREEMENT = 0.5
_MAX_DISTANCE = 7  # eight bands of eight bits: two values with at most seven different bits share a band
_SAMPLE = 400
_PROPAGATIONS = 6
# A canonical URL that more than this part of the pages name is a mistake of the template.
_MAX_TARGET_SHARE = 0.1
_MIN_PAGES = 20

_AGREEMENT = """
CREATE OR REPLACE TEMP TABLE trust AS
WITH repeated AS (
    SELECT site, uid, count(DISTINCT content) = 1 AS agrees FROM observed
    WHERE content IS NOT NULL GROUP BY site, uid HAVING sum(fetches) > 1),
counts AS (SELECT site, avg(agrees::INT) AS agreement FROM repeated GROUP BY site)
SELECT s.site, coalesce(c.agreement, 1) >= ? AS by_hash
FROM (SELECT DISTINCT site FROM observed) s LEFT JOIN counts c USING (site)
"""

_CONTENTS = """
CREATE OR REPLACE TABLE seen AS
SELECT o.uid, o.site,
    md5_number_lower(CASE WHEN t.by_hash AND o.content IS NOT NULL THEN 'h' || o.content
        WHEN NOT t.by_hash AND c.cluster IS NOT NULL THEN 's' || c.cluster
        WHEN k.site IS NOT NULL AND o.canonical IS NOT NULL THEN 'c' || o.canonical END) AS cid,
    min(o.first_at) AS first_at, max(o.last_at) AS last_at,
    sum(o.fetches) AS fetches
FROM observed o JOIN trust t USING (site)
LEFT JOIN clusters c ON c.site = o.site AND c.simhash = o.simhash
LEFT JOIN believed k ON k.site = o.site
WHERE (t.by_hash AND o.content IS NOT NULL) OR (NOT t.by_hash AND c.cluster IS NOT NULL)
    OR (k.site IS NOT NULL AND o.canonical IS NOT NULL)
GROUP BY ALL
"""

# Sites whose canonical URLs can be believed: no target that many pages name, and one content for each target.
_BELIEVED = f"""
CREATE OR REPLACE TEMP TABLE believed AS
WITH pages AS (
    SELECT site, uid, min(canonical) AS canonical, min(content) AS content, max(content) AS other,
        bool_and(by_hash) AS by_hash
    FROM observed JOIN trust USING (site) WHERE canonical IS NOT NULL GROUP BY site, uid),
targets AS (
    SELECT site, canonical, count(*) AS pages,
        bool_and(by_hash AND content IS NOT NULL) AND min(content) <> max(other) AS disagrees
    FROM pages GROUP BY site, canonical)
SELECT site FROM targets GROUP BY site
HAVING sum(pages) >= {_MIN_PAGES} AND max(pages) <= {_MAX_TARGET_SHARE} * sum(pages)
    AND avg(coalesce(disagrees, false)::INT) < 0.02
"""


def choose_contents(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the table `seen` (uid, site, cid, first_at, last_at) from `observed`."""
    connection.execute(_AGREEMENT, [_MIN_AGREEMENT])
    connection.execute(_BELIEVED)
    _make_clusters(connection)
    connection.execute(_CONTENTS)


def _make_clusters(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(f"""
        CREATE OR REPLACE TEMP TABLE hashes AS
        SELECT DISTINCT site, simhash FROM observed JOIN trust USING (site)
        WHERE NOT by_hash AND simhash IS NOT NULL;
        CREATE OR REPLACE TEMP TABLE sampled AS
        SELECT site, uid, simhash FROM (
            SELECT site, uid, min(simhash) AS simhash, row_number() OVER (PARTITION BY site ORDER BY uid) AS n
            FROM observed SEMI JOIN hashes USING (site, simhash) GROUP BY site, uid) WHERE n <= {_SAMPLE};
        -- Pairs of different URLs that are copies of each other would hide how far apart pages are: the distances
        -- of pages are on the far side of the widest gap, so half of the median is a safe upper bound for the gap.
        CREATE OR REPLACE TEMP TABLE limits AS
        WITH distances AS (
            SELECT a.site, bit_count(xor(a.simhash, b.simhash)) AS d
            FROM sampled a JOIN sampled b ON a.site = b.site AND a.uid < b.uid),
        apart AS (
            SELECT d.site, min(d.d) AS nearest FROM distances d
            JOIN (SELECT site, median(d) / 2 AS half FROM distances GROUP BY site) m
            ON m.site = d.site AND d.d > m.half GROUP BY d.site)
        SELECT site, least({_MAX_DISTANCE}, nearest // 2)::INT AS distance FROM apart;
        CREATE OR REPLACE TEMP TABLE bands AS
        SELECT h.site, h.simhash, b.n, (h.simhash >> (8 * b.n)) & 255 AS band
        FROM hashes h, range(8) b(n);
        CREATE OR REPLACE TEMP TABLE near AS
        SELECT DISTINCT a.site, a.simhash AS one, b.simhash AS other
        FROM bands a JOIN bands b ON a.site = b.site AND a.n = b.n AND a.band = b.band AND a.simhash <> b.simhash
        JOIN limits l ON l.site = a.site
        WHERE bit_count(xor(a.simhash, b.simhash)) <= l.distance;
        CREATE OR REPLACE TEMP TABLE clusters AS SELECT site, simhash, simhash AS cluster FROM hashes;
    """)
    for _ in range(_PROPAGATIONS):
        connection.execute("""
            CREATE OR REPLACE TEMP TABLE clusters AS
            SELECT c.site, c.simhash, least(c.cluster, min(o.cluster)) AS cluster
            FROM clusters c LEFT JOIN near n ON n.site = c.site AND n.one = c.simhash
            LEFT JOIN clusters o ON o.site = n.site AND o.simhash = n.other
            GROUP BY c.site, c.simhash, c.cluster
        """)
