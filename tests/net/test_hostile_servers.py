"""contract G1, G3, G5: attacks by servers and nameservers, over real connections; one test for each vector.

127.0.0.2 stands for the public internet. If an attack leads to a private address, a server with a secret listens on
127.0.0.1. Every connection of this process is recorded, and none may go to a refused address.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import sys
import threading
import time
import zlib
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import brotli  # type: ignore[import-untyped,unused-ignore]
import dnslib  # type: ignore[import-untyped]
import pytest
from backports import zstd

import canonry
import loopback
from canonry.errors import FailureKind, RefusalKind
from canonry.net.dns import resolve_name
from canonry.net.guard import Guard
from canonry.net.origin import Origin
from loopback import (
    ADDRESS,
    EVERY_PORT,
    Listener,
    LoopbackWeb,
    fails,
    in_a_loop,
    make_client,
    make_http_response,
    read_request,
    refuses,
)
from ports import free_port

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from loopback import Request, Talk

NAMESERVER = "127.0.0.4"
FETCH_BOMBS = Path(__file__).with_name("fetch_bombs.py")
VECTORS = json.loads((Path(__file__).parent.parent / "cases" / "ssrf_vectors.json").read_text())


@pytest.fixture(autouse=True)
def connects() -> Iterator[list[str]]:
    """The addresses of all connections of the test; it fails if one of them is refused."""
    loopback.CONNECTS.clear()
    yield loopback.CONNECTS
    assert set(loopback.CONNECTS) <= {ADDRESS, NAMESERVER}


def test_every_vector_is_tried() -> None:
    wanted = {f"test_{row['vector'].replace('-', '_')}" for row in VECTORS if row["kind"] == "behaviour"}
    assert {name for name in globals() if name.startswith("test_")} - {"test_every_vector_is_tried"} == wanted


@in_a_loop
async def test_dns_rebind() -> None:
    async with (
        loopback.start_twins(answer_with_page(b"public", connection="close"), answer_with_page(b"secret")) as (
            public,
            secret,
        ),
        Nameserver([[ADDRESS], ["127.0.0.1"]]) as nameserver,
        make_client(lookup=nameserver.lookup) as client,
    ):
        url = f"http://rebind.example.com:{public.port}/"
        response = await client.fetch(url, origin=Origin.PERSON)
        assert (response.body, response.address, nameserver.questions) == (b"public", ADDRESS, ["rebind.example.com."])
        with refuses(RefusalKind.LOOPBACK):  # a new connection: resolved and checked again
            await client.fetch(url, origin=Origin.PERSON)
        assert (public.accepted, secret.accepted, len(nameserver.questions)) == (1, 0, 2)


@in_a_loop
async def test_dns_rebind_after_timeout() -> None:
    with socket.socket() as dead:
        port = free_port()
        dead.bind((ADDRESS, port))  # and does not listen
        async with (
            Listener(answer_with_page(b"secret"), address="127.0.0.1", port=port) as secret,
            Nameserver([[ADDRESS], ["127.0.0.1"]]) as nameserver,
            make_client(lookup=nameserver.lookup) as client,
        ):
            with fails(FailureKind.CONNECT):
                await client.fetch(f"http://rebind.example.com:{port}/", origin=Origin.PERSON)
            assert (secret.accepted, len(nameserver.questions)) == (0, 1)


@in_a_loop
async def test_rebind_pooled_connection() -> None:
    async with (
        loopback.start_twins(answer_with_page(b"intranet"), answer_with_page(b"secret")) as (public, secret),
        Nameserver([[ADDRESS], ["127.0.0.1"]]) as nameserver,
        make_client(lookup=nameserver.lookup) as client,
    ):
        url = f"http://intranet.example.com:{public.port}/"
        for _ in range(2):  # the second request uses the same connection, whose address was checked
            assert (await client.fetch(url, origin=Origin.PERSON)).address == ADDRESS
        assert (public.accepted, public.connections, len(nameserver.questions)) == (1, 1, 1)
        # A link of a public page has another guard, so it must not use the open connection.
        with pytest.raises(canonry.UnsafeUrl):
            await client.fetch(url, origin=Origin.from_server("93.184.216.34"))
        assert (public.accepted, secret.accepted, len(nameserver.questions)) == (1, 0, 2)


@in_a_loop
async def test_cname_to_internal() -> None:
    async with (
        Nameserver([["10.0.0.1"]], alias="internal.corp") as nameserver,
        make_client(lookup=nameserver.lookup) as client,
    ):
        with refuses(RefusalKind.PRIVATE):
            await client.fetch("http://public.example.com/", origin=Origin.PERSON)
        assert nameserver.questions == ["public.example.com."]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "017700000001", "[::ffff:127.0.0.1]", "[::1]", "localhost"],
)
@in_a_loop
async def test_redirect_to_private_literal(host: str) -> None:
    async with redirect_to_secret(lambda port: f"http://{host}:{port}/") as (url, public, secret, client):
        with refuses(RefusalKind.LOOPBACK):
            await client.fetch(url, origin=Origin.PERSON)
        assert (public.accepted, secret.accepted) == (1, 0)


@in_a_loop
async def test_redirect_scheme_relative() -> None:
    async with redirect_to_secret(lambda port: f"//127.0.0.1:{port}/") as (url, public, secret, client):
        with refuses(RefusalKind.LOOPBACK):
            await client.fetch(url, origin=Origin.PERSON)
        assert (public.accepted, secret.accepted) == (1, 0)


@in_a_loop
async def test_redirect_https_to_http() -> None:
    pages = {"https://example.com/": make_redirect("http://example.com/"), "http://example.com/": {"body": "plain"}}
    async with LoopbackWeb(pages) as web, web.client() as client:
        response = await client.fetch("https://example.com/", origin=Origin.PERSON)
        assert (response.body, response.url, response.is_downgraded) == (b"plain", "http://example.com/", True)
        assert not (await client.fetch("http://example.com/", origin=Origin.PERSON)).is_downgraded


@in_a_loop
async def test_redirect_loop() -> None:
    pages = {
        "https://example.com/a": make_redirect("/b"),
        "https://example.com/b": make_redirect("/a"),
        "https://example.com/self": make_redirect("#again"),
    }
    async with LoopbackWeb(pages) as web, web.client() as client:
        with fails(FailureKind.REDIRECT_LOOP):
            await client.fetch("https://example.com/a", origin=Origin.PERSON)
        with fails(FailureKind.REDIRECT_LOOP):
            await client.fetch("https://example.com/self", origin=Origin.PERSON)
        assert [url[-1] for _, url in web.requests] == ["a", "b", "f"]


@in_a_loop
async def test_redirect_endless() -> None:
    pages = {f"https://example.com/{n}": make_redirect(f"/{n + 1}") for n in range(50)} | {"https://example.com/50": {}}
    async with LoopbackWeb(pages) as web, web.client() as client:
        with fails(FailureKind.TOO_MANY_REDIRECTS):
            await client.fetch("https://example.com/0", origin=Origin.PERSON)
        assert len(web.requests) == 11
        assert len((await client.fetch("https://example.com/40", origin=Origin.PERSON)).hops) == 10
    async with LoopbackWeb(pages) as web, web.client(max_redirects=0) as client:
        with fails(FailureKind.TOO_MANY_REDIRECTS):
            await client.fetch("https://example.com/0", origin=Origin.PERSON)
        assert len(web.requests) == 1


@in_a_loop
async def test_redirect_bad_port() -> None:
    pages = {
        "http://example.com/": make_redirect("http://example.com:6379/"),
        "http://example.com:6379/": {"body": "secret"},
        "http://example.com/web": make_redirect("http://example.com:8080/"),
        "http://example.com:8080/": {"body": "web"},
    }
    async with LoopbackWeb(pages) as web, web.client(guard=Guard([f"{ADDRESS}/32"])) as client:
        with refuses(RefusalKind.PORT):
            await client.fetch("http://example.com/", origin=Origin.PERSON)
        assert web.requests == [("GET", "http://example.com/")]
        assert (await client.fetch("http://example.com/web", origin=Origin.PERSON)).body == b"web"


@in_a_loop
async def test_redirect_userinfo() -> None:
    pages = {
        "https://example.com/": make_redirect("https://user:pw@example.com/same"),
        "https://example.com/same": make_redirect("https://user:pw@other.example.com/"),
        "https://other.example.com/": {"body": "there"},
    }
    async with LoopbackWeb(pages) as web, web.client() as client:
        response = await client.fetch("https://example.com/", origin=Origin.PERSON)
        assert (response.body, response.url, len(web.requests)) == (b"there", "https://other.example.com/", 3)
        assert not any("authorization" in request.headers for request in web.seen)
        assert "pw" not in repr(response.hops)


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        (b"/a\x01b", FailureKind.BAD_REDIRECT),
        (b"/a\tb", FailureKind.BAD_REDIRECT),
        (b"/a\x7fb", FailureKind.BAD_REDIRECT),
        (b"/a\x00b", FailureKind.PROTOCOL),
        (b"/a\rX-More: b", FailureKind.PROTOCOL),
    ],
)
@in_a_loop
async def test_redirect_crlf(location: bytes, kind: FailureKind) -> None:
    requests: list[Request] = []
    answer = b"HTTP/1.1 302 Found\r\nLocation: " + location + b"\r\nContent-Length: 0\r\n\r\n"
    async with Listener(answer_with_bytes(answer, requests)) as server, make_client() as client:
        with fails(kind) as caught:
            await client.fetch(f"http://{ADDRESS}:{server.port}/", origin=Origin.PERSON)
        assert [request.target for request in requests] == ["/"]
        assert str(caught.value).isprintable()


@in_a_loop
async def test_redirect_huge_location() -> None:
    requests: list[Request] = []
    answer = make_http_response(302, {"Location": "/" + "a" * 1_000_000})
    async with Listener(answer_with_bytes(answer, requests)) as server, make_client() as client:
        with fails(FailureKind.PROTOCOL) as caught:
            await client.fetch(f"http://{ADDRESS}:{server.port}/", origin=Origin.PERSON)
        assert len(requests) == 1
        assert len(str(caught.value)) < 400


@in_a_loop
async def test_refresh_header() -> None:
    async with loopback.start_twins(
        answer_with_page(b"stay", refresh="0;url=http://127.0.0.1:{port}/"), answer_with_page(b"secret")
    ) as servers:
        await check_nothing_is_followed(*servers)


@in_a_loop
async def test_meta_refresh_private() -> None:
    page = b'<meta http-equiv="refresh" content="0;url=http://127.0.0.1:%d/">'
    async with loopback.start_twins(
        answer_with_page(page, content_type="text/html"), answer_with_page(b"secret")
    ) as servers:
        await check_nothing_is_followed(*servers)


@pytest.mark.parametrize("header", ["gzip, gzip, gzip", "gzip\r\nContent-Encoding: gzip\r\nContent-Encoding: gzip"])
@in_a_loop
async def test_nested_gzip(header: str) -> None:
    body = gzip.compress(gzip.compress(gzip.compress(b"inside")))
    answer = make_http_response(200, {"Content-Encoding": header}, body=body)
    async with Listener(answer_with_bytes(answer)) as server, make_client() as client:
        with fails(FailureKind.ENCODING):
            await client.fetch(f"http://{ADDRESS}:{server.port}/", origin=Origin.PERSON)


@in_a_loop
async def test_brotli_zstd_bomb() -> None:
    """Memory is measured in a separate process; gzip and deflate are tried as well."""
    bombs = {
        "gzip": deflate_zeros(31),
        "deflate": deflate_zeros(15),
        "br": compress_zeros_with_brotli(),
        "zstd": compress_zeros_with_zstd(),
    }
    assert zlib.decompressobj(31).decompress(bombs["gzip"], 1000) == bytes(1000)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        assert request is not None
        encoding = request.target.removeprefix("/")
        headers = {"Content-Encoding": encoding} if encoding in bombs else {}
        writer.write(make_http_response(200, headers, body=bombs.get(encoding, b"small")))

    async with Listener(talk) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, FETCH_BOMBS, f"http://{ADDRESS}:{server.port}/", *bombs, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
    grown, *kinds = output.decode().splitlines()
    assert int(grown) < 20 * 1024, "KiB"
    assert kinds == ["too_large"] * 4


@in_a_loop
async def test_slow_body() -> None:
    await check_the_deadline_holds(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"x")


@pytest.mark.parametrize(
    ("start", "unit"),
    [(b"", b""), (b"HTTP/1.1 200 OK\r\n", b"X-More: x\r\n"), (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x")],
    ids=["silence", "lines", "one line"],
)
@in_a_loop
async def test_slow_headers(start: bytes, unit: bytes) -> None:
    await check_the_deadline_holds(start, unit)


@pytest.mark.parametrize(
    ("start", "unit"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n" * 100),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x" * 1000),
        (b"HTTP/1.1 200 ", b"OK" * 500),
        (b"HTTP/1.1 200 OK\r\n", b"x" * 1000),
    ],
)
@in_a_loop
async def test_endless_headers(start: bytes, unit: bytes) -> None:
    """Headers, one header value, a status line and a header name without end."""
    assert await count_bytes_taken(start, unit, FailureKind.PROTOCOL) < 4_000_000


@in_a_loop
async def test_chunked_endless() -> None:
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    unit = b"3e8\r\n" + b"x" * 1000 + b"\r\n"
    assert await count_bytes_taken(start, unit, FailureKind.TOO_LARGE, max_bytes=100_000) < 16_000_000


@in_a_loop
async def test_netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither netrc nor the proxies of the environment are used."""
    (tmp_path / ".netrc").write_text(f"machine {ADDRESS} login me password secret\ndefault login me password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    requests: list[Request] = []
    async with (
        Listener(answer_with_page(b"proxied")) as proxy,
        Listener(answer_with_bytes(make_http_response(200, {}), requests)) as server,
    ):
        for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy"):
            monkeypatch.setenv(name, f"http://{ADDRESS}:{proxy.port}")
            monkeypatch.setenv(name.upper(), f"http://{ADDRESS}:{proxy.port}")
        monkeypatch.delenv("REQUEST_METHOD", raising=False)
        async with make_client() as client:
            assert (await client.fetch(f"http://{ADDRESS}:{server.port}/", origin=Origin.PERSON)).body == b""
        assert (proxy.accepted, server.accepted) == (0, 1)
    assert "authorization" not in requests[0].headers
    assert "proxy-authorization" not in requests[0].headers


@in_a_loop
async def test_tls_sni_host() -> None:
    requests: list[Request] = []
    names: list[str | None] = []
    tls = loopback.make_server_tls("name.example.com")
    tls.sni_callback = lambda _socket, name, _context: names.append(name)
    async with Listener(answer_with_bytes(make_http_response(200, {}), requests), tls=tls) as server:

        async def lookup(host: str, port: int) -> list[tuple[str, int]]:
            return [(ADDRESS, server.port)]

        async with make_client(lookup=lookup) as client:
            assert (await client.fetch("https://name.example.com/", origin=Origin.PERSON)).address == ADDRESS
            with fails(FailureKind.CERTIFICATE):  # the address is in no certificate
                await client.fetch(f"https://{ADDRESS}:{server.port}/", origin=Origin.PERSON)
    assert names[0] == "name.example.com"
    assert [request.headers["host"] for request in requests] == ["name.example.com"]


@in_a_loop
async def test_dns_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout also ends a lookup, even `getaddrinfo`, which cannot be interrupted."""
    may_end = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: may_end.wait(120) and [])

    async def never(host: str, port: int) -> list[tuple[str, int]]:
        await asyncio.Event().wait()
        raise AssertionError

    lookups: list[Callable[[str, int], Awaitable[list[tuple[str, int]]]]] = [never, resolve_name]
    try:
        for lookup in lookups:
            started = time.monotonic()
            async with make_client(lookup=lookup, timeout=0.1) as client:
                with fails(FailureKind.TIMEOUT):
                    await client.fetch("https://example.com/", origin=Origin.PERSON)
            assert time.monotonic() - started < 60
    finally:
        may_end.set()
        for thread in threading.enumerate():
            if thread.name.startswith("lookup"):
                thread.join(60)


@pytest.mark.parametrize("address", ["fe80::1%lo", "fe80::1%1", "fe80::1", "2606:4700::1%lo"])
@in_a_loop
async def test_ipv6_scope_in_dns(address: str) -> None:
    async def lookup(host: str, port: int) -> list[tuple[str, int]]:
        return [(address, port)]

    async with make_client(lookup=lookup) as client:
        with refuses(RefusalKind.LINK_LOCAL):
            await client.fetch("https://example.com/", origin=Origin.PERSON)


@in_a_loop
async def test_hosts_file(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Listener(answer_with_page(b"secret"), address="127.0.0.1") as secret:
        assert "localhost" in Path("/etc/hosts").read_text(), "otherwise the lookup would use the network"
        # The real file: the name is refused; with an allowed network, its address is.
        async with make_client(guard=Guard(allow_ports=EVERY_PORT), lookup=resolve_name) as client:
            with refuses(RefusalKind.LOCAL_NAME):
                await client.fetch(f"http://localhost:{secret.port}/", origin=Origin.PERSON)
        async with make_client(lookup=resolve_name) as client:
            with refuses(RefusalKind.LOOPBACK):
                await client.fetch(f"http://localhost:{secret.port}/", origin=Origin.PERSON)
        # A file that gives a public name a private address.
        found = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", secret.port))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [found])
        async with make_client(guard=Guard(allow_ports=EVERY_PORT), lookup=resolve_name) as client:
            with refuses(RefusalKind.LOOPBACK):
                await client.fetch(f"http://www.example.com:{secret.port}/", origin=Origin.PERSON)
        assert secret.accepted == 0


@in_a_loop
async def test_self_request() -> None:
    async with Listener(answer_with_page(b"ourselves")) as own, LoopbackWeb({}) as web:

        async def lookup(host: str, port: int) -> list[tuple[str, int]]:
            return [(ADDRESS, own.port)]

        location = f"http://{ADDRESS}:{own.port}/"
        guard = Guard([f"{ADDRESS}/32"], EVERY_PORT, own_addresses=[(ADDRESS, own.port)])
        async with Listener(answer_with_page(b"", status=302, location=location)) as other:
            async with make_client(guard=guard, lookup=lookup) as client:
                for url in (
                    location,
                    f"http://[::ffff:{ADDRESS}]:{own.port}/",
                    f"http://canonry.example.com:{own.port}/",
                    "http://canonry.example.com/",
                    f"http://{ADDRESS}:{other.port}/",
                ):
                    with refuses(RefusalKind.OWN_SERVICE):
                        await client.fetch(url, origin=Origin.PERSON)
            assert (own.accepted, other.accepted) == (0, 1)
        assert not web.requests


@in_a_loop
async def test_unix_socket_transport(tmp_path: Path) -> None:
    connections: list[object] = []
    path = tmp_path / "secret"
    server = await asyncio.start_unix_server(lambda *streams: connections.append(streams), path)
    escaped = str(path).replace("/", "%2F")
    cases = [
        # url                        if requested                                     if redirected to
        (f"http+unix://{escaped}/",  refuses(RefusalKind.SCHEME),                     refuses(RefusalKind.SCHEME)),
        (f"https+unix://{escaped}/", refuses(RefusalKind.SCHEME),                     refuses(RefusalKind.SCHEME)),
        (f"unix://{path}",           refuses(RefusalKind.SCHEME),                     refuses(RefusalKind.SCHEME)),
        (f"file://{path}",           refuses(RefusalKind.SCHEME),                     refuses(RefusalKind.SCHEME)),
        (f"http://unix:{path}:/",    fails(FailureKind.DNS),                          fails(FailureKind.CONNECT)),
        (f"http://{escaped}/",       refuses(RefusalKind.INVALID_URL),                fails(FailureKind.BAD_REDIRECT)),
    ]  # fmt: skip
    for url, if_requested, if_redirected in cases:
        async with make_client() as client:
            with if_requested:
                await client.fetch(url, origin=Origin.PERSON)
        async with LoopbackWeb({"http://example.com/": make_redirect(url)}) as web, web.client() as client:
            with if_redirected:
                await client.fetch("http://example.com/", origin=Origin.PERSON)
            assert (len(web.requests), web.refused) == (1, [])
    assert not connections
    server.close()
    await server.wait_closed()


# Servers, and what the client does with their responses


def make_redirect(location: str, status: int = 302) -> dict[str, Any]:
    return {"status": status, "headers": {"location": location}}


def answer_with_bytes(answer: bytes, requests: list[Request] | None = None) -> Talk:
    """Return a conversation that answers every request with the same bytes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            if requests is not None:
                requests.append(request)
            writer.write(answer)
            await writer.drain()

    return talk


def answer_with_page(body: bytes, *, status: int = 200, **headers: str) -> Talk:
    """Return a conversation with one page; `{port}` in headers and `%d` in the body become the server's port."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("sockname")[1]
        filled = {name: value.replace("{port}", str(port)) for name, value in named.items()}
        while await read_request(reader) is not None:
            writer.write(make_http_response(status, filled, body=body.replace(b"%d", b"%d" % port)))
            await writer.drain()

    return talk


@asynccontextmanager
async def redirect_to_secret(location: Callable[[int], str]) -> Any:
    """A public page that redirects to `location(port)`, which leads to a secret on 127.0.0.1."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        port = writer.get_extra_info("sockname")[1]
        writer.write(make_http_response(302, {"Location": location(port)}))

    async def lookup(host: str, port: int) -> list[tuple[str, int]]:
        return [(ADDRESS if host == "public.example.com" else "127.0.0.1", port)]

    async with (
        loopback.start_twins(talk, answer_with_page(b"secret")) as (public, secret),
        make_client(lookup=lookup) as client,
    ):
        yield f"http://public.example.com:{public.port}/", public, secret, client


async def check_nothing_is_followed(public: Listener, secret: Listener) -> None:
    async with make_client() as client:
        response = await client.fetch(f"http://{ADDRESS}:{public.port}/", origin=Origin.PERSON)
    assert (response.status, response.hops, public.accepted, secret.accepted) == (200, (), 1, 0)
    assert str(public.port) in f"{response.header('refresh')} {response.body!r}"


async def check_the_deadline_holds(start: bytes, unit: bytes) -> None:
    """Fetch from a server that sends a little all the time, so that no timeout of a single read ends it."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(start)
        while not reader.at_eof():
            writer.write(unit)
            await writer.drain()
            await asyncio.sleep(0.02)

    started = time.monotonic()
    async with Listener(talk) as server, make_client(timeout=0.3) as client:
        with fails(FailureKind.TIMEOUT):
            await client.fetch(f"http://{ADDRESS}:{server.port}/", origin=Origin.PERSON)
        assert 0.3 <= time.monotonic() - started < 60
        await server.wait_until_disconnected()


async def count_bytes_taken(start: bytes, unit: bytes, kind: FailureKind, **options: Any) -> int:
    """Return how many bytes of an endless response were sent before the client closed the connection."""
    sent = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(start)
        while not reader.at_eof():
            writer.write(unit)
            await writer.drain()
            sent += len(unit)

    async with Listener(talk) as server, make_client() as client:
        with fails(kind):
            await client.fetch(f"http://{ADDRESS}:{server.port}/", **options, origin=Origin.PERSON)
        await server.wait_until_disconnected()
    return sent


# 1 GiB of zeros, made quickly by repeating one compressed piece


def deflate_zeros(wbits: int) -> bytes:
    compress = zlib.compressobj(9, zlib.DEFLATED, wbits)
    head = compress.compress(b"") + compress.flush(zlib.Z_FULL_FLUSH)
    return head + (compress.compress(bytes(2**24)) + compress.flush(zlib.Z_FULL_FLUSH)) * 64


def compress_zeros_with_zstd() -> bytes:
    return zstd.compress(bytes(2**24)) * 64


def compress_zeros_with_brotli() -> bytes:
    """Return 256 MiB of zeros: brotli has no pieces to repeat, but all of it is a few hundred bytes."""
    compressor = brotli.Compressor(quality=1)
    return b"".join([*(compressor.process(bytes(2**22)) for _ in range(64)), compressor.finish()])


class Nameserver:
    """A nameserver on a UDP port: each question gets the next answer; the last answer repeats."""

    def __init__(self, answers: Sequence[Sequence[str]], *, alias: str = "") -> None:
        self._answers = answers
        self._alias = alias
        self._transport: asyncio.DatagramTransport | None = None
        self.questions: list[str] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: _Answering(self), (NAMESERVER, 0))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._transport is not None
        self._transport.close()
        await asyncio.sleep(0)

    def answer(self, question: bytes) -> bytes:
        record = dnslib.DNSRecord.parse(question)
        name = record.q.qname
        addresses = self._answers[min(len(self.questions), len(self._answers) - 1)]
        self.questions.append(str(name))
        reply = record.reply()
        if self._alias:
            reply.add_answer(dnslib.RR(name, dnslib.QTYPE.CNAME, rdata=dnslib.CNAME(self._alias), ttl=0))
        for address in addresses:
            reply.add_answer(dnslib.RR(self._alias or name, dnslib.QTYPE.A, rdata=dnslib.A(address), ttl=0))
        return bytes(reply.pack())

    async def lookup(self, host: str, port: int) -> list[tuple[str, int]]:
        """Resolve a name over UDP."""
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.setblocking(False)
            await loop.sock_connect(asking, self._transport.get_extra_info("sockname"))
            await loop.sock_sendall(asking, dnslib.DNSRecord.question(host).pack())
            reply = dnslib.DNSRecord.parse(await loop.sock_recv(asking, 4096))
        return [(str(record.rdata), port) for record in reply.rr if record.rtype == dnslib.QTYPE.A]


class _Answering(asyncio.DatagramProtocol):
    def __init__(self, nameserver: Nameserver) -> None:
        self._nameserver = nameserver

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        self._transport.sendto(self._nameserver.answer(data), addr)
