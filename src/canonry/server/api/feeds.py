"""`/api/feeds`, `/api/items`: what the service follows, shared by all who use it (contract F16)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict

from canonry.core.url import read_url
from canonry.errors import mask_credentials
from canonry.feeds.feed_values import FeedState, FeedStatus
from canonry.feeds.ingest_report import mask_key
from canonry.feeds.opml import OpmlFeed
from canonry.feeds.subscriptions import AddOutcome, AddResult, add_feed, import_unfetched
from canonry.jobs.kinds import find_host
from canonry.server.api.admin import require_admin
from canonry.server.api.bookmarks import service
from canonry.server.api.models import Url
from canonry.server.problems import Refused, said
from canonry.store.schema import stamp

router = APIRouter(prefix="/api", tags=["feeds"])
FeedId = Annotated[int, Path(ge=1, le=2**63 - 1)]
Since = Annotated[
    datetime | None,
    Query(description="First seen at or after this date or time (UTC unless it says otherwise)."),
]
Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=10**9)]


class FeedIn(BaseModel):
    """A feed to follow, or a page that names one; without `canonicalize` it is added as it is, unasked."""

    url: Url
    canonicalize: bool = True


class FeedOut(BaseModel):
    """A feed and how it is; user names and passwords are out of sight."""

    id: int
    url: str
    title: str
    folder: str
    status: str
    last_checked_at: str | None
    failures: int
    failure: str
    next_check_at: str | None
    format: str
    hubs: list[str]


class AddedOut(BaseModel):
    """What became of a feed: `url` is the subscription, `result` says whether it is new or was known already."""

    model_config = ConfigDict(from_attributes=True)

    result: AddResult
    input_url: str
    url: str
    title: str
    aliases: list[str]
    reason: str
    feed_id: int


class QueuedOut(BaseModel):
    """Whether a poll was queued; false where one was waiting already."""

    queued: bool


class ItemOut(BaseModel):
    """An entry as a feed shows it."""

    entry_id: int
    feed_url: str
    title: str
    url: str
    dedupe_key: str
    match_confidence: str
    first_seen_at: str
    last_seen_at: str


@router.get("/feeds", response_model=list[FeedOut], summary="The feeds that are followed")
async def list_feeds(request: Request) -> list[dict[str, Any]]:
    return [_shown(feed) for feed in await service(request).feeds.all()]


@router.post(
    "/feeds",
    response_model=AddedOut,
    responses={201: {"model": AddedOut, "description": "Created"}, **said(400, 422, 424)},
    summary="Follow a feed",
)
async def add_one_feed(request: Request, body: FeedIn, response: Response) -> object:
    """For admins. A feed that is followed already, under whatever URL, is not added again: 200 says which it is."""
    require_admin(request)
    parts = service(request)
    if body.canonicalize:
        added = await add_feed(body.url, parts.feeds, now=parts.clock(), fetch=parts.client.fetch)
    else:
        read_url(body.url)
        [added] = await import_unfetched([OpmlFeed(body.url)], parts.feeds, now=parts.clock())
    if added.result is AddResult.NEW:
        response.status_code = 201
        response.headers["Location"] = f"/api/feeds/{added.feed_id}"
    return _masked(added)


@router.get("/feeds/{feed_id}", response_model=FeedOut, responses=said(404), summary="One feed")
async def get_feed(request: Request, feed_id: FeedId) -> dict[str, Any]:
    return _shown(await service(request).feeds.get(feed_id))


@router.delete("/feeds/{feed_id}", status_code=204, responses=said(404), summary="Forget a feed")
async def remove_feed(request: Request, feed_id: FeedId) -> None:
    """For admins. The items that no other feed has shown go with it."""
    require_admin(request)
    await service(request).feeds.get(feed_id)
    await service(request).feeds.remove(feed_id)


@router.post(
    "/feeds/{feed_id}/poll",
    response_model=QueuedOut,
    status_code=202,
    responses=said(404, 409),
    summary="Have a feed polled now",
)
async def poll_feed(request: Request, feed_id: FeedId) -> QueuedOut:
    """For admins. 409 where the feed is stopped; adding it again starts it."""
    require_admin(request)
    feed = await service(request).feeds.get(feed_id)
    if feed.status is not FeedStatus.ACTIVE:
        raise Refused(409, "the feed is stopped; adding it again starts it")
    return QueuedOut(queued=await service(request).jobs.enqueue_poll(feed.id, find_host(feed.url)))


@router.get("/feeds/{feed_id}/items", response_model=list[ItemOut], responses=said(400, 404), summary="Items of a feed")
async def list_feed_items(
    request: Request, feed_id: FeedId, since: Since = None, limit: Limit = 100, offset: Offset = 0
) -> object:
    """The newest first."""
    await service(request).feeds.get(feed_id)
    return await _items(request, since, feed_id=feed_id, limit=limit, offset=offset)


@router.get("/items", response_model=list[ItemOut], responses=said(400), summary="Items of all feeds")
async def list_items(request: Request, since: Since = None, limit: Limit = 100, offset: Offset = 0) -> object:
    """The newest first."""
    return await _items(request, since, limit=limit, offset=offset)


async def _items(request: Request, since: datetime | None, **which: Any) -> object:
    after = None if since is None else _stamp(since)
    found = await service(request).feeds.items(after, **which)
    return [
        replace(each, feed_url=mask_credentials(each.feed_url), dedupe_key=mask_key(each.dedupe_key)) for each in found
    ]


def _stamp(when: datetime) -> str:
    try:
        return stamp(when if when.tzinfo else when.replace(tzinfo=UTC))
    except OverflowError:  # the last hours of the year 9999 in another zone
        return stamp(datetime.max.replace(tzinfo=UTC) if when.year > 1 else datetime.min.replace(tzinfo=UTC))


def _shown(feed: FeedState) -> dict[str, Any]:
    values = {name: getattr(feed, name) for name in FeedOut.model_fields}
    return values | {"url": mask_credentials(feed.url), "hubs": [mask_credentials(hub) for hub in feed.hubs.split()]}


def _masked(added: AddOutcome) -> AddOutcome:
    return replace(
        added,
        input_url=mask_credentials(added.input_url),
        url=mask_credentials(added.url),
        aliases=tuple(mask_credentials(alias) for alias in added.aliases),
    )
