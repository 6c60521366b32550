"""Rules that the learner found during a crawl: stored, checked with each page that is read, withdrawn (contract L7)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from canonry.crawler.crawl_rules import (
    CrawlRuleKind,
    StoredRule,
    load_active_rules,
    load_rules,
    load_rules_of_kind,
    make_rule_key,
    queue_pages_skipped_for,
    save_rules,
)
from canonry.crawler.learned_rules import (
    Confirmations,
    LearnedForms,
    LearnedState,
    LearningProgress,
    RuleAndKind,
    compare_forms,
    save_learned_keys,
)
from canonry.crawler.reasons import SkipReason

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy import Connection

    from canonry.core.policy import Policy
    from canonry.crawler.results import LeasedPage, PageResult


def make_forms(rules: Mapping[str, StoredRule], policy: Policy | None) -> LearnedForms | None:
    """Return the forms of URLs under the learned rules; None if there are none."""
    states = {key: rule.state for key, rule in rules.items() if isinstance(rule.state, LearnedState)}
    return LearnedForms(policy, states) if states and policy is not None else None


def check_learned_rules(connection: Connection, crawl_id: int, results: Sequence[PageResult], policy: Policy) -> None:
    """Withdraw the learned rules under which a page is the same as one with another text; count those that hold."""
    forms = make_forms(load_active_rules(connection, crawl_id), policy)
    if forms is None:
        return
    findings = compare_forms(connection, crawl_id, results, forms)
    _save_confirmed(connection, crawl_id, findings.confirmed)
    _withdraw(connection, crawl_id, findings.failed)


def load_confirmed(
    connection: Connection, crawl_id: int, pages: Sequence[LeasedPage], forms: LearnedForms
) -> frozenset[RuleAndKind]:
    """Return the rules that may leave out pages, with the kinds of these pages."""
    kinds = {forms.name_kind(page.url) for page in pages}
    names = {
        _name_confirmations(each): each for key in forms.rules for kind in kinds for each in [RuleAndKind(key, kind)]
    }
    states: dict[str, Confirmations] = load_rules(connection, crawl_id, CrawlRuleKind.CONFIRMED, names)
    return frozenset(names[name] for name, state in states.items() if state.is_enough)


def _save_confirmed(connection: Connection, crawl_id: int, confirmed: Counter[RuleAndKind]) -> None:
    """Add the numbers of pages that confirmed rules to those that are stored."""
    names = {_name_confirmations(each): count for each, count in confirmed.items()}
    states: dict[str, Confirmations] = load_rules(connection, crawl_id, CrawlRuleKind.CONFIRMED, names)
    stored = [
        StoredRule(
            make_rule_key(CrawlRuleKind.CONFIRMED, name),
            CrawlRuleKind.CONFIRMED,
            name,
            is_active=False,
            state=Confirmations(before.pages + count),
        )
        for name, count in names.items()
        if not (before := states.get(name, Confirmations())).is_enough
    ]
    save_rules(connection, crawl_id, stored)


def _name_confirmations(of: RuleAndKind) -> str:
    return f"{of.rule_key} {of.page_kind}"


def make_learned_key(name: str) -> str:
    """Return the key of a learned rule."""
    return make_rule_key(CrawlRuleKind.LEARNED, name)


def load_learned_rules(connection: Connection, crawl_id: int) -> dict[str, LearnedState]:
    """Return the learned rules of a crawl by key, those that failed as well."""
    rules = load_rules_of_kind(connection, crawl_id, CrawlRuleKind.LEARNED)
    return {rule.key: rule.state for rule in rules if isinstance(rule.state, LearnedState)}


def load_learning_progress(connection: Connection, crawl_id: int) -> LearningProgress:
    """Return when the rules of a crawl were learned last."""
    states = [rule.state for rule in load_rules_of_kind(connection, crawl_id, CrawlRuleKind.LEARNING)]
    return next((state for state in states if isinstance(state, LearningProgress)), LearningProgress())


def save_learning(
    connection: Connection,
    crawl_id: int,
    states: Mapping[str, LearnedState],
    texts: Mapping[str, str],
    *,
    keys: Mapping[int, str],
    taken: int,
) -> None:
    """Store the rules to use, and withdraw those that are used and no longer found.

    `keys` are the keys of the forms of pages that were read, `taken` is when the rules were learned.
    """
    before = load_learned_rules(connection, crawl_id)
    progress = StoredRule(
        make_rule_key(CrawlRuleKind.LEARNING, ""),
        CrawlRuleKind.LEARNING,
        "",
        is_active=False,
        state=LearningProgress(taken),
    )
    usable = {key: state for key, state in states.items() if key not in before or not before[key].is_withdrawn}
    stored = [
        StoredRule(key, CrawlRuleKind.LEARNED, texts[key], is_active=True, state=state) for key, state in usable.items()
    ]
    save_rules(connection, crawl_id, [progress, *stored])
    save_learned_keys(connection, keys)
    _withdraw(connection, crawl_id, set(before) - set(states))


def _withdraw(connection: Connection, crawl_id: int, keys: Collection[str]) -> None:
    """Stop using learned rules for good; pages that any learned rule left out are judged again."""
    active = load_active_rules(connection, crawl_id)
    failed = [
        rule._replace(is_active=False, state=replace(rule.state, is_withdrawn=True))
        for rule in active.values()
        if rule.key in keys and isinstance(rule.state, LearnedState)
    ]
    if failed:
        save_rules(connection, crawl_id, failed)
        queue_pages_skipped_for(connection, crawl_id, SkipReason.LEARNED_RULE)
