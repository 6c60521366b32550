"""The feeds of a database: add, find, poll results, moves, removal, each in one transaction (contract I1–I5)."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, bindparam, case, delete, func, insert, or_, select, update

from canonry.core.keys import replace_unstorable
from canonry.errors import FailureKind, FeedNotFound
from canonry.feeds.due import make_due_condition
from canonry.feeds.feed_settings import check_changes
from canonry.feeds.feed_values import NO_DESCRIPTION, NO_FAILURE, FeedDescription, FeedNote, FeedState, FeedStatus
from canonry.feeds.item_statements import STATUS_AFTER_ANSWER
from canonry.feeds.items import merge_document
from canonry.feeds.removed_feeds import remove_feed
from canonry.feeds.stored_items import EVERYTHING, ItemSearch, iterate_items
from canonry.feeds.tombstones import TOMBSTONE_DAYS
from canonry.net.origin import Origin
from canonry.store.schema import entries, feed_aliases, feeds, sightings, stamp
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Select

    from canonry.feeds.feed_settings import FeedChanges
    from canonry.feeds.feed_values import FeedDocument, MergedFeed, StoredItem
    from canonry.store.database import Database

NO_ORIGINS: Mapping[str, Origin] = MappingProxyType({})
_STATE_NAMES = tuple(field.name for field in fields(FeedState))
_STATE_COLUMNS = [feeds.c[name] for name in _STATE_NAMES]
_LOCK_ADDING = select(func.pg_advisory_xact_lock(7203042))  # an arbitrary number that no other lock uses
_INSERTED_COLUMNS = ("key_url", "url", "title", "created_at", "folder", "own_title", "site_url", "origin")
_INSERT_FEEDS = Prepared(lambda _: insert(feeds).inline(), _INSERTED_COLUMNS)
_SELECT_AT_URLS = Prepared(
    lambda is_one_of: select(*_STATE_COLUMNS).where(
        or_(is_one_of(feeds.c.url, "urls"), is_one_of(feeds.c.key_url, "urls"))
    )
)
_SELECT_AT_ALIASES = Prepared(
    lambda is_one_of: (
        select(feed_aliases.c.url, *_STATE_COLUMNS)
        .join(feeds, feeds.c.id == feed_aliases.c.feed_id)
        .where(is_one_of(feed_aliases.c.url, "urls"))
    )
)
_IS_IN_LAST_DOCUMENT = and_(sightings.c.feed_id == bindparam("feed"), sightings.c.document == bindparam("number"))
_TOUCH_LAST_ENTRIES = Prepared(
    lambda _: (
        update(entries)
        .where(entries.c.id.in_(select(sightings.c.entry_id).where(_IS_IN_LAST_DOCUMENT)))
        .values(last_seen_at=bindparam("now"))
    )
)
_TOUCH_LAST_SIGHTINGS = Prepared(
    lambda _: update(sightings).where(_IS_IN_LAST_DOCUMENT).values(last_seen_at=bindparam("now"))
)
_MARK_CHECKED = Prepared(
    lambda _: (
        update(feeds)
        .where(feeds.c.id == bindparam("feed"))
        .values(
            status=STATUS_AFTER_ANSWER,
            last_checked_at=bindparam("now"),
            next_check_at=bindparam("next_check"),
            retry_at=None,
            **NO_FAILURE,
        )
        .returning(feeds.c.document)
    )
)


class FeedStore:
    """The feeds of a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def add(
        self,
        url: str,
        now: datetime,
        aliases: Iterable[str] = (),
        *,
        title: str = "",
        description: FeedDescription = NO_DESCRIPTION,
        origin: Origin = Origin.UNKNOWN,
    ) -> tuple[FeedState, bool]:
        """Return the feed known under this URL or an alias, or a new one, and whether it is new.

        `title` is that of the document. What a person has said about a known feed is kept. `origin` says who named the
        URL of a new feed.
        """
        work = partial(_add, aliases=tuple(aliases), title=title, description=description, origin=origin)
        return await self.database.write(partial(work, url=url, now=now))

    async def add_all(
        self, urls: Sequence[str], now: datetime, *, origins: Mapping[str, Origin] = NO_ORIGINS
    ) -> list[FeedState]:
        """Return the feeds known under these URLs, adding those that are not known; `origins` says who named a URL."""
        return await self.database.write(partial(add_feeds, urls=urls, now=now, origins=origins))

    async def find(self, urls: Sequence[str]) -> FeedState | None:
        """Return the feed known under the first of these URLs that is known."""
        return await self.database.read(partial(_find, urls=urls))

    async def find_all(self, urls: Sequence[str]) -> dict[str, FeedState]:
        """Return the feeds known under these URLs, by URL."""
        return await self.database.read(partial(find_feeds, urls=urls))

    async def get(self, feed_id: int) -> FeedState:
        """Return a feed by its id; raises FeedNotFound."""
        query = select(*_STATE_COLUMNS).where(feeds.c.id == feed_id)
        found = await self.database.read(lambda connection: _select_states(connection, query))
        if not found:
            raise FeedNotFound(feed_id)
        return found[0]

    async def list_all(self) -> list[FeedState]:
        """Return every feed, ordered by URL."""
        query = select(*_STATE_COLUMNS).order_by(feeds.c.url)
        return await self.database.read(lambda connection: _select_states(connection, query))

    async def list_due(self, now: datetime) -> list[FeedState]:
        """Return the feeds that are due, the longest waiting first."""
        query = select(*_STATE_COLUMNS).where(make_due_condition(now)).order_by(feeds.c.next_check_at, feeds.c.id)
        return await self.database.read(lambda connection: _select_states(connection, query))

    async def merge(self, feed_id: int, document: FeedDocument, now: datetime, *, seen_ttl_days: int) -> MergedFeed:
        """Store each item of a document once, with its validators; delete items not seen for `seen_ttl_days`."""
        return await self.database.write(
            partial(
                merge_document,
                feed_id=feed_id,
                document=document,
                now=stamp(now),
                expired_before=stamp(now - timedelta(days=seen_ttl_days)),
                forgotten_before=stamp(now - timedelta(days=TOMBSTONE_DAYS)),
            )
        )

    async def touch(self, feed_id: int, now: datetime, next_check_at: datetime | None = None) -> None:
        """Record a 304: all items of the last document count as seen."""
        await self.database.write(
            partial(_touch, feed_id=feed_id, now=stamp(now), next_check_at=_format_time(next_check_at))
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
        kind: FailureKind = FailureKind.OTHER,
        status: int | None = None,
    ) -> None:
        """Record a failed poll and when to try again; a feed that is gone is stopped.

        `status` is that of the answer, if the server answered.
        """
        values: dict[str, Any] = {
            "failure": replace_unstorable(reason),
            "failure_kind": kind.value,
            "failure_status": status,
            "failures": feeds.c.failures + 1,
            "last_checked_at": stamp(now),
            "next_check_at": _format_time(next_check_at),
            "retry_at": _format_time(retry_at),
        }
        if is_gone:  # a paused feed stays paused
            is_active = feeds.c.status == FeedStatus.ACTIVE.value
            values["status"] = case((is_active, FeedStatus.STOPPED.value), else_=feeds.c.status)
        await self._update(feed_id, values)

    async def set_moved(self, feed_id: int, url: str, sightings: int) -> None:
        """Record a permanent redirect to a URL, and how often in a row it was seen."""
        await self._update(feed_id, {"moved_to": url, "moved_sightings": sightings})

    async def adopt(self, feed_id: int, url: str, *, origin: Origin = Origin.UNKNOWN) -> bool:
        """Change the URL of a feed and keep the old URL as an alias; return False if another feed has the new URL.

        `origin` says who named the new URL. Raises FeedNotFound if the feed has been removed.
        """
        return await self.database.write(partial(_adopt, feed_id=feed_id, url=url, origin=origin))

    async def set_origin(self, feed_id: int, origin: Origin) -> None:
        """Record who named the URL of a feed."""
        await self._update(feed_id, {"origin": str(origin)})

    async def set_status(self, feed_id: int, status: FeedStatus) -> None:
        """Set the status and reset the failures."""
        await self._update(feed_id, {"status": status.value, "next_check_at": None, **NO_FAILURE})

    async def change(self, feed_id: int, changes: FeedChanges) -> FeedState:
        """Change the settings of a feed and return it; InvalidFields or FeedNotFound if that is not possible."""
        return await self.database.write(partial(_change, feed_id=feed_id, changes=changes))

    async def describe(self, descriptions: Mapping[int, FeedDescription]) -> None:
        """Store what an OPML file says about feeds, by id; what is stored already is kept."""
        await self.database.write(partial(_describe_all, descriptions=descriptions))

    async def remove(self, feed_id: int, now: datetime) -> None:
        """Delete a feed and the entries that only this feed has shown; `restore_feed` restores them."""
        await self.database.write(partial(remove_feed, feed_id=feed_id, now=now))

    async def list_items(self, search: ItemSearch = EVERYTHING) -> list[StoredItem]:
        """Return all items that match, the newest first; `search_items` returns them page by page."""
        return [item async for item in iterate_items(self.database, search)]

    async def _update(self, feed_id: int, values: dict[str, Any]) -> None:
        await self.database.write(
            lambda connection: connection.execute(update(feeds).where(feeds.c.id == feed_id).values(values))
        )


