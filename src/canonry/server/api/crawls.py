"""`/api/crawls`: start crawls, follow their progress, read their pages; for admins (contract C)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field, TypeAdapter

from canonry.crawler.crawl_store import CrawlState
from canonry.crawler.left_pages import LeftGroup, list_left_groups
from canonry.crawler.pages import Page, make_record
from canonry.crawler.results import PageChange, PageOutcome
from canonry.crawler.sitemap_lease import SitemapFailure
from canonry.server.bookmark_input import Url
from canonry.server.crawl_actions import (
    CrawlOptionsIn,
    CrawlSummary,
    compute_pages_per_second,
    repeat_crawl,
    resume_crawl,
    start_crawl,
    summarize_crawls,
)
from canonry.server.dependencies import RowId, get_service, require_admin
from canonry.server.downloads import CRAWL_MEDIA_TYPES, CrawlFormat, download_crawl
from canonry.server.problems import describe_problems

router = APIRouter(prefix="/api/crawls", tags=["crawls"])
Cursor = Annotated[int | None, Query(ge=0, le=2**63 - 1, description="From the Link header of the previous page.")]
_SUMMARIES = TypeAdapter(list[CrawlSummary])


class CrawlIn(CrawlOptionsIn):
    """A site to crawl: the host of `seed`."""

    seed: Url


@dataclass(frozen=True, slots=True)
class CrawlDetail(CrawlSummary):
    """A crawl with all its counts; `pages_per_second` is the average since it started."""

    outcomes: Annotated[
        dict[PageOutcome, int], Field(description="What became of the pages: read, missing, failed, refused, skipped.")
    ]
    changes: Annotated[
        dict[PageChange, int], Field(description="In a repeated crawl, pages that are new, changed, gone or the same.")
    ]
    skipped: Annotated[dict[str, int], Field(description="Skipped pages, by reason.")]
    left: Annotated[
        tuple[LeftGroup, ...], Field(description="Pages that were left out as repeats or traps, by pattern of URLs.")
    ]
    sitemap_failures: Annotated[
        tuple[SitemapFailure, ...], Field(description="Sitemaps that could not be read, and why.")
    ]
    duplicates_avoided: Annotated[int, Field(description="Links to pages that were already known.")]
    texts: Annotated[int | None, Field(description="Different texts of the pages; null while the crawl runs.")]
    pages_per_second: float
    open: Annotated[tuple[str, ...], Field(description="Pages being fetched now, at most 20.")]


@router.post("", response_model=CrawlSummary, status_code=201, responses=describe_problems(400), summary="Crawl a site")
async def create_crawl(request: Request, body: CrawlIn, response: Response) -> CrawlSummary:
    """For admins. The crawl runs in the background; ask the URL in `Location` for its progress."""
    require_admin(request)
    service = get_service(request)
    crawl = await start_crawl(service, body.seed, body)
    response.headers["Location"] = f"/api/crawls/{crawl.id}"
    [summary] = await summarize_crawls(service, [crawl])
    return summary


@router.get("", response_model=list[CrawlSummary], responses=describe_problems(400), summary="List crawls")
async def list_crawls(
    request: Request, cursor: Cursor = None, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> Response:
    """For admins. The latest first."""
    require_admin(request)
    service = get_service(request)
    crawls = await service.crawls.list_crawls(limit, before=cursor)
    content = _SUMMARIES.dump_python(await summarize_crawls(service, crawls), mode="json")
    return JSONResponse(content, headers=_link_next(request, crawls[-1].id if len(crawls) == limit else None))


@router.get("/{crawl_id}", response_model=CrawlDetail, responses=describe_problems(404), summary="One crawl")
async def get_crawl(request: Request, crawl_id: RowId) -> CrawlDetail:
    """For admins."""
    require_admin(request)
    service = get_service(request)
    crawl = await service.crawls.get(crawl_id)
    counts, glance = await service.crawls.count_pages(crawl_id), await service.crawl_views.get_activity(crawl_id)
    [summary] = await summarize_crawls(service, [crawl])
    count = service.crawl_views.count_different_pages
    return CrawlDetail(
        **{field.name: getattr(summary, field.name) for field in fields(summary)},
        outcomes=dict(counts.outcomes),
        changes=dict(counts.changes),
        skipped={reason.sentence: count for reason, count in counts.skipped.items()},
        left=tuple(await list_left_groups(service.database, crawl_id)),
        sitemap_failures=crawl.sitemap_failures,
        duplicates_avoided=counts.duplicates_avoided,
        texts=None if crawl.state is CrawlState.RUNNING else (await count(crawl_id))[1],
        pages_per_second=compute_pages_per_second(crawl, counts, service.clock()),
        open=glance.open,
    )


@router.delete("/{crawl_id}", status_code=204, responses=describe_problems(404), summary="Delete a crawl and its pages")
async def remove_crawl(request: Request, crawl_id: RowId) -> None:
    """For admins. A running crawl stops."""
    require_admin(request)
    await get_service(request).crawls.remove(crawl_id)


@router.post("/{crawl_id}/stop", response_model=CrawlSummary, responses=describe_problems(404), summary="Stop a crawl")
async def stop_crawl(request: Request, crawl_id: RowId) -> CrawlSummary:
    """For admins. The pages read so far stay. Stopping a finished crawl changes nothing."""
    require_admin(request)
    service = get_service(request)
    [summary] = await summarize_crawls(service, [await service.crawls.stop(crawl_id, service.clock())])
    return summary


@router.post(
    "/{crawl_id}/resume", response_model=CrawlSummary, responses=describe_problems(404, 409), summary="Resume a crawl"
)
async def resume_stopped_crawl(request: Request, crawl_id: RowId) -> CrawlSummary:
    """For admins. Continues a crawl that was stopped, or interrupted on the command line; 409 if it is finished."""
    require_admin(request)
    service = get_service(request)
    [summary] = await summarize_crawls(service, [await resume_crawl(service, crawl_id)])
    return summary


@router.post(
    "/{crawl_id}/again",
    response_model=CrawlSummary,
    status_code=201,
    responses=describe_problems(404, 409),
    summary="Repeat a crawl",
)
async def crawl_again(request: Request, crawl_id: RowId, response: Response) -> CrawlSummary:
    """For admins. Starts a crawl with the same options, whose pages say how they changed; 409 if it is not finished."""
    require_admin(request)
    service = get_service(request)
    crawl = await repeat_crawl(service, crawl_id)
    response.headers["Location"] = f"/api/crawls/{crawl.id}"
    [summary] = await summarize_crawls(service, [crawl])
    return summary


@router.get(
    "/{crawl_id}/refused",
    response_model=list[Page],
    responses=describe_problems(400, 404),
    summary="Pages that robots.txt disallows",
)
async def list_refused_pages(
    request: Request, crawl_id: RowId, cursor: Cursor = None, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> Response:
    """For admins. They were not requested, and are not among the pages of the crawl."""
    require_admin(request)
    service = get_service(request)
    await service.crawls.get(crawl_id)
    pages = await service.crawl_views.list_refused(crawl_id, after=cursor or 0, limit=limit)
    records = [make_record(each.page) for each in pages]
    return JSONResponse(records, headers=_link_next(request, pages[-1].id if len(pages) == limit else None))


@router.get(
    "/{crawl_id}/pages", response_model=list[Page], responses=describe_problems(400, 404), summary="Pages of a crawl"
)
async def list_crawl_pages(
    request: Request, crawl_id: RowId, cursor: Cursor = None, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> Response:
    """For admins. In the order in which they were found."""
    require_admin(request)
    crawls = get_service(request).crawls
    await crawls.get(crawl_id)
    pages = await crawls.list_pages(crawl_id, after=cursor or 0, limit=limit)
    records = await asyncio.to_thread(lambda: [make_record(each.page) for each in pages])
    return JSONResponse(records, headers=_link_next(request, pages[-1].id if len(pages) == limit else None))


@router.get(
    "/{crawl_id}/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A file.",
            "content": {media_type.partition(";")[0]: {} for media_type in CRAWL_MEDIA_TYPES.values()},
        },
        **describe_problems(400, 404),
    },
    summary="The pages or the link graph of a crawl as a file",
)
async def export_crawl(
    request: Request,
    crawl_id: RowId,
    format: Annotated[CrawlFormat, Query()] = CrawlFormat.JSONL,  # noqa: A002
) -> Response:
    """For admins. Contains the pages read so far, also while the crawl is running."""
    require_admin(request)
    return await download_crawl(get_service(request), crawl_id, format)


def _link_next(request: Request, cursor: int | None) -> dict[str, str]:
    if cursor is None:
        return {}
    following = request.url.include_query_params(cursor=cursor)
    return {"Link": f'<{following.path}?{following.query}>; rel="next"'}
