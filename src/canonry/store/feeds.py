"""Feeds and their entries: what a document, a 304 or a failure changes, each in one transaction (SPEC I1–I5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Integer, and_, bindparam, delete, func, insert, or_, select, update
from sqlalchemy import exists as exists_where

from canonry.core.identity import KeyType
from canonry.core.merge import Conflict, Merge, Outcome, keepable, keyed, merged
from canonry.store.lookup import Owners, chunks, looked_up
from canonry.store.policies import ENTRY, pinned
from canonry.store.schema import ambiguous_keys, entries, entry_identities, feed_aliases, feeds, sightings, stamp
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Select

    from canonry.core.identity import Item, Key
    from canonry.core.merge import Decision
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


@dataclass(frozen=True, slots=True)
class FeedDocument:
    """What is kept of a document, and of the answer it came with."""

    title: str
    format: str
    hubs: tuple[str, ...]
    items: tuple[Item, ...]
    etag: str = ""
    last_modified: str = ""
    next_check_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MergedItem:
    """What became of one item."""

    outcome: Outcome
    entry_id: int
    title: str
    url: str
    keys: tuple[Key, ...]
    dedupe_key: str
    match_confidence: str
    first_seen_at: str
    last_seen_at: str
    shares_url_with: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MergedFeed:
    """What a document changed."""

    items: tuple[MergedItem, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    deleted: int = 0


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
_ENTRY = ("dedupe_key", "guid", "url", "canonical_url", "title", "published", "content_hash", "match_confidence")
_SHOWN = ("guid", "place", "title", "published", "content_hash", "document", "last_seen_at")
_IS_HERE = sightings.c.feed_id == bindparam("feed")
_NAMES = {key_type: key_type.value for key_type in KeyType}
_OF_ONE_FEED = frozenset({KeyType.GUID, KeyType.FALLBACK_HASH})
_FIND = Prepared(
    lambda _: (
        select(*_STATE)
        .where(
            or_(
                feeds.c.url == bindparam("url"),
                feeds.c.key_url == bindparam("url"),
                feeds.c.id.in_(select(feed_aliases.c.feed_id).where(feed_aliases.c.url == bindparam("url"))),
            )
        )
        .order_by(feeds.c.id)
        .limit(1)
    )
)
_IN_ORDER = select(entries.c.id).where(entries.c.id.in_(bindparam("values", expanding=True))).order_by(entries.c.id)
_LOCK_TO_CHANGE, _LOCK_TO_DELETE = _IN_ORDER.with_for_update(key_share=True), _IN_ORDER.with_for_update()
_ADD_ALONE = select(func.pg_advisory_xact_lock(7203042))
_LOCK = Prepared(
    lambda _: select(feeds.c.key_url, feeds.c.document).where(feeds.c.id == bindparam("feed")).with_for_update()
)
_AMBIGUOUS = Prepared(
    lambda _: select(ambiguous_keys.c.key_type, ambiguous_keys.c.key_value).where(
        ambiguous_keys.c.feed_id == bindparam("feed")
    )
)
_INSERT_FEED = Prepared(lambda _: insert(feeds).inline(), ["key_url", "url", "title", "created_at"])
_LAST_ID = Prepared(lambda _: select(func.coalesce(func.max(entries.c.id), 0)))
_NEXT_IDS = Prepared(
    lambda _: select(func.nextval(func.pg_get_serial_sequence("entries", "id"))).select_from(
        func.generate_series(1, bindparam("count", type_=Integer))
    )
)
_INSERT_ENTRIES = Prepared(lambda _: insert(entries), [column.name for column in entries.c])
_INSERT_SIGHTINGS = Prepared(lambda _: insert(sightings), [column.name for column in sightings.c])
_INSERT_KEYS = Prepared(lambda _: insert(entry_identities), [column.name for column in entry_identities.c])
_MOVE_KEY = Prepared(
    lambda _: (
        update(entry_identities)
        .where(
            entry_identities.c.key_type == bindparam("of_type"), entry_identities.c.key_value == bindparam("of_value")
        )
        .values(entry_id=bindparam("entry"))
    )
)
_CHANGE_ENTRY = Prepared(
    lambda _: (
        update(entries).where(entries.c.id == bindparam("entry")).values({name: bindparam(name) for name in _ENTRY})
    )
)
_TOUCH_ENTRIES = Prepared(
    lambda is_one_of: update(entries).where(is_one_of(entries.c.id, "ids")).values(last_seen_at=bindparam("now"))
)
_TOUCH_SIGHTINGS = Prepared(
    lambda is_one_of: (
        update(sightings)
        .where(_IS_HERE, is_one_of(sightings.c.entry_id, "ids"))
        .values(document=bindparam("number"), last_seen_at=bindparam("now"))
    )
)
_CHANGE_SIGHTING = Prepared(
    lambda _: (
        update(sightings)
        .where(_IS_HERE, sightings.c.entry_id == bindparam("entry"))
        .values({name: bindparam(name) for name in _SHOWN})
    )
)
_GONE = and_(_IS_HERE, sightings.c.document < bindparam("number"), sightings.c.last_seen_at <= bindparam("before"))
_SELECT_GONE = Prepared(lambda _: select(sightings.c.entry_id).where(_GONE))
_DELETE_GONE = Prepared(lambda _: delete(sightings).where(_GONE))
_FIRST_SEEN = Prepared(
    lambda is_one_of: select(entries.c.id, entries.c.first_seen_at).where(is_one_of(entries.c.id, "ids"))
)
_IN_LAST = and_(_IS_HERE, sightings.c.document == bindparam("number"))
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
    )
)
_PARSED = Prepared(
    lambda _: (
        update(feeds)
        .where(feeds.c.id == bindparam("feed"))
        .values(
            title=bindparam("title"),
            format=bindparam("format"),
            hubs=bindparam("hubs"),
            etag=bindparam("etag"),
            last_modified=bindparam("last_modified"),
            document=bindparam("number"),
            last_checked_at=bindparam("now"),
            last_parsed_at=bindparam("now"),
            next_check_at=bindparam("next_check_at"),
            retry_at=None,
            failures=0,
            failure="",
        )
    )
)


class FeedStore:
    """The feeds of a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def add(
        self, url: str, now: datetime, aliases: Iterable[str] = (), *, title: str = ""
    ) -> tuple[FeedState, bool]:
        """The feed known under this URL or an alias, or a new one; the second value says whether it is new.

        `title` is what a new one is called until its document has been read.
        """
        return await self.database.write(partial(_add, url=url, now=now, aliases=tuple(aliases), title=title))

    async def find(self, urls: Sequence[str]) -> FeedState | None:
        """The feed known under one of these URLs, the first that is known."""
        return await self.database.read(partial(_find, urls=urls))

    async def get(self, feed_id: int) -> FeedState:
        """A feed by its number."""
        query = select(*_STATE).where(feeds.c.id == feed_id)
        return (await self.database.read(lambda connection: _states(connection, query)))[0]

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
            partial(_merge, feed_id=feed_id, document=document, now=stamp(now), before=before)
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
            "failure": keepable(reason),
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


