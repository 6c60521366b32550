"""canonicalize with the guarded client it opens by itself, against servers on loopback."""

from __future__ import annotations

import asyncio
import gc
import resource
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

import canonry
from feed_texts import rss

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CALLS = 1_000
CONNECTIONS = 100


@pytest.fixture(autouse=True)
def loopback_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANONRY_ALLOW_NETWORKS", "127.0.0.0/8")
    monkeypatch.setenv("CANONRY_ALLOW_PORTS", "1-65535")


class Site:
    """A server for one handler that counts its connections."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.peak = 0
        self.url = ""

    async def __aenter__(self) -> Site:
        self._server = web.Server(self._counted, handler_cancellation=True)
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

    async def _counted(self, request: web.BaseRequest) -> web.StreamResponse:
        self.peak = max(self.peak, self.connections)
        return await self.handler(request)  # type: ignore[arg-type]


async def feed_of_its_own(request: web.Request) -> web.StreamResponse:
    """Every path is another feed, with and without a slash."""
    name = request.path.strip("/")
    await asyncio.sleep(0.001)
    return web.Response(text=rss(*(f"{name}-{number}" for number in range(20)), title=name), content_type="text/xml")


def peak_memory() -> int:
    """In KiB, of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.slow
def test_a_thousand_at_once() -> None:
    async def run() -> tuple[list[canonry.Canonical], int, int]:
        async with Site(feed_of_its_own) as site:
            before = peak_memory()
            urls = [f"{site.url}/{number}/?utm_source=x" for number in range(CALLS)]
            found = await asyncio.gather(*(canonry.canonicalize(url, timeout=60, deadline=120) for url in urls))
            grown = peak_memory() - before
            for _ in range(100):
                if not site.connections:
                    break
                await asyncio.sleep(0.01)
            assert site.connections == 0
            return found, site.peak, grown

    found, peak, grown = asyncio.run(run())
    gc.collect()  # an unclosed socket would warn here, and warnings are errors
    assert [each.url.rpartition("/")[2] for each in found] == [str(number) for number in range(CALLS)]
    assert Counter(each.reason for each in found) == {"content_verified": CALLS}
    assert 1 < peak <= CONNECTIONS
    assert grown < 150 * 1024


@pytest.mark.slow
def test_to_wait_for_ones_turn_takes_no_time_of_a_request() -> None:
    """Of one host only a few are asked at once."""

    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.5)
        return await feed_of_its_own(request)

    async def run() -> list[canonry.Canonical]:
        async with Site(slow) as site:
            urls = [f"{site.url}/{number}?utm_source=x" for number in range(50)]
            return await asyncio.gather(*(canonry.canonicalize(url, timeout=3) for url in urls))

    assert Counter(each.reason for each in asyncio.run(run())) == {"content_verified": 50}


def test_a_cancelled_call_leaves_no_connection() -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        arrived.set()
        await asyncio.sleep(60)
        return web.Response()

    async def run() -> None:
        async with Site(hang) as site:
            task = asyncio.create_task(canonry.canonicalize(f"{site.url}/feed"))
            await arrived.wait()
            assert site.connections == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for _ in range(100):
                if not site.connections:
                    break
                await asyncio.sleep(0.01)
            assert site.connections == 0

    arrived = asyncio.Event()
    asyncio.run(run())
    gc.collect()


def test_calls_one_after_the_other_and_in_other_loops() -> None:
    async def run() -> AsyncIterator[str]:
        async with Site(feed_of_its_own) as site:
            for number in range(3):
                yield (await canonry.canonicalize(f"{site.url}/{number}/")).url

    async def collected() -> list[str]:
        return [url async for url in run()]

    for _ in range(2):
        assert len(set(asyncio.run(collected()))) == 3
    gc.collect()


def test_without_allowance_loopback_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CANONRY_ALLOW_NETWORKS")

    async def run() -> int:
        async with Site(feed_of_its_own) as site:
            with pytest.raises(canonry.UnsafeUrl, match="loopback"):
                await canonry.canonicalize(f"{site.url}/feed")
            return site.peak

    assert asyncio.run(run()) == 0
