"""The chrome engine: opens pages in a real Chrome whose traffic goes through the guarded proxy (contract C4, C7).

A hostile page does not affect other pages: if it crashes, hangs or kills the browser, its result is a failure, and
the other pages are opened in a new tab or a new browser.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Self

from canonry.errors import CanonryError, FailureKind, UnsafeUrl
from canonry.net.chrome.pipe import BrowserClosed, CommandFailed
from canonry.net.chrome.process import Browser, find_chrome, finish_despite_cancellation
from canonry.net.chrome.proxy import Proxy
from canonry.net.chrome.tab import BROWSER_ENDED
from canonry.net.dns import Lookup, resolve_name
from canonry.net.engine import OpenedPage, PageFailure, ReadOptions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from canonry.net.chrome.relay import ProxyLimits
    from canonry.net.chrome.tab import Tab
    from canonry.net.guard import Guard
    from canonry.net.origin import Origin
    from canonry.settings import Settings

TABS = 4
LOAD_SECONDS = 15.0
SCRIPT_SECONDS = 5.0  # to read the links of a loaded page
PAGES_PER_TAB = 100  # then the tab is closed, which frees its memory
_NEW_TAB_ATTEMPTS = 3
_NEW_TAB_SECONDS = 20.0
_LOG = logging.getLogger("canonry.chrome")


class ChromeEngine:
    """Opens pages in the tabs of one Chrome; an async context manager, or call `close`."""

    name = "chrome"

    def __init__(
        self,
        settings: Settings,
        guard: Guard,
        lookup: Lookup = resolve_name,
        *,
        tabs: int = TABS,
        load_seconds: float = LOAD_SECONDS,
        script_seconds: float = SCRIPT_SECONDS,
        pages_per_tab: int = PAGES_PER_TAB,
        limits: ProxyLimits | None = None,
        options: ReadOptions | None = None,
    ) -> None:
        self._options = options or ReadOptions()
        self._load_seconds = load_seconds
        self._script_seconds = script_seconds
        self._pages_per_tab = pages_per_tab
        self._program = find_chrome(settings)
        self._slots = asyncio.Semaphore(tabs)
        self._starting = asyncio.Lock()
        self._idle_tabs: list[Tab] = []
        self._waiting_count = 0
        self._closing: set[asyncio.Task[None]] = set()
        self._browser: Browser | None = None
        self.proxy = Proxy(settings, guard, lookup=lookup, limits=limits)

    @property
    def process_group(self) -> int | None:
        """The process group of the running Chrome."""
        return self._browser.group if self._browser is not None else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all tabs, end Chrome and close the proxy."""
        await finish_despite_cancellation(self._close_all())

    async def _close_all(self) -> None:
        browser, self._browser = self._browser, None
        while self._idle_tabs:
            self._close_in_background(self._idle_tabs.pop())
        if browser is not None:
            await browser.close()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self.proxy.__aexit__()

    def configure(self, options: ReadOptions) -> ConfiguredChrome:
        """Return an engine that opens pages in this Chrome with other options."""
        return ConfiguredChrome(self, options)

    async def open(self, url: str, *, origin: Origin, options: ReadOptions | None = None) -> OpenedPage:
        """Open a page and return it with its links or its failure; raise CanonryError only if Chrome does not run."""
        options = options or self._options
        try:
            self.proxy.guard.for_origin(origin).check_url(url)
        except UnsafeUrl as error:
            return OpenedPage(url, url, failure=PageFailure(FailureKind.REFUSED, str(error)))
        async with self._acquire_slot():
            opened, tab = await self._visit(url, origin, options)
            if tab.should_retry_in_new_tab and not tab.is_browser_closed:
                opened, tab = await self._visit(url, origin, options, needs_new_tab=True)
            if tab.is_browser_closed:
                return await self._visit_in_new_browser(url, origin, options)
            return opened

    @asynccontextmanager
    async def _acquire_slot(self) -> AsyncGenerator[None]:
        """Acquire a tab slot. While others wait, a released tab starts no idle timer."""
        self._waiting_count += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting_count -= 1
        try:
            yield
        finally:
            self._slots.release()

    async def _visit(
        self, url: str, origin: Origin, options: ReadOptions, *, needs_new_tab: bool = False
    ) -> tuple[OpenedPage, Tab]:
        tab = await self._acquire_tab(origin, needs_new_tab=needs_new_tab)
        try:
            opened = await self._visit_in_tab(tab, url, options)
        except BaseException:
            tab.must_close = True
            raise
        finally:
            self._release(tab)
        return opened, tab

    async def _visit_in_tab(self, tab: Tab, url: str, options: ReadOptions) -> OpenedPage:
        return await tab.visit(
            url, load_seconds=self._load_seconds, script_seconds=self._script_seconds, options=options
        )

    async def _visit_in_new_browser(self, url: str, origin: Origin, options: ReadOptions) -> OpenedPage:
        """Open a page in a separate browser: any of the open pages may have ended the last browser."""
        _LOG.warning("Chrome ended and is started again")
        async with Browser(self.proxy, program=self._program) as browser:
            with suppress(CommandFailed, BrowserClosed):
                tab = await browser.open_tab()
                tab.endpoint.start_page(origin)
                return await self._visit_in_tab(tab, url, options)
        return OpenedPage(url, url, failure=BROWSER_ENDED)

    async def _acquire_tab(self, origin: Origin, *, needs_new_tab: bool) -> Tab:
        """Return an idle tab, or a new one if no idle tab may reach what a page of this origin may reach."""
        while self._idle_tabs and not needs_new_tab:
            tab = self._idle_tabs.pop()
            is_usable = await tab.stop_idle_timer() and tab.page_count < self._pages_per_tab
            if is_usable and tab.endpoint.start_page(origin):
                return tab
            self._close_in_background(tab)
        reason = ""
        for _ in range(_NEW_TAB_ATTEMPTS):
            browser = await self._get_browser()
            try:
                async with asyncio.timeout(_NEW_TAB_SECONDS):
                    tab = await browser.open_tab()
            except (CommandFailed, BrowserClosed) as error:
                reason = str(error)
                continue
            except TimeoutError:
                reason = f"no answer within {_NEW_TAB_SECONDS:g} s"
                browser.kill()  # Chrome hangs; the open pages are opened again in a new one
                continue
            tab.endpoint.start_page(origin)
            return tab
        raise CanonryError(f"{self._program} opens no tab: {reason}")

    async def _get_browser(self) -> Browser:
        """Return the running browser; start one if there is none or the last one has ended."""
        async with self._starting:
            if self._browser is not None and self._browser.is_closed:
                await self._browser.close()
                self._browser = None
            if self._browser is None:
                browser = Browser(self.proxy, program=self._program)
                await browser.start()
                self._browser = browser
            return self._browser

    def _release(self, tab: Tab) -> None:
        if tab.must_close:
            self._close_in_background(tab)
            return
        if not self._waiting_count:
            tab.start_idle_timer()
        self._idle_tabs.append(tab)

    def _close_in_background(self, tab: Tab) -> None:
        task = asyncio.create_task(tab.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class ConfiguredChrome:
    """A running Chrome with the options of one crawl."""

    name = ChromeEngine.name

    def __init__(self, engine: ChromeEngine, options: ReadOptions) -> None:
        self._engine = engine
        self._options = options

    async def open(self, url: str, *, origin: Origin) -> OpenedPage:
        """Open a page in the shared Chrome."""
        return await self._engine.open(url, origin=origin, options=self._options)
