"""Chrome for tests: skips tests if it is missing, makes engines, and lists the processes that they started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from canonry.errors import CanonryError
from canonry.net.chrome.engine import ChromeEngine
from canonry.net.chrome.process import PACKAGE, find_chrome
from canonry.net.guard import Guard
from canonry.settings import Settings, load_settings
from loopback import ADDRESS, EVERY_PORT, no_names

try:
    find_chrome(load_settings())
    FOUND = True
except CanonryError:
    FOUND = False

NO_CHROME = f"Chrome is not installed (Debian: apt-get install {PACKAGE}) and CANONRY_CHROME names none"
needs_chrome = pytest.mark.skipif(not FOUND, reason=NO_CHROME)


def make_engine(lookup: Any = no_names, **options: Any) -> ChromeEngine:
    """Make an engine that treats 127.0.0.2 as public and waits long enough for a busy machine."""
    guard = options.pop("guard", None) or Guard([f"{ADDRESS}/32"], EVERY_PORT)
    settings = options.pop("settings", None) or Settings(chrome=load_settings().chrome)
    return ChromeEngine(
        settings, guard, lookup, **({"load_seconds": 20.0, "script_seconds": 20.0, "tabs": 2} | options)
    )


def list_processes(group: int) -> dict[int, str]:
    """Return the living processes of a group and their command lines."""
    found: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            state, _, of_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(of_group) == group and state != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # the process ended meanwhile
    return found


def find_browser_process(group: int) -> int:
    """Return the process that starts all others: not the shell, and not a child of Chrome."""
    return next(
        pid for pid, command in list_processes(group).items() if "--type=" not in command and "/bin/sh" not in command
    )
