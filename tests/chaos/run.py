"""One run: everything started, failing at random under load, settled, audited, ended."""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

import canonry
import postgres
import redis_server
from canonry.cli.render import ProgressBar
from canonry.errors import CanonryError
from canonry.net.chrome.process import find_chrome
from canonry.settings import load_settings
from chaos import audit
from chaos.failures import KINDS, OF_THE_SERVICE, Failure, Targets, schedule
from chaos.load import ACKNOWLEDGED, Load
from chaos.parts import CANONRY, Part, Supervisor, environment_of
from chaos.report import Outcome
from chaos.traps import Traps
from chaos.watch import MEGABYTE, Process, Watch
from chaos.web import FEEDS, Web
from ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

# Of one process of a kind. What is not in here is not ours: PostgreSQL, Redis.
BOUNDS = {
    "service": 400 * MEGABYTE,
    "service parent": 300 * MEGABYTE,
    "worker": 400 * MEGABYTE,
    "crawl": 400 * MEGABYTE,
    "chrome": 700 * MEGABYTE,
}
_SETTLE = 150.0  # seconds for what is under way: jobs of a killed worker are taken over after a minute
_START = 180.0  # on a machine that has other things to do
_STOP = 60.0
_SERVED = 3.0  # seconds the service has, from a failure to an acknowledged answer, before the next one
_LONG_AGO = "2000-01-01T00:00:00.000000Z"


@dataclass(frozen=True, slots=True)
class Options:
    """How a run is run; `has_names` where the names of shorteners lead to our own web."""

    seconds: float
    seed: int
    has_names: bool


@dataclass(slots=True)
class Crawls:
    """One site after the other: each is resumed until its pages are written out."""

    web: Web
    folder: Path
    engine: str
    number: int = 0
    resumed: int = 0
    is_last: bool = False
    is_begun: bool = False
    done: list[int] = field(default_factory=list[int])

    def file(self, number: int) -> Path:
        return self.folder / f"site-{number}.jsonl"

    def command(self, _: int | None) -> list[str] | None:
        """What to run next."""
        if self.file(self.number).exists():
            self.done.append(self.number)
            self.number += 1
            self.is_begun = False
            if self.is_last:
                return None
        resume = ["--resume"] if self.is_begun else []
        self.resumed += self.is_begun
        self.is_begun = True
        options = ["--engine", self.engine, "--out", str(self.file(self.number)), "--no-robots"]
        return ["crawl", self.web.site_url(self.number), *options, *resume]


