"""Only processes of this machine that have ended are dead owners."""

from __future__ import annotations

import os
import subprocess
import sys

from canonry.crawler.lease_owners import find_dead_owners, make_owner_id


def test_dead_owners_are_ended_processes_of_this_machine() -> None:
    mine = make_owner_id()
    assert mine != make_owner_id()
    machine, process, started, _ = mine.split(" ")
    assert int(process) == os.getpid()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = f"{machine} {ended.pid} 1 x"
    reused = f"{machine} {process} {int(started) - 1} x"
    elsewhere = f"other/{machine} {ended.pid} 1 x"
    assert find_dead_owners([mine, dead, reused, elsewhere, "me", ""]) == [dead, reused]
