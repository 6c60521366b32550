"""SQL that splits URLs into parts: one row for each distinct URL, and the features of some of these rows.

URLs, contents and keys are compared by 64 bits of their MD5: DuckDB's own hash of texts has too many collisions.
The URLs were written by the core (parse only), so a URL is `scheme://host[:port]/path[?query]` and can be cut at its
first `/` and `?`. No list of names is used anywhere: a feature is any part that may come and go.

A feature id (`fid`) says what would be dropped:

    param:sid        a query parameter             value:page=1      one value of it
    folder:/shop/|a  a parameter below a folder    sem:jsessionid    a `;name=value` in the path
    seg:first:amp    a path segment                shape:first:s-#   a generated one
    ext:html         a file extension              slash  scheme  order  case:last
    host:m           a label before the site       slug:/q/#         text after an id
    id-end:/news     text before an id             slug-head:/dp/#   a segment before one
"""

from __future__ import annotations

PLACES = ("first", "mid", "last")

# A parent domain with more subdomains than this is a hosting service or an encyclopedia, not one site.
_MAX_SUBDOMAINS = 30
_MIN_COPIES = 5

# Runs of letters and digits that contain both become `#`, runs of digits `0`: `s-8f3ab2` → `s-#`, `p12` → `#`.
_SHAPE = r"""regexp_replace(regexp_replace({0},
    '[A-Za-z]+[0-9][A-Za-z0-9]*|[0-9]+[A-Za-z][A-Za-z0-9]*', '#', 'g'), '[0-9]+', '0', 'g')"""

MACROS = f"""
CREATE OR REPLACE MACRO shape_of(s) AS {_SHAPE.format("s")};
CREATE OR REPLACE MACRO place_of(i, n) AS CASE WHEN i = n THEN 'last' WHEN i = 1 THEN 'first' ELSE 'mid' END;
CREATE OR REPLACE MACRO name_of(p) AS lower(split_part(p, '=', 1));
CREATE OR REPLACE MACRO has_digit(s) AS s <> translate(s, '0123456789', '');
-- `/q/123/a-title`: words stay, segments with a digit become `#`
CREATE OR REPLACE MACRO template_of(l) AS
    '/' || array_to_string(list_transform(l, lambda s: CASE WHEN has_digit(s) THEN '#' ELSE s END), '/');
CREATE OR REPLACE MACRO ext_of(s) AS
    CASE WHEN strpos(s, '.') > 1 THEN regexp_extract(s, '^.*[^.]\\.([A-Za-z][A-Za-z0-9]{{0,5}})$', 1) ELSE '' END;
CREATE OR REPLACE MACRO id_end_of(s) AS CASE WHEN has_digit(s)
    THEN regexp_extract(s, '^(.*[A-Za-z].*[-_,.])[A-Za-z]?[0-9]+(\\.[A-Za-z][A-Za-z0-9]*)?$', 1) ELSE '' END;
CREATE OR REPLACE MACRO id_start_of(s) AS CASE WHEN has_digit(s[1:1])
    THEN regexp_extract(s, '^[0-9]+([-_,][^.]*[A-Za-z][^.]*)(\\.[A-Za-z][A-Za-z0-9]*)?$', 1) ELSE '' END;
"""

# hosts: which site a host belongs to, and the label before the site. Hosts below one parent are one site if they have
# contents in common; otherwise each host is a site of its own.
MAKE_HOSTS = f"""
CREATE OR REPLACE TABLE hosts AS
WITH seen_hosts AS (SELECT host, count(*) AS urls FROM cut GROUP BY host),
labelled AS (
    SELECT host, urls, string_split(host, '.') AS labels, host ~ '^[0-9.]+$|^\\[' AS is_address FROM seen_hosts),
parents AS (
    SELECT host, urls, CASE
        WHEN is_address OR len(labels) < 3 THEN host
        -- `example.co.uk`: a short name below a country is a public suffix, not a site
        WHEN len(labels) = 3 AND len(labels[3]) = 2 AND len(labels[2]) <= 3 THEN host
        ELSE array_to_string(labels[2:], '.') END AS parent FROM labelled),
families AS (
    SELECT p.* FROM parents p SEMI JOIN (
        SELECT parent FROM parents GROUP BY parent HAVING count(*) BETWEEN 2 AND {_MAX_SUBDOMAINS}) USING (parent)),
copies AS (
    SELECT f.parent, o.content, list(DISTINCT f.host) AS hosts FROM raw o JOIN cut USING (uid)
    JOIN families f USING (host) WHERE o.content IS NOT NULL GROUP BY ALL HAVING min(f.host) <> max(f.host)),
related AS (
    SELECT parent, host FROM (SELECT parent, content, unnest(hosts) AS host FROM copies)
    GROUP BY parent, host HAVING count(*) >= {_MIN_COPIES})
SELECT p.host, p.urls, coalesce(r.parent, p.host) AS site,
    CASE WHEN r.parent IS NULL OR r.parent = p.host THEN '' ELSE split_part(p.host, '.', 1) END AS label
FROM parents p LEFT JOIN related r USING (host)
"""

