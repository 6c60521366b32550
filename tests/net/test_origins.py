"""Contract G4, G4b: whoever names a URL decides what it may reach, also after names have changed their address.

127.0.0.2 stands for the public internet, 127.0.0.3 for an intranet that the operator allows. In each test a public
server tries to lead canonry into the intranet.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import canonry
import loopback
from canonry.bookmarks.bookmark import Bookmark, ExpansionState
from canonry.bookmarks.draft import Draft
from canonry.bookmarks.expand import expand
from canonry.bookmarks.page_reading import find_origin
from canonry.bookmarks.save import Bookmarks
from canonry.crawler.crawl import crawl
from canonry.errors import FailureKind, RefusalKind, UnsafeUrl
from canonry.feeds.canonicalize import canonicalize
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.ingest import ingest
from canonry.feeds.polling import Polling, poll_feed
from canonry.feeds.subscriptions import add_feed
from canonry.net.fetch import Client
from canonry.net.guard import Guard
from canonry.net.origin import Origin, OriginKind
from canonry.net.sitemap import NamedUrl, iter_sitemap_pages
from canonry.settings import Settings
from canonry.store.database import Database
from feed_texts import moved, ok, rss
from flipping_web import INTRANET, FlippingWeb
from loopback import ADDRESS, EVERY_PORT, Listener, in_a_loop, make_http_response, read_request, refuses

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from canonry.crawler.pages import Page

NOW = datetime(2026, 1, 31, tzinfo=UTC)
HTML = {"Content-Type": "text/html"}


@pytest.fixture(autouse=True)
def _public_address(monkeypatch: pytest.MonkeyPatch) -> None:
    loopback.make_public(monkeypatch)


def html(body: str) -> dict[str, Any]:
    return {"headers": HTML, "body": body}


def sitemap(*urls: str, kind: str = "url") -> dict[str, Any]:
    listed = "".join(f"<{kind}><loc>{url}</loc></{kind}>" for url in urls)
    return {"body": f"<urlset>{listed}</urlset>"}


async def crawl_all(web: FlippingWeb, seed: str, database: Database | str = "sqlite://", **options: Any) -> list[Page]:
    async with web.client() as client:
        pages = crawl(seed, client=client, engine="http", store=database, backoff=0.01, retries=0, **options)
        return [page async for page in pages]


# The value itself


@pytest.mark.parametrize(
    "origin",
    [
        Origin.PERSON,
        Origin.UNKNOWN,
        Origin.from_server("10.0.0.1"),
        Origin.from_server("fd00::1"),
        Origin.from_server("x.corp"),
    ],
)
def test_an_origin_survives_the_store(origin: Origin) -> None:
    assert Origin.parse(str(origin)) == origin


@pytest.mark.parametrize("text", ["", "server:", "Person", "person ", "10.0.0.1", "anything"])
def test_any_other_text_is_an_unknown_origin(text: str) -> None:
    assert Origin.parse(text) == Origin.UNKNOWN
    assert Origin.from_server("").kind is OriginKind.UNKNOWN


@in_a_loop
async def test_a_request_without_an_origin_is_an_error() -> None:
    async with Client(settings=Settings()) as client:
        with pytest.raises(TypeError):
            await client.fetch("http://example.com/")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


# Feeds


@in_a_loop
async def test_a_self_link_or_redirect_of_a_public_feed_does_not_reach_the_intranet() -> None:
    async with FlippingWeb({}) as web, web.client() as client:
        inner = f"http://{web.intranet}/feed"
        web.pages["a.example.com/feed"] = ok(rss(self_url=inner))
        web.pages["b.example.com/feed"] = moved(inner)
        found = await canonicalize("http://a.example.com/feed", fetch=client.fetch, guard=client.guard)
        assert [each.verdict for each in found.candidates if each.url == inner] == ["unsafe"]
        with pytest.raises(UnsafeUrl):
            await canonicalize("http://b.example.com/feed", fetch=client.fetch, guard=client.guard)
        assert web.inside_requests == []


@pytest.mark.parametrize("is_guard_given", [True, False])
@in_a_loop
async def test_a_fetch_that_knows_no_addresses_gives_public_servers_no_way_in(is_guard_given: bool) -> None:
    guard = Guard([f"{INTRANET}/32"], EVERY_PORT)
    asked: list[str] = []

    async def fetch(url: str, **_: object) -> canonry.Response:
        asked.append(url)
        if "redirect" in url:
            hops = (canonry.Hop(302, url, f"http://{INTRANET}/feed"),)
            return canonry.Response(200, f"http://{INTRANET}/feed", {}, rss().encode(), hops)
        return canonry.Response(200, url, {}, rss(self_url=f"http://{INTRANET}/feed").encode())

    given = guard if is_guard_given else None
    await canonicalize("http://a.example.com/feed", fetch=fetch, guard=given)
    assert f"http://{INTRANET}/feed" not in asked
    with pytest.raises(UnsafeUrl):
        await canonicalize("http://a.example.com/redirect", fetch=fetch, guard=given)


async def _poll_stored_feed(database: Database, client: Client, now: datetime) -> str:
    [feed] = await FeedStore(database).list_all()
    outcome, _ = await poll_feed(feed, FeedStore(database), Polling(client.fetch, clock=lambda: now))
    return outcome.failure or ""


@in_a_loop
async def test_a_feed_that_was_adopted_by_its_self_link_stays_public_when_its_name_moves() -> None:
    pages = {
        name: ok(rss(self_url="http://self.example.com/feed")) for name in ("a.example.com/x", "self.example.com/feed")
    }
    async with FlippingWeb(pages) as web, web.client() as client:
        with Database("sqlite://") as database:
            added = await add_feed("http://a.example.com/x", FeedStore(database), now=NOW, fetch=client.fetch)
            assert added.url == "http://self.example.com/feed"
            [feed] = await FeedStore(database).list_all()
            assert feed.origin == Origin.from_server(ADDRESS)
            assert await _poll_stored_feed(database, client, NOW) == ""
            web.inside.add("self.example.com")
            assert await _poll_stored_feed(database, client, NOW + timedelta(days=1)) is FailureKind.REFUSED
            # A run over the stored feeds knows their origins, and so does one that names an alias.
            for feeds in (["http://a.example.com/x"],):
                await ingest(feeds, database, fetch=client.fetch, clock=lambda: NOW + timedelta(days=2))
        assert web.inside_requests == []


@in_a_loop
async def test_a_feed_on_the_same_host_was_still_named_by_its_server() -> None:
    pages = {
        path: ok(rss(self_url="http://a.example.com/secret")) for path in ("a.example.com/x", "a.example.com/secret")
    }
    async with FlippingWeb(pages) as web, web.client() as client:
        with Database("sqlite://") as database:
            await add_feed("http://a.example.com/x", FeedStore(database), now=NOW, fetch=client.fetch)
            web.inside.add("a.example.com")
            assert await _poll_stored_feed(database, client, NOW) is FailureKind.REFUSED
        assert web.inside_requests == []


@in_a_loop
async def test_a_feed_that_moved_or_was_discovered_keeps_the_origin_of_the_server_that_said_so() -> None:
    pages = {
        "old.example.com/feed": moved("http://new.example.com/feed"),
        "new.example.com/feed": ok(rss()),
        "page.example.com/": html("<link rel=alternate type=application/rss+xml href=http://linked.example.com/feed>"),
        "linked.example.com/feed": ok(rss(7, 8)),
    }
    async with FlippingWeb(pages) as web, web.client() as client:
        with Database("sqlite://") as database:
            for day in range(4):
                clock = partial(lambda day: NOW + timedelta(days=day), day)
                await ingest(
                    ["http://old.example.com/feed", "http://page.example.com/"],
                    database,
                    fetch=client.fetch,
                    clock=clock,
                )
            feeds = {feed.url: feed.origin for feed in await FeedStore(database).list_all()}
            public = Origin.from_server(ADDRESS)
            assert feeds == {"http://new.example.com/feed": public, "http://linked.example.com/feed": public}
            web.inside |= {"new.example.com", "linked.example.com"}
            report = await ingest(
                ["http://old.example.com/feed", "http://page.example.com/"],
                database,
                fetch=client.fetch,
                clock=lambda: NOW + timedelta(days=9),
            )
        assert {each.failure for each in report.feeds} == {FailureKind.REFUSED}
        assert web.inside_requests == []


@in_a_loop
async def test_feeds_of_the_intranet_stay_reachable_under_any_of_their_urls() -> None:
    pages = {name: ok(rss(self_url="http://wiki.corp/feed")) for name in ("wiki.corp/x", "wiki.corp/feed")}
    async with FlippingWeb(pages, inside=("wiki.corp",)) as web, web.client() as client:
        with Database("sqlite://") as database:
            added = await add_feed("http://wiki.corp/x", FeedStore(database), now=NOW, fetch=client.fetch)
            assert added.url == "http://wiki.corp/feed"
            assert await _poll_stored_feed(database, client, NOW) == ""


@in_a_loop
async def test_a_person_who_adds_a_feed_again_makes_its_url_theirs() -> None:
    async with FlippingWeb({"wiki.corp/feed": ok(rss())}, inside=("wiki.corp",)) as web, web.client() as client:
        with Database("sqlite://") as database:
            store = FeedStore(database)
            await store.add("http://wiki.corp/feed", NOW)  # of an older release: nobody knows who named it
            assert await _poll_stored_feed(database, client, NOW) is FailureKind.REFUSED
            await add_feed("http://wiki.corp/feed", store, now=NOW, fetch=client.fetch)
            assert await _poll_stored_feed(database, client, NOW + timedelta(days=2)) == ""


# Crawls


@pytest.mark.parametrize("robots", [True, False])
@in_a_loop
async def test_a_start_page_that_redirects_into_the_intranet_is_not_followed(robots: bool) -> None:
    pages = {"a.example.com/": moved("http://inner.example.com/"), "inner.example.com/": html("secret")}
    async with FlippingWeb(pages, inside=("inner.example.com",)) as web:
        found = await crawl_all(web, "http://a.example.com/", follow_start=True, robots=robots)
        assert web.inside_requests == []
    assert {page.failure for page in found} == {FailureKind.REFUSED}


@in_a_loop
async def test_a_start_page_is_refused_if_its_name_moves_after_robots_txt() -> None:
    pages = {"a.example.com/": moved("http://inner.example.com/"), "inner.example.com/": html("secret")}
    async with FlippingWeb(pages) as web:
        web.flips_after["inner.example.com/robots.txt"] = "inner.example.com"
        found = await crawl_all(web, "http://a.example.com/", follow_start=True)
        assert "inner.example.com/robots.txt" in web.public_requests
        assert web.inside_requests == []
    assert {page.failure for page in found} == {FailureKind.REFUSED}


@in_a_loop
async def test_links_keep_the_origin_of_their_page_when_a_crawl_is_resumed() -> None:
    pages = {"a.example.com/": html("<a href=/b>b</a>"), "a.example.com/b": html("b")}
    async with FlippingWeb(pages) as web:
        with Database("sqlite://") as database:
            await crawl_all(web, "http://a.example.com/", database, max_pages=1)
            web.inside.add("a.example.com")
            found = await crawl_all(web, "http://a.example.com/", database, max_pages=9, resume=True)
        assert "a.example.com/b" not in web.inside_requests
    assert [page.failure for page in found if page.url.endswith("/b")] == [FailureKind.REFUSED]


@in_a_loop
async def test_a_page_that_became_public_names_no_page_of_the_intranet() -> None:
    """The first answer comes from the intranet, the next from the public server, whose links are the public's."""
    pages = {"a.corp/": html("<a href=/one>1</a>"), "a.corp/one": html("<a href=/two>2</a>"), "a.corp/two": html("2")}
    async with FlippingWeb(pages, inside=("a.corp",)) as web:
        with Database("sqlite://") as database:
            await crawl_all(web, "http://a.corp/", database, robots=False, sitemaps=False, max_pages=1)
            web.inside.clear()
            await crawl_all(web, "http://a.corp/", database, resume=True, max_pages=2)
            web.inside.add("a.corp")
            found = await crawl_all(web, "http://a.corp/", database, resume=True, max_pages=9)
        assert web.inside_requests == ["a.corp/"]
    assert [page.failure for page in found if page.url.endswith("/two")] == [FailureKind.REFUSED]


