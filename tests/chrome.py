"""Chrome for tests: found or skipped, and what is left of it in the list of processes."""

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

NO_CHROME = f"no Chrome (Debian: apt-get install {PACKAGE}), and none is named in CANONRY_CHROME"
needs_chrome = pytest.mark.skipif(not FOUND, reason=NO_CHROME)


def engine_of(lookup: Any = no_names, **options: Any) -> ChromeEngine:
    """An engine that takes 127.0.0.2 for public."""
    guard = options.pop("guard", None) or Guard([f"{ADDRESS}/32"], EVERY_PORT)
    settings = options.pop("settings", None) or Settings(chrome=load_settings().chrome)
    return ChromeEngine(settings, guard, lookup, **({"load_seconds": 6.0, "script_seconds": 10.0, "tabs": 2} | options))


def processes_of(group: int) -> dict[int, str]:
    """The processes of a group that are alive, with their commands."""
    found: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            state, _, of_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(of_group) == group and state != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it ended while we looked
    return found


def browser_process(group: int) -> int:
    """The one that starts all others: no shell, no child."""
    return next(
        pid for pid, command in processes_of(group).items() if "--type=" not in command and "/bin/sh" not in command
    )
