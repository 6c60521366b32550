"""Bookmarks over HTTP: contract B1–B5 and seed 004, on a running service."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from canonry.accounts import UserStore
from canonry.bookmarks.save import EXPANSION_WAIT_SECONDS
from canonry.evidence.fact_store import save_aliases
from canonry.evidence.facts import PageAlias
from canonry.evidence.same_page import Evidence
from canonry.server.service import ServiceOptions
from loopback import ADDRESS, Listener, make_client, make_http_response, read_request
from service import Running, serving, until

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    # Without jobs: a process has one worker at most, and other tests want theirs.
    options = ServiceOptions(runs_jobs=False)
    with serving(f"sqlite:///{tmp_path_factory.mktemp('service') / 'x.db'}", options) as running:
        yield running


SEED = [
    # why, given, kept
    (
        "shorts with tracking",
        "https://m.youtube.com/shorts/abc123?si=xyz&utm_source=foo",
        "https://www.youtube.com/watch?v=abc123",
    ),
    (
        "media viewer",
        "https://x.com/user/status/123/mediaViewer?currentTweet=123&currentTweetUser=user",
        "https://x.com/user/status/123",
    ),
    ("any case", "https://x.com/user/Status/124/MediaViewer", "https://x.com/user/status/124"),
    ("scheme and host", "HTTPS://Example.COM:443/A", "https://example.com/A"),
    ("sorted, duplicates kept", "https://e.com/?b=2&a=2&a=1&b=1", "https://e.com/?a=1&a=2&b=1&b=2"),
    ("a fragment stays", "https://github.com/a/b/blob/m/f.py#L10", "https://github.com/a/b/blob/m/f.py#L10"),
    ("a route stays", "https://app.example.com/#/inbox?x=1", "https://app.example.com/#/inbox?x=1"),
    ("all trackers", "https://e.com/t?utm_x=1&fbclid=2&gclid=3&dclid=4&msclkid=5&igshid=6", "https://e.com/t"),
    # False merges of the peer stay apart.
    (
        "a search stays",
        "https://www.youtube.com/results?search_query=a",
        "https://www.youtube.com/results?search_query=a",
    ),
    (
        "another search",
        "https://www.youtube.com/results?search_query=b",
        "https://www.youtube.com/results?search_query=b",
    ),
    (
        "ref means something",
        "https://api.github.com/repos/a/b/contents?ref=dev",
        "https://api.github.com/repos/a/b/contents?ref=dev",
    ),
    (
        "a redirect's target",
        "https://www.youtube.com/redirect?q=https%3A%2F%2Fa.com%2F",
        "https://a.com/",
    ),
    # Its missed merges merge.
    ("www.twitter.com", "https://www.twitter.com/user/status/125", "https://x.com/user/status/125"),
    ("share marks of x", "https://x.com/user/status/126?s=20&t=abc", "https://x.com/user/status/126"),
    ("live", "https://www.youtube.com/live/abc124?si=x", "https://www.youtube.com/watch?v=abc124"),
    ("blanks stay as they are", "https://e.com/?q=a%20b&a=c+d", "https://e.com/?a=c+d&q=a%20b"),
]


@pytest.mark.parametrize(("why", "given", "wanted"), SEED, ids=[each[0] for each in SEED])
def test_a_bookmark_is_saved_in_normal_form(service: Running, why: str, given: str, wanted: str) -> None:
    answer = service.put(given)
    assert answer.status == 201, why
    kept = answer.json()
    assert kept["url"] == wanted
    assert kept["original_url"] == (None if given == wanted else given)
    again = service.put(wanted)
    assert (again.status, again.json()["id"], again.json()["outcome"]) == (200, kept["id"], "no_change")
    [found] = service.get(f"/api/bookmarks?url={quote(given, safe='')}").json()
    assert found["id"] == kept["id"]


@pytest.mark.parametrize("query", ["?exact_url=true", "?normalize=false", "?exact_url=true&normalize=true"])
def test_an_exact_url_is_not_normalized(service: Running, query: str) -> None:
    given = f"HTTPS://youtu.be/abc125?utm_source={query[1:6]}{len(query)}#x"
    kept = service.put(given, query).json()
    assert (kept["url"], kept["original_url"], kept["exact_url"], kept["policy"]) == (given, None, True, "exact@1")
    assert service.get(f"/api/bookmarks?url={quote(given, safe='')}&exact_url=true").json()[0]["id"] == kept["id"]
    assert service.get(f"/api/bookmarks?url={quote(given, safe='')}").json() == []


def test_an_update_keeps_exact_url(service: Running) -> None:
    exact = "https://e.com/exact?utm_id=1"
    first = service.put(exact, "?exact_url=true", title="one").json()
    second = service.put(exact, "?exact_url=true&update=true", title="two", tags=["t"])
    assert (second.status, second.json()["outcome"]) == (200, "updated")
    assert {**first, **second.json()} == {
        **first,
        "title": "two",
        "tags": ["t"],
        "outcome": "updated",
        "updated_at": second.json()["updated_at"],
    }


REFUSED = [
    "javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "ftp://a.com/",
    "",
    "   ",
    "https://",
    "https://a b.com/",
    "http://[::1",
    "https://a.com:99999/",
    "mailto:a@b.com",
    "x" * 70_000,
    "\ud800",
]


@pytest.mark.parametrize("given", REFUSED, ids=range(len(REFUSED)))
@pytest.mark.parametrize("query", ["", "?exact_url=true", "?normalize=false"])
def test_only_http_urls_are_saved(service: Running, given: str, query: str) -> None:
    saved = service.put("https://e.com/to-be-edited").json()["id"]
    for answer in (
        service.put(given, query),
        service.ask("PUT", f"/api/bookmarks/{saved}{query}", {"url": given}),
    ):
        assert answer.status == 400
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == 400 and problem["request_id"]
        assert [error["field"] for error in problem["errors"]] == ["url"]
        assert problem["errors"][0]["reason"]


def test_lists_of_urls_are_checked_one_by_one(service: Running) -> None:
    kept = service.put("https://e.com/lists").json()
    answer = service.ask(
        "PUT",
        f"/api/bookmarks/{kept['id']}",
        {"archive_urls": ["https://a.com/?utm_id=1", "javascript:x", "data:,"], "episode_urls": ["ftp://x"]},
    )
    assert answer.status == 400
    assert [error["field"] for error in answer.json()["errors"]] == [
        "archive_urls[1]",
        "archive_urls[2]",
        "episode_urls[0]",
    ]
    answer = service.ask("PUT", f"/api/bookmarks/{kept['id']}", {"url": "x y", "archive_urls": ["javascript:x"]})
    assert [error["field"] for error in answer.json()["errors"]] == ["url", "archive_urls[0]"]
    answer = service.ask("PUT", "/api/bookmarks", b"nojson", headers={"Content-Type": "application/json"})
    assert [error["field"] for error in answer.json()["errors"]] == ["body"]
    good = {"archive_urls": ["https://a.com/?utm_id=1", "https://a.com/"], "episode_urls": ["https://b.com/e?fbclid=1"]}
    changed = service.ask("PUT", f"/api/bookmarks/{kept['id']}", good).json()
    assert (changed["archive_urls"], changed["episode_urls"]) == (["https://a.com/"], ["https://b.com/e"])
    exact = service.ask("PUT", f"/api/bookmarks/{kept['id']}?exact_url=true", good).json()
    assert exact["archive_urls"] == good["archive_urls"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"url": 1}',
        b'{"title": "x"}',
        b'{"url": "https://a.com/", "tags": "x"}',
        b"\xff",
        b'{"url": null}',
    ],
    ids=range(9),
)
def test_an_invalid_body_is_a_400(service: Running, body: bytes) -> None:
    answer = service.ask("PUT", "/api/bookmarks", body, headers={"Content-Type": "application/json"})
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert bool(answer.json()["errors"]) == (body != b"\xff"), "bytes that are no text have no field"


@pytest.mark.parametrize(
    "body",
    [
        b'{"url": "HTTP://plain.example.com/x?utm_source=a", "title": "T", "tags": ["b", "a"], "to_read": true}',
        b'{"url": "plain.example.com/y", "title": null, "more": 1}',
        b'{"url": 1}',
        b'{"url": "https://plain.example.com/z", "tags": "a"}',
        b'{"url": "https://plain.example.com/\\ud800"}',
        b'{"title": "no URL"}',
        b"not JSON",
        b"",
    ],
    ids=range(8),
)
def test_the_fast_path_gives_the_same_responses(service: Running, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    first = service.ask("PUT", "/api/bookmarks", body, headers=headers)
    plain, other = (
        service.ask("PUT", f"/api/bookmarks{query}", body, headers=headers) for query in ("", "?normalize=true")
    )
    assert plain.status == other.status
    told, same = plain.json(), other.json()
    assert {**told, "request_id": ""} == {**same, "request_id": ""}
    if first.status == 201:
        found = [
            service.get(f"/api/bookmarks?url={quote(told['url'], safe='')}{more}").json()
            for more in ("", "&normalize=true")
        ]
        assert found[0] == found[1] != []


def test_looking_up_an_unknown_url_returns_an_empty_list(service: Running) -> None:
    answer = service.get("/api/bookmarks?url=https://nobody.example/")
    assert (answer.status, answer.json()) == (200, [])
    assert service.get("/api/bookmarks?url=javascript:1").status == 400


def test_an_edit_to_a_saved_url_names_the_other_bookmark(service: Running) -> None:
    one, other = service.put("https://e.com/one").json(), service.put("https://e.com/other").json()
    answer = service.ask("PUT", f"/api/bookmarks/{other['id']}", {"url": "https://E.com/one?utm_id=1"})
    assert (answer.status, answer.json()["bookmark_id"]) == (409, one["id"])
    assert service.put("https://e.com/one", "?on_duplicate=error").json()["bookmark_id"] == one["id"]
    assert service.put("https://e.com/one", "?on_duplicate=allow").status == 201
    assert service.put("https://e.com/one", "?on_duplicate=whatever").status == 400


def test_etags_guard_reads_and_writes(service: Running) -> None:
    kept = service.put("https://e.com/etag")
    path, etag = f"/api/bookmarks/{kept.json()['id']}", kept.headers["etag"]
    assert service.get(path).headers["etag"] == etag
    assert service.get(path, headers={"If-None-Match": etag}).status == 304
    changed = service.ask("PUT", path, {"title": "new"}, headers={"If-Match": etag})
    assert changed.status == 200 and changed.headers["etag"] != etag
    assert service.ask("PUT", path, {"title": "newer"}, headers={"If-Match": etag}).status == 412
    assert service.ask("DELETE", path, headers={"If-Match": etag}).status == 412
    assert service.get(path, headers={"If-None-Match": etag}).json()["title"] == "new"


def test_a_deleted_bookmark_can_be_restored(service: Running) -> None:
    kept = service.put("https://e.com/gone").json()
    path = f"/api/bookmarks/{kept['id']}"
    gone = service.ask("DELETE", path)
    assert gone.status == 200 and gone.json()["deleted_at"]
    assert service.ask("DELETE", path).status == 404
    assert service.get("/api/bookmarks?url=https://e.com/gone").json() == []
    assert kept["id"] in [each["id"] for each in service.get("/api/bookmarks?trash=true").json()]
    assert service.ask("POST", f"{path}/restore").json()["deleted_at"] is None
    assert service.get("/api/bookmarks?url=https://e.com/gone").json()[0]["id"] == kept["id"]


def test_the_link_header_leads_to_every_page(service: Running) -> None:
    for number in range(7):
        service.put(f"https://pages.example/{number}", folder="pages")
    seen: list[str] = []
    path = "/api/bookmarks?folder=pages&limit=3"
    while path:
        answer = service.get(path)
        seen += [each["url"] for each in answer.json()]
        link = answer.headers.get("link", "")
        path = link[1 : link.index(">")] if link else ""
    assert seen == [f"https://pages.example/{number}" for number in reversed(range(7))]
    assert service.get("/api/bookmarks?cursor=nonsense").status == 400
    assert service.get("/api/bookmarks?limit=0").status == 400
    assert service.get("/api/bookmarks?limit=100000").status == 400


def test_concurrent_saves_of_one_url_create_one_row(service: Running) -> None:
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda n: service.put(f"https://e.com/race?utm_source={n}"), range(96)))
    assert sorted(answer.status for answer in answers) == [200] * 95 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_original_url_is_in_every_response(service: Running) -> None:
    given = "https://e.com/original?utm_id=1"
    kept = service.put(given).json()
    path = f"/api/bookmarks/{kept['id']}"
    answers: list[Any] = [
        kept,
        service.put(given).json(),
        service.put(given, "?update=true", title="x").json(),
        service.get(path).json(),
        service.get(f"/api/bookmarks?url={quote(given, safe='')}").json()[0],
        next(each for each in service.get("/api/bookmarks?q=original").json() if each["id"] == kept["id"]),
        service.ask("PUT", path, {"title": "y"}).json(),
        service.ask("DELETE", path).json(),
        service.ask("POST", f"{path}/restore").json(),
    ]
    assert {answer["original_url"] for answer in answers} == {given}


def test_bodies_and_urls_have_limits(service: Running) -> None:
    assert service.put("https://e.com/big", description="x" * 2_000_000).status == 413
    assert service.put("https://e.com/big", title="x" * 20_000).status == 400
    assert service.put("https://e.com/big", tags=["x"] * 501).status == 400
    assert service.get("/api/bookmarks?q=" + "x" * 1001).status == 400
    assert service.get("/api/bookmarks/99999999999999999999").status == 400
    assert service.get("/api/bookmarks/0").status == 400


class Shortener:
    """bit.ly on loopback: `/N` leads to `https://target.example.com/N?utm_source=short`, `/slow…` after a second."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            self.asked.append(request.target)
            if request.target.startswith("/slow"):
                await asyncio.sleep(1)
            path = request.target.removeprefix("/slow")
            headers = {"Location": f"https://target.example.com{path}?utm_source=short"}
            answer = (
                make_http_response(404, {})
                if path.startswith("/none")
                else make_http_response(301, headers, request.method)
            )
            writer.write(answer)
            await writer.drain()


