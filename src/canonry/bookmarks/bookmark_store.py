"""Bookmarks in the database: each URL once per owner, however many requests save it at once (contract B3–B5)."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from functools import cache, partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, bindparam, delete, func, literal_column, select, update
from sqlalchemy.dialects import postgresql

from canonry.bookmarks.bookmark import (
    Bookmark,
    BookmarkInFolder,
    BookmarkPage,
    BookmarkSearch,
    ExpansionState,
    OnDuplicate,
    OwnedBookmark,
    PutOutcome,
    PutResult,
)
from canonry.bookmarks.bookmark_rows import (
    bookmark_columns,
    dump_bookmark,
    dump_fields,
    dump_url,
    make_empty_row,
    make_key,
    parse_row,
)
from canonry.bookmarks.bookmark_search import NEWEST_FIRST, count_matches, parse_cursor, search_bookmarks
from canonry.bookmarks.search_words import make_search_columns
from canonry.errors import AlreadySaved, BookmarkNotFound, EtagMismatch
from canonry.store.database import RetryTransaction
from canonry.store.schema import bookmarks, stamp
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from canonry.bookmarks.bookmark import BookmarkFields, BookmarkUrl
    from canonry.store.database import Database

_NOT_DELETED = bookmarks.c.deleted_at.is_(None)
_IS_OWN = bookmarks.c.owner_id == bindparam("owner")
_INSERT = Prepared(
    lambda _: (
        # SQLite understands this too; only the construct lives in SQLAlchemy's PostgreSQL dialect.
        postgresql.insert(bookmarks)
        .on_conflict_do_nothing(index_elements=["owner_id", "key"], index_where=_NOT_DELETED)
        .returning(*bookmark_columns)
    ),
    [column.name for column in bookmarks.c if column.name not in {"id", "deleted_at"}],
)
_BY_KEY = Prepared(
    lambda _: select(*bookmark_columns).where(_IS_OWN, bookmarks.c.key == bindparam("key"), _NOT_DELETED)
)
# Also finds duplicates that were allowed, which have random keys; the bookmark with the key of the URL comes first.
_BY_URL = Prepared(
    lambda _: (
        select(*bookmark_columns)
        .where(
            _IS_OWN, bookmarks.c.same_key == bindparam("same_key"), bookmarks.c.url == bindparam("url"), _NOT_DELETED
        )
        .order_by(bookmarks.c.key != bindparam("key"), bookmarks.c.id)
        .limit(1)
    )
)
_BY_ID = Prepared(lambda _: select(*bookmark_columns).where(_IS_OWN, bookmarks.c.id == bindparam("id")))
_BY_ID_FOR_UPDATE = Prepared(
    lambda _: select(*bookmark_columns).where(_IS_OWN, bookmarks.c.id == bindparam("id")).with_for_update()
)


class BookmarkStore:
    """The bookmarks of a database; every method is one transaction and sees one owner's bookmarks only."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def put(
        self,
        owner: int,
        url: BookmarkUrl,
        fields: BookmarkFields,
        now: datetime,
        *,
        on_duplicate: OnDuplicate = OnDuplicate.RETURN,
        created_at: str = "",
    ) -> PutResult:
        """Save a bookmark; AlreadySaved if its URL is saved and `on_duplicate` is ERROR."""
        work = partial(put_bookmark, owner=owner, url=url, fields=fields, now=stamp(now), on_duplicate=on_duplicate)
        return await self.database.write(partial(work, created_at=created_at))

    async def edit(
        self,
        owner: int,
        bookmark_id: int,
        fields: BookmarkFields,
        now: datetime,
        *,
        url: BookmarkUrl | None = None,
        etag: str | None = None,
    ) -> Bookmark:
        """Change a bookmark; AlreadySaved if another has the new URL, EtagMismatch if the ETag is outdated."""
        return await self.database.write(
            partial(
                edit_bookmark, owner=owner, bookmark_id=bookmark_id, fields=fields, now=stamp(now), url=url, etag=etag
            )
        )

    async def get(self, owner: int, bookmark_id: int) -> Bookmark:
        """Return a bookmark, also if it is in the trash; BookmarkNotFound if there is none."""
        return await self.database.look_up(partial(load_bookmark, owner=owner, bookmark_id=bookmark_id))

    async def find(self, owner: int, url: str, *, normalized_url: str = "") -> list[Bookmark]:
        """Return the bookmark that is saved under exactly this URL, if there is one."""
        return await self.database.look_up(partial(find_bookmarks, owner=owner, url=url, normalized_url=normalized_url))

    async def search(
        self, owner: int, search: BookmarkSearch, *, cursor: str | None = None, limit: int = 50
    ) -> BookmarkPage:
        """Return a page of bookmarks, newest first; ValueError if the cursor is not valid."""
        after = parse_cursor(cursor) if cursor else None
        return await self.database.read(partial(search_bookmarks, owner=owner, search=search, after=after, limit=limit))

    async def count_matches(self, owner: int, search: BookmarkSearch) -> int:
        """Return how many bookmarks match."""
        return await self.database.read(partial(count_matches, owner=owner, search=search))

    async def list_ids(self, owner: int) -> list[BookmarkInFolder]:
        """Return the id and the folder of every bookmark, newest first."""
        query = select(bookmarks.c.id, bookmarks.c.folder).where(bookmarks.c.owner_id == owner, _NOT_DELETED)
        newest_first = query.order_by(*NEWEST_FIRST)
        return await self.database.read(
            lambda connection: [BookmarkInFolder(row.id, row.folder) for row in connection.execute(newest_first)]
        )

    async def get_many(self, owner: int, ids: Sequence[int]) -> list[Bookmark]:
        """Return these bookmarks in this order, without those that were deleted."""
        query = select(*bookmark_columns).where(bookmarks.c.owner_id == owner, bookmarks.c.id.in_(ids), _NOT_DELETED)

        def work(connection: Connection) -> list[Bookmark]:
            found = {row.id: parse_row(row) for row in connection.execute(query)}
            return [found[each] for each in ids if each in found]

        return await self.database.read(work)

    async def trash(self, owner: int, bookmark_id: int, now: datetime, *, etag: str | None = None) -> Bookmark:
        """Move a bookmark to the trash; its URL can be saved again."""
        return await self.database.write(
            partial(_trash, owner=owner, bookmark_id=bookmark_id, now=stamp(now), etag=etag)
        )

    async def restore(self, owner: int, bookmark_id: int, now: datetime) -> Bookmark:
        """Move a bookmark out of the trash; AlreadySaved if another bookmark has its URL now."""
        return await self.database.write(partial(_restore, owner=owner, bookmark_id=bookmark_id, now=stamp(now)))

    async def empty_trash(self, before: datetime) -> int:
        """Delete the bookmarks that were moved to the trash before a time; return their number."""
        change = delete(bookmarks).where(bookmarks.c.deleted_at < stamp(before))
        return await self.database.write(lambda connection: connection.execute(change).rowcount)

    async def list_pending_expansions(self, before: datetime, limit: int = 1000) -> list[int]:
        """Return the ids of bookmarks, of all owners, whose short link was saved before a time and not expanded."""
        query = select(bookmarks.c.id).where(
            bookmarks.c.expansion == ExpansionState.PENDING, _NOT_DELETED, bookmarks.c.updated_at < stamp(before)
        )
        return await self.database.read(lambda connection: list(connection.execute(query.limit(limit)).scalars()))

    async def get_with_owner(self, bookmark_id: int) -> OwnedBookmark | None:
        """Return a bookmark and its owner for a background job; None if it was deleted."""

        def work(connection: Connection) -> OwnedBookmark | None:
            query = select(bookmarks.c.owner_id, *bookmark_columns).where(bookmarks.c.id == bookmark_id, _NOT_DELETED)
            for owner, *row in connection.execute(query):
                return OwnedBookmark(owner, parse_row(row))
            return None

        return await self.database.read(work)

    async def count_tags(self, owner: int) -> dict[str, int]:
        """Return every tag in alphabetical order, with the number of its bookmarks."""
        query = select(bookmarks.c.tags, func.count()).where(bookmarks.c.owner_id == owner, _NOT_DELETED)

        def work(connection: Connection) -> dict[str, int]:
            counts = Counter[str]()
            for text, count in connection.execute(query.group_by(bookmarks.c.tags)):
                for tag in json.loads(text):
                    counts[tag] += count
            return dict(sorted(counts.items()))

        return await self.database.read(work)

    async def count_by_month(self, since: datetime) -> dict[str, int]:
        """Return how many bookmarks, of all owners, were saved in each month since a time: `2026-03` → 12."""
        # Literals: PostgreSQL does not see that two parameters of the same value are the same expression.
        month = func.substr(bookmarks.c.created_at, literal_column("1"), literal_column("7"))
        query = select(month, func.count()).where(_NOT_DELETED, bookmarks.c.created_at >= stamp(since)).group_by(month)
        return await self.database.read(
            lambda connection: {name: int(count) for name, count in connection.execute(query)}
        )

    async def get_last_change(self, owner: int) -> str | None:
        """Return when the owner last saved, changed or deleted a bookmark; None if that never happened."""
        query = select(func.max(bookmarks.c.updated_at)).where(bookmarks.c.owner_id == owner)
        return await self.database.read(lambda connection: connection.execute(query).scalar())

    async def count(self, owner: int | None = None) -> int:
        """Return the number of bookmarks, of one owner or of all."""
        query = select(func.count()).select_from(bookmarks).where(_NOT_DELETED)
        if owner is not None:
            query = query.where(bookmarks.c.owner_id == owner)
        return await self.database.read(lambda connection: connection.execute(query).scalar_one())


