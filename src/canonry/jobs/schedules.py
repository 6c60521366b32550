"""What workers do by the clock, once however many they are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canonry.jobs.queues import Jobs

KEPT = timedelta(days=2)  # an ended job is remembered so long, so that a period longer than that would be forgotten


@dataclass(frozen=True, slots=True)
class Schedule:
    """A kind of job that is queued once in each period of so many seconds, by whichever worker comes first."""

    kind: str
    every: float

    def __post_init__(self) -> None:
        if not 0 < self.every <= KEPT.total_seconds() / 2:
            raise ValueError(f"{self.kind}: every {self.every} seconds is not between nothing and {KEPT / 2}")

    def enqueue(self, jobs: Jobs, now: float) -> bool:
        """Queue the job of this period; False if it has been, or if the one of an earlier period goes on."""
        return jobs.enqueue_now(self.kind, job_id=f"{self.kind}@{int(now // self.every)}x{self.every:g}")
