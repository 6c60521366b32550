"""The Google Reader API, asked as apps for feeds ask it (contract U2)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest

from canonry.server.service import ServiceOptions
from feed_texts import rss
from server.pages.visitor import add_user, create_owner_token
from service import Running, serving

if TYPE_CHECKING:
    from collections.abc import Generator

    from service import Answer

API = "/api/greader/reader/api/0"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
READ, STARRED = "user/-/state/com.google/read", "user/-/state/com.google/starred"
READING_LIST = "user/-/state/com.google/reading-list"
DATE = "Sat, 31 Jan 2026 10:00:00 GMT"
LONG_ID = "tag:google.com,2005:reader/item/"


class App:
    """Sends requests as NetNewsWire, Reeder and Fluent Reader do: a form to sign in, then its `Auth` in a header."""

    def __init__(self, running: Running, name: str, token: str) -> None:
        self.running = running
        body = urlencode({"Email": name, "Passwd": token, "service": "reader", "output": "json"}).encode()
        answer = running.ask("POST", "/api/greader/accounts/ClientLogin", body, headers=FORM, token="")
        assert answer.status == 200, answer.text
        lines = dict(line.split("=", 1) for line in answer.text.splitlines())
        self.headers = {"Authorization": f"GoogleLogin auth={lines['Auth']}"}

    def get(self, path: str, **parameters: str) -> Any:
        answer = self.running.get(f"{API}{path}?{urlencode({'output': 'json', **parameters})}", headers=self.headers)
        assert answer.status == 200, answer.text
        return answer.json()

    def send(self, path: str, *fields: tuple[str, str]) -> Answer:
        body = urlencode([("T", "token"), *fields]).encode()
        return self.running.ask("POST", f"{API}{path}", body, headers={**FORM, **self.headers})

    def list_ids(self, stream: str, **parameters: str) -> list[str]:
        return [each["id"] for each in self.get("/stream/items/ids", s=stream, n="1000", **parameters)["itemRefs"]]


@pytest.fixture
def running(sqlite_url: str) -> Generator[Running]:
    with serving(sqlite_url, ServiceOptions(runs_jobs=False)) as found:
        yield found


@pytest.fixture
def app(running: Running) -> App:
    add_items(running)
    return App(running, "anyone", create_owner_token(running))


def add_items(running: Running) -> None:
    """Store two feeds that share one item."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from canonry.feeds.feed_values import FeedDocument
    from canonry.feeds.opml import OpmlFeed
    from canonry.feeds.read import read_feed
    from canonry.feeds.subscriptions import import_unfetched

    service = running.service

    async def store() -> None:
        rows = [OpmlFeed("https://a.example/feed", folder="news"), OpmlFeed("https://b.example/feed")]
        for added, posts in zip(
            await import_unfetched(rows, service.feeds, now=service.clock()),
            (("one", "shared"), ("shared", "two")),
            strict=True,
        ):
            text = rss(*posts, title=added.url[8]).replace("<guid", f"<pubDate>{DATE}</pubDate><guid")
            document = read_feed(text.encode(), url=added.url)
            assert added.feed_id is not None
            await service.feeds.merge(
                added.feed_id,
                FeedDocument(document.title, "rss", (), document.items),
                service.clock(),
                seen_ttl_days=90,
            )

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, store()).result()


