"""A worker: runs the jobs of a database while it is open, and takes those of workers that fell silent (contract S2)."""

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

from canonry.errors import CanonryError, StoreError, mask_credentials
from canonry.jobs.heartbeat import Heartbeat
from canonry.jobs.queues import APPLICATION, APPLICATION_VERSION, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from canonry.jobs.queues import Jobs, Kind
    from canonry.jobs.schedules import Schedule

_log = logging.getLogger("canonry.jobs")

_ATTEMPTS = 10  # a job that has taken so many workers down with it is given up
_CANCELLING = 5.0  # seconds that a cancelled job has to end
_ONLY = threading.Lock()  # DBOS is one for a process


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds. A dead worker's jobs are free after `silent` and at most one `beat`, which is less than a minute."""

    beat: float = 5.0  # how often a worker says that it lives, looks for silent ones and for schedules
    silent: float = 50.0
    look: float = 0.5  # how often it looks for jobs; looking is what a worker without any spends its time on
    drain: float = 30.0  # how long running jobs may go on when it is asked to stop


class JobsTaken(StoreError):
    """Another worker runs the jobs: those of this file, or in this process."""


class JobFailed(CanonryError):
    """Why a job failed, as it is kept with it."""


class Worker:
    """Runs jobs between `async with` and its end, on the event loop it was opened on; one in a process."""

    def __init__(
        self,
        jobs: Jobs,
        kinds: Sequence[Kind],
        *,
        schedules: Sequence[Schedule] = (),
        concurrency: int = 32,
        times: Times | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.executor_id = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._jobs = jobs
        self._kinds = kinds
        self._schedules = schedules
        self._concurrency = concurrency
        self._times = times or Times()
        self._clock = clock
        # Not asyncio's own threads, which DBOS may fill: a worker must not fall silent for want of one.
        self._threads = ThreadPoolExecutor(2, "jobs")
        self._running: dict[asyncio.Task[Any], str] = {}
        self._cuttable: set[asyncio.Task[Any]] = set()
        self._lost: dict[str, float] = {}
        self._beats = threading.Lock()
        self._has_left = False
        self._is_stopping = False
        self._dbos: DBOS | None = None
        self._lock: int | None = None
        self._heartbeat: Heartbeat | None = None
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if not _ONLY.acquire(blocking=False):
            raise JobsTaken("this process has a worker already")
        try:
            await self._in_thread(self._prepare)
            with self._jobs.as_store_error():
                self._launch()
        except BaseException:
            self._end()
            raise
        self._beating = asyncio.create_task(self._beat_on())
        _log.info("worker %s takes jobs", self.executor_id)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Take no more jobs, let the running ones end for a while, give the rest back."""
        self._is_stopping = True
        _log.info("worker %s stops, %d jobs run", self.executor_id, len(self._running))
        try:
            await self._drain()
            await self._in_thread(lambda: DBOS.destroy(destroy_registry=True))
            if self._beating is not None:
                self._beating.cancel()
            if released := await self._in_thread(self._leave):
                _log.info("%d jobs were given back", released)
        except StoreError as error:
            _log.warning("what still ran is not given back, others take it in a minute: %s", error)
        finally:
            self._end()

    async def _drain(self) -> None:
        assert self._dbos is not None
        for event in self._dbos.background_thread_stop_events:
            event.set()  # its queues look for no more jobs; those on their way see that we stop
        for task in self._cuttable:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=self._times.drain)
        for task in self._running:
            task.cancel()  # DBOS writes nothing down for it: for the database the job still runs
        if self._running:
            await asyncio.wait(self._running, timeout=_CANCELLING)

    def _end(self) -> None:
        self._threads.shutdown(wait=False)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        _ONLY.release()

    def _prepare(self) -> None:
        self._take_lock()
        if self._jobs.file is None:
            self._heartbeat = Heartbeat(self._jobs.database, self.executor_id)
            self._heartbeat.beat()
        elif taken := self._jobs.release():  # the lock says that whoever ran them is gone
            _log.warning("%d jobs of a worker that is gone run again", taken)
        self._jobs.register_queues(self._kinds, interval=self._times.look, concurrency=self._concurrency)

    def _launch(self) -> None:
        """On the loop's own thread: DBOS then runs the jobs on this loop."""
        config = DBOSConfig(
            name=APPLICATION,
            application_version=APPLICATION_VERSION,
            executor_id=self.executor_id,
            system_database_engine=self._jobs.engine,
            dbos_system_schema=SCHEMA,
            run_migrations=False,  # done, and with a lock
            # Nobody listens: no connection for it, and little delay of the end.
            use_listen_notify=False,
            notification_listener_polling_interval_sec=0.25,
            log_level="WARNING",
        )
        self._dbos = dbos = DBOS(config=config)
        try:
            for kind in self._kinds:
                self._register(kind)
            DBOS.listen_queues([kind.name for kind in self._kinds])  # others belong to a newer version
            DBOS.launch()
        except BaseException:
            DBOS.destroy(destroy_registry=True)
            raise
        _limit_here(dbos, self._concurrency)

    def _register(self, kind: Kind) -> None:
        async def job(key: str) -> None:
            if self._is_stopping:
                raise asyncio.CancelledError
            task = asyncio.current_task()
            assert task is not None
            self._running[task] = str(DBOS.workflow_id)  # until DBOS has written down how it ended
            task.add_done_callback(self._forget)
            if kind.can_be_cut:
                self._cuttable.add(task)
                task.add_done_callback(self._cuttable.discard)
            try:
                async with asyncio.timeout(kind.seconds):
                    await kind.run(key)
            except Exception as error:
                _log.warning("%s %s failed: %s", kind.name, key, _why(error))
                # Passwords of URLs must not get into the database or, with its traceback, into DBOS's log.
                raise JobFailed(_why(error)) from None

        register = DBOS.workflow(
            name=kind.name,
            max_recovery_attempts=_ATTEMPTS,
            serialization_type=WorkflowSerializationFormat.PORTABLE,
        )
        register(job)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)

    async def _beat_on(self) -> None:
        while True:
            try:
                await self._in_thread(self._beat)
            except Exception as error:  # whatever it is: a worker that stops beating loses its jobs
                _log.warning("no sign of life: %s", _why(error))
            await asyncio.sleep(self._times.beat)

    def _beat(self) -> None:
        with self._beats:
            if self._has_left:
                return
            if self._heartbeat is not None:
                self._heartbeat.beat()
                if silent := self._heartbeat.silent(self._times.silent):
                    if taken := self._jobs.release(silent):
                        _log.warning("%d jobs of silent workers run again", taken)
                    self._heartbeat.forget_old()
            self._give_back_lost()
            if not self._is_stopping:
                for schedule in self._schedules:
                    schedule.enqueue(self._jobs, self._clock())

    def _give_back_lost(self) -> None:
        """Queue jobs again that the database believes to run here and that do not.

        It went away between their being taken and their start, or before DBOS could write down how they ended,
        which it gives up at some errors of a connection. Nobody else would: this worker is not silent.
        """
        taken = self._jobs.running_of(self.executor_id)
        running = self._running.copy()  # at once: the loop changes it
        lost = set(taken).difference(running.values())
        now = time.monotonic()
        self._lost = {job: self._lost.get(job, now) for job in lost}
        overdue = {job for job, since in self._lost.items() if now - since >= self._times.silent}
        if overdue and (given := self._jobs.release([self.executor_id], only=overdue)):
            _log.warning("%d jobs that were lost here run again", given)

    def _leave(self) -> int:
        with self._beats:  # one under way would tell of a worker that is gone, on a connection nobody closes
            self._has_left = True
            released = self._jobs.release([self.executor_id])
            if self._heartbeat is not None:
                self._heartbeat.leave()
            return released

    def _take_lock(self) -> None:
        if self._jobs.file is None:
            return
        lock = os.open(f"{self._jobs.file}-lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            told = f"{mask_credentials(self._jobs.database.url)}: another process runs the jobs of this file"
            raise JobsTaken(f"{told}; several workers need PostgreSQL") from None
        self._lock = lock

    def _in_thread(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)


def _limit_here(dbos: DBOS, concurrency: int) -> None:
    """DBOS keeps this limit with the queue, where the worker that starts last sets it for all; keep our own here."""
    system = dbos._sys_db  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    stored = system.get_queue

    def get_queue(name: str, **options: Any) -> Any:
        queue = stored(name, **options)
        if queue is not None:
            queue._worker_concurrency = concurrency  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return queue

    system.get_queue = get_queue  # type: ignore[method-assign]


def _why(error: Exception) -> str:
    """One line for an error that was foreseen, the traceback for another."""
    if isinstance(error, CanonryError | TimeoutError):
        return mask_credentials(str(error)) or "it took too long"
    return mask_credentials("".join(traceback.format_exception(error)).rstrip())
