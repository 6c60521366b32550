"""The admin API: statistics, and rekeying bookmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service import Running, serving, until

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.fixture
def service(database_url: str) -> Generator[Running]:
    with serving(database_url) as running:
        yield running


def test_statistics_count_what_was_done(service: Running) -> None:
    for _ in range(3):
        service.put("https://example.com/?utm_source=x")
    service.put("https://example.com/", "?update=true", title="new")
    service.put("https://bit.ly/1")
    told = service.get("/api/admin/statistics?days=1").json()
    assert (told["bookmarks"], told["users"], told["created"], told["duplicates_avoided"]) == (2, 0, 2, 3)
    assert told["rules"]["strip_params"] == 3
    assert told["normalizations"] == sum(bucket["count"] for bucket in told["latency"]) == 5
    assert told["expansions"] == {"failed": 1}
    assert (told["cache_hits"], told["cache_misses"], told["cache_hit_rate"]) == (0, 1, 0.0)
    assert len(told["hours"]) == 25
    assert sum(hour["duplicates_avoided"] for hour in told["hours"][-2:]) == 3
    again = service.get("/api/admin/statistics?days=90").json()
    assert (again["created"], len(again["hours"])) == (2, 90 * 24 + 1)


def test_days_are_bounded(service: Running) -> None:
    assert service.get("/api/admin/statistics?days=0").status == 400
    assert service.get("/api/admin/statistics?days=91").status == 400


def test_a_rekey_is_previewed_and_undone(service: Running) -> None:
    service.put("http://www.example.com/a/?b=1&a=2", title="one")
    service.put("http://example.com/a?a=2&b=1", title="two")
    before = service.get("/api/bookmarks").json()
    plan = service.ask("POST", "/api/admin/renormalizations/preview", {"policy": "feed-aggressive"}).json()
    assert (plan["before"], plan["after"], plan["entries"], plan["changed"], plan["merged"]) == (
        "bookmark@2",
        "feed-aggressive@2",
        2,
        1,
        1,
    )
    assert plan["merges"][0]["key"] == "http://example.com/a?a=2&b=1"
    assert service.get("/api/bookmarks").json() == before
    assert service.ask("POST", "/api/admin/renormalizations/preview", {"policy": "nope"}).status == 400
    path = f"/api/admin/renormalizations/{service.ask('POST', '/api/admin/renormalizations', {'policy': 'feed-aggressive'}).json()['id']}"
    until(lambda: service.get(path).json()["finished_at"])
    assert len(service.get("/api/bookmarks").json()) == 1
    assert service.ask("POST", f"{path}/undo", {}).status == 202
    until(lambda: service.get(path).json()["undone_at"])
    assert service.get("/api/bookmarks").json() == before
    assert service.ask("POST", "/api/admin/renormalizations/99/undo", {}).status == 404


def test_bookmarks_are_rekeyed_in_the_background(service: Running) -> None:
    service.put("http://www.example.com/a/?b=1&a=2", title="one")
    service.put("http://example.com/a?a=2&b=1", title="two")
    answer = service.ask("POST", "/api/admin/renormalizations", {"policy": "feed-aggressive"})
    assert (answer.status, answer.json()["to_policy"], answer.json()["total"]) == (202, "feed-aggressive@2", 2)
    where = answer.headers["location"]
    until(lambda: service.get(where).json()["finished_at"])
    done = service.get(where).json()
    assert (done["done"], done["merged"], done["refused"]) == (2, 1, 0)
    assert service.get("/api/admin/renormalizations").json() == [done]
    [kept] = service.get("/api/bookmarks").json()
    assert (kept["url"], kept["policy"]) == ("http://example.com/a?a=2&b=1", "feed-aggressive@2")
    [merge] = service.get("/api/merges").json()
    assert merge["why"] == "policy"


def test_an_unknown_policy_is_refused(service: Running) -> None:
    for policy in ("nothing", "own.toml", ""):
        assert service.ask("POST", "/api/admin/renormalizations", {"policy": policy}).status == 400
    assert service.get("/api/admin/renormalizations").json() == []
    assert service.get("/api/admin/renormalizations/1").status == 404
