"""`/healthz`, `/readyz` and `/metrics`, for operators (contract B9)."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from sqlalchemy import text

import canonry
from canonry.bookmarks.statistics import LATENCY_BUCKETS
from canonry.errors import CanonryError
from canonry.feeds.feed_counts import count_feeds
from canonry.server.dependencies import get_service, require_admin
from canonry.server.problems import RequestRefused, describe_problems
from canonry.server.request_log import COUNT_PREFIX, DURATION_BUCKETS_MS, TIME_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from canonry.feeds.feed_counts import FeedCounts
    from canonry.jobs.queues import QueueLength

router = APIRouter(tags=["operating"])
_DATABASE_TIMEOUT_SECONDS = 5.0
# Stored counts that are exported unchanged: prefix, metric, label, help.
_COUNTERS = (
    ("put:", "canonry_puts", "outcome", "Bookmarks saved."),
    ("cache:", "canonry_expansion_cache", "result", "Lookups of short links in the cache."),
    ("expansion:", "canonry_expansions", "outcome", "Short links followed."),
    ("rule:", "canonry_rules_fired", "rule", "Normalizations in which a rule changed something."),
    ("title:", "canonry_titles", "outcome", "Titles fetched for bookmarks without one."),
)


@dataclass(frozen=True, slots=True)
class Health:
    """The service is up."""

    status: Literal["ok"] = "ok"


@router.get("/healthz", response_model=Health, summary="Is the process up?")
async def get_health() -> Health:
    """Answers without asking the database."""
    return Health()


@router.get("/readyz", response_model=Health, responses=describe_problems(503), summary="Can requests be answered?")
async def get_readiness(request: Request) -> Health:
    """503 if the database does not answer within 5 seconds."""
    try:
        async with asyncio.timeout(_DATABASE_TIMEOUT_SECONDS):
            await get_service(request).database.read(lambda connection: connection.execute(text("SELECT 1")).scalar())
    except (CanonryError, TimeoutError):
        raise RequestRefused(503, "The database does not answer.") from None
    return Health()


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"description": "Metrics.", "content": {"text/plain": {}}}},
    summary="Metrics for Prometheus",
)
async def get_metrics(request: Request) -> Response:
    """For admins. Counted over all processes since the store was created."""
    require_admin(request)
    service = get_service(request)
    await service.bookmarks.statistics.flush()
    totals = await service.bookmarks.statistics.get_totals()
    bookmarks, users = await service.bookmarks.store.count(), len(await service.users.list_users())
    now = service.clock()
    feeds = await service.database.read(lambda connection: count_feeds(connection, now))
    registry = CollectorRegistry()
    registry.register(StoredMetrics(totals, bookmarks=bookmarks, users=users))
    registry.register(FeedMetrics(feeds))
    registry.register(QueueMetrics(await service.jobs.measure_queues()))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


class StoredMetrics(Collector):
    """The counts of the store as Prometheus metrics."""

    def __init__(self, totals: Mapping[str, int], **gauges: int) -> None:
        self._totals = totals
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        """Yield every metric, also those without a sample yet."""
        info = GaugeMetricFamily("canonry_info", "The version of the service.", labels=["version"])
        info.add_metric([canonry.__version__], 1)
        yield info
        for name, value in self._gauges.items():
            yield GaugeMetricFamily(f"canonry_{name}", f"Number of {name} now.", value)
        for prefix, metric, label, help_text in _COUNTERS:
            family = CounterMetricFamily(metric, help_text, labels=[label])
            for name, count in sorted(self._totals.items()):
                if name.startswith(prefix):
                    family.add_metric([name.removeprefix(prefix)], count)
            yield family
        yield self._make_normalization_metric()
        yield self._make_request_metric()

    def _make_normalization_metric(self) -> Metric:
        family = HistogramMetricFamily("canonry_normalization_seconds", "Time to normalize a URL.")
        names = (*map(str, LATENCY_BUCKETS), "more")
        counts = {name: self._totals.get(f"latency:{name}", 0) for name in names}
        family.add_metric([], _cumulate(counts, LATENCY_BUCKETS, 1e6), None)
        return family

    def _make_request_metric(self) -> Metric:
        labels = ["method", "route", "status"]
        family = HistogramMetricFamily("canonry_request_seconds", "Time to answer a request.", labels=labels)
        by_route: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for name, count in sorted(self._totals.items()):
            if name.startswith(COUNT_PREFIX):
                route, _, bucket = name.removeprefix(COUNT_PREFIX).rpartition(" ")
                by_route[route][bucket] += count
        for route, counts in by_route.items():
            seconds = self._totals.get(f"{TIME_PREFIX}{route}", 0) / 1e6
            family.add_metric(route.split(" "), _cumulate(counts, DURATION_BUCKETS_MS, 1e3), seconds)
        return family


class FeedMetrics(Collector):
    """The feeds and items of the store."""

    def __init__(self, counts: FeedCounts) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("canonry_feeds", "Number of feeds now.", labels=["status"])
        for status, count in self._counts.by_status.items():
            family.add_metric([status], count)
        yield family
        failing, due, changes = self._counts.failing, self._counts.due, self._counts.changes
        yield GaugeMetricFamily("canonry_feeds_failing", "Feeds that are polled and whose last poll failed.", failing)
        yield GaugeMetricFamily("canonry_feeds_due", "Feeds whose time to be polled has come.", due)
        yield CounterMetricFamily("canonry_item_changes", "New and updated items.", changes)


class QueueMetrics(Collector):
    """The background jobs that have not ended; queues without such jobs have no samples."""

    def __init__(self, queues: Sequence[QueueLength]) -> None:
        self._queues = queues

    def collect(self) -> Iterable[Metric]:
        jobs = GaugeMetricFamily("canonry_jobs", "Background jobs now.", labels=["queue", "state"])
        oldest = GaugeMetricFamily(
            "canonry_oldest_job_seconds", "How long the first job of a queue has been waiting.", labels=["queue"]
        )
        for queue in self._queues:
            jobs.add_metric([queue.name, "waiting"], queue.waiting)
            jobs.add_metric([queue.name, "running"], queue.running)
            oldest.add_metric([queue.name], queue.oldest_seconds)
        yield from (jobs, oldest)


def _cumulate(counts: Mapping[str, int], limits: tuple[int, ...], units_per_second: float) -> list[tuple[str, float]]:
    """Return cumulative histogram buckets with their upper bounds in seconds."""
    buckets: list[tuple[str, float]] = []
    total = 0
    for limit in limits:
        total += counts.get(str(limit), 0)
        buckets.append((repr(limit / units_per_second), total))
    return [*buckets, ("+Inf", total + counts.get("more", 0))]
