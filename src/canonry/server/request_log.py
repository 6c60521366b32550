"""Every request counted, and told in one line, by the template of its route: never with its URL (contract B9)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from canonry.server.service import Service

# Milliseconds; a request that took at most so long counts in the first that fits.
DURATIONS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
COUNT, SPENT = "http:", "http_us:"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REQUESTS = "canonry.requests"
REQUEST_FIELDS = ("method", "route", "status", "ms", "request_id", "user")  # of a line of the log
_log = logging.getLogger(REQUESTS)


class Watch:
    """Middleware around all others: what is refused at the door is seen too."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500  # of a request that ends with an exception

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            self._note(scope, status, time.perf_counter() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = template(scope)
        fitting = next((str(most) for most in DURATIONS if seconds * 1e3 <= most), "more")
        statistics, now = self._service.bookmarks.statistics, self._service.clock()
        what = f"{method} {route} {status // 100}xx"
        statistics.count(f"{COUNT}{what} {fitting}", now)
        statistics.count(f"{SPENT}{what}", now, round(seconds * 1e6))
        if _log.isEnabledFor(logging.INFO):
            state = scope.get("state", {})
            user = state.get("user")
            asked_by = None if user is None else user.id
            told = (method, route, status, round(seconds * 1e3, 1), state.get("request_id", ""), asked_by)
            _log.info("request", extra=dict(zip(REQUEST_FIELDS, told, strict=True)))


def template(scope: Scope) -> str:
    """`/api/bookmarks/{bookmark_id}`; `none` where no route was reached."""
    if scope["path"].startswith("/static/"):
        return "/static"
    return str(getattr(scope.get("route"), "path", "none"))
