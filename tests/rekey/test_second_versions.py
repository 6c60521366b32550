"""The first real migration (contract N8c, N10): a store moves from the first policies to the second, and back.

CANONRY_MIGRATION_ROWS sets how many bookmarks and entries there are; 200,000 take about a quarter of an hour.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Connection, func, insert, select

from canonry.bookmarks.bookmark import BookmarkUrl
from canonry.bookmarks.bookmark_rows import dump_url, make_empty_row, make_key
from canonry.bookmarks.search_words import make_search_columns
from canonry.core.keys import Item
from canonry.core.native import normalize
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument
from canonry.store.database import Database
from canonry.store.pinned_policies import BOOKMARK, ENTRY, find_pinned, repin_policy
from canonry.store.schema import bookmarks, entries, entry_identities, rekeys, renormalizations

if TYPE_CHECKING:
    from sqlalchemy import Table

ROWS = int(os.environ.get("CANONRY_MIGRATION_ROWS", "1500"))
NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
SHAPES = (
    "https://example.com/{n}?fb_ref={n}",
    "https://old.reddit.com/r/python/comments/{n36}/title/",
    "https://www.reddit.com/r/python/comments/{n36}/other/?share_id=x",
    "https://example.com/{n}",
    "https://youtu.be/{n11}?si=a",
    "https://en.m.wikipedia.org/wiki/Page_{n}",
    "https://www.amazon.de/gp/product/B{n9}?psc=1&tag=a-21",
    "https://l.facebook.com/l.php?u=https%3A%2F%2Fexample.com%2Fp{n}&h=AT",
    "https://example.com/%7Ejane/{n}#:~:text=a",
    "https://plain.example/{n}",
)
TABLES = (bookmarks, entries, entry_identities)


def make_url(number: int) -> str:
    """Make a URL; some of them become equal under the second policies."""
    shape, n = SHAPES[number % len(SHAPES)], number // len(SHAPES)
    return shape.format(n=n, n36=f"{n:06d}", n11=f"{n:011d}", n9=f"{n:09d}")


def fill_bookmarks(connection: Connection) -> None:
    repin_policy(connection, BOOKMARK, "bookmark@1")
    rows: list[dict[str, Any]] = []
    for number in range(ROWS):
        given = make_url(number)
        url = normalize(given, "bookmark@1")
        saved = BookmarkUrl(url, given if given != url else None, url, exact_url=False, policy="bookmark@1")
        row: dict[str, Any] = {**make_empty_row(), **dump_url(saved), "owner_id": 1, "key": make_key(url)}
        row |= {"title": f"T{number}", "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
        rows.append({**row, **make_search_columns(row)})
    connection.execute(insert(bookmarks), rows)


async def fill_entries(database: Database) -> None:
    await database.write(lambda connection: repin_policy(connection, ENTRY, "entry@1"))
    store = FeedStore(database)
    feed, _ = await store.add("https://feeds.example/all", NOW)
    for start in range(0, ROWS, 1000):
        items = tuple(
            Item(guid=str(number), link=make_url(number), title=f"T{number}")
            for number in range(start, min(start + 1000, ROWS))
        )
        await store.merge(feed.id, FeedDocument("F", "rss20", (), items), NOW, seen_ttl_days=30)


def dump(database: Database, *tables: Table) -> dict[str, list[tuple[Any, ...]]]:
    def read(connection: Connection) -> dict[str, list[tuple[Any, ...]]]:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(select(table))), key=repr) for table in tables
        }

    return database.read_now(read)


def rekey(database_url: str, before: str, after: str, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "canonry", "rekey", before, after, "--db", database_url, "--json", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def kill_at(database: Database, database_url: str, command: list[str], progress: Any, count: int) -> bool:
    """Run a command and kill it when `count` rows were moved or restored; return whether it was killed in time."""
    start = database.read_now(progress)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while process.poll() is None and abs(database.read_now(progress) - start) < count:
            assert time.monotonic() < deadline, "the rekey does not progress"
        process.send_signal(signal.SIGKILL)
    return process.returncode == -signal.SIGKILL


def count_moved_bookmarks(connection: Connection) -> int:
    return connection.execute(
        select(func.count()).select_from(bookmarks).where(bookmarks.c.policy == "bookmark@2")
    ).scalar_one()


def count_moved_entries(connection: Connection) -> int:
    return int(connection.execute(select(func.coalesce(func.max(rekeys.c.position), 0))).scalar_one())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "progress"),
    [("bookmark@1", "bookmark@2", count_moved_bookmarks), ("entry@1", "entry@2", count_moved_entries)],
    ids=["bookmarks", "entries"],
)
def test_a_store_moves_to_the_second_policy_and_back(database_url: str, before: str, after: str, progress: Any) -> None:
    with Database(database_url) as database:
        database.write_now(fill_bookmarks)
        asyncio.run(fill_entries(database))
        rows = dump(database, *TABLES)
        plan = rekey(database_url, before, after, "--dry-run")
        assert dump(database, *TABLES) == rows
        assert plan["entries"] == ROWS
        assert plan["changed"] > ROWS // 2
        assert plan["merged"] > 0
        assert len(plan["changes"]) >= 5
        command = [sys.executable, "-m", "canonry", "rekey", before, after, "--db", database_url, "--batch", "40"]
        killed = [kill_at(database, database_url, command, progress, ROWS // 5) for _ in range(2)]
        assert killed == [True, True]
        moved = rekey(database_url, before, after)
        if before == "bookmark@1":
            assert moved["merged"] > 0
            assert {row.policy for row in database.read_now(select_policies)} == {after}
        assert (
            database.read_now(lambda connection: find_pinned(connection, BOOKMARK if "book" in before else ENTRY))
            == after
        )
        assert dump(database, *TABLES) != rows
        undo = [*command, "--undo"]
        kill_at(database, database_url, undo, progress, ROWS // 5)
        kill_at(database, database_url, undo, progress, ROWS // 5)
        try:
            rekey(database_url, before, after, "--undo")
        except subprocess.CalledProcessError:  # the second run has finished before it was killed
            assert database.read_now(select_unfinished) == []
        assert dump(database, *TABLES) == rows


def select_policies(connection: Connection) -> Any:
    return connection.execute(select(bookmarks.c.policy).distinct()).all()


def select_unfinished(connection: Connection) -> list[Any]:
    running = select(rekeys.c.id).where(rekeys.c.status.in_(("running", "undoing")))
    undoing = select(renormalizations.c.id).where(
        renormalizations.c.undo_started_at.is_not(None), renormalizations.c.undone_at.is_(None)
    )
    return [*connection.execute(running), *connection.execute(undoing)]
