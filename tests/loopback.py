"""Servers on loopback for tests, over HTTP and TLS, and a client that resolves every name to them."""

from __future__ import annotations

import asyncio
import atexit
import base64
import shutil
import socket
import ssl
import sys
import tempfile
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, wraps
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeAlias

import pytest
import trustme

from canonry.core.url import parse
from canonry.errors import FailureKind, FetchFailed, RefusalKind, UnsafeUrl
from canonry.net import guard
from canonry.net.chrome.proxy import close_server
from canonry.net.fetch import Client
from canonry.net.guard import Guard
from canonry.settings import Settings
from ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping

    Talk: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[object]]

P = ParamSpec("P")
ADDRESS = "127.0.0.2"  # stands for the public internet; other loopback addresses are refused
EVERY_PORT = range(1, 65536)
# The addresses that this process connected to, recorded by an audit hook.
CONNECTS: list[str] = []
_WITHOUT_BODY = {204, 304}


def _record_connect(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        address = arguments[1]
        CONNECTS.append(str(address[0] if isinstance(address, tuple) else address))


sys.addaudithook(_record_connect)


@dataclass(frozen=True, slots=True)
class Request:
    """A received request; names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.headers.get('host', '')}{self.target}"


class Listener:
    """A server on loopback that runs `talk` for each connection and counts them; an async context manager.

    The connection is aborted when `talk` returns.
    """

    def __init__(self, talk: Talk, *, address: str = ADDRESS, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._talk = talk
        self._address = address
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._is_closed = False
        self.port = port
        self.accepted = 0
        self.connections = 0  # open now
        self.peak = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._address, self.port, ssl=self._tls, backlog=1000)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._is_closed = True
        await close_server(self._server)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def wait_until_disconnected(self) -> None:
        """Wait until the last client has disconnected."""
        async with asyncio.timeout(60):
            while self.connections:
                await asyncio.sleep(0.001)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_closed:
            writer.transport.abort()
            return
        self.accepted += 1
        self.connections += 1
        self.peak = max(self.peak, self.connections)
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks[task] = writer
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self.connections -= 1
        self._tasks.pop(task).transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(1)  # drained means sent; with 0, TLS without data is never drained
        with suppress(OSError, EOFError):  # the client left
            await self._talk(reader, writer)
            await writer.drain()


class LoopbackWeb:
    """Serves `pages` (absolute URL → answer, as in `feed_scenarios.json`) on 127.0.0.2; an async context manager.

    `missing` answers for every other path of their hosts; without it the connection is closed.
    """

    def __init__(self, pages: Mapping[str, Mapping[str, Any]], missing: Mapping[str, Any] | None = None) -> None:
        self._pages = {str(parse(url)): page for url, page in pages.items()}
        self._missing = missing
        self._turns = dict.fromkeys(self._pages, 0)
        self._origins: dict[tuple[str, int], str] = {}
        for url in self._pages:
            scheme, host, port = _split_origin(url)
            if self._origins.setdefault((host, port), scheme) != scheme:
                raise ValueError(f"{host}:{port} cannot be both http and https")
        hosts = sorted({host for host, _ in self._origins} or {"unused"})
        self._listeners = {
            "http": Listener(lambda reader, writer: self._converse("http", reader, writer)),
            "https": Listener(
                lambda reader, writer: self._converse("https", reader, writer), tls=make_server_tls(*hosts)
            ),
        }
        self._closed_port = socket.socket()
        self.seen: list[Request] = []
        # Requests for unknown pages, whose connection was closed without a response. aiohttp retries once on a new
        # connection, so each URL is listed twice.
        self.refused: list[tuple[str, str]] = []
        self.not_modified: set[str] = set()  # URLs that were answered with 304
        self.peak = 0

    @property
    def requests(self) -> list[tuple[str, str]]:
        """Method and URL of every request that got a response, in order."""
        return [(request.method, request.url) for request in self.seen]

    @property
    def connections(self) -> int:
        """The number of open connections; `peak` is the highest it was."""
        return sum(listener.connections for listener in self._listeners.values())

    async def __aenter__(self) -> Self:
        self._closed_port.bind((ADDRESS, 0))  # and never listens
        for listener in self._listeners.values():
            await listener.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            await listener.__aexit__()
        self._closed_port.close()

    async def wait_until_disconnected(self) -> None:
        """Wait until the last client has disconnected."""
        for listener in self._listeners.values():
            await listener.wait_until_disconnected()

    def client(self, **options: Any) -> Client:
        """Return a client that resolves names to this web; options are those of `Client`."""
        return make_client(**({"lookup": self.lookup} | options))

    async def lookup(self, host: str, port: int) -> list[tuple[str, int]]:
        """Resolve a host and port of the pages; for any other, return a port that refuses connections."""
        scheme = self._origins.get((host, port))
        return [(ADDRESS, self._listeners[scheme].port if scheme else self._closed_port.getsockname()[1])]

    async def _converse(self, scheme: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client leaves or requests an unknown page."""
        self.peak = max(self.peak, self.connections)
        while (request := await read_request(reader, scheme)) is not None:
            if request.url not in self._pages and self._missing is None:
                self.refused.append((request.method, request.url))
                return
            self.seen.append(request)
            writer.write(await self._answer(request, reader))
            await writer.drain()

    async def _answer(self, request: Request, reader: asyncio.StreamReader) -> bytes:
        page = self._pages.get(request.url, self._missing or {})
        if turns := page.get("sequence"):
            turn = self._turns[request.url]
            self._turns[request.url] += 1
            page = {**page, **turns[min(turn, len(turns) - 1)]}
        if delay := page.get("delay_ms"):
            await _pause(delay / 1000, reader)
        etag = page.get("headers", {}).get("ETag")
        if page.get("revalidates") and etag and request.headers.get("if-none-match") == etag:
            self.not_modified.add(request.url)
            return make_http_response(304, {"ETag": etag}, request.method)
        wanted = page.get("require_auth")
        if wanted and request.headers.get("authorization") != f"Basic {base64.b64encode(wanted.encode()).decode()}":
            return make_http_response(401, {"WWW-Authenticate": "Basic realm=loopback"}, request.method)
        return make_http_response(page.get("status", 200), page.get("headers", {}), request.method, _make_body(page))


def make_client(**options: Any) -> Client:
    """Return a client that trusts the test CA and may reach 127.0.0.2 on any port; options are those of `Client`."""
    settings = replace(options.pop("settings", None) or Settings(), ca_file=get_ca_file())
    judge = options.pop("guard", None) or Guard([f"{ADDRESS}/32"], EVERY_PORT)
    return Client(judge, **({"lookup": resolve_nothing} | options), settings=settings)


async def resolve_nothing(host: str, port: int) -> list[tuple[str, int]]:
    """Fail every lookup; the default, because the system's resolver would use the network."""
    raise OSError(f"the test does not resolve {host}:{port}")


@asynccontextmanager
async def start_twins(talk: Talk, twin_talk: Talk) -> AsyncIterator[tuple[Listener, Listener]]:
    """Start a public server, and one on 127.0.0.1 with the same port that must not be reached."""
    port = free_port()
    async with Listener(talk, port=port) as public, Listener(twin_talk, address="127.0.0.1", port=port) as secret:
        yield public, secret


def make_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make 127.0.0.2 public for the guard without allowing it; 127.0.0.1 and 127.0.0.3 stay private."""
    others = [each for each in guard._NOT_PUBLIC if ip_address(ADDRESS) not in each.network]
    private = [
        guard._make_range(f"{address}/32", RefusalKind.LOOPBACK, "a loopback address")
        for address in ("127.0.0.1", "127.0.0.3")
    ]
    monkeypatch.setattr(guard, "_NOT_PUBLIC", (*others, *private))


@contextmanager
def refuses(kind: RefusalKind) -> Iterator[pytest.ExceptionInfo[UnsafeUrl]]:
    """Expect an `UnsafeUrl` of this kind in the block."""
    with pytest.raises(UnsafeUrl) as caught:
        yield caught
    assert caught.value.kind is kind


@contextmanager
def fails(kind: FailureKind) -> Iterator[pytest.ExceptionInfo[FetchFailed]]:
    """Expect a `FetchFailed` of this kind in the block."""
    with pytest.raises(FetchFailed) as caught:
        yield caught
    assert caught.value.kind is kind


def make_http_response(status: int, headers: Mapping[str, str], method: str = "GET", body: bytes = b"") -> bytes:
    """Return the bytes of a response; Content-Length is added unless a header frames the body."""
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    if status in _WITHOUT_BODY:
        body = b""
    elif not {"content-length", "transfer-encoding"} & {name.lower() for name in headers}:
        lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join([*lines, "", ""]).encode()
    return head if method == "HEAD" else head + body


async def read_request(reader: asyncio.StreamReader, scheme: str = "http") -> Request | None:
    """Return the next request of a connection; None at its end, or if the client speaks TLS to a plain server."""
    try:
        head = await reader.readexactly(1)
        if head == b"\x16":
            return None
        head += await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Request(method, target, headers, scheme)


def make_server_tls(*hosts: str) -> ssl.SSLContext:
    """Return TLS for a server, with a certificate for these hosts from the test CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _issue_certificate(hosts).configure_cert(context)
    return context


@cache
def get_ca_file() -> str:
    """Return the file with the certificate of the test CA."""
    folder = Path(tempfile.mkdtemp(prefix="canonry-ca-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "ca.pem"
    _get_ca().cert_pem.write_to_path(str(file))
    return str(file)


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test for at most five minutes; errors that the event loop would only log make the test fail."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        errors: list[object] = []

        async def bounded() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
            async with asyncio.timeout(300):
                await test(*args, **kwargs)

        asyncio.run(bounded())
        assert not errors, errors

    return run


@cache
def _get_ca() -> trustme.CA:
    return trustme.CA()


@cache
def _issue_certificate(hosts: tuple[str, ...]) -> trustme.LeafCert:
    return _get_ca().issue_cert(*(host.strip("[]") for host in hosts))


def _split_origin(url: str) -> tuple[str, str, int]:
    parts = parse(url)
    return parts.scheme, parts.host, parts.get_port()


async def _pause(seconds: float, reader: asyncio.StreamReader) -> None:
    """Wait, but stop if the client disconnects."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await reader.read(1)
            raise ConnectionResetError("the client disconnected")


def _make_body(page: Mapping[str, Any]) -> bytes:
    if "body_base64" in page:
        return base64.b64decode(page["body_base64"])
    match page.get("body_repeat"):
        case {"unit": unit, "count": count, **around}:
            return f"{around.get('prefix', '')}{unit * count}{around.get('suffix', '')}".encode()
        case [prefix, unit, count, suffix]:
            return f"{prefix}{unit * count}{suffix}".encode()
    return str(page.get("body", "")).encode()