MAKE_CUT = """
CREATE OR REPLACE TABLE cut AS
WITH places AS (
    SELECT uid, url, CASE WHEN url[5:5] = 's' THEN 9 ELSE 8 END AS start,
        strpos(url, '?') AS question FROM distinct_urls),
pieces AS (
    SELECT uid, start, CASE WHEN question > 0 THEN url[start : question - 1] ELSE url[start:] END AS place,
        CASE WHEN question > 0 THEN url[question + 1 :] END AS query FROM places)
SELECT uid, CASE start WHEN 9 THEN 'https' ELSE 'http' END AS scheme,
    regexp_replace(regexp_replace(split_part(place, '/', 1), '^.*@', ''), ':[0-9]+$', '') AS host,
    regexp_extract(split_part(place, '/', 1), '^.*@|:[0-9]+$') AS authority,
    place[strpos(place, '/') :] AS path, query
FROM pieces
"""

# urls: one row for each URL. `slash`: the path ends with one. `sems`: the `;name=value` parts of the path.
MAKE_URLS = """
CREATE OR REPLACE TABLE urls AS
WITH paths AS (
    SELECT uid, scheme, host, authority, query,
        CASE WHEN contains(path, ';') THEN regexp_replace(path, ';[^/]*', '', 'g') ELSE path END AS path,
        CASE WHEN contains(path, ';') THEN regexp_extract_all(path, ';([^/;]+)', 1) ELSE []::VARCHAR[] END AS sems
    FROM cut)
SELECT uid, h.site, h.label, scheme, authority, path,
    CASE WHEN path = '/' THEN []::VARCHAR[]
        WHEN path[-1:] = '/' THEN string_split(path[2:-2], '/') ELSE string_split(path[2:], '/') END AS segs,
    path[-1:] = '/' AS slash, sems,
    CASE WHEN query IS NULL THEN []::VARCHAR[] ELSE string_split(query, '&') END AS params,
    coalesce(query, '') AS query,
    query IS NOT NULL AND len(list_distinct(list_transform(string_split(query, '&'), lambda p: name_of(p))))
        < len(string_split(query, '&')) AS has_repeats,
    CASE WHEN strpos(path[2:], '/') > 0 THEN path[: strpos(path[2:], '/') + 1] ELSE '/' END AS folder
FROM paths JOIN hosts h USING (host)
"""


