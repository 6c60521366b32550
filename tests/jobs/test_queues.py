"""Queues and schedules: what is queued, once, and what is given back."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import insert, select, text

from canonry.errors import StoreError
from canonry.feeds.feed_store import STOPPED, FeedStore
from canonry.feeds.polling import Polling
from canonry.jobs.heartbeat import Heartbeat
from canonry.jobs.kinds import DUE, RETENTION, TIDY, feed_kinds, feed_schedules, host_of
from canonry.jobs.queues import POLL, REKEY, Jobs, Kind
from canonry.jobs.schedules import Schedule
from canonry.jobs.worker import Times, Worker
from canonry.store.database import Database
from canonry.store.schema import cache

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from canonry.net.response import Response

NOW = datetime(2026, 11, 1, tzinfo=UTC)
QUICK = Times(beat=0.1, silent=5.0, look=0.02, drain=5.0)


@pytest.fixture
def jobs(database_url: str) -> Generator[Jobs]:
    with Database(database_url) as database, Jobs(database) as opened:
        yield opened


async def unreachable(url: str, **_: object) -> Response:
    raise OSError(f"nobody at {url}")


async def until(jobs: Jobs, kind: str, wanted: dict[str, int]) -> None:
    async with asyncio.timeout(60):
        while await jobs.counts(kind) != wanted:
            await asyncio.sleep(0.05)


def test_any_sqlite_knows_the_time(tmp_path: Path) -> None:
    """DBOS asks for it this way from Python 3.12 on; SQLite itself answers since 3.42."""
    with Database(f"sqlite:///{tmp_path / 'x.db'}") as database, Jobs(database) as jobs:
        with jobs.engine.connect() as connection:
            told = connection.execute(text("SELECT unixepoch('subsec')")).scalar_one()
        assert abs(told - time.time()) < 60


def test_feed_is_queued_once_until_it_is_polled(jobs: Jobs) -> None:
    polled: list[str] = []

    async def poll(key: str) -> None:
        polled.append(key)

    async def story() -> None:
        assert await jobs.enqueue_poll(1, "a.example")
        assert not await jobs.enqueue_poll(1, "a.example")
        assert not await jobs.enqueue_poll(1, "moved.example"), "whatever its host"
        assert await jobs.enqueue_polls([(1, "a.example"), (2, "b.example"), (3, "")]) == 2
        async with Worker(jobs, [Kind(POLL, poll, is_per_host=True)], times=QUICK):
            await until(jobs, POLL, {"SUCCESS": 3})
        assert sorted(polled) == ["1", "2", "3"]
        assert await jobs.enqueue_poll(1, "a.example"), "it may be queued again when it is done"

    asyncio.run(story())


def test_job_that_fails_frees_its_feed_and_its_host(jobs: Jobs, caplog: pytest.LogCaptureFixture) -> None:
    async def poll(key: str) -> None:
        if key == "1":
            raise StoreError("http://user:secret@a.example/ is broken")
        await asyncio.sleep(60 if key == "2" else 0)

    async def story() -> None:
        await jobs.enqueue_polls([(number, "a.example") for number in (1, 2, 3)])
        async with Worker(jobs, [Kind(POLL, poll, seconds=0.2, is_per_host=True)], times=QUICK):
            await until(jobs, POLL, {"ERROR": 2, "SUCCESS": 1})
        assert await jobs.enqueue_polls([(number, "a.example") for number in (1, 2, 3)]) == 3

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert "poll 1 failed: http://***@a.example/ is broken" in caplog.messages
    assert "poll 2 failed: it took too long" in caplog.messages


def test_only_known_kinds_are_taken(jobs: Jobs) -> None:
    """A job of a newer version waits for a worker that knows it."""

    async def nothing(_: str) -> None: ...

    async def story() -> None:
        await jobs.enqueue("of-a-newer-version", "1")
        await jobs.enqueue("known", "1")
        async with Worker(jobs, [Kind("known", nothing)], times=QUICK):
            await until(jobs, "known", {"SUCCESS": 1})
            await asyncio.sleep(0.2)
        assert await jobs.counts("of-a-newer-version") == {"ENQUEUED": 1}
        async with Worker(jobs, [Kind("of-a-newer-version", nothing)], times=QUICK):
            await until(jobs, "of-a-newer-version", {"SUCCESS": 1})

    asyncio.run(story())


def test_jobs_run_on_the_loop_and_thread_of_the_worker(jobs: Jobs) -> None:
    seen: list[tuple[object, object]] = []

    async def look(_: str) -> None:
        seen.append((asyncio.get_running_loop(), threading.current_thread()))

    async def story() -> None:
        await jobs.enqueue("look")
        async with Worker(jobs, [Kind("look", look)], times=QUICK):
            await until(jobs, "look", {"SUCCESS": 1})
        assert seen == [(asyncio.get_running_loop(), threading.current_thread())]

    asyncio.run(story())


def test_one_worker_in_a_process(jobs: Jobs) -> None:
    async def story() -> None:
        async with Worker(jobs, [], times=QUICK):
            with pytest.raises(StoreError, match="has a worker already"):
                async with Worker(jobs, [], times=QUICK):
                    pass

    asyncio.run(story())


def test_schedule_is_queued_once_in_a_period(jobs: Jobs) -> None:
    schedule = Schedule("tick", 30.0)
    assert schedule.enqueue(jobs, 3000.0)
    assert not schedule.enqueue(jobs, 3029.9)
    assert not schedule.enqueue(jobs, 3030.0), "the last one still waits"

    async def nothing(_: str) -> None: ...

    async def story() -> None:
        async with Worker(jobs, [Kind("tick", nothing)], times=QUICK):
            await until(jobs, "tick", {"SUCCESS": 1})

    asyncio.run(story())
    assert not schedule.enqueue(jobs, 3029.9), "it has been"
    assert schedule.enqueue(jobs, 3030.0)


@pytest.mark.parametrize("every", [0.0, -1.0, 86401.0])
def test_period_is_remembered_longer_than_it_lasts(every: float) -> None:
    with pytest.raises(ValueError, match="tick: every"):
        Schedule("tick", every)


def test_due_feeds_are_polled(jobs: Jobs) -> None:
    store = FeedStore(jobs.database)
    polling = Polling(unreachable, clock=lambda: NOW)

    async def story() -> None:
        feeds = [(await store.add(f"https://{name}.example/feed", NOW))[0] for name in ("a", "b", "gone", "stopped")]
        await store.set_status(feeds[3].id, STOPPED)
        kinds = feed_kinds(jobs, polling)
        due = next(kind for kind in kinds if kind.name == DUE)
        await due.run("")
        await due.run("")
        assert await jobs.counts(POLL) == {"ENQUEUED": 3}
        await store.remove(feeds[2].id)
        async with Worker(jobs, kinds, schedules=feed_schedules(), times=QUICK, clock=NOW.timestamp):
            await until(jobs, POLL, {"SUCCESS": 3})
            for name in (DUE, TIDY, RETENTION):
                await until(jobs, name, {"SUCCESS": 1})
        failures = [feed.failure for feed in await store.all()]
        assert failures == [*(f"OSError: nobody at https://{name}.example/feed" for name in "ab"), ""]
        await due.run("")
        assert await jobs.counts(POLL) == {"SUCCESS": 3}, "they are not due any more"

    asyncio.run(story())


def test_retention_forgets_what_has_expired(jobs: Jobs) -> None:
    rows = [
        {"name": "old", "value": b"", "expires_at": "2026-10-31T23:59:59.000000Z"},
        {"name": "new", "value": b"", "expires_at": "2026-11-01T00:00:01.000000Z"},
    ]
    jobs.database.write_now(lambda connection: connection.execute(insert(cache), rows))
    kinds = feed_kinds(jobs, Polling(unreachable, clock=lambda: NOW))
    asyncio.run(_run(kinds, RETENTION))
    assert jobs.database.read_now(lambda connection: connection.execute(select(cache.c.name)).scalars().all()) == [
        "new"
    ]


def test_rekey_is_a_job(jobs: Jobs) -> None:
    async def story() -> None:
        assert await jobs.enqueue_rekey("entry@1", "entry@1")
        assert not await jobs.enqueue_rekey("entry@1", "entry@1")
        async with Worker(jobs, feed_kinds(jobs, Polling(unreachable)), times=QUICK):
            async with asyncio.timeout(20):
                while (await jobs.counts(REKEY)).keys() & {"ENQUEUED", "PENDING"}:
                    await asyncio.sleep(0.05)

    asyncio.run(story())


async def _run(kinds: list[Kind], name: str) -> None:
    await next(kind for kind in kinds if kind.name == name).run("")


def test_jobs_of_a_worker_that_died_days_ago(postgres_database: str) -> None:
    """Nobody was there to take them; its row goes only after they are given back."""
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
        async with Worker(jobs, [Kind("work", nothing)], times=QUICK):
            await until(jobs, "work", {"SUCCESS": 1})

    with Database(postgres_database) as database, Jobs(database) as jobs:
        asyncio.run(story(jobs))
        left = database.read_now(
            lambda connection: connection.execute(text("SELECT * FROM canonry_jobs.workers")).all()
        )
        assert left == []


def test_a_beat_that_comes_after_the_end_tells_nothing(postgres_database: str) -> None:
    async def story(jobs: Jobs) -> None:
        async with Worker(jobs, [], times=QUICK) as worker:
            pass
        worker._beat()

    with Database(postgres_database) as database, Jobs(database) as jobs:
        asyncio.run(story(jobs))
        assert Heartbeat(database, "another").silent(0) == []


def test_ended_jobs_are_tidied_away(jobs: Jobs) -> None:
    async def nothing(_: str) -> None: ...

    async def story() -> None:
        for number in range(5):
            await jobs.enqueue("work", str(number))
        async with Worker(jobs, [Kind("work", nothing)], times=QUICK):
            await until(jobs, "work", {"SUCCESS": 5})
        await jobs.enqueue("work", "waits")

    asyncio.run(story())
    assert jobs.tidy(datetime.now(UTC) - timedelta(hours=1)) == 0
    assert jobs.tidy(datetime.now(UTC) + timedelta(hours=1), "other") == 0
    assert jobs.tidy(datetime.now(UTC) + timedelta(hours=1)) == 5
    assert asyncio.run(jobs.counts()) == {"ENQUEUED": 1}


def test_jobs_need_a_file_or_a_server() -> None:
    with Database("sqlite://") as database, pytest.raises(StoreError, match="need a database file"):
        Jobs(database)


def test_one_runner_whatever_the_file_is_called(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    (tmp_path / "link.db").symlink_to(tmp_path / "store.db")
    with Database(f"sqlite:///{tmp_path}/link.db") as database, Jobs(database) as jobs:
        assert jobs.file == tmp_path / "store.db.jobs"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://a.example/feed", "a.example"),
        ("http://user:secret@A.example:8080/", "a.example"),
        ("not a url", ""),
    ],
)
def test_host_of(url: str, host: str) -> None:
    assert host_of(url) == host