@in_a_loop
async def test_sitemaps_have_the_origin_of_the_file_that_lists_them() -> None:
    async with FlippingWeb({}, inside=("a.corp",)) as web, web.client() as client:
        inner = f"http://{web.intranet}"
        web.pages |= {
            "a.corp/index.xml": sitemap("http://public.example.com/nested.xml", f"{inner}/own.xml", kind="sitemap"),
            "public.example.com/nested.xml": sitemap(f"{inner}/deep.xml", kind="sitemap"),
            f"{web.intranet}/own.xml": sitemap("http://a.corp/page"),
        }
        found = [
            each
            async for each in iter_sitemap_pages([NamedUrl("http://a.corp/index.xml", Origin.PERSON)], client.fetch)
        ]
        assert f"{web.intranet}/own.xml" in web.inside_requests, "the intranet's own index may list it"
        assert f"{web.intranet}/deep.xml" not in web.inside_requests
        assert NamedUrl("http://a.corp/page", Origin.from_server(INTRANET)) in found


@in_a_loop
async def test_pages_of_a_public_sitemap_are_not_read_in_the_intranet() -> None:
    pages = {
        "a.corp/": html("home"),
        "a.corp/robots.txt": {"body": "Sitemap: http://public.example.com/sitemap.xml"},
        "public.example.com/sitemap.xml": sitemap("http://a.corp/delete?all=1"),
        "a.corp/delete?all=1": html("deleted"),
    }
    async with FlippingWeb(pages, inside=("a.corp",)) as web:
        found = await crawl_all(web, "http://a.corp/", sitemaps=True)
        assert "public.example.com/sitemap.xml" in web.public_requests
        assert "a.corp/delete?all=1" not in web.inside_requests
    assert [page.failure for page in found if "delete" in page.url] == [FailureKind.REFUSED]


