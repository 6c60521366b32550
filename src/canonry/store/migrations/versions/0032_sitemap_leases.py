"""The sitemaps of a crawl are leased like its pages; those of crawls that are not done are read again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    op.add_column("crawls", sa.Column("sitemaps_lease", sa.Text, nullable=False, server_default=""))
    op.add_column("crawls", sa.Column("sitemaps_until", sa.Text))
    op.execute("UPDATE crawls SET sitemaps_until = '' WHERE state = 'running' AND options LIKE '%\"sitemaps\": true%'")
