"""Why the last poll of a feed failed, as data: what to do about it depends on that (contract U2)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    # Failures that are stored already stay without a kind until the next poll.
    op.add_column("feeds", sa.Column("failure_kind", sa.Text, nullable=False, server_default=""))
    op.add_column("feeds", sa.Column("failure_status", sa.Integer))
    op.create_index("sightings_by_age", "sightings", ["feed_id", "first_seen_at"])  # to count the items of a week
