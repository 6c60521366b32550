"""The errors of the core: InvalidUrl, PolicyError and their base class.

They are not in `errors.py` because its enums would add 0.7 ms to the start of `canonry normalize`. All modules
outside of the core import them from `canonry.errors`, which is also their `__module__` in tracebacks and pickles.
"""

from __future__ import annotations

import re

_MAX_QUOTED_CHARACTERS = 200  # messages repeat no more of an input, which may be hostile


# The authority of a URL follows a colon and slashes; browsers ignore tabs and line breaks, and encode blanks.
_AUTHORITY = re.compile(r":\s*[/\\][/\\\s]*([^/?#\\]*)")
_REST = re.compile(r".{0,250}@", re.DOTALL)
_RUN = re.compile(r"[^/?#\s\\]+")
_ENCODED = re.compile(
    r"(%(?:25)*3A(?:%(?:25)*2F|[/\\])+)(?:(?!%(?:25)*(?:2F|3F|23))[^/?#&\s])*(%(?:25)*40)", re.IGNORECASE
)


def mask_credentials(text: str) -> str:
    """Replace the user names and passwords of all URLs in a text by `***`, also in URLs that are invalid.

    Where it is not clear whether a text is a password, it is masked too. The time is linear in the length of the text.
    """
    if "@" in text:
        text = _RUN.sub(_mask_run, _mask_authorities(text))
    return _ENCODED.sub(r"\1***\2", text) if "40" in text else text


def _mask_authorities(text: str) -> str:
    """Mask what stands before the last `@` of each authority."""
    masked: list[str] = []
    position = 0
    while (found := _AUTHORITY.search(text, position)) is not None:
        start, end = found.span(1)
        userinfo, at, host = found[1].rpartition("@")
        if _has_bad_port(host) and (rest := _REST.match(text, end)):
            end, at = rest.end() - 1, "@"  # a password with a slash, which makes the URL invalid
        elif at:
            end = start + len(userinfo)
        masked += (text[position:start], "***" if at else text[start:end])
        position = end
    return "".join((*masked, text[position:]))


def _has_bad_port(host: str) -> bool:
    name, colon, port = (host.rpartition("]")[2] if host.startswith("[") else host).rpartition(":")
    is_second = ":" in name and not re.search(r"\s", name)  # with a blank it may be a sentence with two URLs
    return bool(colon) and (is_second or not re.fullmatch(r"\d*\s*", port))


def _mask_run(found: re.Match[str]) -> str:
    """Mask `user:password@` and `scheme:user:password@`, where no slashes show an authority."""
    before, at, after = found[0].rpartition("@")
    scheme, colon, _ = before.partition(":")
    return f"{scheme}:***@{after}" if at and colon else found[0]


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
