"""The one way out: an HTTP client that connects only where the guard lets it (contract G1–G4).

A name is resolved once, all its addresses are checked, and the connection goes to one of them; the
socket factory looks again at the very address, also where a URL spells it. Redirects are followed
one guarded request at a time.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from base64 import b64encode
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import unquote_to_bytes
from weakref import WeakKeyDictionary, WeakValueDictionary

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.http_exceptions import ContentEncodingError
from yarl import URL

from canonry.core.url import join
from canonry.errors import CanonryError, FailureKind, FetchFailed, InvalidUrl, UnsafeUrl, mask_credentials
from canonry.net.dns import Lookup, resolve_checked, resolve_name
from canonry.net.guard import Guard, make_guard
from canonry.net.response import REDIRECTS, Hop, Response, Validators
from canonry.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from aiohappyeyeballs import AddrInfoType
    from aiohttp.connector import Connection

    from canonry.core.url import Parts
    from canonry.net.guard import Network

TIMEOUT = 10.0  # seconds for one fetch, redirects included
MAX_BYTES = 10 * 1024 * 1024  # of a decoded body
MAX_REDIRECTS = 10
_CONNECTIONS = 100
_PER_HOST = 8
_KEPT = 100  # origins whose connections are kept open
_KEPT_FOR = 15.0  # seconds, as aiohttp does
# Nothing that a server could answer with an encoding we would have to bound ourselves.
_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
_HEADERS = {
    "Accept": "application/atom+xml, application/rss+xml, application/feed+json, application/xml;q=0.9, */*;q=0.8",
    "Accept-Encoding": "gzip, deflate",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """Which redirects are followed, by where they are and lead; which bodies are read, by type; is a long one cut?

    The answer to a redirect that is not followed is the redirect, the last of its hops.
    """

    follows: Callable[[str, str], bool] = lambda _, __: True
    reads: Callable[[str], bool] = lambda _: True
    cuts: bool = False
    accept: str = ""  # instead of feeds first


class Client:
    """A guarded HTTP client; use it as an async context manager, and `client.fetch` wherever a fetch is asked for."""

    def __init__(
        self,
        guard: Guard | None = None,
        *,
        settings: Settings | None = None,
        lookup: Lookup = resolve_name,
        timeout: float = TIMEOUT,
        max_bytes: int = MAX_BYTES,
        max_redirects: int = MAX_REDIRECTS,
    ) -> None:
        self._settings = load_settings() if settings is None else settings
        self.guard = make_guard(self._settings) if guard is None else guard
        self.lookup = lookup
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._max_redirects = max_redirects
        self._tls = make_tls_context(self._settings.ca_file)
        # A pool of connections for each set of allowed networks: what one guard allows, another may refuse.
        self._sessions: dict[tuple[tuple[Network, ...], bool], aiohttp.ClientSession] = {}
        self._kept: dict[tuple[str, str, int], float] = {}  # when it was last asked, the latest at the end

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.close()

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        validators: Validators | None = None,
        came_from: str | None = None,
        timeout: float | None = None,
        max_bytes: int | None = None,
        reading: Reading | None = None,
    ) -> Response:
        """The answer, of any status, after redirects; UnsafeUrl where the guard refuses, FetchFailed for the rest.

        `came_from` is the address whose answer named this URL; without it a person did.
        """
        seconds = self._timeout if timeout is None else timeout
        limit = self._max_bytes if max_bytes is None else max_bytes
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(
                    url, method, validators or Validators(), came_from, limit, reading or Reading()
                )
        except TimeoutError:
            raise FetchFailed(url, f"no whole answer within {seconds:g} s", kind=FailureKind.TIMEOUT) from None

    async def request(
        self, url: str, *, method: str = "GET", came_from: str | None = None, max_bytes: int | None = None
    ) -> Response:
        """The answer to one request, redirects not followed; no credentials are sent, and a longer body is cut.

        It takes as long as it takes: whoever asks several times keeps one clock for all.
        """
        guard = self.guard.for_links_from(came_from)
        parts = guard.check_url(url)
        parts.userinfo = parts.fragment = None
        limit = self._max_bytes if max_bytes is None else max_bytes
        return await self._request(guard, parts, method, Validators(), limit, Reading(cuts=True))

    async def _follow(
        self, url: str, method: str, validators: Validators, came_from: str | None, limit: int, reading: Reading
    ) -> Response:
        guard = self.guard.for_links_from(came_from)
        parts = guard.check_url(url)
        parts.fragment = None
        origin, userinfo = _origin(parts), parts.userinfo
        hops: list[Hop] = []
        while True:
            response = await self._request(guard, parts, method, validators, limit, reading)
            location = response.header("location") if response.status in REDIRECTS else ""
            if not location:
                return replace(response, hops=tuple(hops)) if hops else response
            guard = self.guard.for_links_from(response.address)
            target = _resolve_location(str(parts), location, guard)
            # Credentials go to the origin that carried them, and nowhere else.
            target.userinfo = userinfo if _origin(target) == origin else None
            hops.append(Hop(response.status, str(parts), str(target)))
            if any(hop.url == str(target) for hop in hops):
                reason = f"redirects in a circle, back to {mask_credentials(str(target))}"
                raise FetchFailed(url, reason, kind=FailureKind.REDIRECT_LOOP)
            if len(hops) > self._max_redirects:
                reason = f"more than {self._max_redirects} redirects"
                raise FetchFailed(url, reason, kind=FailureKind.TOO_MANY_REDIRECTS)
            if not reading.follows(str(parts), str(target)):
                return Response(response.status, str(parts), response.headers, b"", tuple(hops), response.address)
            parts = target

    async def _request(
        self, guard: Guard, parts: Parts, method: str, validators: Validators, limit: int, reading: Reading
    ) -> Response:
        """One request, no redirects."""
        wire = URL.build(
            scheme=parts.scheme,
            host=parts.host,
            port=int(parts.port) if parts.port else None,
            path=parts.path,
            query_string=parts.query or "",
            encoded=True,
        )
        headers: dict[str, str] = {"Accept": reading.accept} if reading.accept else {}
        if parts.userinfo is not None:
            user, _, password = parts.userinfo.partition(":")
            pair = unquote_to_bytes(user) + b":" + unquote_to_bytes(password)
            headers["Authorization"] = f"Basic {b64encode(pair).decode()}"
        if validators.etag:
            headers["If-None-Match"] = validators.etag
        if validators.last_modified:
            headers["If-Modified-Since"] = validators.last_modified
        url = str(parts)
        try:
            async with self._session(guard, keeps=self._keeps(_origin(parts))).request(
                method, wire, headers=headers, allow_redirects=False, proxy=self._settings.proxy or None
            ) as answer:
                is_redirect = answer.status in REDIRECTS and bool(answer.headers.get("Location"))
                is_read = not is_redirect and reading.reads(answer.headers.get("Content-Type", ""))
                body = await _body(answer, url, limit, cuts=reading.cuts) if is_read else b""
                address = "" if self._settings.proxy else str(getattr(answer, "address", ""))
                received = MappingProxyType({name.lower(): _text(value) for name, value in answer.headers.items()})
                return Response(answer.status, url, received, body, (), address)
        except TimeoutError:
            raise
        except UnsafeUrl as error:
            note = "" if error.target == parts.host else f" ({parts.host} resolves to it)"
            advice = error.advice if guard.suggests_networks else ""
            failure: UnsafeUrl | FetchFailed = UnsafeUrl(url, error.reason + note, kind=error.kind, advice=advice)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            kind, reason = _classify(error)
            failure = FetchFailed(url, reason, kind=kind)
        # Raised out here, it does not hold on to the connection's buffers by way of tracebacks.
        raise failure

    def _keeps(self, origin: tuple[str, str, int]) -> bool:
        """Is a connection kept for the next request? Of thousands of hosts, each asked once, only a hundred are."""
        now = asyncio.get_running_loop().time()
        while self._kept and next(iter(self._kept.values())) < now - _KEPT_FOR:
            del self._kept[next(iter(self._kept))]
        if origin not in self._kept and len(self._kept) >= _KEPT:
            return False
        self._kept.pop(origin, None)
        self._kept[origin] = now
        return True

    def _session(self, guard: Guard, *, keeps: bool) -> aiohttp.ClientSession:
        session = self._sessions.get((guard.networks, keeps))
        if session is None:
            session = self._sessions[guard.networks, keeps] = aiohttp.ClientSession(
                connector=self._connector(guard, keeps=keeps),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={**_HEADERS, "User-Agent": self._settings.user_agent},
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                response_class=_KnownAddress,
                trust_env=False,
            )
        return session

    def _connector(self, guard: Guard, *, keeps: bool) -> aiohttp.TCPConnector:
        if self._settings.proxy:  # every connection goes to the operator's proxy, which resolves the names
            return aiohttp.TCPConnector(limit=_CONNECTIONS, force_close=not keeps, ssl=self._tls)

        def checked_socket(info: AddrInfoType) -> socket.socket:  # pyright: ignore[reportUnknownParameterType]
            family, kind, protocol, _, sockaddr = cast("tuple[int, int, int, str, tuple[object, ...]]", info)
            guard.check_address(str(sockaddr[0]), port=int(str(sockaddr[1])))
            made = socket.socket(family, kind, protocol)
            made.setblocking(False)  # noqa: FBT003
            return made

        return aiohttp.TCPConnector(
            resolver=_CheckedResolver(guard, self.lookup),
            socket_factory=checked_socket,  # pyright: ignore[reportUnknownArgumentType]
            use_dns_cache=False,
            limit=_CONNECTIONS,
            limit_per_host=_PER_HOST,
            force_close=not keeps,
            ssl=self._tls,
        )


class _CheckedResolver(AbstractResolver):
    """Asks once and gives only addresses the guard has seen."""

    def __init__(self, guard: Guard, lookup: Lookup) -> None:
        self._guard = guard
        self._lookup = lookup

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: int = 0,  # noqa: ARG002
    ) -> list[ResolveResult]:
        found = await resolve_checked(host, port, guard=self._guard, lookup=self._lookup)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=to_port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address, to_port in found
        ]

    async def close(self) -> None:
        """Nothing is kept open."""


class _KnownAddress(aiohttp.ClientResponse):
    """A response that remembers which address sent it."""

    address = ""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        if connection.transport is not None and (peer := connection.transport.get_extra_info("peername")):
            self.address = str(peer[0])
        return await super().start(connection)


@asynccontextmanager
async def shared_client(site: str) -> AsyncGenerator[Client]:
    """The client of this event loop: opened by the first who asks, closed after the last.

    At most 100 have it at once, and 8 of those who ask the same site: to wait for a connection must
    not take from the time of a request.
    """
    loop = asyncio.get_running_loop()
    shared = _SHARED.get(loop)
    if shared is None:
        shared = _SHARED[loop] = _Shared()
    shared.users += 1
    try:
        async with shared.sites.setdefault(site, asyncio.Semaphore(_PER_HOST)), shared.slots:
            yield shared.client
    finally:
        shared.users -= 1
        if not shared.users:
            del _SHARED[loop]
            await shared.client.close()


class _Shared:
    """A client, how many use it, and how many may at once, in all and for a site that somebody waits for."""

    def __init__(self) -> None:
        self.client = Client()
        self.users = 0
        self.slots = asyncio.Semaphore(_CONNECTIONS)
        self.sites: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()


_SHARED: WeakKeyDictionary[asyncio.AbstractEventLoop, _Shared] = WeakKeyDictionary()


async def _body(answer: aiohttp.ClientResponse, url: str, limit: int, *, cuts: bool) -> bytes:
    encoding = ", ".join(answer.headers.getall("Content-Encoding", ())).strip().lower()
    if encoding not in _ENCODINGS:
        reason = f"encoded as {encoding[:40]!r}, which was not asked for"
        raise FetchFailed(url, reason, kind=FailureKind.ENCODING)
    too_long = f"a body of more than {limit} bytes"
    if (answer.content_length or 0) > limit and answer.method != "HEAD" and not cuts:
        raise FetchFailed(url, too_long, kind=FailureKind.TOO_LARGE)
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > limit:
            if cuts:
                return bytes(body[:limit])
            raise FetchFailed(url, too_long, kind=FailureKind.TOO_LARGE)
    return bytes(body)


def _text(value: str) -> str:
    """A header as text that can be stored and sent again: bytes that are not UTF-8 are read as Latin-1."""
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="surrogateescape").decode("latin-1")
    return value


def _origin(parts: Parts) -> tuple[str, str, int]:
    return parts.scheme, parts.host, parts.get_port()


def _resolve_location(url: str, location: str, guard: Guard) -> Parts:
    """Return the parts of the URL in a Location header, without the user and password it may name."""
    if re.search(r"[\x00-\x1f\x7f]", location):
        reason = "redirects to a Location with control characters"
        raise FetchFailed(url, reason, kind=FailureKind.BAD_REDIRECT)
    try:
        target = join(url, location)
    except InvalidUrl:
        reason = "redirects to a Location that is not a URL"
        raise FetchFailed(url, reason, kind=FailureKind.BAD_REDIRECT) from None
    try:
        parts = guard.check_url(target)
    except UnsafeUrl as error:
        reason = f"{error.reason} ({mask_credentials(url)} redirects to it)"
        raise UnsafeUrl(error.target, reason, kind=error.kind, advice=error.advice) from None
    parts.userinfo = parts.fragment = None
    return parts


@cache
def make_tls_context(ca_file: str) -> ssl.SSLContext:
    """TLS that trusts the CA certificates of a file, or the system's."""
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise CanonryError(f"CA file {ca_file}: {error.strerror or error}") from None


