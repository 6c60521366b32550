"""`/api/crawls`: sites that are crawled, how far they are, and their pages; for admins (contract C)."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import asdict, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

from canonry.bookmarks.url_pipeline import read_http_url
from canonry.core.url import parse
from canonry.crawler.crawl import reopen_crawl
from canonry.crawler.crawl import start_crawl as store_crawl
from canonry.crawler.crawl_options import CrawlOptions
from canonry.crawler.crawl_store import Counts, CrawlState
from canonry.crawler.export import open_writer
from canonry.crawler.pages import make_record
from canonry.errors import InvalidFields, InvalidUrl, UnsafeUrl
from canonry.server.api.admin import require_admin
from canonry.server.api.bookmarks import service
from canonry.server.api.models import Url
from canonry.server.problems import Refused, said
from canonry.server.service import Service

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from canonry.crawler.crawl_store import Crawl, StoredPage
    from canonry.crawler.export import PageWriter

router = APIRouter(prefix="/api/crawls", tags=["crawls"])
CrawlId = Annotated[int, Path(ge=1, le=2**63 - 1)]
Cursor = Annotated[int | None, Query(ge=0, le=2**63 - 1, description="From the Link header of the page before.")]
MAX_PAGES = 1000  # where nothing else is said
_PIECE = 2**16


class Format(StrEnum):
    """A file of pages, or of the links between them."""

    JSONL = "jsonl"
    CSV = "csv"
    GRAPHML = "graphml"
    DOT = "dot"


_MEDIA_TYPES = {
    Format.JSONL: "application/x-ndjson",
    Format.CSV: "text/csv; charset=utf-8",
    Format.GRAPHML: "application/graphml+xml",
    Format.DOT: "text/vnd.graphviz; charset=utf-8",
}


class How(BaseModel):
    """How a site is crawled."""

    engine: Literal["chrome", "http"] = Field("chrome", description="A real browser tab, or the HTML without one.")
    max_pages: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(MAX_PAGES, description="null: no limit.")
    depth: Annotated[int, Field(ge=0, le=1000)] | None = Field(None, description="Clicks from the start page.")
    per_host: Annotated[int, Field(ge=1, le=16)] = Field(4, description="Pages that are open at once.")
    delay: Annotated[float, Field(ge=0, le=3600)] = Field(0.0, description="Seconds between two pages.")
    robots: bool = Field(True, description="false: do not ask for robots.txt; the site is yours.")
    sitemaps: bool = Field(False, description="Crawl what the site's sitemaps name, too.")
    follow_start: bool = Field(False, description="Where the start page redirects to another host, crawl that.")


class CrawlIn(How):
    """A site to crawl: the host of `seed`."""

    seed: Url


class StandingOut(BaseModel):
    """How many pages are where."""

    queued: int = 0
    fetching: int = 0
    done: int = 0
    failed: int = 0
    skipped: int = 0


class CrawlOut(BaseModel):
    """A crawl and how far it is; `failure` says why it could not begin."""

    id: int
    seed: str
    host: str
    state: Literal["running", "done", "failed", "stopped"]
    failure: str
    options: dict[str, Any]
    pages: StandingOut
    started_at: str
    finished_at: str | None


class CrawlDetail(CrawlOut):
    """The same, in more detail; `pages_per_second` is over the whole time."""

    skipped: dict[str, int] = Field(description="Pages by the reason why they were skipped.")
    duplicates_avoided: int = Field(description="Links to pages that were known already.")
    pages_per_second: float
    open: list[str] = Field(description="Pages that are being opened, at most 20.")


class LinkOut(BaseModel):
    """A link as a browser resolves it, normalized, and what a crawl does with it."""

    href: str
    url: str | None
    text: str
    verdict: Literal["crawl", "external", "skip"]
    reason: str


class PageOut(BaseModel):
    """A page; `external` are those of its links that lead to other sites."""

    url: str
    requested_url: str
    final_url: str
    status: int
    title: str
    depth: int
    engine: str
    links: list[LinkOut]
    external: list[LinkOut]
    error: str


@router.post("", response_model=CrawlOut, status_code=201, responses=said(400), summary="Crawl a site")
async def start_crawl(request: Request, body: CrawlIn, response: Response) -> object:
    """For admins. The pages are opened in the background; `Location` says how far it is."""
    require_admin(request)
    begun = await started(service(request), body.seed, body.model_dump(exclude={"seed"}))
    response.headers["Location"] = f"/api/crawls/{begun.id}"
    return (await shown(service(request), [begun]))[0]


@router.get("", response_model=list[CrawlOut], responses=said(400), summary="The crawls there are")
async def list_crawls(
    request: Request, cursor: Cursor = None, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> Response:
    """For admins. The latest first."""
    require_admin(request)
    parts = service(request)
    found = await parts.crawls.list_crawls(limit, before=cursor)
    return JSONResponse(
        await shown(parts, found), headers=_next(request, found[-1].id if len(found) == limit else None)
    )


@router.get("/{crawl_id}", response_model=CrawlDetail, responses=said(404), summary="One crawl")
async def get_crawl(request: Request, crawl_id: CrawlId) -> object:
    """For admins."""
    require_admin(request)
    parts = service(request)
    crawl = await parts.crawls.get(crawl_id)
    counts, glance = await parts.crawls.count_pages(crawl_id), await parts.crawl_views.get_activity(crawl_id)
    return {
        **(await shown(parts, [crawl]))[0],
        "skipped": {reason.sentence: count for reason, count in counts.skipped.items()},
        "duplicates_avoided": counts.duplicates_avoided,
        "pages_per_second": pages_per_second(crawl, counts, parts.clock()),
        "open": list(glance.open),
    }


@router.delete("/{crawl_id}", status_code=204, responses=said(404), summary="Forget a crawl and its pages")
async def remove_crawl(request: Request, crawl_id: CrawlId) -> None:
    """For admins. Whoever works on it ends."""
    require_admin(request)
    await service(request).crawls.remove(crawl_id)


@router.post("/{crawl_id}/stop", response_model=CrawlOut, responses=said(404), summary="Stop a crawl")
async def stop_crawl(request: Request, crawl_id: CrawlId) -> object:
    """For admins. What was read stays; one that is over stays as it is."""
    require_admin(request)
    parts = service(request)
    return (await shown(parts, [await parts.crawls.stop(crawl_id, parts.clock())]))[0]


@router.post("/{crawl_id}/resume", response_model=CrawlOut, responses=said(404, 409), summary="Go on with a crawl")
async def resume_crawl(request: Request, crawl_id: CrawlId) -> object:
    """For admins. One that was stopped, or interrupted on the command line; 409 where it is over."""
    require_admin(request)
    parts = service(request)
    return (await shown(parts, [await resumed(parts, crawl_id)]))[0]


@router.get("/{crawl_id}/pages", response_model=list[PageOut], responses=said(400, 404), summary="Pages of a crawl")
async def list_crawl_pages(
    request: Request, crawl_id: CrawlId, cursor: Cursor = None, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> Response:
    """For admins. In the order in which they were found."""
    require_admin(request)
    crawls = service(request).crawls
    await crawls.get(crawl_id)
    found = await crawls.list_pages(crawl_id, after=cursor or 0, limit=limit)
    records = await asyncio.to_thread(lambda: [make_record(each.page) for each in found])
    return JSONResponse(records, headers=_next(request, found[-1].id if len(found) == limit else None))


@router.get(
    "/{crawl_id}/export",
    response_class=StreamingResponse,
    responses={
        200: {"description": "A file.", "content": {kind.partition(";")[0]: {} for kind in _MEDIA_TYPES.values()}},
        **said(400, 404),
    },
    summary="The pages or the link graph of a crawl as a file",
)
async def export_crawl(
    request: Request,
    crawl_id: CrawlId,
    format: Annotated[Format, Query()] = Format.JSONL,  # noqa: A002
) -> Response:
    """For admins. What was read so far, also of a crawl that goes on."""
    require_admin(request)
    return await exported(service(request), crawl_id, format)


async def started(parts: Service, seed: str, options: dict[str, Any]) -> Crawl:
    """A new crawl, whose pages are left to workers; InvalidFields where its start page cannot be asked for."""
    try:
        url = read_http_url(seed)
        parts.client.guard.check_url(url)
    except InvalidUrl as error:
        raise InvalidFields({"seed": error.reason}) from None
    except UnsafeUrl as error:
        raise InvalidFields({"seed": str(error)}) from None
    if parse(url).userinfo:
        raise InvalidFields({"seed": "user and password are kept nowhere: `canonry crawl` can use them"})
    begun = await store_crawl(parts.crawls, url, CrawlOptions(**options, shared=True), parts.clock())
    await _enqueue(parts, begun)
    return begun


async def resumed(parts: Service, crawl_id: int) -> Crawl:
    """A crawl that goes on with the pages that are left; Refused where it is over."""
    crawl = await parts.crawls.get(crawl_id)
    if crawl.state is CrawlState.DONE or crawl.moved_to:
        raise Refused(409, "this crawl is over; a new one may find more")
    await reopen_crawl(parts.crawls, crawl, replace(crawl.options, shared=True))
    crawl = await parts.crawls.get(crawl_id)
    await _enqueue(parts, crawl)
    return crawl


async def _enqueue(parts: Service, crawl: Crawl) -> None:
    from canonry.jobs.crawl_jobs import enqueue_crawl

    await enqueue_crawl(parts.jobs, crawl)


async def shown(parts: Service, found: list[Crawl]) -> list[dict[str, Any]]:
    """Crawls as they are told."""
    standing = await parts.crawl_views.count_states([crawl.id for crawl in found])
    return [_shown(crawl, standing.get(crawl.id)) for crawl in found]


def _shown(crawl: Crawl, standing: Counter[str] | None) -> dict[str, Any]:
    values = {name: getattr(crawl, name) for name in CrawlOut.model_fields if name != "pages"}
    pages = StandingOut.model_validate(standing or {}).model_dump()
    return values | {"failure": str(crawl.failure or ""), "options": asdict(crawl.options), "pages": pages}


def pages_per_second(crawl: Crawl, counts: Counts, now: datetime) -> float:
    """Pages that were read, over the time since the crawl began."""
    end = (
        now
        if crawl.state is CrawlState.RUNNING or crawl.finished_at is None
        else datetime.fromisoformat(crawl.finished_at)
    )
    seconds = (end - datetime.fromisoformat(crawl.started_at)).total_seconds()
    return round((counts.done + counts.failed) / max(seconds, 0.1), 1)


async def exported(parts: Service, crawl_id: int, form: Format) -> Response:
    """The pages of a crawl, or the links between them, as a file."""
    crawl = await parts.crawls.get(crawl_id)
    name = f"crawl-{crawl.id}.{form}"
    with tempfile.TemporaryDirectory(prefix="canonry-export-") as folder:
        file = FilePath(folder) / name
        with open_writer(file) as writer:
            after = 0
            while found := await parts.crawls.list_pages(crawl_id, after=after):
                await asyncio.to_thread(_add, writer, found)
                after = found[-1].id
        content = file.open("rb")  # it lives as long as it is open

    def pieces() -> Iterator[bytes]:
        with content:
            while piece := content.read(_PIECE):
                yield piece

    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(pieces(), media_type=_MEDIA_TYPES[form], headers=headers)


def _add(writer: PageWriter, found: list[StoredPage]) -> None:
    for page in found:
        writer.add(page.page)


def _next(request: Request, cursor: int | None) -> dict[str, str]:
    if cursor is None:
        return {}
    following = request.url.include_query_params(cursor=cursor)
    return {"Link": f'<{following.path}?{following.query}>; rel="next"'}
