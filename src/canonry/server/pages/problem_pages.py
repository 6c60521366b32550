"""Show problem documents as pages to people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.requests import Request

from canonry.server.pages.rendering import render, wants_fragment
from canonry.server.paths import is_api
from canonry.server.problems import MEDIA_TYPE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_REPLACED_HEADERS = {b"content-type", b"content-length"}


class ProblemPages:
    """Outermost middleware: turns problem documents into pages, except for the paths of programs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_api(scope["path"]):
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        body = b""

        async def send_page(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start" and _is_problem(message):
                start = message
            elif start is None:
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body", False):
                    await _make_page(scope, start, body)(scope, receive, send)

        await self._app(scope, receive, send_page)


def _is_problem(message: Message) -> bool:
    return Headers(raw=message["headers"]).get("content-type", "").startswith(MEDIA_TYPE)


def _make_page(scope: Scope, start: Message, body: bytes) -> ASGIApp:
    request = Request(scope)
    headers = [(name, value) for name, value in start["headers"] if name.lower() not in _REPLACED_HEADERS]
    status = start["status"]
    if wants_fragment(request) and (target := dict(headers).get(b"location")):
        # htmx would follow the redirect and insert a whole page into this one.
        status = 401
        headers = [(name, value) for name, value in headers if name != b"location"]
        headers.append((b"hx-redirect", target))
    page = render(request, "problem.html", status=status, problem=json.loads(body))
    page.raw_headers.extend(headers)
    return page
