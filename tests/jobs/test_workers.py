"""Workers that are killed, frozen, upgraded and stopped: every job has its effect exactly once (contract S2, I8)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from canonry.jobs.queues import POLL_JOB, Jobs
from canonry.store.database import Database
from jobs.running import PROCESS
from jobs.statuses import count_by_status

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jobs.running import Run, Workers

SILENT = 10.0  # a busy machine delays the heartbeats of a living worker


@contextmanager
def open_jobs(url: str) -> Iterator[Jobs]:
    with Database(url) as database, Jobs(database) as jobs:
        yield jobs


def enqueue(url: str, count: int, *, hosts: int) -> None:
    with open_jobs(url) as jobs:
        assert asyncio.run(jobs.enqueue_polls((number, f"host-{number % hosts}") for number in range(count))) == count


def count_jobs(url: str, kind: str = POLL_JOB) -> Counter[str]:
    with open_jobs(url) as jobs:
        return asyncio.run(count_by_status(jobs, kind))


def group_by_host(hosts: int) -> Callable[[Run], object]:
    return lambda run: int(run.key) % hosts


def check_reruns(running: Workers) -> None:
    """A job runs again only if the worker that had it was killed."""
    runs: dict[str, list[Run]] = {}
    for run in running.runs():
        runs.setdefault(run.key, []).append(run)
    for again in runs.values():
        for earlier in again[:-1]:
            assert earlier.pid in running.killed_at, again


@pytest.mark.slow
def test_a_job_that_a_living_worker_lost_runs_again(database_url: str, workers: Callable[[str], Workers]) -> None:
    """The connection failed when the job was taken, or when its end was recorded."""
    enqueue(database_url, 3, hosts=3)
    running = workers(database_url)
    with open_jobs(database_url) as jobs:
        worker = running.start(silent=8.0, seconds=0.0)
        running.wait_for_all(range(3))
        [executor] = [key for event, key, _, _ in running.events() if event == "open"]
        running.wait_for(lambda: asyncio.run(count_by_status(jobs, POLL_JOB)) == {"SUCCESS": 3})
        table = "workflow_status" if jobs.file else "canonry_jobs.workflow_status"
        with jobs.engine.begin() as connection:
            taken = f"UPDATE {table} SET status = 'PENDING' WHERE queue_name = 'poll' AND executor_id = :executor"
            assert connection.execute(text(taken), {"executor": executor}).rowcount == 3
        running.wait_for(lambda: len(running.runs()) == 6)
        running.wait_for(lambda: asyncio.run(count_by_status(jobs, POLL_JOB)) == {"SUCCESS": 3})
    assert running.stop(worker) == 0


def test_a_job_longer_than_the_silence_limit_is_not_lost(database_url: str, workers: Callable[[str], Workers]) -> None:
    enqueue(database_url, 1, hosts=1)
    running = workers(database_url)
    worker = running.start(silent=0.5, seconds=3.0)
    running.wait_for_all(range(1))
    assert running.stop(worker) == 0
    assert len(running.runs()) == 1


@pytest.mark.slow
def test_another_worker_takes_over_the_jobs_of_a_dead_one(
    postgres_database: str, workers: Callable[[str], Workers]
) -> None:
    enqueue(postgres_database, 200, hosts=20)
    running = workers(postgres_database)
    first, _ = [running.start(wait=False, seconds=0.3, concurrency=12, silent=SILENT) for _ in range(2)]
    running.wait_for_a_job_of(first)
    running.wait_for(lambda: any(run.pid == first.pid and run.end is None for run in running.runs()))
    running.kill(first)
    running.wait_for_all(range(200))
    unfinished = {run.key for run in running.runs() if run.pid == first.pid and run.end is None}
    assert unfinished, "the worker was killed in the middle of a job"
    retaken = [run.start for run in running.runs() if run.key in unfinished and run.pid != first.pid]
    assert max(retaken) - running.killed_at[first.pid] < SILENT + 60.0
    assert running.most_at_once(group_by_host(20)) == 1
    check_reruns(running)


@pytest.mark.slow
def test_workers_killed_ten_times_on_postgresql_run_every_job_once(
    postgres_database: str, workers: Callable[[str], Workers]
) -> None:
    enqueue(postgres_database, 400, hosts=20)
    running = workers(postgres_database)
    alive = [running.start(wait=False, seconds=0.1, silent=SILENT) for _ in range(3)]
    running.wait_for(lambda: bool(running.runs()))
    for _ in range(10):
        time.sleep(random.uniform(0.0, 0.8))
        running.kill(alive.pop(0))
        alive.append(running.start(wait=False, seconds=0.1, silent=SILENT))
    running.wait_for_all(range(400))
    assert running.most_at_once(group_by_host(20)) == 1
    check_reruns(running)
    running.wait_for(lambda: count_jobs(postgres_database) == {"SUCCESS": 400})


@pytest.mark.slow
def test_a_worker_killed_ten_times_on_sqlite_runs_every_job_once(
    sqlite_url: str, workers: Callable[[str], Workers]
) -> None:
    enqueue(sqlite_url, 300, hosts=20)
    running = workers(sqlite_url)
    for attempt in range(10):
        worker = running.start(wait=False, seconds=0.1)
        if attempt % 2:
            running.wait_for_a_job_of(worker)
            time.sleep(random.uniform(0.0, 0.5))
        else:
            time.sleep(random.uniform(0.3, 1.5))
        running.kill(worker)
    assert any(run.end is None for run in running.runs()), "a worker was killed in the middle of a job"
    worker = running.start(seconds=0.1)
    second = running.start(wait=False)
    assert second.wait(120) == 1, running.read_logs()
    running.wait_for_all(range(300))
    assert not [run for run in running.runs() if run.pid == second.pid]
    assert running.most_at_once(group_by_host(20)) == 1
    check_reruns(running)
    assert running.stop(worker) == 0
    assert count_jobs(sqlite_url) == {"SUCCESS": 300}


@pytest.mark.slow
def test_a_process_killed_while_it_creates_its_tables_does_no_harm(
    tmp_path: Path, workers: Callable[[str], Workers]
) -> None:
    for attempt in range(6):
        url = f"sqlite:///{tmp_path}/{attempt}.db"
        running = workers(url)
        starting = running.start(wait=False)
        running.wait_for((tmp_path / f"{attempt}.db").exists)
        time.sleep(random.uniform(0.0, 0.15))
        running.kill(starting)
        enqueue(url, 1, hosts=1)
        assert count_jobs(url) == {"ENQUEUED": 1}


@pytest.mark.slow
def test_jobs_that_wait_during_an_upgrade_are_run_by_the_new_version(
    database_url: str, tmp_path: Path, workers: Callable[[str], Workers]
) -> None:
    enqueue(database_url, 24, hosts=12)
    running = workers(database_url)
    old = running.start(seconds=60.0)
    running.wait_for(lambda: len(running.runs()) == 8)
    running.kill(old)
    source = PROCESS.read_text()
    changed = source.replace(
        "async def job(key: str) -> None:", "async def job(key: str) -> None:\n        key = key + ''"
    )
    changed = changed.replace("import asyncio\n", "import asyncio\nimport canonry\ncanonry.__version__ = '99.0'\n", 1)
    assert changed.count("99.0") == 1 and "key + ''" in changed
    new = tmp_path / "process.py"
    new.write_text(changed)
    # A new Python process: a forked one has already imported the old version.
    arguments = [str(new), database_url, str(running.folder), json.dumps({"silent": SILENT})]
    with subprocess.Popen([sys.executable, *arguments], stderr=subprocess.DEVNULL) as upgraded:
        try:
            running.wait_for_all(range(24))
        finally:
            upgraded.kill()
    check_reruns(running)


@pytest.mark.slow
def test_three_workers_run_a_schedule_once_in_a_period(
    postgres_database: str, workers: Callable[[str], Workers]
) -> None:
    running = workers(postgres_database)
    began = time.time()
    started = [running.start(every=0.5, seconds=0.01) for _ in range(3)]
    running.wait_for(lambda: len(running.runs()) >= 8)
    latest = running.runs()[-1].pid
    assert running.stop(next(process for process in started if process.pid == latest)) == 0
    running.wait_for(lambda: running.runs()[-1].pid != latest)
    assert [running.stop(process) for process in started if process.pid != latest] == [0, 0]
    periods = (time.time() - began) / 0.5 + 1
    assert 8 < len(running.runs()) <= periods
    done = count_jobs(postgres_database, "tick")
    assert done["SUCCESS"] == len(running.runs())


@pytest.mark.slow
def test_a_stopping_worker_lets_jobs_end(database_url: str, workers: Callable[[str], Workers]) -> None:
    enqueue(database_url, 40, hosts=40)
    running = workers(database_url)
    worker = running.start(seconds=2.0, drain=120.0)
    running.wait_for(lambda: len(running.runs()) >= 8)
    assert running.stop(worker) == 0
    assert all(run.end for run in running.runs())
    found = count_jobs(database_url)
    assert found == {"SUCCESS": len(running.runs()), "ENQUEUED": 40 - len(running.runs())}
    assert running.most_at_once(lambda run: run.pid) == 8


@pytest.mark.slow
def test_a_stopping_worker_requeues_long_jobs(database_url: str, workers: Callable[[str], Workers]) -> None:
    enqueue(database_url, 4, hosts=4)
    running = workers(database_url)
    worker = running.start(seconds=600.0, drain=0.5)
    running.wait_for(lambda: len(running.runs()) == 4)
    began = time.monotonic()
    assert running.stop(worker) == 0
    assert time.monotonic() - began < 300, "it did not wait for the jobs, which take 600 seconds"
    assert count_jobs(database_url) == {"ENQUEUED": 4}
    running.start(silent=60.0)
    running.wait_for_all(range(4))


@pytest.mark.slow
def test_a_frozen_worker_loses_its_jobs_and_does_no_harm_when_it_wakes(
    postgres_database: str, workers: Callable[[str], Workers]
) -> None:
    enqueue(postgres_database, 8, hosts=8)
    running = workers(postgres_database)
    frozen = running.start(seconds=4.0)
    running.wait_for(lambda: len(running.runs()) == 8)
    os.kill(frozen.pid, signal.SIGSTOP)
    running.start(seconds=0.05, silent=SILENT)
    running.wait_for_all(range(8))
    os.kill(frozen.pid, signal.SIGCONT)
    running.wait_for(lambda: sum(run.end is not None for run in running.runs()) == 16)
    with open_jobs(postgres_database) as jobs:
        assert asyncio.run(jobs.enqueue_polls((number, f"host-{number % 8}") for number in range(100, 108))) == 8
    running.wait_for_all(range(100, 108))
    assert running.stop(frozen) == 0
    assert count_jobs(postgres_database) == {"SUCCESS": 16}
