"""Bookmarks: each link of an owner once, however many put it there at once (contract B3–B5)."""

from __future__ import annotations

import json
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, cast, delete, func, literal, select, tuple_, update
from sqlalchemy.dialects import postgresql

from canonry.bookmarks.bookmark import (
    Address,
    AlreadyKept,
    Bookmark,
    Changed,
    ExpansionState,
    NoBookmark,
    OnDuplicate,
    Page,
    Put,
    PutOutcome,
    Search,
)
from canonry.bookmarks.bookmark_rows import (
    as_bookmark,
    as_json,
    bookmark_columns,
    empty_row,
    key_of,
    placed,
    row_of,
    searchable,
    stored_texts,
)
from canonry.core.keys import replace_unstorable
from canonry.store.database import Retry
from canonry.store.schema import bookmarks, stamp
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement

    from canonry.store.database import Database

_INSERT = Prepared(
    lambda _: (
        # Both databases understand it; the name of the dialect is only where the construct lives.
        postgresql.insert(bookmarks)
        .on_conflict_do_nothing(index_elements=["owner_id", "key"], index_where=bookmarks.c.deleted_at.is_(None))
        .returning(*bookmark_columns)
    ),
    [column.name for column in bookmarks.c if column.name not in {"id", "deleted_at"}],
)
_IS_KEPT = bookmarks.c.deleted_at.is_(None)
_NEWEST_FIRST = (bookmarks.c.created_at.desc(), bookmarks.c.id.desc())
_IS_OWN = bookmarks.c.owner_id == bindparam("owner")
_BY_KEY = Prepared(lambda _: select(*bookmark_columns).where(_IS_OWN, bookmarks.c.key == bindparam("key"), _IS_KEPT))
_BY_ID = Prepared(lambda _: select(*bookmark_columns).where(_IS_OWN, bookmarks.c.id == bindparam("id")))
_TO_CHANGE = Prepared(
    lambda _: select(*bookmark_columns).where(_IS_OWN, bookmarks.c.id == bindparam("id")).with_for_update()
)


