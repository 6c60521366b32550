"""What a crawl needs to be compared with an earlier one: facts about its pages, and the verdict on each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("crawl_pages", sa.Column("facts", sa.Text, nullable=False, server_default="{}"))
    op.add_column("crawl_pages", sa.Column("change", sa.Text, nullable=False, server_default=""))
    op.add_column("crawls", sa.Column("previous_id", sa.BigInteger().with_variant(sa.Integer, "sqlite")))
    op.add_column("crawls", sa.Column("is_previous_queued", sa.Integer, nullable=False, server_default="0"))
