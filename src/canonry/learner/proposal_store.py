"""Learned rules in the database, for review (contract L5)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, insert, select, update

from canonry.errors import LearnedRuleConflict, LearnedRuleNotFound
from canonry.learner.values import Pair, RuleKind
from canonry.store.schema import learned_rules, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from canonry.learner.export_rules import Entry
    from canonry.learner.values import LearnedRule
    from canonry.store.database import Database

_MAX_LISTED = 500


class ProposalState(StrEnum):
    """A person's decision about a rule."""

    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A learned rule in the store; `rekey_id` and `policy` are those that accepting it made."""

    id: int
    host: str
    kind: RuleKind
    name: str
    text: str
    support: int
    against: int
    confidence: float
    examples: tuple[Pair, ...]
    counter_examples: tuple[Pair, ...]
    state: ProposalState
    rekey_id: int | None
    policy: str
    created_at: str
    decided_at: str | None


class ProposalStore:
    """The learned rules of a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def propose(self, rules: Iterable[LearnedRule], now: datetime) -> int:
        """Store rules that are not known yet, and the new figures of those not decided; return how many are new."""
        return await self.database.write(partial(_propose, rules=list(rules), now=stamp(now)))

    async def list_all(self) -> list[Proposal]:
        """Return the rules to review first, then the decided ones."""
        return await self.database.read(_list_all)

    async def get(self, proposal_id: int) -> Proposal:
        """Return a rule; LearnedRuleNotFound if there is none."""
        return await self.database.read(partial(_get, proposal_id=proposal_id))

    async def get_entries(self, proposal_id: int) -> tuple[Entry, ...]:
        """Return what a rule adds to an overrides file."""
        return await self.database.read(partial(_get_entries, proposal_id=proposal_id))

    async def decide(
        self, proposal_id: int, state: ProposalState, now: datetime, *, rekey_id: int | None = None, policy: str = ""
    ) -> Proposal:
        """Store a decision; LearnedRuleConflict if an accepted rule is to be refused."""
        values = {"state": state, "rekey_id": rekey_id, "policy": policy, "decided_at": stamp(now)}
        return await self.database.write(partial(_decide, proposal_id=proposal_id, values=values))


def _propose(connection: Connection, rules: list[LearnedRule], now: str) -> int:
    known = {
        (row.host, row.name): row for row in connection.execute(
            select(learned_rules.c.id, learned_rules.c.host, learned_rules.c.name, learned_rules.c.state))
    }  # fmt: skip
    added = 0
    for rule in rules:
        values: dict[str, Any] = {
            "kind": rule.kind,
            "text": rule.text,
            "support": rule.support,
            "against": rule.against,
            "confidence": rule.confidence,
            "examples": json.dumps([asdict(pair) for pair in rule.examples]),
            "overrides": json.dumps(rule.overrides),
        }
        found = known.get((rule.host, rule.name))
        if found is None:
            connection.execute(insert(learned_rules).values(host=rule.host, name=rule.name, created_at=now, **values))
            added += 1
        elif found.state == ProposalState.PROPOSED:
            connection.execute(update(learned_rules).where(learned_rules.c.id == found.id).values(values))
    return added


def _list_all(connection: Connection) -> list[Proposal]:
    order = learned_rules.c.state != ProposalState.PROPOSED
    query = select(learned_rules).order_by(order, learned_rules.c.host, learned_rules.c.name).limit(_MAX_LISTED)
    return [_parse(row) for row in connection.execute(query)]


def _get(connection: Connection, proposal_id: int) -> Proposal:
    row = connection.execute(select(learned_rules).where(learned_rules.c.id == proposal_id)).first()
    if row is None:
        raise LearnedRuleNotFound(proposal_id)
    return _parse(row)


def _get_entries(connection: Connection, proposal_id: int) -> tuple[Entry, ...]:
    _get(connection, proposal_id)
    text = connection.execute(select(learned_rules.c.overrides).where(learned_rules.c.id == proposal_id)).scalar_one()
    return tuple((host, key, value) for host, key, value in json.loads(text))


def _decide(connection: Connection, proposal_id: int, values: dict[str, Any]) -> Proposal:
    change = update(learned_rules).where(learned_rules.c.id == proposal_id)
    if values["state"] is ProposalState.REFUSED:
        change = change.where(learned_rules.c.state != ProposalState.ACCEPTED)
    if not connection.execute(change.values(values)).rowcount:
        _get(connection, proposal_id)
        raise LearnedRuleConflict("The rule is accepted. Undo it first.")
    return _get(connection, proposal_id)


def _parse(row: Any) -> Proposal:
    fields = {name: getattr(row, name) for name in Proposal.__dataclass_fields__}
    fields["kind"], fields["state"] = RuleKind(row.kind), ProposalState(row.state)
    for name in ("examples", "counter_examples"):
        fields[name] = tuple(Pair(**pair) for pair in json.loads(fields[name]))
    return Proposal(**fields)
