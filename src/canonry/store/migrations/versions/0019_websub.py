"""WebSub subscriptions, and what a feed says about its hubs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0014"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("feeds", sa.Column("topic", sa.Text, nullable=False, server_default=""))
    op.add_column("feeds", sa.Column("hubs_origin", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "websub_subscriptions",
        sa.Column("feed_id", _ID, sa.ForeignKey("feeds.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
        sa.Column("hub", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("callback", sa.Text, nullable=False, unique=True),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("is_requested", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("failure", sa.Text, nullable=False, server_default=""),
        sa.Column("next_at", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Text),
        sa.Column("pushed_at", sa.Text),
        sa.Column("missed_at", sa.Text),
        sa.Column("named_hubs", sa.Text, nullable=False),
        sa.Column("named_topic", sa.Text, nullable=False),
    )
