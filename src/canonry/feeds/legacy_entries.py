"""Import the entries that another program has seen, so that ingest does not report them as new (contract I3)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import Connection, bindparam, insert, select

from canonry.core.keys import Key, KeyType, make_link_key, make_place, replace_unstorable, shorten_key
from canonry.errors import StoreError
from canonry.feeds.feed_values import MatchConfidence
from canonry.store.pinned_policies import ENTRY, get_or_pin_policy
from canonry.store.schema import entries, entry_identities, stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canonry.store.database import Database

_BATCH_ROWS = 500
# The columns of the other table that a field may come from; missing ones are empty.
_COLUMN_NAMES = {
    "dedupe_key": ("dedupe_key",),
    "guid": ("guid",),
    "link": ("url", "link"),
    "title": ("title",),
    "published": ("published",),
    "content_hash": ("content_hash",),
    "first_seen_at": ("first_seen_at",),
    "last_seen_at": ("last_seen_at",),
}
_INSERT_ENTRIES = insert(entries).returning(entries.c.id, sort_by_parameter_order=True)
_SELECT_DEDUPE_KEYS = select(entries.c.dedupe_key).where(entries.c.dedupe_key.in_(bindparam("values", expanding=True)))
_SELECT_KEYS = select(entry_identities.c.key_type, entry_identities.c.key_value).where(
    entry_identities.c.key_value.in_(bindparam("values", expanding=True))
)


class _KeyPrefix(StrEnum):
    """The text before the first colon of a dedupe key: what the key is made from."""

    GUID = "guid"
    URL = "url"
    HASH = "hash"


@dataclass(frozen=True, slots=True)
class _LegacyEntry:
    """An entry as the other table has it; texts are empty where it has none."""

    dedupe_key: str
    guid: str
    link: str
    title: str
    published: str
    content_hash: str
    first_seen_at: str
    last_seen_at: str

    @property
    def key_prefix(self) -> str:
        return self.dedupe_key.partition(":")[0]

    @property
    def key_value(self) -> str:
        """The dedupe key without its prefix."""
        return self.dedupe_key.partition(":")[2]

    @property
    def url(self) -> str:
        """The link, or else the URL that the dedupe key contains."""
        return self.link or (self.key_value if self.key_prefix == _KeyPrefix.URL else "")


def import_legacy(database: Database, file: str | Path, *, now: datetime | None = None) -> int:
    """Import the rows of a SQLite table `entries` of another program, all or none; returns how many were not known.

    Their feeds are not known: the first feed that shows one of them takes it over, as a duplicate.
    """
    return database.write_now(partial(_import, file=Path(file), now=now or datetime.now(UTC)))


def _import(connection: Connection, file: Path, now: datetime) -> int:
    policy = get_or_pin_policy(connection, ENTRY)
    return sum(_register(connection, batch, policy) for batch in _read_entries(file, stamp(now)))


def _read_entries(file: Path, now: str) -> Iterator[list[_LegacyEntry]]:
    """Yield the entries of the file in batches; rows without a dedupe key are skipped."""
    if not file.is_file():
        raise StoreError(f"{file}: this file does not exist")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True)) as store:
            store.text_factory = _decode
            columns = {str(name).lower() for _, name, *_ in store.execute("PRAGMA table_info(entries)")}
            if "dedupe_key" not in columns:
                raise StoreError(f"{file}: has no table `entries` with a column `dedupe_key`")
            rows = store.execute(f"SELECT {', '.join(_select_columns(columns))} FROM entries ORDER BY rowid")  # noqa: S608
            while batch := rows.fetchmany(_BATCH_ROWS):
                found = (_make_entry(dict(zip(_COLUMN_NAMES, row, strict=True)), now) for row in batch)
                yield [entry for entry in found if entry.dedupe_key]
    except sqlite3.Error as error:
        raise StoreError(f"{file}: {error}") from error


def _select_columns(columns: set[str]) -> Iterator[str]:
    for names in _COLUMN_NAMES.values():
        yield next((f'"{name}"' for name in names if name in columns), "NULL")


def _make_entry(row: dict[str, Any], now: str) -> _LegacyEntry:
    first_seen = _parse_time(row["first_seen_at"]) or _parse_time(row["last_seen_at"]) or now
    return _LegacyEntry(
        dedupe_key=_clean_text(row["dedupe_key"]),
        guid=_clean_text(row["guid"]),
        link=_clean_text(row["link"]),
        title=" ".join(_clean_text(row["title"]).split()),
        published=_clean_text(row["published"]),
        content_hash=_clean_text(row["content_hash"]),
        first_seen_at=first_seen,
        last_seen_at=max(first_seen, _parse_time(row["last_seen_at"])),
    )


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _clean_text(value: object) -> str:
    if value is None:
        return ""
    return replace_unstorable(_decode(value) if isinstance(value, bytes) else str(value)).strip()


def _parse_time(value: object) -> str:
    """Return a Unix time or an ISO 8601 text as UTC, or an empty text; without an offset it is UTC already."""
    try:
        if isinstance(value, int | float):
            return stamp(datetime.fromtimestamp(value, UTC))
        when = datetime.fromisoformat(_clean_text(value))
        return stamp(when if when.tzinfo else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def _make_keys(entry: _LegacyEntry, policy: str) -> list[Key]:
    """Return the keys of an entry.

    `guid:https://a.com/feed:1` may be guid `1` of a feed, or a guid that contains a colon. Only the column `guid`
    can tell. Without it the whole text becomes a legacy guid, and is also found as `dedupe_key`.
    """
    value = entry.key_value
    match entry.key_prefix:
        case _KeyPrefix.GUID if entry.guid and value.endswith(f":{entry.guid}"):
            return [Key(KeyType.GUID, shorten_key(value))]
        case _KeyPrefix.GUID if value:
            return [Key(KeyType.LEGACY_GUID, shorten_key(entry.dedupe_key))]
        case _KeyPrefix.URL if url := make_link_key(value, policy=policy):
            return [Key(KeyType.CANONICAL_URL, url, policy)]
        case _KeyPrefix.HASH if value:
            return [Key(KeyType.FALLBACK_HASH, shorten_key(value))]
        case _:
            return []


def _find_guid(entry: _LegacyEntry) -> str:
    """Return the guid where it is certain: given, or a key that cannot begin with the URL of a feed."""
    value = entry.key_value
    has_no_feed = not value.startswith("http") or ":" not in value.partition(":")[2]
    is_guid = entry.key_prefix == _KeyPrefix.GUID and has_no_feed
    return shorten_key(entry.guid or (value if is_guid else ""))


def _register(connection: Connection, batch: list[_LegacyEntry], policy: str) -> int:
    """Insert the entries that are not known yet, with their keys, and return how many."""
    keys = {entry: _make_keys(entry, policy) for entry in batch}
    dedupe_keys = [shorten_key(entry.dedupe_key) for entry in batch]
    known = set(connection.execute(_SELECT_DEDUPE_KEYS, {"values": dedupe_keys}).scalars())
    values = [key.key_value for found in keys.values() for key in found]
    # The key may be a feed-scoped guid that is registered already: see `_make_keys`.
    values += [shorten_key(entry.key_value) for entry in batch]
    owned = {(str(key_type), value) for key_type, value in connection.execute(_SELECT_KEYS, {"values": values})}
    new: dict[str, _LegacyEntry] = {}
    for entry, found in keys.items():
        names = {(str(key.key_type), key.key_value) for key in found}
        scoped_guid = str(KeyType.GUID), shorten_key(entry.key_value)
        if shorten_key(entry.dedupe_key) not in known and not names & owned and scoped_guid not in owned:
            new.setdefault(entry.dedupe_key, entry)
            owned |= names
    if not new:
        return 0
    ids = connection.execute(_INSERT_ENTRIES, [_make_row(entry, policy) for entry in new.values()]).scalars()
    identities = [
        {"key_type": str(key.key_type), "key_value": key.key_value, "entry_id": entry_id, "policy": key.policy}
        for entry_id, entry in zip(ids, new.values(), strict=True)
        for key in keys[entry]
    ]
    if identities:
        connection.execute(insert(entry_identities), identities)
    return len(new)


def _make_row(entry: _LegacyEntry, policy: str) -> dict[str, object]:
    is_strong = entry.key_prefix in {_KeyPrefix.GUID, _KeyPrefix.URL}
    canonical_url = make_link_key(entry.url, policy=policy)
    return {
        "dedupe_key": shorten_key(entry.dedupe_key),
        "guid": _find_guid(entry),
        "url": entry.url,
        "canonical_url": canonical_url,
        "place": make_place(canonical_url),
        "title": entry.title,
        "published": entry.published,
        "content_hash": entry.content_hash,
        "match_confidence": (MatchConfidence.HIGH if is_strong else MatchConfidence.LOW).value,
        "first_seen_at": entry.first_seen_at,
        "last_seen_at": entry.last_seen_at,
    }
