"""The job that subscribes feeds at their hubs; after each poll, the check for changes that no push announced (I11)."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from canonry.feeds.websub import (
    MIN_POLL_DISTANCE,
    PUSHED_POLL_INTERVAL,
    HubRequests,
    NextPoll,
    choose_next_poll,
    judge_poll,
)
from canonry.feeds.websub_store import WebSubStore
from canonry.jobs.queues import JobKind
from canonry.jobs.schedules import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from canonry.feeds.feed_values import FeedState
    from canonry.feeds.ingest_report import FeedOutcome
    from canonry.jobs.queues import Jobs
    from canonry.net.response import Fetch

# Names are stored with every queued job.
REQUEST_SUBSCRIPTIONS_JOB = "websub"
_INTERVAL_SECONDS = 60.0
_log = logging.getLogger("canonry.jobs")


def make_websub_kinds(jobs: Jobs, fetch: Fetch, clock: Callable[[], datetime], public_url: str) -> list[JobKind]:
    """Return the job that asks hubs for subscriptions; without a public URL it does nothing."""
    requests = HubRequests(WebSubStore(jobs.database), fetch, public_url, clock=clock)

    async def request_due(_: str) -> None:
        if public_url and (accepted := await requests.request_due()):
            _log.info("%d hubs accepted subscriptions", accepted)

    return [JobKind(REQUEST_SUBSCRIPTIONS_JOB, request_due)]


def make_websub_schedules(public_url: str, *, interval: float = _INTERVAL_SECONDS) -> list[Schedule]:
    """Return the schedule of the requests to hubs; none without a public URL."""
    return [Schedule(REQUEST_SUBSCRIPTIONS_JOB, interval)] if public_url else []


async def note_poll(
    store: WebSubStore, feed: FeedState, outcome: FeedOutcome, *, started: datetime, now: datetime
) -> None:
    """Record whether a push had announced what a poll found, and choose when the feed is polled next.

    `feed` is the feed as it was before the poll.
    """
    subscription = await store.find(feed.id) if feed.hubs else None
    if subscription is None:
        return
    judged = await store.change(subscription.callback, partial(judge_poll, feed=feed, outcome=outcome, now=now))
    if judged is None:
        return
    match choose_next_poll(judged, feed=feed, outcome=outcome, started=started, now=now):
        case NextPoll.SOON:
            await store.hasten_poll(feed.id, now + MIN_POLL_DISTANCE)
        case NextPoll.LATER:
            await store.delay_poll(feed.id, now + PUSHED_POLL_INTERVAL)
        case NextPoll.AS_USUAL:
            pass
