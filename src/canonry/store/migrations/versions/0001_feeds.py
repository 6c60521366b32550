"""Feeds, their entries, and the keys that identify each entry."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "feeds",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("key_url", sa.Text, nullable=False, unique=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False, server_default=""),
        sa.Column("format", sa.Text, nullable=False, server_default=""),
        sa.Column("status", sa.Text, nullable=False, server_default="active"),
        sa.Column("etag", sa.Text, nullable=False, server_default=""),
        sa.Column("last_modified", sa.Text, nullable=False, server_default=""),
        sa.Column("hubs", sa.Text, nullable=False, server_default=""),
        sa.Column("document", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("last_checked_at", sa.Text),
        sa.Column("last_parsed_at", sa.Text),
        sa.Column("next_check_at", sa.Text),
        sa.Column("retry_at", sa.Text),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("failure", sa.Text, nullable=False, server_default=""),
        sa.Column("moved_to", sa.Text, nullable=False, server_default=""),
        sa.Column("moved_sightings", sa.Integer, nullable=False, server_default="0"),
        sa.Index("feeds_by_url", "url"),
        sa.Index("feeds_by_next_check", "status", "next_check_at"),
    )
    op.create_table(
        "feed_aliases",
        sa.Column("url", sa.Text, primary_key=True),
        sa.Column("feed_id", _ID, sa.ForeignKey("feeds.id", ondelete="CASCADE"), nullable=False, index=True),
    )
    op.create_table(
        "entries",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("dedupe_key", sa.Text, nullable=False, index=True),
        sa.Column("guid", sa.Text, nullable=False, server_default=""),
        sa.Column("url", sa.Text, nullable=False, server_default=""),
        sa.Column("canonical_url", sa.Text, nullable=False, server_default="", index=True),
        sa.Column("title", sa.Text, nullable=False, server_default=""),
        sa.Column("published", sa.Text, nullable=False, server_default=""),
        sa.Column("content_hash", sa.Text, nullable=False, server_default=""),
        sa.Column("match_confidence", sa.Text, nullable=False),
        sa.Column("first_seen_at", sa.Text, nullable=False, index=True),
        sa.Column("last_seen_at", sa.Text, nullable=False),
    )
    op.create_table(
        "entry_identities",
        sa.Column("key_type", sa.Text, nullable=False),
        sa.Column("key_value", sa.Text, nullable=False),
        sa.Column("entry_id", _ID, sa.ForeignKey("entries.id", ondelete="CASCADE"), nullable=False, index=True),
        sa.Column("policy", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("key_type", "key_value"),
    )
    op.create_table(
        "sightings",
        sa.Column("feed_id", _ID, sa.ForeignKey("feeds.id", ondelete="CASCADE"), nullable=False),
        sa.Column("entry_id", _ID, sa.ForeignKey("entries.id", ondelete="CASCADE"), nullable=False, index=True),
        sa.Column("guid", sa.Text, nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("published", sa.Text, nullable=False),
        sa.Column("content_hash", sa.Text, nullable=False),
        sa.Column("document", sa.Integer, nullable=False),
        sa.Column("first_seen_at", sa.Text, nullable=False),
        sa.Column("last_seen_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("feed_id", "entry_id"),
        sa.Index("sightings_by_place", "feed_id", "place"),
    )
    op.create_table(
        "ambiguous_keys",
        sa.Column("feed_id", _ID, sa.ForeignKey("feeds.id", ondelete="CASCADE"), nullable=False),
        sa.Column("key_type", sa.Text, nullable=False),
        sa.Column("key_value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("feed_id", "key_type", "key_value"),
    )
    op.create_table(
        "runs",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("finished_at", sa.Text),
        sa.Column("counts", sa.Text, nullable=False, server_default="{}"),
    )
    op.create_table(
        "pinned_policies",
        sa.Column("purpose", sa.Text, primary_key=True),
        sa.Column("policy", sa.Text, nullable=False),
    )
