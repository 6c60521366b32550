"""The queries of every request use an index, however many bookmarks there are."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, text

import postgres
from canonry.bookmarks.bookmark import BookmarkSearch, BookmarkUrl
from canonry.bookmarks.bookmark_store import BookmarkStore
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
URL = "https://a.com/"


@pytest.mark.parametrize(
    ("query_store", "index"),
    [
        (lambda store: store.find(1, URL), "bookmarks_by_key"),
        (lambda store: store.search(1, BookmarkSearch()), "bookmarks_by_age"),
        (lambda store: store.get(1, 1), "INTEGER PRIMARY KEY"),
    ],
    ids=["find", "search", "get"],
)
def test_a_query_uses_an_index(
    tmp_path: Path, query_store: Callable[[BookmarkStore], Coroutine[Any, Any, Any]], index: str
) -> None:
    statements: list[str] = []
    with Database(f"sqlite:///{tmp_path}/x.db") as database:
        store = BookmarkStore(database)
        asyncio.run(store.put(1, BookmarkUrl(URL, None, URL, exact_url=False, policy="bookmark@1"), {}, NOW))
        database.engine.dispose()  # so that the listener sees every connection
        event.listen(database.engine, "connect", lambda driver, _: driver.set_trace_callback(statements.append))
        asyncio.run(query_store(store))
        [query] = [each for each in statements if each.lstrip().startswith("SELECT")]
        plan = database.read_now(lambda connection: connection.execute(text(f"EXPLAIN QUERY PLAN {query}")).all())
    steps = [row[3] for row in plan]
    assert index in steps[0]
    assert not [step for step in steps if step.startswith("SCAN")]


@pytest.mark.parametrize("words", ["harbour", "-harbour", '"quiet harbour" notes'])
def test_postgresql_makes_no_words_while_it_searches(postgres_url: str, words: str) -> None:
    """A scan would make the words of every row, and scans are what the planner chooses for a small table."""
    statements: list[tuple[str, Any]] = []
    with postgres.create_database(postgres_url) as url, Database(url) as database:
        event.listen(database.engine, "before_cursor_execute", lambda *given: statements.append((given[2], given[3])))
        store = BookmarkStore(database)
        asyncio.run(store.search(1, BookmarkSearch(words)))
        [(query, values)] = [each for each in statements if "haystack" in each[0]]
        plan = database.read_now(
            lambda connection: connection.exec_driver_sql(f"EXPLAIN VERBOSE {query}", values).scalars().all()
        )
    filters = [line for line in plan if "~~" in line]
    assert filters
    assert "array_to_tsvector" not in "\n".join(plan)
