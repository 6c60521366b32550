"""The frontier of a crawl, on both databases."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from canonry.core.scope import Verdict
from canonry.crawler.crawl_options import CrawlOptions
from canonry.crawler.crawl_store import CrawlState, CrawlStore
from canonry.crawler.crawl_views import CrawlViews
from canonry.crawler.frontier import LEASE_DURATION
from canonry.crawler.pages import Page, PageLink
from canonry.crawler.reasons import CrawlFailure, CrawlFailureKind, SkipReason
from canonry.crawler.results import FrontierBatch, LeasedPage, PageResult, PageState, PageUrl
from canonry.errors import CrawlNotFound, FailureKind
from canonry.net.engine import PageFailure
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Generator

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
SEED = "http://a.example/"
NO_CHROME = CrawlFailure(CrawlFailureKind.ENGINE, "no Chrome")


@pytest.fixture
def store(database_url: str) -> Generator[CrawlStore]:
    with Database(database_url) as database:
        yield CrawlStore(database)


def make_urls(*paths: str, scheme: str = "http") -> tuple[PageUrl, ...]:
    return tuple(PageUrl(f"{scheme}://a.example{path}", f"{scheme}://a.example{path}") for path in paths)


def make_result(page: LeasedPage, *paths: str, **values: Any) -> PageResult:
    """A page that was read and links to these paths."""
    result = PageResult(page, PageState.DONE, page.url, 200, page.requested_url, engine="http", found=make_urls(*paths))
    return replace(result, **values)


def make_link(url: str, verdict: Verdict = Verdict.CRAWL, text: str = "text") -> PageLink:
    return PageLink(url, url, text, verdict, "reason")


class Site:
    """A crawl in a store, and a clock."""

    def __init__(self, store: CrawlStore) -> None:
        self.store = store
        self.now = NOW
        self.max_pages: int | None = None
        self.id = asyncio.run(store.start(PageUrl(SEED, SEED), "a.example", CrawlOptions(depth=3), NOW)).id

    def record(self, *results: PageResult, want: int = 10, owner: str = "me", renews: bool = False) -> FrontierBatch:
        """Record results and lease more pages."""
        batch = self.store.record_and_lease(
            self.id, owner, results, CrawlOptions(max_pages=self.max_pages), want=want, now=self.now, renews=renews
        )
        return asyncio.run(batch)

    def lease(self, **options: Any) -> tuple[LeasedPage, ...]:
        return self.record(**options).leased

    def lease_linked(self, *paths: str) -> list[LeasedPage]:
        """Record a seed that links to these paths, and lease them."""
        [seed] = self.lease()
        return list(self.record(make_result(seed, *paths)).leased)

    def pages(self) -> list[Page]:
        return [stored.page for stored in asyncio.run(self.store.list_pages(self.id, limit=1000))]

    def paths(self) -> list[str]:
        return [page.url.partition(".example")[2] for page in self.pages()]

    def state(self) -> CrawlState:
        return asyncio.run(self.store.get(self.id)).state


@pytest.fixture
def site(store: CrawlStore) -> Site:
    return Site(store)


def test_a_crawl_from_its_start_to_its_end(site: Site) -> None:
    [seed] = site.lease()
    assert (seed.url, seed.depth, seed.attempts) == (SEED, 0, 0)
    waiting = site.record()
    assert (waiting.leased, waiting.is_over, waiting.wait) == ((), False, 0.5)
    links = (make_link(f"{SEED}a"),)
    batch = site.record(make_result(seed, "/a", "/b", "/a", "/", title="Home", links=links, followed=1))
    assert [each.url for each in batch.recorded] == [SEED]
    assert [(page.url, page.depth) for page in batch.leased] == [("http://a.example/a", 1), ("http://a.example/b", 1)]
    assert site.record(*map(make_result, batch.leased)).is_over
    assert site.state() is CrawlState.DONE
    [first, *_] = asyncio.run(site.store.list_pages(site.id))
    assert (first.page.title, first.page.links, first.page.status) == ("Home", links, 200)
    counts = asyncio.run(site.store.count_pages(site.id))
    assert (counts.done, counts.queued, counts.known, counts.followed) == (3, 0, 3, 1)
    assert site.record().is_over
    following = asyncio.run(site.store.list_pages(site.id, after=first.id, limit=1))
    assert [stored.page.url for stored in following] == ["http://a.example/a"]


def test_a_process_that_wants_no_pages_does_not_ask_again_at_once(site: Site) -> None:
    [seed] = site.lease()
    batch = site.record(make_result(seed, "/a"), want=0)
    assert (batch.leased, batch.wait) == ((), 0.5)


def test_a_page_is_recorded_once(site: Site) -> None:
    a, b = site.lease_linked("/a", "/b")
    assert len(site.record(make_result(a)).recorded) == 1
    again = site.record(make_result(a, "/c", title="other"), make_result(b))
    assert [each.url for each in again.recorded] == ["http://a.example/b"]
    assert site.paths() == ["/", "/a", "/b"]


def test_pages_of_a_dead_process_are_leased_to_another(site: Site) -> None:
    pages = site.lease_linked("/a", "/b")
    assert not site.lease(owner="other")
    site.now += LEASE_DURATION + timedelta(seconds=1)
    assert site.lease(owner="other") == tuple(pages)
    assert site.record(make_result(pages[0]), owner="me").recorded == (), "the lease expired"
    assert len(site.record(make_result(pages[0]), owner="other").recorded) == 1


def test_a_renewed_lease_does_not_expire(site: Site) -> None:
    site.lease_linked("/a")
    site.now += LEASE_DURATION * 0.8
    site.record(renews=True)
    site.now += LEASE_DURATION * 0.8
    assert not site.lease(owner="other")


def test_released_pages_can_be_leased_again(site: Site) -> None:
    pages = site.lease_linked("/a", "/b")
    assert asyncio.run(site.store.list_owners(site.id)) == ["me"]
    asyncio.run(site.store.release(site.id, ["other"]))
    assert not site.lease(owner="next")
    asyncio.run(site.store.release(site.id, ["me"]))
    assert site.lease(owner="next") == tuple(pages)


def test_https_is_preferred(site: Site) -> None:
    a, b, c = site.lease_linked("/a", "/b", "/c")
    site.record(make_result(a))
    site.record(make_result(b, found=(*make_urls("/a", "/c", scheme="https"), *make_urls("/d"))), want=0)
    site.record(make_result(c, found=make_urls("/d", scheme="https")), want=0)
    asyncio.run(site.store.release(site.id, ["me"]))
    [d] = site.lease()
    assert d.requested_url == "https://a.example/d", "it was not requested yet"
    site.record(make_result(d, found=make_urls("/a")))
    assert {page.url: page.requested_url for page in site.pages()} == {
        "http://a.example/": "http://a.example/",
        "https://a.example/a": "http://a.example/a",
        "http://a.example/b": "http://a.example/b",
        "https://a.example/c": "http://a.example/c",
        "https://a.example/d": "https://a.example/d",
    }


def test_pages_do_not_wait_for_the_depth_before(site: Site) -> None:
    a, _ = site.lease_linked("/a", "/b")
    [a1] = site.record(make_result(a, "/a/1", "/b")).leased
    assert (a1.url, a1.depth) == ("http://a.example/a/1", 2)


def test_no_more_pages_than_the_limit_are_leased(site: Site) -> None:
    site.max_pages = 3
    pages = site.lease_linked("/a", "/b", "/c", "/d")
    assert [page.url for page in pages] == ["http://a.example/a", "http://a.example/b"]
    assert site.record(*map(make_result, pages)).is_over
    assert asyncio.run(site.store.count_pages(site.id)).queued == 2
    asyncio.run(site.store.reopen(site.id, CrawlOptions(max_pages=4)))
    site.max_pages = 4
    [c] = site.lease()
    assert site.record(make_result(c)).is_over


def test_a_retry_is_leased_when_it_is_due(site: Site) -> None:
    [a] = site.lease_linked("/a")
    later = site.now + timedelta(seconds=7)
    batch = site.record(replace(make_result(a), state=PageState.QUEUED, retry_at=later, status=503))
    assert (batch.recorded, batch.leased, batch.is_over, batch.wait) == ((), (), False, 7.0)
    site.now = later
    [again] = site.lease()
    assert (again.id, again.attempts) == (a.id, 1)
    assert site.record(make_result(again)).is_over


def test_a_redirect_to_a_page_that_is_linked_too_is_recorded_as_that_page(site: Site) -> None:
    [old] = site.lease_linked("/old")
    # The page itself links to the redirect's target, so that the target is in the frontier.
    result = make_result(old, "/new", final_url="http://a.example/new", redirects_to="http://a.example/new")
    assert [each.url for each in site.record(result).recorded] == ["http://a.example/new"]
    assert site.paths() == ["/", "/new"]


def test_the_target_of_a_recorded_redirect_is_no_page_of_its_own(site: Site) -> None:
    old, other = site.lease_linked("/old", "/other")
    result = make_result(old, final_url="http://a.example/new", redirects_to="http://a.example/new")
    assert [each.url for each in site.record(result).recorded] == ["http://a.example/old"]
    assert site.record(make_result(other, "/new")).is_over
    assert site.paths() == ["/", "/old", "/other"]
    assert asyncio.run(site.store.count_pages(site.id)).skipped == {SkipReason.DUPLICATE: 1}


def test_a_redirect_to_a_recorded_page_is_skipped(site: Site) -> None:
    new, old = site.lease_linked("/new", "/old")
    site.record(make_result(new))
    assert site.record(make_result(old, final_url=new.url, redirects_to=new.url)).recorded == ()
    assert site.paths() == ["/", "/new"]
    assert site.state() is CrawlState.DONE
    counts = asyncio.run(site.store.count_pages(site.id))
    assert (counts.skipped, counts.duplicates_avoided) == ({SkipReason.REDIRECT_TO_PAGE: 1}, 1)


def test_urls_may_have_any_length(site: Site) -> None:
    long = "/" + "x" * 100_000
    [page] = site.lease_linked(long)
    assert site.record(make_result(page, long)).is_over
    assert site.paths() == ["/", long]


def test_the_latest_crawl_of_a_seed_is_found(store: CrawlStore) -> None:
    assert asyncio.run(store.find_latest(SEED)) is None
    first, second = Site(store), Site(store)
    latest = asyncio.run(store.find_latest(SEED))
    assert latest is not None and latest.id == second.id and latest.options == CrawlOptions(depth=3)
    assert [crawl.id for crawl in asyncio.run(store.list_crawls())] == [second.id, first.id]
    second.lease_linked("/a")
    asyncio.run(store.remove(second.id))
    assert [crawl.id for crawl in asyncio.run(store.list_crawls())] == [first.id]


@pytest.mark.parametrize(
    "failure", [NO_CHROME, CrawlFailure(CrawlFailureKind.START_MOVED, target="http://b.example/")], ids=str
)
def test_a_failed_crawl_keeps_its_failure_until_it_is_reopened(site: Site, failure: CrawlFailure) -> None:
    asyncio.run(site.store.fail(site.id, failure, NOW))
    crawl = asyncio.run(site.store.get(site.id))
    assert (crawl.state, crawl.failure, crawl.moved_to) == (CrawlState.FAILED, failure, failure.target)
    assert site.record().is_over
    asyncio.run(site.store.reopen(site.id, crawl.options))
    crawl = asyncio.run(site.store.get(site.id))
    assert (crawl.state, crawl.failure, crawl.moved_to) == (CrawlState.RUNNING, None, "")


def test_many_processes_lease_each_page_once(site: Site, database_url: str) -> None:
    paths = [f"/{number}" for number in range(200)]
    [seed] = site.lease()
    site.record(make_result(seed, *paths), want=0)
    leased: list[int] = []

    async def work(owner: str) -> None:
        with Database(database_url) as database:
            store, options = CrawlStore(database), CrawlOptions()
            results: list[PageResult] = []
            while not (
                batch := await store.record_and_lease(site.id, owner, results, options, want=3, now=NOW)
            ).is_over:
                results = [make_result(page) for page in batch.leased]
                leased.extend(page.id for page in batch.leased)
                await asyncio.sleep(0)

    async def run_workers() -> None:
        await asyncio.gather(*(work(f"owner {number}") for number in range(4)))

    asyncio.run(run_workers())
    assert len(leased) == len(set(leased)) == 200
    assert sorted(site.paths()) == sorted(["/", *paths])


def test_a_stopped_crawl_leases_no_pages_and_records_those_that_were_open(site: Site) -> None:
    first, second = site.lease_linked("/a", "/b")
    assert asyncio.run(site.store.stop(site.id, NOW)).state is CrawlState.STOPPED
    batch = site.record(make_result(first, "/c"))
    assert (batch.is_over, batch.leased, [each.url for each in batch.recorded]) == (True, (), ["http://a.example/a"])
    asyncio.run(site.store.release(site.id, ["me"]))
    asyncio.run(site.store.reopen(site.id, CrawlOptions()))
    assert {page.url for page in site.lease()} == {second.url, "http://a.example/c"}


def test_a_crawl_that_is_over_cannot_be_stopped(site: Site) -> None:
    asyncio.run(site.store.fail(site.id, NO_CHROME, NOW))
    assert asyncio.run(site.store.stop(site.id, NOW)).state is CrawlState.FAILED


def test_a_crawl_that_is_removed_while_it_runs_is_over(site: Site) -> None:
    [page] = site.lease()
    asyncio.run(site.store.remove(site.id))
    batch = site.record(make_result(page, "/a"))
    assert (batch.is_over, batch.leased, batch.recorded) == (True, (), ())
    for call in (site.store.get(site.id), site.store.remove(site.id), site.store.stop(site.id, NOW)):
        with pytest.raises(CrawlNotFound) as caught:
            asyncio.run(call)
        assert caught.value.crawl_id == site.id
    assert asyncio.run(site.store.list_pages(site.id)) == []


def test_crawls_are_listed_by_state_and_before_an_id(site: Site) -> None:
    other = asyncio.run(site.store.start(PageUrl(SEED, SEED), "a.example", CrawlOptions(), NOW))
    asyncio.run(site.store.stop(other.id, NOW))
    assert [crawl.id for crawl in asyncio.run(site.store.list_crawls(state=CrawlState.RUNNING))] == [site.id]
    assert [crawl.id for crawl in asyncio.run(site.store.list_crawls(before=other.id))] == [site.id]
    assert [crawl.id for crawl in asyncio.run(site.store.list_crawls(1))] == [other.id]


def test_a_failed_page_has_the_kind_of_its_failure(site: Site) -> None:
    [a] = site.lease_linked("/a")
    failure = PageFailure(FailureKind.TIMEOUT, "no answer within 30 s")
    site.record(replace(make_result(a), state=PageState.FAILED, failure=failure, status=0))
    assert [(page.failure, page.error) for page in site.pages()] == [
        (None, ""),
        (FailureKind.TIMEOUT, "no answer within 30 s"),
    ]


def test_views_show_the_graph_and_the_activity(site: Site) -> None:
    views = CrawlViews(site.store.database)
    assert asyncio.run(views.list_nodes(site.id, 10)) == [] and asyncio.run(views.count_states([])) == {}
    links = (make_link(f"{SEED}a"), make_link(f"{SEED}b", Verdict.EXTERNAL)) * 2
    [seed] = site.lease()
    a, b, c, d = site.record(make_result(seed, "/a", "/b", "/c", "/d", title="Home", links=links)).leased
    failed = replace(
        make_result(b), state=PageState.FAILED, failure=PageFailure(FailureKind.DNS, "unknown name"), status=0
    )
    skipped = replace(make_result(c), state=PageState.SKIPPED, skip_reason=SkipReason.ROBOTS_DISALLOWED)
    site.record(make_result(a, "/e"), failed, skipped, want=0)
    assert asyncio.run(views.count_states([site.id, 77])) == {
        site.id: {"done": 2, "failed": 1, "skipped": 1, "fetching": 1, "queued": 1}
    }
    [home, *others] = asyncio.run(views.list_nodes(site.id, 10))
    assert (home.url, home.title, home.depth, home.referrer, home.targets) == (SEED, "Home", 0, "", (f"{SEED}a",))
    assert [(node.url, node.referrer, node.is_failed) for node in others] == [(a.url, SEED, False), (b.url, SEED, True)]
    assert [node.url for node in asyncio.run(views.list_nodes(site.id, 2))] == [SEED, a.url]
    activity = asyncio.run(views.get_activity(site.id, 2))
    assert (activity.open, [node.url for node in activity.latest]) == ((d.requested_url,), [b.url, a.url])


def test_views_do_not_parse_very_long_lists_of_links(site: Site) -> None:
    [seed] = site.lease()
    site.record(make_result(seed, links=(make_link(SEED, text="x" * 50),) * 5000))
    [node] = asyncio.run(CrawlViews(site.store.database).list_nodes(site.id, 10))
    assert node.targets is None
