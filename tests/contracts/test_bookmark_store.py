"""Bookmarks, duplicates, users, statistics and rekeys of bookmarks: one suite for both databases."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, select, update

from canonry.accounts import (
    PERSONAL_OWNER,
    PERSONAL_OWNER_ID,
    SESSION_LIFETIME,
    AccountError,
    AccountProblem,
    UserStore,
)
from canonry.bookmarks.bookmark import BookmarkSearch, BookmarkUrl, ExpansionState, OnDuplicate, PutOutcome, PutResult
from canonry.bookmarks.bookmark_store import BookmarkStore, change_bookmark
from canonry.bookmarks.draft import Draft
from canonry.bookmarks.duplicates import DuplicateStore, MergeReason, merge_bookmarks
from canonry.bookmarks.expand import Expansion, ExpansionOutcome
from canonry.bookmarks.save import Bookmarks
from canonry.bookmarks.statistics import Statistics
from canonry.bookmarks.twin_hints import find_hinted_ids
from canonry.errors import (
    AlreadySaved,
    BookmarkNotFound,
    DuplicatesNotFound,
    EtagMismatch,
    MergeNotFound,
    PolicyError,
    UndoConflict,
)
from canonry.evidence.fact_store import refuse_pair, save_aliases
from canonry.evidence.facts import PageAlias
from canonry.evidence.same_page import Evidence
from canonry.rekey.bookmark_rekey import BookmarkRekeys
from canonry.rekey.bookmark_rekey_store import BookmarkRekeyStore
from canonry.store.database import Database
from canonry.store.schema import (
    bookmarks,
    entries,
    import_rows,
    item_states,
    metadata,
    rekeyed_bookmarks,
    renormalizations,
    stamp,
)
from table_rows import insert_row

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from sqlalchemy import Connection

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
run = asyncio.run


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    with Database(database_url) as database:
        yield database


def make_url(url: str, *, normalized: str = "", exact: bool = False, given: str | None = None) -> BookmarkUrl:
    return BookmarkUrl(url, given, normalized or url, exact, "bookmark@1")


def put(database: Database, url: str, *, owner: int = 1, now: datetime = NOW, **options: Any) -> PutResult:
    fields = options.pop("fields", {})
    bookmark_url = options.pop("bookmark_url", None) or make_url(url)
    return run(BookmarkStore(database).put(owner, bookmark_url, fields, now, **options))


def test_a_url_is_saved_once(database: Database) -> None:
    first = put(database, "https://a.com/", fields={"title": "A", "tags": ("x", "y")})
    again = put(database, "https://a.com/", fields={"title": "B"})
    assert (first.outcome, again.outcome) == (PutOutcome.CREATED, PutOutcome.NO_CHANGE)
    assert first.bookmark == again.bookmark
    assert (first.bookmark.title, first.bookmark.tags) == ("A", ("x", "y"))
    assert run(BookmarkStore(database).count(1)) == 1


def test_an_owner_cannot_reach_the_bookmarks_of_another(database: Database) -> None:
    mine, yours = put(database, "https://a.com/"), put(database, "https://a.com/", owner=2)
    assert mine.bookmark.id != yours.bookmark.id
    store = BookmarkStore(database)
    with pytest.raises(BookmarkNotFound):
        run(store.get(1, yours.bookmark.id))
    with pytest.raises(BookmarkNotFound):
        run(store.edit(1, yours.bookmark.id, {"title": "stolen"}, NOW))
    with pytest.raises(BookmarkNotFound):
        run(store.trash(1, yours.bookmark.id, NOW))
    assert [each.id for each in run(store.search(1, BookmarkSearch())).bookmarks] == [mine.bookmark.id]


def test_a_duplicate_is_returned_updated_refused_or_allowed(database: Database) -> None:
    saved = put(database, "https://a.com/", fields={"title": "A", "folder": "f"}).bookmark
    updated = put(database, "https://a.com/", fields={"title": "B"}, on_duplicate=OnDuplicate.UPDATE)
    assert (updated.outcome, updated.bookmark.title, updated.bookmark.folder) == (PutOutcome.UPDATED, "B", "f")
    again = put(database, "https://a.com/", fields={"title": "B"}, on_duplicate=OnDuplicate.UPDATE)
    assert again.outcome is PutOutcome.NO_CHANGE
    with pytest.raises(AlreadySaved) as caught:
        put(database, "https://a.com/", on_duplicate=OnDuplicate.ERROR)
    assert caught.value.bookmark_id == saved.id
    twin = put(database, "https://a.com/", on_duplicate=OnDuplicate.ALLOW)
    assert twin.outcome is PutOutcome.CREATED and twin.bookmark.id != saved.id
    assert len(run(DuplicateStore(database).list_groups(1))[0].bookmarks) == 2


@pytest.mark.parametrize(
    "url",
    [make_url("https://a.com/"), make_url("https://a.com/?utm_source=x", normalized="https://a.com/", exact=True)],
    ids=["normalized", "exact"],
)
def test_a_duplicate_that_was_allowed_is_found_once_its_twin_is_deleted(database: Database, url: BookmarkUrl) -> None:
    store = BookmarkStore(database)
    first = run(store.put(1, url, {}, NOW)).bookmark
    twin = run(store.put(1, url, {}, NOW, on_duplicate=OnDuplicate.ALLOW)).bookmark
    assert run(store.put(1, url, {}, NOW)).bookmark.id == first.id
    run(store.trash(1, first.id, NOW))
    assert [each.id for each in run(store.find(1, url.url, normalized_url=url.normalized_url))] == [twin.id]
    again = run(store.put(1, url, {"title": "again"}, NOW, on_duplicate=OnDuplicate.UPDATE))
    assert (again.outcome, again.bookmark.id, again.bookmark.title) == (PutOutcome.UPDATED, twin.id, "again")
    run(store.trash(1, twin.id, NOW))
    run(store.restore(1, first.id, NOW))
    run(store.restore(1, twin.id, NOW))
    assert run(store.count(1)) == 2


def test_concurrent_puts_of_one_url_make_one_row(database: Database) -> None:
    async def all_at_once() -> list[PutResult]:
        store = BookmarkStore(database)
        return await asyncio.gather(
            *(store.put(1, make_url("https://a.com/"), {"title": str(n)}, NOW) for n in range(32))
        )

    puts = run(all_at_once())
    assert sum(each.outcome is PutOutcome.CREATED for each in puts) == 1
    assert len({each.bookmark.id for each in puts}) == 1


def test_an_edit_to_the_url_of_another_bookmark_is_refused_with_its_id(database: Database) -> None:
    one, other = put(database, "https://a.com/").bookmark, put(database, "https://b.com/").bookmark
    store = BookmarkStore(database)
    with pytest.raises(AlreadySaved) as caught:
        run(store.edit(1, other.id, {}, NOW, url=make_url("https://a.com/")))
    assert caught.value.bookmark_id == one.id
    moved = run(store.edit(1, other.id, {"tags": ("t",)}, NOW, url=make_url("https://c.com/", given="c.com")))
    assert (moved.url, moved.original_url, moved.tags) == ("https://c.com/", "c.com", ("t",))
    assert put(database, "https://b.com/").outcome is PutOutcome.CREATED


def test_an_edit_with_an_outdated_etag_is_refused(database: Database) -> None:
    saved = put(database, "https://a.com/").bookmark
    store = BookmarkStore(database)
    changed = run(store.edit(1, saved.id, {"title": "new"}, NOW, etag=saved.etag))
    assert changed.etag != saved.etag
    with pytest.raises(EtagMismatch):
        run(store.edit(1, saved.id, {"title": "newer"}, NOW, etag=saved.etag))
    with pytest.raises(EtagMismatch):
        run(store.trash(1, saved.id, NOW, etag=saved.etag))
    run(store.trash(1, saved.id, NOW, etag="*"))


def test_a_url_in_the_trash_can_be_saved_again(database: Database) -> None:
    saved = put(database, "https://a.com/").bookmark
    store = BookmarkStore(database)
    assert run(store.trash(1, saved.id, NOW)).deleted_at is not None
    assert run(store.find(1, "https://a.com/")) == []
    assert [each.id for each in run(store.search(1, BookmarkSearch(in_trash=True))).bookmarks] == [saved.id]
    with pytest.raises(BookmarkNotFound):
        run(store.edit(1, saved.id, {"title": "x"}, NOW))
    new = put(database, "https://a.com/")
    assert new.outcome is PutOutcome.CREATED
    with pytest.raises(AlreadySaved):
        run(store.restore(1, saved.id, NOW))
    run(store.trash(1, new.bookmark.id, NOW + timedelta(days=10)))
    assert run(store.restore(1, saved.id, NOW)).deleted_at is None
    assert run(store.empty_trash(NOW + timedelta(days=10))) == 0
    assert run(store.empty_trash(NOW + timedelta(days=11))) == 1
    assert run(store.count(1)) == 1


SEARCHES = [
    # why              search                                 found
    ("a word", BookmarkSearch("harbour"), {"a", "b"}),
    ("any case", BookmarkSearch("HARBOUR"), {"a", "b"}),
    ("all words", BookmarkSearch("harbour quiet"), {"a"}),
    ("in the URL", BookmarkSearch("b.com"), {"b"}),
    ("in what was given", BookmarkSearch("utm_source"), {"b"}),
    ("in tags", BookmarkSearch("boats"), {"c"}),
    ("a sign of LIKE", BookmarkSearch("100%"), {"c"}),
    ("signs are no words", BookmarkSearch("1__%"), {"c"}),
    ("no percent sign of LIKE", BookmarkSearch("%ool"), set[str]()),
    ("a tag with quotes", BookmarkSearch('the "sea"'), {"c"}),
    ("a backslash", BookmarkSearch("c\\d"), {"c"}),
    ("no sign of JSON", BookmarkSearch("["), set[str]()),
    ("a tag between two", BookmarkSearch(tag=", "), set[str]()),
    ("a tag with a backslash", BookmarkSearch(tag="c\\d"), {"c"}),
    ("a tag as a whole", BookmarkSearch(tag="boats"), {"c"}),
    ("no part of a tag", BookmarkSearch(tag="boat"), set[str]()),
    ("a tag in its case", BookmarkSearch(tag="Boats"), set[str]()),
    ("a tag with a quote", BookmarkSearch(tag='the "sea"'), {"c"}),
    ("a folder", BookmarkSearch(folder="x/y"), {"a"}),
    ("to read", BookmarkSearch(to_read=True), {"b"}),
    ("not to read", BookmarkSearch(to_read=False), {"a", "c"}),
    ("all", BookmarkSearch(), {"a", "b", "c"}),
    ("a phrase", BookmarkSearch('"harbour was"'), {"a"}),
    ("no phrase in another order", BookmarkSearch('"was harbour"'), set[str]()),
    ("no phrase across two texts", BookmarkSearch('"harbour b"'), set[str]()),
    ("the begin of a word", BookmarkSearch("harb"), {"a", "b"}),
    ("whole words in quotes", BookmarkSearch('"harb"'), set[str]()),
    ("not a word", BookmarkSearch("harbour -quiet"), {"b"}),
    ("not a phrase", BookmarkSearch('-"harbour was"'), {"b", "c"}),
    ("without accents", BookmarkSearch("HÂRBÖUR"), {"a", "b"}),
    ("a tag by its name", BookmarkSearch("tag:boats"), {"c"}),
    ("a tag by its sign", BookmarkSearch("#Boats"), {"c"}),
    ("a tag in quotes", BookmarkSearch('#"c\\d"'), {"c"}),
    ("no part of a tag by its sign", BookmarkSearch("#boat"), set[str]()),
    ("not a tag", BookmarkSearch("-#boats"), {"a", "b"}),
    ("a site", BookmarkSearch("site:www.c.com"), {"c"}),
    ("all sites of a domain", BookmarkSearch("site:com"), {"a", "b", "c"}),
    ("not a site", BookmarkSearch("-site:https://a.com/x"), {"b", "c"}),
    ("a folder above", BookmarkSearch("folder:x"), {"a"}),
    ("unread", BookmarkSearch("is:unread"), {"b"}),
    ("read, in other words", BookmarkSearch("-is:unread harbour"), {"a"}),
    ("all at once", BookmarkSearch('wool #boats site:c.com -is:unread -quiet "100"'), {"c"}),
    *(
        ("hostile text", BookmarkSearch(f"wool {each}"), {"c"})
        for each in ("'", '"', "\\", "*", ")(", "^", "%", "--", "-", "\x00", "\ud800", "&|!<->:*", "::")
    ),
    ("hostile words", BookmarkSearch("' OR 1=1 --"), set[str]()),
    ("an empty operator", BookmarkSearch('tag: wool "" -"" #'), {"c"}),
    ("many terms", BookmarkSearch("wool " * 150), {"c"}),
]


def test_search_finds_words_tags_and_folders(database: Database) -> None:
    put(database, "https://a.com/", fields={"title": "a", "description": "The harbour was quiet", "folder": "x/y"})
    given = make_url("https://b.com/", given="https://b.com/?utm_source=x")
    put(database, "", bookmark_url=given, fields={"title": "b", "description": "Harbour", "to_read": True})
    put(
        database,
        "https://c.com/",
        fields={"title": "c", "description": "100% wool", "tags": ("boats", 'the "sea"', "c\\d")},
    )
    store = BookmarkStore(database)

    async def search_all() -> list[set[str]]:
        return [{each.title for each in (await store.search(1, search)).bookmarks} for _, search, _ in SEARCHES]

    found = run(search_all())
    assert [(why, titles) for (why, _, _), titles in zip(SEARCHES, found, strict=True)] == [
        (why, wanted) for why, _, wanted in SEARCHES
    ]


def test_pages_show_every_bookmark_once_while_others_are_added(database: Database) -> None:
    for number in range(25):
        put(database, f"https://a.com/{number}", now=NOW + timedelta(minutes=number // 3))  # some have the same time
    store = BookmarkStore(database)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = run(store.search(1, BookmarkSearch(), cursor=cursor, limit=4))
        seen += [each.url for each in page.bookmarks]
        cursor = page.next_cursor
        if cursor is None:
            break
        put(database, f"https://b.com/{len(seen)}", now=NOW + timedelta(days=1))  # a new bookmark shifts no page
    assert len(seen) == len(set(seen)) == 25
    assert seen[0] == "https://a.com/24"
    for wrong in ("x", "bm8=", "////", "é"):
        with pytest.raises(ValueError):  # noqa: PT011 - base64 and codecs raise it too
            run(store.search(1, BookmarkSearch(), cursor=wrong))


def test_characters_that_no_database_stores_are_replaced(database: Database) -> None:
    saved = put(database, "https://a.com/", fields={"title": "a\0b\ud800", "tags": ("\0",)}).bookmark
    assert (saved.title, saved.tags) == ("a\ufffdb\ufffd", ("\ufffd",))
    long = put(database, f"https://a.com/{'x' * 60_000}")
    assert run(BookmarkStore(database).find(1, long.bookmark.url)) == [long.bookmark]


def test_a_merge_combines_all_fields_and_can_be_undone(database: Database) -> None:
    old = put(
        database, "https://a.com/", fields={"title": "", "tags": ("x",), "description": "one", "to_read": True}
    ).bookmark
    exact = make_url("https://a.com/?utm_id=1", normalized="https://a.com/", exact=True)
    new = put(
        database,
        "",
        bookmark_url=exact,
        fields={"title": "T", "tags": ("y", "x"), "description": "two", "archive_urls": ("https://z.com/",)},
        now=NOW + timedelta(days=1),
    ).bookmark
    duplicates = DuplicateStore(database)
    [group] = run(duplicates.list_groups(1))
    assert [each.id for each in group.bookmarks] == [old.id, new.id]
    assert run(duplicates.list_groups(2)) == []
    with pytest.raises(DuplicatesNotFound):
        run(duplicates.merge(2, group.id, NOW))
    with pytest.raises(BookmarkNotFound):
        run(duplicates.merge(1, group.id, NOW, keep=999))
    saved = run(duplicates.merge(1, group.id, NOW, keep=new.id))
    assert (saved.id, saved.url, saved.title) == (new.id, exact.url, "T")
    assert saved.description == "two\n\none"
    assert (saved.tags, saved.archive_urls, saved.to_read) == (("y", "x"), ("https://z.com/",), True)
    assert saved.created_at == old.created_at
    assert run(duplicates.list_groups(1)) == []
    [merge] = run(duplicates.list_merges(1))
    assert (merge.id, merge.kept_id, merge.merged_ids, merge.why) == (group.id, new.id, (old.id,), MergeReason.REVIEW)

    assert run(duplicates.undo(1, group.id, NOW)) == [new, old]
    assert run(BookmarkStore(database).get(1, old.id)) == old
    with pytest.raises(MergeNotFound):
        run(duplicates.undo(1, group.id, NOW))


def find_hints(database: Database) -> set[str]:
    """Return the URLs of the bookmarks that the library marks as duplicates."""
    shown = run(BookmarkStore(database).search(1, BookmarkSearch(), limit=50)).bookmarks
    ids = database.read_now(lambda connection: find_hinted_ids(connection, 1, shown))
    return {each.url for each in shown if each.id in ids}


def save_alias(database: Database, url: str, target: str) -> None:
    aliases = [PageAlias(url, target, Evidence.REDIRECT)]
    database.write_now(lambda connection: save_aliases(connection, aliases, "2026-01-31T10:00:00.000000Z"))


def test_a_bookmark_with_a_fragment_is_not_marked_as_its_own_duplicate(database: Database) -> None:
    put(database, "https://a.com/page#top")
    save_alias(database, "https://a.com/page#top", "https://a.com/page")  # as reading the page does
    assert find_hints(database) == set()
    put(database, "https://a.com/page")
    assert find_hints(database) == {"https://a.com/page#top", "https://a.com/page"}


def test_a_route_of_a_page_is_no_duplicate_of_another_page(database: Database) -> None:
    put(database, "https://a.com/app#/inbox")
    put(database, "https://a.com/new")
    save_alias(database, "https://a.com/app", "https://a.com/new")
    assert find_hints(database) == set()


def test_all_bookmarks_of_a_page_are_marked_unless_they_were_refused(database: Database) -> None:
    save_alias(database, "https://a.com/old", "https://a.com/new")
    for url in ("https://a.com/old#1", "https://a.com/old#2", "https://a.com/new"):
        put(database, url)
    assert find_hints(database) >= {"https://a.com/old#1", "https://a.com/old#2"}
    database.write_now(
        lambda connection: refuse_pair(connection, 1, "https://a.com/old#1", "https://a.com/new", "2026-01-31")
    )
    assert "https://a.com/old#1" not in find_hints(database)
    assert "https://a.com/old#2" in find_hints(database)


def merge_two(database: Database) -> str:
    """Merge two bookmarks; the one with the largest id is deleted. Return the id of the group."""
    put(database, "https://a.com/")
    put(database, "", bookmark_url=make_url("https://a.com/?x", normalized="https://a.com/", exact=True))
    duplicates = DuplicateStore(database)
    [group] = run(duplicates.list_groups(1))
    run(duplicates.merge(1, group.id, NOW))
    return group.id


def test_a_merge_can_be_undone_after_other_bookmarks_were_saved(database: Database) -> None:
    group_id = merge_two(database)
    [merge] = run(DuplicateStore(database).list_merges(1))
    later = put(database, "https://other.example/").bookmark
    assert later.id not in {merge.kept_id, *merge.merged_ids}
    restored = run(DuplicateStore(database).undo(1, group_id, NOW))
    assert [each.id for each in restored] == [merge.kept_id, *merge.merged_ids]
    assert run(BookmarkStore(database).get(1, later.id)) == later


def test_an_undo_of_a_merge_keeps_what_was_edited_since(database: Database) -> None:
    old = put(database, "https://a.com/", fields={"title": "old", "tags": ("x",)}).bookmark
    exact = make_url("https://a.com/?x", normalized="https://a.com/", exact=True)
    new = put(database, "", bookmark_url=exact, fields={"title": "new", "tags": ("y",), "description": "text"}).bookmark
    duplicates = DuplicateStore(database)
    [group] = run(duplicates.list_groups(1))
    run(duplicates.merge(1, group.id, NOW))
    run(BookmarkStore(database).edit(1, old.id, {"title": "edited"}, NOW + timedelta(days=1)))
    kept, other = run(duplicates.undo(1, group.id, NOW + timedelta(days=2)))
    assert (kept.id, kept.title, kept.tags, kept.description) == (old.id, "edited", ("x",), "")
    assert kept.updated_at > old.updated_at  # another ETag, so that no client takes the merged bookmark for this one
    assert other == new


def test_an_undo_of_a_merge_keeps_the_url_that_was_edited_since(database: Database) -> None:
    group_id = merge_two(database)
    [merge] = run(DuplicateStore(database).list_merges(1))
    edited = make_url("https://a.com/moved")
    run(BookmarkStore(database).edit(1, merge.kept_id, {}, NOW + timedelta(days=1), url=edited))
    put(database, "https://a.com/")  # the URL that the kept bookmark had is free
    kept, other = run(DuplicateStore(database).undo(1, group_id, NOW + timedelta(days=2)))
    assert (kept.url, other.url) == ("https://a.com/moved", "https://a.com/?x")
    assert run(BookmarkStore(database).find(1, "https://a.com/moved")) == [kept]


def test_an_undo_of_a_merge_gives_a_url_back_that_the_merge_gave_to_the_kept_bookmark(database: Database) -> None:
    """A rekey merges the bookmark that is moved with the one that has its new URL."""
    old, new = put(database, "https://a.com/?fb=1").bookmark, put(database, "https://a.com/").bookmark

    def rekey(connection: Connection) -> None:
        kept = merge_bookmarks(connection, 1, old.id, [new.id], now=stamp(NOW), why=MergeReason.POLICY)
        change_bookmark(connection, 1, kept, now=stamp(NOW), url=make_url("https://a.com/"))

    database.write_now(rekey)
    [merge] = run(DuplicateStore(database).list_merges(1))
    assert run(DuplicateStore(database).undo(1, merge.id, NOW)) == [old, new]


def test_an_undo_gives_a_new_id_where_an_older_canonry_has_reused_the_old_one(database: Database) -> None:
    group_id = merge_two(database)
    [merge] = run(DuplicateStore(database).list_merges(1))
    later = put(database, "https://other.example/").bookmark
    database.write_now(
        lambda connection: connection.execute(
            update(bookmarks).where(bookmarks.c.id == later.id).values(id=merge.merged_ids[0])
        )
    )
    restored = run(DuplicateStore(database).undo(1, group_id, NOW))
    assert [each.url for each in restored] == ["https://a.com/", "https://a.com/?x"]
    assert restored[1].id not in {merge.kept_id, *merge.merged_ids}
    assert run(BookmarkStore(database).get(1, merge.merged_ids[0])).url == later.url
    assert run(BookmarkStore(database).count(1)) == 3


def test_an_undo_that_would_duplicate_a_url_is_refused(database: Database) -> None:
    put(database, "https://a.com/")
    put(database, "", bookmark_url=make_url("https://a.com/?x", normalized="https://a.com/", exact=True))
    duplicates = DuplicateStore(database)
    [group] = run(duplicates.list_groups(1))
    run(duplicates.merge(1, group.id, NOW))
    other = put(
        database, "", bookmark_url=make_url("https://a.com/?x", normalized="https://a.com/", exact=True)
    ).bookmark
    with pytest.raises(UndoConflict) as caught:
        run(duplicates.undo(1, group.id, NOW))
    assert caught.value.bookmark_id == other.id
    assert run(BookmarkStore(database).count(1)) == 2


def find_problem(work: Coroutine[Any, Any, object]) -> AccountProblem:
    with pytest.raises(AccountError) as caught:
        run(work)
    return caught.value.kind


def test_users_are_added_and_removed_and_their_tokens_revoked(database: Database) -> None:
    users = UserStore(database)
    mine = put(database, "https://a.com/", owner=PERSONAL_OWNER_ID).bookmark
    own = run(users.create_token("", NOW))
    assert run(users.find_by_token(own)) == PERSONAL_OWNER
    assert not run(users.has_users())
    ada, token = run(users.add("ada", NOW))
    assert ada.is_admin and run(users.has_users())
    assert run(BookmarkStore(database).get(ada.id, mine.id)) == mine  # the first user takes over the bookmarks
    assert run(users.find_by_token(token)) == run(users.find_by_token(own)) == ada
    bob, _ = run(users.add("bob", NOW))
    assert not bob.is_admin
    assert find_problem(users.add("ada", NOW)) is AccountProblem.NAME_TAKEN
    for name in ("", "a b", "../x", "x" * 65, "-x"):
        assert find_problem(users.add(name, NOW)) is AccountProblem.INVALID_NAME
    assert find_problem(users.create_token("", NOW)) is AccountProblem.NAME_REQUIRED
    newer = run(users.create_token("ada", NOW, revokes=True))
    assert [run(users.find_by_token(each)) for each in (token, own, newer, "")] == [None, None, ada, None]
    assert [each.name for each in run(users.list_users())] == ["ada", "bob"]
    put(database, "https://b.com/", owner=bob.id)
    assert run(users.remove("bob")) == 1
    assert find_problem(users.remove("bob")) is AccountProblem.NO_SUCH_USER
    assert find_problem(users.remove("ada")) is AccountProblem.LAST_USER


def insert_rows_of_owner(connection: Connection, owner: int) -> None:
    """Insert a row into every table with an owner, and rows without one that belong to them."""
    ids = {
        table.name: insert_row(connection, table, owner_id=owner)
        for table in metadata.sorted_tables
        if "owner_id" in table.columns and table is not item_states
    }
    entry_id = insert_row(connection, entries)
    insert_row(connection, item_states, owner_id=owner, entry_id=entry_id)
    insert_row(connection, import_rows, import_id=ids["imports"])
    rekey_id = insert_row(connection, renormalizations)
    insert_row(connection, rekeyed_bookmarks, rekey_id=rekey_id, bookmark_id=ids["bookmarks"])
    insert_row(connection, rekeyed_bookmarks, rekey_id=rekey_id, bookmark_id=10**9, merge_id=ids["bookmark_merges"])


def count_owners(connection: Connection) -> dict[str, list[int]]:
    """Return the owners of the rows of every table that has owners."""
    return {
        table.name: sorted(connection.execute(select(table.c.owner_id)).scalars())
        for table in metadata.sorted_tables
        if "owner_id" in table.columns
    }


def test_the_first_user_takes_over_the_rows_of_every_table(database: Database) -> None:
    database.write_now(lambda on: insert_rows_of_owner(on, PERSONAL_OWNER_ID))
    ada, _ = run(UserStore(database).add("ada", NOW))
    owners = database.read_now(count_owners)
    assert owners.pop("sessions") == []  # browsers that were signed in as nobody
    assert owners.pop("tokens") == [ada.id, ada.id]
    assert set(map(tuple, owners.values())) == {(ada.id,)}


def test_removing_a_user_deletes_their_rows_in_every_table(database: Database) -> None:
    users = UserStore(database)
    ada, _ = run(users.add("ada", NOW))
    before = database.read_now(count_rows)
    bob, _ = run(users.add("bob", NOW))
    database.write_now(lambda on: insert_rows_of_owner(on, bob.id))
    assert run(users.remove("bob")) == 1
    shared = {"entries": 1, "renormalizations": 1}
    assert database.read_now(count_rows) == {name: shared.get(name, count) for name, count in before.items()}
    assert ada in run(users.list_users())


def count_rows(connection: Connection) -> dict[str, int]:
    return {
        table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for table in metadata.sorted_tables
    }


def test_sessions_expire(database: Database) -> None:
    users = UserStore(database)
    ada, _ = run(users.add("ada", NOW))
    secret = run(users.open_session(ada.id, NOW))
    assert run(users.find_by_session(secret, NOW)) == ada
    assert run(users.find_by_session(secret, NOW + SESSION_LIFETIME)) is None
    assert run(users.find_by_session("x", NOW)) is None
    run(users.close_session(secret))
    assert run(users.find_by_session(secret, NOW)) is None


def test_the_database_has_no_token_and_no_session_secret(database: Database) -> None:
    users = UserStore(database)
    ada, token = run(users.add("ada", NOW))
    secret = run(users.open_session(ada.id, NOW))

    def rows(connection: Any) -> str:
        return str(
            [connection.exec_driver_sql(f"SELECT * FROM {table}").all() for table in ("users", "tokens", "sessions")]
        )

    everything = database.read_now(rows)
    assert token not in everything and secret not in everything


def test_statistics_of_several_processes_add_up(database: Database) -> None:
    one, other = Statistics(database), Statistics(database)
    one.count("x", NOW)
    other.count("x", NOW, 2)
    one.count("y", NOW + timedelta(hours=1))
    run(one.flush())
    run(other.flush())
    run(other.flush())
    assert run(one.get_hourly(NOW)) == {"x": {"2026-01-31T10": 3}, "y": {"2026-01-31T11": 1}}
    run(one.delete_before(NOW + timedelta(hours=1)))
    assert run(one.get_hourly(NOW)) == {"y": {"2026-01-31T11": 1}}


def bookmarks_without_network(database: Database) -> Bookmarks:
    async def never(*_: object) -> Any:
        raise AssertionError("no request must be sent")

    async def enqueue(*_: object) -> None:
        return None

    return Bookmarks(database, never, enqueue=enqueue, clock=lambda: NOW)


def test_bookmarks_are_rekeyed_and_merged(database: Database) -> None:
    bookmarks = bookmarks_without_network(database)

    async def keep(url: str, **options: Any) -> int:
        return (await bookmarks.put(1, Draft(url, tags=(url[8:11],)), **options)).bookmark.id

    async def story() -> None:
        # feed-aggressive strips `www.`, so these become equal.
        first = await keep("https://www.a.com/x")
        second = await keep("https://a.com/x")
        exact = await keep("https://www.a.com/E?utm_id=1", exact_url=True)
        many = [await keep(f"https://b.com/{n}") for n in range(450)]
        rekeys = BookmarkRekeys(bookmarks)
        started = await rekeys.start("feed-aggressive@1")
        assert (started.total, started.finished_at) == (453, None)
        assert (await rekeys.start("feed-aggressive@1")).id == started.id  # the one under way
        await rekeys.finish(started.id)
        done = await rekeys.store.get(started.id)
        assert done.finished_at is not None and done.done >= 452 and done.merged == 1
        store = bookmarks.store
        saved = await store.get(1, first)
        assert saved.tags == ("www", "a.c") and saved.policy == "feed-aggressive@1"
        with pytest.raises(BookmarkNotFound):
            await store.get(1, second)
        assert (await store.get(1, exact)).url == "https://www.a.com/E?utm_id=1"
        assert await store.count(1) == 2 + len(many)
        assert (await bookmarks.put(1, Draft("https://www.a.com/x/"))).bookmark.id == first
        merges = await DuplicateStore(database).list_merges(1)
        assert [merge.why for merge in merges] == [MergeReason.POLICY]

    run(story())


def test_no_url_is_saved_under_the_policy_before_a_rekey(database: Database) -> None:
    """A process reads the policy every two seconds, so it may not have noticed the rekey of another one."""

    async def expand(_: str) -> Expansion:
        return Expansion("https://www.target.example/", ExpansionOutcome.EXPANDED)

    async def enqueue(*_: object) -> None:
        return None

    here = Bookmarks(database, expand, enqueue=enqueue, clock=lambda: NOW)
    rekeys = BookmarkRekeys(bookmarks_without_network(database))

    def keep_policy() -> None:
        """Do as if the policy had just been read, however slow this machine is."""
        here.pipeline._policy, here.pipeline._policy_expires = "bookmark@2", float("inf")

    async def import_url(url: str) -> None:
        await here.imports.finish((await here.imports.start(1, f"url\n{url}\n".encode())).id)

    async def story() -> None:
        edited = (await here.put(1, Draft("https://www.b.com/x"))).bookmark
        await import_url("https://bit.ly/x")
        [short] = await here.store.list_pending_expansions(NOW + timedelta(days=1))
        await rekeys.finish((await rekeys.start("feed-aggressive@1")).id)  # it strips `www.`
        keep_policy()
        assert (await here.put(1, Draft("https://www.a.com/x"))).bookmark.url == "https://a.com/x"
        keep_policy()
        assert (await here.edit(1, edited.id, {}, url="https://www.b.com/y")).url == "https://b.com/y"
        keep_policy()
        await import_url("https://www.c.com/x")
        keep_policy()
        await here.expansions.finish(short)
        found = (await here.store.search(1, BookmarkSearch())).bookmarks
        urls = {"https://a.com/x", "https://b.com/y", "https://c.com/x", "https://target.example/"}
        assert {(each.url, each.policy) for each in found} == {(url, "feed-aggressive@1") for url in urls}

    run(story())


def test_undoing_a_merge_after_a_rekey_moves_what_it_restores(database: Database) -> None:
    bookmarks = bookmarks_without_network(database)
    rekeys = BookmarkRekeys(bookmarks)

    async def story() -> None:
        kept = (await bookmarks.put(1, Draft("https://www.a.com/x"))).bookmark
        other = (await bookmarks.put(1, Draft("https://www.b.com/x"))).bookmark
        exact = (await bookmarks.put(1, Draft("https://www.c.com/x"), exact_url=True)).bookmark
        database.write_now(
            lambda connection: merge_bookmarks(
                connection, 1, kept.id, [other.id, exact.id], now=stamp(NOW), why=MergeReason.REVIEW, group_id="g"
            )
        )
        await rekeys.finish((await rekeys.start("feed-aggressive@1")).id)  # it strips `www.`
        restored = await rekeys.undo_merge(1, "g")
        assert [(each.id, each.url, each.policy) for each in restored] == [
            (kept.id, "https://a.com/x", "feed-aggressive@1"),
            (other.id, "https://b.com/x", "feed-aggressive@1"),
            (exact.id, "https://www.c.com/x", "exact@1"),
        ]
        assert (await bookmarks.put(1, Draft("https://www.b.com/x"))).bookmark == restored[1]
        await bookmarks.put(1, Draft("https://www.c.com/x"))
        [group] = await DuplicateStore(database).list_groups(1)  # the exact one is found under the new policy
        assert exact.id in {each.id for each in group.bookmarks}

    run(story())


def test_undoing_the_merge_of_a_rekey_gives_the_urls_back(database: Database) -> None:
    """Under the new policy both would have one URL: the links that its rule has merged must not be lost."""
    bookmarks = bookmarks_without_network(database)
    rekeys = BookmarkRekeys(bookmarks)

    async def story() -> None:
        urls = ["https://www.a.com/x", "https://a.com/x"]
        saved = [(await bookmarks.put(1, Draft(url))).bookmark for url in urls]
        await rekeys.finish((await rekeys.start("feed-aggressive@1")).id)
        [merge] = await DuplicateStore(database).list_merges(1)
        assert await rekeys.undo_merge(1, merge.id) == saved

    run(story())


def test_bookmarks_are_rekeyed_to_shipped_policies_only(database: Database) -> None:
    with pytest.raises(PolicyError):
        run(BookmarkRekeyStore(database).start("mine.toml", NOW))
    with pytest.raises(PolicyError):
        run(BookmarkRekeyStore(database).start("nothing@9", NOW))


def test_pending_expansions_are_listed_until_the_bookmark_is_deleted(database: Database) -> None:
    pending = BookmarkUrl("https://bit.ly/x", None, "https://bit.ly/x", False, "bookmark@1", ExpansionState.PENDING)
    saved = put(database, "", bookmark_url=pending).bookmark
    store = BookmarkStore(database)
    assert run(store.list_pending_expansions(NOW)) == []  # it was saved just now
    assert run(store.list_pending_expansions(NOW + timedelta(minutes=1))) == [saved.id]
    run(store.trash(1, saved.id, NOW))
    assert run(store.list_pending_expansions(NOW + timedelta(minutes=1))) == []
