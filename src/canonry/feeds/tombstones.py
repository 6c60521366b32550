"""Remember deleted items, so that one that comes back is not reported as new (contract I5).

Of an item that retention deletes, digests of some of its fields together stay: guid and place, guid and title, guid
and date, place and title and date. A single field would be too little evidence, because publishers reuse guids and
links.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import bindparam, delete, insert, select

from canonry.core.keys import KeyType, hash_fields, list_guid_twins, loosen_place
from canonry.feeds.item_evidence import get_fragment
from canonry.feeds.item_matching import ItemOutcome
from canonry.store.schema import entry_identities, tombstones
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import Connection

    from canonry.feeds.item_matching import ItemMatch
    from canonry.feeds.keyed_items import DocumentKey, KeyedItem

TOMBSTONE_DAYS = 365
_DIGEST_CHARS = 32
_SELECT = Prepared(
    lambda is_one_of: select(tombstones.c.digest, tombstones.c.content_hash).where(
        tombstones.c.feed_id == bindparam("feed_id"),
        is_one_of(tombstones.c.digest, "digests"),
        tombstones.c.deleted_at > bindparam("since"),
    )
)
_SELECT_HASHES = Prepared(
    lambda is_one_of: select(entry_identities.c.entry_id, entry_identities.c.key_value).where(
        entry_identities.c.key_type == KeyType.FALLBACK_HASH.value, is_one_of(entry_identities.c.entry_id, "ids")
    )
)
_DELETE_SAME = Prepared(
    lambda is_one_of: delete(tombstones).where(
        tombstones.c.feed_id == bindparam("of_feed"), is_one_of(tombstones.c.digest, "digests")
    )
)
_DELETE_OLD = Prepared(
    lambda _: delete(tombstones).where(
        tombstones.c.feed_id == bindparam("of_feed"), tombstones.c.deleted_at <= bindparam("since")
    )
)
_INSERT = Prepared(lambda _: insert(tombstones), tuple(column.name for column in tombstones.c))


class ExpiredItem(NamedTuple):
    """An item that is about to be deleted, as its feed showed it last."""

    entry_id: int
    guid: str
    place: str
    title: str
    published: str
    content_hash: str
    link: str


def bury_items(
    connection: Connection,
    feed_id: int,
    items: Sequence[ExpiredItem],
    *,
    ambiguous: Collection[DocumentKey],
    now: str,
    since: str,
) -> None:
    """Write the tombstones of these items, and delete those of the feed that were written before `since`."""
    hashes: dict[int, list[str]] = {}
    for entry_id, value in _SELECT_HASHES.fetch_all(connection, ids=tuple(item.entry_id for item in items)):
        hashes.setdefault(entry_id, []).append(value)
    rows: dict[str, tuple[object, ...]] = {}
    without_identity = _loosen(ambiguous)
    for item in items:
        for digest in _make_digests(item, hashes.get(item.entry_id, ()), without_identity):
            rows[digest] = (feed_id, digest, item.content_hash[:_DIGEST_CHARS], now)
    _DELETE_OLD.run(connection, of_feed=feed_id, since=since)
    _DELETE_SAME.run(connection, of_feed=feed_id, digests=tuple(rows))
    _INSERT.insert(connection, [rows[digest] for digest in sorted(rows)])


def recall_items(
    connection: Connection,
    feed_id: int,
    matches: list[ItemMatch],
    *,
    ambiguous: Collection[DocumentKey],
    since: str,
) -> list[ItemMatch]:
    """Return the matches, in which new items that were deleted after `since` are no longer new."""
    digests: dict[int, tuple[str, ...]] = {}
    without_identity = _loosen(ambiguous)
    guids = {match.item.guid for match in matches}
    for position, match in enumerate(matches):
        if match.entry is None:
            item = match.item
            keys = (*item.keys, *item.older_keys)
            hashes = [key.key_value for key in keys if key.key_type is KeyType.FALLBACK_HASH]
            # A guid that is a URL may have had another scheme, or `www.`.
            twins = [twin for twin in list_guid_twins(item.guid) if twin not in guids]
            forms = (item, *(item._replace(guid=twin) for twin in twins))
            digests[position] = tuple(each for form in forms for each in _make_digests(form, hashes, without_identity))
    if not digests:
        return matches
    wanted = tuple(digest for each in digests.values() for digest in each)
    rows = _SELECT.fetch_all(connection, feed_id=feed_id, digests=wanted, since=since)
    if not rows:
        return matches
    found: dict[str, str] = {digest: content_hash for digest, content_hash in rows}  # noqa: C416 – typed, unlike dict()
    recalled = list(matches)
    for position, each in digests.items():
        buried = [found[digest] for digest in each if digest in found]
        if buried:
            match = matches[position]
            is_same = match.item.content_hash[:_DIGEST_CHARS] in buried
            recalled[position] = match._replace(outcome=ItemOutcome.DUPLICATE if is_same else ItemOutcome.UPDATED)
    return recalled


def _loosen(ambiguous: Collection[DocumentKey]) -> set[DocumentKey]:
    """Return the ambiguous keys with places instead of exact places."""
    return {
        (key_type, value if key_type is KeyType.GUID else loosen_place(value.partition("#")[0]))
        for key_type, value in ambiguous
    }


def _make_digests(
    item: ExpiredItem | KeyedItem, hashes: Collection[str], without_identity: Collection[DocumentKey]
) -> tuple[str, ...]:
    """Return the digests by which an item is recognised; empty if it has nothing that identifies it."""
    title, published = item.title, item.published
    guid = "" if (KeyType.GUID, item.guid) in without_identity else item.guid
    place = "" if (KeyType.CANONICAL_URL, item.place) in without_identity else item.place
    if place and (fragment := get_fragment(item.link)):
        place = f"{place}#{fragment}"  # sections of one page are different items
    pairs: list[tuple[str, ...]] = [("hash", each) for each in hashes]
    if guid and place:
        pairs.append(("guid and place", guid, place))
    if guid and title:
        pairs.append(("guid and title", guid, title))
    if guid and (published or not (place or title)):
        pairs.append(("guid and date", guid, published))  # headline and slug were edited
    if place and (title or published):
        pairs.append(("place, title and date", place, title, published))
    if place and not guid:
        # With a guid, another item at a link that all items share may have the same title or date.
        pairs += [("place and title", place, title)] if title else []
        pairs += [("place and date", place, published)] if published or not title else []
    return tuple(hash_fields(*pair)[:_DIGEST_CHARS] for pair in pairs)
