"""Include and exclude patterns: which pages of a site are crawled."""

from __future__ import annotations

import pytest

from canonry.crawler.crawl import crawl
from canonry.crawler.crawl_store import CrawlStore
from canonry.crawler.path_patterns import PathPatterns
from canonry.errors import OptionsFixed
from canonry.store.database import Database
from crawl_site import html, links
from loopback import LoopbackWeb, in_a_loop

SITE = "http://site.example.com"

PATTERNS = [
    # why                          include        exclude         path           crawled
    ("no patterns",                (),            (),             "/a",          True),
    ("a beginning",                ("/docs/",),   (),             "/docs/a/b",   True),
    ("another beginning",          ("/docs/",),   (),             "/blog/",      False),
    ("the folder itself",          ("/docs/",),   (),             "/docs",       False),
    ("one of several",             ("/a", "/b"),  (),             "/b",          True),
    ("excluded",                   (),            ("/private",),  "/private/x",  False),
    ("exclude wins",               ("/docs/",),   ("/docs/old",), "/docs/old/a", False),
    ("any characters",             (),            ("/*/edit",),   "/a/b/edit",   False),
    ("a query",                    (),            ("/*?*sort=",), "/a?x=1&sort=2", False),
    ("no such query",              (),            ("/*?*sort=",), "/sort=",      True),
    ("the end",                    (),            ("/*.php$",),   "/a.php",      False),
    ("not at the end",             (),            ("/*.php$",),   "/a.php?x=1",  True),
    ("other characters are plain", (),            ("/a.b",),      "/axb",        True),
    ("the root",                   ("/$",),       (),             "",            True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("why", "include", "exclude", "path", "is_crawled"), PATTERNS, ids=[row[0] for row in PATTERNS]
)
def test_which_paths_are_crawled(
    why: str, include: tuple[str, ...], exclude: tuple[str, ...], path: str, is_crawled: bool
) -> None:
    assert (PathPatterns(include, exclude).find_obstacle(SITE + path) is None) is is_crawled


@in_a_loop
async def test_pages_that_are_left_out_are_listed_with_the_reason() -> None:
    pages = {
        "/robots.txt": {"status": 404, "headers": {}, "body": ""},
        "/": html(links("/docs/a", "/docs/old/b", "/blog")),
        "/docs/a": html(""),
    }
    async with LoopbackWeb({SITE + path: page for path, page in pages.items()}) as web, web.client() as client:
        with Database("sqlite://") as database:

            async def run(**options: object) -> list[str]:
                given = {"engine": "http", "store": database, "client": client, **options}
                return [page.url.removeprefix(SITE) async for page in crawl(f"{SITE}/", **given)]  # type: ignore[arg-type]

            assert await run(include=["/docs/"], exclude=["/docs/old"]) == ["/", "/docs/a"]
            start, _ = await CrawlStore(database).list_pages(1)
            assert [(str(link.verdict), link.url) for link in start.page.links] == [
                ("crawl", f"{SITE}/docs/a"),
                ("skip", f"{SITE}/docs/old/b"),
                ("skip", f"{SITE}/blog"),
            ]
            assert await run(resume=True) == ["/", "/docs/a"], "patterns are kept"
            with pytest.raises(OptionsFixed):
                await run(resume=True, include=["/blog"])
    assert web.refused == []
