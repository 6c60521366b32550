"""Open a database, migrate it, and run work on threads, so that the event loop never waits for it."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import threading
import time
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from canonry.errors import InvalidStoreUrl, StoreError, mask_credentials
from canonry.settings import DEFAULT_POOL
from canonry.store.schema_versions import bring_up_to_date, make_missing
from canonry.store.store_files import prepare_file, restrict_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

T = TypeVar("T")

# What pg_stat_activity shows, unless the URL or PGAPPNAME has another name.
APPLICATION_NAME = "canonry"
_BUSY_SECONDS = 60.0  # that a writer waits for another one
_MAX_ATTEMPTS = 20
_MAX_PORT = 65535
_SQLITE_DRIVERS = frozenset({"sqlite", "sqlite+pysqlite"})
_SQLITE_READERS = 4
_MAX_GROUP = 64  # writes in one transaction: as many as an ingest run has feeds in flight
_SQLITE_BUSY, _SQLITE_LOCKED = 5, 6  # https://www.sqlite.org/rescode.html
_UNWRITABLE_CODES = frozenset({8, 10, 13, 14})  # read-only, input/output error, full, cannot open
# foreign key violation, unique violation, serialization failure, deadlock, lock not available
_TRANSIENT_SQLSTATES = frozenset({"23503", "23505", "40001", "40P01", "55P03"})


class RetryTransaction(Exception):
    """Raised by work that conflicts with another writer: its transaction is rolled back and run again."""


@dataclass(slots=True, eq=False)
class _Task:
    """A piece of work, and its result or error for the coroutine that waits for it."""

    work: Callable[[Connection], Any]
    done: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None

    def settle(self) -> None:
        """Complete the future, on its own event loop, unless it was cancelled."""
        if self.done.done():
            return
        if self.error is None:
            self.done.set_result(self.result)
        else:
            self.done.set_exception(self.error)


class _WorkFailed(Exception):
    """An exception of one task of a group that did not come from the database."""

    def __init__(self, task: _Task, error: Exception) -> None:
        super().__init__(error)
        self.task = task
        self.error = error


class _GroupQueue:
    """Run tasks in groups: tasks that arrive while a group runs form the next one.

    Waking a thread for each task would cost more than most tasks.
    """

    def __init__(self, threads: ThreadPoolExecutor, run_group: Callable[[list[_Task]], None]) -> None:
        """`run_group` sets the result or the error of every task."""
        self._threads = threads
        self._run_group = run_group
        self._lock = threading.Lock()
        self._waiting: deque[_Task] = deque()
        self._gathered: WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Task]] = WeakKeyDictionary()

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Queue the work and return its result."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        gathered = self._gathered.setdefault(loop, [])
        gathered.append(_Task(work, done))
        if len(gathered) == 1:
            loop.call_soon(self._gather, loop, 0)
        return await done

    def _gather(self, loop: asyncio.AbstractEventLoop, before: int) -> None:
        """Hand over the tasks once an iteration of the loop adds none: a commit costs as much as many writes."""
        gathered = self._gathered[loop]
        if before < len(gathered) < _MAX_GROUP:
            loop.call_soon(self._gather, loop, len(gathered))
            return
        del self._gathered[loop]
        with self._lock:
            self._waiting.extend(gathered)
        try:
            self._threads.submit(self._run_waiting)
        except RuntimeError:  # the database was closed meanwhile
            for task in gathered:
                task.error = StoreError("The store is closed.")
                task.settle()

    def _run_waiting(self) -> None:
        while group := self._take_group():
            self._run_group(group)
            _settle_tasks(group)

    def _take_group(self) -> list[_Task]:
        with self._lock:
            while self._waiting:
                group = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_GROUP))]
                if wanted := [task for task in group if not task.done.cancelled()]:
                    return wanted
        return []


class Database:
    """A store: `sqlite:///file.db` or `postgresql://…`; opening it creates or migrates its tables."""

    def __init__(
        self,
        url: str,
        *,
        say: Callable[[str], object] = lambda _: None,
        pool: int = DEFAULT_POOL,
        must_exist: bool = False,
    ) -> None:
        """Call `say` with a sentence if the store is migrated or its files are closed to other accounts.

        `pool` is the number of connections to PostgreSQL; half of them read. `must_exist`: create nothing.
        """
        self.url = url
        self.pool = pool
        self.engine = _make_engine(url, pool, must_exist=must_exist)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        # SQLite allows one writer at a time: with one thread, our own writers never wait for a lock.
        readers = _SQLITE_READERS if self.is_sqlite else pool // 2
        self._writers = ThreadPoolExecutor(1 if self.is_sqlite else pool - readers, "store-writer")
        is_file = self.engine.url.database not in {None, "", ":memory:"}
        self._readers = ThreadPoolExecutor(readers, "store-reader") if is_file else self._writers
        # A store in memory has one connection, which one thread can use at a time.
        is_in_memory = self.is_sqlite and not is_file
        self._turn: AbstractContextManager[object] = threading.RLock() if is_in_memory else nullcontext()
        self._writes = _GroupQueue(self._writers, self._write_group)
        self._lookups = _GroupQueue(self._readers, self._look_up_group)
        try:
            bring_up_to_date(self, say, must_exist=must_exist)
            if self.is_sqlite and is_file:  # and a store of canonry: the file of a mistyped name stays as it is
                file = Path(str(self.engine.url.database)).resolve()
                restrict_files(file, say, others=tuple(file.parent.glob(f"{escape(file.name)}.before-*")))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for running work, then close every connection."""
        self._writers.shutdown()
        self._readers.shutdown()
        self.engine.dispose()

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction on a writer thread and return its result; conflicts with writers are retried."""
        if not self.is_sqlite:
            return await asyncio.get_running_loop().run_in_executor(self._writers, self.write_now, work)
        return await self._writes.run(work)

    async def look_up(self, work: Callable[[Connection], T]) -> T:
        """Like `read`, for quick index lookups, which are grouped: a slow query would delay the others."""
        return await (self._lookups.run(work) if self.is_sqlite else self.read(work))

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, which must only read, on a reader thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self.read_now, work)

    def write_now(self, work: Callable[[Connection], T]) -> T:
        """Like `write`, but in this thread."""
        for attempt in range(_MAX_ATTEMPTS):
            try:
                with self._turn, self.engine.begin() as connection:
                    return work(connection)
            except (DBAPIError, RetryTransaction) as error:
                if attempt == _MAX_ATTEMPTS - 1 or not _is_transient(error):
                    raise self._make_error(error) from error
            except SQLAlchemyError as error:
                raise self._make_error(error) from error
            time.sleep(random.uniform(0.001, 0.01) * 2 ** min(attempt, 7))  # noqa: S311
        raise AssertionError("the last attempt returns or raises")

    def _write_group(self, group: list[_Task]) -> None:
        for task in self._write_together(group) if len(group) > 1 else group:
            self._write_alone(task)

    def _write_together(self, group: list[_Task]) -> list[_Task]:
        """Write a group in one transaction; where one task fails, return those that must be written one by one."""
        try:
            results = self.write_now(partial(_run_all, group))
        except StoreError:  # one by one shows which task it is
            return group
        except _WorkFailed as raised:  # another attempt would not help
            raised.task.error = raised.error
            return [task for task in group if task is not raised.task]
        except BaseException as error:  # a bug in this module: no task may report success
            for task in group:
                task.error = error
            return []
        for task, result in zip(group, results, strict=True):
            task.result = result
        return []

    def _write_alone(self, task: _Task) -> None:
        try:
            task.result = self.write_now(task.work)
        except BaseException as error:  # raised again where the task is awaited
            task.error = error

    def _look_up_group(self, group: list[_Task]) -> None:
        def look_up(connection: Connection) -> None:
            for task in group:
                try:
                    task.result = task.work(connection)
                except SQLAlchemyError as error:
                    task.error = self._make_error(error)
                except Exception as error:  # raised again where the task is awaited
                    task.error = error

        try:
            self.read_now(look_up)
        except BaseException as error:  # the transaction failed: an error of every task
            for task in group:
                task.error = error

    def read_now(self, work: Callable[[Connection], T]) -> T:
        """Like `read`, but in this thread."""
        try:
            with self._turn, self.engine.execution_options(canonry_reads=True).begin() as connection:
                return work(connection)
        except SQLAlchemyError as error:
            raise self._make_error(error) from error

    def _make_error(self, error: Exception) -> StoreError:
        reason = getattr(error, "orig", None) or error
        return StoreError(f"{mask_credentials(self.url)}: {' '.join(str(reason).split())}")


def _run_all(group: list[_Task], connection: Connection) -> list[Any]:
    results: list[Any] = []
    for task in group:
        try:
            results.append(task.work(connection))
        except (SQLAlchemyError, RetryTransaction):
            raise
        except Exception as error:
            raise _WorkFailed(task, error) from error
    return results


def _settle_tasks(group: list[_Task]) -> None:
    """Complete all futures of a loop at once, because waking a loop from another thread is expensive."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Task]] = defaultdict(list)
    for task in group:
        by_loop[task.done.get_loop()].append(task)
    for loop, tasks in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_settle_on_loop, tasks)


