"""Run commands on a pseudo-terminal, as a person sees them."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def run(
    command: list[str], *, cwd: Path | None = None, environment: dict[str, str] | None = None, color: bool = False
) -> str:
    """Return everything that the command prints, without colours unless `color` is set."""
    variables = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    variables |= {"COLUMNS": "200"} | ({} if color else {"NO_COLOR": "1"})  # wide enough for tables in one line
    leader, follower = pty.openpty()
    with subprocess.Popen(
        command, cwd=cwd, stdin=follower, stdout=follower, stderr=follower, env=variables | (environment or {})
    ) as process:
        os.close(follower)
        limit = threading.Timer(240, process.kill)  # a command that does not end must not stop all tests
        limit.start()
        chunks = list(iter(lambda: _read(leader), b""))
        process.wait()
        limit.cancel()
    os.close(leader)
    return b"".join(chunks).decode().replace("\r\n", "\n")


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # how Linux reports that the other end is closed
        return b""
