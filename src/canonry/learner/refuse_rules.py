"""Refuse learned rules that people contradict, and rules that an overrides file cannot express (contract L1, L4)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from canonry.core.native import normalize
from canonry.core.policy import Policy
from canonry.core.url import parse
from canonry.errors import InvalidUrl, PolicyError
from canonry.learner.export_rules import make_overrides
from canonry.learner.values import Learned, LearnedRule, Pair, RefusalReason, RefusedRule

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN = Policy("plain", 1, normalize_escapes=True, fragment="drop")


def refuse_rule(rule: LearnedRule, reason: RefusalReason, counter_examples: tuple[Pair, ...] = ()) -> RefusedRule:
    """Return a rule as a refused one."""
    return RefusedRule(
        rule.host,
        rule.kind,
        rule.name,
        rule.text,
        reason,
        rule.support,
        rule.against,
        rule.confidence,
        counter_examples,
    )


def refuse_inexpressible(learned: Learned) -> Learned:
    """Return what was learned without rules that an overrides file refuses, alone or beside more confident ones."""
    by_host: defaultdict[str, list[LearnedRule]] = defaultdict(list)
    for rule in learned.rules:
        by_host[rule.host].append(rule)
    kept = list(learned.rules)
    refused: list[RefusedRule] = []
    for rules in _find_inexpressible(list(by_host.values())):
        chosen: list[LearnedRule] = []
        for rule in sorted(rules, key=lambda rule: (-rule.confidence, rule.name)):
            if _is_expressible([*chosen, rule]):
                chosen.append(rule)
            else:
                refused.append(refuse_rule(rule, RefusalReason.NOT_EXPRESSIBLE))
                kept.remove(rule)
    return _replace_rules(learned, kept, refused)


def _find_inexpressible(hosts: list[list[LearnedRule]]) -> list[list[LearnedRule]]:
    """Return the hosts whose rules an overrides file refuses; many hosts are tried at once, then halves of them."""
    if not hosts or _is_expressible([rule for rules in hosts for rule in rules]):
        return []
    if len(hosts) == 1:
        return hosts
    middle = len(hosts) // 2
    return _find_inexpressible(hosts[:middle]) + _find_inexpressible(hosts[middle:])


def _is_expressible(rules: list[LearnedRule]) -> bool:
    try:
        _PLAIN.with_overrides(make_overrides((rule.overrides for rule in rules), indent=None))
    except PolicyError:
        return False
    return True


def apply_vetoes(learned: Learned, vetoes: Iterable[Pair]) -> Learned:
    """Return what was learned without the rules that merge two URLs which people marked as different pages."""
    by_host: defaultdict[str, list[LearnedRule]] = defaultdict(list)
    for rule in learned.rules:
        for host in {host for host, _, _ in rule.overrides}:
            by_host[host].append(rule)
    vetoed: dict[tuple[str, str], list[Pair]] = {}
    for pair in vetoes:
        try:
            hosts = {parse(url).host for url in (pair.one, pair.other)}
        except InvalidUrl:
            continue
        rules = list({(rule.host, rule.name): rule for host in sorted(hosts) for rule in by_host[host]}.values())
        for rule in _find_vetoed(pair, rules):
            vetoed.setdefault((rule.host, rule.name), []).append(pair)
    kept = [rule for rule in learned.rules if (rule.host, rule.name) not in vetoed]
    refused = [
        refuse_rule(rule, RefusalReason.VETOED, tuple(vetoed[rule.host, rule.name]))
        for rule in learned.rules
        if (rule.host, rule.name) in vetoed
    ]
    return _replace_rules(learned, kept, refused)


def _find_vetoed(pair: Pair, rules: list[LearnedRule]) -> list[LearnedRule]:
    """Return the rules that merge a pair: those that do so alone, else those that the others need for it."""
    if normalize(pair.one, _PLAIN) == normalize(pair.other, _PLAIN) or not _merges(pair, rules):
        return []
    alone = [rule for rule in rules if _merges(pair, [rule])]
    return alone or [rule for rule in rules if not _merges(pair, [each for each in rules if each is not rule])]


def _merges(pair: Pair, rules: list[LearnedRule]) -> bool:
    if not rules:
        return False
    policy = _PLAIN.with_overrides(make_overrides((rule.overrides for rule in rules), indent=None))
    return normalize(pair.one, policy) == normalize(pair.other, policy)


def _replace_rules(learned: Learned, kept: list[LearnedRule], refused: list[RefusedRule]) -> Learned:
    if not refused:
        return learned
    return replace(
        learned,
        rules=tuple(sorted(kept, key=lambda rule: (rule.host, rule.name))),
        refused=tuple(
            sorted([*learned.refused, *refused], key=lambda rule: (rule.host, rule.name, rule.reason, rule.support))
        ),
    )
