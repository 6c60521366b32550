"""Rekeys of feed entries in the database: begin, move a batch, finish, and undo (contract N10).

A batch is one transaction: the next entries by id, after `rekeys.position`. Nothing is ingested during a rekey.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, insert, select, update

from canonry.core.policy_diff import KeyChange
from canonry.errors import RekeyUnfinished, StoreError
from canonry.feeds.item_links import move_page_places
from canonry.feeds.key_lookup import split_into_chunks
from canonry.rekey.ambiguous_places import move_places, restore_places
from canonry.rekey.entry_journal import delete_entries, delete_forgotten, read_entries, write_entries
from canonry.rekey.entry_key_rows import IdRange, UrlClaim, load_keys, publish_staged_keys, write_keys
from canonry.rekey.entry_keys import UrlKeys, rekey_entry, rekey_link, undo_entry
from canonry.store.pinned_policies import (
    BOOKMARK,
    ENTRY,
    RekeyStatus,
    find_pinned,
    find_unfinished_rekey,
    get_policy,
    lock_policy,
    remember_stored_overrides,
    repin_policy,
    store_overrides,
)
from canonry.store.schema import entries, rekeys, stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from sqlalchemy import ColumnElement, Row

    from canonry.rekey.key_counts import RekeyCounts
    from canonry.store.database import Database


class RekeyProblem(StrEnum):
    """Why a rekey of entries was refused."""

    OTHER_POLICY = "other_policy"  # the keys of the store are not under the policy to rekey from
    NOTHING_TO_UNDO = "nothing_to_undo"
    FORGOTTEN = "forgotten"  # what an undo needs was deleted
    ENDED_ELSEWHERE = "ended_elsewhere"  # another process finished or undid it


class RekeyRefused(StoreError):
    """A rekey of entries that cannot be done."""

    def __init__(self, kind: RekeyProblem, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class EntryRekey:
    """A rekey of feed entries; `done` of `total` entries are moved, or moved back."""

    id: int
    status: RekeyStatus
    done: int
    total: int

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to move."""
        return self.status in {RekeyStatus.DONE, RekeyStatus.UNDONE, RekeyStatus.FORGOTTEN}


@dataclass(frozen=True, slots=True)
class MovedBatch:
    """The result of one transaction: how many entries it moved, and whether it was the last."""

    moved: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class _RekeyRow:
    """A row of the table `rekeys`."""

    id: int
    from_policy: str
    to_policy: str
    status: RekeyStatus
    position: int  # the id of the last entry that was moved
    finished_at: str | None

    @property
    def policies(self) -> tuple[str, str]:
        return self.from_policy, self.to_policy


_ROW_COLUMNS = [rekeys.c[name] for name in _RekeyRow.__dataclass_fields__]


