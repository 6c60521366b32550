"""The DevTools protocol over Chrome's pipe: JSON messages, a zero byte behind each.

https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    Listener: TypeAlias = Callable[[str, dict[str, Any]], None]

GONE = "canonry.gone"  # what every listener hears when the browser ends
_PIECE = 2**18
_MAX_MESSAGE = 64 * 1024 * 1024
# Most of what Chrome tells about a page is about its images and scripts; only documents are of interest.
_NETWORK, _DOCUMENT = b'{"method":"Network.', b'"Document"'


class Refused(Exception):
    """Chrome did not do what it was asked to."""


class BrowserGone(Exception):
    """Chrome ended, or what it said could not be read."""


class Pipe:
    """Asks Chrome, and passes on what it tells unasked to whoever listens to a session."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._listeners: dict[str, Listener] = {}
        self._last = 0
        self.is_gone = False

    def listen(self, session: str, listener: Listener) -> None:
        """Hear the events of a session; the empty one is the browser itself."""
        self._listeners[session] = listener

    def forget(self, session: str) -> None:
        self._listeners.pop(session, None)

    async def ask(self, method: str, session: str = "", **params: object) -> dict[str, Any]:
        """The answer; Refused or BrowserGone where there is none."""
        if self.is_gone:
            raise BrowserGone("the browser has ended")
        number = self.tell(method, session, **params)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            return await answer
        finally:
            self._asked.pop(number, None)

    def tell(self, method: str, session: str = "", **params: object) -> int:
        """Ask without waiting for the answer."""
        self._last += 1
        message: dict[str, object] = {"id": self._last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\0")
        return self._last

    async def run(self) -> None:
        """Read until the browser ends."""
        rest = b""
        try:
            while piece := await self._reader.read(_PIECE):
                *messages, rest = (rest + piece).split(b"\0")
                for message in messages:
                    self._take(message)
                if len(rest) > _MAX_MESSAGE:
                    break
        except (OSError, ValueError):
            pass  # as if it had ended
        finally:
            self._end()

    def _take(self, raw: bytes) -> None:
        if raw.startswith(_NETWORK) and _DOCUMENT not in raw:
            return
        message: dict[str, Any] = json.loads(raw)
        if "id" not in message:
            if listener := self._listeners.get(message.get("sessionId", "")):
                listener(message["method"], message.get("params", {}))
            return
        answer = self._asked.get(message["id"])
        if answer is None or answer.done():
            return
        if error := message.get("error"):
            answer.set_exception(Refused(str(error.get("message", ""))[:200]))
        else:
            answer.set_result(message.get("result", {}))

    def _end(self) -> None:
        self.is_gone = True
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(BrowserGone("the browser has ended"))
        for listener in tuple(self._listeners.values()):
            listener(GONE, {})
