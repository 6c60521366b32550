"""Contract B2, S1: `canonry.store.cache`, one suite for the table on both databases and for a real Redis."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis
from sqlalchemy import insert, select, text

import canonry
import postgres
import redis_server
from canonry.bookmarks.expand import expand
from canonry.settings import Settings
from canonry.store import cache as caches
from canonry.store import schema
from canonry.store.cache import RedisCache, TableCache, delete_expired, open_cache
from canonry.store.database import Database
from loopback import Listener, LoopbackWeb, in_a_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from pathlib import Path

    from canonry.store.cache import Cache
    from redis_server import RedisServer

PROMISED_SECONDS = 0.1
BUSY_SECONDS = 20.0  # more on a machine that runs other tests
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Backend:
    """A place for caches; `open` returns one more cache on it."""

    open: Callable[[], Cache]


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Backend]:
    """Each kind of backend, new and empty."""
    if request.param == "redis":
        with redis_server.run_redis() as server:
            yield Backend(lambda: RedisCache(server.url))
    elif request.param == "postgresql":
        with postgres.create_database(request.getfixturevalue("postgres_url")) as url, Database(url) as database:
            yield Backend(lambda: TableCache(database))
    else:
        with Database(f"sqlite:///{tmp_path / 'canonry.db'}") as database:
            yield Backend(lambda: TableCache(database))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a busy machine much more time than the usual 80 ms to answer."""
    monkeypatch.setattr(caches, "_CALL_SECONDS", 120.0)


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return the warnings so far."""
    return lambda: [
        record.getMessage()
        for record in caplog.records
        if (record.name, record.levelno) == ("canonry.cache", logging.WARNING)
    ]


async def check_quick(call: Awaitable[Any]) -> Any:
    """Return the result of a call that must not take longer than the contract allows."""
    begun = time.monotonic()
    result = await call
    assert time.monotonic() - begun < PROMISED_SECONDS + BUSY_SECONDS
    return result


async def wait_until_it_works(cache: Cache) -> None:
    """Wait until the pause is over and the backend answers."""
    async with asyncio.timeout(120):
        while await cache.get("again") != b"1":
            await cache.set("again", b"1", 60)
            await asyncio.sleep(0.02)


# Every backend


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("value", [b"", b"a", b"\x00\xff\r\n$-1\r\n", bytes(1_000_000)], ids=len)
@in_a_loop
async def test_a_stored_value_is_returned(backend: Backend, value: bytes, warnings: Callable[[], list[str]]) -> None:
    cache, other = backend.open(), backend.open()
    for name in ("expand:abc", "a b", "ä'\"\n%", "x" * 1000):
        assert await cache.get(name) is None
        await cache.set(name, value, 60)
        assert await cache.get(name) == await other.get(name) == value
    assert await cache.get("expand:ab") is None
    await cache.close()
    await other.close()
    assert warnings() == []


@pytest.mark.usefixtures("patient")
@in_a_loop
async def test_the_last_value_and_its_lifetime_replace_earlier_ones(backend: Backend) -> None:
    cache = backend.open()
    await cache.set("longer", b"1", 0.02)
    await cache.set("longer", b"2", 60)
    await cache.set("shorter", b"1", 60)
    await cache.set("shorter", b"2", 0.02)
    async with asyncio.timeout(30):  # less than the lifetime that was replaced
        while await cache.get("shorter") is not None:
            await asyncio.sleep(0.01)
    assert await cache.get("longer") == b"2"  # its first lifetime is over too
    await cache.set("shorter", b"3", 60)
    assert await cache.get("shorter") == b"3"
    await cache.close()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("seconds", [0, -1, 0.0001])
@in_a_loop
async def test_a_lifetime_of_nothing_deletes_the_value(backend: Backend, seconds: float) -> None:
    cache = backend.open()
    await cache.set("a", b"1", 60)
    await cache.set("a", b"2", seconds)
    async with asyncio.timeout(30):  # less than the lifetime that was replaced
        while (found := await cache.get("a")) is not None:
            assert found == b"2"
            await asyncio.sleep(0.001)
    await cache.close()


@pytest.mark.usefixtures("patient")
@in_a_loop
async def test_calls_at_the_same_time_get_their_own_values(backend: Backend, warnings: Callable[[], list[str]]) -> None:
    cache = backend.open()
    await asyncio.gather(*(cache.set(f"name {n % 50}", b"%d" % (n % 50), 60) for n in range(300)))
    found = await asyncio.gather(*(cache.get(f"name {n % 60}") for n in range(300)))
    assert found == [b"%d" % (n % 60) if n % 60 < 50 else None for n in range(300)]
    await cache.close()
    assert warnings() == []


@pytest.mark.usefixtures("patient")
@in_a_loop
async def test_an_expansion_is_cached(backend: Backend) -> None:
    short, target = "https://bit.ly/x", "https://example.com/"
    pages = {short: {"status": 301, "headers": {"Location": target}}}
    cache = backend.open()
    async with LoopbackWeb(pages) as web, web.client() as client:
        found = [await expand(short, client, cache) for _ in range(3)]
    await cache.close()
    assert [(each.url, each.is_cached) for each in found] == [(target, False), (target, True), (target, True)]
    assert len(web.requests) == 1


# The table


def test_without_a_redis_url_the_table_is_used(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path / 'canonry.db'}") as database:
        assert isinstance(open_cache(Settings(), database), TableCache)


@pytest.mark.usefixtures("patient")
@in_a_loop
async def test_expired_rows_are_not_found_and_then_deleted(database_url: str) -> None:
    with Database(database_url) as database:
        now = NOW
        cache = TableCache(database, lambda: now)
        await cache.set("short", b"1", 60)
        await cache.set("long", b"2", 300)
        now = NOW + timedelta(seconds=59.999)
        assert await cache.get("short") == b"1"
        now = NOW + timedelta(seconds=60)
        assert await cache.get("short") is None
        await delete_expired(database, now + timedelta(seconds=1))
        rows = await database.read(lambda connection: connection.execute(select(schema.cache.c.name)).scalars().all())
        assert rows == ["long"]
        assert await cache.get("long") == b"2"


@pytest.mark.usefixtures("patient")
@in_a_loop
async def test_a_missing_table_is_a_miss_and_one_warning(database_url: str, warnings: Callable[[], list[str]]) -> None:
    with Database(database_url) as database:
        await database.write(lambda connection: connection.execute(text("DROP TABLE cache")))
        cache = TableCache(database)
        for _ in range(5):
            await cache.set("a", b"1", 60)
            assert await cache.get("a") is None
    assert len(warnings()) == 1
    assert "cache" in warnings()[0]


@pytest.mark.usefixtures("patient")
@in_a_loop
async def test_a_value_that_is_not_bytes_is_a_miss(tmp_path: Path, warnings: Callable[[], list[str]]) -> None:
    with Database(f"sqlite:///{tmp_path / 'canonry.db'}") as database:  # SQLite does not check types
        row = "INSERT INTO cache VALUES ('a', 'text', '9999')"
        await database.write(lambda connection: connection.execute(text(row)))
        cache = TableCache(database)
        assert await cache.get("a") is None
        await cache.set("a", b"1", 60)  # without a pause, because the table did answer
        assert await cache.get("a") == b"1"
    assert warnings() == []


@in_a_loop
async def test_a_closed_store_is_a_miss(database_url: str) -> None:
    with Database(database_url) as database:
        cache = TableCache(database)
    await cache.set("a", b"1", 60)
    assert await cache.get("a") is None


@in_a_loop
async def test_a_locked_table_costs_little_time(database_url: str, warnings: Callable[[], list[str]]) -> None:
    with Database(database_url) as database:
        cache = TableCache(database)
        with lock_table(database_url):
            for _ in range(10):
                await check_quick(cache.set("a", b"1", 60))
        await wait_until_it_works(cache)
    assert len(warnings()) == 1


@contextmanager
def lock_table(url: str) -> Generator[None]:
    """Hold a lock on the table, as a slow writer does."""
    with Database(url) as other, other.engine.begin() as connection:
        if not other.is_sqlite:
            connection.execute(text("LOCK TABLE cache IN ACCESS EXCLUSIVE MODE"))
        connection.execute(insert(schema.cache).values(name="other", value=b"", expires_at="9999"))
        yield


# Redis


@pytest.fixture
def redis() -> Generator[RedisServer]:
    with redis_server.run_redis() as server:
        yield server


def test_with_a_redis_url_redis_is_used(redis: RedisServer, tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path / 'canonry.db'}") as database:
        assert isinstance(open_cache(Settings(redis_url=redis.url), database), RedisCache)


@pytest.mark.usefixtures("patient")
@in_a_loop
async def test_keys_and_lifetimes_in_redis(redis: RedisServer) -> None:
    cache = RedisCache(redis.url)
    await cache.set("expand:abc", b"1", 60)
    async with Redis.from_url(redis.url) as inside:
        assert await inside.keys() == [b"canonry:expand:abc"]
        assert 59_000 < await inside.pttl("canonry:expand:abc") <= 60_000
        await inside.flushall()
        assert await cache.get("expand:abc") is None
        await inside.set("canonry:expand:abc", b"\x00garbage")  # readers must check values
        assert await cache.get("expand:abc") == b"\x00garbage"
    await cache.close()


@pytest.mark.usefixtures("patient")
@in_a_loop
async def test_a_value_of_another_redis_type_is_replaced(redis: RedisServer, warnings: Callable[[], list[str]]) -> None:
    cache = RedisCache(redis.url)
    async with Redis.from_url(redis.url) as inside:
        for n in range(20):
            await inside.delete("canonry:a")
            await inside.rpush("canonry:a", "1", "2")
            assert await cache.get("a") is None
            await cache.set("a", b"%d" % n, 60)
            assert await cache.get("a") == b"%d" % n
    await cache.close()
    assert len(warnings()) == 1
    assert "WRONGTYPE" in warnings()[0]


@in_a_loop
async def test_redis_stops_and_starts_again(redis: RedisServer, warnings: Callable[[], list[str]]) -> None:
    cache = RedisCache(redis.url)
    await wait_until_it_works(cache)
    redis.stop()
    for n in range(20):
        assert await check_quick(cache.get("again")) is None
        await check_quick(cache.set(f"{n}", b"1", 60))
    assert await asyncio.gather(*(cache.get("again") for _ in range(200))) == [None] * 200
    redis.start()
    await wait_until_it_works(cache)
    assert await cache.get("0") is None
    await cache.close()
    assert len(warnings()) == 1


@in_a_loop
async def test_redis_does_not_answer_for_a_while(redis: RedisServer, warnings: Callable[[], list[str]]) -> None:
    cache = RedisCache(redis.url)
    await wait_until_it_works(cache)
    for name in "abcdefgh":
        await cache.set(name, name.encode(), 60)
    redis.freeze()
    try:
        found = await check_quick(asyncio.gather(*(cache.get(name) for name in "abcdefgh" * 10)))
        assert set(found) == {None}
        for _ in range(10):
            assert await check_quick(cache.get("a")) is None
    finally:
        redis.thaw()
    await wait_until_it_works(cache)
    # No connection returns a late answer to another call.
    for _ in range(30):
        found = [await cache.get(name) for name in "hgfedcba" * 5]
        assert all(value in {None, name.encode()} for name, value in zip("hgfedcba" * 5, found, strict=True))
        if any(found):
            break
        await asyncio.sleep(0.1)  # on a busy machine an answer may be late again
    else:
        pytest.fail("no value was returned")
    await cache.close()
    assert len(warnings()) == 1


@in_a_loop
async def test_after_no_answer_redis_gets_no_call_until_the_pause_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang_up(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None: ...

    async with Listener(hang_up, address="127.0.0.1") as server:
        monkeypatch.setattr(caches, "_PAUSE_SECONDS", 600.0)
        paused = RedisCache(f"redis://127.0.0.1:{server.port}")
        for _ in range(100):
            assert await check_quick(paused.get("a")) is None
        assert server.accepted == 1
        await paused.close()
        monkeypatch.setattr(caches, "_PAUSE_SECONDS", 0.0)
        cache = RedisCache(f"redis://127.0.0.1:{server.port}")
        for _ in range(3):
            assert await check_quick(cache.get("a")) is None
        assert server.accepted == 1 + 3
        await cache.close()


@in_a_loop
async def test_an_outage_is_logged_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(caches, "_PAUSE_SECONDS", 0.0)
    now = 0.0
    monkeypatch.setattr(caches, "time", SimpleNamespace(monotonic=lambda: now))
    cache = RedisCache("redis://ann:secret@127.0.0.1:1/0")
    for _ in range(5):
        await check_quick(cache.set("a", b"1", 60))
    now = 60.0
    await cache.get("a")
    await cache.close()
    [first, later] = warnings()
    assert " 1 times " in first and " 5 times " in later
    assert "secret" not in first + later


@pytest.mark.usefixtures("patient")
@in_a_loop
async def test_a_wrong_password_is_a_miss_and_is_not_logged(warnings: Callable[[], list[str]]) -> None:
    with redis_server.run_redis("right") as server:
        address = server.url.removeprefix("redis://")
        right = RedisCache(f"redis://:right@{address}")
        await wait_until_it_works(right)
        for wrong in (f"redis://:wrong@{address}", f"redis://ann:wrong@{address}", f"redis://{address}"):
            cache = RedisCache(wrong)
            await cache.set("again", b"2", 60)
            assert await cache.get("again") is None
            await cache.close()
        assert await right.get("again") != b"2"
        await right.close()
    assert len(warnings()) == 3
    assert "right" not in " ".join(warnings()).replace("Error", "") and ":wrong" not in " ".join(warnings())


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "http://ann:secret@localhost",
        "redis://ann:secret@localhost:port",
        "redis://ann:secret@localhost:99999",
        "redis://ann:secret@localhost/0?no_such_option=1",
        "redis://ann:secret@localhost/0?socket_timeout=long",
    ],
)
def test_an_unusable_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(canonry.CanonryError, match="^redis_url ") as caught:
        RedisCache(url)
    assert "secret" not in str(caught.value)
