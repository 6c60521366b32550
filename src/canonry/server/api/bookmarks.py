"""`/api/bookmarks`: save, find, change and delete bookmarks (contract B3, B4)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import ValidationError

from canonry.bookmarks.bookmark import Bookmark, BookmarkSearch, BookmarkSort, OnDuplicate, PutOutcome
from canonry.bookmarks.draft import Draft
from canonry.bookmarks.url_pipeline import MAX_URL_CHARS
from canonry.evidence.same_page import Evidence
from canonry.server.bookmark_input import BookmarkChange, NewBookmark
from canonry.server.dependencies import RowId, get_owner_id, get_service
from canonry.server.problems import RequestRefused, describe_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from canonry.bookmarks.bookmark import PutResult


_PREFIX = "/api/bookmarks"
_SEARCH_HELP = (
    'Words, a "phrase", #tag or tag:, site:, folder:, is:unread, and - before what must not be there. '
    "A URL in any spelling finds its bookmark."
)


class FastPathRoute(APIRoute):
    """A route that reads the most common requests without FastAPI's parameter parsing.

    Parsing takes longer than the rest of such a request (docs/decisions/0014-service-speed.md).
    Every other request, and every invalid one, takes FastAPI's usual way.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        usual_handler = super().get_route_handler()
        if self.path != _PREFIX:
            return usual_handler

        async def answer(request: Request) -> Response:
            arguments = await _parse_simple_request(request)
            return await (usual_handler(request) if arguments is None else self.endpoint(request, **arguments))

        return answer


async def _parse_simple_request(request: Request) -> dict[str, Any] | None:
    """Return the arguments of a PUT without parameters or a GET with only `url`; None for any other request."""
    if request.method == "PUT" and not request.scope["query_string"]:
        try:
            return {"body": NewBookmark.model_validate_json(await request.body())}
        except ValidationError:
            return None
    given = request.query_params.multi_items()
    return {"url": given[0][1]} if request.method == "GET" and [name for name, _ in given] == ["url"] else None


router = APIRouter(prefix=_PREFIX, tags=["bookmarks"], route_class=FastPathRoute)
Normalize = Annotated[bool, Query(description="false is the same as exact_url=true.")]
ExactUrl = Annotated[bool, Query(description="Save exactly this URL: do not normalize it, do not follow a short link.")]
IfMatch = Annotated[str | None, Header(description="Only if the bookmark still has this ETag.", max_length=1000)]
_Text = Annotated[str, Query(max_length=1000)]


@dataclass(frozen=True, slots=True)
class SavedBookmark(Bookmark):
    """The bookmark, and what the request did.

    If the page was saved under another URL, `alias` is the URL that was sent, and `evidence` proves that both show it.
    """

    outcome: PutOutcome
    alias: str | None
    evidence: Evidence | None


_FIELDS = tuple(field.name for field in fields(Bookmark))


@router.put(
    "",
    response_model=SavedBookmark,
    responses={201: {"model": SavedBookmark, "description": "Created"}, **describe_problems(400, 409)},
    summary="Save a bookmark",
)
async def put_bookmark(
    request: Request,
    body: NewBookmark,
    normalize: Normalize = True,
    exact_url: ExactUrl = False,
    update: Annotated[bool, Query(description="The same as on_duplicate=update.")] = False,
    on_duplicate: Annotated[OnDuplicate | None, Query(description="What to do if the URL is already saved.")] = None,
) -> Response:
    put = await get_service(request).bookmarks.put(
        get_owner_id(request),
        Draft(body.url),
        exact_url=exact_url or not normalize,
        on_duplicate=on_duplicate or (OnDuplicate.UPDATE if update else OnDuplicate.RETURN),
        fields=body.collect_given_fields(),
    )
    return _make_put_response(put)


