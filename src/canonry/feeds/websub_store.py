"""Store the WebSub subscriptions of feeds; every method is one transaction (contract I11)."""

from __future__ import annotations

import secrets
from dataclasses import asdict, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, insert, or_, select, update

from canonry.core.keys import replace_unstorable
from canonry.errors import FeedNotFound
from canonry.feeds.feed_values import FeedStatus
from canonry.feeds.websub import MAX_REQUEST_WAIT, DueFeed, Subscription, SubscriptionState
from canonry.net.origin import Origin
from canonry.store.schema import feeds, stamp, websub_subscriptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from canonry.store.database import Database

_TOKEN_BYTES = 32
_MAX_REQUESTS = 50  # to hubs, in one run
_NAMES = tuple(field.name for field in fields(Subscription))
_COLUMNS = [websub_subscriptions.c[name] for name in _NAMES]


class WebSubStore:
    """The subscriptions of a database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def list_all(self) -> list[Subscription]:
        """Return all subscriptions, ordered by feed."""
        query = select(*_COLUMNS).order_by(websub_subscriptions.c.feed_id)
        return await self.database.read(lambda on: [_make(row) for row in on.execute(query)])

    async def find(self, feed_id: int) -> Subscription | None:
        """Return the subscription of a feed."""
        return await self.database.read(partial(_find, feed_id=feed_id))

    async def find_by_callback(self, callback: str) -> Subscription | None:
        """Return the subscription whose hub uses this URL."""
        query = select(*_COLUMNS).where(websub_subscriptions.c.callback == callback)
        row = await self.database.read(lambda on: on.execute(query).first())
        return None if row is None else _make(row)

    async def list_due(self, now: datetime, callbacks: str) -> list[DueFeed]:
        """Return the active feeds whose subscription is missing, outdated or due for a request.

        `callbacks` is the beginning of all callback URLs. An operator who changes it needs new subscriptions.
        """
        table = websub_subscriptions
        is_due = or_(
            table.c.feed_id.is_(None),
            table.c.next_at <= stamp(now),
            table.c.next_at > stamp(now + MAX_REQUEST_WAIT),
            table.c.named_hubs != feeds.c.hubs,
            table.c.named_topic != feeds.c.topic,
            ~table.c.callback.startswith(callbacks, autoescape=True),
        )
        query = (
            select(feeds.c.id, feeds.c.url, feeds.c.hubs, feeds.c.topic, feeds.c.hubs_origin)
            .outerjoin(table, table.c.feed_id == feeds.c.id)
            .where(feeds.c.status == FeedStatus.ACTIVE.value, feeds.c.hubs != "", is_due)
            .order_by(table.c.next_at, feeds.c.id)
            .limit(_MAX_REQUESTS)
        )

        def work(connection: Connection) -> list[DueFeed]:
            return [
                DueFeed(feed_id, url, hubs, topic, Origin.parse(origin), _find(connection, feed_id))
                for feed_id, url, hubs, topic, origin in connection.execute(query).all()
            ]

        return await self.database.read(work)

    async def start(self, feed: DueFeed, hub: str, topic: str, *, callbacks: str, next_at: datetime) -> Subscription:
        """Store that a hub is asked, and return the subscription.

        A renewal keeps callback and secret. Another hub, topic or public URL gets new ones. Raises FeedNotFound if the
        feed has been removed.
        """
        lock = select(feeds.c.id).where(feeds.c.id == feed.feed_id).with_for_update()

        def work(connection: Connection) -> Subscription:
            if connection.execute(lock).first() is None:
                raise FeedNotFound(feed.feed_id)
            old = _find(connection, feed.feed_id)
            is_same = old is not None and (old.hub, old.topic) == (hub, topic) and old.callback.startswith(callbacks)
            if old is not None and is_same:
                started = replace(old, is_requested=True, next_at=stamp(next_at))
            else:
                token, secret = secrets.token_urlsafe(_TOKEN_BYTES), secrets.token_urlsafe(_TOKEN_BYTES)
                started = Subscription(
                    feed_id=feed.feed_id,
                    hub=hub,
                    topic=topic,
                    callback=callbacks + token,
                    secret=secret,
                    state=SubscriptionState.PENDING,
                    is_requested=True,
                    failures=0 if old is None else old.failures,
                    failure="",
                    next_at=stamp(next_at),
                    expires_at=None,
                    pushed_at=None,
                    missed_at=None,
                )
            named = {"named_hubs": feed.hubs, "named_topic": feed.topic}
            if old is None:
                connection.execute(insert(websub_subscriptions).values(**_make_values(started), **named))
            else:
                _update(connection, started, **named)
            return started

        return await self.database.write(work)

    async def change(self, callback: str, decide: Callable[[Subscription], Subscription | None]) -> Subscription | None:
        """Change the subscription with this callback as `decide` says, and return it; None if nothing was changed."""

        def work(connection: Connection) -> Subscription | None:
            query = select(*_COLUMNS).where(websub_subscriptions.c.callback == callback)
            row = connection.execute(query.with_for_update()).first()  # all columns are written back
            changed = None if row is None else decide(_make(row))
            if changed is not None:
                _update(connection, changed)
            return changed

        return await self.database.write(work)

    async def delay_poll(self, feed_id: int, until: datetime) -> None:
        """Poll a feed no earlier than at a time, unless a person has set its interval."""
        is_later = or_(feeds.c.next_check_at.is_(None), feeds.c.next_check_at < stamp(until))
        is_free = and_(feeds.c.interval_seconds.is_(None), feeds.c.status == FeedStatus.ACTIVE.value)
        query = update(feeds).where(feeds.c.id == feed_id, is_later, is_free).values(next_check_at=stamp(until))
        await self.database.write(lambda on: on.execute(query))

    async def hasten_poll(self, feed_id: int, until: datetime) -> None:
        """Poll a feed no later than at a time."""
        is_later = or_(feeds.c.next_check_at.is_(None), feeds.c.next_check_at > stamp(until))
        query = update(feeds).where(feeds.c.id == feed_id, is_later).values(next_check_at=stamp(until))
        await self.database.write(lambda on: on.execute(query))


def _find(connection: Connection, feed_id: int) -> Subscription | None:
    row = connection.execute(select(*_COLUMNS).where(websub_subscriptions.c.feed_id == feed_id)).first()
    return None if row is None else _make(row)


def _update(connection: Connection, changed: Subscription, **named: str) -> None:
    is_same = websub_subscriptions.c.feed_id == changed.feed_id
    connection.execute(update(websub_subscriptions).where(is_same).values(**_make_values(changed), **named))


def _make_values(subscription: Subscription) -> dict[str, Any]:
    values = asdict(subscription)
    return {
        **values,
        "is_requested": int(subscription.is_requested),
        "failure": replace_unstorable(subscription.failure),
    }


def _make(row: Any) -> Subscription:
    values: dict[str, Any] = dict(zip(_NAMES, row, strict=True))
    values["state"] = SubscriptionState(values["state"])
    values["is_requested"] = bool(values["is_requested"])
    return Subscription(**values)