class EntryRekeyStore:
    """The rekeys of feed entries in a database; every method is one transaction. Policies are given by id."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def begin(self, before: str, after: str, now: datetime) -> EntryRekey:
        """Begin a rekey, or continue an interrupted one; RekeyRefused if the policy of the store is not `before`."""
        return await self.database.write(partial(_begin, before=before, after=after, now=stamp(now)))

    async def begin_undo(self, before: str, after: str) -> EntryRekey:
        """Begin to undo the last rekey, finished or not, or continue the undo that was interrupted."""
        return await self.database.write(partial(_begin_undo, before=before, after=after))

    async def move_batch(self, rekey_id: int, size: int, now: datetime) -> MovedBatch:
        """Move the next entries; the last batch pins the store to the new policy."""
        return await self.database.write(partial(_move_batch, rekey_id=rekey_id, size=size, now=stamp(now)))

    async def restore_batch(self, rekey_id: int, size: int, now: datetime) -> MovedBatch:
        """Move the next entries back; the last batch pins the store to the old policy."""
        return await self.database.write(partial(_restore_batch, rekey_id=rekey_id, size=size, now=stamp(now)))

    async def forget(self, before: str, after: str, batch: int) -> int:
        """Delete the journals of all finished rekeys, which can no longer be undone; return the number of rows."""
        await self.database.write(partial(_begin_forgetting, before=before, after=after))
        forgotten = 0
        while deleted := await self.database.write(partial(delete_forgotten, size=batch)):
            forgotten += deleted
        return forgotten

    async def store_overrides(self, *policy_ids: str) -> None:
        """Store the overrides of these policies, so that every worker has them."""
        await self.database.write(lambda connection: store_overrides(connection, *policy_ids))

    async def begin_plan(self, before: str, after: str) -> int:
        """Return the number of entries to plan for; raises what `begin` would raise."""
        return await self.database.read(partial(_begin_plan, before=before, after=after))

    async def plan_page(self, counts: RekeyCounts, position: int, size: int) -> int:
        """Count what a rekey would change in the next entries; return the id of the last, 0 after the end."""
        return await self.database.read(partial(_plan_page, counts=counts, position=position, size=size))

    async def count_moved(self, counts: RekeyCounts, rekey_id: int, position: int, size: int) -> int:
        """Count what a rekey has changed in the next entries of its journal; return the last row, 0 after the end."""
        work = partial(_count_moved, counts=counts, rekey_id=rekey_id, position=position, size=size)
        return await self.database.read(work)


def stream_entry_urls(connection: Connection, page_rows: int = 1000) -> Iterator[str]:
    """Yield the link of every entry that has a key for it."""
    last_id = 0
    while rows := connection.execute(_select_entries(last_id).limit(page_rows)).all():
        yield from (row.url or row.canonical_url for row in rows if row.canonical_url)
        last_id = rows[-1].id


def _begin(connection: Connection, before: str, after: str, now: str) -> EntryRekey:
    pinned = lock_policy(connection, ENTRY)
    _refuse_another(connection, before, after, RekeyStatus.RUNNING)
    store_overrides(connection, before, after)
    last = _find_last(connection, rekeys.c.status != RekeyStatus.UNDONE)
    if last is None or last.policies != (before, after):
        _require_pin(connection, pinned, before)
        values = {"from_policy": before, "to_policy": after, "status": RekeyStatus.RUNNING, "started_at": now}
        inserted = connection.execute(insert(rekeys).values(values).returning(*_ROW_COLUMNS)).one()
        last = _make_row(inserted)
    return _load_progress(connection, last)


def _begin_undo(connection: Connection, before: str, after: str) -> EntryRekey:
    lock_policy(connection, ENTRY)
    _refuse_another(connection, before, after, RekeyStatus.RUNNING, RekeyStatus.UNDOING)
    remember_stored_overrides(connection, before, after)
    last, newest = _find_last(connection, rekeys.c.status != RekeyStatus.UNDONE), _find_last(connection)
    if last is not None and last.policies == (before, after):
        if last.status is RekeyStatus.FORGOTTEN:
            raise RekeyRefused(
                RekeyProblem.FORGOTTEN,
                f"The rekey from {before} to {after} cannot be undone: `--forget` deleted what an undo needs."
                f" Rekey from {after} to {before} instead.",
            )
        if last.status is not RekeyStatus.UNDOING:
            connection.execute(
                update(rekeys).where(rekeys.c.id == last.id).values(status=RekeyStatus.UNDOING, position=0)
            )
        return _load_progress(connection, _lock_rekey(connection, last.id))
    if newest is not None and newest.policies == (before, after):
        return _load_progress(connection, newest)
    raise _make_not_last_error(before, after, last)


def _begin_forgetting(connection: Connection, before: str, after: str) -> None:
    lock_policy(connection, ENTRY)
    _refuse_another(connection, before, after)
    last = _find_last(connection, rekeys.c.status != RekeyStatus.UNDONE)
    if last is None or last.policies != (before, after):
        raise _make_not_last_error(before, after, last)
    connection.execute(update(rekeys).where(rekeys.c.status == RekeyStatus.DONE).values(status=RekeyStatus.FORGOTTEN))


def _make_not_last_error(before: str, after: str, last: _RekeyRow | None) -> RekeyRefused:
    """Return the error for a rekey that is not the last one, and so cannot be undone or forgotten."""
    if last is None:
        message = f"The store has no rekey from {before} to {after}, or it was undone."
    else:
        known = f"from {last.from_policy} to {last.to_policy}"
        message = f"The last rekey of the store is {known}, not from {before} to {after}."
    return RekeyRefused(RekeyProblem.NOTHING_TO_UNDO, message)


def _begin_plan(connection: Connection, before: str, after: str) -> int:
    _refuse_another(connection, before, after)
    remember_stored_overrides(connection, before, after)
    _require_pin(connection, get_policy(connection, ENTRY), before)
    return _count_entries(connection)


def _move_batch(connection: Connection, rekey_id: int, size: int, now: str) -> MovedBatch:
    rekey = _lock_rekey(connection, rekey_id)
    if rekey.status is not RekeyStatus.RUNNING:
        return _check_ended(rekey, RekeyStatus.DONE)
    rows = connection.execute(_select_entries(rekey.position).limit(size).with_for_update()).all()
    if not rows:
        move_places(connection, rekey_id, rekey.to_policy)
        _finish(connection, rekey, RekeyStatus.DONE, now)
        return MovedBatch(0, is_last=True)
    ids = IdRange(rekey.position, rows[-1].id)
    found = load_keys(connection, rows, ids)
    write_entries(connection, rekey_id, found)
    keys = {entry_id: rekey_entry(each.entry, *rekey.policies) for entry_id, each in found.items()}
    claims = [UrlClaim(url, entry_id, rekey.to_policy) for entry_id, each in keys.items() for url in each.registered]
    write_keys(connection, ids, found, keys, claims)
    move_page_places(connection, ids.start, ids.end, rekey.to_policy)
    _save_position(connection, rekey_id, ids.end)
    return MovedBatch(len(rows), is_last=False)


def _restore_batch(connection: Connection, rekey_id: int, size: int, now: str) -> MovedBatch:
    rekey = _lock_rekey(connection, rekey_id)
    if rekey.status is not RekeyStatus.UNDOING:
        return _check_ended(rekey, RekeyStatus.UNDONE)
    journal = read_entries(connection, rekey_id, size)
    rows = connection.execute(_select_entries(rekey.position).limit(size).with_for_update()).all()
    was_finished = rekey.finished_at is not None
    if not journal and not (rows and was_finished):
        if rekey.finished_at is not None:
            restore_places(connection, rekey_id, rekey.from_policy, since=rekey.finished_at)
        _finish(connection, rekey, RekeyStatus.UNDONE, now)
        return MovedBatch(0, is_last=True)
    # The batch ends where both the journal and the entries reach. Entries after the end of the journal are newer than
    # the rekey, or were never moved.
    ends = [rows[-1].id] if rows and was_finished else []
    if len(journal) == size or not ends:
        ends.append(max(journal))
    ids = IdRange(rekey.position, min(ends))
    rows = [row for row in rows if row.id <= ids.end]
    found = load_keys(connection, rows, ids)
    keys: dict[int, UrlKeys] = {}
    claims: list[UrlClaim] = []
    for entry_id, each in found.items():
        journaled = journal.get(entry_id)
        keys[entry_id] = undo_entry(each.entry, journaled.entry if journaled else None, *rekey.policies)
        policies: Mapping[str, str] = journaled.policies if journaled else {}
        claims += [UrlClaim(url, entry_id, policies.get(url, rekey.from_policy)) for url in keys[entry_id].registered]
    write_keys(connection, ids, found, keys, claims)
    move_page_places(connection, ids.start, ids.end, rekey.from_policy)
    _save_position(connection, rekey_id, ids.end)
    restored = [each.journal_id for entry_id, each in journal.items() if entry_id <= ids.end]
    delete_entries(connection, rekey_id, restored)
    return MovedBatch(len(rows), is_last=False)


def _plan_page(connection: Connection, counts: RekeyCounts, position: int, size: int) -> int:
    rows = connection.execute(_select_entries(position).limit(size)).all()
    changes = [
        KeyChange(row.url, row.canonical_url, rekey_link(row.url, row.canonical_url, counts.before, counts.after))
        for row in rows
        if row.canonical_url
    ]
    counts.add(len(rows), changes)
    return rows[-1].id if rows else 0


def _count_moved(connection: Connection, counts: RekeyCounts, rekey_id: int, position: int, size: int) -> int:
    journal = read_entries(connection, rekey_id, size, after=position)
    changes: list[KeyChange] = []
    for chunk in split_into_chunks(list(journal)):
        query = select(entries.c.id, entries.c.canonical_url).where(entries.c.id.in_(chunk)).order_by(entries.c.id)
        for entry_id, new in connection.execute(query):
            entry = journal[entry_id].entry
            changes.append(KeyChange(entry.url, entry.keys.canonical_url, new))
    counts.add(len(changes), [change for change in changes if change.before])
    return max((each.journal_id for each in journal.values()), default=0)


def _finish(connection: Connection, rekey: _RekeyRow, status: RekeyStatus, now: str) -> None:
    publish_staged_keys(connection)
    lock_policy(connection, ENTRY)
    policy = rekey.to_policy if status is RekeyStatus.DONE else rekey.from_policy
    repin_policy(connection, ENTRY, policy)
    connection.execute(update(rekeys).where(rekeys.c.id == rekey.id).values(status=status, finished_at=now))


def _save_position(connection: Connection, rekey_id: int, position: int) -> None:
    connection.execute(update(rekeys).where(rekeys.c.id == rekey_id).values(position=position))


def _refuse_another(connection: Connection, before: str, after: str, *resumable: RekeyStatus) -> None:
    """Raise RekeyUnfinished if another rekey is under way, or one that is not in a `resumable` status."""
    running = find_unfinished_rekey(connection)
    if running is None:
        return
    is_same = (running.from_policy, running.to_policy) == (before, after)
    if not is_same or running.status not in resumable:
        raise RekeyUnfinished(str(running))


def _require_pin(connection: Connection, pinned: str, before: str) -> None:
    if pinned != before:
        bookmarks = find_pinned(connection, BOOKMARK)
        others = f", its bookmarks under {bookmarks}" if bookmarks else ""
        raise RekeyRefused(
            RekeyProblem.OTHER_POLICY,
            f"Nothing in this store is under {before}: its feed entries are under {pinned}{others}."
            " Name the policy to move from.",
        )


def _check_ended(rekey: _RekeyRow, status: RekeyStatus) -> MovedBatch:
    """Return an empty last batch if another process has finished the work; RekeyRefused if it did the opposite."""
    if rekey.status is not status:
        raise RekeyRefused(
            RekeyProblem.ENDED_ELSEWHERE, f"Another process has set this rekey to {rekey.status}. This process stops."
        )
    return MovedBatch(0, is_last=True)


def _select_entries(after_id: int) -> Any:
    return select(entries).where(entries.c.id > after_id).order_by(entries.c.id)


def _find_last(connection: Connection, *conditions: ColumnElement[bool]) -> _RekeyRow | None:
    query = select(*_ROW_COLUMNS).where(*conditions).order_by(rekeys.c.id.desc()).limit(1)
    row = connection.execute(query).first()
    return None if row is None else _make_row(row)


def _lock_rekey(connection: Connection, rekey_id: int) -> _RekeyRow:
    query = select(*_ROW_COLUMNS).where(rekeys.c.id == rekey_id).with_for_update()
    rekey = _make_row(connection.execute(query).one())
    remember_stored_overrides(connection, *rekey.policies)
    return rekey


def _make_row(row: Row[Any]) -> _RekeyRow:
    status = RekeyStatus(row.status)
    return _RekeyRow(row.id, row.from_policy, row.to_policy, status, row.position, row.finished_at)


def _load_progress(connection: Connection, rekey: _RekeyRow) -> EntryRekey:
    done = select(func.count()).select_from(entries).where(entries.c.id <= rekey.position)
    return EntryRekey(rekey.id, rekey.status, connection.execute(done).scalar_one(), _count_entries(connection))


def _count_entries(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(entries)).scalar_one()
