"""Bookmarks of one page under several URLs: found by evidence, merged, undone, refused (contract E5)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from canonry.server.service import ServiceOptions
from loopback import LoopbackWeb
from page_texts import make_page
from service import Running, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

READING = ServiceOptions(fetch_pages=True)
SPELLINGS = [
    "http://site.test/a/",
    "https://site.test/a/",
    "https://www.site.test/a/",
    "https://site.test/a",
    "https://site.test/a/#top",
    "https://site.test/a/?utm_source=mail",
    "https://site.test/a/index.html",
]
ARTICLE = make_page({"article": 1, "title": "The article", "head": '<meta name="description" content="About it">'})
OTHER = make_page({"article": 2, "title": "Another article"})
MISSING = make_page({"status": 404, "body": "missing"})
PAGES = {
    **{url: ARTICLE for url in SPELLINGS if "#" not in url},
    "https://site.test/b": OTHER,
    "https://site.test/moved": {"status": 301, "headers": {"location": "https://site.test/b"}},
    "https://site.test/copy": {**ARTICLE, "headers": {"content-type": "text/html"}},
}


def until(is_done: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.05)


@contextmanager
def web(pages: dict[str, dict[str, object]], missing: dict[str, object]) -> Generator[LoopbackWeb]:
    """Serve pages from a thread with an event loop of its own."""
    loop = asyncio.new_event_loop()
    served = LoopbackWeb(pages, missing)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(served.__aenter__(), loop).result(60)
        yield served
    finally:
        asyncio.run_coroutine_threadsafe(served.__aexit__(None, None, None), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def reading_service(
    database_url: str,
    pages: dict[str, dict[str, object]] = PAGES,
    missing: dict[str, object] = MISSING,
    **options: Any,
) -> Generator[tuple[Running, LoopbackWeb]]:
    options = {"fetch_icons": False, **options}  # their requests would be counted, too
    with web(pages, missing) as site, serving(database_url, READING, client=site.client, **options) as service:
        service.service.bookmarks.pages._pause = 0.01
        yield service, site


def wait_until_read(service: Running) -> None:
    pages = service.service.bookmarks.pages
    until(lambda: asyncio.run(pages.count_pending()) == 0)


def count_groups(service: Running) -> list[int]:
    return [len(group["bookmarks"]) for group in service.get("/api/duplicates").json()]


def test_the_seven_spellings_of_a_page_become_one_and_can_be_undone(database_url: str) -> None:
    with reading_service(database_url) as (service, site):
        ids = [service.put(url).json()["id"] for url in SPELLINGS]
        saved = sorted(set(ids))
        assert len(saved) == 6, "the policy itself drops the tracking"
        service.put("https://site.test/b")
        wait_until_read(service)
        [group] = service.get("/api/duplicates").json()
        assert sorted(each["id"] for each in group["bookmarks"]) == saved
        assert group["is_proven"] and {twin["evidence"] for twin in group["twins"]} == {"same_text"}
        assert group["bookmarks"][0]["title"] == "The article" and group["bookmarks"][0]["description"] == "About it"
        gets = [url for method, url in site.requests if method == "GET"]
        assert len(gets) == len(set(gets)), "one request for each page"

        [kept] = service.ask("POST", "/api/duplicates/merge-proven").json()
        assert kept["id"] == saved[0]
        assert len(service.get("/api/bookmarks").json()) == 2
        for url in SPELLINGS:
            found = service.get(f"/api/bookmarks?url={quote(url, safe='')}").json()
            assert [each["id"] for each in found] == [kept["id"]], url
        assert (
            service.get(f"/api/bookmarks?q={quote('https://www.site.test/a/', safe='')}").json()[0]["id"] == kept["id"]
        )
        assert service.get("/api/duplicates").json() == []

        restored = service.ask("POST", f"/api/duplicates/{group['id']}/undo").json()
        assert sorted(each["id"] for each in restored) == saved
        assert count_groups(service) == [6]


def test_what_a_person_says_is_not_the_same_stays_apart(sqlite_url: str) -> None:
    with reading_service(sqlite_url) as (service, _):
        one, other = (service.put(url).json()["id"] for url in SPELLINGS[1:3])
        wait_until_read(service)
        [group] = service.get("/api/duplicates").json()
        assert service.ask("POST", f"/api/duplicates/{group['id']}/refuse").status == 204
        assert service.get("/api/duplicates").json() == []
        assert service.ask("POST", "/api/duplicates/merge-proven").json() == []
        third = service.put(SPELLINGS[6]).json()["id"]
        wait_until_read(service)
        service.ask("POST", "/api/duplicates/merge-proven")
        kept = {each["id"] for each in service.get("/api/bookmarks").json()}
        assert {one, other} <= kept and third not in kept, "later evidence does not join them"
        service.ask("DELETE", f"/api/bookmarks/{other}")
        found = service.get(f"/api/bookmarks?url={quote(SPELLINGS[2], safe='')}").json()
        assert found == [], "a lookup does not take a refused URL for the other"
        assert service.ask("POST", f"/api/duplicates/{group['id']}/refuse").status == 404
        assert one


def test_a_redirect_is_proven_and_an_unrelated_copy_is_not(sqlite_url: str) -> None:
    with reading_service(sqlite_url) as (service, _):
        for url in ("https://site.test/moved", "https://site.test/b", SPELLINGS[3], "https://site.test/copy"):
            service.put(url)
        wait_until_read(service)
        groups = service.get("/api/duplicates").json()
        shown = [([each["url"] for each in group["bookmarks"]], group["is_proven"], group["twins"][0]["evidence"]) for group in groups]  # fmt: skip
        assert shown == [
            (["https://site.test/moved", "https://site.test/b"], True, "redirect"),
            ([SPELLINGS[3], "https://site.test/copy"], False, "same_text"),
        ]
        assert len(service.ask("POST", "/api/duplicates/merge-proven").json()) == 1
        assert count_groups(service) == [2], "an equal text alone is never merged without a person"


TO_LOGIN: dict[str, object] = {"status": 301, "headers": {"location": "https://site.test/login"}}
LOGIN = make_page({"article": 9, "title": "Sign in", "head": '<link rel=canonical href="/login">'})
PRINT = make_page({"article": 1, "title": "The article", "head": '<link rel=canonical href="/a">'})


@pytest.mark.parametrize("missing", [TO_LOGIN, LOGIN], ids=["redirects to a login form", "shows a login form"])
def test_pages_that_a_login_form_hides_are_not_the_same(sqlite_url: str, missing: dict[str, object]) -> None:
    pages = {"https://site.test/login": LOGIN, "https://site.test/a": missing, "https://site.test/b": missing}
    with reading_service(sqlite_url, pages, missing) as (service, _):
        for url in pages:
            service.put(url)
        wait_until_read(service)
        assert not [group for group in service.get("/api/duplicates").json() if group["is_proven"]]
        assert service.ask("POST", "/api/duplicates/merge-proven").json() == []
        [login] = service.get("/api/bookmarks?url=https://site.test/login").json()
        service.ask("DELETE", f"/api/bookmarks/{login['id']}")
        assert service.get("/api/bookmarks?url=https://site.test/login").json() == [], "nor found under its URL"


@pytest.mark.parametrize("order", [1, -1], ids=["canonical first", "canonical last"])
def test_a_declared_canonical_is_proven_by_its_text_and_a_made_up_url(sqlite_url: str, order: int) -> None:
    pages = {"https://site.test/a": ARTICLE, "https://site.test/print": PRINT}
    with reading_service(sqlite_url, pages) as (service, site):
        for url in list(pages)[::order]:
            service.put(url)
        wait_until_read(service)
        [group] = service.get("/api/duplicates").json()
        assert group["is_proven"] and group["twins"][0]["evidence"] == "declared"
        assert len(site.requests) == 3, "one made-up URL"


def test_private_pages_are_not_read_if_so_set(sqlite_url: str) -> None:
    with reading_service(sqlite_url, fetch_private_pages=False) as (service, site):
        service.put("https://site.test/b", private=True)
        service.put(SPELLINGS[1])
        wait_until_read(service)
        assert {url for _, url in site.requests} == {SPELLINGS[1]}


KILLED = """
import asyncio, sys
from canonry.bookmarks.save import Bookmarks
from canonry.net.response import Response
from canonry.wiring import open_database
from page_texts import make_page

