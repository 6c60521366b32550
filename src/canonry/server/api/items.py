"""`/api/items`: what was ingested, each item once; also as Atom and JSON Feed for feed readers (contract I9)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import JSONResponse

from canonry.core.url import read_url
from canonry.errors import InvalidUrl
from canonry.feeds.feed_values import StoredItem
from canonry.feeds.ingest_report import mask_item
from canonry.feeds.stored_items import ItemPage, ItemSearch, search_items
from canonry.feeds.write_feed import ATOM_MEDIA_TYPE, JSON_FEED_MEDIA_TYPE, FeedHead, write_atom, write_json_feed
from canonry.net.search_fetcher import strip_fragment
from canonry.server.dependencies import RowId, get_public_url, get_service
from canonry.server.problems import RequestRefused, describe_problems
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.datastructures import URL

    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.feed_values import FeedState

router = APIRouter(prefix="/api", tags=["feeds"])
_MAX_ROW_ID = 2**63 - 1
_Time = datetime | None
_Text = Annotated[str, Query(max_length=1000)]


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """The query parameters of every list of items."""

    since: Annotated[
        _Time, Query(description="Items first seen at or after this date or time; UTC unless it has an offset.")
    ] = None
    until: Annotated[_Time, Query(description="Items first seen before this date or time.")] = None
    feed: Annotated[_Text, Query(description="The id or a URL of a feed that carried the items.")] = ""
    folder: Annotated[_Text, Query(description="Items of the feeds in this folder and in folders in it.")] = ""
    q: Annotated[
        _Text, Query(description="Words, at most 50; an item matches if its title or URL contains all of them.")
    ] = ""
    duplicates: Annotated[
        bool, Query(description="Only items that several feeds have, and different items at the same URL.")
    ] = False
    limit: Annotated[int, Query(ge=1, le=1000)] = 100
    offset: Annotated[int, Query(ge=0, le=10**9, description="Items to skip; `cursor` is faster and stable.")] = 0
    cursor: Annotated[str | None, Query(max_length=200, description="From the Link header of the previous page.")] = (
        None
    )


Items = Annotated[ItemQuery, Depends()]
IfNoneMatch = Annotated[str | None, Header(max_length=1000)]


def _describe_document(media_type: str) -> dict[int | str, dict[str, Any]]:
    return {
        200: {"description": "A feed.", "content": {media_type.partition(";")[0]: {}}},
        304: {"description": "Not Modified"},
        **describe_problems(400, 404),
    }


@router.get("/items", response_model=list[StoredItem], responses=describe_problems(400, 404), summary="Items")
async def list_items(request: Request, query: Items) -> Response:
    """The newest first, each once, with the feeds that carried it. The Link header has the URL of the next page."""
    return _make_list_response(request, await _search(request, query))


@router.get(
    "/feeds/{feed_id}/items",
    response_model=list[StoredItem],
    responses=describe_problems(400, 404),
    summary="Items of a feed",
)
async def list_feed_items(request: Request, feed_id: RowId, query: Items) -> Response:
    """The newest first. The Link header has the URL of the next page."""
    return _make_list_response(request, await _search(request, query, feed_id))


@router.get(
    "/items.atom",
    response_class=Response,
    responses=_describe_document(ATOM_MEDIA_TYPE),
    summary="Items as an Atom feed",
)
async def write_items_as_atom(request: Request, query: Items, if_none_match: IfNoneMatch = None) -> Response:
    """For feed readers: the deduplicated items of all feeds, with stable ids.

    A service with users takes the token also as the password of Basic authentication.
    """
    found = await _search(request, query)
    return _make_document_response(request, found, if_none_match, write=write_atom, media_type=ATOM_MEDIA_TYPE)


@router.get(
    "/items.json",
    response_class=Response,
    responses=_describe_document(JSON_FEED_MEDIA_TYPE),
    summary="Items as a JSON Feed",
)
async def write_items_as_json_feed(request: Request, query: Items, if_none_match: IfNoneMatch = None) -> Response:
    """Like the Atom feed, as JSON Feed 1.1."""
    found = await _search(request, query)
    return _make_document_response(
        request, found, if_none_match, write=write_json_feed, media_type=JSON_FEED_MEDIA_TYPE
    )


@router.get(
    "/feeds/{feed_id}/items.atom",
    response_class=Response,
    responses=_describe_document(ATOM_MEDIA_TYPE),
    summary="Items of a feed as an Atom feed",
)
async def write_feed_items_as_atom(
    request: Request, feed_id: RowId, query: Items, if_none_match: IfNoneMatch = None
) -> Response:
    found = await _search(request, query, feed_id)
    return _make_document_response(request, found, if_none_match, write=write_atom, media_type=ATOM_MEDIA_TYPE)


@router.get(
    "/feeds/{feed_id}/items.json",
    response_class=Response,
    responses=_describe_document(JSON_FEED_MEDIA_TYPE),
    summary="Items of a feed as a JSON Feed",
)
async def write_feed_items_as_json_feed(
    request: Request, feed_id: RowId, query: Items, if_none_match: IfNoneMatch = None
) -> Response:
    found = await _search(request, query, feed_id)
    return _make_document_response(
        request, found, if_none_match, write=write_json_feed, media_type=JSON_FEED_MEDIA_TYPE
    )


class _Found(NamedTuple):
    """A page of items and a title for it."""

    page: ItemPage
    title: str


async def _search(request: Request, query: ItemQuery, feed_id: int | None = None) -> _Found:
    feeds = get_service(request).feeds
    feed: FeedState | None = None
    if feed_id is not None or query.feed:
        feed = await (_find_feed(feeds, query.feed) if feed_id is None else feeds.get(feed_id))
    search = ItemSearch(
        since=_to_stamp(query.since),
        until=_to_stamp(query.until),
        feed_id=None if feed is None else feed.id,
        folder=query.folder,
        words=query.q,
        only_duplicates=query.duplicates,
    )
    try:
        page = await search_items(feeds.database, search, cursor=query.cursor, limit=query.limit, offset=query.offset)
    except ValueError:
        raise RequestRefused(400, "cursor: invalid. Use the one in the Link header of the previous page.") from None
    parts = ("canonry", feed.shown_title if feed else "", query.folder, query.q)
    return _Found(page, ": ".join(filter(None, parts)))


async def _find_feed(feeds: FeedStore, given: str) -> FeedState:
    """Return the feed with this id or URL; RequestRefused (404) if it is not followed."""
    if given.isascii() and given.isdecimal() and int(given[:20]) <= _MAX_ROW_ID:
        return await feeds.get(int(given))
    try:
        found = await feeds.find([strip_fragment(read_url(given))])
    except InvalidUrl:
        found = None
    if found is None:
        raise RequestRefused(404, "feed: no feed with this id or URL is followed.")
    return found


def _make_list_response(request: Request, found: _Found) -> Response:
    following = _make_next_url(request.url, found.page)
    headers = {"Link": f'<{following.path}?{following.query}>; rel="next"'} if following else {}
    return JSONResponse([asdict(mask_item(item)) for item in found.page.items], headers=headers)


def _make_document_response(
    request: Request,
    found: _Found,
    if_none_match: str | None,
    *,
    write: Callable[[Sequence[StoredItem], FeedHead], str],
    media_type: str,
) -> Response:
    own_url = get_public_url(request)
    following = _make_next_url(own_url, found.page)
    head = FeedHead(
        found.title,
        str(own_url.remove_query_params(["cursor", "limit", "offset"]).replace(scheme="", netloc="")),
        self_url=str(own_url),
        next_url=str(following or ""),
    )
    body = write(found.page.items, head).encode(errors="replace")
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if if_none_match and etag in {each.strip().removeprefix("W/") for each in if_none_match.split(",")}:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=media_type, headers=headers)


def _make_next_url(url: URL, page: ItemPage) -> URL | None:
    if page.next_cursor is None:
        return None
    return url.remove_query_params("offset").include_query_params(cursor=page.next_cursor)


def _to_stamp(moment: datetime | None) -> str:
    """Return a time as the tables store it; empty for None."""
    if moment is None:
        return ""
    try:
        return stamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except OverflowError:  # the first or last hours of the calendar, in another time zone
        limit = datetime.max if moment.year > 1 else datetime.min
        return stamp(limit.replace(tzinfo=UTC))
