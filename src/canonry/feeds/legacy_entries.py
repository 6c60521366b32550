"""Entries of another program's store, so that what it has seen is not new here (contract I3)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import Connection, bindparam, insert, select

from canonry.core.keys import Key, KeyType, make_url_key, replace_unstorable, shorten_key
from canonry.errors import StoreError
from canonry.store.pinned_policies import ENTRY, pinned
from canonry.store.schema import entries, entry_identities, stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canonry.store.database import Database

_BATCH = 500
# Ours, and what it may be called there.
_COLUMNS = {
    "dedupe_key": ("dedupe_key",),
    "guid": ("guid",),
    "link": ("url", "link"),
    "title": ("title",),
    "published": ("published",),
    "content_hash": ("content_hash",),
    "first_seen_at": ("first_seen_at",),
    "last_seen_at": ("last_seen_at",),
}
_INSERT = insert(entries).returning(entries.c.id, sort_by_parameter_order=True)
_KNOWN_KEYS = select(entries.c.dedupe_key).where(entries.c.dedupe_key.in_(bindparam("values", expanding=True)))
_OWNED = select(entry_identities.c.key_type, entry_identities.c.key_value).where(
    entry_identities.c.key_value.in_(bindparam("values", expanding=True))
)


@dataclass(frozen=True, slots=True)
class _Row:
    """An entry as the other store has it; empty where it says nothing."""

    dedupe_key: str
    guid: str
    link: str
    title: str
    published: str
    content_hash: str
    first_seen_at: str
    last_seen_at: str


def import_legacy(database: Database, file: str | Path, *, now: datetime | None = None) -> int:
    """Register the rows of a foreign SQLite table `entries`, all or nothing; how many were not known yet.

    Their feeds are not known: the first feed that shows one of them takes it over, as a duplicate.
    """
    return database.write_now(partial(_import, file=Path(file), now=now or datetime.now(UTC)))


def _import(connection: Connection, file: Path, now: datetime) -> int:
    policy = pinned(connection, ENTRY)
    count = 0
    for batch in _read(file, stamp(now)):
        count += _register(connection, batch, policy)
    return count


def _read(file: Path, now: str) -> Iterator[list[_Row]]:
    if not file.is_file():
        raise StoreError(f"{file}: no such file")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True)) as store:
            store.text_factory = _decoded
            there = {str(column[1]).lower() for column in store.execute("PRAGMA table_info(entries)")}
            if "dedupe_key" not in there:
                raise StoreError(f"{file}: has no table `entries` with a column `dedupe_key`")
            rows = store.execute(f"SELECT {', '.join(_select(there))} FROM entries ORDER BY rowid")  # noqa: S608
            while found := rows.fetchmany(_BATCH):
                yield [_row(values, now) for values in found if _text(values[0])]
    except sqlite3.Error as error:
        raise StoreError(f"{file}: {error}") from error


def _select(there: set[str]) -> Iterator[str]:
    for names in _COLUMNS.values():
        yield next((f'"{name}"' for name in names if name in there), "NULL")


def _row(values: tuple[Any, ...], now: str) -> _Row:
    row = dict(zip(_COLUMNS, values, strict=True))
    first_seen = _time(row["first_seen_at"]) or _time(row["last_seen_at"]) or now
    return _Row(
        dedupe_key=_text(row["dedupe_key"]),
        guid=_text(row["guid"]),
        link=_text(row["link"]),
        title=" ".join(_text(row["title"]).split()),
        published=_text(row["published"]),
        content_hash=_text(row["content_hash"]),
        first_seen_at=first_seen,
        last_seen_at=max(first_seen, _time(row["last_seen_at"])),
    )


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _text(value: object) -> str:
    if value is None:
        return ""
    return replace_unstorable(_decoded(value) if isinstance(value, bytes) else str(value)).strip()


def _time(value: object) -> str:
    """A time in whatever form it was kept; without a zone it is UTC. Empty where it is none."""
    try:
        if isinstance(value, int | float):
            return stamp(datetime.fromtimestamp(value, UTC))
        when = datetime.fromisoformat(_text(value))
        return stamp(when if when.tzinfo else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def _keys(row: _Row, policy: str) -> list[Key]:
    """What the entry is known by.

    `guid:https://a.com/feed:1` may be guid `1` of a feed or a guid with a colon. Only the column `guid` tells; without
    it the whole is kept: as what it may be here, and as the `dedupe_key` it is looked up by.
    """
    kind, _, rest = row.dedupe_key.partition(":")
    if kind == "guid" and row.guid and rest.endswith(f":{row.guid}"):
        return [Key(KeyType.GUID, shorten_key(rest))]
    if kind == "guid" and rest:
        return [Key(KeyType.LEGACY_GUID, shorten_key(row.dedupe_key))]
    if kind == "url" and (url := make_url_key(rest, policy=policy)):
        return [Key(KeyType.CANONICAL_URL, url, policy)]
    return [Key(KeyType.FALLBACK_HASH, shorten_key(rest))] if kind == "hash" and rest else []


def _guid(row: _Row) -> str:
    """Its guid where that is certain: no URL of a feed can be in front of it."""
    kind, _, rest = row.dedupe_key.partition(":")
    is_whole = kind == "guid" and (not rest.startswith("http") or ":" not in rest.partition(":")[2])
    return shorten_key(row.guid or (rest if is_whole else ""))


def _register(connection: Connection, batch: list[_Row], policy: str) -> int:
    """Insert those rows that are not known yet, with their keys."""
    keys = {row: _keys(row, policy) for row in batch}
    known = set(connection.execute(_KNOWN_KEYS, {"values": [shorten_key(row.dedupe_key) for row in batch]}).scalars())
    values = [key.key_value for found in keys.values() for key in found]
    # A scoped guid may be registered already without our having been able to tell it is one.
    values += [shorten_key(row.dedupe_key.partition(":")[2]) for row in batch]
    owned = {(str(kind), value) for kind, value in connection.execute(_OWNED, {"values": values})}
    new: dict[str, _Row] = {}
    for row, found in keys.items():
        names = {(str(key.key_type), key.key_value) for key in found}
        scoped = str(KeyType.GUID), shorten_key(row.dedupe_key.partition(":")[2])
        if shorten_key(row.dedupe_key) not in known and not names & owned and scoped not in owned:
            new.setdefault(row.dedupe_key, row)
            owned |= names
    if not new:
        return 0
    ids = connection.execute(_INSERT, [_entry(row, policy) for row in new.values()]).scalars()
    identities = [
        {"key_type": str(key.key_type), "key_value": key.key_value, "entry_id": entry_id, "policy": key.policy}
        for entry_id, row in zip(ids, new.values(), strict=True)
        for key in keys[row]
    ]
    if identities:
        connection.execute(insert(entry_identities), identities)
    return len(new)


def _entry(row: _Row, policy: str) -> dict[str, object]:
    kind, _, rest = row.dedupe_key.partition(":")
    return {
        "dedupe_key": shorten_key(row.dedupe_key),
        "guid": _guid(row),
        "url": row.link or (rest if kind == "url" else ""),
        "canonical_url": make_url_key(row.link or (rest if kind == "url" else ""), policy=policy),
        "title": row.title,
        "published": row.published,
        "content_hash": row.content_hash,
        "match_confidence": "high" if kind in {"guid", "url"} else "low",
        "first_seen_at": row.first_seen_at,
        "last_seen_at": row.last_seen_at,
    }
