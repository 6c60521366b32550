"""One tab of Chrome: it opens a page, waits for it, and reads its links (contract C4)."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from canonry.net.chrome.page_state import CRASHED, Page
from canonry.net.chrome.pipe import BrowserGone, Pipe, Refused
from canonry.net.engine import Link, Opened
from canonry.net.response import Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.net.chrome.proxy import Door

MAX_LINKS = 10_000
_MAX_LINK = 100_000  # characters of one reference; longer ones hold data
_MAX_TEXT = 8_000_000  # characters of all references together
_CLOSE_SECONDS = 2.0
_REST_AFTER = 0.2  # seconds
_BROKEN_OFF = "no page (status 0)"
# What another try may change: the network, or Chrome, whose processes may have been killed.
_PASSING = (
    *("no connection", "no answer", "no page within", "not loaded to its end", "the connection was closed"),
    *("Chrome ended", "Chrome refused", "its links cannot be read", "the tab was closed", CRASHED, _BROKEN_OFF),
    *(f"not opened: ERR_{each}" for each in ("CONNECTION", "FAILED", "NETWORK", "PROXY", "SOCKET", "TUNNEL")),
)
_HINTS = {"ERR_CERT_AUTHORITY_INVALID": " (CANONRY_CA_FILE can name the CA to trust)"}
# In a world of its own the page's scripts cannot change what these words mean. Its elements still can: an
# <img name=title> hides document.title, so properties are taken from the prototypes.
_SCRIPT = """(() => {
  const all = Document.prototype.querySelectorAll.call(document, 'a[href]');
  const of = (kind, name) => Reflect.get(kind.prototype, name, document);
  const links = [];
  let room = %(room)d, left = all.length;
  for (const a of all) {
    left -= 1;
    const href = a.getAttribute('href');
    if (href.length > %(longest)d) continue;
    let url = a.href;
    if (typeof url !== 'string') {
      if (!(a instanceof SVGElement)) continue;
      try { url = new URL(href, of(Node, 'baseURI')).href; } catch { continue; }
    }
    room -= href.length + url.length;
    if (room < 0 || links.length >= %(most)d) { left += 1; break; }
    const text = [...a.textContent.trim().slice(0, 100)].slice(0, 50).join('');
    links.push([href.toWellFormed(), url.toWellFormed(), text.toWellFormed()]);
  }
  const title = of(Document, 'title').slice(0, 1000).toWellFormed();
  return JSON.stringify([of(Document, 'readyState'), title, left, links]);
})()"""


class TabLost(Exception):
    """The tab can no longer be used."""


class Tab:
    """A tab behind a door of its own; `is_spoiled` when it must not be used again.

    `was_held_up` when the page may not be to blame for that.
    """

    def __init__(self, pipe: Pipe, door: Door, *, context: str, target: str, session: str, mark: str) -> None:
        self._pipe = pipe
        self._context = context
        self._frame = target  # the main frame has the name of the target
        self._session = session
        self._mark = mark
        self._page = Page(self._frame, self._mark)
        self._changed = asyncio.Event()
        self._credentials: tuple[str, str] | None = None
        self._resting: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._is_blank = False
        self.door = door
        self.pages = 0
        self.is_spoiled = False
        self.was_held_up = False
        self.browser_is_gone = False
        pipe.listen(session, self._on_event)

    async def prepare(self, *, hello: str, credentials: tuple[str, str], user_agent: str) -> None:
        """Switch on what is needed, and let Chrome learn the password of the proxy by opening `hello`."""
        self._credentials = credentials
        for method, params in (
            ("Page.enable", {}),
            ("Inspector.enable", {}),
            ("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0, "maxPostDataSize": 0}),
            ("Network.setBypassServiceWorker", {"bypass": True}),
            ("Emulation.setUserAgentOverride", {"userAgent": user_agent}),
            ("Fetch.enable", {"handleAuthRequests": True}),
        ):
            self._tell(method, **params)
        # A page that takes the place of one that has not quite come is not told of, so each is waited for.
        if error := (await self._come(hello)).get("errorText"):
            raise Refused(f"the proxy is not reached: {error}")
        await self._ask("Fetch.disable")

    async def close(self) -> None:
        """The context goes, and its door."""
        self.is_spoiled = True
        self._pipe.forget(self._session)
        for task in (self._resting, self._looking):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        with suppress(Refused, BrowserGone, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._pipe.ask("Target.disposeBrowserContext", browserContextId=self._context)
        await self.door.close()

    def rest(self) -> None:
        """Let go of the page, unless another one comes soon: its scripts have nothing more to do."""
        self._resting = asyncio.create_task(self._rest())

    async def _rest(self) -> None:
        await asyncio.sleep(_REST_AFTER)
        self._is_blank = True
        self._page = Page(self._frame, self._mark)
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._come("about:blank")
        except (TimeoutError, TabLost, Refused, BrowserGone):
            self.is_spoiled = True

    async def wake(self) -> bool:
        """Whether the tab can be used after its rest."""
        if self._resting is not None:
            if not self._is_blank:
                self._resting.cancel()
            await asyncio.gather(self._resting, return_exceptions=True)
        self._resting, self._is_blank = None, False
        return not self.is_spoiled and not self.browser_is_gone

    async def visit(self, url: str, *, seconds: float, script_seconds: float) -> Opened:
        """The page with its links, or why there are none."""
        self.pages += 1
        self._page = Page(self._frame, self._mark)
        self._tell("Network.clearBrowserCookies")
        challenges = self.door.challenges
        try:
            opened = await self._visit(url, seconds, script_seconds)
        except TabLost as lost:
            self.is_spoiled = True
            # What the page before has left running may be to blame for a page that did not come, or a crash.
            self.was_held_up = self.pages > 1 and (not self._page.has_come or self._page.is_crashed)
            return self._opened(url, error=str(lost))
        except Refused as refused:
            self.is_spoiled = True
            return self._opened(url, error=f"Chrome refused: {refused}")
        except BrowserGone:
            self.is_spoiled = self.browser_is_gone = True
            return self._opened(url, error="Chrome ended while the page was open")
        # Chrome's process for the network may have been killed: what it was doing is broken off without an answer,
        # and the next one does not know the password of the proxy. A new tab tells it.
        is_unknown = opened.status == 407 or (self.door.challenges > challenges and opened.error != "")
        if is_unknown or opened.error == _BROKEN_OFF:
            self.is_spoiled = self.was_held_up = True
        if is_unknown and not opened.error:
            return replace(opened, status=0, error="no answer: the proxy's password was lost", is_passing=True)
        return opened

    async def _visit(self, url: str, seconds: float, script_seconds: float) -> Opened:
        is_late = False
        try:
            async with asyncio.timeout(seconds):
                started = await self._come(url)
                if started.get("errorText") or started.get("isDownload"):
                    return self._opened(url, error=self._why(started))
        except TimeoutError:
            if not self._page.has_come:
                raise TabLost(f"no page within {seconds:g} s") from None
            is_late = True
        while True:
            if self._page.unreachable:
                return self._opened(url, error=self._why_unreachable())
            if self._page.document.is_from_proxy:
                return self._opened(url, error=self.door.why(self._page.document.url) or "refused by the proxy")
            try:
                async with asyncio.timeout(script_seconds):
                    read = await self._read(script_seconds)
            except TimeoutError:
                raise TabLost(f"its scripts do not stop: no links within {script_seconds:g} s") from None
            if read is not None:
                return self._found(url, read, f"not loaded to its end within {seconds:g} s")
            if is_late:
                raise TabLost("it goes on to another page again and again")
            try:  # another document has come: that one is the page
                async with asyncio.timeout(seconds):
                    await self._until(self._page.is_settled)
            except TimeoutError:
                is_late = True

    async def _come(self, url: str) -> dict[str, Any]:
        """Open a page and wait until it is there; what Chrome says about it."""
        started = await self._answer("Page.navigate", url=url)
        if not (started.get("errorText") or started.get("isDownload")):
            self._page.first = str(started.get("loaderId", ""))
            await self._until(self._page.is_settled)
        return started

    async def _answer(self, method: str, **params: object) -> dict[str, Any]:
        """What the page answers, or what ends the tab before: one that has crashed never answers."""
        asking = asyncio.ensure_future(self._ask(method, **params))
        asking.add_done_callback(lambda _: self._changed.set())
        try:
            await self._until(asking.done)
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while True:
            if self.browser_is_gone:
                raise BrowserGone("the browser has ended")
            if self._page.lost:
                raise TabLost(self._page.lost)
            if holds():
                return
            self._changed.clear()
            await self._changed.wait()

    async def _look(self) -> None:
        """Which document is there? Chrome tells of each, except of one that another takes the place of."""
        page = self._page
        with suppress(Refused, BrowserGone):
            frame = (await self._ask("Page.getFrameTree"))["frameTree"]["frame"]
            if page is self._page and frame["loaderId"] in page.documents and frame["loaderId"] not in page.committed:
                page.commit(frame)
                page.is_loading = False
                self._changed.set()

    async def _read(self, script_seconds: float) -> list[Any] | None:
        """What the script found; None where the document was another one before it came to an end."""
        loader = self._page.loader
        try:
            world = await self._answer("Page.createIsolatedWorld", frameId=self._frame, worldName="canonry")
            if self._page.loader != loader:
                return None
            answer = await self._answer(
                "Runtime.evaluate",
                expression=_SCRIPT % {"most": MAX_LINKS, "longest": _MAX_LINK, "room": _MAX_TEXT},
                contextId=world["executionContextId"],
                returnByValue=True,
                timeout=script_seconds * 1000,
            )
        except Refused as refused:
            if self._page.loader != loader or self._page.is_leaving:
                return None
            raise TabLost(f"its links cannot be read: {refused}") from None
        if self._page.loader != loader:
            return None
        if thrown := answer.get("exceptionDetails"):
            said = thrown.get("exception", {}).get("description") or thrown.get("text", "")
            raise TabLost(f"its links cannot be read: {said[:200]}")
        return cast("list[Any]", json.loads(answer["result"]["value"]))

    def _found(self, url: str, read: list[Any], unfinished: str) -> Opened:
        state, title, left, links = read
        if state == "loading":  # half of a document has half of the links
            return self._opened(url, error=unfinished)
        error = f"only the first {len(links)} links were read, {left} were not" if left else ""
        return self._opened(url, error=error, title=" ".join(title.split()), links=tuple(Link(*link) for link in links))

    def _opened(self, url: str, *, error: str = "", title: str = "", links: tuple[Link, ...] = ()) -> Opened:
        document = self._page.document
        return Opened(
            requested_url=url,
            final_url=document.url or url,
            status=0 if document.is_from_proxy else document.status,
            title=title,
            links=links,
            error=error,
            content_type=document.content_type,
            hops=self._page.hops(),
            address=self.door.address_of(document.url),
            retry_after=Response(0, "", {"retry-after": document.retry_after}).retry_after(datetime.now(UTC)),
            is_passing=error.startswith(_PASSING),
        )

    def _why(self, started: dict[str, Any]) -> str:
        text = str(started.get("errorText", "")).removeprefix("net::")
        if started.get("isDownload"):
            return "a download, not a page"
        if text == "ERR_ABORTED":
            return f"no page (status {self._page.document.status})"
        hint = _HINTS.get(text, "")
        return self.door.why(self._page.document.url) or f"not opened: {text}{hint}"

    def _why_unreachable(self) -> str:
        return self.door.why(self._page.unreachable) or f"not opened: {self._page.unreachable[:200]}"

    def _on_event(self, method: str, params: dict[str, Any]) -> None:
        page = self._page
        is_news = page.take(method, params)
        match method:
            case "Page.frameStoppedLoading" if is_news and (not page.has_come or page.is_leaving):
                self._looking = asyncio.create_task(self._look())
            case "Page.javascriptDialogOpening":
                self._tell("Page.handleJavaScriptDialog", accept=params["type"] == "beforeunload")
            case "Fetch.requestPaused":
                self._tell("Fetch.continueRequest", requestId=params["requestId"])
            case "Fetch.authRequired":
                self._on_password(params)
            case "canonry.gone":
                self.browser_is_gone = True
            case _ if not is_news:
                return
            case _:
                pass
        self._changed.set()

    def _on_password(self, params: dict[str, Any]) -> None:
        user, password = self._credentials or ("", "")
        is_proxy = params["authChallenge"].get("source") == "Proxy"
        answer = {"response": "ProvideCredentials", "username": user, "password": password}
        self._tell(
            "Fetch.continueWithAuth",
            requestId=params["requestId"],
            authChallengeResponse=answer if is_proxy else {"response": "CancelAuth"},
        )
        # A second question means a wrong answer; there is no third.
        self._credentials = None

    async def _ask(self, method: str, **params: object) -> dict[str, Any]:
        return await self._pipe.ask(method, self._session, **params)

    def _tell(self, method: str, **params: object) -> None:
        self._pipe.tell(method, self._session, **params)
