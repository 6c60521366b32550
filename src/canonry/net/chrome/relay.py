"""What passes through the proxy: one tunnel, or one request and its answer, byte for byte under limits."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from canonry.core.url import SCHEME_PORTS
from canonry.errors import FetchFailed, mask_credentials
from canonry.net.fetch import make_tls_context

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from canonry.settings import Settings

_PIECE = 2**16
# Of one connection only (RFC 9110, 7.6.1), or meant for us.
_OURS = frozenset({"connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer"})


@dataclass(frozen=True, slots=True)
class Limits:
    """What one door gives to a page."""

    header_bytes: int = 64 * 1024
    connection_bytes: int = 32 * 1024 * 1024  # received over one connection
    connections: int = 100  # open at once
    connect_seconds: float = 10.0
    idle_seconds: float = 30.0


class TooLong(Exception):
    """A connection brought more bytes than it may."""


class Answered(Exception):
    """The request ends with an answer of our own."""

    def __init__(self, status: HTTPStatus, reason: str = "", header: str = "") -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason
        self.header = header


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"

    @property
    def url(self) -> str:
        return f"https://{self.target}/" if self.is_tunnel else self.target

    @property
    def is_upgrade(self) -> bool:
        return any(word.strip().lower() == "upgrade" for word in self.header("connection").split(","))

    def header(self, name: str) -> str:
        return ", ".join(value for key, value in self.headers if key.lower() == name)


class Passage:
    """A connection of the browser and the one it leads to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits) -> None:
        self.reader = reader
        self._writer = writer
        self._limits = limits
        self._far: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._upstream: str | None = None  # what a plain request has to say to the operator's proxy
        self.address = ""
        self.received = 0

    def abort(self) -> None:
        """Both sides end, without waiting for what was not sent."""
        for writer in (self._writer, *(self._far[1:] if self._far else ())):
            writer.transport.abort()

    async def say(self, answer: bytes) -> None:
        """The answer and the end."""
        self._writer.write(answer)
        await self._close()

    async def connect(self, address: str, port: int) -> None:
        self._far = await asyncio.open_connection(address, port, limit=self._limits.header_bytes)

    async def connect_to_proxy(self, settings: Settings, host: str, port: int, *, tunnels: bool) -> None:
        """To the operator's proxy, which resolves the names and goes on from there."""
        proxy = urlsplit(settings.proxy)
        if proxy.scheme not in {"http", "https"} or not proxy.hostname:
            raise FetchFailed(mask_credentials(settings.proxy), "the proxy of the settings is not a URL")
        tls = make_tls_context(settings.ca_file) if proxy.scheme == "https" else None
        self._far = await asyncio.open_connection(
            proxy.hostname, proxy.port or SCHEME_PORTS[proxy.scheme], ssl=tls, limit=self._limits.header_bytes
        )
        self._upstream = ""
        if proxy.username is not None:
            pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            self._upstream = f"Proxy-Authorization: Basic {b64encode(pair.encode()).decode()}\r\n"
        if tunnels:
            reader, writer = self._far
            writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{self._upstream}\r\n".encode())
            status = _status_of(await _read_head(reader))
            if not 200 <= status < 300:
                raise FetchFailed(f"{host}:{port}", f"the proxy of the settings answered with {status}")

    async def tunnel(self) -> None:
        """Bytes both ways until one side ends."""
        self._writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._both_ways()

    async def relay(self, request: Request) -> None:
        """One request and its answer."""
        assert self._far is not None
        length = _body_length(request)
        self._far[1].write(_rewritten(request, self._upstream))
        sending = asyncio.create_task(self._send(length))
        try:
            head = await self._answer_head(request)
            if _status_of(head) == HTTPStatus.SWITCHING_PROTOCOLS:
                await _ended(sending)
                self._writer.write(head)
                await self._both_ways()
            else:
                self._writer.write(_closing(head))
                await _first_of(self._pump(self._far[0], self._writer, counts=True), sending)
                await self._close()
        finally:
            await _ended(sending)

    async def _answer_head(self, request: Request) -> bytes:
        """The head of the final answer; the ones before it (RFC 9110, 15.2) are left out."""
        assert self._far is not None
        reason = ""
        try:
            async with asyncio.timeout(self._limits.idle_seconds):
                while True:
                    head = await _read_head(self._far[0])
                    status = _status_of(head)
                    if status >= 200 or (status == HTTPStatus.SWITCHING_PROTOCOLS and request.is_upgrade):
                        return head
        except TimeoutError:
            reason = f"no answer within {self._limits.idle_seconds:g} s"
        except ValueError as error:
            reason = f"no valid HTTP answer ({error})"
        except (OSError, EOFError):
            reason = "the connection was closed without an answer"
        raise FetchFailed(mask_credentials(request.url), reason)

    async def _send(self, length: int) -> None:
        """The body of a request, then nothing until the browser leaves."""
        assert self._far is not None
        while length:
            piece = await self.reader.read(min(length, _PIECE))
            if not piece:
                return
            length -= len(piece)
            self._far[1].write(piece)
            await self._far[1].drain()
        await self.reader.read(1)

    async def _both_ways(self) -> None:
        assert self._far is not None
        reader, writer = self._far
        await _first_of(self._pump(reader, self._writer, counts=True), self._pump(self.reader, writer, counts=False))
        await self._close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counts: bool) -> None:
        """Bytes from one side to the other until the first ends."""
        while True:
            async with asyncio.timeout(self._limits.idle_seconds):
                piece = await reader.read(_PIECE)
                if not piece:
                    return
                self.received += len(piece) if counts else 0
                if self.received > self._limits.connection_bytes:
                    raise TooLong(f"more than {self._limits.connection_bytes} bytes")
                writer.write(piece)
                await writer.drain()

    async def _close(self) -> None:
        """What was sent arrives, then the browser's side ends."""
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(1):
                await self._writer.drain()
                self._writer.close()
                await self._writer.wait_closed()


