"""Hubs reach the service at `/websub/…`: subscriptions are confirmed, pushes cause polls (contract I11)."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from canonry.feeds.feed_store import FeedStore
from canonry.feeds.polling import Polling, poll_feed
from canonry.feeds.websub import MAX_PUSH_BYTES, HubRequests, Subscription, SubscriptionState
from canonry.feeds.websub_store import WebSubStore
from canonry.net.origin import Origin
from canonry.server.service import ServiceOptions
from canonry.store.database import Database
from hub_server import CHALLENGE, HubServer, run_hub
from loopback import make_client
from service import Running, serving, until

if TYPE_CHECKING:
    from collections.abc import Generator

PUBLIC_URL = "https://feeds.example.net"


@dataclass
class Pushed:
    """A service, a hub, and a feed that is subscribed at it."""

    service: Running
    hub: HubServer
    database_url: str

    def read(self) -> Subscription:
        with Database(self.database_url) as database:
            [found] = asyncio.run(WebSubStore(database).list_all())
        return found

    def count_items(self) -> int:
        return len(self.service.get("/api/items").json())


async def subscribe(database_url: str, hub: HubServer) -> None:
    """Follow the feed of the hub, poll it, and ask the hub for a subscription; an hour ago."""
    then = datetime.now(UTC) - timedelta(hours=1)
    with Database(database_url) as database:
        async with make_client(timeout=120) as client:  # the hub answers when the service has confirmed
            feeds = FeedStore(database)
            feed, _ = await feeds.add(f"{hub.url}/feed", then, origin=Origin.PERSON)
            await poll_feed(feed, feeds, Polling(client.fetch, clock=lambda: then))
            requests = HubRequests(WebSubStore(database), client.fetch, PUBLIC_URL, clock=lambda: then)
            assert await requests.request_due() == 1


@contextmanager
def pushing(database_url: str, *, runs_jobs: bool = False, public_url: str = PUBLIC_URL) -> Generator[Pushed]:
    options = ServiceOptions(runs_jobs=runs_jobs)
    with run_hub() as hub, serving(database_url, options, public_url=public_url) as service:
        hub.service_port = service.port
        asyncio.run(subscribe(database_url, hub))
        yield Pushed(service, hub, database_url)


def test_a_hub_confirms_and_a_push_causes_a_poll(database_url: str) -> None:
    """In personal mode, and through a reverse proxy: every other path refuses such requests."""
    with pushing(database_url, runs_jobs=True) as pushed:
        assert pushed.hub.confirmed == [(200, CHALLENGE)]
        assert pushed.read().state is SubscriptionState.ACTIVE
        assert pushed.count_items() == 1
        pushed.hub.items = 3
        assert pushed.hub.push() == 202
        until(lambda: pushed.count_items() == 3)
        assert pushed.read().pushed_at is not None


@pytest.mark.parametrize("algorithm", ["sha1", "sha512"])
def test_other_algorithms_sign_as_well(sqlite_url: str, algorithm: str) -> None:
    with pushing(sqlite_url) as pushed:
        assert pushed.hub.push(algorithm=algorithm) == 202
        assert pushed.read().pushed_at is not None


def test_a_push_with_a_wrong_signature_changes_nothing(sqlite_url: str) -> None:
    with pushing(sqlite_url) as pushed:
        before = pushed.service.get("/api/feeds").json()
        assert pushed.hub.push(secret="wrong") == 202
        path = urlsplit(pushed.hub.requests[-1]["hub.callback"]).path
        assert pushed.service.ask("POST", path, b"<feed/>").status == 202  # no signature
        assert pushed.read().pushed_at is None
        assert pushed.service.get("/api/feeds").json() == before


def test_unknown_and_unasked_requests_are_refused(sqlite_url: str) -> None:
    with pushing(sqlite_url) as pushed:
        hub = pushed.hub
        assert hub.verify()[0] == 404  # it is confirmed already
        assert hub.verify(mode="unsubscribe")[0] == 404
        assert hub.verify(topic="https://b.com/feed", mode="denied")[0] == 404
        assert hub.push(path="/websub/unknown") == 410
        assert pushed.service.get("/websub/unknown?hub.mode=subscribe&hub.challenge=x").status == 404
        path = urlsplit(hub.requests[-1]["hub.callback"]).path
        assert pushed.service.ask("POST", path, b"x" * (MAX_PUSH_BYTES + 1)).status == 413
        assert pushed.service.ask("PUT", path, b"x").status == 405
        assert pushed.read().state is SubscriptionState.ACTIVE
        assert hub.verify(mode="denied", reason="moved <b>")[0] == 200
        assert pushed.read().state is SubscriptionState.DENIED


def test_pushes_cause_at_most_one_poll_a_minute(sqlite_url: str) -> None:
    with pushing(sqlite_url, runs_jobs=True) as pushed:
        assert [pushed.hub.push() for _ in range(3)] == [202, 202, 202]
        until(lambda: pushed.hub.fetched == 2)
        pushed.hub.items = 2
        assert pushed.hub.push() == 202
        [feed] = pushed.service.get("/api/feeds").json()
        last, following = (datetime.fromisoformat(feed[name]) for name in ("last_checked_at", "next_check_at"))
        assert timedelta(0) <= following - last <= timedelta(seconds=61)


def test_without_a_public_url_hubs_are_not_answered(sqlite_url: str) -> None:
    options = ServiceOptions(runs_jobs=False)
    with serving(sqlite_url, options) as service:
        assert service.get("/websub/x").status == 404
        assert service.ask("POST", "/websub/x", b"x").status == 410
        assert service.get("/websub/x", headers={"X-Forwarded-For": "203.0.113.9"}).status == 403


def test_only_the_callbacks_are_open(sqlite_url: str) -> None:
    with serving(sqlite_url, ServiceOptions(runs_jobs=False), public_url=PUBLIC_URL) as service:
        headers = {"X-Forwarded-For": "203.0.113.9", "Host": "feeds.example.net"}
        statuses = {
            "/": 403,
            "/api/feeds": 403,
            "/websub": 403,
            "/websub/../api/feeds": 404,
            "/websub/%2e%2e/api/feeds": 404,
            "//websub/x": 403,
        }
        for path, status in statuses.items():
            assert service.get(path, headers=headers).status == status, path
            assert "last_checked_at" not in service.get(path, headers=headers).text
        assert service.get("/api/feeds", headers=headers).status == 403
