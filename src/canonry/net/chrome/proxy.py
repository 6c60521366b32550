"""The proxy of the browser: a forward proxy on loopback that connects only where the guard allows it (contract G1, C7).

Each tab has an endpoint, which is a separate port, and every request needs a password. A host name is resolved once,
all its addresses are checked, and the connection goes to one of them. The proxy follows no redirects and caches
nothing: a connection carries one tunnel or one request, and a redirect arrives as the browser's next request.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import socket
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from hmac import compare_digest
from http import HTTPStatus
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from canonry.core.url import SCHEME_PORTS
from canonry.errors import FailureKind, RefusalKind, UnsafeUrl, mask_credentials
from canonry.net.chrome.http_heads import PROXY_HEADER, DirectResponse, ProxyRequest, read_request
from canonry.net.chrome.relay import ConnectionTooLarge, ProxyConnection, ProxyLimits, make_gateway_error
from canonry.net.dns import Lookup, resolve_checked, resolve_name
from canonry.net.engine import PageFailure
from canonry.net.origin import Origin

if TYPE_CHECKING:
    from canonry.core.url import Parts
    from canonry.net.guard import Guard
    from canonry.settings import Settings

USER = "canonry"
ADDRESS = "127.0.0.1"
# The proxy answers this URL itself: a browser that has opened it knows the password.
LOGIN_URL = "http://canonry.invalid/"
_MAX_REMEMBERED = 1000  # failures and addresses of one endpoint
_MAX_LOGGED_CHARACTERS = 200
_LOG = logging.getLogger("canonry.proxy")


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """A URL that the proxy did not reach, or whose response it did not forward to its end."""

    url: str
    failure: PageFailure


class Proxy:
    """The endpoints for the tabs of a browser; an async context manager."""

    def __init__(
        self, settings: Settings, guard: Guard, *, lookup: Lookup = resolve_name, limits: ProxyLimits | None = None
    ) -> None:
        self.settings = settings
        self.guard = guard.use_proxy() if settings.proxy else guard
        self.lookup = lookup
        self.limits = limits or ProxyLimits()
        self.password = secrets.token_urlsafe(24)
        self.token = secrets.token_hex(16)  # marks the responses that the proxy makes itself
        self.endpoints: set[ProxyEndpoint] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for endpoint in tuple(self.endpoints):
            await endpoint.close()

    async def open_endpoint(self) -> ProxyEndpoint:
        """Listen on a new port."""
        endpoint = ProxyEndpoint(self)
        await endpoint.listen()
        return endpoint

    def is_authorized(self, authorization: str) -> bool:
        """Whether a `Proxy-Authorization` header holds the password."""
        expected = b64encode(f"{USER}:{self.password}".encode()).decode()
        scheme, _, credentials = authorization.partition(" ")
        return scheme.lower() == "basic" and compare_digest(credentials.strip().encode(), expected.encode())


class ProxyEndpoint:
    """One port of the proxy, with the guard for the page that uses the port now."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], ProxyConnection] = {}
        self._addresses: dict[tuple[str, int], str] = {}  # that were reached, by host and port
        self.guard = proxy.guard
        self.failures: list[FailedRequest] = []
        self.challenge_count = 0  # requests without the password
        self.port = 0

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, ADDRESS, 0, limit=self._proxy.limits.header_bytes)
        self.port = self._server.sockets[0].getsockname()[1]
        self._proxy.endpoints.add(self)

    async def close(self) -> None:
        """Stop listening and end every open connection."""
        self._proxy.endpoints.discard(self)
        if self._server is not None:
            await close_server(self._server)
        tasks = tuple(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def start_page(self, origin: Origin) -> bool:
        """Set what the next page may reach; return False if that is more than the last page could reach.

        Scripts of the last page may still send requests to the same port, so a page that may reach more needs a new
        endpoint.
        """
        wanted = self._proxy.guard.for_origin(origin)
        if wanted is self._proxy.guard and self.guard is not wanted:
            return False
        self._narrow(wanted)
        self.failures.clear()
        for connection in self._connections.values():
            connection.received_bytes = 0
        return True

    def find_failure(self, url: str) -> PageFailure | None:
        """Return the latest failure of a request to the origin of a URL."""
        origin = _parse_origin(url)
        return next((each.failure for each in reversed(self.failures) if _parse_origin(each.url) == origin), None)

    def get_address(self, url: str) -> str:
        """Return the address that was last reached for the origin of a URL; empty if none was."""
        return self._addresses.get(_parse_origin(url), "")

    def _narrow(self, guard: Guard) -> None:
        """Use a stricter guard, and close the open connections that it would refuse."""
        if guard is self.guard:
            return
        self.guard = guard
        for task, connection in self._connections.items():
            with suppress(UnsafeUrl):
                if connection.address:
                    guard.check_address(connection.address)
                continue
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = ProxyConnection(reader, writer, self._proxy.limits)
        if self not in self._proxy.endpoints:
            connection.abort()  # accepted while the endpoint was being closed
            return
        task = asyncio.create_task(self._serve(connection))
        self._connections[task] = connection
        task.add_done_callback(self._end_connection)  # also called for a task that is cancelled before it has started

    def _end_connection(self, task: asyncio.Task[None]) -> None:
        self._connections.pop(task).abort()

    async def _serve(self, connection: ProxyConnection) -> None:
        """Serve one connection from its first byte to its last."""
        with suppress(OSError, EOFError, TimeoutError):  # one side closed the connection, or was idle for too long
            await self._forward(connection)

    async def _forward(self, connection: ProxyConnection) -> None:
        request: ProxyRequest | None = None
        try:
            async with asyncio.timeout(self._proxy.limits.idle_seconds):
                request = await read_request(connection.reader)
            if request is None:
                return
            self._admit(request)
            await self._connect(request, connection)
            await (connection.tunnel() if request.is_tunnel else connection.forward(request))
        except UnsafeUrl as error:
            failure = PageFailure(FailureKind.REFUSED, str(error))
            await self._respond(request, connection, DirectResponse(HTTPStatus.FORBIDDEN, failure))
        except DirectResponse as response:
            await self._respond(request, connection, response)
        except ConnectionTooLarge as error:
            self._record_failure(request, error.failure)

    def _admit(self, request: ProxyRequest) -> None:
        """Answer requests that are not forwarded by raising DirectResponse."""
        if not self._proxy.is_authorized(request.get_header("proxy-authorization")):
            self.challenge_count += 1
            challenge = 'Proxy-Authenticate: Basic realm="canonry"'
            raise DirectResponse(HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, header=challenge)
        if request.url.startswith(LOGIN_URL):
            raise DirectResponse(HTTPStatus.OK, header="Content-Type: text/html")
        limit = self._proxy.limits.connections
        if len(self._connections) > limit:
            failure = PageFailure(FailureKind.NOT_LOADED, f"The page has more than {limit} connections open")
            raise DirectResponse(HTTPStatus.SERVICE_UNAVAILABLE, failure)

    async def _connect(self, request: ProxyRequest, connection: ProxyConnection) -> None:
        """Connect to the server; a public server narrows what the page may reach from now on."""
        if not request.is_tunnel and not request.target.lower().startswith("http://"):
            failure = PageFailure(
                FailureKind.NOT_LOADED, "The request does not name an absolute http URL, as requests to a proxy must"
            )
            raise DirectResponse(HTTPStatus.BAD_REQUEST, failure)
        parts = self.guard.check_url(request.url)
        port = parts.get_port()
        seconds = self._proxy.limits.connect_seconds
        try:
            async with asyncio.timeout(seconds):
                if self._proxy.settings.proxy:
                    self._narrow_after(parts.host.strip("[]"))
                    await connection.connect_to_proxy(self._proxy.settings, parts.host, port, tunnels=request.is_tunnel)
                else:
                    await self._connect_directly(connection, parts, port)
        except TimeoutError:
            raise make_gateway_error(FailureKind.TIMEOUT, f"No connection within {seconds:g} s") from None
        except (OSError, UnicodeError) as error:
            kind = FailureKind.DNS if isinstance(error, socket.gaierror) else FailureKind.CONNECT
            reason = getattr(error, "strerror", None) or str(error) or "it was closed"
            raise make_gateway_error(kind, f"No connection: {reason}") from None

    async def _connect_directly(self, connection: ProxyConnection, parts: Parts, port: int) -> None:
        guard = self.guard
        found = await resolve_checked(parts.host.strip("[]"), port, guard=guard, lookup=self._look_up)
        last_error: OSError | None = None
        for address, to_port in found:
            checked = guard.check_address(address, port=to_port)
            is_own_port = any(to_port == endpoint.port for endpoint in self._proxy.endpoints)
            if is_own_port and (str(checked) == ADDRESS or checked.is_unspecified):
                reason = f"{address} port {to_port} is canonry itself"
                raise UnsafeUrl(address, reason, kind=RefusalKind.OWN_SERVICE)
            connection.address = address
            self._narrow_after(address)
            try:
                await connection.connect(address, to_port)
            except OSError as error:
                last_error = error
            else:
                place = (parts.host.strip("[]"), port)
                if place in self._addresses or len(self._addresses) < _MAX_REMEMBERED:
                    self._addresses[place] = address
                return
        assert last_error is not None  # the guard refuses a name without addresses
        raise last_error

    async def _look_up(self, host: str, port: int) -> list[tuple[str, int]]:
        """Resolve a host name; an IP address stands for itself."""
        if re.fullmatch(r"[\d.]+|[\da-f:.]*:[\da-f:.]*", host):
            return [(host, port)]
        return list(await self._proxy.lookup(host, port))

    def _narrow_after(self, server: str) -> None:
        # Content from a public server must not lead to private ones, whichever part of the page requests them.
        wider = self._proxy.guard
        narrower = wider.for_origin(Origin.from_server(server))
        if narrower is not wider:
            self._narrow(narrower)

    async def _respond(
        self, request: ProxyRequest | None, connection: ProxyConnection, response: DirectResponse
    ) -> None:
        if response.failure is not None:
            self._record_failure(request, response.failure)
        head = f"HTTP/1.1 {response.status} {response.status.phrase}\r\nContent-Length: 0\r\nConnection: close\r\n"
        token = f"{PROXY_HEADER}: {self._proxy.token}\r\n" if response.failure is not None else ""
        header = f"{response.header}\r\n" if response.header else ""
        await connection.respond(f"{head}{token}{header}\r\n".encode())

    def _record_failure(self, request: ProxyRequest | None, failure: PageFailure) -> None:
        url = mask_credentials(request.url) if request else ""
        _LOG.info("%s: %s", failure, url[:_MAX_LOGGED_CHARACTERS])
        if len(self.failures) < _MAX_REMEMBERED:
            self.failures.append(FailedRequest(url, failure))


async def close_server(server: asyncio.Server) -> None:
    """Close a server without losing connections that asyncio has accepted and not yet handed over."""
    for listening in server.sockets:
        server.get_loop().remove_reader(listening)  # accept no more connections
    await asyncio.sleep(0)  # the accepted ones get their transports
    server.close()


def _parse_origin(url: str) -> tuple[str, int]:
    """Return host and port only, because the request for a tunnel names no scheme."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.hostname:
            return parts.hostname, parts.port or SCHEME_PORTS["https" if parts.scheme in {"https", "wss"} else "http"]
    return url, 0
