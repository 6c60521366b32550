"""A store that can be read but not written is still asked, so that nothing known is announced again (contract I6)."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import insert, text, update

import canonry
from canonry.errors import RekeyUnfinished, StoreError
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.ingest_report import CheckName, FeedResult
from canonry.feeds.item_matching import ItemOutcome
from canonry.feeds.unwritable_store import combine_outcomes
from canonry.net.origin import Origin
from canonry.store.database import Database
from canonry.store.pinned_policies import ENTRY, repin_policy
from canonry.store.schema import pinned_policies, rekeys, stamp
from canonry.store.schema_versions import VERSIONS
from canonry.wiring import open_database
from feed_texts import gone, moved, ok, rss
from ingest_runs import START, URL, counts, feed_of, item, turns, unmet
from loopback import LoopbackWeb, in_a_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from canonry.feeds.ingest_report import Report

NEW, UPDATED, DUPLICATE = ItemOutcome.NEW, ItemOutcome.UPDATED, ItemOutcome.DUPLICATE
TWIN = "https://example.com/again"


@pytest.mark.parametrize(
    ("stored", "in_memory", "is_first", "wanted"),
    [
        (NEW, NEW, True, NEW),
        (UPDATED, NEW, True, UPDATED),
        (DUPLICATE, NEW, True, DUPLICATE),
        (NEW, DUPLICATE, True, DUPLICATE),  # another feed of this run has shown it
        (NEW, UPDATED, True, UPDATED),
        (DUPLICATE, UPDATED, True, DUPLICATE),  # the store knows how this feed shows it, the memory does not
        (UPDATED, DUPLICATE, True, UPDATED),
        (NEW, DUPLICATE, False, DUPLICATE),
        (UPDATED, DUPLICATE, False, DUPLICATE),  # the change was announced before
        (DUPLICATE, UPDATED, False, UPDATED),
        (DUPLICATE, NEW, False, DUPLICATE),
    ],
)
def test_the_outcome_of_store_and_memory(
    stored: ItemOutcome, in_memory: ItemOutcome, *, is_first: bool, wanted: ItemOutcome
) -> None:
    assert combine_outcomes(stored, in_memory, is_first=is_first) is wanted


@contextmanager
def mount(folder: Path, kilobytes: int = 4096) -> Generator[Path]:
    """Mount a small file system of its own; the test is skipped where that is not allowed."""
    folder.mkdir()
    options = f"size={kilobytes}k"
    if (
        os.getuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("mounting a file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def remount_read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Fill the file system to the last byte."""
    for number in count():
        try:
            with (folder / f"filler{number}").open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
        except OSError:
            if not (folder / f"filler{number}").stat().st_size:
                return


@pytest.fixture(params=["read-only mount", "full disk", "postgresql"])
def close_store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[tuple[str, Callable[[], str]]]:
    """The URL of a store, and a function that makes it unwritable and returns the URL to use from then on."""
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgres_store")
        yield url, lambda: f"{url}&options=-c%20default_transaction_read_only%3Don"
        return
    with mount(tmp_path / "mounted") as folder:
        url = f"sqlite:///{folder}/feeds.db"

        def close() -> str:
            (remount_read_only if request.param == "read-only mount" else fill)(folder)
            return url

        yield url, close


@pytest.fixture
def postgres_store(postgres_url: str) -> Generator[str]:
    import postgres

    with postgres.create_database(postgres_url) as url:
        yield url


async def ingest(url: str | Database, web: LoopbackWeb, *urls: str, **options: Any) -> Report:
    async with web.client() as client:
        return await canonry.ingest(urls or [URL], url, fetch=client.fetch, concurrency=1, **options)


def check_unwritten(report: Report) -> None:
    (warning,) = report.warnings
    assert "known items are recognised" in warning
    assert unmet(report) == [CheckName.PERSISTED]
    assert not report.is_stored


