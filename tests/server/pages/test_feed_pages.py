"""The pages of feeds over HTTP: follow, health, settings, OPML, webhooks (contract U2, I10, I11)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from canonry.core.url import parse
from canonry.errors import FailureKind
from canonry.feeds.opml import read_opml
from canonry.net.fetch import Client
from canonry.net.guard import Guard
from canonry.server.service import ServiceOptions
from server.pages.reader import make_posts, show_feed
from server.pages.visitor import FEED, Visitor, serve_web
from service import serving
from webhook_server import run_webhook_server

if TYPE_CHECKING:
    from collections.abc import Generator

    from server.pages.visitor import Page
    from service import Running

RUNS_JOBS = False
RSS: dict[str, Any] = {"headers": {"Content-Type": "application/rss+xml"}, "body": FEED.format(title="News")}
LINKS = '<!doctype html><title>A site</title><link rel=alternate type=application/rss+xml href="/rss" title=All><link rel=alternate type=application/rss+xml href="/comments" title=Comments>'
WEB = {
    "https://site.test/": {"headers": {"Content-Type": "text/html"}, "body": LINKS},
    "https://site.test/rss": RSS,
    "https://site.test/rss?utm_source=x": RSS,
    "https://site.test/comments": {**RSS, "body": FEED.format(title="Comments").replace("/1<", "/2<")},
    "https://site.test/plain": {"headers": {"Content-Type": "text/html"}, "body": "<!doctype html><p>Nothing"},
}


@pytest.fixture(scope="module")
def web_client() -> Generator[Any]:
    with serve_web(WEB) as web:
        yield web.client


@pytest.fixture
def reader(sqlite_url: str, web_client: Any) -> Generator[Visitor]:
    """A visitor of a service that reaches `site.test`."""
    with serving(sqlite_url, ServiceOptions(runs_jobs=False), client=web_client) as running:
        yield Visitor(running)


def list_feeds(visitor: Visitor) -> list[str]:
    return [feed["url"] for feed in visitor.running.get("/api/feeds").json()]


def verdicts(page: Page) -> list[str]:
    return [node.text() for node in page.tree.css(".tested .tag")]


def test_follow_a_page_then_its_twins(reader: Visitor) -> None:
    page = reader.post("/feeds/add", {"url": "site.test", "folder": " daily // world "})
    assert (page.status, page.notice) == (200, "followed")
    assert list_feeds(reader) == ["https://site.test/rss"]
    assert reader.running.get("/api/feeds/1").json()["folder"] == "daily/world"
    assert verdicts(page), "the evidence is shown"
    assert "https://site.test/comments" in page.text and "Follow Comments" in page.text, "the other feeds of the page"
    assert reader.running.get("/api/feeds/1").json()["title"] == "News"
    for twin in ("https://site.test/rss", "https://site.test/rss?utm_source=x", "https://site.test/"):
        page = reader.post("/feeds/add", {"url": twin})
        assert (page.status, page.notice) == (200, "known"), twin
        assert "/feeds/1" in page.links, "it says which subscription it is"
    assert list_feeds(reader) == ["https://site.test/rss"]


@pytest.mark.parametrize(
    ("url", "status", "error"),
    [
        ("https://site.test/plain", 422, "refused"),
        ("http://10.0.0.1/", 422, "refused"),
        ("https://closed.test/", 422, "refused"),
        ("javascript:alert(1)", 400, ""),
        ("", 400, ""),
    ],
)
def test_what_is_not_a_feed_is_not_followed(reader: Visitor, url: str, status: int, error: str) -> None:
    page = reader.post("/feeds/add", {"url": url})
    assert (page.status, page.notice) == (status, error)
    assert page.value("url") == url, "it can be corrected"
    assert (page.tree.css_first("#url-error") is not None) == (status == 400)
    assert list_feeds(reader) == []


def test_settings_are_changed_and_wrong_ones_explained(running: Running, visitor: Visitor) -> None:
    feed_id = show_feed(running, "news", make_posts("news", 1))
    path = f"/feeds/{feed_id}"
    fields = {
        "title": "Mine",
        "folder": "a/b",
        "interval": "90m",
        "timeout": "5s",
        "max_bytes": "2MB",
        "user_agent": "reader",
        "headers": "X-Key: secret\r\nX-Other: 1",
    }
    page = visitor.follow(visitor.post(f"{path}/settings", fields))
    assert page.notice == "changed"
    shown = {name: page.value(name) for name in fields}
    assert shown == {**fields, "headers": "X-Key: ***\nX-Other: ***"}
    assert "secret" not in page.text
    visitor.post(f"{path}/settings", {**shown, "headers": "X-Key: ***", "timeout": ""})
    stored = running.get(f"/api{path}").json()
    assert (stored["headers"], stored["timeout"], stored["interval"]) == ({"X-Key": "***"}, None, 5400)

    wrong = {**fields, "interval": "1s", "timeout": "soon", "max_bytes": "1", "headers": "Host: x"}
    page = visitor.post(f"{path}/settings", wrong)
    assert page.status == 400
    errors = {name for name in fields if page.tree.css_first(f"#{name}-error") is not None}
    assert errors == {"interval", "timeout", "max_bytes", "headers"}
    assert page.value("timeout") == "soon"
    assert visitor.post(f"{path}/settings", {**fields, "headers": "no colon"}).status == 400
    assert running.get(f"/api{path}").json() == stored
    for size, shown_size in ((5 * 2**20, "5MiB"), (16_000_000, "16MB"), (512 * 1024, "512KiB"), (1_234, "1234")):
        running.ask("PATCH", f"/api{path}", {"max_bytes": size})
        given = {name: visitor.get(path).value(name) for name in fields}
        assert given["max_bytes"] == shown_size
        visitor.post(f"{path}/settings", given)
        assert running.get(f"/api{path}").json()["max_bytes"] == size


def test_pause_resume_check_and_remove(running: Running, visitor: Visitor) -> None:
    feed_id = show_feed(running, "news", make_posts("news", 1))
    path = f"/feeds/{feed_id}"
    assert visitor.follow(visitor.post(f"{path}/pause")).notice == "paused"
    assert visitor.get("/feeds?show=paused").tree.css_first(f"#feed-{feed_id}") is not None
    assert visitor.post(f"{path}/poll").status == 409
    assert visitor.follow(visitor.post(f"{path}/resume")).notice == "resumed"
    assert visitor.get("/feeds?show=paused").tree.css_first(f"#feed-{feed_id}") is None
    assert visitor.follow(visitor.post(f"{path}/poll")).notice == "queued"
    assert visitor.follow(visitor.post(f"{path}/poll")).notice == "waiting"
    assert visitor.follow(visitor.post(f"{path}/remove")).notice == "removed"
    assert visitor.get(path).status == 404 and visitor.post(f"{path}/remove").status == 404
    assert running.get("/api/items").json() == []
    page = visitor.get("/feeds")
    restore = next(link for link in page.links if link.endswith("/restore"))
    page = visitor.follow(visitor.post(restore))
    assert page.notice == "restored" and len(running.get("/api/items").json()) == 1
    assert visitor.get("/feeds").tree.css_first("#removed") is None
    assert visitor.post(restore).status == 404


def test_the_list_says_what_is_wrong(running: Running, visitor: Visitor) -> None:
    names = ("works", "fails", "gone", "odd")
    ids = {name: show_feed(running, name, make_posts(name, 1), folder="f" if name == "odd" else "") for name in names}
    feeds, now = running.service.feeds, datetime.now(UTC)

    async def fail() -> None:
        await feeds.fail(ids["fails"], "answered 404", now, kind=FailureKind.STATUS, status=404)
        await feeds.fail(ids["gone"], "answered 410", now, kind=FailureKind.STATUS, status=410, is_gone=True)

    asyncio.run(fail())

    def listed(query: str) -> set[str]:
        page = visitor.get(f"/feeds{query}")
        return {name for name, each in ids.items() if page.tree.css_first(f"#feed-{each}") is not None}

    assert listed("") == set(names)
    assert listed("?show=problems") == {"fails", "gone"}
    assert listed("?q=FAILS") == {"fails"} and listed("?q=nothing") == set()
    page = visitor.get("/feeds")
    for name, has_reason in (("works", False), ("fails", True), ("gone", True)):
        assert (page.tree.css_first(f"#feed-{ids[name]} .why") is not None) == has_reason, name
        assert (visitor.get(f"/feeds/{ids[name]}").tree.css_first(".state.bad") is not None) == has_reason, name
    for query in ("?show=paused", "?show=problems&q=zzz", "?q=zzz"):
        assert visitor.get(f"/feeds{query}").tree.css_first(".empty a") is not None
    assert visitor.get("/feeds?show=nope").status == 400

    async def refuse() -> None:
        failure = "fails.test is a name of a local network"
        await feeds.fail(ids["fails"], failure, now, kind=FailureKind.REFUSED)

    asyncio.run(refuse())
    assert "Refused: fails.test is a name" in visitor.get("/feeds").words, "a host is not written with a capital letter"


OPML = b"""<opml version="2.0"><body><outline text="daily"><outline type="rss" text="One" xmlUrl="https://one.test/feed"/>
<outline type="rss" text="Twin" xmlUrl="http://one.test/feed/"/></outline>
<outline type="rss" text="Two" xmlUrl="https://user:pw@two.test/feed"/><outline type="rss" xmlUrl="javascript:x"/></body></opml>"""


def test_opml_in_and_out(running: Running, visitor: Visitor) -> None:
    assert visitor.get("/feeds").tree.css_first(".welcome") is not None
    page = visitor.upload("/feeds/import", "feeds.opml", OPML)
    assert (page.status, page.notice) == (200, "imported")
    assert len(page.tree.css("tbody tr")) == 2, "the twin and the refused one"
    assert "user:pw" not in page.text
    page = visitor.upload("/feeds/import", "feeds.opml", OPML)
    assert len(page.tree.css("tbody tr")) == 4
    exported = visitor.get("/feeds/export.opml").answer
    assert "attachment" in exported.headers["content-disposition"]
    feeds = {parse(feed.url).host: feed for feed in read_opml(exported.body)}
    assert (feeds["one.test"].folder, feeds["one.test"].title) == ("daily", "One")
    assert feeds["two.test"].url == "https://user:pw@two.test/feed", "an admin gets the passwords, as the command does"
    for name, content in (("x.opml", b"<html>"), ("", b"")):
        page = visitor.upload("/feeds/import", name, content)
        assert page.status == 400 and page.tree.css_first("#file-error") is not None
    assert len(list_feeds(visitor)) == 2


def test_webhooks_are_added_tested_and_removed(sqlite_url: str) -> None:
    def make_client() -> Client:
        return Client(Guard(["127.0.0.1/32"], range(1, 65536)))

    with (
        run_webhook_server() as server,
        serving(sqlite_url, ServiceOptions(runs_jobs=False), client=make_client) as running,
    ):
        visitor = Visitor(running)
        assert visitor.get("/feeds/webhooks").tree.css_first(".empty") is not None
        for url in ("nothing", "http://10.0.0.1/"):
            page = visitor.post("/feeds/webhooks", {"url": url})
            assert page.status == 400 and page.tree.css_first("#url-error") is not None
        page = visitor.post("/feeds/webhooks", {"url": server.url})
        assert (page.status, page.notice) == (201, "added")
        secret = page.tree.css_first("#secret")
        assert secret is not None
        assert secret.text() not in visitor.get("/feeds/webhooks").text, "shown once"
        page = visitor.post("/feeds/webhooks/1/test")
        assert page.notice == "test-accepted" and server.is_signed(secret.text())
        server.answer = lambda _: 500
        assert visitor.post("/feeds/webhooks/1/test").notice == "test-failed"
        assert visitor.follow(visitor.post("/feeds/webhooks/1/resume")).notice == "resumed"
        assert visitor.follow(visitor.post("/feeds/webhooks/1/remove")).notice == "removed"
        assert visitor.post("/feeds/webhooks/1/remove").status == 404
        assert running.get("/api/webhooks").json() == []
