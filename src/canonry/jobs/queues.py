"""The job queues of a database: enqueue jobs, list them, requeue those of dead workers (contract S2).

DBOS stores the jobs: on PostgreSQL in a separate schema, on SQLite in a file beside the store, so that the many
small transactions of DBOS do not delay those of the store. See docs/decisions/0008-jobs.md.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import time
import uuid
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dbos import DBOS, DBOSClient, EnqueueOptions, WorkflowSerializationFormat
from dbos import error as dbos_error
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from canonry.errors import StoreError, mask_credentials
from canonry.jobs.dbos_log import install_log_filter
from canonry.store.database import APPLICATION_NAME
from canonry.store.store_files import prepare_file, restrict_files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Generator, Iterable
    from datetime import datetime

    from canonry.store.database import Database

APPLICATION = "canonry"
# A constant instead of the hash of the source that DBOS would use, so that waiting jobs survive an upgrade.
# Therefore a kind of job must keep its name and understand the keys that older versions queued.
APPLICATION_VERSION = "canonry-1"
SCHEMA = "canonry_jobs"
# Names are stored with every queued job.
POLL_JOB = "poll"
REKEY_JOB = "rekey"

_log = logging.getLogger("canonry.jobs")
_UNFINISHED_STATUSES = ["ENQUEUED", "PENDING", "DELAYED"]
_ENDED_STATUSES = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
_DELETE_BATCH_JOBS = 1000
# The first SQLite with unixepoch('subsec'), which DBOS calls on Python 3.12 and newer.
_SQLITE_WITH_SUBSEC = (3, 42)


@dataclass(frozen=True, slots=True)
class JobKind:
    """How the jobs of one name are run; `run` gets the job's key and may be called again for it after a crash."""

    name: str
    run: Callable[[str], Awaitable[object]]
    timeout: float | None = 600.0  # seconds
    is_per_host: bool = False  # one job at a time for each host, over all workers
    is_interruptible: bool = False  # a worker that stops cancels it at once, because its progress is stored


@dataclass(frozen=True, slots=True)
class QueueLength:
    """The jobs of a queue that have not ended, and for how long the first one has been waiting."""

    name: str
    waiting: int
    running: int
    oldest_seconds: float


