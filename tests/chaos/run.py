"""One chaos run: start everything, make parts fail under load, let the work finish, check, and stop."""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

import canonry
import postgres
import redis_server
from canonry.cli.render import ProgressBar
from canonry.errors import CanonryError
from canonry.net.chrome.process import find_chrome
from canonry.settings import load_settings
from canonry.store.database import Database
from chaos import audit
from chaos.failures import FAULTS, SERVICE_FAULTS, Failure, Targets, plan_faults
from chaos.load import SUCCESS, Load
from chaos.parts import CANONRY, Part, Supervisor, make_environment
from chaos.report import RunOutcome
from chaos.traps import Traps
from chaos.watch import MEGABYTE, Process, Watch
from chaos.web import FEEDS, Web
from ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

# Memory limits of one process. Other kinds of process (PostgreSQL, Redis) are not canonry's and have no limit.
MEMORY_LIMITS = {
    "service": 400 * MEGABYTE,
    "service parent": 300 * MEGABYTE,
    "worker": 400 * MEGABYTE,
    "crawl": 400 * MEGABYTE,
    "chrome": 700 * MEGABYTE,
}
_SETTLE_SECONDS = 150.0  # for unfinished work: the jobs of a killed worker are taken over after a minute
_START_SECONDS = 180.0  # generous, for a busy machine
_STOP_SECONDS = 60.0
_END_SECONDS = 60.0  # for processes that are ending when everything was stopped
_SERVING_SECONDS = 3.0  # the service is not killed again until it answered this long after it was killed
_POLL_SECONDS = 0.2
_LONG_AGO = "2000-01-01T00:00:00.000000Z"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`has_shorteners` is true if the names of shorteners resolve to the web of the run."""

    seconds: float
    seed: int
    has_shorteners: bool


@dataclass(slots=True)
class Crawls:
    """Crawls of one site after the other, each resumed until its output is written."""

    web: Web
    folder: Path
    engine: str
    number: int = 0
    resumed: int = 0
    is_last: bool = False
    has_started: bool = False
    finished: list[int] = field(default_factory=list[int])

    def get_output(self, number: int) -> Path:
        return self.folder / f"site-{number}.jsonl"

    def next_command(self) -> list[str] | None:
        """Return the command that starts or resumes a crawl; None when the last crawl is finished."""
        if self.get_output(self.number).exists():
            self.finished.append(self.number)
            self.number += 1
            self.has_started = False
            if self.is_last:
                return None
        resume = ["--resume"] if self.has_started else []
        self.resumed += self.has_started
        self.has_started = True
        options = ["--engine", self.engine, "--out", str(self.get_output(self.number)), "--no-robots"]
        return ["crawl", self.web.make_site_url(self.number), *options, *resume]

    def read(self, number: int) -> audit.SiteCrawl:
        """Read the output of a finished crawl."""
        records = [json.loads(line) for line in self.get_output(number).read_text().splitlines()]
        pages = [
            audit.CrawledPage(record["url"], 0 if record["error"] else record["status"], record["error"] or "")
            for record in records
        ]
        return audit.SiteCrawl(self.web.list_site_pages(number), pages)


@dataclass(frozen=True, slots=True)
class Stored:
    """What the database has at the end of a run."""

    bookmarks: list[audit.StoredBookmark]
    merged: Mapping[int, int]  # the id of each merged bookmark, and the id of the one that replaced it
    titles: list[str]  # of feed items
    changes: list[tuple[int, str, str]]  # number, outcome and title of each change
    failing_feeds: set[str]
    job_counts: list[tuple[str, int]]  # by status


class ChaosRun:
    """All parts of a run."""

    def __init__(self, options: RunOptions, folder: Path, stack: ExitStack) -> None:
        self.options = options
        self.chance = random.Random(options.seed)
        self.watch = stack.enter_context(Watch(str(folder)))
        stack.callback(self.watch.kill_all)
        self.traps = stack.enter_context(Traps())
        self.web = stack.enter_context(Web(self.traps, has_shorteners=options.has_shorteners))
        self.postgres = stack.enter_context(postgres.run_crashable_server(str(folder / "postgres")))
        self.redis = stack.enter_context(redis_server.run_redis())
        self.port = free_port()
        self.environment = make_environment(
            folder,
            CANONRY_DATABASE_URL=self.postgres.url,
            CANONRY_REDIS_URL=self.redis.url,
            CANONRY_ALLOW_NETWORKS="127.0.0.1/32",
            CANONRY_ALLOW_PORTS="1-65535",
        )
        self.crawls = Crawls(self.web, folder, _choose_engine())
        serve = ["serve", "--port", str(self.port), "--workers", "2", "--fetch-pages"]
        work = ["worker", "--every", "1"]
        self.service = Part("service", lambda: serve, self.environment, folder)
        self.workers = [Part(f"worker-{number}", lambda: work, self.environment, folder) for number in range(2)]
        self.crawl = Part("crawl", self.crawls.next_command, self.environment, folder)
        self.supervisor = Supervisor([self.service, *self.workers, self.crawl])
        self.load = Load(self.port, self.web, seed=options.seed)
        self.outcome = RunOutcome(options.seed, options.seconds, self.load, limits=MEMORY_LIMITS)
        self._stack = stack
        self._failures_over = threading.Event()
        self._bar = ProgressBar(round(options.seconds))
        self._started_at = time.monotonic()

    def run(self) -> RunOutcome:
        """Start, fail, settle, check, stop."""
        Database(self.environment["CANONRY_DATABASE_URL"]).close()  # creates the tables before several processes would
        self._stack.enter_context(self.supervisor)
        self._wait("the service to answer", self.load.is_ready, _START_SECONDS)
        for url in [*self.web.list_feed_urls(), *self.web.list_private_feed_urls()]:
            status, _ = self.load.request("POST", "/api/feeds", {"url": url, "canonicalize": False})
            assert status in SUCCESS, f"cannot add the feed {url}: status {status}"
        self._stack.enter_context(self.load)
        growing = threading.Thread(target=self._grow_feeds, daemon=True)
        growing.start()
        self._inject_failures()
        self._failures_over.set()
        growing.join(30)
        self._settle()
        stored = self._read_stored()
        codes = {part.name: part.stop(_STOP_SECONDS) for part in (self.service, *self.workers)}
        self.supervisor.stop_restarting()
        self.redis.stop()
        self.postgres.close()
        self._check(stored, codes, self._wait_for_processes_to_end())
        return self.outcome

    def _inject_failures(self) -> None:
        targets = Targets(self.service, self.workers, self.crawl, self.postgres, self.redis, self.watch, self.chance)
        self._started_at = time.monotonic()
        end = self._started_at + self.options.seconds
        for fault, gap in plan_faults(self.chance, self.options.seconds):
            self._show_progress()
            time.sleep(max(0, min(gap, end - time.monotonic())))
            if fault in SERVICE_FAULTS:
                self._wait_for_recovery(end)
            if time.monotonic() >= end:
                break
            failure = Failure(fault, time.monotonic())
            for part in self.supervisor.parts:
                part.log(fault)
            if FAULTS[fault](targets):
                self.outcome.failures.append(failure)
            else:
                self.outcome.skipped[fault] += 1

    def _wait_for_recovery(self, end: float) -> None:
        """Wait until the service answers again: on a slow machine it would be killed before it ever answered."""
        killed_at = max(
            (failure.at for failure in self.outcome.failures if failure.fault in SERVICE_FAULTS), default=0.0
        )
        while time.monotonic() < end and not any(
            at > killed_at + _SERVING_SECONDS for at in self.load.acknowledged_at[-1:]
        ):
            self._show_progress()
            time.sleep(_POLL_SECONDS)

    def _grow_feeds(self) -> None:
        """Add an item to a feed every second, and make all feeds due at once instead of in an hour."""
        chance = random.Random(f"{self.options.seed}-feeds")
        while not self._failures_over.wait(1.0):
            self.web.content.grow(chance.randrange(FEEDS))
            with suppress(psycopg.Error):
                self._execute("UPDATE feeds SET next_check_at = %s, retry_at = NULL", _LONG_AGO)

    def _settle(self) -> None:
        """Wait until all unfinished work is done."""
        start = time.monotonic()
        self._wait("the service to answer", self.load.is_ready, _START_SECONDS)
        self.load.finish(_START_SECONDS)
        self.crawls.is_last = True
        self._wait("the last crawl", lambda: self.crawl.is_over, _SETTLE_SECONDS)
        self._wait("the expansion of short links", self._are_short_links_expanded, _SETTLE_SECONDS)
        self.outcome.facts.append(("seconds until all work was done", f"{time.monotonic() - start:.0f}"))
        self._execute("UPDATE feeds SET retry_at = NULL")
        self._run_canonry("ingest", allowed=(0, 1))  # 1: the feeds at forbidden addresses fail
        self._bar.clear()

    def _are_short_links_expanded(self) -> bool:
        return not self._fetch_rows("SELECT id FROM bookmarks WHERE expansion = 'pending'")

    def _read_stored(self) -> Stored:
        bookmarks = self._fetch_rows(
            "SELECT id, url, original_url, description, expansion FROM bookmarks WHERE deleted_at IS NULL"
        )
        merges = self._fetch_rows("SELECT kept_id, rows FROM bookmark_merges WHERE undone_at IS NULL ORDER BY id")
        merged: dict[int, int] = {}
        for kept_id, rows in merges:
            merged |= {row["id"]: kept_id for row in json.loads(rows) if row["id"] != kept_id}
        return Stored(
            bookmarks=[audit.StoredBookmark(*row) for row in bookmarks],
            merged=merged,
            titles=[title for (title,) in self._fetch_rows("SELECT title FROM entries")],
            changes=[
                (number, outcome, json.loads(record)["title"])
                for number, outcome, record in self._fetch_rows("SELECT number, outcome, record FROM changes")
            ],
            failing_feeds={url for (url,) in self._fetch_rows("SELECT key_url FROM feeds WHERE failures > 0")},
            job_counts=[
                (status, count)
                for status, count in self._fetch_rows(
                    "SELECT status, count(*) FROM canonry_jobs.workflow_status GROUP BY status ORDER BY status"
                )
            ],
        )

    def _check(self, stored: Stored, codes: Mapping[str, int | None], left: list[Process]) -> None:
        """Run all checks, and add facts and notes to the outcome."""
        acknowledged, bookmarks = self.load.acknowledgements, stored.bookmarks
        titles = self.web.content.list_titles()
        uses_chrome = self.crawls.engine == "chrome"
        limits = {kind: limit for kind, limit in MEMORY_LIMITS.items() if kind != "chrome" or uses_chrome}
        normal = {row.url: canonry.normalize(row.url) for row in bookmarks}
        crawls = {self.web.make_site_url(number): self.crawls.read(number) for number in self.crawls.finished}
        self.outcome.checks = [
            audit.check_bookmarks(acknowledged, bookmarks, stored.merged),
            audit.check_descriptions(acknowledged, bookmarks),
            audit.check_unique(acknowledged, bookmarks, normal),
            audit.check_items(titles, stored.titles),
            audit.check_changes(
                titles,
                [title for _, outcome, title in stored.changes if outcome == "new"],
                [number for number, _, _ in stored.changes],
            ),
            audit.check_failing_feeds(self.web.list_private_feed_urls(), stored.failing_feeds),
            audit.check_pages(crawls),
            audit.check_traps(self.traps.hits, are_counting=self.traps.try_counting()),
            audit.check_memory(self.watch.peaks, limits),
            audit.check_responses(self.load.unexpected),
            audit.check_exit_codes(codes),
            audit.check_no_processes([f"{process.pid} {process.command[:100]}" for process in left]),
        ]
        self.outcome.peaks = {**self.watch.peaks, "chrome, all processes": self.watch.chrome_peak}
        self.outcome.facts += [
            ("crawl engine", self.crawls.engine),
            ("crawls finished, crawls resumed", f"{len(self.crawls.finished)}, {self.crawls.resumed}"),
            ("feed items", str(len(titles))),
            ("bookmarks, bookmarks merged after expansion", f"{len(bookmarks)}, {len(stored.merged)}"),
            ("short links that did not expand", str(sum(row.expansion == "failed" for row in bookmarks))),
            ("jobs by status", ", ".join(f"{status} {count}" for status, count in stored.job_counts)),
        ]
        for part in (self.service, *self.workers):  # not the crawl: it ends with 1 because one page is forbidden
            for code, count in part.exit_codes.items():
                if code:
                    self.outcome.notes.append(f"{part.name} ended by itself with {code}, {count} times")
        if not self.options.has_shorteners:
            self.outcome.notes.append("Short links were left out: they need root, for namespaces and /etc/hosts.")

    def _wait_for_processes_to_end(self) -> list[Process]:
        """Wait until no process is left; return the processes that do not end."""
        deadline = time.monotonic() + _END_SECONDS
        while (left := self.watch.find_processes()) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return left

    def _run_canonry(self, *command: str, allowed: tuple[int, ...] = (0,)) -> None:
        done = subprocess.run(
            [*CANONRY, *command], env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode in allowed, f"canonry {' '.join(command)}: {done.stderr[-2000:]}"

    def _fetch_rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.postgres.url, connect_timeout=10) as connection:
            return connection.execute(query.encode()).fetchall()

    def _execute(self, statement: str, *values: str) -> None:
        with psycopg.connect(self.postgres.url, connect_timeout=10, autocommit=True) as connection:
            connection.execute(statement.encode(), values)

    def _wait(self, what: str, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds:g} s for {what}")
            self._bar.show(round(self.options.seconds) if self._failures_over.is_set() else 0, f"waiting for {what}")
            time.sleep(_POLL_SECONDS)

    def _show_progress(self) -> None:
        counts = f"{len(self.outcome.failures)} failures, {len(self.load.acknowledgements)} bookmarks acknowledged"
        self._bar.show(round(time.monotonic() - self._started_at), counts)


def _choose_engine() -> str:
    """Return "chrome" if Chrome is installed, else "http"."""
    try:
        find_chrome(load_settings())
    except CanonryError:
        return "http"
    return "chrome"
