"""Answer HEAD requests wherever GET is answered (RFC 9110, section 9.3.2): monitors and link checkers send them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from canonry.server.paths import answers_head

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadRequests:
    """Middleware inside of `Access`: passes a HEAD request on as GET, and ends streams after their headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or not answers_head(scope["path"]):
            await self._app(scope, receive, send)
            return

        has_ended = False

        async def send_without_stream(message: Message) -> None:
            nonlocal has_ended
            scope["method"] = "HEAD"  # the server reads it, and leaves out the body
            if has_ended:
                return
            await send(message)
            if message["type"] == "http.response.start" and "content-length" not in Headers(raw=message["headers"]):
                has_ended = True  # a stream of events would not end by itself
                await send({"type": "http.response.body", "body": b""})

        scope["method"] = "GET"
        try:
            await self._app(scope, receive, send_without_stream)
        finally:
            scope["method"] = "HEAD"  # for the log
