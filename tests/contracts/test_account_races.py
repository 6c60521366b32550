"""Users that are added or removed at once on PostgreSQL: there is one first user, and the last one stays."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, text

import postgres
from canonry.accounts import AccountError, AccountProblem, UserStore
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
WAIT_SECONDS = 120.0


@pytest.fixture
def database(postgres_url: str) -> Generator[Database]:
    with postgres.create_database(postgres_url) as url, Database(url) as database:
        yield database


def is_waiting_for_lock(database: Database) -> bool:
    query = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return database.read_now(lambda connection: connection.execute(text(query)).first() is not None)


def run_both(database: Database, statement: str, works: list[Callable[[], Coroutine[Any, Any, object]]]) -> list[Any]:
    """Run two pieces of work; the first that reaches the statement waits there until the other does, or is locked out.

    Returns the result or the AccountError of each.
    """
    first, both = threading.Event(), threading.Event()
    lock = threading.Lock()

    @event.listens_for(database.engine, "before_cursor_execute")
    def wait(_connection: Any, _cursor: Any, sql: str, *_: Any) -> None:
        if not sql.startswith(statement):
            return
        with lock:
            (both if first.is_set() else first).set()
        deadline = time.monotonic() + WAIT_SECONDS
        while not both.wait(0.02) and not is_waiting_for_lock(database):
            assert time.monotonic() < deadline

    def run(work: Callable[[], Coroutine[Any, Any, object]]) -> object:
        try:
            return asyncio.run(work())
        except AccountError as error:
            return error

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(run, works))


def test_of_two_removals_at_once_one_finds_the_last_user(database: Database) -> None:
    users = UserStore(database)
    names = ["ada", "bob"]
    for name in names:
        asyncio.run(users.add(name, NOW))
    found = run_both(database, "DELETE FROM users", [partial(users.remove, name) for name in names])
    assert [each.kind for each in found if isinstance(each, AccountError)] == [AccountProblem.LAST_USER]
    assert len(asyncio.run(users.list_users())) == 1


def test_of_two_users_that_are_added_at_once_one_is_the_first(database: Database) -> None:
    users = UserStore(database)
    run_both(database, "INSERT INTO users", [partial(users.add, name, NOW) for name in ("ada", "bob")])
    assert sorted(user.is_admin for user in asyncio.run(users.list_users())) == [False, True]
