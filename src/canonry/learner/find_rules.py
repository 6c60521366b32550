"""The learner: which features of a site's URLs do not change the content (contract L2, L3).

1. A candidate is a feature that varies within at least five contents.
2. All candidates of a site are dropped at once, and the URLs are grouped by what remains.
3. A content in six or more groups is junk (soft 404, login wall): it counts neither for nor against.
4. A group with several contents is a conflict. It votes for the dropped feature that separates its contents best;
   the features with the most votes are taken away, and the URLs are grouped again.
5. Parameters that were taken away are tried again below folders and as single values.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from canonry.learner import split_urls

if TYPE_CHECKING:
    import duckdb

MIN_CONTENTS = 5
_JUNK_GROUPS = 6
_MAX_ROUNDS = 12
_MAX_URLS_OF_GROUP = 60
# Of a feature's contents, this part may be in conflicts before it is taken away.
_TOLERATED = 0.002
_Z = 1.96
# Features of two kinds can explain the same groups; the simpler kind is kept.
_FAR_FETCHED = (
    "slug-head",
    "id-start",
    "id-end",
    "slug",
    "shape",
    "seg",
    "ext",
    "host",
    "value",
    "folder",
    "sem",
    "case",
)
_SAMPLED_GROUPS = 10
_MAX_TRIALS = 60
_EXAMPLES = 2


def compute_confidence(support: int, against: int) -> float:
    """Return the lower bound of the Wilson interval (95 %): 16 contents give 0.80, 73 give 0.95."""
    n = support + against
    if n == 0:
        return 0.0
    share, z2 = support / n, _Z * _Z
    spread = _Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, (share + z2 / (2 * n) - spread) / (1 + z2 / n))


def find_rules(connection: duckdb.DuckDBPyConnection, min_confidence: float) -> None:
    """Leave the features that can be dropped in the table `active`, and those that cannot in `refused`."""
    connection.execute("""
        CREATE OR REPLACE TEMP TABLE keyed (uid UBIGINT, site VARCHAR, key UBIGINT, cid UBIGINT, first_at DOUBLE,
            last_at DOUBLE, fetches HUGEINT, kept_order UBIGINT, kept_case UBIGINT);
        CREATE OR REPLACE TEMP TABLE conflicts (site VARCHAR, key UBIGINT, uid UBIGINT, part UBIGINT);
        CREATE OR REPLACE TABLE refused (
            site VARCHAR, fid VARCHAR, against BIGINT, support BIGINT, one UBIGINT, other UBIGINT);
        CREATE OR REPLACE TEMP TABLE edited_sites AS
        SELECT site FROM (
            SELECT site, uid FROM seen GROUP BY site, uid HAVING min(cid) <> max(cid))
        GROUP BY site HAVING count(*) >= 5
    """)
    _find_moves(connection, min_confidence)
    _find_candidates(connection)
    connection.execute("CREATE OR REPLACE TEMP TABLE open_sites AS SELECT DISTINCT site FROM active")
    _settle(connection, blame="true")
    if _add_retries(connection):
        # What survived the first pass is not put in question again.
        connection.execute("""
            CREATE OR REPLACE TEMP TABLE open_sites AS
            SELECT DISTINCT site FROM active WHERE fid LIKE 'folder:%' OR fid LIKE 'value:%'
        """)
        _settle(connection, blame="fid LIKE 'folder:%' OR fid LIKE 'value:%'")
    _remove_redundant(connection)


def _find_moves(connection: duckdb.DuckDBPyConnection, min_confidence: float) -> None:
    """Find parameters that say what a path says, and write the URLs in the form of the path."""
    connection.execute(split_urls.MAKE_MOVES.replace("{least}", str(MIN_CONTENTS)))
    moves = connection.execute("SELECT site, path, name, support, against FROM moves").fetchall()
    proven = [
        move[:3]
        for move in moves
        if compute_confidence(move[3], move[4]) >= min_confidence and move[4] <= _TOLERATED * move[3]
    ]
    connection.execute("CREATE OR REPLACE TEMP TABLE proven_names (site VARCHAR, path VARCHAR, name VARCHAR)")
    if proven:
        connection.executemany("INSERT INTO proven_names VALUES (?, ?, ?)", proven)
    connection.execute(
        "CREATE OR REPLACE TABLE proven AS SELECT * FROM moves SEMI JOIN proven_names USING (site, path, name)"
    )
    if proven:
        connection.execute(split_urls.APPLY_MOVES)


def _find_candidates(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("""
        CREATE OR REPLACE TEMP TABLE shared AS
        SELECT cid, site, count(DISTINCT uid) AS n FROM seen GROUP BY cid, site HAVING min(uid) <> max(uid);
        -- A part that is the same in all URLs of a content cannot vary in it: only the others are unfolded.
        CREATE OR REPLACE TEMP TABLE members AS
        SELECT DISTINCT s.cid, c.n, u.* FROM seen s JOIN shared c USING (cid, site) JOIN urls u USING (uid, site);
        CREATE OR REPLACE TEMP TABLE varying AS
        SELECT cid, site, any_value(n) AS n, min(path) <> max(path) AS paths, min(query) <> max(query) AS queries,
            min(scheme) <> max(scheme) AS schemes, min(label) <> max(label) AS labels,
            min(len(sems)) <> max(len(sems)) OR min(sems) <> max(sems) AS sems,
            count(DISTINCT lower(path)) < count(DISTINCT path) AS cases,
            count(DISTINCT list_sort(params)) < count(DISTINCT params) AS orders
        FROM members GROUP BY cid, site;
        CREATE OR REPLACE TEMP TABLE unfolded AS
        SELECT DISTINCT m.uid, m.site, m.label, m.scheme, m.slash, m.authority, m.folder, m.has_repeats,
            CASE WHEN v.paths THEN m.segs ELSE [] END AS segs, CASE WHEN v.paths THEN m.path ELSE '' END AS path,
            CASE WHEN v.queries THEN m.params ELSE [] END AS params,
            CASE WHEN v.queries THEN m.query ELSE '' END AS query,
            CASE WHEN v.sems THEN m.sems ELSE [] END AS sems, m.cid, v.n, v.cases, v.orders
        FROM members m JOIN varying v USING (cid, site)
    """)
    pieces = split_urls.make_pieces_query("numbered", retries=False)
    connection.execute(f"""
        CREATE OR REPLACE TEMP TABLE numbered AS SELECT * EXCLUDE (uid), xor(cid, uid) AS uid FROM unfolded;
        -- In how many URLs of a content a segment is, wherever: one that only moved did not come and go.
        CREATE OR REPLACE TEMP TABLE inside AS
        SELECT cid, s, count(DISTINCT uid) AS c FROM (SELECT cid, uid, unnest(segs) AS s FROM numbered)
        GROUP BY cid, s;
        CREATE OR REPLACE TEMP TABLE varied AS
        SELECT p.site, p.fid, n.cid, any_value(n.n) AS n, count(*) AS c, min(value) <> max(value) AS differs,
            min(value) AS value, max(value) AS last_value
        FROM ({pieces}) p JOIN (SELECT uid, cid, n, cases, orders FROM numbered) n USING (uid)
        WHERE (fid NOT LIKE 'case:%' OR cases) AND (fid <> 'order' OR orders)
        GROUP BY p.site, p.fid, n.cid HAVING count(*) < any_value(n.n) OR min(value) <> max(value);
        CREATE OR REPLACE TABLE active AS
        SELECT v.site, v.fid FROM varied v LEFT JOIN inside i ON i.cid = v.cid AND i.s = v.value
        LEFT JOIN inside j ON j.cid = v.cid AND j.s = v.last_value
        WHERE CASE WHEN v.fid LIKE 'id-%' THEN v.differs
            WHEN v.fid LIKE 'seg:%' OR v.fid LIKE 'shape:%' OR v.fid LIKE 'slug%' THEN i.c < v.n OR j.c < v.n
            ELSE true END
        GROUP BY v.site, v.fid HAVING count(*) >= {MIN_CONTENTS}
    """)


def _add_retries(connection: duckdb.DuckDBPyConnection) -> bool:
    """Make candidates of refused parameters below a folder and with one value; return whether there are any."""
    pieces = split_urls.make_pieces_query("to_retry", retries=True, rest=False)
    connection.execute(f"""
        CREATE OR REPLACE TEMP TABLE again AS
        SELECT site, fid[7:] AS name FROM refused WHERE fid LIKE 'param:%';
        CREATE OR REPLACE TEMP TABLE to_retry AS SELECT * FROM numbered SEMI JOIN again USING (site);
        INSERT INTO active
        WITH counted AS (
            SELECT p.site, p.fid, n.cid, count(*) AS c, any_value(n.n) AS n, min(value) <> max(value) AS differs
            FROM (SELECT * FROM ({pieces}) WHERE fid LIKE 'folder:%' OR fid LIKE 'value:%') p
            JOIN again a ON a.site = p.site AND a.name = CASE
                WHEN fid LIKE 'value:%' THEN name_of(fid[7:]) ELSE split_part(fid, '|', -1) END
            JOIN (SELECT uid, cid, n FROM numbered) n USING (uid)
            GROUP BY p.site, p.fid, n.cid),
        -- a default value is the same as no parameter, so one URL of the content must be without it
        named AS (
            SELECT site, cid, split_part(fid, '|', -1) AS name, sum(c) AS c FROM counted WHERE fid LIKE 'folder:%'
            GROUP BY ALL)
        SELECT c.site, c.fid FROM counted c LEFT JOIN named d
            ON d.site = c.site AND d.cid = c.cid AND c.fid LIKE 'value:%' AND d.name = name_of(c.fid[7:])
        WHERE CASE WHEN c.fid LIKE 'folder:%' THEN c.c < c.n OR c.differs ELSE d.c < c.n END
        GROUP BY c.site, c.fid HAVING count(*) >= {MIN_CONTENTS}
    """)
    row = connection.execute("SELECT count(*) FROM active WHERE fid LIKE 'folder:%' OR fid LIKE 'value:%'").fetchone()
    return bool(row and row[0])


def _settle(connection: duckdb.DuckDBPyConnection, *, blame: str) -> None:
    """Take features away until the groups of no site are in conflict."""
    for _ in range(_MAX_ROUNDS):
        group_urls(connection, "open_sites")
        if not _vote(connection, blame):
            return
        connection.execute("""
            INSERT INTO refused SELECT site, fid, votes, support, one, other FROM losers;
            DELETE FROM active USING losers WHERE active.site = losers.site AND active.fid = losers.fid;
            CREATE OR REPLACE TEMP TABLE open_sites AS SELECT DISTINCT site FROM losers
        """)
    # Still in conflict after many rounds: nothing is proposed for these sites.
    connection.execute("""
        INSERT INTO refused SELECT site, fid, 0, 0, NULL, NULL FROM active SEMI JOIN open_sites USING (site);
        DELETE FROM active WHERE site IN (SELECT site FROM open_sites)
    """)


def _remove_redundant(connection: duckdb.DuckDBPyConnection) -> None:
    """Remove features without which the same URLs would be grouped, the most far-fetched ones first.

    Tried on some groups of each feature, and only where features about the same part of a URL can replace each other.
    """
    connection.execute("CREATE OR REPLACE TEMP TABLE all_sites AS SELECT DISTINCT site FROM active")
    make_support(connection, "all_sites")
    connection.execute(f"""
        DELETE FROM active WHERE fid ~ '^(slug|id-|shape|seg|value|folder)' AND NOT EXISTS (
            SELECT 1 FROM support s WHERE s.site = active.site AND s.fid = active.fid AND s.support >= {MIN_CONTENTS});
        CREATE OR REPLACE TEMP TABLE trials AS
        SELECT site, fid, row_number() OVER (PARTITION BY site ORDER BY list_position({list(_FAR_FETCHED)}::VARCHAR[],
            split_part(fid, ':', 1)), fid DESC) AS place
        FROM (SELECT *, fid ~ '^(value|folder)' AS is_param, count(*) OVER (
            PARTITION BY site, fid ~ '^(value|folder)') AS n FROM active
            WHERE list_contains({list(_FAR_FETCHED)}::VARCHAR[], split_part(fid, ':', 1))) WHERE n > 1;
        CREATE OR REPLACE TEMP TABLE sampled_keys AS
        SELECT DISTINCT site, key FROM (
            SELECT site, key FROM proofs SEMI JOIN trials USING (site, fid)
            QUALIFY row_number() OVER (PARTITION BY site, fid ORDER BY key) <= {_SAMPLED_GROUPS});
        CREATE OR REPLACE TEMP TABLE sampled_urls AS
        SELECT u.* FROM urls u SEMI JOIN (
            SELECT k.uid FROM keyed k JOIN sampled_keys s ON s.site = k.site AND s.key = k.key) k ON k.uid = u.uid;
        CREATE OR REPLACE TABLE full_active AS SELECT * FROM active;
        CREATE OR REPLACE TEMP TABLE sizes AS SELECT site, count(*) AS n FROM sampled_keys GROUP BY site
    """)
    before = connection.execute("SELECT count(*) FROM active").fetchone()
    # Features of one kind often work together (`/View/`, `/view/`), so whole kinds are tried first.
    for kind in (*_FAR_FETCHED, *_FAR_FETCHED):
        _try_without(connection, f"fid LIKE '{kind}:%'")
    row = connection.execute("SELECT coalesce(max(place), 0) FROM trials").fetchone()
    for place in range(1, min(int(row[0]) if row else 0, _MAX_TRIALS) + 1):
        _try_without(connection, f"place = {place}")
    connection.execute("""
        CREATE OR REPLACE TEMP TABLE all_sites AS
        SELECT DISTINCT site FROM trials ANTI JOIN full_active USING (site, fid);
        CREATE OR REPLACE TABLE active AS SELECT * FROM full_active
    """)
    if connection.execute("SELECT count(*) FROM active").fetchone() != before:
        group_urls(connection, "all_sites")


def _try_without(connection: duckdb.DuckDBPyConnection, condition: str) -> None:
    """Remove the features that match if no site has more groups without them. The only feature of a site stays."""
    connection.execute(f"""
        CREATE OR REPLACE TEMP TABLE tried AS
        SELECT site, fid FROM trials SEMI JOIN full_active USING (site, fid) WHERE {condition};
        CREATE OR REPLACE TABLE active AS SELECT * FROM full_active ANTI JOIN tried USING (site, fid);
        CREATE OR REPLACE TEMP TABLE trial_urls AS SELECT * FROM sampled_urls SEMI JOIN tried USING (site)
    """)
    row = connection.execute("SELECT count(*) FROM trial_urls").fetchone()
    if not (row and row[0]):
        return
    connection.execute(split_urls.MAKE_DROPS)
    connection.execute(split_urls.MAKE_KEYS.replace("{urls}", "trial_urls"))
    connection.execute("""
        CREATE OR REPLACE TEMP TABLE needless AS
        SELECT t.site, t.fid FROM tried t JOIN (
            SELECT site, count(DISTINCT key) AS n FROM keys GROUP BY site) k USING (site)
        JOIN sizes s USING (site) WHERE k.n <= s.n;
        CREATE OR REPLACE TABLE full_active AS SELECT * FROM full_active ANTI JOIN needless USING (site, fid)
    """)


def group_urls(connection: duckdb.DuckDBPyConnection, sites: str) -> None:
    """Make the tables `keyed` (uid, site, key, cid …) without junk, and `conflicts` (site, key, uid, part)."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE open_urls AS SELECT * FROM urls SEMI JOIN {sites} USING (site)")
    connection.execute(split_urls.MAKE_DROPS)
    connection.execute(split_urls.MAKE_KEYS.replace("{urls}", "open_urls"))
    connection.execute(f"""
        CREATE OR REPLACE TEMP TABLE all_keyed AS
        SELECT s.uid, s.site, k.key, s.cid, s.first_at, s.last_at, s.fetches, k.kept_order, k.kept_case
        FROM seen s JOIN keys k USING (uid, site);
        CREATE OR REPLACE TEMP TABLE junk AS
        SELECT site, cid FROM all_keyed GROUP BY site, cid HAVING count(DISTINCT key) >= {_JUNK_GROUPS};
        CREATE OR REPLACE TEMP TABLE open_keyed AS SELECT * FROM all_keyed ANTI JOIN junk USING (site, cid);
        DELETE FROM keyed WHERE site IN (SELECT site FROM {sites});
        INSERT INTO keyed SELECT * FROM open_keyed;
        CREATE OR REPLACE TEMP TABLE mixed AS
        SELECT k.site, k.key, k.uid, k.cid, k.first_at, k.last_at, k.fetches FROM open_keyed k
        SEMI JOIN (SELECT site, key FROM open_keyed GROUP BY site, key HAVING min(cid) <> max(cid)) m USING (site, key);
        -- Contents of one URL are versions of one page. Two passes join the versions that URLs have in common.
        CREATE OR REPLACE TEMP TABLE parts AS
        WITH by_url AS (SELECT *, min(cid) OVER (PARTITION BY site, key, uid) AS a FROM mixed),
        by_content AS (SELECT *, min(a) OVER (PARTITION BY site, key, cid) AS b FROM by_url),
        by_url_again AS (SELECT *, min(b) OVER (PARTITION BY site, key, uid) AS c FROM by_content),
        by_content_again AS (SELECT *, min(c) OVER (PARTITION BY site, key, cid) AS d FROM by_url_again)
        SELECT site, key, uid, min(d) AS part, min(first_at) AS first_at, max(last_at) AS last_at,
            sum(fetches) AS fetches
        FROM by_content_again GROUP BY site, key, uid;
        -- A page that was edited between two rounds of fetches: two contents, one after the other in time, with so
        -- many fetches of each that this is no accident (or fewer, on a site whose URLs are known to change).
        CREATE OR REPLACE TEMP TABLE edited AS
        WITH spans AS (
            SELECT site, key, part, sum(fetches) AS n, min(first_at) AS a, max(last_at) AS b FROM parts
            GROUP BY site, key, part),
        pairs AS (
            SELECT site, key, count(*) AS parts, min(n) AS least, max(n) AS most, max(a) AS last_start,
                min(b) AS first_end
            FROM spans GROUP BY site, key)
        SELECT site, key FROM pairs LEFT JOIN edited_sites e USING (site)
        WHERE parts = 2 AND first_end < last_start AND least >= 2 AND (e.site IS NOT NULL OR least + most >= 7);
        CREATE OR REPLACE TEMP TABLE open_conflicts AS
        SELECT site, key, uid, part FROM parts ANTI JOIN edited USING (site, key)
        SEMI JOIN (SELECT site, key FROM parts GROUP BY site, key HAVING min(part) <> max(part)) c USING (site, key)
        QUALIFY row_number() OVER (PARTITION BY site, key ORDER BY uid) <= {_MAX_URLS_OF_GROUP};
        DELETE FROM conflicts WHERE site IN (SELECT site FROM {sites});
        INSERT INTO conflicts SELECT * FROM open_conflicts
    """)


