"""Remove features without which the same URLs would be grouped (contract L2).

Two features can explain the same groups: `/amp/` is a segment, and a text before an id. The more far-fetched one is
removed. This is tried on some groups of each feature, and only where features can replace each other.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from canonry.learner.feature_columns import list_pairs, make_keys
from canonry.learner.feature_tables import add_labels
from canonry.learner.find_candidates import MIN_CONTENTS
from canonry.learner.url_features import FOLDERS, PAGES, FeatureKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb

pa: Any = pyarrow  # pyarrow has no type stubs
pc: Any = pyarrow.compute
_SAMPLED_GROUPS = 10
_SAMPLED_URLS = 4  # of each group
_MAX_TRIALS = 60
_SCOPED = (*FOLDERS, *PAGES)
_PARAM_KINDS = frozenset({FeatureKind.VALUE, *_SCOPED})
# The most far-fetched kinds first.
_TRIAL_ORDER: tuple[tuple[FeatureKind, ...], ...] = (
    (FeatureKind.SLUG_HEAD,), (FeatureKind.ID_START,), (FeatureKind.ID_END,), (FeatureKind.SLUG,),
    (FeatureKind.SHAPE,), (FeatureKind.SEG,), (FeatureKind.EXT,), (FeatureKind.HOST,), (FeatureKind.VALUE,), _SCOPED,
    (FeatureKind.SEM,), (FeatureKind.CASE,), (FeatureKind.SLASH,),
)  # fmt: skip
_NEEDS_PROOF = (
    FeatureKind.SLUG, FeatureKind.SLUG_HEAD, FeatureKind.ID_END, FeatureKind.ID_START, FeatureKind.SHAPE,
    FeatureKind.SEG, FeatureKind.VALUE, *_SCOPED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Trial:
    site: int
    kind: int
    fid: int


class _Sample:
    """URLs of some groups, the features that are dropped on their sites, and how many groups there are."""

    def __init__(self, rows: Any, active: Iterable[_Trial]) -> None:
        self._rows = rows
        self.active: defaultdict[int, set[_Trial]] = defaultdict(set)
        for each in active:
            self.active[each.site].add(each)
        self._groups = _count_distinct(rows.column("site"), rows.column("key"))

    def remove_needless(self, tried: list[_Trial]) -> None:
        """Remove the features if their site has no more groups without them."""
        by_site: defaultdict[int, set[_Trial]] = defaultdict(set)
        for trial in tried:
            if trial in self.active[trial.site]:
                by_site[trial.site].add(trial)
        if not by_site:
            return
        rows = self._rows.filter(pc.is_in(self._rows.column("site"), value_set=pa.array(by_site, pa.uint32())))
        kept = [each for site, without in by_site.items() for each in self.active[site] - without]
        keys, *_ = make_keys(
            rows.column("url"), rows.column("site"), list_pairs((e.site for e in kept), (e.fid for e in kept))
        )
        aliases = [each.fid for each in kept if each.kind == FeatureKind.HOST]
        keys = add_labels(keys, rows.column("label"), aliases)
        groups = _count_distinct(rows.column("site"), keys)
        for site, without in by_site.items():
            if groups.get(site, 0) <= self._groups.get(site, 0):
                self.active[site] -= without


def remove_redundant(connection: duckdb.DuckDBPyConnection) -> bool:
    """Remove needless features from `active`; their sites are in the table `changed_sites`. False if there are none."""
    needs = ", ".join(str(int(kind)) for kind in _NEEDS_PROOF)
    connection.execute(f"""
        CREATE OR REPLACE TABLE changed_sites (site UINTEGER);
        CREATE OR REPLACE TABLE unproven AS
        SELECT a.site, a.kind, a.fid FROM active a LEFT JOIN proofs p USING (site, kind, fid)
        WHERE a.kind IN ({needs}) GROUP BY ALL HAVING count(DISTINCT p.cid) < {MIN_CONTENTS};
        DELETE FROM active USING unproven u
        WHERE active.site = u.site AND active.kind = u.kind AND active.fid = u.fid;
        INSERT INTO changed_sites SELECT DISTINCT site FROM unproven
    """)
    active = [_Trial(*row) for row in connection.execute("SELECT site, kind, fid FROM active").fetchall()]
    trials = _list_trials(active)
    if trials:
        _run_trials(connection, active, trials)
    row = connection.execute("SELECT count(*) FROM changed_sites").fetchone()
    return bool(row and row[0])


def _list_trials(active: list[_Trial]) -> dict[int, list[_Trial]]:
    """Return the features of each site that others may replace, the most far-fetched ones first."""
    order = {kind: i for i, kind in enumerate(chain.from_iterable(_TRIAL_ORDER))}
    by_part: defaultdict[tuple[int, bool], list[_Trial]] = defaultdict(list)
    for each in active:
        if each.kind in order:
            by_part[each.site, each.kind in _PARAM_KINDS].append(each)
    trials: defaultdict[int, list[_Trial]] = defaultdict(list)
    for (site, _), several in by_part.items():
        if len(several) > 1:
            trials[site] += several
    return {
        site: sorted(several, key=lambda each: (order[FeatureKind(each.kind)], each.fid))
        for site, several in trials.items()
    }


def _run_trials(connection: duckdb.DuckDBPyConnection, active: list[_Trial], trials: dict[int, list[_Trial]]) -> None:
    all_trials = [each for several in trials.values() for each in several]
    connection.register("made", _make_table(all_trials))
    result: Any = connection.sql(f"""
        WITH sampled AS (
            SELECT DISTINCT site, key FROM (
                SELECT site, key FROM proofs SEMI JOIN made USING (site, kind, fid)
                QUALIFY row_number() OVER (PARTITION BY site, kind, fid ORDER BY key) <= {_SAMPLED_GROUPS}))
        SELECT p.site, p.url, p.label, k.key FROM (
            SELECT site, key, uid, cid FROM keyed SEMI JOIN sampled USING (site, key)
            QUALIFY row_number() OVER (PARTITION BY site, key ORDER BY uid) <= {_SAMPLED_URLS}) k
        JOIN pages p ON p.uid = k.uid AND p.cid = k.cid
    """)
    sample = _Sample(result.to_arrow_table(), active)
    connection.unregister("made")
    # Features of one kind often work together (`/View/`, `/view/`), so whole kinds are tried first.
    for kinds in (*_TRIAL_ORDER, *_TRIAL_ORDER):
        sample.remove_needless([each for each in all_trials if each.kind in kinds])
    for place in range(min(max(map(len, trials.values())), _MAX_TRIALS)):
        sample.remove_needless([several[place] for several in trials.values() if place < len(several)])
    removed = [each for each in active if each not in sample.active[each.site]]
    if not removed:
        return
    connection.register("made", _make_table(removed))
    connection.execute("""
        DELETE FROM active USING made m WHERE active.site = m.site AND active.kind = m.kind AND active.fid = m.fid;
        INSERT INTO changed_sites SELECT DISTINCT site FROM made
    """)
    connection.unregister("made")


def _make_table(trials: list[_Trial]) -> Any:
    rows = zip(*((each.site, each.kind, each.fid) for each in trials), strict=True)
    types = (pa.uint32(), pa.uint8(), pa.uint64())
    return pa.table([pa.array(c, t) for c, t in zip(rows, types, strict=True)], names=["site", "kind", "fid"])


def _count_distinct(sites: Any, keys: Any) -> dict[int, int]:
    counts = pa.table({"site": sites, "key": keys}).group_by("site").aggregate([("key", "count_distinct")])
    return dict(zip(counts.column("site").to_pylist(), counts.column("key_count_distinct").to_pylist(), strict=True))
