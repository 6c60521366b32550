"""Rekeys of bookmarks in the database: progress, and one batch per transaction (contract B7, N10).

The table is called `renormalizations`, the word that rekeying bookmarks had before.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, insert, select, update

from canonry.bookmarks.bookmark import BookmarkUrl, ExpansionState
from canonry.bookmarks.bookmark_rows import bookmark_columns, parse_row
from canonry.bookmarks.bookmark_store import (
    change_bookmark,
    load_bookmark,
    lock_bookmark,
    move_exact_bookmark,
    require_unused_url,
)
from canonry.bookmarks.duplicates import MergeReason, merge_bookmarks
from canonry.core.policy_diff import KeyChange
from canonry.errors import AlreadySaved, BookmarkNotFound, RekeyNotFound, RekeyUnfinished
from canonry.rekey.bookmark_journal import Journal, restore_bookmarks
from canonry.store.pinned_policies import (
    BOOKMARK,
    check_pinnable,
    get_policy,
    lock_policy,
    remember_stored_overrides,
    repin_policy,
    require_pinned,
)
from canonry.store.schema import bookmarks, renormalizations, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from canonry.bookmarks.bookmark import Bookmark
    from canonry.rekey.key_counts import RekeyCounts
    from canonry.store.database import Database

    # Returns the URL of a bookmark under the new policy, None if its stored URL is not valid.
    RekeyUrl = Callable[[Bookmark], BookmarkUrl | None]
    # Returns a source URL under the new policy, None if it is not valid.
    NormalizeAgain = Callable[[str], str | None]

BATCH_ROWS = 25  # in one transaction: a request that saves a bookmark meanwhile waits for one batch at most
_MAX_LISTED_REKEYS = 20
_PLAN_ROWS = 1000


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
    from_policy: str = ""
    undo_started_at: str | None = None
    undone_at: str | None = None

    @property
    def is_undoing(self) -> bool:
        """Whether the undo was started and is not finished."""
        return self.undo_started_at is not None and self.undone_at is None

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do: moved, or moved back."""
        return self.finished_at is not None and not self.is_undoing


