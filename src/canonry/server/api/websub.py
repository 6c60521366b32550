"""`/websub/…`: where the hubs of feeds confirm subscriptions and push changes (contract I11).

Without a user: the path is a secret of its own, and pushes are signed. A push only causes a poll.
"""

from __future__ import annotations

import logging
from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from canonry.errors import FeedNotFound
from canonry.feeds.feed_values import FeedStatus
from canonry.feeds.websub import (
    CALLBACK_PATH,
    MIN_POLL_DISTANCE,
    Subscription,
    SubscriptionState,
    is_signed,
    note_push,
    verify,
)
from canonry.feeds.websub_store import WebSubStore
from canonry.net.response import find_host
from canonry.server.dependencies import get_service
from canonry.server.problems import RequestRefused

router = APIRouter(include_in_schema=False)
_log = logging.getLogger("canonry.service")
_Text = Annotated[str, Query(max_length=10_000)]


@router.get(f"{CALLBACK_PATH}{{token}}")
async def verify_subscription(
    request: Request,
    token: str,
    mode: Annotated[_Text, Query(alias="hub.mode")] = "",
    topic: Annotated[_Text, Query(alias="hub.topic")] = "",
    challenge: Annotated[_Text, Query(alias="hub.challenge")] = "",
    lease: Annotated[_Text, Query(alias="hub.lease_seconds")] = "",
    reason: Annotated[_Text, Query(alias="hub.reason")] = "",
) -> Response:
    """Confirm a requested subscription, or record that the hub has denied it."""
    service = get_service(request)
    changed = None
    if service.settings.public_url:
        decide = partial(verify, mode=mode, topic=topic, lease=lease, reason=reason, now=service.clock())
        changed = await WebSubStore(service.database).change(_name_callback(request, token), decide)
    if changed is None:
        raise RequestRefused(404, "No such subscription.")
    _log.info("feed %d: its hub says that the subscription is %s", changed.feed_id, changed.state)
    return Response(challenge if changed.state is SubscriptionState.ACTIVE else "", media_type="text/plain")


@router.post(f"{CALLBACK_PATH}{{token}}", status_code=202)
async def accept_push(request: Request, token: str) -> Response:
    """Poll the feed of a push. A push with a wrong signature gets the same answer and changes nothing (WebSub, 7)."""
    service = get_service(request)
    store = WebSubStore(service.database)
    callback = _name_callback(request, token)
    found = await store.find_by_callback(callback) if service.settings.public_url else None
    if found is None:
        raise RequestRefused(410, "No such subscription.")  # hubs may then end it
    if not await is_signed(found.secret, request.headers.get("x-hub-signature", ""), request.stream()):
        _log.warning("feed %d: ignored a push without a valid signature", found.feed_id)
        return Response(status_code=202)
    now = service.clock()
    await store.change(callback, partial(note_push, now=now))
    await _poll(request, found, now)
    return Response(status_code=202)


async def _poll(request: Request, subscription: Subscription, now: datetime) -> None:
    """Queue a poll, but at most one a minute."""
    service = get_service(request)
    try:
        feed = await service.feeds.get(subscription.feed_id)
    except FeedNotFound:
        return
    if feed.status is not FeedStatus.ACTIVE:
        return
    last = None if feed.last_checked_at is None else datetime.fromisoformat(feed.last_checked_at)
    soonest = now if last is None or last > now else max(now, last + MIN_POLL_DISTANCE)
    # Stored as well: if the job is lost, or has read the feed just before the change, the next look finds the feed due.
    await WebSubStore(service.database).hasten_poll(feed.id, soonest)
    if soonest == now:
        await service.jobs.enqueue_poll(feed.id, find_host(feed.url))


def _name_callback(request: Request, token: str) -> str:
    return f"{get_service(request).settings.public_url}{CALLBACK_PATH}{token}"
