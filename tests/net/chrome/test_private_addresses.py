"""Contract C7, G1, G4: what no page may reach from inside of Chrome.

127.0.0.2 stands for the public internet. A listener and a UDP socket on 127.0.0.1 stand for what no page may reach;
every connection of this process is recorded.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import loopback
from canonry.errors import FailureKind
from canonry.net.engine import ReadOptions
from canonry.net.guard import Guard
from canonry.net.origin import Origin
from chrome import GOOD, HTML, get_kind, make_page, make_redirect, needs_chrome, run_engine
from loopback import ADDRESS, EVERY_PORT, Listener, LoopbackWeb, in_a_loop, make_http_response, read_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


pytestmark = pytest.mark.usefixtures("refused_connects", "profiles")


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.received: list[bytes] = []

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        self.received.append(data)


# Images are requests too, and hold a page open; by default Chrome does not load them.
WITH_IMAGES = ReadOptions(load_images=True)
ROUTES = [
    "<img src='http://127.0.0.1:{port}/'>",
    "<iframe src='http://127.0.0.1:{port}/'></iframe>",
    "<iframe src='https://127.0.0.1:{port}/'></iframe>",
    "<link rel=stylesheet href='http://127.0.0.1:{port}/'>",
    "<link rel=preconnect href='http://127.0.0.1:{port}/'><link rel=prefetch href='http://127.0.0.1:{port}/'>",
    "<script>fetch('http://127.0.0.1:{port}/', {{mode: 'no-cors'}})</script>",
    "<script>fetch('http://localhost:{port}/', {{mode: 'no-cors'}})</script>",
    "<script>fetch('http://[::1]:{port}/', {{mode: 'no-cors'}})</script>",
    "<script>fetch('http://2130706433:{port}/', {{mode: 'no-cors', keepalive: true}})</script>",
    "<script>navigator.sendBeacon('http://127.0.0.1:{port}/', 'x')</script>",
    "<script>new WebSocket('ws://127.0.0.1:{port}/')</script>",
    "<script>new WebSocket('wss://127.0.0.1:{port}/')</script>",
    "<script>new EventSource('http://127.0.0.1:{port}/')</script>",
    """<script>const code = "fetch('http://127.0.0.1:{port}/', {{mode: 'no-cors'}})";
    new Worker(URL.createObjectURL(new Blob([code])))</script>""",
    "<script>window.open('http://127.0.0.1:{port}/')</script>",
    """<form id=f method=post action='http://127.0.0.1:{port}/' target=i></form><iframe name=i></iframe>
    <script>f.submit()</script>""",
    "<script>fetch('/to-private').catch(() => 0)</script>",
    "<script>try {{ new WebTransport('https://127.0.0.1:{port}/').ready.catch(() => 0) }} catch {{ }}</script>",
    """<script>const account = {{username: 'u', credential: 'c'}}, at = '127.0.0.1:{port}';
    const c = new RTCPeerConnection({{iceServers: [{{urls: 'stun:' + at}}, {{urls: 'turn:' + at, ...account}},
      {{urls: 'turn:' + at + '?transport=tcp', ...account}}]}});
    c.createDataChannel('x');
    c.createOffer().then(o => c.setLocalDescription(o));</script>""",
    """<script>const a = new RTCPeerConnection(), b = new RTCPeerConnection();
    a.createDataChannel('x');
    (async () => {{
      await a.setLocalDescription(await a.createOffer());
      await b.setRemoteDescription(a.localDescription);
      await b.setLocalDescription(await b.createAnswer());
      await a.setRemoteDescription(b.localDescription);
      const candidate = 'candidate:1 1 udp 2113937151 127.0.0.1 {port} typ host';
      await a.addIceCandidate({{candidate, sdpMid: '0'}});
    }})().catch(() => 0)</script>""",
]


@asynccontextmanager
async def listen_privately() -> AsyncIterator[tuple[Listener, _Datagrams]]:
    """Yield a server and a UDP socket on the same port of 127.0.0.1."""

    async def secret(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(make_http_response(200, HTML | {"Access-Control-Allow-Origin": "*"}, body=b"secret"))

    loop = asyncio.get_running_loop()
    async with Listener(secret, address="127.0.0.1") as server:
        transport, datagrams = await loop.create_datagram_endpoint(_Datagrams, ("127.0.0.1", server.port))
        try:
            yield server, datagrams
        finally:
            transport.close()


@pytest.mark.slow
@needs_chrome
@in_a_loop
async def test_a_page_cannot_reach_private_addresses() -> None:
    async with listen_privately() as (secret, datagrams):
        hold = "<script>document.write('<img src=/slow>')</script><a href=/x>x</a>"
        pages: dict[str, dict[str, Any]] = {
            f"http://site.example/{n}": make_page(route.format(port=secret.port) + hold)
            for n, route in enumerate(ROUTES)
        }
        pages["http://site.example/slow"] = {"delay_ms": 900, "status": 404}  # holds each page open for its requests
        pages["http://site.example/to-private"] = make_redirect(f"http://127.0.0.1:{secret.port}/")
        async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=4, options=WITH_IMAGES) as engine:
            opened = await asyncio.gather(
                *(engine.open(url, origin=Origin.PERSON) for url in pages if url.rpartition("/")[2].isdecimal())
            )
            assert [(each.failure, len(each.links)) for each in opened] == [(None, 1)] * len(ROUTES)
        assert (secret.accepted, datagrams.received) == (0, [])
    assert set(loopback.CONNECTS) == {ADDRESS}


@needs_chrome
@in_a_loop
async def test_a_page_at_a_private_address_is_refused() -> None:
    async with listen_privately() as (secret, _):
        there = f"127.0.0.1:{secret.port}/"
        pages = {
            "http://site.example/redirect": make_redirect(f"http://{there}"),
            "http://site.example/tls": make_redirect(f"https://{there}"),
            "http://site.example/meta": make_page(
                f"<meta http-equiv=refresh content='0;url=http://{there}'><a href=/x>x</a>"
            ),
            "http://site.example/script": make_page(f"<script>location.href = 'http://{there}'</script>"),
            "http://site.example/script-tls": make_page(f"<script>location.href = 'https://{there}'</script>"),
            "http://site.example/good": make_page(GOOD),
        }
        async with LoopbackWeb(pages) as web, run_engine(web.lookup, options=WITH_IMAGES) as engine:
            for url in pages:
                opened = await engine.open(url, origin=Origin.PERSON)
                if url.endswith("good"):
                    assert len(opened.links) == 1
                else:
                    assert (url, get_kind(opened), opened.links) == (url, FailureKind.REFUSED, ())
                    assert opened.status == 0
            assert get_kind(await engine.open(f"http://{there}", origin=Origin.PERSON)) is FailureKind.REFUSED
        assert secret.accepted == 0


@needs_chrome
def test_a_page_from_a_public_address_does_not_reach_an_allowed_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract G4, with 127.0.0.2 as the public internet and 127.0.0.3 as an intranet that is allowed."""
    loopback.make_public(monkeypatch)
    intranet_seen: list[str] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        if request is not None:
            intranet_seen.append(request.target)
            writer.write(
                make_http_response(200, HTML, body=b"<a href=/x>x</a><script>fetch('/more')</script><img src=/i>")
            )

    @in_a_loop
    async def run() -> None:
        async with Listener(talk, address="127.0.0.3") as intranet:
            inside = f"http://127.0.0.3:{intranet.port}/"
            hold = "<img src=/slow><a href=/x>x</a>"
            pages: dict[str, dict[str, Any]] = {
                "http://public.example/slow": {"delay_ms": 300, "status": 404},
                "http://public.example/": make_page(
                    f"<script>fetch('{inside}evil', {{mode: 'no-cors'}})</script>{hold}"
                ),
                "http://public.example/go": make_redirect(f"{inside}evil"),
            }
            guard = Guard(["127.0.0.3/32"], EVERY_PORT)
            async with (
                LoopbackWeb(pages) as web,
                run_engine(web.lookup, tabs=1, guard=guard, options=WITH_IMAGES) as engine,
            ):
                assert len((await engine.open(inside, origin=Origin.PERSON)).links) == 1
                assert {"/", "/more"} <= set(intranet_seen)
                assert len((await engine.open("http://public.example/", origin=Origin.PERSON)).links) == 1
                assert (
                    get_kind(await engine.open("http://public.example/go", origin=Origin.PERSON)) is FailureKind.REFUSED
                )
                assert get_kind(await engine.open(inside, origin=Origin.from_server(ADDRESS))) is FailureKind.REFUSED
                assert len((await engine.open(inside, origin=Origin.from_server("127.0.0.3"))).links) == 1
        assert "/evil" not in intranet_seen

    run()
    loopback.CONNECTS.clear()
