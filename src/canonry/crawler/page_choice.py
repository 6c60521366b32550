"""Decide which of the next pages of a crawl are read, and which are skipped by a rule."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

from canonry.crawler.crawl_rules import (
    CrawlRuleKind,
    delete_rules_of_kind,
    load_all_rules,
    queue_pages_skipped_for,
    save_rules,
)
from canonry.crawler.learned_rule_store import make_forms
from canonry.crawler.learned_rules import LearnedFolds
from canonry.crawler.reasons import SkipReason
from canonry.crawler.session_rules import SessionFolds, Skip
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


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the next pages are leased and which are skipped.

    `seen` has the pages that were judged and stay queued: leased ones, and those that wait for another spelling.
    """

    leased: tuple[LeasedPage, ...]
    skipped: tuple[Skip, ...]
    seen: tuple[int, ...]


def choose_pages(
    connection: Connection,
    crawl_id: int,
    pages: Sequence[LeasedPage],
    rules: dict[str, StoredRule],
    *,
    count: int,
    learn_policy: Policy | None = None,
) -> Choice:
    """Decide which of these pages are read, at most `count`, and mark those as skipped that a rule covers.

    Learned rules are used with `learn_policy`, the policy of the crawl.
    """
    folds = SessionFolds(connection, crawl_id, pages, rules)
    forms = make_forms(rules, learn_policy)
    learned_folds = None if forms is None else LearnedFolds(connection, crawl_id, pages, forms)
    leased: list[LeasedPage] = []
    skipped: list[Skip] = []
    seen: list[int] = []
    for page in pages:
        if len(leased) >= count:
            break
        trap = find_trap_key(page.url)
        if page.depth and trap is not None and trap in rules:
            skipped.append(Skip(page.id, SkipReason.TRAP, trap))
            continue
        fold = folds.find(page)
        if isinstance(fold, Skip):
            skipped.append(fold)
            continue
        learned_fold = None if fold is not None or learned_folds is None else learned_folds.find(page)
        if learned_fold is not None and not learned_fold.is_waiting:
            reason = SkipReason.LEARNED_RULE
            skipped.append(Skip(page.id, reason, learned_fold.rule_key, learned_fold.target_url))
            continue
        seen.append(page.id)
        if fold is None and learned_fold is None:
            leased.append(page)
    if skipped:
        connection.execute(_SKIP_PAGE, [asdict(skip) for skip in skipped])
    folds.save()
    rules |= folds.rules
    if learned_folds is not None:
        learned_folds.save_keys(connection, leased)
    return Choice(tuple(leased), tuple(skipped), tuple(seen))


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
    if not is_trap_change:
        return
    for rule in load_all_rules(connection, crawl_id):
        if isinstance(rule.state, PatternState):
            limit = None if trap_pages is None else max(trap_pages, rule.state.fresh)
            state = replace(rule.state, is_stopped=limit is not None and rule.state.stale >= limit)
            save_rules(connection, crawl_id, [rule._replace(state=state, is_active=state.is_stopped)])
    queue_pages_skipped_for(connection, crawl_id, SkipReason.TRAP)
