"""Contract G1–G4 for a browser: the proxy forwards what the guard allows, and records why other requests failed.

127.0.0.2 stands for the public internet, 127.0.0.1 for what no page may reach; every connection is recorded.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import loopback
from canonry.errors import FailureKind
from canonry.net.chrome.proxy import LOGIN_URL, USER, Proxy, ProxyEndpoint
from canonry.net.chrome.relay import ProxyLimits
from canonry.net.guard import Guard
from canonry.net.origin import Origin
from canonry.settings import Settings
from loopback import (
    ADDRESS,
    EVERY_PORT,
    Listener,
    LoopbackWeb,
    in_a_loop,
    make_http_response,
    read_request,
    resolve_nothing,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from loopback import Request

PROXY = "127.0.0.1"


@asynccontextmanager
async def open_proxy(lookup: Any = resolve_nothing, **options: Any) -> AsyncIterator[tuple[Proxy, ProxyEndpoint]]:
    guard = options.pop("guard", None) or Guard([f"{ADDRESS}/32"], EVERY_PORT)
    settings = options.pop("settings", None) or Settings(ca_file=loopback.get_ca_file())
    async with Proxy(settings, guard, lookup=lookup, **options) as proxy:
        yield proxy, await proxy.open_endpoint()


async def send(proxy: Proxy, endpoint: ProxyEndpoint, request: str, *, password: str | None = None) -> bytes:
    """Send a request with the password, and return the answer up to the end of the connection."""
    reader, writer = await asyncio.open_connection(PROXY, endpoint.port)
    writer.write(add_password(proxy, request, password))
    try:
        async with asyncio.timeout(60):
            return await reader.read(-1)
    except ConnectionResetError:
        return b""
    finally:
        await close(writer)


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError, ssl.SSLError):
        await writer.wait_closed()


def get_last_kind(endpoint: ProxyEndpoint) -> FailureKind:
    return endpoint.failures[-1].failure.kind


def parse_status(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


def add_password(proxy: Proxy, request: str, password: str | None = None) -> bytes:
    pair = b64encode(f"{USER}:{proxy.password if password is None else password}".encode()).decode()
    return request.replace("\n", f"\nProxy-Authorization: Basic {pair}\r\n", 1).encode()


def make_get(url: str, *lines: str) -> str:
    return "\r\n".join([f"GET {url} HTTP/1.1", "Host: x", *lines, "", ""])


def make_connect(authority: str) -> str:
    return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"


async def stay_silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read(-1)


def list_reached() -> set[str]:
    """Return the addresses of all connections except those to the proxy itself."""
    return set(loopback.CONNECTS) - {PROXY}


@pytest.fixture(autouse=True)
def connects() -> None:
    loopback.CONNECTS.clear()


@in_a_loop
async def test_a_request_is_forwarded_without_the_headers_for_the_proxy() -> None:
    requests: list[Request] = []
    bodies: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        assert request is not None
        requests.append(request)
        bodies.append(await reader.readexactly(int(request.headers.get("content-length", 0))))
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
        writer.write(make_http_response(201, {"X-Kept": "1", "Connection": "keep-alive"}, body=b"done"))

    async with Listener(talk) as server, open_proxy() as (proxy, endpoint):
        url = f"http://{ADDRESS}:{server.port}/a?b"
        lines = ["Proxy-Connection: keep-alive", "Connection: keep-alive", "Content-Length: 4", "X-Own: 2"]
        answer = await send(proxy, endpoint, make_get(url, *lines).replace("GET", "POST") + "body")
    assert answer == b"HTTP/1.1 201 Created\r\nX-Kept: 1\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone"
    assert (requests[0].method, requests[0].target, bodies) == ("POST", "/a?b", [b"body"])
    assert requests[0].headers == {"host": "x", "content-length": "4", "x-own": "2", "connection": "close"}
    assert endpoint.failures == []


@in_a_loop
async def test_a_tunnel_carries_tls() -> None:
    async with (
        LoopbackWeb({"https://site.example/": {"body": "inside"}}) as web,
        open_proxy(web.lookup) as (proxy, endpoint),
    ):
        reader, writer = await asyncio.open_connection(PROXY, endpoint.port)
        writer.write(add_password(proxy, make_connect("site.example:443")))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        await writer.start_tls(
            ssl.create_default_context(cafile=loopback.get_ca_file()), server_hostname="site.example"
        )
        writer.write(b"GET / HTTP/1.1\r\nHost: site.example\r\n\r\n")
        assert (await reader.readuntil(b"inside")).startswith(b"HTTP/1.1 200 OK")
        await close(writer)
        await web.wait_until_disconnected()


@in_a_loop
async def test_an_upgrade_becomes_a_tunnel() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        assert request is not None and request.headers["connection"] == "Upgrade"
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        writer.write(await reader.readexactly(4))

    async with Listener(talk) as server, open_proxy() as (proxy, endpoint):
        request = make_get(f"http://{ADDRESS}:{server.port}/", "Upgrade: websocket", "Connection: Upgrade")
        reader, writer = await asyncio.open_connection(PROXY, endpoint.port)
        writer.write(add_password(proxy, request))
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"ping"
        await close(writer)


@pytest.mark.parametrize("password", ["", "wrong", "ä"])
@in_a_loop
async def test_a_request_without_the_password_is_refused(password: str) -> None:
    async with Listener(lambda *_: asyncio.sleep(0)) as server, open_proxy() as (proxy, endpoint):
        for request in (
            make_get(f"http://{ADDRESS}:{server.port}/"),
            make_connect(f"{ADDRESS}:{server.port}"),
            make_get(LOGIN_URL),
        ):
            answer = await send(proxy, endpoint, request, password=password)
            assert answer.startswith(b"HTTP/1.1 407 ")
            assert b'Proxy-Authenticate: Basic realm="canonry"' in answer
        assert (server.accepted, list_reached()) == (0, set())
        assert (await send(proxy, endpoint, make_get(LOGIN_URL))).startswith(b"HTTP/1.1 200 ")


REFUSED, CONNECT = (403, FailureKind.REFUSED), (502, FailureKind.CONNECT)
UNREACHABLE = [
    # target                        status and kind
    ("127.0.0.1:{port}",            REFUSED),
    ("[::1]:{port}",                REFUSED),
    ("[::ffff:127.0.0.1]:{port}",   REFUSED),
    ("2130706433:{port}",           REFUSED),
    ("10.0.0.1:80",                 REFUSED),
    ("169.254.169.254:80",          REFUSED),
    ("metadata.google.internal:80", REFUSED),
    ("mixed.example:80",            REFUSED),
    ("inside.example:80",           REFUSED),
    ("empty.example:80",            REFUSED),
    ("nowhere.example:80",          CONNECT),
    ("unresolved.example:80",       (502, FailureKind.DNS)),
]  # fmt: skip


async def look_up_test_name(host: str, port: int) -> list[tuple[str, int]]:
    names = {"mixed.example": [ADDRESS, "127.0.0.1"], "inside.example": ["10.0.0.1"], "empty.example": []}
    if host == "unresolved.example":
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    if host not in names:
        raise OSError("no such name")
    return [(address, port) for address in names[host]]


@pytest.mark.parametrize(("target", "expected"), UNREACHABLE)
@in_a_loop
async def test_a_target_that_the_guard_refuses_is_not_reached(target: str, expected: tuple[int, FailureKind]) -> None:
    async with (
        Listener(lambda *_: asyncio.sleep(0), address="127.0.0.1") as secret,
        open_proxy(look_up_test_name) as (proxy, endpoint),
    ):
        authority = target.format(port=secret.port)
        status, kind = expected
        for request, url in (
            (make_get(f"http://{authority}/p"), f"http://{authority}/p"),
            (make_connect(authority), f"https://{authority}/"),
        ):
            answer = await send(proxy, endpoint, request)
            assert parse_status(answer) == status
            assert f"Canonry-Proxy: {proxy.token}".encode() in answer
            assert get_last_kind(endpoint) is kind
            assert endpoint.find_failure(url) is endpoint.failures[-1].failure
        assert secret.accepted == 0
    assert list_reached() == set()


@in_a_loop
async def test_ports_that_are_not_allowed_and_addresses_of_this_service_are_refused() -> None:
    async with Listener(lambda *_: asyncio.sleep(0)) as server:
        own = Guard([f"{ADDRESS}/32"], EVERY_PORT, [(ADDRESS, server.port)])
        async with open_proxy(guard=own) as (proxy, endpoint):
            assert parse_status(await send(proxy, endpoint, make_connect(f"{ADDRESS}:{server.port}"))) == 403
            assert get_last_kind(endpoint) is FailureKind.REFUSED
        async with open_proxy(guard=Guard([f"{ADDRESS}/32"])) as (proxy, endpoint):
            assert parse_status(await send(proxy, endpoint, make_connect(f"{ADDRESS}:6379"))) == 403
            assert get_last_kind(endpoint) is FailureKind.REFUSED
        # Even where loopback is allowed, no endpoint leads to an endpoint of the proxy.
        async with open_proxy(guard=Guard(["127.0.0.0/8"], EVERY_PORT)) as (proxy, endpoint):
            other = await proxy.open_endpoint()
            for port in (endpoint.port, other.port):
                assert parse_status(await send(proxy, endpoint, make_get(f"http://127.0.0.1:{port}/"))) == 403
                assert get_last_kind(endpoint) is FailureKind.REFUSED
        assert server.accepted == 0


@in_a_loop
async def test_a_name_is_resolved_once_for_each_connection() -> None:
    looked_up: list[str] = []

    async def rebinding(host: str, port: int) -> list[tuple[str, int]]:
        looked_up.append(host)
        return [(ADDRESS if len(looked_up) == 1 else "127.0.0.1", port)]

    async with (
        loopback.start_twins(answer_with(b"public"), answer_with(b"secret")) as (public, secret),
        open_proxy(rebinding) as (proxy, endpoint),
    ):
        url = f"http://rebind.example:{public.port}/"
        assert b"public" in await send(proxy, endpoint, make_get(url))
        assert parse_status(await send(proxy, endpoint, make_get(url))) == 403
        assert (len(looked_up), public.accepted, secret.accepted) == (2, 1, 0)


def test_a_page_from_a_public_address_does_not_reach_an_allowed_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract G4, with 127.0.0.2 as the public internet and 127.0.0.3 as an intranet that is allowed."""
    loopback.make_public(monkeypatch)

    async def names(host: str, port: int) -> list[tuple[str, int]]:
        return [(ADDRESS if host == "public.example" else "127.0.0.3", port)]

    @in_a_loop
    async def run() -> None:
        async with (
            Listener(answer_with(b"public")) as public,
            Listener(answer_with(b"intranet"), address="127.0.0.3") as intranet,
            open_proxy(names, guard=Guard(["127.0.0.3/32"], EVERY_PORT)) as (proxy, endpoint),
        ):
            url = make_get(f"http://intranet.example:{intranet.port}/")
            assert endpoint.start_page(Origin.PERSON)
            assert b"intranet" in await send(proxy, endpoint, url)
            tunnel_reader, tunnel = await asyncio.open_connection(PROXY, endpoint.port)
            tunnel.write(add_password(proxy, make_connect(f"intranet.example:{intranet.port}")))
            await tunnel_reader.readuntil(b"\r\n\r\n")
            assert b"public" in await send(proxy, endpoint, make_get(f"http://public.example:{public.port}/"))
            assert await tunnel_reader.read(-1) == b""  # open until then
            await close(tunnel)
            assert parse_status(await send(proxy, endpoint, url)) == 403
            # A page that a person names may go there, but not through this endpoint: the last page may still run.
            assert not endpoint.start_page(Origin.PERSON)
            assert not endpoint.start_page(Origin.from_server("127.0.0.3"))
            assert endpoint.start_page(Origin.from_server(ADDRESS))
            other = await proxy.open_endpoint()
            assert other.start_page(Origin.from_server("127.0.0.3"))
            assert b"intranet" in await send(proxy, other, url)
            assert other.start_page(Origin.from_server(""))  # an unknown address is treated as public
            assert parse_status(await send(proxy, other, url)) == 403

    run()


