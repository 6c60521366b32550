"""Places that ignore trailing slashes and needless escapes, tombstones of deleted items, feeds that always change."""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_BATCH_ROWS = 1000
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_ADDRESS = re.compile(r"https?:(//)((?:[^/?#]*@)?)([^/?#]*)(.*)", re.DOTALL)


def upgrade() -> None:
    op.add_column("feeds", sa.Column("changed_documents", sa.Integer, nullable=False, server_default="0"))
    op.add_column("feeds", sa.Column("note", sa.Text, nullable=False, server_default=""))
    op.add_column("sightings", sa.Column("stable_hash", sa.Text, nullable=False, server_default=""))
    op.add_column("entries", sa.Column("place", sa.Text, nullable=False, server_default=""))
    identifier = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "tombstones",
        sa.Column("feed_id", identifier, sa.ForeignKey("feeds.id", ondelete="CASCADE"), nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("content_hash", sa.Text, nullable=False),
        sa.Column("deleted_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("feed_id", "digest"),
    )
    connection = op.get_bind()
    _fill_entries(connection)
    _loosen_sightings(connection)
    op.drop_index("ix_entries_canonical_url", "entries")
    op.create_index("ix_entries_place", "entries", ["place"])


def _fill_entries(connection: sa.Connection) -> None:
    last_id = 0
    select = sa.text(
        "SELECT id, canonical_url FROM entries WHERE id > :last AND canonical_url <> '' ORDER BY id LIMIT :size"
    )
    while rows := connection.execute(select, {"last": last_id, "size": _BATCH_ROWS}).all():
        places = [{"entry": row.id, "place": _loosen(_strip_scheme_and_www(row.canonical_url))} for row in rows]
        connection.execute(sa.text("UPDATE entries SET place = :place WHERE id = :entry"), places)
        last_id = rows[-1].id


def _loosen_sightings(connection: sa.Connection) -> None:
    select = sa.text(
        "SELECT feed_id, entry_id, place FROM sightings WHERE (feed_id, entry_id) > (:feed, :entry)"
        r" AND (place LIKE '%/' OR place LIKE '%/?%' OR place LIKE '%?' OR place LIKE '%\%%' ESCAPE '\')"
        " ORDER BY feed_id, entry_id LIMIT :size"
    )
    last: dict[str, Any] = {"feed": 0, "entry": 0}
    update = sa.text("UPDATE sightings SET place = :place WHERE feed_id = :feed AND entry_id = :entry")
    while rows := connection.execute(select, {**last, "size": _BATCH_ROWS}).all():
        last = {"feed": rows[-1].feed_id, "entry": rows[-1].entry_id}
        places = [{"feed": row.feed_id, "entry": row.entry_id, "place": _loosen(row.place)} for row in rows]
        connection.execute(update, places)


def _strip_scheme_and_www(url: str) -> str:
    match = _ADDRESS.fullmatch(url)
    if match is None:  # the digest of a long URL
        return url
    slashes, credentials, host, rest = match.groups()
    bare = re.sub(r"\A(?:www\.)+", "", host)
    if bare != host and "." not in bare.partition(":")[0]:
        bare = f"www.{bare}"
    return f"{slashes}{credentials}{bare}{rest}"


def _loosen(place: str) -> str:
    place = _ESCAPE.sub(_normalize_escape, place)
    path, _, query = place.partition("?")
    path = path.rstrip("/")
    return f"{path}?{query}" if query else path


def _normalize_escape(match: re.Match[str]) -> str:
    character = chr(int(match[0][1:], 16))
    return character if character in _UNRESERVED else match[0].upper()