def _find(connection: Connection, urls: Sequence[str]) -> FeedState | None:
    for url in urls:
        for row in _FIND.rows(connection, url=url):
            return FeedState(*row)
    return None


def _add(
    connection: Connection, url: str, now: datetime, aliases: tuple[str, ...], title: str
) -> tuple[FeedState, bool]:
    if connection.dialect.name == "postgresql":  # two that add one feed under two of its URLs
        connection.execute(_ADD_ALONE)
    known = _find(connection, (url, *aliases))
    if known is None:
        _INSERT_FEED.run(connection, key_url=url, url=url, title=keepable(title), created_at=stamp(now))
        known = _find(connection, (url,))
        assert known is not None
        is_new = True
    else:
        is_new = False
    for alias in aliases:
        if alias != known.url and _find(connection, (alias,)) is None:
            connection.execute(insert(feed_aliases).values(url=alias, feed_id=known.id))
    return known, is_new


def _merge(connection: Connection, feed_id: int, document: FeedDocument, now: str, before: str) -> MergedFeed:
    [(key_url, last)] = _LOCK.rows(connection, feed=feed_id)
    items = keyed(document.items, key_url, pinned(connection, ENTRY))
    ambiguous: set[tuple[KeyType, str]] = set()
    if last:
        ambiguous = {(KeyType(kind), value) for kind, value in _AMBIGUOUS.rows(connection, feed=feed_id)}
    owners, known = looked_up(connection, feed_id, key_url, items, ambiguous, is_first=not last)
    merge = merged(items, known, ambiguous, key_url)
    number = last + 1
    ids = _write_entries(connection, merge.decisions, now)
    _write_sightings(connection, feed_id, number, merge.decisions, ids, now)
    _learn_keys(connection, owners, merge.decisions, ids)
    _insert(
        connection,
        ambiguous_keys,
        [
            {"feed_id": feed_id, "key_type": key_type, "key_value": value}
            for key_type, value in sorted(merge.ambiguous - ambiguous)
        ],
    )
    deleted = _forget(connection, feed_id, number, before) if last else 0
    _PARSED.run(
        connection,
        feed=feed_id,
        title=keepable(document.title),
        format=str(document.format),
        hubs=keepable("\n".join(document.hubs)),
        etag=keepable(document.etag),
        last_modified=keepable(document.last_modified),
        number=number,
        now=now,
        next_check_at=_stamped(document.next_check_at),
    )
    return MergedFeed(_report(connection, merge, ids, now), tuple(merge.conflicts), deleted)


