"""Bookmarks are rekeyed with a preview, and a rekey is undone row by row (contract B7, N10)."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Connection, insert, select, update

from canonry.bookmarks.bookmark import Bookmark, BookmarkUrl, OnDuplicate
from canonry.bookmarks.bookmark_rows import dump_url, make_empty_row, make_key
from canonry.bookmarks.bookmark_store import BookmarkStore, change_bookmark, load_bookmark
from canonry.bookmarks.search_words import make_search_columns
from canonry.bookmarks.statistics import Statistics
from canonry.bookmarks.url_pipeline import UrlPipeline
from canonry.core import configured_overrides
from canonry.core.native import normalize
from canonry.core.overrides import parse_overrides
from canonry.errors import AlreadySaved, RekeyNotFound, RekeyUnfinished
from canonry.rekey.bookmark_rekey import finish_rekey, plan_bookmark_rekey, rekey_url
from canonry.rekey.bookmark_rekey_store import BookmarkRekey, BookmarkRekeyStore
from canonry.store.database import Database
from canonry.store.pinned_policies import BOOKMARK, announce_newer, get_policy, repin_policy
from canonry.store.schema import bookmark_merges, bookmarks, pinned_policies, rekeyed_bookmarks, stamp

if TYPE_CHECKING:
    from collections.abc import Generator

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
URLS = (
    (1, "https://example.com/a?fb_ref=1"),
    (1, "https://example.com/a"),
    (1, "https://old.reddit.com/r/python/comments/1abcde/a_title/"),
    (1, "https://www.reddit.com/r/python/comments/1abcde/"),
    (1, "https://redd.it/1abcde"),
    (1, "https://example.com/b"),
    (2, "https://example.com/a?fb_ref=2"),
    (2, "https://youtu.be/dQw4w9WgXcQ"),
)


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    with Database(database_url) as opened:
        opened.write_now(fill)
        yield opened


def fill(connection: Connection) -> None:
    """Save bookmarks as a store that is pinned to bookmark@1 has them."""
    repin_policy(connection, BOOKMARK, "bookmark@1")
    connection.execute(update(pinned_policies).values(announced=""))  # bookmark@2 came later
    for number, (owner, url) in enumerate(URLS, 1):
        add(connection, owner, url, policy="bookmark@1", title=f"Title {number}")


def add(connection: Connection, owner: int, url: str, *, policy: str, title: str = "") -> None:
    normalized = normalize(url, policy)
    saved = BookmarkUrl(normalized, url if url != normalized else None, normalized, exact_url=False, policy=policy)
    row: dict[str, Any] = {**make_empty_row(), **dump_url(saved), "owner_id": owner, "key": make_key(normalized)}
    row |= {"title": title, "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
    connection.execute(insert(bookmarks).values({**row, **make_search_columns(row)}))


def dump(database: Database) -> list[dict[str, Any]]:
    query = select(bookmarks).order_by(bookmarks.c.id)
    return [dict(row) for row in database.read_now(lambda connection: connection.execute(query).mappings().all())]


def clock() -> datetime:
    return NOW


def rekey(database: Database, policy: str = "bookmark@2") -> BookmarkRekey:
    async def run() -> BookmarkRekey:
        store = BookmarkRekeyStore(database)
        return await finish_rekey(store, (await store.start(policy, NOW)).id, clock=clock)

    return asyncio.run(run())


def undo(database: Database, rekey_id: int) -> BookmarkRekey:
    async def run() -> BookmarkRekey:
        store = BookmarkRekeyStore(database)
        later = NOW + timedelta(hours=1)
        await store.start_undo(rekey_id, later)
        return await finish_rekey(store, rekey_id, clock=lambda: later)

    return asyncio.run(run())


def test_a_preview_changes_nothing_and_says_what_the_rekey_does(database: Database) -> None:
    before = dump(database)
    plan = asyncio.run(plan_bookmark_rekey(BookmarkRekeyStore(database), "bookmark@2"))
    assert dump(database) == before
    assert (plan.before, plan.after, plan.entries) == ("bookmark@1", "bookmark@2", len(URLS))
    assert plan.merged == 2  # of one owner: /a and the post of reddit; two owners never merge
    assert {group.key for group in plan.merges} >= {"https://example.com/a"}
    moved = rekey(database)
    assert moved.changed == plan.changed
    assert moved.merged == 3  # three addresses of the post become one
    assert len(dump(database)) == len(before) - 3
    assert {row["policy"] for row in dump(database)} == {"bookmark@2"}
    assert moved.is_over


def test_an_undo_restores_every_row(database: Database) -> None:
    before = dump(database)
    undone = undo(database, rekey(database).id)
    assert undone.undone_at is not None
    assert dump(database) == before
    assert database.read_now(lambda connection: get_policy(connection, BOOKMARK)) == "bookmark@1"
    assert database.read_now(lambda connection: connection.execute(select(rekeyed_bookmarks)).all()) == []
    merges = database.read_now(
        lambda connection: connection.execute(select(bookmark_merges.c.undone_at)).scalars().all()
    )
    assert None not in merges
    assert rekey(database).id != undone.id  # and forth again
    assert undo(database, undone.id + 1).undone_at is not None
    assert dump(database) == before


def test_an_undo_restores_what_is_known_about_pages(database: Database) -> None:
    """Pages are not fetched once more, and those that could not be read are not tried again."""
    states = ({"page_state": "read"}, {"page_state": "failed", "page_attempts": 6}, {"page_state": "none"})

    def note_pages(connection: Connection) -> None:
        for number in range(len(URLS)):
            connection.execute(update(bookmarks).where(bookmarks.c.id == number + 1).values(states[number % 3]))

    database.write_now(note_pages)
    before = dump(database)
    moved = rekey(database)
    assert {row["page_state"] for row in dump(database)} > {"pending"}  # those with another URL are read again
    undo(database, moved.id)
    assert dump(database) == before


def test_an_undo_restores_a_bookmark_in_the_trash_whose_url_was_saved_again(database: Database) -> None:
    """Its key says so: a restore from the trash beside its twin must be refused, as before."""
    store = BookmarkStore(database)
    asyncio.run(store.trash(1, 6, NOW))
    url = BookmarkUrl("https://example.com/b", None, "https://example.com/b", exact_url=False, policy="bookmark@1")
    asyncio.run(store.put(1, url, {"title": "Again"}, NOW))
    before = dump(database)
    undo(database, rekey(database).id)
    assert dump(database) == before
    with pytest.raises(AlreadySaved):
        asyncio.run(store.restore(1, 6, NOW))


def test_an_unfinished_rekey_can_be_undone(database: Database) -> None:
    before = dump(database)

    async def move_some() -> int:
        from functools import partial

        from canonry.rekey.bookmark_rekey import rekey_url

        store = BookmarkRekeyStore(database)
        started = await store.start("bookmark@2", NOW)
        assert await store.move_batch(started.id, partial(rekey_url, to_policy="bookmark@2"), NOW, size=3)
        return started.id

    undo(database, asyncio.run(move_some()))
    assert dump(database) == before


def test_what_a_user_wrote_after_the_rekey_stays(database: Database) -> None:
    before = {row["id"]: row for row in dump(database)}
    moved = rekey(database)

    def edit(connection: Connection) -> None:
        row = connection.execute(select(bookmarks).where(bookmarks.c.id == 3)).mappings().one()
        values = {"title": "Mine", "updated_at": "2026-02-01T00:00:00Z"}
        values |= make_search_columns({**row, **values})
        connection.execute(update(bookmarks).where(bookmarks.c.id == 3).values(values))
        add(connection, 1, "https://example.com/new?fb_ref=3", policy="bookmark@2", title="New")

    database.write_now(edit)
    undo(database, moved.id)
    after = {row["id"]: row for row in dump(database)}
    assert set(after) == {*before, max(after)}  # nothing lost, and the new one is still there
    assert (after[3]["title"], after[3]["url"]) == ("Mine", before[3]["url"])
    assert after[max(after)]["url"] == "https://example.com/new?fb_ref=3"
    assert {row["policy"] for row in after.values()} == {"bookmark@1"}


def test_every_kind_of_edit_after_the_rekey_stays(database: Database) -> None:
    """Also one that search does not see, and the URL of a bookmark that others were merged with."""
    before = {row["id"]: row for row in dump(database)}
    moved = rekey(database)
    edits = BookmarkStore(database)
    url = BookmarkUrl("https://example.com/mine", None, "https://example.com/mine", False, "bookmark@2")
    edited = asyncio.run(edits.edit(1, 3, {"to_read": True}, NOW + timedelta(minutes=1)))
    asyncio.run(edits.edit(1, 1, {}, NOW + timedelta(minutes=1), url=url))
    asyncio.run(edits.edit(2, 7, {"private": True}, NOW + timedelta(minutes=1)))
    undo(database, moved.id)
    after = {row["id"]: row for row in dump(database)}
    assert set(after) == set(before)
    assert (after[3]["to_read"], after[3]["url"], after[3]["updated_at"]) == (
        1,
        before[3]["url"],
        stamp(NOW + timedelta(hours=1)),
    )
    assert after[3]["updated_at"] > edited.updated_at
    assert after[1]["url"] == "https://example.com/mine"
    assert (after[7]["private"], after[7]["url"]) == (1, before[7]["url"])
    assert after[7]["updated_at"] != before[7]["updated_at"]
    assert {row["policy"] for row in after.values()} == {"bookmark@1"}


def test_undoing_two_rekeys_restores_every_row_if_the_second_began_before_the_first_ended(database: Database) -> None:
    """As when a second learned rule is accepted while the bookmarks are still moved for the first."""
    before = dump(database)
    store = BookmarkRekeyStore(database)

    async def move_some() -> int:
        started = await store.start("bookmark@2", NOW)
        assert await store.move_batch(started.id, partial(rekey_url, to_policy="bookmark@2"), NOW, size=2)
        return started.id

    first = asyncio.run(move_some())
    second = rekey(database, "crawl@2")
    undo(database, second.id)
    assert {row["policy"] for row in dump(database)} == {"bookmark@2"}
    undo(database, first)
    assert dump(database) == before


def test_a_url_that_was_saved_again_does_not_stop_the_undo(database: Database) -> None:
    before = dump(database)
    moved = rekey(database)

    def save_again(connection: Connection) -> None:
        add(connection, 1, "https://example.com/a?fb_ref=1", policy="exact@1")
        connection.execute(update(bookmarks).where(bookmarks.c.policy == "exact@1").values(policy="bookmark@1"))

    database.write_now(save_again)
    undo(database, moved.id)
    assert {row["url"] for row in dump(database)} == {row["url"] for row in before}
    assert len(dump(database)) == len(before) + 1


def test_an_undo_is_refused_if_a_later_rekey_was_not_undone(database: Database) -> None:
    first = rekey(database)
    second = rekey(database, "exact@1")
    with pytest.raises(RekeyUnfinished):
        undo(database, first.id)
    store = BookmarkRekeyStore(database)
    asyncio.run(store.start_undo(second.id, NOW))
    with pytest.raises(RekeyUnfinished, match="Wait for it"):
        undo(database, first.id)
    undo(database, second.id)
    undo(database, first.id)
    with pytest.raises(RekeyNotFound):
        undo(database, 99)


def test_a_rekey_from_a_policy_that_is_no_longer_pinned_is_refused(database: Database) -> None:
    """Of two rules that are accepted at the same time, the second must not take the first one back."""
    store = BookmarkRekeyStore(database)
    with pytest.raises(RekeyUnfinished, match="bookmark@1"):
        asyncio.run(store.start("bookmark@2", NOW, from_policy="exact@1"))
    assert asyncio.run(store.start("bookmark@2", NOW, from_policy="bookmark@1")).from_policy == "bookmark@1"


def test_a_new_store_starts_with_the_newest_policy_and_an_old_one_prints_a_note_once(database: Database) -> None:
    told = database.write_now(announce_newer)
    assert [(each.purpose, each.pinned, each.newest) for each in told] == [("bookmark", "bookmark@1", "bookmark@2")]
    assert "canonry rekey bookmark@1 bookmark@2" in str(told[0])
    assert database.write_now(announce_newer) == []
    rekey(database)
    database.write_now(lambda connection: connection.execute(update(pinned_policies).values(announced="")))
    assert database.write_now(announce_newer) == []


def configure(monkeypatch: pytest.MonkeyPatch, parameter: str | None = None) -> str:
    """Begin a new process whose overrides file drops a parameter, or is gone; return the id of the policy."""
    monkeypatch.setattr(configured_overrides, "_remembered", {})
    if parameter is None:
        return ""
    rule = {"match": {"host": "example.com"}, "drop_query_params": [parameter], "rewrite_rules": []}
    overrides = parse_overrides(json.dumps({"overrides": [rule]}), "a file")
    configured_overrides.remember_overrides(overrides)
    return f"article@1+{overrides.digest[:8]}"


def test_a_store_keeps_the_overrides_of_its_bookmarks(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    rekey(database, configure(monkeypatch, "old"))
    configure(monkeypatch)

    async def expand(_: str) -> None:
        raise AssertionError("no short link")

    async def run() -> str:
        pipeline = UrlPipeline(database, expand, statistics=Statistics(database), clock=clock)  # type: ignore[arg-type]
        return (await pipeline.preview("https://example.com/?old=1&b=2")).url

    assert asyncio.run(run()) == "https://example.com/?b=2"


def test_another_process_finishes_the_undo_of_a_rekey(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    before = configure(monkeypatch, "old")
    rekey(database, before)
    done = rekey(database, after := configure(monkeypatch, "new"))
    database.write_now(lambda connection: add(connection, 1, "https://example.com/?old=1&new=2", policy=after))
    store = BookmarkRekeyStore(database)
    asyncio.run(store.start_undo(done.id, NOW))
    configure(monkeypatch)
    assert asyncio.run(finish_rekey(store, done.id, clock=clock)).undone_at is not None
    assert dump(database)[-1]["url"] == "https://example.com/?new=2"


def test_a_duplicate_that_was_saved_on_purpose_stays_if_its_url_does(database: Database) -> None:
    url = BookmarkUrl("https://example.com/b", None, "https://example.com/b", exact_url=False, policy="bookmark@1")
    put = BookmarkStore(database).put(1, url, {"title": "Again"}, NOW, on_duplicate=OnDuplicate.ALLOW)
    saved = asyncio.run(put).bookmark
    rekey(database)
    titles = [row["title"] for row in dump(database) if row["url"] == url.url]
    assert titles == ["Title 6", saved.title]


def test_an_undo_waits_for_the_batch_that_another_process_moves(database: Database) -> None:
    """On PostgreSQL other transactions write meanwhile; SQLite has one writer."""
    if database.is_sqlite:
        return
    before, store = dump(database), BookmarkRekeyStore(database)
    started = asyncio.run(store.start("bookmark@2", NOW))
    undoing = Thread(target=undo, args=(database, started.id))

    def undo_meanwhile(bookmark: Bookmark) -> BookmarkUrl | None:
        if undoing.ident is None:
            undoing.start()
            undoing.join(timeout=1)  # it would end now if it did not wait
        return rekey_url(bookmark, "bookmark@2")

    asyncio.run(store.move_batch(started.id, undo_meanwhile, NOW))
    undoing.join()
    assert dump(database) == before


def test_a_large_batch_is_undone(database: Database) -> None:
    """A statement has a limited number of parameters."""

    def fill(connection: Connection) -> None:
        rows = [
            {"rekey_id": started.id, "bookmark_id": 10**6, "row": json.dumps({"new_url": "https://gone.example/"})}
        ] * 70_000
        connection.execute(insert(rekeyed_bookmarks), rows)

    store = BookmarkRekeyStore(database)
    started = asyncio.run(store.start("bookmark@2", NOW))
    database.write_now(fill)
    asyncio.run(store.start_undo(started.id, NOW))
    assert asyncio.run(finish_rekey(store, started.id, clock=clock, size=70_000)).undone_at is not None


def test_an_edit_during_a_batch_is_kept(database: Database) -> None:
    """On PostgreSQL other transactions write meanwhile; SQLite has one writer."""
    if database.is_sqlite:
        return
    edited: list[int] = []

    def edit_another(bookmark: Bookmark, to_policy: str) -> BookmarkUrl | None:
        if not edited:
            [other] = [row for row in dump(database) if row["url"] == "https://example.com/a?fb_ref=2"]
            edited.append(other["id"])
            url = BookmarkUrl("https://example.com/mine", None, "https://example.com/mine", False, "bookmark@1")
            edit = partial(change_bookmark, owner=2, now="2026-02-01T00:00:00Z", fields={"title": "Mine"}, url=url)
            database.write_now(lambda on: edit(on, bookmark=load_bookmark(on, 2, other["id"])))
        return rekey_url(bookmark, to_policy)

    async def move() -> None:
        store = BookmarkRekeyStore(database)
        started = await store.start("bookmark@2", NOW)
        while await store.move_batch(started.id, partial(edit_another, to_policy="bookmark@2"), NOW):
            pass

    asyncio.run(move())
    [row] = [row for row in dump(database) if row["id"] == edited[0]]
    assert (row["url"], row["title"], row["policy"]) == ("https://example.com/mine", "Mine", "bookmark@2")
