"""A file of changes: complete after a kill at any moment, for the feeds that were polled into it (contract I8, I10)."""

from __future__ import annotations

import asyncio
import json
import resource
import shutil
import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from canonry.core.keys import Item
from canonry.errors import CanonryError
from canonry.feeds import change_file
from canonry.feeds.change_file import ChangeFile, OutputPosition, extend_position
from canonry.feeds.changes import ChangeBounds, ChangeFeed
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canonry.feeds.ingest_report import ItemRecord

START = datetime(2026, 1, 1, tzinfo=UTC)
BOUNDS = ChangeBounds(last=7, store_id="s")
EXTENSIONS = [
    # why                          stored                                      feeds of the run   wanted
    ("a new file begins now", None, [1], OutputPosition(7, frozenset({1}))),
    ("a new file of all feeds", None, None, OutputPosition(7, None)),
    ("the position stays", OutputPosition(3, frozenset({1})), [1], OutputPosition(3, frozenset({1}))),
    ("feeds are added", OutputPosition(3, frozenset({1})), [2], OutputPosition(3, frozenset({1, 2}))),
    ("all feeds", OutputPosition(3, frozenset({1})), None, OutputPosition(3, None)),
    ("all feeds stay all", OutputPosition(3, None), [2], OutputPosition(3, None)),
]


@pytest.mark.parametrize(
    ("stored", "feeds", "wanted"), [row[1:] for row in EXTENSIONS], ids=[row[0] for row in EXTENSIONS]
)
def test_a_run_continues_at_the_position_of_the_file(
    stored: OutputPosition | None, feeds: list[int] | None, wanted: OutputPosition
) -> None:
    assert extend_position(stored, BOUNDS, feeds) == wanted


class Output:
    """A store and a file of its changes; `open` is what a new process does."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.feeds = FeedStore(database)
        self.path = folder / "new.jsonl"
        self.position = folder / "new.jsonl.position"
        self.warnings: list[str] = []

    def open(self, feeds: list[int] | None = None) -> ChangeFile:
        file = ChangeFile(self.path, ChangeFeed(self.database), format_record=format_guid, warn=self.warnings.append)
        asyncio.run(file.start(feeds))
        return file

    def write(self, feeds: list[int] | None = None) -> int:
        return asyncio.run(self.open(feeds).write_new())

    def add(self, url: str) -> int:
        return asyncio.run(self.feeds.add(url, START))[0].id

    def show(self, feed: int, *guids: str, day: int = 0) -> None:
        document = FeedDocument(title="A", format="rss", hubs=(), items=tuple(map(Item, guids)))
        asyncio.run(self.feeds.merge(feed, document, START + timedelta(days=day), seen_ttl_days=30))

    @property
    def guids(self) -> list[str]:
        return [json.loads(line)["guid"] for line in self.path.read_text().splitlines()]


def format_guid(record: ItemRecord) -> str:
    return json.dumps({"guid": record.guid})


@pytest.fixture
def output(sqlite_url: str, tmp_path: Path) -> Iterator[Output]:
    with Database(sqlite_url) as database:
        yield Output(database, tmp_path)


def test_a_process_that_ended_after_the_commit_is_continued(output: Output) -> None:
    feed = output.add("https://a.com/feed")
    output.open()
    output.show(feed, "1", "2")  # and the process is killed before it writes
    assert output.write() == 2
    assert output.write() == 0
    assert output.guids == ["1", "2"]


def test_a_process_that_ended_before_it_saved_the_position_writes_again(output: Output, tmp_path: Path) -> None:
    feed = output.add("https://a.com/feed")
    output.open()
    shutil.copy(output.position, tmp_path / "kept")
    output.show(feed, "1")
    output.write()
    shutil.copy(tmp_path / "kept", output.position)
    output.path.write_text(output.path.read_text()[:-5])  # and in the middle of a line
    assert output.write() == 1
    lines = output.path.read_text().splitlines()
    assert json.loads(lines[-1]) == {"guid": "1"}
    assert len(lines) == 2


def test_a_full_disk_leaves_no_half_line_and_the_next_run_writes_all(output: Output) -> None:
    feed = output.add("https://a.com/feed")
    file = output.open()
    output.show(feed, *[f"{number:0100}" for number in range(10)])
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (350, limit[1]))  # three lines and a half
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            asyncio.run(file.write_new())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.filename == str(output.path)
    assert output.path.read_bytes() == b""
    assert output.write() == 10
    assert len(output.guids) == 10


def test_a_new_file_begins_with_what_comes_then(output: Output) -> None:
    feed = output.add("https://a.com/feed")
    output.show(feed, "1")
    output.open()
    output.show(feed, "1", "2", day=1)
    output.write()
    assert output.guids == ["2"]


def test_a_file_has_the_feeds_that_were_polled_into_it(output: Output) -> None:
    one, other, third = (output.add(f"https://{name}.com/feed") for name in "abc")
    output.open([one])
    output.show(one, "a1")
    output.show(other, "b1")
    output.show(third, "c1")
    output.write([other])  # the item of the first run must not be lost
    output.show(one, "a1", "a2", day=1)
    output.show(third, "c1", "c2", day=1)
    output.write([other])
    output.write([third])
    assert output.guids == ["a1", "b1", "a2"]
    output.write()
    output.show(third, "c1", "c2", "c3", day=2)
    output.write([one])
    assert output.guids == ["a1", "b1", "a2", "c3"]


def test_a_file_that_was_moved_away_is_begun_again_without_repeats(output: Output, tmp_path: Path) -> None:
    feed = output.add("https://a.com/feed")
    output.open()
    output.show(feed, "1")
    output.write()
    output.path.rename(tmp_path / "old.jsonl")
    output.show(feed, "1", "2", day=1)
    output.write()
    assert output.guids == ["2"]


def test_more_changes_than_a_page_are_all_written(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_file, "MAX_PAGE_CHANGES", 3)
    feed = output.add("https://a.com/feed")
    output.open()
    output.show(feed, *[str(number) for number in range(10)])
    assert output.write() == 10
    assert output.guids == [str(number) for number in range(10)]


def test_changes_that_are_no_longer_stored_are_reported(output: Output) -> None:
    feed = output.add("https://a.com/feed")
    output.open()
    output.show(feed, "1", "2")
    output.show(feed, "1", "2", "3", day=5)
    asyncio.run(ChangeFeed(output.database).delete_before(START + timedelta(days=1)))
    assert output.write() == 1
    assert output.guids == ["3"]
    assert len(output.warnings) == 1


def test_two_stores_may_share_a_file(output: Output, tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path / 'other.db'}") as database:
        other = Output(database, tmp_path)
        output.open()
        other.open()
        output.show(output.add("https://a.com/feed"), "1")
        other.show(other.add("https://a.com/feed"), "2")
        assert (output.write(), other.write(), output.write()) == (1, 1, 0)
    assert output.guids == ["1", "2"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 1}', '{"x": {"after": "y", "feeds": null}}'])
def test_a_damaged_position_is_refused(output: Output, text: str) -> None:
    output.position.write_text(text)
    with pytest.raises(CanonryError):
        output.open()
    assert output.position.read_text() == text


def test_two_processes_write_each_change_once(output: Output) -> None:
    feed = output.add("https://a.com/feed")
    one, other = output.open(), output.open()

    async def write_both() -> tuple[int, int]:
        return await asyncio.gather(one.write_new(), other.write_new())

    output.show(feed, *[str(number) for number in range(50)])
    assert sum(asyncio.run(write_both())) == 50
    assert output.guids == [str(number) for number in range(50)]
