"""One connection of the proxy: a tunnel, or one request and its answer, byte for byte and under limits."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import h11

from canonry.core.url import SCHEME_PORTS
from canonry.errors import FailureKind
from canonry.net.engine import PageFailure
from canonry.net.fetch import make_tls_context

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from canonry.settings import Settings

_READ_BYTES = 2**16
_CLOSE_SECONDS = 1.0
# Headers for one connection only (RFC 9110, 7.6.1), or for this proxy. They are not forwarded.
_DROPPED_HEADERS = frozenset(
    {b"connection", b"keep-alive", b"proxy-authorization", b"proxy-connection", b"te", b"trailer"}
)


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """Limits of one proxy endpoint."""

    header_bytes: int = 64 * 1024
    connection_bytes: int = 32 * 1024 * 1024  # received over one connection
    connections: int = 100  # open at once
    connect_seconds: float = 10.0
    idle_seconds: float = 30.0


class ConnectionTooLarge(Exception):
    """A connection received more bytes than it may."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.failure = PageFailure(FailureKind.TOO_LARGE, f"The answer has more than {limit} bytes")


class DirectResponse(Exception):
    """Ends a request with a response of the proxy itself; `failure` says why it was not forwarded."""

    def __init__(self, status: HTTPStatus, failure: PageFailure | None = None, header: str = "") -> None:
        super().__init__(status, failure)
        self.status = status
        self.failure = failure
        self.header = header


def make_gateway_error(kind: FailureKind, detail: str) -> DirectResponse:
    """Return the response for a server that could not be reached or did not answer."""
    return DirectResponse(HTTPStatus.BAD_GATEWAY, PageFailure(kind, detail))


class _InvalidHead(Exception):
    """The head of a response cannot be read."""


