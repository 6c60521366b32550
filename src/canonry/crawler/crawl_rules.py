"""The rules of a crawl in the database: about session identifiers, traps, and what the learner found (contract C8, L7).

Pages are judged when they are leased (page_choice.py): a page that a rule covers is skipped, with the rule. Results of
pages that were read change the rules (session_rules.py, trap_rules.py, learned_rule_store.py). A rule that is withdrawn
returns the pages that it skipped to the queue.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, bindparam, text

from canonry.crawler.learned_rules import Confirmations, LearnedState, LearningProgress, read_learned_state
from canonry.crawler.session_ids import SessionRule
from canonry.crawler.traps import PatternState

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from canonry.crawler.reasons import SkipReason

_SELECT_ACTIVE = text(
    "SELECT key, kind, pattern, is_active, state FROM crawl_rules WHERE crawl_id = :crawl_id AND is_active = 1"
)
_SELECT_ALL = text("SELECT key, kind, pattern, is_active, state FROM crawl_rules WHERE crawl_id = :crawl_id")
_SELECT_KIND = text(
    "SELECT key, kind, pattern, is_active, state FROM crawl_rules WHERE crawl_id = :crawl_id AND kind = :kind"
)
_SELECT_BY_KEYS = text(
    "SELECT key, kind, pattern, is_active, state FROM crawl_rules WHERE crawl_id = :crawl_id AND key IN :keys"
).bindparams(bindparam("keys", expanding=True))
_SAVE = text(
    "INSERT INTO crawl_rules (crawl_id, key, kind, pattern, is_active, state)"
    " VALUES (:crawl_id, :key, :kind, :pattern, :is_active, :state)"
    " ON CONFLICT (crawl_id, key) DO UPDATE SET is_active = excluded.is_active, state = excluded.state"
)
_DELETE_KIND = text("DELETE FROM crawl_rules WHERE crawl_id = :crawl_id AND kind = :kind")
_QUEUE_SKIPPED = text(
    "UPDATE crawl_pages SET state = 'queued', skip_reason = '', skipped_by = '', final_url = '', begun_at = NULL,"
    " attempts = 0, retry_at = NULL, is_last_retry = 0"
    " WHERE crawl_id = :crawl_id AND state = 'skipped' AND skipped_by IN :keys"
).bindparams(bindparam("keys", expanding=True))
_QUEUE_SKIPPED_FOR = text(
    "UPDATE crawl_pages SET state = 'queued', skip_reason = '', skipped_by = '', final_url = '', begun_at = NULL,"
    " attempts = 0, retry_at = NULL, is_last_retry = 0"
    " WHERE crawl_id = :crawl_id AND state = 'skipped' AND skip_reason = :reason"
)


class CrawlRuleKind(StrEnum):
    """The subject of a rule."""

    SESSION = "session"
    TRAP = "trap"
    LEARNED = "learned"
    LEARNING = "learning"  # no rule: the progress of learning
    CONFIRMED = "confirmed"  # no rule: how many pages of a kind confirmed a learned rule


class StoredRule(NamedTuple):
    """A rule of a crawl: the pattern of URLs that it covers, and whether it skips pages."""

    key: str
    kind: CrawlRuleKind
    pattern: str
    is_active: bool
    state: SessionRule | PatternState | LearnedState | LearningProgress | Confirmations


def make_rule_key(kind: CrawlRuleKind, pattern: str) -> str:
    """Return the key of a rule: a digest, because patterns are as long as URLs."""
    return blake2b(f"{kind} {pattern}".encode(errors="replace"), digest_size=12).hexdigest()


def load_active_rules(connection: Connection, crawl_id: int) -> dict[str, StoredRule]:
    """Return the rules that skip pages, by key."""
    rows = connection.execute(_SELECT_ACTIVE, {"crawl_id": crawl_id})
    return {row.key: _read_rule(*row) for row in rows}


def load_all_rules(connection: Connection, crawl_id: int) -> list[StoredRule]:
    """Return the rules of a crawl, also those that skip nothing."""
    return [_read_rule(*row) for row in connection.execute(_SELECT_ALL, {"crawl_id": crawl_id})]


def load_rules_of_kind(connection: Connection, crawl_id: int, kind: CrawlRuleKind) -> list[StoredRule]:
    """Return the rules of one kind, also those that skip nothing."""
    return [_read_rule(*row) for row in connection.execute(_SELECT_KIND, {"crawl_id": crawl_id, "kind": kind})]


def load_rules(connection: Connection, crawl_id: int, kind: CrawlRuleKind, patterns: Collection[str]) -> dict[str, Any]:
    """Return the states of rules by pattern, as far as they are known."""
    if not patterns:
        return {}
    keys = [make_rule_key(kind, pattern) for pattern in patterns]
    rows = connection.execute(_SELECT_BY_KEYS, {"crawl_id": crawl_id, "keys": keys})
    return {row.pattern: _read_rule(*row).state for row in rows}


def save_rules(connection: Connection, crawl_id: int, rules: Sequence[StoredRule]) -> None:
    """Store rules, new ones and changed ones."""
    if rules:
        rows = [
            {
                "crawl_id": crawl_id,
                "key": rule.key,
                "kind": rule.kind,
                "pattern": rule.pattern,
                "is_active": int(rule.is_active),
                "state": json.dumps(asdict(rule.state), separators=(",", ":")),
            }
            for rule in rules
        ]
        connection.execute(_SAVE, rows)


def delete_rules_of_kind(connection: Connection, crawl_id: int, kind: CrawlRuleKind) -> None:
    """Delete the rules of one kind."""
    connection.execute(_DELETE_KIND, {"crawl_id": crawl_id, "kind": kind})


def queue_pages_skipped_by(connection: Connection, crawl_id: int, keys: Collection[str]) -> None:
    """Return the pages that these rules skipped to the queue."""
    if keys:
        connection.execute(_QUEUE_SKIPPED, {"crawl_id": crawl_id, "keys": list(keys)})


def queue_pages_skipped_for(connection: Connection, crawl_id: int, reason: SkipReason) -> None:
    """Return the pages that were skipped for a reason to the queue."""
    connection.execute(_QUEUE_SKIPPED_FOR, {"crawl_id": crawl_id, "reason": reason})


def _read_rule(key: str, kind: str, pattern: str, is_active: int, state: str) -> StoredRule:
    values: dict[str, Any] = json.loads(state)
    return StoredRule(key, CrawlRuleKind(kind), pattern, bool(is_active), _read_state(CrawlRuleKind(kind), values))


def _read_state(
    kind: CrawlRuleKind, values: dict[str, Any]
) -> SessionRule | PatternState | LearnedState | LearningProgress | Confirmations:
    match kind:
        case CrawlRuleKind.SESSION:
            values["groups"] = tuple(values["groups"])
            return SessionRule(**values)
        case CrawlRuleKind.TRAP:
            return PatternState(**values)
        case CrawlRuleKind.LEARNED:
            return read_learned_state(values)
        case CrawlRuleKind.LEARNING:
            return LearningProgress(**values)
        case CrawlRuleKind.CONFIRMED:
            return Confirmations(**values)
