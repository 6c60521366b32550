"""Authenticate, check and limit every request (contract B6).

Without users the service is in personal mode: every request acts as the owner. Anything that another machine or
another web page in the same browser could send is therefore refused: addresses other than loopback, foreign hosts,
foreign origins, cross-site requests, plain forms.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import logging
import re
import secrets
import time
from base64 import b64decode
from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect

from canonry.accounts import PERSONAL_OWNER
from canonry.errors import CanonryError
from canonry.feeds.websub import CALLBACK_PATH, MAX_PUSH_BYTES
from canonry.server.paths import PROBES, checks_own_token, is_api, is_feed_document
from canonry.server.peers import TrustedProxies, is_loopback, judge_personal_request, list_forwarded
from canonry.server.problems import RequestRefused, make_problem, problem_for_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from canonry.accounts import User
    from canonry.server.service import Service

_log = logging.getLogger("canonry.service")
SESSION_COOKIE = "canonry_session"
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_DOCS = "/api/docs"
_DOCS_PATHS = frozenset({_DOCS, "/api/openapi.json"})  # under /api, but a session is enough to read them
_PUBLIC = PROBES | {"/signin"}  # and /static/
_MAX_HOST_CHARACTERS = 300  # the cache must not fill with long headers
_EXTENSION_ORIGINS = ("chrome-extension://", "moz-extension://", "safari-web-extension://")
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# So short that a person who has just added the first user does not see personal mode any more.
_HAS_USERS_TTL_SECONDS = 0.05
_WARNING_SECONDS = 60.0  # from one warning about refused personal requests to the next
PERSONAL_MODE_REFUSED = "personal-mode-refused"  # ends the type of the problem document
_PROBE_TIMEOUT_SECONDS = 1.0  # for a probe to learn whether there are users
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
_RESPONSE_HEADERS = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]


class Access:
    """Middleware: checks the origin of a request, finds its user, limits it, and adds security headers."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._limits = RateLimiter(service.options.requests_per_minute, clock=service.monotonic)
        self._proxies = TrustedProxies(service.settings.trusted_proxies)
        self._has_users = (False, 0.0)
        self._next_warning = 0.0
        self._id_prefix = secrets.token_hex(12)  # of the request ids of this process
        self._request_numbers = itertools.count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = headers.get("x-request-id", "")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = f"{self._id_prefix}{next(self._request_numbers):08x}"
        scope.setdefault("state", {})["request_id"] = request_id
        peer = _name_peer(scope)
        self._set_client(scope, headers, peer)

        has_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                present = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(pair for pair in _RESPONSE_HEADERS if pair[0] not in present),
                    (b"x-request-id", request_id.encode()),
                ]
            await send(message)

        try:
            await self._admit(scope, headers, peer)
            receive = self._limit_body(scope, headers, receive)
        except CanonryError as error:  # refused, or the store is unavailable
            await problem_for_error(error, request_id)(scope, receive, send_with_headers)
            return
        try:
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            return  # the client left, or was refused, before its request was complete: no answer is expected
        except Exception:
            if has_started:
                raise  # part of the response is sent: only closing the connection tells the client
            _log.exception("request %s failed", request_id)
            detail = "Internal error. The log has the details under this request id."
            await make_problem(500, detail, request_id=request_id)(scope, receive, send_with_headers)

    def _set_client(self, scope: Scope, headers: Headers, peer: str | None) -> None:
        """Replace the peer by the client that a trusted proxy names."""
        if self._proxies.trusts(peer):
            client = self._proxies.find_client(peer, scope["scheme"], headers)
            scope["client"] = None if client.address is None else (client.address, 0)
            scope["scheme"] = client.scheme

    async def _admit(self, scope: Scope, headers: Headers, peer: str | None) -> None:
        """Store the user in the scope; raise RequestRefused if the request must not go on."""
        path: str = scope["path"]
        state = scope["state"]
        if self._service.settings.public_url and path.startswith(CALLBACK_PATH):
            # Hubs have no account, and reach the service under its public name. The path itself is a secret.
            state["user"], state["has_users"] = None, True
            return
        has_users = await self._load_has_users(path)
        if not has_users and not self._service.options.require_token and path not in PROBES:
            self._check_personal(scope, headers, peer)
        _check_source(scope, headers, is_personal=not has_users, allowed=self._service.options.allowed_hosts)
        state["user"], state["has_users"] = None, has_users
        if path in _PUBLIC or path.startswith("/static/"):
            return
        needs_token = has_users or self._service.options.require_token
        user = await self._find_user(path, headers, needs_token=needs_token)
        if user is None and checks_own_token(path):
            return  # its routes check their auth_token themselves
        if user is None:
            if is_api(path) and path != _DOCS:
                if is_feed_document(path):
                    detail = "A token is required. Give it to your feed reader as the password; any user name will do."
                    raise RequestRefused(401, detail, {"WWW-Authenticate": 'Basic realm="canonry", charset="UTF-8"'})
                detail = "A token is required. Send the header `Authorization: Bearer TOKEN`."
                raise RequestRefused(401, detail, {"WWW-Authenticate": "Bearer"})
            if _is_sent_form(scope, headers):
                detail = (
                    "You are not signed in, or your session has ended, so nothing was changed. Sign in in another tab,"
                    " then reload this page: your browser sends the form again."
                )
                raise RequestRefused(401, detail)
            raise RequestRefused(303, "Sign in first.", {"Location": _sign_in_location(scope, headers)})
        state["user"] = user

    def _check_personal(self, scope: Scope, headers: Headers, peer: str | None) -> None:
        """Raise RequestRefused for a request from another machine: users may have been removed since the start."""
        options = self._service.options
        host = options.host
        if not options.socket_path and is_loopback(host):
            host = str((scope.get("server") or ("",))[0])  # the address that the connection really uses
        refusal = judge_personal_request(host, peer, list_forwarded(headers), socket_path=options.socket_path)
        if refusal is None:
            return
        if (now := time.monotonic()) >= self._next_warning:
            self._next_warning = now + _WARNING_SECONDS
            _log.warning(
                "refused requests of other machines (%s): the store has no users. Add one: canonry user add NAME",
                refusal,
            )
        detail = (
            "Refused: this service has no users, and without users only requests from this machine, to a loopback"
            " address, are answered. Add a user: canonry user add NAME"
        )
        raise RequestRefused(403, detail, code=PERSONAL_MODE_REFUSED)

    async def _find_user(self, path: str, headers: Headers, *, needs_token: bool) -> User | None:
        users = self._service.users
        kind, _, token = headers.get("authorization", "").partition(" ")
        if token and kind.lower() == "basic" and is_feed_document(path):
            kind, token = "bearer", _read_password(token)
        if token and kind.lower() in {"bearer", "token"}:
            user = await users.find_by_token(token.strip(), self._service.clock())
            if user is None:
                raise RequestRefused(401, "Unknown token.", {"WWW-Authenticate": "Bearer"})
            self._limits.take(token)
            return user
        if not needs_token:
            return None if checks_own_token(path) else PERSONAL_OWNER
        if is_api(path) and path not in _DOCS_PATHS:
            return None
        secret = read_cookie(headers, SESSION_COOKIE)
        return await users.find_by_session(secret, self._service.clock()) if secret else None

    async def _load_has_users(self, path: str) -> bool:
        has_users, until = self._has_users
        if self._service.monotonic() < until:
            return has_users
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_SECONDS if path in PROBES else None):
                has_users = await self._service.users.has_users()
        except (CanonryError, TimeoutError):
            if path in PROBES:
                return has_users  # the last known value: a probe must not depend on the database
            raise
        self._has_users = has_users, self._service.monotonic() + _HAS_USERS_TTL_SECONDS
        return has_users

    def _limit_body(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        """Return a `receive` that raises RequestRefused (413) once the body exceeds the limit of its route."""
        options = self._service.options
        is_upload = scope["path"] in {"/import", "/api/import"}
        limit = options.max_upload if is_upload else options.max_body
        if scope["path"].startswith(CALLBACK_PATH):
            limit = MAX_PUSH_BYTES
        detail = f"The body is too long. The limit is {limit} bytes."
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:18]) > limit:
            raise RequestRefused(413, detail)
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise RequestRefused(413, detail)
            return message

        return receive_limited


