"""Ids for the processes that lease pages, from which another process can tell that the owner is dead."""

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
    """Return a unique id: machine, process, start time of the process, and a random part."""
    return f"{_get_machine()} {os.getpid()} {_read_start_time(os.getpid())} {uuid.uuid4().hex}"


def find_dead_owners(owners: Iterable[str]) -> list[str]:
    """Return the owners that were processes of this machine and have ended.

    Leases of owners on other machines end only by their expiry.
    """
    return [owner for owner in owners if _is_dead(owner)]


def _is_dead(owner: str) -> bool:
    machine, _, rest = owner.partition(" ")
    process, _, started = rest.partition(" ")
    if machine != _get_machine() or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return bool(started) and started.split(" ")[0] != _read_start_time(int(process))


def _get_machine() -> str:
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()}/{boot}".replace(" ", "-")


def _read_start_time(process: int) -> str:
    """Return when a process started, in kernel ticks: "ended" for a zombie, a dash if unknown."""
    with suppress(OSError):
        # See proc_pid_stat(5): the fields after the name begin with the state; the 20th is the start time.
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "ended" if state == "Z" else fields[18]
    return "-"
