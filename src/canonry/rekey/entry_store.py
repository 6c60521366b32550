"""Rekey: move the keys of a store from one policy to another, batch by batch, and back (contract N10).

A batch is one transaction: the next entries by id, after `rekeys.position`. Nothing is ingested meanwhile. A URL that
becomes the key of several entries belongs to the first of them. Where an entry that is not moved yet still has this
URL as its old key, the new key waits under another type (`_STAGED`) for the last transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update

from canonry.core.keys import KeyType
from canonry.core.policy_diff import KeyChange
from canonry.errors import RekeyUnfinished, StoreError
from canonry.feeds.key_lookup import in_chunks
from canonry.rekey.entry_keys import KeyedEntry, UrlKeys, rekeyed, rekeyed_link, restored
from canonry.rekey.journal import Kept, forget, keep_entries, kept_entries
from canonry.rekey.places import move_places, restore_places
from canonry.store.pinned_policies import (
    DONE,
    ENTRY,
    RUNNING,
    UNDOING,
    UNDONE,
    UnfinishedRekey,
    find_unfinished_rekey,
    get_policy,
    pin_policy,
)
from canonry.store.schema import entries, entry_identities, pinned_policies, rekeys, sightings, stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement

    from canonry.rekey.key_counts import RekeyCounts
    from canonry.store.database import Database

_STAGED = "canonical_url staged"
_TYPES = (KeyType.CANONICAL_URL.value, _STAGED)


@dataclass(frozen=True, slots=True)
class Rekey:
    """A rekey under way or over; `done` of `total` entries are moved, or moved back."""

    id: int
    status: str
    done: int
    total: int

    @property
    def is_over(self) -> bool:
        """Is there nothing left to move?"""
        return self.status in {DONE, UNDONE}


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction did: how many entries were moved, and was it the last?"""

    moved: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class _Claim:
    """An entry that wants to be known by a URL."""

    url: str
    entry_id: int
    policy: str


