"""When feeds are due, whatever the clock said when their times were stored (contract I11)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import and_, or_

from canonry.feeds.feed_values import FeedStatus
from canonry.store.schema import feeds, stamp

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from canonry.feeds.feed_values import FeedState

# No wait is longer. A time further ahead was stored while the clock was wrong, and does not count.
MAX_WAIT = timedelta(days=7)


def is_ahead(when: str | None, now: datetime) -> bool:
    """Return whether a stored time has yet to come; one that is more than 7 days ahead counts as past."""
    return when is not None and stamp(now) < when <= stamp(now + MAX_WAIT)


def is_polled(feed: FeedState, now: datetime) -> bool:
    """Return whether a run over all feeds polls this one: an active feed, or a stopped one that is due again."""
    if feed.status is FeedStatus.STOPPED:
        return feed.next_check_at is not None and not is_ahead(feed.next_check_at, now)
    return feed.status is FeedStatus.ACTIVE


def make_due_condition(now: datetime) -> ColumnElement[bool]:
    """Return the SQL condition for feeds that are due: active ones, and stopped ones that have a time."""
    is_past = or_(feeds.c.next_check_at <= stamp(now), feeds.c.next_check_at > stamp(now + MAX_WAIT))
    is_active, is_stopped = (feeds.c.status == status.value for status in (FeedStatus.ACTIVE, FeedStatus.STOPPED))
    return or_(and_(is_active, or_(feeds.c.next_check_at.is_(None), is_past)), and_(is_stopped, is_past))
