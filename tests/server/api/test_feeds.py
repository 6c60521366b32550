"""Feeds over HTTP: added once under any URL, polled, listed with their items (contract F16)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from canonry.feeds.feed_values import FeedStatus
from canonry.server.service import ServiceOptions
from feed_texts import ok, rss
from loopback import LoopbackWeb, in_a_loop
from service import Answer, Running, serving

URL = "https://feeds.example/feed"
PAGES: dict[str, Any] = {
    URL: ok(rss()),
    f"{URL}/?utm_source=mail": ok(rss()),
    "https://page.example/": ok("<html>nothing here</html>"),
}


async def asked(service: Running, method: str, path: str, body: Any = None, **options: Any) -> Answer:
    return await asyncio.to_thread(partial(service.ask, method, path, body, **options))


@in_a_loop
async def test_a_feed_is_added_once_under_any_of_its_urls(database_url: str) -> None:
    async with LoopbackWeb(PAGES) as web:
        with serving(database_url, ServiceOptions(runs_jobs=False), client=web.client) as service:
            new = await asked(service, "POST", "/api/feeds", {"url": f"{URL}/?utm_source=mail"})
            assert (new.status, new.json()["result"], new.json()["url"]) == (201, "new", URL)
            assert new.headers["location"] == f"/api/feeds/{new.json()['feed_id']}"
            known = await asked(service, "POST", "/api/feeds", {"url": URL})
            assert (known.status, known.json()["result"]) == (200, "known")
            assert known.json()["feed_id"] == new.json()["feed_id"]
            [feed] = (await asked(service, "GET", "/api/feeds")).json()
            assert (feed["url"], feed["title"], feed["status"]) == (URL, "Blog", "active")
            assert (await asked(service, "GET", new.headers["location"])).json() == feed


@in_a_loop
async def test_a_page_without_a_feed_is_refused_with_the_urls_tested(database_url: str) -> None:
    async with LoopbackWeb(PAGES) as web:
        with serving(database_url, ServiceOptions(runs_jobs=False), client=web.client) as service:
            page = await asked(service, "POST", "/api/feeds", {"url": "https://page.example/"})
            lost = await asked(service, "POST", "/api/feeds", {"url": "https://lost.example/feed"})
            none = await asked(service, "POST", "/api/feeds", {"url": "mailto:me", "canonicalize": False})
            assert (page.status, lost.status, none.status) == (422, 424, 400)
            assert page.json()["candidates"][0]["verdict"] == "not_a_feed"
            assert (await asked(service, "GET", "/api/feeds")).json() == []


@in_a_loop
async def test_a_feed_is_polled_and_its_items_are_shown(database_url: str) -> None:
    async with LoopbackWeb(PAGES) as web:
        with serving(database_url, client=web.client) as service:
            added = await asked(service, "POST", "/api/feeds", {"url": URL, "canonicalize": False})
            where = added.headers["location"]
            assert web.seen == []
            polled = await asked(service, "POST", f"{where}/poll")
            assert polled.status == 202
            async with asyncio.timeout(60):
                while len(items := (await asked(service, "GET", f"{where}/items")).json()) < 3:
                    await asyncio.sleep(0.1)
            assert {item["title"] for item in items} == {"Post 1", "Post 2", "Post 3"}
            assert {item["feed_url"] for item in items} == {URL}
            every = (await asked(service, "GET", "/api/items")).json()
            assert every == items
            parts = [(await asked(service, "GET", f"/api/items?limit=2&offset={n}")).json() for n in (0, 2)]
            assert [*parts[0], *parts[1]] == items
            assert (await asked(service, "GET", "/api/items?since=2999-01-01")).json() == []
            assert len((await asked(service, "GET", "/api/items?since=2001-01-01T10:00%2B02:00")).json()) == 3
            assert (await asked(service, "GET", "/api/items?since=soon")).status == 400


@in_a_loop
async def test_removing_a_feed_removes_its_items(database_url: str) -> None:
    with serving(database_url, ServiceOptions(runs_jobs=False)) as service:
        added = await asked(service, "POST", "/api/feeds", {"url": URL, "canonicalize": False})
        where = added.headers["location"]
        gone = await asked(service, "DELETE", where)
        assert (gone.status, gone.body) == (204, b"")
        for method, path in (("GET", where), ("DELETE", where), ("POST", f"{where}/poll"), ("GET", f"{where}/items")):
            assert (await asked(service, method, path)).status == 404


@in_a_loop
async def test_a_stopped_feed_is_polled_only_after_it_is_added_again(database_url: str) -> None:
    with serving(database_url, ServiceOptions(runs_jobs=False)) as service:
        added = await asked(service, "POST", "/api/feeds", {"url": URL, "canonicalize": False})
        where = added.headers["location"]
        await service.service.feeds.set_status(added.json()["feed_id"], FeedStatus.STOPPED)
        assert (await asked(service, "POST", f"{where}/poll")).status == 409
        again = await asked(service, "POST", "/api/feeds", {"url": URL})
        assert (again.json()["result"], again.json()["reason"]) == ("known", "it was stopped and is polled again")
        assert (await asked(service, "POST", f"{where}/poll")).json() == {"queued": True}
        assert (await asked(service, "POST", f"{where}/poll")).json() == {"queued": False}


@in_a_loop
async def test_passwords_of_feeds_are_masked(database_url: str) -> None:
    with serving(database_url, ServiceOptions(runs_jobs=False)) as service:
        added = await asked(
            service, "POST", "/api/feeds", {"url": "https://me:secret@feeds.example/own", "canonicalize": False}
        )
        shown = await asked(service, "GET", "/api/feeds")
        assert "secret" not in added.text + shown.text
        assert shown.json()[0]["url"] == "https://***@feeds.example/own"


@in_a_loop
async def test_only_admins_change_feeds_and_all_users_read_them(database_url: str) -> None:
    with serving(database_url, ServiceOptions(runs_jobs=False)) as service:
        _, admin = await service.service.users.add("ada", service.service.clock())
        _, token = await service.service.users.add("bob", service.service.clock())
        body = {"url": URL, "canonicalize": False}
        assert (await asked(service, "POST", "/api/feeds", body, token=token)).status == 403
        where = (await asked(service, "POST", "/api/feeds", body, token=admin)).headers["location"]
        assert (await asked(service, "GET", where, token=token)).status == 200
        assert (await asked(service, "DELETE", where, token=token)).status == 403
        assert (await asked(service, "POST", f"{where}/poll", token=token)).status == 403
