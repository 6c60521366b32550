"""Cache implementations: a table of the store, or Redis where one is configured."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite

from canonry.errors import CanonryError, StoreError, mask_credentials
from canonry.store.schema import cache, stamp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sqlalchemy import Connection

    from canonry.settings import Settings
    from canonry.store.cache_contract import Cache
    from canonry.store.database import Database

T = TypeVar("T")

_WAIT = 0.08  # seconds for one call: with what it takes to give up, below the 100 ms of the contract
_PAUSE = 1.0  # seconds without a call after one that had no answer
_QUIET = 60.0  # seconds from one warning to the next
_CONNECTIONS = 20
_log = logging.getLogger("canonry.cache")


class TableCache:
    """The cache in the store's own table `cache`; what has expired stays there until `forget_expired`."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._clock = clock
        self._backend = _Backend("the table of the cache", without_answer=(OSError, StoreError))

    async def get(self, name: str) -> bytes | None:
        """The value, or None where there is none."""
        live = select(cache.c.value).where(cache.c.name == name, cache.c.expires_at > stamp(self._clock()))
        found: object = await self._backend.ask(
            lambda: self._database.read(lambda connection: connection.execute(live).scalar())
        )
        return found if isinstance(found, bytes) else None

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        """Keep a value for so long."""
        insert = sqlite.insert if self._database.is_sqlite else postgresql.insert
        new = {"value": value, "expires_at": stamp(self._clock() + timedelta(seconds=seconds))}
        upsert = insert(cache).values(name=name, **new).on_conflict_do_update(index_elements=["name"], set_=new)

        def work(connection: Connection) -> None:
            connection.execute(upsert)

        await self._backend.ask(lambda: self._database.write(work))

    async def close(self) -> None:
        """Nothing: the store is not ours."""


class RedisCache:
    """The cache in Redis (`redis://`, `rediss://`, `unix://`), under names that begin with `canonry:`."""

    def __init__(self, url: str) -> None:
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import ConnectionError as NotConnected
        from redis.exceptions import TimeoutError as TooLate

        pools: Any = BlockingConnectionPool  # typed only in part
        try:
            pool = pools.from_url(
                url,
                max_connections=_CONNECTIONS,
                timeout=_WAIT,
                socket_timeout=_WAIT,
                socket_connect_timeout=_WAIT,
                retry=Retry(NoBackoff(), 0),
                protocol=2,  # all that is needed, with the shortest greeting
            )
            pool.make_connection()  # connects to nothing, but knows which options there are
        except (TypeError, ValueError) as error:
            raise CanonryError(f"redis_url {mask_credentials(url)}: {error}") from None
        self._redis = Redis.from_pool(pool)
        # An error that Redis answers with is about one entry, or over at once: no reason for a pause.
        self._backend = _Backend("Redis", without_answer=(OSError, NotConnected, TooLate))

    async def get(self, name: str) -> bytes | None:
        """The value, or None where there is none."""
        found = await self._backend.ask(lambda: self._redis.get(_key(name)))
        return found if isinstance(found, bytes) else None

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        """Keep a value for so long."""
        await self._backend.ask(lambda: self._redis.set(_key(name), value, px=max(1, int(seconds * 1000))))

    async def close(self) -> None:
        """Close its connections."""
        await self._redis.aclose()


def open_cache(settings: Settings, database: Database) -> Cache:
    """Redis where `redis_url` names one, else the store's table."""
    return RedisCache(settings.redis_url) if settings.redis_url else TableCache(database)


async def forget_expired(database: Database, now: datetime) -> None:
    """Delete from the table what nobody gets any longer."""
    expired = delete(cache).where(cache.c.expires_at < stamp(now))
    await database.write(lambda connection: connection.execute(expired))


class _Backend:
    """What answers, or does not: asked with little patience, left alone after a silence, its faults told rarely."""

    def __init__(self, name: str, *, without_answer: tuple[type[Exception], ...]) -> None:
        self._name = name
        self._without_answer = without_answer
        self._paused_until = 0.0
        self._quiet_until = 0.0
        self._failures = 0

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """What the call gives; None where it fails, or is not made."""
        if time.monotonic() < self._paused_until:
            return None
        try:
            async with asyncio.timeout(_WAIT):
                return await call()
        except Exception as error:  # the contract: whatever is wrong there, the request that asks goes on
            self._note(error)
            return None

    def _note(self, error: Exception) -> None:
        now = time.monotonic()
        if isinstance(error, self._without_answer):
            self._paused_until = now + _PAUSE
        self._failures += 1
        if now >= self._quiet_until:
            why = mask_credentials(" ".join(f"{type(error).__name__}: {error}".split()))
            _log.warning(
                "%s fails, we go on without it (%d times since the last warning): %s", self._name, self._failures, why
            )
            self._quiet_until, self._failures = now + _QUIET, 0


def _key(name: str) -> str:
    return f"canonry:{name}"