class BookmarkStore:
    """The bookmarks of a database; every call names the owner whose they are."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def put(
        self,
        owner: int,
        address: Address,
        texts: Mapping[str, Any],
        now: datetime,
        *,
        on_duplicate: OnDuplicate = OnDuplicate.RETURN,
        created_at: str = "",
    ) -> Put:
        """Keep a link; AlreadyKept where it is there and that is to be an error."""
        work = partial(put_now, owner=owner, address=address, texts=texts, now=stamp(now), on_duplicate=on_duplicate)
        return await self.database.write(partial(work, created_at=created_at))

    async def edit(
        self,
        owner: int,
        bookmark_id: int,
        texts: Mapping[str, Any],
        now: datetime,
        *,
        address: Address | None = None,
        etag: str | None = None,
    ) -> Bookmark:
        """Change a bookmark; AlreadyKept where another has the new URL, Changed where the ETag is an older one."""
        return await self.database.write(
            partial(
                _edit, owner=owner, bookmark_id=bookmark_id, texts=texts, now=stamp(now), address=address, etag=etag
            )
        )

    async def get(self, owner: int, bookmark_id: int) -> Bookmark:
        """The bookmark, also one in the trash."""
        return await self.database.look_up(partial(get_now, owner=owner, bookmark_id=bookmark_id))

    async def find(self, owner: int, url: str) -> list[Bookmark]:
        """The bookmark at this URL, as it is kept, if there is one."""
        return await self.database.look_up(partial(_find, owner=owner, url=url))

    async def page(self, owner: int, search: Search, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Bookmarks, the newest first; ValueError for a cursor that is none of ours."""
        return await self.database.read(
            partial(_page, owner=owner, search=search, after=_position(cursor) if cursor else None, limit=limit)
        )

    async def ids(self, owner: int) -> list[tuple[int, str]]:
        """Every bookmark, the newest first, and its folder."""
        query = select(bookmarks.c.id, bookmarks.c.folder).where(bookmarks.c.owner_id == owner, _IS_KEPT)
        newest_first = query.order_by(*_NEWEST_FIRST)
        return await self.database.read(
            lambda connection: [(row[0], row[1]) for row in connection.execute(newest_first)]
        )

    async def several(self, owner: int, ids: Sequence[int]) -> list[Bookmark]:
        """These bookmarks in this order, without those that are gone."""
        query = select(*bookmark_columns).where(bookmarks.c.owner_id == owner, bookmarks.c.id.in_(ids), _IS_KEPT)

        def work(connection: Connection) -> list[Bookmark]:
            found = [as_bookmark(row) for row in connection.execute(query)]
            return sorted(found, key=lambda kept: ids.index(kept.id))

        return await self.database.read(work)

    async def trash(self, owner: int, bookmark_id: int, now: datetime, *, etag: str | None = None) -> Bookmark:
        """Put a bookmark into the trash, where its URL is free for another."""
        return await self.database.write(
            partial(_trash, owner=owner, bookmark_id=bookmark_id, now=stamp(now), etag=etag)
        )

    async def restore(self, owner: int, bookmark_id: int, now: datetime) -> Bookmark:
        """Take a bookmark out of the trash; AlreadyKept where another has its URL by now."""
        return await self.database.write(partial(_restore, owner=owner, bookmark_id=bookmark_id, now=stamp(now)))

    async def empty_trash(self, before: datetime) -> int:
        """Forget what has been in the trash since before this time."""
        gone = delete(bookmarks).where(bookmarks.c.deleted_at < stamp(before))
        return await self.database.write(lambda connection: connection.execute(gone).rowcount)

    async def pending(self, before: datetime, limit: int = 1000) -> list[int]:
        """Bookmarks whose short link is still to be followed, put before this time."""
        query = select(bookmarks.c.id).where(
            bookmarks.c.expansion == ExpansionState.PENDING, _IS_KEPT, bookmarks.c.updated_at < stamp(before)
        )
        return await self.database.read(lambda connection: list(connection.execute(query.limit(limit)).scalars()))

    async def with_owner(self, bookmark_id: int) -> tuple[int, Bookmark] | None:
        """A bookmark and whose it is, for work in the background; None where it is gone."""

        def work(connection: Connection) -> tuple[int, Bookmark] | None:
            query = select(bookmarks.c.owner_id, *bookmark_columns).where(bookmarks.c.id == bookmark_id, _IS_KEPT)
            row = connection.execute(query).first()
            return None if row is None else (row[0], as_bookmark(row[1:]))

        return await self.database.read(work)

    async def tags(self, owner: int) -> dict[str, int]:
        """Every tag of the owner's bookmarks, in order, and how many have it."""
        query = select(bookmarks.c.tags, func.count()).where(bookmarks.c.owner_id == owner, _IS_KEPT)

        def work(connection: Connection) -> dict[str, int]:
            counts = Counter[str]()
            for text, count in connection.execute(query.group_by(bookmarks.c.tags)):
                for tag in json.loads(text):
                    counts[tag] += count
            return dict(sorted(counts.items()))

        return await self.database.read(work)

    async def last_change(self, owner: int) -> str | None:
        """When the owner last kept, changed or deleted one; None where there never was any."""
        query = select(func.max(bookmarks.c.updated_at)).where(bookmarks.c.owner_id == owner)
        return await self.database.read(lambda connection: connection.execute(query).scalar())

    async def count(self, owner: int | None = None) -> int:
        """How many bookmarks an owner, or everybody, keeps."""
        query = select(func.count()).select_from(bookmarks).where(_IS_KEPT)
        if owner is not None:
            query = query.where(bookmarks.c.owner_id == owner)
        return await self.database.read(lambda connection: connection.execute(query).scalar_one())


def get_now(connection: Connection, owner: int, bookmark_id: int) -> Bookmark:
    """The bookmark of an owner; NoBookmark where there is none."""
    return _get(_BY_ID, connection, owner, bookmark_id)


def get_to_change(connection: Connection, owner: int, bookmark_id: int) -> Bookmark:
    """`get_now`, and nobody else changes it until the transaction ends: what is written is based on what was read."""
    return _get(_TO_CHANGE, connection, owner, bookmark_id)


