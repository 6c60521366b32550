"""Variants: what several policies make of one URL, cleanest first (contract F6, F7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from canonry.core.native import normalize
from canonry.core.normalize import resolve_policy
from canonry.core.score import Score, score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.core.policy import Policy

FEED_PRESETS = ("feed-aggressive", "feed-moderate", "feed-conservative")


@dataclass(frozen=True, slots=True)
class Variant:
    """A URL a policy makes; `preset` is the first policy in the list that makes it."""

    url: str
    preset: str
    score: Score


def variants(url: str, presets: Sequence[Policy | str] = FEED_PRESETS) -> list[Variant]:
    """What each preset makes of the URL, each URL once, by falling score."""
    found: dict[str, Variant] = {}
    for policy in map(resolve_policy, presets):
        variant = normalize(url, policy)
        if variant not in found:
            found[variant] = Variant(variant, policy.name, score(variant))
    return sorted(found.values(), key=lambda variant: -variant.score.total)
