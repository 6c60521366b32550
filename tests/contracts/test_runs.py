"""The log of runs has only the last ones."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import select

from canonry.feeds import runs
from canonry.store.database import Database
from canonry.store.schema import runs as table

if TYPE_CHECKING:
    import pytest

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def test_only_the_last_runs_are_kept(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_MAX_RUNS", 3)
    with Database(database_url) as database:
        ids = [asyncio.run(runs.start_run(database, NOW)) for _ in range(5)]
        asyncio.run(runs.finish_run(database, ids[-1], NOW, {"new": 1}))
        with database.engine.connect() as connection:
            kept = connection.execute(select(table.c.id, table.c.counts).order_by(table.c.id)).all()
    assert [tuple(row) for row in kept] == [(ids[2], "{}"), (ids[3], "{}"), (ids[4], '{"new": 1}')]
