"""A cache, and policy changes that can be undone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "cache",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.Column("expires_at", sa.Text, nullable=False, index=True),
    )
    op.create_table(
        "rekeys",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("from_policy", sa.Text, nullable=False),
        sa.Column("to_policy", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("position", _ID, nullable=False, server_default=sa.text("0")),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("finished_at", sa.Text),
    )
    op.create_table(
        "rekeyed_rows",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("rekey_id", _ID, sa.ForeignKey("rekeys.id", ondelete="CASCADE"), nullable=False, index=True),
        sa.Column("entry_id", _ID, nullable=False),
        sa.Column("row", sa.Text, nullable=False),
    )
