"""With one request to each of many hosts, the connections of 100 hosts stay open and the others are closed."""

from __future__ import annotations

import asyncio

from canonry.net.origin import Origin
from feed_texts import ok, rss
from loopback import LoopbackWeb, in_a_loop


@in_a_loop
async def test_open_connections_are_bounded() -> None:
    urls = [f"http://blog{number}.example.com/feed" for number in range(300)]
    async with LoopbackWeb({url: ok(rss()) for url in urls}) as web, web.client() as client:
        for start in range(0, len(urls), 50):
            await asyncio.gather(*(client.fetch(url, origin=Origin.PERSON) for url in urls[start : start + 50]))
        async with asyncio.timeout(60):
            while web.connections > 100:
                await asyncio.sleep(0.01)
        assert web.connections == 100
        await client.fetch(urls[0], origin=Origin.PERSON)
        assert web.connections == 100
        assert len(web.requests) == 301