INVALID_REQUESTS = [
    # request                                                       status
    ("GET /\r\n\r\n",                                               400),
    ("GET http://x/ HTTP/1.0\r\nHost: x\r\n\r\n",                  400),
    ("GET http://x/ HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",     400),
    ("GET http://x/ HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n",   400),
    ("GET http://x/ HTTP/1.1\r\nHost: x\n\nGET / HTTP/1.1\r\n\r\n", 400),
    ("GET http://x/ HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n",        400),
    ("GET http://x/ HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n",      400),
    ("GET http://x/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",      400),
    ("GET / HTTP/1.1\r\nHost: x\r\n\r\n",                          400),
    ("GET https://127.0.0.2/ HTTP/1.1\r\nHost: x\r\n\r\n",         400),
    ("GET ftp://127.0.0.2/ HTTP/1.1\r\nHost: x\r\n\r\n",           400),
    ("GET http://x/ HTTP/1.1\r\nA: " + "b" * 70_000 + "\r\n\r\n",  431),
    ("CONNECT 127.0.0.2 HTTP/1.1\r\nHost: x\r\n\r\n",              502),
    ("CONNECT user:pw@127.0.0.1:80 HTTP/1.1\r\nHost: x\r\n\r\n",   403),
]  # fmt: skip


@pytest.mark.parametrize(("request_text", "status"), INVALID_REQUESTS)
@in_a_loop
async def test_invalid_requests_are_refused(request_text: str, status: int) -> None:
    async with open_proxy() as (proxy, endpoint):
        assert parse_status(await send(proxy, endpoint, request_text)) == status
    assert "pw" not in repr(endpoint.failures)


