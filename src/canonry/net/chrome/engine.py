"""The chrome engine: opens pages in a real Chrome whose traffic goes through our guarded proxy (contract C4, C7).

A page costs itself and nothing else: what crashes, hangs or kills the browser is given up with a
reason, and the others go on in a new tab or a new browser.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Self

from canonry.errors import CanonryError, UnsafeUrl
from canonry.net.chrome.pipe import BrowserGone, Refused
from canonry.net.chrome.process import Browser, find_chrome, to_its_end
from canonry.net.chrome.proxy import Proxy
from canonry.net.dns import Lookup, resolve_name
from canonry.net.engine import Opened

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from canonry.net.chrome.relay import Limits
    from canonry.net.chrome.tab import Tab
    from canonry.net.guard import Guard
    from canonry.settings import Settings

TABS = 4
SECONDS = 15.0  # for a page to load
SCRIPT_SECONDS = 5.0  # for its links to be read
PAGES_PER_TAB = 100  # then its memory is given back
_TRIES = 3  # to get a tab
_TAB_SECONDS = 20.0
_LOG = logging.getLogger("canonry.chrome")


class ChromeEngine:
    """Opens pages in the tabs of one Chrome; use it as an async context manager, or close it."""

    name = "chrome"

    def __init__(
        self,
        settings: Settings,
        guard: Guard,
        lookup: Lookup = resolve_name,
        *,
        tabs: int = TABS,
        seconds: float = SECONDS,
        script_seconds: float = SCRIPT_SECONDS,
        pages_per_tab: int = PAGES_PER_TAB,
        limits: Limits | None = None,
    ) -> None:
        self._guard = guard
        self._seconds = seconds
        self._script_seconds = script_seconds
        self._pages_per_tab = pages_per_tab
        self._program = find_chrome(settings)
        self._slots = asyncio.Semaphore(tabs)
        self._starting = asyncio.Lock()
        self._idle: list[Tab] = []
        self._waiting = 0
        self._closing: set[asyncio.Task[None]] = set()
        self._browser: Browser | None = None
        self.proxy = Proxy(settings, guard, lookup=lookup, limits=limits)

    @property
    def process_group(self) -> int | None:
        """Of the Chrome that runs now."""
        return self._browser.group if self._browser is not None else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """No Chrome remains."""
        await to_its_end(self._close_all())

    async def _close_all(self) -> None:
        browser, self._browser = self._browser, None
        while self._idle:
            self._close(self._idle.pop())
        if browser is not None:
            await browser.close()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self.proxy.__aexit__()

    async def open(self, url: str, *, came_from: str | None = None) -> Opened:
        """The page and its links, or the `error` there was; CanonryError only where Chrome does not run."""
        try:
            self._guard.for_links_from(came_from).check_url(url)
        except UnsafeUrl as error:
            return Opened(url, url, 0, error=f"refused: {error.reason}")
        async with self._slot():
            opened, tab = await self._visit(url, came_from)
            if tab.browser_is_gone:
                return await self._visit_alone(url, came_from)
            if tab.was_held_up:
                opened, tab = await self._visit(url, came_from, fresh=True)
                if tab.browser_is_gone:
                    return await self._visit_alone(url, came_from)
            return opened

    @asynccontextmanager
    async def _slot(self) -> AsyncGenerator[None]:
        """One of the tabs; who waits for it keeps the one before from its rest."""
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._slots.release()

    async def _visit(self, url: str, came_from: str | None, *, fresh: bool = False) -> tuple[Opened, Tab]:
        tab = await self._tab(came_from, fresh=fresh)
        try:
            opened = await tab.visit(url, seconds=self._seconds, script_seconds=self._script_seconds)
        except BaseException:
            tab.is_spoiled = True
            raise
        finally:
            self._release(tab)
        return opened, tab

    async def _visit_alone(self, url: str, came_from: str | None) -> Opened:
        """In a browser of its own: who of those that were open has ended the last one?"""
        _LOG.warning("Chrome ended; it is started again")
        async with Browser(self.proxy, program=self._program) as browser:
            with suppress(Refused, BrowserGone):
                tab = await browser.new_tab()
                tab.door.begin(came_from)
                return await tab.visit(url, seconds=self._seconds, script_seconds=self._script_seconds)
        return Opened(url, url, 0, error="Chrome ended while the page was open", is_passing=True)

    async def _tab(self, came_from: str | None, *, fresh: bool) -> Tab:
        """One that may be used for a page that came from there."""
        while self._idle and not fresh:
            tab = self._idle.pop()
            if await tab.wake() and tab.pages < self._pages_per_tab and tab.door.begin(came_from):
                return tab
            self._close(tab)
        reason = ""
        for _ in range(_TRIES):
            browser = await self._running()
            try:
                async with asyncio.timeout(_TAB_SECONDS):
                    tab = await browser.new_tab()
            except (Refused, BrowserGone) as error:
                reason = str(error)
                continue
            except TimeoutError:
                reason = f"not within {_TAB_SECONDS:g} s"
                browser.kill()  # it hangs; the pages that are open get another one
                continue
            tab.door.begin(came_from)
            return tab
        raise CanonryError(f"{self._program} gives no tab: {reason}")

    async def _running(self) -> Browser:
        async with self._starting:
            if self._browser is not None and self._browser.is_gone:
                await self._browser.close()
                self._browser = None
            if self._browser is None:
                browser = Browser(self.proxy, program=self._program)
                await browser.start()
                self._browser = browser
            return self._browser

    def _release(self, tab: Tab) -> None:
        if tab.is_spoiled:
            self._close(tab)
            return
        if not self._waiting:
            tab.rest()
        self._idle.append(tab)

    def _close(self, tab: Tab) -> None:
        task = asyncio.create_task(tab.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
