"""A service for every test, a visitor without JavaScript, and a real browser."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from canonry.server.service import ServiceOptions
from chrome import NO_CHROME
from server.pages.visitor import Visitor
from service import Running, serving

if TYPE_CHECKING:
    from collections.abc import Generator

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # Only these names resolve.
    "--host-resolver-rules=MAP evil.test 127.0.0.1, MAP evil.localhost 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.*, EXCLUDE localhost",
)


@pytest.fixture
def running(request: pytest.FixtureRequest, sqlite_url: str) -> Generator[Running]:
    """A service in personal mode; a module sets RUNS_JOBS = False if it needs no background jobs."""
    options = ServiceOptions(runs_jobs=getattr(request.module, "RUNS_JOBS", True))
    with serving(sqlite_url, options) as found:
        yield found


@pytest.fixture
def visitor(running: Running) -> Visitor:
    return Visitor(running)


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """A real Chromium; skipped if there is none.

    Not for the whole session: while Playwright runs, its event loop does, and no other test could have one.
    """
    found = os.environ.get("CANONRY_CHROME") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(NO_CHROME)
    expect.set_options(timeout=180_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        yield browser
        browser.close()