@in_a_loop
async def test_a_sitemap_has_the_origin_of_the_robots_txt_that_names_it() -> None:
    """robots.txt came from the public server, then the name moved to the intranet, and the start page with it."""
    async with FlippingWeb({"a.example.com/": html("home")}) as web:
        web.pages["a.example.com/robots.txt"] = {"body": f"Sitemap: http://{web.intranet}/delete"}
        web.flips_after["a.example.com/robots.txt"] = "a.example.com"
        await crawl_all(web, "http://a.example.com/", sitemaps=True)
        assert "a.example.com/robots.txt" in web.public_requests
        assert web.inside_requests == ["a.example.com/"], "what the person typed, and nothing else"


# Bookmarks


@in_a_loop
async def test_the_title_of_an_expanded_short_link_is_not_read_in_the_intranet() -> None:
    pages = {"bit.ly/x": moved("http://target.example.com/"), "target.example.com/": html("<title>secret</title>")}

    async def enqueue(*_: str) -> None: ...

    async with FlippingWeb(pages) as web, web.client() as client:
        with Database("sqlite://") as database:
            bookmarks = Bookmarks(
                database, partial(expand, client=client), enqueue=enqueue, fetch=client.fetch, expansion_wait=5
            )
            short = (await bookmarks.put(0, Draft("http://bit.ly/x"))).bookmark
            assert short.url == "http://target.example.com/"
            typed = (await bookmarks.put(0, Draft("http://wiki.corp/"))).bookmark
            web.inside |= {"target.example.com", "wiki.corp"}
            web.pages["wiki.corp/"] = html("<title>Wiki</title>")
            await bookmarks.pages.read_all()
            assert (await bookmarks.store.get(0, short.id)).title == ""
            assert (await bookmarks.store.get(0, typed.id)).title == "Wiki"
        assert web.inside_requests == ["wiki.corp/"]