@in_a_loop
async def test_known_items_are_not_announced_again(close_store: tuple[str, Callable[[], str]]) -> None:
    url, close = close_store
    changed = rss(1, 2, 3, 4).replace("Text of 2", "A new text of 2")
    pages = {URL: turns(ok(rss()), ok(rss()), ok(changed)), TWIN: ok(rss(3, 4, 5))}
    async with LoopbackWeb(pages) as web:
        first = await ingest(url, web)
        assert (counts(first), first.warnings) == ((3, 0, 0), [])
        url = close()
        again = await ingest(url, web)
        assert counts(again) == (0, 0, 3)
        check_unwritten(again)
        third = await ingest(url, web, URL, TWIN)
        # Post 3 is known to the store, post 4 to this run.
        assert [(record.outcome, record.title) for record in third.items] == [
            (UPDATED, "Post 2"),
            (NEW, "Post 4"),
            (NEW, "Post 5"),
        ]
        [updated] = [record for record in third.items if record.outcome is UPDATED]
        assert updated.first_seen_at < updated.last_seen_at  # as the store has it
        check_unwritten(third)


@in_a_loop
async def test_a_store_that_cannot_be_migrated_is_refused(close_store: tuple[str, Callable[[], str]]) -> None:
    """In memory all its items would be new, and be announced again."""
    url, close = close_store
    async with LoopbackWeb({URL: ok(rss())}) as web:
        await ingest(url, web)
        with Database(url) as database:
            older = text("UPDATE alembic_version SET version_num = :version")
            database.write_now(lambda connection: connection.execute(older, {"version": VERSIONS[-2]}))
        url = close()
        with pytest.raises(StoreError):
            await ingest(url, web)
        assert len(web.seen) == 1


def test_a_command_that_only_reads_opens_an_unwritable_store_under_an_old_policy(
    close_store: tuple[str, Callable[[], str]],
) -> None:
    url, close = close_store
    with Database(url) as database:
        asyncio.run(FeedStore(database).add(URL, START))
        database.write_now(lambda connection: repin_policy(connection, ENTRY, "entry@1"))
        database.write_now(lambda connection: connection.execute(update(pinned_policies).values(announced="")))
    url = close()
    warnings: list[str] = []
    for _ in range(2):
        with open_database(url, warn=warnings.append) as database:
            assert [feed.url for feed in asyncio.run(FeedStore(database).list_all())] == [URL]
    assert len(warnings) == 2, "what cannot be recorded as said is said again"


@pytest.mark.parametrize("close", [remount_read_only, fill])
@in_a_loop
async def test_items_in_the_write_ahead_log_are_known(tmp_path: Path, close: Callable[[Path], None]) -> None:
    """A copy of a store in use has a log, but no shared-memory file, and none can be made."""
    pages = {URL: turns(ok(rss(1)), ok(rss(1, 2)), ok(rss(1, 2, 3)), ok(rss(1, 2, 3)))}
    file = tmp_path / "feeds.db"
    with mount(tmp_path / "mounted") as folder:
        async with LoopbackWeb(pages) as web:
            with Database(f"sqlite:///{file}") as database:
                await ingest(database, web)
                with database.engine.connect() as connection:
                    cursor = connection.connection.cursor()
                    assert cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
                await ingest(database, web)  # only the log has this item
                for name in (file, Path(f"{file}-wal")):
                    shutil.copy(name, folder)
            log = folder / f"{file.name}-wal"
            before = log.read_bytes()
            close(folder)
            link = tmp_path / "link.db"
            link.symlink_to(folder / file.name)
            report = await ingest(f"sqlite:///{link}", web)
            assert [(record.outcome, record.title) for record in report.items] == [(NEW, "Post 3")]
            check_unwritten(report)
            assert log.read_bytes() == before
            if close is fill:
                for filler in folder.glob("filler*"):
                    filler.unlink()
                report = await ingest(f"sqlite:///{link}", web)
                assert (counts(report), report.warnings) == ((1, 0, 2), [])


