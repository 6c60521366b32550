"""Feeds and their entries: what a document, a 304 or a failure changes, each in one transaction (contract I1–I5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, or_, select, update
from sqlalchemy import exists as exists_where

from canonry.core.keys import replace_unstorable
from canonry.feeds.feed_values import NoSuchFeed
from canonry.feeds.items import delete_unseen, merge_document
from canonry.store.schema import entries, feed_aliases, feeds, sightings, stamp
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Select

    from canonry.feeds.feed_values import FeedDocument, MergedFeed
    from canonry.store.database import Database

ACTIVE, STOPPED = "active", "stopped"


@dataclass(frozen=True, slots=True)
class FeedState:
    """What the store knows of a feed; times are UTC texts."""

    id: int
    url: str
    key_url: str
    title: str
    format: str
    status: str
    etag: str
    last_modified: str
    hubs: str
    failures: int
    failure: str
    last_checked_at: str | None
    next_check_at: str | None
    retry_at: str | None
    moved_to: str
    moved_sightings: int
    ttl: int | None
    folder: str


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An entry as a feed shows it."""

    entry_id: int
    feed_url: str
    title: str
    url: str
    dedupe_key: str
    match_confidence: str
    first_seen_at: str
    last_seen_at: str


_STATE = [getattr(feeds.c, name) for name in FeedState.__dataclass_fields__]
_ADD_ALONE = select(func.pg_advisory_xact_lock(7203042))
_INSERT_FEEDS = Prepared(lambda _: insert(feeds).inline(), ("key_url", "url", "title", "created_at", "folder"))
_AT_URLS = Prepared(
    lambda is_one_of: select(*_STATE).where(or_(is_one_of(feeds.c.url, "urls"), is_one_of(feeds.c.key_url, "urls")))
)
_AT_ALIASES = Prepared(
    lambda is_one_of: (
        select(feed_aliases.c.url, *_STATE)
        .join(feeds, feeds.c.id == feed_aliases.c.feed_id)
        .where(is_one_of(feed_aliases.c.url, "urls"))
    )
)
_IN_LAST = and_(sightings.c.feed_id == bindparam("feed"), sightings.c.document == bindparam("number"))
_TOUCH_LAST_ENTRIES = Prepared(
    lambda _: (
        update(entries)
        .where(entries.c.id.in_(select(sightings.c.entry_id).where(_IN_LAST)))
        .values(last_seen_at=bindparam("now"))
    )
)
_TOUCH_LAST_SIGHTINGS = Prepared(lambda _: update(sightings).where(_IN_LAST).values(last_seen_at=bindparam("now")))
_CHECKED = Prepared(
    lambda _: (
        update(feeds)
        .where(feeds.c.id == bindparam("feed"))
        .values(
            last_checked_at=bindparam("now"),
            next_check_at=bindparam("next_check"),
            retry_at=None,
            failures=0,
            failure="",
        )
        .returning(feeds.c.document)
    )
)


