"""`/healthz`, `/readyz`, `/metrics`: for those who run the service (contract B9)."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from pydantic import BaseModel
from sqlalchemy import text

import canonry
from canonry.bookmarks.statistics import LATENCY_BUCKETS
from canonry.errors import CanonryError
from canonry.server.api.admin import require_admin
from canonry.server.api.bookmarks import service
from canonry.server.problems import Refused, said
from canonry.server.request_log import COUNT, DURATIONS, SPENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.metrics_core import Metric

router = APIRouter(tags=["operating"])
_PATIENCE = 5.0  # seconds the database has for an answer
# The counts that become counters as they are: prefix, metric, label, help.
_COUNTERS = (
    ("put:", "canonry_puts", "outcome", "Bookmarks that were put."),
    ("cache:", "canonry_expansion_cache", "result", "Lookups of short links in the cache."),
    ("expansion:", "canonry_expansions", "outcome", "Short links that were followed."),
    ("rule:", "canonry_rules_fired", "rule", "Normalizations in which a rule changed something."),
    ("title:", "canonry_titles", "outcome", "Titles that were looked up."),
)


class StateOut(BaseModel):
    """All is well."""

    status: Literal["ok"] = "ok"


@router.get("/healthz", response_model=StateOut, summary="Is the process up?")
async def get_health() -> StateOut:
    """Asks nothing and nobody."""
    return StateOut()


@router.get("/readyz", response_model=StateOut, responses=said(503), summary="Can requests be answered?")
async def get_readiness(request: Request) -> StateOut:
    """Whether the database answers."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await service(request).database.read(lambda connection: connection.execute(text("SELECT 1")).scalar())
    except (CanonryError, TimeoutError):
        raise Refused(503, "the database does not answer") from None
    return StateOut()


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"description": "Metrics.", "content": {"text/plain": {}}}},
    summary="Counts for Prometheus",
)
async def get_metrics(request: Request) -> Response:
    """For admins. Counted over all processes and since the beginning."""
    require_admin(request)
    parts = service(request)
    await parts.bookmarks.statistics.flush()
    totals = await parts.bookmarks.statistics.get_totals()
    kept, users = await parts.bookmarks.store.count(), len(await parts.users.list_users())
    registry = CollectorRegistry()
    registry.register(Totals(totals, bookmarks=kept, users=users))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


class Totals(Collector):
    """What was counted, as Prometheus wants it."""

    def __init__(self, totals: Mapping[str, int], **gauges: int) -> None:
        self._totals = totals
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        """Every metric there is, also those without a sample yet."""
        info = GaugeMetricFamily("canonry_info", "The version that answers.", labels=["version"])
        info.add_metric([canonry.__version__], 1)
        yield info
        for name, value in self._gauges.items():
            yield GaugeMetricFamily(f"canonry_{name}", f"The {name} there are now.", value)
        for prefix, metric, label, told in _COUNTERS:
            family = CounterMetricFamily(metric, told, labels=[label])
            for name, count in sorted(self._totals.items()):
                if name.startswith(prefix):
                    family.add_metric([name.removeprefix(prefix)], count)
            yield family
        yield self._normalizations()
        yield self._requests()

    def _normalizations(self) -> Metric:
        family = HistogramMetricFamily("canonry_normalization_seconds", "How long normalizing took.")
        names = (*map(str, LATENCY_BUCKETS), "more")
        counts = {name: self._totals.get(f"latency:{name}", 0) for name in names}
        family.add_metric([], _buckets(counts, LATENCY_BUCKETS, 1e6), None)
        return family

    def _requests(self) -> Metric:
        labels = ["method", "route", "status"]
        family = HistogramMetricFamily("canonry_request_seconds", "How long requests took.", labels=labels)
        by_route: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for name, count in sorted(self._totals.items()):
            if name.startswith(COUNT):
                what, _, fitting = name.removeprefix(COUNT).rpartition(" ")
                by_route[what][fitting] += count
        for what, counts in by_route.items():
            spent = self._totals.get(f"{SPENT}{what}", 0) / 1e6
            family.add_metric(what.split(" "), _buckets(counts, DURATIONS, 1e3), spent)
        return family


def _buckets(counts: Mapping[str, int], limits: tuple[int, ...], unit: float) -> list[tuple[str, float]]:
    """Cumulated, as Prometheus has them, in seconds."""
    found: list[tuple[str, float]] = []
    total = 0
    for limit in limits:
        total += counts.get(str(limit), 0)
        found.append((repr(limit / unit), total))
    return [*found, ("+Inf", total + counts.get("more", 0))]
