"""What is known about pages, which URLs are proven to show the same page, and what people say is not the same.

Pages of crawls note which page they repeat. Bookmarks note whether their page must still be read; those that exist
already are not read.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("bookmarks", sa.Column("page_state", sa.Text, nullable=False, server_default="none"))
    op.create_index(
        "bookmarks_with_unread_page",
        "bookmarks",
        ["id"],
        sqlite_where=sa.text("page_state = 'pending'"),
        postgresql_where=sa.text("page_state = 'pending'"),
    )
    op.create_table(
        "page_facts",
        sa.Column("url_key", sa.Text, primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("form_key", sa.Text, nullable=False),
        sa.Column("permanent_url", sa.Text, nullable=False, server_default=""),
        sa.Column("canonical_url", sa.Text, nullable=False, server_default=""),
        sa.Column("canonical_key", sa.Text, nullable=False, server_default=""),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("title", sa.Text, nullable=False, server_default=""),
        sa.Column("text_hash", sa.Text, nullable=False),
        sa.Column("simhash", sa.Text, nullable=False),
        sa.Column("words", sa.Integer, nullable=False),
        sa.Column("body_hash", sa.Text, nullable=False),
        sa.Column("fetched_at", sa.Text, nullable=False),
    )
    op.create_index("page_facts_by_form", "page_facts", ["form_key"])
    op.create_index("page_facts_by_canonical", "page_facts", ["canonical_key"])
    op.create_index("page_facts_by_text", "page_facts", ["text_hash"])
    op.create_table(
        "page_aliases",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("url_key", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("target_key", sa.Text, nullable=False),
        sa.Column("target_url", sa.Text, nullable=False),
        sa.Column("evidence", sa.Text, nullable=False),
        sa.Column("found_at", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("page_aliases_by_url", "page_aliases", ["url_key", "target_key"], unique=True)
    op.create_index("page_aliases_by_target", "page_aliases", ["target_key"])
    op.add_column("crawl_pages", sa.Column("repeats_url", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "crawl_folds",
        sa.Column("crawl_id", _ID, sa.ForeignKey("crawls.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
    )
    op.create_table(
        "refused_aliases",
        sa.Column("owner_id", _ID, nullable=False),
        sa.Column("first_key", sa.Text, nullable=False),
        sa.Column("second_key", sa.Text, nullable=False),
        sa.Column("first_url", sa.Text, nullable=False),
        sa.Column("second_url", sa.Text, nullable=False),
        sa.Column("refused_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner_id", "first_key", "second_key"),
    )
