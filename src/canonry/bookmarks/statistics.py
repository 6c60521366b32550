"""Count what the service does, by the hour: names and numbers, never a URL or a host (contract B7, B9)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects import postgresql

from canonry.store.schema import stamp, statistics
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from canonry.store.database import Database

# Microseconds: a normalization counts in the first bucket that it fits in.
LATENCY_BUCKETS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_HOUR_CHARS = len("2026-01-31T10")
_ALL_HOURS = ""  # in place of an hour: the total, which also contains hours that were deleted, so it never falls
_INSERT = postgresql.insert(statistics)
_ADD = Prepared(
    lambda _: _INSERT.on_conflict_do_update(
        index_elements=["hour", "name"], set_={"count": statistics.c.count + _INSERT.excluded["count"]}
    ),
    [column.name for column in statistics.c],
)


class Statistics:
    """Counts in memory that `flush` adds to the database; several processes can count at once."""

    def __init__(self, database: Database) -> None:
        self.database = database
        # By hours since 1970 and name: a number is cheaper to make than the text of an hour.
        self._counts = Counter[tuple[int, str]]()

    def count(self, name: str, now: datetime, times: int = 1) -> None:
        """Count an event."""
        self._counts[int(now.timestamp()) // 3600, name] += times

    async def flush(self) -> None:
        """Add what was counted since the last flush to the database."""
        counts, self._counts = self._counts, Counter[tuple[int, str]]()
        if not counts:
            return
        by_hour = Counter[tuple[str, str]]()
        for (hour, name), count in counts.items():
            by_hour[stamp(datetime.fromtimestamp(hour * 3600, UTC))[:_HOUR_CHARS], name] += count
            by_hour[_ALL_HOURS, name] += count
        written = sorted(by_hour.items())
        rows = [{"hour": hour, "name": name, "count": count} for (hour, name), count in written]
        try:
            await self.database.write(lambda connection: _ADD.run_many(connection, rows))
        except BaseException:
            self._counts.update(counts)
            raise

    async def get_hourly(self, since: datetime) -> dict[str, dict[str, int]]:
        """Return the counts since a time, by name and hour."""
        query = select(statistics).where(statistics.c.hour >= stamp(since)[:_HOUR_CHARS]).order_by(statistics.c.hour)

        def work(connection: Connection) -> dict[str, dict[str, int]]:
            found: dict[str, dict[str, int]] = {}
            for hour, name, count in connection.execute(query):
                found.setdefault(name, {})[hour] = count
            return found

        return await self.database.read(work)

    async def get_totals(self) -> dict[str, int]:
        """Return how often each event has happened since the store was made."""
        query = select(statistics.c.name, statistics.c.count).where(statistics.c.hour == _ALL_HOURS)
        return await self.database.read(
            lambda connection: {name: int(count) for name, count in connection.execute(query)}
        )

    async def delete_before(self, before: datetime) -> None:
        """Delete the hourly counts from before a time; the totals stay."""
        old = delete(statistics).where(statistics.c.hour > _ALL_HOURS, statistics.c.hour < stamp(before)[:_HOUR_CHARS])
        await self.database.write(lambda connection: connection.execute(old))


def find_latency_bucket(seconds: float) -> str:
    """Return the name of the latency bucket for a normalization that took this many seconds."""
    return next((str(limit) for limit in LATENCY_BUCKETS if seconds * 1e6 <= limit), "more")
