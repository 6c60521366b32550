"""The version law (contract N2, N5): what a shipped policy answers, it answers for good."""

from __future__ import annotations

import json

import pytest

import canonry
import law
from canonry.core.normalize import RULES

RECORD = json.loads(law.RECORD.read_text(encoding="utf-8"))
WHAT_TO_DO = (
    "{id} no longer gives the answers it was shipped with, and stored keys depend on them. Undo the change, or make a "
    "new version: `python tools/tables.py bump {name}` (for a changed site rule also a new `site@version`), then "
    "`make tables law`, and a line under 'Policies' in CHANGELOG.md."
)


@pytest.mark.parametrize("policy_id", RECORD)
def test_a_shipped_policy_answers_as_recorded(policy_id: str) -> None:
    policy = canonry.policy(policy_id)
    message = WHAT_TO_DO.format(id=policy_id, name=policy.name)
    assert law.answers(policy) == RECORD[policy_id]["answers"], message
    assert policy.digest == RECORD[policy_id]["digest"], message


def test_every_shipped_policy_is_recorded() -> None:
    assert {policy.id for policy in canonry.policies()} == set(RECORD), "run: make law"


def test_the_samples_make_every_rule_fire() -> None:
    fired = {
        step.rule
        for policy in canonry.policies()
        for url in law.sample_urls()
        if canonry.normalize_many([url], policy) != [None]
        for step in canonry.explain(url, policy).steps
    }
    assert fired == set(RULES) - {"strip_auth", "overrides"}  # no shipped policy has these on


def test_the_samples_hold_every_listed_parameter() -> None:
    samples = "\n".join(law.sample_urls())
    for policy in canonry.policies():
        missing = [name for name in policy.strip_params if f"{name.rstrip('*')}" not in samples]
        assert not missing, policy.id
