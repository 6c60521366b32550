"""Webhooks: every change in order, at least once, signed; retries, backoff, pause (contract I10)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from canonry.core.keys import Item
from canonry.errors import ChangesLost, FailureKind, WebhookNotFound
from canonry.feeds import webhooks
from canonry.feeds.changes import ChangeFeed
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument
from canonry.feeds.webhook_store import WebhookStore
from canonry.feeds.webhooks import (
    Deliveries,
    DeliveryFailure,
    Webhook,
    WebhookState,
    choose_retry,
    mask_webhook,
    sign,
)
from canonry.net.fetch import Client
from canonry.net.guard import Guard
from canonry.settings import Settings
from canonry.store.database import Database
from canonry.store.schema import stamp
from webhook_server import WebhookServer, run_webhook_server

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

START = datetime(2026, 1, 1, tzinfo=UTC)
ACTIVE, PAUSED = WebhookState.ACTIVE, WebhookState.PAUSED
HOOK = Webhook(1, "https://x.example/", ACTIVE, 0, 0, "", None, None, None, None, stamp(START))
DOWN = DeliveryFailure(FailureKind.CONNECT, "refused")


def failed(count: int, days: float = 0) -> Webhook:
    return replace(HOOK, failures=count, failing_since=stamp(START - timedelta(days=days)))


RETRIES = [
    # why                        before            failure                                              seconds; None: paused
    ("first failure", HOOK, DOWN, 10.0),
    ("doubles", failed(1), DOWN, 20.0),
    ("and again", failed(4), DOWN, 160.0),
    ("an hour at most", failed(500), DOWN, 3600.0),
    ("nearly three days", failed(90, days=2.9), DOWN, 3600.0),
    ("three days", failed(90, days=3), DOWN, None),
    ("gone for good", HOOK, DeliveryFailure(FailureKind.STATUS, "", 410), None),
    ("not found may come back", HOOK, DeliveryFailure(FailureKind.STATUS, "", 404), 10.0),
    ("the server asks for more", HOOK, DeliveryFailure(FailureKind.UNAVAILABLE, "", 503, 900.0), 900.0),
    ("the server asks for less", failed(4), DeliveryFailure(FailureKind.UNAVAILABLE, "", 503, 5.0), 160.0),
    ("the server asks for too much", HOOK, DeliveryFailure(FailureKind.UNAVAILABLE, "", 429, 1e9), 86400.0),
    ("failing since tomorrow: the clock was wrong", failed(1, days=-1), DOWN, 20.0),
]


@pytest.mark.parametrize(("webhook", "failure", "wait"), [row[1:] for row in RETRIES], ids=[row[0] for row in RETRIES])
def test_when_to_try_again(webhook: Webhook, failure: DeliveryFailure, wait: float | None) -> None:
    wanted = None if wait is None else START + timedelta(seconds=wait)
    assert choose_retry(webhook, failure, now=START, chance=0.5) == wanted


def test_a_signature_is_that_of_standard_webhooks() -> None:
    """The example of https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md."""
    found = sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp="1614265330",
        body=b'{"test": 2432232314}',
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


class Hooks:
    """A store, webhooks and deliveries at a time that the test sets."""

    def __init__(self, database: Database, server: WebhookServer) -> None:
        self.database = database
        self.feeds = FeedStore(database)
        self.store = WebhookStore(database)
        self.server = server
        self.now = START

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(work)

    def add(self, url: str = "", after: int | None = None) -> tuple[Webhook, str]:
        added: tuple[Webhook, str] = self.run(self.store.add(url or self.server.url, self.now, after=after))
        return added

    def show(self, *guids: str, day: int = 0, title: str = "") -> None:
        async def show() -> None:
            feed, _ = await self.feeds.add("https://a.com/feed", START)
            items = tuple(Item(guid, title=title) for guid in guids)
            document = FeedDocument(title="A", format="rss", hubs=(), items=items)
            await self.feeds.merge(feed.id, document, START + timedelta(days=day), seen_ttl_days=999)

        self.run(show())

    def deliver(self, webhook: Webhook, networks: tuple[str, ...] = ("127.0.0.0/8",)) -> int:
        return int(self.run(self._with_client(networks, lambda deliveries: deliveries.deliver(webhook.id))))

    def send_test(self, webhook: Webhook) -> DeliveryFailure | None:
        found: DeliveryFailure | None = self.run(
            self._with_client(("127.0.0.0/8",), lambda deliveries: deliveries.send_test(webhook.id))
        )
        return found

    async def _with_client(self, networks: tuple[str, ...], work: Any) -> Any:
        async with Client(Guard(list(networks), range(1, 65536)), settings=Settings()) as client:
            return await work(Deliveries(self.store, client.fetch, clock=lambda: self.now, chance=lambda: 0.5))

    def get(self, webhook: Webhook) -> Webhook:
        found: Webhook = self.run(self.store.get(webhook.id))
        return found

    def list_due(self) -> list[int]:
        found: list[int] = self.run(self.store.list_due(self.now))
        return found


@pytest.fixture
def server() -> Iterator[WebhookServer]:
    with run_webhook_server() as found:
        yield found


@pytest.fixture
def hooks(database_url: str, server: WebhookServer) -> Iterator[Hooks]:
    with Database(database_url) as database:
        yield Hooks(database, server)


def test_changes_are_delivered_in_batches_in_order(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MAX_BATCH_CHANGES", 2)
    hooks.show("0")
    webhook, secret = hooks.add()
    assert webhook.position == 1
    hooks.show("0", *[str(number) for number in range(1, 6)], day=1)
    assert hooks.list_due() == [webhook.id]
    assert hooks.deliver(webhook) == 5
    assert [[change["guid"] for change in payload["changes"]] for payload in hooks.server.received] == [
        ["1", "2"],
        ["3", "4"],
        ["5"],
    ]
    assert [payload["next"] for payload in hooks.server.received] == [3, 5, 6]
    assert all(hooks.server.is_signed(secret, number) for number in range(3))
    assert not hooks.server.is_signed("whsec_AAAA")
    assert hooks.server.requests[0]["webhook-timestamp"] == str(int(START.timestamp()))
    assert (hooks.get(webhook).position, hooks.get(webhook).delivered_at) == (6, stamp(START))
    assert hooks.list_due() == []
    assert hooks.deliver(webhook) == 0


def test_a_large_batch_is_split(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_MAX_BATCH_CHARS", 5000)
    webhook, _ = hooks.add()
    hooks.show("1", "2", "3", title="x" * 3000)
    assert hooks.deliver(webhook) == 3
    assert [len(payload["changes"]) for payload in hooks.server.received] == [1, 1, 1]


def test_a_webhook_may_begin_with_older_changes(hooks: Hooks) -> None:
    hooks.show("1", "2", "3")
    webhook, _ = hooks.add(after=1)
    hooks.deliver(webhook)
    assert hooks.server.numbers == [2, 3]
    with pytest.raises(ChangesLost):
        hooks.add(after=4)


def test_the_position_is_stored_only_after_success(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MAX_BATCH_CHANGES", 1)
    webhook, _ = hooks.add()
    hooks.show("1", "2", "3")
    hooks.server.answer = lambda payload: 503 if payload["changes"][0]["guid"] == "2" else 200
    assert hooks.deliver(webhook) == 1
    stored = hooks.get(webhook)
    assert (stored.position, stored.failures, stored.failure_kind, stored.state) == (
        1,
        1,
        FailureKind.UNAVAILABLE,
        ACTIVE,
    )
    assert stored.retry_at == stamp(START + timedelta(seconds=10))
    assert hooks.list_due() == []
    hooks.now = START + timedelta(seconds=10)
    assert hooks.list_due() == [webhook.id]
    hooks.server.answer = lambda _: 200
    assert hooks.deliver(webhook) == 2
    assert hooks.server.numbers == [1, 2, 3]
    ids = [headers["webhook-id"] for headers in hooks.server.requests]
    assert ids[1] == ids[2]  # a retry has the id of the first attempt
    assert len(set(ids)) == 3
    stored = hooks.get(webhook)
    assert (stored.failures, stored.failure, stored.failing_since, stored.retry_at) == (0, "", None, None)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (500, FailureKind.UNAVAILABLE),
        (404, FailureKind.STATUS),
        (302, FailureKind.STATUS),
        (0, FailureKind.DISCONNECTED),
    ],
)
def test_every_answer_but_2xx_is_a_failure(hooks: Hooks, status: int, kind: FailureKind) -> None:
    webhook, _ = hooks.add()
    hooks.show("1")
    hooks.server.answer = lambda _: status
    hooks.server.headers = {"Location": f"http://127.0.0.1:{hooks.server.port}/other"} if status == 302 else {}
    assert hooks.deliver(webhook) == 0
    assert (hooks.get(webhook).failure_kind, hooks.get(webhook).position) == (kind, 0)
    assert len(hooks.server.requests) == 1  # a redirect is not followed


def test_retry_after_is_respected(hooks: Hooks) -> None:
    webhook, _ = hooks.add()
    hooks.show("1")
    hooks.server.answer, hooks.server.headers = lambda _: 429, {"Retry-After": "600"}
    hooks.deliver(webhook)
    assert hooks.get(webhook).retry_at == stamp(START + timedelta(seconds=600))


def test_a_dead_webhook_is_paused_and_can_be_resumed(hooks: Hooks) -> None:
    dead, _ = hooks.add("http://127.0.0.1:1/")
    alive, _ = hooks.add()
    hooks.show("1")
    for day in (0, 1, 4):
        hooks.now = START + timedelta(days=day)
        hooks.deliver(dead)
    stored = hooks.get(dead)
    assert (stored.state, stored.failures, stored.failure_kind, stored.position) == (PAUSED, 3, FailureKind.CONNECT, 0)
    assert stored.failing_since == stamp(START)
    assert hooks.list_due() == [alive.id]
    assert hooks.deliver(dead) == 0
    assert hooks.get(dead).failures == 3  # nothing is sent while it is paused
    assert hooks.deliver(alive) == 1
    resumed = hooks.run(hooks.store.resume(dead.id))
    assert (resumed.state, resumed.failures, resumed.position) == (ACTIVE, 0, 0)
    assert hooks.list_due() == [dead.id]


def test_an_address_that_the_guard_refuses_is_not_reached(hooks: Hooks) -> None:
    webhook, _ = hooks.add()
    hooks.show("1")
    assert hooks.deliver(webhook, networks=()) == 0
    assert hooks.get(webhook).failure_kind is FailureKind.REFUSED
    assert hooks.server.requests == []


def test_changes_that_are_no_longer_stored_are_named_in_the_request(hooks: Hooks) -> None:
    webhook, _ = hooks.add()
    hooks.show("1", "2")
    hooks.show("1", "2", "3", day=5)
    hooks.run(ChangeFeed(hooks.database).delete_before(START + timedelta(days=1)))
    assert hooks.deliver(webhook) == 1
    assert [(payload["lost"], payload["next"]) for payload in hooks.server.received] == [
        ({"after": 0, "through": 2}, 3)
    ]


def test_two_workers_do_not_move_a_webhook_back(hooks: Hooks) -> None:
    webhook, _ = hooks.add()
    hooks.show("1", "2")
    assert hooks.run(hooks.store.save_delivery(webhook, 2, START))
    assert not hooks.run(hooks.store.save_delivery(webhook, 1, START))
    assert hooks.get(webhook).position == 2


def test_a_retry_time_of_a_wrong_clock_is_ignored(hooks: Hooks) -> None:
    webhook, _ = hooks.add()
    hooks.show("1")
    retry_at = START + timedelta(days=400)
    hooks.run(hooks.store.save_failure(webhook, DOWN, now=START, retry_at=retry_at))
    assert hooks.list_due() == [webhook.id]


def test_a_test_request_has_no_changes_and_moves_nothing(hooks: Hooks) -> None:
    webhook, secret = hooks.add()
    hooks.show("1")
    assert hooks.send_test(webhook) is None
    assert [(payload["type"], payload["changes"]) for payload in hooks.server.received] == [("canonry.test", [])]
    assert hooks.server.is_signed(secret)
    hooks.server.answer = lambda _: 401
    failure = hooks.send_test(webhook)
    assert failure is not None and failure.status == 401
    assert hooks.get(webhook) == webhook


def test_a_webhook_that_was_removed_is_not_found(hooks: Hooks) -> None:
    webhook, _ = hooks.add()
    hooks.run(hooks.store.remove(webhook.id))
    for work in (hooks.store.get, hooks.store.remove, hooks.store.resume, hooks.store.get_secret):
        with pytest.raises(WebhookNotFound):
            hooks.run(work(webhook.id))


def test_credentials_are_sent_and_not_shown(hooks: Hooks) -> None:
    webhook, _ = hooks.add(hooks.server.url.replace("//", "//me:secret@"))
    hooks.show("1")
    assert hooks.deliver(webhook) == 1
    assert hooks.server.requests[0]["authorization"].startswith("Basic ")
    assert "secret" not in str(mask_webhook(webhook))


def test_a_failure_does_not_undo_what_another_process_has_delivered(hooks: Hooks) -> None:
    added, _ = hooks.add()
    hooks.show("1")
    stale = replace(hooks.get(added), failing_since=stamp(START - timedelta(days=9)))
    assert hooks.run(hooks.store.save_delivery(stale, 1, START))
    hooks.run(hooks.store.save_failure(stale, DOWN, now=START, retry_at=None))
    found = hooks.get(added)
    assert (found.state, found.position, found.failures) == (WebhookState.ACTIVE, 1, 0)
