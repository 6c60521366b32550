"""Rekeys of bookmarks in the database: progress, and one batch per transaction (contract B7, N10).

The table is called `renormalizations`, the word that rekeying bookmarks had before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, insert, select, update

from canonry.bookmarks.bookmark import BookmarkUrl, ExpansionState
from canonry.bookmarks.bookmark_rows import bookmark_columns, parse_row
from canonry.bookmarks.bookmark_store import change_bookmark, move_exact_bookmark, require_unused_url
from canonry.bookmarks.duplicates import MergeReason, merge_bookmarks
from canonry.errors import AlreadySaved, RekeyNotFound
from canonry.store.pinned_policies import BOOKMARK, check_pinnable, load_overrides, repin_policy
from canonry.store.schema import bookmarks, renormalizations, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from canonry.bookmarks.bookmark import Bookmark
    from canonry.store.database import Database

    # Returns the URL of a bookmark under the new policy, None if its stored URL is not valid.
    RekeyUrl = Callable[[Bookmark], BookmarkUrl | None]

_BATCH_ROWS = 25  # in one transaction: a request that saves a bookmark meanwhile waits for one batch at most
_MAX_LISTED_REKEYS = 20


@dataclass(frozen=True, slots=True)
class BookmarkRekey:
    """A rekey of all bookmarks and its progress; `refused` bookmarks have a URL that is no longer valid."""

    id: int
    to_policy: str
    total: int
    done: int
    changed: int
    merged: int
    refused: int
    started_at: str
    finished_at: str | None


class BookmarkRekeyStore:
    """The rekeys of bookmarks in a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def start(self, to_policy: str, now: datetime) -> BookmarkRekey:
        """Pin new bookmarks to a policy; return the rekey to it, which may be under way already."""
        await self.database.read(lambda connection: load_overrides(connection, to_policy))
        policy_id = check_pinnable(to_policy)
        return await self.database.write(partial(_start, policy_id=policy_id, now=stamp(now)))

    async def get(self, rekey_id: int) -> BookmarkRekey:
        """Return a rekey; RekeyNotFound if there is none with this id."""
        for found in await self.database.read(partial(_select_rekeys, rekey_id=rekey_id)):
            return found
        raise RekeyNotFound(rekey_id)

    async def list_latest(self) -> list[BookmarkRekey]:
        """Return the latest rekeys, newest first."""
        return await self.database.read(_select_rekeys)

    async def move_batch(self, rekey_id: int, rekey_url: RekeyUrl, now: datetime) -> bool:
        """Move the next bookmarks to the new policy; return False when none was left."""
        return await self.database.write(partial(_move_batch, rekey_id=rekey_id, rekey_url=rekey_url, now=stamp(now)))


def get_source_url(bookmark: Bookmark) -> str:
    """Return the URL to normalize again: what the user gave, or the target of an expanded short link."""
    # The target of a short link is known; a rekey of many bookmarks sends no requests.
    if bookmark.expansion is ExpansionState.EXPANDED:
        return bookmark.url
    return bookmark.original_url or bookmark.url


def stream_bookmarked_urls(connection: Connection, page_rows: int = 1000) -> Iterator[str]:
    """Yield the source URL of every bookmark that a policy applies to: all but the exact ones."""
    query = select(*bookmark_columns).where(bookmarks.c.exact_url == 0, bookmarks.c.deleted_at.is_(None))
    last_id = 0
    while rows := connection.execute(
        query.where(bookmarks.c.id > last_id).order_by(bookmarks.c.id).limit(page_rows)
    ).all():
        found = [parse_row(row) for row in rows]
        yield from map(get_source_url, found)
        last_id = found[-1].id


def _start(connection: Connection, policy_id: str, now: str) -> BookmarkRekey:
    c = renormalizations.c
    rekey_id = connection.execute(select(c.id).where(c.finished_at.is_(None), c.to_policy == policy_id)).scalar()
    if rekey_id is None:
        repin_policy(connection, BOOKMARK, policy_id)
        # A rekey to another policy ends here: this one moves the rest of its rows.
        connection.execute(update(renormalizations).where(c.finished_at.is_(None)).values(finished_at=now))
        remaining = select(func.count()).select_from(bookmarks).where(bookmarks.c.policy != policy_id)
        row = {"to_policy": policy_id, "total": connection.execute(remaining).scalar_one(), "started_at": now}
        rekey_id = connection.execute(insert(renormalizations).values(row).returning(c.id)).scalar_one()
    [started] = _select_rekeys(connection, rekey_id)
    return started


def _select_rekeys(connection: Connection, rekey_id: int | None = None) -> list[BookmarkRekey]:
    query = select(renormalizations).order_by(renormalizations.c.id.desc()).limit(_MAX_LISTED_REKEYS)
    if rekey_id is not None:
        query = query.where(renormalizations.c.id == rekey_id)
    found = [BookmarkRekey(**row) for row in connection.execute(query).mappings()]
    load_overrides(connection, *(each.to_policy for each in found if each.finished_at is None))
    return found


def _move_batch(connection: Connection, rekey_id: int, rekey_url: RekeyUrl, now: str) -> bool:
    [rekey] = _select_rekeys(connection, rekey_id)
    if rekey.finished_at is not None:
        return False
    query = (
        select(bookmarks.c.owner_id, *bookmark_columns)
        .where(bookmarks.c.policy != rekey.to_policy)
        .order_by(bookmarks.c.policy, bookmarks.c.id)
        .limit(_BATCH_ROWS)
    )
    rows = [(owner, parse_row(row)) for owner, *row in connection.execute(query)]
    batch = _Batch(connection, rekey.to_policy, now)
    for owner, bookmark in rows:
        batch.move(owner, bookmark, rekey_url(bookmark))
    c = renormalizations.c
    values = {
        "done": c.done + len(rows),
        "changed": c.changed + batch.changed,
        "merged": c.merged + batch.merged,
        "refused": c.refused + batch.refused,
    }
    connection.execute(update(renormalizations).where(c.id == rekey_id).values(values))
    if not rows:
        connection.execute(update(renormalizations).where(c.id == rekey_id).values(finished_at=now))
    return bool(rows)


class _Batch:
    """The bookmarks of one transaction, moved one by one and counted."""

    def __init__(self, connection: Connection, to_policy: str, now: str) -> None:
        self.changed = self.merged = self.refused = 0
        self._connection = connection
        self._to_policy = to_policy
        self._now = now
        self._merged_away: set[int] = set()

    def move(self, owner: int, bookmark: Bookmark, url: BookmarkUrl | None) -> None:
        """Change the URL of a bookmark to the new policy, or merge the bookmark with the one that has this URL."""
        if bookmark.id in self._merged_away:
            return
        if url is None:
            self.refused += 1
            url = BookmarkUrl(bookmark.url, bookmark.original_url, bookmark.url, bookmark.exact_url, self._to_policy)
        self.changed += url.url != bookmark.url
        if bookmark.deleted_at is None:
            try:
                require_unused_url(self._connection, owner, bookmark.id, url.url)
            except AlreadySaved as error:
                older, newer = sorted((bookmark.id, error.bookmark_id))
                bookmark = merge_bookmarks(
                    self._connection, owner, older, [newer], now=self._now, why=MergeReason.POLICY
                )
                self._merged_away.add(newer)
                self.merged += 1
                if older == error.bookmark_id:
                    return  # the bookmark that was kept has the new URL already
        if url.exact_url:
            move_exact_bookmark(self._connection, owner, bookmark.id, url)
        else:
            change_bookmark(self._connection, owner, bookmark, now=self._now, url=url)
