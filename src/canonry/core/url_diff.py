"""Compare two URLs token by token: a diff of single characters is unreadable."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

_TOKEN = re.compile(r"\A\s*[A-Za-z]+:[/\\]*|[^/?&#]+|[/?&#]")
_MAX_TOKEN_PAIRS = 20_000  # more pairs make difflib too slow for a page; they are shown as one change


@dataclass(frozen=True, slots=True)
class TokenChange:
    """A run of tokens before and after; the two are equal if nothing changed."""

    removed: str
    added: str

    @property
    def is_same(self) -> bool:
        return self.removed == self.added


def diff_tokens(before: str, after: str) -> list[TokenChange]:
    """Return the runs of tokens, in order: joining `removed` gives `before`, joining `added` gives `after`."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    head = _count_common(old, new)
    tail = _count_common(old[head:][::-1], new[head:][::-1])
    middle = _diff_middle(old[head : len(old) - tail], new[head : len(new) - tail])
    start, end = "".join(old[:head]), "".join(old[len(old) - tail :])
    changes = [TokenChange(start, start), *middle, TokenChange(end, end)]
    return [change for change in changes if change.removed or change.added]


def _diff_middle(old: list[str], new: list[str]) -> list[TokenChange]:
    if len(old) * len(new) > _MAX_TOKEN_PAIRS:
        return [TokenChange("".join(old), "".join(new))]
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    return [
        TokenChange("".join(old[old_start:old_end]), "".join(new[new_start:new_end]))
        for _, old_start, old_end, new_start, new_end in matcher.get_opcodes()
    ]


def _count_common(old: list[str], new: list[str]) -> int:
    """Count the tokens with which both lists begin."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(old), len(new)))
