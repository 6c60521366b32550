"""Contract C4, C7: what a tab returns for a page, and hostile pages, which must not affect other pages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from canonry.errors import FailureKind
from canonry.net.origin import Origin
from canonry.net.response import Hop
from chrome import GOOD, HTML, PAGE, get_kind, make_page, needs_chrome, run_engine
from loopback import ADDRESS, Listener, LoopbackWeb, in_a_loop, make_http_response, read_request

if TYPE_CHECKING:
    from canonry.net.engine import Engine, OpenedPage

pytestmark = pytest.mark.usefixtures("refused_connects", "profiles")


@needs_chrome
@in_a_loop
async def test_status_title_redirects_and_failures_of_pages() -> None:
    pages = {
        "http://site.example/a": {"status": 301, "headers": {"Location": "/b"}},
        "http://site.example/b": {"status": 302, "headers": {"Location": "http://other.example/c"}},
        "http://other.example/c": make_page("<title> The  title </title>", Status="x"),
        "http://site.example/404": make_page(GOOD) | {"status": 404},
        "http://site.example/js": make_page("<script>location.replace('/404')</script>"),
        "http://site.example/meta": make_page("<meta http-equiv=refresh content='0;url=/404'>"),
        "http://site.example/later": make_page("<meta http-equiv=refresh content='30;url=/404'><a href=/x>x</a>"),
        "http://site.example/text": {"body": "<a href=/x>", "headers": {"Content-Type": "text/plain"}},
        "http://site.example/empty": {"status": 204},
        "http://site.example/busy": make_page(GOOD, **{"Retry-After": "7"}) | {"status": 503},
        "http://site.example/round": {"status": 302, "headers": {"Location": "/round"}},
    }
    async with LoopbackWeb(pages) as web, run_engine(web.lookup) as engine:
        typed: Engine = engine
        assert typed is engine and engine.name == "chrome"
        a = await engine.open("http://site.example/a#part", origin=Origin.PERSON)
        assert (a.status, a.requested_url, a.final_url) == (200, "http://site.example/a#part", "http://other.example/c")
        assert (a.title, a.content_type, a.failure) == ("The title", "text/html; charset=utf-8", None)
        assert a.hops == (
            Hop(301, "http://site.example/a", "http://site.example/b"),
            Hop(302, "http://site.example/b", "http://other.example/c"),
        )
        for name in ("404", "js", "meta"):
            opened = await engine.open(f"http://site.example/{name}", origin=Origin.PERSON)
            assert (opened.status, opened.final_url) == (404, "http://site.example/404")
            assert (opened.title, [link.href for link in opened.links]) == ("Good", ["/next"])
        later = await engine.open("http://site.example/later", origin=Origin.PERSON)
        assert (later.final_url, len(later.links)) == ("http://site.example/later", 1)
        assert (await engine.open("http://site.example/text", origin=Origin.PERSON)).content_type == "text/plain"
        empty = await engine.open("http://site.example/empty", origin=Origin.PERSON)
        assert (empty.status, get_kind(empty)) == (204, FailureKind.NO_CONTENT)
        around = await engine.open("http://site.example/round", origin=Origin.PERSON)
        assert get_kind(around) is FailureKind.TOO_MANY_REDIRECTS
        nowhere = await engine.open("http://elsewhere.example/", origin=Origin.PERSON)
        assert (nowhere.status, get_kind(nowhere)) == (0, FailureKind.CONNECT)
        busy = await engine.open("http://site.example/busy", origin=Origin.PERSON)
        assert (busy.status, busy.retry_after, busy.address) == (503, 7.0, ADDRESS)
        assert (get_kind(busy), busy.links) == (FailureKind.UNAVAILABLE, ())
        assert get_kind(await engine.open("ftp://site.example/", origin=Origin.PERSON)) is FailureKind.REFUSED


@needs_chrome
@pytest.mark.parametrize(
    ("status", "kind"), [(404, FailureKind.STATUS), (401, FailureKind.STATUS), (503, FailureKind.UNAVAILABLE)]
)
@in_a_loop
async def test_an_error_without_a_body_is_what_its_status_says(status: int, kind: FailureKind) -> None:
    error = "http://site.example/error"
    pages = {
        error: {"status": status, "headers": HTML | {"Retry-After": "7"}},
        "http://site.example/old": {"status": 301, "headers": {"Location": "/error"}},
        PAGE: make_page("<script>location.replace('/error')</script>"),
    }
    async with LoopbackWeb(pages) as web, run_engine(web.lookup) as engine:
        for url in (error, "http://site.example/old", PAGE):
            opened = await engine.open(url, origin=Origin.PERSON)
            assert (opened.status, opened.final_url, get_kind(opened)) == (status, error, kind)
            assert opened.retry_after == 7.0


@needs_chrome
@in_a_loop
async def test_pages_do_not_share_cookies() -> None:
    pages = {PAGE: make_page(GOOD, **{"Set-Cookie": "a=1; Max-Age=9999"})}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=1) as engine:
        for _ in range(3):
            assert (await engine.open(PAGE, origin=Origin.PERSON)).failure is None
        asked = [request for request in web.seen if request.url == PAGE]
        assert len(asked) == 3 and not any("cookie" in request.headers for request in asked)
        assert all("canonry/" in request.headers["user-agent"] for request in asked)


@needs_chrome
@in_a_loop
async def test_a_certificate_of_an_unknown_ca_is_refused() -> None:
    async with LoopbackWeb({"https://site.example/": make_page(GOOD)}) as web, run_engine(web.lookup) as engine:
        opened = await engine.open("https://site.example/", origin=Origin.PERSON)
    assert (opened.status, opened.links, get_kind(opened)) == (0, (), FailureKind.CERTIFICATE)


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


# The result of these pages depends on the speed and the memory of the machine; only the other pages are checked.
EXHAUSTING = {
    "a million links": "<script>document.write('<a href=/x>x</a>'.repeat(1e6))</script>",
    "memory of bytes": "<script>const a=[];for(;;) a.push(new Uint8Array(2**28).fill(1))</script>",
}


async def open_between_good_pages(hostile: str, **seconds: float) -> OpenedPage:
    """Open a page, and check that the pages before, beside and after it are read, also in the same tab."""
    good = "http://site.example/good"
    pages = {f"{good}?{n}": make_page(GOOD) for n in range(6)} | {
        PAGE: make_page(hostile),
        "http://site.example/next": make_page(GOOD),
    }
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, **seconds) as engine:
        results = [await engine.open(f"{good}?0", origin=Origin.PERSON)]
        beside = asyncio.gather(*(engine.open(f"{good}?{n}", origin=Origin.PERSON) for n in (1, 2)))
        bad = await engine.open(PAGE, origin=Origin.PERSON)
        results += await beside
        results += [await engine.open(f"{good}?{n}", origin=Origin.PERSON) for n in (3, 4, 5)]
    assert [(each.failure, each.status, len(each.links)) for each in results] == [(None, 200, 1)] * 6
    return bad


@pytest.mark.slow
@needs_chrome
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_page_does_not_affect_other_pages(name: str) -> None:
    hostile, kind = HOSTILE[name]
    # A page that hangs takes both times in full; all others end by themselves.
    seconds = {"load_seconds": 10.0, "script_seconds": 6.0} if kind is FailureKind.SCRIPT_TIMEOUT else {}

    @in_a_loop
    async def run() -> None:
        bad = await open_between_good_pages(hostile, **seconds)
        assert (bad.requested_url, get_kind(bad)) == (PAGE, kind), bad.error
        assert kind is None or bad.links == ()

    run()


@pytest.mark.slow
@needs_chrome
@pytest.mark.parametrize("name", EXHAUSTING)
@in_a_loop
async def test_a_page_that_exhausts_the_machine_does_not_affect_other_pages(name: str) -> None:
    bad = await open_between_good_pages(EXHAUSTING[name], load_seconds=10.0, script_seconds=6.0)
    assert len(bad.links) <= 10_000


@needs_chrome
@in_a_loop
async def test_a_page_that_never_ends_is_a_timeout() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<a href=/x>x</a>")
        while request is not None and request.target == "/" and not reader.at_eof():
            writer.write(b"<p>more " * 10)
            await writer.drain()
            await asyncio.sleep(0.01)

    async with Listener(talk) as server, run_engine(load_seconds=5.0) as engine:
        opened = await engine.open(f"http://{ADDRESS}:{server.port}/", origin=Origin.PERSON)
        # Transient, because Chrome's network process may have been killed halfway.
        assert (get_kind(opened), opened.links, opened.status) == (FailureKind.TIMEOUT, (), 200)
        assert len((await engine.open(f"http://{ADDRESS}:{server.port}/good", origin=Origin.PERSON)).links) == 1


@needs_chrome
@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Content-Length: 1000", b"<a href=/x>x</a>"),
        ("Transfer-Encoding: chunked", b"10\r\n<a href=/x>x</a>\r\n"),
        ("Content-Encoding: gzip\r\nContent-Length: 8", b"not gzip"),
    ],
    ids=["shorter than announced", "without the last chunk", "not in its encoding"],
)
@in_a_loop
async def test_a_page_of_which_a_part_is_missing_is_disconnected(headers: str, body: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await read_request(reader) is not None:
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{headers}\r\n\r\n".encode() + body)

    async with Listener(talk) as server, run_engine() as engine:
        opened = await engine.open(f"http://{ADDRESS}:{server.port}/", origin=Origin.PERSON)
        assert (get_kind(opened), opened.links) == (FailureKind.DISCONNECTED, ())


@needs_chrome
@pytest.mark.parametrize("event", ["", "onload = () => "], ids=["at once", "after load"])
@in_a_loop
async def test_a_page_that_leads_to_one_that_does_not_arrive_is_a_timeout(event: str) -> None:
    pages = {
        PAGE: make_page(f"<a href=/x>x</a><script>{event}setTimeout(() => {{ location = '/slow' }})</script>"),
        "http://site.example/slow": make_page(GOOD) | {"delay_ms": 120_000},
    }
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, load_seconds=6.0, script_seconds=5.0) as engine:
        opened = await engine.open(PAGE, origin=Origin.PERSON)
        assert (get_kind(opened), opened.links) == (FailureKind.TIMEOUT, ())


@needs_chrome
@in_a_loop
async def test_a_page_that_a_script_writes_and_does_not_close_is_read() -> None:
    script = "<script>onload = () => document.write('<a href=/written>x</a>')</script>"
    async with LoopbackWeb({PAGE: make_page(f"<a href=/x>x</a>{script}")}) as web, run_engine(web.lookup) as engine:
        opened = await engine.open(PAGE, origin=Origin.PERSON)
        assert (opened.failure, [link.href for link in opened.links]) == (None, ["/written"])


@needs_chrome
@in_a_loop
async def test_links_are_read_although_an_image_never_ends() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        if request is not None and request.target == "/":
            writer.write(
                make_http_response(200, HTML | {"Connection": "close"}, body=b"<a href=/x>x</a><img src=/image>")
            )
            return
        await reader.read(-1)

    async with Listener(talk) as server, run_engine(load_seconds=5.0) as engine:
        opened = await engine.open(f"http://{ADDRESS}:{server.port}/", origin=Origin.PERSON)
        assert (opened.failure, len(opened.links)) == (None, 1)


@needs_chrome
@pytest.mark.parametrize(
    ("script", "href"),
    [
        ("alert('Not allowed'); history.back()", "/here"),
        ("history.go(-1); history.go('-2')", "/here"),
        ("setTimeout(() => history.back(), 200)", "/here"),
        ("onload = () => history.back()", "/here"),
        (
            (
                "onpopstate = () => document.querySelector('a').setAttribute('href', '/back');"
                "history.pushState({}, '', '/pushed'); setTimeout(() => history.back(), 10)"
            ),
            "/back",
        ),
    ],
    ids=["back", "go", "later", "load", "to an entry of its own"],
)
@in_a_loop
async def test_a_page_does_not_go_back_to_the_page_before_it(script: str, href: str) -> None:
    pages = {PAGE: make_page(GOOD), "http://site.example/page": make_page(f"<script>{script}</script><a href=/here>x")}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=1) as engine:
        for before in ("", PAGE):  # the first page of the tab, and one after another
            if before:
                assert (await engine.open(before, origin=Origin.PERSON)).title == "Good"
            opened = await engine.open("http://site.example/page", origin=Origin.PERSON)
            assert (opened.final_url, opened.failure) == ("http://site.example/page", None)
            assert [link.href for link in opened.links] == [href]


@needs_chrome
@in_a_loop
async def test_downloads_are_refused() -> None:
    pages = {
        "http://site.example/zip": {"body": "PK", "headers": {"Content-Type": "application/zip"}},
        "http://site.example/named": make_page(GOOD, **{"Content-Disposition": "attachment; filename=x.html"}),
        "http://site.example/inside": make_page(
            "<a href=/x>x</a><iframe src=/zip></iframe><script>location='/zip'</script>"
        ),
    }
    async with LoopbackWeb(pages) as web, run_engine(web.lookup) as engine:
        for name in ("zip", "named"):
            opened = await engine.open(f"http://site.example/{name}", origin=Origin.PERSON)
            assert (get_kind(opened), opened.links) == (FailureKind.DOWNLOAD, ())
        assert (await engine.open("http://site.example/inside", origin=Origin.PERSON)).links


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
    pages = {PAGE: {"status": 302, "headers": {"Location": location}}, "http://site.example/good": make_page(GOOD)}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup) as engine:
        opened = await engine.open(PAGE, origin=Origin.PERSON)
        assert (opened.links, get_kind(opened)) == ((), kind)
        assert (await engine.open("http://site.example/good", origin=Origin.PERSON)).links
