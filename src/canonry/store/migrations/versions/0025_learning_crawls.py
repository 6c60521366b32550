"""Crawls that learn: the key that a page has under the learned rules."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.add_column("crawl_pages", sa.Column("learned_key", sa.Text, nullable=False, server_default=""))
    has_key = sa.text("learned_key <> ''")
    op.create_index(
        "crawl_pages_by_learned_key",
        "crawl_pages",
        ["crawl_id", "learned_key"],
        sqlite_where=has_key,
        postgresql_where=has_key,
    )
