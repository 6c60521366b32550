"""Contract C4, C5: both engines say the same about a page, except for what scripts make."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from canonry.crawler.crawl import crawl
from canonry.errors import FailureKind
from canonry.net.http_engine import HttpEngine
from canonry.net.origin import Origin
from chrome import GOOD, HTML, get_kind, make_page, make_redirect, needs_chrome, run_engine
from loopback import LoopbackWeb, in_a_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from canonry.crawler.crawl import EngineName
    from canonry.net.engine import Engine

SITE = "http://site.example"
ENGINES = [pytest.param("http"), pytest.param("chrome", marks=needs_chrome)]


class Expected(NamedTuple):
    """What opening a page gives; `path` is that of the final URL, `hrefs` are the links as written."""

    status: int
    kind: FailureKind | None = None
    path: str = ""
    hrefs: tuple[str, ...] = ()
    title: str = ""


def make_answer(status: int, body: str = GOOD, **headers: str) -> dict[str, Any]:
    return make_page(body, **headers) | {"status": status}


def make_refresh(content: str) -> dict[str, Any]:
    return make_page(f'<meta http-equiv=refresh content="{content}"><title>Stay</title><a href=/stay>s</a>')


NEXT = ("/next",)
STAY = Expected(200, hrefs=("/stay",), title="Stay")
GOOD_PAGE = Expected(200, path="/good", hrefs=NEXT, title="Good")
# fmt: off
CASES: dict[str, tuple[dict[str, Any], Expected]] = {
    "good":             (make_page(GOOD),                                                GOOD_PAGE),
    "missing":          (make_answer(404),                                               Expected(404, FailureKind.STATUS, hrefs=NEXT, title="Good")),
    "gone":             (make_answer(410),                                               Expected(410, FailureKind.STATUS, hrefs=NEXT, title="Good")),
    "forbidden":        (make_answer(403),                                               Expected(403, FailureKind.STATUS, hrefs=NEXT, title="Good")),
    "too-many":         (make_answer(429),                                               Expected(429, FailureKind.UNAVAILABLE)),
    "broken":           (make_answer(500),                                               Expected(500, FailureKind.UNAVAILABLE)),
    "busy":             (make_answer(503, **{"Retry-After": "7"}),                       Expected(503, FailureKind.UNAVAILABLE)),
    "empty":            ({"status": 204},                                                Expected(204, FailureKind.NO_CONTENT)),
    "redirect":         (make_redirect("/good"),                                         GOOD_PAGE),
    "redirect-missing": (make_redirect("/missing"),                                      Expected(404, FailureKind.STATUS, "/missing", NEXT, "Good")),
    "refresh-meta":     (make_refresh("0; url=/good"),                                   GOOD_PAGE),
    "refresh-one":      (make_refresh("1;URL='/good'"),                                  GOOD_PAGE),
    "refresh-later":    (make_refresh("30; url=/good"),                                  STAY),
    "refresh-no-url":   (make_refresh("300"),                                            STAY),
    "refresh-header":   (make_page("<a href=/stay>s</a>", Refresh="0; url=/good"),       GOOD_PAGE),
    "refresh-base":     (make_page("<base href=/sub/><meta http-equiv=refresh content='0;url=../good'>"), GOOD_PAGE),
    "refresh-twice":    (make_refresh("0; url=/refresh-meta"),                           GOOD_PAGE),
    "refresh-redirect": (make_refresh("0; url=/redirect"),                               GOOD_PAGE),
    "refresh-missing":  (make_refresh("0; url=/missing"),                                Expected(404, FailureKind.STATUS, "/missing", NEXT, "Good")),
    "refresh-noscript": (make_page("<title>Stay</title><noscript><meta http-equiv=refresh content='0;url=/good'></noscript><a href=/stay>s</a>"), STAY),
    "attachment":       (make_page(GOOD, **{"Content-Disposition": "attachment; filename=x.html"}), Expected(200, FailureKind.DOWNLOAD)),
    "ATTACHMENT":       (make_page(GOOD, **{"Content-Disposition": "ATTACHMENT"}),       Expected(200, FailureKind.DOWNLOAD)),
    "inline":           (make_page(GOOD, **{"Content-Disposition": "inline; filename=x"}), Expected(200, hrefs=NEXT, title="Good")),
    "zip":              ({"body": "PK", "headers": {"Content-Type": "application/zip"}}, Expected(200, FailureKind.DOWNLOAD)),
    "csv":              ({"body": "a,b", "headers": {"Content-Type": "text/csv"}},       Expected(200, FailureKind.DOWNLOAD)),
    "text":             ({"body": "<a href=/x>", "headers": {"Content-Type": "text/plain"}}, Expected(200)),
    "json":             ({"body": '{"a": "<a href=/x>"}', "headers": {"Content-Type": "application/json"}}, Expected(200)),
    "xhtml":            ({"body": "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>X</title></head><body><a href='/x'>x</a></body></html>", "headers": {"Content-Type": "application/xhtml+xml"}}, Expected(200, hrefs=("/x",), title="X")),
}
# fmt: on
WEB = {f"{SITE}/{name}": answer for name, (answer, _) in CASES.items()}


@asynccontextmanager
async def open_engine(name: str, web: LoopbackWeb) -> AsyncIterator[Engine]:
    if name == "chrome":
        async with run_engine(web.lookup) as engine:
            yield engine
    else:
        async with web.client() as client:
            yield HttpEngine(client.fetch)


@pytest.mark.parametrize("engine_name", ENGINES)
def test_both_engines_give_the_same_pages(engine_name: str) -> None:
    found: dict[str, Expected] = {}

    @in_a_loop
    async def run() -> None:
        async with LoopbackWeb(WEB) as web, open_engine(engine_name, web) as engine:
            for name in CASES:
                opened = await engine.open(f"{SITE}/{name}", origin=Origin.PERSON)
                assert opened.requested_url == f"{SITE}/{name}"
                path = opened.final_url.removeprefix(SITE)
                hrefs = tuple(link.href for link in opened.links)
                found[name] = Expected(opened.status, get_kind(opened), path, hrefs, opened.title)

    run()
    expected = {name: each._replace(path=each.path or f"/{name}") for name, (_, each) in CASES.items()}
    assert found == expected


@pytest.mark.parametrize("engine_name", ENGINES)
@in_a_loop
async def test_pages_that_refresh_to_each_other_are_a_loop(engine_name: str) -> None:
    pages = {f"{SITE}/a": make_refresh("0; url=/b"), f"{SITE}/b": make_refresh("0; url=/a")}
    async with LoopbackWeb(pages) as web, open_engine(engine_name, web) as engine:
        opened = await engine.open(f"{SITE}/a", origin=Origin.PERSON)
    assert get_kind(opened) is FailureKind.REDIRECT_LOOP


@pytest.mark.parametrize("engine_name", ENGINES)
@in_a_loop
async def test_a_page_that_leaves_the_site_has_its_own_status(engine_name: str) -> None:
    site: dict[str, dict[str, Any]] = {
        "/": make_page("".join(f"<a href=/{name}>x</a>" for name in ("moved", "refreshed", "dead", "busy"))),
        "/moved": {"status": 301, "headers": {"Location": "http://other.example/missing"}},
        "/refreshed": make_refresh("0; url=http://other.example/busy"),
        "/dead": {"status": 302, "headers": {"Location": "http://nothing.example/"}},
        "/busy": {"status": 503, "headers": HTML, "body": GOOD},
        "/robots.txt": {"status": 200, "headers": {"Content-Type": "text/plain"}, "body": ""},
    }
    other = {
        "http://other.example/missing": make_answer(404),
        "http://other.example/busy": make_answer(503),
    }
    everything = {f"{SITE}{path}": page for path, page in site.items()} | other
    name: EngineName = "http" if engine_name == "http" else "chrome"
    async with LoopbackWeb(everything) as web, web.client() as client:
        pages = crawl(f"{SITE}/", engine=name, client=client, store="sqlite://", retries=0, backoff=0.01)
        found = {page.url.removeprefix(SITE): page async for page in pages}
    expected = {
        "/moved": (301, None, ["http://other.example/missing"]),
        "/refreshed": (200, None, ["http://other.example/busy"]),
        "/dead": (302, None, ["http://nothing.example/"]),
        "/busy": (503, FailureKind.UNAVAILABLE, []),
    }
    assert {
        path: (page.status, page.failure, [link.href for link in page.external])
        for path, page in found.items()
        if path in expected
    } == expected
