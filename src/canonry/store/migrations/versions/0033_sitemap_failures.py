"""A crawl keeps which of its sitemaps could not be read, and why."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    op.add_column("crawls", sa.Column("sitemap_failures", sa.Text, nullable=False, server_default="[]"))