def _vote(connection: duckdb.DuckDBPyConnection, blame: str) -> bool:
    """Make the table `losers` of the features to take away; return whether there are any."""
    row = connection.execute("SELECT count(*) FROM open_conflicts").fetchone()
    if not (row and row[0]):
        return False
    connection.execute("CREATE OR REPLACE TEMP TABLE torn AS SELECT DISTINCT site FROM open_conflicts")
    make_support(connection, "torn")
    connection.execute(f"""
        CREATE OR REPLACE TEMP TABLE in_conflict AS
        SELECT {split_urls.BLANKED_COLUMNS} FROM urls u JOIN needs d USING (site)
        SEMI JOIN open_conflicts c ON c.uid = u.uid;
        CREATE OR REPLACE TEMP TABLE conflict_pieces AS
        SELECT * FROM ({split_urls.make_pieces_query("in_conflict", retries=True)}) SEMI JOIN active USING (site, fid);
        CREATE OR REPLACE TEMP TABLE best AS
        WITH pieces AS (FROM conflict_pieces),
        placed AS (SELECT DISTINCT c.site, c.key, p.fid FROM open_conflicts c JOIN pieces p USING (uid, site)),
        valued AS (
            SELECT c.site, c.key, f.fid, c.part, coalesce(p.value, '') AS value, count(*) AS n
            FROM open_conflicts c JOIN placed f USING (site, key)
            LEFT JOIN pieces p ON p.uid = c.uid AND p.site = c.site AND p.fid = f.fid
            GROUP BY ALL),
        totals AS (
            SELECT *, sum(n) OVER (PARTITION BY site, key, fid) AS total,
                sum(n) OVER (PARTITION BY site, key, fid, value) AS of_value,
                sum(n) OVER (PARTITION BY site, key, fid, part) AS of_part FROM valued),
        -- how well the values tell the contents apart: mutual information by joint entropy, 1 if they correspond
        scores AS (
            SELECT site, key, fid, round(sum(n * ln(n * total / (of_value * of_part)))
                / greatest(sum(n * ln(total / n)), 1e-9), 6) AS score
            FROM totals GROUP BY site, key, fid),
        highest AS (
            SELECT *, max(score) OVER (PARTITION BY site, key) AS highest FROM scores
            WHERE score > 0.001 AND ({blame}))
        SELECT *, count(*) OVER (PARTITION BY site, key) AS ties FROM highest WHERE score >= highest - 0.001;
        CREATE OR REPLACE TEMP TABLE blamed AS
        SELECT site, fid, count(DISTINCT key) AS groups, sum(1 / ties) AS votes, count(*) FILTER (ties = 1) AS sole
        FROM best GROUP BY site, fid;
        CREATE OR REPLACE TEMP TABLE worst AS
        SELECT site, fid, groups AS votes, support FROM (
            SELECT b.*, max(votes) OVER (PARTITION BY b.site) AS most, coalesce(p.support, 0) AS support,
                row_number() OVER (PARTITION BY b.site ORDER BY round(votes, 6) DESC, coalesce(p.support, 0), b.fid)
                    AS place
            FROM blamed b LEFT JOIN support p ON p.site = b.site AND p.fid = b.fid)
        WHERE (place = 1 OR 2 * sole >= most) AND groups > {_TOLERATED} * support;
        -- with each a counter-example: two URLs of one group with different values and different contents
        CREATE OR REPLACE TEMP TABLE losers AS
        WITH places AS (
            SELECT w.site, w.fid, min(b.key) AS key FROM worst w JOIN best b USING (site, fid) GROUP BY ALL),
        valued AS (
            SELECT p.site, p.fid, c.uid, c.part, coalesce(v.value, '') AS value
            FROM places p JOIN open_conflicts c USING (site, key)
            LEFT JOIN conflict_pieces v ON v.uid = c.uid AND v.site = c.site AND v.fid = p.fid),
        firsts AS (SELECT site, fid, arg_min(struct_pack(uid, part, value), (value, uid)) AS a FROM valued GROUP BY ALL)
        SELECT w.site, w.fid, any_value(w.votes) AS votes, any_value(w.support) AS support, any_value(f.a.uid) AS one,
            arg_min(v.uid, (v.value, v.uid)) FILTER (v.part <> f.a.part AND v.value <> f.a.value) AS other
        FROM worst w LEFT JOIN firsts f USING (site, fid) LEFT JOIN valued v USING (site, fid) GROUP BY w.site, w.fid
    """)
    row = connection.execute("SELECT count(*) FROM losers").fetchone()
    return bool(row and row[0])


