"""The entries of a store are rekeyed in batches that can be interrupted, and a rekey can be undone (contract N10)."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Column, Connection, Table, func, select, update

from canonry.core.keys import Item, make_place
from canonry.errors import PolicyError, RekeyUnfinished
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument, MergedFeed
from canonry.rekey import entry_key_rows, entry_rekey_store
from canonry.rekey.entry_rekey import RekeyProgress, plan_rekey, rekey, undo_rekey
from canonry.rekey.entry_rekey_store import EntryRekeyStore, RekeyProblem, RekeyRefused, stream_entry_urls
from canonry.store.database import Database
from canonry.store.pinned_policies import (
    ENTRY,
    check_pinnable,
    find_pinned,
    find_unfinished_rekey,
    get_or_pin_policy,
    repin_policy,
)
from canonry.store.schema import entries, entry_identities, metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from pathlib import Path
    from types import ModuleType

    from canonry.rekey.key_counts import RekeySummary

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
LATER, AFTERWARDS = NOW + timedelta(days=1), NOW + timedelta(days=2)  # when a rekey happens, and after it
BEFORE = "entry@1"
# They merge some keys of entry@1 and split others.
AFTERS = ("bookmark@1", "feed-aggressive@1", "exact@1", "crawl@1")
JOURNAL = {"rekeys", "rekeyed_rows"}

Dump = dict[str, list[tuple[Any, ...]]]


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    with Database(database_url) as opened:
        yield opened


@dataclass
class Feeds:
    """Feeds that are polled repeatedly, at a clock of their own."""

    database: Database
    now: datetime = NOW
    ids: dict[str, int] = field(default_factory=dict[str, int])
    policy: str | None = "entry@1"  # of a store that was made before there were other versions; None: the newest

    def show(self, url: str, *items: Item) -> MergedFeed:
        """Merge a document of the feed with these items."""
        return asyncio.run(self._show(url, items))

    def later(self) -> Feeds:
        """Move the clock to after the rekey."""
        self.now = max(self.now, AFTERWARDS)
        return self

    async def _show(self, url: str, items: tuple[Item, ...]) -> MergedFeed:
        store = FeedStore(self.database)
        if self.policy is not None:
            await self.database.write(partial(pin_first, policy=self.policy))
        if url not in self.ids:
            self.ids[url] = (await store.add(url, self.now))[0].id
        self.now += timedelta(minutes=1)
        return await store.merge(self.ids[url], FeedDocument("T", "rss20", (), items), self.now, seen_ttl_days=30)


def pin_first(connection: Connection, policy: str) -> None:
    """Pin an empty store to a policy."""
    if find_pinned(connection, ENTRY) is None:
        repin_policy(connection, ENTRY, policy)


ONE, OTHER = "https://one.example/feed", "https://other.example/feed"
DOCUMENTS = {
    ONE: (
        Item(guid="1", link="https://a.com/x?yclid=1", title="X from the search"),
        Item(guid="2", link="https://a.com/y#part-1", title="Y, part 1"),
        Item(guid="3", link="https://a.com/y#part-2", title="Y, part 2"),
        Item(guid="4", link="https://a.com/w/", title="W with a slash"),
        Item(link="https://a.com/bare/?utm_source=one", title="Without guid"),
        Item(link="https://a.com/twin", title="Twin 1"),
        Item(link="https://a.com/twin/", title="Twin 2"),
        Item(link="https://a.com/z#1", title="Z 1"),
        Item(link="https://a.com/z#2", title="Z 2"),
        Item(guid="5", title="Without link"),
        Item(title="With nothing but a title", published="today"),
        Item(guid="6", link="/relative", title="No URL"),
        Item(guid="7", link=f"https://a.com/long?q={'x' * 3000}&utm_source=one", title="Long"),
        Item(link=f"https://a.com/longer?q={'x' * 3000}#1", title="Longer"),
        Item(guid="8", link=" HTTPS://WWW.a.com/spaced ", title="Spaced"),
        Item(guid="same", link="https://a.com/s1", title="S 1"),
        Item(guid="same", link="https://a.com/s2", title="S 2"),
    ),
    OTHER: (
        Item(guid="1", link="https://a.com/x", title="X"),
        Item(guid="9", link="https://www.a.com/w", title="W"),
        Item(guid="10", link="https://a.com/bare/", title="Without guid"),
        Item(link="https://a.com/q?b=2&a=1", title="Q"),
        Item(link="https://a.com/q?a=1&b=2", title="Q as well"),
    ),
}


def fill(database: Database) -> Feeds:
    shown = Feeds(database)
    for url, items in DOCUMENTS.items():
        shown.show(url, *items)
    return shown


def fill_with_history(database: Database) -> Feeds:
    """Fill a store in which an entry has two URLs, and a feed an ambiguous place that it no longer shows."""
    shown = fill(database)
    shown.show(OTHER, *DOCUMENTS[OTHER][:2], Item(guid="10", link="https://a.com/bare-moved#x", title="Without guid"))
    shown.show(ONE, *DOCUMENTS[ONE][:2])
    return shown


def get_outcomes(merged: MergedFeed) -> list[str]:
    return [str(item.outcome) for item in merged.items]


def dump(database: Database, *, without: Iterable[str] = JOURNAL) -> Dump:
    """Return every row of every table."""

    def read(connection: Connection) -> Dump:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(select(*_columns(table)))), key=repr)
            for table in metadata.sorted_tables
            if table.name not in without
        }

    return database.read_now(read)


def _columns(table: Table) -> list[Column[Any]]:
    """Return all columns but the ids of the journal, of which PostgreSQL skips some after a crash, and random ids."""
    left_out = {("rekeyed_rows", "id"), ("change_numbers", "store_id")}
    return [column for column in table.columns if (table.name, column.name) not in left_out]


def load_url_owners(database: Database) -> dict[str, int]:
    """Return the entry of each URL."""
    i = entry_identities.c
    query = select(i.key_value, i.entry_id).where(i.key_type == "canonical_url")
    return database.read_now(lambda connection: {row[0]: row[1] for row in connection.execute(query)})


def load_canonical_urls(database: Database) -> dict[str, str]:
    query = select(entries.c.title, entries.c.canonical_url)
    return database.read_now(lambda connection: {row[0]: row[1] for row in connection.execute(query)})


def get_pin(database: Database) -> str:
    return database.write_now(lambda connection: get_or_pin_policy(connection, ENTRY))


def move(database: Database, after: str, *, before: str = BEFORE, batch: int = 3, **options: Any) -> RekeySummary:
    return asyncio.run(rekey(EntryRekeyStore(database), before, after, now=LATER, batch=batch, **options))


def undo(database: Database, after: str, *, before: str = BEFORE, batch: int = 3) -> int:
    return asyncio.run(undo_rekey(EntryRekeyStore(database), before, after, now=LATER, batch=batch))


def plan(database: Database, after: str, *, before: str = BEFORE) -> RekeySummary:
    return asyncio.run(plan_rekey(EntryRekeyStore(database), before, after))


def test_a_new_store_is_pinned_by_its_first_document(database: Database) -> None:
    assert dump(database)["pinned_policies"] == []
    Feeds(database, policy=None).show(ONE, Item(guid="1", link="https://a.com/"))
    assert dump(database)["pinned_policies"] == [("entry", "entry@2", "")]
    assert get_pin(database) == "entry@2"


def test_a_dry_run_changes_nothing(database: Database) -> None:
    fill(database)
    before = dump(database, without=())
    for after in AFTERS:
        plan(database, after)
    assert dump(database, without=()) == before


def test_a_dry_run_of_an_empty_store_pins_nothing(database: Database) -> None:
    assert asyncio.run(plan_rekey(EntryRekeyStore(database), "entry@2", "exact@1")).entries == 0
    assert dump(database)["pinned_policies"] == []


@pytest.mark.parametrize("after", AFTERS)
def test_a_rekey_does_what_its_dry_run_said(database: Database, after: str) -> None:
    fill(database)
    planned = plan(database, after)
    assert move(database, after) == planned
    assert get_pin(database) == after


def test_entries_whose_keys_merge_stay_two_entries(database: Database) -> None:
    fill(database)
    summary = move(database, "feed-aggressive@1")
    merges = {group.key: group.others for group in summary.merges}
    assert merges["https://a.com/x"] == ("https://a.com/x", "https://a.com/x?yclid=1")
    assert merges["https://a.com/w"] == ("https://a.com/w/", "https://www.a.com/w")
    assert (summary.merged, summary.split) == (4, 0)
    urls = load_canonical_urls(database)
    assert urls["X"] == urls["X from the search"] == "https://a.com/x"  # two entries still, at one URL
    first = database.read_now(
        lambda c: c.execute(select(func.min(entries.c.id)).where(entries.c.canonical_url == "https://a.com/x")).scalar()
    )
    assert load_url_owners(database)["https://a.com/x"] == first


def test_a_key_can_be_split(database: Database) -> None:
    fill(database)
    assert load_canonical_urls(database)["Y, part 1"] == load_canonical_urls(database)["Y, part 2"] == "https://a.com/y"
    summary = move(database, "exact@1")
    splits = {group.key: group.others for group in summary.splits}
    assert splits["https://a.com/y"] == ("https://a.com/y#part-1", "https://a.com/y#part-2")
    owned = load_url_owners(database)
    assert owned["https://a.com/y#part-1"] != owned["https://a.com/y#part-2"]
    assert "https://a.com/y" not in owned


def test_every_url_key_is_under_the_new_policy(database: Database) -> None:
    fill_with_history(database)
    move(database, "bookmark@1")
    rows = dump(database)["entry_identities"]
    assert {row[3] for row in rows if row[0] == "canonical_url"} == {"bookmark@1"}
    assert {row[0] for row in rows} == {"canonical_url", "guid", "legacy_guid", "fallback_hash"}


def test_dedupe_keys_made_of_the_url_follow_it(database: Database) -> None:
    fill(database)
    move(database, "feed-aggressive@1")
    found = {row[0] for row in database.read_now(lambda c: c.execute(select(entries.c.dedupe_key)).all())}
    assert {"url:https://a.com/twin", "url:https://a.com/q?a=1&b=2"} <= found
    assert not {"url:https://a.com/twin/", "url:https://a.com/q?b=2&a=1"} & found
    assert f"guid:{ONE}:1" in found


@pytest.mark.parametrize("after", AFTERS)
def test_a_rekeyed_store_recognises_its_items(database: Database, after: str) -> None:
    shown = Feeds(database)
    for url, items in DOCUMENTS.items():
        shown.show(url, *items)
    move(database, after)
    for url, items in DOCUMENTS.items():
        assert set(get_outcomes(shown.later().show(url, *items))) == {"duplicate"}, url


@pytest.mark.parametrize("after", AFTERS)
def test_a_rekeyed_store_has_the_keys_of_one_that_was_filled_under_the_policy(tmp_path: Path, after: str) -> None:
    """Compares what a document alone decides; who registers a URL also depends on other documents."""
    found: list[object] = []
    for name in ("moved", "pinned"):
        with Database(f"sqlite:///{tmp_path / name}.db") as database:
            if name == "pinned":
                _pin(database, after)
            shown = Feeds(database)
            shown.show(ONE, *(item for item in DOCUMENTS[ONE] if item.guid))
            if name == "moved":
                move(database, after)
            rows = dump(database)
            found.append((rows["entries"], rows["sightings"], [row[:2] for row in rows["pinned_policies"]]))
    assert found[0] == found[1]


def _pin(database: Database, policy: str) -> None:
    def work(connection: Connection) -> None:
        get_or_pin_policy(connection, ENTRY)
        connection.execute(update(metadata.tables["pinned_policies"]).values(policy=policy))

    database.write_now(work)


def test_items_that_get_the_same_place_stay_apart(database: Database) -> None:
    """Items without guid at one URL of a document are identified by their hash from then on."""
    shown = fill(database)
    move(database, "feed-aggressive@1")
    assert (shown.ids[ONE], "canonical_url", "//a.com/twin") in dump(database)["ambiguous_keys"]
    alone = shown.later().show(ONE, Item(link="https://a.com/twin", title="Twin 1"))
    assert get_outcomes(alone) == ["duplicate"]
    titles = database.read_now(lambda c: dict(c.execute(select(entries.c.id, entries.c.title)).all()))
    assert titles[alone.items[0].entry_id] == "Twin 1"


def test_new_items_are_ingested_under_the_new_policy(database: Database) -> None:
    shown = fill(database)
    move(database, "feed-aggressive@1")
    merged = shown.later().show(ONE, Item(guid="n", link="http://www.new.example/a/?yclid=4", title="N"))
    assert [(key.key_value, key.policy) for key in merged.items[0].keys][1] == (
        "http://new.example/a",
        "feed-aggressive@1",
    )
    assert get_outcomes(shown.later().show(ONE, Item(guid="n", link="http://www.new.example/a", title="N"))) == [
        "updated"
    ]


def test_a_rekey_does_not_mark_items_as_updated(database: Database) -> None:
    shown = fill(database)
    hashes = {row[0]: row[7] for row in dump(database)["entries"]}
    move(database, "exact@1")
    assert {row[0]: row[7] for row in dump(database)["entries"]} == hashes
    assert "updated" not in get_outcomes(shown.later().show(ONE, *DOCUMENTS[ONE]))


@pytest.mark.parametrize("after", AFTERS)
@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_undo_restores_every_row(database: Database, after: str, batch: int) -> None:
    fill_with_history(database)
    before = dump(database)
    move(database, after, batch=batch)
    assert dump(database) != before
    undo(database, after, batch=3 if batch == 1 else batch)
    assert dump(database) == before
    assert dump(database, without=())["rekeyed_rows"] == []


@pytest.mark.parametrize("after", AFTERS)
def test_a_second_rekey_back_restores_the_entries(database: Database, after: str) -> None:
    """The links are stored, so a rekey back gives the same URLs."""
    fill_with_history(database)
    before = dump(database)
    move(database, after)
    move(database, BEFORE, before=after)
    now = dump(database)
    assert (now["entries"], now["pinned_policies"]) == (before["entries"], before["pinned_policies"])
    undo(database, BEFORE, before=after)
    undo(database, after)
    assert dump(database) == before


@pytest.mark.parametrize("after", AFTERS)
def test_undo_of_a_store_that_has_new_entries_since(database: Database, after: str) -> None:
    """Entries from after the rekey are under the first policy too; the others are restored."""
    shown = fill(database)
    before = dump(database)
    move(database, after)
    new = (
        Item(guid="n1", link="https://www.n.example/a/?yclid=1&b=2#f", title="N 1"),
        Item(link="https://n.example/b?utm_source=x&z=1&a=2", title="N 2"),
        Item(link="https://n.example/c#1", title="N 3"),
        Item(link="https://n.example/c#2", title="N 4"),
    )
    later = (*DOCUMENTS[ONE], *new)
    assert get_outcomes(shown.later().show(ONE, *later))[-4:] == ["new"] * 4
    undo(database, after)
    now = dump(database)
    seen = entries.c.keys().index("last_seen_at")
    have, wanted = ({(*row[:seen], *row[seen + 1 :]) for row in each["entries"]} for each in (now, before))
    assert wanted < have
    urls = load_canonical_urls(database)
    assert urls["N 1"] == "https://www.n.example/a/?yclid=1&b=2"
    assert urls["N 2"] == "https://n.example/b?z=1&a=2"
    assert urls["N 3"] == urls["N 4"] == "https://n.example/c"
    owned = load_url_owners(database)
    assert {row[3] for row in now["entry_identities"]} == {"entry@1"}
    assert set(before["entry_identities"]) < set(now["entry_identities"])
    assert "https://n.example/b?z=1&a=2" in owned
    places = {row[3] for row in now["sightings"]}
    assert {"//n.example/a?yclid=1&b=2", "//n.example/b?z=1&a=2", "//n.example/c"} <= places
    # And it recognises all of them.
    assert set(get_outcomes(shown.later().show(ONE, *later))) == {"duplicate"}


def test_undo_of_an_entry_that_changed_since(database: Database) -> None:
    shown = fill(database)
    move(database, "feed-aggressive@1")
    changed = [
        Item(guid=item.guid, link="https://www.moved.example/x/?yclid=9", title=item.title)
        if item.guid == "1"
        else item
        for item in DOCUMENTS[ONE]
    ]
    assert get_outcomes(shown.later().show(ONE, *changed))[0] == "updated"
    undo(database, "feed-aggressive@1")
    assert load_canonical_urls(database)["X from the search"] == "https://www.moved.example/x/?yclid=9"
    owned = load_url_owners(database)
    assert owned["https://www.moved.example/x/?yclid=9"] == owned["https://a.com/x?yclid=1"]
    assert set(get_outcomes(shown.later().show(ONE, *changed))) == {"duplicate"}


def test_undo_after_a_feed_was_removed(database: Database) -> None:
    shown = fill_with_history(database)
    before = dump(database)
    move(database, "feed-aggressive@1")
    asyncio.run(FeedStore(database).remove(shown.ids[ONE], NOW))
    undo(database, "feed-aggressive@1")
    now = dump(database)
    assert set(now["entries"]) < set(before["entries"])
    assert set(now["entry_identities"]) <= set(before["entry_identities"])
    assert set(now["sightings"]) < set(before["sightings"])


def test_a_new_entry_never_gets_the_id_of_a_deleted_one(tmp_path: Path) -> None:
    """The journal of the rekey still has the deleted entry."""
    with Database(f"sqlite:///{tmp_path / 'canonry.db'}") as database:
        shown = Feeds(database)
        shown.show(ONE, Item(guid="1", link="https://a.com/1#x", title="1"))
        shown.show(OTHER, Item(link="https://a.com/2/#x", title="2"))
        move(database, "feed-aggressive@1")
        asyncio.run(FeedStore(database).remove(shown.ids.pop(OTHER), NOW))
        shown.later().show(OTHER, Item(link="https://a.com/3/#x", title="3"))
        assert max(row[0] for row in dump(database)["entries"]) == 3
        undo(database, "feed-aggressive@1")
        assert load_canonical_urls(database) == {"1": "https://a.com/1", "3": "https://a.com/3/"}
        assert set(load_url_owners(database)) == {"https://a.com/1", "https://a.com/3/"}


class Crash(Exception):
    """Stands for the end of the process."""


def crash_after(batches: int) -> Callable[[RekeyProgress], None]:
    left = [batches]

    def show(_: RekeyProgress) -> None:
        left[0] -= 1
        if not left[0]:
            raise Crash

    return show


def dump_undisturbed_rekey(tmp_path: Path, after: str) -> Dump:
    """Return the dump of a store with the same content after a rekey without a crash."""
    with Database(f"sqlite:///{tmp_path / 'undisturbed.db'}") as database:
        fill(database)
        move(database, after)
        return dump(database, without=())


@pytest.mark.parametrize("after", AFTERS)
def test_a_rekey_continues_after_a_crash_between_batches(database: Database, tmp_path: Path, after: str) -> None:
    fill(database)
    crashes = 0
    while True:
        try:
            move(database, after, batch=2, on_progress=crash_after(1))
        except Crash:
            crashes += 1
        else:
            break
        if not database.read_now(find_unfinished_rekey):
            break
    assert crashes > 5
    assert dump(database, without=()) == dump_undisturbed_rekey(tmp_path, after)


CRASH_POINTS = [
    (entry_rekey_store, "write_entries"),
    (entry_rekey_store, "write_keys"),
    (entry_key_rows, "_register_urls"),
    (entry_rekey_store, "move_places"),
    (entry_rekey_store, "_finish"),
]


@pytest.mark.parametrize("after", AFTERS)
def test_a_rekey_continues_after_a_crash_inside_a_batch(
    database: Database, tmp_path: Path, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever statement is the last of a process, the next process continues after the last whole batch."""
    fill(database)
    for module, name in CRASH_POINTS:
        for times in (1, 3):
            _crash_in(monkeypatch, database, module, name, times=times, after=after)
    move(database, after)
    assert dump(database, without=()) == dump_undisturbed_rekey(tmp_path, after)


