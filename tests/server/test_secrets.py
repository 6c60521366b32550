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


PATHS = ["/", "/admin", "/api/bookmarks", "/api/docs", "/api/openapi.json", "/metrics", "/reference", "/nowhere/secret"]
METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", METHODS)
def test_without_a_token_every_method_is_refused(service: Running, method: str, path: str) -> None:
    connection = Running(service.port, service.service)
    answer = connection.ask(method, path)
    assert answer.status in {303, 400, 401, 403}
    assert "secret" not in answer.text and "zoe" not in answer.text
    assert "allow" not in answer.headers
    assert answer.status == 400 or answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/nowhere/%3Cscript%3Esecret", "/api/nowhere/secret", "/bookmarks/secret/edit"])
def test_a_missing_page_does_not_repeat_its_path(service: Running, path: str) -> None:
    answer = service.get(path)
    assert answer.status in {400, 404} and "secret" not in answer.text


def test_private_pages_are_not_stored_and_leak_no_address(service: Running) -> None:
    for path in ("/", "/admin", "/api/bookmarks", "/signin", "/export/json"):
        answer = service.get(path)
        assert answer.headers["cache-control"] == "no-store", path
        assert answer.headers["referrer-policy"] in {"same-origin", "no-referrer"}
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
        page = service.get("/")
        assert page.status == 503 and "secret-place" not in page.text