def test_an_app_reads_each_item_once_and_marks_it(app: App) -> None:
    """The requests of a first synchronization, in their order, then reading and starring."""
    assert app.running.get(f"{API}/token", headers=app.headers).status == 200
    feeds = app.get("/subscription/list")["subscriptions"]
    assert [(feed["title"], [each["label"] for each in feed["categories"]]) for feed in feeds] == [
        ("a", ["news"]),
        ("b", []),
    ]
    assert [tag["id"] for tag in app.get("/tag/list")["tags"]] == [STARRED, "user/-/label/news"]
    ids = app.list_ids(READING_LIST, xt=READ)
    assert len(ids) == len(set(ids)) == 3, "the shared item once"

    answer = app.send("/stream/items/contents", *(("i", f"{LONG_ID}{int(each):016x}") for each in ids))
    items = json.loads(answer.text)["items"]
    assert {item["title"] for item in items} == {"Post one", "Post shared", "Post two"}
    [shared] = [item for item in items if item["title"] == "Post shared"]
    assert shared["origin"]["title"] == "a" and "b" in shared["summary"]["content"]
    assert shared["published"] == 1769853600
    assert json.loads(answer.text)["updated"] == max(int(item["crawlTimeMsec"]) for item in items) // 1000
    assert {each["id"]: each["count"] for each in app.get("/unread-count")["unreadcounts"]} == {
        READING_LIST: 3, feeds[0]["id"]: 2, feeds[1]["id"]: 2, "user/-/label/news": 2,
    }  # fmt: skip

    assert app.send("/edit-tag", ("i", shared["id"]), ("a", READ), ("a", STARRED)).text == "OK"
    number = str(int(shared["id"].removeprefix(LONG_ID), 16))
    assert app.list_ids(STARRED) == [number]
    assert number not in app.list_ids(READING_LIST, xt=READ)
    [saved] = app.running.get("/api/bookmarks").json()
    assert saved["title"] == "Post shared"
    [item] = app.get(f"/stream/contents/{STARRED}")["items"]
    assert {READ, STARRED} <= set(item["categories"])
    assert app.send("/edit-tag", ("i", number), ("r", STARRED), ("r", READ)).status == 200
    assert app.running.get("/api/bookmarks").json() == [] and app.list_ids(STARRED) == []
    assert len(app.list_ids(READING_LIST, xt=READ)) == 3

    assert app.send("/mark-all-as-read", ("s", feeds[0]["id"])).status == 200
    assert len(app.list_ids(READING_LIST, xt=READ)) == 1
    assert app.send("/mark-all-as-read", ("s", STARRED)).status == 400


def test_pages_of_items_follow_each_other(app: App) -> None:
    first = app.get("/stream/items/ids", s=READING_LIST, n="2", r="o")
    second = app.get("/stream/items/ids", s=READING_LIST, n="2", r="o", c=first["continuation"])
    ids = [each["id"] for each in (*first["itemRefs"], *second["itemRefs"])]
    assert len(set(ids)) == 3 and "continuation" not in second
    assert app.list_ids("user/-/label/news") and app.list_ids("feed/https://b.example/feed")


def read_newest(app: App, title: str) -> tuple[str, int]:
    """Return the id of the stream of a feed, and the time of its newest item in microseconds."""
    [feed] = [each for each in app.get("/subscription/list")["subscriptions"] if each["title"] == title]
    [count] = [each for each in app.get("/unread-count")["unreadcounts"] if each["id"] == feed["id"]]
    return feed["id"], int(count["newestItemTimestampUsec"])


@pytest.mark.parametrize("unit", [1, 1000, 1_000_000], ids=["microseconds", "milliseconds", "seconds"])
def test_what_arrived_after_the_time_of_the_app_stays_unread(app: App, unit: int) -> None:
    _, until = read_newest(app, "a")
    ids = set(app.list_ids(READING_LIST, xt=READ))
    too_early = until // unit - 1
    assert app.send("/mark-all-as-read", ("s", READING_LIST), ("ts", str(too_early))).status == 200
    assert set(app.list_ids(READING_LIST, xt=READ)) == ids
    if unit == 1:  # the exact time of the newest item of the first feed
        assert app.send("/mark-all-as-read", ("s", READING_LIST), ("ts", str(until))).status == 200
        [left] = app.list_ids(READING_LIST, xt=READ)  # of the feed that was read later
        assert left in app.list_ids(read_newest(app, "b")[0])
    later = until // unit + 60_000_000 // unit
    assert app.send("/mark-all-as-read", ("s", READING_LIST), ("ts", str(later))).status == 200
    assert app.list_ids(READING_LIST, xt=READ) == []


@pytest.mark.parametrize("fields", [(("s", READING_LIST), ("ts", "soon")), (("s", READING_LIST), ("ts", "9" * 18)), ()])
def test_an_unclear_time_or_stream_marks_nothing(app: App, fields: tuple[tuple[str, str], ...]) -> None:
    assert app.send("/mark-all-as-read", *fields).status == 400
    assert len(app.list_ids(READING_LIST, xt=READ)) == 3


def test_a_folder_with_a_slash_and_a_plus_is_a_stream(app: App) -> None:
    feed, _ = read_newest(app, "a")
    folder = "user/-/label/a+b/c d"
    assert app.send("/subscription/edit", ("ac", "edit"), ("s", feed), ("a", folder)).status == 200
    assert [tag["id"] for tag in app.get("/tag/list")["tags"]] == [STARRED, folder]
    assert len(app.list_ids(folder)) == len(app.get(f"/stream/contents/{quote(folder, safe='')}")["items"]) == 2
    assert len(app.list_ids("user/1/label/a+b")) == 2, "with the folders in it"
    assert app.send("/mark-all-as-read", ("s", folder)).status == 200
    assert len(app.list_ids(READING_LIST, xt=READ)) == 1