def make_pieces_query(source: str, *, retries: bool, rest: bool = True) -> str:
    """Return a query for the features of the URLs in the table `source`: uid, site, fid, value.

    With `retries` also parameters below a folder and single values, which are tried after a parameter was refused;
    without `rest` nothing but parameters.
    """
    named = f"""
        SELECT uid, site, folder, has_repeats, name_of(p) AS name, p FROM (
            SELECT uid, site, folder, has_repeats, unnest(params) AS p FROM {source} WHERE query <> '')"""
    again = """
    UNION ALL SELECT uid, site, 'folder:' || folder || '|' || name, p FROM params
    UNION ALL SELECT uid, site, 'value:' || p, p FROM params WHERE length(p) < 60"""
    lists = f""",
    placed AS (
        SELECT uid, site, s, place_of(i, n) AS place FROM (
            SELECT uid, site, len(segs) AS n, unnest(segs) AS s, generate_subscripts(segs, 1) AS i
            FROM {source} WHERE len(segs) > 0)),
    lasts AS (
        SELECT uid, site, segs, segs[-1] AS s, len(segs) AS n FROM {source} WHERE len(segs) > 0)"""
    others = f"""
    UNION ALL SELECT uid, site, 'sem:' || name_of(p), p FROM (
        SELECT uid, site, unnest(sems) AS p FROM {source} WHERE len(sems) > 0)
    UNION ALL SELECT uid, site, 'seg:' || place || ':' || s, s FROM placed
    UNION ALL SELECT uid, site, 'shape:' || place || ':' || shape_of(s), s FROM placed WHERE has_digit(s)
    UNION ALL SELECT uid, site, 'case:' || place, s FROM placed
    UNION ALL SELECT uid, site, 'ext:' || lower(ext_of(s)), ext_of(s) FROM lasts WHERE ext_of(s) <> ''
    UNION ALL SELECT uid, site, 'slug:' || template_of(segs[:-2]), s FROM lasts WHERE n > 1 AND has_digit(segs[-2])
    UNION ALL SELECT uid, site, 'slug-head:' || template_of(segs[2:]), segs[1] FROM lasts
        WHERE n > 1 AND has_digit(s) AND NOT has_digit(segs[1])
    UNION ALL SELECT uid, site, 'id-end:' || template_of(segs[:-2]), id_end_of(s) FROM lasts WHERE id_end_of(s) <> ''
    UNION ALL SELECT uid, site, 'id-start:' || template_of(segs[:-2]), id_start_of(s) FROM lasts
        WHERE id_start_of(s) <> ''
    UNION ALL SELECT uid, site, 'host:' || label, label FROM {source} WHERE label <> ''
    UNION ALL SELECT uid, site, 'slash', '/' FROM {source} WHERE slash AND len(segs) > 0
    UNION ALL SELECT uid, site, 'scheme', scheme FROM {source}
    UNION ALL SELECT uid, site, 'order', query FROM {source} WHERE len(params) > 1
    """
    return f"""
    WITH named AS ({named}),
    params AS (
        -- a name that occurs several times in a URL is one parameter with several values
        SELECT uid, site, folder, name, p FROM named WHERE NOT has_repeats
        UNION ALL SELECT uid, site, folder, name, string_agg(p, '&' ORDER BY p) AS p
        FROM named WHERE has_repeats GROUP BY uid, site, folder, name){lists if rest else ""}
    SELECT uid, site, 'param:' || name AS fid, p AS value FROM params
    {again if retries else ""}
    {others if rest else ""}
    """


# drops: for each site the features that are dropped at the moment, as lists.
MAKE_DROPS = """
CREATE OR REPLACE TEMP TABLE drops AS
SELECT site,
    coalesce(list(fid[7:]) FILTER (fid LIKE 'param:%'), []) AS params,
    coalesce(list(fid[7:]) FILTER (fid LIKE 'value:%'), []) AS vals,
    coalesce(list(fid[8:]) FILTER (fid LIKE 'folder:%'), []) AS folders,
    coalesce(list(fid[5:]) FILTER (fid LIKE 'sem:%'), []) AS sems,
    coalesce(list(fid[5:]) FILTER (fid LIKE 'seg:%'), []) AS segs,
    coalesce(list(fid[7:]) FILTER (fid LIKE 'shape:%'), []) AS shapes,
    coalesce(list(fid[6:]) FILTER (fid LIKE 'case:%'), []) AS cases,
    coalesce(list(fid[5:]) FILTER (fid LIKE 'ext:%'), []) AS exts,
    coalesce(list(fid[6:]) FILTER (fid LIKE 'slug:%'), []) AS slugs,
    coalesce(list(fid[11:]) FILTER (fid LIKE 'slug-head:%'), []) AS heads,
    coalesce(list(fid[8:]) FILTER (fid LIKE 'id-end:%'), []) AS ends,
    coalesce(list(fid[10:]) FILTER (fid LIKE 'id-start:%'), []) AS starts,
    coalesce(list(fid[6:]) FILTER (fid LIKE 'host:%'), []) AS labels,
    bool_or(fid = 'slash') AS slash, bool_or(fid = 'scheme') AS scheme, bool_or(fid = 'order') AS ordered
FROM active GROUP BY site
"""

