"""Webhooks: URLs that get every change by POST, in order, at least once (contract I10).

The requests are signed as https://www.standardwebhooks.com/ describes, so that receivers can check them with an
existing library. The position of a webhook is stored after its server answered 2xx, never before. This module decides
and sends; `webhook_store` stores.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import random
import secrets
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING

from canonry.errors import ChangesLost, FailureKind, FetchFailed, InvalidUrl, UnsafeUrl, mask_credentials
from canonry.feeds.backoff import compute_backoff
from canonry.feeds.changes import ChangeFeed, ChangePage
from canonry.net.fetch import FetchOptions
from canonry.net.origin import Origin
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.feeds.ingest_report import ItemRecord
    from canonry.feeds.webhook_store import WebhookStore
    from canonry.net.response import Fetch

MAX_BATCH_CHANGES = 100
_MAX_BATCH_CHARS = 1_000_000  # of the records, so that servers accept the body
_SECRET_PREFIX = "whsec_"  # noqa: S105
_SECRET_BYTES = 32
_TIMEOUT_SECONDS = 30.0
_MAX_RUN_SECONDS = 300.0  # of one job; the rest is delivered by the next one
_FIRST_RETRY = timedelta(seconds=10)
_MAX_RETRY = timedelta(hours=1)
MAX_RETRY_AFTER = timedelta(days=1)
_PAUSE_AFTER = timedelta(days=3)


class WebhookState(StrEnum):
    """Whether changes are delivered."""

    ACTIVE = "active"
    PAUSED = "paused"  # failed for three days, or its server answered 410


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook as stored; times are UTC texts. The changes after `position` are not delivered yet."""

    id: int
    url: str
    state: WebhookState
    position: int
    failures: int  # in a row
    failure: str  # the last one, as a sentence for people
    failure_kind: FailureKind | None
    failing_since: str | None
    retry_at: str | None
    delivered_at: str | None
    created_at: str


@dataclass(frozen=True, slots=True)
class LostChanges:
    """Changes that were no longer stored when they could have been delivered: those after `after`, up to `through`."""

    after: int
    through: int


@dataclass(frozen=True, slots=True)
class DeliveryFailure:
    """Why a request to a webhook failed; `retry_after` in seconds, if the server asked for it."""

    kind: FailureKind
    reason: str
    status: int | None = None
    retry_after: float | None = None


class PayloadType(StrEnum):
    """The kinds of requests that a webhook gets."""

    CHANGES = "canonry.changes"
    TEST = "canonry.test"


@dataclass(frozen=True, slots=True)
class WebhookPayload:
    """The body of a request: changes, the number to continue after, and the changes that were lost before them."""

    type: PayloadType
    changes: tuple[ItemRecord, ...]
    next: int
    lost: LostChanges | None = None


