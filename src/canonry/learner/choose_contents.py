"""SQL that decides what counts as the content of a URL on each site (contract L3).

`content_hash`, if repeated fetches of one URL mostly agree on that site, or if there were few and there is no
`simhash`. Otherwise clusters of `simhash` values, with a distance that is learned for each site: half of the smallest
distance between random pages, and at most the largest one between two fetches of one URL. Otherwise the declared
canonical URL, if contents confirm the declarations of the site. Otherwise there is no evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

# A hash that agrees for fewer of the URLs that were fetched twice says nothing (rotating ads, timestamps).
_MIN_AGREEMENT = 0.5
_MIN_REFETCHED = 5  # fewer URLs may just have been edited; without simhashes there is nothing else to compare
_COMMON_URLS = 10
DECISION_PREFIX = "decision:"  # a person said that the URLs with this content are one page
_MAX_DISTANCE = 7  # eight bands of eight bits: two values with at most seven different bits share a band
_SAMPLE = 200
_PROPAGATIONS = 6
# A canonical URL that more than this part of the pages name is a mistake of the template.
_MAX_TARGET_SHARE = 0.1
_MIN_PAGES = 20
_COMMON_TARGETS = 6  # a content under so many targets is a login form or an error, and confirms none of them
_MIN_AGREEING = 5
_MAX_DIFFERING_SHARE = 0.02

_AGREEMENT = f"""
CREATE OR REPLACE TABLE refetched AS
SELECT o.* FROM observed o SEMI JOIN (
    SELECT uid FROM observed WHERE content IS NOT NULL GROUP BY uid HAVING sum(fetches) > 1) USING (uid);
CREATE OR REPLACE TABLE trust AS
-- An answer that many URLs give now and then (a login form, "busy") says nothing about the pages.
WITH all_sites AS (SELECT DISTINCT site FROM hosts),
sizes AS (
    SELECT site, count(DISTINCT uid) AS urls FROM observed SEMI JOIN (SELECT DISTINCT site FROM refetched) USING (site)
    GROUP BY site),
often AS (
    SELECT site, content FROM observed SEMI JOIN (SELECT DISTINCT site FROM refetched) USING (site)
    WHERE content IS NOT NULL GROUP BY site, content HAVING count(*) > {_COMMON_URLS}),
common AS (
    SELECT o.site, o.content FROM observed o SEMI JOIN often USING (site, content) JOIN sizes s USING (site)
    GROUP BY o.site, o.content HAVING count(DISTINCT o.uid) > greatest({_COMMON_URLS}, any_value(s.urls) / 20)),
repeated AS (
    SELECT site, uid, count(DISTINCT content) = 1 AS agrees FROM refetched ANTI JOIN common USING (site, content)
    WHERE content IS NOT NULL AND NOT is_decision
    GROUP BY site, uid HAVING sum(fetches) > 1),
counts AS (SELECT site, count(*) AS urls, avg(agrees::INT) AS agreement FROM repeated GROUP BY site),
comparable AS (SELECT DISTINCT site FROM observed WHERE simhash IS NOT NULL),
hashed AS (SELECT DISTINCT site FROM observed WHERE content IS NOT NULL AND NOT is_decision)
SELECT s.site, h.site IS NOT NULL AND (coalesce(c.agreement, 1) >= {_MIN_AGREEMENT}
        OR (c.urls < {_MIN_REFETCHED} AND m.site IS NULL)) AS by_hash
FROM all_sites s LEFT JOIN counts c USING (site) LEFT JOIN hashed h USING (site) LEFT JOIN comparable m USING (site)
"""

# What is known of the contents: hashes and clusters, which the number keeps apart from hashes.
_COMPARE = """
CREATE OR REPLACE TABLE compared AS
SELECT o.uid, o.site, o.canonical, CASE WHEN (t.by_hash OR o.is_decision) AND o.content IS NOT NULL THEN o.content
        WHEN NOT t.by_hash AND c.cluster IS NOT NULL THEN xor(c.cluster, 6148914691236517205) END AS cid,
    min(o.first_at) AS first_at, max(o.last_at) AS last_at, sum(o.fetches)::UBIGINT AS fetches
FROM observed o JOIN trust t USING (site)
LEFT JOIN clusters c ON c.site = o.site AND c.simhash = o.simhash
WHERE o.canonical IS NOT NULL OR cid IS NOT NULL
GROUP BY ALL
"""

# Sites whose canonical URLs can be believed: no target that many pages name, and URLs with one target have one content
# wherever both are known. Lists that declare their first page look like any other declaration otherwise.
_BELIEVED = f"""
CREATE OR REPLACE TABLE named AS SELECT DISTINCT site, canonical, uid, cid FROM compared WHERE canonical IS NOT NULL;
CREATE OR REPLACE TABLE known AS
SELECT * FROM named ANTI JOIN (
    SELECT site, cid FROM named WHERE cid IS NOT NULL
    GROUP BY site, cid HAVING count(DISTINCT canonical) >= {_COMMON_TARGETS}) USING (site, cid)
WHERE cid IS NOT NULL;
CREATE OR REPLACE TABLE believed AS
WITH shares AS (
    SELECT site, canonical, cid, count(*) AS urls FROM known GROUP BY ALL),
checked AS (
    SELECT k.site, k.canonical, max(s.urls) = any_value(k.urls) AS agrees
    FROM (SELECT site, canonical, count(DISTINCT uid) AS urls FROM known GROUP BY ALL HAVING urls > 1) k
    JOIN shares s USING (site, canonical) GROUP BY ALL),
