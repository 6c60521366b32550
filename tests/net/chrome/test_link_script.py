"""Contract C4, C5: links as Chrome sees them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from canonry.errors import FailureKind
from canonry.net.engine import Link, PageFailure
from canonry.net.origin import Origin
from chrome import PAGE, make_page, needs_chrome, run_engine
from loopback import LoopbackWeb, in_a_loop

CASES = json.loads((Path(__file__).parents[2] / "cases" / "anchor_cases.json").read_text())["cases"]

pytestmark = pytest.mark.usefixtures("refused_connects", "profiles")


def get_expected_links(case: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the expected links; `SVG:x` is a link whose raw value is resolved, `UNDEF` is MathML and no link."""
    return [
        (link["href"].replace("SVG:/", "http://site.example/"), link["text"])
        for link in case["chrome_links"]
        if link["href"] != "UNDEF"
    ]


@needs_chrome
def test_links_are_those_of_the_anchor_cases() -> None:
    found: dict[str, list[tuple[str, str]]] = {}
    failures: dict[str, PageFailure | None] = {}

    @in_a_loop
    async def run() -> None:
        bodies = [
            base64.b64decode(case["html_base64"]) if "html_base64" in case else case["html"].encode() for case in CASES
        ]
        answers = [
            {
                "body_base64": base64.b64encode(body).decode(),
                "headers": {"Content-Type": f"text/html; charset={case.get('charset', 'utf-8')}"},
            }
            for body, case in zip(bodies, CASES, strict=True)
        ]
        # All have the same URL, so that a tab that confuses two pages is detected.
        async with LoopbackWeb({PAGE: {"sequence": answers}}) as web, run_engine(web.lookup, tabs=1) as engine:
            for case in CASES:
                opened = await engine.open(PAGE, origin=Origin.PERSON)
                found[case["name"]] = [(link.url, link.text) for link in opened.links]
                failures[case["name"]] = opened.failure
                assert (opened.status, opened.final_url) == (200, PAGE)

    run()
    assert not any(failures.values()), failures
    assert found == {case["name"]: get_expected_links(case) for case in CASES}


LINKS = [
    # why                      page                                                              wanted
    ("as written",             '<a href=" ../a ">t</a>',                                         [Link(" ../a ", "http://site.example/a", "t")]),
    ("50 characters",          f'<a href=/>{"ü" * 60}</a>',                                      [Link("/", "http://site.example/", "ü" * 50)]),
    ("whole characters",       f'<a href=/>{"x" * 49}😀😀</a>',                                    [Link("/", "http://site.example/", "x" * 49 + "😀")]),
    ("lone surrogate",         "<a href=/ id=a></a><script>a.textContent='x\\ud83d'</script>",   [Link("/", "http://site.example/", "x\ufffd")]),
    ("by a script",            "<script>document.write('<a href=/s>s</a>')</script>",            [Link("/s", "http://site.example/s", "s")]),
    ("by a later script",      "<script>onload=()=>document.body.innerHTML='<a href=/s>s</a>'</script>", [Link("/s", "http://site.example/s", "s")]),
    ("in an animation frame",  "<script>onload=()=>0;requestAnimationFrame(()=>document.body.innerHTML='<a href=/r>r</a>')</script><img src=/slow>", [Link("/r", "http://site.example/r", "r")]),
    ("forged query",           "<a href=/a>t</a><script>Document.prototype.querySelectorAll=()=>[{href:'x',getAttribute(){return 'x'}}]</script>", [Link("/a", "http://site.example/a", "t")]),
    ("forged JSON",            "<a href=/a>t</a><script>JSON.stringify=()=>'[]';Reflect.get=()=>1;Array.prototype.push=()=>1</script>", [Link("/a", "http://site.example/a", "t")]),
    ("hidden by elements",     "<a href=/a>t</a><img name=querySelectorAll><img name=title><form name=readyState></form><img name=baseURI><svg><a href=s>u</a></svg>", [Link("/a", "http://site.example/a", "t"), Link("s", "http://site.example/dir/s", "u")]),
    ("scripts forbidden",      "<meta http-equiv=Content-Security-Policy content=\"script-src 'none'\"><a href=/a>t</a>", [Link("/a", "http://site.example/a", "t")]),
    ("not a URL",              "<a href='http://[/'>t</a><svg><a href='http://[/'>u</a></svg>",  [Link("http://[/", "http://[/", "t")]),
    ("data too long",          f"<a href='data:,{'x' * 200_000}'>t</a><a href=/a>t</a>",         [Link("/a", "http://site.example/a", "t")]),
]  # fmt: skip


@needs_chrome
@in_a_loop
async def test_links_of_special_pages() -> None:
    answers = [make_page(body) for _, body, _ in LINKS]
    pages: dict[str, dict[str, Any]] = {
        PAGE: {"sequence": answers},
        "http://site.example/slow": {"delay_ms": 300, "status": 404},
    }
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=1) as engine:
        for why, _, expected in LINKS:
            opened = await engine.open(PAGE, origin=Origin.PERSON)
            assert (why, list(opened.links), opened.failure) == (why, expected, None)


@needs_chrome
@in_a_loop
async def test_links_beyond_the_limit_are_counted_and_not_read() -> None:
    many = make_page("<script>document.write('<p><a href=/x>x</a>'.repeat(2e4))</script>")
    async with LoopbackWeb({PAGE: many}) as web, run_engine(web.lookup) as engine:
        opened = await engine.open(PAGE, origin=Origin.PERSON)
    truncated = PageFailure(FailureKind.TRUNCATED, "Only the first 10000 links were read, 10000 were not")
    assert (len(opened.links), opened.failure) == (10_000, truncated)
