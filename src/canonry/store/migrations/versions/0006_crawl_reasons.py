"""Reasons of crawls as data: why a page failed or was skipped, and why a crawl failed, beside the texts for people.

Until now only sentences were stored. They are converted as far as they tell; other failures become `other`.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

# The sentences of earlier releases (SQL patterns), and the value that stands for each.
_SKIP_REASONS = (
    ("robots.txt refuses it", "robots_disallowed"),
    ("redirects to what robots.txt refuses", "redirect_disallowed"),
    ("redirects to a page of its own", "redirect_to_page"),
    ("redirects to another host", "other_host"),
    ("%", "duplicate"),  # `the same page as URL`
)
_FAILURES = (
    ("robots.txt refuses it", "robots"),
    ("refused: %", "refused"),
    ("%robots.txt cannot be read%", "unavailable"),
    ("not a usable URL: %", "invalid_url"),
    ("only the first %", "truncated"),
    ("%redirects in a circle%", "redirect_loop"),
    ("%", "other"),
)
_MOVED = "redirects to "


def upgrade() -> None:
    for table, names in (("crawls", ("failure_kind", "moved_to")), ("crawl_pages", ("failure", "skip_reason"))):
        for name in names:
            op.add_column(table, sa.Column(name, sa.Text, nullable=False, server_default=""))
    connection = op.get_bind()
    for sentence, reason in _SKIP_REASONS:
        connection.execute(
            sa.text(
                "UPDATE crawl_pages SET skip_reason = :reason, error = ''"
                " WHERE state = 'skipped' AND skip_reason = '' AND error LIKE :sentence"
            ),
            {"reason": reason, "sentence": sentence},
        )
    connection.execute(
        sa.text(
            "UPDATE crawl_pages SET failure = CASE WHEN status = 429 OR status >= 500 THEN 'unavailable'"
            " ELSE 'status' END WHERE error <> '' AND status >= 400"
        )
    )
    for sentence, kind in _FAILURES:
        connection.execute(
            sa.text(
                "UPDATE crawl_pages SET failure = :kind WHERE error <> '' AND failure = '' AND error LIKE :sentence"
            ),
            {"kind": kind, "sentence": sentence},
        )
    connection.execute(
        sa.text(
            "UPDATE crawls SET failure_kind = 'start_moved', moved_to = SUBSTR(failure, :start), failure = ''"
            " WHERE failure LIKE :sentence"
        ),
        {"start": len(_MOVED) + 1, "sentence": f"{_MOVED}%"},
    )
    connection.execute(sa.text("UPDATE crawls SET failure_kind = 'engine' WHERE failure <> ''"))
