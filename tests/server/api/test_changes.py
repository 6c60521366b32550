"""The change feed and webhooks over HTTP (contract I10)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from canonry.core.keys import Item
from canonry.feeds.changes import ChangeFeed
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument
from canonry.net.fetch import Client
from canonry.net.guard import Guard
from canonry.server.service import ServiceOptions
from canonry.settings import Settings
from feed_texts import ok, rss
from loopback import LoopbackWeb, in_a_loop
from service import Answer, Running, serving, until
from webhook_server import run_webhook_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canonry.store.database import Database

START = datetime(2026, 1, 1, tzinfo=UTC)
URL = "https://feeds.example/feed"
NO_JOBS = ServiceOptions(runs_jobs=False)


def make_client() -> Client:
    return Client(Guard(["127.0.0.0/8"], range(1, 65536)), settings=Settings())


def show(database: Database, *guids: str, day: int = 0) -> None:
    async def merge() -> None:
        store = FeedStore(database)
        feed, _ = await store.add("https://me:secret@a.com/feed", START)
        document = FeedDocument(title="A", format="rss", hubs=(), items=tuple(map(Item, guids)))
        await store.merge(feed.id, document, START + timedelta(days=day), seen_ttl_days=99)

    asyncio.run(merge())


@pytest.fixture
def service(sqlite_url: str) -> Iterator[Running]:
    with serving(sqlite_url, NO_JOBS, client=make_client) as running:
        yield running


def read(service: Running, query: str = "") -> Any:
    answer = service.get(f"/api/changes{query}")
    assert answer.status == 200
    return answer.json()


def test_changes_are_read_page_by_page(service: Running) -> None:
    assert read(service) == {"changes": [], "next": 0, "last": 0}
    show(service.service.database, "1", "2", "3")
    first = read(service, "?limit=2")
    assert ([change["number"] for change in first["changes"]], first["next"], first["last"]) == ([1, 2], 2, 3)
    second = read(service, "?limit=2&after=2")
    assert ([change["number"] for change in second["changes"]], second["next"]) == ([3], 3)
    assert read(service, "?after=3")["changes"] == []
    change = first["changes"][0]
    assert {name: change[name] for name in ("outcome", "guid", "feed_url", "published_at", "feeds", "enclosures")} == {
        "outcome": "new",
        "guid": "1",
        "feed_url": "https://***@a.com/feed",
        "published_at": None,
        "feeds": ["https://***@a.com/feed"],
        "enclosures": [],
    }
    assert "secret" not in service.get("/api/changes").text


@pytest.mark.parametrize("query", ["?after=-1", "?after=x", "?limit=0", "?limit=1001", f"?after={2**63}"])
def test_invalid_numbers_are_refused(service: Running, query: str) -> None:
    assert service.get(f"/api/changes{query}").status == 400


def test_changes_that_are_no_longer_stored_are_410(service: Running) -> None:
    show(service.service.database, "1", "2")
    show(service.service.database, "1", "2", "3", day=5)
    asyncio.run(ChangeFeed(service.service.database).delete_before(START + timedelta(days=1)))
    for after, continue_after in ((0, 2), (1, 2), (9, 3)):
        answer = service.get(f"/api/changes?after={after}")
        problem = answer.json()
        assert (answer.status, problem["type"]) == (410, "urn:canonry:problem:changes-lost")
        assert problem["continue_after"] == continue_after
    assert [change["number"] for change in read(service)["changes"]] == [3]


def test_a_webhook_is_added_tested_and_removed(service: Running) -> None:
    with run_webhook_server() as server:
        added = service.ask("POST", "/api/webhooks", {"url": server.url})
        assert added.status == 201
        webhook, secret = added.json()["webhook"], added.json()["secret"]
        where = added.headers["location"]
        assert service.get(where).json() == webhook
        assert service.get("/api/webhooks").json() == [webhook]
        assert (webhook["state"], webhook["position"]) == ("active", 0)
        assert secret not in service.get("/api/webhooks").text
        tested = service.ask("POST", f"{where}/test").json()
        assert (tested["is_accepted"], server.is_signed(secret)) == (True, True)
        server.answer = lambda _: 500
        tested = service.ask("POST", f"{where}/test").json()
        assert (tested["is_accepted"], tested["kind"]) == (False, "unavailable")
        assert service.ask("POST", f"{where}/resume").json() == webhook
        assert service.ask("DELETE", where).status == 204
        for method, path in (("GET", where), ("DELETE", where), ("POST", f"{where}/test"), ("POST", f"{where}/resume")):
            assert service.ask(method, path).status == 404


def test_webhooks_that_cannot_be_reached_are_refused(service: Running) -> None:
    for url in ("ftp://a.com/", "http://10.0.0.1/hook", "http://169.254.169.254/", "x y", ""):
        assert service.ask("POST", "/api/webhooks", {"url": url}).status == 400
    assert service.ask("POST", "/api/webhooks", {"url": "https://a.com/", "after": 5}).status == 410
    assert service.get("/api/webhooks").json() == []


def test_passwords_of_webhooks_are_masked(service: Running) -> None:
    added = service.ask("POST", "/api/webhooks", {"url": "https://me:hidden@a.com/"})
    assert "hidden" not in added.text + service.get("/api/webhooks").text


def test_all_users_read_changes_and_only_admins_have_webhooks(service: Running) -> None:
    users, now = service.service.users, service.service.clock()
    _, admin = asyncio.run(users.add("ada", now))
    _, token = asyncio.run(users.add("bob", now))
    where = service.ask("POST", "/api/webhooks", {"url": "https://a.com/"}, token=admin).headers["location"]
    assert service.get("/api/changes", token=token).status == 200
    assert service.get("/api/changes").status == 401
    for method, path in (
        ("GET", "/api/webhooks"),
        ("POST", "/api/webhooks"),
        ("GET", where),
        ("DELETE", where),
        ("POST", f"{where}/test"),
        ("POST", f"{where}/resume"),
    ):
        body = {"url": "https://a.com/"} if path == "/api/webhooks" and method == "POST" else None
        assert service.ask(method, path, body, token=token).status == 403


async def asked(service: Running, method: str, path: str, body: Any = None) -> Answer:
    return await asyncio.to_thread(partial(service.ask, method, path, body))


@in_a_loop
async def test_what_the_worker_finds_is_in_the_change_feed_and_is_delivered(database_url: str) -> None:
    """New and updated items of jobs reach both, without anybody else running."""
    with run_webhook_server() as server:
        pages: dict[str, Any] = {URL: {"sequence": [ok(rss("1", "2")), ok(rss("1", "2").replace("Post 2", "Edited"))]}}
        async with LoopbackWeb(pages) as web:
            client = partial(web.client, guard=Guard(["127.0.0.0/8"], range(1, 65536)))  # also for the webhook
            with serving(database_url, client=client) as service:
                await asked(service, "POST", "/api/webhooks", {"url": server.url})
                added = await asked(service, "POST", "/api/feeds", {"url": URL, "canonicalize": False})
                poll = f"/api/feeds/{added.json()['feed_id']}/poll"
                for last in (2, 3):
                    await asked(service, "POST", poll)

                    def has_arrived(last: int = last) -> bool:
                        return len(server.numbers) == last and bool(read(service)["last"] == last)

                    await asyncio.to_thread(until, has_arrived)
                changes = (await asked(service, "GET", "/api/changes")).json()["changes"]
    assert [change["outcome"] for change in changes] == ["new", "new", "updated"]
    assert server.numbers == [1, 2, 3]