# keys: what remains of each URL of the sites in `drops`. `kept_order` and `kept_case` are hashes before sorting and
# lower-casing, so that a difference in them alone can be seen.
MAKE_KEYS = """
CREATE OR REPLACE TEMP TABLE keys AS
WITH shortened AS (
    SELECT u.uid, u.site, d.ordered, d.cases,
        CASE WHEN d.scheme THEN '' ELSE u.scheme END AS scheme,
        CASE WHEN u.label = '' OR list_contains(d.labels, u.label) THEN '' ELSE u.label END AS label, u.authority,
        len(u.segs) AS n, u.segs,
        u.segs[-1] IS NOT NULL AND len(d.segs) > 0 AND list_contains(d.segs, 'last:' || u.segs[-1]) AS no_last,
        len(d.slugs) > 0 AND len(u.segs) > 1 AND has_digit(u.segs[-2])
            AND list_contains(d.slugs, template_of(u.segs[:-2])) AS no_slug,
        len(d.heads) > 0 AND len(u.segs) > 1 AND has_digit(u.segs[-1]) AND NOT has_digit(u.segs[1])
            AND list_contains(d.heads, template_of(u.segs[2:])) AS no_head,
        CASE WHEN len(d.ends) > 0 AND list_contains(d.ends, template_of(u.segs[:-2]))
            THEN id_end_of(u.segs[-1]) ELSE '' END AS id_end,
        CASE WHEN len(d.starts) > 0 AND list_contains(d.starts, template_of(u.segs[:-2]))
            THEN id_start_of(u.segs[-1]) ELSE '' END AS id_start,
        CASE WHEN len(d.exts) > 0 AND u.segs[-1] IS NOT NULL AND list_contains(d.exts, lower(ext_of(u.segs[-1])))
            THEN ext_of(u.segs[-1]) ELSE '' END AS ext,
        d.segs AS dropped_segs, d.shapes AS dropped_shapes,
        u.slash, d.slash AS any_slash,
        CASE WHEN len(d.sems) = 0 OR len(u.sems) = 0 THEN u.sems
            ELSE list_filter(u.sems, lambda p: NOT list_contains(d.sems, name_of(p))) END AS sems,
        CASE WHEN u.query = '' OR (len(d.params) = 0 AND len(d.vals) = 0 AND len(d.folders) = 0) THEN u.params
            ELSE list_filter(u.params, lambda p: NOT (list_contains(d.params, name_of(p))
                OR list_contains(d.vals, p)
                OR (len(d.folders) > 0
                    AND list_contains(d.folders, u.folder || '|' || name_of(p))))) END AS params
    FROM {urls} u JOIN drops d USING (site)),
cleaned AS (
    SELECT *, CASE ext WHEN '' THEN '' ELSE '.' || ext END AS dotted, CASE WHEN n = 0 THEN segs
        WHEN len(dropped_segs) = 0 AND len(dropped_shapes) = 0 AND NOT no_slug AND NOT no_head
            AND id_end = '' AND id_start = '' AND ext = '' THEN segs
        ELSE list_filter(list_transform(segs, lambda s, i: CASE
            WHEN i = n AND (no_last OR no_slug) THEN NULL
            WHEN i = 1 AND no_head THEN NULL
            WHEN len(dropped_segs) > 0 AND list_contains(dropped_segs, place_of(i, n) || ':' || s) THEN NULL
            WHEN len(dropped_shapes) > 0 AND has_digit(s)
                AND list_contains(dropped_shapes, place_of(i, n) || ':' || shape_of(s)) THEN NULL
            -- what follows a dropped first segment is the first one then
            WHEN i < n AND len(list_filter(segs[:i], lambda t: NOT (list_contains(dropped_segs, 'first:' || t)
                OR list_contains(dropped_shapes, 'first:' || shape_of(t))))) = 0 THEN NULL
            WHEN i = n AND id_end <> '' THEN replace(s[len(id_end) + 1 :], dotted, '')
            WHEN i = n AND id_start <> '' THEN replace(replace(s, id_start, ''), dotted, '')
            WHEN i = n AND ext <> '' THEN s[: -(len(ext) + 2)]
            ELSE s END), lambda s: s IS NOT NULL) END AS kept
    FROM shortened)
SELECT uid, site,
    md5_number_lower(concat_ws(chr(1), scheme, label, authority, array_to_string(sems, ';'),
        array_to_string(CASE WHEN len(cases) = 0 THEN kept ELSE list_transform(kept, lambda s, i:
            CASE WHEN list_contains(cases, place_of(i, len(kept))) THEN lower(s) ELSE s END) END, '/'),
        -- `/a/index.html` is `/a/`, but `/a/print` is `/a`
        CASE WHEN any_slash OR len(kept) = 0 THEN '' WHEN no_last AND contains(segs[-1], '.') THEN '/'
            WHEN slash THEN '/' ELSE '' END,
        array_to_string(CASE WHEN ordered THEN list_sort(params) ELSE params END, '&'))) AS key,
    CASE WHEN ordered THEN md5_number_lower(array_to_string(params, '&')) ELSE 0 END AS kept_order,
    CASE WHEN len(cases) > 0 THEN md5_number_lower(array_to_string(kept, '/')) ELSE 0 END AS kept_case
FROM cleaned
"""

