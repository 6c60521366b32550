"""Health, readiness, metrics and logs (contract B9)."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.exc import OperationalError

from canonry.errors import StoreError
from canonry.jobs.worker import Worker
from canonry.server.logs import configure_logging, wants_json
from canonry.server.service import Service, ServiceOptions
from canonry.settings import Settings
from service import Running, serving, until

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

QUIET = ServiceOptions(runs_jobs=False)
SECRET = "https://user:password@private.example/page?token=hunter2"


@pytest.fixture
def service(database_url: str) -> Generator[Running]:
    with serving(database_url, QUIET) as running:
        yield running


def samples(service: Running, **options: Any) -> dict[tuple[str, tuple[str, ...]], float]:
    """The value of each sample by its name and the values of its labels."""
    answer = service.get("/metrics", **options)
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "text/plain")
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_requests_are_counted_by_route_method_and_status(service: Running) -> None:
    for _ in range(3):
        service.get("/api/bookmarks/1")
    service.put("https://example.com/")
    service.get("/nowhere/at/all")
    found = samples(service)
    count = "canonry_request_seconds_count"
    assert found[count, ("GET", "/api/bookmarks/{bookmark_id}", "4xx")] == 3
    assert found[count, ("PUT", "/api/bookmarks", "2xx")] == 1
    assert found[count, ("GET", "none", "4xx")] == 1
    spent = found["canonry_request_seconds_sum", ("PUT", "/api/bookmarks", "2xx")]
    assert 0 < spent < 10
    assert found["canonry_request_seconds_bucket", ("+Inf", "PUT", "/api/bookmarks", "2xx")] == 1


def test_refused_requests_are_counted_too(service: Running) -> None:
    service.get("/api/bookmarks", headers={"Origin": "https://evil.example"})
    assert samples(service)["canonry_request_seconds_count", ("GET", "none", "4xx")] == 1


def test_metrics_and_statistics_agree(service: Running) -> None:
    for _ in range(2):
        service.put("https://example.com/?utm_source=x")
    found = samples(service)
    assert found["canonry_puts_total", ("created",)] == found["canonry_puts_total", ("no_change",)] == 1
    assert found["canonry_rules_fired_total", ("strip_params",)] == 2
    assert found["canonry_normalization_seconds_bucket", ("+Inf",)] == 2
    assert found["canonry_bookmarks", ()] == 1


def test_no_label_has_a_url_or_a_host(service: Running) -> None:
    service.put(SECRET)
    service.get("/api/bookmarks?url=https://private.example/")
    service.get("/private.example")
    service.ask("PRIVATE", "/api/bookmarks")
    service.ask("POST", "/api/canonicalize", {"url": "https://private.example/"})
    text = service.get("/metrics").text
    assert "private" not in text.lower()
    assert not re.search("https?:|password|hunter2", text)


def test_processes_share_their_counts_and_lose_none_on_exit(database_url: str) -> None:
    with serving(database_url, QUIET) as first:
        first.put("https://example.com/1")
        with serving(database_url, QUIET) as second:
            second.put("https://example.com/2")
            second.get("/metrics")
            assert samples(first)["canonry_puts_total", ("created",)] == 2
    with serving(database_url, QUIET) as third:
        assert samples(third)["canonry_puts_total", ("created",)] == 2


def test_totals_do_not_fall_when_old_hours_are_forgotten(service: Running) -> None:
    service.put("https://example.com/1")
    service.get("/metrics")
    now = service.service.clock()

    async def forget() -> None:
        await service.service.bookmarks.statistics.delete_before(now.replace(year=now.year + 1))

    asyncio.run(forget())
    assert service.get("/api/admin/statistics").json()["created"] == 0
    assert samples(service)["canonry_puts_total", ("created",)] == 1


def test_with_users_metrics_are_for_admins(service: Running) -> None:
    users, now = service.service.users, service.service.clock()
    _, admin = asyncio.run(users.add("ada", now))
    _, token = asyncio.run(users.add("bob", now))
    assert [service.get("/metrics", token=each).status for each in (admin, token, "wrong")] == [200, 403, 401]


def test_feeds_and_queues_are_counted(service: Running) -> None:
    store, jobs, now = service.service.feeds, service.service.jobs, service.service.clock()

    async def fill() -> None:
        first, _ = await store.add("https://a.example/feed", now)
        await store.add("https://b.example/feed", now)
        await jobs.enqueue_poll(first.id, "a.example")

    asyncio.run(fill())
    found = samples(service)
    assert [found["canonry_feeds", (status,)] for status in ("active", "paused", "stopped")] == [2, 0, 0]
    assert (found["canonry_feeds_due", ()], found["canonry_feeds_failing", ()]) == (2, 0)
    assert found["canonry_item_changes_total", ()] == 0
    assert (found["canonry_jobs", ("poll", "waiting")], found["canonry_jobs", ("poll", "running")]) == (1, 0)
    assert 0 <= found["canonry_oldest_job_seconds", ("poll",)] < 600


@pytest.fixture
def broken(service: Running, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A database that is gone from now on."""

    async def fail(_: object) -> None:
        raise StoreError("gone")

    def shut() -> None:
        monkeypatch.setattr(service.service.database, "read", fail)
        monkeypatch.setattr(service.service.users, "has_users", lambda: fail(None))

    return shut


def test_a_process_without_a_database_is_up_but_not_ready(service: Running, broken: Callable[[], None]) -> None:
    assert (service.get("/healthz").status, service.get("/readyz").status) == (200, 200)
    broken()
    assert service.get("/healthz").json() == {"status": "ok"}
    answer = service.get("/readyz")
    assert (answer.status, answer.headers["content-type"]) == (503, "application/problem+json")