def _crash_in(
    monkeypatch: pytest.MonkeyPatch, database: Database, module: ModuleType, name: str, *, times: int, after: str
) -> None:
    left, real = [times], getattr(module, name)

    def crash(*arguments: Any) -> Any:
        left[0] -= 1
        result = real(*arguments)
        if not left[0]:
            raise Crash
        return result

    with monkeypatch.context() as patched:
        patched.setattr(module, name, crash)
        if times == 1 or name not in {"move_places", "_finish"}:
            with pytest.raises(Crash):
                move(database, after, batch=1)


@pytest.mark.parametrize("batches", [1, 4, 100])
def test_undo_of_an_unfinished_rekey(database: Database, batches: int) -> None:
    fill_with_history(database)
    before = dump(database)
    for after in AFTERS:
        if batches < 100:
            with pytest.raises(Crash):
                move(database, after, batch=2, on_progress=crash_after(batches))
            assert dump(database) != before
        else:
            move(database, after, batch=2)
        undo(database, after)
        assert dump(database) == before


def test_an_interrupted_undo_can_be_continued(database: Database) -> None:
    fill_with_history(database)
    before = dump(database)
    move(database, "feed-aggressive@1")
    store = EntryRekeyStore(database)
    undoing = partial(undo_rekey, store, BEFORE, "feed-aggressive@1", now=LATER, batch=2)
    for _ in range(4):
        with pytest.raises(Crash):
            asyncio.run(undoing(on_progress=crash_after(1)))
    with pytest.raises(RekeyUnfinished):
        move(database, "feed-aggressive@1")
    asyncio.run(undoing())
    assert dump(database) == before