def _classify(error: Exception) -> tuple[FailureKind, str]:
    """Return the kind of a failed request and its description for people."""
    match error:
        case aiohttp.ClientConnectorError() | aiohttp.ClientConnectorCertificateError() | UnicodeError():
            return _classify_connect(error)
        case aiohttp.ServerDisconnectedError():
            return FailureKind.DISCONNECTED, "the connection was closed without an answer"
        case aiohttp.ClientPayloadError() if isinstance(error.__cause__, ContentEncodingError):
            return FailureKind.ENCODING, "the body is not in the content encoding that the server named"
        case aiohttp.ClientPayloadError():
            return FailureKind.DISCONNECTED, "the connection was closed within the body"
        case aiohttp.ClientHttpProxyError():
            return FailureKind.PROXY, f"the proxy of the settings answered {error.status}"
        case aiohttp.ClientResponseError():
            return FailureKind.PROTOCOL, f"no valid HTTP answer ({' '.join(error.message.split())[:100]})"
        case aiohttp.InvalidURL():  # the request's own URL was parsed before; the text would show the password
            return FailureKind.PROXY, "the proxy of the settings is not a URL"
        case ConnectionError() | aiohttp.ClientOSError():
            return FailureKind.DISCONNECTED, f"the connection was closed ({error.strerror or type(error).__name__})"
        case _:
            return FailureKind.OTHER, f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"


def _classify_connect(error: Exception) -> tuple[FailureKind, str]:
    """Return the same for a request that got no connection."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return FailureKind.DNS, f"the name does not resolve ({error.os_error.strerror or error.os_error})"
        case UnicodeError():  # from the lookup of a name that cannot be encoded
            return FailureKind.DNS, f"the name does not resolve ({error})"
        case aiohttp.ClientConnectorCertificateError():
            detail = getattr(error.certificate_error, "verify_message", "")
            return FailureKind.CERTIFICATE, f"its certificate is not valid ({detail})"
        case aiohttp.ClientConnectorSSLError():
            return FailureKind.TLS, "no TLS connection could be made"
        case aiohttp.ClientProxyConnectionError():
            return FailureKind.PROXY, f"no connection to the proxy ({error.os_error.strerror or error.os_error})"
        case aiohttp.ClientConnectorError():
            detail = error.os_error.strerror or str(error.os_error) or "it was closed"
            return FailureKind.CONNECT, f"no connection ({detail})"
        case _:
            return FailureKind.CONNECT, f"no connection ({type(error).__name__})"