# Steps of a transaction, also for the other stores that write bookmarks.


def load_bookmark(connection: Connection, owner: int, bookmark_id: int) -> Bookmark:
    """Return a bookmark of the owner; BookmarkNotFound if there is none."""
    return _load(_BY_ID, connection, owner, bookmark_id)


def lock_bookmark(connection: Connection, owner: int, bookmark_id: int) -> Bookmark:
    """Return a bookmark and lock its row, so that nothing changes it until the transaction ends."""
    return _load(_BY_ID_FOR_UPDATE, connection, owner, bookmark_id)


def _load(query: Prepared, connection: Connection, owner: int, bookmark_id: int) -> Bookmark:
    if -(2**63) <= bookmark_id < 2**63:  # the drivers refuse larger numbers, and no id is larger
        for row in query.fetch_all(connection, owner=owner, id=bookmark_id):
            return parse_row(row)
    raise BookmarkNotFound(bookmark_id)


def put_bookmark(
    connection: Connection,
    owner: int,
    url: BookmarkUrl,
    fields: BookmarkFields,
    now: str,
    on_duplicate: OnDuplicate,
    created_at: str = "",
) -> PutResult:
    """Insert a bookmark, or do what `on_duplicate` says if its URL is saved already."""
    if on_duplicate is not OnDuplicate.ALLOW:
        for found in _find_by_url(connection, owner, url.url, url.normalized_url):
            return put_again(connection, owner, found, fields, now, on_duplicate)
    key = make_key(url.url)
    row = {**make_empty_row(), **dump_fields(fields), **dump_url(url)}
    row |= {"owner_id": owner, "key": key, "created_at": created_at or now, "updated_at": now}
    row |= make_search_columns(row)
    for inserted in _INSERT.fetch_all(connection, **row):
        return PutResult(parse_row(inserted), PutOutcome.CREATED)
    if on_duplicate is OnDuplicate.ALLOW:
        row["key"] = make_key(f"{url.url} {uuid.uuid4()}")  # a URL has no blank, so no URL has this key
        [inserted] = _INSERT.fetch_all(connection, **row)
        return PutResult(parse_row(inserted), PutOutcome.CREATED)
    for found in find_bookmarks(connection, owner, url.url):
        return put_again(connection, owner, found, fields, now, on_duplicate)
    raise RetryTransaction  # the bookmark was deleted between the two statements


