"""The jobs that deliver changes to webhooks: one at a time for each webhook, so that none waits for another."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from canonry.errors import WebhookNotFound
from canonry.feeds.webhook_store import WebhookStore
from canonry.feeds.webhooks import Deliveries
from canonry.jobs.queues import JobKind
from canonry.jobs.schedules import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from canonry.jobs.queues import Jobs
    from canonry.net.response import Fetch

# Names are stored with every queued job.
DELIVER_JOB = "webhook"
ENQUEUE_DELIVERIES_JOB = "webhooks"
_INTERVAL_SECONDS = 10.0  # between two looks for webhooks that lack changes; polls look too
_log = logging.getLogger("canonry.jobs")


def make_webhook_kinds(jobs: Jobs, fetch: Fetch, clock: Callable[[], datetime]) -> list[JobKind]:
    """Return the jobs for webhooks; the key of a delivery is the id of the webhook."""
    store = WebhookStore(jobs.database)
    deliveries = Deliveries(store, fetch, clock=clock)

    async def deliver(key: str) -> None:
        try:
            delivered = await deliveries.deliver(int(key))
            webhook = await store.get(int(key))
        except WebhookNotFound:
            return  # removed after the delivery was queued
        if webhook.failure:
            _log.warning("webhook %s is %s: %s", key, webhook.state, webhook.failure)
        elif delivered:
            _log.info("webhook %s: %d changes delivered", key, delivered)

    async def enqueue_due(_: str) -> None:
        await enqueue_deliveries(jobs, store, clock())

    return [
        # Its position is stored after every request, so it can be interrupted.
        JobKind(DELIVER_JOB, deliver, is_interruptible=True),
        JobKind(ENQUEUE_DELIVERIES_JOB, enqueue_due),
    ]


def make_webhook_schedules(*, interval: float = _INTERVAL_SECONDS) -> list[Schedule]:
    """Return the schedule that queues deliveries, and those that failed once their wait is over."""
    return [Schedule(ENQUEUE_DELIVERIES_JOB, interval)]


async def enqueue_deliveries(jobs: Jobs, store: WebhookStore, now: datetime) -> None:
    """Queue a delivery for each webhook that lacks changes; one that is waiting or running is not queued again."""
    for webhook_id in await store.list_due(now):
        await jobs.enqueue(DELIVER_JOB, str(webhook_id))
