"""Access to pages: CSRF tokens, sessions, own rows only, admins (contract B6)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from canonry.server.pages.routes import TOPICS
from canonry.server.service import ServiceOptions
from server.pages.visitor import Visitor, add_user, create_owner_token
from service import serving, until

if TYPE_CHECKING:
    from service import Running

RUNS_JOBS = False
ROUTES: list[Any] = [route for topic in TOPICS for route in topic.router.routes]


def at(path: str) -> str:
    """The path of a route with something in its places."""
    return re.sub(r"\{\w+_id\}", "1", path.replace("{group_id}", "0" * 64).replace("{form}", "json"))


WRITES = sorted(at(route.path) for route in ROUTES if "POST" in route.methods)
READS = sorted(at(route.path) for route in ROUTES if "GET" in route.methods)


def rows(running: Running) -> object:
    return running.get("/api/bookmarks").body, running.get("/api/bookmarks?trash=true").body


@pytest.fixture
def filled(running: Running) -> Running:
    running.put("https://example.com/a", title="First")
    running.put("https://Example.com/a?utm_source=x", "?exact_url=true", title="Second")
    return running


def test_the_route_tables_are_complete() -> None:
    assert {"/add", "/preview", "/signin", "/signout", "/import", "/admin/renormalize"} <= set(WRITES)
    assert {"/", "/add", "/duplicates", "/explain", "/admin", "/bookmarklet"} <= set(READS)
    assert all(not route.include_in_schema for route in ROUTES)
    assert all(route.methods in ({"GET"}, {"POST"}) for route in ROUTES)


@pytest.mark.parametrize("path", WRITES)
def test_a_write_needs_the_csrf_token(filled: Running, path: str) -> None:
    before = rows(filled)
    visitor = Visitor(filled)
    right = visitor.csrf
    fields = {"url": "https://evil.test/", "keep": "1", "policy": "feed-aggressive@1", "token": "x"}
    for page in (
        visitor.post(path, fields, csrf=""),
        visitor.post(path, fields, csrf="A" * 43),
        visitor.post(path, fields, csrf=right[:-1]),
        Visitor(filled).post(path, fields, csrf=right),  # a token without its cookie
        Visitor(filled, {"canonry_csrf": ""}).post(path, fields, csrf=""),
        Visitor(filled, {"canonry_csrf": "B" * 43}).post(path, fields, csrf=right),
        visitor.upload(path, "x.csv", b"url\nhttps://evil.test/\n", csrf="wrong"),
    ):
        assert page.status == 403, page.words
        assert page.answer.headers["content-type"].startswith("text/html")
    plain = filled.ask("POST", path, b"url=https://evil.test/", headers={"Content-Type": "text/plain"})
    assert plain.status == 403
    assert rows(filled) == before


def test_get_requests_write_nothing(filled: Running) -> None:
    before = rows(filled)
    visitor = Visitor(filled)
    for path in READS:
        for query in ("", "?url=https://evil.test/&title=x&keep=1&policy=feed-aggressive@1&csrf=" + visitor.csrf):
            assert visitor.get(path + query).status in {200, 303, 400, 404, 406}, path
    assert rows(filled) == before
    assert filled.get("/api/admin/renormalizations").json() == []


def test_the_csrf_cookie_is_http_only(running: Running) -> None:
    answer = running.get("/")
    said = answer.headers["set-cookie"].lower()
    assert said.startswith("canonry_csrf=") and "httponly" in said and "samesite=lax" in said and "secure" not in said
    visitor = Visitor(running)
    first = visitor.csrf
    assert "set-cookie" not in visitor.get("/").answer.headers
    assert visitor.csrf == first


def test_pages_forbid_foreign_scripts_and_frames(running: Running) -> None:
    for path in ("/", "/nope", "/static/canonry.css", "/add"):
        headers = running.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
    assert running.get("/").headers["cache-control"] == "no-store"
    assert "max-age" in running.get("/static/canonry.css").headers["cache-control"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nope", 404),
        ("/bookmarks/0/edit", 400),
        ("/bookmarks/x/edit", 400),
        ("/imports/9", 404),
        ("/static/nope", 404),
        ("/static/../pages.py", 404),
    ],
)
def test_errors_are_pages_for_people_and_problems_for_programs(running: Running, path: str, status: int) -> None:
    page = Visitor(running).get(path)
    assert page.status == status
    assert page.answer.headers["content-type"].startswith("text/html")
    assert page.tree.css_first("main h1") is not None
    assert running.get("/api/nope").headers["content-type"] == "application/problem+json"


def test_refusals_by_the_middleware_are_pages(sqlite_url: str) -> None:
    with serving(sqlite_url, ServiceOptions(max_upload=1000, max_body=1000)) as running:
        visitor = Visitor(running)
        for page, status in (
            (visitor.upload("/import", "x.csv", b"x" * 2000), 413),
            (visitor.post("/add", {"url": "x" * 2000}), 413),
            (visitor.get("/", Host="evil.com"), 421),
            (visitor.post("/add", Origin="https://evil.com"), 403),
        ):
            assert page.status == status
            assert page.answer.headers["content-type"].startswith("text/html")
            assert page.answer.headers["x-request-id"]


def test_sign_in_and_out_with_a_required_token(sqlite_url: str) -> None:
    with serving(sqlite_url, ServiceOptions(require_token=True)) as running:
        token = create_owner_token(running)
        visitor = Visitor(running)
        away = visitor.get("/")
        assert (away.status, away.answer.headers["location"]) == (303, "/signin")
        piece = visitor.get("/imports/1", **{"HX-Request": "true"})
        assert (piece.status, piece.answer.headers["hx-redirect"]) == (401, "/signin"), "no page within a page"
        form = visitor.get("/signin")
        assert form.status == 200 and "Duplicates" not in form.words
        wrong = visitor.post("/signin", {"token": "wrong"})
        assert (
            wrong.status == 401
            and wrong.tree.css_first("#token-error") is not None
            and "canonry_session" not in visitor.cookies
        )
        right = visitor.post("/signin", {"token": f" {token} "})
        said = right.answer.headers["set-cookie"].lower()
        assert "httponly" in said and "samesite=lax" in said and f"max-age={14 * 24 * 3600}" in said
        assert visitor.follow(right).status == 200
        session = visitor.cookies["canonry_session"]
        assert token not in session
        assert visitor.get("/reference").status == 200
        assert visitor.get("/api/bookmarks").status == 401, "a session is for pages"
        visitor.post("/signout")
        assert "canonry_session" not in visitor.cookies
        assert Visitor(running, {"canonry_session": session}).get("/").status == 303


@pytest.mark.parametrize(
    ("wanted", "after"),
    [
        ("/add?url=https%3A%2F%2Fa.com%2F", "/add?url=https%3A%2F%2Fa.com%2F"),
        ("//evil.com/", "/"),
        ("/\\evil.com/", "/"),
        ("https://evil.com/", "/"),
        ("/a\r\nSet-Cookie: x", "/"),
        ("", "/"),
    ],
    ids=range(6),
)
def test_sign_in_redirects_only_to_our_own_pages(sqlite_url: str, wanted: str, after: str) -> None:
    with serving(sqlite_url, ServiceOptions(require_token=True, runs_jobs=False)) as running:
        visitor = Visitor(running)
        if wanted.startswith("/add"):
            away = visitor.get(wanted).answer.headers["location"]
            assert away == f"/signin?next={quote(wanted, safe='')}"
            assert 'name="next" value="/add?url=' in visitor.get(away).answer.text
        gone = visitor.post("/signin", {"token": create_owner_token(running), "next": wanted})
        assert gone.answer.headers["location"] == after


def test_attempts_to_sign_in_are_limited(sqlite_url: str) -> None:
    # The clock stands still: on a busy machine, attempts would be refilled during the test.
    now = datetime.now(UTC)
    with serving(sqlite_url, ServiceOptions(require_token=True), clock=lambda: now) as running:
        token = create_owner_token(running)
        visitor = Visitor(running)
        statuses = [visitor.post("/signin", {"token": f"guess{number}"}).status for number in range(12)]
        assert statuses == [401] * 10 + [429] * 2
        late = visitor.post("/signin", {"token": token})
        assert late.status == 429 and int(late.answer.headers["retry-after"]) == 6
        assert late.tree.css_first("#token-error") is not None


def test_attempts_to_sign_in_are_counted_over_all_processes(database_url: str) -> None:
    now = datetime.now(UTC)
    options = ServiceOptions(require_token=True, runs_jobs=False)
    with (
        serving(database_url, options, clock=lambda: now) as first,
        serving(database_url, options, clock=lambda: now) as second,
    ):
        visitors = Visitor(first), Visitor(second)
        statuses = [visitors[number % 2].post("/signin", {"token": f"guess{number}"}).status for number in range(12)]
        assert statuses == [401] * 10 + [429] * 2


def test_forwarded_addresses_have_their_own_attempts_only_behind_a_trusted_proxy(sqlite_url: str) -> None:
    now = datetime.now(UTC)
    options = ServiceOptions(require_token=True, runs_jobs=False)
    for trusted, wanted in (((), [401] * 10 + [429] * 10), (("127.0.0.1/32",), [401] * 20)):
        with serving(sqlite_url, options, clock=lambda: now, trusted_proxies=trusted) as running:
            visitor = Visitor(running)
            csrf = visitor.csrf
            statuses = [
                running.ask(
                    "POST",
                    "/signin",
                    f"token=guess&csrf={csrf}".encode(),
                    headers={
                        "Content-Type": "application/x-www-form-urlencoded",
                        "Cookie": f"canonry_csrf={csrf}",
                        "X-Forwarded-For": f"203.0.113.{number}",
                    },
                ).status
                for number in range(20)
            ]
            assert statuses == wanted


def test_a_session_can_read_the_api_reference(sqlite_url: str) -> None:
    with serving(sqlite_url) as running:
        token = add_user(running, "ada")
        until(lambda: running.get("/api/bookmarks").status == 401)
        stranger = Visitor(running)
        assert stranger.get("/api/docs").answer.status == 303
        assert stranger.get("/api/openapi.json").answer.status == 401
        person = signed_in(running, token)
        assert person.get("/api/docs").answer.status == 200
        assert person.get("/api/openapi.json").answer.status == 200
        assert person.get("/api/bookmarks").answer.status == 401


def test_personal_mode_has_no_sign_in(running: Running) -> None:
    visitor = Visitor(running)
    assert visitor.get("/signin").status == 303
    assert visitor.post("/signin", {"token": "x"}).status == 303
    assert "Sign out" not in visitor.get("/").words


def signed_in(running: Running, token: str) -> Visitor:
    visitor = Visitor(running)
    assert visitor.post("/signin", {"token": token}).status == 303
    return visitor


def test_users_see_their_own_rows_and_only_admins_the_statistics(sqlite_url: str) -> None:
    with serving(sqlite_url) as running:
        ada, ben = add_user(running, "ada"), add_user(running, "ben")
        until(lambda: running.get("/api/bookmarks").status == 401)
        first, second = signed_in(running, ada), signed_in(running, ben)
        fields = {"url": "https://example.com/secret", "title": "Secret of ada"}
        first.follow(first.post("/add", fields))
        first.post("/add", {"url": "https://Example.com/secret?utm_source=x", "exact_url": "1"})
        merge = next(link for link in first.get("/duplicates").links if link.endswith("/merge"))
        imported = first.upload("/import", "x.csv", b"url\nhttps://example.com/imported\n").answer.headers["location"]
        for page in (
            second.get("/bookmarks/1/edit"),
            second.post("/bookmarks/1/edit", fields),
            second.post("/bookmarks/1/delete"),
            second.post("/bookmarks/1/restore"),
            second.post(merge, {"keep": "1"}),
            second.post(merge.replace("/merge", "/undo")),
            second.get(imported),
        ):
            assert page.status == 404
            assert "Secret" not in page.text
        for path in (
            "/",
            "/bookmarks?q=secret",
            "/bookmarks?trash=1",
            "/duplicates",
            "/export/json",
            "/export/csv",
            "/export/netscape",
            "/add?url=https://example.com/secret",
        ):
            page = second.get(path)
            assert page.status == 200
            assert "Secret of ada" not in page.text and "/bookmarks/1/" not in page.text
        assert second.follow(second.post("/add", {"url": "https://example.com/secret"})).status == 200, (
            "a twin of another's"
        )
        assert first.get("/admin").status == 200
        for page in (
            second.get("/admin"),
            second.get("/admin/renormalizations/1"),
            second.post("/admin/renormalize", {"policy": "bookmark@1"}),
        ):
            assert page.status == 403 and page.answer.headers["content-type"].startswith("text/html")
        assert "Statistics" not in second.get("/").words
        assert "Sign out ben" in second.get("/").words