class BookmarkRekeyStore:
    """The rekeys of bookmarks in a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def start(self, to_policy: str, now: datetime, *, from_policy: str | None = None) -> BookmarkRekey:
        """Pin new bookmarks to a policy; return the rekey to it, which may be under way already.

        RekeyUnfinished if `from_policy` is given and no longer the policy of the bookmarks.
        """
        await self.load_overrides(to_policy)
        policy_id = check_pinnable(to_policy)
        return await self.database.write(partial(_start, policy_id=policy_id, now=stamp(now), from_policy=from_policy))

    async def get(self, rekey_id: int) -> BookmarkRekey:
        """Return a rekey; RekeyNotFound if there is none with this id."""
        for found in await self.database.read(partial(_select_rekeys, rekey_id=rekey_id)):
            return found
        raise RekeyNotFound(rekey_id)

    async def list_latest(self) -> list[BookmarkRekey]:
        """Return the latest rekeys, newest first."""
        return await self.database.read(_select_rekeys)

    async def move_batch(self, rekey_id: int, rekey_url: RekeyUrl, now: datetime, *, size: int = BATCH_ROWS) -> bool:
        """Move the next bookmarks to the new policy; return False when none was left."""
        work = partial(_move_batch, rekey_id=rekey_id, rekey_url=rekey_url, now=stamp(now), size=size)
        return await self.database.write(work)

    async def move_restored(
        self, owner: int, ids: Sequence[int], rekey_url: Callable[[Bookmark, str], BookmarkUrl | None], now: datetime
    ) -> list[Bookmark]:
        """Move bookmarks, which the undo of a merge has restored, to the policy of the store; return them.

        Where another bookmark has the new URL, or would get it, a bookmark stays as it is: nothing is merged.
        """
        work = partial(_move_restored, owner=owner, ids=ids, rekey_url=rekey_url, now=stamp(now))
        return await self.database.write(work)

    async def start_undo(self, rekey_id: int, now: datetime) -> BookmarkRekey:
        """Pin new bookmarks to the policy before a rekey, and begin to undo it; the same call again changes nothing."""
        return await self.database.write(partial(_start_undo, rekey_id=rekey_id, now=stamp(now)))

    async def restore_batch(self, rekey_id: int, rekey_url: RekeyUrl, now: datetime, *, size: int = BATCH_ROWS) -> bool:
        """Restore the last bookmarks that the rekey moved; return False when none was left."""
        work = partial(_restore_batch, rekey_id=rekey_id, rekey_url=rekey_url, now=stamp(now), size=size)
        return await self.database.write(work)

    async def get_policy(self) -> str:
        """Return the policy of the bookmarks."""
        return await self.database.read(lambda connection: get_policy(connection, BOOKMARK))

    async def load_overrides(self, policy_id: str) -> None:
        """Make the overrides that the store has for a policy known to this process."""
        await self.database.read(lambda connection: remember_stored_overrides(connection, policy_id))

    async def plan_page(self, counts: RekeyCounts, position: int, normalize_again: NormalizeAgain) -> int:
        """Count what a rekey would change in the next bookmarks; return the id of the last, 0 after the end."""
        work = partial(_plan_page, counts=counts, position=position, normalize_again=normalize_again)
        return await self.database.read(work)

    async def find_last(self, from_policy: str, to_policy: str) -> BookmarkRekey:
        """Return the last rekey between these policies that was not undone; RekeyNotFound if there is none."""
        for found in await self.list_latest():
            if (found.from_policy, found.to_policy) == (from_policy, to_policy) and found.undone_at is None:
                return found
        raise RekeyNotFound(0)


def get_source_url(bookmark: Bookmark) -> str:
    """Return the URL to normalize again: what the user gave, or the target of an expanded short link."""
    # The target of a short link is known; a rekey of many bookmarks sends no requests.
    return _choose_source_url(bookmark.url, bookmark.original_url, bookmark.expansion)


def _choose_source_url(url: str, original_url: str | None, expansion: str) -> str:
    return url if expansion == ExpansionState.EXPANDED else original_url or url


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


def _start(connection: Connection, policy_id: str, now: str, from_policy: str | None) -> BookmarkRekey:
    c = renormalizations.c
    pinned = lock_policy(connection, BOOKMARK)
    if from_policy not in {None, pinned}:
        raise RekeyUnfinished(f"The policy of bookmarks is {pinned} now. Check the change, then try again.")
    for undoing in _select_rekeys(connection):
        if undoing.is_undoing:
            raise RekeyUnfinished(f"The undo of rekey {undoing.id} is unfinished. Wait for it, then start again.")
    is_running = (c.finished_at.is_(None), c.to_policy == policy_id)
    rekey_id = connection.execute(select(c.id).where(*is_running)).scalar()
    if rekey_id is None:
        repin_policy(connection, BOOKMARK, policy_id)
        # A rekey to another policy ends here: this one moves the rest of its rows.
        connection.execute(update(renormalizations).where(c.finished_at.is_(None)).values(finished_at=now))
        remaining = select(func.count()).select_from(bookmarks).where(bookmarks.c.policy != policy_id)
        row = {
            "from_policy": pinned,
            "to_policy": policy_id,
            "total": connection.execute(remaining).scalar_one(),
            "started_at": now,
        }
        rekey_id = connection.execute(insert(renormalizations).values(row).returning(c.id)).scalar_one()
    [started] = _select_rekeys(connection, rekey_id)
    return started


def _start_undo(connection: Connection, rekey_id: int, now: str) -> BookmarkRekey:
    lock_policy(connection, BOOKMARK)
    for latest in _select_rekeys(connection):
        if latest.id > rekey_id and latest.is_undoing:
            raise RekeyUnfinished(f"The undo of rekey {latest.id} is unfinished. Wait for it, then start again.")
        if latest.id > rekey_id and latest.undone_at is None:
            raise RekeyUnfinished(f"Rekey {latest.id} came after rekey {rekey_id}. Undo it first.")
    for found in _select_rekeys(connection, rekey_id):
        if found.undo_started_at is None:
            repin_policy(connection, BOOKMARK, found.from_policy)
            values = {"undo_started_at": now, "finished_at": found.finished_at or now}
            connection.execute(update(renormalizations).where(renormalizations.c.id == rekey_id).values(values))
        [started] = _select_rekeys(connection, rekey_id)
        return started
    raise RekeyNotFound(rekey_id)


def _plan_page(connection: Connection, counts: RekeyCounts, position: int, normalize_again: NormalizeAgain) -> int:
    table = bookmarks.c
    query = (  # a preview reads all bookmarks, so it does not parse what it does not show
        select(table.id, table.owner_id, table.url, table.original_url, table.exact_url, table.expansion)
        .where(table.id > position, table.deleted_at.is_(None))
        .order_by(table.id)
        .limit(_PLAN_ROWS)
    )
    changes: list[KeyChange] = []
    owners: list[int] = []
    last_id = 0
    for bookmark_id, owner, url, original_url, exact_url, expansion in connection.execute(query).all():
        source = _choose_source_url(url, original_url, expansion)
        after = url if exact_url else normalize_again(source) or url
        changes.append(KeyChange(source, url, after))
        owners.append(owner)
        last_id = bookmark_id
    counts.add(len(changes), changes, owners)
    return last_id


def _select_rekeys(connection: Connection, rekey_id: int | None = None) -> list[BookmarkRekey]:
    query = select(renormalizations).order_by(renormalizations.c.id.desc()).limit(_MAX_LISTED_REKEYS)
    if rekey_id is not None:
        query = query.where(renormalizations.c.id == rekey_id)
    found = [BookmarkRekey(**row) for row in connection.execute(query).mappings()]
    for each in found:
        if not each.is_over:
            remember_stored_overrides(connection, each.from_policy, each.to_policy)
    return found


def _lock_rekey(connection: Connection, rekey_id: int) -> BookmarkRekey:
    """Return a rekey and lock it: on PostgreSQL its undo, another batch or another rekey waits for this transaction."""
    connection.execute(select(renormalizations.c.id).where(renormalizations.c.id == rekey_id).with_for_update())
    [rekey] = _select_rekeys(connection, rekey_id)
    return rekey


def _move_batch(connection: Connection, rekey_id: int, rekey_url: RekeyUrl, now: str, size: int) -> bool:
    rekey = _lock_rekey(connection, rekey_id)
    if rekey.finished_at is not None:
        return False
    journal = Journal(connection, rekey_id)
    batch = _Batch(connection, rekey.to_policy, now, journal)
    rows = _move_rows(connection, batch, rekey_url, size)
    journal.write()
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


def _move_rows(connection: Connection, batch: _Batch, rekey_url: RekeyUrl, size: int) -> list[int]:
    """Move the next bookmarks that are under another policy; return their ids."""
    query = (
        select(bookmarks.c.owner_id, bookmarks.c.id)
        .where(bookmarks.c.policy != batch.to_policy)
        .order_by(bookmarks.c.policy, bookmarks.c.id)
        .limit(size)
    )
    rows = connection.execute(query).all()
    for owner, bookmark_id in rows:
        # Locked one by one: on PostgreSQL a user may have changed, deleted or merged it since the query.
        with suppress(BookmarkNotFound):
            bookmark = lock_bookmark(connection, owner, bookmark_id)
            batch.move(owner, bookmark, rekey_url(bookmark))
    return [bookmark_id for _, bookmark_id in rows]


def _move_restored(
    connection: Connection,
    owner: int,
    ids: Sequence[int],
    rekey_url: Callable[[Bookmark, str], BookmarkUrl | None],
    now: str,
) -> list[Bookmark]:
    pinned = get_policy(connection, BOOKMARK)
    require_pinned(connection, BOOKMARK, pinned)  # on PostgreSQL a rekey waits until these are moved
    found = [lock_bookmark(connection, owner, each) for each in ids]
    urls = {each.id: url for each in found if (url := rekey_url(each, pinned)) is not None}
    counts = Counter(url.url for url in urls.values())
    for bookmark in found:
        url = urls.get(bookmark.id)
        if url is None or (counts[url.url] > 1 and not url.exact_url):
            continue
        if url.exact_url:
            move_exact_bookmark(connection, owner, bookmark.id, url)
        elif bookmark.policy != pinned:
            with suppress(AlreadySaved):
                require_unused_url(connection, owner, bookmark.id, url.url)
                change_bookmark(connection, owner, bookmark, now=now, url=url)
    return [load_bookmark(connection, owner, each) for each in ids]


def _restore_batch(connection: Connection, rekey_id: int, rekey_url: RekeyUrl, now: str, size: int) -> bool:
    """Restore what the journal has, then move back the bookmarks that were saved since under the new policy."""
    rekey = _lock_rekey(connection, rekey_id)
    if not rekey.is_undoing:
        return False
    restored = restore_bookmarks(connection, rekey_id, size, now=now)
    if not restored:
        # Bookmarks that the rekey before this one did not move yet: the undo of that one must move them back, too.
        journal = Journal(connection, _find_rekey_to(connection, rekey.from_policy, before_id=rekey_id))
        restored = len(_move_rows(connection, _Batch(connection, rekey.from_policy, now, journal), rekey_url, size))
        journal.write()
    if not restored:
        c = renormalizations.c
        connection.execute(update(renormalizations).where(c.id == rekey_id).values(undone_at=now))
    return bool(restored)


def _find_rekey_to(connection: Connection, policy_id: str, *, before_id: int) -> int | None:
    """Return the last rekey before another one, if it was to this policy and can still be undone."""
    c = renormalizations.c
    query = select(c.id, c.to_policy).where(c.id < before_id, c.undo_started_at.is_(None)).order_by(c.id.desc())
    found = connection.execute(query.limit(1)).first()
    return found.id if found is not None and found.to_policy == policy_id else None


class _Batch:
    """The bookmarks of one transaction, moved one by one and counted."""

    def __init__(self, connection: Connection, to_policy: str, now: str, journal: Journal) -> None:
        self.to_policy = to_policy
        self._journal = journal
        self.changed = self.merged = self.refused = 0
        self._connection = connection
        self._now = now

    def move(self, owner: int, bookmark: Bookmark, url: BookmarkUrl | None) -> None:
        """Change the URL of a bookmark to the new policy, or merge the bookmark with the one that has this URL."""
        if url is None:
            self.refused += 1
            url = BookmarkUrl(bookmark.url, bookmark.original_url, bookmark.url, bookmark.exact_url, self.to_policy)
        self.changed += url.url != bookmark.url
        # A bookmark whose URL does not change is never merged: it may have been saved as a duplicate on purpose.
        if bookmark.deleted_at is None and url.url != bookmark.url:
            try:
                require_unused_url(self._connection, owner, bookmark.id, url.url)
            except AlreadySaved as error:
                older, newer = sorted((bookmark.id, error.bookmark_id))
                bookmark = merge_bookmarks(
                    self._connection, owner, older, [newer], now=self._now, why=MergeReason.POLICY
                )
                self._journal.add_merge(owner, older)
                self.merged += 1
                if older == error.bookmark_id:
                    return  # the bookmark that was kept has the new URL already
        self._journal.add_change(bookmark, new_url=url.url, now=self._now)
        if url.exact_url:
            move_exact_bookmark(self._connection, owner, bookmark.id, url)
        else:
            change_bookmark(self._connection, owner, bookmark, now=self._now, url=url)
