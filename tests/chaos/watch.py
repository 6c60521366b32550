"""Find every process of a run by a marker in its environment or command line, and measure its memory.

Chrome gets a different environment and PostgreSQL overwrites its own; both have the folder of the run, which is the
marker, in their command line. A process in the process group of a marked process belongs to the run, too.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1024 * 1024
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Process:
    """A running process."""

    pid: int
    parent: int
    group: int
    command: str
    resident: int  # memory in bytes

    @property
    def kind(self) -> str:
        """What the process is for: `service`, `worker`, `chrome`, …"""
        for kind, text in _KINDS:
            if text in self.command:
                return kind
        return "other"


# Kinds of process, each with a text in its command line; the first match counts.
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
    """Measures memory every second; `peaks` has the largest process of each kind, in bytes."""

    def __init__(self, marker: str) -> None:
        self._marker = marker.encode()
        self._groups: set[int] = set()
        self._is_marked: dict[int, bool] = {}  # by process id
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)
        self.peaks: dict[str, int] = {}
        self.chrome_peak = 0  # of all Chrome processes together, in bytes

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def find_processes(self) -> list[Process]:
        """Return the processes of the run that are running now."""
        with self._lock:
            return self._scan()

    def kill_all(self) -> list[Process]:
        """Kill every process of the run; return the processes that were running."""
        found = self.find_processes()
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        return found

    def _measure(self) -> None:
        while not self._stop.wait(1.0):
            found = self.find_processes()
            for process in found:
                self.peaks[process.kind] = max(self.peaks.get(process.kind, 0), process.resident)
            chrome = sum(process.resident for process in found if process.kind == "chrome")
            self.chrome_peak = max(self.chrome_peak, chrome)

    def _scan(self) -> list[Process]:
        pids = {int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()}
        self._is_marked = {pid: is_marked for pid, is_marked in self._is_marked.items() if pid in pids}
        own_group = os.getpgrp()
        seen: list[tuple[Process, bool]] = []
        for pid in pids - {os.getpid()}:
            with suppress(OSError, ValueError):
                process = _read_process(pid)
                if process is None or process.group == own_group:
                    continue
                # An unmarked process may become marked: a new process is a copy of its parent until it runs its program.
                if not self._is_marked.get(pid):
                    environment = Path(f"/proc/{pid}/environ").read_bytes()
                    self._is_marked[pid] = self._marker in environment or self._marker in process.command.encode()
                seen.append((process, self._is_marked[pid]))
        self._groups |= {process.group for process, is_marked in seen if is_marked}
        return [process for process, is_marked in seen if is_marked or process.group in self._groups]


def _read_process(pid: int) -> Process | None:
    """Read a process from /proc; None for a zombie."""
    folder = Path(f"/proc/{pid}")
    state, parent, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
    if state == "Z":
        return None
    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    resident = int((folder / "statm").read_text().split()[1]) * _PAGE_BYTES
    return Process(pid, int(parent), int(group), command, resident)
