"""Start, resume and summarize crawls; shared by the API and the pages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, Field

from canonry.bookmarks.url_pipeline import read_http_url
from canonry.core.url import parse
from canonry.crawler.crawl import reopen_crawl
from canonry.crawler.crawl import repeat_crawl as store_repeated_crawl
from canonry.crawler.crawl import start_crawl as store_crawl
from canonry.crawler.crawl_options import NEWEST_POLICY, CrawlOptions, check_browser_options, choose_crawl_policy
from canonry.crawler.crawl_store import Counts, CrawlState
from canonry.crawler.traps import DEFAULT_TRAP_PAGES
from canonry.errors import InvalidFields, InvalidUrl, UnsafeUrl
from canonry.net.engine import WAIT_QUIET
from canonry.server.problems import RequestRefused
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from canonry.crawler.crawl_store import Crawl
    from canonry.server.service import Service

DEFAULT_MAX_PAGES = 1000


class CrawlOptionsIn(BaseModel):
    """How a site is crawled."""

    engine: Literal["chrome", "http"] = Field("chrome", description="A real browser tab, or the HTML without one.")
    max_pages: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        DEFAULT_MAX_PAGES, description="null: no limit."
    )
    depth: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        None, description="Links to follow from the start page. null: no limit."
    )
    per_host: Annotated[int, Field(ge=1, le=16)] = Field(4, description="Pages open at the same time.")
    delay: Annotated[float, Field(ge=0, le=3600)] = Field(0.0, description="Seconds between two pages.")
    robots: bool = Field(True, description="false: ignore robots.txt. Only for your own site.")
    sitemaps: bool = Field(False, description="Also crawl the pages listed in the site's sitemaps.")
    include: tuple[Annotated[str, Field(max_length=500)], ...] = Field(
        (), max_length=50, description="Only pages whose path matches one of these, as in robots.txt."
    )
    exclude: tuple[Annotated[str, Field(max_length=500)], ...] = Field(
        (), max_length=50, description="No pages whose path matches one of these."
    )
    trap_pages: Annotated[int, Field(ge=2, le=1_000_000)] | None = Field(
        DEFAULT_TRAP_PAGES,
        description="Pages in a row without new text after which a pattern of URLs is stopped. null: never.",
    )
    fold: bool = Field(True, description="false: also follow the links of pages that repeat another one.")
    learn: bool = Field(
        False, description="true: learn which parts of URLs do not change the page, and leave out their other URLs."
    )
    control: bool = Field(
        True, description="false: no page is requested again, or without a parameter, to learn rules from."
    )
    sessions: bool = Field(True, description="false: also read pages that differ only in a session identifier.")
    follow_start: bool = Field(
        False, description="If the start page redirects to another host, crawl that host instead."
    )
    nofollow: bool = Field(True, description="false: also follow links that ask crawlers not to (nofollow).")
    routes: bool = Field(False, description="Hash routes (#/about, #!/about) are pages of their own, in Chrome.")
    scroll: bool = Field(False, description="Chrome scrolls to the end of each page, for lists that grow.")
    wait: Annotated[str, Field(min_length=1, max_length=500)] = Field(
        WAIT_QUIET, description="When Chrome reads the links: load, quiet, or a CSS selector that must match."
    )
    patience: Annotated[float, Field(ge=0, le=86_400)] = Field(
        300.0, description="Seconds to wait for a site that stops answering; then the crawl pauses."
    )


@dataclass(frozen=True, slots=True)
class PageCounts:
    """How many pages of a crawl are in each state."""

    queued: int = 0
    fetching: int = 0
    done: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class CrawlSummary:
    """A crawl and its progress; `failure` says why it could not start, or why it paused.

    `paused_until` is set while the site of a running crawl does not answer.
    """

    id: int
    seed: str
    host: str
    state: CrawlState
    failure: str
    options: CrawlOptions
    pages: PageCounts
    started_at: str
    finished_at: str | None
    paused_until: str | None
    previous_id: int | None  # the crawl that this one repeats


async def start_crawl(service: Service, seed: str, options: CrawlOptionsIn) -> Crawl:
    """Create a crawl and queue it for the workers; InvalidFields for a start page or options that cannot be used."""
    try:
        url = read_http_url(seed)
        service.client.guard.check_url(url)
    except InvalidUrl as error:
        raise InvalidFields({"seed": error.reason}) from None
    except UnsafeUrl as error:
        raise InvalidFields({"seed": str(error)}) from None
    if parse(url).userinfo:
        reason = "User names and passwords are not stored. To crawl with them, use `canonry crawl`."
        raise InvalidFields({"seed": reason})
    given = options.model_dump(exclude={"seed"})
    check_browser_options(given, engine=options.engine)
    chosen = replace(CrawlOptions(**given, shared=True), **choose_crawl_policy(NEWEST_POLICY))
    crawl = await store_crawl(
        service.crawls,
        url,
        chosen,
        service.clock(),
    )
    await _enqueue(service, crawl)
    return crawl


async def resume_crawl(service: Service, crawl_id: int) -> Crawl:
    """Queue a crawl again that was stopped, paused, or has pages to retry; RequestRefused (409) if it is finished."""
    crawl = await service.crawls.get(crawl_id)
    is_done = crawl.state is CrawlState.DONE and not await service.crawls.has_retries(crawl_id)
    if is_done or crawl.moved_to:
        raise RequestRefused(409, f"Crawl {crawl_id} is finished. Start a new one to find new pages.")
    await reopen_crawl(service.crawls, crawl, replace(crawl.options, shared=True))
    crawl = await service.crawls.get(crawl_id)
    await _enqueue(service, crawl)
    return crawl


async def repeat_crawl(service: Service, crawl_id: int) -> Crawl:
    """Crawl a site again with the same options, to compare its pages; RequestRefused (409) if it is not finished."""
    previous = await service.crawls.get(crawl_id)
    if previous.state is not CrawlState.DONE:
        raise RequestRefused(409, f"Crawl {crawl_id} is {previous.state}. Only a finished crawl can be repeated.")
    crawl = await store_repeated_crawl(
        service.crawls, previous, replace(previous.options, shared=True), service.clock()
    )
    await _enqueue(service, crawl)
    return crawl


async def summarize_crawls(service: Service, crawls: list[Crawl]) -> list[CrawlSummary]:
    """Return crawls with their page counts."""
    counts: Mapping[int, Mapping[str, int]] = await service.crawl_views.count_states([crawl.id for crawl in crawls])
    return [
        CrawlSummary(
            id=crawl.id,
            seed=crawl.seed,
            host=crawl.host,
            state=crawl.state,
            failure=str(crawl.failure or ""),
            options=crawl.options,
            pages=PageCounts(**counts[crawl.id]) if crawl.id in counts else PageCounts(),
            started_at=crawl.started_at,
            finished_at=crawl.finished_at,
            paused_until=None if crawl.outage is None else stamp(crawl.outage.paused_until),
            previous_id=crawl.previous_id,
        )
        for crawl in crawls
    ]


def compute_pages_per_second(crawl: Crawl, counts: Counts, now: datetime) -> float:
    """Return the rate since the crawl started, failed pages included."""
    end = (
        now
        if crawl.state is CrawlState.RUNNING or crawl.finished_at is None
        else datetime.fromisoformat(crawl.finished_at)
    )
    seconds = (end - datetime.fromisoformat(crawl.started_at)).total_seconds()
    return round((counts.done + counts.failed) / max(seconds, 0.1), 1)


async def _enqueue(service: Service, crawl: Crawl) -> None:
    from canonry.jobs.crawl_jobs import enqueue_crawl

    await enqueue_crawl(service.jobs, crawl)