class RateLimiter:
    """A token bucket per name: `per_minute` requests at once, refilled evenly. Keeps the latest `max_names` names."""

    def __init__(
        self, per_minute: int, *, max_names: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute = per_minute
        self._max_names = max_names
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Count a request; raise RequestRefused (429) if there were too many."""
        now = self._clock()
        left, then = self._left.pop(name, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - then) * self._per_minute / 60)
        is_allowed = left >= 1
        self._left[name] = left - 1 if is_allowed else left, now
        if len(self._left) > self._max_names:
            self._left.popitem(last=False)
        if not is_allowed:
            wait = max(1, round((1 - left) * 60 / self._per_minute))
            detail = f"Too many requests: the limit is {self._per_minute} per minute. Retry in {wait} s."
            raise RequestRefused(429, detail, {"Retry-After": str(wait)})


def _name_peer(scope: Scope) -> str | None:
    """Return the address of the other end of the connection, None on a Unix socket."""
    client = scope.get("client")
    return None if client is None else str(client[0])


def _read_password(credentials: str) -> str:
    """Return the password of Basic authentication, empty if it cannot be read (RFC 7617)."""
    try:
        return b64decode(credentials, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def read_cookie(headers: Headers, name: str) -> str:
    """Return the value of a cookie, or an empty text. Malformed cookies of other programs on this host are skipped."""
    for pair in headers.get("cookie", "").split(";"):
        found, _, value = pair.strip().partition("=")
        if found == name:
            return value.strip('"')
    return ""


def _is_sent_form(scope: Scope, headers: Headers) -> bool:
    """Return whether a redirect to the sign-in form would lose what a person typed."""
    return scope["method"] == "POST" and "hx-request" not in headers and scope["path"] != "/signout"


def _sign_in_location(scope: Scope, headers: Headers) -> str:
    """Return the URL of the sign-in form; it leads back to this page, e.g. a form filled by the bookmarklet."""
    target = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
    is_page = scope["method"] == "GET" and "hx-request" not in headers
    return "/signin" if not is_page or target == "/" else f"/signin?next={quote(target, safe='')}"


def _check_source(scope: Scope, headers: Headers, *, is_personal: bool, allowed: tuple[str, ...]) -> None:
    """Raise RequestRefused if another website may have sent the request."""
    host = headers.get("host", "")
    is_own = len(host) <= _MAX_HOST_CHARACTERS and _is_own_host(host, allowed)
    if (is_personal or allowed) and not is_own:
        raise RequestRefused(421, "Unknown host name. To allow it, start `canonry serve` with --allow-host NAME.")
    path, method = scope["path"], scope["method"]
    origin = headers.get("origin")
    if is_api(path) and _is_extension_with_token(headers):
        origin = None
    if origin is not None and origin not in {f"http://{host}", f"https://{host}"}:
        raise RequestRefused(403, "Refused: sent by a page of another origin.")
    if headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        # Following a link to one of our pages is allowed; the bookmarklet opens one, too.
        is_navigation = method in {"GET", "HEAD"} and headers.get("sec-fetch-mode") == "navigate"
        if not is_navigation or headers.get("sec-fetch-dest") != "document" or is_api(path):
            raise RequestRefused(403, "Refused: sent by a page of another site.")
    if method not in _READS and is_api(path) and not checks_own_token(path):
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if kind != "application/json" and (has_body or kind):
            raise RequestRefused(415, "The API accepts only application/json.")


def _is_extension_with_token(headers: Headers) -> bool:
    """Return whether a browser extension sent the request with a token, which is checked later.

    No page of the web has such an origin, and without a token the extensions of a browser have no rights here.
    """
    is_extension = headers.get("origin", "").startswith(_EXTENSION_ORIGINS)
    return is_extension and headers.get("authorization", "").lower().startswith("bearer ")


@lru_cache(1000)
def _is_own_host(host: str, allowed: tuple[str, ...]) -> bool:
    """Return whether a Host header is a loopback address, `localhost`, or an allowed name."""
    name = re.sub(r":\d{1,5}\Z", "", host).lower().rstrip(".")
    if name == "localhost" or name in {each.lower() for each in allowed}:
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
