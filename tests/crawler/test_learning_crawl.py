"""`crawl --learn` reads fewer URLs and loses no page; rules that fail give back what they left out (contract L7)."""

from __future__ import annotations

from typing import Any

import pytest

import canonry
from canonry.crawler.learned_rule_store import make_learned_key, save_learning
from canonry.crawler.learned_rules import LearnedState, LearningProgress, is_learning_due
from canonry.crawler.left_pages import list_left_groups
from canonry.crawler.reasons import SkipReason
from canonry.store.database import Database
from loopback import LoopbackWeb, in_a_loop
from page_texts import make_article

pytest.importorskip("duckdb")

HOST = "http://site.test"
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


@pytest.mark.parametrize(
    ("before", "taken", "is_exhausted", "is_due"),
    [(0, 99, False, False), (0, 100, False, True), (0, 50, True, False), (100, 149, False, False),
     (100, 150, False, True), (100, 101, True, True), (100, 100, True, False)],
)  # fmt: skip
def test_rules_are_learned_at_times_and_at_the_end(
    before: int, taken: int, *, is_exhausted: bool, is_due: bool
) -> None:
    assert is_learning_due(LearningProgress(before), taken=taken, is_exhausted=is_exhausted) is is_due