def test_nothing_is_ingested_while_a_rekey_is_unfinished(database: Database) -> None:
    shown = fill(database)
    with pytest.raises(Crash):
        move(database, "exact@1", on_progress=crash_after(2))
    before = dump(database, without=())
    with pytest.raises(RekeyUnfinished):
        shown.later().show(ONE, *DOCUMENTS[ONE])
    assert dump(database, without=()) == before
    for other in (("entry@1", "bookmark@1"), ("exact@1", "entry@1")):
        with pytest.raises(RekeyUnfinished):
            move(database, other[1], before=other[0])
        with pytest.raises(RekeyUnfinished):
            plan(database, other[1], before=other[0])
    move(database, "exact@1")
    assert set(get_outcomes(shown.later().show(ONE, *DOCUMENTS[ONE]))) == {"duplicate"}


def find_problem(call: Callable[..., object], *arguments: Any, **options: Any) -> RekeyProblem:
    with pytest.raises(RekeyRefused) as caught:
        call(*arguments, **options)
    return caught.value.kind


def test_a_rekey_must_start_from_the_policy_of_the_store(database: Database) -> None:
    fill(database)
    for call in (move, plan):
        assert find_problem(call, database, "exact@1", before="bookmark@1") is RekeyProblem.OTHER_POLICY
    assert find_problem(undo, database, "exact@1") is RekeyProblem.NOTHING_TO_UNDO
    move(database, "exact@1")
    move(database, "bookmark@1", before="exact@1")
    assert find_problem(undo, database, "exact@1") is RekeyProblem.NOTHING_TO_UNDO


