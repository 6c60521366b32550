"""Periodic jobs: queued once in each period, however many workers there are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canonry.jobs.queues import Jobs

# How long ended jobs are stored. A job with a longer period would be queued twice in one period.
ENDED_JOBS_RETENTION = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A kind of job that the first worker queues once in each period of `every` seconds."""

    kind: str
    every: float

    def __post_init__(self) -> None:
        longest = ENDED_JOBS_RETENTION / 2
        if not 0 < self.every <= longest.total_seconds():
            raise ValueError(f"{self.kind}: the period must be between 0 and {longest}, not {self.every} seconds")

    def enqueue(self, jobs: Jobs, now: float) -> bool:
        """Queue the job of this period; False if it was queued before or the job of an earlier period still runs."""
        return jobs.enqueue_now(self.kind, job_id=f"{self.kind}@{int(now // self.every)}x{self.every:g}")
