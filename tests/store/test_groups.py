"""Writes that arrive during a commit share the next transaction, and a failing one fails alone."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Connection, event, text

from canonry.errors import StoreError
from canonry.store.database import Database
from loopback import in_a_loop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def make_insert(number: int) -> Callable[[Connection], int]:
    """Return work that adds a row to `numbers`; the database refuses a number that exists."""

    def insert_number(connection: Connection) -> int:
        connection.execute(text(f"INSERT INTO numbers VALUES ({number})"))
        return number

    return insert_number


async def block_writer(database: Database, release: threading.Event) -> asyncio.Task[None]:
    """Start a write that occupies the writer thread until `release` is set."""
    started = threading.Event()

    def wait_for_release(_: Connection) -> None:
        started.set()
        assert release.wait(60)

    task = asyncio.create_task(database.write(wait_for_release))
    assert await asyncio.to_thread(started.wait, 60)
    return task


async def wait_until_queued(database: Database, count: int) -> None:
    """Wait until so many writes are queued behind the running one."""
    async with asyncio.timeout(60):
        while len(database._writes._waiting) < count:
            await asyncio.sleep(0.001)


async def write_as_group(database: Database, works: list[Callable[[Connection], Any]]) -> tuple[list[Any], int]:
    """Queue writes behind a running one; return their results and the number of transactions they took."""
    commits: list[object] = []
    event.listen(database.engine, "commit", commits.append)
    release = threading.Event()
    first = await block_writer(database, release)
    tasks = [asyncio.create_task(database.write(work)) for work in works]
    await wait_until_queued(database, len(works))
    release.set()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True), len(commits) - 1


def create_numbers(database: Database) -> None:
    database.write_now(lambda connection: connection.execute(text("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")))


def list_numbers(database: Database) -> list[int]:
    return list(database.read_now(lambda connection: connection.execute(text("SELECT n FROM numbers")).scalars().all()))


@in_a_loop
async def test_queued_writes_share_a_transaction() -> None:
    with Database("sqlite://") as database:
        create_numbers(database)
        assert await write_as_group(database, list(map(make_insert, range(20)))) == (list(range(20)), 1)


@in_a_loop
async def test_a_refused_write_fails_alone() -> None:
    with Database("sqlite://") as database:
        create_numbers(database)
        results, _ = await write_as_group(database, list(map(make_insert, [1, 2, 2, 3])))
        assert results[:2] == [1, 2]
        assert isinstance(results[2], StoreError)
        assert results[3] == 3
        assert list_numbers(database) == [1, 2, 3]


@in_a_loop
async def test_an_exception_of_the_caller_is_raised_and_its_work_not_retried() -> None:
    calls: list[object] = []

    def insert_and_raise(connection: Connection) -> None:
        calls.append(connection)
        connection.execute(text("INSERT INTO numbers VALUES (7)"))
        raise KeyError("no such name")

    with Database("sqlite://") as database:
        create_numbers(database)
        results, _ = await write_as_group(database, [make_insert(1), insert_and_raise, make_insert(2)])
        assert isinstance(results.pop(1), KeyError)
        assert results == [1, 2]
        assert len(calls) == 1
        assert list_numbers(database) == [1, 2]


@in_a_loop
async def test_many_queued_writes_take_few_transactions(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path / 'store.db'}") as database:
        create_numbers(database)
        results, transactions = await write_as_group(database, list(map(make_insert, range(500))))
        assert results == list(range(500))
        assert transactions < 50


@in_a_loop
async def test_a_cancelled_write_is_not_run() -> None:
    with Database("sqlite://") as database:
        release = threading.Event()
        first = await block_writer(database, release)
        cancelled = asyncio.create_task(database.write(lambda _: pytest.fail("cancelled work was run")))
        await wait_until_queued(database, 1)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        release.set()
        await first
        assert await database.write(lambda _: "next") == "next"


@in_a_loop
async def test_a_write_to_a_closed_store_is_refused() -> None:
    database = Database("sqlite://")
    waiting = asyncio.create_task(database.write(lambda _: pytest.fail("the store is closed")))
    await asyncio.sleep(0)
    database.close()
    with pytest.raises(StoreError):
        await waiting


@in_a_loop
async def test_a_bug_in_the_writer_fails_every_write_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    with Database("sqlite://") as database:
        monkeypatch.setattr("canonry.store.database._run_all", fail)
        results, _ = await write_as_group(database, [lambda _: 1, lambda _: 2])
        assert [type(result) for result in results] == [AssertionError, AssertionError]


# Lookups


@in_a_loop
async def test_lookups_of_one_moment_share_a_transaction(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path}/x.db") as database:
        begun: list[object] = []
        event.listen(database.engine, "begin", begun.append)

        def number(connection: Connection, wanted: int) -> int:
            return int(connection.execute(text(f"SELECT {wanted}")).scalar_one())

        found = await asyncio.gather(*(database.look_up(partial(number, wanted=each)) for each in range(50)))
        assert (found, len(begun)) == (list(range(50)), 1)


@in_a_loop
async def test_a_failed_lookup_fails_alone(tmp_path: Path) -> None:
    def raise_key_error(_: Connection) -> None:
        raise KeyError("wrong")

    with Database(f"sqlite:///{tmp_path}/x.db") as database:
        works = [
            lambda connection: connection.execute(text("SELECT * FROM nowhere")),
            raise_key_error,
            lambda connection: connection.execute(text("SELECT 1")).scalar_one(),
        ]
        found = await asyncio.gather(*map(database.look_up, works), return_exceptions=True)
        assert isinstance(found[0], StoreError)
        assert "no such table" in str(found[0])
        assert isinstance(found[1], KeyError)
        assert found[2] == 1


def test_threads_take_turns_with_a_store_in_memory() -> None:
    """It has one connection, on which no second transaction can begin."""
    with Database("sqlite://") as database:
        found: list[object] = []
        count = text("SELECT COUNT(*) FROM crawls")
        reader = threading.Thread(
            target=lambda: found.append(database.read_now(lambda connection: connection.execute(count).scalar()))
        )

        def write(connection: Connection) -> None:
            reader.start()
            reader.join(0.2)
            connection.execute(text("INSERT INTO crawls (seed, host, started_at) VALUES ('s', 'h', 'now')"))

        database.write_now(write)
        reader.join(60)
        assert found == [1]
