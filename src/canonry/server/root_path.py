"""Serve everything below a path, behind a proxy that removes it: `https://example.com/links/` (`--root-path /links`).

The application knows paths without the prefix only. This is the one place that adds it to what leaves the service.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.datastructures import URL, MutableHeaders

from canonry.errors import CanonryError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_VALID = re.compile(r"(/(?!\.\.?(?:/|$))[A-Za-z0-9._~-]+)+")  # no segment of dots, which browsers remove
# Values of users cannot look like this: a quote in them is escaped.
_ATTRIBUTE = re.compile(rb'((?: |\n)(?:href|src|action|formaction|hx-get|hx-post|sse-connect)=")(?=/(?!/))')
_LINK = re.compile(r"<(?=/(?!/))")
_COOKIE_PATH = re.compile(r"(?i)(; *path=)/(?=;|$)")
_REWRITTEN_TYPES = ("text/html", "text/event-stream")


def check_root_path(text: str) -> str:
    """Return a root path without the slash at its end; CanonryError if it is invalid."""
    found = text.rstrip("/")
    if found and not _VALID.fullmatch(found):
        raise CanonryError(f"--root-path {text}: not a path such as /links")
    return found


class RootPath:
    """Middleware outside of all others: adds a prefix to the paths of headers, cookies and pages."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app = app
        self._root_path = root_path
        self._replacement = rb"\1" + root_path.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None  # of a page: sent with its first part, whose length is known then
        is_page = False

        async def send_below(message: Message) -> None:
            nonlocal start, is_page
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                self._add_to_headers(headers, scope)
                is_download = "content-disposition" in headers
                is_page = not is_download and headers.get("content-type", "").startswith(_REWRITTEN_TYPES)
                if is_page and "content-length" in headers:
                    start = message
                    return
            elif is_page and message["type"] == "http.response.body":
                message = {**message, "body": _ATTRIBUTE.sub(self._replacement, message.get("body", b""))}
                if start is not None:
                    MutableHeaders(raw=start["headers"])["content-length"] = str(len(message["body"]))
                    await send(start)
                    start = None
            await send(message)

        await self._app(scope, receive, send_below)

    def _add_to_headers(self, headers: MutableHeaders, scope: Scope) -> None:
        for name in ("location", "hx-redirect"):
            target = headers.get(name, "")
            if target.startswith("http"):  # the router redirects `/bookmarks/` to an absolute URL
                target = target.removeprefix(str(URL(scope=scope).replace(path="", query="")))
            if target.startswith("/") and not target.startswith("//"):
                headers[name] = self._root_path + target
        if "link" in headers:
            headers["link"] = _LINK.sub(f"<{self._root_path}", headers["link"])
        cookies = headers.getlist("set-cookie")
        if cookies:
            del headers["set-cookie"]
            for cookie in cookies:
                headers.append("set-cookie", _COOKIE_PATH.sub(rf"\1{self._root_path}", cookie))
