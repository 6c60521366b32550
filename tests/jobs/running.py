"""Start workers as real processes, and read the log that their jobs write."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from command import Forked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PROCESS = Path(__file__).with_name("process.py")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job; `end` is None for one that was interrupted."""

    key: str
    pid: int
    start: float
    end: float | None


class Workers:
    """Workers on one database and their logs; `close` leaves no process running."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.killed_at: dict[int, float] = {}
        self._started: list[Forked] = []

    def start(self, *, script: Path = PROCESS, wait: bool = True, **options: float) -> Forked:
        """Start a worker and, with `wait`, return when it takes jobs."""
        output = self.folder / f"errors-{len(self._started)}"
        arguments = (str(script), self.url, str(self.folder), json.dumps(options))
        process = Forked(*arguments, cwd=Path.cwd(), environment=os.environ, out=output, err=output)
        self._started.append(process)
        if wait:
            self.wait_for(lambda: any(pid == process.pid for event, _, pid, _ in self.events() if event == "open"))
        return process

    def wait_for_a_job_of(self, process: Forked) -> None:
        self.wait_for(lambda: any(run.pid == process.pid for run in self.runs()))

    def read_logs(self) -> str:
        """Return what all workers wrote to standard error."""
        return "".join(file.read_text() for file in sorted(self.folder.glob("errors-*")))

    def kill(self, process: Forked) -> None:
        process.kill()
        process.wait()
        self.killed_at[process.pid] = time.monotonic()

    def stop(self, process: Forked) -> int:
        process.terminate()
        return process.wait(240)

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()

    def wait_for(self, is_true: Callable[[], bool], seconds: float = 240.0) -> None:
        deadline = time.monotonic() + seconds
        while not is_true():
            assert time.monotonic() < deadline, self.read_logs()
            time.sleep(0.02)

    def wait_for_all(self, keys: Iterable[object], seconds: float = 240.0) -> None:
        """Wait until the jobs of all these keys have had their effect."""
        missing = {str(key) for key in keys}

        def are_done() -> bool:
            missing.difference_update([key for key in missing if (self.folder / key).exists()])
            return not missing

        self.wait_for(are_done, seconds)

    def events(self) -> list[tuple[str, str, int, float]]:
        """Return the log: event, key, pid, time. A line that was cut short by a kill is left out."""
        file = self.folder / "log"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [(event, key, int(pid), float(when)) for event, key, pid, when in (line.split(" ") for line in lines)]

    def runs(self) -> list[Run]:
        """Return every run of a job, ordered by start."""
        ends = {(key, pid, number): when for key, pid, number, when in self._numbered("end")}
        return [Run(key, pid, when, ends.get((key, pid, number))) for key, pid, number, when in self._numbered("start")]

    def _numbered(self, wanted: str) -> list[tuple[str, int, int, float]]:
        seen: dict[tuple[str, int], int] = {}
        found: list[tuple[str, int, int, float]] = []
        for event, key, pid, when in self.events():
            if event == wanted:
                number = seen[key, pid] = seen.get((key, pid), 0) + 1
                found.append((key, pid, number, when))
        return found

    def most_at_once(self, group: Callable[[Run], object]) -> int:
        """Return the largest number of simultaneous runs in one group; runs of a killed worker end with it."""
        changes: dict[object, list[tuple[float, int]]] = {}
        for run in self.runs():
            end = run.end if run.end is not None else self.killed_at.get(run.pid, time.monotonic())
            changes.setdefault(group(run), []).extend([(run.start, 1), (end, -1)])
        most = 0
        for moments in changes.values():
            running = 0
            for _, change in sorted(moments):
                running += change
                most = max(most, running)
        return most
