"""`/api/bookmarks`: keep, find, change, delete (contract B3, B4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import ValidationError

from canonry.bookmarks.bookmark import BookmarkSearch, OnDuplicate, PutOutcome
from canonry.bookmarks.draft import Draft
from canonry.bookmarks.url_pipeline import MAX_URL_CHARS
from canonry.server.api.models import BookmarkChange, BookmarkOut, NewBookmark, PutAnswer
from canonry.server.problems import Refused, said
from canonry.server.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from canonry.bookmarks.bookmark import Bookmark, PutResult


_ALL = "/api/bookmarks"


class PlainRequests(APIRoute):
    """A route whose plainest request, which is nearly every one, is read without FastAPI's search for parameters.

    That search takes longer than all the rest. What is not plain, or wrong, goes through it.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        usual = super().get_route_handler()
        if self.path != _ALL:
            return usual

        async def answer(request: Request) -> Response:
            arguments = await _plain_arguments(request)
            return await (usual(request) if arguments is None else self.endpoint(request, **arguments))

        return answer


async def _plain_arguments(request: Request) -> dict[str, Any] | None:
    """A body and no parameters, or the one parameter `url`; None for all else."""
    if request.method == "PUT" and not request.scope["query_string"]:
        try:
            return {"body": NewBookmark.model_validate_json(await request.body())}
        except ValidationError:
            return None
    given = request.query_params.multi_items()
    return {"url": given[0][1]} if request.method == "GET" and [name for name, _ in given] == ["url"] else None


router = APIRouter(prefix=_ALL, tags=["bookmarks"], route_class=PlainRequests)
BookmarkId = Annotated[int, Path(ge=1, le=2**63 - 1)]
Normalize = Annotated[bool, Query(description="false is the same as exact_url=true.")]
Exact = Annotated[bool, Query(description="Keep the URL exactly as it is: not normalized, not expanded.")]
IfMatch = Annotated[str | None, Header(description="Only if the bookmark still has this ETag.", max_length=1000)]
_LISTED = Annotated[str, Query(max_length=1000)]


@router.put(
    "",
    response_model=PutAnswer,
    responses={201: {"model": PutAnswer, "description": "Created"}, **said(400, 409)},
    summary="Keep a bookmark",
)
async def put_bookmark(
    request: Request,
    body: NewBookmark,
    normalize: Normalize = True,
    exact_url: Exact = False,
    update: Annotated[bool, Query(description="The same as on_duplicate=update.")] = False,
    on_duplicate: Annotated[OnDuplicate | None, Query(description="What to do where the URL is kept already.")] = None,
) -> Response:
    fields = body.given()
    put = await service(request).bookmarks.put(
        owner(request),
        Draft(body.url),
        exact_url=exact_url or not normalize,
        on_duplicate=on_duplicate or (OnDuplicate.UPDATE if update else OnDuplicate.RETURN),
        fields=fields,
    )
    return put_answer(put)


@router.get("", response_model=list[BookmarkOut], responses=said(400), summary="Find or list bookmarks")
async def list_bookmarks(
    request: Request,
    url: Annotated[str | None, Query(max_length=MAX_URL_CHARS, description="The bookmark a URL leads to.")] = None,
    exact_url: Exact = False,
    normalize: Normalize = True,
    q: Annotated[_LISTED, Query(description="Words that all must be in the texts or URLs of a bookmark.")] = "",
    tag: _LISTED = "",
    folder: _LISTED = "",
    to_read: bool | None = None,
    trash: Annotated[bool, Query(description="What is in the trash instead.")] = False,
    cursor: Annotated[str | None, Query(max_length=200, description="From the Link header of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    parts = service(request)
    if url is not None:
        found = await parts.bookmarks.find(owner(request), url, exact_url=exact_url or not normalize)
        return JSONResponse([shown(each) for each in found])
    try:
        page = await parts.bookmarks.store.search(
            owner(request), BookmarkSearch(q, tag, folder, to_read, trash), cursor=cursor, limit=limit
        )
    except ValueError:
        raise Refused(400, "cursor: not one of ours") from None
    headers: dict[str, str] = {}
    if page.next_cursor:
        following = request.url.include_query_params(cursor=page.next_cursor)
        headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
    return JSONResponse([shown(each) for each in page.bookmarks], headers=headers)


@router.get("/{bookmark_id}", response_model=BookmarkOut, responses=said(404), summary="One bookmark")
async def get_bookmark(
    request: Request,
    bookmark_id: BookmarkId,
    if_none_match: Annotated[str | None, Header(max_length=1000)] = None,
) -> Response:
    kept = await service(request).bookmarks.store.get(owner(request), bookmark_id)
    if if_none_match and kept.etag in {each.strip() for each in if_none_match.split(",")}:
        return Response(status_code=304, headers={"ETag": kept.etag})
    return bookmark_answer(kept)


@router.put(
    "/{bookmark_id}", response_model=BookmarkOut, responses=said(400, 404, 409, 412), summary="Change a bookmark"
)
async def change_bookmark(
    request: Request,
    bookmark_id: BookmarkId,
    body: BookmarkChange,
    normalize: Normalize = True,
    exact_url: Exact = False,
    if_match: IfMatch = None,
) -> Response:
    changed = await service(request).bookmarks.edit(
        owner(request), bookmark_id, body.given(), url=body.url, exact_url=exact_url or not normalize, etag=if_match
    )
    return bookmark_answer(changed)


@router.delete("/{bookmark_id}", response_model=BookmarkOut, responses=said(404, 412), summary="To the trash")
async def delete_bookmark(request: Request, bookmark_id: BookmarkId, if_match: IfMatch = None) -> Response:
    """The trash empties after 30 days."""
    parts = service(request)
    gone = await parts.bookmarks.store.trash(owner(request), bookmark_id, parts.clock(), etag=if_match)
    return bookmark_answer(gone)


@router.post(
    "/{bookmark_id}/restore", response_model=BookmarkOut, responses=said(404, 409), summary="Back from the trash"
)
async def restore_bookmark(request: Request, bookmark_id: BookmarkId) -> Response:
    parts = service(request)
    return bookmark_answer(await parts.bookmarks.store.restore(owner(request), bookmark_id, parts.clock()))


def service(request: Request) -> Service:
    """The parts the application was made with."""
    found = request.app.state.service
    assert isinstance(found, Service)
    return found


def owner(request: Request) -> int:
    """Whose bookmarks this request is about."""
    return int(request.state.user.id)


def shown(kept: Bookmark) -> dict[str, Any]:
    """A bookmark as JSON has it: its fields."""
    return {name: getattr(kept, name) for name in BookmarkOut.model_fields}


def bookmark_answer(kept: Bookmark) -> Response:
    """A bookmark with its ETag."""
    return JSONResponse(shown(kept), headers={"ETag": kept.etag})


def put_answer(put: PutResult) -> Response:
    """What a put did: 201 where the bookmark is new."""
    is_new = put.outcome is PutOutcome.CREATED
    headers = {"ETag": put.bookmark.etag}
    if is_new:
        headers["Location"] = f"/api/bookmarks/{put.bookmark.id}"
    return JSONResponse({**shown(put.bookmark), "outcome": put.outcome}, 201 if is_new else 200, headers)
