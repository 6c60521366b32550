"""What a crawl needs to wait for its site: since when the site does not answer, and which retries wait for the end."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("crawls", sa.Column("down_since", sa.Text))
    op.add_column("crawls", sa.Column("paused_until", sa.Text))
    op.add_column("crawl_pages", sa.Column("is_last_retry", sa.Integer, nullable=False, server_default="0"))
