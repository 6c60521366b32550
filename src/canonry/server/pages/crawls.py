"""Start crawls, follow their progress, and see their link graphs; for admins."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Request, Response
from pydantic import ValidationError

from canonry.bookmarks.url_pipeline import MAX_URL_CHARS
from canonry.crawler.crawl_store import CrawlState
from canonry.crawler.folding import list_repeated_pages
from canonry.crawler.left_pages import list_left_groups
from canonry.crawler.results import REFUSED_REASONS
from canonry.errors import CanonryError, InvalidFields, mask_credentials
from canonry.net.chrome.process import find_chrome
from canonry.server.crawl_actions import (
    DEFAULT_MAX_PAGES,
    CrawlOptionsIn,
    compute_pages_per_second,
    repeat_crawl,
    resume_crawl,
    start_crawl,
    summarize_crawls,
)
from canonry.server.dependencies import RowId, get_service, require_admin
from canonry.server.downloads import CrawlFormat, download_crawl
from canonry.server.pages import crawl_graph
from canonry.server.pages.forms import explain_invalid, get_text, page_router, redirect
from canonry.server.pages.rendering import render, wants_fragment

if TYPE_CHECKING:
    from starlette.datastructures import FormData

    from canonry.crawler.crawl_store import Counts, Crawl
    from canonry.crawler.crawl_views import ChangedPage
    from canonry.crawler.pages import Page
    from canonry.server.service import Service

router = page_router()
_CRAWLS_PER_PAGE = 20
_MAX_LEFT_GROUPS = 20
_NUMBER_FIELDS = ("max_pages", "depth")
_PATTERN_FIELDS = ("include", "exclude")
_TICKS = ("sitemaps", "ignore_nofollow", "routes", "scroll")
_LISTED_PAGES = 50  # changed and refused pages
_NOTICES = {"removed": "The crawl and its pages were deleted."}


@router.get("/crawls")
async def list_crawls(
    request: Request,
    seed: Annotated[str, Query(max_length=MAX_URL_CHARS)] = "",
    before: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
    notice: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    return await _render_list(request, {"seed": seed}, before=before, notice=notice)


@router.post("/crawls")
async def start(request: Request) -> Response:
    """Start a crawl in the background."""
    require_admin(request)
    form = await request.form()
    names = ("seed", "engine", *_NUMBER_FIELDS, "delay", *_PATTERN_FIELDS, *_TICKS)
    given = {name: get_text(form, name) for name in names}
    try:
        options = _parse_options(form)
        crawl = await start_crawl(get_service(request), given["seed"], options)
    except ValidationError as error:
        errors = {str(each["loc"][0]): explain_invalid(each) for each in error.errors()}
        return await _render_list(request, given, errors=errors)
    except InvalidFields as error:
        return await _render_list(
            request, given, errors={name: mask_credentials(reason) for name, reason in error.reasons.items()}
        )
    return redirect(f"/crawls/{crawl.id}")


@router.get("/crawls/{crawl_id}")
async def show_crawl(request: Request, crawl_id: RowId) -> Response:
    """Show a crawl and its progress; htmx gets only the part that changes."""
    require_admin(request)
    context = await _load_progress(request, crawl_id)
    if wants_fragment(request):
        return render(request, "_crawl_progress.html", is_fragment=True, **context)
    return render(request, "crawl.html", formats=list(CrawlFormat), **context, **await _load_graph(request, crawl_id))


@router.get("/crawls/{crawl_id}/graph")
async def show_graph(request: Request, crawl_id: RowId) -> Response:
    """Return the link graph as a fragment, for htmx."""
    require_admin(request)
    crawl = await get_service(request).crawls.get(crawl_id)
    if not wants_fragment(request):
        return redirect(f"/crawls/{crawl_id}")
    return render(request, "_crawl_graph.html", crawl=crawl, is_fragment=True, **await _load_graph(request, crawl_id))


@router.post("/crawls/{crawl_id}/stop")
async def stop(request: Request, crawl_id: RowId) -> Response:
    require_admin(request)
    service = get_service(request)
    await service.crawls.stop(crawl_id, service.clock())
    return redirect(f"/crawls/{crawl_id}")


@router.post("/crawls/{crawl_id}/resume")
async def resume(request: Request, crawl_id: RowId) -> Response:
    require_admin(request)
    await resume_crawl(get_service(request), crawl_id)
    return redirect(f"/crawls/{crawl_id}")


@router.post("/crawls/{crawl_id}/again")
async def crawl_again(request: Request, crawl_id: RowId) -> Response:
    require_admin(request)
    crawl = await repeat_crawl(get_service(request), crawl_id)
    return redirect(f"/crawls/{crawl.id}")


@router.post("/crawls/{crawl_id}/remove")
async def remove(request: Request, crawl_id: RowId) -> Response:
    require_admin(request)
    await get_service(request).crawls.remove(crawl_id)
    return redirect("/crawls?notice=removed")


@router.get("/crawls/{crawl_id}/export/{form}")
async def export(request: Request, crawl_id: RowId, form: CrawlFormat) -> Response:
    require_admin(request)
    return await download_crawl(get_service(request), crawl_id, form)


async def _render_list(
    request: Request,
    given: dict[str, str],
    *,
    errors: dict[str, str] | None = None,
    before: int | None = None,
    notice: str = "",
) -> Response:
    require_admin(request)
    service = get_service(request)
    has_chrome = False
    with suppress(CanonryError):
        has_chrome = bool(find_chrome(service.settings))
    found = await service.crawls.list_crawls(_CRAWLS_PER_PAGE + 1, before=before)
    defaults = {
        "seed": "",
        "engine": "chrome" if has_chrome else "http",
        "max_pages": str(DEFAULT_MAX_PAGES),
        **dict.fromkeys(("depth", "delay", *_PATTERN_FIELDS, *_TICKS), ""),
    }
    return render(
        request,
        "crawls.html",
        status=400 if errors else 200,
        crawls=await summarize_crawls(service, found[:_CRAWLS_PER_PAGE]),
        following=found[_CRAWLS_PER_PAGE - 1].id if len(found) > _CRAWLS_PER_PAGE else None,
        is_later=before is not None,
        given={**defaults, **given},
        errors=errors or {},
        has_chrome=has_chrome,
        notice=_NOTICES.get(notice, ""),
        notice_name=notice if notice in _NOTICES else "",
    )


def _parse_options(form: FormData) -> CrawlOptionsIn:
    """Parse the form; ValidationError if a number is invalid."""
    ticks = {name: bool(get_text(form, name)) for name in _TICKS}
    given: dict[str, Any] = {"engine": get_text(form, "engine"), "nofollow": not ticks.pop("ignore_nofollow"), **ticks}
    given |= {name: get_text(form, name).strip() or None for name in _NUMBER_FIELDS}
    given |= {name: get_text(form, name).split() for name in _PATTERN_FIELDS}
    given["delay"] = get_text(form, "delay").strip() or 0
    return CrawlOptionsIn.model_validate(given)


async def _load_progress(request: Request, crawl_id: int) -> dict[str, Any]:
    service = get_service(request)
    crawl = await service.crawls.get(crawl_id)
    counts = await service.crawls.count_pages(crawl_id)
    is_running = crawl.state is CrawlState.RUNNING
    return {
        "crawl": crawl,
        "is_running": is_running,
        "counts": counts,
        "glance": await service.crawl_views.get_activity(crawl_id),
        "changes": await _list_changes(service, crawl),
        "refused": await _list_refused(service, crawl_id, counts),
        "rate": compute_pages_per_second(crawl, counts, service.clock()),
        "avoided": counts.duplicates_avoided,
        "moved_to": crawl.moved_to,
        "texts": None if is_running else await service.crawl_views.count_different_pages(crawl_id),
        "repeats": await list_repeated_pages(service.database, crawl_id),
        "left": await list_left_groups(service.database, crawl_id, limit=_MAX_LEFT_GROUPS),
    }


async def _list_changes(service: Service, crawl: Crawl) -> list[ChangedPage]:
    """Return pages that differ from the crawl before, when all are known: the list is not read again every second."""
    if crawl.previous_id is None or crawl.state is CrawlState.RUNNING:
        return []
    return await service.crawl_views.list_changes(crawl.id, _LISTED_PAGES)


async def _list_refused(service: Service, crawl_id: int, counts: Counts) -> list[Page]:
    if REFUSED_REASONS.isdisjoint(counts.skipped):
        return []
    return [each.page for each in await service.crawl_views.list_refused(crawl_id, limit=_LISTED_PAGES)]


async def _load_graph(request: Request, crawl_id: int) -> dict[str, Any]:
    pages = await get_service(request).crawl_views.list_nodes(crawl_id, crawl_graph.MAX_PAGES)
    return {"graph": crawl_graph.make_graph(pages), "sheet": crawl_graph}