@in_a_loop
async def test_validators_of_an_unwritable_store_are_sent(close_store: tuple[str, Callable[[], str]]) -> None:
    url, close = close_store
    async with LoopbackWeb({URL: turns(ok(rss(), etag='"1"'), gone(304))}) as web:
        await ingest(url, web)
        report = await ingest(close(), web)
        assert [outcome.result for outcome in report.feeds] == [FeedResult.NO_CHANGE]
        check_unwritten(report)


@in_a_loop
async def test_a_disk_that_fills_up_during_a_run(tmp_path: Path) -> None:
    urls = [f"https://example.com/{number}" for number in range(6)]
    pages = {url: ok(feed_of(item("T", f"https://p.example.com/{url[-1]}", "guid"))) for url in urls}
    with mount(tmp_path / "mounted") as folder, Database(f"sqlite:///{folder}/feeds.db") as database:
        async with LoopbackWeb(pages) as web:
            await ingest(database, web, *urls)
            report = await ingest(database, web, *urls, on_feed=lambda _: fill(folder))
            assert counts(report) == (0, 0, 6)
            check_unwritten(report)
        for file in folder.glob("filler*"):
            file.unlink()
        async with LoopbackWeb(pages) as web:
            report = await ingest(database, web, *urls)
            assert (counts(report), unmet(report)) == ((0, 0, 6), [])


@in_a_loop
async def test_the_report_says_how_many_items_were_not_stored(tmp_path: Path) -> None:
    urls = [f"https://example.com/{number}" for number in range(5)]
    pages = {url: ok(feed_of(item("T", f"https://p.example.com/{url[-1]}", url[-1]))) for url in urls}
    with Database(f"sqlite:///{tmp_path}/feeds.db") as database:
        polled: list[object] = []

        def forbid_after_the_second(outcome: object) -> None:
            polled.append(outcome)
            if len(polled) == 2:
                forbid_writing(database)

        async with LoopbackWeb(pages) as web:
            report = await ingest(database, web, *urls, on_feed=forbid_after_the_second)
        stored = await FeedStore(database).list_items()
        assert (counts(report), len(stored), report.unstored) == ((5, 0, 0), 2, 3)
        assert [record.number is None for record in report.items] == [False, False, True, True, True]
        [detail] = [line.detail for line in report.checklist if line.name is CheckName.PERSISTED]
        assert detail == "3 new and updated items are in memory only"


@in_a_loop
async def test_items_are_reported_if_the_store_fails_after_them(tmp_path: Path) -> None:
    moved_to = "https://example.com/moved"
    with Database(f"sqlite:///{tmp_path}/feeds.db") as database:

        async def fail(*_: object, **__: object) -> None:
            raise StoreError("the disk is full")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FeedStore, "set_moved", fail)
            async with LoopbackWeb({URL: moved(moved_to), moved_to: ok(rss())}) as web:
                report = await ingest(database, web)
        assert (counts(report), report.unstored) == ((3, 0, 0), 0)
        assert [record.title for record in report.items] == ["Post 1", "Post 2", "Post 3"]
        assert len(await FeedStore(database).list_items()) == 3


