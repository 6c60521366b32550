"""Compare two policies on stored URLs: which keys change, merge or split (contract N10)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from canonry.core.native import normalize
from canonry.core.normalize import resolve_policy
from canonry.url_errors import InvalidUrl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canonry.core.policy import Policy


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A URL that the two policies normalize differently."""

    url: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """A key under one policy whose URLs have several keys under the other."""

    key: str
    others: tuple[str, ...]


@dataclass(slots=True)
class PolicyDiff:
    """Counts over all URLs, and the first examples of each kind of change."""

    before: str
    after: str
    urls: int = 0
    refused: int = 0
    changed: int = 0
    merged: int = 0
    split: int = 0
    changes: list[KeyChange] = field(default_factory=list[KeyChange])
    merges: list[KeyGroup] = field(default_factory=list[KeyGroup])
    splits: list[KeyGroup] = field(default_factory=list[KeyGroup])


def diff_policies(before: Policy | str, after: Policy | str, urls: Iterable[str], *, examples: int = 5) -> PolicyDiff:
    """Count the URLs that change, and find the keys that merge or split.

    Keeps every distinct key in memory, because any two of them may merge.
    """
    before, after = resolve_policy(before), resolve_policy(after)
    diff = PolicyDiff(before.id, after.id)
    keys_after: dict[str, set[str]] = {}  # by the key before
    keys_before: dict[str, set[str]] = {}  # by the key after
    for url in urls:
        diff.urls += 1
        try:
            old, new = normalize(url, before), normalize(url, after)
        except InvalidUrl:
            diff.refused += 1
            continue
        keys_after.setdefault(old, set()).add(new)
        keys_before.setdefault(new, set()).add(old)
        if old != new:
            diff.changed += 1
            if len(diff.changes) < examples:
                diff.changes.append(KeyChange(url, old, new))
    merges, splits = _find_groups(keys_before), _find_groups(keys_after)
    diff.merged, diff.split = len(merges), len(splits)
    diff.merges, diff.splits = merges[:examples], splits[:examples]
    return diff


def _find_groups(others: dict[str, set[str]]) -> list[KeyGroup]:
    return [KeyGroup(key, tuple(sorted(keys))) for key, keys in others.items() if len(keys) > 1]
