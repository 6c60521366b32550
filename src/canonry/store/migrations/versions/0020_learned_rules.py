"""Rules that were learned, for review: proposed, accepted or refused (contract L5)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "learned_rules",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("support", sa.Integer, nullable=False),
        sa.Column("against", sa.Integer, nullable=False),
        sa.Column("confidence", sa.Float, nullable=False),
        sa.Column("examples", sa.Text, nullable=False),
        sa.Column("counter_examples", sa.Text, nullable=False, server_default="[]"),
        sa.Column("overrides", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False, server_default="proposed"),
        sa.Column("rekey_id", _ID),
        sa.Column("policy", sa.Text, nullable=False, server_default=""),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("decided_at", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_index("learned_rules_by_name", "learned_rules", ["host", "name"], unique=True)