class _HeadTooLarge(Exception):
    """The head of a request or response has more bytes than it may."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """The head of a request, as h11 has checked it; `headers` holds (name in lower case, name as sent, value)."""

    method: str
    target: str
    headers: tuple[tuple[bytes, bytes, bytes], ...]

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"

    @property
    def url(self) -> str:
        return f"https://{self.target}/" if self.is_tunnel else self.target

    @property
    def is_upgrade(self) -> bool:
        return any(word.strip().lower() == "upgrade" for word in self.get_header("connection").split(","))

    def get_header(self, name: str) -> str:
        """Return the values of a header, joined with commas; empty if there is none."""
        wanted = name.encode()
        return ", ".join(value.decode("latin-1") for lower_name, _, value in self.headers if lower_name == wanted)


class ProxyConnection:
    """A connection from the browser, and the connection to the server that it leads to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: ProxyLimits) -> None:
        self.reader = reader
        self._writer = writer
        self._limits = limits
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._upstream_headers: list[tuple[bytes, bytes]] | None = None  # set if the server is the operator's proxy
        self.address = ""
        self.received_bytes = 0

    def abort(self) -> None:
        """Close both sides without waiting for unsent bytes."""
        for writer in (self._writer, *(self._server[1:] if self._server else ())):
            writer.transport.abort()

    async def respond(self, response: bytes) -> None:
        """Send a response of the proxy itself and close the connection."""
        self._writer.write(response)
        await self._close()

    async def connect(self, address: str, port: int) -> None:
        self._server = await asyncio.open_connection(address, port, limit=self._limits.header_bytes)

    async def connect_to_proxy(self, settings: Settings, host: str, port: int, *, tunnels: bool) -> None:
        """Connect to the operator's proxy (setting `proxy`), which resolves host names itself."""
        proxy = urlsplit(settings.proxy)
        if proxy.scheme not in {"http", "https"} or not proxy.hostname:
            raise make_gateway_error(FailureKind.NOT_LOADED, "The setting proxy (CANONRY_PROXY) is not an http(s) URL")
        tls = make_tls_context(settings.ca_file) if proxy.scheme == "https" else None
        proxy_port = proxy.port or SCHEME_PORTS[proxy.scheme]
        self._server = await asyncio.open_connection(
            proxy.hostname, proxy_port, ssl=tls, limit=self._limits.header_bytes
        )
        self._upstream_headers = []
        if proxy.username is not None:
            credentials = b64encode(f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode())
            self._upstream_headers.append((b"Proxy-Authorization", b"Basic " + credentials))
        if tunnels:
            await self._open_upstream_tunnel(f"{host}:{port}")

    async def _open_upstream_tunnel(self, authority: str) -> None:
        assert self._server is not None
        reader, writer = self._server
        writer.write(_make_head("CONNECT", authority, [(b"Host", authority.encode()), *(self._upstream_headers or ())]))
        try:
            status = _parse_status(await _read_head(reader))
        except (_InvalidHead, _HeadTooLarge):
            raise make_gateway_error(
                FailureKind.NOT_LOADED, "The proxy of the settings (CANONRY_PROXY) did not answer in HTTP"
            ) from None
        if not 200 <= status < 300:
            detail = f"The proxy of the settings (CANONRY_PROXY) answered with status {status}"
            raise make_gateway_error(FailureKind.NOT_LOADED, detail)

    async def tunnel(self) -> None:
        """Relay bytes in both directions until one side closes."""
        self._writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._relay_both_ways()

    async def forward(self, request: ProxyRequest) -> None:
        """Send one request to the server and its answer to the browser."""
        assert self._server is not None
        body_bytes = _parse_body_length(request)
        self._server[1].write(_make_forwarded_head(request, self._upstream_headers))
        sending = asyncio.create_task(self._send_body(body_bytes))
        try:
            head = await self._read_response_head(request)
            if _parse_status(head) == HTTPStatus.SWITCHING_PROTOCOLS:
                await _cancel(sending)
                self._writer.write(head)
                await self._relay_both_ways()
            else:
                self._writer.write(_replace_connection_header(head))
                await _run_until_first(self._relay(self._server[0], self._writer, is_received=True), sending)
                await self._close()
        finally:
            await _cancel(sending)

    async def _read_response_head(self, request: ProxyRequest) -> bytes:
        """Return the head of the final response; skip informational ones (RFC 9110, 15.2)."""
        assert self._server is not None
        seconds = self._limits.idle_seconds
        try:
            async with asyncio.timeout(seconds):
                while True:
                    head = await _read_head(self._server[0])
                    status = _parse_status(head)
                    if status >= 200 or (status == HTTPStatus.SWITCHING_PROTOCOLS and request.is_upgrade):
                        return head
        except TimeoutError:
            raise make_gateway_error(FailureKind.TIMEOUT, f"The server did not answer within {seconds:g} s") from None
        except _InvalidHead:
            raise make_gateway_error(FailureKind.NOT_HTTP, "The server did not answer in HTTP") from None
        except _HeadTooLarge:
            detail = f"The server sent more than {self._limits.header_bytes} bytes of headers"
            raise make_gateway_error(FailureKind.TOO_LARGE, detail) from None
        except (OSError, EOFError):
            detail = "The server closed the connection without an answer"
            raise make_gateway_error(FailureKind.DISCONNECTED, detail) from None

    async def _send_body(self, remaining: int) -> None:
        """Relay the body of a request, then wait until the browser closes the connection."""
        assert self._server is not None
        while remaining:
            chunk = await self.reader.read(min(remaining, _READ_BYTES))
            if not chunk:
                return
            remaining -= len(chunk)
            self._server[1].write(chunk)
            await self._server[1].drain()
        await self.reader.read(1)

    async def _relay_both_ways(self) -> None:
        assert self._server is not None
        reader, writer = self._server
        await _run_until_first(
            self._relay(reader, self._writer, is_received=True), self._relay(self.reader, writer, is_received=False)
        )
        await self._close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_received: bool) -> None:
        """Relay bytes in one direction until their sender closes."""
        while True:
            async with asyncio.timeout(self._limits.idle_seconds):
                chunk = await reader.read(_READ_BYTES)
                if not chunk:
                    return
                self.received_bytes += len(chunk) if is_received else 0
                if self.received_bytes > self._limits.connection_bytes:
                    raise ConnectionTooLarge(self._limits.connection_bytes)
                writer.write(chunk)
                await writer.drain()

    async def _close(self) -> None:
        """Close the browser's side after the written bytes are sent."""
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._writer.drain()
                self._writer.close()
                await self._writer.wait_closed()