class FeedStore:
    """The feeds of a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def add(
        self, url: str, now: datetime, aliases: Iterable[str] = (), *, title: str = "", folder: str = ""
    ) -> tuple[FeedState, bool]:
        """The feed known under this URL or an alias, or a new one; the second value says whether it is new.

        `title` is what a new one is called until its document has been read, `folder` where it is put.
        """
        return await self.database.write(
            partial(_add, url=url, now=now, aliases=tuple(aliases), title=title, folder=folder)
        )

    async def add_all(self, urls: Sequence[str], now: datetime) -> list[FeedState]:
        """The feeds known under these URLs, or new ones."""
        return await self.database.write(partial(_add_all, urls=urls, now=now))

    async def find(self, urls: Sequence[str]) -> FeedState | None:
        """The feed known under one of these URLs, the first that is known."""
        return await self.database.read(partial(_find, urls=urls))

    async def get(self, feed_id: int) -> FeedState:
        """A feed by its number; NoSuchFeed where there is none."""
        query = select(*_STATE).where(feeds.c.id == feed_id)
        found = await self.database.read(lambda connection: _states(connection, query))
        if not found:
            raise NoSuchFeed(feed_id)
        return found[0]

    async def count(self, entry_ids: Sequence[int]) -> int:
        """How many of these entries are there."""
        query = select(func.count()).where(entries.c.id.in_(entry_ids))
        return await self.database.read(lambda connection: connection.execute(query).scalar_one())

    async def all(self) -> list[FeedState]:
        """Every feed, by URL."""
        return await self.database.read(lambda connection: _states(connection, select(*_STATE).order_by(feeds.c.url)))

    async def due(self, now: datetime) -> list[FeedState]:
        """The active feeds whose time has come, the longest waiting first."""
        is_due = or_(feeds.c.next_check_at.is_(None), feeds.c.next_check_at <= stamp(now))
        query = select(*_STATE).where(feeds.c.status == ACTIVE, is_due).order_by(feeds.c.next_check_at, feeds.c.id)
        return await self.database.read(lambda connection: _states(connection, query))

    async def merge(self, feed_id: int, document: FeedDocument, now: datetime, *, seen_ttl_days: int) -> MergedFeed:
        """Keep each item of a document once, and the validators it came with; forget what is long gone."""
        before = stamp(now - timedelta(days=seen_ttl_days))
        return await self.database.write(
            partial(merge_document, feed_id=feed_id, document=document, now=stamp(now), before=before)
        )

    async def touch(self, feed_id: int, now: datetime, next_check_at: datetime | None = None) -> None:
        """304: all items of the last document count as seen."""
        await self.database.write(
            partial(_touch, feed_id=feed_id, now=stamp(now), next_check_at=_stamped(next_check_at))
        )

    async def fail(
        self,
        feed_id: int,
        reason: str,
        now: datetime,
        *,
        next_check_at: datetime | None = None,
        retry_at: datetime | None = None,
        is_gone: bool = False,
    ) -> None:
        """Remember why a feed could not be read, and when to try again; a feed that is gone is stopped."""
        values: dict[str, Any] = {
            "failure": replace_unstorable(reason),
            "failures": feeds.c.failures + 1,
            "last_checked_at": stamp(now),
            "next_check_at": _stamped(next_check_at),
            "retry_at": _stamped(retry_at),
        }
        if is_gone:
            values["status"] = STOPPED
        await self._change(feed_id, values)

    async def set_moved(self, feed_id: int, url: str, sightings: int) -> None:
        """A permanent redirect was seen, this often in a row."""
        await self._change(feed_id, {"moved_to": url, "moved_sightings": sightings})

    async def adopt(self, feed_id: int, url: str) -> bool:
        """Fetch the feed from its new URL from now on, keeping the old as an alias; False if another feed has it."""
        return await self.database.write(partial(_adopt, feed_id=feed_id, url=url))

    async def set_status(self, feed_id: int, status: str) -> None:
        await self._change(feed_id, {"status": status, "failures": 0, "failure": "", "next_check_at": None})

    async def remove(self, feed_id: int) -> None:
        """Forget a feed and the entries that only it has shown."""
        await self.database.write(partial(_remove, feed_id=feed_id))

    async def items(
        self,
        since: str | None = None,
        *,
        only_duplicates: bool = False,
        feed_id: int | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[StoredItem]:
        """Entries as their feeds show them, the newest first; those of several feeds or at one URL if asked for."""
        query = _items_query(since, only_duplicates=only_duplicates, feed_id=feed_id).limit(limit).offset(offset)
        return await self.database.read(lambda connection: [StoredItem(*row) for row in connection.execute(query)])

    async def _change(self, feed_id: int, values: dict[str, Any]) -> None:
        await self.database.write(
            lambda connection: connection.execute(update(feeds).where(feeds.c.id == feed_id).values(values))
        )


def _states(connection: Connection, query: Any) -> list[FeedState]:
    return [FeedState(*row) for row in connection.execute(query)]


def _known_by(connection: Connection, urls: Sequence[str]) -> dict[str, FeedState]:
    """The feeds known under these URLs, theirs, their first or an alias; of several the oldest."""
    asked, found = tuple(urls), dict[str, FeedState]()

    def note(url: str, feed: FeedState) -> None:
        if url not in found or feed.id < found[url].id:
            found[url] = feed

    for row in _AT_URLS.rows(connection, urls=asked):
        feed = FeedState(*row)
        note(feed.url, feed)
        note(feed.key_url, feed)
    for alias, *state in _AT_ALIASES.rows(connection, urls=asked):
        note(alias, FeedState(*state))
    return found


def _find(connection: Connection, urls: Sequence[str]) -> FeedState | None:
    known = _known_by(connection, urls)
    return next((known[url] for url in urls if url in known), None)


def _add_all(connection: Connection, urls: Sequence[str], now: datetime) -> list[FeedState]:
    if connection.dialect.name == "postgresql":  # two that add one feed under two of its URLs
        connection.execute(_ADD_ALONE)
    known = _known_by(connection, urls)
    if new := [url for url in dict.fromkeys(urls) if url not in known]:
        _INSERT_FEEDS.insert(connection, [(url, url, "", stamp(now), "") for url in new])
        known |= _known_by(connection, new)
    return [known[url] for url in urls]


def _add(
    connection: Connection, url: str, now: datetime, aliases: tuple[str, ...], title: str, folder: str
) -> tuple[FeedState, bool]:
    if connection.dialect.name == "postgresql":  # two that add one feed under two of its URLs
        connection.execute(_ADD_ALONE)
    known = _find(connection, (url, *aliases))
    if known is None:
        _INSERT_FEEDS.insert(
            connection, [(url, url, replace_unstorable(title), stamp(now), replace_unstorable(folder))]
        )
        known = _find(connection, (url,))
        assert known is not None
        is_new = True
    else:
        is_new = False
    for alias in aliases:
        if alias != known.url and _find(connection, (alias,)) is None:
            connection.execute(insert(feed_aliases).values(url=alias, feed_id=known.id))
    return known, is_new


def _touch(connection: Connection, feed_id: int, now: str, next_check_at: str | None) -> None:
    for (number,) in _CHECKED.rows(connection, feed=feed_id, now=now, next_check=next_check_at):  # none if removed
        _TOUCH_LAST_ENTRIES.run(connection, feed=feed_id, number=number, now=now)
        _TOUCH_LAST_SIGHTINGS.run(connection, feed=feed_id, number=number, now=now)


def _adopt(connection: Connection, feed_id: int, url: str) -> bool:
    other = _find(connection, (url,))
    if other is not None and other.id != feed_id:
        return False
    old = connection.execute(select(feeds.c.url, feeds.c.key_url).where(feeds.c.id == feed_id)).one()
    connection.execute(delete(feed_aliases).where(feed_aliases.c.url == url))
    if _is_free(connection, old.url):
        connection.execute(insert(feed_aliases).values(url=old.url, feed_id=feed_id))
    values = {"url": url, "moved_to": "", "moved_sightings": 0, "etag": "", "last_modified": ""}
    connection.execute(update(feeds).where(feeds.c.id == feed_id).values(values))
    return True


def _is_free(connection: Connection, alias: str) -> bool:
    return connection.execute(select(feed_aliases.c.url).where(feed_aliases.c.url == alias)).first() is None


def _remove(connection: Connection, feed_id: int) -> None:
    ids = list(connection.execute(select(sightings.c.entry_id).where(sightings.c.feed_id == feed_id)).scalars())
    connection.execute(delete(feeds).where(feeds.c.id == feed_id))
    delete_unseen(connection, ids)


def _items_query(since: str | None, *, only_duplicates: bool, feed_id: int | None) -> Select[*tuple[Any, ...]]:
    query = (
        select(
            entries.c.id,
            feeds.c.url,
            sightings.c.title,
            entries.c.url,
            entries.c.dedupe_key,
            entries.c.match_confidence,
            sightings.c.first_seen_at,
            sightings.c.last_seen_at,
        )
        .join(sightings, sightings.c.entry_id == entries.c.id)
        .join(feeds, feeds.c.id == sightings.c.feed_id)
        .order_by(sightings.c.first_seen_at.desc(), entries.c.id, feeds.c.id)
    )
    if since is not None:
        query = query.where(sightings.c.first_seen_at >= since)
    if feed_id is not None:
        query = query.where(feeds.c.id == feed_id)
    if only_duplicates:
        other_sighting, other_entry = sightings.alias(), entries.alias()
        query = query.where(
            or_(
                exists_where().where(
                    other_sighting.c.entry_id == entries.c.id, other_sighting.c.feed_id != sightings.c.feed_id
                ),
                and_(
                    entries.c.canonical_url != "",
                    exists_where().where(
                        other_entry.c.canonical_url == entries.c.canonical_url, other_entry.c.id != entries.c.id
                    ),
                ),
            )
        )
    return query


def _stamped(when: datetime | None) -> str | None:
    return None if when is None else stamp(when)
