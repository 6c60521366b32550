"""Webhooks: URLs that get every change by POST, in order, at least once (contract I10).

The requests are signed as https://www.standardwebhooks.com/ describes, so that receivers can check them with an
existing library. The position of a webhook is stored after its server answered 2xx, never before.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import random
import secrets
import time
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, or_, select, update

from canonry.errors import (
    ChangesLost,
    FailureKind,
    FetchFailed,
    InvalidUrl,
    UnsafeUrl,
    WebhookNotFound,
    mask_credentials,
)
from canonry.feeds.changes import ChangeFeed, ChangePage
from canonry.net.fetch import FetchOptions
from canonry.net.origin import Origin
from canonry.store.schema import change_numbers, stamp, webhooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import ColumnElement

    from canonry.feeds.ingest_report import ItemRecord
    from canonry.net.response import Fetch
    from canonry.store.database import Database

MAX_BATCH_CHANGES = 100
_MAX_BATCH_CHARS = 1_000_000  # of the records, so that servers accept the body
_SECRET_PREFIX = "whsec_"  # noqa: S105
_SECRET_BYTES = 32
_TIMEOUT_SECONDS = 30.0
_MAX_RUN_SECONDS = 300.0  # of one job; the rest is delivered by the next one
_FIRST_RETRY = timedelta(seconds=10)
_MAX_RETRY = timedelta(hours=1)
_MAX_RETRY_AFTER = timedelta(days=1)
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
    """What a request to a webhook is about."""

    CHANGES = "canonry.changes"
    TEST = "canonry.test"


@dataclass(frozen=True, slots=True)
class WebhookPayload:
    """The body of a request: changes, the number to continue after, and the changes that were lost before them."""

    type: PayloadType
    changes: tuple[ItemRecord, ...]
    next: int
    lost: LostChanges | None = None


_NAMES = tuple(field.name for field in fields(Webhook))
_COLUMNS = [webhooks.c[name] for name in _NAMES]


class WebhookStore:
    """The webhooks of a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def add(self, url: str, now: datetime, *, after: int | None = None) -> tuple[Webhook, str]:
        """Add a webhook for the changes after a number, or for those to come, and return it with its new secret."""
        secret = _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
        return await self.database.write(partial(_add, url=url, secret=secret, now=stamp(now), after=after)), secret

    async def list_all(self) -> list[Webhook]:
        """Return all webhooks, the oldest first."""
        query = select(*_COLUMNS).order_by(webhooks.c.id)
        return await self.database.read(lambda on: [_make(row) for row in on.execute(query)])

    async def get(self, webhook_id: int) -> Webhook:
        """Return a webhook; raises WebhookNotFound."""
        return await self.database.read(partial(_get, webhook_id=webhook_id))

    async def get_secret(self, webhook_id: int) -> str:
        """Return the secret of a webhook; raises WebhookNotFound."""
        query = select(webhooks.c.secret).where(webhooks.c.id == webhook_id)
        secret: str | None = await self.database.read(lambda on: on.execute(query).scalar())
        if secret is None:
            raise WebhookNotFound(webhook_id)
        return secret

    async def remove(self, webhook_id: int) -> None:
        """Delete a webhook; raises WebhookNotFound."""
        query = delete(webhooks).where(webhooks.c.id == webhook_id)
        if not await self.database.write(lambda on: on.execute(query).rowcount):
            raise WebhookNotFound(webhook_id)

    async def resume(self, webhook_id: int) -> Webhook:
        """Deliver again at once, from where a webhook was paused or failed; raises WebhookNotFound."""

        def work(connection: Connection) -> Webhook:
            values = {"state": WebhookState.ACTIVE.value, **_NO_FAILURE}
            connection.execute(update(webhooks).where(webhooks.c.id == webhook_id).values(values))
            return _get(connection, webhook_id)

        return await self.database.write(work)

    async def list_due(self, now: datetime) -> list[int]:
        """Return the ids of the active webhooks that lack changes and need not wait any longer."""
        retry_at = webhooks.c.retry_at
        # A time further ahead than any wait was set by a wrong clock.
        is_due = or_(retry_at.is_(None), retry_at <= stamp(now), retry_at > stamp(now + 2 * _MAX_RETRY_AFTER))
        last = select(change_numbers.c.last).scalar_subquery()
        query = select(webhooks.c.id).where(
            webhooks.c.state == WebhookState.ACTIVE.value, is_due, webhooks.c.position < last
        )
        return await self.database.read(lambda on: list(on.execute(query.order_by(webhooks.c.id)).scalars()))

    async def save_delivery(self, webhook: Webhook, position: int, now: datetime) -> bool:
        """Store that all changes up to a position were delivered; False if another process did it first."""
        values = {"position": position, "delivered_at": stamp(now), **_NO_FAILURE}
        query = update(webhooks).where(_is_unchanged(webhook)).values(values)
        return bool(await self.database.write(lambda on: on.execute(query).rowcount))

    async def save_failure(
        self, webhook: Webhook, failure: DeliveryFailure, *, now: datetime, retry_at: datetime | None
    ) -> None:
        """Store a failure and when to try again; without that time, the webhook is paused.

        Nothing is stored if another process has delivered the changes meanwhile.
        """
        values = {
            "failures": webhook.failures + 1,
            "failure": failure.reason,
            "failure_kind": failure.kind.value,
            "failing_since": webhook.failing_since or stamp(now),
            "retry_at": None if retry_at is None else stamp(retry_at),
            "state": (WebhookState.PAUSED if retry_at is None else WebhookState.ACTIVE).value,
        }
        query = update(webhooks).where(_is_unchanged(webhook)).values(values)
        await self.database.write(lambda on: on.execute(query))