TITLES = [
    # why                          saved URL                original text                        expansion   is typed
    ("as it was typed",            "http://wiki.corp/a",    None,                                "none",     True),
    ("cleaned",                    "http://wiki.corp/a",    "http://www.wiki.corp/a?utm_id=1",   "none",     True),
    ("without scheme",             "https://wiki.corp/",    "wiki.corp",                         "none",     True),
    ("a short link",               "http://wiki.corp/a",    "https://bit.ly/x",                  "expanded", False),
    ("a short link, lost state",   "http://wiki.corp/a",    "https://bit.ly/x",                  "none",     False),
    ("an unwrapped link",          "http://wiki.corp/a",    "https://l.example.com/?u=http://wiki.corp/a", "none", False),
    ("no URL",                     "http://wiki.corp/a",    "http://",                           "none",     False),
]  # fmt: skip


@pytest.mark.parametrize(("why", "url", "original_url", "expansion", "is_typed"), TITLES)
def test_a_person_named_the_url_of_a_bookmark_if_its_host_was_typed(
    why: str, url: str, original_url: str | None, expansion: str, is_typed: bool
) -> None:
    times = ("", "", None)
    bookmark = Bookmark(
        1, url, original_url, False, "", "", (), "", False, False, (), (), ExpansionState(expansion), "", "", *times
    )  # fmt: skip
    assert (find_origin(bookmark) is Origin.PERSON) is is_typed, why


