"""WebSub: hubs say at once that a feed has changed, so that it need not be polled often (contract I11).

https://www.w3.org/TR/websub/. A push is a signal and nothing else: the feed is then polled as always, so what a hub
sends is never stored. This module decides and sends; `websub_store` stores. A subscription has a callback URL of its
own, which nobody can guess, and a secret that signs the pushes.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from canonry.core.url import parse
from canonry.errors import FeedNotFound, FetchFailed, InvalidUrl, UnsafeUrl, mask_credentials
from canonry.feeds.backoff import compute_backoff
from canonry.feeds.ingest_report import FeedResult
from canonry.net.concurrency import run_together
from canonry.net.fetch import FetchOptions
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from canonry.feeds.feed_values import FeedState
    from canonry.feeds.ingest_report import FeedOutcome
    from canonry.feeds.websub_store import WebSubStore
    from canonry.net.origin import Origin
    from canonry.net.response import Fetch

CALLBACK_PATH = "/websub/"
MAX_PUSH_BYTES = 10 * 1024 * 1024
PUSHED_POLL_INTERVAL = timedelta(hours=6)  # between polls of a feed whose pushes arrive
MIN_POLL_DISTANCE = timedelta(seconds=60)  # between two polls of a feed because of pushes
MAX_REQUEST_WAIT = timedelta(days=31)  # a time further ahead was stored by a wrong clock
_LEASE = timedelta(days=10)  # that is asked for
_MIN_LEASE, _MAX_LEASE = timedelta(minutes=5), timedelta(days=30)
_RENEW_AFTER = 0.8  # of the lease
_FIRST_RETRY, _MAX_RETRY = timedelta(hours=1), timedelta(days=1)
_DENIED_RETRY = timedelta(days=7)
_MAX_CLOCK_SKEW = timedelta(minutes=10)  # between machines; a push further ahead was noted by a wrong clock
_MAX_REASON_CHARS = 200
_MAX_REDIRECTS = 3
_METHOD_PRESERVING_REDIRECTS = (307, 308)
_ALGORITHMS = frozenset({"sha1", "sha256", "sha384", "sha512"})  # of X-Hub-Signature
_log = logging.getLogger("canonry.jobs")


class SubscriptionState(StrEnum):
    """The answer of a hub."""

    PENDING = "pending"  # it has not confirmed the request yet
    ACTIVE = "active"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription of a feed at a hub; times are UTC texts."""

    feed_id: int
    hub: str
    topic: str
    callback: str  # the URL at which the hub reaches this service
    secret: str
    state: SubscriptionState
    is_requested: bool  # a request waits for the confirmation of the hub
    failures: int  # in a row
    failure: str  # the last one, as a sentence for people
    next_at: str  # when to send the next request
    expires_at: str | None
    pushed_at: str | None  # the last valid push
    missed_at: str | None  # the last poll that found news which no push had announced

    def is_trusted(self, now: datetime) -> bool:
        """Return whether pushes arrive, so that the feed may be polled less often."""
        is_active = self.state is SubscriptionState.ACTIVE and (self.expires_at or "") > stamp(now)
        return is_active and (self.missed_at or "") < self.find_push(now)

    def find_push(self, now: datetime) -> str:
        """Return when the last valid push came; empty if there was none, or if a wrong clock noted a time ahead."""
        pushed_at = self.pushed_at or ""
        return pushed_at if pushed_at <= stamp(now + _MAX_CLOCK_SKEW) else ""


class DueFeed(NamedTuple):
    """A feed that needs a request to its hub."""

    feed_id: int
    url: str
    hubs: str  # one a line
    topic: str
    origin: Origin  # of the hubs: the server that named them
    subscription: Subscription | None


def choose_topic(feed_url: str, topic: str) -> str:
    """Return the URL to subscribe to, empty if hubs must not know it because it contains a password."""
    chosen = topic or feed_url
    return "" if parse(chosen).userinfo is not None else chosen


def choose_retry(failures: int, chance: float) -> timedelta:
    """Return the wait before the next request to a hub: doubled with every failure, from an hour to a day."""
    return compute_backoff(failures, first=_FIRST_RETRY, longest=_MAX_RETRY, chance=chance)


def confirm(subscription: Subscription, lease_seconds: str, now: datetime) -> Subscription:
    """Return the subscription after its hub has confirmed it, to be renewed before the lease ends."""
    is_number = lease_seconds.isascii() and lease_seconds.isdecimal() and len(lease_seconds) < 12
    asked = timedelta(seconds=int(lease_seconds)) if is_number else _LEASE
    lease = min(max(asked, _MIN_LEASE), _MAX_LEASE)
    return replace(
        subscription,
        state=SubscriptionState.ACTIVE,
        is_requested=False,
        failures=0,
        failure="",
        expires_at=stamp(now + lease),
        next_at=stamp(now + lease * _RENEW_AFTER),
    )


def deny(subscription: Subscription, reason: str, now: datetime) -> Subscription:
    """Return the subscription after its hub has ended or refused it; it is asked again after a week."""
    text = " ".join(reason.split())[:_MAX_REASON_CHARS]
    return replace(
        subscription,
        state=SubscriptionState.DENIED,
        is_requested=False,
        failure=f"denied: {text}" if text else "denied",
        expires_at=None,
        next_at=stamp(now + _DENIED_RETRY),
    )


def fail(subscription: Subscription, failure: str) -> Subscription:
    """Return the subscription after its hub did not accept a request."""
    return replace(subscription, failures=subscription.failures + 1, failure=failure)


def verify(
    subscription: Subscription, *, mode: str, topic: str, lease: str, reason: str, now: datetime
) -> Subscription | None:
    """Return the subscription after a request of its hub to the callback; None if this service did not ask for it."""
    if topic != subscription.topic:
        return None
    if mode == "subscribe" and subscription.is_requested:
        return confirm(subscription, lease, now)
    return deny(subscription, reason, now) if mode == "denied" else None


