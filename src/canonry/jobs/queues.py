"""The queues of a database: put a job in, see what waits, give back what a dead worker had (contract S2).

DBOS keeps them: on PostgreSQL in a schema of their own, on SQLite in a file beside the store's, so that its many
small transactions do not stand in the way of ours. See docs/decisions/0008-jobs.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dbos import DBOS, DBOSClient, EnqueueOptions, WorkflowSerializationFormat
from dbos import error as dbos_error
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from canonry.errors import StoreError, mask_credentials
from canonry.jobs.dbos_log import calm_dbos

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Generator, Iterable
    from datetime import datetime

    from canonry.store.database import Database

APPLICATION = "canonry"
# Ours, not a hash of the source as DBOS would have it: jobs that wait outlive an upgrade.
# So a kind keeps its name and goes on understanding the keys of older versions.
APPLICATION_VERSION = "canonry-1"
SCHEMA = "canonry_jobs"
POLL, REKEY = "poll", "rekey"

_WAITING = ["ENQUEUED", "PENDING", "DELAYED"]
_ENDED = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
_PAGE = 1000
# Since then SQLite's unixepoch('subsec') is a time. DBOS asks for it from Python 3.12 on, whatever SQLite that has.
_KNOWS_SUBSEC = (3, 42)


@dataclass(frozen=True, slots=True)
class Kind:
    """What to do for the jobs of one name; `run` gets the key and may be called again for it after a crash."""

    name: str
    run: Callable[[str], Awaitable[object]]
    seconds: float | None = 600.0  # a job that takes longer has failed
    is_per_host: bool = False  # one at a time for each host, over all workers
    can_be_cut: bool = False  # a worker that stops does not wait for it: what it has done is kept


class Jobs:
    """The jobs of a database; any number of processes may have them open."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.file = _file_of(database)
        self.engine = _engine(database, self.file)
        calm_dbos()
        try:
            with self.as_store_error():
                self._migrate()
                self._client = DBOSClient(
                    system_database_engine=self.engine,
                    dbos_system_schema=None if self.file else SCHEMA,
                    application_name=APPLICATION,
                    retry_connection_errors=False,
                )
        except BaseException:
            self.engine.dispose()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.destroy()
        self.engine.dispose()

    async def enqueue_poll(self, feed_id: int, host: str) -> bool:
        """Have a feed polled; False if that is waiting or going on already."""
        return await self.enqueue(POLL, str(feed_id), host=host)

    async def enqueue_rekey(self, before: str, after: str) -> bool:
        """Have the keys of the store moved from one policy to another; False if that is waiting or going on."""
        return await self.enqueue(REKEY, json.dumps([before, after]))

    async def enqueue(self, kind: str, key: str = "", *, host: str | None = None, job_id: str = "") -> bool:
        """Queue a job; False if one with this kind and key waits or runs, or one with this id has ever been."""
        return await asyncio.to_thread(self.enqueue_now, kind, key, host=host, job_id=job_id)

    async def enqueue_polls(self, feeds: Iterable[tuple[int, str]]) -> int:
        """Have feeds polled, each an id and a host; how many were not waiting already."""
        return await asyncio.to_thread(self._enqueue_polls, list(feeds))

    def enqueue_now(self, kind: str, key: str = "", *, host: str | None = None, job_id: str = "") -> bool:
        """`enqueue`, in this thread."""
        options: EnqueueOptions = {
            "workflow_name": kind,
            "queue_name": kind,
            "workflow_id": job_id or f"{kind}-{key}-{uuid.uuid4()}",
            "workflow_id_reuse_policy": "reject",
            # Together with a partition only the client takes it, and it holds for the whole queue, as we want it
            # (https://github.com/dbos-inc/dbos-transact-ts/issues/1350). It is free again when the job ends.
            "deduplication_id": f"{kind} {key}",
            "serialization_type": WorkflowSerializationFormat.PORTABLE,  # JSON; the default is a pickle
        }
        if host is not None:
            options["queue_partition_key"] = host or "-"
        try:
            with self.as_store_error():
                self._client.enqueue(options, key)
        except (dbos_error.DBOSQueueDeduplicatedError, dbos_error.DBOSWorkflowIDInUseError):
            return False
        return True

    async def counts(self, kind: str | None = None) -> Counter[str]:
        """How many jobs wait (ENQUEUED), run (PENDING) or have ended how, of those not yet tidied away."""
        found = await asyncio.to_thread(self._list, queue_name=kind)
        return Counter(job.status for job in found)

    async def waiting(self, kind: str) -> list[str]:
        """The ids of the jobs that wait or run."""
        return [job.workflow_id for job in await asyncio.to_thread(self._list, queue_name=kind, status=_WAITING)]

    def running_of(self, executor_id: str) -> list[str]:
        """The ids of the jobs that a worker has taken and not ended."""
        return [str(job.workflow_id) for job in self._list(status="PENDING", executor_id=[executor_id])]

    def release(self, executor_ids: Iterable[str] | None = None, *, only: Collection[str] | None = None) -> int:
        """Give the running jobs of these workers, or of all, back to their queues; how many there were.

        `only` are the ids of those that are meant, where it is not all.
        """
        wanted = None if executor_ids is None else list(executor_ids)
        running = self._list(status="PENDING", executor_id=wanted)
        if only is not None:
            running = [job for job in running if job.workflow_id in only]
        # What DBOS does at start for an executor of the same id: a row that is another's by now stays as it is.
        give_back = self._client._sys_db.reenqueue_for_recovery  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        with self.as_store_error():
            return sum(give_back(job.workflow_id, [str(job.executor_id)], str(job.queue_name)) for job in running)

    def tidy(self, before: datetime, kind: str | None = None) -> int:
        """Forget jobs, or those of one kind, that ended before this time; how many there were."""
        forgotten = 0
        while True:
            ended = self._list(status=_ENDED, queue_name=kind, completed_before=before.isoformat(), limit=_PAGE)
            if not ended:
                return forgotten
            with self.as_store_error():
                self._client.delete_workflows([job.workflow_id for job in ended])
            forgotten += len(ended)

    def register_queues(self, kinds: Iterable[Kind], *, interval: float, concurrency: int) -> None:
        """Tell DBOS how these kinds are queued, so many at once in a worker, and how often to look: chores can wait."""
        for kind in kinds:
            with self.as_store_error():
                self._client.register_queue(
                    kind.name,
                    partition_concurrency=1 if kind.is_per_host else None,
                    polling_interval_sec=interval if kind.is_per_host else interval * 4,
                    worker_concurrency=concurrency,
                )

    def _enqueue_polls(self, feeds: list[tuple[int, str]]) -> int:
        known = {job.deduplication_id for job in self._list(queue_name=POLL, status=_WAITING)} if feeds else set[str]()
        new = [(feed_id, host) for feed_id, host in feeds if f"{POLL} {feed_id}" not in known]
        return sum(self.enqueue_now(POLL, str(feed_id), host=host) for feed_id, host in new)

    def _list(self, **where: Any) -> list[Any]:
        with self.as_store_error():
            return self._client.list_workflows(load_input=False, load_output=False, **where)

    def _migrate(self) -> None:
        if self.file is None:
            DBOS.migrate(self.engine.url.render_as_string(hide_password=False), schema=SCHEMA)
            return
        # DBOS would make the tables of SQLite one by one without a transaction: a process killed meanwhile would
        # leave some that the next one finds in its way. With ours all are made or none, by one process at a time.
        engine = _sqlite_engine(self.file, begins_at_once=True)
        client = DBOSClient(system_database_engine=engine)
        try:
            client._sys_db.run_migrations()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        finally:
            client.destroy()
            engine.dispose()

    @contextmanager
    def as_store_error(self) -> Generator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            reason = getattr(error, "orig", None) or error
            raise StoreError(f"{mask_credentials(self.database.url)}: {' '.join(str(reason).split())}") from error


