"""Contract C5: both engines read the same facts about a page: type, size, robots directives, languages, canonical URL."""

from __future__ import annotations

import gzip
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from canonry.crawler.crawl import crawl
from canonry.net.http_engine import HttpEngine
from canonry.net.origin import Origin
from canonry.net.page_facts import HeadLink, PageFacts, parse_directives, parse_facts, parse_link_header
from chrome import make_page, needs_chrome, run_engine
from loopback import Listener, LoopbackWeb, in_a_loop, make_http_response, read_request

if TYPE_CHECKING:
    import asyncio

    from canonry.net.engine import Engine, OpenedPage

SITE = "http://site.example"
ENGINES = [pytest.param("http"), pytest.param("chrome", marks=needs_chrome)]


class Declared(NamedTuple):
    canonical: str = ""
    directives: tuple[str, ...] = ()
    languages: tuple[tuple[str, str], ...] = ()


# fmt: off
CASES: dict[str, tuple[str, dict[str, str], Declared]] = {
    "nothing":     ("<title>x</title>",                                                           {}, Declared()),
    "canonical":   ("<base href=/sub/><link rel=canonical href=page><link rel=canonical href=/2>", {}, Declared("/sub/page")),
    "in the body": ("<p>text</p><link rel=canonical href=/body>",                                 {}, Declared()),
    "relations":   ("<link rel='Nofollow CANONICAL' href=' /c '>",                                {}, Declared("/c")),
    "other":       ("<link rel=canonical href='mailto:a@b'><link rel=canonical href><link rel=canonical href=/second>", {}, Declared("/second")),
    "header":      ("<title>x</title>",                  {"Link": '</style>; rel=preload, <../h>; rel="canonical"'}, Declared("/h")),
    "head first":  ("<link rel=canonical href=/head>",   {"Link": "</header>; rel=canonical"},       Declared("/head")),
    "directives":  ("<meta name=ROBOTS content='NoIndex, nofollow'><meta name=canonry content=noarchive><meta name=otherbot content=none>", {"X-Robots-Tag": "noimageindex, nofollow"}, Declared(directives=("noindex", "nofollow", "noarchive", "noimageindex"))),
    "languages":   ("<link rel=alternate hreflang=de href=/de><link rel=alternate hreflang=x-default href=/><link rel=alternate type=application/rss+xml href=/feed>", {"Link": "</fr>; rel=alternate; hreflang=fr"}, Declared(languages=(("de", "/de"), ("x-default", "/"), ("fr", "/fr")))),
}
# fmt: on


def describe(opened: OpenedPage) -> Declared:
    languages = tuple((language, url.removeprefix(SITE)) for language, url in opened.hreflangs)
    return Declared(opened.canonical_url.removeprefix(SITE), opened.robots_directives, languages)


@pytest.mark.parametrize("name", ENGINES)
def test_both_engines_read_the_same_facts(name: str) -> None:
    web_pages = {
        f"{SITE}/dir/{number}": make_page(body, **headers) for number, (body, headers, _) in enumerate(CASES.values())
    }
    found: list[Declared] = []

    async def open_all(engine: Engine) -> None:
        for url, page in web_pages.items():
            opened = await engine.open(url, origin=Origin.PERSON)
            found.append(describe(opened))
            assert (opened.size, opened.content_type) == (len(page["body"]), "text/html; charset=utf-8")

    @in_a_loop
    async def run() -> None:
        async with LoopbackWeb(web_pages) as web, web.client() as client:
            if name == "http":
                await open_all(HttpEngine(client.fetch))
            else:
                async with run_engine(web.lookup) as engine:
                    await open_all(engine)

    run()
    assert dict(zip(CASES, found, strict=True)) == {case: declared for case, (_, _, declared) in CASES.items()}


