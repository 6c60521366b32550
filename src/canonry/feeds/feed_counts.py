"""Count the feeds of a store, for monitoring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, select

from canonry.feeds.due import make_due_condition
from canonry.feeds.feed_values import FeedStatus
from canonry.store.schema import change_numbers, feeds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class FeedCounts:
    """How many feeds there are; `changes` are the new and updated items since the store was created."""

    by_status: Mapping[FeedStatus, int]
    failing: int
    due: int
    changes: int


def count_feeds(connection: Connection, now: datetime) -> FeedCounts:
    """Count feeds by status, those whose last poll failed, and those that are due."""
    rows = connection.execute(select(feeds.c.status, func.count()).group_by(feeds.c.status)).all()
    found = {str(status): int(count) for status, count in rows}
    number_of_feeds = select(func.count()).select_from(feeds)
    is_failing = (feeds.c.failures > 0, feeds.c.status == FeedStatus.ACTIVE.value)
    return FeedCounts(
        by_status={status: found.get(status.value, 0) for status in FeedStatus},
        failing=connection.execute(number_of_feeds.where(*is_failing)).scalar_one(),
        due=connection.execute(number_of_feeds.where(make_due_condition(now))).scalar_one(),
        changes=connection.execute(select(change_numbers.c.last)).scalar() or 0,
    )
