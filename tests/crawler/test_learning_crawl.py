"""`crawl --learn` reads fewer URLs and loses no page; rules that fail give back what they left out (contract L7)."""

from __future__ import annotations

import asyncio
import html
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl
from zlib import crc32

import pytest

import canonry
from canonry.crawler.crawl_options import CrawlOptions
from canonry.crawler.crawl_store import CrawlStore
from canonry.crawler.learned_rule_store import make_learned_key, save_learning
from canonry.crawler.learned_rules import LearnedState, LearningProgress, is_learning_due
from canonry.crawler.left_pages import list_left_groups
from canonry.crawler.reasons import SkipReason
from canonry.crawler.results import LeasedPage, PageResult, PageState, PageUrl
from canonry.crawler.url_patterns import name_page_kind
from canonry.evidence.fingerprint import fingerprint_text
from canonry.store.database import Database
from loopback import LoopbackWeb, in_a_loop
from page_texts import make_article

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

pytest.importorskip("duckdb")

HOST = "http://site.test"
NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
ARTICLES = 160
PER_LIST = 20


def make_site(*, differs: frozenset[int] = frozenset()) -> dict[str, dict[str, Any]]:
    """Return lists of articles; each article has a visit number in its links, and a page to print without links.

    `part` selects a text. Notes are linked from the plain page of an article only. The articles in `differs` show
    another text for each visit number.
    """
    site: dict[str, dict[str, Any]] = {}

    def add(path: str, seed: int, title: str, links: list[str]) -> None:
        anchors = "".join(f'<a href="{link}"></a>' for link in links)
        body = f"<title>{title}</title><p>{make_article(seed)}</p>{anchors}"
        site[f"{HOST}{path}"] = {"headers": {"Content-Type": "text/html"}, "body": body}

    lists = range(ARTICLES // PER_LIST)
    add("/", 100_000, "Start", [f"/list/{number}" for number in lists])
    for number in lists:
        listed = range(number * PER_LIST, (number + 1) * PER_LIST)
        links = [f"/a/{each}{tail}" for each in listed for tail in ("", f"?visit={each % 7}", f"?visit={each % 5 + 9}")]
        add(f"/list/{number}", 100_001 + number, f"List {number}", links)
    for number in range(ARTICLES):
        for visit in (None, number % 7, number % 5 + 9):
            tail = "" if visit is None else f"?visit={visit}"
            more = [f"/a/{number}/print{tail}", f"/a/{number}?part=2"]
            links = [*more, f"/a/{number}/note"] if number % 10 == 3 else more
            seed = number if visit is None or number not in differs else 500_000 + number * 100 + visit
            add(f"/a/{number}{tail}", seed, f"Article {seed}", links)
            add(f"/a/{number}/print{tail}", seed, f"Article {seed}", [f"/a/{number}"])
        add(f"/a/{number}?part=2", 200_000 + number, f"Part {number}", [])
        if number % 10 == 3:
            add(f"/a/{number}/note", 300_000 + number, f"Note {number}", [])
    return site


def list_titles(site: dict[str, dict[str, Any]]) -> set[str]:
    return {page["body"].partition("</title>")[0].removeprefix("<title>") for page in site.values()}


async def crawl(store: Database, site: dict[str, dict[str, Any]], **options: Any) -> tuple[set[str], int]:
    """Return the titles that were read, one for each text, and the number of requests."""
    async with LoopbackWeb(site, {"status": 404}) as web, web.client() as client:
        pages = [
            page
            async for page in canonry.crawl(
                f"{HOST}/",
                engine="http",
                client=client,
                store=store,
                robots=False,
                fold=False,
                trap_pages=None,
                control=False,  # a control requests a URL twice
                **options,
            )
        ]
        return {page.title for page in pages if page.status == 200}, len(web.requests)


@pytest.mark.slow
@in_a_loop
async def test_a_third_of_the_requests_is_saved_and_no_page_is_lost(tmp_path: Any) -> None:
    site = make_site()
    with Database(f"sqlite:///{tmp_path}/crawl.db") as store:
        titles, requests = await crawl(store, site, learn=True)
        assert titles == list_titles(site)
        assert requests <= 0.7 * len(site)  # without --learn every URL is requested
        groups = await list_left_groups(store, 1)
        assert {group.reason for group in groups} == {SkipReason.LEARNED_RULE}
        assert 0 < sum(group.pages for group in groups) <= len(site) - requests
        _, more_requests = await crawl(store, site, resume=True, learn=False)
        assert requests + more_requests == len(site)


@pytest.mark.slow
@in_a_loop
async def test_a_rule_that_fails_gives_its_pages_back(tmp_path: Any) -> None:
    site = make_site(differs=frozenset(range(ARTICLES - 40, ARTICLES)))
    wrong = LearnedState((("site.test", "drop_query_params", "part"),))
    key = make_learned_key("param:part")

    def spoil(started: Any) -> None:
        """Store a rule that is wrong before the first page is read."""
        store.write_now(
            lambda connection: save_learning(connection, started.id, {key: wrong}, {key: "wrong"}, keys={}, taken=0)
        )

    with Database(f"sqlite:///{tmp_path}/crawl.db") as store:
        titles, _ = await crawl(store, site, learn=True, on_start=spoil)
        assert titles == list_titles(site)
        assert "wrong" not in {group.pattern for group in await list_left_groups(store, 1)}


def make_script_site(links: list[str], shows: Callable[[str, dict[str, str]], object]) -> dict[str, dict[str, Any]]:
    """Return a start page with links; the text of each depends on what `shows` returns for its path and parameters."""
    texts = {link: str(shows(link.partition("?")[0], dict(parse_qsl(link.partition("?")[2])))) for link in links}
    anchors = "".join(f'<a href="{html.escape(link)}"></a>' for link in links)
    site: dict[str, dict[str, Any]] = {}
    for link, text in {"/": "start", **texts}.items():
        body = f"<title>{text}</title><p>{make_article(crc32(text.encode()))}</p>{anchors if link == '/' else ''}"
        site[f"{HOST}{link}"] = {"headers": {"Content-Type": "text/html"}, "body": body}
    return site


async def crawl_with_rules(store: Database, site: dict[str, dict[str, Any]], *parameters: str) -> tuple[set[str], int]:
    """Crawl with rules that these parameters do not matter; the site is too small for rules to be learned again."""
    states = {make_learned_key(name): LearnedState((("site.test", "drop_query_params", name),)) for name in parameters}
    texts = dict.fromkeys(states, "given")

    def give(started: Any) -> None:
        store.write_now(lambda connection: save_learning(connection, started.id, states, texts, keys={}, taken=0))

    return await crawl(store, site, learn=True, on_start=give)


PROVEN = [f"/i?id={number}&v={each}" for number in range(20) for each in range(3)]  # `v` does not matter
OTHER_KINDS = [
    # why                    further links                                           what their text depends on
    ("one page, 3 texts",    [f"/j?id=0&v={each}" for each in range(3)],             lambda path, q: (path, q)),
    ("no other parameter",   [f"/list?v={each}" for each in range(3)],               lambda path, q: (path, q)),
    ("another folder",       [f"/old/i?id=0&v={each}" for each in range(3)],         lambda path, q: (path, q)),
    ("more parameters",      [f"/i?id=0&at=top&v={each}" for each in range(3)],      lambda path, q: (path, q)),
    ("a path with a hyphen", [f"/i-list?id=0&v={each}" for each in range(3)],        lambda path, q: (path, q)),
    ("another rule",         [f"/j?id=0&s={s}&v={v}" for s in "ab" for v in "1234567"],
                             lambda path, q: (path, q["id"], q["s"])),
]  # fmt: skip


@pytest.mark.parametrize(("more", "shows"), [row[1:] for row in OTHER_KINDS], ids=[row[0] for row in OTHER_KINDS])
@in_a_loop
async def test_a_rule_loses_no_page_of_a_kind_in_which_it_fails(
    tmp_path: Any, more: list[str], shows: Callable[[str, dict[str, str]], object]
) -> None:
    site = make_script_site(
        [*PROVEN, *more], lambda path, query: shows(path, query) if path != "/i" or "at" in query else query["id"]
    )
    with Database(f"sqlite:///{tmp_path}/crawl.db") as store:
        titles, _ = await crawl_with_rules(store, site, "v", "s")
    assert titles == list_titles(site)


@in_a_loop
async def test_a_rule_leaves_out_pages_once_three_of_their_kind_confirmed_it(tmp_path: Any) -> None:
    links = [f"/a-title-{number}?v={each}" for number in range(20) for each in range(3)]
    site = make_script_site([*PROVEN, *links], lambda path, query: (path, query.get("id")))
    with Database(f"sqlite:///{tmp_path}/crawl.db") as store:
        titles, requests = await crawl_with_rules(store, site, "v")
        assert titles == list_titles(site)
        assert sum(group.pages for group in await list_left_groups(store, 1)) == len(site) - requests
    # Of 2 kinds each 3 second pages and those that are open meanwhile, and of 40 forms about one in 8.
    assert len(titles) + 2 * 3 <= requests <= len(titles) + 2 * 7 + 10


class Frontier:
    """The frontier of a crawl with the rule that the parameter `v` does not matter, after its start page was read."""

    def __init__(self, store: Database, links: list[str]) -> None:
        self._crawls = CrawlStore(store)
        self._options = CrawlOptions(engine="http", learn=True, policy="crawl@2")
        self._id = asyncio.run(self._crawls.start(make_page_url("/"), "site.test", self._options, NOW)).id
        key = make_learned_key("param:v")
        state = LearnedState((("site.test", "drop_query_params", "v"),))
        store.write_now(
            lambda connection: save_learning(connection, self._id, {key: state}, {key: "given"}, keys={}, taken=10_000)
        )
        [start] = self.lease()
        found = tuple(map(make_page_url, links))
        self.first = self.lease(replace(self.read(start, ""), found=found))

    def lease(self, *results: PageResult) -> tuple[LeasedPage, ...]:
        """Record results and lease up to ten pages."""
        batch = self._crawls.record_and_lease(
            self._id, "me", results, self._options, want=10, now=NOW, learn_policy=self._options.load_policy()
        )
        return asyncio.run(batch).leased

    def read(self, page: LeasedPage, text: str) -> PageResult:
        """Return the result of a page that was read."""
        values: dict[str, Any] = {"final_url": page.url, "engine": "http", "fingerprint": fingerprint_text(text)}
        return PageResult(page, PageState.DONE, page.url, 200, **values)


def make_page_url(path: str) -> PageUrl:
    return PageUrl(HOST + path, HOST + path)


def test_pages_that_wait_for_another_one_are_no_parameters_of_a_query() -> None:
    """SQLite and PostgreSQL limit the parameters of a query, to less than the pages that can wait."""
    with Database("sqlite://") as store:
        store.write_now(lambda connection: limit_parameters(connection, 1000))
        frontier = Frontier(store, [f"/login?v={number}" for number in range(1500)])
        assert len(frontier.first) == 1
        assert frontier.lease() == (), "the others wait"


def limit_parameters(connection: Connection, count: int) -> None:
    driver: Any = connection.connection.driver_connection
    driver.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, count)


