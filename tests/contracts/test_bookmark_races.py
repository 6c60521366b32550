"""What somebody was told is kept, is not undone by work in the background that began before it."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from canonry.bookmarks.bookmark import BookmarkSearch, BookmarkUrl, ExpansionState
from canonry.bookmarks.bookmark_store import BookmarkStore
from canonry.bookmarks.duplicates import MergeReason, merge_bookmarks
from canonry.bookmarks.expand import Expansion, ExpansionOutcome
from canonry.bookmarks.save import Bookmarks
from canonry.errors import BookmarkNotFound, EtagMismatch
from canonry.net.response import Response
from canonry.store.database import Database
from canonry.store.schema import bookmarks, stamp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from sqlalchemy import Connection

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
SHORT, TARGET, OTHER = "https://bit.ly/x", "https://a.com/target", "https://a.com/other"


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    with Database(database_url) as database:
        yield database


def at(url: str, state: ExpansionState = ExpansionState.NONE) -> BookmarkUrl:
    return BookmarkUrl(url, None, url, False, "bookmark@1", state)


def expanding(
    database: Database, meanwhile: Callable[[BookmarkStore, int], Awaitable[object]]
) -> tuple[Bookmarks, int]:
    """Bookmarks of which one is expanded while something else happens to it."""
    store = BookmarkStore(database)
    kept = asyncio.run(store.put(1, at(SHORT, ExpansionState.PENDING), {}, NOW)).bookmark

    async def expand(_: str) -> Expansion:
        await meanwhile(store, kept.id)
        return Expansion(TARGET, ExpansionOutcome.EXPANDED)

    async def enqueue(_: str, __: str) -> None: ...

    found = Bookmarks(database, expand, enqueue=enqueue)
    asyncio.run(found.expansions.finish(kept.id))
    return found, kept.id


def test_url_that_was_changed_while_the_old_one_was_followed(database: Database) -> None:
    found, bookmark_id = expanding(database, lambda store, id_: store.edit(1, id_, {}, NOW, url=at(OTHER)))
    kept = asyncio.run(found.store.get(1, bookmark_id))
    assert (kept.url, kept.expansion) == (OTHER, ExpansionState.NONE)


def test_bookmark_that_went_to_the_trash_while_it_was_followed(database: Database) -> None:
    asyncio.run(BookmarkStore(database).put(1, at(TARGET), {}, NOW))
    found, bookmark_id = expanding(database, lambda store, id_: store.trash(1, id_, NOW))
    assert asyncio.run(found.store.get(1, bookmark_id)).deleted_at is not None
    assert asyncio.run(found.store.restore(1, bookmark_id, NOW)).url == SHORT


def test_text_that_was_changed_while_it_was_followed_is_found(database: Database) -> None:
    found, bookmark_id = expanding(database, lambda store, id_: store.edit(1, id_, {"title": "Zebra"}, NOW))
    kept = asyncio.run(found.store.get(1, bookmark_id))
    assert (kept.url, kept.title) == (TARGET, "Zebra")
    assert [each.id for each in asyncio.run(found.store.search(1, BookmarkSearch("zebra"))).bookmarks] == [bookmark_id]


def test_expansion_that_somebody_else_has_finished(database: Database) -> None:
    other = asyncio.run(BookmarkStore(database).put(1, at(TARGET), {}, NOW)).bookmark

    async def merge(store: BookmarkStore, bookmark_id: int) -> None:
        await store.database.write(
            lambda connection: merge_bookmarks(
                connection, 1, other.id, [bookmark_id], now=stamp(NOW), why=MergeReason.EXPANSION
            )
        )

    found, bookmark_id = expanding(database, merge)
    with pytest.raises(BookmarkNotFound):
        asyncio.run(found.store.get(1, bookmark_id))
    assert asyncio.run(found.store.count(1)) == 1


@pytest.mark.parametrize("has_title", [True, False])
def test_title_that_was_given_while_the_page_was_asked_for_it(database: Database, has_title: bool) -> None:
    store = BookmarkStore(database)
    kept = asyncio.run(store.put(1, at(TARGET), {}, NOW)).bookmark

    async def fetch(url: str, **_: object) -> Response:
        await store.edit(1, kept.id, {"title": "Mine"} if has_title else {"folder": "f"}, NOW)
        return Response(200, url, {"content-type": "text/html"}, b"<title>Of the page</title>")

    async def unused(*_: str) -> Any: ...

    asyncio.run(Bookmarks(database, unused, enqueue=unused, fetch=fetch).titles.fetch(kept.id))
    found = asyncio.run(store.get(1, kept.id))
    assert (found.title, found.folder) == (("Mine", "") if has_title else ("Of the page", "f"))


def test_changes_that_want_the_same_version_do_not_both_succeed(database: Database) -> None:
    store = BookmarkStore(database)
    kept = asyncio.run(store.put(1, at(TARGET), {}, NOW)).bookmark
    told: list[str] = []

    def change(title: str) -> None:
        try:
            told.append(asyncio.run(store.edit(1, kept.id, {"title": title}, datetime.now(UTC), etag=kept.etag)).title)
        except EtagMismatch:
            told.append("")

    threads = [threading.Thread(target=change, args=(f"title {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(told) == 8
    assert [title for title in told if title] == [asyncio.run(store.get(1, kept.id)).title]


def test_text_that_is_being_changed_while_bookmarks_are_merged(database: Database) -> None:
    store = BookmarkStore(database)
    kept, gone = (asyncio.run(store.put(1, at(url), {"description": "old"}, NOW)).bookmark for url in (TARGET, OTHER))
    has_changed, may_commit = threading.Event(), threading.Event()

    def change(connection: Connection) -> None:
        connection.execute(update(bookmarks).where(bookmarks.c.id == kept.id).values(description="new"))
        has_changed.set()
        may_commit.wait(20)

    def merge(connection: Connection) -> None:
        merge_bookmarks(connection, 1, kept.id, [gone.id], now=stamp(NOW), why=MergeReason.REVIEW)

    changing = threading.Thread(target=database.write_now, args=(change,))
    merging = threading.Thread(target=database.write_now, args=(merge,))
    changing.start()
    assert has_changed.wait(20)
    merging.start()
    merging.join(0.5)  # it has to wait for the other
    assert merging.is_alive()
    may_commit.set()
    changing.join(20)
    merging.join(20)
    assert asyncio.run(store.get(1, kept.id)).description == "new\n\nold"
