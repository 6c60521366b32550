"""Crawls store what pages showed, and control a few of them (contract C8, E4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

import canonry
from canonry.crawler.control_fetches import ControlFetch, ControlKind, choose_control
from canonry.crawler.crawl_facts import make_crawl_fact
from canonry.evidence.fact_store import FactStore
from canonry.evidence.fingerprint import fingerprint_text
from canonry.learner.read_crawls import read_crawl_rows
from canonry.net.http_engine import HttpEngine
from canonry.net.origin import Origin
from canonry.net.site_access import SiteAccess
from canonry.store.database import Database
from canonry.store.schema import crawl_controls, page_facts
from chrome import needs_chrome, run_engine
from loopback import LoopbackWeb, in_a_loop
from page_texts import make_page

if TYPE_CHECKING:
    from collections.abc import Generator

HOST = "http://site.test"
ITEMS = 100


@pytest.fixture
def database(sqlite_url: str) -> Generator[Database]:
    with Database(sqlite_url) as opened:
        yield opened


def make_shop() -> dict[str, dict[str, Any]]:
    """Return a site whose items are selected by one parameter and do not depend on another one."""
    links = "".join(f'<a href="/item?id={each}&from=list">item</a>' for each in range(ITEMS))
    site = {f"{HOST}/": make_page({"article": 1000, "extra": f'{links}<a href="/old">old</a>'})}
    for each in range(ITEMS):
        page = make_page({"article": each, "title": f"Item {each}"})
        site |= {f"{HOST}/item?id={each}{rest}": page for rest in ("&from=list", "")}
    site[f"{HOST}/item?from=list"] = make_page({"article": 2000, "title": "All items"})
    head = '<link rel="canonical" href="/item?id=1">'
    site[f"{HOST}/new"] = make_page({"article": 3000, "head": head})
    site[f"{HOST}/old"] = {"status": 301, "headers": {"location": "/new"}}
    return site


async def crawl(database: Database, **options: Any) -> tuple[list[canonry.Page], list[str]]:
    async with LoopbackWeb(make_shop(), {"status": 404}) as web, web.client() as client:
        pages = [
            page
            async for page in canonry.crawl(
                f"{HOST}/", engine="http", client=client, store=database, robots=False, policy="crawl@1", **options
            )
        ]
        return pages, [url for _, url in web.requests]


@in_a_loop
async def test_what_pages_showed_is_shared_with_bookmarks(database: Database) -> None:
    pages, _ = await crawl(database, control=False)
    facts = FactStore(database)
    item = await facts.get(f"{HOST}/item?id=7&from=list")
    [page] = [page for page in pages if page.requested_url == f"{HOST}/item?id=7&from=list"]
    assert item is not None
    assert (item.title, item.status, item.fingerprint.text_hash) == ("Item 7", 200, page.text_hash)
    old = await facts.get(f"{HOST}/old")
    assert old is not None
    assert (old.permanent_url, old.canonical_url) == (f"{HOST}/new", f"{HOST}/item?id=1")
    assert await facts.list_aliases(f"{HOST}/old") == {}, "a redirect to another path needs a control"
    [moved] = [page for page in pages if page.final_url == f"{HOST}/new"]
    assert moved.hops == ((301, f"{HOST}/old"),)


@in_a_loop
async def test_a_few_requests_are_controls_and_none_of_them_is_a_page(database: Database) -> None:
    pages, requests = await crawl(database)
    assert len(pages) == ITEMS + 2
    controls = len(requests) - ITEMS - 3  # the start page and the redirect, too
    assert 0.03 <= controls / len(requests) <= 0.05
    stored = database.read_now(lambda connection: list(connection.execute(select(crawl_controls))))
    assert len(stored) == controls and {row.kind for row in stored} == {"repeat", "variant"}
    for row in stored:
        assert row.url in requests
        is_repeat = row.kind == "repeat"
        assert (row.url == row.page_url) is is_repeat and requests.count(row.url) == 1 + is_repeat
    rows = sum(batch.num_rows for batch in read_crawl_rows(database, None))
    assert rows == len(pages) + controls, "rules are learned from them"


@in_a_loop
async def test_without_controls_and_with_credentials(database: Database) -> None:
    _, requests = await crawl(database, control=False, access=SiteAccess(HOST, headers={"X-Key": "1"}))
    assert len(requests) == len(set(requests))
    facts = database.read_now(lambda connection: list(connection.execute(select(page_facts.c.url))))
    assert facts == [], "others do not see what credentials show"


SCRIPTED = "http://site.example/a?x=1"


@needs_chrome
@in_a_loop
async def test_chrome_sees_a_canonical_url_that_a_script_makes() -> None:
    script = "const link = document.createElement('link'); link.rel = 'canonical'; link.href = '/a';"
    page = make_page({"article": 1, "extra": f"<script>{script}document.head.append(link)</script>"})
    async with LoopbackWeb({SCRIPTED: page}, {"status": 404}) as web, web.client() as client:
        opened = await HttpEngine(client.fetch).open(SCRIPTED, origin=Origin.PERSON)
        fact = make_crawl_fact(SCRIPTED, opened, fingerprint_text(opened.text), "")
        assert fact is not None and fact.canonical_url == ""
        async with run_engine(web.lookup) as engine:
            opened = await engine.open(SCRIPTED, origin=Origin.PERSON)
        scripted = make_crawl_fact(SCRIPTED, opened, fingerprint_text(opened.text), "")
        assert scripted is not None and scripted.canonical_url == "http://site.example/a"
        assert scripted.fingerprint == fact.fingerprint, "both engines see the same text"


def test_controls_are_by_turns_a_repeat_and_a_page_without_one_parameter() -> None:
    url = f"{HOST}/item?a=1&b=2"
    found = [choose_control(url, number) for number in range(4)]
    repeat = ControlFetch(ControlKind.REPEAT, url)
    variants = [ControlFetch(ControlKind.VARIANT, f"{HOST}/item?{rest}") for rest in ("b=2", "a=1")]
    assert found == [repeat, variants[0], repeat, variants[1]]
    assert choose_control(f"{HOST}/item?a=1", 1) == ControlFetch(ControlKind.VARIANT, f"{HOST}/item")
    assert choose_control(f"{HOST}/item", 0) is None