@in_a_loop
async def test_a_feed_is_found_under_its_alias_and_its_first_url(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/feeds.db"
    alias = "https://example.com/old"
    async with LoopbackWeb({URL: ok(rss()), alias: ok(rss())}) as web:
        with Database(url) as database:
            await FeedStore(database).add(URL, START, [alias], origin=Origin.PERSON)
        await ingest(url, web)
        with Database(url) as database:
            forbid_writing(database)
            report = await ingest(database, web, alias, URL)
            assert counts(report) == (0, 0, 6)
            check_unwritten(report)
            assert {outcome.feed_url for outcome in report.feeds} == {URL}


@in_a_loop
async def test_an_update_is_reported_although_another_feed_of_the_run_has_shown_the_item(tmp_path: Path) -> None:
    changed = rss(1).replace("Text of 1", "A new text of 1")
    pages = {URL: ok(rss(1)), TWIN: turns(ok(rss(1)), ok(changed))}
    async with LoopbackWeb(pages) as web:
        with Database(f"sqlite:///{tmp_path}/feeds.db") as database:
            assert counts(await ingest(database, web, URL, TWIN)) == (1, 0, 1)
            forbid_writing(database)
            assert counts(await ingest(database, web, URL, TWIN)) == (0, 1, 1)


@in_a_loop
async def test_items_that_only_the_store_knows_to_be_one_are_one(tmp_path: Path) -> None:
    """The guids of the second document are ambiguous in the store, but not in memory."""
    first = [item(title, "", guid, "x") for guid, title in (("x", "A"), ("x", "B"), ("y", "C"), ("y", "D"))]
    second = [item("E", "", guid, "x") for guid in ("x", "y")]
    async with LoopbackWeb({URL: turns(ok(feed_of(*first)), ok(feed_of(*second)))}) as web:
        with Database(f"sqlite:///{tmp_path}/feeds.db") as database:
            assert counts(await ingest(database, web)) == (4, 0, 0)
            forbid_writing(database)
            assert counts(await ingest(database, web)) == (1, 0, 0)


@in_a_loop
async def test_a_store_that_cannot_be_read_either_is_not_asked(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/feeds.db"
    async with LoopbackWeb({URL: ok(rss()), TWIN: ok(rss(7))}) as web:
        await ingest(url, web)
        with Database(url) as database:
            forbid_writing(database)

            def drop_tables(_: object) -> None:
                with Database(url) as other:
                    other.write_now(
                        lambda connection: connection.execute(text("DROP TABLE IF EXISTS entry_identities"))
                    )

            report = await ingest(database, web, URL, TWIN, on_feed=drop_tables)
        assert counts(report) == (1, 0, 3)
        assert len(report.warnings) == 2
        assert unmet(report) == [CheckName.PERSISTED]


@in_a_loop
async def test_an_unfinished_rekey_of_an_unwritable_store_ends_the_run(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path}/feeds.db") as database:
        row = {"from_policy": "entry@1", "to_policy": "bookmark@1", "status": "running", "started_at": stamp(START)}
        database.write_now(lambda connection: connection.execute(insert(rekeys).values(row)))
        forbid_writing(database)
        async with LoopbackWeb({URL: ok(rss())}) as web:
            with pytest.raises(RekeyUnfinished):
                await ingest(database, web)


def test_a_store_that_was_opened_on_a_full_disk_is_written_once_there_is_space(tmp_path: Path) -> None:
    with mount(tmp_path / "mounted") as folder:
        url = f"sqlite:///{folder}/feeds.db"
        with Database(url) as database:
            asyncio.run(FeedStore(database).add(URL, START))
        fill(folder)
        with Database(url) as database:
            feeds = FeedStore(database)
            assert [feed.url for feed in asyncio.run(feeds.list_all())] == [URL]
            with pytest.raises(StoreError):
                asyncio.run(feeds.add(TWIN, START))
            for file in folder.glob("filler*"):
                file.unlink()
            asyncio.run(feeds.add(TWIN, START))
            assert len(asyncio.run(feeds.list_all())) == 2


def test_a_missing_store_on_a_read_only_file_system_is_an_error(tmp_path: Path) -> None:
    with mount(tmp_path / "mounted") as folder:
        remount_read_only(folder)
        with pytest.raises(StoreError):
            Database(f"sqlite:///{folder}/feeds.db")


def forbid_writing(database: Database) -> None:
    """Make every connection of a SQLite store refuse to write."""
    from sqlalchemy import event

    database.engine.dispose()
    event.listen(database.engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only=ON") and None)
