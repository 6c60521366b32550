"""Rules are confirmed by fetching pairs, and policies are compared with the evidence (contract L4)."""

from __future__ import annotations

import asyncio

import pytest

import canonry
from canonry.learner.values import RefusalReason

pytest.importorskip("duckdb")

from canonry.learner.check_policy import check_policy
from canonry.learner.read_rows import read_rows
from canonry.learner.verify import verify_rules

ROWS = [(f"https://s.example/item?kind={n}&zog={n * 3 + c}", f"content {n}") for n in range(40) for c in range(3)]


def test_a_rule_whose_pages_are_the_same_is_kept() -> None:
    fetched: list[str] = []

    async def fetch(url: str) -> canonry.Response:
        fetched.append(url)
        return canonry.Response(200, url, {}, url.partition("&zog=")[0].encode(), ())

    learned = asyncio.run(verify_rules(canonry.learn(ROWS), fetch, pairs=2))
    assert [rule.name for rule in learned.rules] == ["param:zog"]
    assert len(fetched) == 4


def test_a_rule_whose_pages_differ_now_is_refused() -> None:
    async def fetch(url: str) -> canonry.Response:
        return canonry.Response(200, url, {}, url.encode(), ())

    learned = asyncio.run(verify_rules(canonry.learn(ROWS), fetch, pairs=1))
    assert learned.rules == ()
    (refused,) = learned.refused
    assert (refused.reason, len(refused.counter_examples)) == (RefusalReason.NOT_CONFIRMED, 1)


def test_a_pair_that_differs_in_other_parts_as_well_confirms_no_rule() -> None:
    """Both parameters are new in each URL, so that no pair shows which of them matters now."""
    rows = [
        (f"https://s.example/item/{n}?zog={n * 3 + c}&vip={n * 3 - c}", f"content {n}")
        for n in range(40)
        for c in (0, 1)
    ]

    async def fetch(url: str) -> canonry.Response:
        return canonry.Response(200, url, {}, url.encode(), ())

    proposed = canonry.learn(rows)
    assert [rule.name for rule in proposed.rules] == ["param:vip", "param:zog"]
    learned = asyncio.run(verify_rules(proposed, fetch, pairs=2))
    assert [rule.reason for rule in learned.refused] == [RefusalReason.NOT_CONFIRMED] * 2
    assert learned.rules == ()


def test_a_rule_whose_pages_cannot_be_fetched_is_refused() -> None:
    async def fetch(url: str) -> canonry.Response:
        return canonry.Response(404, url, {}, b"gone", ())

    learned = asyncio.run(verify_rules(canonry.learn(ROWS), fetch, pairs=2))
    assert [rule.reason for rule in learned.refused] == [RefusalReason.NOT_CONFIRMED]


def test_a_policy_is_compared_with_the_evidence() -> None:
    rows = [*ROWS, ("https://s.example/x?utm_source=a", "one"), ("https://s.example/x?utm_source=b", "two")]
    found = check_policy(read_rows(rows), canonry.learn(rows), canonry.policy("bookmark@2"))
    assert (found.policy, found.urls, found.merged_wrongly, found.kept_apart) == ("bookmark@2", 122, 1, 40)
