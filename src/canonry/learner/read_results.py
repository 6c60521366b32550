"""Read what was found in a part as rules and refused rules (contract L2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.learner.confidence import compute_confidence
from canonry.learner.export_rules import make_entries
from canonry.learner.url_features import FeatureKind, find_name
from canonry.learner.values import LearnedRule, Pair, RefusalReason, RefusedRule, describe, get_kind

if TYPE_CHECKING:
    import duckdb

_Key = tuple[int, int, int]  # site, kind and number of a feature


class _SiteHosts:
    """The hosts of a site. Messages name the site by `main`; aliases are rewritten to `target`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hosts: list[str] = []  # with most fetches first
        self.labels: dict[int, str] = {}
        self.aliases: list[str] = []
        self.has_ports = False

    @property
    def main(self) -> str:
        return self.name if self.name in self.hosts else self.hosts[0]

    @property
    def target(self) -> str:
        return self.main if self.main in self.aliases or not self.aliases else self.aliases[0]


def read_results(
    connection: duckdb.DuckDBPyConnection, min_confidence: float
) -> tuple[list[LearnedRule], list[RefusedRule]]:
    """Return the rules and the refused rules of a part."""
    sites, names = _read_sites(connection), _read_names(connection)
    pairs: dict[_Key, list[Pair]] = {}
    query = "SELECT site, kind, fid, one, other FROM pairs ORDER BY ALL"
    for site, kind, fid, one, other in connection.execute(query).fetchall():
        pairs.setdefault((site, kind, fid), []).append(Pair(one, other))
    hosts: dict[_Key, list[str]] = {}
    query = "SELECT site, kind, fid, host FROM rule_hosts ORDER BY site, kind, fid, n DESC, host"
    for site, kind, fid, host in connection.execute(query).fetchall():
        hosts.setdefault((site, kind, fid), []).append(host)
    rules: list[LearnedRule] = []
    refused: list[RefusedRule] = []
    query = "SELECT site, kind, fid, support, against FROM found"
    for *key, support, against in connection.execute(query).fetchall():
        site, own = sites[key[0]], (key[0], key[1], key[2])
        own_hosts = tuple(hosts.get(own) or site.hosts)
        if own[1] == FeatureKind.HOST:
            own_hosts = (site.labels[own[2]],)
            if own_hosts[0] == site.target:
                continue
        name = f"host:{own_hosts[0]}" if own[1] == FeatureKind.HOST else names[own]
        confidence = compute_confidence(support, against)
        shown = tuple(pairs.get(own, ()))
        if confidence >= min_confidence:
            rules.append(_make_rule(site, name, own_hosts, support, against, shown))
        else:
            refused.append(_refuse(site, name, RefusalReason.TOO_FEW, support, against))
    _add_moves(connection, sites, min_confidence, rules, refused)
    query = """
        SELECT r.site, r.kind, r.fid, r.against, r.support, a.url, b.url FROM refused r
        LEFT JOIN texts a ON a.uid = r.one LEFT JOIN texts b ON b.uid = r.other
    """
    for site, kind, fid, against, support, one, other in connection.execute(query).fetchall():
        name = f"host:{sites[site].labels[fid]}" if kind == FeatureKind.HOST else names[site, kind, fid]
        reason = RefusalReason.CONTENTS_DIFFER if against else RefusalReason.UNDECIDED
        counters = (Pair(one, other),) if one and other else ()
        refused.append(_refuse(sites[site], name, reason, support, against, counters))
    return rules, refused


def _add_moves(
    connection: duckdb.DuckDBPyConnection,
    sites: dict[int, _SiteHosts],
    min_confidence: float,
    rules: list[LearnedRule],
    refused: list[RefusedRule],
) -> None:
    query = """
        SELECT m.site, m.path, m.name, m.start, m.support, m.against, p.site IS NOT NULL,
            list_zip(m.asking, m.moved), list_zip(m.counter_asking, m.counter_moved)
        FROM moves m LEFT JOIN proven p USING (site, path, name)
    """
    for number, path, name, start, support, against, is_proven, pairs, counters in connection.execute(query).fetchall():
        site, text = sites[number], f"path-query:{path}|{name}|{start}/"
        if is_proven and compute_confidence(support, against) >= min_confidence:
            examples = tuple(Pair(*pair) for pair in pairs)
            rules.append(_make_rule(site, text, tuple(site.hosts), support, against, examples))
        else:
            reason = RefusalReason.CONTENTS_DIFFER if against else RefusalReason.TOO_FEW
            refused.append(_refuse(site, text, reason, support, against, tuple(Pair(*pair) for pair in counters or ())))


def _make_rule(
    site: _SiteHosts, name: str, hosts: tuple[str, ...], support: int, against: int, examples: tuple[Pair, ...]
) -> LearnedRule:
    host = site.target if name.startswith("host:") or site.target in hosts else hosts[0]
    entries = make_entries(name, hosts, site.target, has_ports=site.has_ports)
    confidence = compute_confidence(support, against)
    text = describe(name, host)
    return LearnedRule(host, get_kind(name), name, text, support, against, confidence, examples, hosts, entries)


def _refuse(
    site: _SiteHosts, name: str, reason: RefusalReason, support: int, against: int, counters: tuple[Pair, ...] = ()
) -> RefusedRule:
    confidence = compute_confidence(support, against)
    text = describe(name, site.main)
    return RefusedRule(site.main, get_kind(name), name, text, reason, support, against, confidence, counters)


def _read_sites(connection: duckdb.DuckDBPyConnection) -> dict[int, _SiteHosts]:
    sites: dict[int, _SiteHosts] = {}
    query = f"""
        SELECT h.site, h.name, h.host, h.label, h.label = 0 OR a.fid IS NOT NULL
        FROM hosts h SEMI JOIN live_sites USING (site)
        LEFT JOIN active a ON a.site = h.site AND a.fid = h.label AND a.kind = {FeatureKind.HOST}
        ORDER BY h.site, h.fetches DESC, h.host
    """
    for number, name, host, label, is_alias in connection.execute(query).fetchall():
        site = sites.setdefault(number, _SiteHosts(name))
        site.hosts.append(host)
        site.labels[label] = host
        if is_alias and label:
            site.aliases.append(host)
        elif is_alias:
            site.aliases.insert(0, host)
    query = "SELECT DISTINCT site FROM pages WHERE regexp_matches(url, '^https?://([^/?]*@|[^/?]*:[0-9]+[/?])')"
    for (number,) in connection.execute(query).fetchall():
        sites[number].has_ports = True
    return sites


def _read_names(connection: duckdb.DuckDBPyConnection) -> dict[_Key, str]:
    """Return the names of features, of which the tables only have 64 bits, from a URL of each."""
    query = f"""
        SELECT f.site, f.kind, f.fid, any_value(p.url) FROM (
            SELECT site, kind, fid, sample FROM found UNION SELECT site, kind, fid, sample FROM refused) f
        JOIN pages p ON p.uid = f.sample WHERE f.kind <> {FeatureKind.HOST} GROUP BY ALL
    """
    return {
        (site, kind, fid): find_name(url.encode(), kind, fid).decode()
        for site, kind, fid, url in connection.execute(query).fetchall()
    }
