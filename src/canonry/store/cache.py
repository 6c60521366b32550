"""The cache contract and its implementations: a table of the store, or Redis where one is configured."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite

from canonry.errors import CanonryError, StoreError, mask_credentials
from canonry.store.schema import cache, stamp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sqlalchemy import Connection

    from canonry.settings import Settings
    from canonry.store.database import Database

T = TypeVar("T")

_CALL_SECONDS = 0.08  # together with giving up, below the 100 ms of the contract
_PAUSE_SECONDS = 1.0  # without calls after one that got no answer
_WARNING_SECONDS = 60.0  # from one warning to the next
_MAX_CONNECTIONS = 20
_log = logging.getLogger("canonry.cache")


class Cache(Protocol):
    """Store bytes under a name for a limited time; tests/contracts/test_cache.py checks every implementation.

    - A value disappears after its seconds, or earlier. Losing one costs time, nothing else.
    - The value that comes back may differ from the one that was stored, because others can write to the backend. The
      reader must check it.
    - A broken backend raises nothing: `get` returns None, `set` does nothing, and a warning is logged to
      `canonry.cache`, at most once a minute.
    - No call takes longer than 100 ms. A backend that did not answer gets no call for one second.
    """

    async def get(self, name: str) -> bytes | None:
        """Return the value, or None where it is missing or expired."""
        ...

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        """Store a value for so many seconds, replacing the one before."""
        ...

    async def close(self) -> None:
        """Close connections; no call follows."""
        ...


class TableCache:
    """A cache in the table `cache` of the store; expired rows stay until `delete_expired`."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._clock = clock
        self._backend = _Backend("The cache table", no_answer=(OSError, StoreError))

    async def get(self, name: str) -> bytes | None:
        """Return the value, or None where it is missing or expired."""
        live = select(cache.c.value).where(cache.c.name == name, cache.c.expires_at > stamp(self._clock()))
        found: object = await self._backend.call(
            lambda: self._database.read(lambda connection: connection.execute(live).scalar())
        )
        return found if isinstance(found, bytes) else None

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        """Store a value for so many seconds."""
        insert = sqlite.insert if self._database.is_sqlite else postgresql.insert
        new = {"value": value, "expires_at": stamp(self._clock() + timedelta(seconds=seconds))}
        upsert = insert(cache).values(name=name, **new).on_conflict_do_update(index_elements=["name"], set_=new)

        def work(connection: Connection) -> None:
            connection.execute(upsert)

        await self._backend.call(lambda: self._database.write(work))

    async def close(self) -> None:
        """Do nothing: the store belongs to the caller."""


class RedisCache:
    """A cache in Redis (`redis://`, `rediss://`, `unix://`); its keys begin with `canonry:`."""

    def __init__(self, url: str) -> None:
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import ConnectionError as RedisConnectionError
        from redis.exceptions import TimeoutError as RedisTimeoutError

        pools: Any = BlockingConnectionPool  # typed only in part
        try:
            pool = pools.from_url(
                url,
                max_connections=_MAX_CONNECTIONS,
                timeout=_CALL_SECONDS,
                socket_timeout=_CALL_SECONDS,
                socket_connect_timeout=_CALL_SECONDS,
                retry=Retry(NoBackoff(), 0),
                protocol=2,  # enough for GET and SET, with the shortest handshake
            )
            pool.make_connection()  # does not connect yet, but validates the options
        except (TypeError, ValueError) as error:
            raise CanonryError(f"redis_url {mask_credentials(url)}: {error}") from None
        self._redis = Redis.from_pool(pool)
        # An error that Redis itself answers with concerns one entry or passes quickly, so it causes no pause.
        self._backend = _Backend("Redis", no_answer=(OSError, RedisConnectionError, RedisTimeoutError))

    async def get(self, name: str) -> bytes | None:
        """Return the value, or None where it is missing or expired."""
        found = await self._backend.call(lambda: self._redis.get(_make_key(name)))
        return found if isinstance(found, bytes) else None

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        """Store a value for so many seconds."""
        await self._backend.call(lambda: self._redis.set(_make_key(name), value, px=max(1, int(seconds * 1000))))

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


def open_cache(settings: Settings, database: Database) -> Cache:
    """Return a Redis cache where `redis_url` is set, else one in the store's table."""
    return RedisCache(settings.redis_url) if settings.redis_url else TableCache(database)


async def delete_expired(database: Database, now: datetime) -> None:
    """Delete expired rows from the table."""
    expired = delete(cache).where(cache.c.expires_at < stamp(now))
    await database.write(lambda connection: connection.execute(expired))


class _Backend:
    """Calls to a backend with a short timeout, a pause after no answer, and few warnings."""

    def __init__(self, name: str, *, no_answer: tuple[type[Exception], ...]) -> None:
        self._name = name
        self._no_answer = no_answer
        self._paused_until = 0.0
        self._next_warning = 0.0
        self._failures = 0

    async def call(self, function: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of the call; None where it fails or during a pause."""
        if time.monotonic() < self._paused_until:
            return None
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                return await function()
        except Exception as error:  # the contract: a broken cache fails no request
            self._record_failure(error)
            return None

    def _record_failure(self, error: Exception) -> None:
        now = time.monotonic()
        if isinstance(error, self._no_answer):
            self._paused_until = now + _PAUSE_SECONDS
        self._failures += 1
        if now >= self._next_warning:
            reason = mask_credentials(" ".join(f"{type(error).__name__}: {error}".split()))
            _log.warning(
                "%s failed %d times since the last warning; continuing without it: %s",
                self._name,
                self._failures,
                reason,
            )
            self._next_warning, self._failures = now + _WARNING_SECONDS, 0


def _make_key(name: str) -> str:
    return f"canonry:{name}"
