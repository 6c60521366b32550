"""Crawls and their pages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "crawls",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("seed", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("options", sa.Text, nullable=False, server_default="{}"),
        sa.Column("state", sa.Text, nullable=False, server_default="running"),
        sa.Column("failure", sa.Text, nullable=False, server_default=""),
        sa.Column("address", sa.Text, nullable=False, server_default=""),
        sa.Column("taken", sa.Integer, nullable=False, server_default="0"),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("finished_at", sa.Text),
    )
    op.create_index("crawls_by_seed", "crawls", ["seed", "id"])
    op.create_table(
        "crawl_pages",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("crawl_id", _ID, sa.ForeignKey("crawls.id", ondelete="CASCADE"), nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("requested_url", sa.Text, nullable=False),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("referrer", sa.Text, nullable=False, server_default=""),
        sa.Column("state", sa.Text, nullable=False, server_default="queued"),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("begun_at", sa.Text),
        sa.Column("retry_at", sa.Text),
        sa.Column("lease", sa.Text, nullable=False, server_default=""),
        sa.Column("lease_until", sa.Text),
        sa.Column("status", sa.Integer, nullable=False, server_default="0"),
        sa.Column("final_url", sa.Text, nullable=False, server_default=""),
        sa.Column("title", sa.Text, nullable=False, server_default=""),
        sa.Column("engine", sa.Text, nullable=False, server_default=""),
        sa.Column("error", sa.Text, nullable=False, server_default=""),
        sa.Column("links", sa.Text, nullable=False, server_default="[]"),
        sa.Column("followed", sa.Integer, nullable=False, server_default="0"),
        sa.Column("finished_at", sa.Text),
    )
    op.create_index("crawl_pages_by_key", "crawl_pages", ["crawl_id", "key"], unique=True)
    op.create_index("crawl_pages_by_state", "crawl_pages", ["crawl_id", "state", "depth", "id"])
    op.create_index("crawl_pages_in_order", "crawl_pages", ["crawl_id", "id"])