BODY_LENGTHS = [
    # header                          status
    ("Transfer-Encoding: chunked",    411),
    ("Transfer-Encoding: gzip",       400),
    ("Content-Length: -1",            400),
    ("Content-Length: 1, 2",          400),
]  # fmt: skip


@pytest.mark.parametrize(("line", "status"), BODY_LENGTHS)
@in_a_loop
async def test_a_body_of_unknown_length_is_refused(line: str, status: int) -> None:
    async with Listener(answer_with(b"x")) as server, open_proxy() as (proxy, endpoint):
        request = make_get(f"http://{ADDRESS}:{server.port}/", line)
        assert parse_status(await send(proxy, endpoint, request)) == status


INVALID_ANSWERS = [
    # what the server sends                                   kind
    (b"",                                                     FailureKind.DISCONNECTED),
    (b"SSH-2.0-x\r\n\r\n",                                    FailureKind.NOT_HTTP),
    (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 70_000 + b"\r\n\r\n", FailureKind.TOO_LARGE),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "kind"), INVALID_ANSWERS)
@in_a_loop
async def test_an_invalid_answer_of_the_server_is_a_failure(sent: bytes, kind: FailureKind) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(sent)
        if sent:
            await reader.read(-1)  # the proxy closes the connection; closing first would lose unread bytes

    async with Listener(talk) as server, open_proxy() as (proxy, endpoint):
        assert parse_status(await send(proxy, endpoint, make_get(f"http://{ADDRESS}:{server.port}/"))) == 502
        assert get_last_kind(endpoint) is kind


