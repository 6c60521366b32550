"""A background job never overwrites a change that was saved while the job waited for the network."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, update

from canonry.bookmarks.bookmark import BookmarkSearch, BookmarkUrl, ExpansionState, OnDuplicate
from canonry.bookmarks.bookmark_store import BookmarkStore
from canonry.bookmarks.duplicates import DuplicateStore, MergeReason, merge_bookmarks
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


def make_url(url: str, state: ExpansionState = ExpansionState.NONE) -> BookmarkUrl:
    return BookmarkUrl(url, None, url, False, "bookmark@1", state)


def expand_meanwhile(
    database: Database, meanwhile: Callable[[BookmarkStore, int], Awaitable[object]]
) -> tuple[Bookmarks, int]:
    """Expand a bookmark while something else happens to it; return the use-cases and its id."""
    store = BookmarkStore(database)
    saved = asyncio.run(store.put(1, make_url(SHORT, ExpansionState.PENDING), {}, NOW)).bookmark

    async def expand(_: str) -> Expansion:
        await meanwhile(store, saved.id)
        return Expansion(TARGET, ExpansionOutcome.EXPANDED)

    async def enqueue(_: str, __: str) -> None: ...

    found = Bookmarks(database, expand, enqueue=enqueue)
    asyncio.run(found.expansions.finish(saved.id))
    return found, saved.id


def test_a_url_that_was_changed_during_its_expansion_stays(database: Database) -> None:
    found, bookmark_id = expand_meanwhile(database, lambda store, id_: store.edit(1, id_, {}, NOW, url=make_url(OTHER)))
    saved = asyncio.run(found.store.get(1, bookmark_id))
    assert (saved.url, saved.expansion) == (OTHER, ExpansionState.NONE)


def test_a_bookmark_that_was_deleted_during_its_expansion_stays_deleted(database: Database) -> None:
    asyncio.run(BookmarkStore(database).put(1, make_url(TARGET), {}, NOW))
    found, bookmark_id = expand_meanwhile(database, lambda store, id_: store.trash(1, id_, NOW))
    assert asyncio.run(found.store.get(1, bookmark_id)).deleted_at is not None
    assert asyncio.run(found.store.restore(1, bookmark_id, NOW)).url == SHORT


def test_a_title_that_was_changed_during_an_expansion_is_searchable(database: Database) -> None:
    found, bookmark_id = expand_meanwhile(database, lambda store, id_: store.edit(1, id_, {"title": "Zebra"}, NOW))
    saved = asyncio.run(found.store.get(1, bookmark_id))
    assert (saved.url, saved.title) == (TARGET, "Zebra")
    assert [each.id for each in asyncio.run(found.store.search(1, BookmarkSearch("zebra"))).bookmarks] == [bookmark_id]


def test_an_expansion_that_another_job_has_finished_changes_nothing(database: Database) -> None:
    other = asyncio.run(BookmarkStore(database).put(1, make_url(TARGET), {}, NOW)).bookmark

    async def merge(store: BookmarkStore, bookmark_id: int) -> None:
        await store.database.write(
            lambda connection: merge_bookmarks(
                connection, 1, other.id, [bookmark_id], now=stamp(NOW), why=MergeReason.EXPANSION
            )
        )

    found, bookmark_id = expand_meanwhile(database, merge)
    with pytest.raises(BookmarkNotFound):
        asyncio.run(found.store.get(1, bookmark_id))
    assert asyncio.run(found.store.count(1)) == 1


@pytest.mark.parametrize("has_title", [True, False])
def test_a_title_that_was_given_while_the_page_was_fetched_stays(database: Database, has_title: bool) -> None:
    store = BookmarkStore(database)
    saved = asyncio.run(store.put(1, make_url(TARGET), {}, NOW)).bookmark

    async def fetch(url: str, **_: object) -> Response:
        await store.edit(1, saved.id, {"title": "Mine"} if has_title else {"folder": "f"}, NOW)
        return Response(200, url, {"content-type": "text/html"}, b"<title>Of the page</title>")

    async def unused(*_: str) -> Any: ...

    asyncio.run(Bookmarks(database, unused, enqueue=unused, fetch=fetch).pages.read_all())
    found = asyncio.run(store.get(1, saved.id))
    assert (found.title, found.folder) == (("Mine", "") if has_title else ("Of the page", "f"))


def test_of_concurrent_changes_with_the_same_etag_one_succeeds(database: Database) -> None:
    store = BookmarkStore(database)
    saved = asyncio.run(store.put(1, make_url(TARGET), {}, NOW)).bookmark
    titles: list[str] = []

    def change(title: str) -> None:
        try:
            titles.append(
                asyncio.run(store.edit(1, saved.id, {"title": title}, datetime.now(UTC), etag=saved.etag)).title
            )
        except EtagMismatch:
            titles.append("")

    threads = [threading.Thread(target=change, args=(f"title {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(titles) == 8
    assert [title for title in titles if title] == [asyncio.run(store.get(1, saved.id)).title]


def test_a_merge_waits_for_a_change_of_one_of_its_bookmarks(database: Database) -> None:
    """The merge begins after the change and before its commit, and contains the change."""
    store = BookmarkStore(database)
    saved, gone = (
        asyncio.run(store.put(1, make_url(url), {"description": "old"}, NOW)).bookmark for url in (TARGET, OTHER)
    )
    has_changed, may_commit = threading.Event(), threading.Event()

    def change(connection: Connection) -> None:
        connection.execute(update(bookmarks).where(bookmarks.c.id == saved.id).values(description="new"))
        has_changed.set()
        assert may_commit.wait(60)

    def merge(connection: Connection) -> None:
        merge_bookmarks(connection, 1, saved.id, [gone.id], now=stamp(NOW), why=MergeReason.REVIEW)

    changing = threading.Thread(target=database.write_now, args=(change,))
    merging = threading.Thread(target=database.write_now, args=(merge,))
    changing.start()
    assert has_changed.wait(60)
    merging.start()
    merging.join(0.5)  # a merge that does not wait would end within this time
    assert merging.is_alive()
    may_commit.set()
    changing.join(60)
    merging.join(60)
    assert not changing.is_alive() and not merging.is_alive()
    assert asyncio.run(store.get(1, saved.id)).description == "new\n\nold"


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # a read on SQLite sees one state
def test_duplicates_are_listed_while_another_process_merges_and_deletes_some(database: Database) -> None:
    store, duplicates = BookmarkStore(database), DuplicateStore(database)

    def save(url: str) -> list[int]:
        saved = [store.put(1, make_url(url), {}, NOW, on_duplicate=OnDuplicate.ALLOW) for _ in range(3)]
        return [asyncio.run(each).bookmark.id for each in saved]

    kept, merged, other = save(TARGET)
    _, *deleted = save(OTHER)

    def change(connection: Connection) -> None:
        merge_bookmarks(connection, 1, kept, [merged], now=stamp(NOW), why=MergeReason.REVIEW)
        connection.execute(update(bookmarks).where(bookmarks.c.id.in_(deleted)).values(deleted_at=stamp(NOW)))

    def change_between_queries(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "bookmarks.description" in statement:  # the second query, which loads the bookmarks of the groups
            other_process.write_now(change)

    with Database(database.url) as other_process:
        event.listen(database.engine, "before_cursor_execute", change_between_queries)
        page = asyncio.run(duplicates.get_page(1, limit=10))
    assert [[each.id for each in group.bookmarks] for group in page.groups] == [[kept, other]]
