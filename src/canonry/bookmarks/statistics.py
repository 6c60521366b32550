"""What the service counts, by the hour: names and numbers, never a URL or a host (contract B7, B9)."""

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

_HOUR = len("2026-01-31T10")
_EVER = ""  # in place of an hour: the sum over all, also of hours that are forgotten, so that it never falls
_ROW = postgresql.insert(statistics)
_ADD = Prepared(
    lambda _: _ROW.on_conflict_do_update(
        index_elements=["hour", "name"], set_={"count": statistics.c.count + _ROW.excluded["count"]}
    ),
    [column.name for column in statistics.c],
)


class Statistics:
    """Counts that are gathered here and written down now and then, by as many processes as there are."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._counts: Counter[tuple[int, str]] = Counter()  # by hours since 1970, which cost less than their names

    def count(self, name: str, now: datetime, times: int = 1) -> None:
        """Something happened."""
        self._counts[int(now.timestamp()) // 3600, name] += times

    async def flush(self) -> None:
        """Write down what was counted since the last time."""
        counts, self._counts = self._counts, Counter()
        if not counts:
            return
        named = Counter[tuple[str, str]]()
        for (hour, name), count in counts.items():
            named[stamp(datetime.fromtimestamp(hour * 3600, UTC))[:_HOUR], name] += count
            named[_EVER, name] += count
        written = sorted(named.items())
        rows = [{"hour": hour, "name": name, "count": count} for (hour, name), count in written]
        try:
            await self.database.write(lambda connection: _ADD.run_many(connection, rows))
        except BaseException:
            self._counts.update(counts)
            raise

    async def since(self, when: datetime) -> dict[str, dict[str, int]]:
        """The counts of each hour since then, by name."""
        query = select(statistics).where(statistics.c.hour >= stamp(when)[:_HOUR]).order_by(statistics.c.hour)

        def work(connection: Connection) -> dict[str, dict[str, int]]:
            found: dict[str, dict[str, int]] = {}
            for hour, name, count in connection.execute(query):
                found.setdefault(name, {})[hour] = count
            return found

        return await self.database.read(work)

    async def totals(self) -> dict[str, int]:
        """How often each thing has happened since the beginning."""
        query = select(statistics.c.name, statistics.c.count).where(statistics.c.hour == _EVER)
        return await self.database.read(
            lambda connection: {name: int(count) for name, count in connection.execute(query)}
        )

    async def forget(self, before: datetime) -> None:
        old = delete(statistics).where(statistics.c.hour > _EVER, statistics.c.hour < stamp(before)[:_HOUR])
        await self.database.write(lambda connection: connection.execute(old))