def _write_entries(connection: Connection, decisions: list[Decision], now: str) -> list[int]:
    """New entries in, changed ones changed, the rest touched; the entry of each decision."""
    touched = sorted(decision.entry_id for decision in decisions if decision.entry_id is not None)
    if connection.dialect.name == "postgresql":
        # In one order: feeds that share entries wait for each other, and never in a circle.
        for chunk in chunks(touched):
            connection.execute(_LOCK_TO_CHANGE, {"values": chunk})
    new = [decision for decision in decisions if decision.entry_id is None]
    made = _new_ids(connection, len(new)) if new else []
    _INSERT_ENTRIES.run_many(
        connection,
        (
            {**_entry(decision), "id": entry_id, "first_seen_at": now, "last_seen_at": now}
            for decision, entry_id in zip(new, made, strict=True)
        ),
    )
    changed = [decision for decision in decisions if decision.outcome is Outcome.UPDATED or decision.is_imported]
    _CHANGE_ENTRY.run_many(connection, ({**_entry(decision), "entry": decision.entry_id} for decision in changed))
    if touched:
        _TOUCH_ENTRIES.run(connection, ids=tuple(touched), now=now)
    ids = iter(made)
    return [next(ids) if decision.entry_id is None else decision.entry_id for decision in decisions]


def _new_ids(connection: Connection, count: int) -> list[int]:
    """The next ids of entries; on SQLite nobody else writes, so that they can be counted."""
    if connection.dialect.name == "postgresql":
        return [entry_id for (entry_id,) in _NEXT_IDS.rows(connection, count=count)]
    [(last,)] = _LAST_ID.rows(connection)
    return list(range(last + 1, last + 1 + count))


def _entry(decision: Decision) -> dict[str, object]:
    each = decision.keyed
    return {
        "dedupe_key": each.dedupe_key,
        "guid": each.guid,
        "url": each.item.link.strip(),
        "canonical_url": each.canonical_url,
        "title": each.title,
        "published": each.item.published.strip(),
        "content_hash": each.content_hash,
        "match_confidence": "high" if each.is_certain else "low",
    }


def _write_sightings(
    connection: Connection, feed_id: int, number: int, decisions: list[Decision], ids: list[int], now: str
) -> None:
    """What the feed shows of each entry in this document."""
    decided = list(zip(decisions, ids, strict=True))
    if as_shown := tuple(entry_id for decision, entry_id in decided if decision.is_as_shown):
        _TOUCH_SIGHTINGS.run(connection, feed=feed_id, ids=as_shown, number=number, now=now)

    def shown(decision: Decision) -> dict[str, object]:
        each = decision.keyed
        return {
            "guid": each.guid,
            "place": each.place,
            "title": each.title,
            "published": each.item.published.strip(),
            "content_hash": each.content_hash,
            "document": number,
            "last_seen_at": now,
        }

    changed = [pair for pair in decided if pair[0].is_here and not pair[0].is_as_shown]
    _CHANGE_SIGHTING.run_many(
        connection, ({**shown(decision), "feed": feed_id, "entry": entry_id} for decision, entry_id in changed)
    )
    _INSERT_SIGHTINGS.run_many(
        connection,
        (
            {**shown(decision), "feed_id": feed_id, "entry_id": entry_id, "first_seen_at": now}
            for decision, entry_id in decided
            if not decision.is_here
        ),
    )