class Deliveries:
    """Sends the changes of a store to its webhooks; `chance` returns a random number from 0 to 1 for jitter."""

    def __init__(
        self,
        store: WebhookStore,
        fetch: Fetch,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.store = store
        self._changes = ChangeFeed(store.database)
        self._fetch = fetch
        self._clock = clock
        self._chance = chance

    async def deliver(self, webhook_id: int) -> int:
        """Send all changes that a webhook lacks, in order, and return how many were delivered; stop at a failure."""
        secret = await self.store.get_secret(webhook_id)
        delivered, end = 0, time.monotonic() + _MAX_RUN_SECONDS
        while time.monotonic() < end:
            webhook = await self.store.get(webhook_id)
            page, lost = await self._read_batch(webhook)
            if webhook.state is not WebhookState.ACTIVE or (not page.changes and lost is None):
                break
            payload = WebhookPayload(PayloadType.CHANGES, page.changes, page.next, lost)
            failure = await self._post(webhook, secret, payload)
            now = self._clock()
            if failure is not None:
                retry_at = choose_retry(webhook, failure, now=now, chance=self._chance())
                await self.store.save_failure(webhook, failure, now=now, retry_at=retry_at)
                break
            if not await self.store.save_delivery(webhook, page.next, now):
                break  # another worker delivers too
            delivered += len(page.changes)
        return delivered

    async def send_test(self, webhook_id: int) -> DeliveryFailure | None:
        """Send a signed request without changes; return why it failed, None if the server answered 2xx."""
        webhook, secret = await self.store.get(webhook_id), await self.store.get_secret(webhook_id)
        return await self._post(webhook, secret, WebhookPayload(PayloadType.TEST, (), webhook.position))

    async def _read_batch(self, webhook: Webhook) -> tuple[ChangePage, LostChanges | None]:
        after, lost = webhook.position, None
        while True:
            try:
                return _cut(await self._changes.read(after, limit=MAX_BATCH_CHANGES)), lost
            except ChangesLost as error:
                lost = LostChanges(webhook.position, error.continue_after)
                after = error.continue_after

    async def _post(self, webhook: Webhook, secret: str, payload: WebhookPayload) -> DeliveryFailure | None:
        """Send a payload; return why it failed, None if the server answered 2xx. Redirects are not followed."""
        now, body = self._clock(), json.dumps(asdict(payload)).encode()
        message_id = f"{payload.type}-{webhook.id}-{webhook.position}-{payload.next}"
        timestamp = str(int(now.timestamp()))
        options = FetchOptions(
            follows_redirect=lambda _, __: False,
            reads_body=lambda _: False,
            headers={
                "Content-Type": "application/json",
                "Connection": "close",  # the next request may be hours away, and a POST on a stale connection fails
                "webhook-id": message_id,
                "webhook-timestamp": timestamp,
                "webhook-signature": sign(secret, message_id, timestamp=timestamp, body=body),
            },
            body=body,
        )
        try:
            response = await self._fetch(
                webhook.url, method="POST", timeout=_TIMEOUT_SECONDS, options=options, origin=Origin.PERSON
            )
        except UnsafeUrl as error:
            return DeliveryFailure(FailureKind.REFUSED, str(error))
        except (FetchFailed, InvalidUrl) as error:
            kind = error.kind if isinstance(error, FetchFailed) else FailureKind.INVALID_URL
            return DeliveryFailure(kind, error.reason)
        if response.is_ok:
            return None
        kind = FailureKind.UNAVAILABLE if response.is_unavailable else FailureKind.STATUS
        return DeliveryFailure(kind, f"answered {response.status}", response.status, response.retry_after(now))


def choose_retry(webhook: Webhook, failure: DeliveryFailure, *, now: datetime, chance: float) -> datetime | None:
    """Return when to try again after a failure, None to pause the webhook.

    The wait doubles with every failure, from ten seconds to an hour, or is what the server asked for, up to a day.
    """
    if failure.status == HTTPStatus.GONE:
        return None
    if webhook.failing_since is not None and webhook.failing_since <= stamp(now - _PAUSE_AFTER):
        return None
    backoff = compute_backoff(webhook.failures, first=_FIRST_RETRY, longest=_MAX_RETRY, chance=chance)
    asked = min(MAX_RETRY_AFTER, timedelta(seconds=failure.retry_after or 0))
    return now + max(backoff, asked)


def make_secret() -> str:
    """Return a new secret, in the form that libraries for Standard Webhooks expect."""
    return _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def sign(secret: str, message_id: str, *, timestamp: str, body: bytes) -> str:
    """Return the value of the `webhook-signature` header: HMAC-SHA256 over id, time and body."""
    key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX))
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def _cut(page: ChangePage) -> ChangePage:
    """Return as much of a page as fits into a request, but at least one change."""
    size = 0
    kept: list[ItemRecord] = []
    for change in page.changes:
        size += len(change.title) + len(change.url) + len(change.guid) + sum(map(len, change.categories)) + 1000
        if kept and size > _MAX_BATCH_CHARS:
            return ChangePage(tuple(kept), kept[-1].number or 0, page.last)
        kept.append(change)
    return page


def mask_webhook(webhook: Webhook) -> Webhook:
    """Return the webhook as it may be shown: without credentials in its URL."""
    return replace(webhook, url=mask_credentials(webhook.url), failure=mask_credentials(webhook.failure))
