"""The errors of the core: InvalidUrl, PolicyError and their base class.

They are not in `errors.py` because its enums would add 0.7 ms to the start of `canonry normalize`. All modules
outside of the core import them from `canonry.errors`, which is also their `__module__` in tracebacks and pickles.
"""

from __future__ import annotations

import re

_MAX_QUOTED_CHARACTERS = 200  # messages repeat no more of an input, which may be hostile


def mask_credentials(text: str) -> str:
    """Replace the user names and passwords of all URLs in a text by `***`."""
    # Each match consumes everything that could be an authority, so the time is linear in the length of the text.
    return re.sub(r"(:[/\\]*)([^/?#\s]*)", _mask_userinfo, text)


def _mask_userinfo(match: re.Match[str]) -> str:
    start, authority = match.groups()
    _, at, rest = authority.rpartition("@")
    return f"{start}***@{rest}" if at else match[0]


def quote(given: object) -> str:
    """Return the repr of a value for a message: credentials masked, long values cut."""
    quoted = repr(mask_credentials(given) if isinstance(given, str) else given)
    if len(quoted) <= _MAX_QUOTED_CHARACTERS:
        return quoted
    return f"{quoted[:_MAX_QUOTED_CHARACTERS]}… ({len(quoted)} characters)"


class CanonryError(Exception):
    """Base class of every error canonry raises on purpose."""

    __module__ = "canonry.errors"


class InvalidUrl(CanonryError, ValueError):
    """The text is not an http(s) URL; `input` is the text, `reason` says why."""

    __module__ = "canonry.errors"

    def __init__(self, given: object, reason: str) -> None:
        super().__init__(given, reason)
        self.input = given
        self.reason = reason

    def __str__(self) -> str:
        return f"not a usable URL: {self.reason}: {quote(self.input)}"


class PolicyError(CanonryError, ValueError):
    """A policy or overrides file cannot be used; nothing of it was loaded."""

    __module__ = "canonry.errors"

    def __init__(self, reason: str, file: str = "", place: str = "") -> None:
        super().__init__(reason, file, place)
        self.reason = reason
        self.file = file
        self.place = place

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.place, self.reason) if part)
