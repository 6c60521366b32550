"""Move bookmarks to a newer policy in resumable batches; merge those that become equal (contract B7, N10)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, insert, select, update

from canonry.bookmarks.bookmark import Address, AlreadyKept, ExpansionState
from canonry.bookmarks.bookmark_rows import as_bookmark, bookmark_columns
from canonry.bookmarks.bookmark_store import move_now, require_free
from canonry.bookmarks.duplicates import merge_now
from canonry.errors import CanonryError
from canonry.store.pinned_policies import BOOKMARK, pinnable, pinned_or_first, repin
from canonry.store.schema import bookmarks, renormalizations, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from canonry.bookmarks.bookmark import Bookmark
    from canonry.store.database import Database

_BATCH = 25  # rows in one transaction: whoever keeps a bookmark meanwhile waits for one of them


@dataclass(frozen=True, slots=True)
class Renormalization:
    """How far the move of all bookmarks to a policy has come."""

    id: int
    to_policy: str
    total: int
    done: int
    changed: int
    merged: int
    refused: int
    started_at: str
    finished_at: str | None


class NoRenormalization(CanonryError):
    """There is no re-normalization with this id."""


class RenormalizeStore:
    """Moves of bookmarks from policy to policy."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def policy(self) -> str:
        """The id of the policy new bookmarks get."""
        return await self.database.read(lambda connection: pinned_or_first(connection, BOOKMARK))

    async def start(self, to_policy: str, now: datetime) -> Renormalization:
        """Have new bookmarks under this policy, and the others wait to be moved; the one under way goes on."""
        policy_id = pinnable(to_policy)
        return await self.database.write(partial(_start, policy_id=policy_id, now=stamp(now)))

    async def get(self, run_id: int) -> Renormalization:
        for found in await self.database.read(partial(_runs, run_id=run_id)):
            return found
        raise NoRenormalization(f"no re-normalization {run_id}")

    async def all(self) -> list[Renormalization]:
        """The latest first."""
        return await self.database.read(_runs)

    async def move_some(self, run_id: int, place: Callable[[Bookmark], Address | None], now: datetime) -> bool:
        """Move the next batch, in one transaction; False where there is none any more. `place` says where each goes."""
        return await self.database.write(partial(_move_some, run_id=run_id, place=place, now=stamp(now)))


def _start(connection: Connection, policy_id: str, now: str) -> Renormalization:
    going = select(renormalizations.c.id).where(
        renormalizations.c.finished_at.is_(None), renormalizations.c.to_policy == policy_id
    )
    run_id = connection.execute(going).scalar()
    if run_id is None:
        repin(connection, BOOKMARK, policy_id)
        # One that goes to another policy ends here: the rest of its rows are ours.
        connection.execute(
            update(renormalizations).where(renormalizations.c.finished_at.is_(None)).values(finished_at=now)
        )
        left = select(func.count()).select_from(bookmarks).where(bookmarks.c.policy != policy_id)
        row = {"to_policy": policy_id, "total": connection.execute(left).scalar_one(), "started_at": now}
        run_id = connection.execute(insert(renormalizations).values(row).returning(renormalizations.c.id)).scalar_one()
    [found] = _runs(connection, run_id)
    return found


def source_of(kept: Bookmark) -> str:
    """The URL a bookmark is placed by, whatever the policy."""
    # What a short link led to is known by now; asking again for each of many is nobody's wish.
    return kept.url if kept.expansion is ExpansionState.EXPANDED else kept.original_url or kept.url


def bookmarked_urls(connection: Connection, size: int = 1000) -> Iterator[str]:
    """What a policy would place: the URLs of all bookmarks but exact ones."""
    query = select(*bookmark_columns).where(bookmarks.c.exact_url == 0, bookmarks.c.deleted_at.is_(None))
    position = 0
    while rows := connection.execute(query.where(bookmarks.c.id > position).order_by(bookmarks.c.id).limit(size)).all():
        found = [as_bookmark(row) for row in rows]
        yield from map(source_of, found)
        position = found[-1].id


def _runs(connection: Connection, run_id: int | None = None) -> list[Renormalization]:
    query = select(renormalizations).order_by(renormalizations.c.id.desc()).limit(20)
    if run_id is not None:
        query = query.where(renormalizations.c.id == run_id)
    return [Renormalization(*row) for row in connection.execute(query)]


def _move_some(connection: Connection, run_id: int, place: Callable[[Bookmark], Address | None], now: str) -> bool:
    [run] = _runs(connection, run_id)
    if run.finished_at is not None:
        return False
    query = (
        select(bookmarks.c.owner_id, *bookmark_columns)
        .where(bookmarks.c.policy != run.to_policy)
        .order_by(bookmarks.c.policy, bookmarks.c.id)
        .limit(_BATCH)
    )
    rows = [(row[0], as_bookmark(row[1:])) for row in connection.execute(query)]
    counts = {"changed": 0, "merged": 0, "refused": 0}
    gone: set[int] = set()
    for owner, kept in rows:
        if kept.id in gone:
            continue
        address = place(kept)
        if address is None:
            counts["refused"] += 1
            address = Address(kept.url, kept.original_url, kept.url, kept.exact_url, run.to_policy)
        counts["changed"] += address.url != kept.url
        _move(connection, owner, kept, address, now, counts, gone)
    values = {name: renormalizations.c[name] + count for name, count in counts.items()}
    values["done"] = renormalizations.c.done + len(rows)
    connection.execute(update(renormalizations).where(renormalizations.c.id == run_id).values(values))
    if not rows:
        connection.execute(update(renormalizations).where(renormalizations.c.id == run_id).values(finished_at=now))
    return bool(rows)


def _move(
    connection: Connection,
    owner: int,
    kept: Bookmark,
    address: Address,
    now: str,
    counts: dict[str, int],
    gone: set[int],
) -> None:
    if kept.deleted_at is None:
        try:
            require_free(connection, owner, kept.id, address.url)
        except AlreadyKept as error:
            first, second = sorted((kept.id, error.bookmark_id))
            kept = merge_now(connection, owner, first, [second], now=now, why="policy")
            gone.add(second)
            counts["merged"] += 1
            if first == error.bookmark_id:
                return  # it is where it belongs
    move_now(connection, owner, kept, address, now)
