"""Access control: personal mode, origins, hosts, tokens, limits (contract B6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from canonry.accounts import UserStore
from canonry.server.access import RateLimiter
from canonry.server.problems import RequestRefused
from canonry.server.service import ServiceOptions
from service import Running, serving, until

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    options = ServiceOptions(runs_jobs=False, allowed_hosts=("Bookmarks.home",))
    with serving(f"sqlite:///{tmp_path_factory.mktemp('service') / 'x.db'}", options) as running:
        yield running


HOSTS = [
    # Host, is it accepted?
    ("127.0.0.1", True),
    ("127.0.0.1:8000", True),
    ("127.9.9.9", True),
    ("localhost", True),
    ("LocalHost:1", True),
    ("localhost.", True),
    ("[::1]:8000", True),
    ("bookmarks.home", True),
    ("BOOKMARKS.home:80", True),
    ("evil.com", False),
    ("localhost.evil.com", False),
    ("127.0.0.1.evil.com", False),
    ("evil.localhost", False),
    ("192.168.1.2", False),
    ("0.0.0.0", False),
    ("", False),
    ("127.0.0.1:8000:1", False),
    ("127.0.0.1@evil.com", False),
]


@pytest.mark.parametrize(("host", "is_ours"), HOSTS, ids=[host or "none" for host, _ in HOSTS])
@pytest.mark.parametrize("path", ["/api/bookmarks", "/", "/healthz", "/static/x", "/v1/posts/all", "/nowhere"])
def test_personal_mode_accepts_only_its_own_host_names(service: Running, path: str, host: str, is_ours: bool) -> None:
    status = service.get(path, headers={"Host": host}).status
    assert (status not in {400, 421}) == is_ours


FOREIGN = [
    {"Origin": "https://evil.com"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://localhost"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=range(len(FOREIGN)))
def test_pages_of_other_sites_cannot_use_the_api(service: Running, headers: dict[str, str]) -> None:
    before = service.get("/api/bookmarks").body
    for method, path, body in (
        ("GET", "/api/bookmarks", None),
        ("PUT", "/api/bookmarks", {"url": "https://evil.com/"}),
        ("POST", "/api/normalize", {"url": "https://evil.com/"}),
        ("DELETE", "/api/bookmarks/1", None),
        ("OPTIONS", "/api/bookmarks", None),
    ):
        answer = service.ask(method, path, body, headers=headers)
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers
    assert service.get("/api/bookmarks").body == before


def test_our_own_pages_can_use_the_api(service: Running) -> None:
    for headers in ({"Origin": service.url}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
        assert service.get("/api/bookmarks", headers=headers).status == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", ""]
)
def test_the_api_refuses_bodies_that_are_not_json(service: Running, kind: str) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = service.ask("PUT", "/api/bookmarks", b'{"url": "https://evil.com/"}', headers=headers)
    assert answer.status == 415
    assert service.get("/api/bookmarks?url=https://evil.com/").json() == []


def test_an_internal_error_is_a_problem_document_and_is_logged(
    service: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(service.service.bookmarks.store, "get", broken)
    answer = service.get("/api/bookmarks/1")
    assert answer.status == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-frame-options"] == "DENY"
    request_id = answer.headers["x-request-id"]
    assert answer.json()["request_id"] == request_id
    assert "broken" not in answer.text
    [told] = [record for record in caplog.records if request_id in record.getMessage()]
    assert told.exc_info is not None


def test_every_response_has_security_headers_and_a_request_id(service: Running) -> None:
    for path in ("/api/bookmarks", "/api/bookmarks/99", "/nowhere", "/healthz"):
        answer = service.get(path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
        assert len(answer.headers["x-request-id"]) == 32
    assert service.get("/healthz", headers={"X-Request-ID": "mine-1"}).headers["x-request-id"] == "mine-1"
    odd = service.get("/healthz", headers={"X-Request-ID": "a b<script>"}).headers["x-request-id"]
    assert len(odd) == 32


def test_a_token_can_be_required_without_users(sqlite_url: str) -> None:
    with serving(sqlite_url, ServiceOptions(runs_jobs=False, require_token=True)) as service:
        token = asyncio.run(UserStore(service.service.database).create_token("", service.service.clock()))
        assert service.get("/api/bookmarks").status == 401
        assert service.get("/api/bookmarks", token=token).status == 200
        assert service.get("/healthz").status == 200
        page = service.get("/")
        assert (page.status, page.headers["location"]) == (303, "/signin")


def test_requests_of_a_token_are_limited(sqlite_url: str) -> None:
    options = ServiceOptions(runs_jobs=False, require_token=True, requests_per_minute=5)
    with serving(sqlite_url, options, monotonic=lambda: 0.0) as service:  # no refill during the test
        users = UserStore(service.service.database)
        one, other = (asyncio.run(users.create_token("", service.service.clock())) for _ in range(2))
        statuses = [service.get("/api/bookmarks", token=one).status for _ in range(7)]
        assert statuses == [200] * 5 + [429] * 2
        refused = service.get("/api/bookmarks", token=one)
        assert (refused.status, refused.headers["retry-after"]) == (429, "12")
        assert service.get("/api/bookmarks", token=other).status == 200


def test_the_rate_limit_refills_evenly() -> None:
    now = 0.0
    limits = RateLimiter(2, clock=lambda: now)
    limits.take("a")
    limits.take("a")
    with pytest.raises(RequestRefused):
        limits.take("a")
    now = 30.0
    limits.take("a")
    with pytest.raises(RequestRefused):
        limits.take("a")


def test_the_rate_limit_forgets_the_oldest_names() -> None:
    limits = RateLimiter(1, max_names=2)
    for name in ("a", "b", "c"):
        limits.take(name)
    with pytest.raises(RequestRefused):
        limits.take("c")
    limits.take("a")


def test_the_first_user_ends_personal_mode(sqlite_url: str) -> None:
    with serving(sqlite_url, ServiceOptions(runs_jobs=False)) as service:
        assert service.get("/api/bookmarks").status == 200
        _, token = asyncio.run(UserStore(service.service.database).add("ada", service.service.clock()))
        until(lambda: service.get("/api/bookmarks").status == 401)
        # With users, every host name is accepted: requests need a token anyway.
        assert service.get("/api/bookmarks", headers={"Host": "bookmarks.example"}, token=token).status == 200


def test_personal_mode_ends_at_once_for_a_busy_service(sqlite_url: str) -> None:
    """The answer whether there are users is cached: a request just before `canonry user add` must not open the next."""
    seconds = 0.0
    with serving(sqlite_url, ServiceOptions(runs_jobs=False), monotonic=lambda: seconds) as service:
        assert service.get("/api/bookmarks").status == 200
        asyncio.run(UserStore(service.service.database).add("ada", service.service.clock()))
        seconds = 0.1
        assert service.get("/api/bookmarks").status == 401
