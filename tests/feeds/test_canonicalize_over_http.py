"""Canonicalize with its default client, against servers on loopback."""

from __future__ import annotations

import asyncio
import gc
import resource
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

import canonry
from canonry.errors import RefusalKind
from feed_texts import rss

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CALLS = 300
MAX_CONNECTIONS = 100


@pytest.fixture(autouse=True)
def allow_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANONRY_ALLOW_NETWORKS", "127.0.0.0/8")
    monkeypatch.setenv("CANONRY_ALLOW_PORTS", "1-65535")


class Site:
    """A server with one handler, which counts its connections."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.peak = 0
        self.url = ""

    async def __aenter__(self) -> Site:
        self._server = web.Server(self._count_connections, handler_cancellation=True)
        self._runner = web.ServerRunner(self._server)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=CALLS)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def connections(self) -> int:
        return len(self._server.connections)

    async def _count_connections(self, request: web.BaseRequest) -> web.StreamResponse:
        self.peak = max(self.peak, self.connections)
        return await self.handler(request)  # type: ignore[arg-type]


async def serve_feed(request: web.Request) -> web.StreamResponse:
    """Serve a different feed for each path; a trailing slash makes no difference."""
    name = request.path.strip("/")
    await asyncio.sleep(0.001)
    return web.Response(text=rss(*(f"{name}-{number}" for number in range(20)), title=name), content_type="text/xml")


async def wait_for_no_connections(site: Site) -> None:
    async with asyncio.timeout(60):
        while site.connections:
            await asyncio.sleep(0.01)


def get_peak_memory() -> int:
    """Return the peak memory of this process so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.slow
def test_hundreds_of_calls_at_once_share_a_bounded_pool_of_connections() -> None:
    async def run() -> tuple[list[canonry.Canonical], int, int]:
        async with Site(serve_feed) as site:
            before = get_peak_memory()
            urls = [f"{site.url}/{number}/?utm_source=x" for number in range(CALLS)]
            found = await asyncio.gather(*(canonry.canonicalize(url, timeout=120, deadline=240) for url in urls))
            grown = get_peak_memory() - before
            await wait_for_no_connections(site)
            return found, site.peak, grown

    found, peak, grown = asyncio.run(run())
    gc.collect()  # an unclosed socket would warn here, and warnings are errors
    assert [each.url.rpartition("/")[2] for each in found] == [str(number) for number in range(CALLS)]
    assert Counter(each.reason for each in found) == {"content_verified": CALLS}
    assert 1 < peak <= MAX_CONNECTIONS
    assert grown < 150 * 1024


@pytest.mark.slow
def test_waiting_for_a_connection_slot_does_not_count_towards_the_timeout() -> None:
    """50 calls share the few connections that one host gets, so that the last ones wait longer than `timeout`."""

    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.5)
        return await serve_feed(request)

    async def run() -> list[canonry.Canonical]:
        async with Site(slow) as site:
            urls = [f"{site.url}/{number}?utm_source=x" for number in range(50)]
            return await asyncio.gather(*(canonry.canonicalize(url, timeout=5, deadline=240) for url in urls))

    assert Counter(each.reason for each in asyncio.run(run())) == {"content_verified": 50}


def test_a_cancelled_call_leaves_no_connection() -> None:
    async def never_answer(_: web.Request) -> web.StreamResponse:
        arrived.set()
        await asyncio.Event().wait()
        return web.Response()

    async def run() -> None:
        async with Site(never_answer) as site:
            task = asyncio.create_task(canonry.canonicalize(f"{site.url}/feed"))
            await asyncio.wait_for(arrived.wait(), 60)
            assert site.connections == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await wait_for_no_connections(site)

    arrived = asyncio.Event()
    asyncio.run(run())
    gc.collect()


def test_calls_work_in_sequence_and_in_several_event_loops() -> None:
    async def run() -> AsyncIterator[str]:
        async with Site(serve_feed) as site:
            for number in range(3):
                yield (await canonry.canonicalize(f"{site.url}/{number}/")).url

    async def collect() -> list[str]:
        return [url async for url in run()]

    for _ in range(2):
        assert len(set(asyncio.run(collect()))) == 3
    gc.collect()


def test_loopback_is_refused_unless_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CANONRY_ALLOW_NETWORKS")

    async def run() -> int:
        async with Site(serve_feed) as site:
            with pytest.raises(canonry.UnsafeUrl) as caught:
                await canonry.canonicalize(f"{site.url}/feed")
            assert caught.value.kind is RefusalKind.LOOPBACK
            return site.peak

    assert asyncio.run(run()) == 0
