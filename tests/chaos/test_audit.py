"""The audit must be able to fail: each promise broken once, and the check that notices."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from chaos import audit
from chaos.audit import Promise, Row
from chaos.failures import KINDS, Failure, schedule
from chaos.report import at, longest_outages
from chaos.traps import Traps
from chaos.watch import Watch
from service import until

if TYPE_CHECKING:
    from pathlib import Path

PAGE, GIVEN = "http://a.example.org/?a=1", "http://a.example.org/?a=1&utm_id=2"
SHORT, TARGET = "http://bit.ly/x", "http://a.example.org/long"
PROMISES = [
    Promise(GIVEN, PAGE, PAGE, 201, 1, PAGE, GIVEN),
    Promise(PAGE, PAGE, PAGE, 200, 1, PAGE, GIVEN, text=4),
    Promise(SHORT, TARGET, SHORT, 201, 2, SHORT, None),  # was still to be expanded
]
ROWS = [Row(1, PAGE, GIVEN, "4"), Row(2, TARGET, SHORT, expansion="expanded")]
NORMAL = {PAGE: PAGE, TARGET: TARGET, SHORT: SHORT}
SITE = {"http://s/": 200, "http://s/a": 0}


def test_promises_that_were_kept() -> None:
    assert audit.check_kept(PROMISES, ROWS, {}).is_ok
    assert audit.check_texts(PROMISES, ROWS).is_ok
    assert audit.check_once(PROMISES, ROWS, NORMAL).is_ok


@pytest.mark.parametrize(
    ("why", "rows", "merged", "told"),
    [
        ("row deleted", ROWS[1:], {}, "bookmark 1) is lost"),
        ("merged into nothing", ROWS[:1], {2: 9}, "bookmark 2) is lost"),
        ("another URL", [replace(ROWS[0], url=TARGET), ROWS[1]], {}, "is at http://a.example.org/long"),
        ("original forgotten", [replace(ROWS[0], original_url=None), ROWS[1]], {}, "original URL is None"),
        ("forgotten in a move", [ROWS[0], replace(ROWS[1], original_url=None)], {}, "moved, and the original"),
        ("never expanded", [ROWS[0], Row(2, SHORT, None, expansion="pending")], {}, "is at http://bit.ly/x"),
    ],
)
def test_broken_promise_is_noticed(why: str, rows: list[Row], merged: dict[int, int], told: str) -> None:
    assert told in audit.check_kept(PROMISES, rows, merged).told, why


def test_short_link_may_fail_or_become_one_with_another() -> None:
    assert audit.check_kept(PROMISES, [ROWS[0], Row(2, SHORT, None, expansion="failed")], {}).is_ok
    assert audit.check_kept(PROMISES, [ROWS[0], Row(7, TARGET, None)], {2: 3, 3: 7}).is_ok


def test_older_text_is_noticed() -> None:
    assert audit.check_texts(PROMISES, [replace(ROWS[0], description="5")]).is_ok  # sent, and never acknowledged
    assert not audit.check_texts(PROMISES, [replace(ROWS[0], description="3")]).is_ok
    assert not audit.check_texts(PROMISES, [replace(ROWS[0], description="")]).is_ok


def test_second_row_is_noticed() -> None:
    rows = [*ROWS, Row(3, GIVEN, None)]
    assert audit.check_once(PROMISES, rows, {**NORMAL, GIVEN: PAGE}).problems == (f"{PAGE} is there 2 times",)
    again = [*PROMISES, PROMISES[0]]
    assert audit.check_once(again, ROWS, NORMAL).problems == ("bookmark 1 was created 2 times",)


def test_items_that_are_lost_or_there_twice() -> None:
    assert audit.check_items(["a", "b"], ["b", "a"]).is_ok
    found = audit.check_items(["a", "b"], ["b", "b", "c"])
    assert found.problems == ("a is lost", "b is there 2 times", "c was never served")


def test_pages_that_are_lost_or_there_twice() -> None:
    assert audit.check_pages({"http://s/": (SITE, [(url, status, "") for url, status in SITE.items()])}).is_ok
    found = [("http://s/", 0, "it crashed"), ("http://s/", 200, ""), ("http://s/b", 200, "")]
    assert audit.check_pages({"http://s/": (SITE, found)}).problems == (
        "http://s/a is lost",
        "http://s/ is recorded 2 times",
        "http://s/b is no page of http://s/",
        "http://s/ answered 0, not 200: it crashed",
    )


def test_memory_answers_and_processes() -> None:
    assert audit.check_memory({"worker": 5}, {"worker": 6}).is_ok
    assert not audit.check_memory({"worker": 7}, {"worker": 6}).is_ok
    assert not audit.check_memory({}, {"worker": 6}).is_ok  # nobody looked
    assert audit.check_answers({}).is_ok and not audit.check_answers({"PUT: 500": 1}).is_ok
    assert audit.check_left([]).is_ok and not audit.check_left(["chrome"]).is_ok
    assert audit.check_reached([], is_counting=True).is_ok
    assert not audit.check_reached([], is_counting=False).is_ok
    assert not audit.check_reached(["TCP"], is_counting=True).is_ok


def test_traps_count_whoever_comes() -> None:
    import socket

    with Traps() as traps:
        assert traps.is_counting() and traps.hits == []
        with socket.create_connection(("127.0.0.9", traps.port)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            connection.recv(1)  # until it was let go
        until(lambda: traps.hits != [])
        assert traps.is_counting()
        assert traps.hits == ["TCP from 127.0.0.1: [b'GET / HTTP/1.1']"]


def test_marked_processes_are_found_also_those_that_drop_the_mark(tmp_path: Path) -> None:
    script = "import subprocess, sys; subprocess.run(['sleep', '60'], env={})"
    marked = {**os.environ, "CANONRY_CHAOS": str(tmp_path)}
    watch = Watch(str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", script], env=marked, start_new_session=True)
    try:
        found = watch.alive()
        for _ in range(200):
            if len(found) == 2:
                break
            found = watch.alive()
        assert {each.group for each in found} == {process.pid}
    finally:
        assert len(watch.end_all()) == 2
        process.wait(10)
    assert not watch.alive()


def test_every_kind_of_failure_comes_and_the_seed_decides() -> None:
    planned = list(schedule(random.Random(1), 60))
    assert planned == list(schedule(random.Random(1), 60)) != list(schedule(random.Random(2), 60))
    assert {kind for kind, _ in planned[: len(KINDS)]} == set(KINDS)
    assert sum(gap for _, gap in planned) <= 60


def test_longest_outage_belongs_to_the_failure_before_it() -> None:
    failures = [Failure("a", 1.0), Failure("b", 5.0)]
    assert longest_outages(failures, [0.0, 0.5, 1.5, 4.5, 5.5, 6.0]) == {"a": 3.0, "b": 1.0}
    assert longest_outages(failures, [0.0, 2.0, 9.0]) == {"a": 7.0, "b": 0.0}  # it went on for a moment
    assert longest_outages(failures, []) == {"a": 0.0, "b": 0.0}
    assert at([3.0, 1.0, 2.0], 50) == 2.0 and at([], 99) == 0.0