# moves: `/index.php?title=X` and `/wiki/X` have one content. A move is proven by pages of which both forms were seen.
MAKE_MOVES = """
CREATE OR REPLACE TEMP TABLE asked AS
SELECT s.site, s.cid, u.uid, u.path, u.folder, name_of(u.params[1]) AS name,
    u.params[1][strpos(u.params[1], '=') + 1 :] AS v, u.label, u.scheme
FROM seen s JOIN urls u USING (uid, site) WHERE len(u.params) = 1 AND strpos(u.params[1], '=') > 0;
CREATE OR REPLACE TEMP TABLE plain AS
SELECT s.site, s.cid, u.uid, u.segs[-1] AS v, '/' || array_to_string(u.segs[:-2], '/') AS start, u.label, u.scheme
FROM seen s JOIN urls u USING (uid, site) WHERE u.query = '' AND len(u.segs) > 1 AND NOT u.slash;
CREATE OR REPLACE TEMP TABLE ways AS
SELECT a.site, a.path, a.name, p.start FROM asked a JOIN plain p ON a.site = p.site AND a.cid = p.cid AND a.v = p.v
GROUP BY ALL HAVING count(DISTINCT a.cid) >= {least};
CREATE OR REPLACE TABLE moves AS
WITH pages AS (
    SELECT w.site, w.path, w.name, w.start, a.v, bool_or(a.cid = p.cid) AS agrees, min(a.cid) AS cid
    FROM ways w JOIN asked a ON a.site = w.site AND a.path = w.path AND a.name = w.name
    JOIN plain p ON p.site = a.site AND p.start = w.start AND p.v = a.v AND p.label = a.label AND p.scheme = a.scheme
    GROUP BY ALL)
SELECT site, path, name, start, count(DISTINCT cid) FILTER (agrees) AS support, count(*) FILTER (NOT agrees) AS against
FROM pages GROUP BY site, path, name, start
QUALIFY row_number() OVER (PARTITION BY site, path, name ORDER BY support DESC, start) = 1
"""

APPLY_MOVES = """
CREATE OR REPLACE TEMP TABLE moved AS
SELECT u.uid, m.start || '/' || v AS path, list_append(string_split(m.start[2:], '/'), v) AS segs,
    list_filter(u.params, lambda p: name_of(p) <> m.name) AS params
FROM (
    SELECT u.uid, u.site, u.path, u.params, m.name, list_filter(u.params, lambda p: name_of(p) = m.name) AS found,
        found[1][strpos(found[1], '=') + 1 :] AS v
    FROM urls u JOIN proven m ON m.site = u.site AND m.path = u.path WHERE u.query <> '') u
JOIN proven m ON m.site = u.site AND m.path = u.path
WHERE len(u.found) = 1 AND strpos(u.found[1], '=') > 0 AND regexp_full_match(v, '[^/+?#;.%][^/+?#;]*');
UPDATE urls SET path = m.path, segs = m.segs, slash = false, params = m.params,
    query = array_to_string(m.params, '&'), folder = '/' || split_part(m.path, '/', 2) || '/'
FROM moved m WHERE urls.uid = m.uid
"""

# Which kinds of parts a site needs: what no active feature is about is not unfolded.
BLANKED_COLUMNS = """
    u.uid, u.site, u.folder, u.has_repeats, u.slash, u.scheme, CASE WHEN d.has_labels THEN u.label ELSE '' END AS label,
    CASE WHEN d.has_path THEN u.segs ELSE [] END AS segs, CASE WHEN d.has_sems THEN u.sems ELSE [] END AS sems,
    CASE WHEN d.has_params THEN u.params ELSE [] END AS params, CASE WHEN d.has_params THEN u.query ELSE '' END AS query
"""
MAKE_NEEDS = """
CREATE OR REPLACE TEMP TABLE needs AS
SELECT site, bool_or(fid ~ '^(seg|shape|case|ext|slug|id-)') OR bool_or(fid = 'slash') AS has_path,
    bool_or(fid ~ '^(param|value|folder)') OR bool_or(fid = 'order') AS has_params,
    bool_or(fid LIKE 'sem:%') AS has_sems, bool_or(fid LIKE 'host:%') AS has_labels
FROM active GROUP BY site
"""
