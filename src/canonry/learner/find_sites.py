"""SQL for the URLs of a part, and for which hosts are one site (contract L2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

# A parent domain with more subdomains than this is a hosting service or an encyclopedia, not one site.
_MAX_SUBDOMAINS = 30
_MIN_COPIES = 5

# hosts: which site a host belongs to. Hosts below one parent are one site if they have contents in common, and if the
# parent or its `www` is one of them: below `github.io` are many owners, who copy from each other. Otherwise each host
# is a site of its own. `label` is 0 for the parent, otherwise the number of the host.
_MAKE_HOSTS = f"""
CREATE OR REPLACE TABLE hosts AS
WITH seen_hosts AS (
    SELECT hid, fetches, regexp_replace(regexp_extract(url, '^https?://([^/?]*@)?([^/?]*)', 2), ':[0-9]+$', '') AS host
    FROM (SELECT host AS hid, count(*) AS fetches, any_value(url) AS url FROM raw GROUP BY host)),
labelled AS (
    SELECT hid, host, fetches, string_split(host, '.') AS labels, host ~ '^[0-9.]+$|^\\[' AS is_address
    FROM seen_hosts),
parents AS (
    SELECT hid, host, fetches, CASE
        WHEN is_address OR len(labels) < 3 THEN host
        -- `example.co.uk`: a short name below a country is a public suffix, not a site
        WHEN len(labels) = 3 AND len(labels[3]) = 2 AND len(labels[2]) <= 3 THEN host
        ELSE array_to_string(labels[2:], '.') END AS parent FROM labelled),
families AS (
    SELECT p.* FROM parents p SEMI JOIN (
        SELECT parent FROM parents GROUP BY parent HAVING count(*) BETWEEN 2 AND {_MAX_SUBDOMAINS}) USING (parent)),
copies AS (
    SELECT f.parent, o.content, list(DISTINCT f.host) AS hosts FROM raw o
    JOIN families f ON f.hid = o.host WHERE o.content IS NOT NULL GROUP BY ALL HAVING min(f.host) <> max(f.host)),
copying AS (
    SELECT parent, host FROM (SELECT parent, content, unnest(hosts) AS host FROM copies)
    GROUP BY parent, host HAVING count(*) >= {_MIN_COPIES}),
related AS (
    SELECT * FROM copying SEMI JOIN (
        SELECT parent FROM copying WHERE host = parent OR host = 'www.' || parent) USING (parent)),
named AS (
    SELECT p.hid, p.host, p.fetches, coalesce(r.parent, p.host) AS name FROM parents p LEFT JOIN related r USING (host))
SELECT hid, host, fetches, name, (dense_rank() OVER (ORDER BY name))::UINTEGER AS site,
    CASE WHEN name = host THEN 0 ELSE hid END AS label
FROM named;
CREATE OR REPLACE TABLE observed AS
SELECT r.uid, h.site, r.content, r.is_decision, r.simhash, r.canonical, count(*) AS fetches,
    min(r.fetched) AS first_at, max(r.fetched) AS last_at
FROM raw r JOIN hosts h ON h.hid = r.host GROUP BY ALL
"""

# shared: contents under several URLs. A site with too few of them has no rules, and its URLs are not looked at.
# pages: each URL with each of its contents; `g` is the number of a shared content, or 0.
_MAKE_PAGES = """
CREATE OR REPLACE TABLE shared AS
SELECT row_number() OVER (ORDER BY site) AS g, * FROM (
    SELECT site, cid, count(*) AS n FROM seen GROUP BY site, cid HAVING min(uid) <> max(uid))
SEMI JOIN (
    SELECT site FROM (SELECT site, cid FROM seen GROUP BY site, cid HAVING min(uid) <> max(uid))
    GROUP BY site HAVING count(*) >= {least}) USING (site);
CREATE OR REPLACE TABLE live_sites AS SELECT DISTINCT site FROM shared;
CREATE OR REPLACE TABLE texts AS
SELECT r.uid, any_value(r.url) AS url, any_value(r.host) AS hid FROM raw r
SEMI JOIN (SELECT hid FROM hosts SEMI JOIN live_sites USING (site)) h ON h.hid = r.host GROUP BY r.uid;
CREATE OR REPLACE TABLE pages AS
SELECT s.uid, t.url, s.site, h.label, s.cid, s.first_at, s.last_at, s.fetches, coalesce(c.g, 0) AS g
FROM seen s JOIN texts t USING (uid) JOIN hosts h USING (hid)
LEFT JOIN shared c ON c.site = s.site AND c.cid = s.cid
"""


def find_sites(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables `hosts` and `observed` from `raw`."""
    connection.execute(_MAKE_HOSTS)


def make_pages(connection: duckdb.DuckDBPyConnection, min_contents: int) -> None:
    """Make the tables `shared`, `texts` and `pages` of the sites on which contents repeat."""
    connection.execute(_MAKE_PAGES.replace("{least}", str(min_contents)))
