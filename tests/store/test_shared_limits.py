"""Limits that all processes share (contract B6)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from canonry.store.cache import delete_expired
from canonry.store.database import Database
from canonry.store.shared_limits import Attempt, AttemptBucket, SharedLimit, judge_attempt

CASES = [
    # bucket             now     is allowed, left, seconds to wait
    (None, 0.0, True, 9.0, 0),
    (AttemptBucket(5.0, 0.0), 0.0, True, 4.0, 0),
    (AttemptBucket(0.0, 0.0), 6.0, True, 0.0, 0),
    (AttemptBucket(0.0, 0.0), 0.0, False, 0.0, 6),
    (AttemptBucket(0.5, 0.0), 0.0, False, 0.5, 3),
    (AttemptBucket(0.0, 0.0), 3600.0, True, 9.0, 0),
    (AttemptBucket(0.0, 10.0), 0.0, False, 0.0, 6),  # another machine's clock is ahead
    (AttemptBucket(0.0, 86_400.0), 0.0, True, 9.0, 0),  # stored while the clock was wrong
    (AttemptBucket(-50.0, 0.0), 0.0, False, 0.0, 6),
    (AttemptBucket(1e9, 0.0), 0.0, True, 9.0, 0),
]


@pytest.mark.parametrize(("bucket", "now", "is_allowed", "left", "wait"), CASES)
def test_attempts_are_allowed_until_the_bucket_is_empty(
    bucket: AttemptBucket | None, now: float, is_allowed: bool, left: float, wait: int
) -> None:
    assert judge_attempt(bucket, now, per_minute=10) == Attempt(is_allowed, AttemptBucket(left, now), wait)


def test_two_processes_share_a_limit(database_url: str) -> None:
    now = datetime.now(UTC)

    async def take() -> list[bool]:
        with Database(database_url) as one, Database(database_url) as other:
            limits = [SharedLimit(database, "test", per_minute=3) for database in (one, other)]
            taken = [(await limits[number % 2].take("ada", now)).is_allowed for number in range(5)]
            taken.append((await limits[0].take("bob", now)).is_allowed)
            await delete_expired(one, now)
            taken.append((await limits[1].take("ada", now)).is_allowed)
            later = now + timedelta(seconds=61)
            await delete_expired(one, later)
            taken.append((await limits[1].take("ada", later)).is_allowed)
            return taken

    assert asyncio.run(take()) == [True, True, True, False, False, True, False, True]
