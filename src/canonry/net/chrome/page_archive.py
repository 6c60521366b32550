"""The requests of one tab for an archive, from Chrome's network events.

Bodies are read when they are complete, because Chrome drops them when the next page is opened. Answers from Chrome's
cache were archived when they were received.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from canonry.errors import CanonryError
from canonry.net.charset import detect_charset
from canonry.net.chrome.http_heads import has_proxy_token
from canonry.net.chrome.pipe import BrowserClosed, CommandFailed
from canonry.net.html import is_html
from canonry.net.http_exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from canonry.net.http_exchange import Archive, Headers

MAX_BUFFER_BYTES = 64 * 2**20  # that Chrome keeps of all bodies of a page
MAX_BODY_BYTES = 16 * 2**20
_FINISH_SECONDS = 10.0
_LOG = logging.getLogger("canonry.chrome")


@dataclass(slots=True)
class _Request:
    """A request that is under way; `response` is Chrome's description of the answer."""

    url: str
    method: str
    headers: Headers
    began_at: datetime
    response: dict[str, Any] | None = None
    is_cached: bool = False

    @property
    def content_type(self) -> str:
        headers: dict[str, str] = {} if self.response is None else self.response["headers"]
        return next((value for name, value in headers.items() if name.lower() == "content-type"), "")


class PageArchive:
    """Collects the exchanges of a tab and adds them to an archive."""

    def __init__(
        self,
        archive: Archive,
        call: Callable[..., Awaitable[dict[str, Any]]],
        get_address: Callable[[str], str],
        proxy_token: str,
    ) -> None:
        self._archive = archive
        self._call = call
        self._get_address = get_address
        self._proxy_token = proxy_token
        self._requests: dict[str, _Request] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: CanonryError | None = None  # of the archive

    def update(self, method: str, params: dict[str, Any]) -> None:
        """Apply an event of the tab."""
        match method:
            case "Network.requestWillBeSent":
                self._begin(params)
            case "Network.requestServedFromCache" if params["requestId"] in self._requests:
                self._requests[params["requestId"]].is_cached = True
            case "Network.responseReceived" if params["requestId"] in self._requests:
                self._requests[params["requestId"]].response = params["response"]
            case "Network.loadingFinished":
                self._end(params["requestId"])
            case "Network.loadingFailed":
                self._end(params["requestId"], is_cut=True)
            case _:
                pass

    async def finish(self) -> None:
        """Wait until all complete answers are archived, for a limited time; raise what the archive raised."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_SECONDS):
                while self._tasks:
                    await asyncio.gather(*self._tasks, return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        if self._error is not None:
            raise self._error

    def _begin(self, params: dict[str, Any]) -> None:
        request_id, request = params["requestId"], params["request"]
        if redirect := params.get("redirectResponse"):
            before = self._requests.pop(request_id, None)
            if before is not None:
                before.response = redirect
                self._start(self._add(before, b"", is_cut=False))
        if request["url"].startswith(("http://", "https://")):
            began_at = datetime.fromtimestamp(params["wallTime"], UTC)
            self._requests[request_id] = _Request(
                request["url"].partition("#")[0], request["method"], tuple(request["headers"].items()), began_at
            )

    def _end(self, request_id: str, *, is_cut: bool = False) -> None:
        request = self._requests.pop(request_id, None)
        if request is None or request.response is None or request.is_cached:
            return
        is_from_proxy = has_proxy_token(request.response["headers"], self._proxy_token)
        if not is_from_proxy and not request.response.get("fromDiskCache"):
            self._start(self._read(request_id, request, is_cut=is_cut))

    async def _read(self, request_id: str, request: _Request, *, is_cut: bool) -> None:
        """Read a body; one that Chrome did not keep is archived as cut."""
        body = b""
        if not is_cut:
            try:
                answer = await self._call("Network.getResponseBody", requestId=request_id)
            except BrowserClosed:
                return
            except CommandFailed:
                is_cut = True
            else:
                text = str(answer["body"])
                body = b64decode(text) if answer["base64Encoded"] else _encode(text, request.content_type)
        await self._add(request, body, is_cut=is_cut)

    async def _add(self, request: _Request, body: bytes, *, is_cut: bool) -> None:
        response = request.response or {}
        headers = [
            (name, line) for name, value in response.get("headers", {}).items() for line in value.splitlines() or [""]
        ]
        exchange = Exchange(
            request.url,
            response.get("status", 0),
            request.began_at,
            request.method,
            response.get("statusText", ""),
            request.headers,
            tuple(headers),
            body,
            self._get_address(request.url),
            is_cut,
        )
        await self._archive.add(exchange)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._close)

    def _close(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, CanonryError):
            self._error = error
        elif error is not None:
            _LOG.warning("An answer was not archived: %r", error)


def _encode(text: str, content_type: str) -> bytes:
    """Return the bytes of a text that Chrome has decoded, in the encoding that its headers or its HTML name."""
    body = text.encode(errors="replace")
    if "charset" not in content_type.lower() and not is_html(content_type):
        return body
    charset = detect_charset(body, content_type)
    return body if charset == "utf-8" else text.encode(charset, "xmlcharrefreplace")
