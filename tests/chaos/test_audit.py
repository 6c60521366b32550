"""Each check can fail: every promise is broken once, and its check reports the problem."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from chaos import audit
from chaos.audit import Acknowledgement, CrawledPage, SiteCrawl, StoredBookmark
from chaos.failures import FAULTS, Failure, Fault, plan_faults
from chaos.report import compute_percentile, find_longest_outages
from chaos.traps import Traps
from chaos.watch import Watch
from service import until

if TYPE_CHECKING:
    from pathlib import Path

PAGE, MESSY_PAGE = "http://a.example.org/?a=1", "http://a.example.org/?a=1&utm_id=2"
SHORT, TARGET = "http://bit.ly/x", "http://a.example.org/long"
ACKNOWLEDGED = [
    Acknowledgement(MESSY_PAGE, PAGE, PAGE, 201, 1, PAGE, MESSY_PAGE),
    Acknowledgement(PAGE, PAGE, PAGE, 200, 1, PAGE, MESSY_PAGE, revision=4),
    Acknowledgement(SHORT, TARGET, SHORT, 201, 2, SHORT, None),  # acknowledged before it was expanded
]
STORED = [StoredBookmark(1, PAGE, MESSY_PAGE, "4"), StoredBookmark(2, TARGET, SHORT, expansion="expanded")]
NORMAL = {PAGE: PAGE, TARGET: TARGET, SHORT: SHORT}
SITE = {"http://s/": 200, "http://s/a": 0}


def test_stored_bookmarks_as_sent_pass() -> None:
    assert audit.check_bookmarks(ACKNOWLEDGED, STORED, {}).is_ok
    assert audit.check_descriptions(ACKNOWLEDGED, STORED).is_ok
    assert audit.check_unique(ACKNOWLEDGED, STORED, NORMAL).is_ok


@pytest.mark.parametrize(
    ("why", "stored", "merged", "problems"),
    [
        (
            "row deleted",
            STORED[1:],
            {},
            (f"{MESSY_PAGE} (bookmark 1) is lost", f"{PAGE} (bookmark 1) is lost"),
        ),
        ("merged into a row that does not exist", STORED[:1], {2: 9}, (f"{SHORT} (bookmark 2) is lost",)),
        (
            "different URL",
            [replace(STORED[0], url=TARGET), STORED[1]],
            {},
            (f"{MESSY_PAGE} has the URL {TARGET}, not {PAGE}", f"{PAGE} has the URL {TARGET}, not {PAGE}"),
        ),
        (
            "original URL missing",
            [replace(STORED[0], original_url=None), STORED[1]],
            {},
            (
                f"{MESSY_PAGE}: the original URL is None, not {MESSY_PAGE}",
                f"{PAGE}: the original URL is None, not {MESSY_PAGE}",
            ),
        ),
        (
            "original URL missing after expansion",
            [STORED[0], replace(STORED[1], original_url=None)],
            {},
            (f"{SHORT}: expanded, and the original URL is None",),
        ),
        (
            "never expanded",
            [STORED[0], StoredBookmark(2, SHORT, None, expansion="pending")],
            {},
            (f"{SHORT} has the URL {SHORT}, not {TARGET}",),
        ),
    ],
)
def test_a_lost_or_changed_bookmark_is_reported(
    why: str, stored: list[StoredBookmark], merged: dict[int, int], problems: tuple[str, ...]
) -> None:
    assert audit.check_bookmarks(ACKNOWLEDGED, stored, merged).problems == problems, why


def test_a_short_link_may_fail_to_expand_or_be_merged() -> None:
    unexpanded = StoredBookmark(2, SHORT, None, expansion="failed")
    assert audit.check_bookmarks(ACKNOWLEDGED, [STORED[0], unexpanded], {}).is_ok
    assert audit.check_bookmarks(ACKNOWLEDGED, [STORED[0], StoredBookmark(7, TARGET, None)], {2: 3, 3: 7}).is_ok


def test_an_older_description_is_reported() -> None:
    later = replace(STORED[0], description="5")  # sent, but its response was lost
    assert audit.check_descriptions(ACKNOWLEDGED, [later]).is_ok
    assert not audit.check_descriptions(ACKNOWLEDGED, [replace(STORED[0], description="3")]).is_ok
    assert not audit.check_descriptions(ACKNOWLEDGED, [replace(STORED[0], description="")]).is_ok


def test_a_second_row_for_a_normal_form_is_reported() -> None:
    stored = [*STORED, StoredBookmark(3, MESSY_PAGE, None)]
    check = audit.check_unique(ACKNOWLEDGED, stored, {**NORMAL, MESSY_PAGE: PAGE})
    assert check.problems == (f"{PAGE} is stored 2 times",)
    again = [*ACKNOWLEDGED, ACKNOWLEDGED[0]]
    assert audit.check_unique(again, STORED, NORMAL).problems == ("bookmark 1 was created 2 times",)


def test_items_that_are_lost_doubled_or_unknown_are_reported() -> None:
    assert audit.check_items(["a", "b"], ["b", "a"]).is_ok
    check = audit.check_items(["a", "b"], ["b", "b", "c"])
    assert check.problems == ("a is lost", "b is stored 2 times", "c was never served")


def test_items_that_are_not_in_the_change_feed_or_twice_are_reported() -> None:
    assert audit.check_changes(["a", "b"], ["b", "a"], [1, 2, 3]).is_ok
    check = audit.check_changes(["a", "b"], ["b", "b"], [1, 2, 4])
    assert check.problems == ("a is not in the change feed", "b is new 2 times", "no change has the number 3")


def test_feeds_that_fail_or_should_are_reported() -> None:
    assert audit.check_failing_feeds(["a", "b"], ["b", "a"]).is_ok
    assert audit.check_failing_feeds(["a", "b"], ["b", "c"]).problems == ("a does not fail", "c fails")


def test_pages_that_are_lost_doubled_or_unknown_are_reported() -> None:
    pages = [CrawledPage(url, status) for url, status in SITE.items()]
    assert audit.check_pages({"http://s/": SiteCrawl(SITE, pages)}).is_ok
    wrong = [CrawledPage("http://s/", 0, "crashed"), CrawledPage("http://s/", 200), CrawledPage("http://s/b", 200)]
    assert audit.check_pages({"http://s/": SiteCrawl(SITE, wrong)}).problems == (
        "http://s/a is lost",
        "http://s/ is recorded 2 times",
        "http://s/b is no page of http://s/",
        "http://s/ has the status 0, not 200: crashed",
    )


def test_memory_over_its_limit_or_not_measured_is_reported() -> None:
    assert audit.check_memory({"worker": 5}, {"worker": 6}).is_ok
    assert not audit.check_memory({"worker": 7}, {"worker": 6}).is_ok
    assert not audit.check_memory({}, {"worker": 6}).is_ok


def test_unexpected_responses_exit_codes_and_processes_are_reported() -> None:
    assert audit.check_responses({}).is_ok and not audit.check_responses({"PUT: 500": 1}).is_ok
    assert audit.check_no_processes([]).is_ok and not audit.check_no_processes(["chrome"]).is_ok
    assert audit.check_exit_codes({"service": 0, "worker-0": 0}).is_ok
    check = audit.check_exit_codes({"service": 1, "worker-0": None, "worker-1": 0})
    assert check.problems == ("service ended with 1", "worker-0 did not end in time")


def test_hits_of_traps_and_broken_traps_are_reported() -> None:
    assert audit.check_traps([], are_counting=True).is_ok
    assert not audit.check_traps([], are_counting=False).is_ok
    assert not audit.check_traps(["TCP"], are_counting=True).is_ok


def test_the_summary_of_a_check_shows_five_problems() -> None:
    assert audit.check_no_processes("abcde").summary == "a; b; c; d; e"
    assert audit.check_no_processes("abcdefg").summary == "a; b; c; d; e; and 2 more"


def test_traps_count_every_connection() -> None:
    with Traps() as traps:
        assert traps.try_counting() and traps.hits == []
        with socket.create_connection(("127.0.0.9", traps.port)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            connection.recv(1)  # returns when the trap closes the connection
        until(lambda: traps.hits != [])
        assert traps.try_counting()
        assert traps.hits == ["TCP from 127.0.0.1: [b'GET / HTTP/1.1']"]


def test_watch_finds_marked_processes_and_children_without_the_marker(tmp_path: Path) -> None:
    script = "import subprocess, sys; subprocess.run(['sleep', '600'], env={})"
    marked = {**os.environ, "CANONRY_CHAOS": str(tmp_path)}
    watch = Watch(str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", script], env=marked, start_new_session=True)
    try:
        until(lambda: len(watch.find_processes()) == 2)
        assert {each.group for each in watch.find_processes()} == {process.pid}
    finally:
        killed = watch.kill_all()
        process.wait(60)
    assert len(killed) == 2
    until(lambda: not watch.find_processes())


def test_every_fault_is_planned_and_the_seed_determines_the_order() -> None:
    planned = list(plan_faults(random.Random(1), 60))
    assert planned == list(plan_faults(random.Random(1), 60)) != list(plan_faults(random.Random(2), 60))
    assert {fault for fault, _ in planned[: len(FAULTS)]} == set(Fault)
    assert sum(gap for _, gap in planned) <= 60


def test_the_longest_outage_belongs_to_the_failure_before_it() -> None:
    failures = [Failure(Fault.SERVICE, 1.0), Failure(Fault.REDIS, 5.0)]
    longest = find_longest_outages(failures, [0.0, 0.5, 1.5, 4.5, 5.5, 6.0])
    assert longest == {Fault.SERVICE: 3.0, Fault.REDIS: 1.0}
    still_answering = find_longest_outages(failures, [0.0, 2.0, 9.0])
    assert still_answering == {Fault.SERVICE: 7.0, Fault.REDIS: 0.0}
    assert find_longest_outages(failures, []) == {Fault.SERVICE: 0.0, Fault.REDIS: 0.0}


def test_percentile() -> None:
    assert compute_percentile([3.0, 1.0, 2.0], 50) == 2.0 and compute_percentile([], 99) == 0.0
