"""One connection of the proxy: a tunnel, or one request and its answer, byte for byte and under limits."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from canonry.core.url import SCHEME_PORTS
from canonry.errors import FailureKind
from canonry.net.chrome.http_heads import (
    DirectResponse,
    HeadTooLarge,
    InvalidHead,
    ProxyRequest,
    make_forwarded_head,
    make_request_head,
    parse_body_length,
    parse_status,
    read_head,
    replace_connection_header,
)
from canonry.net.engine import PageFailure
from canonry.net.tls import make_tls_context

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from canonry.settings import Settings

_READ_BYTES = 2**16
_CLOSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """Limits of one proxy endpoint."""

    header_bytes: int = 64 * 1024
    connection_bytes: int = 32 * 1024 * 1024  # received over one connection
    connections: int = 100  # open at once
    connect_seconds: float = 10.0
    idle_seconds: float = 30.0


class ConnectionTooLarge(Exception):
    """A connection received more bytes than the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.failure = PageFailure(FailureKind.TOO_LARGE, f"The answer has more than {limit} bytes")


def make_gateway_error(kind: FailureKind, detail: str) -> DirectResponse:
    """Return the response for a server that could not be reached or did not answer."""
    return DirectResponse(HTTPStatus.BAD_GATEWAY, PageFailure(kind, detail))


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
        headers = [(b"Host", authority.encode()), *(self._upstream_headers or ())]
        writer.write(make_request_head("CONNECT", authority, headers))
        try:
            status = parse_status(await read_head(reader))
        except (InvalidHead, HeadTooLarge):
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
        body_bytes = parse_body_length(request)
        self._server[1].write(make_forwarded_head(request, self._upstream_headers))
        sending = asyncio.create_task(self._send_body(body_bytes))
        try:
            head = await self._read_response_head(request)
            if parse_status(head) == HTTPStatus.SWITCHING_PROTOCOLS:
                await _cancel(sending)
                self._writer.write(head)
                await self._relay_both_ways()
            else:
                self._writer.write(replace_connection_header(head))
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
                    head = await read_head(self._server[0])
                    status = parse_status(head)
                    if status >= 200 or (status == HTTPStatus.SWITCHING_PROTOCOLS and request.is_upgrade):
                        return head
        except TimeoutError:
            raise make_gateway_error(FailureKind.TIMEOUT, f"The server did not answer within {seconds:g} s") from None
        except InvalidHead:
            raise make_gateway_error(FailureKind.NOT_HTTP, "The server did not answer in HTTP") from None
        except HeadTooLarge:
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
    """Run several tasks until the first one ends, cancel the others, and raise the error of the first."""
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