@pytest.mark.parametrize("name", ENGINES)
@in_a_loop
async def test_repeated_headers_and_compressed_bodies(name: str) -> None:
    body = b"<title>x</title>" + b"text " * 1000

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await read_request(reader):
            headers = {"Content-Type": "text/html", "Content-Encoding": "gzip", "X-Robots-Tag": "noindex"}
            more = b"X-Robots-Tag: otherbot: nofollow\r\nLink: </a>; rel=next\r\nLink: </b>; rel=canonical\r\nX-End: 1"
            answer = make_http_response(200, {**headers, "X-End": "1"}, body=gzip.compress(body))
            writer.write(answer.replace(b"X-End: 1", more, 1))
            await writer.drain()

    async with Listener(talk) as server:

        async def lookup(_host: str, _port: int) -> list[tuple[str, int]]:
            return [("127.0.0.2", server.port)]

        async with run_engine(lookup) as chrome, LoopbackWeb({}) as web, web.client(lookup=lookup) as client:
            engine: Engine = HttpEngine(client.fetch) if name == "http" else chrome
            opened = await engine.open(f"{SITE}/", origin=Origin.PERSON)
    assert describe(opened) == Declared("/b", ("noindex",))
    assert opened.size == len(body)


@in_a_loop
async def test_pages_of_a_crawl_have_their_facts() -> None:
    head = "<link rel=canonical href=/home><meta name=robots content=noarchive>"
    site: dict[str, dict[str, Any]] = {f"{SITE}/": make_page(head), f"{SITE}/robots.txt": {"status": 404}}
    async with LoopbackWeb(site) as web, web.client() as client:
        [page] = [page async for page in crawl(f"{SITE}/", engine="http", client=client, store="sqlite://")]
    assert (page.canonical_url, page.robots_directives, page.hreflangs) == (f"{SITE}/home", ("noarchive",), ())
    assert (page.content_type, page.size) == ("text/html; charset=utf-8", len(site[f"{SITE}/"]["body"]))
    assert not page.is_still_changing


@pytest.mark.parametrize(
    ("text", "directives"),
    [
        ("", []),
        (" , ,", []),
        ("NOINDEX,  Max-Snippet: 20", ["noindex", "max-snippet: 20"]),
        ("otherbot: noindex, nofollow", []),
        ("otherbot: noindex, canonry: nofollow, noarchive", ["nofollow", "noarchive"]),
        ("unavailable_after: 25 Jun 2010 15:00:00 PST", ["unavailable_after: 25 jun 2010 15:00:00 pst"]),
    ],
)
def test_robots_directives(text: str, directives: list[str]) -> None:
    assert parse_directives(text) == directives


def test_link_headers() -> None:
    text = '<a,b;c>; rel="canonical"; title="x, y", <http://[>; rel=canonical, <>; rel=self; rel=other, junk'
    assert parse_link_header(text, f"{SITE}/d/") == [
        HeadLink("canonical", f"{SITE}/d/a,b;c"),
        HeadLink("self", f"{SITE}/d/"),
    ]


def test_quoted_values_of_link_headers_may_contain_links() -> None:
    text = '</n>; rel=next; title="see \\"</w>; rel=canonical", </c>; rel=canonical'
    assert parse_link_header(text, SITE) == [HeadLink("next", f"{SITE}/n"), HeadLink("canonical", f"{SITE}/c")]


def test_link_headers_about_another_url() -> None:
    text = '</w>; rel=canonical; anchor="/other", </c>; rel=canonical; anchor="/d/"'
    assert parse_link_header(text, f"{SITE}/d/") == [HeadLink("canonical", f"{SITE}/c")]


def test_hostile_link_headers_are_read_in_linear_time() -> None:
    for text in ("<" * 20_000, "<a>;" * 5_000, '<a>; rel="' + "x " * 9_000, '<a>;a="\\' * 2_000):
        started = time.process_time()
        parse_link_header(text, SITE)
        assert time.process_time() - started < 1


def test_facts_survive_a_store_and_old_stores_have_none() -> None:
    facts = PageFacts("text/html", 5, ("noindex", "none"), (("de", f"{SITE}/de"),), f"{SITE}/", is_still_changing=True)
    assert parse_facts(facts.to_json()) == facts and facts.is_nofollow
    assert parse_facts("") == PageFacts() and not PageFacts().is_nofollow