def _get(query: Prepared, connection: Connection, owner: int, bookmark_id: int) -> Bookmark:
    if -(2**63) <= bookmark_id < 2**63:
        for row in query.rows(connection, owner=owner, id=bookmark_id):
            return as_bookmark(row)
    raise NoBookmark(bookmark_id)


def put_now(
    connection: Connection,
    owner: int,
    address: Address,
    texts: Mapping[str, Any],
    now: str,
    on_duplicate: OnDuplicate,
    created_at: str = "",
) -> Put:
    """`BookmarkStore.put`, in a transaction."""
    key = key_of(address.url)
    row = {**empty_row(), **stored_texts(texts), **placed(address)}
    row |= {"owner_id": owner, "key": key, "created_at": created_at or now, "updated_at": now}
    row["haystack"] = searchable(row)
    for made in _INSERT.rows(connection, **row):
        return Put(as_bookmark(made), PutOutcome.CREATED)
    if on_duplicate is OnDuplicate.ALLOW:
        row["key"] = key_of(f"{address.url} {uuid.uuid4()}")  # no URL has a blank
        [made] = _INSERT.rows(connection, **row)
        return Put(as_bookmark(made), PutOutcome.CREATED)
    found = _BY_KEY.rows(connection, owner=owner, key=key)
    if not found:
        raise Retry  # deleted between the two questions
    kept = as_bookmark(found[0])
    if on_duplicate is OnDuplicate.ERROR:
        raise AlreadyKept(kept.id)
    if on_duplicate is OnDuplicate.UPDATE and texts:
        try:
            kept = get_to_change(connection, owner, kept.id)
        except NoBookmark:
            raise Retry from None  # made one with another
        if kept.url != address.url or kept.deleted_at is not None:
            raise Retry
        changed = _write(connection, owner, kept, texts, now)
        return Put(changed, PutOutcome.NO_CHANGE if changed == kept else PutOutcome.UPDATED)
    return Put(kept, PutOutcome.NO_CHANGE)


def _edit(
    connection: Connection,
    owner: int,
    bookmark_id: int,
    texts: Mapping[str, Any],
    now: str,
    address: Address | None,
    etag: str | None,
) -> Bookmark:
    kept = get_to_change(connection, owner, bookmark_id)
    if kept.deleted_at is not None:
        raise NoBookmark(bookmark_id)
    _require_same(kept, etag)
    if address is not None:
        require_free(connection, owner, bookmark_id, address.url)
    return _write(connection, owner, kept, texts, now, address)


def move_now(connection: Connection, owner: int, kept: Bookmark, address: Address, now: str) -> Bookmark:
    """Give a bookmark another URL that is known to be free."""
    return _write(connection, owner, kept, {}, now, address)


def write_texts(connection: Connection, owner: int, kept: Bookmark, texts: Mapping[str, Any], now: str) -> Bookmark:
    """Give a bookmark that was read to be changed other texts."""
    return _write(connection, owner, kept, texts, now)


def require_free(connection: Connection, owner: int, bookmark_id: int, url: str) -> None:
    """AlreadyKept where another bookmark of the owner has this URL."""
    for row in _BY_KEY.rows(connection, owner=owner, key=key_of(url)):
        if row[0] != bookmark_id:
            raise AlreadyKept(row[0])


def _write(
    connection: Connection,
    owner: int,
    kept: Bookmark,
    texts: Mapping[str, Any],
    now: str,
    address: Address | None = None,
) -> Bookmark:
    """The bookmark with other texts, at another address; not touched where nothing differs."""
    before = row_of(kept)
    after = {**before, **stored_texts(texts)}
    if address is not None:
        after |= {**placed(address), "key": key_of(address.url)}
        if address.url == kept.url:
            del after["key"]  # one that was allowed beside its twin keeps its own
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    if changed.keys() <= {"key", "same_key"}:
        return kept
    changed |= {"updated_at": now, "haystack": searchable(after)}
    for row in _update_of(tuple(changed)).rows(connection, owner=owner, kept=kept.id, **changed):
        return as_bookmark(row)
    raise NoBookmark(kept.id)