# An upstream proxy


class _UpstreamProxy:
    """A proxy that answers every request itself and records the requested URLs."""

    def __init__(self, pages: dict[str, dict[str, Any]]) -> None:
        self.pages = pages
        self.requests: list[str] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        if request is None:
            return
        self.requests.append(request.target)
        page = self.pages.get(request.target, {"status": 404})
        headers = {**page.get("headers", {}), "Connection": "close"}
        writer.write(
            make_http_response(page.get("status", 200), headers, request.method, page.get("body", "").encode())
        )


def make_proxied_client(proxy: Listener, allow_names: Sequence[str] = ()) -> Client:
    settings = Settings(proxy=f"http://{ADDRESS}:{proxy.port}")
    guard = Guard([f"{INTRANET}/32"], EVERY_PORT, allow_names=allow_names)
    return Client(guard, settings=settings, lookup=loopback.resolve_nothing)


@in_a_loop
async def test_behind_a_proxy_an_unknown_address_counts_as_public() -> None:
    inner = f"http://{INTRANET}/feed"
    upstream = _UpstreamProxy(
        {
            "http://a.example.com/feed": ok(rss(self_url=inner)),
            "http://a.example.com/page": html(f"<link rel=alternate type=application/rss+xml href={inner}>"),
            "http://b.example.com/": html("<a href=/x>x</a>"),
            "http://b.example.com/robots.txt": {"body": f"Sitemap: {inner}"},
            inner: ok(rss()),
        }
    )
    async with Listener(upstream.talk) as proxy, make_proxied_client(proxy) as client:
        await canonicalize("http://a.example.com/feed", fetch=client.fetch, guard=client.guard)
        with pytest.raises(UnsafeUrl):
            await canonicalize("http://a.example.com/page", fetch=client.fetch, guard=client.guard, discover=True)
        with Database("sqlite://") as database:
            report = await ingest(["http://a.example.com/page"], database, fetch=client.fetch)
        assert [each.failure for each in report.feeds] == [FailureKind.REFUSED]
        pages = crawl(
            "http://b.example.com/", client=client, engine="http", store="sqlite://", sitemaps=True, retries=0
        )
        assert len([page async for page in pages]) == 2
        assert inner not in upstream.requests
        assert (await client.fetch(inner, origin=Origin.PERSON)).address == INTRANET, "a person may name it"
        assert (await client.fetch(inner, origin=Origin.from_server(INTRANET))).is_ok
    assert upstream.requests.count(inner) == 2


