"""Duplicates over HTTP: listed in groups, merged, and un-merged."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from canonry.server.service import ServiceOptions
from service import Running, serving

if TYPE_CHECKING:
    from collections.abc import Generator

TWIN = "https://example.com/a?utm_source=x"


@pytest.fixture
def service(database_url: str) -> Generator[Running]:
    """A service that keeps an exact twin of a bookmark, and something else."""
    with serving(database_url, ServiceOptions(runs_jobs=False)) as running:
        running.put("https://example.com/a", title="first", tags=["one"], description="Mine.")
        running.put(TWIN, "?exact_url=true", tags=["two"], description="Theirs.", private=True)
        running.put("https://example.com/b")
        yield running


def test_a_group_contains_bookmarks_with_the_same_normal_form(service: Running) -> None:
    [group] = service.get("/api/duplicates").json()
    assert [each["url"] for each in group["bookmarks"]] == ["https://example.com/a", TWIN]
    assert service.get("/api/merges").json() == []


def test_a_merge_keeps_all_texts_and_can_be_undone(service: Running) -> None:
    [group] = service.get("/api/duplicates").json()
    answer = service.ask("POST", f"/api/duplicates/{group['id']}/merge")
    kept = answer.json()
    assert (answer.status, kept["id"], answer.headers["etag"][:2]) == (
        200,
        group["bookmarks"][0]["id"],
        f'"{kept["id"]}',
    )
    assert (kept["tags"], kept["description"], kept["private"]) == (["one", "two"], "Mine.\n\nTheirs.", True)
    assert service.get("/api/duplicates").json() == []
    [merge] = service.get("/api/merges").json()
    gone = group["bookmarks"][1]["id"]
    assert (merge["id"], merge["kept_id"], merge["merged_ids"], merge["why"]) == (
        group["id"],
        kept["id"],
        [gone],
        "review",
    )
    assert merge["title"] == (kept["title"] or kept["url"])
    assert service.get(f"/api/bookmarks/{gone}").status == 404

    back = service.ask("POST", f"/api/duplicates/{group['id']}/undo")
    assert (back.status, back.json()) == (200, group["bookmarks"])
    assert service.get("/api/duplicates").json() == [group]


def test_the_bookmark_to_keep_can_be_chosen(service: Running) -> None:
    [group] = service.get("/api/duplicates").json()
    chosen = group["bookmarks"][1]["id"]
    assert service.ask("POST", f"/api/duplicates/{group['id']}/merge", {"keep": chosen}).json()["id"] == chosen


def test_the_bookmark_to_keep_must_be_in_the_group(service: Running) -> None:
    [group] = service.get("/api/duplicates").json()
    other = service.get("/api/bookmarks?url=https://example.com/b").json()[0]["id"]
    assert service.ask("POST", f"/api/duplicates/{group['id']}/merge", {"keep": other}).status == 404
    assert service.get("/api/duplicates").json() == [group]


def test_an_unknown_group_is_a_404(service: Running) -> None:
    for what in ("merge", "undo"):
        assert service.ask("POST", f"/api/duplicates/{'0' * 64}/{what}").status == 404
        assert service.ask("POST", f"/api/duplicates/x/{what}").status == 400


def test_an_undo_that_conflicts_with_a_newer_bookmark_is_a_409(service: Running) -> None:
    [group] = service.get("/api/duplicates").json()
    service.ask("POST", f"/api/duplicates/{group['id']}/merge")
    service.put(TWIN, "?exact_url=true")
    assert service.ask("POST", f"/api/duplicates/{group['id']}/undo").status == 409


def test_a_merge_of_personal_mode_can_be_undone_by_the_first_user(service: Running) -> None:
    [group] = service.get("/api/duplicates").json()
    service.ask("POST", f"/api/duplicates/{group['id']}/merge")
    _, token = asyncio.run(service.service.users.add("ada", service.service.clock()))
    back = service.ask("POST", f"/api/duplicates/{group['id']}/undo", token=token)
    assert (back.status, back.json()) == (200, group["bookmarks"])


def test_a_merge_can_be_undone_after_another_bookmark_was_saved(service: Running) -> None:
    service.put("https://example.com/twin")
    service.put("https://example.com/twin?utm_source=y", "?exact_url=true")  # the newest: its id is the largest
    group = next(each for each in service.get("/api/duplicates").json() if "twin" in each["bookmarks"][0]["url"])
    service.ask("POST", f"/api/duplicates/{group['id']}/merge")
    later = service.put("https://example.com/later").json()
    back = service.ask("POST", f"/api/duplicates/{group['id']}/undo")
    assert (back.status, back.json()) == (200, group["bookmarks"])
    assert service.get(f"/api/bookmarks/{later['id']}").json()["url"] == later["url"]
