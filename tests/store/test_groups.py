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


def inserting(number: int) -> Callable[[Connection], int]:
    """Work that adds a row to `numbers`; a number that is there is refused."""

    def work(connection: Connection) -> int:
        connection.execute(text(f"INSERT INTO numbers VALUES ({number})"))
        return number

    return work


async def written(database: Database, works: list[Callable[[Connection], Any]]) -> tuple[list[Any], int]:
    """What came of writes that all wait for the same one, and how many transactions it took."""
    commits: list[object] = []
    event.listen(database.engine, "commit", commits.append)
    gate = threading.Event()

    def held(connection: Connection) -> None:
        gate.wait(5)

    first = asyncio.create_task(database.write(held))
    await asyncio.sleep(0.05)
    rest = [asyncio.create_task(database.write(work)) for work in works]
    await asyncio.sleep(0.05)
    gate.set()
    await first
    return await asyncio.gather(*rest, return_exceptions=True), len(commits) - 1


@in_a_loop
async def test_one_transaction() -> None:
    with Database("sqlite://") as database:
        database.write_now(lambda connection: connection.execute(text("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")))
        assert await written(database, list(map(inserting, range(20)))) == (list(range(20)), 1)


@in_a_loop
async def test_a_fault_is_its_own() -> None:
    with Database("sqlite://") as database:
        database.write_now(lambda connection: connection.execute(text("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")))
        results, _ = await written(database, list(map(inserting, [1, 2, 2, 3])))
        assert results[:2] == [1, 2]
        assert isinstance(results[2], StoreError)
        assert results[3] == 3
        kept = database.read_now(lambda connection: connection.execute(text("SELECT n FROM numbers")).scalars().all())
        assert list(kept) == [1, 2, 3]


@in_a_loop
async def test_a_mistake_of_the_caller_is_told_and_not_tried_again() -> None:
    calls: list[object] = []

    def mistaken(connection: Connection) -> None:
        calls.append(connection)
        connection.execute(text("INSERT INTO numbers VALUES (7)"))
        raise KeyError("no such name")

    with Database("sqlite://") as database:
        database.write_now(lambda connection: connection.execute(text("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")))
        results, _ = await written(database, [inserting(1), mistaken, inserting(2)])
        assert isinstance(results.pop(1), KeyError)
        assert results == [1, 2]
        assert len(calls) == 1
        kept = database.read_now(lambda connection: connection.execute(text("SELECT n FROM numbers")).scalars().all())
        assert list(kept) == [1, 2]


@in_a_loop
async def test_many(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path / 'store.db'}") as database:
        database.write_now(lambda connection: connection.execute(text("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")))
        results, transactions = await written(database, list(map(inserting, range(500))))
        assert results == list(range(500))
        assert transactions < 50


@in_a_loop
async def test_what_nobody_waits_for_is_not_done() -> None:
    with Database("sqlite://") as database:
        gate = threading.Event()
        first = asyncio.create_task(database.write(lambda _: gate.wait(5)))
        await asyncio.sleep(0.05)
        given_up = asyncio.create_task(database.write(lambda _: pytest.fail("nobody waits for it")))
        await asyncio.sleep(0.05)
        given_up.cancel()
        await asyncio.sleep(0.05)
        gate.set()
        assert await first
        assert await database.write(lambda _: "next") == "next"


@in_a_loop
async def test_a_store_that_is_closed_says_so() -> None:
    database = Database("sqlite://")
    waiting = asyncio.create_task(database.write(lambda _: pytest.fail("it is closed")))
    await asyncio.sleep(0)
    database.close()
    with pytest.raises(StoreError, match="closed"):
        await waiting


@in_a_loop
async def test_a_fault_of_the_group_is_everybodys(monkeypatch: pytest.MonkeyPatch) -> None:
    with Database("sqlite://") as database:
        monkeypatch.setattr("canonry.store.database._run_all", lambda *_: pytest.fail("a bug"))
        results, _ = await written(database, [lambda _: 1, lambda _: 2])
        assert [str(result) for result in results] == ["a bug", "a bug"]


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
async def test_a_lookup_pays_for_its_own_fault_only(tmp_path: Path) -> None:
    def wrong(_: Connection) -> None:
        raise KeyError("wrong")

    with Database(f"sqlite:///{tmp_path}/x.db") as database:
        works = [
            lambda connection: connection.execute(text("SELECT * FROM nowhere")),
            wrong,
            lambda connection: connection.execute(text("SELECT 1")).scalar_one(),
        ]
        found = await asyncio.gather(*map(database.look_up, works), return_exceptions=True)
        assert isinstance(found[0], StoreError)
        assert "no such table" in str(found[0])
        assert isinstance(found[1], KeyError)
        assert found[2] == 1
