"""Users, bookmarks, and usage counts of the service."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("is_admin", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created_at", sa.Text, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("owner_id", _ID, nullable=False, index=True),
        sa.Column("created_at", sa.Text, nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("owner_id", _ID, nullable=False, index=True),
        sa.Column("expires_at", sa.Text, nullable=False, index=True),
    )
    op.create_table(
        "bookmarks",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("owner_id", _ID, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("same_key", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("original_url", sa.Text),
        sa.Column("exact_url", sa.Integer, nullable=False, server_default="0"),
        sa.Column("title", sa.Text, nullable=False, server_default=""),
        sa.Column("description", sa.Text, nullable=False, server_default=""),
        sa.Column("tags", sa.Text, nullable=False, server_default="[]"),
        sa.Column("folder", sa.Text, nullable=False, server_default=""),
        sa.Column("to_read", sa.Integer, nullable=False, server_default="0"),
        sa.Column("private", sa.Integer, nullable=False, server_default="0"),
        sa.Column("archive_urls", sa.Text, nullable=False, server_default="[]"),
        sa.Column("episode_urls", sa.Text, nullable=False, server_default="[]"),
        sa.Column("expansion", sa.Text, nullable=False, server_default="none"),
        sa.Column("expansion_reason", sa.Text, nullable=False, server_default=""),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("haystack", sa.Text, nullable=False, server_default=""),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("updated_at", sa.Text, nullable=False),
        sa.Column("deleted_at", sa.Text, index=True),
    )
    op.create_index(
        "bookmarks_by_key",
        "bookmarks",
        ["owner_id", "key"],
        unique=True,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index("bookmarks_by_same_key", "bookmarks", ["owner_id", "same_key"])
    op.create_index("bookmarks_by_age", "bookmarks", ["owner_id", "created_at", "id"])
    op.create_index("bookmarks_by_policy", "bookmarks", ["policy", "id"])
    op.create_index(
        "bookmarks_pending",
        "bookmarks",
        ["id"],
        sqlite_where=sa.text("expansion = 'pending'"),
        postgresql_where=sa.text("expansion = 'pending'"),
    )
    op.create_table(
        "bookmark_merges",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("owner_id", _ID, nullable=False),
        sa.Column("same_key", sa.Text, nullable=False),
        sa.Column("kept_id", _ID, nullable=False),
        sa.Column("rows", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("undone_at", sa.Text),
    )
    op.create_index("bookmark_merges_by_owner", "bookmark_merges", ["owner_id", "same_key"])
    op.create_table(
        "renormalizations",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("to_policy", sa.Text, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("done", sa.Integer, nullable=False, server_default="0"),
        sa.Column("changed", sa.Integer, nullable=False, server_default="0"),
        sa.Column("merged", sa.Integer, nullable=False, server_default="0"),
        sa.Column("refused", sa.Integer, nullable=False, server_default="0"),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("finished_at", sa.Text),
    )
    op.create_table(
        "statistics",
        sa.Column("hour", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("hour", "name"),
    )
    op.create_table(
        "imports",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("owner_id", _ID, nullable=False, index=True),
        sa.Column("format", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("exact_url", sa.Integer, nullable=False, server_default="0"),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("done", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created", sa.Integer, nullable=False, server_default="0"),
        sa.Column("refused", sa.Text, nullable=False, server_default="[]"),
        sa.Column("failure", sa.Text, nullable=False, server_default=""),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("finished_at", sa.Text),
    )
