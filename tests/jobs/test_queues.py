"""Queues and schedules: each job is queued once, and jobs of dead workers are requeued."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import insert, select, text

from canonry.errors import StoreError, WorkerAlreadyRunning
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedStatus
from canonry.feeds.polling import Polling
from canonry.jobs.heartbeat import Heartbeat
from canonry.jobs.kinds import (
    DELETE_ENDED_JOBS_JOB,
    DELETE_EXPIRED_CACHE_JOB,
    ENQUEUE_DUE_FEEDS_JOB,
    make_feed_kinds,
    make_feed_schedules,
)
from canonry.jobs.queues import POLL_JOB, REKEY_JOB, JobKind, Jobs
from canonry.jobs.schedules import Schedule
from canonry.jobs.worker import Worker, WorkerTimes
from canonry.store.database import Database
from canonry.store.pinned_policies import ENTRY, find_pinned
from canonry.store.schema import cache
from jobs.statuses import count_by_status

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from canonry.net.response import Response

NOW = datetime(2026, 11, 1, tzinfo=UTC)
QUICK = WorkerTimes(heartbeat=0.1, silent=5.0, poll=0.02, drain=5.0)


@pytest.fixture
def jobs(database_url: str) -> Generator[Jobs]:
    with Database(database_url) as database, Jobs(database) as opened:
        yield opened


async def fail_to_fetch(url: str, **_: object) -> Response:
    raise OSError(f"no server at {url}")


async def wait_for_counts(jobs: Jobs, kind: str, wanted: dict[str, int]) -> None:
    async with asyncio.timeout(120):
        while await count_by_status(jobs, kind) != wanted:
            await asyncio.sleep(0.05)


def test_unixepoch_with_fractions_works_on_every_sqlite(tmp_path: Path) -> None:
    """DBOS calls it on Python 3.12 and newer; SQLite has it since 3.42."""
    with Database(f"sqlite:///{tmp_path / 'x.db'}") as database, Jobs(database) as jobs:
        with jobs.engine.connect() as connection:
            seconds = connection.execute(text("SELECT unixepoch('subsec')")).scalar_one()
        assert abs(seconds - time.time()) < 60


def test_a_feed_is_queued_once_until_it_was_polled(jobs: Jobs) -> None:
    polled: list[str] = []

    async def poll(key: str) -> None:
        polled.append(key)

    async def story() -> None:
        assert await jobs.enqueue_poll(1, "a.example")
        assert not await jobs.enqueue_poll(1, "a.example")
        assert not await jobs.enqueue_poll(1, "moved.example"), "the host does not matter"
        assert await jobs.enqueue_polls([(1, "a.example"), (2, "b.example"), (3, "")]) == 2
        async with Worker(jobs, [JobKind(POLL_JOB, poll, is_per_host=True)], times=QUICK):
            await wait_for_counts(jobs, POLL_JOB, {"SUCCESS": 3})
        assert sorted(polled) == ["1", "2", "3"]
        assert await jobs.enqueue_poll(1, "a.example"), "it can be queued again after the poll"

    asyncio.run(story())


def test_a_failed_job_frees_its_feed_and_its_host(jobs: Jobs, caplog: pytest.LogCaptureFixture) -> None:
    async def poll(key: str) -> None:
        if key == "1":
            raise StoreError("http://user:secret@a.example/ is broken")
        await asyncio.sleep(60 if key == "2" else 0)

    async def story() -> None:
        await jobs.enqueue_polls([(number, "a.example") for number in (1, 2, 3)])
        async with Worker(jobs, [JobKind(POLL_JOB, poll, timeout=0.2, is_per_host=True)], times=QUICK):
            await wait_for_counts(jobs, POLL_JOB, {"ERROR": 2, "SUCCESS": 1})
        assert await jobs.enqueue_polls([(number, "a.example") for number in (1, 2, 3)]) == 3

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    first, second = sorted(caplog.messages)
    assert "http://***@a.example/" in first + second and "secret" not in first + second


def test_a_worker_takes_only_kinds_it_knows(jobs: Jobs) -> None:
    """A job of a newer version waits for a worker that knows its kind."""

    async def nothing(_: str) -> None: ...

    async def story() -> None:
        await jobs.enqueue("of-a-newer-version", "1")
        await jobs.enqueue("known", "1")
        async with Worker(jobs, [JobKind("known", nothing)], times=QUICK):
            await wait_for_counts(jobs, "known", {"SUCCESS": 1})
        assert await count_by_status(jobs, "of-a-newer-version") == {"ENQUEUED": 1}
        async with Worker(jobs, [JobKind("of-a-newer-version", nothing)], times=QUICK):
            await wait_for_counts(jobs, "of-a-newer-version", {"SUCCESS": 1})

    asyncio.run(story())


def test_jobs_run_on_the_loop_and_thread_of_the_worker(jobs: Jobs) -> None:
    seen: list[tuple[object, object]] = []

    async def look(_: str) -> None:
        seen.append((asyncio.get_running_loop(), threading.current_thread()))

    async def story() -> None:
        await jobs.enqueue("look")
        async with Worker(jobs, [JobKind("look", look)], times=QUICK):
            await wait_for_counts(jobs, "look", {"SUCCESS": 1})
        assert seen == [(asyncio.get_running_loop(), threading.current_thread())]

    asyncio.run(story())


def test_a_worker_keeps_its_own_limit_when_another_one_sets_a_larger_one(jobs: Jobs) -> None:
    at_once: list[int] = []
    running = 0
    is_busy = asyncio.Event()  # two jobs run at once

    async def work(_: str) -> None:
        nonlocal running
        running += 1
        at_once.append(running)
        if running == 2:
            is_busy.set()
        await is_busy.wait()
        await asyncio.sleep(0.02)  # time for a job too many
        running -= 1

    async def story() -> None:
        kinds = [JobKind("work", work)]
        async with Worker(jobs, kinds, times=QUICK, concurrency=2):
            jobs.register_queues(kinds, interval=0.02, concurrency=50)  # as a worker does that starts later
            for number in range(10):
                await jobs.enqueue("work", str(number))
            await wait_for_counts(jobs, "work", {"SUCCESS": 10})

    asyncio.run(story())
    assert max(at_once) == 2


def test_a_process_has_at_most_one_worker(jobs: Jobs) -> None:
    async def story() -> None:
        async with Worker(jobs, [], times=QUICK):
            with pytest.raises(WorkerAlreadyRunning):
                async with Worker(jobs, [], times=QUICK):
                    pass

    asyncio.run(story())


def test_a_schedule_is_queued_once_in_a_period(jobs: Jobs) -> None:
    schedule = Schedule("tick", 30.0)
    assert schedule.enqueue(jobs, 3000.0)
    assert not schedule.enqueue(jobs, 3029.9)
    assert not schedule.enqueue(jobs, 3030.0), "the job of the last period still waits"

    async def nothing(_: str) -> None: ...

    async def story() -> None:
        async with Worker(jobs, [JobKind("tick", nothing)], times=QUICK):
            await wait_for_counts(jobs, "tick", {"SUCCESS": 1})

    asyncio.run(story())
    assert not schedule.enqueue(jobs, 3029.9), "the period has had its job"
    assert schedule.enqueue(jobs, 3030.0)


def test_schedules_go_on_after_the_clock_is_set_back(jobs: Jobs) -> None:
    """The periods that come again have had their jobs. Else nothing would be polled for as long as the clock jumped."""
    times, schedule = {"now": 7200.0}, Schedule("tick", 0.5)
    assert schedule.enqueue(jobs, 3600.0)

    async def nothing(_: str) -> None: ...

    async def story() -> None:
        kinds = [JobKind("tick", nothing)]
        async with Worker(jobs, kinds, schedules=[schedule], times=QUICK, clock=lambda: times["now"]):
            for runs in (2, 4):
                async with asyncio.timeout(120):
                    while (await count_by_status(jobs, "tick"))["SUCCESS"] < runs:
                        await asyncio.sleep(0.05)
                times["now"] = 3600.0

    asyncio.run(story())


@pytest.mark.parametrize("every", [0.0, -1.0, 86401.0])
def test_a_period_must_be_shorter_than_the_retention_of_ended_jobs(every: float) -> None:
    with pytest.raises(ValueError, match="tick"):
        Schedule("tick", every)


def test_due_feeds_are_polled(jobs: Jobs) -> None:
    store = FeedStore(jobs.database)
    polling = Polling(fail_to_fetch, clock=lambda: NOW)

    async def story() -> None:
        feeds = [(await store.add(f"https://{name}.example/feed", NOW))[0] for name in ("a", "b", "gone", "stopped")]
        await store.set_status(feeds[3].id, FeedStatus.STOPPED)
        kinds = make_feed_kinds(jobs, polling)
        due = next(kind for kind in kinds if kind.name == ENQUEUE_DUE_FEEDS_JOB)
        await due.run("")
        await due.run("")
        assert await count_by_status(jobs, POLL_JOB) == {"ENQUEUED": 3}
        await store.remove(feeds[2].id, NOW)
        # Without schedules: the scheduled job may read a feed as due just before its poll ends, and queue it again.
        async with Worker(jobs, kinds, times=QUICK):
            await wait_for_counts(jobs, POLL_JOB, {"SUCCESS": 3})
        async with Worker(jobs, kinds, schedules=make_feed_schedules(), times=QUICK, clock=NOW.timestamp):
            for name in (ENQUEUE_DUE_FEEDS_JOB, DELETE_ENDED_JOBS_JOB, DELETE_EXPIRED_CACHE_JOB):
                await wait_for_counts(jobs, name, {"SUCCESS": 1})
        failures = [feed.failure for feed in await store.list_all()]
        assert failures == [*(f"OSError: no server at https://{name}.example/feed" for name in "ab"), ""]
        await due.run("")
        assert await count_by_status(jobs, POLL_JOB) == {"SUCCESS": 3}, "feeds that were just polled are not due"

    asyncio.run(story())


def test_the_retention_job_deletes_expired_cache_entries(jobs: Jobs) -> None:
    rows = [
        {"name": "old", "value": b"", "expires_at": "2026-10-31T23:59:59.000000Z"},
        {"name": "new", "value": b"", "expires_at": "2026-11-01T00:00:01.000000Z"},
    ]
    jobs.database.write_now(lambda connection: connection.execute(insert(cache), rows))
    kinds = make_feed_kinds(jobs, Polling(fail_to_fetch, clock=lambda: NOW))
    asyncio.run(_run(kinds, DELETE_EXPIRED_CACHE_JOB))
    assert jobs.database.read_now(lambda connection: connection.execute(select(cache.c.name)).scalars().all()) == [
        "new"
    ]


def test_a_rekey_runs_as_a_job(jobs: Jobs) -> None:
    async def story() -> None:
        assert await jobs.enqueue_rekey("entry@2", "entry@1")
        assert not await jobs.enqueue_rekey("entry@2", "entry@1")
        async with Worker(jobs, make_feed_kinds(jobs, Polling(fail_to_fetch)), times=QUICK):
            await wait_for_counts(jobs, REKEY_JOB, {"SUCCESS": 1})

    asyncio.run(story())
    assert jobs.database.read_now(lambda connection: find_pinned(connection, ENTRY)) == "entry@1"


async def _run(kinds: list[JobKind], name: str) -> None:
    await next(kind for kind in kinds if kind.name == name).run("")


def test_jobs_of_a_worker_that_died_days_ago_are_requeued(postgres_database: str) -> None:
    """Its heartbeat row is deleted only after its jobs were requeued."""
    died = [
        "UPDATE canonry_jobs.workflow_status SET status = 'PENDING', executor_id = 'dead'",
        "CREATE TABLE canonry_jobs.workers (executor_id text PRIMARY KEY, seen_at timestamptz NOT NULL)",
        "INSERT INTO canonry_jobs.workers VALUES ('dead', now() - interval '2 days')",
    ]

    async def nothing(_: str) -> None: ...

    async def story(jobs: Jobs) -> None:
        await jobs.enqueue("work")
        for statement in died:
            await jobs.database.write(lambda connection, sql=statement: connection.execute(text(sql)))  # type: ignore[misc]
        async with Worker(jobs, [JobKind("work", nothing)], times=QUICK):
            await wait_for_counts(jobs, "work", {"SUCCESS": 1})

    with Database(postgres_database) as database, Jobs(database) as jobs:
        asyncio.run(story(jobs))
        left = database.read_now(
            lambda connection: connection.execute(text("SELECT * FROM canonry_jobs.workers")).all()
        )
        assert left == []


def test_a_heartbeat_after_the_end_of_a_worker_is_not_recorded(postgres_database: str) -> None:
    async def story(jobs: Jobs) -> None:
        async with Worker(jobs, [], times=QUICK) as worker:
            pass
        worker._send_heartbeat()

    with Database(postgres_database) as database, Jobs(database) as jobs:
        asyncio.run(story(jobs))
        assert Heartbeat(database, "another").find_silent(0) == []


def test_ended_jobs_are_deleted_after_a_while(jobs: Jobs) -> None:
    async def nothing(_: str) -> None: ...

    async def story() -> None:
        for number in range(5):
            await jobs.enqueue("work", str(number))
        async with Worker(jobs, [JobKind("work", nothing)], times=QUICK):
            await wait_for_counts(jobs, "work", {"SUCCESS": 5})
        await jobs.enqueue("work", "waits")

    asyncio.run(story())
    assert jobs.delete_ended(datetime.now(UTC) - timedelta(hours=1)) == 0
    assert jobs.delete_ended(datetime.now(UTC) + timedelta(hours=1), "other") == 0
    assert jobs.delete_ended(datetime.now(UTC) + timedelta(hours=1)) == 5
    assert asyncio.run(count_by_status(jobs)) == {"ENQUEUED": 1}


def test_jobs_need_a_file_or_a_server() -> None:
    with Database("sqlite://") as database, pytest.raises(StoreError, match="sqlite://"):
        Jobs(database)


def test_links_to_one_store_share_one_jobs_file(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    (tmp_path / "link.db").symlink_to(tmp_path / "store.db")
    with Database(f"sqlite:///{tmp_path}/link.db") as database, Jobs(database) as jobs:
        assert jobs.file == tmp_path / "store.db.jobs"
