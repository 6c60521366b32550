"""Normalize one URL under several policies, and order the results by cleanliness (contract F6, F7)."""

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
    """A normalized URL, the first policy that gives it, and its score."""

    url: str
    preset: str
    score: Score


def variants(url: str, presets: Sequence[Policy | str] = FEED_PRESETS) -> list[Variant]:
    """Normalize the URL under each preset; return each result once, cleanest first."""
    found: dict[str, Variant] = {}
    for policy in map(resolve_policy, presets):
        variant = normalize(url, policy)
        if variant not in found:
            found[variant] = Variant(variant, policy.name, score(variant))
    return sorted(found.values(), key=lambda variant: -variant.score.total)