@router.get("", response_model=list[Bookmark], responses=describe_problems(400), summary="Find or list bookmarks")
async def list_bookmarks(
    request: Request,
    url: Annotated[str | None, Query(max_length=MAX_URL_CHARS, description="Find the bookmark with this URL.")] = None,
    exact_url: ExactUrl = False,
    normalize: Normalize = True,
    q: Annotated[_Text, Query(description=_SEARCH_HELP)] = "",
    tag: _Text = "",
    folder: _Text = "",
    to_read: bool | None = None,
    trash: Annotated[bool, Query(description="List the trash instead.")] = False,
    cursor: Annotated[
        str | None, Query(max_length=1000, description="From the Link header of the previous page.")
    ] = None,
    sort: BookmarkSort = BookmarkSort.NEWEST,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    service = get_service(request)
    if url is not None:
        found = await service.bookmarks.find(get_owner_id(request), url, exact_url=exact_url or not normalize)
        return JSONResponse([_to_json(bookmark) for bookmark in found])
    try:
        page = await service.bookmarks.search(
            get_owner_id(request), BookmarkSearch(q, tag, folder, to_read, trash, sort), cursor=cursor, limit=limit
        )
    except ValueError:
        raise RequestRefused(400, "cursor: invalid. Use the one in the Link header of the previous page.") from None
    headers: dict[str, str] = {}
    if page.next_cursor:
        following = request.url.include_query_params(cursor=page.next_cursor)
        headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
    return JSONResponse([_to_json(bookmark) for bookmark in page.bookmarks], headers=headers)


@router.get("/{bookmark_id}", response_model=Bookmark, responses=describe_problems(404), summary="One bookmark")
async def get_bookmark(
    request: Request,
    bookmark_id: RowId,
    if_none_match: Annotated[str | None, Header(max_length=1000)] = None,
) -> Response:
    bookmark = await get_service(request).bookmarks.store.get(get_owner_id(request), bookmark_id)
    if if_none_match and bookmark.etag in {each.strip() for each in if_none_match.split(",")}:
        return Response(status_code=304, headers={"ETag": bookmark.etag})
    return make_bookmark_response(bookmark)


@router.put(
    "/{bookmark_id}",
    response_model=Bookmark,
    responses=describe_problems(400, 404, 409, 412),
    summary="Change a bookmark",
)
async def change_bookmark(
    request: Request,
    bookmark_id: RowId,
    body: BookmarkChange,
    normalize: Normalize = True,
    exact_url: ExactUrl = False,
    if_match: IfMatch = None,
) -> Response:
    changed = await get_service(request).bookmarks.edit(
        get_owner_id(request),
        bookmark_id,
        body.collect_given_fields(),
        url=body.url,
        exact_url=exact_url or not normalize,
        etag=if_match,
    )
    return make_bookmark_response(changed)


@router.delete(
    "/{bookmark_id}",
    response_model=Bookmark,
    responses=describe_problems(404, 412),
    summary="Move a bookmark to the trash",
)
async def delete_bookmark(request: Request, bookmark_id: RowId, if_match: IfMatch = None) -> Response:
    """Bookmarks in the trash are deleted after 30 days."""
    service = get_service(request)
    trashed = await service.bookmarks.store.trash(get_owner_id(request), bookmark_id, service.clock(), etag=if_match)
    return make_bookmark_response(trashed)


@router.post(
    "/{bookmark_id}/restore",
    response_model=Bookmark,
    responses=describe_problems(404, 409),
    summary="Restore a bookmark from the trash",
)
async def restore_bookmark(request: Request, bookmark_id: RowId) -> Response:
    service = get_service(request)
    return make_bookmark_response(
        await service.bookmarks.store.restore(get_owner_id(request), bookmark_id, service.clock())
    )


def make_bookmark_response(bookmark: Bookmark) -> Response:
    """Return a bookmark as JSON, with its ETag."""
    return JSONResponse(_to_json(bookmark), headers={"ETag": bookmark.etag})


def _make_put_response(put: PutResult) -> Response:
    is_new = put.outcome is PutOutcome.CREATED
    headers = {"ETag": put.bookmark.etag}
    if is_new:
        headers["Location"] = f"{_PREFIX}/{put.bookmark.id}"
    content = {**_to_json(put.bookmark), "outcome": put.outcome, "alias": put.alias, "evidence": put.evidence}
    return JSONResponse(content, 201 if is_new else 200, headers)


def _to_json(bookmark: Bookmark) -> dict[str, Any]:
    """Return the fields of a bookmark by name; all of their values are JSON already."""
    return {name: getattr(bookmark, name) for name in _FIELDS}
