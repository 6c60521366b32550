"""What a crawl needs to lose no page: since when its site does not answer, and which retries wait for the end.

Pages keep the other spellings of their URL, and who named their links, so that links can be followed later. The links
of stored pages get the address of the start page.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("crawls", sa.Column("down_since", sa.Text))
    op.add_column("crawls", sa.Column("paused_until", sa.Text))
    op.add_column("crawl_pages", sa.Column("is_last_retry", sa.Integer, nullable=False, server_default="0"))
    op.add_column("crawl_pages", sa.Column("spellings", sa.Text, nullable=False, server_default="[]"))
    op.add_column("crawl_pages", sa.Column("link_origin", sa.Text, nullable=False, server_default=""))
    op.get_bind().execute(
        sa.text(
            "UPDATE crawl_pages SET link_origin ="
            " (SELECT 'server:' || crawls.address FROM crawls WHERE crawls.id = crawl_pages.crawl_id)"
            " WHERE state = 'done' AND crawl_id IN (SELECT id FROM crawls WHERE address <> '')"
        )
    )