@in_a_loop
async def test_sloppy_headers_of_a_server_reach_the_browser_unchanged() -> None:
    sloppy = b"HTTP/1.1 200 OK\r\nA b: c\r\nno colon\r\nContent-Length: 2\r\n"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(sloppy + b"\r\nok")

    async with Listener(talk) as server, open_proxy() as (proxy, endpoint):
        answer = await send(proxy, endpoint, make_get(f"http://{ADDRESS}:{server.port}/"))
    assert answer == sloppy + b"Connection: close\r\n\r\nok"


@in_a_loop
async def test_a_connection_that_brings_too_many_bytes_is_closed() -> None:
    sent = 0

    async def send_endlessly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(bytes(10_000))
            await writer.drain()
            sent += 10_000

    limits = ProxyLimits(connection_bytes=1_000_000)
    async with Listener(send_endlessly) as server, open_proxy(limits=limits) as (proxy, endpoint):
        answer = await send(proxy, endpoint, make_get(f"http://{ADDRESS}:{server.port}/"))
        assert len(answer) <= 1_000_100
        assert get_last_kind(endpoint) is FailureKind.TOO_LARGE
        await server.wait_until_disconnected()
        assert sent < 20_000_000


@in_a_loop
async def test_a_silent_server_and_an_idle_tunnel_are_closed() -> None:
    async with Listener(stay_silent) as server, open_proxy(limits=ProxyLimits(idle_seconds=1)) as (proxy, endpoint):
        assert parse_status(await send(proxy, endpoint, make_get(f"http://{ADDRESS}:{server.port}/"))) == 502
        assert get_last_kind(endpoint) is FailureKind.TIMEOUT
        assert (await send(proxy, endpoint, make_connect(f"{ADDRESS}:{server.port}"))).startswith(b"HTTP/1.1 200 ")
        await server.wait_until_disconnected()


