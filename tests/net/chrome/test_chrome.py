"""Contract C4, C5, C7: links as Chrome sees them, and hostile pages from a real server.

127.0.0.2 stands for the public internet. A listener and a UDP socket on 127.0.0.1 stand for what no page may reach;
every connection of this process is recorded.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import loopback
from canonry.crawler.crawl import crawl
from canonry.errors import CanonryError, FailureKind
from canonry.net.chrome.process import PACKAGE, find_chrome
from canonry.net.engine import Engine, Link, Opened, PageFailure
from canonry.net.guard import Guard
from canonry.net.response import Hop
from canonry.settings import Settings
from chrome import find_browser_process, list_processes, make_engine, needs_chrome
from loopback import ADDRESS, EVERY_PORT, Listener, LoopbackWeb, http_answer, in_a_loop, read_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from canonry.net.chrome.engine import ChromeEngine

CASES = json.loads((Path(__file__).parents[2] / "cases" / "anchor_cases.json").read_text())["cases"]
PAGE = "http://site.example/dir/page.html?q=1"
HTML = {"Content-Type": "text/html; charset=utf-8"}
GOOD = f'<title>Good</title><a href="/next">next</a><p>{"text " * 100}'


@pytest.fixture(autouse=True)
def connects() -> Iterator[None]:
    """Fail the test if this process connected to a refused address."""
    loopback.CONNECTS.clear()
    yield
    assert set(loopback.CONNECTS) <= {ADDRESS}


@pytest.fixture(autouse=True)
def profiles(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail the test if a profile remains; the folder is the test's own, because other tests run Chromes too."""
    tmp_path_factory.getbasetemp()  # otherwise pytest would create it in that folder
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield
        assert not list(Path(folder).glob("canonry-chrome-*"))
        monkeypatch.undo()


@asynccontextmanager
async def run_engine(lookup: Any = loopback.no_names, **options: Any) -> AsyncIterator[ChromeEngine]:
    """Yield an engine, and check at the end that none of its processes remains."""
    groups: set[int] = set()
    async with make_engine(lookup, **options) as engine:
        yield engine
        if engine.process_group is not None:
            groups.add(engine.process_group)
    for group in groups:
        assert list_processes(group) == {}


def kind_of(opened: Opened) -> FailureKind | None:
    return None if opened.failure is None else opened.failure.kind


def page(body: str, **headers: str) -> dict[str, Any]:
    return {"body": f"<!doctype html>{body}", "headers": HTML | headers}


# --- links ---


