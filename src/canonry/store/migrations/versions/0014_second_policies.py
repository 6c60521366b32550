"""Rekeys of bookmarks that can be undone, and pins for stores that had none.

Until now the policy of bookmarks was pinned only by a rekey: a store with bookmarks and without a pin was under
bookmark@1, and stays there now that the newest policy is another one.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_PINS = (
    (
        "INSERT INTO pinned_policies (purpose, policy) SELECT 'bookmark', 'bookmark@1'"
        " WHERE EXISTS (SELECT 1 FROM bookmarks)"
        " AND NOT EXISTS (SELECT 1 FROM pinned_policies WHERE purpose = 'bookmark')"
    ),
    (
        "INSERT INTO pinned_policies (purpose, policy) SELECT 'entry', 'entry@1'"
        " WHERE EXISTS (SELECT 1 FROM entries)"
        " AND NOT EXISTS (SELECT 1 FROM pinned_policies WHERE purpose = 'entry')"
    ),
)


def upgrade() -> None:
    op.add_column("pinned_policies", sa.Column("announced", sa.Text, nullable=False, server_default=""))
    op.add_column("renormalizations", sa.Column("from_policy", sa.Text, nullable=False, server_default=""))
    op.add_column("renormalizations", sa.Column("undo_started_at", sa.Text))
    op.add_column("renormalizations", sa.Column("undone_at", sa.Text))
    op.create_table(
        "rekeyed_bookmarks",
        sa.Column("id", _ID, primary_key=True),
        sa.Column(
            "rekey_id", _ID, sa.ForeignKey("renormalizations.id", ondelete="CASCADE"), nullable=False, index=True
        ),
        sa.Column("bookmark_id", _ID, nullable=False),
        sa.Column("merge_id", _ID),
        sa.Column("row", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    connection = op.get_bind()
    for statement in _PINS:
        connection.execute(sa.text(statement))