def make_support(connection: duckdb.DuckDBPyConnection, sites: str) -> None:
    """Make the table `support`: in how many contents a dropped feature varies, in groups without a conflict."""
    connection.execute(split_urls.MAKE_NEEDS)
    connection.execute(f"""
        CREATE OR REPLACE TEMP TABLE clean AS
        SELECT site, key, min(cid) AS cid, count(DISTINCT uid) AS n, min(kept_order) <> max(kept_order) AS orders,
            min(kept_case) <> max(kept_case) AS cases
        FROM keyed SEMI JOIN {sites} USING (site) ANTI JOIN conflicts USING (site, key)
        GROUP BY site, key HAVING min(uid) <> max(uid);
        CREATE OR REPLACE TEMP TABLE in_clean AS
        SELECT k.key, c.cid, c.n, c.orders, c.cases, {split_urls.BLANKED_COLUMNS}
        FROM (SELECT DISTINCT site, key, uid FROM keyed) k JOIN clean c USING (site, key)
        JOIN urls u ON u.uid = k.uid JOIN needs d ON d.site = u.site;
        CREATE OR REPLACE TEMP TABLE proofs AS
        SELECT p.site, p.fid, n.key, any_value(n.cid) AS cid
        FROM (SELECT * FROM ({split_urls.make_pieces_query("in_clean", retries=True)})
            SEMI JOIN active USING (site, fid)) p
        JOIN (SELECT uid, key, cid, n, orders, cases FROM in_clean) n USING (uid)
        WHERE (fid NOT LIKE 'case:%' OR cases) AND (fid <> 'order' OR orders)
        GROUP BY p.site, p.fid, n.key
        HAVING count(*) < any_value(n.n) OR min(value) <> max(value);
        CREATE OR REPLACE TEMP TABLE support AS
        SELECT site, fid, count(DISTINCT cid) AS support FROM proofs GROUP BY site, fid
    """)


