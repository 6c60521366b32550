"""Feeds that were removed can be restored."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "removed_feeds",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("rows", sa.Text, nullable=False),
        sa.Column("removed_at", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_removed_feeds_removed_at", "removed_feeds", ["removed_at"])