@contextmanager
def logged(
    *, as_json: bool, monkeypatch: pytest.MonkeyPatch, level: str = "info", debug: bool = False
) -> Generator[io.StringIO]:
    """What is written to standard error; the loggers are as before afterwards."""
    root = logging.getLogger()
    handlers, root_level = list(root.handlers), root.level
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    try:
        configure_logging(as_json=as_json, level=level, debug=debug)
        yield stream
    finally:
        logging.getLogger("canonry").setLevel(logging.NOTSET)
        root.handlers[:] = handlers
        root.setLevel(root_level)


def test_losing_the_database_during_start_up_fails_the_start(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would serve, and never follow a short link."""

    def fails(_: Worker) -> None:
        raise OperationalError("SELECT 1", {}, Exception("it went away"))

    async def start() -> None:
        async with Service(Settings(database_url=sqlite_url), ServiceOptions()):
            pass

    monkeypatch.setattr(Worker, "_launch", fails)
    with pytest.raises(StoreError, match="it went away"):
        asyncio.run(start())


def test_a_request_is_logged_in_one_line_without_its_url(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    with logged(as_json=True, monkeypatch=monkeypatch) as stream:
        service.put(SECRET)
        service.get("/api/bookmarks?url=https://private.example/?token=hunter2", headers={"X-Request-ID": "abc.1"})
        service.get("/v1/posts/all?auth_token=ada:hunter2")
        service.get("/api/bookmarks", token="hunter2")
        until(lambda: stream.getvalue().count('"event": "request"') == 4)  # logged after the response is sent
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    told = [line for line in lines if line["event"] == "request"]
    assert [(line["method"], line["route"], line["status"], line["user"]) for line in told] == [
        ("PUT", "/api/bookmarks", 201, 0),
        ("GET", "/api/bookmarks", 200, 0),
        ("GET", "/v1/posts/all", 401, None),
        ("GET", "none", 401, None),
    ]
    assert told[1]["request_id"] == "abc.1"
    assert all(0 < line["ms"] < 30_000 and line["level"] == "info" and line["timestamp"] for line in told)
    assert not re.search("private|hunter2|password", stream.getvalue())


def test_other_loggers_write_json_without_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    with logged(as_json=True, monkeypatch=monkeypatch) as stream:
        logging.getLogger("canonry.jobs").warning("%s failed", "https://me:secret@example.com/")
        error = StoreError("postgresql://me:secret@db/x is away")
        logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=error)
        logging.getLogger("uvicorn.access").info("GET /?token=secret")
        logging.getLogger("uvicorn.error").error("Shutting down", extra={"color_message": "\x1b[36mShutting down"})
    first, second, third = map(json.loads, stream.getvalue().splitlines())
    assert third["event"] == "Shutting down" and "color_message" not in third
    assert (first["event"], first["logger"]) == ("https://***@example.com/ failed", "canonry.jobs")
    assert "StoreError" in second["exception"]
    assert "secret" not in stream.getvalue()


SECRET_EVENTS = [
    "could not fetch 'https://ada:pw@e.example/private.xml?token=hunter2&api_key=hunter2': status 500",
    "https://e.example/private?token=hunter2",
    "not a usable URL: 'https://e.example/private page?token=hunter2'",
]


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
@pytest.mark.parametrize("event", SECRET_EVENTS)
def test_the_log_has_no_paths_and_queries(event: str, as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with logged(as_json=as_json, monkeypatch=monkeypatch) as stream:
        logger = logging.getLogger("canonry.jobs")
        logger.warning("%s", event, extra={"urls": [event], "by_url": {"first": event}})
        logger.error("failed", exc_info=StoreError(event))
    assert "https://" in stream.getvalue() and "e.example" in stream.getvalue()
    assert not re.search("private|token|hunter2|ada|pw@", stream.getvalue())


def test_with_debug_the_log_has_whole_urls_without_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    with logged(as_json=True, monkeypatch=monkeypatch, debug=True) as stream:
        logging.getLogger("canonry.jobs").debug("%s", SECRET_EVENTS[0])
    assert "https://***@e.example/private.xml?token=hunter2" in stream.getvalue()
    assert "ada:pw" not in stream.getvalue()


@pytest.mark.parametrize(("log_format", "is_json"), [("auto", True), ("json", True), ("text", False)])
def test_the_format_of_the_log_is_a_setting(log_format: str, is_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())  # not a terminal
    assert wants_json(log_format) is is_json


@pytest.mark.parametrize(
    ("level", "logged_levels"),
    [("debug", "debug info warning error"), ("info", "info warning error"), ("error", "error")],
)
def test_the_level_of_the_log_is_a_setting(level: str, logged_levels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with logged(as_json=True, monkeypatch=monkeypatch, level=level) as stream:
        for each in ("debug", "info", "warning", "error"):
            logging.getLogger("canonry.jobs").log(logging.getLevelNamesMapping()[each.upper()], SECRET)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["level"] for line in lines] == logged_levels.split()
    assert "hunter2" not in stream.getvalue()


def test_on_a_terminal_a_log_line_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with logged(as_json=False, monkeypatch=monkeypatch) as stream:
        logging.getLogger("canonry.jobs").info("3 feeds are due")
        error = StoreError("postgresql://me:secret@db/x is away")
        logging.getLogger("canonry.jobs").error("failed", exc_info=error)
    assert "3 feeds are due" in stream.getvalue().splitlines()[0]
    assert "StoreError" in stream.getvalue()
    assert "secret" not in stream.getvalue()
