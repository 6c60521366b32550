"""The full-text index of bookmarks, edits of many bookmarks, icons of sites, and what people see of their tokens.

The functions that make words are copies of those of that version: a migration must not change with the code.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from alembic import op

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

revision = "0024"
down_revision = "0023"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_BATCH = 500
_STATEMENTS = {
    "sqlite": (
        "DROP TABLE IF EXISTS bookmark_words",
        (
            "CREATE VIRTUAL TABLE bookmark_words USING"
            " fts5(haystack, content='bookmarks', content_rowid='id', tokenize='ascii', prefix='2 3', columnsize=0)"
        ),
        (
            "CREATE TRIGGER bookmark_words_insert AFTER INSERT ON bookmarks BEGIN"
            " INSERT INTO bookmark_words (rowid, haystack) VALUES (new.id, new.haystack); END"
        ),
        (
            "CREATE TRIGGER bookmark_words_delete AFTER DELETE ON bookmarks BEGIN"
            " INSERT INTO bookmark_words (bookmark_words, rowid, haystack) VALUES ('delete', old.id, old.haystack); END"
        ),
        (
            "CREATE TRIGGER bookmark_words_update AFTER UPDATE OF haystack ON bookmarks"
            " WHEN old.haystack <> new.haystack BEGIN"
            " INSERT INTO bookmark_words (bookmark_words, rowid, haystack) VALUES ('delete', old.id, old.haystack);"
            " INSERT INTO bookmark_words (rowid, haystack) VALUES (new.id, new.haystack); END"
        ),
        "INSERT INTO bookmark_words (bookmark_words) VALUES ('rebuild')",
    ),
    "postgresql": (
        "CREATE INDEX bookmark_words ON bookmarks USING gin (array_to_tsvector(string_to_array(btrim(haystack), ' ')))",
    ),
}


def upgrade() -> None:
    for name in ("site", "sort_title"):
        op.add_column("bookmarks", sa.Column(name, sa.Text, nullable=False, server_default=""))
    op.create_index("bookmarks_by_change", "bookmarks", ["owner_id", "updated_at", "id"])
    op.create_index("bookmarks_by_title", "bookmarks", ["owner_id", "sort_title", "id"])
    op.create_index("bookmarks_by_site", "bookmarks", ["owner_id", "site", "id"])
    connection = op.get_bind()
    _write_words(connection)
    for statement in _STATEMENTS[connection.dialect.name]:
        connection.exec_driver_sql(statement)
    op.create_table(
        "bookmark_edits",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("owner_id", _ID, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("rows", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("undone_at", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_bookmark_edits_owner_id", "bookmark_edits", ["owner_id"])
    op.create_index("ix_bookmark_edits_created_at", "bookmark_edits", ["created_at"])
    op.create_table(
        "favicons",
        sa.Column("site", sa.Text, primary_key=True),
        sa.Column("media_type", sa.Text, nullable=False, server_default=""),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("fetched_at", sa.Text, nullable=False),
    )
    op.add_column("users", sa.Column("password", sa.Text, nullable=False, server_default=""))
    op.add_column("tokens", sa.Column("name", sa.Text, nullable=False, server_default=""))
    op.add_column("tokens", sa.Column("last_used_at", sa.Text))
    op.add_column("sessions", sa.Column("created_at", sa.Text, nullable=False, server_default=""))
    op.add_column("sessions", sa.Column("last_used_at", sa.Text))
    op.add_column("sessions", sa.Column("user_agent", sa.Text, nullable=False, server_default=""))


def _write_words(connection: sa.Connection) -> None:
    names = ("id", *_TEXTS, *_LISTS)
    table = sa.table("bookmarks", *map(sa.column, (*names, "haystack", "site", "sort_title")))
    change = sa.update(table).where(table.c.id == sa.bindparam("row_id"))
    last = -1
    while True:
        query = sa.select(*(table.c[name] for name in names)).where(table.c.id > last).order_by(table.c.id)
        rows = connection.execute(query.limit(_BATCH)).mappings().all()
        if not rows:
            return
        connection.execute(change, [{"row_id": row["id"], **_make_search_columns(dict(row))} for row in rows])
        last = rows[-1]["id"]


_MAX_WORD_CHARS = 100
_MAX_TEXT_CHARS = 200_000
_MAX_SORTED_CHARS = 100
_BETWEEN = "§"
_LISTS = ("tags", "archive_urls", "episode_urls")
_TEXTS = ("title", "description", "folder", "url", "original_url")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_SYMBOLS = "\u2600-\u27bf\U0001f000-\U0001faff"
_WORD = re.compile(f"[{_UNSPACED}{_SYMBOLS}]|[^\\W_{_UNSPACED}]+")
_STROKES = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"})


def _fold_text(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).casefold()
    letters = (char for char in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(char))
    return "".join(letters).translate(_STROKES)


def _split_words(text: str) -> list[str]:
    return [word[:_MAX_WORD_CHARS] for word in _WORD.findall(_fold_text(text))]


def _make_label(kind: str, text: str) -> str:
    plain = "".join(char if char.isalnum() else f"·{ord(char):x}·" for char in _fold_text(" ".join(text.split())))
    return f"{kind}{plain}"[:_MAX_WORD_CHARS]


def _find_site(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    while host.startswith("www.") and "." in host[4:]:
        host = host[4:]
    return host


def _make_search_columns(row: Mapping[str, Any]) -> dict[str, str]:
    words: list[str] = []
    for text in _list_texts(row):
        words += [*_split_words(text), _BETWEEN]
    labels = " ".join(dict.fromkeys(_list_labels(row)))
    joined = " ".join(words)
    if len(joined) > _MAX_TEXT_CHARS:
        joined = joined[:_MAX_TEXT_CHARS].rpartition(" ")[0]
    title = row["title"] or row["url"].partition("://")[2]
    return {
        "haystack": f" {labels} {joined} " if labels else f" {joined} ",
        "site": _find_site(row["url"])[:_MAX_WORD_CHARS],
        "sort_title": " ".join(_split_words(title[: 2 * _MAX_SORTED_CHARS]))[:_MAX_SORTED_CHARS],
    }


def _list_texts(row: Mapping[str, Any]) -> Iterator[str]:
    for name in _TEXTS:
        if row[name]:
            yield row[name]
    for name in _LISTS:
        yield from json.loads(row[name])


def _list_labels(row: Mapping[str, Any]) -> Iterator[str]:
    yield from (_make_label("¶", tag) for tag in json.loads(row["tags"]))
    path: list[str] = []
    for part in row["folder"].split("/"):
        if part.strip():
            path.append(part.strip())
            yield _make_label("‡", "/".join(path))
    labels = _find_site(row["url"]).split(".")
    yield from (_make_label("¤", ".".join(labels[start:])) for start in range(len(labels)) if labels[start])
