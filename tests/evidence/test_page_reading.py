"""Pages of bookmarks are read politely: failures are retried later, and a known page only if it changed (contract E5)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from canonry.bookmarks.bookmark import BookmarkFields
from canonry.bookmarks.draft import Draft
from canonry.bookmarks.save import Bookmarks
from canonry.errors import FailureKind, FetchFailed
from canonry.evidence.fact_reading import find_retry_delay
from canonry.net.response import Hop, Response
from canonry.store.database import Database
from canonry.store.schema import bookmarks
from loopback import in_a_loop
from page_texts import make_page

if TYPE_CHECKING:
    from collections.abc import Generator

URL = "https://site.test/a"
PAGE = make_page({"article": 1, "title": "The article"})["body"].encode()
HTML = {"content-type": "text/html", "etag": '"1"'}
BUSY = Response(503, URL, {"retry-after": "7200"})


@dataclass(slots=True)
class Reader:
    """The bookmarks of a database, whose pages are what `answers` says, one after the other."""

    database: Database
    answers: list[Response | FetchFailed] = field(default_factory=list[Response | FetchFailed])
    now: datetime = datetime(2026, 1, 31, 10, tzinfo=UTC)
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    bookmarks: Bookmarks = field(init=False)

    def __post_init__(self) -> None:
        self.bookmarks = Bookmarks(
            self.database,
            None,  # type: ignore[arg-type]
            enqueue=lambda *_: asyncio.sleep(0),
            fetch=self.fetch,
            clock=lambda: self.now,
            page_pause=0,
        )

    async def fetch(self, url: str, **options: Any) -> Response:
        self.requests.append({"url": url, **options})
        answer = self.answers.pop(0)
        if isinstance(answer, FetchFailed):
            raise answer
        return answer

    async def read(self, *answers: Response | FetchFailed) -> str:
        """Read all pages that are due; return the state of the page of the newest bookmark."""
        self.answers += answers
        await self.bookmarks.pages.read_all()
        assert not self.answers, "all answers were asked for"
        query = select(bookmarks.c.page_state).order_by(bookmarks.c.id.desc()).limit(1)
        return await self.database.read(lambda connection: connection.execute(query).scalar_one())


@pytest.fixture
def reader(database_url: str) -> Generator[Reader]:
    with Database(database_url) as database:
        yield Reader(database)


@in_a_loop
async def test_a_page_that_cannot_be_read_now_is_read_later(reader: Reader) -> None:
    await reader.bookmarks.put(1, Draft(URL))
    assert await reader.read(FetchFailed(URL, "no answer", kind=FailureKind.TIMEOUT)) == "pending"
    assert await reader.read() == "pending", "not before it is due"
    assert not await reader.bookmarks.pages.has_due()
    reader.now += timedelta(minutes=2)
    assert await reader.bookmarks.pages.has_due()
    assert await reader.read(BUSY) == "pending"
    reader.now += timedelta(minutes=100)
    assert await reader.read() == "pending", "the server asked for two hours"
    reader.now += timedelta(minutes=30)
    assert await reader.read(Response(200, URL, HTML, PAGE)) == "read"
    [found] = await reader.bookmarks.find(1, URL)
    assert found.title == "The article"


@in_a_loop
async def test_a_missing_page_is_not_requested_again_and_a_failing_one_a_few_times(reader: Reader) -> None:
    await reader.bookmarks.put(1, Draft(URL))
    assert await reader.read(Response(404, URL)) == "failed"
    other = await reader.bookmarks.put(1, Draft("https://site.test/b"))
    states: list[str] = []
    while not states or states[-1] == "pending":
        states.append(await reader.read(Response(500, URL)))
        reader.now += timedelta(days=4)
    assert len(states) == 6
    await reader.bookmarks.edit(1, other.bookmark.id, BookmarkFields(), url="https://site.test/c")
    assert await reader.read(Response(200, "https://site.test/c", HTML, PAGE)) == "read", "another URL has another page"


@in_a_loop
async def test_a_known_page_is_requested_after_a_week_and_only_if_it_changed(reader: Reader) -> None:
    await reader.bookmarks.put(1, Draft(URL))
    assert await reader.read(Response(200, URL, HTML, PAGE)) == "read"
    reader.now += timedelta(days=6)
    await reader.bookmarks.put(2, Draft(URL))
    assert await reader.read() == "read"
    reader.now += timedelta(days=2)
    await reader.bookmarks.put(3, Draft(URL))
    assert await reader.read(Response(304, URL)) == "read"
    assert reader.requests[-1]["validators"].etag == '"1"'
    await reader.bookmarks.put(4, Draft(URL))
    assert await reader.read() == "read", "the answer 304 is as good as the page"
    for owner in (1, 2, 3, 4):
        [found] = await reader.bookmarks.find(owner, URL)
        assert found.title == "The article"


@in_a_loop
async def test_the_title_of_a_login_form_is_not_that_of_the_page(reader: Reader) -> None:
    login = "https://accounts.site.test/start"
    await reader.bookmarks.put(1, Draft(URL))
    assert await reader.read(Response(200, login, HTML, PAGE, (Hop(302, URL, login),))) == "read"
    [found] = await reader.bookmarks.find(1, URL)
    assert found.title == found.description == ""


@in_a_loop
async def test_what_was_made_private_or_deleted_meanwhile_is_not_requested(database_url: str) -> None:
    with Database(database_url) as database:
        requests: list[str] = []

        async def fetch(url: str, **_: Any) -> Response:
            requests.append(url)
            await saved.edit(1, ids[1], BookmarkFields(private=True))
            await saved.store.trash(1, ids[2], saved.clock())
            return Response(200, url, HTML, PAGE)

        saved = Bookmarks(
            database,
            None,  # type: ignore[arg-type]
            enqueue=lambda *_: asyncio.sleep(0),
            fetch=fetch,
            reads_private_pages=False,
            page_pause=0,
        )
        ids = [(await saved.put(1, Draft(f"https://site.test/{name}"))).bookmark.id for name in "abc"]
        await saved.pages.read_all()
        assert requests == ["https://site.test/a"]
        assert not await saved.pages.count_pending()
        await saved.edit(1, ids[1], BookmarkFields(private=False))
        assert await saved.pages.count_pending() == 1, "no longer private"


def test_delays_grow_and_a_server_may_ask_for_more_but_not_for_years() -> None:
    delays = [find_retry_delay(attempts) for attempts in range(1, 6)]
    assert delays == sorted(delays, key=lambda each: each or timedelta.max) and None not in delays
    assert find_retry_delay(6) is None
    assert find_retry_delay(1, wait=3600) == timedelta(hours=1)
    assert find_retry_delay(1, wait=1e9) == timedelta(days=3)


@in_a_loop
async def test_a_304_behind_a_redirect_says_nothing_about_the_page(reader: Reader) -> None:
    hops = (Hop(302, URL, "https://site.test/now"),)
    await reader.bookmarks.put(1, Draft(URL))
    assert await reader.read(Response(200, hops[0].location, HTML, PAGE, hops)) == "read"
    reader.now += timedelta(days=8)
    await reader.bookmarks.put(2, Draft(URL))
    unchanged = Response(304, hops[0].location, hops=hops)
    assert await reader.read(unchanged, Response(200, hops[0].location, HTML, PAGE, hops)) == "read"
    assert [bool(request.get("validators")) for request in reader.requests] == [False, True, False]
