"""Limit attempts over all processes of a store: each name has a token bucket in the table `cache`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from canonry.store.schema import cache, stamp

if TYPE_CHECKING:
    from datetime import datetime

    from canonry.store.database import Database

_MINUTE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class AttemptBucket:
    """The attempts that are left, as of a time in seconds."""

    left: float
    at: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """Whether an attempt is allowed, the bucket after it, and the seconds to wait if it is not."""

    is_allowed: bool
    bucket: AttemptBucket
    wait_seconds: int = 0


def judge_attempt(bucket: AttemptBucket | None, now: float, *, per_minute: int) -> Attempt:
    """Take one attempt from a bucket, which is full at first and refilled evenly."""
    left = float(per_minute)
    # Clocks of machines differ a little. A bucket from the far future was stored before a wrong clock was corrected.
    if bucket is not None and bucket.at <= now + _MINUTE_SECONDS:
        elapsed = max(0.0, now - bucket.at)
        left = min(per_minute, max(0.0, bucket.left) + elapsed * per_minute / _MINUTE_SECONDS)
    if left >= 1:
        return Attempt(is_allowed=True, bucket=AttemptBucket(left - 1, now))
    wait = max(1, ceil((1 - left) * _MINUTE_SECONDS / per_minute))
    return Attempt(is_allowed=False, bucket=AttemptBucket(left, now), wait_seconds=wait)


class SharedLimit:
    """At most `per_minute` attempts of one name, counted in the store by all processes."""

    def __init__(self, database: Database, purpose: str, *, per_minute: int) -> None:
        self._database = database
        self._purpose = purpose
        self._per_minute = per_minute

    async def take(self, name: str, now: datetime) -> Attempt:
        """Count an attempt."""
        # The row has no address in it, only a digest.
        row = f"limit:{self._purpose}:{hashlib.sha256(name.encode(errors='replace')).hexdigest()}"
        return await self._database.write(partial(self._take, row=row, now=now))

    def _take(self, connection: Connection, row: str, now: datetime) -> Attempt:
        query = select(cache.c.value).where(cache.c.name == row, cache.c.expires_at > stamp(now)).with_for_update()
        attempt = judge_attempt(
            _parse_bucket(connection.execute(query).scalar()), now.timestamp(), per_minute=self._per_minute
        )
        if not attempt.is_allowed:
            return attempt  # without a write, which would let a flood of attempts delay others
        new = {
            "value": json.dumps([attempt.bucket.left, attempt.bucket.at]).encode(),
            "expires_at": stamp(now + timedelta(seconds=_MINUTE_SECONDS)),  # the bucket is full again then
        }
        insert = sqlite.insert if self._database.is_sqlite else postgresql.insert
        upsert = insert(cache).values(name=row, **new).on_conflict_do_update(index_elements=["name"], set_=new)
        connection.execute(upsert)
        return attempt


def _parse_bucket(value: object) -> AttemptBucket | None:
    """Return the stored bucket; None for anything else, because the table is a cache."""
    try:
        left, at = json.loads(value if isinstance(value, bytes) else b"null")
        return AttemptBucket(float(left), float(at))
    except (TypeError, ValueError):
        return None
