"""Which workers live: each says so in a table of PostgreSQL, whose clock is the one that counts.

SQLite needs none of it: a lock on a file says that there is no other worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

from canonry.jobs.queues import SCHEMA

if TYPE_CHECKING:
    from canonry.store.database import Database

_TABLE = f"{SCHEMA}.workers"
_MAKE = text(f"CREATE TABLE IF NOT EXISTS {_TABLE} (executor_id text PRIMARY KEY, seen_at timestamptz NOT NULL)")
_BEAT = text(
    f"INSERT INTO {_TABLE} VALUES (:id, clock_timestamp())"  # noqa: S608
    " ON CONFLICT (executor_id) DO UPDATE SET seen_at = clock_timestamp()"
)
_SILENT = text(
    f"SELECT executor_id FROM {_TABLE} WHERE seen_at < clock_timestamp() - make_interval(secs => :seconds)"  # noqa: S608
)
_LEAVE = text(f"DELETE FROM {_TABLE} WHERE executor_id = :id")  # noqa: S608
_FORGET = text(f"DELETE FROM {_TABLE} WHERE seen_at < clock_timestamp() - interval '1 day'")  # noqa: S608


class Heartbeat:
    """The sign of life of one worker, and the silence of others."""

    def __init__(self, database: Database, executor_id: str) -> None:
        self._database = database
        self._id = executor_id
        database.write_now(lambda connection: connection.execute(_MAKE))

    def beat(self) -> None:
        """Say that this worker lives."""
        self._database.write_now(lambda connection: connection.execute(_BEAT, {"id": self._id}))

    def silent(self, seconds: float) -> list[str]:
        """The workers that have said nothing for this long; the row of one stays, should it wake up, for a day."""

        def look(connection: Connection) -> list[str]:
            return list(connection.execute(_SILENT, {"seconds": seconds}).scalars())

        return self._database.read_now(look)

    def forget_old(self) -> None:
        """Drop the rows of workers silent for a day; only after their jobs were given back, which nobody else does."""
        self._database.write_now(lambda connection: connection.execute(_FORGET))

    def leave(self) -> None:
        """This worker has ended and left no jobs."""
        self._database.write_now(lambda connection: connection.execute(_LEAVE, {"id": self._id}))
