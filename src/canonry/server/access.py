"""Who asks, and whether they may: the door every request goes through (contract B6).

Without users the service is personal: every request acts as the owner. So nothing that another page
in the same browser can send may pass: foreign hosts, foreign origins, cross-site requests, forms.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import logging
import re
import secrets
import time
from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.datastructures import Headers

from canonry.accounts import PERSONAL_OWNER
from canonry.errors import CanonryError
from canonry.server.problems import Refused, problem, problem_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from canonry.accounts import User
    from canonry.server.service import Service

_log = logging.getLogger("canonry.service")
SESSION_COOKIE = "canonry_session"
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_PROBES = frozenset({"/healthz", "/readyz"})
_DOCS = "/api/docs"
_DESCRIBED = frozenset({_DOCS, "/api/openapi.json"})  # what people read as well, signed in
_OPEN = _PROBES | {"/signin"}  # and /static/: for everybody
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_USERS_FOR = 1.0  # seconds it is remembered whether there are users
_PROBE_WAITS = 1.0  # seconds a probe waits to learn it
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_MARKS = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]


class Access:
    """Middleware: checks where a request comes from, finds out whose it is, limits it, and marks the answer."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._limits = Limits(service.options.requests_per_minute)
        self._has_users = (False, 0.0)
        self._mark = secrets.token_hex(12)  # of this process; its requests are numbered
        self._numbers = itertools.count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = headers.get("x-request-id", "")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = f"{self._mark}{next(self._numbers):08x}"
        scope.setdefault("state", {})["request_id"] = request_id

        is_begun = False

        async def marked(message: Message) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(pair for pair in _MARKS if pair[0] not in given),
                    (b"x-request-id", request_id.encode()),
                ]
            await send(message)

        try:
            await self._admit(scope, headers)
            receive = self._bounded(scope, headers, receive)
        except Refused as error:
            await problem_of(error, request_id)(scope, receive, marked)
            return
        except CanonryError as error:  # the store is out of reach
            await problem_of(error, request_id)(scope, receive, marked)
            return
        try:
            await self._app(scope, receive, marked)
        except Exception:
            if is_begun:
                raise  # half an answer is out: the connection ends
            _log.exception("request %s failed", request_id)
            detail = "an error of ours; the log has it under the id of the request"
            await problem(500, detail, request_id=request_id)(scope, receive, marked)

    async def _admit(self, scope: Scope, headers: Headers) -> None:
        """Put the user into the scope; Refused where the request must not go on."""
        has_users = await self._users(scope["path"])
        is_personal = not has_users
        _check_source(scope, headers, is_personal=is_personal, allowed=self._service.options.allowed_hosts)
        path: str = scope["path"]
        state = scope["state"]
        state["user"], state["has_users"] = None, has_users
        if path in _OPEN or path.startswith("/static/"):
            return
        needs_token = has_users or self._service.options.require_token
        user = await self._who(path, headers, needs_token=needs_token)
        if user is None and is_pinboard(path):
            return  # its routes look for an auth_token themselves
        if user is None:
            if is_api(path) and path != _DOCS:
                raise Refused(401, "a token is needed: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})
            raise Refused(303, "sign in first", {"Location": _sign_in(scope, headers)})
        state["user"] = user

    async def _who(self, path: str, headers: Headers, *, needs_token: bool) -> User | None:
        users = self._service.users
        kind, _, token = headers.get("authorization", "").partition(" ")
        if token and kind.lower() in {"bearer", "token"}:
            user = await users.find_by_token(token.strip())
            if user is None:
                raise Refused(401, "this token is not known", {"WWW-Authenticate": "Bearer"})
            self._limits.take(token)
            return user
        if not needs_token:
            return None if is_pinboard(path) else PERSONAL_OWNER
        if is_api(path) and path not in _DESCRIBED:
            return None
        secret = cookie(headers, SESSION_COOKIE)
        return await users.find_by_session(secret, self._service.clock()) if secret else None

    async def _users(self, path: str) -> bool:
        has_users, until = self._has_users
        if time.monotonic() < until:
            return has_users
        try:
            async with asyncio.timeout(_PROBE_WAITS if path in _PROBES else None):
                has_users = await self._service.users.has_users()
        except (CanonryError, TimeoutError):
            if path in _PROBES:
                return has_users  # as far as we know: whether the process is up does not depend on the database
            raise
        self._has_users = has_users, time.monotonic() + _USERS_FOR
        return has_users

    def _bounded(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        """The body, refused where it is longer than a route may take."""
        options = self._service.options
        is_upload = scope["path"] in {"/import", "/api/import"}
        limit = options.max_upload if is_upload else options.max_body
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:18]) > limit:
            raise Refused(413, f"a body of at most {limit} bytes is taken")
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise Refused(413, f"a body of at most {limit} bytes is taken")
            return message

        return bounded


