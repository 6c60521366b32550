"""Learned rules are reviewed: accepting one rekeys the bookmarks, undo restores every row (contract L5)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select, update

import canonry
from canonry.learner.proposal_store import ProposalStore
from canonry.store.database import Database
from canonry.store.schema import bookmarks, learned_rules
from service import Running, serving, until

if TYPE_CHECKING:
    from collections.abc import Generator

pytest.importorskip("duckdb")


@pytest.fixture
def service(database_url: str) -> Generator[Running]:
    propose(database_url, "shop.example")
    with serving(database_url) as running:
        yield running


def propose(database_url: str, host: str) -> None:
    rows = [(f"https://{host}/item?kind={n}&zog={n * 3 + c}", f"content {n}") for n in range(40) for c in range(3)]
    with Database(database_url) as database:
        learned = canonry.learn(rows)
        assert asyncio.run(ProposalStore(database).propose(learned.rules, datetime.now(UTC))) == 1
        assert asyncio.run(ProposalStore(database).propose(learned.rules, datetime.now(UTC))) == 0


def read_bookmark_rows(database_url: str) -> list[tuple[object, ...]]:
    with Database(database_url) as database:
        rows = database.read_now(
            lambda connection: connection.execute(select(bookmarks).order_by(bookmarks.c.id)).all()
        )
    return [tuple(row) for row in rows]


def test_accept_rekeys_and_undo_restores(service: Running, database_url: str) -> None:
    service.put("https://shop.example/item?kind=900&zog=1", title="one", tags=["a"])
    service.put("https://shop.example/item?kind=900&zog=2", title="two", tags=["b"])
    service.put("https://other.example/item?kind=900&zog=2", title="three")
    before, rows_before = service.get("/api/bookmarks").json(), read_bookmark_rows(database_url)
    (rule,) = service.get("/api/learned").json()
    assert (rule["host"], rule["state"], rule["support"], len(rule["examples"])) == ("shop.example", "proposed", 40, 2)
    path = f"/api/learned/{rule['id']}"
    plan = service.get(f"{path}/diff").json()
    assert (plan["entries"], plan["merged"]) == (3, 1)
    assert service.get("/api/bookmarks").json() == before
    accepted = service.ask("POST", f"{path}/accept", None).json()
    assert accepted["state"] == "accepted"
    assert accepted["policy"].startswith("bookmark@2+")
    rekey = f"/api/admin/renormalizations/{accepted['rekey_id']}"
    until(lambda: service.get(rekey).json()["finished_at"])
    assert sorted(each["url"] for each in service.get("/api/bookmarks").json()) == [
        "https://other.example/item?kind=900&zog=2",
        "https://shop.example/item?kind=900",
    ]
    assert service.ask("POST", f"{path}/refuse", None).status == 409
    assert service.ask("POST", f"{path}/undo", None).json()["state"] == "proposed"
    until(lambda: service.get(rekey).json()["undone_at"])
    assert service.get("/api/bookmarks").json() == before
    assert read_bookmark_rows(database_url) == rows_before


def test_a_refused_rule_is_remembered(service: Running) -> None:
    (rule,) = service.get("/api/learned").json()
    assert service.ask("POST", f"/api/learned/{rule['id']}/refuse", None).json()["state"] == "refused"
    assert service.get("/api/learned").json()[0]["state"] == "refused"
    assert service.ask("POST", f"/api/learned/{rule['id']}/undo", None).json()["state"] == "proposed"
    assert service.ask("POST", "/api/learned/999/accept", None).status == 404


def test_the_page_shows_the_rule_and_what_it_would_change(service: Running) -> None:
    service.put("https://shop.example/item?kind=900&zog=1")
    listed = service.get("/learned")
    assert listed.status == 200
    (rule,) = service.get("/api/learned").json()
    assert rule["examples"][0]["one"].replace("&", "&amp;") in listed.text
    shown = service.get(f"/learned/{rule['id']}")
    assert shown.status == 200
    assert "https://shop.example/item?kind=900<del>&amp;zog=1</del></code>" in shown.text


def test_a_rule_whose_rekey_was_undone_elsewhere_can_be_undone(service: Running) -> None:
    (rule,) = service.get("/api/learned").json()
    path = f"/api/learned/{rule['id']}"
    rekey = f"/api/admin/renormalizations/{service.ask('POST', f'{path}/accept', None).json()['rekey_id']}"
    assert service.ask("POST", f"{rekey}/undo", None).status == 202
    until(lambda: service.get(rekey).json()["undone_at"])
    assert service.ask("POST", f"{path}/undo", None).json()["state"] == "proposed"
    assert service.ask("POST", f"{path}/accept", None).json()["state"] == "accepted"


def test_accepting_again_after_an_interruption_finds_the_rekey(service: Running, database_url: str) -> None:
    """The rekey was started and the decision was not stored: an undo must still restore the bookmarks."""
    for zog in (1, 2):
        service.put(f"https://shop.example/item?kind=900&zog={zog}")
    rows_before = read_bookmark_rows(database_url)
    (rule,) = service.get("/api/learned").json()
    path = f"/api/learned/{rule['id']}"
    first = service.ask("POST", f"{path}/accept", None).json()
    rekey = f"/api/admin/renormalizations/{first['rekey_id']}"
    until(lambda: service.get(rekey).json()["finished_at"])
    with Database(database_url) as database:
        forget = update(learned_rules).values(state="proposed", rekey_id=None, policy="", decided_at=None)
        database.write_now(lambda connection: connection.execute(forget))
    second = service.ask("POST", f"{path}/accept", None).json()
    assert (second["rekey_id"], second["policy"]) == (first["rekey_id"], first["policy"])
    assert service.ask("POST", f"{path}/undo", None).json()["state"] == "proposed"
    until(lambda: service.get(rekey).json()["undone_at"])
    assert read_bookmark_rows(database_url) == rows_before


def test_rules_that_are_accepted_at_the_same_time_all_count(service: Running, database_url: str) -> None:
    propose(database_url, "mall.example")
    for host in ("mall.example", "shop.example"):
        for zog in (1, 2):
            service.put(f"https://{host}/item?kind=900&zog={zog}")
    rows_before = read_bookmark_rows(database_url)
    paths = [f"/api/learned/{rule['id']}/accept" for rule in service.get("/api/learned").json()]
    with ThreadPoolExecutor() as threads:  # each twice, as by a double click
        asked = [threads.submit(service.ask, "POST", path, None) for path in paths * 2]
    assert [each.result().status for each in asked] == [200] * 4
    rekeys = "/api/admin/renormalizations"
    until(lambda: all(each["finished_at"] for each in service.get(rekeys).json()))
    assert sorted(each["url"] for each in service.get("/api/bookmarks").json()) == [
        "https://mall.example/item?kind=900",
        "https://shop.example/item?kind=900",
    ]
    for rule in sorted(service.get("/api/learned").json(), key=lambda rule: -rule["rekey_id"]):
        assert service.ask("POST", f"/api/learned/{rule['id']}/undo", None).status == 200
        until(lambda: all(each["undone_at"] or not each["undo_started_at"] for each in service.get(rekeys).json()))
    assert read_bookmark_rows(database_url) == rows_before
