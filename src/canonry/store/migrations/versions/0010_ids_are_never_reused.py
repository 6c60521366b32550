"""Ids are never given twice on SQLite (AUTOINCREMENT), and the texts of the overrides that keys were made under.

A deleted row with the largest id passed its id on to the next row. Merges, the journal of a rekey, queued jobs and
clients still remembered the id, so an undo met a foreign row.
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_PRIMARY_KEY = re.compile(r"PRIMARY KEY \(id\)")
_FIXED_IDS = {"change_numbers"}  # one row, whose id is not generated
# The ids of deleted rows that other tables remember.
_REMEMBERED_IDS = {
    "bookmarks": (
        "SELECT max(json_extract(each.value, '$.id')) FROM bookmark_merges, json_each(bookmark_merges.rows) AS each",
        "SELECT max(kept_id) FROM bookmark_merges",
    ),
    "entries": ("SELECT max(entry_id) FROM rekeyed_rows",),
    "feeds": ("SELECT max(json_extract(row, '$.feed_id')) FROM rekeyed_rows WHERE entry_id = 0",),
    "rekeys": ("SELECT max(rekey_id) FROM rekeyed_rows",),
    "users": tuple(
        f"SELECT max(owner_id) FROM {table}"  # noqa: S608
        for table in ("tokens", "sessions", "bookmarks", "bookmark_merges", "imports")
    ),
}


def upgrade() -> None:
    op.create_table(
        "overrides_texts",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
    )
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        _add_autoincrement(connection)


def _add_autoincrement(connection: sa.Connection) -> None:
    """Add AUTOINCREMENT to every table with a generated id.

    The rows on disk do not change, so the text of the table is edited, as https://www.sqlite.org/lang_altertable.html
    (section 7) describes. Copying the tables would fire ON DELETE CASCADE when the old ones are dropped.
    """
    # SQLite creates its table sqlite_sequence with the first AUTOINCREMENT column.
    connection.exec_driver_sql("CREATE TABLE first_autoincrement (id INTEGER PRIMARY KEY AUTOINCREMENT)")
    connection.exec_driver_sql("DROP TABLE first_autoincrement")
    tables = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'table'").all()
    version = connection.exec_driver_sql("PRAGMA schema_version").scalar_one()
    connection.exec_driver_sql("PRAGMA writable_schema = ON")
    changed = [name for name, sql in tables if _PRIMARY_KEY.search(sql or "") and name not in _FIXED_IDS]
    for name, sql in tables:
        if name in changed:
            connection.exec_driver_sql(
                "UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?",
                (_PRIMARY_KEY.sub("PRIMARY KEY (id AUTOINCREMENT)", sql), name),
            )
    connection.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    connection.exec_driver_sql("PRAGMA writable_schema = RESET")  # and read the tables again
    for name in changed:
        queries = (f'SELECT max(id) FROM "{name}"', *_REMEMBERED_IDS.get(name, ()))  # noqa: S608
        last = max(connection.exec_driver_sql(query).scalar() or 0 for query in queries)
        connection.exec_driver_sql("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, last))