def test_a_finished_rekey_or_undo_can_be_repeated(database: Database) -> None:
    """A process may die after its last transaction and be started again."""
    fill(database)
    before = dump(database)
    first = move(database, "exact@1")
    rows = dump(database, without=())
    assert move(database, "exact@1") == first
    assert dump(database, without=()) == rows
    undo(database, "exact@1")
    assert undo(database, "exact@1") == len(before["entries"])
    assert dump(database) == before
    move(database, "exact@1")
    assert [row[:2] for row in dump(database)["pinned_policies"]] == [("entry", "exact@1")]


def test_only_shipped_policies_can_be_pinned() -> None:
    assert (check_pinnable("entry"), check_pinnable("entry@1")) == ("entry@2", "entry@1")
    for name in ("my.toml", "nope"):
        with pytest.raises(PolicyError):
            check_pinnable(name)


def test_two_processes_share_the_work(database_url: str, tmp_path: Path) -> None:
    with Database(database_url) as one, Database(database_url) as other:
        fill(one)

        async def both() -> list[RekeySummary]:
            runs = (
                rekey(EntryRekeyStore(each), BEFORE, "feed-aggressive@1", now=LATER, batch=1) for each in (one, other)
            )
            return await asyncio.gather(*runs)

        first, second = asyncio.run(both())
        assert first == second
        assert dump(one, without=()) == dump_undisturbed_rekey(tmp_path, "feed-aggressive@1")