class Limits:
    """So many requests a minute for each name; of many names the latest are remembered."""

    def __init__(self, per_minute: int, *, remembered: int = 10_000) -> None:
        self._per_minute = per_minute
        self._remembered = remembered
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Count a request; Refused where there were too many."""
        now = time.monotonic()
        left, then = self._left.pop(name, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - then) * self._per_minute / 60)
        is_free = left >= 1
        self._left[name] = left - 1 if is_free else left, now
        if len(self._left) > self._remembered:
            self._left.popitem(last=False)
        if not is_free:
            wait = max(1, round((1 - left) * 60 / self._per_minute))
            raise Refused(429, f"more than {self._per_minute} requests in a minute", {"Retry-After": str(wait)})


def is_api(path: str) -> bool:
    """Is it for programs?"""
    return path.startswith(("/api/", "/v1/")) or path in {"/api", "/metrics"} or path in _PROBES


def is_pinboard(path: str) -> bool:
    """Pinboard's own routes, whose GETs write and which therefore always want their token."""
    return path.startswith("/v1/")


def cookie(headers: Headers, name: str) -> str:
    """The value of a cookie, whatever those of other programs on this host look like; empty where there is none."""
    for pair in headers.get("cookie", "").split(";"):
        found, _, value = pair.strip().partition("=")
        if found == name:
            return value.strip('"')
    return ""


def _sign_in(scope: Scope, headers: Headers) -> str:
    """Where to sign in, and where to go on after that: a form that a bookmarklet has filled."""
    there = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
    is_page = scope["method"] == "GET" and "hx-request" not in headers
    return "/signin" if not is_page or there == "/" else f"/signin?next={quote(there, safe='')}"


def _check_source(scope: Scope, headers: Headers, *, is_personal: bool, allowed: tuple[str, ...]) -> None:
    """Refused where a page of somebody else may have sent it."""
    host = headers.get("host", "")
    if (is_personal or allowed) and not _is_ours(host, allowed):
        raise Refused(421, "this service does not answer under this name")
    path, method = scope["path"], scope["method"]
    origin = headers.get("origin")
    if origin is not None and origin not in {f"http://{host}", f"https://{host}"}:
        raise Refused(403, "sent by a page of another origin")
    if headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        # Somebody may follow a link to a page of ours, and the bookmarklet opens one.
        is_visit = method in {"GET", "HEAD"} and headers.get("sec-fetch-mode") == "navigate"
        if not is_visit or headers.get("sec-fetch-dest") != "document" or is_api(path):
            raise Refused(403, "sent by a page of another site")
    if method not in _READS and is_api(path) and not is_pinboard(path):
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if kind != "application/json" and (has_body or kind):
            raise Refused(415, "the API takes application/json")


@lru_cache(1000)
def _is_ours(host: str, allowed: tuple[str, ...]) -> bool:
    """Is it a loopback address, `localhost`, or a name that was configured?"""
    name = re.sub(r":\d{1,5}\Z", "", host).lower().rstrip(".")
    if name == "localhost" or name in {each.lower() for each in allowed}:
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
