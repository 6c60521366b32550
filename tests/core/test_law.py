"""The version law (contract N2, N5): the answers of a shipped policy never change."""

from __future__ import annotations

import fnmatch
from collections import defaultdict

import pytest

import canonry
import law
from canonry.core.normalize import RULES
from canonry.core.rules import get_param_name
from canonry.core.url import parse

RECORD = law.read_record()
WHAT_TO_DO = (
    "{id} no longer gives the answers it was shipped with, and stored keys depend on them. Undo the change, or make a "
    "new version: `python tools/tables.py bump {name}` (for a changed site rule also a new `site@version`), then "
    "`make tables law`, and a line under 'Policies' in CHANGELOG.md."
)


@pytest.mark.parametrize("policy_id", RECORD)
def test_a_shipped_policy_answers_as_recorded(policy_id: str) -> None:
    policy = canonry.policy(policy_id)
    message = WHAT_TO_DO.format(id=policy_id, name=policy.name)
    assert law.compute_answers(policy) == RECORD[policy_id]["answers"], message
    assert policy.digest == RECORD[policy_id]["digest"], message


def test_every_shipped_policy_is_recorded() -> None:
    assert {policy.id for policy in canonry.policies()} == set(RECORD), "run: make law"


def test_the_samples_exercise_every_rule() -> None:
    fired = {
        step.rule
        for policy in canonry.policies()
        for url in law.read_sample_urls(policy.id)
        if canonry.normalize_many([url], policy) != [None]
        for step in canonry.explain(url, policy).steps
    }
    assert fired == set(RULES) - {"strip_auth", "overrides"}  # no shipped policy has these on


def recorded_drops(policy_id: str) -> dict[str, set[str]]:
    """The parameters that the recorded answers of a policy have lost, in lower case, by host."""
    drops: dict[str, set[str]] = defaultdict(set)
    for url, answer in RECORD[policy_id]["answers"].items():
        if answer != "refused":
            drops[parse(answer).host] |= param_names(url) - param_names(answer)
    return drops


def param_names(url: str) -> set[str]:
    query = url.partition("#")[0].partition("?")[2]
    return {get_param_name(param).lower() for param in query.split("&")}


@pytest.mark.parametrize("policy_id", RECORD)
def test_the_record_drops_every_listed_parameter(policy_id: str) -> None:
    policy, drops = canonry.policy(policy_id), recorded_drops(policy_id)
    anywhere = set[str]().union(*drops.values())
    unseen = [name for name in policy.strip_params if not fnmatch.filter(anywhere, name)]
    unseen += [
        f"{name} on {host}" for host, names in policy.strip_params_on for name in names if name not in drops[host]
    ]
    assert unseen == []