def test_a_rekey_that_another_process_undoes_stops(database: Database) -> None:
    fill(database)

    async def story() -> None:
        store = EntryRekeyStore(database)
        state = await store.begin(BEFORE, "exact@1", NOW)
        await store.move_batch(state.id, 2, NOW)
        await store.begin_undo(BEFORE, "exact@1")
        with pytest.raises(RekeyRefused) as caught:
            await store.move_batch(state.id, 2, NOW)
        assert caught.value.kind is RekeyProblem.ENDED_ELSEWHERE

    asyncio.run(story())


def test_documents_merged_during_a_rekey_are_under_one_policy_or_refused(database_url: str) -> None:
    """Documents arrive while a rekey begins, runs and ends."""
    with Database(database_url) as database, Database(database_url) as other:
        shown = fill(database)
        store = FeedStore(other)

        async def ingest() -> int:
            refused = 0
            for number in range(60):
                item = Item(guid=f"i{number}", link=f"https://n.example/{number}/?yclid=1#f", title=str(number))
                document = FeedDocument("T", "rss20", (), (item,))
                try:
                    await store.merge(shown.ids[ONE], document, AFTERWARDS, seen_ttl_days=30)
                except RekeyUnfinished:
                    refused += 1
                await asyncio.sleep(0)
            return refused

        async def both() -> None:
            await asyncio.gather(
                ingest(), rekey(EntryRekeyStore(database), BEFORE, "feed-aggressive@1", now=LATER, batch=1)
            )

        asyncio.run(both())
        new = [row for row in dump(database)["entries"] if row[3].startswith("https://n.example")]
        assert {row[4] for row in new} <= {f"https://n.example/{number}" for number in range(60)}
        assert {row[3] for row in dump(database)["entry_identities"] if row[0] == "canonical_url"} == {
            "feed-aggressive@1"
        }


