"""Find parameters that are equivalent to a path: `/index.php?title=X` and `/wiki/X` have one content (contract L2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.learner.confidence import TOLERATED, compute_confidence

if TYPE_CHECKING:
    import duckdb

_EXAMPLES = 2
# Only sites with a content under a path and under one parameter are looked at. `root` is scheme and host.
_MAKE_FORMS = """
CREATE OR REPLACE TABLE two_forms AS
SELECT site FROM (
    SELECT site, g FROM pages WHERE g > 0
    GROUP BY site, g HAVING bool_or(contains(url, '?')) AND NOT bool_and(contains(url, '?')))
GROUP BY site HAVING count(*) >= {least};
CREATE OR REPLACE TABLE forms AS
WITH cut AS (
    SELECT uid, site, cid, url, strpos(url, '?') AS question, strpos(url[9:], '/') + 8 AS slash
    FROM pages SEMI JOIN two_forms USING (site))
SELECT uid, site, cid, url, url[:slash - 1] AS root,
        CASE WHEN question > 0 THEN url[slash:question - 1] ELSE url[slash:] END AS path,
        CASE WHEN question > 0 THEN url[question + 1:] ELSE '' END AS query FROM cut;
CREATE OR REPLACE TABLE asked AS
SELECT site, cid, root, path, lower(split_part(query, '=', 1)) AS name, query[strpos(query, '=') + 1:] AS v,
    url
FROM forms WHERE strpos(query, '=') > 0 AND NOT contains(query, '&');
CREATE OR REPLACE TABLE plain AS
SELECT site, cid, root, split_part(path, '/', -1) AS v, path[:-(length(split_part(path, '/', -1)) + 2)] AS start
FROM forms WHERE query = '' AND NOT contains(path, ';') AND path[-1:] <> '/' AND strpos(path[2:], '/') > 0;
CREATE OR REPLACE TABLE ways AS
SELECT a.site, a.path, a.name, p.start
FROM (SELECT * FROM asked ANTI JOIN declared USING (site, cid)) a
JOIN plain p ON a.site = p.site AND a.cid = p.cid AND a.v = p.v
GROUP BY ALL HAVING count(DISTINCT a.cid) >= {least};
-- A move is proven by pages of which both forms were seen.
CREATE OR REPLACE TABLE moves AS
WITH both_forms AS (
    SELECT w.site, w.path, w.name, w.start, a.root, a.v, bool_or(a.cid = p.cid) AS agrees, min(a.cid) AS cid,
        min(a.url) AS asking
    FROM ways w JOIN asked a ON a.site = w.site AND a.path = w.path AND a.name = w.name
    JOIN plain p ON p.site = a.site AND p.start = w.start AND p.v = a.v AND p.root = a.root
    GROUP BY ALL)
SELECT site, path, name, start, count(DISTINCT cid) FILTER (agrees) AS support, count(*) FILTER (NOT agrees) AS against,
    min(asking, {examples}) FILTER (agrees) AS asking,
    arg_min(root || start || '/' || v, asking, {examples}) FILTER (agrees) AS moved,
    min(asking, 1) FILTER (NOT agrees) AS counter_asking,
    arg_min(root || start || '/' || v, asking, 1) FILTER (NOT agrees) AS counter_moved
FROM both_forms GROUP BY site, path, name, start
QUALIFY row_number() OVER (PARTITION BY site, path, name ORDER BY support DESC, start) = 1
"""

_APPLY_MOVES = """
CREATE OR REPLACE TABLE moved AS
WITH asking AS (
    SELECT DISTINCT f.uid, f.root, m.start, m.name, string_split(f.query, '&') AS params
    FROM forms f JOIN proven m ON m.site = f.site AND m.path = f.path WHERE f.query <> ''),
named AS (
    SELECT *, list_filter(params, lambda p: lower(split_part(p, '=', 1)) = name) AS found,
        list_filter(params, lambda p: lower(split_part(p, '=', 1)) <> name) AS rest FROM asking)
SELECT uid, root || start || '/' || found[1][strpos(found[1], '=') + 1:]
    || CASE WHEN len(rest) > 0 THEN '?' || array_to_string(rest, '&') ELSE '' END AS url
FROM named WHERE len(found) = 1 AND strpos(found[1], '=') > 0
    AND regexp_full_match(found[1][strpos(found[1], '=') + 1:], '[^/+?#;.%][^/+?#;]*');
UPDATE pages SET url = m.url FROM moved m WHERE pages.uid = m.uid
"""


def find_moves(connection: duckdb.DuckDBPyConnection, min_confidence: float, min_contents: int) -> None:
    """Make the tables `moves` and `proven`, and write the URLs of proven moves in the form of the path."""
    connection.execute(_MAKE_FORMS.replace("{least}", str(min_contents)).replace("{examples}", str(_EXAMPLES)))
    proven = [
        move[:3]
        for move in connection.execute("SELECT site, path, name, support, against FROM moves").fetchall()
        if compute_confidence(move[3], move[4]) >= min_confidence and move[4] <= TOLERATED * move[3]
    ]
    connection.execute("CREATE OR REPLACE TABLE proven_names (site UINTEGER, path VARCHAR, name VARCHAR)")
    if proven:
        connection.executemany("INSERT INTO proven_names VALUES (?, ?, ?)", proven)
    connection.execute(
        "CREATE OR REPLACE TABLE proven AS SELECT * FROM moves SEMI JOIN proven_names USING (site, path, name)"
    )
    if proven:
        connection.execute(_APPLY_MOVES)
    connection.execute("DROP TABLE forms; DROP TABLE asked; DROP TABLE plain")