_NO_FAILURE: dict[str, Any] = {
    "failures": 0,
    "failure": "",
    "failure_kind": "",
    "failing_since": None,
    "retry_at": None,
}


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
    doubled: timedelta = _FIRST_RETRY * 2 ** min(webhook.failures, 20)
    backoff = min(_MAX_RETRY, doubled) * (0.75 + chance / 2)
    asked = min(_MAX_RETRY_AFTER, timedelta(seconds=failure.retry_after or 0))
    return now + max(backoff, asked)


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


def _add(connection: Connection, url: str, secret: str, now: str, after: int | None) -> Webhook:
    last = connection.execute(select(change_numbers.c.last)).scalar() or 0
    deleted = connection.execute(select(change_numbers.c.deleted)).scalar() or 0
    if after is not None and not deleted <= after <= last:
        raise ChangesLost(after, deleted=deleted, last=last)
    values = {"url": url, "secret": secret, "position": last if after is None else after, "created_at": now}
    added = connection.execute(insert(webhooks).values(values).returning(webhooks.c.id))
    return _get(connection, int(added.scalar_one()))


def _get(connection: Connection, webhook_id: int) -> Webhook:
    row = connection.execute(select(*_COLUMNS).where(webhooks.c.id == webhook_id)).first()
    if row is None:
        raise WebhookNotFound(webhook_id)
    return _make(row)


def _is_unchanged(webhook: Webhook) -> ColumnElement[bool]:
    """Return the condition that no process has delivered changes since the webhook was read."""
    return (webhooks.c.id == webhook.id) & (webhooks.c.position == webhook.position)


def _make(row: Any) -> Webhook:
    values: dict[str, Any] = dict(zip(_NAMES, row, strict=True))
    values["state"] = WebhookState(values["state"])
    values["failure_kind"] = FailureKind(values["failure_kind"]) if values["failure_kind"] else None
    return Webhook(**values)


def mask_webhook(webhook: Webhook) -> Webhook:
    """Return the webhook as it may be shown: without credentials in its URL."""
    return replace(webhook, url=mask_credentials(webhook.url), failure=mask_credentials(webhook.failure))
