"""`/api/feeds`, `/api/items`: the feeds of the service, shared by all its users (contract F16)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from canonry.core.url import read_url
from canonry.errors import mask_credentials
from canonry.feeds.feed_values import FeedNote, FeedState, FeedStatus, StoredItem
from canonry.feeds.ingest_report import mask_key
from canonry.feeds.opml import OpmlFeed
from canonry.feeds.subscriptions import AddOutcome, AddResult, add_feed, import_unfetched
from canonry.jobs.kinds import find_host
from canonry.server.bookmark_input import Url
from canonry.server.dependencies import RowId, get_service, require_admin
from canonry.server.problems import RequestRefused, describe_problems
from canonry.store.schema import stamp

router = APIRouter(prefix="/api", tags=["feeds"])
Since = Annotated[
    datetime | None, Query(description="Items first seen at or after this date or time; UTC unless it has an offset.")
]
Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=10**9)]


class FeedIn(BaseModel):
    """A feed to follow, or a page that links to one; with `canonicalize: false` it is added without a request."""

    url: Url
    canonicalize: bool = True


@dataclass(frozen=True, slots=True)
class FeedDetail:
    """A feed and its state; user names and passwords in URLs are masked."""

    id: int
    url: str
    title: str
    folder: str
    status: FeedStatus
    last_checked_at: str | None
    failures: int
    failure: str
    next_check_at: str | None
    format: str
    hubs: tuple[str, ...]
    note: FeedNote


@dataclass(frozen=True, slots=True)
class PollQueued:
    """Whether a poll was queued; false if one was waiting already."""

    queued: bool


@router.get("/feeds", response_model=list[FeedDetail], summary="List feeds")
async def list_feeds(request: Request) -> list[FeedDetail]:
    return [_describe_feed(feed) for feed in await get_service(request).feeds.list_all()]


@router.post(
    "/feeds",
    response_model=AddOutcome,
    responses={201: {"model": AddOutcome, "description": "Created"}, **describe_problems(400, 422, 424)},
    summary="Follow a feed",
)
async def follow_feed(request: Request, body: FeedIn, response: Response) -> AddOutcome:
    """For admins. A feed that is followed already, under any of its URLs, is not added twice: 200 names it."""
    require_admin(request)
    service = get_service(request)
    if body.canonicalize:
        added = await add_feed(body.url, service.feeds, now=service.clock(), fetch=service.client.fetch)
    else:
        read_url(body.url)
        [added] = await import_unfetched([OpmlFeed(body.url)], service.feeds, now=service.clock())
    if added.result is AddResult.NEW:
        response.status_code = 201
        response.headers["Location"] = f"/api/feeds/{added.feed_id}"
    return _mask_urls(added)


@router.get("/feeds/{feed_id}", response_model=FeedDetail, responses=describe_problems(404), summary="One feed")
async def get_feed(request: Request, feed_id: RowId) -> FeedDetail:
    return _describe_feed(await get_service(request).feeds.get(feed_id))


@router.delete("/feeds/{feed_id}", status_code=204, responses=describe_problems(404), summary="Remove a feed")
async def remove_feed(request: Request, feed_id: RowId) -> None:
    """For admins. Also removes the items that no other feed has shown."""
    require_admin(request)
    feeds = get_service(request).feeds
    await feeds.get(feed_id)
    await feeds.remove(feed_id)


@router.post(
    "/feeds/{feed_id}/poll",
    response_model=PollQueued,
    status_code=202,
    responses=describe_problems(404, 409),
    summary="Poll a feed now",
)
async def poll_feed(request: Request, feed_id: RowId) -> PollQueued:
    """For admins. 409 if the feed is stopped; add it again to start it."""
    require_admin(request)
    service = get_service(request)
    feed = await service.feeds.get(feed_id)
    if feed.status is not FeedStatus.ACTIVE:
        raise RequestRefused(409, f"Feed {feed_id} is stopped. Add it again to start it.")
    return PollQueued(await service.jobs.enqueue_poll(feed.id, find_host(feed.url)))


@router.get(
    "/feeds/{feed_id}/items",
    response_model=list[StoredItem],
    responses=describe_problems(400, 404),
    summary="Items of a feed",
)
async def list_feed_items(
    request: Request, feed_id: RowId, since: Since = None, limit: Limit = 100, offset: Offset = 0
) -> list[StoredItem]:
    """The newest first."""
    feeds = get_service(request).feeds
    await feeds.get(feed_id)
    return _mask_items(await feeds.list_items(_to_stamp(since), feed_id=feed_id, limit=limit, offset=offset))


@router.get("/items", response_model=list[StoredItem], responses=describe_problems(400), summary="Items of all feeds")
async def list_items(request: Request, since: Since = None, limit: Limit = 100, offset: Offset = 0) -> list[StoredItem]:
    """The newest first."""
    return _mask_items(await get_service(request).feeds.list_items(_to_stamp(since), limit=limit, offset=offset))


def _to_stamp(moment: datetime | None) -> str | None:
    """Return a time as the tables store it."""
    if moment is None:
        return None
    try:
        return stamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except OverflowError:  # the first or last hours of the calendar, in another time zone
        limit = datetime.max if moment.year > 1 else datetime.min
        return stamp(limit.replace(tzinfo=UTC))


def _describe_feed(feed: FeedState) -> FeedDetail:
    return FeedDetail(
        id=feed.id,
        url=mask_credentials(feed.url),
        title=feed.title,
        folder=feed.folder,
        status=feed.status,
        last_checked_at=feed.last_checked_at,
        failures=feed.failures,
        failure=feed.failure,
        next_check_at=feed.next_check_at,
        format=feed.format,
        hubs=tuple(mask_credentials(hub) for hub in feed.hubs.split()),
        note=feed.note,
    )


def _mask_items(items: list[StoredItem]) -> list[StoredItem]:
    return [
        replace(
            item,
            feed_url=mask_credentials(item.feed_url),
            url=mask_key(item.url),
            dedupe_key=mask_key(item.dedupe_key),
        )
        for item in items
    ]


def _mask_urls(added: AddOutcome) -> AddOutcome:
    return replace(
        added,
        input_url=mask_credentials(added.input_url),
        url=mask_credentials(added.url),
        aliases=tuple(mask_credentials(alias) for alias in added.aliases),
    )
