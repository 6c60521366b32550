"""Learned rules beside two baselines, on generated sites whose truth is known: `python -m benchmarks.learn`.

Baselines: counting URL pairs, as in DustBuster and later papers (a parameter does not matter if most pairs of URLs
that differ only in it have one content), and the known-parameter list (`bookmark@2`).

- precision: rules that, applied alone, merge no two different pages; recall: rules of the truth that were found
- false merges: held-out URLs that get the normal form of another page
- reduction: URLs that disappear, of those that could
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.learn_adversarial_sites import ADVERSARIAL_KINDS
from benchmarks.learn_late_sites import LATE_KINDS
from benchmarks.learn_sites import KINDS, Row, Site, make_sites
from benchmarks.learn_unseen_sites import UNSEEN_KINDS
from canonry import Policy, normalize
from canonry.learner import learn
from canonry.learner.export_rules import Entry, make_overrides

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NEUTRAL = Policy("neutral", 1, fragment="drop")
HELD_OUT = 30  # per cent of the URLs
_MIN_PAIRS, _MIN_AGREEMENT = 5, 0.9


@dataclass(slots=True)
class Score:
    """Counts for one way of making rules."""

    rules: int = 0
    wrong: list[str] = field(default_factory=list)
    truth: int = 0
    missed: list[str] = field(default_factory=list)
    held_out: int = 0
    false_merges: int = 0
    strict_merges: int = 0
    possible: int = 0
    merged: int = 0
    cpu_seconds: float = 0.0

    def summarize(self) -> dict[str, float]:
        """Return the figures of the report."""
        return {
            "rules": self.rules,
            "precision": 1 - len(self.wrong) / max(self.rules, 1),
            "recall": 1 - len(self.missed) / max(self.truth, 1),
            "false_merges": self.false_merges / max(self.held_out, 1),
            "false_merges_where_none_is_allowed": self.strict_merges,
            "reduction": self.merged / max(self.possible, 1),
            "cpu_seconds": round(self.cpu_seconds, 2),
        }


def is_held_out(url: str) -> bool:
    """Return whether a URL is kept from the learner."""
    return int(hashlib.sha256(url.encode()).hexdigest()[:6], 16) % 100 < HELD_OUT


def name_rule(name: str) -> str:
    """Return the name of a learned rule as the truth of a site writes it."""
    if name.startswith("path-query:"):
        return name.rpartition("|")[0]
    return name.partition(".")[0] if name.startswith("host:") else name


def score_policy(score: Score, site: Site, policy: Policy) -> None:
    """Add what a policy does to the URLs of a site."""
    rows = {row.url: row for row in site.rows}
    groups: dict[str, set[str]] = defaultdict(set)
    for url, row in rows.items():
        groups[normalize(url, policy)].add(row.identity)
    trained = {normalize(url, policy) for url in rows if not is_held_out(url)}
    for url in filter(is_held_out, rows):
        score.held_out += 1
        is_false = len(groups[normalize(url, policy)]) > 1
        score.false_merges += is_false
        score.strict_merges += is_false and site.must_not_merge
    del trained
    score.possible += len(rows) - len({row.identity for row in rows.values()})
    score.merged += len(rows) - sum(map(len, groups.values()))


def score_rules(
    score: Score, sites: list[Site], rules: Iterable[tuple[str, str, tuple[Entry, ...]]], base: Policy = NEUTRAL
) -> None:
    """Add the rules (host, name, entries of an overrides file) of all sites."""
    by_site: dict[str, list[tuple[str, tuple[Entry, ...]]]] = defaultdict(list)
    for host, name, entries in rules:
        owner = next(site.host for site in sites if host == site.host or host.endswith(f".{site.host}"))
        by_site[owner].append((name, entries))
    for site in sites:
        found = by_site[site.host]
        names = {name_rule(name) for name, _ in found}
        score.truth += len(site.truth)
        score.missed += [f"{site.kind}: {sorted(rule)}" for rule in site.truth if not rule & names]
        for name, entries in found:
            score.rules += 1
            if has_false_merge(site, NEUTRAL.with_overrides(make_overrides([entries]))):
                score.wrong.append(f"{site.kind}: {name}")
        overrides = make_overrides(entries for _, entries in found)
        score_policy(score, site, base.with_overrides(overrides) if found else base)


def has_false_merge(site: Site, policy: Policy) -> bool:
    """Return whether a policy merges two different pages of the site."""
    seen: dict[str, str] = {}
    return any(seen.setdefault(normalize(row.url, policy), row.identity) != row.identity for row in site.rows)


def count_pairs(sites: list[Site]) -> Iterable[tuple[str, str, tuple[Entry, ...]]]:
    """Yield the parameters for which most pairs of URLs that differ only in them have one content."""
    for site in sites:
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        without: dict[tuple[str, str], set[str]] = defaultdict(set)
        for row in site.rows:
            if is_held_out(row.url):
                continue
            path, _, query = row.url.partition("?")
            params = query.split("&") if query else []
            without[row.url, ""].add(row.content_hash)
            for param in params:
                rest = "&".join(each for each in params if each != param)
                without[f"{path}?{rest}" if rest else path, param.partition("=")[0]].add(row.content_hash)
        for (rest, name), contents in without.items():
            if name:
                contents = contents | without.get((rest, ""), set())  # noqa: PLW2901
                counts[name][len(contents) > 1] += 1
        for name, (same, different) in counts.items():
            if same >= _MIN_PAIRS and same / (same + different) >= _MIN_AGREEMENT:
                yield site.host, f"param:{name}", ((site.host, "drop_query_params", name),)


def learn_sites(sites: list[Site], seed: int) -> Iterable[tuple[str, str, tuple[Entry, ...]]]:
    """Yield the rules that canonry learns from the URLs that are not held out."""
    rows: list[Row] = [row for site in sites for row in site.rows if not is_held_out(row.url)]
    random.Random(seed).shuffle(rows)
    for rule in learn(rows).rules:
        yield rule.host, rule.name, rule.overrides


def measure(seeds: Iterable[int], kinds: list[Callable[[str, random.Random], Site]], hosts: int) -> dict[str, Score]:
    """Return the scores of the learner and of the baselines."""
    scores = {"canonry learn": Score(), "URL pairs": Score(), "known parameters": Score()}
    for seed in seeds:
        sites = make_sites(seed, kinds, hosts)
        started = time.process_time()
        rules = list(learn_sites(sites, seed))
        scores["canonry learn"].cpu_seconds += time.process_time() - started
        score_rules(scores["canonry learn"], sites, rules)
        started = time.process_time()
        rules = list(count_pairs(sites))
        scores["URL pairs"].cpu_seconds += time.process_time() - started
        score_rules(scores["URL pairs"], sites, rules)
        known = Policy("known", 1, fragment="drop", strip_params=_list_known_params())
        score_rules(scores["known parameters"], sites, [], base=known)
    return scores


def _list_known_params() -> tuple[str, ...]:
    from canonry import policy

    return policy("bookmark@2").strip_params


def main() -> None:
    """Print the scores, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--kinds", choices=("known", "unseen", "adversarial", "late", "all"), default="all")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    sets = {"known": KINDS, "unseen": UNSEEN_KINDS, "adversarial": ADVERSARIAL_KINDS, "late": LATE_KINDS}
    kinds = [kind for name, each in sets.items() for kind in each if chosen.kinds in {name, "all"}]
    scores = measure(range(chosen.first_seed, chosen.first_seed + chosen.seeds), kinds, chosen.hosts)
    for name, score in scores.items():
        print(f"{name:18}", {key: round(value, 5) for key, value in score.summarize().items()})
    print("wrong:", *scores["canonry learn"].wrong, sep="\n  ")
    print("missed:", *scores["canonry learn"].missed, sep="\n  ")
    if chosen.json:
        chosen.json.write_text(json.dumps({name: asdict(score) for name, score in scores.items()}, indent=1))


if __name__ == "__main__":
    main()