async def _run_until_first(*work: Coroutine[object, object, None] | asyncio.Task[None]) -> None:
    """Run until one of them ends, cancel the others, and raise the error of the one that ended."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancel(*tasks)
    for task in done:
        task.result()


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    """Read up to the empty line after the headers; the limit is the reader's, and the body stays in the reader."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise _HeadTooLarge from None


async def read_request(reader: asyncio.StreamReader) -> ProxyRequest | None:
    """Read the head of a request; return None if the browser closed the connection, raise DirectResponse if invalid."""
    try:
        head = await _read_head(reader)
    except asyncio.IncompleteReadError:
        return None
    except _HeadTooLarge:
        failure = PageFailure(FailureKind.NOT_LOADED, "The headers of the request are too large")
        raise DirectResponse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, failure) from None
    connection = h11.Connection(h11.SERVER)
    try:
        connection.receive_data(head)
        event = connection.next_event()
    except h11.RemoteProtocolError as error:
        raise _make_bad_request(str(error)) from None
    # h11 takes a lone LF for the end of a line (RFC 9112, 2.2). Servers differ in that, so such a head is refused.
    has_lone_lf = b"\n" in head.replace(b"\r\n", b"")
    if not isinstance(event, h11.Request) or event.http_version != b"1.1" or has_lone_lf:
        raise _make_bad_request("it is not an HTTP/1.1 request")
    headers = tuple(
        (lower_name, raw_name, value)
        for (lower_name, value), (raw_name, _) in zip(event.headers, event.headers.raw_items(), strict=True)
    )
    return ProxyRequest(event.method.decode(), event.target.decode(), headers)


def _make_bad_request(reason: str) -> DirectResponse:
    failure = PageFailure(FailureKind.NOT_LOADED, f"The request is invalid: {reason}")
    return DirectResponse(HTTPStatus.BAD_REQUEST, failure)


def _parse_body_length(request: ProxyRequest) -> int:
    """Return `Content-Length`, which h11 has checked; chunked bodies are not forwarded."""
    if request.get_header("transfer-encoding"):
        failure = PageFailure(FailureKind.NOT_LOADED, "The request has a body of unknown length")
        raise DirectResponse(HTTPStatus.LENGTH_REQUIRED, failure)
    return int(request.get_header("content-length") or "0")


def _make_forwarded_head(request: ProxyRequest, upstream_headers: list[tuple[bytes, bytes]] | None) -> bytes:
    """Return the head for the server, or for the operator's proxy, which takes absolute targets."""
    target = request.target
    if upstream_headers is None:
        path = re.sub(r"^http://[^/?#]*", "", target, flags=re.IGNORECASE)
        target = path if path.startswith("/") else f"/{path}"
    headers = [(name, value) for lower_name, name, value in request.headers if lower_name not in _DROPPED_HEADERS]
    headers += [*(upstream_headers or ()), (b"Connection", b"Upgrade" if request.is_upgrade else b"close")]
    return _make_head(request.method, target, headers)


def _make_head(method: str, target: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    head = h11.Connection(h11.CLIENT).send(h11.Request(method=method, target=target, headers=headers))
    assert head is not None
    return head


# The heads of responses are not read with h11: it refuses what browsers accept and servers send (a space in the name
# of a header, a line without a colon, two different lengths). One response ends each connection, so nothing can be
# smuggled behind it, and Chrome gets the bytes as they came.


def _parse_status(head: bytes) -> int:
    match = re.match(rb"HTTP/1\.[01] ([1-9]\d\d)\b", head)
    if match is None:
        raise _InvalidHead
    return int(match[1])


def _replace_connection_header(head: bytes) -> bytes:
    """Return a response head with `Connection: close`: the proxy must see the browser's next request."""
    first, *lines = head[:-4].split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in {b"connection", b"keep-alive"}]
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])
