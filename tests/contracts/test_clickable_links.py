"""Contract C3-C5: links of other elements than `<a href>`, from both engines, each with where it was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from canonry.crawler.crawl import crawl
from canonry.crawler.hash_routes import find_route
from canonry.net.engine import LinkSource
from canonry.net.http_engine import HttpEngine
from canonry.net.links import read_page
from canonry.net.origin import Origin
from chrome import PAGE, make_page, needs_chrome, run_engine
from loopback import LoopbackWeb, in_a_loop

if TYPE_CHECKING:
    from canonry.net.engine import OpenedPage
    from canonry.net.links import PageContent

ANCHOR, AREA, SVG, FRAME, SHADOW = LinkSource
SITE = "http://site.example"
# fmt: off
CASES: dict[str, tuple[str, list[tuple[str, str, LinkSource]]]] = {
    "area":             ("<map><area href=../area alt=' Area '><area alt=no></map><a href=/a>t</a>",  [("/a", "t", ANCHOR), ("/area", "Area", AREA)]),
    "xlink:href":       ("<svg><a xlink:href=/s><text>pic</text></a><a href=/h xlink:href=/x>both</a></svg><a xlink:href=/no>t</a>", [("/h", "both", ANCHOR), ("/s", "pic", SVG)]),
    "frames":           ("<iframe src=/in title=Inner></iframe><iframe src=http://other.example/></iframe><iframe></iframe><iframe src=about:blank></iframe><iframe src='javascript:1'></iframe>", [("/in", "Inner", FRAME)]),
    "a frameset":       ("<frameset cols=*,*><frame src=/left><frame src=/right name=r></frameset>",   [("/left", "", FRAME), ("/right", "", FRAME)]),
    "srcdoc":           ("<iframe srcdoc='<a href=doc>in</a><base href=/b/>'></iframe><iframe sandbox srcdoc='<a href=/no>x</a>'></iframe>", [("/b/doc", "in", FRAME)]),
    "declarative":      ("<base href=/base/><div><template shadowrootmode=open><a href=one>1</a><p><template shadowrootmode=open><area href=two></template></p></template></div><template><a href=/no>x</a></template>", [("/base/one", "1", SHADOW), ("/base/two", "", SHADOW)]),
    "empty and broken": ("<map><area href><area href='http://['></map>",                               [("/dir/page.html?q=1", "", AREA), ("http://[", "", AREA)]),
}
# fmt: on


def make_links(expected: list[tuple[str, str, LinkSource]]) -> list[tuple[str, str, LinkSource]]:
    return [(path if ":" in path else f"{SITE}{path}", text, source) for path, text, source in expected]


def get_links(found: OpenedPage | PageContent) -> list[tuple[str, str, LinkSource]]:
    return [(link.url, link.text, link.source) for link in (*found.links, *found.added_links)]


async def open_in_chrome(body: str) -> OpenedPage:
    inner = {f"{SITE}/{name}": make_page("inner") for name in ("in", "left", "right")}
    async with LoopbackWeb({PAGE: make_page(body)} | inner) as web, run_engine(web.lookup) as engine:
        return await engine.open(PAGE, origin=Origin.PERSON)


@pytest.mark.parametrize("name", CASES)
def test_links_of_the_http_engine(name: str) -> None:
    html, expected = CASES[name]
    content = read_page(f"<!doctype html>{html}".encode(), url=PAGE)
    assert get_links(content) == make_links(expected)
    assert content.failure is None


@needs_chrome
@pytest.mark.parametrize("name", CASES)
@in_a_loop
async def test_links_of_the_chrome_engine(name: str) -> None:
    html, expected = CASES[name]
    opened = await open_in_chrome(html)
    assert (opened.failure, get_links(opened)) == (None, make_links(expected))


@needs_chrome
@in_a_loop
async def test_shadow_roots_and_frames_that_scripts_make() -> None:
    opened = await open_in_chrome("""<div id=host></div><iframe id=inner></iframe><script>
      setTimeout(() => {
        const root = host.attachShadow({mode: 'open'});
        root.innerHTML = '<p>soon</p>';
        inner.contentDocument.body.innerHTML = '<a href=/written>w</a>';
        setTimeout(() => { root.innerHTML = '<a href=/late>l</a>'; }, 300);
      }, 200);</script>""")
    assert get_links(opened) == make_links([("/written", "w", FRAME), ("/late", "l", SHADOW)])


def test_the_limit_counts_links_of_all_kinds() -> None:
    html = "<a href=/1>1</a><map><area href=/2><area href=/3></map><iframe src=/4></iframe>"
    content = read_page(html.encode(), url=PAGE, max_links=2)
    assert [url for url, _, _ in get_links(content)] == [f"{SITE}/1", f"{SITE}/2"]
    assert content.failure is not None and "2 of 4" in content.failure.detail


def test_documents_inside_of_documents_are_read_to_a_limited_depth() -> None:
    html = "<a href=/in>x</a>"
    for _ in range(8):
        html = f"<iframe srcdoc='{html.replace('&', '&amp;').replace(chr(39), '&#39;')}'></iframe>"
    assert [url for url, _, _ in get_links(read_page(html.encode(), url=PAGE))] == [f"{SITE}/in"]
    deep = "<p><template shadowrootmode=open>" * 500 + "<a href=/x>x</a>"
    assert get_links(read_page(deep.encode(), url=PAGE)) == []


@in_a_loop
async def test_the_http_engine_gives_them_to_the_crawl() -> None:
    async with LoopbackWeb({PAGE: make_page("<iframe src=/in></iframe>")}) as web, web.client() as client:
        opened = await HttpEngine(client.fetch).open(PAGE, origin=Origin.PERSON)
    assert get_links(opened) == make_links([("/in", "", FRAME)])


ROUTER = """<title>App</title><div id=app></div><script>
const show = () => {
  const route = location.hash.slice(1) || '/';
  document.title = route;
  app.innerHTML = '<a href=#/one>1</a><a href=#!/two>2</a><a href=/#/>home</a><a href=#part>part</a>'
    + (route === '/one' ? '<a href="#/one/deep">deep</a>' : '');
};
addEventListener('hashchange', show);
show();
</script>"""


@needs_chrome
@in_a_loop
async def test_routes_are_pages_if_asked_for() -> None:
    site = {f"{SITE}/": make_page(ROUTER), f"{SITE}/robots.txt": {"status": 404}}
    async with LoopbackWeb(site) as web, web.client() as client:
        found: dict[bool, dict[str, str]] = {}
        for routes in (False, True):
            pages = crawl(f"{SITE}/", client=client, store="sqlite://", routes=routes, per_host=1)
            found[routes] = {page.url.removeprefix(SITE): page.title async for page in pages}
    assert found[False] == {"/": "/"}
    assert found[True] == {"/": "/", "/#/one": "/one", "/#!/two": "!/two", "/#/one/deep": "/one/deep"}


@pytest.mark.parametrize(
    ("url", "route"),
    [
        (f"{SITE}/#/about", "#/about"),
        (f"{SITE}/x?q=1#!/a/b?c=d", "#!/a/b?c=d"),
        (f"{SITE}/#/", ""),
        (f"{SITE}/#!/", ""),
        (f"{SITE}/#about", ""),
        (f"{SITE}/#!about", ""),
        (f"{SITE}/", ""),
    ],
)
def test_routes_of_urls(url: str, route: str) -> None:
    assert find_route(url) == route
