"""`/api/duplicates`, `/api/merges`: review, merge and un-merge bookmarks of the same page (contract B7, E5)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from canonry.bookmarks.bookmark import Bookmark
from canonry.bookmarks.duplicates import DuplicateGroup, Merge
from canonry.server.api.bookmarks import make_bookmark_response
from canonry.server.dependencies import GroupId, get_owner_id, get_service
from canonry.server.problems import describe_problems

router = APIRouter(prefix="/api", tags=["duplicates"])


class MergeIn(BaseModel):
    """The bookmark to keep; by default the oldest."""

    keep: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None


@router.get("/duplicates", response_model=list[DuplicateGroup], summary="Groups of duplicate bookmarks")
async def list_duplicates(request: Request) -> list[DuplicateGroup]:
    """The 100 largest groups."""
    return await get_service(request).duplicates.list_groups(get_owner_id(request))


@router.post(
    "/duplicates/{group_id}/merge",
    response_model=Bookmark,
    responses=describe_problems(404),
    summary="Merge a group into one bookmark",
)
async def merge_duplicates(request: Request, group_id: GroupId, body: MergeIn | None = None) -> Response:
    """The bookmark that stays gets the tags, texts and archived copies of all."""
    service = get_service(request)
    keep = body.keep if body else None
    merged = await service.duplicates.merge(get_owner_id(request), group_id, service.clock(), keep=keep)
    return make_bookmark_response(merged)


@router.post(
    "/duplicates/{group_id}/undo",
    response_model=list[Bookmark],
    responses=describe_problems(404, 409),
    summary="Undo the last merge of a group",
)
async def undo_merge(request: Request, group_id: GroupId) -> list[Bookmark]:
    """Restores every bookmark of the group; 409 if a newer bookmark has one of the URLs."""
    return await get_service(request).bookmark_rekeys.undo_merge(get_owner_id(request), group_id)


@router.post(
    "/duplicates/{group_id}/refuse",
    status_code=204,
    responses=describe_problems(404),
    summary="Remember that a group is not the same page",
)
async def refuse_duplicates(request: Request, group_id: GroupId) -> None:
    """The group is not listed again, and lookups do not take one of its URLs for another."""
    service = get_service(request)
    await service.duplicates.refuse(get_owner_id(request), group_id, service.clock())


@router.post("/duplicates/merge-proven", response_model=list[Bookmark], summary="Merge all groups that are proven")
async def merge_proven(request: Request) -> list[Bookmark]:
    """Every group with `twins` that `is_proven`, each into its oldest bookmark; each merge can be undone."""
    service = get_service(request)
    return await service.duplicates.merge_proven(get_owner_id(request), service.clock())


@router.get("/merges", response_model=list[Merge], summary="Merges that can be undone")
async def list_merges(request: Request) -> list[Merge]:
    """The 50 latest; `id` is the id of the group."""
    return await get_service(request).duplicates.list_merges(get_owner_id(request))