def put_again(
    connection: Connection, owner: int, found: Bookmark, fields: BookmarkFields, now: str, on_duplicate: OnDuplicate
) -> PutResult:
    """Do what `on_duplicate` says with the bookmark that was found in the place of a new one."""
    if on_duplicate is OnDuplicate.ERROR:
        raise AlreadySaved(found.id)
    if on_duplicate is not OnDuplicate.UPDATE or not fields:
        return PutResult(found, PutOutcome.NO_CHANGE)
    try:
        saved = lock_bookmark(connection, owner, found.id)
    except BookmarkNotFound:
        raise RetryTransaction from None  # the bookmark was merged with another
    if saved.url != found.url or saved.deleted_at is not None:
        raise RetryTransaction
    changed = change_bookmark(connection, owner, saved, now=now, fields=fields)
    return PutResult(changed, PutOutcome.NO_CHANGE if changed == saved else PutOutcome.UPDATED)


def edit_bookmark(
    connection: Connection,
    owner: int,
    bookmark_id: int,
    fields: BookmarkFields,
    now: str,
    url: BookmarkUrl | None,
    etag: str | None,
) -> Bookmark:
    """Change a bookmark; AlreadySaved if another has the new URL, EtagMismatch if the ETag is outdated."""
    saved = _lock_unchanged(connection, owner, bookmark_id, etag)
    if url is not None:
        require_unused_url(connection, owner, bookmark_id, url.url)
    return change_bookmark(connection, owner, saved, now=now, fields=fields, url=url)


