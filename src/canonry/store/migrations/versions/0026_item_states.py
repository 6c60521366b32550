"""What users did with items: read, unread, saved (contract U2)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "item_states",
        sa.Column("owner_id", _ID, nullable=False),
        sa.Column("entry_id", _ID, sa.ForeignKey("entries.id", ondelete="CASCADE"), nullable=False),
        sa.Column("is_read", sa.Integer, nullable=False),
        sa.Column("is_saved", sa.Integer, nullable=False, server_default="0"),
        sa.Column("bookmark_id", _ID),
        sa.PrimaryKeyConstraint("owner_id", "entry_id"),
    )
    op.create_index("ix_item_states_entry_id", "item_states", ["entry_id"])
    op.create_index(
        "item_states_saved",
        "item_states",
        ["owner_id", "entry_id"],
        sqlite_where=sa.text("is_saved = 1"),
        postgresql_where=sa.text("is_saved = 1"),
    )
    op.create_table(
        "read_marks",
        sa.Column("owner_id", _ID, primary_key=True, autoincrement=False),
        sa.Column("read_through", _ID, nullable=False, server_default=sa.text("0")),
        sa.Column("unread_before", sa.Text, nullable=False, server_default="[]"),
    )
