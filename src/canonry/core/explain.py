"""Explain a normalization: the same answer as `normalize`, with every step that led to it (contract N9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from canonry.core.normalize import get_plan, limit_rounds, make_endless_error, resolve_policy
from canonry.core.step_reasons import describe_step
from canonry.core.url import parse, read_url

if TYPE_CHECKING:
    from canonry.core.policy import Policy


_READ_REASON = "read as typed: surrounding characters removed, https assumed if there is no scheme"


@dataclass(frozen=True, slots=True)
class Step:
    """A rule that changed the URL: the text before and after it, and the reason as a sentence."""

    rule: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The normalized URL, the id of the policy, and the steps that changed something."""

    url: str
    policy: str
    steps: tuple[Step, ...]


def explain(url: str, policy: Policy | str = "bookmark") -> Explanation:
    """Normalize a URL and return every step that changed something; InvalidUrl if it is not an http(s) URL."""
    policy = resolve_policy(policy)
    parse(url)
    if not policy.parse:
        return Explanation(url, policy.id, ())
    text, steps = url, list[Step]()
    for _ in limit_rounds(url, policy):
        parts = parse(text)
        text = _record_step(steps, "parse", text, str(parts))
        plan = get_plan(policy)
        for rule, edit in plan.steps:
            is_final = edit(parts)
            text = _record_step(steps, rule, text, str(parts))
            if is_final:
                for last_rule, last in plan.final_steps:
                    last(parts)
                    text = _record_step(steps, last_rule, text, str(parts))
                break
        settled = text
        if policy.overrides is not None:
            text = _record_step(steps, "overrides", text, policy.overrides.apply(text, parts))
        if text == settled:
            return Explanation(text, policy.id, tuple(steps))
    raise make_endless_error(url)


def explain_text(text: str, policy: Policy | str = "bookmark") -> Explanation:
    """Explain what a person typed: the first step is what `read_url` changed."""
    url = read_url(text)
    explanation = explain(url, policy)
    if url == text:
        return explanation
    read = Step("read_url", text, url, _READ_REASON)
    return replace(explanation, steps=(read, *explanation.steps))


def _record_step(steps: list[Step], rule: str, before: str, after: str) -> str:
    if before != after:
        steps.append(Step(rule, before, after, describe_step(rule, before, after)))
    return after
