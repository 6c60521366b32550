"""Errors for people: what is a problem document for programs is a page for everybody else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.requests import Request

from canonry.server.access import is_api
from canonry.server.pages.rendering import render, wants_piece
from canonry.server.problems import MEDIA_TYPE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_DROPPED = {b"content-type", b"content-length"}


class ProblemPages:
    """Middleware, the outermost: turns problem documents into pages, except under the paths for programs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_api(scope["path"]):
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        body = b""

        async def turned(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start" and _is_problem(message):
                start = message
            elif start is None:
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body", False):
                    await _page(scope, start, body)(scope, receive, send)

        await self._app(scope, receive, turned)


def _is_problem(message: Message) -> bool:
    return Headers(raw=message["headers"]).get("content-type", "").startswith(MEDIA_TYPE)


def _page(scope: Scope, start: Message, body: bytes) -> ASGIApp:
    request = Request(scope)
    kept = [(name, value) for name, value in start["headers"] if name.lower() not in _DROPPED]
    status = start["status"]
    if wants_piece(request) and (away := dict(kept).get(b"location")):
        # htmx would follow, and put a whole page into the middle of another.
        status, kept = 401, [*((name, value) for name, value in kept if name != b"location"), (b"hx-redirect", away)]
    page = render(request, "problem.html", status=status, problem=json.loads(body))
    page.raw_headers.extend(kept)
    return page