@in_a_loop
async def test_behind_a_proxy_local_names_need_their_own_setting() -> None:
    names = (
        "http://wiki.corp/",
        "http://build.internal/",
        "http://web.default.svc/",
        "http://db.consul/",
        "http://nas/",
    )
    upstream = _UpstreamProxy({"http://wiki.corp/": moved("http://docs.corp/"), "http://docs.corp/": html("docs")})
    async with Listener(upstream.talk) as proxy:
        async with make_proxied_client(proxy) as client:
            for url in names:
                with refuses(RefusalKind.LOCAL_NAME) as caught:
                    await client.fetch(url, origin=Origin.PERSON)
                assert "CANONRY_ALLOW_NAMES" in caught.value.advice
        assert upstream.requests == []
        async with make_proxied_client(proxy, ["*.corp", "nas"]) as client:
            assert (await client.fetch("http://wiki.corp/", origin=Origin.PERSON)).url == "http://docs.corp/"
            assert (await client.fetch("http://nas/", origin=Origin.from_server("wiki.corp"))).status == 404
            for origin in (Origin.UNKNOWN, Origin.from_server("example.com"), Origin.from_server(ADDRESS)):
                with refuses(RefusalKind.LOCAL_NAME):
                    await client.fetch("http://wiki.corp/", origin=origin)
            with refuses(RefusalKind.LOCAL_NAME):
                await client.fetch("http://build.internal/", origin=Origin.PERSON)
            with refuses(RefusalKind.METADATA):
                await client.fetch("http://metadata/", origin=Origin.PERSON)


# Many addresses


@in_a_loop
async def test_each_of_at_most_eight_addresses_is_tried_once() -> None:
    addresses = [f"127.0.1.{number}" for number in range(1, 21)]

    async def lookup(_host: str, _port: int) -> list[tuple[str, int]]:
        return [(address, 9) for address in addresses]

    client = loopback.make_client(guard=Guard(["127.0.1.0/24"], EVERY_PORT), lookup=lookup)
    loopback.CONNECTS.clear()
    async with client:
        with loopback.fails(FailureKind.CONNECT):
            await client.fetch("http://many.example.com/", origin=Origin.PERSON)
    assert addresses[:8] == loopback.CONNECTS


@in_a_loop
async def test_both_families_are_tried() -> None:
    v6, v4 = [f"fd00::{number:x}" for number in range(1, 11)], ["127.0.1.1", "127.0.1.2"]
    tried: list[str] = []

    async def lookup(_host: str, _port: int) -> list[tuple[str, int]]:
        return [(address, 9) for address in (*v6, *v4)]

    client = loopback.make_client(guard=Guard(["127.0.1.0/24", "fd00::/8"], EVERY_PORT), lookup=lookup)
    loopback.CONNECTS.clear()
    async with client:
        with pytest.raises(canonry.FetchFailed):
            await client.fetch("http://many.example.com/", origin=Origin.PERSON)
    tried = loopback.CONNECTS
    assert set(tried) <= {*v6[:6], *v4}
    assert set(v4) <= set(tried)
    assert len(tried) == len(set(tried)) <= 8


@in_a_loop
async def test_one_refused_address_beyond_the_eighth_refuses_the_name() -> None:
    async def lookup(_host: str, _port: int) -> list[tuple[str, int]]:
        return [*((f"127.0.1.{number}", 9) for number in range(1, 12)), ("10.0.0.1", 9)]

    async with loopback.make_client(guard=Guard(["127.0.1.0/24"], EVERY_PORT), lookup=lookup) as client:
        with refuses(RefusalKind.PRIVATE):
            await client.fetch("http://many.example.com/", origin=Origin.PERSON)