@in_a_loop
async def test_an_endpoint_has_a_limited_number_of_connections() -> None:
    async with Listener(stay_silent) as server, open_proxy(limits=ProxyLimits(connections=3)) as (proxy, endpoint):
        request = make_connect(f"{ADDRESS}:{server.port}")
        tunnels = [await asyncio.open_connection(PROXY, endpoint.port) for _ in range(3)]
        for reader, writer in tunnels:
            writer.write(add_password(proxy, request))
            await reader.readuntil(b"\r\n\r\n")
        assert parse_status(await send(proxy, endpoint, request)) == 503
        for _, writer in tunnels:
            await close(writer)
        await server.wait_until_disconnected()


@pytest.mark.parametrize("turns", range(8))
@in_a_loop
async def test_a_connection_accepted_during_close_is_closed(turns: int) -> None:
    async with Listener(stay_silent) as server, open_proxy() as (proxy, endpoint):
        with socket.create_connection((PROXY, endpoint.port)) as late:
            late.setblocking(False)
            late.sendall(add_password(proxy, make_connect(f"{ADDRESS}:{server.port}")))
            for _ in range(turns):  # of the event loop: each finds the connection at another step
                await asyncio.sleep(0)
            await endpoint.close()
            with suppress(ConnectionResetError):
                async with asyncio.timeout(60):
                    while await asyncio.get_running_loop().sock_recv(late, 1000):
                        pass
        await server.wait_until_disconnected()


@pytest.mark.parametrize("account", ["", "me:p%40ss@"])
@in_a_loop
async def test_requests_go_through_the_proxy_of_the_settings(account: str) -> None:
    requests: list[Request] = []

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            requests.append(request)
            if request.method == "GET":
                writer.write(make_http_response(200, {}, body=b"ok"))
                return
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

    async with Listener(upstream, address="127.0.0.2") as server:
        settings = Settings(proxy=f"http://{account}127.0.0.2:{server.port}")
        async with open_proxy(settings=settings, guard=Guard()) as (proxy, endpoint):
            assert (await send(proxy, endpoint, make_get("http://name.example.com/a"))).endswith(b"\r\n\r\nok")
            reader, writer = await asyncio.open_connection(PROXY, endpoint.port)
            writer.write(add_password(proxy, make_connect("name.example.com:443")))
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            await close(writer)
            assert parse_status(await send(proxy, endpoint, make_get("http://127.0.0.1/"))) == 403
    assert [(request.method, request.target) for request in requests] == [
        ("GET", "http://name.example.com/a"),
        ("CONNECT", "name.example.com:443"),
    ]
    expected = f"Basic {b64encode(b'me:p@ss').decode()}" if account else None
    assert [request.headers.get("proxy-authorization") for request in requests] == [expected, expected]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 403 Forbidden\r\n\r\n", b"SSH-2.0-x\r\n\r\n"])
@in_a_loop
async def test_a_tunnel_that_the_proxy_of_the_settings_refuses_is_a_failure(answer: bytes) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await reader.read(-1)

    async with Listener(refuse) as server:
        settings = Settings(proxy=f"http://{ADDRESS}:{server.port}")
        async with open_proxy(settings=settings, guard=Guard()) as (proxy, endpoint):
            assert parse_status(await send(proxy, endpoint, make_connect("name.example.com:443"))) == 502
            assert get_last_kind(endpoint) is FailureKind.NOT_LOADED


def answer_with(body: bytes) -> loopback.Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await read_request(reader) is not None:
            writer.write(make_http_response(200, {"Connection": "close"}, body=body))

    return talk
