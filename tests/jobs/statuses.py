"""Count jobs by the status that DBOS gives them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from sqlalchemy import text

from canonry.jobs.queues import SCHEMA

if TYPE_CHECKING:
    from canonry.jobs.queues import Jobs


async def count_by_status(jobs: Jobs, kind: str | None = None) -> Counter[str]:
    """Count jobs: ENQUEUED waits, PENDING runs, the others have ended and are not deleted yet."""
    return await asyncio.to_thread(_count, jobs, kind)


def _count(jobs: Jobs, kind: str | None) -> Counter[str]:
    table = "workflow_status" if jobs.file else f"{SCHEMA}.workflow_status"
    condition = "" if kind is None else "WHERE queue_name = :kind"
    query = text(f"SELECT status, COUNT(*) FROM {table} {condition} GROUP BY status")
    counts: Counter[str] = Counter()
    with jobs.engine.connect() as connection:
        for status, count in connection.execute(query, {"kind": kind} if kind else {}):
            counts[status] = count
    return counts