def note_push(subscription: Subscription, now: datetime) -> Subscription:
    """Return the subscription after a valid push."""
    return replace(subscription, pushed_at=stamp(now))


async def is_signed(secret: str, signature: str, chunks: AsyncIterator[bytes]) -> bool:
    """Return whether the `X-Hub-Signature` of a push is that of its body; the body is read, and not stored.

    A body over the limit is not signed.
    """
    algorithm, _, digest = signature.strip().partition("=")
    algorithm = algorithm.lower()
    if algorithm not in _ALGORITHMS:
        return False
    computed, size = hmac.new(secret.encode(), digestmod=getattr(hashlib, algorithm)), 0
    async for chunk in chunks:
        computed.update(chunk)
        size += len(chunk)
        if size > MAX_PUSH_BYTES:
            return False
    return hmac.compare_digest(computed.hexdigest().encode(), digest.strip().lower().encode(errors="replace"))


def judge_poll(subscription: Subscription, *, feed: FeedState, outcome: FeedOutcome, now: datetime) -> Subscription:
    """Return the subscription after a poll: news that no push has announced means that pushes have stopped.

    `feed` is the feed as it was before the poll.
    """
    is_missed = _has_news(outcome) and not _is_announced(subscription, feed, now)
    is_active = subscription.state is SubscriptionState.ACTIVE
    return replace(subscription, missed_at=stamp(now)) if is_missed and is_active else subscription


class NextPoll(StrEnum):
    """When a feed is polled again after a poll."""

    SOON = "soon"  # a push came while the feed was read
    AS_USUAL = "as usual"
    LATER = "later"  # pushes arrive


def choose_next_poll(
    subscription: Subscription, *, feed: FeedState, outcome: FeedOutcome, started: datetime, now: datetime
) -> NextPoll:
    """Return when to poll again; `feed` is the feed as it was before the poll, which began at `started`."""
    if outcome.result not in {FeedResult.INGESTED, FeedResult.NO_CHANGE}:
        return NextPoll.AS_USUAL
    if subscription.find_push(now) > stamp(started):
        return NextPoll.SOON
    # A push without news: the server of the feed may not have the change yet.
    is_early = _is_announced(subscription, feed, now) and not _has_news(outcome)
    return NextPoll.LATER if subscription.is_trusted(now) and not is_early else NextPoll.AS_USUAL


def _has_news(outcome: FeedOutcome) -> bool:
    return bool(outcome.new or outcome.updated)


def _is_announced(subscription: Subscription, feed: FeedState, now: datetime) -> bool:
    return subscription.find_push(now) > (feed.last_checked_at or "")


class HubRequests:
    """Asks hubs for subscriptions and renews them; `base` is the public URL of the service."""

    def __init__(
        self,
        store: WebSubStore,
        fetch: Fetch,
        base: str,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._fetch = fetch
        self._callbacks = base.rstrip("/") + CALLBACK_PATH
        self._clock = clock
        self._chance = chance

    async def request_due(self) -> int:
        """Send the requests that are due, and return how many hubs accepted one."""
        due = await self._store.list_due(self._clock(), self._callbacks)
        return sum(await run_together(map(self._request, due)))

    async def _request(self, feed: DueFeed) -> bool:
        topic = choose_topic(feed.url, feed.topic)
        failures = 0 if feed.subscription is None else feed.subscription.failures
        hubs = feed.hubs.split()
        hub = hubs[failures % len(hubs)]  # after a failure, the next one
        wait = choose_retry(failures, self._chance())
        # Stored before the request, because hubs may confirm it before they answer.
        try:
            asked = await self._store.start(feed, hub, topic, callbacks=self._callbacks, next_at=self._clock() + wait)
        except FeedNotFound:
            return False  # removed after it was listed
        if not topic:
            refuse = partial(deny, reason="the URL of the feed contains a password", now=self._clock())
            await self._store.change(asked.callback, refuse)
            return False
        failure = await self._post(asked, feed.origin)
        if not failure:
            return True
        await self._store.change(asked.callback, partial(fail, failure=failure))
        _log.warning("feed %d: its hub did not accept the subscription: %s", feed.feed_id, failure)
        return False

    async def _post(self, asked: Subscription, origin: Origin) -> str:
        """Send a request to a hub; return why it failed, empty if the hub accepted it."""
        form = {
            "hub.callback": asked.callback,
            "hub.mode": "subscribe",
            "hub.topic": asked.topic,
            "hub.lease_seconds": str(int(_LEASE.total_seconds())),
            "hub.secret": asked.secret,
        }
        options = FetchOptions(
            follows_redirect=lambda _, __: False,
            reads_body=lambda _: False,
            headers={"Content-Type": "application/x-www-form-urlencoded", "Connection": "close"},
            body=urlencode(form).encode(),
        )
        url = asked.hub
        try:
            for _ in range(_MAX_REDIRECTS):
                response = await self._fetch(url, method="POST", origin=origin, options=options)
                if response.status not in _METHOD_PRESERVING_REDIRECTS or not response.hops:
                    return "" if response.is_ok else f"answered {response.status}"
                url, origin = response.hops[-1].location, response.origin
        except (FetchFailed, UnsafeUrl, InvalidUrl) as error:
            return mask_credentials(error.reason)
        return "too many redirects"


def mask_all(subscriptions: Iterable[Subscription]) -> list[Subscription]:
    """Return subscriptions as they may be shown: without secrets, callbacks and credentials."""
    return [
        replace(each, secret="", callback="", hub=mask_credentials(each.hub), topic=mask_credentials(each.topic))
        for each in subscriptions
    ]
