"""The ttl and the folder of feeds, the link of sightings, and an index of the bookmarks in the trash only."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("feeds", sa.Column("ttl", sa.Integer))
    op.add_column("feeds", sa.Column("folder", sa.Text, nullable=False, server_default=""))
    op.add_column("sightings", sa.Column("url", sa.Text, nullable=False, server_default=""))
    op.drop_index("ix_bookmarks_deleted_at", "bookmarks")
    is_in_trash = sa.text("deleted_at IS NOT NULL")
    op.create_index(
        "bookmarks_in_trash", "bookmarks", ["deleted_at"], sqlite_where=is_in_trash, postgresql_where=is_in_trash
    )
