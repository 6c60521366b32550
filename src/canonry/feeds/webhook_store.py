"""Store webhooks and how far each has come; every method is one transaction (contract I10)."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, or_, select, update

from canonry.errors import FailureKind, WebhookNotFound
from canonry.feeds.changes import read_bounds
from canonry.feeds.webhooks import MAX_RETRY_AFTER, Webhook, WebhookState, make_secret
from canonry.store.schema import change_numbers, stamp, webhooks

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import ColumnElement

    from canonry.feeds.webhooks import DeliveryFailure
    from canonry.store.database import Database

_NAMES = tuple(field.name for field in fields(Webhook))
_COLUMNS = [webhooks.c[name] for name in _NAMES]
_NO_FAILURE: dict[str, Any] = {
    "failures": 0,
    "failure": "",
    "failure_kind": "",
    "failing_since": None,
    "retry_at": None,
}


class WebhookStore:
    """The webhooks of a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def add(self, url: str, now: datetime, *, after: int | None = None) -> tuple[Webhook, str]:
        """Add a webhook for the changes after a number, or for those to come, and return it with its new secret."""
        secret = make_secret()
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
        is_due = or_(retry_at.is_(None), retry_at <= stamp(now), retry_at > stamp(now + 2 * MAX_RETRY_AFTER))
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


def _add(connection: Connection, url: str, secret: str, now: str, after: int | None) -> Webhook:
    bounds = read_bounds(connection)
    if after is not None:
        bounds.check(after)
    values = {"url": url, "secret": secret, "position": bounds.last if after is None else after, "created_at": now}
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
