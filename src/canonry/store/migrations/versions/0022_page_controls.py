"""Facts of pages say what a made-up URL beside the page showed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.add_column("page_facts", sa.Column("control", sa.Text, nullable=False, server_default="none"))
