"""The statistics page, and rekeying bookmarks to another policy; for admins."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated

from fastapi import Query, Request, Response

from canonry.bookmarks.usage import DUPLICATE_COUNTS
from canonry.core.presets import policies
from canonry.errors import PolicyError
from canonry.server.dependencies import RowId, get_service, require_admin
from canonry.server.pages import charts
from canonry.server.pages.forms import get_text, page_router, redirect
from canonry.server.pages.rendering import render
from canonry.server.problems import describe_error
from canonry.server.usage_report import load_usage
from canonry.store.pinned_policies import ENTRY, find_newest, list_newer

if TYPE_CHECKING:
    from canonry.bookmarks.usage import Hour, Usage
    from canonry.server.pages.charts import Chart
    from canonry.server.service import Service

router = page_router()
_SPANS_DAYS = (1, 7, 30, 90)
_DEFAULT_DAYS = 7
_MAX_FAILING_FEEDS = 10
_EXPANSION_TITLES = {
    "expanded": "Short links followed",
    "failed": "Short links that could not be followed",
    "pending": "Short links not followed yet",
}


@router.get("/admin")
async def show_statistics(request: Request, days: Annotated[int, Query(ge=1, le=90)] = _DEFAULT_DAYS) -> Response:
    return await _render_statistics(request, days)


@router.get("/admin/renormalize")
async def preview_bookmark_rekey(request: Request, policy: Annotated[str, Query(max_length=100)] = "") -> Response:
    """Show what a rekey of all bookmarks would change, before anything changes."""
    require_admin(request)
    service = get_service(request)
    current = await service.bookmarks.pipeline.get_policy()
    try:
        plan = await service.bookmark_rekeys.plan(policy or current.partition("@")[0])
    except PolicyError as error:
        return await _render_statistics(request, _DEFAULT_DAYS, error=describe_error(error), status=400)
    return render(request, "rekey_preview.html", plan=plan)


@router.post("/admin/renormalizations/{run_id}/undo")
async def undo_bookmark_rekey(request: Request, run_id: RowId) -> Response:
    """Start to undo a rekey in the background."""
    require_admin(request)
    run = await get_service(request).bookmark_rekeys.start_undo(run_id)
    return redirect(f"/admin/renormalizations/{run.id}")


@router.post("/admin/renormalize")
async def start_bookmark_rekey(request: Request) -> Response:
    """Start to rekey all bookmarks in the background."""
    require_admin(request)
    try:
        run = await get_service(request).bookmark_rekeys.start(get_text(await request.form(), "policy"))
    except PolicyError as error:
        return await _render_statistics(request, _DEFAULT_DAYS, error=describe_error(error), status=400)
    return redirect(f"/admin/renormalizations/{run.id}")


@router.get("/admin/renormalizations/{run_id}")
async def show_bookmark_rekey(request: Request, run_id: RowId) -> Response:
    require_admin(request)
    return render(request, "bookmark_rekey.html", run=await get_service(request).bookmark_rekeys.store.get(run_id))


async def _render_statistics(request: Request, days: int, *, error: str = "", status: int = 200) -> Response:
    require_admin(request)
    service = get_service(request)
    usage = await load_usage(service, days)
    totals = await service.bookmarks.statistics.get_totals()
    feeds = await service.feeds.list_all()
    failing = sorted((feed for feed in feeds if feed.failures), key=lambda feed: -feed.failures)
    months = await _count_months(service)
    return render(
        request,
        "admin.html",
        status=status,
        usage=usage,
        days=days,
        spans=_SPANS_DAYS,
        is_open=bool(error) or "days" in request.query_params,
        people_charts=[
            charts.make_bar_chart("Saved per month", "bookmarks", list(months), list(months.values()), period="month"),
            _make_duplicates_chart(usage, by_day=days > 1),
        ],
        saved_this_month=list(months.values())[-1],
        duplicates_avoided=sum(totals.get(name, 0) for name in DUPLICATE_COUNTS),
        feed_count=len(feeds),
        failing_count=len(failing),
        failing=failing[:_MAX_FAILING_FEEDS],
        charts=_make_charts(usage, by_day=days > 1),
        sheet=charts,
        quantiles=[(f"{share:.0%}", charts.format_quantile(usage.latency, share)) for share in (0.5, 0.95, 0.99)],
        bookmarks=await service.bookmarks.store.count(),
        runs=await service.bookmark_rekeys.store.list_latest(),
        policy=await service.bookmarks.pipeline.get_policy(),
        shipped=[each.id for each in policies()],
        newer_for_items=[each for each in await service.database.read(list_newer) if each.purpose == ENTRY],
        newest=find_newest(await service.bookmarks.pipeline.get_policy()),
        error=error,
    )


async def _count_months(service: Service) -> dict[str, int]:
    """Return the bookmarks that were saved in each of the last twelve months, by `Mar 2026`."""
    now = service.clock()
    firsts = [date(now.year - (back > now.month - 1), (now.month - 1 - back) % 12 + 1, 1) for back in range(12)][::-1]
    counts = await service.bookmarks.store.count_by_month(datetime(firsts[0].year, firsts[0].month, 1, tzinfo=UTC))
    return {first.strftime("%b %Y"): counts.get(first.strftime("%Y-%m"), 0) for first in firsts}


def _group_hours(usage: Usage, *, by_day: bool) -> dict[str, list[Hour]]:
    """Return the hours of each bar of a chart, by the label of the bar."""
    slots: dict[str, list[Hour]] = {}
    for hour in usage.hours:
        slots.setdefault(_format_hour(hour.hour, by_day=by_day), []).append(hour)
    return slots


def _make_duplicates_chart(usage: Usage, *, by_day: bool) -> Chart:
    slots = _group_hours(usage, by_day=by_day)
    counts = [sum(hour.duplicates_avoided for hour in hours) for hours in slots.values()]
    period = "day" if by_day else "hour"
    return charts.make_bar_chart("Duplicates avoided", "duplicates", list(slots), counts, period=period)


def _make_charts(usage: Usage, *, by_day: bool) -> list[Chart]:
    period = "day" if by_day else "hour"
    slots = _group_hours(usage, by_day=by_day)
    labels, groups = list(slots), list(slots.values())

    def count_expansions(outcome: str) -> list[int]:
        return [sum(hour.expansions.get(outcome, 0) for hour in hours) for hours in groups]

    # The charts of short links share a scale, so that they can be compared.
    max_expansions = max((count for outcome in _EXPANSION_TITLES for count in count_expansions(outcome)), default=0)
    return [
        charts.make_latency_chart("Normalization latency", usage.latency),
        charts.make_share_chart(
            "Cache hit rate", labels, [_calculate_hit_rate(hours) for hours in groups], period=period
        ),
        charts.make_bar_chart(
            "Bookmarks added",
            "bookmarks",
            labels,
            [sum(hour.created for hour in hours) for hours in groups],
            period=period,
        ),
        *(
            charts.make_bar_chart(
                title, "short links", labels, count_expansions(outcome), max_value=max_expansions, period=period
            )
            for outcome, title in _EXPANSION_TITLES.items()
        ),
    ]


def _format_hour(hour: str, *, by_day: bool) -> str:
    """Return `2026-01-31T10` as `31 Jan`, or `31 Jan 10:00`."""
    moment = datetime.fromisoformat(f"{hour}:00:00+00:00")
    day = f"{moment.day} {moment.strftime('%b')}"
    return day if by_day else f"{day} {moment.strftime('%H:%M')}"


def _calculate_hit_rate(hours: list[Hour]) -> float | None:
    hits, misses = sum(hour.cache_hits for hour in hours), sum(hour.cache_misses for hour in hours)
    return hits / (hits + misses) if hits + misses else None
