"""The processes of canonry, kept running as a supervisor would keep them: what ends is started again."""

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

_LOOK = 0.1
_PAUSE = 0.5  # seconds before another start
CANONRY = [sys.executable, "-m", "canonry"]


class Part:
    """One process, started again with whatever `command` says until that is None."""

    def __init__(
        self, name: str, command: Callable[[int | None], list[str] | None], environment: dict[str, str], folder: Path
    ) -> None:
        """`command` is asked with how the last one ended: its exit code, None for the first."""
        self.name = name
        self.ends: Counter[int] = Counter()  # exit codes of those that nobody killed
        self.process: subprocess.Popen[bytes] | None = None
        self._command = command
        self._environment = environment
        self._folder = folder
        self._log = folder / f"{name}.log"
        self._code: int | None = None
        self._not_before = 0.0
        self.is_over = False

    def say(self, what: str) -> None:
        """Into its log, between what it says itself."""
        with self._log.open("a") as log:
            log.write(f"--- {datetime.now(UTC):%H:%M:%S.%f} {what}\n")

    def look(self) -> None:
        """Start it if it does not run."""
        if self.is_over:
            return
        if self.process is not None:
            self._code = self.process.poll()
            if self._code is None:
                return
            self.say(f"ended with {self._code}")
            if self._code != -signal.SIGKILL:
                self.ends[self._code] += 1
            self.process = None
            self._not_before = time.monotonic() + _PAUSE
        if time.monotonic() < self._not_before:
            return
        command = self._command(self._code)
        if command is None:
            self.is_over = True
            return
        self.say(f"canonry {' '.join(command)}")
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*CANONRY, *command],
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # so that a Ctrl-C here is ours alone, and its group is known
            )

    def kill(self) -> bool:
        """As `kill -9` does; False where there is nothing to kill."""
        process = self.process
        if process is None or process.poll() is not None:
            return False
        process.kill()
        return True

    def stop(self, seconds: float) -> int | None:
        """Ask it to end; its exit code, None where it did not end in time."""
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
    """Looks after all parts in a thread of its own."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Supervisor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        for part in self.parts:
            if part.kill() and part.process is not None:
                part.process.wait(10)

    def let_go(self) -> None:
        """Start nothing again."""
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK):
            for part in self.parts:
                part.look()


def environment_of(folder: Path, **settings: str) -> dict[str, str]:
    """What the processes get: the mark of this run, its settings, and nothing of ours besides."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CANONRY_")}
    chrome = {name: os.environ[name] for name in ("CANONRY_CHROME",) if name in os.environ}
    return {**kept, **chrome, "CANONRY_CHAOS": str(folder), "TMPDIR": str(folder), "HOME": str(folder), **settings}
