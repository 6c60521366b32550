"""A document into the store: each of its items once, in one transaction with what else it says (contract I2–I5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Connection, Integer, and_, bindparam, delete, func, insert, select, update
from sqlalchemy import exists as exists_where

from canonry.core.keys import KeyType, replace_unstorable
from canonry.feeds.feed_values import FeedDocument, MergedFeed, MergedItem, NoSuchFeed
from canonry.feeds.item_matching import Decision, Outcome, keyed, merged
from canonry.feeds.key_lookup import Owners, chunks, looked_up
from canonry.store.pinned_policies import ENTRY, pinned
from canonry.store.schema import ambiguous_keys, entries, entry_identities, feeds, sightings, stamp
from canonry.store.statements import Prepared, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    # What was decided for each item, and its entry.
    Decided: TypeAlias = list[tuple[Decision, int]]


# Rows are plain tuples in the order of these columns, the order of the tables: a new document has a hundred of
# them, and one with names takes six times as long to make.
_ENTRY = tuple(column.name for column in entries.c)
_SIGHTING = tuple(column.name for column in sightings.c)
_KEY = tuple(column.name for column in entry_identities.c)
_KEPT = {"id", "feed_id", "entry_id", "first_seen_at"}  # what a change of a row leaves as it is
_IS_HERE = sightings.c.feed_id == bindparam("feed_id")
_NAMES = {key_type: key_type.value for key_type in KeyType}
_OF_ONE_FEED = frozenset({KeyType.GUID, KeyType.FALLBACK_HASH})
_IN_ORDER = select(entries.c.id).where(entries.c.id.in_(bindparam("values", expanding=True))).order_by(entries.c.id)
_LOCK_TO_CHANGE, _LOCK_TO_DELETE = _IN_ORDER.with_for_update(key_share=True), _IN_ORDER.with_for_update()
_LOCK = Prepared(
    lambda _: select(feeds.c.key_url, feeds.c.document).where(feeds.c.id == bindparam("feed_id")).with_for_update()
)
_AMBIGUOUS = Prepared(
    lambda _: select(ambiguous_keys.c.key_type, ambiguous_keys.c.key_value).where(
        ambiguous_keys.c.feed_id == bindparam("feed_id")
    )
)
_LAST_ID = Prepared(lambda _: select(func.coalesce(func.max(entries.c.id), 0)))
_NEXT_IDS = Prepared(
    lambda _: select(func.nextval(func.pg_get_serial_sequence("entries", "id"))).select_from(
        func.generate_series(1, bindparam("count", type_=Integer))
    )
)
_INSERT_ENTRIES = Prepared(lambda _: insert(entries), _ENTRY)
_INSERT_SIGHTINGS = Prepared(lambda _: insert(sightings), _SIGHTING)
_INSERT_KEYS = Prepared(lambda _: insert(entry_identities), _KEY)
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
        update(entries)
        .where(entries.c.id == bindparam("entry"))
        .values({name: bindparam(name) for name in _ENTRY if name not in _KEPT})
    )
)
_TOUCH_ENTRIES = Prepared(
    lambda is_one_of: (
        update(entries)
        .where(is_one_of(entries.c.id, "ids"))
        .values(last_seen_at=bindparam("now"))
        .returning(entries.c.id, entries.c.first_seen_at)
    )
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
        .where(sightings.c.feed_id == bindparam("feed"), sightings.c.entry_id == bindparam("entry"))
        .values({name: bindparam(name) for name in _SIGHTING if name not in _KEPT})
    )
)
_GONE = and_(_IS_HERE, sightings.c.document < bindparam("number"), sightings.c.last_seen_at <= bindparam("before"))
_SELECT_GONE = Prepared(lambda _: select(sightings.c.entry_id).where(_GONE))
_DELETE_GONE = Prepared(lambda _: delete(sightings).where(_GONE))
_PARSED = Prepared(
    lambda _: (
        update(feeds)
        .where(feeds.c.id == bindparam("feed_id"))
        .values(
            title=bindparam("title"),
            format=bindparam("format"),
            hubs=bindparam("hubs"),
            ttl=bindparam("ttl"),
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


def merge_document(
    connection: Connection, *, feed_id: int, document: FeedDocument, now: str, before: str
) -> MergedFeed:
    """Keep each item of a document once, forget what it lacks and was last seen `before`; NoSuchFeed without a feed."""
    locked = _LOCK.rows(connection, feed_id=feed_id)
    if not locked:
        raise NoSuchFeed(feed_id)
    [(key_url, last)] = locked
    items = keyed(document.items, key_url, pinned(connection, ENTRY))
    ambiguous: set[tuple[KeyType, str]] = set()
    if last:
        ambiguous = {(KeyType(kind), value) for kind, value in _AMBIGUOUS.rows(connection, feed_id=feed_id)}
    owners, known = looked_up(connection, feed_id, key_url, items, ambiguous, is_first=not last)
    merge = merged(items, known, ambiguous, key_url)
    number = last + 1
    decided, first_seen = _write_entries(connection, merge.decisions, now)
    _write_sightings(connection, feed_id, number, decided, now)
    _learn_keys(connection, owners, decided)
    if new := merge.ambiguous - ambiguous:
        rows = [{"feed_id": feed_id, "key_type": key_type, "key_value": value} for key_type, value in sorted(new)]
        connection.execute(insert(ambiguous_keys), rows)
    deleted = _forget(connection, feed_id, number, before) if last else 0
    _PARSED.run(
        connection,
        feed_id=feed_id,
        title=replace_unstorable(document.title),
        format=str(document.format),
        hubs=replace_unstorable("\n".join(document.hubs)),
        ttl=document.ttl,
        etag=replace_unstorable(document.etag),
        last_modified=replace_unstorable(document.last_modified),
        number=number,
        now=now,
        next_check_at=None if document.next_check_at is None else stamp(document.next_check_at),
    )
    return MergedFeed(_report(decided, first_seen, now), tuple(merge.conflicts), deleted)


def delete_unseen(connection: Connection, ids: Sequence[int]) -> int:
    """Delete those of these entries that no feed shows any more; how many went."""
    is_seen = exists_where().where(sightings.c.entry_id == entries.c.id)
    deleted = 0
    for chunk in chunks(sorted(ids)):
        if connection.dialect.name == "postgresql":
            # Whoever is about to show one of them in another feed comes first, or after us.
            connection.execute(_LOCK_TO_DELETE, {"values": chunk})
        deleted += connection.execute(delete(entries).where(entries.c.id.in_(chunk), ~is_seen)).rowcount
    return deleted


def _write_entries(connection: Connection, decisions: list[Decision], now: str) -> tuple[Decided, dict[int, str]]:
    """New entries in, changed ones changed, the rest touched; the entry of each, and when old ones were first seen."""
    touched = sorted(decision.known.entry_id for decision in decisions if decision.known is not None)
    if connection.dialect.name == "postgresql":
        # In one order: feeds that share entries wait for each other, and never in a circle.
        for chunk in chunks(touched):
            connection.execute(_LOCK_TO_CHANGE, {"values": chunk})
    ids = iter(_new_ids(connection, len(decisions) - len(touched)))
    decided = [(each, next(ids) if each.known is None else each.known.entry_id) for each in decisions]
    _INSERT_ENTRIES.insert(connection, [_entry(each, new, now) for each, new in decided if each.known is None])
    changed = [pair for pair in decided if pair[0].outcome is Outcome.UPDATED or pair[0].is_imported]
    _CHANGE_ENTRY.run_many(
        connection,
        [
            {**dict(zip(_ENTRY, _entry(each, entry_id, now), strict=True)), "entry": entry_id}
            for each, entry_id in changed
        ],
    )
    first_seen: dict[int, str] = {}
    if touched:
        first_seen = {row[0]: row[1] for row in _TOUCH_ENTRIES.rows(connection, ids=tuple(touched), now=now)}
    return decided, first_seen


def _new_ids(connection: Connection, count: int) -> Sequence[int]:
    """The next ids of entries; on SQLite nobody else writes, so that they can be counted."""
    if not count:
        return ()
    if connection.dialect.name == "postgresql":
        return [entry_id for (entry_id,) in _NEXT_IDS.rows(connection, count=count)]
    [(last,)] = _LAST_ID.rows(connection)
    return range(last + 1, last + 1 + count)


def _entry(decision: Decision, entry_id: int, now: str) -> Row:
    each = decision.keyed
    return (
        entry_id,
        each.dedupe_key,
        each.guid,
        each.item.link.strip(),
        each.canonical_url,
        each.title,
        each.item.published.strip(),
        each.content_hash,
        _confidence(decision),
        now,
        now,
    )


def _write_sightings(connection: Connection, feed_id: int, number: int, decided: Decided, now: str) -> None:
    """What the feed shows of each entry in this document."""
    as_shown: list[int] = []
    changed: list[Row] = []
    new: list[Row] = []
    for decision, entry_id in decided:
        if decision.is_as_shown:
            as_shown.append(entry_id)
            continue
        each = decision.keyed
        (changed if decision.is_here else new).append(
            (
                feed_id,
                entry_id,
                each.guid,
                each.place,
                each.title,
                each.item.published.strip(),
                each.content_hash,
                number,
                now,
                now,
                each.item.link.strip(),
            )
        )
    if as_shown:
        _TOUCH_SIGHTINGS.run(connection, feed_id=feed_id, ids=tuple(as_shown), number=number, now=now)
    _CHANGE_SIGHTING.run_many(
        connection, [{**dict(zip(_SIGHTING, row, strict=True)), "feed": row[0], "entry": row[1]} for row in changed]
    )
    _INSERT_SIGHTINGS.insert(connection, new)


def _learn_keys(connection: Connection, owners: Owners, decided: Decided) -> None:
    """Register the keys of each entry that nobody has; in one order, so that two writers do not wait in a circle.

    A guid or hash whose entry this document shows as another item goes with the item that carries it: without
    that it would be new in every document.
    """
    free: dict[tuple[str, str], Row] = {}
    moved: list[dict[str, object]] = []
    here = {entry_id for _, entry_id in decided}
    for decision, entry_id in decided:
        for key in decision.keyed.keys:
            name = _NAMES[key.key_type], key.key_value
            owner = owners.get(name)
            if owner is None:
                if name not in free:
                    free[name] = (*name, entry_id, key.policy)
            elif owner != entry_id and owner in here and key.key_type in _OF_ONE_FEED:
                moved.append({"of_type": name[0], "of_value": name[1], "entry": entry_id})
    _INSERT_KEYS.insert(connection, [free[name] for name in sorted(free)])
    _MOVE_KEY.run_many(connection, moved)


def _forget(connection: Connection, feed_id: int, number: int, before: str) -> int:
    """Delete what this document lacks and was last seen long before it; how many entries went."""
    gone: list[Any] = _SELECT_GONE.rows(connection, feed_id=feed_id, number=number, before=before)
    if not gone:
        return 0
    _DELETE_GONE.run(connection, feed_id=feed_id, number=number, before=before)
    return delete_unseen(connection, [entry_id for (entry_id,) in gone])


def _report(decided: Decided, first_seen: dict[int, str], now: str) -> tuple[MergedItem, ...]:
    return tuple(
        [
            MergedItem(
                decision.outcome,
                entry_id,
                decision.keyed.title,
                decision.keyed.item.link.strip(),
                decision.keyed.keys,
                decision.keyed.dedupe_key,
                _confidence(decision),
                first_seen.get(entry_id, now),
                now,
                decision.shares_url_with,
            )
            for decision, entry_id in decided
        ]
    )


def _confidence(decision: Decision) -> str:
    return "high" if decision.keyed.is_certain else "low"
