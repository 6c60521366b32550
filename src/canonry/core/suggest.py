"""Suggest the known name that a mistyped one is nearest to."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_CHARACTERS = 100


def suggest(given: str, known: Iterable[str], *, likeness: float = 0.6) -> str:
    """Return ` (did you mean bookmark@2?)` to add to a message; empty if no known name is near.

    `likeness` is that of the names, from 0 to 1, as `difflib` measures it.
    """
    from difflib import get_close_matches  # only an error needs it

    near = get_close_matches(given[:_MAX_CHARACTERS].lower(), known, n=1, cutoff=likeness)
    return f" (did you mean {near[0]}?)" if near else ""