async def _first_of(*ways: Coroutine[object, object, None] | asyncio.Task[None]) -> None:
    """Until one of them ends; what went wrong in it is raised."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _ended(*tasks)
    for task in done:
        task.result()


async def _ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise ValueError("headers that are too long") from None


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await _read_head(reader)
    except asyncio.IncompleteReadError:
        return None
    except ValueError:
        raise Answered(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "headers that are too long") from None
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ")
    headers = tuple((name, value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon)
    is_plain = all(re.fullmatch(r"[!#$%&'*+.^_`|~\w-]+", name, re.ASCII) for name, _ in headers)
    if (
        len(words) != 3
        or len(headers) != len(lines)
        or not is_plain
        or re.search(rb"[\0\r\n]", head[:-4].replace(b"\r\n", b""))
    ):
        raise Answered(HTTPStatus.BAD_REQUEST, "not a request")
    return Request(words[0], words[1], headers)


def _body_length(request: Request) -> int:
    length = request.header("content-length") or "0"
    if request.header("transfer-encoding") or not re.fullmatch(r"\d{1,15}", length, re.ASCII):
        raise Answered(HTTPStatus.LENGTH_REQUIRED, "a body of unknown length")
    return int(length)


def _rewritten(request: Request, upstream: str | None) -> bytes:
    """The head as a server, or the next proxy, wants it."""
    rest = re.sub(r"^http://[^/?#]*", "", request.target, flags=re.IGNORECASE)
    target = request.target if upstream is not None else rest if rest.startswith("/") else f"/{rest}"
    kept = [f"{name}: {value}\r\n" for name, value in request.headers if name.lower() not in _OURS]
    ending = "Upgrade" if request.is_upgrade else "close"
    return f"{request.method} {target} HTTP/1.1\r\n{''.join(kept)}{upstream or ''}Connection: {ending}\r\n\r\n".encode(
        "latin-1"
    )


def _status_of(head: bytes) -> int:
    match = re.match(rb"HTTP/1\.[01] ([1-9]\d\d)\b", head)
    if match is None:
        raise ValueError("another protocol")
    return int(match[1])


def _closing(head: bytes) -> bytes:
    """The head of an answer after which the connection ends: the next request is judged anew."""
    first, *lines = head[:-4].split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in {b"connection", b"keep-alive"}]
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])
