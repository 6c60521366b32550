"""The DevTools protocol (CDP) over Chrome's pipe: JSON messages, each followed by a zero byte.

https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    Listener: TypeAlias = Callable[[str, dict[str, Any]], None]

BROWSER_CLOSED_EVENT = "canonry.browserClosed"  # every listener gets this when the browser ends
_READ_BYTES = 2**18
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_MAX_ERROR_CHARACTERS = 200
# Most network events of a page are long and not needed: headers of images and scripts, and pieces of data. Skipping
# them before JSON is parsed saves most of the parsing. Needed are the beginning and end of each request, and the
# responses of documents and of streams, which have no end.
_NETWORK_EVENT = b'{"method":"Network.'
_NEEDED_EVENT = re.compile(
    rb'\{"method":"Network\.(?:loadingFinished"|loadingFailed"|requestWillBeSent"(?!.*"type":"(?:Image|Font|Media)")'
    rb'|responseReceived"(?=.*(?:"Document"|"text/event-stream")))',
    re.DOTALL,
)


class CommandFailed(Exception):
    """Chrome answered a command with an error."""


class BrowserClosed(Exception):
    """Chrome ended, or its messages could not be read."""

    def __init__(self) -> None:
        super().__init__("Chrome has ended")


class Pipe:
    """Sends commands to Chrome and dispatches its events to one listener per session."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._listeners: dict[str, Listener] = {}
        self._last_id = 0
        self.is_closed = False

    def add_listener(self, session: str, listener: Listener) -> None:
        """Call `listener` with every event of a session; the empty session is the browser itself."""
        self._listeners[session] = listener

    def remove_listener(self, session: str) -> None:
        self._listeners.pop(session, None)

    async def call(self, method: str, session: str = "", **params: object) -> dict[str, Any]:
        """Send a command and return its result; raise CommandFailed or BrowserClosed."""
        if self.is_closed:
            raise BrowserClosed
        command_id = self.send(method, session, **params)
        result: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._pending[command_id] = result
        try:
            return await result
        finally:
            self._pending.pop(command_id, None)

    def send(self, method: str, session: str = "", **params: object) -> int:
        """Send a command without waiting for its result; return its ID."""
        self._last_id += 1
        message: dict[str, object] = {"id": self._last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\0")
        return self._last_id

    async def run(self) -> None:
        """Read messages until the browser ends."""
        rest = b""
        try:
            while chunk := await self._reader.read(_READ_BYTES):
                *messages, rest = (rest + chunk).split(b"\0")
                for message in messages:
                    self._dispatch(message)
                if len(rest) > _MAX_MESSAGE_BYTES:
                    break
        except (OSError, ValueError):
            pass  # an unreadable pipe is treated like a browser that ended
        finally:
            self._close()

    def _dispatch(self, raw: bytes) -> None:
        if raw.startswith(_NETWORK_EVENT) and not _NEEDED_EVENT.match(raw):
            return
        message: dict[str, Any] = json.loads(raw)
        if "id" not in message:
            if listener := self._listeners.get(message.get("sessionId", "")):
                listener(message["method"], message.get("params", {}))
            return
        result = self._pending.get(message["id"])
        if result is None or result.done():
            return
        if error := message.get("error"):
            result.set_exception(CommandFailed(str(error.get("message", ""))[:_MAX_ERROR_CHARACTERS]))
        else:
            result.set_result(message.get("result", {}))

    def _close(self) -> None:
        self.is_closed = True
        for result in self._pending.values():
            if not result.done():
                result.set_exception(BrowserClosed())
        for listener in tuple(self._listeners.values()):
            listener(BROWSER_CLOSED_EVENT, {})