def _settle_on_loop(tasks: list[_Task]) -> None:
    for task in tasks:
        task.settle()


def find_store_file(url: str) -> Path | None:
    """Return the file of a SQLite store; None for one in memory or on a server."""
    parsed = _parse_url(url)
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database not in {None, "", ":memory:"}
    return Path(parsed.database or "").expanduser() if is_file else None


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or (parsed.get_backend_name() == "sqlite" and parsed.host):  # sqlite://FILE
        raise InvalidStoreUrl(url, "not the URL of a database")
    if parsed.get_backend_name() != "postgresql" and parsed.drivername not in _SQLITE_DRIVERS:
        raise InvalidStoreUrl(url, "unsupported database")
    if parsed.port is not None and not 1 <= parsed.port <= _MAX_PORT:
        raise InvalidStoreUrl(url, f"the port must be between 1 and {_MAX_PORT}")
    return parsed


def _make_engine(url: str, pool: int = DEFAULT_POOL, *, must_exist: bool = False) -> Engine:
    parsed = _parse_url(url)
    try:
        if parsed.get_backend_name() == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
            options: dict[str, Any] = {"connect_args": {"fallback_application_name": APPLICATION_NAME}}
            return create_engine(parsed, pool_pre_ping=True, pool_size=pool, **options)
        if parsed.database == ":memory:":
            parsed = parsed.set(database=None)
        if parsed.database:
            file = Path(parsed.database).expanduser()
            if not parsed.database.startswith("file:"):  # a URI of SQLite
                if must_exist and not file.exists():
                    raise make_missing(url)
                prepare_file(file)
            parsed = parsed.set(database=str(file))
        options = {} if parsed.database else {"poolclass": StaticPool}
        engine = create_engine(parsed, connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False}, **options)
    except OSError as error:
        raise StoreError(f"{mask_credentials(url)}: {error}") from None

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, record: Any, arguments: Any, options: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
        connection = _connect_to_write(partial(dialect.connect, *arguments, **options), parsed.database or "")
        if connection is None:
            record.info["is_read_only"] = True
            connection = _connect_to_read(parsed.database or "")
        return connection

    @event.listens_for(engine, "checkin")
    def close_read_only(_: object, record: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        # The next connection may be able to write, and an immutable one never sees what others write.
        if record.info.pop("is_read_only", False):
            record.invalidate()

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
        reads = connection.get_execution_options().get("canonry_reads")
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _connect_to_write(connect: Callable[[], sqlite3.Connection], file: str) -> sqlite3.Connection | None:
    """Connect to a store; return None if it can perhaps be read, on a full disk or on a read-only file system."""
    connection = connect()
    try:
        return _set_pragmas(connection)
    except sqlite3.OperationalError as error:
        connection.close()
        can_be_read = bool(file) and os.path.exists(file) and os.path.getsize(file) > 0
        if (error.sqlite_errorcode & 0xFF) not in _UNWRITABLE_CODES or not can_be_read:
            raise
    return None


def _connect_to_read(file: str) -> sqlite3.Connection:
    """Connect to a store that cannot be written.

    A database with a write-ahead log needs a shared-memory file, which cannot be made there. With exclusive locking
    SQLite keeps the index of the log in its own memory: https://www.sqlite.org/wal.html#use_of_wal_without_shared_memory
    A file that is only read cannot be locked exclusively, so nothing is locked. Without a log, the database is opened
    as immutable: https://www.sqlite.org/wal.html#read_only_databases
    """
    database = Path(file).resolve()  # SQLite, too, looks for the log beside the target of a symlink
    log = Path(f"{database}-wal")
    has_log = log.exists() and log.stat().st_size > 0
    options = "mode=ro&vfs=unix-none" if has_log else "immutable=1"
    connection = sqlite3.connect(f"{database.as_uri()}?{options}", uri=True, check_same_thread=False)
    connection.isolation_level = None
    if has_log:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    connection.execute("PRAGMA query_only=ON")
    return _add_functions(connection)


def _set_pragmas(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.isolation_level = None  # the driver would begin too late; the "begin" event does it
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")
    return _add_functions(connection)


def _add_functions(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Add `casefold`, because the functions of SQLite know only the letters of ASCII."""
    connection.create_function("casefold", 1, str.casefold, deterministic=True)
    return connection


def _is_transient(error: DBAPIError | RetryTransaction) -> bool:
    """Whether another attempt may succeed: a lock, a deadlock, a conflicting row, a lost connection."""
    if isinstance(error, RetryTransaction) or error.connection_invalidated:
        return True
    sqlite_code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
    is_locked = sqlite_code in {_SQLITE_BUSY, _SQLITE_LOCKED}
    return is_locked or getattr(error.orig, "sqlstate", None) in _TRANSIENT_SQLSTATES