targets AS (SELECT site, canonical, count(DISTINCT uid) AS pages FROM named GROUP BY ALL)
SELECT t.site FROM targets t LEFT JOIN checked c USING (site, canonical) GROUP BY t.site
HAVING sum(pages) >= {_MIN_PAGES} AND max(pages) <= {_MAX_TARGET_SHARE} * sum(pages)
    AND count(*) FILTER (agrees) >= {_MIN_AGREEING}
    AND count(*) FILTER (NOT agrees) <= {_MAX_DIFFERING_SHARE} * count(agrees)
"""

# A declaration counts for URLs of which no content is known, and only if no other URL with the target has one.
# `declared` has these contents, which add to what others prove (`find_proofs.py`).
_CONTENTS = """
CREATE OR REPLACE TABLE seen AS
SELECT uid, site, cid, min(first_at) AS first_at, max(last_at) AS last_at, sum(fetches)::UBIGINT AS fetches
FROM compared WHERE cid IS NOT NULL GROUP BY ALL;
CREATE OR REPLACE TABLE declared AS
SELECT uid, site, xor(canonical, 3689348814741910323) AS cid, min(first_at) AS first_at, max(last_at) AS last_at,
    sum(fetches)::UBIGINT AS fetches
FROM compared SEMI JOIN believed USING (site)
ANTI JOIN (SELECT site, canonical FROM named WHERE cid IS NOT NULL) USING (site, canonical)
ANTI JOIN (SELECT uid FROM compared WHERE cid IS NOT NULL) USING (uid)
WHERE canonical IS NOT NULL GROUP BY ALL;
INSERT INTO seen FROM declared;
"""


def choose_contents(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the table `seen` (uid, site, cid, first_at, last_at) from `observed`, and `declared`, a part of it."""
    connection.execute(_AGREEMENT)
    _make_clusters(connection)
    connection.execute(_COMPARE)
    connection.execute(_BELIEVED)
    connection.execute(_CONTENTS)


def _make_clusters(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(f"""
        CREATE OR REPLACE TABLE hashes AS
        SELECT DISTINCT site, simhash FROM observed JOIN trust USING (site)
        WHERE NOT by_hash AND simhash IS NOT NULL;
        CREATE OR REPLACE TABLE sampled AS
        SELECT site, uid, simhash FROM (
            SELECT site, uid, min(simhash) AS simhash, row_number() OVER (PARTITION BY site ORDER BY uid) AS n
            FROM observed SEMI JOIN hashes USING (site, simhash) GROUP BY site, uid) WHERE n <= {_SAMPLE};
        -- Pairs of different URLs that are copies of each other would hide how far apart pages are: the distances
        -- of pages are on the far side of the widest gap, so half of the median is a safe upper bound for the gap.
        -- Two fetches of one URL show how much pages change by themselves; variants of a product may be as close.
        CREATE OR REPLACE TABLE limits AS
        WITH distances AS (
            SELECT a.site, bit_count(xor(a.simhash, b.simhash)) AS d
            FROM sampled a JOIN sampled b ON a.site = b.site AND a.uid < b.uid),
        apart AS (
            SELECT d.site, min(d.d) AS nearest FROM distances d
            JOIN (SELECT site, median(d) / 2 AS half FROM distances GROUP BY site) m
            ON m.site = d.site AND d.d > m.half GROUP BY d.site),
        repeated AS (
            SELECT site, bit_count(xor(min(simhash), max(simhash))) AS d
            FROM observed SEMI JOIN hashes USING (site, simhash) GROUP BY site, uid HAVING sum(fetches) > 1),
        changes AS (
            SELECT r.site, max(r.d) AS largest FROM repeated r JOIN apart a ON a.site = r.site AND r.d < a.nearest
            GROUP BY r.site)
        SELECT site, least({_MAX_DISTANCE}, nearest // 2, largest)::INT AS distance
        FROM apart JOIN changes USING (site);
        CREATE OR REPLACE TABLE bands AS
        SELECT h.site, h.simhash, b.n, (h.simhash >> (8 * b.n)) & 255 AS band
        FROM hashes h, range(8) b(n);
        CREATE OR REPLACE TABLE near AS
        SELECT DISTINCT a.site, a.simhash AS one, b.simhash AS other
        FROM bands a JOIN bands b ON a.site = b.site AND a.n = b.n AND a.band = b.band AND a.simhash <> b.simhash
        JOIN limits l ON l.site = a.site
        WHERE bit_count(xor(a.simhash, b.simhash)) <= l.distance;
        CREATE OR REPLACE TABLE clusters AS SELECT site, simhash, simhash AS cluster FROM hashes;
    """)
    changed = ""
    for _ in range(_PROPAGATIONS):
        before, changed = changed, _sum_clusters(connection)
        if before == changed:
            break
        connection.execute("""
            CREATE OR REPLACE TABLE clusters AS
            SELECT c.site, c.simhash, least(c.cluster, min(o.cluster)) AS cluster
            FROM clusters c LEFT JOIN near n ON n.site = c.site AND n.one = c.simhash
            LEFT JOIN clusters o ON o.site = n.site AND o.simhash = n.other
            GROUP BY c.site, c.simhash, c.cluster
        """)


def _sum_clusters(connection: duckdb.DuckDBPyConnection) -> str:
    return str(connection.execute("SELECT sum(cluster::HUGEINT) FROM clusters").fetchone())
