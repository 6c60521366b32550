"""No route gives a user access to the bookmarks of another user (contract B6)."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from canonry.server.app import make_app
from canonry.server.service import Service, ServiceOptions
from canonry.settings import Settings
from canonry.store.schema import (
    bookmark_merges,
    bookmarks,
    crawl_pages,
    crawls,
    feeds,
    imports,
    renormalizations,
    tokens,
    users,
)
from service import Answer, Running, serving

if TYPE_CHECKING:
    from collections.abc import Generator

    from sqlalchemy import Connection

DESCRIBED: dict[str, Any] = make_app(Service(Settings(database_url="sqlite://"), ServiceOptions())).openapi()  # type: ignore[attr-defined]
OPERATIONS = [(method.upper(), path) for path, found in DESCRIBED["paths"].items() for method in found]
IDS = [" ".join(operation) for operation in OPERATIONS]
ADMINS = [
    *(("GET", "/metrics"), ("POST", "/api/feeds"), ("DELETE", "/api/feeds/{feed_id}")),
    *(("POST", "/api/feeds/{feed_id}/poll"), ("PATCH", "/api/feeds/{feed_id}")),
    *(
        (method, path)
        for method, path in OPERATIONS
        if path.startswith(("/api/admin/", "/api/crawls", "/api/webhooks"))
    ),
]
FOR_ALL = [("GET", "/healthz"), ("GET", "/readyz")]
SECRET = "secret-of-ada"  # in some text of everything she has
HERS = "https://example.com/hers"
HER_IDS = {"bookmark_id", "group_id", "import_id"}
# What of a table is the victim's, or everybody's.
TABLES = (bookmarks, bookmark_merges, imports, tokens, users, feeds, renormalizations, crawls, crawl_pages)


class Two:
    """A service with ada, an admin who has a bit of everything, and bob, who has nothing."""

    def __init__(self, service: Running) -> None:
        self.service = service
        parts = service.service
        self.ada_user, self.ada = asyncio.run(parts.users.add("ada", parts.clock()))
        self.bob_user, self.bob = asyncio.run(parts.users.add("bob", parts.clock()))

        def ask(method: str, path: str, body: Any = None) -> Any:
            return service.ask(method, path, body, token=self.ada).json()

        kept = ask("PUT", "/api/bookmarks", {"url": HERS, "title": SECRET, "tags": [SECRET]})
        ask("PUT", "/api/bookmarks?on_duplicate=allow", {"url": HERS, "description": SECRET})
        for number in range(2):
            ask("PUT", "/api/bookmarks?on_duplicate=allow", {"url": f"{HERS}/merged", "title": f"{SECRET} {number}"})
        trashed = ask("PUT", "/api/bookmarks", {"url": f"{HERS}/trashed", "title": SECRET})["id"]
        ask("DELETE", f"/api/bookmarks/{trashed}")
        groups = {each["bookmarks"][0]["url"]: each["id"] for each in ask("GET", "/api/duplicates")}
        ask("POST", f"/api/duplicates/{groups[f'{HERS}/merged']}/merge")
        feed = ask("POST", "/api/feeds", {"url": "https://feeds.example/", "canonicalize": False})
        self.ids = {
            "bookmark_id": [kept["id"], trashed],
            "group_id": list(groups.values()),
            "import_id": [
                ask("POST", "/api/import", {"content": f"url,title\n{HERS}/imported,{SECRET}\nx:,{SECRET}\n"})["id"]
            ],
            "feed_id": [feed["feed_id"]],
            "run_id": [ask("POST", "/api/admin/renormalizations", {"policy": "bookmark"})["id"]],
            "policy_id": ["bookmark"],
            "rule_id": [1],
            "webhook_id": [ask("POST", "/api/webhooks", {"url": f"https://{SECRET}.example/"})["webhook"]["id"]],
            "crawl_id": [ask("POST", "/api/crawls", {"seed": f"https://{SECRET}.example/", "engine": "http"})["id"]],
        }

    def rows(self) -> dict[str, list[Any]]:
        """Everything that is not bob's."""

        def work(connection: Connection) -> dict[str, list[Any]]:
            found = {table.name: connection.execute(select(table)).mappings().all() for table in TABLES}
            return {
                name: sorted((dict(row) for row in rows if row.get("owner_id") != self.bob_user.id), key=str)
                for name, rows in found.items()
            }

        return asyncio.run(self.service.service.database.read(work))

    def urls(self, path: str) -> list[str]:
        """The path for each of ada's things."""
        names = re.findall(r"{(\w+)}", path)
        if not names:
            return [path]
        [name] = names
        return [path.replace(f"{{{name}}}", str(value)) for value in self.ids[name]]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Generator[Two]:
    with serving(f"sqlite:///{tmp_path_factory.mktemp('two') / 'x.db'}", ServiceOptions(runs_jobs=False)) as service:
        yield Two(service)


def body_of(method: str, path: str) -> Any:
    """Something that the route takes, and that would be seen."""
    operation = DESCRIBED["paths"][path][method.lower()]
    if "requestBody" not in operation or path.startswith("/v1/"):
        return None
    if path == "/api/import":
        return {"content": f"url,title\n{HERS},bob was here\n"}
    if path.startswith("/api/admin/renormalizations"):
        return {"policy": "feed-aggressive"}
    if method == "PATCH":
        return {"title": "bob was here"}
    if path == "/api/crawls":
        return {"seed": HERS, "engine": "http"}
    return {} if path.endswith("/merge") else {"url": HERS, "title": "bob was here"}


def asked(two: Two, method: str, path: str, url: str, token: str, name: str) -> Answer:
    if path.startswith("/v1/"):
        joined = f"{url}?auth_token={name}:{token}&url={HERS}&description=bob+was+here&format=json"
        return two.service.ask(method, joined if token else url, token="")
    query = f"?url={HERS}" if path == "/api/check" else ""
    return two.service.ask(method, url + query, body_of(method, path), token=token)


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=IDS)
def test_another_user_reads_and_changes_nothing(two: Two, method: str, path: str) -> None:
    before = two.rows()
    for url in two.urls(path):
        answer = asked(two, method, path, url, two.bob, "bob")
        assert answer.status < 500
        assert SECRET not in answer.text
        if (method, path) in ADMINS:
            assert answer.status == 403
        elif HER_IDS.intersection(re.findall(r"{(\w+)}", path)):
            assert answer.status == 404
    assert two.rows() == before


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=IDS)
def test_requests_without_a_token_are_refused(two: Two, method: str, path: str) -> None:
    before = two.rows()
    for url in two.urls(path):
        answer = asked(two, method, path, url, "", "")
        assert answer.status == (200 if (method, path) in FOR_ALL else 401)
    assert two.rows() == before


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=IDS)
def test_an_unknown_token_is_refused(two: Two, method: str, path: str) -> None:
    before = two.rows()
    for url in two.urls(path):
        answer = asked(two, method, path, url, "wrong", "ada")
        assert answer.status == (200 if (method, path) in FOR_ALL else 401)
    assert two.rows() == before
