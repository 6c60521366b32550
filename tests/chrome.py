"""Chrome for tests: skips tests if it is missing, makes engines, and lists the processes that they started."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from canonry.errors import CanonryError
from canonry.net.chrome.chrome_engine import ChromeEngine
from canonry.net.chrome.process import DEBIAN_PACKAGE, find_chrome
from canonry.net.guard import Guard
from canonry.settings import Settings, load_settings
from loopback import ADDRESS, EVERY_PORT, resolve_nothing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from canonry.errors import FailureKind
    from canonry.net.engine import OpenedPage

try:
    find_chrome(load_settings())
    FOUND = True
except CanonryError:
    FOUND = False

PAGE = "http://site.example/dir/page.html?q=1"
HTML = {"Content-Type": "text/html; charset=utf-8"}
GOOD = f'<title>Good</title><a href="/next">next</a><p>{"text " * 100}'
NO_CHROME = f"Chrome is not installed (Debian: apt-get install {DEBIAN_PACKAGE}) and CANONRY_CHROME names none"
needs_chrome = pytest.mark.skipif(not FOUND, reason=NO_CHROME)


def make_engine(lookup: Any = resolve_nothing, **options: Any) -> ChromeEngine:
    """Make an engine that treats 127.0.0.2 as public and waits long enough for a busy machine."""
    guard = options.pop("guard", None) or Guard([f"{ADDRESS}/32"], EVERY_PORT)
    settings = options.pop("settings", None) or Settings(chrome=load_settings().chrome)
    return ChromeEngine(
        settings, guard, lookup, **({"load_seconds": 20.0, "script_seconds": 20.0, "tabs": 2} | options)
    )


@asynccontextmanager
async def run_engine(lookup: Any = resolve_nothing, **options: Any) -> AsyncIterator[ChromeEngine]:
    """Yield an engine, and check at the end that none of its processes remains."""
    group: int | None = None
    async with make_engine(lookup, **options) as engine:
        yield engine
        group = engine.process_group
    assert group is None or list_processes(group) == {}


def get_kind(opened: OpenedPage) -> FailureKind | None:
    return None if opened.failure is None else opened.failure.kind


def make_page(body: str, **headers: str) -> dict[str, Any]:
    """Return an answer of a loopback web that is an HTML page."""
    return {"body": f"<!doctype html>{body}", "headers": HTML | headers}


def make_redirect(location: str) -> dict[str, Any]:
    return {"status": 302, "headers": {"Location": location, "Access-Control-Allow-Origin": "*"}}


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
