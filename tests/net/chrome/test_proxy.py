"""contract G1–G4 for a browser: the proxy lets through what the guard does, and says why it does not.

127.0.0.2 stands for the public internet, 127.0.0.1 for what nobody may reach; every connection is recorded.
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
from canonry.net.chrome.proxy import HELLO, USER, Door, Proxy
from canonry.net.chrome.relay import Limits
from canonry.net.guard import Guard
from canonry.settings import Settings
from loopback import ADDRESS, EVERY_PORT, Listener, LoopbackWeb, http_answer, in_a_loop, no_names, read_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from loopback import Request

PROXY = "127.0.0.1"


@asynccontextmanager
async def door_of(lookup: Any = no_names, **options: Any) -> AsyncIterator[tuple[Proxy, Door]]:
    guard = options.pop("guard", None) or Guard([f"{ADDRESS}/32"], EVERY_PORT)
    settings = options.pop("settings", None) or Settings(ca_file=loopback.ca_file())
    async with Proxy(settings, guard, lookup=lookup, **options) as proxy:
        yield proxy, await proxy.open_door()


async def asked(proxy: Proxy, door: Door, request: str, *, password: str | None = None) -> bytes:
    """What the proxy answers, to the end of the connection."""
    reader, writer = await asyncio.open_connection(PROXY, door.port)
    writer.write(with_password(proxy, request, password))
    try:
        async with asyncio.timeout(5):
            return await reader.read(-1)
    except ConnectionResetError:
        return b""
    finally:
        await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError, ssl.SSLError):
        await writer.wait_closed()


def with_password(proxy: Proxy, request: str, password: str | None = None) -> bytes:
    pair = b64encode(f"{USER}:{proxy.password if password is None else password}".encode()).decode()
    return request.replace("\n", f"\nProxy-Authorization: Basic {pair}\r\n", 1).encode()


def get(url: str, *lines: str) -> str:
    return "\r\n".join([f"GET {url} HTTP/1.1", "Host: x", *lines, "", ""])


def connect(authority: str) -> str:
    return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"


async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read(-1)


def reached() -> set[str]:
    """Where connections went, those to the proxy itself left out."""
    return set(loopback.CONNECTS) - {PROXY}


@pytest.fixture(autouse=True)
def connects() -> None:
    loopback.CONNECTS.clear()


@in_a_loop
async def test_a_request_is_passed_on() -> None:
    requests: list[Request] = []
    bodies: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        assert request is not None
        requests.append(request)
        bodies.append(await reader.readexactly(int(request.headers.get("content-length", 0))))
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
        writer.write(http_answer(201, {"X-Kept": "1", "Connection": "keep-alive"}, body=b"done"))

    async with Listener(talk) as server, door_of() as (proxy, door):
        url = f"http://{ADDRESS}:{server.port}/a?b"
        lines = ["Proxy-Connection: keep-alive", "Connection: keep-alive", "Content-Length: 4", "X-Own: 2"]
        answer = await asked(proxy, door, get(url, *lines).replace("GET", "POST") + "body")
    assert answer == b"HTTP/1.1 201 Created\r\nX-Kept: 1\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone"
    assert (requests[0].method, requests[0].target, bodies) == ("POST", "/a?b", [b"body"])
    assert requests[0].headers == {"host": "x", "content-length": "4", "x-own": "2", "connection": "close"}
    assert door.refused == []


@in_a_loop
async def test_a_tunnel_carries_tls() -> None:
    async with LoopbackWeb({"https://site.example/": {"body": "inside"}}) as web, door_of(web.lookup) as (proxy, door):
        reader, writer = await asyncio.open_connection(PROXY, door.port)
        writer.write(with_password(proxy, connect("site.example:443")))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        await writer.start_tls(ssl.create_default_context(cafile=loopback.ca_file()), server_hostname="site.example")
        writer.write(b"GET / HTTP/1.1\r\nHost: site.example\r\n\r\n")
        assert (await reader.readuntil(b"inside")).startswith(b"HTTP/1.1 200 OK")
        await closed(writer)
        await web.until_quiet()


@in_a_loop
async def test_an_upgrade_becomes_a_tunnel() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        assert request is not None and request.headers["connection"] == "Upgrade"
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        writer.write(await reader.readexactly(4))

    async with Listener(talk) as server, door_of() as (proxy, door):
        request = get(f"http://{ADDRESS}:{server.port}/", "Upgrade: websocket", "Connection: Upgrade")
        reader, writer = await asyncio.open_connection(PROXY, door.port)
        writer.write(with_password(proxy, request))
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"ping"
        await closed(writer)


@pytest.mark.parametrize("password", ["", "wrong", "ä"])
@in_a_loop
async def test_the_password_is_needed(password: str) -> None:
    async with Listener(lambda *_: asyncio.sleep(0)) as server, door_of() as (proxy, door):
        for request in (get(f"http://{ADDRESS}:{server.port}/"), connect(f"{ADDRESS}:{server.port}"), get(HELLO)):
            answer = await asked(proxy, door, request, password=password)
            assert answer.startswith(b"HTTP/1.1 407 ")
            assert b'Proxy-Authenticate: Basic realm="canonry"' in answer
        assert (server.accepted, reached()) == (0, set())
        assert (await asked(proxy, door, get(HELLO))).startswith(b"HTTP/1.1 200 ")


REFUSED = [
    # target                     why
    ("127.0.0.1:{port}",         "refused: not public: loopback"),
    ("[::1]:{port}",             "refused: not public: outside of 2000::/3"),
    ("[::ffff:127.0.0.1]:{port}", "refused: not public: loopback"),
    ("2130706433:{port}",        "refused: not public: loopback"),
    ("10.0.0.1:80",              "refused: not public: private"),
    ("169.254.169.254:80",       "refused: a metadata service of the machine"),
    ("metadata.google.internal:80", "refused: the name of a metadata service"),
    ("mixed.example:80",         "refused: not public: loopback"),
    ("inside.example:80",        "refused: not public: private"),
    ("nowhere.example:80",       "no connection (no such name)"),
    ("empty.example:80",         "refused: has no address"),
]  # fmt: skip


async def _names(host: str, port: int) -> list[tuple[str, int]]:
    names = {"mixed.example": [ADDRESS, "127.0.0.1"], "inside.example": ["10.0.0.1"], "empty.example": []}
    if host not in names:
        raise OSError("no such name")
    return [(address, port) for address in names[host]]


@pytest.mark.parametrize(("target", "why"), REFUSED)
@in_a_loop
async def test_refused(target: str, why: str) -> None:
    async with (
        Listener(lambda *_: asyncio.sleep(0), address="127.0.0.1") as secret,
        door_of(_names) as (proxy, door),
    ):
        authority = target.format(port=secret.port)
        status = b"403" if why.startswith("refused") else b"502"
        for request, url in ((get(f"http://{authority}/p"), f"http://{authority}/p"), (connect(authority), "")):
            answer = await asked(proxy, door, request)
            assert answer.split(b" ")[1] == status
            assert f"Canonry-Proxy: {proxy.mark}".encode() in answer
            assert door.refused[-1].reason == why
            assert door.why(url or f"https://{authority}/") == why
        assert secret.accepted == 0
    assert reached() == set()


@in_a_loop
async def test_ports_and_our_own_addresses() -> None:
    async with Listener(lambda *_: asyncio.sleep(0)) as server:
        own = Guard([f"{ADDRESS}/32"], EVERY_PORT, [(ADDRESS, server.port)])
        async with door_of(guard=own) as (proxy, door):
            assert b" 403 " in await asked(proxy, door, connect(f"{ADDRESS}:{server.port}"))
            assert door.refused[-1].reason == "refused: this service itself"
        async with door_of(guard=Guard([f"{ADDRESS}/32"])) as (proxy, door):
            assert b" 403 " in await asked(proxy, door, connect(f"{ADDRESS}:6379"))
            assert door.refused[-1].reason == "refused: port 6379 is not a web port"
        # Also where loopback is allowed, the doors lead to none of the doors.
        async with door_of(guard=Guard(["127.0.0.0/8"], EVERY_PORT)) as (proxy, door):
            other = await proxy.open_door()
            for port in (door.port, other.port):
                assert b" 403 " in await asked(proxy, door, get(f"http://127.0.0.1:{port}/"))
                assert door.refused[-1].reason == "refused: this service itself"
        assert server.accepted == 0


@in_a_loop
async def test_a_name_is_looked_up_once_for_each_connection() -> None:
    looked_up: list[str] = []

    async def rebinding(host: str, port: int) -> list[tuple[str, int]]:
        looked_up.append(host)
        return [(ADDRESS if len(looked_up) == 1 else "127.0.0.1", port)]

    async with (
        loopback.twins(says(b"public"), says(b"secret")) as (public, secret),
        door_of(rebinding) as (proxy, door),
    ):
        url = f"http://rebind.example:{public.port}/"
        assert b"public" in await asked(proxy, door, get(url))
        assert b" 403 " in await asked(proxy, door, get(url))
        assert (len(looked_up), public.accepted, secret.accepted) == (2, 1, 0)


def test_what_a_public_address_gave_leads_to_no_allowed_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """contract G4, with 127.0.0.2 as the public internet and 127.0.0.3 as an intranet that is allowed."""
    loopback.make_public(monkeypatch)

    async def names(host: str, port: int) -> list[tuple[str, int]]:
        return [(ADDRESS if host == "public.example" else "127.0.0.3", port)]

    @in_a_loop
    async def run() -> None:
        async with (
            Listener(says(b"public")) as public,
            Listener(says(b"intranet"), address="127.0.0.3") as intranet,
            door_of(names, guard=Guard(["127.0.0.3/32"], EVERY_PORT)) as (proxy, door),
        ):
            url = get(f"http://intranet.example:{intranet.port}/")
            assert door.begin(None)
            assert b"intranet" in await asked(proxy, door, url)
            tunnel_reader, tunnel = await asyncio.open_connection(PROXY, door.port)
            tunnel.write(with_password(proxy, connect(f"intranet.example:{intranet.port}")))
            await tunnel_reader.readuntil(b"\r\n\r\n")
            assert b"public" in await asked(proxy, door, get(f"http://public.example:{public.port}/"))
            assert await tunnel_reader.read(-1) == b""  # open until then
            await closed(tunnel)
            assert b" 403 " in await asked(proxy, door, url)
            # A page that a person names may go there, but not through this door: the last one may still run.
            assert not door.begin(None)
            assert not door.begin("127.0.0.3")
            assert door.begin(ADDRESS)
            other = await proxy.open_door()
            assert other.begin("127.0.0.3")
            assert b"intranet" in await asked(proxy, other, url)
            assert other.begin("")  # an address nobody knows is taken for public
            assert b" 403 " in await asked(proxy, other, url)

    run()


BAD = [
    # request                                                       status
    ("GET /\r\n\r\n",                                               b"400"),
    ("GET http://x/ HTTP/1.1\r\nno colon\r\n\r\n",                  b"400"),
    ("GET http://x/ HTTP/1.1\r\nA: b\nC: d\r\n\r\n",                b"400"),
    ("GET http://x/ HTTP/1.1\r\nA : b\r\n\r\n",                     b"400"),
    ("GET / HTTP/1.1\r\nHost: x\r\n\r\n",                           b"400"),
    ("GET https://127.0.0.2/ HTTP/1.1\r\nHost: x\r\n\r\n",          b"400"),
    ("GET ftp://127.0.0.2/ HTTP/1.1\r\nHost: x\r\n\r\n",            b"400"),
    ("GET http://x/ HTTP/1.1\r\nA: " + "b" * 70_000 + "\r\n\r\n",   b"431"),
    ("CONNECT 127.0.0.2 HTTP/1.1\r\nHost: x\r\n\r\n",               b"502"),
    ("CONNECT user:pw@127.0.0.1:80 HTTP/1.1\r\nHost: x\r\n\r\n",    b"403"),
]  # fmt: skip


@pytest.mark.parametrize(("request_text", "status"), BAD)
@in_a_loop
async def test_bad_requests(request_text: str, status: bytes) -> None:
    async with door_of() as (proxy, door):
        answer = await asked(proxy, door, request_text)
        assert answer.split(b" ")[1] == status
    assert "pw" not in repr(door.refused)


@pytest.mark.parametrize("line", ["Transfer-Encoding: chunked", "Content-Length: -1", "Content-Length: 1, 2"])
@in_a_loop
async def test_bodies_of_unknown_length(line: str) -> None:
    async with Listener(says(b"x")) as server, door_of() as (proxy, door):
        answer = await asked(proxy, door, get(f"http://{ADDRESS}:{server.port}/", line))
        assert answer.startswith(b"HTTP/1.1 411 ")


ANSWERS = [
    # what the server says                                   what the browser gets
    (b"",                                                    "the connection was closed without an answer"),
    (b"SSH-2.0-x\r\n\r\n",                                   "no valid HTTP answer (another protocol)"),
    (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 70_000 + b"\r\n\r\n", "no valid HTTP answer (headers that are too long)"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "why"), ANSWERS)
@in_a_loop
async def test_bad_answers(said: bytes, why: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(said)
        await asyncio.sleep(0.1 if said else 0)

    async with Listener(talk) as server, door_of() as (proxy, door):
        assert b" 502 " in await asked(proxy, door, get(f"http://{ADDRESS}:{server.port}/"))
        assert door.refused[-1].reason == why


@in_a_loop
async def test_limits() -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(bytes(10_000))
            await writer.drain()
            sent += 10_000

    limits = Limits(connection_bytes=1_000_000, idle_seconds=1, connections=3)
    async with (
        Listener(endless) as server,
        Listener(silent) as mute,
        door_of(limits=limits) as (proxy, door),
    ):
        answer = await asked(proxy, door, get(f"http://{ADDRESS}:{server.port}/"))
        assert len(answer) <= 1_000_100
        assert door.refused[-1].reason == "more than 1000000 bytes"
        await server.until_quiet()
        assert sent < 20_000_000
        assert b" 502 " in await asked(proxy, door, get(f"http://{ADDRESS}:{mute.port}/"))
        assert door.refused[-1].reason == "no answer within 1 s"
        tunnels = [await asyncio.open_connection(PROXY, door.port) for _ in range(3)]
        for reader, writer in tunnels:
            writer.write(with_password(proxy, connect(f"{ADDRESS}:{mute.port}")))
            await reader.readuntil(b"\r\n\r\n")
        assert b" 503 " in await asked(proxy, door, connect(f"{ADDRESS}:{mute.port}"))
        for reader, writer in tunnels:  # nothing was said for too long
            assert await reader.read(-1) == b""
            await closed(writer)
        await mute.until_quiet()


@pytest.mark.parametrize("turns", range(8))
@in_a_loop
async def test_who_comes_while_the_door_is_closed_gets_nothing(turns: int) -> None:
    async with Listener(silent) as server, door_of() as (proxy, door):
        with socket.create_connection((PROXY, door.port)) as late:
            late.setblocking(False)
            late.sendall(with_password(proxy, connect(f"{ADDRESS}:{server.port}")))
            for _ in range(turns):  # of the loop: each finds the door at another step
                await asyncio.sleep(0)
            await door.close()
            with suppress(ConnectionResetError):
                async with asyncio.timeout(2):
                    assert not await asyncio.get_running_loop().sock_recv(late, 1)
        await server.until_quiet()


@pytest.mark.parametrize("account", ["", "me:p%40ss@"])
@in_a_loop
async def test_the_proxy_of_the_settings(account: str) -> None:
    requests: list[Request] = []

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            requests.append(request)
            if request.method == "GET":
                writer.write(http_answer(200, {}, body=b"ok"))
                return
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

    async with Listener(upstream, address="127.0.0.2") as server:
        settings = Settings(proxy=f"http://{account}127.0.0.2:{server.port}")
        async with door_of(settings=settings, guard=Guard()) as (proxy, door):
            assert (await asked(proxy, door, get("http://name.example.com/a"))).endswith(b"\r\n\r\nok")
            reader, writer = await asyncio.open_connection(PROXY, door.port)
            writer.write(with_password(proxy, connect("name.example.com:443")))
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            await closed(writer)
            assert b" 403 " in await asked(proxy, door, get("http://127.0.0.1/"))
    assert [(request.method, request.target) for request in requests] == [
        ("GET", "http://name.example.com/a"),
        ("CONNECT", "name.example.com:443"),
    ]
    wanted = f"Basic {b64encode(b'me:p@ss').decode()}" if account else None
    assert [request.headers.get("proxy-authorization") for request in requests] == [wanted, wanted]


def says(body: bytes) -> loopback.Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await read_request(reader) is not None:
            writer.write(http_answer(200, {"Connection": "close"}, body=body))

    return talk
