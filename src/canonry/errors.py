"""Every exception canonry raises."""

from __future__ import annotations

import re

_SHOWN = 200  # characters of a hostile input that a message repeats


def masked(text: str) -> str:
    """The text with user names and passwords of URLs out of sight, for messages."""
    # Each match takes all that could be an authority, so that no text is read twice.
    return re.sub(r"(:[/\\]*)([^/?#\s]*)", _without_user, text)


def _without_user(match: re.Match[str]) -> str:
    start, authority = match.groups()
    _, at, rest = authority.rpartition("@")
    return f"{start}***@{rest}" if at else match[0]


def _shown(given: object) -> str:
    shown = repr(masked(given) if isinstance(given, str) else given)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}… ({len(shown)} characters)"


class CanonryError(Exception):
    """Base of every error canonry raises on purpose."""


class InvalidUrl(CanonryError, ValueError):
    """What was given is not an http(s) URL; `input` is what was given, `reason` says why."""

    def __init__(self, given: object, reason: str) -> None:
        super().__init__(given, reason)
        self.input = given
        self.reason = reason

    def __str__(self) -> str:
        return f"not a usable URL: {self.reason}: {_shown(self.input)}"


class PolicyError(CanonryError, ValueError):
    """A policy or overrides file that cannot be used; nothing of it was loaded."""

    def __init__(self, reason: str, file: str = "", place: str = "") -> None:
        super().__init__(reason, file, place)
        self.reason = reason
        self.file = file
        self.place = place

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.place, self.reason) if part)


class _Failed(CanonryError):
    """Something at `target` went wrong; `reason` says what, `tried` what was asked before. Credentials are masked."""

    said = ""

    def __init__(self, target: str = "", reason: str = "no reason given", tried: tuple[object, ...] = ()) -> None:
        target = masked(target)
        super().__init__(target, reason, tried)
        self.target = target
        self.reason = reason
        self.tried = tried

    def __str__(self) -> str:
        return f"{self.said}: {self.reason}: {_shown(self.target)}"


class UnsafeUrl(_Failed):
    """The guard refused to reach `target`."""

    said = "refused"


class FetchFailed(_Failed):
    """The network gave no usable answer; `status` and `retry_after` (seconds) where there was one."""

    said = "not fetched"

    def __init__(
        self,
        target: str = "",
        reason: str = "no answer",
        tried: tuple[object, ...] = (),
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(target, reason, tried)
        self.args = (self.target, reason, tried, status, retry_after)
        self.status = status
        self.retry_after = retry_after


class NotAFeed(_Failed):
    """What came back is not a feed."""

    said = "not a feed"


class StoreError(CanonryError):
    """The store cannot be read or written."""