class Jobs:
    """The jobs of a database; any number of processes may open them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.file = _find_jobs_file(database)
        if self.file is not None:
            prepare_file(self.file)
        self.engine = _make_engine(database, self.file)
        install_log_filter()
        try:
            with self.convert_errors():
                self._migrate()
                if self.file is not None:
                    restrict_files(self.file, partial(_log.warning, "%s"), others=(Path(f"{self.file}-lock"),))
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
        """Queue a poll of a feed; False if one is waiting or running."""
        return await self.enqueue(POLL_JOB, str(feed_id), host=host)

    async def enqueue_rekey(self, before: str, after: str) -> bool:
        """Queue a rekey of the store from one policy to another; False if it is waiting or running."""
        return await self.enqueue(REKEY_JOB, json.dumps([before, after]))

    async def enqueue(self, kind: str, key: str = "", *, host: str | None = None, job_id: str = "") -> bool:
        """Queue a job; False if one of this kind and key is waiting or running, or if `job_id` was used before."""
        return await asyncio.to_thread(self.enqueue_now, kind, key, host=host, job_id=job_id)

    async def enqueue_polls(self, feeds: Iterable[tuple[int, str]]) -> int:
        """Queue polls of feeds, each given by id and host; return how many were not waiting already."""
        return await asyncio.to_thread(self._enqueue_polls, list(feeds))

    def enqueue_now(self, kind: str, key: str = "", *, host: str | None = None, job_id: str = "") -> bool:
        """Queue a job, like `enqueue`, but in this thread."""
        options: EnqueueOptions = {
            "workflow_name": kind,
            "queue_name": kind,
            "workflow_id": job_id or f"{kind}-{key}-{uuid.uuid4()}",
            "workflow_id_reuse_policy": "reject",
            # Only the client accepts a deduplication id together with a partition; it then holds for the whole
            # queue, which is what we need (https://github.com/dbos-inc/dbos-transact-ts/issues/1350). DBOS frees it
            # when the job ends.
            "deduplication_id": f"{kind} {key}",
            "serialization_type": WorkflowSerializationFormat.PORTABLE,  # JSON; the default is pickle
        }
        if host is not None:
            options["queue_partition_key"] = host or "-"
        try:
            with self.convert_errors():
                self._client.enqueue(options, key)
        except (dbos_error.DBOSQueueDeduplicatedError, dbos_error.DBOSWorkflowIDInUseError):
            return False
        return True

    async def measure_queues(self) -> list[QueueLength]:
        """Return how many jobs wait and run in each queue that has any."""
        found = await asyncio.to_thread(self._list, status=_UNFINISHED_STATUSES)
        by_queue: defaultdict[str, list[Any]] = defaultdict(list)
        for job in found:
            by_queue[str(job.queue_name)].append(job)
        return [_measure_queue(name, jobs, time.time()) for name, jobs in sorted(by_queue.items())]

    async def list_unfinished(self, kind: str) -> list[str]:
        """Return the ids of the jobs that wait or run."""
        return [
            job.workflow_id for job in await asyncio.to_thread(self._list, queue_name=kind, status=_UNFINISHED_STATUSES)
        ]

    def list_running(self, executor_id: str) -> list[str]:
        """Return the ids of the jobs that a worker has taken and not ended."""
        return [str(job.workflow_id) for job in self._list(status="PENDING", executor_id=[executor_id])]

    def requeue(self, executor_ids: Iterable[str] | None = None, *, only: Collection[str] | None = None) -> int:
        """Put the running jobs of these workers, or of all, back into their queues; return how many there were.

        `only` restricts this to the jobs with these ids.
        """
        wanted = None if executor_ids is None else list(executor_ids)
        running = self._list(status="PENDING", executor_id=wanted)
        if only is not None:
            running = [job for job in running if job.workflow_id in only]
        # DBOS calls this at the start of an executor with the same id. It changes a row only while the given worker
        # holds it. The public `resume_workflows` does not check that, and it drops the deduplication id.
        requeue = self._client._sys_db.reenqueue_for_recovery  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        with self.convert_errors():
            return sum(requeue(job.workflow_id, [str(job.executor_id)], str(job.queue_name)) for job in running)

    def delete_ended(self, before: datetime, kind: str | None = None) -> int:
        """Delete jobs, or those of one kind, that ended before this time; return how many there were."""
        deleted = 0
        while True:
            ended = self._list(
                status=_ENDED_STATUSES, queue_name=kind, completed_before=before.isoformat(), limit=_DELETE_BATCH_JOBS
            )
            if not ended:
                return deleted
            with self.convert_errors():
                self._client.delete_workflows([job.workflow_id for job in ended])
            deleted += len(ended)

    def register_queues(self, kinds: Iterable[JobKind], *, interval: float, concurrency: int) -> None:
        """Register a queue for each kind with DBOS; queues that are not per host are polled less often."""
        for kind in kinds:
            with self.convert_errors():
                self._client.register_queue(
                    kind.name,
                    partition_concurrency=1 if kind.is_per_host else None,
                    polling_interval_sec=interval if kind.is_per_host else interval * 4,
                    worker_concurrency=concurrency,
                )

    def _enqueue_polls(self, feeds: list[tuple[int, str]]) -> int:
        known = (
            {job.deduplication_id for job in self._list(queue_name=POLL_JOB, status=_UNFINISHED_STATUSES)}
            if feeds
            else set[str]()
        )
        new = [(feed_id, host) for feed_id, host in feeds if f"{POLL_JOB} {feed_id}" not in known]
        return sum(self.enqueue_now(POLL_JOB, str(feed_id), host=host) for feed_id, host in new)

    def _list(self, **where: Any) -> list[Any]:
        with self.convert_errors():
            return self._client.list_workflows(load_input=False, load_output=False, **where)

    def _migrate(self) -> None:
        if self.file is None:
            DBOS.migrate(self.engine.url.render_as_string(hide_password=False), schema=SCHEMA)
            return
        # On SQLite DBOS creates its tables one by one without a transaction: a process that is killed meanwhile leaves
        # some behind, and no later start succeeds. This engine begins a transaction, so all are created or none.
        engine = _make_sqlite_engine(self.file, begins_at_once=True)
        client = DBOSClient(system_database_engine=engine)
        try:
            client._sys_db.run_migrations()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        finally:
            client.destroy()
            engine.dispose()

    @contextmanager
    def convert_errors(self) -> Generator[None]:
        """Raise errors of the database as StoreError, with masked credentials."""
        try:
            yield
        except SQLAlchemyError as error:
            reason = getattr(error, "orig", None) or error
            raise StoreError(f"{mask_credentials(self.database.url)}: {' '.join(str(reason).split())}") from error


def _measure_queue(name: str, jobs: list[Any], now: float) -> QueueLength:
    waiting = [job for job in jobs if job.status != "PENDING"]
    created = min((job.created_at for job in waiting), default=now * 1000)  # in milliseconds
    return QueueLength(name, len(waiting), len(jobs) - len(waiting), max(0.0, now - created / 1000))


def _find_jobs_file(database: Database) -> Path | None:
    """Return the file with the jobs of a SQLite store: the same one for every link to the store's file."""
    if not database.is_sqlite:
        return None
    name = database.engine.url.database
    if not name or name == ":memory:":
        raise StoreError(
            f"{mask_credentials(database.url)}: jobs need a database file, not memory. Use sqlite:///FILE or postgresql://…"
        )
    return Path(os.path.realpath(name) + ".jobs")


def _make_engine(database: Database, file: Path | None) -> Engine:
    if file is not None:
        return _make_sqlite_engine(file)
    # A worker that hangs inside a transaction must not hold its locks forever.
    options = {
        "options": "-c idle_in_transaction_session_timeout=60000",
        "fallback_application_name": f"{APPLICATION_NAME} jobs",
    }
    return create_engine(database.engine.url, pool_size=database.pool, pool_pre_ping=True, connect_args=options)


def _get_unixepoch(_: str) -> float:
    return time.time()


def _make_sqlite_engine(file: Path, *, begins_at_once: bool = False) -> Engine:
    engine = create_engine(f"sqlite:///{file}", pool_size=10, max_overflow=20)

    @event.listens_for(engine, "connect")
    def set_pragmas(connection: Any, _: object) -> None:  # pyright: ignore[reportUnusedFunction]
        # As on engines that DBOS creates itself: Python begins an immediate transaction before the first change.
        connection.isolation_level = None if begins_at_once else "IMMEDIATE"
        connection.execute("PRAGMA busy_timeout=60000")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")
        if sqlite3.sqlite_version_info < _SQLITE_WITH_SUBSEC:
            connection.create_function("unixepoch", 1, _get_unixepoch)

    if begins_at_once:

        @event.listens_for(engine, "begin")
        def begin_transaction(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
