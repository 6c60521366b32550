"""Every process that was started, found by a mark in its environment or command line, and how much memory it has.

Chrome gets an environment of its own and PostgreSQL writes over its: their folders are in the run's folder, and what
belongs to the process group of a marked process is one of them.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1024 * 1024
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Process:
    """A process that is alive."""

    pid: int
    parent: int
    group: int
    command: str
    resident: int  # bytes

    @property
    def kind(self) -> str:
        """What it is to us."""
        for kind, mark in _KINDS:
            if mark in self.command:
                return kind
        return "other"


# The first whose text is in the command line.
_KINDS = (
    ("crawl", "canonry crawl"),
    ("worker", "canonry worker"),
    ("ingest", "canonry ingest"),
    ("service parent", "canonry serve"),
    ("service", "multiprocessing.spawn"),
    ("tracker", "multiprocessing.resource_tracker"),
    ("chrome", "--type="),
    ("chrome", "--remote-debugging-pipe"),
    ("postgres", "postgres"),
    ("redis", "redis-server"),
)


class Watch:
    """Looks every second; `peaks` has the most memory that one process of a kind had, in bytes."""

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode()
        self._groups: set[int] = set()
        self._known: dict[int, bool] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peaks: dict[str, int] = {}
        self.chrome_peak = 0  # all processes of Chrome together

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def alive(self) -> list[Process]:
        """All marked processes there are now."""
        with self._lock:
            return self._look()

    def end_all(self) -> list[Process]:
        """Kill what is there, one by one; what it was."""
        found = self.alive()
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        return found

    def _watch(self) -> None:
        while not self._stop.wait(1.0):
            found = self.alive()
            for process in found:
                self.peaks[process.kind] = max(self.peaks.get(process.kind, 0), process.resident)
            together = sum(process.resident for process in found if process.kind == "chrome")
            self.chrome_peak = max(self.chrome_peak, together)

    def _look(self) -> list[Process]:
        pids = {int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()}
        self._known = {pid: known for pid, known in self._known.items() if pid in pids}
        own_group = os.getpgrp()
        seen: list[tuple[Process, bool]] = []
        for pid in pids - {os.getpid()}:
            with suppress(OSError, ValueError):
                process = _read(pid)
                if process is None or process.group == own_group:
                    continue
                # What is not ours at first may become it: it forks first and is another program then.
                if not self._known.get(pid):
                    environment = Path(f"/proc/{pid}/environ").read_bytes()
                    self._known[pid] = self._mark in environment or self._mark in process.command.encode()
                seen.append((process, self._known[pid]))
        self._groups |= {process.group for process, is_ours in seen if is_ours}
        return [process for process, is_ours in seen if is_ours or process.group in self._groups]


def _read(pid: int) -> Process | None:
    """What /proc has; None for one that has ended and waits to be collected."""
    folder = Path(f"/proc/{pid}")
    state, parent, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
    if state == "Z":
        return None
    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    resident = int((folder / "statm").read_text().split()[1]) * _PAGE
    return Process(pid, int(parent), int(group), command, resident)
