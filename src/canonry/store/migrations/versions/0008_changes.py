"""The change feed: new and updated items, numbered in the order of their commits, and webhooks that deliver them.

Numbering begins with this version: items that are stored already get no number.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "changes",
        sa.Column("number", _ID, primary_key=True, autoincrement=False),
        sa.Column("entry_id", _ID, nullable=False),
        sa.Column("feed_id", _ID, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("changed_at", sa.Text, nullable=False),
        sa.Column("record", sa.Text, nullable=False),
    )
    op.create_table(
        "change_numbers",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("last", _ID, nullable=False, server_default=sa.text("0")),
        sa.Column("deleted", _ID, nullable=False, server_default=sa.text("0")),
        sa.Column("store_id", sa.Text, nullable=False),
    )
    op.create_table(
        "webhooks",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False, server_default="active"),
        sa.Column("position", _ID, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("failure", sa.Text, nullable=False, server_default=""),
        sa.Column("failure_kind", sa.Text, nullable=False, server_default=""),
        sa.Column("failing_since", sa.Text),
        sa.Column("retry_at", sa.Text),
        sa.Column("delivered_at", sa.Text),
        sa.Column("created_at", sa.Text, nullable=False),
    )
