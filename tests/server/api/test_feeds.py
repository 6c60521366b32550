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
async def test_a_stopped_feed_is_polled_again_when_asked_or_added_and_a_paused_one_is_not(database_url: str) -> None:
    with serving(database_url, ServiceOptions(runs_jobs=False)) as service:
        added = await asked(service, "POST", "/api/feeds", {"url": URL, "canonicalize": False})
        where = added.headers["location"]
        await service.service.feeds.set_status(added.json()["feed_id"], FeedStatus.STOPPED)
        again = await asked(service, "POST", "/api/feeds", {"url": URL})
        assert (again.json()["result"], again.json()["reason"]) == ("known", "it was stopped and is polled again")
        assert (await asked(service, "POST", f"{where}/poll")).json() == {"queued": True}
        assert (await asked(service, "POST", f"{where}/poll")).json() == {"queued": False}
        assert (await asked(service, "PATCH", where, {"paused": True})).json()["status"] == "paused"
        assert (await asked(service, "POST", f"{where}/poll")).status == 409
        again = await asked(service, "POST", "/api/feeds", {"url": URL})
        assert (again.status, again.json()["result"], again.json()["reason"]) == (200, "known", "it is paused")
        assert (await asked(service, "PATCH", where, {"paused": False})).json()["status"] == "active"


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


@in_a_loop
async def test_settings_of_a_feed_are_changed_and_secrets_are_masked(database_url: str) -> None:
    with serving(database_url, ServiceOptions(runs_jobs=False)) as service:
        added = await asked(service, "POST", "/api/feeds", {"url": URL, "canonicalize": False})
        where = added.headers["location"]
        changes = {"title": "Mine", "interval": "15m", "timeout": 30, "headers": {"X-Token": "secret"}}
        changed = await asked(service, "PATCH", where, changes)
        assert changed.status == 200
        assert changed.json() == (await asked(service, "GET", where)).json()
        found = {name: changed.json()[name] for name in ("title", "own_title", "interval", "timeout", "headers")}
        assert found == {
            "title": "Mine",
            "own_title": "Mine",
            "interval": 900,
            "timeout": 30,
            "headers": {"X-Token": "***"},
        }
        assert "secret" not in changed.text
        invalid = await asked(service, "PATCH", where, {"interval": "1s", "max_bytes": 1})
        assert (invalid.status, [error["field"] for error in invalid.json()["errors"]]) == (
            400,
            ["interval", "max_bytes"],
        )
        assert (await asked(service, "PATCH", where, {"unknown": 1})).status == 400
        assert (await asked(service, "PATCH", "/api/feeds/77", {"title": "x"})).status == 404
        restored = await asked(service, "PATCH", where, {"interval": None, "title": None, "headers": None})
        assert (restored.json()["interval"], restored.json()["title"], restored.json()["headers"]) == (None, "", {})


@in_a_loop
async def test_only_admins_change_settings(database_url: str) -> None:
    with serving(database_url, ServiceOptions(runs_jobs=False)) as service:
        _, admin = await service.service.users.add("ada", service.service.clock())
        _, token = await service.service.users.add("bob", service.service.clock())
        added = await asked(service, "POST", "/api/feeds", {"url": URL, "canonicalize": False}, token=admin)
        where = added.headers["location"]
        assert (await asked(service, "PATCH", where, {"title": "x"}, token=token)).status == 403


@in_a_loop
async def test_a_twin_says_which_subscription_it_is(database_url: str) -> None:
    async with LoopbackWeb(PAGES) as web:
        with serving(database_url, ServiceOptions(runs_jobs=False), client=web.client) as service:
            new = await asked(service, "POST", "/api/feeds", {"url": URL})
            for twin in (f"{URL}/?utm_source=mail", f"{URL}#top", URL.replace("https:", "http:")):
                for canonicalize in (True, False):
                    known = await asked(service, "POST", "/api/feeds", {"url": twin, "canonicalize": canonicalize})
                    assert (known.status, known.json()["result"]) == (200, "known")
                    assert (known.json()["url"], known.json()["title"]) == (URL, "Blog")
                    assert known.json()["feed_id"] == new.json()["feed_id"]
