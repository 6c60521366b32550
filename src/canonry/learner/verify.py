"""Fetch pairs of URLs before a rule is proposed (contract L4): do both answer with the same page today?"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from canonry.core.normalize import normalize
from canonry.core.presets import get_newest
from canonry.errors import CanonryError
from canonry.learner.export_rules import make_overrides
from canonry.learner.refuse_rules import refuse_rule
from canonry.learner.values import Learned, LearnedRule, Pair, RefusalReason, RefusedRule

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.net.response import Response

_SUCCESS = 200


class _Fetch(Protocol):
    async def __call__(self, url: str) -> Response: ...


def _ignore_failure(_url: str, _reason: str) -> None:
    pass


async def verify_rules(
    learned: Learned,
    fetch: _Fetch,
    *,
    pairs: int,
    digest: Callable[[bytes], str] | None = None,
    on_failure: Callable[[str, str], None] = _ignore_failure,
) -> Learned:
    """Keep the rules of which up to `pairs` examples still have one content; the others are refused.

    The fetch must pass the guard. A pair that cannot be fetched is no evidence, and neither is one with two contents
    that differs in other parts as well; a rule without evidence is refused.
    `on_failure` gets the URL and the reason of each failure.
    """
    kept: list[LearnedRule] = []
    refused: list[RefusedRule] = list(learned.refused)
    for rule in learned.rules:
        counter_examples = await _find_counter_examples(rule, fetch, pairs, digest or _hash, on_failure)
        if counter_examples is not None and not counter_examples:
            kept.append(rule)
            continue
        refused.append(refuse_rule(rule, RefusalReason.NOT_CONFIRMED, tuple(counter_examples or ())))
    return replace(learned, rules=tuple(kept), refused=tuple(sorted(refused, key=lambda rule: (rule.host, rule.name))))


async def _find_counter_examples(
    rule: LearnedRule,
    fetch: _Fetch,
    pairs: int,
    digest: Callable[[bytes], str],
    on_failure: Callable[[str, str], None],
) -> list[Pair] | None:
    """Return the pairs with two contents; None if no pair could be fetched and says something about the rule."""
    policy = get_newest("crawl").with_overrides(make_overrides([rule.overrides]))
    counter_examples: list[Pair] = []
    has_answer = False
    for pair in rule.examples[:pairs]:
        bodies: list[bytes] = []
        for url in (pair.one, pair.other):
            try:
                answer = await fetch(url)
            except CanonryError as error:
                on_failure(url, str(error))
                break
            if answer.status != _SUCCESS:
                on_failure(url, f"HTTP status {answer.status}")
                break
            bodies.append(answer.body)
        else:
            is_same = digest(bodies[0]) == digest(bodies[1])
            # URLs that differ in other parts as well may have two contents because of these.
            is_pair = normalize(pair.one, policy) == normalize(pair.other, policy)
            has_answer |= is_same or is_pair
            if is_pair and not is_same:
                counter_examples.append(pair)
    return counter_examples if has_answer else None


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
