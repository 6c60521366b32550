"""contract O: backup and restore, within and between databases; a damaged file changes nothing."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import os
import sqlite3
import threading
import tracemalloc
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import delete, insert, select, text

import postgres
from canonry.bookmarks.bookmark import ExpansionState
from canonry.core.keys import Item
from canonry.crawler.crawl_store import CrawlState
from canonry.crawler.results import PageChange, PageState
from canonry.errors import StoreError
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument, FeedStatus, MatchConfidence
from canonry.store import backup as backup_module
from canonry.store import backup_values
from canonry.store.backup import backup, read_header, restore
from canonry.store.database import Database, _make_engine
from canonry.store.migrations.migrate import upgrade
from canonry.store.pinned_policies import RekeyStatus
from canonry.store.schema import (
    bookmarks,
    cache,
    crawl_pages,
    crawls,
    entries,
    feeds,
    metadata,
    rekeyed_rows,
    rekeys,
)
from canonry.store.schema_versions import VERSIONS
from table_rows import insert_row

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from sqlalchemy import Column, Connection

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def other_url(database_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Generator[str]:
    """A database of the other kind."""
    if not database_url.startswith("sqlite"):
        yield f"sqlite:///{tmp_path / 'other.db'}"
        return
    with postgres.create_database(request.getfixturevalue("postgres_url")) as url:
        yield url


def fill(database: Database, count: int = 5) -> None:
    """Fill the tables with values that are easily lost: bytes, quotes, other scripts, NULL."""
    store = FeedStore(database)

    async def work() -> None:
        feed, _ = await store.add("https://a.com/feed", NOW, ["https://a.com/rss"])
        items = tuple(
            Item(guid=str(each), link=f"https://a.com/{each}", title=f'"{each}" \n ünï漢字😀') for each in range(count)
        )
        await store.merge(feed.id, FeedDocument("A", "rss", (), items, etag='W/"x"'), NOW, seen_ttl_days=30)
        shared = Item(guid="x", link="https://a.com/x"), Item(guid="x", link="https://a.com/y")
        other, _ = await store.add("https://b.com/feed", NOW)
        await store.merge(other.id, FeedDocument("B", "atom", ("https://hub",), shared), NOW, seen_ttl_days=30)

    asyncio.run(work())

    def more(connection: Any) -> None:
        connection.execute(insert(cache).values(name="n", value=bytes(range(256)), expires_at="x"))
        connection.execute(insert(cache).values(name="", value=b"", expires_at=""))
        connection.execute(
            insert(rekeys).values(id=7, from_policy="a", to_policy="b", status="done", started_at="x", position=2**40)
        )
        connection.execute(insert(rekeyed_rows).values(rekey_id=7, entry_id=1, row="{}"))
        saved = {"key": "k", "same_key": "k", "url": "https://a.com/", "policy": "p", "haystack": " one two "}
        connection.execute(insert(bookmarks).values(owner_id=0, created_at="x", updated_at="x", **saved))
        for state in CrawlState:
            seed = f"https://{state}.example/"
            crawl = insert(crawls).values(seed=seed, host="a", state=state, started_at="x", previous_id=1)
            crawl_id = connection.execute(crawl.returning(crawls.c.id)).scalar_one()
            page = {"crawl_id": crawl_id, "url": seed, "requested_url": seed, "depth": 0}
            for change in ("", *PageChange):
                connection.execute(insert(crawl_pages).values(**page, key=f"k{change}", change=change))

    database.write_now(more)


def read_all_rows(database: Database) -> dict[str, list[Any]]:
    """Return all rows; of the last change number without the millions that a restore adds to it."""

    def read(connection: Any) -> dict[str, list[Any]]:
        found = {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key.columns))]
            for table in metadata.sorted_tables
        }
        found["change_numbers"] = [(row[0], row[1] % 1_000_000, *row[2:]) for row in found["change_numbers"]]
        return found

    return database.read_now(read)


def test_a_backup_restores_all_rows_in_another_database(database_url: str, other_url: str, tmp_path: Path) -> None:
    with Database(database_url) as database, Database(other_url) as other, Database("sqlite://") as memory:
        fill(database)
        before = read_all_rows(database)
        rows = sum(map(len, before.values()))
        assert backup(database, tmp_path / "one.gz") == rows
        assert restore(other, tmp_path / "one.gz") == rows
        assert read_all_rows(other) == before
        assert backup(other, tmp_path / "two.gz") == rows
        assert restore(memory, tmp_path / "two.gz") == rows
        assert read_all_rows(memory) == before
        # New rows get the ids after those of the restored rows.
        for each in (other, memory):
            added, is_new = asyncio.run(FeedStore(each).add("https://c.com/feed", NOW))
            assert (added.id, is_new) == (3, True)


STATES: dict[Column[Any], Sequence[str]] = {
    feeds.c.status: tuple(FeedStatus),
    entries.c.match_confidence: tuple(MatchConfidence),
    bookmarks.c.expansion: tuple(ExpansionState),
    rekeys.c.status: tuple(RekeyStatus),
    crawls.c.state: tuple(CrawlState),
    crawl_pages.c.change: ("", *PageChange),
    crawl_pages.c.state: tuple(PageState),
}


def test_a_row_of_every_table_is_restored(database_url: str, other_url: str, tmp_path: Path) -> None:
    states = {(column.table.name, column.name): values[0] for column, values in STATES.items()}

    def insert_rows(connection: Connection) -> None:
        for table in metadata.sorted_tables:
            insert_row(connection, table, **{name: state for (of, name), state in states.items() if of == table.name})

    with Database(database_url) as database, Database(other_url) as other:
        database.write_now(insert_rows)
        before = read_all_rows(database)
        assert all(before.values())
        backup(database, tmp_path / "b.gz")
        restore(other, tmp_path / "b.gz")
        assert read_all_rows(other) == before


def test_the_states_that_a_backup_may_have_are_those_of_the_features() -> None:
    checked = {(column.table.name, column.name): frozenset(map(str, states)) for column, states in STATES.items()}
    assert checked == backup_values._STATES


def test_feeds_and_rekeys_are_restored_in_every_state(database_url: str, other_url: str, tmp_path: Path) -> None:
    def insert_rows(connection: Connection) -> None:
        for state in STATES[feeds.c.status]:
            connection.execute(insert(feeds).values(key_url=state, url=state, status=state, created_at="x"))
        for state in STATES[rekeys.c.status]:
            connection.execute(insert(rekeys).values(from_policy="a", to_policy="b", status=state, started_at="x"))

    with Database(database_url) as database, Database(other_url) as other:
        database.write_now(insert_rows)
        backup(database, tmp_path / "b.gz")
        restore(other, tmp_path / "b.gz")
        assert read_all_rows(other) == read_all_rows(database)


def test_the_file_has_a_header_and_a_checksum_and_is_private(database_url: str, tmp_path: Path) -> None:
    with Database(database_url) as database:
        fill(database)
        backup(database, tmp_path / "b.gz")
    lines = gzip.decompress((tmp_path / "b.gz").read_bytes()).splitlines(keepends=True)
    header, *rows, last = map(json.loads, lines)
    assert header.keys() == {"canonry", "tables", "created_at", "last_ids"}
    assert header["tables"] == read_header(tmp_path / "b.gz").tables == VERSIONS[-1]
    assert {row["table"] for row in rows} >= {"feeds", "entries", "sightings", "ambiguous_keys", "cache"}
    assert last == {"rows": len(rows), "sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest()}
    assert (tmp_path / "b.gz").stat().st_mode & 0o077 == 0  # other users cannot read it


def test_a_store_with_rows_is_only_overwritten_with_replace(database_url: str, tmp_path: Path) -> None:
    with Database(database_url) as database:
        backup(database, tmp_path / "empty.gz")
        assert restore(database, tmp_path / "empty.gz") == 0
        fill(database)
        backup(database, tmp_path / "full.gz")
        asyncio.run(FeedStore(database).add("https://new.com/feed", NOW))
        before = read_all_rows(database)
        with pytest.raises(StoreError, match="--replace"):
            restore(database, tmp_path / "full.gz")
        assert read_all_rows(database) == before
        restore(database, tmp_path / "full.gz", replace=True)
        assert len(read_all_rows(database)["feeds"]) == len(before["feeds"]) - 1


def test_a_backup_of_an_older_version_is_migrated(database_url: str, tmp_path: Path) -> None:
    old = f"sqlite:///{tmp_path / 'old.db'}"
    engine = _make_engine(old)
    with engine.begin() as connection:
        upgrade(connection, "0001")
        connection.execute(text("INSERT INTO feeds (key_url, url, created_at) VALUES ('k', 'u', 'now')"))
    with engine.execution_options(canonry_reads=True).begin() as connection:
        backup_module.write_backup(connection, tmp_path / "old.gz")
    engine.dispose()
    assert read_header(tmp_path / "old.gz").tables == "0001"
    with Database(database_url) as database:
        fill(database)
        assert restore(database, tmp_path / "old.gz", replace=True) == 1
        found = read_all_rows(database)
        assert [row[1] for row in found.pop("feeds")] == ["k"]
        assert not any(found.values())
        assert asyncio.run(FeedStore(database).add("https://c.com/feed", NOW))[0].id == 2
    Database(database_url).close()  # it is up to date


def _cut(lines: list[bytes]) -> list[bytes]:
    return lines[: len(lines) // 2]


def _without_end(lines: list[bytes]) -> list[bytes]:
    return lines[:-1]


def _without_a_row(lines: list[bytes]) -> list[bytes]:
    return lines[:3] + lines[4:]


def _changed(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b"https://a.com/feed", b"https://z.com/feed") for line in lines]


def _with_more(lines: list[bytes]) -> list[bytes]:
    return [*lines, lines[1]]


def _with_half_a_line(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], lines[3][:10]]


def _newer(lines: list[bytes]) -> list[bytes]:
    return [lines[0].replace(f'"{VERSIONS[-1]}"'.encode(), b'"0999"'), *lines[1:]]


def _no_header(lines: list[bytes]) -> list[bytes]:
    return lines[1:]


def _text(_: list[bytes]) -> list[bytes]:
    return [b"some\n", b"text\n"]


def _list(_: list[bytes]) -> list[bytes]:
    return [b"[]\n"]


def _add_line(line: bytes) -> Callable[[list[bytes]], list[bytes]]:
    """Make a function that adds a line to a backup, with a checksum that is right."""

    def damage(lines: list[bytes]) -> list[bytes]:
        found = [*lines[:-1], line]
        return [*found, json.dumps({"rows": len(b"".join(found).splitlines()) - 1, "sha256": hashlib.sha256(b"".join(found)).hexdigest()}, separators=(",", ":")).encode() + b"\n"]  # fmt: skip

    return damage


def _make_run(**values: object) -> bytes:
    """Return the line of a row of `runs`, with some values replaced."""
    row = {"id": 7, "started_at": "2026-01-31T10:00:00.000000Z", "finished_at": None, "counts": "{}", **values}
    return json.dumps({"table": "runs", "row": row}).encode() + b"\n"


BAD_RUNS: dict[str, dict[str, object]] = {
    "id is a text": {"id": "1"},
    "id is a list": {"id": [1]},
    "id is true": {"id": True},
    "id is a fraction": {"id": 1.5},
    "id is not a number": {"id": float("nan")},
    "id is huge": {"id": 10**30},
    "time is a number": {"started_at": 1},
    "time is missing": {"started_at": None},
    "time has a surrogate": {"started_at": "\ud800"},
    "counts are no JSON": {"counts": "{"},
    "counts are a list": {"counts": "[]"},
    "counts are an object": {"counts": {}},
}
DAMAGES: list[tuple[str, Callable[[list[bytes]], list[bytes]], str]] = [
    ("cut", _cut, "truncated"),
    ("without end", _without_end, "truncated"),
    ("without a row", _without_a_row, "checksum"),
    ("changed", _changed, "checksum"),
    ("with more", _with_more, "checksum"),
    ("half a line", _with_half_a_line, "truncated"),
    ("newer", _newer, "0999"),
    ("no header", _no_header, "not a backup of canonry"),
    ("text", _text, "not a backup of canonry"),
    ("a list", _list, "not a backup of canonry"),
    ("no row", _add_line(b'{"table":"feeds"}\n'), "not a row"),
    ("unknown table", _add_line(b'{"table":"nope","row":{}}\n'), "'nope'"),
    ("unknown column", _add_line(b'{"table":"feeds","row":{"id":1}}\n'), "feeds"),
    ("nested", _add_line(b'{"table":' + b"[" * 100_000 + b"\n"), "not a backup of canonry"),
    ("a number", _add_line(b"9" * 10_000 + b"\n"), "not a backup of canonry"),
    ("a long name", _add_line(b'{"table":"' + b"\\n" * 100_000 + b'","row":{}}\n'), "unknown table"),
    *((f"run {name}", _add_line(_make_run(**values)), "runs") for name, values in BAD_RUNS.items()),
    ("two rows of one id", _add_line(_make_run() + _make_run()), "contradict"),
    ("a row of nothing", _add_line(b'{"table":"feed_aliases","row":{"url":"http://x/","feed_id":999}}\n'), "contradict"),
    ("no base64", _add_line(b'{"table":"cache","row":{"name":"z","value":"?","expires_at":""}}\n'), "base64"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "named"), [pytest.param(*row[1:], id=row[0]) for row in DAMAGES])
def test_a_damaged_file_changes_nothing(
    database_url: str, tmp_path: Path, damage: Callable[[list[bytes]], list[bytes]], named: str
) -> None:
    file = tmp_path / "b.gz"
    with Database(database_url) as database:
        fill(database)
        backup(database, file)
        lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
        file.write_bytes(gzip.compress(b"".join(damage(lines))))
        before = read_all_rows(database)
        with pytest.raises(StoreError) as caught:
            restore(database, file, replace=True)
        assert named in str(caught.value)
        assert str(file) in str(caught.value)
        assert str(caught.value).count("\n") == 0
        assert len(str(caught.value)) < 700
        assert read_all_rows(database) == before


def test_files_that_are_not_even_compressed_well(tmp_path: Path) -> None:
    with Database("sqlite://") as database:
        fill(database)
        backup(database, tmp_path / "b.gz")
        whole = (tmp_path / "b.gz").read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 0xFF
        for name, raw in {
            "cut": whole[:-20],
            "half": whole[: len(whole) // 2],
            "flipped": bytes(flipped),
            "crc": whole[:-6] + b"\0\0" + whole[-4:],
            "empty": b"",
            "plain": b"plain text\n",
        }.items():
            (tmp_path / name).write_bytes(raw)
            with pytest.raises(StoreError, match=name):
                restore(database, tmp_path / name, replace=True)
        with pytest.raises(StoreError, match="No such file"):
            restore(database, tmp_path / "none")
        assert len(read_all_rows(database)["feeds"]) == 2


def test_a_file_that_decompresses_to_far_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_module, "_MAX_PLAIN_BYTES", 1_000_000)
    header = json.dumps({"canonry": "1", "tables": VERSIONS[-1], "created_at": "x"}).encode() + b"\n"
    row = b'{"table":"runs","row":{"id":1}}\n'
    for name, content in {"line": header + b" " * 50_000_000, "rows": header + row * 2_000_000}.items():
        (tmp_path / name).write_bytes(gzip.compress(content))
        with Database("sqlite://") as database, pytest.raises(StoreError, match="times its size"):
            restore(database, tmp_path / name)


def test_a_pipe_or_a_folder_is_not_a_backup(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with Database("sqlite://") as database:
        for file in (tmp_path / "pipe", tmp_path):
            with pytest.raises(StoreError, match="not a regular file"):
                restore(database, file)


def test_a_backup_is_consistent_while_others_write(database_url: str, tmp_path: Path) -> None:
    with Database(database_url) as database:
        fill(database, count=3000)
        is_running, wrote = threading.Event(), threading.Event()

        def write() -> None:
            is_running.wait()
            with Database(database_url) as other:
                asyncio.run(FeedStore(other).add("https://late.com/feed", NOW))
                other.write_now(lambda on: on.execute(entries.delete().where(entries.c.id == 3000)))
            wrote.set()

        writer = threading.Thread(target=write)
        writer.start()

        def progress(_done: int, _of: int) -> None:
            is_running.set()
            assert wrote.wait(60)

        before = read_all_rows(database)
        backup(database, tmp_path / "b.gz", progress)
        writer.join()
        assert read_all_rows(database) != before
        restore(database, tmp_path / "b.gz", replace=True)
        assert read_all_rows(database) == before


def test_a_backup_that_fails_leaves_the_old_one(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "b.gz").write_text("old")

    def stop(_done: int, _of: int) -> None:
        raise KeyboardInterrupt

    with Database(database_url) as database:
        fill(database, count=2000)
        with pytest.raises(KeyboardInterrupt):
            backup(database, tmp_path / "b.gz", stop)
    assert (tmp_path / "b.gz").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir() if "b.gz" in each.name] == ["b.gz"]


def test_a_restore_that_is_stopped_changes_nothing(database_url: str, tmp_path: Path) -> None:
    def stop(_done: int, _of: int) -> None:
        raise KeyboardInterrupt

    with Database(database_url) as database:
        fill(database)
        backup(database, tmp_path / "b.gz")
        before = read_all_rows(database)
        with pytest.raises(KeyboardInterrupt):
            restore(database, tmp_path / "b.gz", replace=True, progress=stop)
        assert read_all_rows(database) == before


@pytest.mark.slow
def test_memory_stays_the_same_however_many_rows(tmp_path: Path) -> None:
    peaks: list[int] = []
    for count in (1_000, 5_000):
        url = f"sqlite:///{tmp_path / f'{count}.db'}"
        with Database(url) as database, Database(f"sqlite:///{tmp_path / f'{count}-restored.db'}") as other:
            rows = [{"key_url": str(each), "url": "x" * 300, "created_at": ""} for each in range(count)]
            database.write_now(lambda on, rows=rows: on.execute(insert(feeds), rows))  # type: ignore[misc]
            del rows
            tracemalloc.start()
            assert backup(database, tmp_path / "b.gz") == count
            assert restore(other, tmp_path / "b.gz") == count
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.5


def test_other_tables_of_the_database_are_left_alone(database_url: str, tmp_path: Path) -> None:
    with Database(database_url) as database:
        fill(database)
        database.write_now(lambda on: on.execute(text("CREATE TABLE mine (x INTEGER)")))
        database.write_now(lambda on: on.execute(text("INSERT INTO mine VALUES (1)")))
        backup(database, tmp_path / "b.gz")
        restore(database, tmp_path / "b.gz", replace=True)
        assert database.read_now(lambda on: on.execute(text("SELECT x FROM mine")).scalar()) == 1
    assert b"mine" not in gzip.decompress((tmp_path / "b.gz").read_bytes())


def test_a_restored_store_gives_no_id_again_that_the_old_one_gave(
    database_url: str, other_url: str, tmp_path: Path
) -> None:
    def insert_feed(database: Database, name: str) -> int:
        values = {"key_url": name, "url": name, "created_at": ""}
        query = insert(feeds).values(values).returning(feeds.c.id)
        return int(database.write_now(lambda on: on.execute(query).scalar_one()))

    with Database(database_url) as database:
        kept, deleted = insert_feed(database, "kept"), insert_feed(database, "deleted")
        database.write_now(lambda on: on.execute(delete(feeds).where(feeds.c.id == deleted)))
        backup(database, tmp_path / "b.gz")
    with Database(other_url) as other:
        restore(other, tmp_path / "b.gz")
        assert kept < deleted < insert_feed(other, "new")


def test_sqlite_copies_of_a_backup_are_whole(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path / 'a.db'}") as database:
        fill(database)
        backup(database, tmp_path / "b.gz")
    with Database(f"sqlite:///{tmp_path / 'c.db'}") as other:
        restore(other, tmp_path / "b.gz")
    with closing(sqlite3.connect(tmp_path / "c.db")) as found:
        assert found.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert found.execute("PRAGMA foreign_key_check").fetchall() == []
