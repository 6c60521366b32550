"""Where the links of items lead: the URL that is proven to show the page of an item."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "item_links",
        sa.Column(
            "entry_id",
            _ID,
            sa.ForeignKey("entries.id", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("retry_at", sa.Text),
        sa.Column("page_url", sa.Text, nullable=False, server_default=""),
        sa.Column("page_place", sa.Text, nullable=False, server_default=""),
        sa.Column("evidence", sa.Text, nullable=False, server_default=""),
        sa.Column("read_at", sa.Text, nullable=False),
        sa.Index("item_links_by_place", "page_place"),
    )