def test_a_feed_is_taken_only_out_of_the_folder_it_is_in(app: App) -> None:
    feed, _ = read_newest(app, "a")
    new, old = "user/-/label/new", "user/-/label/old"
    for fields, folders in (
        ([("a", new)], [new]),
        ([("r", old)], [new]),
        ([("r", new), ("a", old)], [old]),
        ([("r", old)], []),
    ):
        assert app.send("/subscription/edit", ("ac", "edit"), ("s", feed), *fields).status == 200
        assert [tag["id"] for tag in app.get("/tag/list")["tags"]] == [STARRED, *folders]


def test_several_items_and_states_at_once(app: App) -> None:
    ids = app.list_ids(READING_LIST)
    every = [("i", each) for each in ids]
    assert app.send("/edit-tag", *every, ("i", "999999"), ("a", READ), ("a", STARRED)).text == "OK"
    assert set(app.list_ids(STARRED)) == set(ids) and app.list_ids(READING_LIST, xt=READ) == []
    assert app.send("/edit-tag", *every[:2], ("a", "user/-/state/com.google/kept-unread")).text == "OK"
    assert set(app.list_ids(STARRED, xt=READ)) == set(ids[:2]) == set(app.list_ids(READING_LIST, it=STARRED, xt=READ))
    excluded = urlencode([("s", READING_LIST), ("xt", STARRED), ("xt", READ)])
    answer = app.running.get(f"{API}/stream/items/ids?{excluded}", headers=app.headers)
    assert {each["id"] for each in answer.json()["itemRefs"]} == set(ids[:2]), "whichever is named first"


def test_pages_go_on_when_items_are_marked_between_them(app: App) -> None:
    first = app.get("/stream/items/ids", s=READING_LIST, n="1", xt=READ)
    app.send("/edit-tag", ("i", first["itemRefs"][0]["id"]), ("a", READ))
    second = app.get("/stream/items/ids", s=READING_LIST, n="1", xt=READ, c=first["continuation"])
    third = app.get("/stream/items/ids", s=READING_LIST, n="1", xt=READ, c=second["continuation"])
    assert len({each["itemRefs"][0]["id"] for each in (first, second, third)}) == 3 and "continuation" not in third


def test_the_only_output_is_json(app: App) -> None:
    for output, status in (("atom", 400), ("xml", 400), ("json", 200), ("", 200)):
        path = f"{API}/stream/contents/{READING_LIST}?output={output}"
        assert app.running.get(path, headers=app.headers).status == status
    assert app.running.get("/api/items.atom").text.startswith("<?xml")


def test_an_app_needs_a_token_and_an_admin_changes_feeds(running: Running) -> None:
    add_items(running)
    owner = create_owner_token(running)
    assert running.get(f"{API}/subscription/list", token="").status == 401, "also in personal mode"
    assert running.get(f"{API}/subscription/list", token=owner).status == 401, "only as these apps send it"
    admin, user = add_user(running, "ada"), add_user(running, "bob")
    bad = urlencode({"Email": "bob", "Passwd": admin}).encode()
    assert running.ask("POST", "/api/greader/accounts/ClientLogin", bad, headers=FORM, token="").status == 401
    app, other = App(running, "ada", admin), App(running, "bob", user)
    [feed, _] = app.get("/subscription/list")["subscriptions"]
    rename = (("ac", "edit"), ("s", feed["id"]), ("t", "Renamed"), ("a", "user/-/label/x"))
    assert other.send("/subscription/edit", *rename).status == 403
    assert app.send("/subscription/edit", *rename).status == 200
    assert app.get("/subscription/list")["subscriptions"][0]["title"] == "Renamed"
    [first, *_] = app.list_ids(READING_LIST)
    app.send("/edit-tag", ("i", first), ("a", READ))
    assert first in other.list_ids(READING_LIST, xt=READ), "each user has their own state"
    evil = {**FORM, **app.headers, "Origin": "https://evil.example"}
    assert running.ask("POST", f"{API}/edit-tag", b"", headers=evil).status == 403


@pytest.mark.parametrize("item", ["", "x", "-1", "0", "9" * 30, LONG_ID, f"{LONG_ID}zz", "²"])
def test_an_invalid_item_is_refused(app: App, item: str) -> None:
    assert app.send("/edit-tag", ("i", item), ("a", READ)).status == 400