def _learn_keys(connection: Connection, owners: Owners, decisions: list[Decision], ids: list[int]) -> None:
    """Register the keys of each entry that nobody has; in one order, so that two writers do not wait in a circle.

    A guid or hash whose entry this document shows as another item goes with the item that carries it: without
    that it would be new in every document.
    """
    free: dict[tuple[str, str], dict[str, object]] = {}
    moved: list[dict[str, object]] = []
    here = set(ids)
    for decision, entry_id in zip(decisions, ids, strict=True):
        for key in decision.keyed.keys:
            name = _NAMES[key.key_type], key.key_value
            owner = owners.get(name)
            if owner is None:
                free.setdefault(
                    name, {"key_type": name[0], "key_value": name[1], "entry_id": entry_id, "policy": key.policy}
                )
            elif owner != entry_id and owner in here and key.key_type in _OF_ONE_FEED:
                moved.append({"of_type": name[0], "of_value": name[1], "entry": entry_id})
    _INSERT_KEYS.run_many(connection, (free[name] for name in sorted(free)))
    _MOVE_KEY.run_many(connection, moved)


def _forget(connection: Connection, feed_id: int, number: int, before: str) -> int:
    """Delete what this document lacks and was last seen long before it; how many entries went."""
    gone = [entry_id for (entry_id,) in _SELECT_GONE.rows(connection, feed=feed_id, number=number, before=before)]
    if not gone:
        return 0
    _DELETE_GONE.run(connection, feed=feed_id, number=number, before=before)
    return _delete_unseen(connection, gone)


def _delete_unseen(connection: Connection, ids: Sequence[int]) -> int:
    """Delete those of these entries that no feed shows any more."""
    is_seen = exists_where().where(sightings.c.entry_id == entries.c.id)
    deleted = 0
    for chunk in chunks(sorted(ids)):
        if connection.dialect.name == "postgresql":
            # Whoever is about to show one of them in another feed comes first, or after us.
            connection.execute(_LOCK_TO_DELETE, {"values": chunk})
        deleted += connection.execute(delete(entries).where(entries.c.id.in_(chunk), ~is_seen)).rowcount
    return deleted


def _report(connection: Connection, merge: Merge, ids: list[int], now: str) -> tuple[MergedItem, ...]:
    old = tuple(decision.entry_id for decision in merge.decisions if decision.entry_id is not None)
    first_seen: dict[int, str] = {}
    if old:
        first_seen = {row[0]: row[1] for row in _FIRST_SEEN.rows(connection, ids=old)}
    return tuple(
        MergedItem(
            outcome=decision.outcome,
            entry_id=entry_id,
            title=decision.keyed.title,
            url=decision.keyed.item.link.strip(),
            keys=decision.keyed.keys,
            dedupe_key=decision.keyed.dedupe_key,
            match_confidence="high" if decision.keyed.is_certain else "low",
            first_seen_at=first_seen.get(entry_id, now),
            last_seen_at=now,
            shares_url_with=decision.shares_url_with,
        )
        for decision, entry_id in zip(merge.decisions, ids, strict=True)
    )


def _touch(connection: Connection, feed_id: int, now: str, next_check_at: str | None) -> None:
    [(_, number)] = _LOCK.rows(connection, feed=feed_id)
    _TOUCH_LAST_ENTRIES.run(connection, feed=feed_id, number=number, now=now)
    _TOUCH_LAST_SIGHTINGS.run(connection, feed=feed_id, number=number, now=now)
    _CHECKED.run(connection, feed=feed_id, now=now, next_check=next_check_at)


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
    _delete_unseen(connection, ids)


def _items_query(since: str | None, *, only_duplicates: bool, feed_id: int | None) -> Select[Any]:
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


def _insert(connection: Connection, table: Any, rows: list[dict[str, object]]) -> None:
    if rows:
        connection.execute(insert(table), rows)


def _stamped(when: datetime | None) -> str | None:
    return None if when is None else stamp(when)
