"""The statements that `items` runs for every document, compiled once (docs/decisions/0009-ingest-speed.md)."""

from __future__ import annotations

from sqlalchemy import (
    Integer,
    and_,
    bindparam,
    case,
    column,
    delete,
    func,
    insert,
    literal_column,
    select,
    table,
    update,
)

from canonry.feeds.feed_values import NO_FAILURE, FeedStatus
from canonry.store.schema import (
    ambiguous_keys,
    entries,
    entry_identities,
    feeds,
    item_links,
    sightings,
    tombstones,
)
from canonry.store.statements import Prepared

# Rows are plain tuples in the order of these columns, which is that of the tables: a new document makes about a
# hundred rows, and a row with names takes six times as long to make.
ENTRY_COLUMNS = tuple(column.name for column in entries.c)
SIGHTING_COLUMNS = tuple(column.name for column in sightings.c)
_KEY_COLUMNS = tuple(column.name for column in entry_identities.c)
_UNCHANGING_COLUMNS = {"id", "feed_id", "entry_id", "first_seen_at"}  # set once, when the row is inserted
_IS_OF_FEED = sightings.c.feed_id == bindparam("feed_id")
_ENTRIES_BY_ID = (
    select(entries.c.id).where(entries.c.id.in_(bindparam("values", expanding=True))).order_by(entries.c.id)
)
LOCK_ENTRIES_TO_UPDATE = _ENTRIES_BY_ID.with_for_update(key_share=True)
LOCK_ENTRIES_TO_DELETE = _ENTRIES_BY_ID.with_for_update()
LOCK_FEED = Prepared(
    lambda _: (
        select(
            feeds.c.key_url,
            feeds.c.document,
            feeds.c.url,
            feeds.c.changed_documents,
            select(tombstones.c.digest).where(tombstones.c.feed_id == feeds.c.id).exists(),
            select(item_links.c.entry_id).where(item_links.c.page_place > "").exists(),
        )
        .where(feeds.c.id == bindparam("feed_id"))
        .with_for_update()
    )
)
SELECT_AMBIGUOUS_KEYS = Prepared(
    lambda _: select(ambiguous_keys.c.key_type, ambiguous_keys.c.key_value).where(
        ambiguous_keys.c.feed_id == bindparam("feed_id")
    )
)
# SQLite's own count of the ids it has given: the entry with the largest id may have been deleted.
_sequence = table("sqlite_sequence", column("name"), column("seq", Integer))
_LAST_SEQUENCE = select(_sequence.c.seq).where(_sequence.c.name == literal_column("'entries'"))
SELECT_LAST_ENTRY_ID = Prepared(lambda _: select(func.coalesce(_LAST_SEQUENCE.scalar_subquery(), 0)))
SELECT_NEXT_ENTRY_IDS = Prepared(
    lambda _: select(func.nextval(func.pg_get_serial_sequence("entries", "id"))).select_from(
        func.generate_series(1, bindparam("count", type_=Integer))
    )
)
INSERT_ENTRIES = Prepared(lambda _: insert(entries), ENTRY_COLUMNS)
INSERT_SIGHTINGS = Prepared(lambda _: insert(sightings), SIGHTING_COLUMNS)
INSERT_KEYS = Prepared(lambda _: insert(entry_identities), _KEY_COLUMNS)
MOVE_KEY = Prepared(
    lambda _: (
        update(entry_identities)
        .where(
            entry_identities.c.key_type == bindparam("of_type"), entry_identities.c.key_value == bindparam("of_value")
        )
        .values(entry_id=bindparam("entry"))
    )
)
UPDATE_ENTRY = Prepared(
    lambda _: (
        update(entries)
        .where(entries.c.id == bindparam("entry"))
        .values({name: bindparam(name) for name in ENTRY_COLUMNS if name not in _UNCHANGING_COLUMNS})
    )
)
TOUCH_ENTRIES = Prepared(
    lambda is_one_of: (
        update(entries)
        .where(is_one_of(entries.c.id, "ids"))
        .values(last_seen_at=bindparam("now"))
        .returning(entries.c.id, entries.c.first_seen_at)
    )
)
TOUCH_SIGHTINGS = Prepared(
    lambda is_one_of: (
        update(sightings)
        .where(_IS_OF_FEED, is_one_of(sightings.c.entry_id, "ids"))
        .values(document=bindparam("number"), last_seen_at=bindparam("now"))
    )
)
UPDATE_SIGHTING = Prepared(
    lambda _: (
        update(sightings)
        .where(sightings.c.feed_id == bindparam("feed"), sightings.c.entry_id == bindparam("entry"))
        .values({name: bindparam(name) for name in SIGHTING_COLUMNS if name not in _UNCHANGING_COLUMNS})
    )
)
_IS_EXPIRED = and_(
    _IS_OF_FEED, sightings.c.document < bindparam("number"), sightings.c.last_seen_at <= bindparam("before")
)
SELECT_EXPIRED = Prepared(
    lambda _: select(
        sightings.c.entry_id,
        sightings.c.guid,
        sightings.c.place,
        sightings.c.title,
        sightings.c.published,
        sightings.c.content_hash,
        sightings.c.url,
    ).where(_IS_EXPIRED)
)
DELETE_EXPIRED = Prepared(lambda _: delete(sightings).where(_IS_EXPIRED))
# A stopped feed that answers again is active again.
STATUS_AFTER_ANSWER = case((feeds.c.status == FeedStatus.STOPPED.value, FeedStatus.ACTIVE.value), else_=feeds.c.status)
UPDATE_FEED = Prepared(
    lambda _: (
        update(feeds)
        .where(feeds.c.id == bindparam("feed_id"))
        .values(
            status=STATUS_AFTER_ANSWER,
            title=bindparam("title"),
            format=bindparam("format"),
            hubs=bindparam("hubs"),
            topic=bindparam("topic"),
            hubs_origin=bindparam("hubs_origin"),
            ttl=bindparam("ttl"),
            etag=bindparam("etag"),
            last_modified=bindparam("last_modified"),
            document=bindparam("number"),
            changed_documents=bindparam("changed_documents"),
            note=bindparam("note"),
            last_checked_at=bindparam("now"),
            last_parsed_at=bindparam("now"),
            next_check_at=bindparam("next_check_at"),
            retry_at=None,
            **NO_FAILURE,
        )
    )
)