def change_bookmark(
    connection: Connection,
    owner: int,
    bookmark: Bookmark,
    *,
    now: str,
    fields: BookmarkFields | None = None,
    url: BookmarkUrl | None = None,
) -> Bookmark:
    """Give a locked bookmark other fields or another URL, which must be free; write nothing if all are equal."""
    before = dump_bookmark(bookmark)
    after = {**before, **dump_fields(fields or {})}
    if url is not None:
        after |= {**dump_url(url), "key": make_key(url.url)}
        if url.url == bookmark.url:
            del after["key"]  # stays as it is: an allowed duplicate has a random key
        if url.exact_url and bookmark.exact_url:
            del after["policy"]  # a rekey changes it, see move_exact_bookmark
    is_published = bookmark.private and not after["private"]  # pages of private ones may not have been read
    if is_published or (url is not None and url.url != bookmark.url):
        after |= {"page_state": "pending", "page_attempts": 0, "page_retry_at": None}
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    if changed.keys() <= {"key", "same_key"}:
        return bookmark
    changed |= {"updated_at": now, **make_search_columns(after)}
    for row in _make_update(tuple(changed)).fetch_all(connection, owner=owner, bookmark=bookmark.id, **changed):
        return parse_row(row)
    raise BookmarkNotFound(bookmark.id)


def move_exact_bookmark(connection: Connection, owner: int, bookmark_id: int, url: BookmarkUrl) -> None:
    """Note the policy under which duplicates of an exact bookmark are found; its URL stays, so it is not updated."""
    values = {"policy": url.policy, "same_key": make_key(url.normalized_url)}
    connection.execute(
        update(bookmarks).where(bookmarks.c.owner_id == owner, bookmarks.c.id == bookmark_id).values(values)
    )


def require_unused_url(connection: Connection, owner: int, bookmark_id: int, url: str) -> None:
    """Raise AlreadySaved if another bookmark of the owner has this URL."""
    for other in find_bookmarks(connection, owner, url):
        if other.id != bookmark_id:
            raise AlreadySaved(other.id)


@cache
def _make_update(columns: tuple[str, ...]) -> Prepared:
    """Return the prepared update of these columns; there are few such sets, so each is compiled once."""
    return Prepared(
        lambda _: (
            update(bookmarks)
            .where(_IS_OWN, bookmarks.c.id == bindparam("bookmark"))
            .values({name: bindparam(name) for name in columns})
            .returning(*bookmark_columns)
        )
    )


def find_bookmarks(connection: Connection, owner: int, url: str, normalized_url: str = "") -> list[Bookmark]:
    """Return the bookmark that is saved under exactly this URL, if there is one.

    `normalized_url` is needed only to find a duplicate of an exact URL that was allowed and whose twin was deleted.
    """
    found = [parse_row(row) for row in _BY_KEY.fetch_all(connection, owner=owner, key=make_key(url))]
    return found or _find_by_url(connection, owner, url, normalized_url or url)


def _find_by_url(connection: Connection, owner: int, url: str, normalized_url: str) -> list[Bookmark]:
    keys = {"key": make_key(url), "same_key": make_key(normalized_url)}
    return [parse_row(row) for row in _BY_URL.fetch_all(connection, owner=owner, url=url, **keys)]


def _trash(connection: Connection, owner: int, bookmark_id: int, now: str, etag: str | None) -> Bookmark:
    _lock_unchanged(connection, owner, bookmark_id, etag)
    connection.execute(
        update(bookmarks)
        .where(bookmarks.c.owner_id == owner, bookmarks.c.id == bookmark_id)
        .values(deleted_at=now, updated_at=now)
    )
    return load_bookmark(connection, owner, bookmark_id)


def _restore(connection: Connection, owner: int, bookmark_id: int, now: str) -> Bookmark:
    saved = lock_bookmark(connection, owner, bookmark_id)
    if saved.deleted_at is None:
        return saved
    # Compare keys, not URLs: a duplicate that was allowed may return beside its twin.
    own_key = select(bookmarks.c.key).where(bookmarks.c.id == bookmark_id).scalar_subquery()
    is_same = (bookmarks.c.owner_id == owner) & (bookmarks.c.key == own_key) & _NOT_DELETED
    if (other := connection.execute(select(bookmarks.c.id).where(is_same)).scalar()) is not None:
        raise AlreadySaved(other)
    connection.execute(
        update(bookmarks)
        .where(bookmarks.c.owner_id == owner, bookmarks.c.id == bookmark_id)
        .values(deleted_at=None, updated_at=now)
    )
    return load_bookmark(connection, owner, bookmark_id)


def _lock_unchanged(connection: Connection, owner: int, bookmark_id: int, etag: str | None) -> Bookmark:
    """Lock a bookmark that is not in the trash; EtagMismatch if it no longer has one of the ETags."""
    saved = lock_bookmark(connection, owner, bookmark_id)
    if saved.deleted_at is not None:
        raise BookmarkNotFound(bookmark_id)
    if etag is not None and etag != "*" and saved.etag not in {each.strip() for each in etag.split(",")}:
        raise EtagMismatch(bookmark_id)
    return saved
