"""The last runs: when they began, when they ended, what they counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, insert, update

from canonry.store.schema import runs, stamp

if TYPE_CHECKING:
    from datetime import datetime

    from canonry.store.database import Database

_KEPT = 10_000


async def start_run(database: Database, now: datetime) -> int:
    """Remember that a run began, and forget those that are long over."""

    def work(connection: Connection) -> int:
        made = connection.execute(insert(runs).values(started_at=stamp(now)).returning(runs.c.id))
        run_id = int(made.scalar_one())
        connection.execute(delete(runs).where(runs.c.id <= run_id - _KEPT))
        return run_id

    return await database.write(work)


async def finish_run(database: Database, run_id: int, now: datetime, counts: dict[str, int]) -> None:
    """Remember how it ended."""
    values = {"finished_at": stamp(now), "counts": json.dumps(counts)}
    await database.write(lambda connection: connection.execute(update(runs).where(runs.c.id == run_id).values(values)))
