"""Who named the URL of a feed or of a page of a crawl, so that public servers cannot name URLs in allowed networks.

A feed whose URL was never changed and that has no other URL was typed by a person. The origin of other feeds stays
unknown, which reaches public addresses only. Pages of a crawl get the address of its start page.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    for table in ("feeds", "crawl_pages"):
        op.add_column(table, sa.Column("origin", sa.Text, nullable=False, server_default=""))
    connection = op.get_bind()
    connection.execute(
        sa.text(
            "UPDATE feeds SET origin = 'person' WHERE url = key_url"
            " AND NOT EXISTS (SELECT 1 FROM feed_aliases WHERE feed_aliases.feed_id = feeds.id)"
        )
    )
    connection.execute(sa.text("UPDATE crawl_pages SET origin = 'person' WHERE depth = 0 AND referrer = ''"))
    connection.execute(
        sa.text(
            "UPDATE crawl_pages SET origin ="
            " (SELECT 'server:' || crawls.address FROM crawls WHERE crawls.id = crawl_pages.crawl_id)"
            " WHERE origin = '' AND crawl_id IN (SELECT id FROM crawls WHERE address <> '')"
        )
    )
