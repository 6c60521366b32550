"""How the service is doing, and bookmarks under a newer policy; for admins."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from fastapi import Query, Request, Response

from canonry.core.presets import policies
from canonry.errors import PolicyError
from canonry.server.dependencies import RowId, get_service, require_admin
from canonry.server.pages import charts
from canonry.server.pages.forms import page_router, see, text_of
from canonry.server.pages.rendering import render
from canonry.server.usage_report import load_usage

if TYPE_CHECKING:
    from canonry.bookmarks.usage import Hour, Usage
    from canonry.server.pages.charts import Chart

router = page_router()
_SPANS = (1, 7, 30, 90)
_OUTCOMES = {
    "expanded": "Short links followed",
    "failed": "Short links that could not be followed",
    "pending": "Short links left for later",
}


@router.get("/admin")
async def statistics(request: Request, days: Annotated[int, Query(ge=1, le=90)] = 7) -> Response:
    return await _page(request, days)


@router.post("/admin/renormalize")
async def start_bookmark_rekey(request: Request) -> Response:
    """Start to rekey all bookmarks in the background."""
    require_admin(request)
    try:
        run = await get_service(request).bookmark_rekeys.start(text_of(await request.form(), "policy"))
    except PolicyError as error:
        return await _page(request, 7, error=str(error), status=400)
    return see(f"/admin/renormalizations/{run.id}")


@router.get("/admin/renormalizations/{run_id}")
async def progress(request: Request, run_id: RowId) -> Response:
    require_admin(request)
    return render(request, "bookmark_rekey.html", run=await get_service(request).bookmark_rekeys.store.get(run_id))


async def _page(request: Request, days: int, *, error: str = "", status: int = 200) -> Response:
    require_admin(request)
    service = get_service(request)
    usage = await load_usage(service, days)
    return render(
        request,
        "admin.html",
        status=status,
        usage=usage,
        days=days,
        spans=_SPANS,
        charts=_charts(usage, by_day=days > 1),
        sheet=charts,
        quantiles=[(f"{share:.0%}", charts.quantile(usage.latency, share)) for share in (0.5, 0.95, 0.99)],
        bookmarks=await service.bookmarks.store.count(),
        runs=await service.bookmark_rekeys.store.list_latest(),
        policy=await service.bookmarks.pipeline.get_policy(),
        shipped=[each.id for each in policies()],
        error=error,
    )


def _charts(usage: Usage, *, by_day: bool) -> list[Chart]:
    period = "day" if by_day else "hour"
    slots: dict[str, list[Hour]] = {}
    for hour in usage.hours:
        slots.setdefault(_named(hour.hour, by_day=by_day), []).append(hour)
    times, several = list(slots), list(slots.values())

    def outcomes(name: str) -> list[int]:
        return [sum(hour.expansions.get(name, 0) for hour in hours) for hours in several]

    most = max((count for name in _OUTCOMES for count in outcomes(name)), default=0)
    return [
        charts.latencies("Normalization latency", usage.latency),
        charts.share_over_time("Cache hit rate", times, [_hit_rate(hours) for hours in several], period=period),
        charts.over_time(
            "Duplicates avoided",
            "duplicates",
            times,
            [sum(hour.duplicates_avoided for hour in hours) for hours in several],
            period=period,
        ),
        charts.over_time(
            "Bookmarks added",
            "bookmarks",
            times,
            [sum(hour.created for hour in hours) for hours in several],
            period=period,
        ),
        *(
            charts.over_time(title, "short links", times, outcomes(name), most=most, period=period)
            for name, title in _OUTCOMES.items()
        ),
    ]


def _named(hour: str, *, by_day: bool) -> str:
    """`2026-01-31T10` as its day, `31 Jan`, or with its time, `31 Jan 10:00`."""
    moment = datetime.fromisoformat(f"{hour}:00:00+00:00")
    day = f"{moment.day} {moment.strftime('%b')}"
    return day if by_day else f"{day} {moment.strftime('%H:%M')}"


def _hit_rate(hours: list[Hour]) -> float | None:
    hits, misses = sum(hour.cache_hits for hour in hours), sum(hour.cache_misses for hour in hours)
    return hits / (hits + misses) if hits + misses else None
