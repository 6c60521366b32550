"""The database: opened, brought up to date, and used from threads so that the event loop never waits for it."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from canonry.errors import StoreError, mask_credentials
from canonry.store.schema_versions import bring_up_to_date

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_BUSY = 60.0  # seconds a writer waits for another
_TRIES = 20
_READERS = 4
_GROUP = 64  # writes in one transaction at most: as many as a run has feeds under way


class Retry(Exception):
    """Raised by work whose transaction another writer has made void: it is rolled back and run again."""


@dataclass(slots=True, eq=False)
class _Task:
    """Work that waits for its turn, and what came of it for whoever waits for that."""

    work: Callable[[Connection], Any]
    done: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None

    def settle(self) -> None:
        """Tell, in the loop of the one who waits, unless nobody does any more."""
        if self.done.done():
            return
        if self.error is None:
            self.done.set_result(self.result)
        else:
            self.done.set_exception(self.error)


class _Raised(Exception):
    """What the work of one in a group raised by itself, not the database."""

    def __init__(self, task: _Task, error: Exception) -> None:
        super().__init__(error)
        self.task = task
        self.error = error


class _Line:
    """Work that is done together: what comes in while a group is being done makes the next one.

    A thread that is woken for each piece takes more than most pieces do.
    """

    def __init__(self, threads: ThreadPoolExecutor, do: Callable[[list[_Task]], None]) -> None:
        """`do` gives every task its result or its error."""
        self._threads = threads
        self._do = do
        self._lock = threading.Lock()
        self._waiting: deque[_Task] = deque()
        self._gathered: WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Task]] = WeakKeyDictionary()

    async def done(self, work: Callable[[Connection], T]) -> T:
        """What the work returns."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        gathered = self._gathered.setdefault(loop, [])
        gathered.append(_Task(work, done))
        if len(gathered) == 1:
            loop.call_soon(self._gather, loop, 0)
        return await done

    def _gather(self, loop: asyncio.AbstractEventLoop, before: int) -> None:
        """Hand over what waits once a turn of the loop has brought no more: a commit costs as much as many writes."""
        gathered = self._gathered[loop]
        if before < len(gathered) < _GROUP:
            loop.call_soon(self._gather, loop, len(gathered))
            return
        del self._gathered[loop]
        with self._lock:
            self._waiting.extend(gathered)
        try:
            self._threads.submit(self._do_waiting)
        except RuntimeError:  # closed meanwhile
            for task in gathered:
                task.error = StoreError("the store is closed")
                task.settle()

    def _do_waiting(self) -> None:
        while group := self._next_group():
            self._do(group)
            _settle(group)

    def _next_group(self) -> list[_Task]:
        with self._lock:
            while self._waiting:
                group = [self._waiting.popleft() for _ in range(min(len(self._waiting), _GROUP))]
                if wanted := [task for task in group if not task.done.cancelled()]:
                    return wanted
        return []


class Database:
    """A store: `sqlite:///file.db` or `postgresql://…`; opening it brings its tables up to date."""

    def __init__(self, url: str, *, say: Callable[[str], object] = lambda _: None) -> None:
        self.url = url
        self.engine = _engine(url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        # SQLite has one writer at a time: one thread, so that no two of ours wait for each other.
        self._writers = ThreadPoolExecutor(1 if self.is_sqlite else _READERS, "store-writer")
        is_file = self.engine.url.database not in {None, "", ":memory:"}
        self._readers = ThreadPoolExecutor(_READERS, "store-reader") if is_file else self._writers
        self._writes = _Line(self._writers, self._write_group)
        self._lookups = _Line(self._readers, self._look_up_group)
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
        return await self._writes.done(work)

    async def look_up(self, work: Callable[[Connection], T]) -> T:
        """`read`, for what an index finds at once: others wait for it."""
        return await (self._lookups.done(work) if self.is_sqlite else self.read(work))

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

    def _write_group(self, group: list[_Task]) -> None:
        for task in self._write_together(group) if len(group) > 1 else group:
            self._write_alone(task)

    def _write_together(self, group: list[_Task]) -> list[_Task]:
        """Write a group; those that are still to be written, each alone so that none pays for the fault of another."""
        try:
            results = self.write_now(partial(_all_of, group))
        except StoreError:  # whose it is shows when they are alone
            return group
        except _Raised as raised:  # nothing another try would change
            raised.task.error = raised.error
            return [task for task in group if task is not raised.task]
        except BaseException as error:  # a fault of this module: nobody is told that all went well
            for task in group:
                task.error = error
            return []
        for task, result in zip(group, results, strict=True):
            task.result = result
        return []

    def _write_alone(self, task: _Task) -> None:
        try:
            task.result = self.write_now(task.work)
        except BaseException as error:  # it belongs to whoever waits for this
            task.error = error

    def _look_up_group(self, group: list[_Task]) -> None:
        def look_up(connection: Connection) -> None:
            for task in group:
                try:
                    task.result = task.work(connection)
                except SQLAlchemyError as error:
                    task.error = self._failed(error)
                except Exception as error:  # it belongs to whoever waits for this
                    task.error = error

        try:
            self.read_now(look_up)
        except BaseException as error:  # of the transaction: it is everybody's
            for task in group:
                task.error = error

    def read_now(self, work: Callable[[Connection], T]) -> T:
        """`read`, in this thread."""
        try:
            with self.engine.execution_options(canonry_reads=True).begin() as connection:
                return work(connection)
        except SQLAlchemyError as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StoreError:
        reason = getattr(error, "orig", None) or error
        return StoreError(f"{mask_credentials(self.url)}: {' '.join(str(reason).split())}")


def _all_of(group: list[_Task], connection: Connection) -> list[Any]:
    results: list[Any] = []
    for task in group:
        try:
            results.append(task.work(connection))
        except (SQLAlchemyError, Retry):
            raise
        except Exception as error:
            raise _Raised(task, error) from error
    return results


def _settle(group: list[_Task]) -> None:
    """Tell everybody at once: waking a loop from another thread costs more than what it is woken for."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Task]] = defaultdict(list)
    for task in group:
        by_loop[task.done.get_loop()].append(task)
    for loop, tasks in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle_here, tasks)


def _settle_here(tasks: list[_Task]) -> None:
    for task in tasks:
        task.settle()


def store_file(url: str) -> Path | None:
    """The file of a SQLite store; None for one in memory or on a server."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreError(f"{mask_credentials(url)}: {error}") from None
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database not in {None, "", ":memory:"}
    return Path(parsed.database or "").expanduser() if is_file else None


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "postgresql":
            return create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
        if parsed.get_backend_name() != "sqlite":
            raise StoreError(f"{mask_credentials(url)}: only sqlite:///FILE and postgresql://… can be used")
        if parsed.database == ":memory:":
            parsed = parsed.set(database=None)
        if parsed.database:
            file = Path(parsed.database).expanduser()
            file.parent.mkdir(parents=True, exist_ok=True)
            parsed = parsed.set(database=str(file))
        options: dict[str, Any] = {} if parsed.database else {"poolclass": StaticPool}
        engine = create_engine(parsed, connect_args={"timeout": _BUSY, "check_same_thread": False}, **options)
    except (ArgumentError, NoSuchModuleError, OSError) as error:
        raise StoreError(f"{mask_credentials(url)}: {error}") from None

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
