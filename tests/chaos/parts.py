"""The canonry processes of a run, and a supervisor that starts each again when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_POLL_SECONDS = 0.1
_RESTART_SECONDS = 0.5  # pause before a process is started again
CANONRY = [sys.executable, "-m", "canonry"]


class Part:
    """One canonry process, started again until `next_command` returns None.

    `exit_codes` counts the exit codes of the processes that ended without being killed.
    """

    def __init__(
        self, name: str, next_command: Callable[[], list[str] | None], environment: dict[str, str], folder: Path
    ) -> None:
        self.name = name
        self.exit_codes: Counter[int] = Counter()
        self.process: subprocess.Popen[bytes] | None = None
        self.is_over = False
        self._next_command = next_command
        self._environment = environment
        self._folder = folder
        self._log = folder / f"{name}.log"
        self._restart_at = 0.0

    def log(self, text: str) -> None:
        """Write a line with the time to the log of the process."""
        with self._log.open("a") as log:
            log.write(f"--- {datetime.now(UTC):%H:%M:%S.%f} {text}\n")

    def start_if_ended(self) -> None:
        """Start the process if it is not running and the pause since its end is over."""
        if self.is_over:
            return
        if self.process is not None:
            code = self.process.poll()
            if code is None:
                return
            self.log(f"ended with {code}")
            if code != -signal.SIGKILL:
                self.exit_codes[code] += 1
            self.process = None
            self._restart_at = time.monotonic() + _RESTART_SECONDS
        if time.monotonic() < self._restart_at:
            return
        command = self._next_command()
        if command is None:
            self.is_over = True
            return
        self.log(f"canonry {' '.join(command)}")
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*CANONRY, *command],
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C does not reach it, and `Watch` finds its children by their group
            )

    def kill(self) -> bool:
        """Send SIGKILL; return False if the process is not running."""
        process = self.process
        if process is None or process.poll() is not None:
            return False
        process.kill()
        return True

    def stop(self, seconds: float) -> int | None:
        """Send SIGTERM and return the exit code; None if the process did not end in time and was killed."""
        self.is_over = True
        process = self.process
        if process is None:
            return 0
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
            return None


class Supervisor:
    """Keeps all parts running, from a thread."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Supervisor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_restarting()
        for part in self.parts:
            if part.kill() and part.process is not None:
                part.process.wait(10)

    def stop_restarting(self) -> None:
        """Leave the parts as they are from now on."""
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(_POLL_SECONDS):
            for part in self.parts:
                part.start_if_ended()


def make_environment(folder: Path, **settings: str) -> dict[str, str]:
    """Return the environment of the processes: the marker of this run and its settings, and no setting of the user."""
    inherited = {
        name: value for name, value in os.environ.items() if name == "CANONRY_CHROME" or not name.startswith("CANONRY_")
    }
    return {**inherited, "CANONRY_CHAOS": str(folder), "TMPDIR": str(folder), "HOME": str(folder), **settings}