async def fetch(url, **_):
    print(url, flush=True)
    await asyncio.sleep(0.02)
    return Response(200, url, {"content-type": "text/html"}, make_page({"article": 1})["body"].encode())

async def enqueue(*_): ...
async def main():
    with open_database(sys.argv[1], warn=lambda _: None) as database:
        bookmarks = Bookmarks(database, None, enqueue=enqueue, fetch=fetch, page_pause=0)
        await bookmarks.pages.read_all()

asyncio.run(main())
"""


def test_a_killed_reader_loses_nothing(sqlite_url: str) -> None:
    with serving(sqlite_url, ServiceOptions(runs_jobs=False)) as service:
        for number in range(40):
            service.put(f"https://site.test/{number}")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, sqlite_url]
    killed = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    for _ in range(10):
        killed.stdout.readline()
    killed.send_signal(signal.SIGKILL)
    killed.wait(60)
    killed.stdout.close()
    asked = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True).stdout
    assert 20 <= len(asked.split()) <= 31, "what was read before is not read again"
    with serving(sqlite_url, READING) as service:
        assert asyncio.run(service.service.bookmarks.pages.count_pending()) == 0
        assert len(service.get("/api/bookmarks?limit=100").json()) == 40


@pytest.mark.parametrize("path", ["/duplicates"])
def test_the_page_shows_the_evidence(sqlite_url: str, path: str) -> None:
    with reading_service(sqlite_url) as (service, _):
        for url in SPELLINGS[:3]:
            service.put(url)
        wait_until_read(service)
        shown = service.get(path, headers={"Accept": "text/html"}).text
        assert "Merge all proven" in shown and "same text as" in shown and "Not the same" in shown