def test_short_links_are_followed_or_left_pending(database_url: str) -> None:
    """Followed within 300 ms, or by a job; what turns out to be the same becomes one."""

    short = Shortener()

    async def story() -> None:
        async with Listener(short.talk) as listener:

            async def lookup(_host: str, _port: int) -> list[tuple[str, int]]:
                return [(ADDRESS, listener.port)]

            await asyncio.to_thread(asked, lambda: make_client(lookup=lookup))

    def asked(client: Any) -> None:
        with serving(database_url, client=client) as service:
            service.wait_for_short_links(10)
            quick = service.put("http://bit.ly/1", title="quick").json()
            assert (quick["url"], quick["original_url"]) == ("https://target.example.com/1", "http://bit.ly/1")
            assert quick["expansion"] == "expanded"

            def is_remembered() -> bool:
                before = len(short.asked)
                assert service.put("http://bit.ly/1").json()["id"] == quick["id"]
                return len(short.asked) == before

            until(is_remembered)  # a cache that does not answer at once, on a busy machine, is gone without
            count = len(short.asked)
            assert service.get("/api/bookmarks?url=http://bit.ly/9").json() == []
            assert len(short.asked) == count  # a look-up asks nobody

            failed = service.put("http://bit.ly/none").json()
            assert (failed["url"], failed["expansion"]) == ("http://bit.ly/none", "failed")
            assert "404" in failed["expansion_reason"]
            assert service.put("http://bit.ly/2", "?exact_url=true").json()["url"] == "http://bit.ly/2"

            service.wait_for_short_links(EXPANSION_WAIT_SECONDS)
            slow = service.put("http://bit.ly/slow/3", tags=["a"])
            assert slow.status == 201
            assert (slow.json()["url"], slow.json()["expansion"]) == ("http://bit.ly/slow/3", "pending")
            until(lambda: service.get(f"/api/bookmarks/{slow.json()['id']}").json()["expansion"] == "expanded")
            done = service.get(f"/api/bookmarks/{slow.json()['id']}").json()
            assert (done["url"], done["original_url"]) == ("https://target.example.com/3", "http://bit.ly/slow/3")

            kept = service.put("https://target.example.com/4", tags=["old"]).json()
            late = service.put("http://bit.ly/slow/4", tags=["new"]).json()
            assert late["expansion"] == "pending" and late["id"] != kept["id"]
            until(lambda: service.get(f"/api/bookmarks/{late['id']}").status == 404)
            assert service.get(f"/api/bookmarks/{kept['id']}").json()["tags"] == ["old", "new"]

    asyncio.run(story())