@cache
def _update_of(names: tuple[str, ...]) -> Prepared:
    """A change of these columns: there are few such sets, and many bookmarks."""
    return Prepared(
        lambda _: (
            update(bookmarks)
            .where(_IS_OWN, bookmarks.c.id == bindparam("kept"))
            .values({name: bindparam(name) for name in names})
            .returning(*bookmark_columns)
        )
    )


def _find(connection: Connection, owner: int, url: str) -> list[Bookmark]:
    return [as_bookmark(row) for row in _BY_KEY.rows(connection, owner=owner, key=key_of(url))]


def _page(connection: Connection, owner: int, search: Search, after: tuple[str, int] | None, limit: int) -> Page:
    query = (
        select(*bookmark_columns)
        .where(bookmarks.c.owner_id == owner, *_conditions(search, is_sqlite=connection.dialect.name == "sqlite"))
        .order_by(*_NEWEST_FIRST)
        .limit(limit + 1)
    )
    if after is not None:
        query = query.where(tuple_(bookmarks.c.created_at, bookmarks.c.id) < after)
    found = [as_bookmark(row) for row in connection.execute(query)]
    shown = tuple(found[:limit])
    return Page(shown, _cursor(shown[-1]) if len(found) > limit else None)


def _conditions(search: Search, *, is_sqlite: bool) -> Iterator[ColumnElement[bool]]:
    yield bookmarks.c.deleted_at.is_not(None) if search.in_trash else _IS_KEPT
    for word in replace_unstorable(search.words).lower().split():
        yield bookmarks.c.haystack.contains(word, autoescape=True)
    if search.tag:
        # Not LIKE, which takes no notice of case on SQLite: `Polish` is not `polish`.
        place_of = func.instr if is_sqlite else func.strpos
        tag = replace_unstorable(search.tag)
        yield place_of(bookmarks.c.tags, as_json(tag)) > 0  # quick, but it may begin in one tag and end in the next
        if is_sqlite:
            yield literal(tag).in_(select(func.json_each(bookmarks.c.tags).table_valued("value").c.value))
        else:
            yield func.jsonb_exists(cast(bookmarks.c.tags, postgresql.JSONB), tag)
    if search.folder:
        yield bookmarks.c.folder == replace_unstorable(search.folder)
    if search.to_read is not None:
        yield bookmarks.c.to_read == int(search.to_read)


def _trash(connection: Connection, owner: int, bookmark_id: int, now: str, etag: str | None) -> Bookmark:
    kept = get_to_change(connection, owner, bookmark_id)
    if kept.deleted_at is not None:
        raise NoBookmark(bookmark_id)
    _require_same(kept, etag)
    connection.execute(
        update(bookmarks)
        .where(bookmarks.c.owner_id == owner, bookmarks.c.id == bookmark_id)
        .values(deleted_at=now, updated_at=now)
    )
    return get_now(connection, owner, bookmark_id)


def _restore(connection: Connection, owner: int, bookmark_id: int, now: str) -> Bookmark:
    kept = get_to_change(connection, owner, bookmark_id)
    if kept.deleted_at is None:
        return kept
    require_free(connection, owner, bookmark_id, kept.url)
    connection.execute(
        update(bookmarks)
        .where(bookmarks.c.owner_id == owner, bookmarks.c.id == bookmark_id)
        .values(deleted_at=None, updated_at=now)
    )
    return get_now(connection, owner, bookmark_id)


def _require_same(kept: Bookmark, etag: str | None) -> None:
    if etag is not None and etag != "*" and kept.etag not in {each.strip() for each in etag.split(",")}:
        raise Changed("the bookmark has been changed since")


def _cursor(last: Bookmark) -> str:
    return urlsafe_b64encode(f"{last.created_at} {last.id}".encode()).decode()


def _position(cursor: str) -> tuple[str, int]:
    created_at, _, bookmark_id = urlsafe_b64decode(cursor).decode().rpartition(" ")
    if not bookmark_id.isdecimal() or len(bookmark_id) > 18 or not created_at:
        raise ValueError("not a cursor")
    return replace_unstorable(created_at), int(bookmark_id)