class Run:
    """All parts of a run; `outcome` is complete when `go` has returned."""

    def __init__(self, options: Options, folder: Path, stack: ExitStack) -> None:
        self.options = options
        self.chance = random.Random(options.seed)
        self.watch = stack.enter_context(Watch(str(folder)))
        stack.callback(self.watch.end_all)
        self.traps = stack.enter_context(Traps())
        self.web = stack.enter_context(Web(self.traps, has_names=options.has_names))
        self.postgres = stack.enter_context(postgres.run_crashable_server(str(folder / "postgres")))
        self.redis = stack.enter_context(redis_server.run_redis())
        self.port = free_port()
        self.environment = environment_of(
            folder,
            CANONRY_DATABASE_URL=self.postgres.url,
            CANONRY_REDIS_URL=self.redis.url,
            CANONRY_ALLOW_NETWORKS="127.0.0.1/32",
            CANONRY_ALLOW_PORTS="1-65535",
        )
        self.crawls = Crawls(self.web, folder, _engine())
        self.service = self._part("service", "serve", "--port", str(self.port), "--workers", "2", "--fetch-titles")
        self.workers = [self._part(f"worker-{number}", "worker", "--every", "1") for number in range(2)]
        self.crawl = Part("crawl", self.crawls.command, self.environment, folder)
        self.supervisor = Supervisor([self.service, *self.workers, self.crawl])
        self.load = Load(self.port, self.web, seed=options.seed)
        self.outcome = Outcome(options.seed, options.seconds, self.load, bounds=BOUNDS)
        self.folder = folder
        self._stack = stack
        self._calm = threading.Event()
        self._bar = ProgressBar(round(options.seconds))
        self._began = time.monotonic()

    def go(self) -> Outcome:
        """Start, fail, settle, audit, end."""
        self._run("feeds", "list")  # makes the tables, once
        self._stack.enter_context(self.supervisor)
        self._wait("the service to answer", self._is_answering, _START)
        for url in [*self.web.feed_urls(), *self.web.private_feed_urls()]:
            status, _ = self.load.ask("POST", "/api/feeds", {"url": url, "canonicalize": False})
            assert status in ACKNOWLEDGED, f"{url} is not taken: {status}"
        self._stack.enter_context(self.load)
        growing = threading.Thread(target=self._keep_feeds_busy, daemon=True)
        growing.start()
        self._fail()
        self._calm.set()
        growing.join(30)
        self._settle()
        self._audit()
        return self.outcome

    def _part(self, name: str, *command: str) -> Part:
        return Part(name, lambda _: list(command), self.environment, Path(self.environment["TMPDIR"]))

    def _fail(self) -> None:
        targets = Targets(self.service, self.workers, self.crawl, self.postgres, self.redis, self.watch, self.chance)
        self._began = time.monotonic()
        end = self._began + self.options.seconds
        for kind, gap in schedule(self.chance, self.options.seconds):
            self._show(time.monotonic() - self._began)
            time.sleep(max(0, min(gap, end - time.monotonic())))
            if kind in OF_THE_SERVICE:
                self._let_it_come_back(end)
            if time.monotonic() >= end:
                break
            failure = Failure(kind, time.monotonic())
            for part in self.supervisor.parts:
                part.say(kind)
            if KINDS[kind](targets):
                self.outcome.failures.append(failure)
            else:
                self.outcome.missed[kind] += 1

    def _let_it_come_back(self, end: float) -> None:
        """Where a start takes long, a service that is killed all the time would never promise anything."""
        since = max((failure.at for failure in self.outcome.failures if failure.kind in OF_THE_SERVICE), default=0.0)
        while time.monotonic() < end and not any(at > since + _SERVED for at in self.load.acknowledged_at[-1:]):
            self._show(time.monotonic() - self._began)
            time.sleep(0.2)

    def _keep_feeds_busy(self) -> None:
        """Feeds grow, and are due at once instead of in an hour."""
        chance = random.Random(f"{self.options.seed}-feeds")
        while not self._calm.wait(1.0):
            self.web.content.grow(chance.randrange(FEEDS))
            with suppress(psycopg.Error):
                self._execute("UPDATE feeds SET next_check_at = %s, retry_at = NULL", _LONG_AGO)

    def _settle(self) -> None:
        """Let everything that was begun come to its end."""
        began = time.monotonic()
        self._wait("the service to answer", self._is_answering, _START)
        self.load.finish(_START)
        self.crawls.is_last = True
        self._wait("the last crawl", lambda: self.crawl.is_over, _SETTLE)
        self._wait(
            "the short links", lambda: not self._rows("SELECT id FROM bookmarks WHERE expansion = 'pending'"), _SETTLE
        )
        self.outcome.facts.append(("seconds until all was settled", f"{time.monotonic() - began:.0f}"))
        self._execute("UPDATE feeds SET retry_at = NULL")
        self._run("ingest", allowed=(0, 1))
        self._bar.clear()

    def _audit(self) -> None:
        rows = [audit.Row(*row) for row in self._rows(
            "SELECT id, url, original_url, description, expansion FROM bookmarks WHERE deleted_at IS NULL")]  # fmt: skip
        merged: dict[int, int] = {}
        for kept, text in self._rows("SELECT kept_id, rows FROM bookmark_merges WHERE undone_at IS NULL ORDER BY id"):
            merged |= {row["id"]: kept for row in json.loads(text) if row["id"] != kept}
        entries = [title for (title,) in self._rows("SELECT title FROM entries")]
        failing = {url for (url,) in self._rows("SELECT key_url FROM feeds WHERE failures > 0")}
        failed = [row for row in rows if row.expansion == "failed"]
        jobs = self._rows("SELECT status, count(*) FROM canonry_jobs.workflow_status GROUP BY status ORDER BY status")
        codes = {part.name: part.stop(_STOP) for part in (self.service, *self.workers)}
        self.supervisor.let_go()
        self.redis.stop()
        self.postgres.close()
        left = self._left()
        promises = self.load.promises
        peaks = dict(self.watch.peaks)
        bounds = BOUNDS if self.crawls.engine == "chrome" else {k: v for k, v in BOUNDS.items() if k != "chrome"}
        self.outcome.checks = [
            audit.check_kept(promises, rows, merged),
            audit.check_texts(promises, rows),
            audit.check_once(promises, rows, {row.url: canonry.normalize(row.url) for row in rows}),
            audit.check_items(self.web.content.wanted_items(), entries),
            audit.check_items(self.web.private_feed_urls(), failing, what="feeds that must fail"),
            audit.check_pages(
                {self.web.site_url(n): (self.web.site_pages(n), self._crawled(n)) for n in self.crawls.done}
            ),
            audit.check_reached(self.traps.hits, is_counting=self.traps.is_counting()),
            audit.check_memory(peaks, bounds),
            audit.check_answers(self.load.refusals),
            audit.check_items(
                [f"{name} 0" for name in codes], [f"{k} {v}" for k, v in codes.items()], what="calm ends on SIGTERM"
            ),
            audit.check_left([f"{process.pid} {process.command[:100]}" for process in left]),
        ]
        self.outcome.peaks = {**peaks, "chrome, all processes": self.watch.chrome_peak}
        self.outcome.facts += [
            ("engine of the crawls", self.crawls.engine),
            ("crawls finished, resumed", f"{len(self.crawls.done)}, {self.crawls.resumed}"),
            ("items in feeds", str(len(self.web.content.wanted_items()))),
            ("bookmarks, of them merged after expansion", f"{len(rows)}, {len(merged)}"),
            ("short links that do not expand", str(len(failed))),
            ("jobs by status", ", ".join(f"{status} {count}" for status, count in jobs)),
        ]
        for part in (self.service, *self.workers, self.crawl):
            # A crawl with a page that leads nowhere ends with 1, as it should.
            if told := {code: count for code, count in part.ends.items() if code and part is not self.crawl}:
                self.outcome.notes.append(f"{part.name} ended by itself, exit code: times: {told}")
        if not self.options.has_names:
            self.outcome.notes.append("no short links: their names can be ours only in namespaces of our own, as root")

    def _left(self) -> list[Process]:
        """What is there when all should be over; some seconds are given to it."""
        left: list[Process] = []
        for _ in range(30):
            left = self.watch.alive()
            if not left:
                break
            time.sleep(0.5)
        return left

    def _crawled(self, number: int) -> list[tuple[str, int, str]]:
        """What a crawl has written out; a page that is no page has no status, but an error."""
        records = [json.loads(line) for line in self.crawls.file(number).read_text().splitlines()]
        return [
            (record["url"], 0 if record["error"] else record["status"], record["error"] or "") for record in records
        ]

    def _is_answering(self) -> bool:
        return self.load.try_once("GET", "/readyz")[0] == 200

    def _run(self, *command: str, allowed: tuple[int, ...] = (0,)) -> None:
        done = subprocess.run(
            [*CANONRY, *command], env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode in allowed, f"canonry {' '.join(command)}: {done.stderr[-2000:]}"

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.postgres.url, connect_timeout=10) as connection:
            return connection.execute(query.encode()).fetchall()

    def _execute(self, statement: str, *values: str) -> None:
        with psycopg.connect(self.postgres.url, connect_timeout=10, autocommit=True) as connection:
            connection.execute(statement.encode(), values)

    def _wait(self, what: str, is_so: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {seconds:g} s for {what}")
            self._show(self.options.seconds if self._calm.is_set() else 0, f"waiting for {what}")
            time.sleep(0.2)

    def _show(self, seconds: float, told: str = "") -> None:
        counts = Counter(failure.kind for failure in self.outcome.failures)
        told = told or f"{sum(counts.values())} failures, {len(self.load.promises)} bookmarks acknowledged"
        self._bar.show(round(seconds), told)


def _engine() -> str:
    try:
        find_chrome(load_settings())
    except CanonryError:
        return "http"
    return "chrome"
