"""What an import did with each row of its file (contract B8)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "import_rows",
        sa.Column("import_id", _ID, primary_key=True, autoincrement=False),
        sa.Column("row", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("bookmark_id", _ID),
        sa.Column("reason", sa.Text, nullable=False, server_default=""),
    )
