"""Bookmarks in and out of files, over HTTP (contract B5, B8)."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from canonry.evidence.fact_store import save_aliases
from canonry.evidence.facts import PageAlias
from canonry.evidence.same_page import Evidence
from canonry.server.service import ServiceOptions
from canonry.store.schema import imports
from service import Running, serving, until

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

MEDIA_TYPES = {"netscape": "text/html; charset=utf-8", "json": "application/json", "csv": "text/csv; charset=utf-8"}
JSON = {"Content-Type": "application/json"}
KEPT = ("url", "title", "description", "tags", "to_read", "private", "created_at")


@pytest.fixture
def service(database_url: str) -> Generator[Running]:
    with serving(database_url) as running:
        yield running


def imported(service: Running, content: str, **options: Any) -> dict[str, Any]:
    """The import when it is done."""
    answer = service.ask("POST", "/api/import", {"content": content, **options})
    assert answer.status == 202, answer.text
    where = answer.headers["location"]
    until(lambda: service.get(where).json()["finished_at"])
    found: dict[str, Any] = service.get(where).json()
    return found


def test_an_import_runs_in_the_background_and_lists_refused_rows(service: Running) -> None:
    rows = "url,title\nhttps://example.com/1?utm_source=x,one\njavascript:alert(1),two\nhttps://example.com/1,again\n"
    done = imported(service, rows)
    assert (done["format"], done["total"], done["done"], done["created"]) == ("csv", 2, 2, 1)
    [refused] = done["refused"]
    assert (refused["row"], refused["text"]) == (3, "javascript:alert(1)")
    [kept] = service.get("/api/bookmarks").json()
    assert (kept["url"], kept["title"]) == ("https://example.com/1", "one")


def test_an_imported_row_of_a_page_that_is_saved_adds_to_its_bookmark(service: Running) -> None:
    url, alias = "https://example.com/page", "https://example.com/old"
    kept = service.put(url, title="A", tags=["x"]).json()
    rows = [PageAlias(alias, url, Evidence.DECLARED)]
    service.service.database.write_now(lambda connection: save_aliases(connection, rows, "2026-01-01"))
    done = imported(service, f"url,title,tags,description\n{alias},B,y,Text\n{url},,,\n")
    [found] = service.get("/api/bookmarks").json()
    wanted = (kept["id"], url, "A", ["x", "y"], "Text")
    assert (found["id"], found["url"], found["title"], found["tags"], found["description"]) == wanted
    listed = service.get(f"/api/imports/{done['id']}/rows").json()
    assert [(each["url"], each["outcome"], each["bookmark_url"]) for each in listed] == [
        (alias, "merged", url),
        (url, "known", url),
    ]


def test_imported_bookmarks_are_counted(service: Running) -> None:
    before = service.get("/api/admin/statistics?days=1").json()
    imported(service, "url\nhttps://example.com/1\nhttps://example.com/2\nhttps://example.com/1?utm_source=x\n")
    after = service.get("/api/admin/statistics?days=1").json()
    assert after["created"] - before["created"] == 2
    assert after["duplicates_avoided"] - before["duplicates_avoided"] == 1


def test_an_import_can_save_exact_urls(service: Running) -> None:
    imported(service, '[{"url": "https://example.com/?utm_source=x"}]', format="json", exact_url=True)
    [kept] = service.get("/api/bookmarks").json()
    assert (kept["url"], kept["exact_url"]) == ("https://example.com/?utm_source=x", True)


@pytest.mark.parametrize(
    "body", [{"content": ""}, {"content": "{", "format": "json"}, {"content": "a,b\n1,2"}, {}], ids=range(4)
)
def test_an_invalid_file_is_refused(service: Running, body: dict[str, str]) -> None:
    assert service.ask("POST", "/api/import", body).status == 400


@pytest.mark.slow
@pytest.mark.parametrize("form", MEDIA_TYPES)
def test_an_export_can_be_imported(service: Running, form: str) -> None:
    rows = [
        {
            "url": f"https://example.com/{number}",
            "title": f"Nr {number} <&> ü",
            "description": "Two\nlines" if number % 3 else "",
            "tags": ["a", "b c"] if number % 2 else [],
            "to_read": number % 5 == 0,
            "private": number % 7 == 0,
            "created_at": f"2020-01-01T00:{number // 60 % 60:02}:{number % 60:02}.000000Z",
        }
        for number in range(501)  # more than a page
    ]
    imported(service, json.dumps(rows))
    before = listed(service)
    assert len(before) == len(rows)
    answer = service.get(f"/api/export?format={form}")
    assert answer.headers["content-type"] == MEDIA_TYPES[form]
    assert answer.headers["content-disposition"].startswith('attachment; filename="bookmarks.')
    for kept in before:
        service.ask("DELETE", f"/api/bookmarks/{kept['id']}")
    done = imported(service, answer.text)
    assert (done["format"], done["created"], done["refused"]) == (form, len(rows), [])
    assert [{name: kept[name] for name in KEPT} for kept in listed(service)] == [
        {name: kept[name] for name in KEPT} for kept in before
    ]


def test_a_folder_is_one_block_of_a_netscape_file(service: Running) -> None:
    """Each block becomes a folder in a browser, also where one of that name is there."""
    folders = ["a", "", "a/b", "a b", r"a\/b", "a/b", "b", "a", ""]
    rows = [
        {"url": f"https://example.com/{number}", "folder": folder, "created_at": f"2020-01-0{number + 1}T00:00:00Z"}
        for number, folder in enumerate(folders)
    ]
    imported(service, json.dumps(rows))
    page = service.get("/api/export?format=netscape").text
    assert re.findall("<H3>(.*?)</H3>|example.com/([0-9])", page) == [
        *(("", "8"), ("", "1"), ("a", ""), ("", "7"), ("", "0"), ("b", ""), ("", "5"), ("", "2")),
        *(("a b", ""), ("", "3"), ("a/b", ""), ("", "4"), ("b", ""), ("", "6")),
    ]
    newest_first = [row["url"] for row in service.get("/api/export?format=json").json()]
    assert newest_first == [f"https://example.com/{number}" for number in range(8, -1, -1)]


def test_an_import_of_personal_mode_belongs_to_the_first_user(database_url: str) -> None:
    with serving(database_url, ServiceOptions(runs_jobs=False)) as service:
        answer = service.ask("POST", "/api/import", {"content": "url\nhttps://example.com/1\n"})
        _, token = asyncio.run(service.service.users.add("ada", service.service.clock()))
        assert service.get(answer.headers["location"], token=token).status == 200
    with serving(database_url) as service:
        until(lambda: service.get("/api/bookmarks", token=token).json())


def test_a_stored_file_that_became_unreadable_fails_the_import(database_url: str) -> None:
    """It was taken by a version of canonry that could."""
    with serving(database_url, ServiceOptions(runs_jobs=False)) as service:
        where = service.ask("POST", "/api/import", {"content": "url\nhttps://example.com/1\n"}).headers["location"]
        with service.service.database.engine.begin() as connection:
            connection.execute(update(imports).values(content=b"{", format="json"))
    with serving(database_url) as service:
        until(lambda: service.get(where).json()["finished_at"])
        assert service.get(where).json()["failure"].startswith("The file is not valid JSON: line 1")


def test_an_imported_folder_of_maximum_length_can_be_edited(service: Running) -> None:
    """What an import keeps, the API and the form keep as well."""
    imported(service, json.dumps([{"url": "https://example.com/1", "folder": "x" * 10_000}]))
    [kept] = service.get("/api/bookmarks").json()
    assert service.ask("PUT", f"/api/bookmarks/{kept['id']}", {"folder": kept["folder"], "title": "new"}).status == 200


def test_a_body_over_the_limit_is_refused_also_if_it_is_chunked(tmp_path: Path) -> None:
    options = ServiceOptions(runs_jobs=False, max_upload=1000, max_body=100)
    with serving(f"sqlite:///{tmp_path / 'x.db'}", options) as service:
        for path, limit in (("/api/import", 1000), ("/api/normalize", 100)):
            assert service.ask("POST", path, b"x" * (limit + 1), headers=JSON).status == 413
            connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=120)
            connection.request("POST", path, iter([b'{"url":"', b"x" * limit]), JSON, encode_chunked=True)
            answer = connection.getresponse()
            assert answer.status == 413 and str(limit) in json.load(answer)["detail"]
            connection.close()


def listed(service: Running) -> list[dict[str, Any]]:
    """All bookmarks, page by page."""
    found: list[dict[str, Any]] = []
    path = "/api/bookmarks?limit=500"
    while path:
        answer = service.get(path)
        found += answer.json()
        path = answer.headers.get("link", "").partition(">")[0].removeprefix("<")
    return found