def _make_state(row: Iterable[Any]) -> FeedState:
    values: dict[str, Any] = dict(zip(_STATE_NAMES, row, strict=True))
    values["status"] = FeedStatus(values["status"])
    values["note"] = FeedNote(values["note"])
    values["origin"] = Origin.parse(values["origin"])
    values["failure_kind"] = FailureKind(values["failure_kind"]) if values["failure_kind"] else None
    return FeedState(**values)


def _select_states(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[FeedState]:
    return [_make_state(row) for row in connection.execute(query)]


def find_feeds(connection: Connection, urls: Sequence[str]) -> dict[str, FeedState]:
    """Return the feeds known under these URLs, by URL: current, first or alias; of several the oldest."""
    found: dict[str, FeedState] = {}

    def note(url: str, feed: FeedState) -> None:
        if url not in found or feed.id < found[url].id:
            found[url] = feed

    for row in _SELECT_AT_URLS.fetch_all(connection, urls=tuple(urls)):
        feed = _make_state(row)
        note(feed.url, feed)
        note(feed.key_url, feed)
    for alias, *state in _SELECT_AT_ALIASES.fetch_all(connection, urls=tuple(urls)):
        note(alias, _make_state(state))
    return found


def _find(connection: Connection, urls: Sequence[str]) -> FeedState | None:
    known = find_feeds(connection, urls)
    return next((known[url] for url in urls if url in known), None)


def _lock_adding(connection: Connection) -> None:
    """Wait for other transactions that add feeds: two of them may add one feed under two of its URLs."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer
        connection.execute(_LOCK_ADDING)


def add_feeds(
    connection: Connection, urls: Sequence[str], now: datetime, origins: Mapping[str, Origin]
) -> list[FeedState]:
    """Return the feeds known under these URLs, adding those that are not known."""
    _lock_adding(connection)
    known = find_feeds(connection, urls)
    if new := [url for url in dict.fromkeys(urls) if url not in known]:
        rows = [(url, url, "", stamp(now), "", "", "", str(origins.get(url, Origin.UNKNOWN))) for url in new]
        _INSERT_FEEDS.insert(connection, rows)
        known |= find_feeds(connection, new)
    return [known[url] for url in urls]


def _add(
    connection: Connection,
    url: str,
    now: datetime,
    aliases: tuple[str, ...],
    title: str,
    description: FeedDescription,
    origin: Origin,
) -> tuple[FeedState, bool]:
    _lock_adding(connection)
    feed = _find(connection, (url, *aliases))
    is_new = feed is None
    if feed is None:
        row = (url, url, replace_unstorable(title), stamp(now), "", "", "", str(origin))
        _INSERT_FEEDS.insert(connection, [row])
        feed = _find(connection, (url,))
        assert feed is not None
    if description != NO_DESCRIPTION:
        _describe_all(connection, {feed.id: description})
        [feed] = _select_states(connection, select(*_STATE_COLUMNS).where(feeds.c.id == feed.id))
    for alias in aliases:
        if alias != feed.url and _find(connection, (alias,)) is None:
            connection.execute(insert(feed_aliases).values(url=alias, feed_id=feed.id))
    return feed, is_new


def _describe_all(connection: Connection, descriptions: Mapping[int, FeedDescription]) -> None:
    """Fill the columns that are empty; a title that the document has as well is not a person's."""
    for feed_id, description in descriptions.items():
        texts = {name: replace_unstorable(value) for name, value in asdict(description).items() if value}
        if texts:
            values = {name: case((feeds.c[name] == "", value), else_=feeds.c[name]) for name, value in texts.items()}
            if "own_title" in texts:
                is_own = and_(feeds.c.own_title == "", feeds.c.title != texts["own_title"])
                values["own_title"] = case((is_own, texts["own_title"]), else_=feeds.c.own_title)
            connection.execute(update(feeds).where(feeds.c.id == feed_id).values(values))


def _change(connection: Connection, feed_id: int, changes: FeedChanges) -> FeedState:
    query = select(*_STATE_COLUMNS).where(feeds.c.id == feed_id)
    found = _select_states(connection, query.with_for_update())
    if not found:
        raise FeedNotFound(feed_id)
    if values := check_changes(changes, found[0]):
        connection.execute(update(feeds).where(feeds.c.id == feed_id).values(values))
    return _select_states(connection, query)[0]


def _touch(connection: Connection, feed_id: int, now: str, next_check_at: str | None) -> None:
    updated = _MARK_CHECKED.fetch_all(connection, feed=feed_id, now=now, next_check=next_check_at)
    for (number,) in updated:  # no row if the feed was removed
        _TOUCH_LAST_ENTRIES.run(connection, feed=feed_id, number=number, now=now)
        _TOUCH_LAST_SIGHTINGS.run(connection, feed=feed_id, number=number, now=now)


def _adopt(connection: Connection, feed_id: int, url: str, origin: Origin) -> bool:
    # Locked, because an alias of a feed that is removed meanwhile would be an error of the database.
    old_url = connection.execute(select(feeds.c.url).where(feeds.c.id == feed_id).with_for_update()).scalar()
    if old_url is None:
        raise FeedNotFound(feed_id)
    other = _find(connection, (url,))
    if other is not None and other.id != feed_id:
        return False
    connection.execute(delete(feed_aliases).where(feed_aliases.c.url == url))
    if not _is_alias(connection, old_url):
        connection.execute(insert(feed_aliases).values(url=old_url, feed_id=feed_id))
    values = {"url": url, "moved_to": "", "moved_sightings": 0, "etag": "", "last_modified": "", "origin": str(origin)}
    connection.execute(update(feeds).where(feeds.c.id == feed_id).values(values))
    return True


def _is_alias(connection: Connection, url: str) -> bool:
    return connection.execute(select(feed_aliases.c.url).where(feed_aliases.c.url == url)).first() is not None


def _format_time(when: datetime | None) -> str | None:
    return None if when is None else stamp(when)
