"""Workers that deliver changes to webhooks and are killed: every change arrives, in order (contract I8, I10)."""

from __future__ import annotations

import asyncio
import random
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from canonry.core.keys import Item
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument
from canonry.feeds.webhook_store import WebhookStore
from canonry.feeds.webhooks import WebhookState
from canonry.jobs.queues import Jobs
from canonry.jobs.webhook_jobs import DELIVER_JOB, enqueue_deliveries
from canonry.store.database import Database
from webhook_server import run_webhook_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.running import Workers

WORKER = Path(__file__).with_name("webhook_worker.py")
KILLS = 5
ITEMS = 60


def show(url: str, count: int) -> None:
    """Store a document with so many items."""

    async def merge() -> None:
        with Database(url) as database:
            store, now = FeedStore(database), datetime.now(UTC)
            feed, _ = await store.add("https://a.com/feed", now)
            items = tuple(Item(f"id-{number}") for number in range(count))
            document = FeedDocument(title="A", format="rss", hubs=(), items=items)
            await store.merge(feed.id, document, now, seen_ttl_days=30)

    asyncio.run(merge())


def add_webhook(url: str, target: str) -> int:
    with Database(url) as database:
        return asyncio.run(WebhookStore(database).add(target, datetime.now(UTC)))[0].id


@pytest.mark.slow
def test_killed_workers_deliver_every_change_in_order(database_url: str, workers: Callable[[str], Workers]) -> None:
    """Kills come while the server has a request, before and after it has answered; a dead webhook delays nothing."""
    chance = random.Random(20260131)
    running = workers(database_url)
    with run_webhook_server() as server:
        received = threading.Event()

        def answer(_: dict[str, Any]) -> int:
            received.set()
            return 500 if len(server.received) == 4 else 204  # and one failure, which is retried

        server.answer = answer
        dead = add_webhook(database_url, "http://127.0.0.1:1/")
        alive = add_webhook(database_url, server.url)
        process = running.start(script=WORKER)
        for number in range(1, KILLS + 1):
            shown = ITEMS * number // KILLS
            received.clear()
            show(database_url, shown)
            assert received.wait(240), running.read_logs()
            wanted = len(server.received) + chance.randint(0, 2)

            def is_enough(wanted: int = wanted, shown: int = shown) -> bool:
                return len(server.received) >= wanted or len(set(server.numbers)) == shown

            running.wait_for(is_enough)
            running.kill(process)
            process = running.start(script=WORKER)
        running.wait_for(lambda: len(set(server.numbers)) == ITEMS)
        with Database(database_url) as database:
            store = WebhookStore(database)
            running.wait_for(lambda: asyncio.run(store.get(alive)).position == ITEMS)
            stored = asyncio.run(store.get(dead))
    assert list(dict.fromkeys(server.numbers)) == list(range(1, ITEMS + 1))
    assert (stored.state, stored.position) == (WebhookState.ACTIVE, 0)
    assert stored.failures > 0


def test_a_delivery_is_queued_once_for_each_webhook_that_lacks_changes(database_url: str) -> None:
    first, second = (add_webhook(database_url, f"https://{name}.example/") for name in "ab")
    show(database_url, 1)
    third = add_webhook(database_url, "https://c.example/")  # begins with the next change
    with Database(database_url) as database, Jobs(database) as jobs:
        store = WebhookStore(database)

        async def enqueue() -> list[str]:
            for _ in range(2):
                await enqueue_deliveries(jobs, store, datetime.now(UTC))
            return await jobs.list_unfinished(DELIVER_JOB)

        queued = asyncio.run(enqueue())
    assert sorted(job.split("-")[1] for job in queued) == sorted([str(first), str(second)])
    assert third not in (first, second)
