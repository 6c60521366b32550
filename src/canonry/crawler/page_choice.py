"""Decide which of the next pages of a crawl are read, and which are skipped by a rule."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

from canonry.crawler.crawl_rules import (
    CrawlRuleKind,
    delete_rules_of_kind,
    load_all_rules,
    queue_pages_skipped_for,
    save_rules,
)
from canonry.crawler.learned_rule_store import load_confirmed, make_forms
from canonry.crawler.learned_rules import LearnedSkips
from canonry.crawler.reasons import SkipReason
from canonry.crawler.results import Skip, Wait
from canonry.crawler.session_rules import SessionSkips
from canonry.crawler.trap_rules import find_trap_key
from canonry.crawler.traps import PatternState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.core.policy import Policy
    from canonry.crawler.crawl_rules import StoredRule
    from canonry.crawler.results import LeasedPage

_SKIP_PAGE = text(
    "UPDATE crawl_pages SET state = 'skipped', skip_reason = :reason, skipped_by = :rule_key, final_url = :target_url"
    " WHERE id = :page_id"
)


def choose_pages(
    connection: Connection,
    crawl_id: int,
    pages: Sequence[LeasedPage],
    rules: dict[str, StoredRule],
    *,
    count: int,
    learn_policy: Policy | None = None,
) -> list[LeasedPage]:
    """Return which of these pages are read, at most `count`; mark those as skipped that a rule covers.

    The others stay in the queue: another URL of the same page is read first. Learned rules are used with
    `learn_policy`, the policy of the crawl.
    """
    sessions = SessionSkips(connection, crawl_id, pages, rules)
    forms = make_forms(rules, learn_policy)
    learned = None
    if forms is not None:
        confirmed = load_confirmed(connection, crawl_id, pages, forms)
        learned = LearnedSkips(connection, crawl_id, pages, forms, confirmed)
    leased: list[LeasedPage] = []
    skipped: list[Skip] = []
    for page in pages:
        if len(leased) >= count:
            break
        trap = find_trap_key(page.url)
        decision: Skip | Wait | None
        if page.depth and trap is not None and trap in rules:
            decision = Skip(page.id, SkipReason.TRAP, trap)
        else:
            decision = sessions.decide(page)
            if decision is None and learned is not None:
                decision = learned.decide(page)
        if isinstance(decision, Skip):
            skipped.append(decision)
        elif decision is None:
            leased.append(page)
    if skipped:
        connection.execute(_SKIP_PAGE, [asdict(skip) for skip in skipped])
    sessions.save()
    rules |= sessions.rules
    if learned is not None:
        learned.save_keys(connection, leased)
    return leased


def change_rules(
    connection: Connection,
    crawl_id: int,
    *,
    trap_pages: int | None,
    sessions: bool,
    learn: bool,
    is_trap_change: bool,
) -> None:
    """Apply the options of a crawl that is resumed: pages that a rule skipped are queued if it no longer holds."""
    if not sessions:
        queue_pages_skipped_for(connection, crawl_id, SkipReason.SESSION_ID)
        delete_rules_of_kind(connection, crawl_id, CrawlRuleKind.SESSION)
    if not learn:
        queue_pages_skipped_for(connection, crawl_id, SkipReason.LEARNED_RULE)
        delete_rules_of_kind(connection, crawl_id, CrawlRuleKind.LEARNED)
        delete_rules_of_kind(connection, crawl_id, CrawlRuleKind.LEARNING)
        delete_rules_of_kind(connection, crawl_id, CrawlRuleKind.CONFIRMED)
    if not is_trap_change:
        return
    for rule in load_all_rules(connection, crawl_id):
        if isinstance(rule.state, PatternState):
            limit = None if trap_pages is None else max(trap_pages, rule.state.fresh)
            state = replace(rule.state, is_stopped=limit is not None and rule.state.stale >= limit)
            save_rules(connection, crawl_id, [rule._replace(state=state, is_active=state.is_stopped)])
    queue_pages_skipped_for(connection, crawl_id, SkipReason.TRAP)