def _file_of(database: Database) -> Path | None:
    """Where the jobs of a SQLite store are: one file for every name the store's file has."""
    if not database.is_sqlite:
        return None
    name = database.engine.url.database
    if not name or name == ":memory:":
        raise StoreError(f"{mask_credentials(database.url)}: jobs need a database file")
    return Path(os.path.realpath(name) + ".jobs")


def _engine(database: Database, file: Path | None) -> Engine:
    if file is not None:
        return _sqlite_engine(file)
    # A worker that is frozen inside a transaction must not lock its rows for ever.
    options = {"options": "-c idle_in_transaction_session_timeout=60000"}
    return create_engine(database.engine.url, pool_size=10, pool_pre_ping=True, connect_args=options)


def _unixepoch(_: str) -> float:
    return time.time()


def _sqlite_engine(file: Path, *, begins_at_once: bool = False) -> Engine:
    engine = create_engine(f"sqlite:///{file}", pool_size=10, max_overflow=20)

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:  # pyright: ignore[reportUnusedFunction]
        # IMMEDIATE as DBOS sets it on engines it makes itself: Python begins before the first change.
        connection.isolation_level = None if begins_at_once else "IMMEDIATE"
        connection.execute("PRAGMA busy_timeout=60000")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")
        if sqlite3.sqlite_version_info < _KNOWS_SUBSEC:
            connection.create_function("unixepoch", 1, _unixepoch)

    if begins_at_once:

        @event.listens_for(engine, "begin")
        def begun(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
