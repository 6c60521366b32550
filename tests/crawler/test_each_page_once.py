"""Contract C8: session identifiers and traps in whole crawls; no page is lost, and none is read without end."""

from __future__ import annotations

import asyncio
import calendar
from collections import Counter
from dataclasses import replace
from hashlib import md5
from typing import TYPE_CHECKING, Any

import pytest

from canonry.crawler.crawl import crawl
from canonry.crawler.crawl_store import CrawlStore
from canonry.crawler.reasons import SkipReason
from canonry.net.response import Hop, Response
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from canonry.crawler.pages import Page

SITE = "http://site.example"
LOREM = "the harbour was quiet that morning only the pilot boat went out twice and came back empty " * 3


def make_session(number: int) -> str:
    return md5(str(number).encode(), usedforsecurity=False).hexdigest()


def link(*hrefs: str) -> str:
    return "".join(f'<a href="{href}">more</a> ' for href in hrefs)


class Web:
    """A site that answers by a function of path with query; counts requests."""

    def __init__(self, answer: Callable[[str], str | None]) -> None:
        self.answer = answer
        self.asked: Counter[str] = Counter()

    async def fetch(self, url: str, **_: object) -> Response:
        path = url.removeprefix(SITE)
        html = None if path == "/robots.txt" else self.answer(path)
        self.asked[path] += 1
        headers = {"content-type": "text/html; charset=utf-8"}
        return Response(404 if html is None else 200, url, headers, (html or "").encode())

    @property
    def requests(self) -> int:
        return self.asked.total() - self.asked["/robots.txt"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    with Database(f"sqlite:///{tmp_path}/crawl.db") as database:
        yield database


def run(web: Web, store: Database, **options: Any) -> list[Page]:
    async def read() -> list[Page]:
        pages = crawl(f"{SITE}/", engine="http", store=store, fetch=web.fetch, **options)
        return [page async for page in pages]

    return asyncio.run(read())


def count_skipped(store: Database) -> dict[SkipReason, int]:
    async def read() -> dict[SkipReason, int]:
        crawls = CrawlStore(store)
        [latest] = await crawls.list_crawls(1)
        return dict((await crawls.count_pages(latest.id)).skipped)

    return asyncio.run(read())


def test_links_of_a_result_that_is_not_stored_are_found_on_other_pages(store: Database) -> None:
    """A repeat gives up its links with a query, and a 404 whose URL has another spelling gives up all of them."""
    pages = {
        "/": link("/list?v=1", "/list?v=2", "/old/", "/old", "/third"),
        "/list?v=1": f"<title>List</title><p>{LOREM}</p>",
        "/list?v=2": f"<title>List</title><p>{LOREM}</p>" + link("/item?id=5"),
        "/old": "found" + link("/next"),
        "/third": "third" + link("/item?id=5"),
        "/item?id=5": "item",
        "/next": "next",
    }
    web = Web(pages.get)

    async def fetch(url: str, **options: object) -> Response:
        response = await web.fetch(url, **options)
        return replace(response, body=link("/next").encode()) if url == f"{SITE}/old/" else response

    async def read() -> set[str]:
        found = crawl(f"{SITE}/", engine="http", store=store, fetch=fetch, control=False)
        return {page.url.removeprefix(SITE) async for page in found}

    assert asyncio.run(read()) == pages.keys()
    assert max(web.asked.values()) == 1


def test_one_of_two_pages_is_read_that_lead_to_each_other_in_turn(store: Database) -> None:
    both_open = asyncio.Barrier(2)

    async def fetch(url: str, **_: object) -> Response:
        path = url.removeprefix(SITE)
        if path in {"/robots.txt", "/"}:
            return Response(200, url, {"content-type": "text/html"}, link("/a", "/b").encode())
        await both_open.wait()
        target = f"{SITE}{'/b' if path == '/a' else '/a'}"
        return Response(200, target, {"content-type": "text/html"}, b"both", (Hop(302, url, target),))

    async def read() -> list[str]:
        found = crawl(f"{SITE}/", engine="http", store=store, fetch=fetch, robots=False)
        return [page.url.removeprefix(SITE) async for page in found]

    assert len(asyncio.run(read())) == 2, "the start page and one of the two"


def test_a_crawl_that_is_removed_while_its_sitemap_is_read_ends(store: Database) -> None:
    async def fetch(url: str, **_: object) -> Response:
        if not url.endswith("/sitemap.xml"):
            return Response(200, url, {"content-type": "text/html"}, link("/a").encode())
        await CrawlStore(store).remove(1)
        return Response(200, url, {}, f"<urlset><url><loc>{SITE}/b</loc></url></urlset>".encode())

    async def read() -> list[str]:
        found = crawl(f"{SITE}/", engine="http", store=store, fetch=fetch, sitemaps=True)
        return [page.url.removeprefix(SITE) async for page in found]

    assert asyncio.run(read()) == ["/"]


def make_session_site(count: int, spell: Callable[[str, str], str]) -> Callable[[str], str]:
    """Return a site whose every answer links to all pages with a new session."""
    given = iter(range(10**9))

    def answer(path: str) -> str:
        name = path.partition("?")[0].partition(";")[0]
        session = make_session(next(given))
        hrefs = [spell(f"/page/{number}", session) for number in range(count)]
        return f"<title>{name}</title><p>{LOREM} this is {name}</p>{link(*hrefs)}"

    return answer


@pytest.mark.parametrize(
    "spell",
    [
        lambda path, session: f"{path}?PHPSESSID={session}",
        lambda path, session: f"{path};jsessionid={session.upper()}",
        lambda path, session: f"{path}?lang=en&sid={session}&utm_source=mail",
    ],
    ids=["PHPSESSID", "jsessionid", "sid"],
)
def test_a_site_with_sessions_in_its_urls_is_read_once(store: Database, spell: Callable[[str, str], str]) -> None:
    web = Web(make_session_site(41, spell))
    pages = run(web, store)
    assert len(pages) == 42
    assert sorted(page.title for page in pages) == sorted(["/", *(f"/page/{number}" for number in range(41))])
    assert web.requests < 42 + 41 * 42 * 0.08
    assert count_skipped(store)[SkipReason.SESSION_ID] > 1500


def test_sessions_can_be_read_like_other_parameters(store: Database) -> None:
    web = Web(make_session_site(4, lambda path, session: f"{path}?PHPSESSID={session}"))
    assert len(run(web, store, sessions=False, fold=False, max_pages=60)) == 60


def test_a_parameter_that_selects_content_is_no_session(store: Database) -> None:
    def answer(path: str) -> str:
        if path == "/":
            return link(*(f"/story?sid={make_session(number)}" for number in range(30)))
        return f"<title>Story</title>{LOREM} {path}"

    assert len(run(Web(answer), store)) == 31


def test_a_chain_of_stories_is_not_cut_because_two_show_one_text(store: Database) -> None:
    def answer(path: str) -> str:
        number = -1 if path == "/" else [make_session(each) for each in range(30)].index(path[-32:])
        following = link(f"/story?sid={make_session(number + 1)}") if number < 29 else ""
        return f"{LOREM} {max(number, 1)} {following}"

    assert len({page.url for page in run(Web(answer), store)}) == 31
    assert count_skipped(store) == {}


def test_a_counter_example_brings_back_what_was_skipped(store: Database) -> None:
    sessions = [make_session(number) for number in range(20)]

    def answer(path: str) -> str:
        if path == "/":
            return "start " + link("/hub/0")
        if path.startswith("/hub/"):
            number = int(path.removeprefix("/hub/"))
            onward = [f"/hub/{number + 1}"] if number < 19 else []
            return f"<title>{path}</title>" + link(f"/view?sid={sessions[number]}", *onward)
        number = sessions.index(path[-32:])
        return f"{LOREM} story {number if number > 5 else 0}"

    web = Web(answer)
    run(web, store, per_host=1)
    assert {f"/view?sid={session}" for session in sessions} <= set(web.asked)
    assert not count_skipped(store).get(SkipReason.SESSION_ID)


def make_calendar(*, first: int = 0, entry: Callable[[int], str] = lambda _: "") -> Callable[[str], str]:
    def answer(path: str) -> str:
        if path == "/":
            return f"<title>Home</title>{LOREM}" + link("/calendar/2030/1")
        year, month = map(int, path.split("/")[2:4])
        number = (year - 2030) * 12 + month - 1
        days = " ".join(str(day) for week in calendar.monthcalendar(year, month) for day in week if day)
        around = [divmod(number + step, 12) for step in (-1, 1) if number + step >= first]
        hrefs = [f"/calendar/{2030 + years}/{months + 1}" for years, months in around]
        name = f"{calendar.month_name[month]} {year}"
        return f"<title>{name}</title>{name} Mo Tu We {days} {entry(number)} {link(*hrefs)}"

    return answer


def test_a_calendar_without_end_is_stopped(store: Database) -> None:
    web = Web(make_calendar())
    pages = run(web, store, max_pages=1000)
    assert 100 < len(pages) < 150
    assert count_skipped(store) == {SkipReason.TRAP: 1}


def test_days_and_months_that_lead_to_each_other_are_stopped(store: Database) -> None:
    months = make_calendar()

    def answer(path: str) -> str:
        if path.count("/") < 4 and path != "/":
            return months(path) + link(*(f"{path}/{day}" for day in (1, 2, 3)))
        return months(path) if path == "/" else f"Nothing on this day. {link('/calendar/2030/1')}"

    assert len(run(Web(answer), store, max_pages=2000)) < 1000


def test_a_calendar_with_entries_is_read_to_its_end(store: Database) -> None:
    def entry(number: int) -> str:
        return f"Lecture {number + 500} by a guest" if number % 40 == 0 else ""

    months = make_calendar(entry=entry)

    def answer(path: str) -> str:
        return months(path).partition("<a")[0] if path == "/calendar/2060/1" else months(path)

    assert len(run(Web(answer), store, max_pages=1000)) == 1 + 30 * 12 + 1


def test_archives_and_numbered_pages_are_read_to_their_end(store: Database) -> None:
    def answer(path: str) -> str:
        if path == "/":
            return link("/archive?page=1")
        if path.startswith("/archive"):
            number = int(path.rpartition("=")[2])
            onward = [f"/archive?page={number + 1}"] if number < 300 else []
            return "Archive" + link(f"/post/{number}", *onward)
        return f"<title>Post</title>{LOREM} {path}"

    assert len(run(Web(answer), store)) == 601


def test_paths_that_grow_are_stopped(store: Database) -> None:
    web = Web(lambda path: f"<title>Help</title>{LOREM} You are at {path} {link('help/', 'contact/')}")
    assert len(run(web, store, max_pages=3000)) < 600
    assert count_skipped(store)[SkipReason.TRAP] > 0


def test_filters_without_new_text_are_stopped(store: Database) -> None:
    products = [
        f"shirt {number} of soft cotton with long sleeves {number * 7} euros add to cart" for number in range(40)
    ]
    values = {"colour": 9, "size": 9, "sort": 9, "brand": 9}

    def answer(path: str) -> str:
        query = path.partition("?")[2]
        chosen = dict(pair.split("=") for pair in query.split("&")) if query else {}
        hrefs = [
            "/?" + "&".join(f"{key}={value}" for key, value in sorted({**chosen, name: str(number)}.items()))
            for name, count in values.items()
            for number in range(count)
        ]
        step = sum(map(int, chosen.values())) % 5 + 1
        return f"<title>Shop</title>{' '.join(products[::step])} {link(*hrefs)}"

    pages = run(Web(answer), store, fold=False, max_pages=5000)
    assert len(pages) < 1500
    assert count_skipped(store)[SkipReason.TRAP] > 500


def test_resuming_without_traps_reads_what_was_left(store: Database) -> None:
    web = Web(make_calendar())
    before = len(run(web, store, max_pages=1000))
    after = run(web, store, resume=True, trap_pages=None, max_pages=before + 50)
    assert len(after) == before + 50
    assert not count_skipped(store)


def test_a_stopped_pattern_stays_stopped_after_an_interruption(store: Database) -> None:
    web = Web(make_calendar())
    run(web, store, max_pages=60)
    total = len(run(web, store, resume=True, max_pages=1000))
    assert 100 < total < 150
    assert len(run(web, store, resume=True, max_pages=2000)) == total
    assert web.requests == total
