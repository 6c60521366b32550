"""Suggest the known name that a mistyped one is nearest to."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_CHARACTERS = 100


def suggest(given: str, known: Iterable[str]) -> str:
    """Return ` (did you mean bookmark@2?)` to add to a message; empty if no known name is near."""
    from difflib import get_close_matches  # only an error needs it

    near = get_close_matches(given[:_MAX_CHARACTERS].lower(), known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
