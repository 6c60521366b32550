"""A feed store for a database that can be read but not written: a full disk, a read-only mount (contract I6)."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection, insert, select

from canonry.errors import RekeyUnfinished, StoreError
from canonry.feeds.feed_store import NO_ORIGINS, FeedStore, add_feeds, find_feeds
from canonry.feeds.feed_values import NO_DESCRIPTION, FeedDescription, FeedState, MergedFeed
from canonry.feeds.item_matching import ItemOutcome
from canonry.feeds.items import match_document
from canonry.feeds.tombstones import TOMBSTONE_DAYS
from canonry.net.origin import Origin
from canonry.store.pinned_policies import ENTRY, find_unfinished_rekey, get_policy, repin_policy
from canonry.store.schema import ambiguous_keys, entries, entry_identities, feeds, sightings, stamp, tombstones

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from canonry.feeds.feed_values import FeedDocument
    from canonry.feeds.item_matching import DocumentMatch
    from canonry.store.database import Database

_COPIED_COLUMNS = tuple(field.name for field in fields(FeedState) if field.name != "id")


class _StoredMatch(NamedTuple):
    """The entries of a document that the database has, and since when."""

    match: DocumentMatch
    first_seen_at: dict[int, str]


class UnwritableFeedStore(FeedStore):
    """Asks a database that cannot be written, and writes to one in memory.

    Feeds are copied to the memory when they are first used; the items of a document are compared with both.
    """

    def __init__(self, stored: Database, memory: Database) -> None:
        super().__init__(memory)
        self._stored = FeedStore(stored)
        self._stored_ids: dict[int, int] = {}  # of feeds, by their id in memory
        self._merged_ids: set[int] = set()  # of feeds with a document in memory
        policy = stored.read_now(partial(get_policy, purpose=ENTRY))
        memory.write_now(partial(repin_policy, purpose=ENTRY, policy_id=policy))

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
        """Like `FeedStore.add`; a feed of the database is not new."""
        known = await self._stored.find_all([url, *aliases])
        if not known:
            return await super().add(url, now, aliases, title=title, description=description, origin=origin)
        [feed] = await self.add_all([next(iter(known))], now)
        return feed, False

    async def add_all(
        self, urls: Sequence[str], now: datetime, *, origins: Mapping[str, Origin] = NO_ORIGINS
    ) -> list[FeedState]:
        """Return the feeds known under these URLs, as the database has them; others are added in memory."""
        copied = await self.find_all(urls)
        new = [url for url in urls if url not in copied]
        added = await self.database.write(partial(add_feeds, urls=new, now=now, origins=origins))
        return [({**dict(zip(new, added, strict=True)), **copied})[url] for url in urls]

    async def find_all(self, urls: Sequence[str]) -> dict[str, FeedState]:
        """Return the feeds that the database knows under these URLs, by URL."""
        known = await self._stored.find_all(urls)
        copied = await self.database.write(partial(_copy_feeds, known=known))
        self._stored_ids.update((feed.id, known[url].id) for url, feed in copied.items())
        return copied

    async def merge(self, feed_id: int, document: FeedDocument, now: datetime, *, seen_ttl_days: int) -> MergedFeed:
        """Store a document in memory; its items are new only if the database does not know them either."""
        feed = await self.get(feed_id)
        stored_id = self._stored_ids.get(feed_id)
        stored = await self._stored.database.read(
            partial(
                _match_stored,
                feed_id=stored_id,
                key_url=feed.key_url,
                document=document,
                recalls_since=stamp(now - timedelta(days=TOMBSTONE_DAYS)),
            )
        )
        merged = await super().merge(feed_id, document, now, seen_ttl_days=seen_ttl_days)
        is_first = stored_id is not None and feed_id not in self._merged_ids
        self._merged_ids.add(feed_id)
        # Items may be one item under keys that only the database knows to be ambiguous.
        matches = {match.item.parsed: match for match in stored.match.items}
        items = tuple(
            item._replace(
                outcome=combine_outcomes(match.outcome, item.outcome, is_first=is_first),
                first_seen_at=stored.first_seen_at.get(match.entry_id or 0, item.first_seen_at),
                shares_url_with=match.shares_url_with or item.shares_url_with,
            )
            for item in merged.items
            if (match := matches.get(item.parsed)) is not None
        )
        return replace(merged, items=items, conflicts=tuple(stored.match.conflicts) or merged.conflicts)

    async def adopt(self, feed_id: int, url: str, *, origin: Origin = Origin.UNKNOWN) -> bool:
        """Like `FeedStore.adopt`, in memory; False also if another feed of the database has the URL."""
        other = await self._stored.find([url])
        if other is not None and other.id != self._stored_ids.get(feed_id):
            return False
        return await super().adopt(feed_id, url, origin=origin)


def combine_outcomes(stored: ItemOutcome, in_memory: ItemOutcome, *, is_first: bool) -> ItemOutcome:
    """Return what an item is, given what it is for the database and for the memory of this run.

    `is_first`: the memory has no earlier document of this feed, so only the database knows how the feed shows an item.
    """
    if in_memory is ItemOutcome.NEW or (is_first and stored is not ItemOutcome.NEW):
        return stored
    return in_memory


async def is_readable(database: Database) -> bool:
    """Return whether the tables of feeds and entries can be read."""

    def read(connection: Connection) -> None:
        for table in (feeds, entries, entry_identities, sightings, ambiguous_keys, tombstones):
            connection.execute(select(table).limit(1)).all()

    try:
        await database.read(read)
    except StoreError:
        return False
    return True


def _copy_feeds(connection: Connection, known: Mapping[str, FeedState]) -> dict[str, FeedState]:
    """Copy feeds unless that was done before; return the copies by the URL that they were looked up by."""
    copied: dict[str, FeedState] = {}
    for url, feed in known.items():
        if feed.key_url not in find_feeds(connection, [feed.key_url]):
            values = {name: getattr(feed, name) for name in _COPIED_COLUMNS}
            values |= {"origin": str(feed.origin), "failure_kind": str(feed.failure_kind or ""), "created_at": ""}
            connection.execute(insert(feeds).values(values))
        copied[url] = find_feeds(connection, [feed.key_url])[feed.key_url]
    return copied


def _match_stored(
    connection: Connection, *, feed_id: int | None, key_url: str, document: FeedDocument, recalls_since: str
) -> _StoredMatch:
    if (rekey := find_unfinished_rekey(connection)) is not None:
        raise RekeyUnfinished(str(rekey))
    number = 0
    if feed_id is not None:
        number = connection.execute(select(feeds.c.document).where(feeds.c.id == feed_id)).scalar() or 0
    _, _, match = match_document(
        connection,
        document,
        feed_id=feed_id or 0,
        key_url=key_url,
        last_number=number,
        policy=get_policy(connection, ENTRY),
        recalls_since=recalls_since,
        has_page_places=True,
    )
    ids = [found.entry_id for found in match.items if found.entry_id is not None]
    first_seen = connection.execute(select(entries.c.id, entries.c.first_seen_at).where(entries.c.id.in_(ids)))
    return _StoredMatch(match, {entry_id: time for entry_id, time in first_seen})  # noqa: C416 – typed, unlike dict()
