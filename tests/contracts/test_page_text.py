"""Both engines read the same text of a page, and which links ask crawlers not to follow them (contract C5, C6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from canonry.evidence.fingerprint import fold_text
from canonry.net.http_engine import HttpEngine
from canonry.net.origin import Origin
from chrome import make_page, needs_chrome, run_engine
from loopback import LoopbackWeb, in_a_loop

if TYPE_CHECKING:
    from canonry.net.engine import Engine, OpenedPage

SITE = "http://site.example"
ENGINES = [pytest.param("http"), pytest.param("chrome", marks=needs_chrome)]

# fmt: off
TEXTS = {
    # why: (body, text)
    "plain":            ("<h1>Hello</h1>\n\n<p>big  world",                                          "hello big world"),
    "not read":         ("<p>a<script>b</script><style>c</style><template>d</template><noscript>e</noscript>f", "af"),
    "hidden":           ("<p>a<b hidden>b</b>c<div hidden><p>d</div>",                                "ac"),
    "case and accents": ("<p>Cafe\u0301 ÄRGER",                                                      "café ärger"),
    "clobbered":        ("<form><input name=matches><input name=nodeType>a</form>",                   "a"),
    "title is no text": ("<title>T</title><p>a",                                                      "a"),
    "empty":            ("<title>T</title>",                                                          ""),
}
# fmt: on


async def open_all(name: str, pages: dict[str, str], headers: dict[str, str] | None = None) -> list[OpenedPage]:
    web_pages = {f"{SITE}/{number}": make_page(body, **(headers or {})) for number, body in enumerate(pages.values())}
    async with LoopbackWeb(web_pages) as web, web.client() as client:

        async def open_with(engine: Engine) -> list[OpenedPage]:
            return [await engine.open(url, origin=Origin.PERSON) for url in web_pages]

        if name == "http":
            return await open_with(HttpEngine(client.fetch))
        async with run_engine(web.lookup) as engine:
            return await open_with(engine)


@pytest.mark.parametrize("name", ENGINES)
@in_a_loop
async def test_both_engines_read_the_same_text(name: str) -> None:
    opened = await open_all(name, {case: body for case, (body, _) in TEXTS.items()})
    wanted = {case: text for case, (_, text) in TEXTS.items()}
    assert dict(zip(TEXTS, [fold_text(page.text) for page in opened], strict=True)) == wanted


@pytest.mark.parametrize("name", ENGINES)
@in_a_loop
async def test_both_engines_read_validators_and_nofollow(name: str) -> None:
    body = """<a href=/1 rel="noopener NoFollow">1</a><a href=/2 rel=nofollower>2</a><a href=/3>3</a>
    <map><area href=/4 rel=nofollow></map><svg><a xlink:href=/5 rel=nofollow>5</a></svg>"""
    headers = {"ETag": '"7"', "Last-Modified": "Wed, 01 Jan 2025 00:00:00 GMT"}
    [opened] = await open_all(name, {"links": body}, headers)
    found = {link.url[-1]: link.is_nofollow for link in (*opened.links, *opened.added_links)}
    assert found == {"1": True, "2": False, "3": False, "4": True, "5": True}
    assert (opened.facts.etag, opened.facts.last_modified) == ('"7"', "Wed, 01 Jan 2025 00:00:00 GMT")


@in_a_loop
async def test_the_http_engine_asks_for_a_page_only_if_it_has_changed() -> None:
    page = {**make_page("<p>text"), "headers": {"Content-Type": "text/html", "ETag": '"7"'}}
    async with LoopbackWeb({f"{SITE}/": page}) as web, web.client() as client:
        engine = HttpEngine(client.fetch)
        first = await engine.open(f"{SITE}/", origin=Origin.PERSON)
        await engine.open_if_changed(f"{SITE}/", origin=Origin.PERSON, validators=first.validators)
        await engine.open(f"{SITE}/", origin=Origin.PERSON)
    assert [request.headers.get("if-none-match") for request in web.seen] == [None, '"7"', None]
