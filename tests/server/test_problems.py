"""What an error of the service tells its client: never a path of the machine, an address of the store or SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from canonry.errors import NewerStore, PolicyError, RekeyUnfinished, StoreError, WorkerAlreadyRunning
from canonry.rekey.entry_rekey_store import RekeyProblem, RekeyRefused
from canonry.server.problems import describe_error
from canonry.server.service import ServiceOptions
from service import Running, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

SECRETS = ("/srv/secret", "SELECT", "db.internal")
# fmt: off
ERRORS = [
    # why                      error                                                                 what must be shown
    ("a file and SQL",         StoreError("sqlite:////srv/secret/canonry.db: SELECT x: no such table"), None),
    ("a server",               StoreError("postgresql://db.internal/x: connection refused"),             None),
    ("a newer store",          NewerStore("sqlite:////srv/secret/canonry.db: newer"),                    None),
    ("another worker",         WorkerAlreadyRunning("/srv/secret/canonry.db.lock is locked"),            None),
    ("an unfinished rekey",    RekeyUnfinished("A rekey is unfinished."),              "A rekey is unfinished."),
    ("a refused rekey",        RekeyRefused(RekeyProblem.OTHER_POLICY, "Rekey from x."),         "Rekey from x."),
    ("an overrides file",      PolicyError("must be a list", "/srv/secret/o.json", "overrides"), "o.json: overrides: must be a list"),
]
# fmt: on


@pytest.mark.parametrize(("error", "shown"), [each[1:] for each in ERRORS], ids=[each[0] for each in ERRORS])
def test_an_error_names_no_file_and_no_statement(error: Exception, shown: str | None) -> None:
    detail = describe_error(error, "r1")
    assert not [secret for secret in SECRETS if secret in detail]
    assert shown is None or detail == shown


@pytest.mark.parametrize("path", ["/api/bookmarks", "/", "/api/duplicates", "/api/feeds"])
def test_a_broken_store_is_a_503_without_its_path(tmp_path: Path, path: str, caplog: pytest.LogCaptureFixture) -> None:
    with serving(f"sqlite:///{tmp_path / 'canonry.db'}", ServiceOptions(runs_jobs=False)) as service:
        break_tables: Callable[[str], object] = lambda table: service.service.database.write_now(  # noqa: E731
            lambda on: on.execute(text(f"ALTER TABLE {table} RENAME TO old_{table}"))
        )
        break_tables("bookmarks")
        break_tables("feeds")
        answer = service.get(path)
    assert answer.status == 503
    assert not [secret for secret in (str(tmp_path), "canonry.db", "no such table", "SELECT") if secret in answer.text]
    assert any("no such table" in record.getMessage() for record in caplog.records), "the log has the details"


# fmt: off
ADDRESSES = [
    # method    path                     status  allowed methods
    ("GET",     "/api/nowhere",            404, ""),
    ("HEAD",    "/api/nowhere",            404, ""),
    ("GET",     "/nowhere",                404, ""),
    ("OPTIONS", "/nowhere",                404, ""),
    ("PATCH",   "/api/bookmarks",          405, "GET, HEAD, PUT"),
    ("POST",    "/bookmarks",              405, "GET, HEAD"),
    ("DELETE",  "/import",                 405, "GET, HEAD, POST"),
    ("OPTIONS", "/import",                 204, "GET, HEAD, POST"),
    ("OPTIONS", "/api/bookmarks/1",        204, "DELETE, GET, HEAD, PUT"),
    ("HEAD",    "/v1/posts/update",        405, "GET, POST"),  # GETs of Pinboard write
    ("HEAD",    "/bookmarks",              200, ""),
    ("HEAD",    "/healthz",                200, ""),
    ("HEAD",    "/api/bookmarks/1",        404, ""),
    ("HEAD",    "/export/json",            200, ""),
    ("HEAD",    "/canonicalize/events?url=https://x.invalid/", 200, ""),  # a stream of events
    ("HEAD",    "/bookmarks/1/edit",       404, ""),
]
# fmt: on


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    file = tmp_path_factory.mktemp("store") / "canonry.db"
    with serving(f"sqlite:///{file}", ServiceOptions(runs_jobs=False)) as found:
        yield found


@pytest.mark.parametrize(("method", "path", "status", "allowed"), ADDRESSES)
def test_addresses_and_methods(running: Running, method: str, path: str, status: int, allowed: str) -> None:
    answer = running.ask(method, path, headers={"Accept": "text/event-stream"} if "events" in path else {})
    assert answer.status == status
    assert answer.headers.get("allow", "") == allowed
    is_api = path.startswith(("/api/", "/v1/"))
    if status >= 400:
        assert answer.headers["content-type"].startswith("application/problem+json" if is_api else "text/html")
    assert (answer.body == b"") == (method == "HEAD" or status == 204)
    if answer.body and is_api:
        problem = answer.json()
        assert problem["detail"] != problem["title"]


def test_head_announces_what_get_sends(running: Running) -> None:
    head, get = running.ask("HEAD", "/api/rules"), running.get("/api/rules")
    assert [head.headers[name] for name in ("content-type", "content-length")] == [
        "application/json",
        str(len(get.body)),
    ]
