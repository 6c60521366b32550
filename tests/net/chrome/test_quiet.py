"""Contract C4: links that scripts add after the load event are read, and a page that keeps changing says so."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from canonry.errors import FailureKind
from canonry.net.chrome.pending_requests import PendingRequests
from canonry.net.engine import ReadOptions
from canonry.net.origin import Origin
from chrome import PAGE, get_kind, make_page, needs_chrome, run_engine
from loopback import LoopbackWeb, in_a_loop

if TYPE_CHECKING:
    from canonry.net.engine import OpenedPage

API = "http://site.example/api"
ADD = "const add = (to) => { const a = document.createElement('a'); a.href = to; (root ?? document.body).append(a); };"
_ADD_LATER = "let root = null;" + ADD

pytestmark = pytest.mark.usefixtures("refused_connects", "profiles")


async def open_page(body: str, options: ReadOptions | None = None, *, delay_ms: int = 150) -> OpenedPage:
    pages = {
        PAGE: make_page(f"<body><script>{_ADD_LATER}</script>{body}"),
        API: {"body": '["/one", "/two"]', "headers": {"Content-Type": "application/json"}, "delay_ms": delay_ms},
    }
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, options=options) as engine:
        return await engine.open(PAGE, origin=Origin.PERSON)


# fmt: off
LATE: dict[str, tuple[str, set[str]]] = {
    "an API":            ("<script>fetch('/api').then(r => r.json()).then(all => all.forEach(add))</script>", {"/one", "/two"}),
    "after load":        ("<script>onload = () => setTimeout(() => fetch('/api').then(r => r.json()).then(all => all.forEach(add)), 200)</script>", {"/one", "/two"}),
    "an XHR":            ("<script>const x = new XMLHttpRequest(); x.open('GET', '/api'); x.onload = () => add('/x'); x.send()</script>", {"/x"}),
    "one after another": ("<script>(async () => { for (const n of [1, 2, 3]) { await fetch('/api'); add('/' + n); } })()</script>", {"/1", "/2", "/3"}),
    "timers":            ("<script>let n = 0; const step = () => { add('/' + n); if (++n < 6) setTimeout(step, 250); }; setTimeout(step, 250)</script>", {f"/{n}" for n in range(6)}),
    "a busy script":     ("<script>onload = () => setTimeout(() => { const end = Date.now() + 1500; while (Date.now() < end); setTimeout(() => add('/late'), 50); }, 10)</script>", {"/late"}),
    "an attribute":      ("<a id=a href=/old>x</a><script>onload = () => setTimeout(() => { a.href = '/new'; setTimeout(() => { a.href = '/newer' }, 300) }, 300)</script>", {"/newer"}),
    "an event handler":  ("<img src=data:, onerror=\"setTimeout(() => add('/handler'), 300)\">", {"/handler"}),
}
# fmt: on


@needs_chrome
@pytest.mark.parametrize("name", LATE)
@in_a_loop
async def test_links_that_arrive_after_load_are_read(name: str) -> None:
    body, expected = LATE[name]
    opened = await open_page(body)
    assert {link.href for link in opened.links} == expected
    assert opened.failure is None and not opened.is_still_changing


@needs_chrome
@in_a_loop
async def test_a_page_that_keeps_changing_says_so_and_a_clock_does_not_count() -> None:
    forever = await open_page("<a href=/first>x</a><script>setInterval(() => add('/more'), 50)</script>")
    assert forever.failure is None and forever.is_still_changing
    assert {"/first", "/more"} == {link.href for link in forever.links}
    clock = await open_page("<p id=p></p><a href=/a></a><script>setInterval(() => p.textContent = Date(), 20)</script>")
    assert (clock.failure, clock.is_still_changing, len(clock.links)) == (None, False, 1)


@needs_chrome
@in_a_loop
async def test_an_answer_that_never_comes_costs_a_limited_time() -> None:
    began = time.monotonic()
    opened = await open_page("<a href=/a>x</a><script>fetch('/api')</script>", delay_ms=120_000)
    assert (opened.failure, opened.is_still_changing, len(opened.links)) == (None, True, 1)
    assert time.monotonic() - began < 60


@needs_chrome
@pytest.mark.parametrize(
    "body",
    [
        "<iframe src=http://other.example/></iframe>",
        "<script>new Worker('/worker.js')</script>",
        "<script>new Worker('/worker.js', {type: 'module'})</script>",
    ],
    ids=["a frame of another site", "a worker", "a module worker"],
)
@in_a_loop
async def test_requests_that_end_in_another_process_are_not_waited_for(body: str) -> None:
    pages = {
        PAGE: make_page(f"<a href=/a>x</a>{body}"),
        "http://other.example/": make_page("<a href=/b>x</a>"),
        "http://site.example/worker.js": {"body": "", "headers": {"Content-Type": "text/javascript"}},
    }
    async with LoopbackWeb(pages) as web, run_engine(web.lookup) as engine:
        opened = await engine.open(PAGE, origin=Origin.PERSON)
    assert (opened.failure, opened.is_still_changing, len(opened.links)) == (None, False, 1)


@needs_chrome
@in_a_loop
async def test_wait_for_load_or_for_a_selector() -> None:
    late = "<script>setTimeout(() => { document.body.id = 'ready'; add('/ready') }, 1500)</script>"
    assert (await open_page(late, ReadOptions(wait="load"))).links == ()
    ready = await open_page(late, ReadOptions(wait="#ready"))
    assert [link.href for link in ready.links] == ["/ready"] and not ready.is_still_changing
    missing = await open_page("<a href=/a>x</a>", ReadOptions(wait="#never"))
    assert len(missing.links) == 1 and missing.is_still_changing
    assert get_kind(await open_page("<a href=/a>x</a>", ReadOptions(wait="a[["))) is FailureKind.SELECTOR


@needs_chrome
@in_a_loop
async def test_scrolling_makes_a_list_grow() -> None:
    listing = """<div id=list style='height:3000px'></div><div id=end>end</div><script>
    let n = 0;
    new IntersectionObserver(([entry]) => {
      if (!entry.isIntersecting || n >= 5) return;
      n += 1; add('/item' + n); list.style.height = 3000 * (n + 1) + 'px';
    }).observe(end);</script>"""
    assert len((await open_page(listing)).links) < 5
    assert len((await open_page(listing, ReadOptions(scroll=True))).links) == 5


@needs_chrome
@in_a_loop
async def test_a_page_without_scripts_is_read_at_once() -> None:
    pages = {PAGE: make_page("<a href=/a>x</a>")}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=1) as engine:
        await engine.open(PAGE, origin=Origin.PERSON)
        seconds: list[float] = []
        for _ in range(5):
            began = time.monotonic()
            assert not (await engine.open(PAGE, origin=Origin.PERSON)).is_still_changing
            seconds.append(time.monotonic() - began)
    assert min(seconds) < 0.5  # less than the shortest wait


def test_requests_are_pending_until_they_end_or_belong_to_another_document() -> None:
    def send(requests: PendingRequests, name: str, kind: str, loader: str = "L1") -> None:
        requests.update("Network.requestWillBeSent", {"requestId": name, "loaderId": loader, "type": kind}, 1.0)

    requests = PendingRequests("F")
    for kind in ("Image", "Font", "Media", "EventSource", "Ping"):
        send(requests, kind, kind)
    assert not len(requests) and requests.is_quiet(10.0, 0.5)
    send(requests, "1", "Fetch")
    send(requests, "2", "Script")
    send(requests, "3", "Fetch")
    requests.update("Network.responseReceived", {"requestId": "3", "response": {"mimeType": "text/event-stream"}}, 2.0)
    requests.update("Network.loadingFinished", {"requestId": "1"}, 3.0)
    assert len(requests) == 1
    requests.update("Page.frameNavigated", {"frame": {"id": "F", "loaderId": "L2"}}, 4.0)
    assert requests.is_quiet(3.6, 0.5) and not requests.is_quiet(3.4, 0.5)


@needs_chrome
@in_a_loop
async def test_a_page_that_leaves_while_it_is_awaited_is_read_at_its_new_address() -> None:
    pages = {
        PAGE: make_page("<a href=/old>x</a><script>setTimeout(() => location.replace('/moved'), 300)</script>"),
        # The script keeps the new document incomplete for a while after it has replaced the old one.
        "http://site.example/moved": make_page("<script src=/slow.js></script><a href=/new>x</a>"),
        "http://site.example/slow.js": {"body": "", "headers": {"Content-Type": "text/javascript"}, "delay_ms": 1500},
    }
    async with LoopbackWeb(pages) as web, run_engine(web.lookup) as engine:
        async with asyncio.timeout(60):
            opened = await engine.open(PAGE, origin=Origin.PERSON)
    assert (opened.final_url, [link.href for link in opened.links]) == ("http://site.example/moved", ["/new"])
