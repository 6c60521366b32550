"""What crawls learn about the URLs of their site: the texts of pages, session identifiers and traps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0016"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    for name, kind, default in (
        ("text_hash", sa.Text, ""),
        ("simhash", sa.Text, ""),
        ("words", sa.Integer, "0"),
        ("group_key", sa.Text, ""),
        ("skipped_by", sa.Text, ""),
    ):
        op.add_column("crawl_pages", sa.Column(name, kind, nullable=False, server_default=default))
    has_group = sa.text("group_key <> ''")
    op.create_index(
        "crawl_pages_by_group",
        "crawl_pages",
        ["crawl_id", "group_key"],
        sqlite_where=has_group,
        postgresql_where=has_group,
    )
    op.create_table(
        "crawl_rules",
        sa.Column("crawl_id", _ID, sa.ForeignKey("crawls.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("pattern", sa.Text, nullable=False),
        sa.Column("is_active", sa.Integer, nullable=False, server_default="0"),
        sa.Column("state", sa.Text, nullable=False),
    )
    op.create_table(
        "crawl_texts",
        sa.Column("crawl_id", _ID, sa.ForeignKey("crawls.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("digest", sa.Text, primary_key=True),
    )
