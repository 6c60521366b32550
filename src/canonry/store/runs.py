"""The history of runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert, update

from canonry.store.schema import runs, stamp

if TYPE_CHECKING:
    from datetime import datetime

    from canonry.store.database import Database


async def start_run(database: Database, now: datetime) -> int:
    """Remember that a run began."""

    def work(connection: Connection) -> int:
        made = connection.execute(insert(runs).values(started_at=stamp(now)).returning(runs.c.id))
        return int(made.scalar_one())

    return await database.write(work)


async def finish_run(database: Database, run_id: int, now: datetime, counts: dict[str, int]) -> None:
    """Remember how it ended."""
    values = {"finished_at": stamp(now), "counts": json.dumps(counts)}
    await database.write(lambda connection: connection.execute(update(runs).where(runs.c.id == run_id).values(values)))