def expected_links(case: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the expected links; `SVG:x` is a link whose raw value is resolved, `UNDEF` is MathML and no link."""
    return [
        (link["href"].replace("SVG:/", "http://site.example/"), link["text"])
        for link in case["chrome_links"]
        if link["href"] != "UNDEF"
    ]


@needs_chrome
def test_links_are_those_of_the_anchor_cases() -> None:
    found: dict[str, list[tuple[str, str]]] = {}
    failures: dict[str, PageFailure | None] = {}

    @in_a_loop
    async def run() -> None:
        bodies = [
            base64.b64decode(case["html_base64"]) if "html_base64" in case else case["html"].encode() for case in CASES
        ]
        answers = [
            {
                "body_base64": base64.b64encode(body).decode(),
                "headers": {"Content-Type": f"text/html; charset={case.get('charset', 'utf-8')}"},
            }
            for body, case in zip(bodies, CASES, strict=True)
        ]
        # All have the same URL, so that a tab that confuses two pages is detected.
        async with LoopbackWeb({PAGE: {"sequence": answers}}) as web, run_engine(web.lookup, tabs=1) as engine:
            for case in CASES:
                opened = await engine.open(PAGE)
                found[case["name"]] = [(link.url, link.text) for link in opened.links]
                failures[case["name"]] = opened.failure
                assert (opened.status, opened.final_url) == (200, PAGE)

    run()
    assert not any(failures.values()), failures
    assert found == {case["name"]: expected_links(case) for case in CASES}


LINKS = [
    # why                      page                                                              wanted
    ("as written",             '<a href=" ../a ">t</a>',                                         [Link(" ../a ", "http://site.example/a", "t")]),
    ("50 characters",          f'<a href=/>{"ü" * 60}</a>',                                      [Link("/", "http://site.example/", "ü" * 50)]),
    ("characters, not halves", f'<a href=/>{"x" * 49}😀😀</a>',                                    [Link("/", "http://site.example/", "x" * 49 + "😀")]),
    ("half a character",       "<a href=/ id=a></a><script>a.textContent='x\\ud83d'</script>",   [Link("/", "http://site.example/", "x\ufffd")]),
    ("by a script",            "<script>document.write('<a href=/s>s</a>')</script>",            [Link("/s", "http://site.example/s", "s")]),
    ("by a later script",      "<script>onload=()=>document.body.innerHTML='<a href=/s>s</a>'</script>", [Link("/s", "http://site.example/s", "s")]),
    ("in a frame of drawing",  "<script>onload=()=>0;requestAnimationFrame(()=>document.body.innerHTML='<a href=/r>r</a>')</script><img src=/slow>", [Link("/r", "http://site.example/r", "r")]),
    ("forged query",           "<a href=/a>t</a><script>Document.prototype.querySelectorAll=()=>[{href:'x',getAttribute(){return 'x'}}]</script>", [Link("/a", "http://site.example/a", "t")]),
    ("forged JSON",            "<a href=/a>t</a><script>JSON.stringify=()=>'[]';Reflect.get=()=>1;Array.prototype.push=()=>1</script>", [Link("/a", "http://site.example/a", "t")]),
    ("forged by names",        "<a href=/a>t</a><img name=querySelectorAll><img name=title><form name=readyState></form><img name=baseURI><svg><a href=s>u</a></svg>", [Link("/a", "http://site.example/a", "t"), Link("s", "http://site.example/dir/s", "u")]),
    ("scripts forbidden",      "<meta http-equiv=Content-Security-Policy content=\"script-src 'none'\"><a href=/a>t</a>", [Link("/a", "http://site.example/a", "t")]),
    ("not a URL",              "<a href='http://[/'>t</a><svg><a href='http://[/'>u</a></svg>",  [Link("http://[/", "http://[/", "t")]),
    ("data too long",          f"<a href='data:,{'x' * 200_000}'>t</a><a href=/a>t</a>",         [Link("/a", "http://site.example/a", "t")]),
]  # fmt: skip


@needs_chrome
@in_a_loop
async def test_links_of_special_pages() -> None:
    answers = [page(body) for _, body, _ in LINKS]
    pages: dict[str, dict[str, Any]] = {
        PAGE: {"sequence": answers},
        "http://site.example/slow": {"delay_ms": 300, "status": 404},
    }
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=1) as engine:
        for why, _, expected in LINKS:
            opened = await engine.open(PAGE)
            assert (why, list(opened.links), opened.failure) == (why, expected, None)


@needs_chrome
@in_a_loop
async def test_status_title_redirects_and_failures_of_pages() -> None:
    pages = {
        "http://site.example/a": {"status": 301, "headers": {"Location": "/b"}},
        "http://site.example/b": {"status": 302, "headers": {"Location": "http://other.example/c"}},
        "http://other.example/c": page("<title> The  title </title>", Status="x"),
        "http://site.example/404": page(GOOD) | {"status": 404},
        "http://site.example/js": page("<script>location.replace('/404')</script>"),
        "http://site.example/meta": page("<meta http-equiv=refresh content='0;url=/404'>"),
        "http://site.example/later": page("<meta http-equiv=refresh content='30;url=/404'><a href=/x>x</a>"),
        "http://site.example/text": {"body": "<a href=/x>", "headers": {"Content-Type": "text/plain"}},
        "http://site.example/empty": {"status": 204},
        "http://site.example/busy": page(GOOD, **{"Retry-After": "7"}) | {"status": 503},
        "http://site.example/round": {"status": 302, "headers": {"Location": "/round"}},
    }
    async with LoopbackWeb(pages) as web, run_engine(web.lookup) as engine:
        typed: Engine = engine
        assert typed is engine and engine.name == "chrome"
        a = await engine.open("http://site.example/a#part")
        assert (a.status, a.requested_url, a.final_url) == (200, "http://site.example/a#part", "http://other.example/c")
        assert (a.title, a.content_type, a.failure) == ("The title", "text/html; charset=utf-8", None)
        assert a.hops == (
            Hop(301, "http://site.example/a", "http://site.example/b"),
            Hop(302, "http://site.example/b", "http://other.example/c"),
        )
        for name in ("404", "js", "meta"):
            opened = await engine.open(f"http://site.example/{name}")
            assert (opened.status, opened.final_url) == (404, "http://site.example/404")
            assert (opened.title, [link.href for link in opened.links]) == ("Good", ["/next"])
        later = await engine.open("http://site.example/later")
        assert (later.final_url, len(later.links)) == ("http://site.example/later", 1)
        assert (await engine.open("http://site.example/text")).content_type == "text/plain"
        empty = await engine.open("http://site.example/empty")
        assert (empty.status, kind_of(empty)) == (204, FailureKind.NO_CONTENT)
        around = await engine.open("http://site.example/round")
        assert kind_of(around) is FailureKind.TOO_MANY_REDIRECTS
        nowhere = await engine.open("http://elsewhere.example/")
        assert (nowhere.status, kind_of(nowhere)) == (0, FailureKind.CONNECT)
        busy = await engine.open("http://site.example/busy")
        assert (busy.status, busy.retry_after, busy.address, busy.failure) == (503, 7.0, ADDRESS, None)
        assert kind_of(await engine.open("ftp://site.example/")) is FailureKind.REFUSED


@needs_chrome
@in_a_loop
async def test_pages_do_not_share_cookies() -> None:
    pages = {PAGE: page(GOOD, **{"Set-Cookie": "a=1; Max-Age=9999"})}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=1) as engine:
        for _ in range(3):
            assert (await engine.open(PAGE)).failure is None
        asked = [request for request in web.seen if request.url == PAGE]
        assert len(asked) == 3 and not any("cookie" in request.headers for request in asked)
        assert all("canonry/" in request.headers["user-agent"] for request in asked)


@needs_chrome
@in_a_loop
async def test_a_certificate_of_an_unknown_ca_is_refused() -> None:
    async with LoopbackWeb({"https://site.example/": page(GOOD)}) as web, run_engine(web.lookup) as engine:
        opened = await engine.open("https://site.example/")
    assert (opened.status, opened.links, kind_of(opened)) == (0, (), FailureKind.CERTIFICATE)


# --- hostile pages ---

HOSTILE: dict[str, tuple[str, FailureKind | None]] = {
    # what                 the page                                                                   its failure
    "endless alert":      ("<a href=/x>x</a><script>for(;;) alert(1)</script>",                       FailureKind.DIALOG_LOOP),
    "alert after load":   ("<a href=/x>x</a><script>onload=()=>{for(;;) confirm(1)}</script>",        FailureKind.DIALOG_LOOP),
    "script loop":        ("<a href=/x>x</a><script>for(;;);</script>",                               FailureKind.SCRIPT_TIMEOUT),
    "loop at load":       ("<a href=/x>x</a><script>onload=()=>{for(;;);}</script>",                  FailureKind.SCRIPT_TIMEOUT),
    "meta refresh loop":  ("<meta http-equiv=refresh content=0><a href=/x>x</a>",                     FailureKind.REDIRECT_LOOP),
    "location loop":      ("<script>location.reload()</script>",                                      FailureKind.REDIRECT_LOOP),
    "200 windows":        ("<a href=/x>x</a><script>for(let i=0;i<200;i++) window.open('/next?'+i)</script>", None),
    "windows apart":      ("<script>for(let i=0;i<50;i++) window.open('/next?'+i,'_blank','noopener')</script>", None),
    "frames":             ("<script>for(let i=0;i<200;i++) document.write('<iframe src=/next></iframe>')</script>", None),
    "memory":             ("<script>const a=[];for(;;) a.push(new Array(2e7).fill(1.5))</script>",   FailureKind.BROWSER),
    "file by script":     ("<a href=/x>x</a><script>location.href='file:///etc/passwd'</script>",     None),
    "file in a frame":    ("<a href=/x>x</a><iframe src=file:///etc/passwd></iframe>",                None),
    "never unloads":      ("<a href=/x>x</a><script>onpagehide=onunload=()=>{for(;;);}</script>",     None),
    "asks to stay":       ("<a href=/x>x</a><script>onbeforeunload=()=>'stay'</script>",              None),
}  # fmt: skip


# How these end depends on the speed and the memory of the machine.
EXHAUSTING = {
    "a million links": "<script>document.write('<a href=/x>x</a>'.repeat(1e6))</script>",
    "memory of bytes": "<script>const a=[];for(;;) a.push(new Uint8Array(2**28).fill(1))</script>",
}


async def open_between_good_pages(hostile: str, **seconds: float) -> Opened:
    """Open a page, and check that the pages before, beside and after it are read, also in the same tab."""
    good = "http://site.example/good"
    pages = {f"{good}?{n}": page(GOOD) for n in range(6)} | {
        PAGE: page(hostile),
        "http://site.example/next": page(GOOD),
    }
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, **seconds) as engine:
        results = [await engine.open(f"{good}?0")]
        beside = asyncio.gather(*(engine.open(f"{good}?{n}") for n in (1, 2)))
        bad = await engine.open(PAGE)
        results += await beside
        results += [await engine.open(f"{good}?{n}") for n in (3, 4, 5)]
    assert [(each.failure, each.status, len(each.links)) for each in results] == [(None, 200, 1)] * 6
    return bad


@pytest.mark.slow
@needs_chrome
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_page_costs_only_itself(name: str) -> None:
    hostile, kind = HOSTILE[name]
    # A page that hangs takes both times in full; all others end by themselves.
    seconds = {"load_seconds": 10.0, "script_seconds": 6.0} if kind is FailureKind.SCRIPT_TIMEOUT else {}

    @in_a_loop
    async def run() -> None:
        bad = await open_between_good_pages(hostile, **seconds)
        assert (bad.requested_url, kind_of(bad)) == (PAGE, kind), bad.error
        assert kind is None or bad.links == ()

    run()


@pytest.mark.slow
@needs_chrome
@pytest.mark.parametrize("name", EXHAUSTING)
@in_a_loop
async def test_a_page_that_exhausts_the_machine_costs_only_itself(name: str) -> None:
    bad = await open_between_good_pages(EXHAUSTING[name], load_seconds=10.0, script_seconds=6.0)
    assert len(bad.links) <= 10_000


@needs_chrome
@in_a_loop
async def test_links_beyond_the_limit_are_counted_and_not_read() -> None:
    many = page("<script>document.write('<p><a href=/x>x</a>'.repeat(2e4))</script>")
    async with LoopbackWeb({PAGE: many}) as web, run_engine(web.lookup) as engine:
        opened = await engine.open(PAGE)
    truncated = PageFailure(FailureKind.TRUNCATED, "Only the first 10000 links were read, 10000 were not")
    assert (len(opened.links), opened.failure) == (10_000, truncated)


@needs_chrome
@in_a_loop
async def test_a_page_that_never_ends_is_given_up() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<a href=/x>x</a>")
        while request is not None and request.target == "/" and not reader.at_eof():
            writer.write(b"<p>more " * 10)
            await writer.drain()
            await asyncio.sleep(0.01)

    async with Listener(talk) as server, run_engine(load_seconds=5.0) as engine:
        opened = await engine.open(f"http://{ADDRESS}:{server.port}/")
        # Transient, because Chrome's network process may have been killed halfway.
        assert (kind_of(opened), opened.links, opened.status) == (FailureKind.TIMEOUT, (), 200)
        assert len((await engine.open(f"http://{ADDRESS}:{server.port}/good")).links) == 1


@needs_chrome
@in_a_loop
async def test_links_are_read_although_an_image_never_ends() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        if request is not None and request.target == "/":
            writer.write(http_answer(200, HTML | {"Connection": "close"}, body=b"<a href=/x>x</a><img src=/image>"))
            return
        await reader.read(-1)

    async with Listener(talk) as server, run_engine(load_seconds=5.0) as engine:
        opened = await engine.open(f"http://{ADDRESS}:{server.port}/")
        assert (opened.failure, len(opened.links)) == (None, 1)


@needs_chrome
@in_a_loop
async def test_downloads_are_refused() -> None:
    pages = {
        "http://site.example/zip": {"body": "PK", "headers": {"Content-Type": "application/zip"}},
        "http://site.example/named": page(GOOD, **{"Content-Disposition": "attachment; filename=x.html"}),
        "http://site.example/inside": page(
            "<a href=/x>x</a><iframe src=/zip></iframe><script>location='/zip'</script>"
        ),
    }
    async with LoopbackWeb(pages) as web, run_engine(web.lookup) as engine:
        for name in ("zip", "named"):
            opened = await engine.open(f"http://site.example/{name}")
            assert (kind_of(opened), opened.links) == (FailureKind.DOWNLOAD, ())
        assert (await engine.open("http://site.example/inside")).links


@needs_chrome
@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ("file:///etc/passwd", FailureKind.BAD_REDIRECT),
        ("chrome://version", FailureKind.BAD_REDIRECT),
        ("data:text/html,x", FailureKind.BAD_REDIRECT),
        ("javascript:1", FailureKind.ABORTED),
    ],
)
@in_a_loop
async def test_a_redirect_to_another_scheme_opens_no_page(location: str, kind: FailureKind) -> None:
    pages = {PAGE: {"status": 302, "headers": {"Location": location}}, "http://site.example/good": page(GOOD)}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup) as engine:
        opened = await engine.open(PAGE)
        assert (opened.links, kind_of(opened)) == ((), kind)
        assert (await engine.open("http://site.example/good")).links


# --- what no page may reach ---


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.received: list[bytes] = []

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        self.received.append(data)


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
        writer.write(http_answer(200, HTML | {"Access-Control-Allow-Origin": "*"}, body=b"secret"))

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
            f"http://site.example/{n}": page(route.format(port=secret.port) + hold) for n, route in enumerate(ROUTES)
        }
        pages["http://site.example/slow"] = {"delay_ms": 900, "status": 404}  # holds each page open for its requests
        pages["http://site.example/to-private"] = redirect(f"http://127.0.0.1:{secret.port}/")
        async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=4) as engine:
            opened = await asyncio.gather(*(engine.open(url) for url in pages if url.rpartition("/")[2].isdecimal()))
            assert [(each.failure, len(each.links)) for each in opened] == [(None, 1)] * len(ROUTES)
        assert (secret.accepted, datagrams.received) == (0, [])
    assert set(loopback.CONNECTS) == {ADDRESS}


@needs_chrome
@in_a_loop
async def test_a_page_at_a_private_address_is_refused() -> None:
    async with listen_privately() as (secret, _):
        there = f"127.0.0.1:{secret.port}/"
        pages = {
            "http://site.example/redirect": redirect(f"http://{there}"),
            "http://site.example/tls": redirect(f"https://{there}"),
            "http://site.example/meta": page(
                f"<meta http-equiv=refresh content='0;url=http://{there}'><a href=/x>x</a>"
            ),
            "http://site.example/script": page(f"<script>location.href = 'http://{there}'</script>"),
            "http://site.example/script-tls": page(f"<script>location.href = 'https://{there}'</script>"),
            "http://site.example/good": page(GOOD),
        }
        async with LoopbackWeb(pages) as web, run_engine(web.lookup) as engine:
            for url in pages:
                opened = await engine.open(url)
                if url.endswith("good"):
                    assert len(opened.links) == 1
                else:
                    assert (url, kind_of(opened), opened.links) == (url, FailureKind.REFUSED, ())
                    assert opened.status == 0
            assert kind_of(await engine.open(f"http://{there}")) is FailureKind.REFUSED
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
            writer.write(http_answer(200, HTML, body=b"<a href=/x>x</a><script>fetch('/more')</script><img src=/i>"))

    @in_a_loop
    async def run() -> None:
        async with Listener(talk, address="127.0.0.3") as intranet:
            inside = f"http://127.0.0.3:{intranet.port}/"
            hold = "<img src=/slow><a href=/x>x</a>"
            pages: dict[str, dict[str, Any]] = {
                "http://public.example/slow": {"delay_ms": 300, "status": 404},
                "http://public.example/": page(f"<script>fetch('{inside}evil', {{mode: 'no-cors'}})</script>{hold}"),
                "http://public.example/go": redirect(f"{inside}evil"),
            }
            guard = Guard(["127.0.0.3/32"], EVERY_PORT)
            async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=1, guard=guard) as engine:
                assert len((await engine.open(inside)).links) == 1
                assert {"/", "/more"} <= set(intranet_seen)
                assert len((await engine.open("http://public.example/")).links) == 1
                assert kind_of(await engine.open("http://public.example/go")) is FailureKind.REFUSED
                assert kind_of(await engine.open(inside, came_from=ADDRESS)) is FailureKind.REFUSED
                assert len((await engine.open(inside, came_from="127.0.0.3")).links) == 1
        assert "/evil" not in intranet_seen

    run()
    loopback.CONNECTS.clear()


def redirect(location: str) -> dict[str, Any]:
    return {"status": 302, "headers": {"Location": location, "Access-Control-Allow-Origin": "*"}}


# --- Chrome itself ---


def kill_tabs(engine: ChromeEngine, number: int) -> None:
    assert engine.process_group is not None
    for pid, command in list_processes(engine.process_group).items():
        if "--type=renderer" in command:
            with suppress(ProcessLookupError):  # a spare one that has ended meanwhile
                os.kill(pid, number)


async def wait_for_request(web: LoopbackWeb, url: str) -> None:
    while ("GET", url) not in web.requests:
        await asyncio.sleep(0.01)


@pytest.mark.slow
@needs_chrome
@in_a_loop
async def test_a_page_whose_used_tab_crashed_is_opened_in_a_new_tab() -> None:
    slow = "http://site.example/slow"
    pages = {PAGE: page(GOOD + "<img src=/slow>"), slow: {"delay_ms": 3000, "status": 404}}
    pages |= {f"http://site.example/{n}": page(GOOD) for n in range(4)}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=2) as engine:
        await engine.open("http://site.example/0")  # only a tab that was used before is replaced
        opening = asyncio.create_task(engine.open(PAGE))
        await wait_for_request(web, slow)
        kill_tabs(engine, signal.SIGSEGV)
        good = await asyncio.gather(*(engine.open(f"http://site.example/{n}") for n in range(1, 4)))
        assert [(each.failure, len(each.links)) for each in [*good, await opening]] == [(None, 1)] * 4
        assert web.requests.count(("GET", PAGE)) == 2


@needs_chrome
@in_a_loop
async def test_a_page_whose_tab_crashed_is_crawled_again() -> None:
    slow = "http://site.example/slow"
    pages = {PAGE: page(GOOD + "<img src=/slow>"), slow: {"delay_ms": 1000, "status": 404}}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=1) as engine:

        async def kill_its_tab() -> None:
            await wait_for_request(web, slow)
            kill_tabs(engine, signal.SIGKILL)

        killing = asyncio.create_task(kill_its_tab())
        [found] = [
            each async for each in crawl(PAGE, engine=engine, store="sqlite://", depth=0, robots=False, backoff=0.01)
        ]
        await killing
        assert (found.status, found.error, len(found.links)) == (200, "", 1)
        assert web.requests.count(("GET", PAGE)) == 2


@pytest.mark.slow
@needs_chrome
@in_a_loop
async def test_a_killed_browser_is_started_again() -> None:
    pages = {f"http://site.example/{n}": page(GOOD) for n in range(40)}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=4) as engine:
        await engine.open("http://site.example/0")
        first = engine.process_group
        assert first is not None
        opening = asyncio.gather(*(engine.open(url) for url in pages))
        await wait_for_request(web, "http://site.example/5")
        os.kill(find_browser_process(first), signal.SIGKILL)
        opened = await opening
        assert [(each.failure, len(each.links)) for each in opened] == [(None, 1)] * 40
        assert engine.process_group not in {None, first}
        assert list_processes(first) == {}


@pytest.mark.slow
@needs_chrome
@in_a_loop
async def test_a_killed_network_process_of_the_browser_costs_no_page() -> None:
    """Chrome restarts it; the new one does not know the password of the proxy."""
    pages = {f"http://site.example/{n}": page(GOOD) for n in range(40)}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=3) as engine:
        await engine.open("http://site.example/0")
        group = engine.process_group
        assert group is not None
        [network] = [pid for pid, command in list_processes(group).items() if "network.mojom" in command]
        os.kill(network, signal.SIGKILL)
        opened = [await engine.open("http://site.example/1")]
        opened += await asyncio.gather(*(engine.open(url) for url in pages))
        assert [(each.status, each.failure, len(each.links)) for each in opened] == [(200, None, 1)] * 41
        assert engine.process_group == group


@needs_chrome
@pytest.mark.parametrize("turns", [1, 5, 50])
@in_a_loop
async def test_a_cancelled_close_still_closes_everything(turns: int) -> None:
    """A worker that is asked to stop cancels its crawls, also one that is about to end."""
    async with LoopbackWeb({PAGE: page(GOOD)}) as web, run_engine(web.lookup) as engine:
        await engine.open(PAGE)
        group = engine.process_group
        assert group is not None
        closing = asyncio.create_task(engine.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert (engine.proxy.endpoints, list_processes(group)) == (set(), {})


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose name leaves room for Chrome's socket, which has at most 107 bytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@needs_chrome
def test_no_chrome_remains_when_its_parent_is_killed(tmp_path: Path, short_folder: Path) -> None:
    """After `kill -9` of the parent the pipe is closed, Chrome ends, and its profile is removed."""
    script = tmp_path / "opens.py"
    script.write_text(
        "import asyncio\n"
        "from chrome import make_engine\n"
        "async def main():\n"
        "    async with make_engine() as engine:\n"
        "        await engine.open('http://127.0.0.2:9/')\n"
        "        print(engine.process_group, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(short_folder)}
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        group = int(process.stdout.readline())
        assert len(list_processes(group)) > 3
        process.kill()
    deadline = time.monotonic() + 60
    while list_processes(group) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list_processes(group) == {}
    assert not list(short_folder.glob("canonry-chrome-*"))


@needs_chrome
@in_a_loop
async def test_other_programs_cannot_use_the_browser_or_the_proxy() -> None:
    """There is no debugging port, and the proxy needs the password."""
    async with LoopbackWeb({PAGE: page(GOOD)}) as web, run_engine(web.lookup) as engine:
        await engine.open(PAGE)
        assert engine.process_group is not None
        commands = " ".join(list_processes(engine.process_group).values())
        assert "--remote-debugging-pipe" in commands and "--remote-debugging-port" not in commands
        assert engine.proxy.password not in commands
        for endpoint in engine.proxy.endpoints:
            reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
            writer.write(f"GET {PAGE} HTTP/1.1\r\nHost: site.example\r\n\r\n".encode())
            assert (await reader.readline()).startswith(b"HTTP/1.1 407 ")
            writer.close()
            await writer.wait_closed()
    loopback.CONNECTS.clear()


def test_a_missing_chrome_names_the_package_and_the_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CanonryError, match=f"apt-get install {PACKAGE}"):
        find_chrome(Settings())
    with pytest.raises(CanonryError, match="no Chrome at /nowhere/chrome.*CANONRY_CHROME"):
        find_chrome(Settings(chrome="/nowhere/chrome"))
    for name in ("chromium", PACKAGE):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        assert find_chrome(Settings()) == str(tmp_path / name)


@in_a_loop
async def test_a_chrome_that_does_not_start_is_an_error_with_its_message() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "chrome"
        program.write_text("#!/bin/sh\necho 'No usable sandbox!' >&2; exit 1\n")
        program.chmod(0o755)
        async with make_engine(settings=Settings(chrome=str(program))) as engine:
            with pytest.raises(CanonryError, match="does not start: No usable sandbox!"):
                await engine.open(f"http://{ADDRESS}:9/")
