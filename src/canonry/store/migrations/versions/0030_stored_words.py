"""The words of bookmarks are a stored column on PostgreSQL: a scan made the words of every row again."""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0029"

_STATEMENTS = {
    "sqlite": (),
    "postgresql": (
        "DROP INDEX bookmark_words",
        (
            "ALTER TABLE bookmarks ADD COLUMN words tsvector"
            " GENERATED ALWAYS AS (array_to_tsvector(string_to_array(btrim(haystack), ' '))) STORED"
        ),
        "CREATE INDEX bookmark_words ON bookmarks USING gin (words)",
    ),
}


def upgrade() -> None:
    connection = op.get_bind()
    for statement in _STATEMENTS[connection.dialect.name]:
        connection.exec_driver_sql(statement)