def test_a_missing_title_is_fetched_if_enabled(tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            body = b"<html><head><title> The \n harbour </title></head></html>"
            writer.write(make_http_response(200, {"Content-Type": "text/html"}, request.method, body))
            await writer.drain()

    def asked(port: int) -> None:
        options = ServiceOptions(fetch_pages=True)
        with serving(f"sqlite:///{tmp_path / 'x.db'}", options, client=make_client) as service:
            kept = service.put(f"http://{ADDRESS}:{port}/page").json()
            until(lambda: service.get(f"/api/bookmarks/{kept['id']}").json()["title"] == "The harbour")
            named = service.put(f"http://{ADDRESS}:{port}/named", title="mine").json()
            assert service.get(f"/api/bookmarks/{named['id']}").json()["title"] == "mine"

    async def story() -> None:
        async with Listener(talk) as listener:
            await asyncio.to_thread(asked, listener.port)

    asyncio.run(story())


def test_users_see_only_their_own_bookmarks(database_url: str) -> None:
    with serving(database_url) as service:
        mine = service.put("https://e.com/mine").json()
        users = UserStore(service.service.database)

        def add(name: str) -> str:
            return asyncio.run(users.add(name, service.service.clock()))[1]

        ada, bob = add("ada"), add("bob")
        until(lambda: service.get("/api/bookmarks").status == 401)  # a second at most
        for wrong in ("x", "", "é"):
            headers = {"Authorization": f"Bearer {wrong}".encode().decode("latin-1")}
            assert service.get("/api/bookmarks", headers=headers).status == 401
        assert service.get("/api/bookmarks", token=ada).json()[0]["id"] == mine["id"]
        assert service.get("/api/bookmarks", headers={"Authorization": f"Token {ada}"}).status == 200
        assert service.get("/api/bookmarks", token=bob).json() == []
        for method, path, body in (
            ("GET", f"/api/bookmarks/{mine['id']}", None),
            ("PUT", f"/api/bookmarks/{mine['id']}", {"title": "stolen"}),
            ("DELETE", f"/api/bookmarks/{mine['id']}", None),
            ("POST", f"/api/bookmarks/{mine['id']}/restore", None),
        ):
            assert service.ask(method, path, body, token=bob).status == 404
        assert service.get(f"/api/bookmarks/{mine['id']}", token=ada).json()["title"] == ""
        assert service.ask("PUT", "/api/bookmarks", {"url": "https://e.com/mine"}, token=bob).status == 201


def test_a_proven_alias_of_a_saved_page_is_not_saved_again(service: Running) -> None:
    url, alias = "https://e.com/page", "https://e.com/old-page"
    kept = service.put(url, title="A", tags=["x"]).json()
    assert (kept["alias"], kept["evidence"]) == (None, None)
    rows = [PageAlias(alias, url, Evidence.REDIRECT)]
    service.service.database.write_now(lambda connection: save_aliases(connection, rows, "2026-01-01"))
    found = service.put(f"{alias}?utm_source=x", title="B")
    assert (found.status, found.headers["etag"]) == (200, service.get(f"/api/bookmarks/{kept['id']}").headers["etag"])
    assert found.json() == {**kept, "outcome": "no_change", "alias": alias, "evidence": "redirect"}
    refused = service.put(alias, "?on_duplicate=error")
    assert (refused.status, refused.json()["bookmark_id"]) == (409, kept["id"])
    assert refused.json()["type"] == "urn:canonry:problem:already-saved"
    assert url in refused.json()["detail"] and Evidence.REDIRECT.sentence in refused.json()["detail"]
    updated = service.put(alias, "?update=true", title="B")
    assert (updated.status, updated.json()["id"], updated.json()["outcome"]) == (200, kept["id"], "updated")
    assert (updated.json()["url"], updated.json()["title"], updated.json()["tags"]) == (url, "B", ["x"])
    exact = service.put(alias, "?normalize=false&update=true", title="C")
    assert (exact.status, exact.json()["url"], exact.json()["alias"]) == (201, alias, None)
    assert service.get(f"/api/bookmarks/{kept['id']}").json()["title"] == "B"


def test_json_has_the_fields_of_the_dataclass(service: Running) -> None:
    from dataclasses import fields

    from canonry.bookmarks.bookmark import Bookmark

    names = {each.name for each in fields(Bookmark)} | {"outcome", "alias", "evidence"}
    assert set(service.put("https://e.com/fields").json()) == names
    assert json.loads(service.get("/api/openapi.json").body)["openapi"].startswith("3.")
