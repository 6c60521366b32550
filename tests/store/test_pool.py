"""The connections of a store to PostgreSQL: their number and the name that operators see."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

from canonry.jobs.queues import Jobs
from canonry.store.database import Database

if TYPE_CHECKING:
    import pytest

_NAMES = text("SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = current_database()")


def _list_names(database: Database) -> set[str]:
    return database.read_now(lambda connection: set(connection.execute(_NAMES).scalars()))


def test_connections_have_a_name(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGAPPNAME", raising=False)
    with Database(postgres_url) as database, closing(Jobs(database)) as jobs:
        asyncio.run(jobs.measure_queues())
        assert _list_names(database) >= {"canonry", "canonry jobs"}
    separator = "&" if "?" in postgres_url else "?"
    with Database(f"{postgres_url}{separator}application_name=mine") as database:
        assert "mine" in _list_names(database)


def test_half_of_the_pool_reads_and_half_writes(postgres_url: str) -> None:
    """Three of six connections are in use at the same time for each."""
    all_there = threading.Barrier(3)

    def wait(_: Connection) -> int:
        return all_there.wait(60)

    async def use(database: Database) -> None:
        for run in (database.read, database.write):
            assert sorted(await asyncio.gather(*(run(wait) for _ in range(3)))) == [0, 1, 2]

    with Database(postgres_url, pool=6) as database:
        assert database.engine.pool.size() == 6  # type: ignore[attr-defined]
        asyncio.run(use(database))
