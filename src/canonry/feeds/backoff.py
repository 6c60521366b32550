"""Exponential backoff for polls, webhooks and hubs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

_MAX_DOUBLINGS = 10


def compute_backoff(failures: int, *, first: timedelta, longest: timedelta, chance: float) -> timedelta:
    """Return how long to wait: `first`, doubled after each of the `failures` in a row, but not over `longest`.

    `chance` is a random number from 0 to 1: the wait varies by a quarter, so that retries do not come all at once.
    """
    doubled: timedelta = first * 2 ** min(failures, _MAX_DOUBLINGS)
    return min(longest, doubled) * (0.75 + chance / 2)
