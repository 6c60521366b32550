"""What a response must not say: names of the store, paths of others, anything without a token (contract B6, B9)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from canonry.accounts import UserStore
from canonry.server.service import ServiceOptions
from service import Running, serving

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    database = f"sqlite:///{tmp_path_factory.mktemp('secrets') / 'x.db'}"
    with serving(database, ServiceOptions(runs_jobs=False)) as running:
        _, token = asyncio.run(UserStore(running.service.database).add("zoe", running.service.clock()))
        yield Running(running.port, running.service, token)


SIGN_IN, TOKEN_REQUIRED = 303, 401
PATHS = [
    ("/", SIGN_IN),
    ("/admin", SIGN_IN),
    ("/reference", SIGN_IN),
    ("/nowhere/secret", SIGN_IN),
    ("/api/docs", SIGN_IN),
    ("/api/bookmarks", TOKEN_REQUIRED),
    ("/api/openapi.json", TOKEN_REQUIRED),
    ("/metrics", TOKEN_REQUIRED),
]
METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"]


@pytest.mark.parametrize(("path", "status"), PATHS)
@pytest.mark.parametrize("method", METHODS)
def test_without_a_token_every_method_is_refused(service: Running, method: str, path: str, status: int) -> None:
    connection = Running(service.port, service.service)
    answer = connection.ask(method, path)
    # A redirect would lose what was typed into a form.
    assert answer.status == (TOKEN_REQUIRED if method == "POST" else status)
    assert "secret" not in answer.text and "zoe" not in answer.text
    assert "allow" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"


MISSING = [("/nowhere/%3Cscript%3Esecret", 404), ("/api/nowhere/secret", 404), ("/bookmarks/secret/edit", 400)]


@pytest.mark.parametrize(("path", "status"), MISSING)
def test_a_missing_page_does_not_repeat_its_path(service: Running, path: str, status: int) -> None:
    answer = service.get(path)
    assert answer.status == status and "secret" not in answer.text


def test_private_pages_are_not_stored_and_leak_no_address(service: Running) -> None:
    for path in ("/", "/admin", "/api/bookmarks", "/signin", "/export/json"):
        answer = service.get(path)
        assert answer.headers["cache-control"] == "no-store", path
        assert answer.headers["referrer-policy"] == "same-origin"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "server" not in answer.headers


def test_an_error_of_the_store_does_not_name_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "secret-place.db"
    with serving(f"sqlite:///{file}", ServiceOptions(runs_jobs=False)) as service:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("ALTER TABLE bookmarks RENAME TO gone")
        answer = service.get("/api/bookmarks")
        assert (answer.status, answer.json()["type"]) == (503, "urn:canonry:problem:store-unavailable")
        assert "secret-place" not in answer.text and "bookmarks" not in answer.text
        request_id = answer.headers["x-request-id"]
        assert any(request_id in message and "secret-place" in message for message in caplog.messages)
        page = service.get("/bookmarks")
        assert page.status == 503 and "secret-place" not in page.text
