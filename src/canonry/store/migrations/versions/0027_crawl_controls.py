"""What control fetches of crawls showed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "crawl_controls",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("crawl_id", _ID, sa.ForeignKey("crawls.id", ondelete="CASCADE"), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("page_url", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("text_hash", sa.Text, nullable=False),
        sa.Column("simhash", sa.Text, nullable=False),
        sa.Column("words", sa.Integer, nullable=False),
        sa.Column("fetched_at", sa.Text, nullable=False),
        sa.Index("crawl_controls_by_crawl", "crawl_id"),
        sqlite_autoincrement=True,
    )
