"""Requests are answered while a real Redis stops, freezes, or returns garbage."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import redis as redis_client

import redis_server
from canonry.server.service import ServiceOptions
from loopback import ADDRESS, Listener, make_client, make_http_response, read_request
from service import Running, serving, until

if TYPE_CHECKING:
    from pathlib import Path

_PATIENCE = 2.0  # seconds: far more than a short link and the 80 ms of the cache take, on a busy machine


class Counting:
    """A shortener that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            self.asked += 1
            headers = {"Location": f"https://target.example.com{request.target}"}
            writer.write(make_http_response(301, headers, request.method))
            await writer.drain()


def test_short_links_are_followed_while_redis_fails(tmp_path: Path) -> None:
    short = Counting()

    async def story() -> None:
        async with Listener(short.talk) as listener:

            async def lookup(_host: str, _port: int) -> list[tuple[str, int]]:
                return [(ADDRESS, listener.port)]

            await asyncio.to_thread(told, lambda: make_client(lookup=lookup))

    def told(client: Any) -> None:
        with redis_server.run_redis() as redis:
            options = ServiceOptions(runs_jobs=False)
            database = f"sqlite:///{tmp_path / 'x.db'}"
            with serving(database, options, client=client, redis_url=redis.url) as service:
                service.wait_for_short_links(_PATIENCE)
                use(service, redis)

    def use(service: Running, redis: redis_server.RedisServer) -> None:
        def put(name: str) -> int:
            """Keep a short link; how often the shortener was asked for it."""
            before, started = short.asked, time.monotonic()
            answer = service.put(f"http://bit.ly/{name}")
            assert answer.status in {200, 201}
            assert answer.json()["url"] == f"https://target.example.com/{name}"
            assert time.monotonic() - started < _PATIENCE
            return short.asked - before

        def is_asked_for_and_kept(name: str) -> bool:
            """Once, as a rule; on a busy machine Redis may be too late for one of them."""
            found = put(name)
            until(lambda: put(name) == 0)
            return found == 1

        assert is_asked_for_and_kept("a")
        direct = redis_client.Redis.from_url(redis.url)
        names: Any = direct.keys("canonry:*")
        assert len(names) == 1
        direct.flushall()
        assert is_asked_for_and_kept("a")
        for garbage in (b"", b"{", b"null", b'{"url": 1}', b"\xff" * 1000, b'["https://127.0.0.1/"]'):
            direct.set(names[0], garbage)
            assert is_asked_for_and_kept("a"), garbage
        direct.delete(names[0])
        direct.rpush(names[0], "a list")
        assert is_asked_for_and_kept("a")
        redis.freeze()
        for number in range(5):
            assert put(f"frozen{number}") == 1
        redis.thaw()
        redis.stop()
        for number in range(10):
            assert put(f"stopped{number}") == 1
        redis.start()
        assert is_asked_for_and_kept("back"), "Redis is used again a second after its last failure"

    asyncio.run(story())
