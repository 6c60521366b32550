"""Heartbeats of workers on PostgreSQL, in a table; all times are from the clock of the database.

SQLite needs none: a file lock proves that there is no other worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

from canonry.jobs.queues import SCHEMA

if TYPE_CHECKING:
    from canonry.store.database import Database

_TABLE = f"{SCHEMA}.workers"
_CREATE = text(f"CREATE TABLE IF NOT EXISTS {_TABLE} (executor_id text PRIMARY KEY, seen_at timestamptz NOT NULL)")
_BEAT = text(
    f"INSERT INTO {_TABLE} VALUES (:id, clock_timestamp())"  # noqa: S608
    " ON CONFLICT (executor_id) DO UPDATE SET seen_at = clock_timestamp()"
)
_FIND_SILENT = text(
    f"SELECT executor_id FROM {_TABLE} WHERE seen_at < clock_timestamp() - make_interval(secs => :seconds)"  # noqa: S608
)
_REMOVE = text(f"DELETE FROM {_TABLE} WHERE executor_id = :id")  # noqa: S608
_REMOVE_OLD = text(f"DELETE FROM {_TABLE} WHERE seen_at < clock_timestamp() - interval '1 day'")  # noqa: S608


class Heartbeat:
    """Records the heartbeat of one worker, and finds workers whose heartbeat has stopped."""

    def __init__(self, database: Database, executor_id: str) -> None:
        self._database = database
        self._id = executor_id
        database.write_now(lambda connection: connection.execute(_CREATE))

    def beat(self) -> None:
        """Record that this worker is alive."""
        self._database.write_now(lambda connection: connection.execute(_BEAT, {"id": self._id}))

    def find_silent(self, seconds: float) -> list[str]:
        """Return the workers without a heartbeat for this long; their rows stay for a day, in case one wakes up."""

        def find(connection: Connection) -> list[str]:
            return list(connection.execute(_FIND_SILENT, {"seconds": seconds}).scalars())

        return self._database.read_now(find)

    def remove_old(self) -> None:
        """Delete the rows of workers that were silent for a day; call it only after their jobs were requeued."""
        self._database.write_now(lambda connection: connection.execute(_REMOVE_OLD))

    def remove(self) -> None:
        """Delete the row of this worker, which has ended and holds no jobs."""
        self._database.write_now(lambda connection: connection.execute(_REMOVE, {"id": self._id}))
