"""A worker: runs the jobs of a database while it is open, and requeues jobs of dead workers (contract S2)."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import socket
import threading
import time
import traceback
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from dbos import DBOS, DBOSConfig, WorkflowSerializationFormat

from canonry.errors import CanonryError, StoreError, WorkerAlreadyRunning, mask_credentials
from canonry.jobs.heartbeat import Heartbeat
from canonry.jobs.queues import APPLICATION, APPLICATION_VERSION, SCHEMA
from canonry.masking import mask_urls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from canonry.jobs.queues import JobKind, Jobs
    from canonry.jobs.schedules import Schedule

_log = logging.getLogger("canonry.jobs")

_MAX_ATTEMPTS = 10  # a job whose worker died this often is given up
_CANCEL_SECONDS = 5.0  # for a cancelled job to end
_ONE_WORKER_LOCK = threading.Lock()  # DBOS is a singleton of the process


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """Intervals and limits in seconds.

    Jobs of a dead worker are requeued after `silent` plus at most one `heartbeat`: within a minute.
    """

    heartbeat: float = 5.0  # between heartbeats, searches for silent workers, and schedules
    silent: float = 50.0  # without a heartbeat, after which a worker counts as dead
    poll: float = 0.5  # between two queries of a queue; an idle worker spends its time on these queries
    drain: float = 30.0  # for running jobs to end when the worker stops


class JobFailed(CanonryError):
    """The reason why a job failed, as stored with the job."""


class Worker:
    """Run jobs inside an `async with` block, on its event loop; one worker in a process."""

    def __init__(
        self,
        jobs: Jobs,
        kinds: Sequence[JobKind],
        *,
        schedules: Sequence[Schedule] = (),
        concurrency: int = 32,
        times: WorkerTimes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.executor_id = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._jobs = jobs
        self._kinds = kinds
        self._schedules = schedules
        self._concurrency = concurrency
        self._times = times or WorkerTimes()
        self._clock = clock
        self._schedule_time = 0.0
        self._schedule_time_read_at = time.monotonic()
        # DBOS may occupy all of asyncio's default threads; heartbeats need separate threads.
        self._threads = ThreadPoolExecutor(2, "jobs")
        self._running: dict[asyncio.Task[Any], str] = {}
        self._interruptible: set[asyncio.Task[Any]] = set()
        self._lost_since: dict[str, float] = {}
        self._heartbeat_lock = threading.Lock()
        self._has_ended = False
        self._is_stopping = False
        self._dbos: DBOS | None = None
        self._lock: int | None = None
        self._heartbeat: Heartbeat | None = None
        self._heartbeat_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if not _ONE_WORKER_LOCK.acquire(blocking=False):
            raise WorkerAlreadyRunning("This process already has a worker; run another one in a separate process.")
        try:
            await self._run_in_thread(self._prepare)
            with self._jobs.convert_errors():
                self._launch()
        except BaseException:
            self._end()
            raise
        self._heartbeat_task = asyncio.create_task(self._send_heartbeats())
        _log.info("worker %s started", self.executor_id)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Take no more jobs, wait a while for the running ones, requeue the rest."""
        self._is_stopping = True
        _log.info("worker %s stops; waiting for %d running jobs", self.executor_id, len(self._running))
        try:
            await self._drain()
            await self._run_in_thread(lambda: DBOS.destroy(destroy_registry=True))
            if self._heartbeat_task is not None:
                self._heartbeat_task.cancel()
            if requeued := await self._run_in_thread(self._requeue_own_jobs):
                _log.info("requeued %d jobs that had not ended", requeued)
        except StoreError as error:
            _log.warning("could not requeue running jobs; other workers take them over within a minute: %s", error)
        finally:
            self._end()

    async def _drain(self) -> None:
        assert self._dbos is not None
        for event in self._dbos.background_thread_stop_events:
            event.set()  # DBOS takes no more jobs; a job that it takes meanwhile sees `_is_stopping`
        for task in self._interruptible:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=self._times.drain)
        for task in self._running:
            task.cancel()  # DBOS records nothing for a cancelled task: in the database the job still runs
        if self._running:
            await asyncio.wait(self._running, timeout=_CANCEL_SECONDS)

    def _end(self) -> None:
        self._threads.shutdown(wait=False)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        _ONE_WORKER_LOCK.release()

    def _prepare(self) -> None:
        self._take_lock()
        if self._jobs.file is None:
            self._heartbeat = Heartbeat(self._jobs.database, self.executor_id)
            self._heartbeat.beat()
        elif requeued := self._jobs.requeue():  # we hold the lock, so the worker that ran them has ended
            _log.warning("requeued %d jobs of a worker that has ended", requeued)
        self._jobs.register_queues(self._kinds, interval=self._times.poll, concurrency=self._concurrency)

    def _launch(self) -> None:
        """Start DBOS on the thread of the event loop, so that it runs the jobs on this loop."""
        config = DBOSConfig(
            name=APPLICATION,
            application_version=APPLICATION_VERSION,
            executor_id=self.executor_id,
            system_database_engine=self._jobs.engine,
            dbos_system_schema=SCHEMA,
            run_migrations=False,  # `Jobs` has done it
            # Notifications are not used: without them there is one connection less, and DBOS ends without delay.
            use_listen_notify=False,
            notification_listener_polling_interval_sec=0.25,
            log_level="WARNING",
        )
        self._dbos = DBOS(config=config)
        try:
            for kind in self._kinds:
                self._register(kind)
            DBOS.listen_queues([kind.name for kind in self._kinds])  # other queues belong to a newer version
            DBOS.launch()
        except BaseException:
            DBOS.destroy(destroy_registry=True)
            raise

    def _register(self, kind: JobKind) -> None:
        # DBOS stores the limit with the queue, where the worker that starts last sets it for all workers.
        slots = asyncio.Semaphore(self._concurrency)

        async def run_job(key: str) -> None:
            if self._is_stopping:
                raise asyncio.CancelledError
            task = asyncio.current_task()
            assert task is not None
            self._running[task] = str(DBOS.workflow_id)  # until DBOS has recorded how the job ended
            task.add_done_callback(self._remove_task)
            if kind.is_interruptible:
                self._interruptible.add(task)
                task.add_done_callback(self._interruptible.discard)
            try:
                async with slots, asyncio.timeout(kind.timeout):
                    await kind.run(key)
            except Exception as error:
                reason = _describe_error(error)
                _log.warning("%s %s failed: %s", kind.name, key, reason)
                # URLs must not get into the database or, with the traceback, into DBOS's log.
                raise JobFailed(mask_urls(reason)) from None

        register = DBOS.workflow(
            name=kind.name,
            max_recovery_attempts=_MAX_ATTEMPTS,
            serialization_type=WorkflowSerializationFormat.PORTABLE,
        )
        register(run_job)

    def _remove_task(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)

    async def _send_heartbeats(self) -> None:
        while True:
            try:
                await self._run_in_thread(self._send_heartbeat)
            except Exception as error:  # continue after any error: a worker without a heartbeat loses its jobs
                _log.warning("heartbeat failed: %s", _describe_error(error))
            await asyncio.sleep(self._times.heartbeat)

    def _send_heartbeat(self) -> None:
        with self._heartbeat_lock:
            if self._has_ended:
                return
            if self._heartbeat is not None:
                self._heartbeat.beat()
                if silent := self._heartbeat.find_silent(self._times.silent):
                    if requeued := self._jobs.requeue(silent):
                        _log.warning("requeued %d jobs of workers without a heartbeat", requeued)
                    self._heartbeat.remove_old()
            self._requeue_lost_jobs()
            if not self._is_stopping:
                now = self._read_schedule_time()
                for schedule in self._schedules:
                    schedule.enqueue(self._jobs, now)

    def _read_schedule_time(self) -> float:
        """Return a time that never goes back: the periods that a clock repeats have had their jobs."""
        now = time.monotonic()
        self._schedule_time = max(self._clock(), self._schedule_time + now - self._schedule_time_read_at)
        self._schedule_time_read_at = now
        return self._schedule_time

    def _requeue_lost_jobs(self) -> None:
        """Requeue jobs that this worker runs according to the database, but does not run.

        The connection failed between taking and starting them, or before DBOS could record their end, which it does
        not retry after some errors. No other worker requeues them, because this one has a heartbeat.
        """
        taken = self._jobs.list_running(self.executor_id)
        running = self._running.copy()  # one atomic step: the event loop changes the original
        lost = set(taken).difference(running.values())
        now = time.monotonic()
        self._lost_since = {job: self._lost_since.get(job, now) for job in lost}
        overdue = {job for job, since in self._lost_since.items() if now - since >= self._times.silent}
        if overdue and (requeued := self._jobs.requeue([self.executor_id], only=overdue)):
            _log.warning("requeued %d jobs that were lost by this worker", requeued)

    def _requeue_own_jobs(self) -> int:
        with self._heartbeat_lock:  # a heartbeat after this point would announce a worker that has ended
            self._has_ended = True
            requeued = self._jobs.requeue([self.executor_id])
            if self._heartbeat is not None:
                self._heartbeat.remove()
            return requeued

    def _take_lock(self) -> None:
        if self._jobs.file is None:
            return
        lock = os.open(f"{self._jobs.file}-lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise WorkerAlreadyRunning(
                f"{mask_credentials(self._jobs.database.url)}: another process runs the jobs of this file."
                " To run several workers, use PostgreSQL."
            ) from None
        self._lock = lock

    def _run_in_thread(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)


def _describe_error(error: Exception) -> str:
    """Return one line for an expected error, the traceback for any other."""
    if isinstance(error, TimeoutError):
        return mask_credentials(str(error)) or "timed out"
    if isinstance(error, CanonryError):
        return mask_credentials(str(error))
    return mask_credentials("".join(traceback.format_exception(error)).rstrip())
