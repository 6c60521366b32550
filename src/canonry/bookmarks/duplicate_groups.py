"""Group duplicate bookmarks by equal URLs and by twins (contract E5). Decisions only."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from canonry.bookmarks.twins import Twin


@dataclass(frozen=True, slots=True)
class IdGroup:
    """A group of duplicates by the ids of its bookmarks, oldest first."""

    id: str
    ids: tuple[int, ...]
    twins: tuple[Twin, ...]
    is_proven: bool


def group_duplicates(
    keys: dict[int, str], twins: Sequence[Twin], refused: Iterable[tuple[int, int]] = ()
) -> list[IdGroup]:
    """Group bookmarks, given by id and key in their order, by equal keys and by twins; the largest group first.

    Proven twins join groups, and a group lists those that joined it. Two bookmarks that only show the same text are a
    group of their own; if two groups show the same text, one pair of their bookmarks is such a group. A pair that a
    person `refused` is never joined, not even by a third bookmark that is a twin of both: one of the twins is then
    shown as not proven.
    """
    firsts: dict[str, int] = {}
    groups = _JoinedGroups({each: firsts.setdefault(key, each) for each, key in keys.items()}, refused)
    joining: list[Twin] = []
    guesses: list[Twin] = []
    for twin in twins:
        if not twin.is_proven or groups.are_apart(twin.bookmark_id, twin.other_id):
            guesses.append(replace(twin, is_proven=False))
        elif groups.join(twin.bookmark_id, twin.other_id):
            joining.append(twin)
    members: dict[int, list[int]] = {}
    for each in keys:
        members.setdefault(groups.find(each), []).append(each)
    joined: dict[int, list[Twin]] = {}
    for twin in joining:
        joined.setdefault(groups.find(twin.bookmark_id), []).append(twin)
    found = [
        IdGroup(keys[ids[0]], tuple(ids), tuple(joined.get(root, ())), is_proven=True)
        for root, ids in members.items()
        if len(ids) > 1
    ]
    positions = {each: position for position, each in enumerate(keys)}
    guessed: set[frozenset[int]] = set()
    for twin in guesses:
        roots = frozenset((groups.find(twin.bookmark_id), groups.find(twin.other_id)))
        if len(roots) == 2 and roots not in guessed:
            guessed.add(roots)
            pair = sorted((twin.bookmark_id, twin.other_id), key=positions.__getitem__)
            digest = hashlib.sha256(" ".join(keys[each] for each in pair).encode()).hexdigest()
            found.append(IdGroup(digest, tuple(pair), (twin,), is_proven=False))
    return sorted(found, key=lambda group: (not group.is_proven, -len(group.ids), group.id))


class _JoinedGroups:
    """Disjoint sets of ids, each named by one of its ids, and which of them must not be joined."""

    def __init__(self, leaders: dict[int, int], apart: Iterable[tuple[int, int]]) -> None:
        self._leaders = leaders
        self._apart: dict[int, set[int]] = {}  # names of groups by the name of a group
        for one, other in apart:
            first, second = self.find(one), self.find(other)
            if first != second:
                self._apart.setdefault(first, set()).add(second)
                self._apart.setdefault(second, set()).add(first)

    def find(self, each: int) -> int:
        """Return the name of the group of an id."""
        leaders = self._leaders
        while leaders[each] != each:
            leaders[each] = leaders[leaders[each]]
            each = leaders[each]
        return each

    def are_apart(self, one: int, other: int) -> bool:
        """Return whether the groups of two ids must not be joined."""
        return self.find(other) in self._apart.get(self.find(one), ())

    def join(self, one: int, other: int) -> bool:
        """Join the groups of two ids; return whether they were two."""
        first, second = self.find(one), self.find(other)
        if first == second:
            return False
        self._leaders[first] = second
        moved = self._apart.pop(first, set())
        for each in moved:
            self._apart[each] = (self._apart[each] - {first}) | {second}
        if moved:
            self._apart.setdefault(second, set()).update(moved)
        return True
