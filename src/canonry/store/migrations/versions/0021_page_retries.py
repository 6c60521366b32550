"""Pages of bookmarks are requested again after a transient failure, and facts keep the validators of the response."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.add_column("bookmarks", sa.Column("page_attempts", sa.Integer, nullable=False, server_default="0"))
    op.add_column("bookmarks", sa.Column("page_retry_at", sa.Text))
    op.add_column("page_facts", sa.Column("etag", sa.Text, nullable=False, server_default=""))
    op.add_column("page_facts", sa.Column("last_modified", sa.Text, nullable=False, server_default=""))
