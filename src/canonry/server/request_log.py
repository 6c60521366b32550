"""Count and log every request by the template of its route, never by its URL (contract B9)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from canonry.server.service import Service

# Upper bounds of the histogram's buckets.
DURATION_BUCKETS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
# Names of the stored counters: COUNT_PREFIX + "GET /x 2xx 5" counts requests, TIME_PREFIX + "GET /x 2xx" microseconds.
COUNT_PREFIX, TIME_PREFIX = "http:", "http_us:"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REQUEST_LOGGER = "canonry.requests"
REQUEST_FIELDS = ("method", "route", "status", "ms", "request_id", "user")  # of a log record
_log = logging.getLogger(REQUEST_LOGGER)


class RequestLog:
    """Middleware outside of `Access`, so that refused requests are counted and logged too."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500  # of a request that ends with an exception

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note_status)
        finally:
            self._record(scope, status, time.perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = get_route_template(scope)
        bucket = next((str(limit) for limit in DURATION_BUCKETS_MS if seconds * 1e3 <= limit), "more")
        statistics, now = self._service.bookmarks.statistics, self._service.clock()
        labels = f"{method} {route} {status // 100}xx"
        statistics.count(f"{COUNT_PREFIX}{labels} {bucket}", now)
        statistics.count(f"{TIME_PREFIX}{labels}", now, round(seconds * 1e6))
        if _log.isEnabledFor(logging.INFO):
            state = scope.get("state", {})
            user = state.get("user")
            user_id = None if user is None else user.id
            values = (method, route, status, round(seconds * 1e3, 1), state.get("request_id", ""), user_id)
            _log.info("request", extra=dict(zip(REQUEST_FIELDS, values, strict=True)))


def get_route_template(scope: Scope) -> str:
    """Return the route as `/api/bookmarks/{bookmark_id}`; `none` if no route matched."""
    if scope["path"].startswith("/static/"):
        return "/static"
    return str(getattr(scope.get("route"), "path", "none"))
