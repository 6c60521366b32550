"""The frontier of a crawl, on both databases."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from canonry.crawler.crawl_options import CrawlOptions
from canonry.crawler.crawl_store import CrawlNotFound, CrawlState, CrawlStore
from canonry.crawler.crawl_views import CrawlViews
from canonry.crawler.frontier import LEASE, FrontierBatch, LeasedPage, PageResult, PageState, PageUrl
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Generator

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
SEED = "http://a.example/"


@pytest.fixture
def store(database_url: str) -> Generator[CrawlStore]:
    with Database(database_url) as database:
        yield CrawlStore(database)


def found(*paths: str, scheme: str = "http") -> tuple[PageUrl, ...]:
    return tuple(PageUrl(f"{scheme}://a.example{path}", f"{scheme}://a.example{path}") for path in paths)


def done(page: LeasedPage, *paths: str, **values: Any) -> PageResult:
    finished = PageResult(page, PageState.DONE, page.url, 200, page.requested_url, engine="http", found=found(*paths))
    return replace(finished, **values)


class Site:
    """A crawl in a store, and a clock."""

    def __init__(self, store: CrawlStore) -> None:
        self.store = store
        self.now = NOW
        self.max_pages: int | None = None
        self.id = asyncio.run(store.start(PageUrl(SEED, SEED), "a.example", CrawlOptions(depth=3), NOW)).id

    def turn(self, *finished: PageResult, want: int = 10, owner: str = "me", renews: bool = False) -> FrontierBatch:
        turn = self.store.record_and_lease(
            self.id, owner, finished, want=want, now=self.now, max_pages=self.max_pages, renews=renews
        )
        return asyncio.run(turn)

    def begin(self, *paths: str) -> list[LeasedPage]:
        """The pages that the seed leads to, taken."""
        [seed] = self.turn().leased
        return list(self.turn(done(seed, *paths)).leased)

    def kept(self) -> list[str]:
        return [page.url.partition(".example")[2] for page in asyncio.run(self.store.pages(self.id, limit=1000))]

    def state(self) -> str:
        return asyncio.run(self.store.get(self.id)).state


@pytest.fixture
def site(store: CrawlStore) -> Site:
    return Site(store)


def test_a_crawl_from_its_start_to_its_end(site: Site) -> None:
    [seed] = site.turn().leased
    assert (seed.url, seed.depth, seed.attempts) == (SEED, 0, 0)
    waiting = site.turn()
    assert (waiting.leased, waiting.is_over, waiting.wait) == ((), False, 0.5)
    turn = site.turn(
        done(seed, "/a", "/b", "/a", "/", title="Home", links=[["/a", "u", "t", "crawl", "r"]], followed=1)
    )
    assert [each.url for each in turn.recorded] == [SEED]
    assert [(page.url, page.depth) for page in turn.leased] == [("http://a.example/a", 1), ("http://a.example/b", 1)]
    assert site.turn(*map(done, turn.leased)).is_over
    assert site.state() == "done"
    [first, *_] = asyncio.run(site.store.pages(site.id))
    assert (first.title, first.links, first.status) == ("Home", (("/a", "u", "t", "crawl", "r"),), 200)
    counts = asyncio.run(site.store.counts(site.id))
    assert (counts.done, counts.queued, counts.known, counts.followed) == (3, 0, 3, 1)
    assert site.turn().is_over
    assert [page.url for page in asyncio.run(site.store.pages(site.id, after=first.id, limit=1))] == [
        "http://a.example/a"
    ]


def test_what_is_kept_is_kept_once(site: Site) -> None:
    a, b = site.begin("/a", "/b")
    assert len(site.turn(done(a)).recorded) == 1
    again = site.turn(done(a, "/c", title="other"), done(b))
    assert [each.url for each in again.recorded] == ["http://a.example/b"]
    assert site.kept() == ["/", "/a", "/b"]


def test_pages_of_a_dead_process_come_back(site: Site) -> None:
    pages = site.begin("/a", "/b")
    assert not site.turn(owner="other").leased
    site.now += LEASE + timedelta(seconds=1)
    assert site.turn(owner="other").leased == tuple(pages)
    assert site.turn(done(pages[0]), owner="me").recorded == (), "it is another's by now"
    assert len(site.turn(done(pages[0]), owner="other").recorded) == 1


def test_who_lives_keeps_what_it_took(site: Site) -> None:
    site.begin("/a")
    site.now += LEASE * 0.8
    site.turn(renews=True)
    site.now += LEASE * 0.8
    assert not site.turn(owner="other").leased


def test_pages_are_given_back(site: Site) -> None:
    pages = site.begin("/a", "/b")
    assert asyncio.run(site.store.owners(site.id)) == ["me"]
    asyncio.run(site.store.release(site.id, ["other"]))
    assert not site.turn(owner="next").leased
    asyncio.run(site.store.release(site.id, ["me"]))
    assert site.turn(owner="next").leased == tuple(pages)


def test_https_is_preferred(site: Site) -> None:
    a, b, c = site.begin("/a", "/b", "/c")
    site.turn(done(a))
    site.turn(done(b, found=(*found("/a", "/c", scheme="https"), *found("/d"))))
    site.turn(done(c, found=found("/d", scheme="https")))
    [d] = asyncio.run(_taken(site))
    assert d.requested_url == "https://a.example/d", "not asked for yet"
    site.turn(done(d, found=found("/a")))
    pages = {page.url: page.requested_url for page in asyncio.run(site.store.pages(site.id))}
    assert pages == {
        "http://a.example/": "http://a.example/",
        "https://a.example/a": "http://a.example/a",
        "http://a.example/b": "http://a.example/b",
        "https://a.example/c": "http://a.example/c",
        "https://a.example/d": "https://a.example/d",
    }


async def _taken(site: Site) -> list[LeasedPage]:
    await site.store.release(site.id, ["me"])
    turn = await site.store.record_and_lease(site.id, "me", (), want=10, now=site.now)
    return list(turn.leased)


def test_levels_wait_for_each_other(site: Site) -> None:
    a, b = site.begin("/a", "/b")
    assert site.turn(done(a, "/a/1", "/b")).leased == ()
    [a1] = site.turn(done(b)).leased
    assert a1.depth == 2


def test_not_more_than_the_limit(site: Site) -> None:
    site.max_pages = 3
    pages = site.begin("/a", "/b", "/c", "/d")
    assert [page.url for page in pages] == ["http://a.example/a", "http://a.example/b"]
    assert site.turn(*map(done, pages)).is_over
    assert asyncio.run(site.store.counts(site.id)).queued == 2
    asyncio.run(site.store.reopen(site.id, CrawlOptions(max_pages=4)))
    site.max_pages = 4
    [c] = site.turn().leased
    assert site.turn(done(c)).is_over


def test_another_try(site: Site) -> None:
    [a] = site.begin("/a")
    later = site.now + timedelta(seconds=7)
    turn = site.turn(replace(done(a), state=PageState.QUEUED, retry_at=later, status=503))
    assert (turn.recorded, turn.leased, turn.is_over, turn.wait) == ((), (), False, 7.0)
    site.now = later
    [again] = site.turn().leased
    assert (again.id, again.attempts) == (a.id, 1)
    assert site.turn(done(again)).is_over


def test_a_page_that_redirects_to_a_new_one_is_that_page(site: Site) -> None:
    [old] = site.begin("/old")
    turn = site.turn(done(old, "/new", final_url="http://a.example/new", leads_to="http://a.example/new"))
    # The page's own links lead to it, too: they were there first.
    assert [each.url for each in turn.recorded] == ["http://a.example/new"]
    assert site.kept() == ["/", "/new"]


def test_a_target_nobody_links_to_is_no_page_of_its_own_later(site: Site) -> None:
    old, other = site.begin("/old", "/other")
    turn = site.turn(done(old, final_url="http://a.example/new", leads_to="http://a.example/new"))
    assert [each.url for each in turn.recorded] == ["http://a.example/old"]
    assert site.turn(done(other, "/new")).is_over
    assert site.kept() == ["/", "/old", "/other"]
    assert asyncio.run(site.store.counts(site.id)).skipped == {"the same page as another": 1}


def test_a_target_that_is_kept_is_not_kept_twice(site: Site) -> None:
    new, old = site.begin("/new", "/old")
    site.turn(done(new))
    assert site.turn(done(old, final_url=new.url, leads_to=new.url)).recorded == ()
    assert site.kept() == ["/", "/new"]
    assert site.state() == "done"


def test_addresses_of_any_length(site: Site) -> None:
    long = "/" + "x" * 100_000
    [page] = site.begin(long)
    assert site.turn(done(page, long)).is_over
    assert site.kept() == ["/", long]


def test_crawls_of_a_seed(store: CrawlStore) -> None:
    assert asyncio.run(store.latest(SEED)) is None
    first, second = Site(store), Site(store)
    latest = asyncio.run(store.latest(SEED))
    assert latest is not None and latest.id == second.id and latest.options == CrawlOptions(depth=3)
    assert [crawl.id for crawl in asyncio.run(store.all())] == [second.id, first.id]
    second.begin("/a")
    asyncio.run(store.remove(second.id))
    assert [crawl.id for crawl in asyncio.run(store.all())] == [first.id]
    asyncio.run(store.fail(first.id, "no", NOW))
    assert first.turn().is_over


def test_many_processes_take_each_page_once(site: Site, database_url: str) -> None:
    paths = [f"/{number}" for number in range(200)]
    [seed] = site.turn().leased
    site.turn(done(seed, *paths), want=0)
    taken: list[int] = []

    async def work(owner: str) -> None:
        with Database(database_url) as database:
            mine = CrawlStore(database)
            pages: tuple[LeasedPage, ...] = ()
            while not (
                turn := await mine.record_and_lease(site.id, owner, [done(page) for page in pages], want=3, now=NOW)
            ).is_over:
                pages = turn.leased
                taken.extend(page.id for page in pages)
                await asyncio.sleep(0)

    async def all_of_them() -> None:
        await asyncio.gather(*(work(f"owner {number}") for number in range(4)))

    asyncio.run(all_of_them())
    assert len(taken) == len(set(taken)) == 200
    assert sorted(site.kept()) == sorted(["/", *paths])


def test_a_crawl_that_is_stopped_gives_no_more_pages_and_keeps_what_comes(site: Site) -> None:
    [first, second] = site.begin("/a", "/b")[:2]
    assert asyncio.run(site.store.stop(site.id, NOW)).state == "stopped"
    turn = site.turn(done(first, "/c"))
    assert (turn.is_over, turn.leased, [each.url for each in turn.recorded]) == (True, (), ["http://a.example/a"])
    asyncio.run(site.store.release(site.id, ["me"]))
    asyncio.run(site.store.reopen(site.id, CrawlOptions()))
    assert {page.url for page in site.turn().leased} == {second.url}, "/c waits for its level"
    assert asyncio.run(site.store.stop(site.id, NOW)).state == "stopped"
    asyncio.run(site.store.fail(site.id, "why", NOW))
    assert asyncio.run(site.store.stop(site.id, NOW)).state == "failed", "what is over stays as it is"


def test_a_crawl_that_is_removed_while_it_runs_is_over(site: Site) -> None:
    [page] = site.turn().leased
    asyncio.run(site.store.remove(site.id))
    turn = site.turn(done(page, "/a"))
    assert (turn.is_over, turn.leased, turn.recorded) == (True, (), ())
    for asked in (site.store.get(site.id), site.store.remove(site.id), site.store.stop(site.id, NOW)):
        with pytest.raises(CrawlNotFound, match=f"no crawl has the number {site.id}"):
            asyncio.run(asked)
    assert asyncio.run(site.store.pages(site.id)) == []


def test_crawls_by_state_and_before_a_number(site: Site) -> None:
    other = asyncio.run(site.store.start(PageUrl(SEED, SEED), "a.example", CrawlOptions(), NOW))
    asyncio.run(site.store.stop(other.id, NOW))
    assert [crawl.id for crawl in asyncio.run(site.store.all(state=CrawlState.RUNNING))] == [site.id]
    assert [crawl.id for crawl in asyncio.run(site.store.all(before=other.id))] == [site.id]
    assert [crawl.id for crawl in asyncio.run(site.store.all(1))] == [other.id]


def test_what_is_shown_of_a_crawl(site: Site) -> None:
    views = CrawlViews(site.store.database)
    assert asyncio.run(views.graph(site.id, 10)) == [] and asyncio.run(views.count_states([])) == {}
    links = [[SEED, f"{SEED}{name}", "x", verdict, "r"] for name, verdict in (("a", "crawl"), ("b", "external"))]
    [seed] = site.turn().leased
    a, b, c, d = site.turn(done(seed, "/a", "/b", "/c", "/d", title="Home", links=links * 2)).leased
    failed = replace(done(b), state=PageState.FAILED, error="why", status=0)
    site.turn(done(a, "/e"), failed, replace(done(c), state=PageState.SKIPPED, error="robots"), want=0)
    assert asyncio.run(views.count_states([site.id, 77])) == {
        site.id: {"done": 2, "failed": 1, "skipped": 1, "fetching": 1, "queued": 1}
    }
    [home, *others] = asyncio.run(views.graph(site.id, 10))
    assert (home.url, home.title, home.depth, home.referrer, home.targets) == (SEED, "Home", 0, "", (f"{SEED}a",))
    assert [(node.url, node.referrer, node.is_failed) for node in others] == [(a.url, SEED, False), (b.url, SEED, True)]
    assert [node.url for node in asyncio.run(views.graph(site.id, 2))] == [SEED, a.url]
    glance = asyncio.run(views.get_activity(site.id, 2))
    assert (glance.open, [node.url for node in glance.latest]) == ((d.requested_url,), [b.url, a.url])
    site.turn(done(d, links=[[SEED, SEED, "x" * 50, "crawl", "r"]] * 5000))
    assert asyncio.run(views.graph(site.id, 10))[-1].targets is None, "so many are not looked at"