def test_short_texts_that_prove_nothing_are_not_read_one_after_the_other() -> None:
    with Database("sqlite://") as store:
        frontier = Frontier(store, [f"/login?v={number}" for number in range(100)])
        leased = frontier.first
        for _ in range(6):
            assert len(leased) == 1
            leased = frontier.lease(frontier.read(leased[0], "Log in"))
        assert len(leased) == 10


KINDS = [
    # why                            url                         form                   wanted
    ("ids in the path",              "/a/3?visit=7",             "/a/3",                "/a/N?visit"),
    ("titles are ids",               "/news/red-shoes?v=1",      "/news/red-shoes",     "/news/*?v"),
    ("one word is a page",           "/list?v=1",                "/list",               "/list?v"),
    ("a script is named with words", "/news-list?id=3&v=1",      "/news-list?id=3",     "/news-list?id&v"),
    ("in any order",                 "/j?v=1&id=3",              "/j?id=3",             "/j?id&v"),
    ("without a value",              "/j?id=3&v",                "/j?id=3",             "/j?id&v"),
    ("random",                       "/u/0a1b2c3d4e5f6a7b",      "/u/0a1b2c3d4e5f6a7b", "/u/X"),
    ("a folder is another kind",     "/a/3/",                    "/a/3",                "/a/N/"),
    ("the start page",               "/?v=1",                    "/",                   "/?v"),
]  # fmt: skip


@pytest.mark.parametrize(("url", "form", "wanted"), [row[1:] for row in KINDS], ids=[row[0] for row in KINDS])
def test_urls_are_of_one_kind_if_they_differ_only_in_ids_and_values(url: str, form: str, wanted: str) -> None:
    assert name_page_kind(HOST + url, form=HOST + form) == wanted


@pytest.mark.parametrize(
    ("before", "taken", "is_exhausted", "is_due"),
    [(0, 99, False, False), (0, 100, False, True), (0, 50, True, False), (100, 149, False, False),
     (100, 150, False, True), (100, 101, True, True), (100, 100, True, False)],
)  # fmt: skip
def test_rules_are_learned_at_times_and_at_the_end(
    before: int, taken: int, *, is_exhausted: bool, is_due: bool
) -> None:
    assert is_learning_due(LearningProgress(before), taken=taken, is_exhausted=is_exhausted) is is_due
