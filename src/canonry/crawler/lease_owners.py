"""Who takes part in a crawl: a name for this process, by which another can tell that it is gone."""

from __future__ import annotations

import os
import socket
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def make_owner_id() -> str:
    """A name nobody else has: machine, process and chance."""
    return f"{_machine()} {os.getpid()} {_started(os.getpid())} {uuid.uuid4().hex}"


def find_dead_owners(owners: Iterable[str]) -> list[str]:
    """Those that were processes of this machine and are no more; of others only the clock can tell."""
    return [owner for owner in owners if _is_dead(owner)]


def _is_dead(owner: str) -> bool:
    machine, _, rest = owner.partition(" ")
    process, _, started = rest.partition(" ")
    if machine != _machine() or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return bool(started) and started.split(" ")[0] != _started(int(process))


def _machine() -> str:
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()}/{boot}".replace(" ", "-")


def _started(process: int) -> str:
    """When a process began, in the kernel's ticks; a dash where it cannot be known. A zombie has ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "ended" if fields[0] == "Z" else fields[19]
    return "-"
