"""What a step changed in a URL, token by token: a diff of characters cannot be read."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

_TOKEN = re.compile(r"\A\s*[A-Za-z]+:[/\\]*|[^/?&#]+|[/?&#]")
_COMPARED = 20_000  # pairs of tokens; beyond that a diff takes longer than anybody wants to read it


@dataclass(frozen=True, slots=True)
class Change:
    """A run of tokens: what went and what came in its place, equal where nothing changed."""

    gone: str
    came: str

    @property
    def is_same(self) -> bool:
        return self.gone == self.came


def token_changes(before: str, after: str) -> list[Change]:
    """The way from one URL to the other, in the order of the text."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    middle = _compared(old[head : len(old) - tail], new[head : len(new) - tail])
    ends = "".join(old[:head]), "".join(old[len(old) - tail :])
    found = [Change(ends[0], ends[0]), *middle, Change(ends[1], ends[1])]
    return [change for change in found if change.gone or change.came]


def _compared(old: list[str], new: list[str]) -> list[Change]:
    if len(old) * len(new) > _COMPARED:
        return [Change("".join(old), "".join(new))]
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    return [
        Change("".join(old[old_from:old_to]), "".join(new[new_from:new_to]))
        for _, old_from, old_to, new_from, new_to in matcher.get_opcodes()
    ]


def _common(old: list[str], new: list[str]) -> int:
    """How many tokens both begin with."""
    return next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
