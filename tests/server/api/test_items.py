"""Items over HTTP: each once, filtered, page by page, and as feeds that readers can follow (contract I9)."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import TYPE_CHECKING

import feedparser  # type: ignore[import-untyped,unused-ignore]
import pytest

from canonry.core.keys import Item
from canonry.feeds.feed_values import FeedDescription, FeedDocument
from canonry.feeds.read import read_feed
from canonry.server.service import ServiceOptions
from service import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service import Answer, Running

A, B = "https://me:secret@a.example/feed", "https://b.example/feed"
FEED_PATHS = ["/api/items.atom", "/api/items.json", "/api/feeds/1/items.atom", "/api/feeds/1/items.json"]


@pytest.fixture
def service(database_url: str) -> Iterator[Running]:
    """A service with two feeds that share post 2; b is in the folder `news`."""
    with serving(database_url, ServiceOptions(runs_jobs=False)) as running:
        asyncio.run(fill(running))
        yield running


async def fill(running: Running) -> None:
    feeds, now = running.service.feeds, running.service.clock()
    for url, folder, numbers in ((A, "", (1, 2)), (B, "news", (2, 3))):
        feed, _ = await feeds.add(url, now, description=FeedDescription(folder=folder))
        items = tuple(Item(f"guid-{n}", f"https://me:secret@a.example/{n}", f"Post {n}") for n in numbers)
        await feeds.merge(feed.id, FeedDocument("Blog", "rss", (), items), now, seen_ttl_days=30)


def titles(answer: Answer) -> list[str]:
    assert answer.status == 200
    return sorted(item["title"] for item in answer.json())


def test_items_are_listed_once_with_their_feeds(service: Running) -> None:
    answer = service.get("/api/items")
    assert titles(answer) == ["Post 1", "Post 2", "Post 3"]
    [shared] = [item for item in answer.json() if item["title"] == "Post 2"]
    assert [feed["url"] for feed in shared["feeds"]] == ["https://***@a.example/feed", B]
    assert shared["url"] == "https://***@a.example/2"
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("feed=1", ["Post 1", "Post 2"]),
        (f"feed={B}", ["Post 2", "Post 3"]),
        ("folder=news", ["Post 2", "Post 3"]),
        ("q=POST%203", ["Post 3"]),
        ("duplicates=true", ["Post 2"]),
        ("since=2999-01-01", []),
        ("until=2001-01-01", []),
    ],
)
def test_filters_choose_the_items(service: Running, query: str, wanted: list[str]) -> None:
    assert titles(service.get(f"/api/items?{query}")) == wanted
    for path in ("/api/items.atom", "/api/items.json"):
        found = read_feed(service.get(f"{path}?{query}").body)
        assert sorted(item.title for item in found.items) == wanted


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/items?feed=77", 404),
        ("/api/items?feed=https://c.example/", 404),
        ("/api/items?feed=no%20url", 404),
        ("/api/items?feed=99999999999999999999", 404),
        ("/api/items.atom?feed=77", 404),
        ("/api/feeds/77/items.json", 404),
        ("/api/items?cursor=x", 400),
        ("/api/items.atom?cursor=%00", 400),
        ("/api/items?limit=0", 400),
        ("/api/items?since=soon", 400),
    ],
)
def test_what_cannot_be_listed_is_refused(service: Running, path: str, status: int) -> None:
    assert service.get(path).status == status


def test_pages_follow_the_link_header(service: Running) -> None:
    path, found = "/api/items?limit=1&q=post", list[str]()
    while path:
        answer = service.get(path)
        found += titles(answer)
        path = answer.headers.get("link", "").partition(">")[0].removeprefix("<")
    assert sorted(found) == ["Post 1", "Post 2", "Post 3"]


@pytest.mark.parametrize("path", FEED_PATHS)
def test_readers_can_follow_the_items(service: Running, path: str) -> None:
    answer = service.get(f"{path}?limit=1")
    assert answer.status == 200
    feed = read_feed(answer.body, content_type=answer.headers["content-type"])
    assert not feed.is_recovered
    assert feed.self_url == f"{service.url}{path}?limit=1"
    assert len(feed.items) == 1
    assert "secret" not in answer.text
    again = service.get(f"{path}?limit=1", headers={"If-None-Match": f'W/{answer.headers["etag"]}, "x"'})
    assert (again.status, again.body) == (304, b"")
    asyncio.run(fill(service))  # a poll without news changes nothing
    assert service.get(f"{path}?limit=1").headers["etag"] == answer.headers["etag"]


def test_pages_of_the_atom_feed_are_linked(service: Running) -> None:
    found: list[str] = []
    path = "/api/items.atom?limit=2"
    while path:
        feed = feedparser.parse(service.get(path).body)
        assert not feed.bozo
        found += [entry.title for entry in feed.entries]
        following = [link.href for link in feed.feed.links if link.rel == "next"]
        path = following[0].removeprefix(service.url) if following else ""
    assert sorted(found) == ["Post 1", "Post 2", "Post 3"]


def test_a_reader_gives_the_token_as_its_password(service: Running) -> None:
    _, token = asyncio.run(service.service.users.add("ada", service.service.clock()))

    def get(path: str, password: str | None) -> Answer:
        pair = f"me:{password}".encode()
        headers = {} if password is None else {"Authorization": f"Basic {b64encode(pair).decode()}"}
        return service.get(path, headers=headers, token="")

    for path in FEED_PATHS:
        assert get(path, token).status == 200
        assert get(path, "wrong").status == 401
        refused = get(path, None)
        assert (refused.status, refused.headers["www-authenticate"].split()[0]) == (401, "Basic")
        assert service.get(path, headers={"Authorization": "Basic §"}, token="").status == 401
    assert get("/api/items", token).status == 401  # programs send the token in its own header
