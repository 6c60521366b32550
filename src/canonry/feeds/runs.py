"""The log of runs: when each started and finished, and what it counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, insert, update

from canonry.store.schema import runs, stamp

if TYPE_CHECKING:
    from datetime import datetime

    from canonry.store.database import Database

_MAX_RUNS = 10_000


async def start_run(database: Database, now: datetime) -> int:
    """Record the start of a run and return its id; all but the last 10,000 runs are deleted."""

    def work(connection: Connection) -> int:
        inserted = connection.execute(insert(runs).values(started_at=stamp(now)).returning(runs.c.id))
        run_id = int(inserted.scalar_one())
        connection.execute(delete(runs).where(runs.c.id <= run_id - _MAX_RUNS))
        return run_id

    return await database.write(work)


async def finish_run(database: Database, run_id: int, now: datetime, counts: dict[str, int]) -> None:
    """Record the end of a run and what it counted."""
    values = {"finished_at": stamp(now), "counts": json.dumps(counts)}
    await database.write(lambda connection: connection.execute(update(runs).where(runs.c.id == run_id).values(values)))
