"""resolve on a loopback web of real servers: the cases of page_scenarios.json (contract E1, E2).

A case has the pages of a web, an input, and what is wanted: the URL and the reason, or the kind of the error.
`missing` answers for all other paths, a 404 if it is not given.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import canonry
from canonry.errors import FailureKind
from canonry.evidence.resolved import PageSource, PageVerdict
from loopback import LoopbackWeb, in_a_loop
from page_texts import make_page

CASES = json.loads((Path(__file__).parents[1] / "cases" / "page_scenarios.json").read_text(encoding="utf-8"))
PROVEN = {PageVerdict.SAME, PageVerdict.CONFIRMS}


NOT_FOUND = {"status": 404, "body": "not found"}


async def resolve(
    case: dict[str, Any], default: dict[str, Any] | None = NOT_FOUND
) -> tuple[canonry.Resolved, list[str]]:
    """Resolve the input of a case; return the result and the URLs that were asked for, in order."""
    pages = {url: make_page(page) for url, page in case["pages"].items()}
    missing = case.get("missing", default)
    async with LoopbackWeb(pages, None if missing is None else make_page(missing)) as web, web.client() as client:
        options = {"timeout": 30.0, "deadline": 120.0, **case.get("options", {})}
        found = await canonry.resolve(case["input"], fetch=client.fetch, guard=client.guard, **options)
        return found, [url for _, url in web.requests]


def test_there_are_at_least_60_scenarios() -> None:
    assert len({case["id"] for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
@in_a_loop
async def test_a_scenario_gives_the_expected_url(case: dict[str, Any]) -> None:
    wanted = case["want"]
    if kind := wanted.get("error"):
        with pytest.raises(canonry.FetchFailed) as caught:
            await resolve(case)
        assert caught.value.kind is FailureKind(kind)
        return
    found, requests = await resolve(case)
    assert (found.url, found.reason) == (wanted["url"], wanted["reason"]), found.candidates
    assert found.requests == wanted.get("requests", found.requests) <= case.get("options", {}).get("max_requests", 3)
    assert set(wanted.get("aliases", [])) <= set(found.aliases)
    assert found.url not in found.aliases
    if doubt := wanted.get("doubt"):
        assert doubt in {each.reason for each in found.candidates}
    if evidence := wanted.get("evidence"):
        assert evidence in {each.evidence for each in found.candidates if each.url == found.url}
    fetched = {url.partition("#")[0] for url in (found.url, *found.aliases)}
    assert fetched <= set(requests), "everything that is returned was fetched"
    proven = {each.url for each in found.candidates if each.verdict in PROVEN and each.source is not PageSource.INPUT}
    assert proven <= {found.url, *found.aliases}


ADOPTED = [case for case in CASES if "missing" not in case and case["want"].get("url") not in {None, case["input"]}]


@pytest.mark.parametrize("case", ADOPTED, ids=[case["id"] for case in ADOPTED])
@in_a_loop
async def test_a_server_that_closes_the_connection_for_unknown_urls_changes_no_answer(case: dict[str, Any]) -> None:
    found, _ = await resolve(case, default=None)
    assert (found.url, found.reason) == (case["want"]["url"], case["want"]["reason"]), found.candidates


@pytest.mark.parametrize(
    ("why", "error", "is_adopted"),
    [
        ("refused", canonry.FetchFailed("", "refused", kind=FailureKind.CONNECT), True),
        ("of the caller", ConnectionRefusedError(), True),
        ("timeout", canonry.FetchFailed("", "timeout", kind=FailureKind.TIMEOUT), False),
        ("busy", canonry.FetchFailed("", "busy", status=503, kind=FailureKind.UNAVAILABLE), False),
        ("guard", canonry.UnsafeUrl("", "private"), False),
    ],
)
@in_a_loop
async def test_without_an_answer_for_the_made_up_url(why: str, error: Exception, *, is_adopted: bool) -> None:
    body = make_page({"article": 1, "title": why})["body"].encode()

    async def fetch(url: str, **_: Any) -> canonry.Response:
        if "canonry-check" in url:
            raise error
        if not url.startswith("https://example.com/a"):
            raise canonry.FetchFailed(url, "refused", kind=FailureKind.CONNECT)
        return canonry.Response(200, url, {"content-type": "text/html"}, body)

    found = await canonry.resolve("https://example.com/a?utm_source=x", fetch=fetch)
    assert found.url == ("https://example.com/a" if is_adopted else "https://example.com/a?utm_source=x")
    [control] = [each for each in found.candidates if each.source is PageSource.CONTROL]
    assert control.verdict is (PageVerdict.FAILED if is_adopted else PageVerdict.REFUSED)


SPELLINGS = [
    f"{scheme}://{host}/d/{name}"
    for scheme in ("http", "https")
    for host in ("example.com", "www.example.com")
    for name in ("a", "a/", "a/index.html", "a?utm_source=x")
]


@pytest.mark.parametrize("declared", ["", *SPELLINGS])
@in_a_loop
async def test_every_spelling_of_a_page_leads_to_one(declared: str) -> None:
    head = f'<link rel="canonical" href="{declared}">' if declared else ""
    body = make_page({"article": 1, "title": "One", "head": head})["body"].encode()

    async def fetch(url: str, **_: Any) -> canonry.Response:
        if url in SPELLINGS:
            return canonry.Response(200, url, {"content-type": "text/html"}, body)
        return canonry.Response(404, url)

    found = {(await canonry.resolve(url, fetch=fetch, max_requests=9)).url for url in SPELLINGS}
    assert len(found) == 1, found
