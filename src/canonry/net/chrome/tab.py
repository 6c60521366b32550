"""One tab of Chrome: opens a page, waits until it has loaded, and reads its links (contract C4)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from canonry.errors import FailureKind
from canonry.net.chrome.history_script import HISTORY_SCRIPT
from canonry.net.chrome.interception import Interception
from canonry.net.chrome.link_script import LINK_SCRIPT, ScriptResult, parse_result
from canonry.net.chrome.main_frame import MainFrame
from canonry.net.chrome.net_errors import ABORTED_CODE, make_failure, parse_error_code
from canonry.net.chrome.page_archive import MAX_BODY_BYTES, MAX_BUFFER_BYTES, PageArchive
from canonry.net.chrome.pending_requests import PendingRequests
from canonry.net.chrome.pipe import BROWSER_CLOSED_EVENT, BrowserClosed, CommandFailed, Pipe
from canonry.net.chrome.quiet_script import (
    MAX_SCROLL_TICKS,
    MAX_TICKS,
    MAX_WAIT_SECONDS,
    QUIET_SECONDS,
    TICK_SECONDS,
    make_quiet_script,
)
from canonry.net.engine import ENDLESS_NAVIGATION, WAIT_LOAD, WAIT_QUIET, OpenedPage, PageFailure, ReadOptions
from canonry.net.origin import Origin
from canonry.net.page_facts import Declarations, PageHead, read_declarations
from canonry.net.page_kind import DOWNLOAD, explain_status, has_links
from canonry.net.response import Response, find_host
from canonry.net.visible_text import read_visible_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.net.chrome.proxy import ProxyEndpoint

_MAX_MESSAGE_CHARACTERS = 200
_CLOSE_SECONDS = 2.0
_IDLE_SECONDS = 0.2  # before an unused tab opens a blank page

BROWSER_ENDED = PageFailure(FailureKind.BROWSER, "Chrome ended while the page was open")
_PASSWORD_LOST = PageFailure(FailureKind.BROWSER, "Chrome lost the password of the proxy")
_ABORTED = PageFailure(FailureKind.ABORTED, "Chrome stopped loading before there was an answer")
_CUT_SHORT = PageFailure(FailureKind.DISCONNECTED, "The server sent only part of the page")
_PROXY_REFUSED = PageFailure(FailureKind.NOT_LOADED, "The proxy refused the request")


class TabFailed(Exception):
    """The tab can no longer be used; `failure` says why."""

    def __init__(self, failure: PageFailure) -> None:
        super().__init__(failure)
        self.failure = failure


class Tab:
    """A tab with its own browser context and proxy endpoint.

    After a visit, `must_close` is true if the tab must not be used again, and `should_retry_in_new_tab` if the
    failure may not be the fault of the page.
    """

    def __init__(
        self, pipe: Pipe, endpoint: ProxyEndpoint, *, context: str, target: str, session: str, proxy_token: str
    ) -> None:
        self._pipe = pipe
        self._context = context
        self._frame_id = target  # the main frame has the ID of the target
        self._session = session
        self._proxy_token = proxy_token
        self._frame = self._make_frame()
        self._requests = PendingRequests(self._frame_id)
        self._changed = asyncio.Event()
        self._credentials: tuple[str, str] | None = None
        self._idle_timer: asyncio.Task[None] | None = None
        self._document_check: asyncio.Task[None] | None = None
        self._is_blank = False
        self._options = ReadOptions()
        self._interception = Interception()
        self._archive: PageArchive | None = None
        self.endpoint = endpoint
        self.page_count = 0
        self.must_close = False
        self.should_retry_in_new_tab = False
        self.is_browser_closed = False
        pipe.add_listener(session, self._on_event)

    async def prepare(self, *, login_url: str, credentials: tuple[str, str], user_agent: str) -> None:
        """Enable the events that are needed, and open `login_url` so that Chrome learns the proxy's password."""
        self._credentials = credentials
        for method, params in (
            ("Page.enable", {}),
            ("Inspector.enable", {}),
            ("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0, "maxPostDataSize": 0}),
            ("Network.setBypassServiceWorker", {"bypass": True}),
            ("Emulation.setUserAgentOverride", {"userAgent": user_agent}),
            ("Fetch.enable", {"handleAuthRequests": True}),
            ("Page.addScriptToEvaluateOnNewDocument", {"source": HISTORY_SCRIPT}),
        ):
            self._send(method, **params)
        # Chrome sends no event for a document that is replaced before its commit, so the page must have arrived
        # before the next one is opened.
        try:
            navigation = await self._navigate(login_url)
        except TabFailed as error:
            raise CommandFailed(str(error.failure)) from None
        if error_text := navigation.get("errorText"):
            raise CommandFailed(f"Chrome does not reach the proxy: {error_text}")
        await self._call("Fetch.disable")

    async def close(self) -> None:
        """Close the tab, its browser context and its proxy endpoint."""
        self.must_close = True
        self._pipe.remove_listener(self._session)
        for task in (self._idle_timer, self._document_check):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        with suppress(CommandFailed, BrowserClosed, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._pipe.call("Target.disposeBrowserContext", browserContextId=self._context)
        await self.endpoint.close()

    def start_idle_timer(self) -> None:
        """Open a blank page when the tab stays unused: otherwise scripts of the last page keep using the CPU."""
        self._idle_timer = asyncio.create_task(self._blank_when_idle())

    async def _blank_when_idle(self) -> None:
        await asyncio.sleep(_IDLE_SECONDS)
        self._is_blank = True
        self._frame = self._make_frame()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._navigate("about:blank")
        except (TimeoutError, TabFailed, CommandFailed, BrowserClosed):
            self.must_close = True

    async def stop_idle_timer(self) -> bool:
        """Cancel the idle timer, or wait until the blank page is open; return whether the tab can be used."""
        if self._idle_timer is not None:
            if not self._is_blank:
                self._idle_timer.cancel()
            await asyncio.gather(self._idle_timer, return_exceptions=True)
        self._idle_timer, self._is_blank = None, False
        return not self.must_close and not self.is_browser_closed

    async def visit(
        self, url: str, *, load_seconds: float, script_seconds: float, options: ReadOptions | None = None
    ) -> OpenedPage:
        """Open a page and return it with its links, or with its failure."""
        self.page_count += 1
        self._options = options or ReadOptions()
        self._frame = self._make_frame()
        self._requests = PendingRequests(self._frame_id)
        self._send("Network.clearBrowserCookies")
        self._send("Page.resetNavigationHistory")
        self._interception.start_page(self._options, self._send)
        self._start_archive()
        challenges = self.endpoint.challenge_count
        try:
            opened = await self._visit(url, load_seconds, script_seconds)
        except TabFailed as error:
            self.must_close = True
            # Scripts of the previous page may be the cause of a page that did not arrive, or of a crash.
            is_first = self.page_count == 1
            self.should_retry_in_new_tab = not is_first and (not self._frame.has_arrived or self._frame.is_crashed)
            return self._make_opened_page(url, error.failure)
        except CommandFailed as error:
            self.must_close = True
            return self._make_opened_page(url, PageFailure(FailureKind.BROWSER, f"Chrome refused a command: {error}"))
        except BrowserClosed:
            self.must_close = self.is_browser_closed = True
            return self._make_opened_page(url, BROWSER_ENDED)
        finally:
            if self._archive is not None:
                await self._archive.finish()
        # If Chrome's network process was killed, its requests end without an answer, and the new process does not
        # know the password of the proxy. A new tab sends it again.
        is_challenged = self.endpoint.challenge_count > challenges and opened.failure is not None
        if opened.status == 407 or is_challenged or opened.failure is _ABORTED:
            self.must_close = self.should_retry_in_new_tab = True
        if opened.status == 407 and opened.failure is None:
            return replace(opened, status=0, failure=_PASSWORD_LOST)
        return opened

    def _start_archive(self) -> None:
        """Let Chrome keep the bodies of the next page, if there is an archive for them."""
        archive = self._options.archive
        self._archive = None
        if archive is not None:
            self._archive = PageArchive(archive, self._call, self.endpoint.get_address, self._proxy_token)
            sizes = {"maxTotalBufferSize": MAX_BUFFER_BYTES, "maxResourceBufferSize": MAX_BODY_BYTES}
            self._send("Network.enable", **sizes, maxPostDataSize=0)

    async def _visit(self, url: str, load_seconds: float, script_seconds: float) -> OpenedPage:
        is_late = False
        try:
            async with asyncio.timeout(load_seconds):
                if "#" in url and self.page_count > 1:  # from the same page, Chrome would only scroll to the fragment
                    await self._navigate("about:blank")
                    self._frame = self._make_frame()
                navigation = await self._navigate(url)
                if navigation.get("errorText") or navigation.get("isDownload"):
                    return self._make_opened_page(url, self._explain_navigation(navigation))
        except TimeoutError:
            if not self._frame.has_arrived:
                failure = PageFailure(FailureKind.TIMEOUT, f"The page did not arrive within {load_seconds:g} s")
                raise TabFailed(failure) from None
            is_late = True
        while True:
            if unreachable := self._frame.unreachable_url:
                shown = unreachable[:_MAX_MESSAGE_CHARACTERS]
                not_loaded = PageFailure(FailureKind.NOT_LOADED, f"Chrome could not open the page: {shown}")
                failure = self.endpoint.find_failure(unreachable) or self._explain_empty_error() or not_loaded
                return self._make_opened_page(url, failure)
            if self._frame.document.is_from_proxy:
                failure = self.endpoint.find_failure(self._frame.document.url) or _PROXY_REFUSED
                return self._make_opened_page(url, failure)
            loader_id = self._frame.loader_id
            is_quiet = False if is_late else await self._wait_for_content()
            try:
                async with asyncio.timeout(script_seconds):
                    result = await self._read_document(loader_id, script_seconds)
            except TimeoutError:
                if awaited := self._frame.awaited_url:  # until it arrives, Chrome does not answer
                    detail = f"The page leads to another one that did not arrive: {awaited[:_MAX_MESSAGE_CHARACTERS]}"
                    raise TabFailed(PageFailure(FailureKind.TIMEOUT, detail)) from None
                detail = f"Scripts of the page did not stop: its links could not be read within {script_seconds:g} s"
                raise TabFailed(PageFailure(FailureKind.SCRIPT_TIMEOUT, detail)) from None
            if result is not None:
                page = self._make_page(url, result, load_seconds, is_late=is_late)
                return page if is_quiet else replace(page, is_still_changing=True)
            if is_late:
                raise TabFailed(ENDLESS_NAVIGATION)
            try:  # another document has replaced the one that was read: wait for it, and read it instead
                async with asyncio.timeout(load_seconds):
                    await self._wait_until(self._frame.is_settled)
            except TimeoutError:
                is_late = True

    async def _navigate(self, url: str) -> dict[str, Any]:
        """Open a URL, wait until the page has loaded, and return Chrome's result of `Page.navigate`."""
        navigation = await self._call_page("Page.navigate", url=url)
        if not (navigation.get("errorText") or navigation.get("isDownload")):
            self._frame.requested_loader = str(navigation.get("loaderId", ""))
            await self._wait_until(self._frame.is_settled)
        return navigation

    async def _call_page(self, method: str, **params: object) -> dict[str, Any]:
        """Send a command and return its result; raise TabFailed for a tab that will never answer."""
        result = asyncio.ensure_future(self._call(method, **params))
        result.add_done_callback(lambda _: self._changed.set())
        try:
            await self._wait_until(result.done)
            return result.result()
        finally:
            result.cancel()
            await asyncio.gather(result, return_exceptions=True)

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while True:
            if self.is_browser_closed:
                raise BrowserClosed
            if self._frame.failure is not None:
                raise TabFailed(self._frame.failure)
            if condition():
                return
            self._changed.clear()
            await self._changed.wait()

    async def _check_current_document(self) -> None:
        """Ask Chrome for the current document: it sends no event for one that replaces an uncommitted one."""
        state = self._frame
        with suppress(CommandFailed, BrowserClosed):
            frame = (await self._call("Page.getFrameTree"))["frameTree"]["frame"]
            loader_id = frame["loaderId"]
            if state is self._frame and loader_id in state.documents and loader_id not in state.committed:
                state.commit(frame)
                state.is_loading = False
                self._changed.set()

    async def _wait_for_content(self) -> bool:
        """Wait as the options say, for a limited time; return False if the page was still changing at its end."""
        wait, scrolls = self._options.wait, self._options.scroll
        if wait == WAIT_LOAD and not scrolls:
            return True
        selector = "" if wait in {WAIT_LOAD, WAIT_QUIET} else wait
        ticks = MAX_SCROLL_TICKS if scrolls else MAX_TICKS
        loader_id = self._frame.loader_id
        try:
            async with asyncio.timeout(max(MAX_WAIT_SECONDS, ticks * TICK_SECONDS)):
                while ticks > 0:
                    script = make_quiet_script(max_ticks=ticks, selector=selector, scrolls=scrolls)
                    answer = await self._evaluate(script, awaitPromise=True)
                    state, used = answer.get("result", {}).get("value") or ("changing", ticks)
                    if state == "invalid":
                        detail = f"The selector to wait for is not valid CSS: {selector[:_MAX_MESSAGE_CHARACTERS]}"
                        raise TabFailed(PageFailure(FailureKind.SELECTOR, detail))
                    is_silent = self._requests.is_quiet(asyncio.get_running_loop().time(), QUIET_SECONDS)
                    if state == "quiet" and (selector or not used or is_silent):
                        return True
                    ticks -= used
        except TimeoutError:
            return False
        except CommandFailed:  # another document replaces this one: the caller finds out
            return self._frame.loader_id == loader_id
        return False

    async def _evaluate(self, script: str, **params: object) -> dict[str, Any]:
        """Run a script in an isolated world of the current document and return Chrome's answer."""
        world = await self._call_page("Page.createIsolatedWorld", frameId=self._frame_id, worldName="canonry")
        context = world["executionContextId"]
        return await self._call_page(
            "Runtime.evaluate", expression=script, contextId=context, returnByValue=True, **params
        )

    async def _read_document(self, loader_id: str, script_seconds: float) -> ScriptResult | None:
        """Run the script in the document of `loader_id`; return None if another one has replaced it or will do so."""
        if self._frame.loader_id != loader_id or self._frame.is_leaving:
            return None
        try:
            answer = await self._evaluate(LINK_SCRIPT, timeout=script_seconds * 1000)
        except CommandFailed as error:
            if self._frame.loader_id != loader_id or self._frame.is_leaving:
                return None
            raise TabFailed(_make_script_failure(str(error))) from None
        if self._frame.loader_id != loader_id:
            return None
        if thrown := answer.get("exceptionDetails"):
            message = thrown.get("exception", {}).get("description") or thrown.get("text", "")
            raise TabFailed(_make_script_failure(message))
        return parse_result(answer["result"]["value"])

    def _make_page(self, url: str, result: ScriptResult, load_seconds: float, *, is_late: bool) -> OpenedPage:
        if result.ready_state == "loading":  # an incomplete document has incomplete links
            if is_late:
                detail = f"The page did not load completely within {load_seconds:g} s"
                return self._make_opened_page(url, PageFailure(FailureKind.TIMEOUT, detail))
            if not self._frame.document.is_complete:  # otherwise a script writes to it, and does not close it
                return self._make_opened_page(url, _CUT_SHORT)
        failure = None
        if result.skipped_links:
            count = len(result.links) + len(result.added_links)
            detail = f"Only the first {count} links were read, {result.skipped_links} were not"
            failure = PageFailure(FailureKind.TRUNCATED, detail)
        status = self._frame.document.status
        opened = self._make_opened_page(url, explain_status(status) or failure)
        opened = replace(opened, size=result.size)
        if status and not has_links(status):
            return opened
        declared = self._read_declarations(result.head)
        return replace(
            opened,
            title=result.title,
            links=result.links,
            added_links=result.added_links,
            text=read_visible_text(result.html.encode(), "text/html; charset=utf-8"),
            **declared._asdict(),
        )

    def _read_declarations(self, head: PageHead) -> Declarations:
        document = self._frame.document
        return read_declarations(
            head, url=document.url, link_header=document.link_header, robots_header=document.robots_header
        )

    def _make_opened_page(self, url: str, failure: PageFailure | None) -> OpenedPage:
        document = self._frame.document
        address = self.endpoint.get_address(document.url)
        return OpenedPage(
            requested_url=url,
            final_url=document.url or url,
            status=0 if document.is_from_proxy else document.status,
            content_type=document.content_type,
            validators=document.validators,
            hops=self._frame.list_hops(),
            address=address,
            retry_after=Response(0, "", {"retry-after": document.retry_after}).retry_after(datetime.now(UTC)),
            failure=failure,
            first_status=self._frame.first_status,
            origin=Origin.from_server(address or find_host(document.url)),
        )

    def _explain_navigation(self, navigation: dict[str, Any]) -> PageFailure:
        """Return why `Page.navigate` opened no page."""
        if navigation.get("isDownload"):
            return DOWNLOAD
        code = parse_error_code(str(navigation.get("errorText", "")))
        if code == ABORTED_CODE:
            status = self._frame.document.status
            no_content = PageFailure(FailureKind.NO_CONTENT, f"The server sent no page (status {status})")
            return explain_status(status) or (no_content if status else _ABORTED)
        failure = self.endpoint.find_failure(self._frame.document.url)
        return failure or self._explain_empty_error() or make_failure(code)

    def _explain_empty_error(self) -> PageFailure | None:
        """Return the failure for an error status without a body, for which Chrome shows a page of its own."""
        document = self._frame.document
        return None if document.is_from_proxy else explain_status(document.status)

    def _make_frame(self) -> MainFrame:
        return MainFrame(self._frame_id, self._proxy_token)

    def _on_event(self, method: str, params: dict[str, Any]) -> None:
        frame = self._frame
        self._requests.update(method, params, asyncio.get_running_loop().time())
        if self._archive is not None:
            self._archive.update(method, params)
        concerns_frame = frame.update(method, params)
        if method == BROWSER_CLOSED_EVENT:
            self.is_browser_closed = concerns_frame = True
        match method:
            case "Page.frameStoppedLoading" if concerns_frame and (not frame.has_arrived or frame.is_leaving):
                self._document_check = asyncio.create_task(self._check_current_document())
            case "Page.javascriptDialogOpening":
                self._send("Page.handleJavaScriptDialog", accept=params["type"] == "beforeunload")
            case "Fetch.requestPaused":
                self._interception.answer(params, self._send)
            case "Fetch.authRequired":
                self._answer_auth_challenge(params)
            case _:
                pass
        if concerns_frame:
            self._changed.set()

    def _answer_auth_challenge(self, params: dict[str, Any]) -> None:
        user, password = self._credentials or ("", "")
        is_proxy = params["authChallenge"].get("source") == "Proxy"
        credentials = {"response": "ProvideCredentials", "username": user, "password": password}
        self._send(
            "Fetch.continueWithAuth",
            requestId=params["requestId"],
            authChallengeResponse=credentials if is_proxy else {"response": "CancelAuth"},
        )
        # A second challenge means that the password was wrong; it is answered with empty credentials, which ends it.
        self._credentials = None

    async def _call(self, method: str, **params: object) -> dict[str, Any]:
        return await self._pipe.call(method, self._session, **params)

    def _send(self, method: str, **params: object) -> None:
        self._pipe.send(method, self._session, **params)


def _make_script_failure(message: str) -> PageFailure:
    shown = message[:_MAX_MESSAGE_CHARACTERS]
    return PageFailure(FailureKind.BROWSER, f"The links of the page could not be read: {shown}")
