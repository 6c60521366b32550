"""`/api/feeds`: the feeds of the service and their settings, shared by all its users (contract F16, I11)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from canonry.core.url import read_url
from canonry.errors import mask_credentials
from canonry.feeds.feed_settings import mask_headers
from canonry.feeds.feed_values import FeedNote, FeedState, FeedStatus
from canonry.feeds.opml import OpmlFeed
from canonry.feeds.subscriptions import AddOutcome, AddResult, add_feed, import_unfetched
from canonry.net.response import find_host
from canonry.server.bookmark_input import Url
from canonry.server.dependencies import RowId, get_service, require_admin
from canonry.server.problems import RequestRefused, describe_problems

if TYPE_CHECKING:
    from canonry.feeds.feed_settings import FeedChanges

router = APIRouter(prefix="/api", tags=["feeds"])
_Text = Annotated[str, Field(max_length=2000)]
_HeaderValue = Annotated[str, Field(max_length=10_000)]
_Number = Annotated[int, Field(ge=0, le=10**12)] | Annotated[str, Field(max_length=40)]


class FeedIn(BaseModel):
    """A feed to follow, or a page that links to one; with `canonicalize: false` it is added without a request."""

    url: Url
    canonicalize: bool = True


@dataclass(frozen=True, slots=True)
class FeedDetail:
    """A feed, its state and its settings; user names and passwords in URLs and the values of headers are masked."""

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
    own_title: str
    site_url: str
    interval: int | None
    timeout: int | None
    max_bytes: int | None
    user_agent: str
    headers: dict[str, str]


class FeedPatch(BaseModel):
    """Settings of a feed; those that are left out stay as they are, null restores the default.

    `interval` and `timeout` are seconds or texts such as `15m`, `max_bytes` is a number or a text such as `5MB`.
    `headers` are sent with every request to the feed's own server: null removes one, `***` keeps it.
    """

    model_config = ConfigDict(extra="forbid")

    title: _Text | None = None
    folder: _Text | None = None
    interval: _Number | None = None
    timeout: _Number | None = None
    max_bytes: _Number | None = None
    user_agent: _Text | None = None
    headers: Annotated[dict[str, _HeaderValue | None], Field(max_length=100)] | None = None
    paused: bool = False


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


@router.patch(
    "/feeds/{feed_id}", response_model=FeedDetail, responses=describe_problems(400, 404), summary="Change a feed"
)
async def change_feed(request: Request, feed_id: RowId, body: FeedPatch) -> FeedDetail:
    """For admins. Sets how often and how the feed is fetched and what it is called, and pauses or resumes it."""
    require_admin(request)
    changes = cast("FeedChanges", body.model_dump(exclude_unset=True))
    return _describe_feed(await get_service(request).feeds.change(feed_id, changes))


@router.delete("/feeds/{feed_id}", status_code=204, responses=describe_problems(404), summary="Remove a feed")
async def remove_feed(request: Request, feed_id: RowId) -> None:
    """For admins. Also removes the items that no other feed has shown. The page of feeds restores both for 30 days."""
    require_admin(request)
    service = get_service(request)
    await service.feeds.get(feed_id)
    await service.feeds.remove(feed_id, service.clock())


@router.post(
    "/feeds/{feed_id}/poll",
    response_model=PollQueued,
    status_code=202,
    responses=describe_problems(404, 409),
    summary="Poll a feed now",
)
async def poll_feed(request: Request, feed_id: RowId) -> PollQueued:
    """For admins. 409 if the feed is paused."""
    require_admin(request)
    service = get_service(request)
    feed = await service.feeds.get(feed_id)
    if feed.status is FeedStatus.PAUSED:
        raise RequestRefused(409, f'Feed {feed_id} is paused. To resume it, send PATCH with {{"paused": false}}.')
    return PollQueued(await service.jobs.enqueue_poll(feed.id, find_host(feed.url)))


def _describe_feed(feed: FeedState) -> FeedDetail:
    return FeedDetail(
        id=feed.id,
        url=mask_credentials(feed.url),
        title=feed.shown_title,
        folder=feed.folder,
        status=feed.status,
        last_checked_at=feed.last_checked_at,
        failures=feed.failures,
        failure=feed.failure,
        next_check_at=feed.next_check_at,
        format=feed.format,
        hubs=tuple(mask_credentials(hub) for hub in feed.hubs.split()),
        note=feed.note,
        own_title=feed.own_title,
        site_url=mask_credentials(feed.site_url),
        interval=feed.interval_seconds,
        timeout=feed.timeout_seconds,
        max_bytes=feed.max_bytes,
        user_agent=feed.user_agent,
        headers=mask_headers(feed),
    )


def _mask_urls(added: AddOutcome) -> AddOutcome:
    return replace(
        added,
        input_url=mask_credentials(added.input_url),
        url=mask_credentials(added.url),
        aliases=tuple(mask_credentials(alias) for alias in added.aliases),
    )