class RekeyStore:
    """The rekeys of a database; every method is one transaction. Policies are ids of shipped ones."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def begin(self, before: str, after: str, now: datetime) -> Rekey:
        """Start a rekey, or go on with the one that was interrupted; StoreError if the store is not at `before`."""
        return await self.database.write(partial(_begin, before=before, after=after, now=stamp(now)))

    async def begin_undo(self, before: str, after: str) -> Rekey:
        """Start to take back the last rekey, finished or not, or go on with that."""
        return await self.database.write(partial(_begin_undo, before=before, after=after))

    async def move_batch(self, rekey_id: int, size: int, now: datetime) -> Batch:
        """Move the next entries; the last batch pins the policy."""
        return await self.database.write(partial(_move_batch, rekey_id=rekey_id, size=size, now=stamp(now)))

    async def restore_batch(self, rekey_id: int, size: int, now: datetime) -> Batch:
        """Move the next entries back; the last batch pins the policy that was."""
        return await self.database.write(partial(_restore_batch, rekey_id=rekey_id, size=size, now=stamp(now)))

    async def begin_plan(self, before: str, after: str) -> int:
        """How many entries there are to look at; StoreError where `begin` would raise it."""
        return await self.database.read(partial(_begin_plan, before=before, after=after))

    async def plan_page(self, counts: RekeyCounts, position: int, size: int) -> int:
        """Count what a rekey would do to the next entries; the last of them, 0 after the end."""
        return await self.database.read(partial(_plan_page, counts=counts, position=position, size=size))

    async def done_page(self, counts: RekeyCounts, rekey_id: int, position: int, size: int) -> int:
        """Count what a rekey has done to the next entries of its journal; the last row of these, 0 after the end."""
        work = partial(_done_page, counts=counts, rekey_id=rekey_id, position=position, size=size)
        return await self.database.read(work)


def stored_urls(connection: Connection, size: int = 1000) -> Iterator[str]:
    """The links of all entries that have a key for theirs."""
    position = 0
    while rows := connection.execute(_entries_after(position).limit(size)).all():
        yield from (row.url or row.canonical_url for row in rows if row.canonical_url)
        position = rows[-1].id


def _begin(connection: Connection, before: str, after: str, now: str) -> Rekey:
    at = _lock_pin(connection)
    _refuse_another(connection, before, after, RUNNING)
    last = _last(connection, rekeys.c.status != UNDONE)
    if last is None or _way(last) != (before, after):
        _refuse_other_pin(at, before)
        values = {"from_policy": before, "to_policy": after, "status": RUNNING, "started_at": now}
        last = connection.execute(insert(rekeys).values(values).returning(rekeys)).one()
    return _state(connection, last)


def _begin_undo(connection: Connection, before: str, after: str) -> Rekey:
    _lock_pin(connection)
    _refuse_another(connection, before, after, RUNNING, UNDOING)
    last, newest = _last(connection, rekeys.c.status != UNDONE), _last(connection)
    if last is not None and _way(last) == (before, after):
        if last.status != UNDOING:
            connection.execute(update(rekeys).where(rekeys.c.id == last.id).values(status=UNDOING, position=0))
        return _state(connection, _locked(connection, last.id))
    if newest is not None and _way(newest) == (before, after):
        return _state(connection, newest)
    known = "there is none" if last is None else f"the last is from {last.from_policy} to {last.to_policy}"
    raise StoreError(f"no rekey from {before} to {after} that could be undone: {known}")


def _begin_plan(connection: Connection, before: str, after: str) -> int:
    _refuse_another(connection, before, after)
    _refuse_other_pin(get_policy(connection, ENTRY), before)
    return _count(connection)


def _move_batch(connection: Connection, rekey_id: int, size: int, now: str) -> Batch:
    rekey = _locked(connection, rekey_id)
    if rekey.status != RUNNING:
        return _ended_elsewhere(rekey, DONE)
    rows = connection.execute(_entries_after(rekey.position).limit(size).with_for_update()).all()
    if not rows:
        move_places(connection, rekey_id, rekey.to_policy)
        _finish(connection, rekey, DONE, now)
        return Batch(0, is_last=True)
    kept = _kept(connection, rows, rekey.position, rows[-1].id)
    keys = {entry_id: rekeyed(each.entry, *_way(rekey)) for entry_id, each in kept.items()}
    keep_entries(connection, rekey_id, kept)
    claims = [_Claim(url, entry_id, rekey.to_policy) for entry_id, each in keys.items() for url in each.registered]
    _change(connection, rekey, rows[-1].id, kept, keys, claims)
    return Batch(len(rows), is_last=False)


def _restore_batch(connection: Connection, rekey_id: int, size: int, now: str) -> Batch:
    rekey = _locked(connection, rekey_id)
    if rekey.status != UNDOING:
        return _ended_elsewhere(rekey, UNDONE)
    was_done = rekey.finished_at is not None
    journal = kept_entries(connection, rekey_id, size)
    rows = connection.execute(_entries_after(rekey.position).limit(size).with_for_update()).all()
    if not journal and not (rows and was_done):
        if was_done:
            restore_places(connection, rekey_id, rekey.from_policy, since=rekey.finished_at)
        _finish(connection, rekey, UNDONE, now)
        return Batch(0, is_last=True)
    # As far as both reach; entries after the end of the journal came later, or were never moved.
    ends = [rows[-1].id] if rows and was_done else []
    if len(journal) == size or not ends:
        ends.append(max(journal))
    last = min(ends)
    rows = [row for row in rows if row.id <= last]
    found = _kept(connection, rows, rekey.position, last)
    before, after = _way(rekey)
    keys: dict[int, UrlKeys] = {}
    claims: list[_Claim] = []
    for entry_id, each in found.items():
        kept = journal.get(entry_id)
        keys[entry_id] = restored(each.entry, kept.entry if kept else None, before, after)
        policies: Mapping[str, str] = kept.policies if kept else {}
        claims += [_Claim(url, entry_id, policies.get(url, before)) for url in keys[entry_id].registered]
    _change(connection, rekey, last, found, keys, claims)
    forget(connection, rekey_id, [each.journal_id for entry_id, each in journal.items() if entry_id <= last])
    return Batch(len(rows), is_last=False)


def _plan_page(connection: Connection, counts: RekeyCounts, position: int, size: int) -> int:
    rows = connection.execute(_entries_after(position).limit(size)).all()
    policies = counts.before, counts.after
    keys = [
        KeyChange(row.url, row.canonical_url, rekeyed_link(row.url, row.canonical_url, *policies))
        for row in rows
        if row.canonical_url
    ]
    counts.add(len(rows), keys)
    return rows[-1].id if rows else 0


def _done_page(connection: Connection, counts: RekeyCounts, rekey_id: int, position: int, size: int) -> int:
    journal = kept_entries(connection, rekey_id, size, after=position)
    keys: list[KeyChange] = []
    for chunk in in_chunks(list(journal)):
        query = select(entries.c.id, entries.c.canonical_url).where(entries.c.id.in_(chunk)).order_by(entries.c.id)
        for entry_id, new in connection.execute(query):
            entry = journal[entry_id].entry
            keys.append(KeyChange(entry.url, entry.keys.canonical_url, new))
    counts.add(len(keys), [change for change in keys if change.before])
    return max((each.journal_id for each in journal.values()), default=0)


def _kept(connection: Connection, rows: Sequence[Row[Any]], start: int, end: int) -> dict[int, Kept]:
    """The entries of a batch, ids after `start` up to `end`, with everything a rekey changes."""
    policies: dict[int, dict[str, str]] = {}
    i, s = entry_identities.c, sightings.c
    query = select(i.entry_id, i.key_value, i.policy).where(
        i.key_type.in_(_TYPES), i.entry_id > start, i.entry_id <= end
    )
    for entry_id, url, policy in connection.execute(query.order_by(i.entry_id, i.key_value)):
        policies.setdefault(entry_id, {})[url] = policy
    places: dict[int, dict[int, str]] = {}
    query = select(s.entry_id, s.feed_id, s.place).where(s.entry_id > start, s.entry_id <= end)
    for entry_id, feed_id, place in connection.execute(query.order_by(s.entry_id, s.feed_id)):
        places.setdefault(entry_id, {})[feed_id] = place
    found: dict[int, Kept] = {}
    for row in rows:
        urls = policies.get(row.id, {})
        keys = UrlKeys(row.canonical_url, row.dedupe_key, tuple(urls), places.get(row.id, {}))
        found[row.id] = Kept(KeyedEntry(row.url, row.first_seen_at, keys), urls)
    return found


def _change(
    connection: Connection,
    rekey: Row[Any],
    last: int,
    found: Mapping[int, Kept],
    keys: Mapping[int, UrlKeys],
    claims: list[_Claim],
) -> None:
    """Give the entries up to `last` their new keys, and remember how far that is."""
    olds = {entry_id: each.entry.keys for entry_id, each in found.items()}
    c, s, i = entries.c, sightings.c, entry_identities.c
    changed = [
        {"entry": entry_id, "new_url": new.canonical_url, "new_key": new.dedupe_key}
        for entry_id, new in keys.items()
        if (new.canonical_url, new.dedupe_key) != (olds[entry_id].canonical_url, olds[entry_id].dedupe_key)
    ]
    if changed:
        here = update(entries).where(c.id == bindparam("entry"))
        connection.execute(here.values(canonical_url=bindparam("new_url"), dedupe_key=bindparam("new_key")), changed)
    placed = [
        {"feed": feed_id, "entry": entry_id, "new_place": place}
        for entry_id, new in keys.items()
        for feed_id, place in new.places.items()
        if place != olds[entry_id].places[feed_id]
    ]
    if placed:
        here = update(sightings).where(s.feed_id == bindparam("feed"), s.entry_id == bindparam("entry"))
        connection.execute(here.values(place=bindparam("new_place")), placed)
    is_of_batch = (i.key_type.in_(_TYPES), i.entry_id > rekey.position, i.entry_id <= last)
    connection.execute(delete(entry_identities).where(*is_of_batch))
    _register(connection, last, claims)
    connection.execute(update(rekeys).where(rekeys.c.id == rekey.id).values(position=last))


def _register(connection: Connection, last: int, claims: list[_Claim]) -> None:
    """Register each URL for the first entry that claims it, unless an entry moved before has it."""
    firsts: dict[str, _Claim] = {}
    for claim in claims:
        firsts.setdefault(claim.url, claim)
    owners: dict[tuple[str, str], int] = {}
    c = entry_identities.c
    for chunk in in_chunks(sorted(firsts)):
        query = select(c.key_type, c.key_value, c.entry_id).where(c.key_type.in_(_TYPES), c.key_value.in_(chunk))
        owners.update(((row[0], row[1]), row[2]) for row in connection.execute(query))
    rows: list[dict[str, object]] = []
    for url, claim in sorted(firsts.items()):
        owner = owners.get((KeyType.CANONICAL_URL, url))
        if (owner is None or owner > last) and (_STAGED, url) not in owners:
            key_type = KeyType.CANONICAL_URL.value if owner is None else _STAGED
            rows.append({"key_type": key_type, "key_value": url, "entry_id": claim.entry_id, "policy": claim.policy})
    if rows:
        connection.execute(insert(entry_identities), rows)


def _finish(connection: Connection, rekey: Row[Any], status: str, now: str) -> None:
    """All are moved: what was staged is free now; pin the policy."""
    c = entry_identities.c
    taken = entry_identities.alias()
    is_free = ~(
        select(taken.c.key_value)
        .where(taken.c.key_type == KeyType.CANONICAL_URL, taken.c.key_value == c.key_value)
        .exists()
    )
    renamed = update(entry_identities).where(c.key_type == _STAGED, is_free)
    connection.execute(renamed.values(key_type=KeyType.CANONICAL_URL.value))
    connection.execute(delete(entry_identities).where(c.key_type == _STAGED))
    _lock_pin(connection)
    policy = rekey.to_policy if status == DONE else rekey.from_policy
    connection.execute(update(pinned_policies).where(pinned_policies.c.purpose == ENTRY).values(policy=policy))
    connection.execute(update(rekeys).where(rekeys.c.id == rekey.id).values(status=status, finished_at=now))


def _lock_pin(connection: Connection) -> str:
    """What the store is pinned to; merges wait until the transaction is over, and it for those that run."""
    pin_policy(connection, ENTRY)
    query = select(pinned_policies.c.policy).where(pinned_policies.c.purpose == ENTRY)
    return str(connection.execute(query.with_for_update()).scalar_one())


def _refuse_another(connection: Connection, before: str, after: str, *resumable: str) -> None:
    running = find_unfinished_rekey(connection)
    if running is not None and (_way(running) != (before, after) or running.status not in resumable):
        raise RekeyUnfinished(str(running))


def _refuse_other_pin(at: str, before: str) -> None:
    if at != before:
        raise StoreError(f"the keys of this store are under {at}, not {before}: rekey from {at}")


def _ended_elsewhere(rekey: Row[Any], status: str) -> Batch:
    """Another process has done our work, or its contrary."""
    if rekey.status != status:
        raise StoreError(f"another process has made this rekey {rekey.status}")
    return Batch(0, is_last=True)


def _entries_after(position: int) -> Any:
    return select(entries).where(entries.c.id > position).order_by(entries.c.id)


def _last(connection: Connection, *conditions: ColumnElement[bool]) -> Row[Any] | None:
    return connection.execute(select(rekeys).where(*conditions).order_by(rekeys.c.id.desc()).limit(1)).first()


def _locked(connection: Connection, rekey_id: int) -> Row[Any]:
    return connection.execute(select(rekeys).where(rekeys.c.id == rekey_id).with_for_update()).one()


def _state(connection: Connection, rekey: Row[Any]) -> Rekey:
    done = select(func.count()).select_from(entries).where(entries.c.id <= rekey.position)
    return Rekey(rekey.id, rekey.status, connection.execute(done).scalar_one(), _count(connection))


def _count(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(entries)).scalar_one()


def _way(rekey: Row[Any] | UnfinishedRekey) -> tuple[str, str]:
    return rekey.from_policy, rekey.to_policy
