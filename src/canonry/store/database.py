"""The database: opened, brought up to date, and used from threads so that the event loop never waits for it."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from canonry.errors import StoreError, masked
from canonry.store.versions import bring_up_to_date

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_BUSY = 60.0  # seconds a writer waits for another
_TRIES = 20
_READERS = 4
_GROUP = 32  # writes in one transaction at most


class Retry(Exception):
    """Raised by work whose transaction another writer has made void: it is rolled back and run again."""


class Database:
    """A store: `sqlite:///file.db` or `postgresql://…`; opening it brings its tables up to date."""

    def __init__(self, url: str, *, say: Callable[[str], object] = lambda _: None) -> None:
        self.url = url
        self.engine = _engine(url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        # SQLite has one writer at a time: one thread, so that no two of ours wait for each other.
        self._writers = ThreadPoolExecutor(1 if self.is_sqlite else _READERS, "store-writer")
        is_file = self.engine.url.database not in {None, "", ":memory:"}
        self._queue = threading.Lock()
        self._waiting: deque[tuple[Callable[[Connection], Any], Future[Any]]] = deque()
        self._readers = ThreadPoolExecutor(_READERS, "store-reader") if is_file else self._writers
        try:
            bring_up_to_date(self, say)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let running work end, then close every connection."""
        self._writers.shutdown()
        self._readers.shutdown()
        self.engine.dispose()

    async def write(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns, run in a transaction on a writer's thread; again if another writer was in its way."""
        if not self.is_sqlite:
            return await asyncio.get_running_loop().run_in_executor(self._writers, self.write_now, work)
        done: Future[T] = Future()
        with self._queue:
            self._waiting.append((work, done))
            if len(self._waiting) == 1:
                self._writers.submit(self._write_waiting)
        return await asyncio.wrap_future(done)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns, which only reads, on a reader's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self.read_now, work)

    def write_now(self, work: Callable[[Connection], T]) -> T:
        """`write`, in this thread."""
        for attempt in range(_TRIES):
            try:
                with self.engine.begin() as connection:
                    return work(connection)
            except (DBAPIError, Retry) as error:
                if attempt == _TRIES - 1 or not _is_passing(error):
                    raise self._failed(error) from error
            except SQLAlchemyError as error:
                raise self._failed(error) from error
            time.sleep(random.uniform(0.001, 0.01) * 2 ** min(attempt, 7))  # noqa: S311
        raise AssertionError("the last try returns or raises")

    def _write_waiting(self) -> None:
        """What has come in while another transaction was written, in one; each alone where one of them fails."""
        with self._queue:
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), _GROUP))]
            if self._waiting:
                self._writers.submit(self._write_waiting)
        group = [(work, done) for work, done in group if done.set_running_or_notify_cancel()]
        if len(group) > 1:
            try:
                results = self.write_now(lambda connection: [work(connection) for work, _ in group])
            except Exception:  # noqa: S110  # whose it is shows below
                pass
            else:
                for (_, done), result in zip(group, results, strict=True):
                    done.set_result(result)
                return
        for work, done in group:
            try:
                done.set_result(self.write_now(work))
            except BaseException as error:  # it belongs to whoever waits for this
                done.set_exception(error)

    def read_now(self, work: Callable[[Connection], T]) -> T:
        """`read`, in this thread."""
        try:
            with self.engine.execution_options(canonry_reads=True).begin() as connection:
                return work(connection)
        except SQLAlchemyError as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StoreError:
        reason = getattr(error, "orig", None) or error
        return StoreError(f"{masked(self.url)}: {' '.join(str(reason).split())}")


def store_file(url: str) -> Path | None:
    """The file of a SQLite store; None for one in memory or on a server."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreError(f"{masked(url)}: {error}") from None
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database not in {None, "", ":memory:"}
    return Path(parsed.database or "").expanduser() if is_file else None


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "postgresql":
            return create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
        if parsed.get_backend_name() != "sqlite":
            raise StoreError(f"{masked(url)}: only sqlite:///FILE and postgresql://… can be used")
        if parsed.database == ":memory:":
            parsed = parsed.set(database=None)
        if parsed.database:
            file = Path(parsed.database).expanduser()
            file.parent.mkdir(parents=True, exist_ok=True)
            parsed = parsed.set(database=str(file))
        options: dict[str, Any] = {} if parsed.database else {"poolclass": StaticPool}
        engine = create_engine(parsed, connect_args={"timeout": _BUSY, "check_same_thread": False}, **options)
    except (ArgumentError, NoSuchModuleError, OSError) as error:
        raise StoreError(f"{masked(url)}: {error}") from None

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.isolation_level = None  # the driver begins too late; we begin ourselves
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
        reads = connection.get_execution_options().get("canonry_reads")
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _is_passing(error: DBAPIError | Retry) -> bool:
    """Is it worth another try? A lock, a deadlock, a row another writer inserted or deleted, a lost connection."""
    if isinstance(error, Retry) or error.connection_invalidated:
        return True
    state = getattr(error.orig, "sqlstate", None)
    return state in {"23503", "23505", "40001", "40P01", "55P03"} or "database is locked" in str(error.orig)
