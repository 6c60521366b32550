"""The settings of each feed, the title its reader gave it, and the web page of its site."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("feeds", sa.Column("own_title", sa.Text, nullable=False, server_default=""))
    op.add_column("feeds", sa.Column("site_url", sa.Text, nullable=False, server_default=""))
    op.add_column("feeds", sa.Column("interval_seconds", sa.Integer))
    op.add_column("feeds", sa.Column("timeout_seconds", sa.Integer))
    op.add_column("feeds", sa.Column("max_bytes", sa.Integer))
    op.add_column("feeds", sa.Column("user_agent", sa.Text, nullable=False, server_default=""))
    op.add_column("feeds", sa.Column("headers", sa.Text, nullable=False, server_default="{}"))