def test_the_urls_of_all_entries_are_streamed(database: Database) -> None:
    fill(database)
    urls = database.read_now(lambda connection: list(stream_entry_urls(connection, page_rows=2)))
    assert len(urls) == len([row for row in dump(database)["entries"] if row[4]])
    assert "https://a.com/y#part-1" in urls


@pytest.mark.slow
def test_random_stores_can_be_rekeyed_and_restored(tmp_path: Path) -> None:
    """With any batch size, a rekeyed store recognises its items, and an undo restores every row."""
    for seed in range(15):
        chance = random.Random(seed)
        with Database(f"sqlite:///{tmp_path / str(seed)}.db") as database:
            shown = Feeds(database)
            documents = {url: random_items(chance) for url in (ONE, OTHER)}
            for url in (ONE, OTHER, ONE):
                shown.show(url, *documents[url])
            before, after = dump(database), chance.choice(AFTERS)
            move(database, after, batch=chance.randint(1, 7))
            rekeyed = dump(database)
            undo(database, after, batch=chance.randint(1, 7))
            assert dump(database) == before, (seed, after)
            move(database, after, batch=chance.randint(1, 7))
            assert dump(database) == rekeyed, (seed, after)
            for url in (ONE, OTHER):
                found = get_outcomes(shown.later().show(url, *documents[url]))
                if after != "exact@1":  # which tells links apart of which a store keeps one for both feeds
                    assert "new" not in found, (seed, after, url)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A store in which keys merge, split and have to be staged, in all parts of the table."""
    file = tmp_path / "large.db"
    with Database(f"sqlite:///{file}") as database:
        shown = Feeds(database)
        for feed in range(4):
            shown.show(f"https://{feed}.example/feed", *(_large_item(feed, number) for number in range(500)))
    return file


def _large_item(feed: int, number: int) -> Item:
    path = f"{(feed * 500 + number * 7) % 1600}{'/' * (number % 2)}"
    link = f"https://{'www.' * (feed % 2)}a.com/{path}?b={number % 3}&a=1{'&yclid=1' * (feed > 1)}#{number % 5}"
    return Item(guid=f"{feed}-{number}" if number % 4 else "", link=link, title=f"{feed} {number}")


def command(file: Path, *arguments: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "canonry",
        "rekey",
        BEFORE,
        "feed-aggressive@1",
        "--db",
        f"sqlite:///{file}",
        *arguments,
    ]


def dump_file(file: Path) -> Dump:
    with Database(f"sqlite:///{file}") as database:
        rows = dump(database)
    # Which newer version the user was told about is no key.
    return {**rows, "pinned_policies": [row[:2] for row in rows["pinned_policies"]]}


@pytest.mark.slow
def test_a_rekey_survives_kill_at_any_moment(large: Path, tmp_path: Path) -> None:
    """kill -9 of real processes during rekey and undo; a last clean run gives the same rows as without kills."""
    undisturbed = tmp_path / "undisturbed.db"
    shutil.copy(large, undisturbed)
    before = dump_file(large)
    subprocess.run(command(undisturbed), check=True, capture_output=True)
    after = dump_file(undisturbed)
    assert after != before
    chance, killed, arguments = random.Random(7), 0, ["--batch", "4"]
    moments: set[tuple[str, int]] = set()
    while killed < 6:
        with subprocess.Popen(command(large, *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            _wait_for_batches(process, large, chance.randint(1, 40))
            process.send_signal(signal.SIGKILL)
            _, errors = process.communicate()
        assert process.returncode in {0, -signal.SIGKILL}, errors
        killed += process.returncode != 0
        with closing(sqlite3.connect(large)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            rows = connection.execute("SELECT status, position FROM rekeys ORDER BY id DESC LIMIT 1").fetchall()
        if rows and rows[0][0] in {"done", "undone"}:
            is_done = rows[0][0] == "done"
            assert dump_file(large) == (after if is_done else before)
            arguments = ["--batch", "4", *(["--undo"] if is_done else [])]
        moments.update(rows)
    assert len(moments) > 3  # the kills came at different moments
    subprocess.run(command(large, *arguments), check=True, capture_output=True)
    if "--undo" in arguments:
        assert dump_file(large) == before
        subprocess.run(command(large), check=True, capture_output=True)
    assert dump_file(large) == after
    subprocess.run(command(large, "--undo"), check=True, capture_output=True)
    assert dump_file(large) == before


def _wait_for_batches(process: subprocess.Popen[bytes], file: Path, count: int) -> None:
    """Wait until this many transactions were seen, or the process has ended."""
    with closing(sqlite3.connect(file)) as connection:
        query = "SELECT id, status, position FROM rekeys ORDER BY id DESC LIMIT 1"
        seen = connection.execute(query).fetchall()
        while count and process.poll() is None:
            current = connection.execute(query).fetchall()
            count -= current != seen
            seen = current
            time.sleep(0.001)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_entries(large: Path, tmp_path: Path) -> None:
    count = 10_000
    huge = tmp_path / "huge.db"
    shutil.copy(large, huge)
    with closing(sqlite3.connect(huge)) as connection, connection:
        have = connection.execute("SELECT max(id) FROM entries").fetchone()[0]
        new = range(have + 1, count + 1)
        links = {number: f"https://www.b.com/{number // 2}/?n={number % 2}&yclid={number}#{number}" for number in new}
        connection.executemany(
            "INSERT INTO entries (id, dedupe_key, guid, url, canonical_url, title, match_confidence, first_seen_at,"
            " last_seen_at, place) VALUES (?, 'guid:' || ?, ?, ?, ?, 'T', 'high', '2026', '2026', ?)",
            [
                (number, number, number, link, link.partition("#")[0], make_place(link.partition("#")[0]))
                for number, link in links.items()
            ],
        )
        connection.executemany(
            "INSERT INTO entry_identities VALUES ('canonical_url', ?, ?, 'entry@1')",
            [(link.partition("#")[0], number) for number, link in links.items()],
        )
        connection.executemany(
            "INSERT INTO sightings (feed_id, entry_id, guid, place, title, published, content_hash, document,"
            " first_seen_at, last_seen_at) VALUES (1, ?, ?, ?, 'T', '', '', 1, '2026', '2026')",
            [(number, number, make_place(link.partition("#")[0])) for number, link in links.items()],
        )
    before = dump_file(huge)
    small, _ = _measure(command(large))
    for name, arguments in (("dry run", ["--dry-run"]), ("rekey", []), ("undo", ["--undo"])):
        memory, seconds = _measure(command(huge, *arguments))
        print(f"{name}: {count / seconds:,.0f} entries/s, {memory:.0f} MiB (2,000 entries: {small:.0f} MiB)")
        assert memory < small + 20, name
    assert dump_file(huge) == before


def _measure(command: list[str]) -> tuple[float, float]:
    """Return the peak memory in MiB, and the seconds."""
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024, time.monotonic() - start


def random_items(chance: random.Random) -> list[Item]:
    items: dict[str, Item] = {}
    for number in range(chance.randint(1, 12)):
        host = chance.choice(("a.com", "www.a.com", "A.com"))
        path = chance.choice(("x", "x/", "y", "%7Ey", "z//"))
        query = chance.choice(("", "?utm_source=f", "?yclid=1", "?b=1&a=2", "?a=2&b=1"))
        fragment = chance.choice(("", "", "#1", "#2"))
        guid = chance.choice(("", f"g{number}", "same"))
        link = f"{chance.choice(('http', 'https'))}://{host}/{path}{query}{fragment}"
        items[f"{guid} {link}"] = Item(guid=guid, link=link, title=f"T {number}", published=chance.choice(("", "now")))
    return list(items.values())