def collect_evidence(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables of what was found: `found`, `pairs` (example URLs of a rule), `rule_hosts`."""
    connection.execute("""
        CREATE OR REPLACE TEMP TABLE all_sites AS SELECT DISTINCT site FROM active;
        CREATE OR REPLACE TEMP TABLE blamed (site VARCHAR, fid VARCHAR, groups BIGINT);
        CREATE OR REPLACE TEMP TABLE open_conflicts AS SELECT * FROM conflicts SEMI JOIN all_sites USING (site)
    """)
    _vote(connection, "true")
    make_support(connection, "all_sites")
    connection.execute(f"""
        CREATE OR REPLACE TEMP TABLE found AS
        SELECT s.site, s.fid, s.support, coalesce(b.groups, 0) AS against
        FROM support s LEFT JOIN blamed b ON b.site = s.site AND b.fid = s.fid;
        CREATE OR REPLACE TEMP TABLE shown AS
        SELECT site, fid, key FROM proofs
        QUALIFY row_number() OVER (PARTITION BY site, fid ORDER BY cid, key) <= {_EXAMPLES};
        CREATE OR REPLACE TEMP TABLE in_shown AS
        SELECT * FROM urls SEMI JOIN (
            SELECT k.uid FROM keyed k JOIN shown s ON s.site = k.site AND s.key = k.key) t USING (uid);
        CREATE OR REPLACE TEMP TABLE pairs AS
        WITH pieces AS ({split_urls.make_pieces_query("in_shown", retries=True)}),
        members AS (
            SELECT DISTINCT s.site, s.fid, s.key, d.url, coalesce(p.value, '') AS value
            FROM shown s JOIN keyed k ON k.site = s.site AND k.key = s.key
            JOIN distinct_urls d ON d.uid = k.uid LEFT JOIN pieces p ON p.uid = k.uid AND p.fid = s.fid)
        SELECT site, fid, arg_max(url, (value, url)) AS one, arg_min(url, (value, url)) AS other
        FROM members GROUP BY site, fid, key ORDER BY site, fid, one;
        CREATE OR REPLACE TEMP TABLE rule_hosts AS
        SELECT p.site, p.fid, h.host, count(DISTINCT p.cid) AS n
        FROM proofs p JOIN keyed k ON k.site = p.site AND k.key = p.key JOIN cut c ON c.uid = k.uid
        JOIN hosts h ON h.host = c.host GROUP BY ALL
    """)
