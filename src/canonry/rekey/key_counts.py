"""Count which keys a rekey merges and splits, on disk: memory does not grow with the number of keys."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from canonry.core.policy_diff import KeyChange, KeyGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_GROUP_KEYS = 100  # listed of one group


@dataclass(frozen=True, slots=True)
class RekeySummary:
    """The changes of a rekey, planned or made: counts, and the first examples of each kind, as in `policy diff`."""

    before: str
    after: str
    entries: int
    changed: int  # entries that get another key
    merged: int  # keys that several keys become
    split: int  # keys that become several
    changes: list[KeyChange]
    merges: list[KeyGroup]
    splits: list[KeyGroup]


class RekeyCounts:
    """Old and new keys, added page by page."""

    def __init__(self, before: str, after: str) -> None:
        self.before = before
        self.after = after
        self.entries = 0
        # The empty name makes a private database in a temporary file, which SQLite deletes when it is closed.
        # Several threads add pages, but never at once.
        self._disk = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._disk.execute(
            "CREATE TABLE pairs (url TEXT NOT NULL, old TEXT NOT NULL, new TEXT NOT NULL, owner INTEGER NOT NULL)"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._disk.close()

    def add(self, entries: int, keys: Sequence[KeyChange], owners: Sequence[int] = ()) -> None:
        """Add the number of rows of a page, and the keys of those that have one; keys of two owners never merge."""
        self.entries += entries
        self._disk.execute("BEGIN")
        known = owners or [0] * len(keys)
        rows = [(each.url, each.before, each.after, owner) for each, owner in zip(keys, known, strict=True)]
        self._disk.executemany("INSERT INTO pairs VALUES (?, ?, ?, ?)", rows)
        self._disk.execute("COMMIT")

    def summarize(self, *, examples: int) -> RekeySummary:
        """Return the counts of all pages; examples are in the order of the entries."""
        (changed,) = self._disk.execute("SELECT count(*) FROM pairs WHERE old <> new").fetchone()
        changes = self._disk.execute(
            "SELECT url, old, new FROM pairs WHERE old <> new ORDER BY rowid LIMIT ?", (examples,)
        )
        merged, merges = self._find_groups("new", "old", examples)
        split, splits = self._find_groups("old", "new", examples)
        return RekeySummary(
            before=self.before,
            after=self.after,
            entries=self.entries,
            changed=changed,
            merged=merged,
            split=split,
            changes=[KeyChange(*row) for row in changes],
            merges=merges,
            splits=splits,
        )

    def _find_groups(self, key: str, other: str, examples: int) -> tuple[int, list[KeyGroup]]:
        """Return how many values of the column `key` have several values of the column `other`, and examples."""
        # A group without a changed key has one value of both columns. There are few others, so less is sorted.
        changed = f"SELECT {key} FROM pairs WHERE old <> new"  # noqa: S608
        having = f"GROUP BY owner, {key} HAVING count(DISTINCT {other}) > 1"
        groups = f"SELECT {key}, owner, min(rowid) FROM pairs WHERE {key} IN ({changed}) {having}"  # noqa: S608
        (count,) = self._disk.execute(f"SELECT count(*) FROM ({groups})").fetchone()  # noqa: S608
        keys = self._disk.execute(f"{groups} ORDER BY 3 LIMIT ?", (examples,)).fetchall()
        others = f"SELECT DISTINCT {other} FROM pairs WHERE {key} = ? AND owner = ? ORDER BY 1 LIMIT ?"  # noqa: S608
        return count, [
            KeyGroup(value, tuple(found for (found,) in self._disk.execute(others, (value, owner, _MAX_GROUP_KEYS))))
            for value, owner, _ in keys
        ]
