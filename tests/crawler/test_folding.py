"""A page that repeats another one under the same path is recorded and not followed (contract C8)."""

from __future__ import annotations

from typing import Any

import canonry
from loopback import LoopbackWeb, in_a_loop
from page_texts import make_article

HOST = "http://site.test"
PAGES = 42
DECORATIONS = ("", "?campaign=a1", "?visit=8f3a2c", "?view=print")  # names that no list knows


def make_site() -> dict[str, dict[str, Any]]:
    """Return a site of 42 pages, each linked plainly and under three decorations, which repeat in its own links."""
    site: dict[str, dict[str, Any]] = {}
    for number in range(PAGES):
        path = "/" if not number else f"/page/{number}"
        for decoration in DECORATIONS:
            following = [f"/page/{each % PAGES}" for each in (number + 1, number + 2) if each % PAGES]
            links = "".join(f'<a href="{target}{each}">more</a>' for target in following for each in DECORATIONS)
            text = make_article(number)
            body = f"<title>Page {number}</title><p>{text}</p>{links}"
            site[f"{HOST}{path}{decoration}"] = {"headers": {"Content-Type": "text/html"}, "body": body}
    return site


async def crawl(**options: Any) -> tuple[list[canonry.Page], int]:
    async with LoopbackWeb(make_site(), {"status": 404}) as web, web.client() as client:
        pages = [
            page async for page in canonry.crawl(f"{HOST}/", engine="http", client=client, store="sqlite://", **options)
        ]
        return pages, len(web.requests)


@in_a_loop
async def test_a_site_of_42_pages_under_many_decorations_gives_42_pages() -> None:
    pages, _ = await crawl(robots=False)
    read = [page for page in pages if page.status == 200]
    assert len({page.text_hash for page in read}) == PAGES
    assert len([page for page in read if not page.repeats_url]) == PAGES
    by_url = {page.url: page for page in read}
    for page in read:
        if page.repeats_url:
            first = by_url[page.repeats_url]
            assert (first.text_hash, first.title) == (page.text_hash, page.title)
            assert first.url.partition("?")[0] == page.url.partition("?")[0]


@in_a_loop
async def test_without_folding_no_page_says_what_it_repeats() -> None:
    pages, _ = await crawl(robots=False, fold=False)
    assert not [page for page in pages if page.repeats_url]
    assert len({page.text_hash for page in pages if page.status == 200}) == PAGES
