"""`/api/duplicates`, `/api/merges`: bookmarks that look the same, made one and made several again (contract B7)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel

from canonry.server.api.bookmarks import bookmark_answer, owner, service
from canonry.server.api.models import BookmarkOut, Id
from canonry.server.problems import said

router = APIRouter(prefix="/api", tags=["duplicates"])
GroupId = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The id of a group.")]


class GroupOut(BaseModel):
    """Bookmarks that lead to the same place, the oldest first."""

    id: str
    bookmarks: list[BookmarkOut]


class MergeIn(BaseModel):
    """Which bookmark is to stay; the oldest where nothing is said."""

    keep: Id | None = None


class MergedOut(BaseModel):
    """Bookmarks that were made one; `why` is review, expansion or policy."""

    id: str
    kept_id: int
    merged_ids: list[int]
    why: str
    created_at: str


@router.get("/duplicates", response_model=list[GroupOut], summary="Bookmarks that look the same")
async def list_duplicates(request: Request) -> object:
    """The 100 groups with most bookmarks."""
    return await service(request).duplicates.list_groups(owner(request))


@router.post(
    "/duplicates/{group_id}/merge", response_model=BookmarkOut, responses=said(404), summary="Make one of a group"
)
async def merge_duplicates(request: Request, group_id: GroupId, body: MergeIn | None = None) -> Response:
    """The one that stays gets the tags, texts and archives of all."""
    parts = service(request)
    keep = body.keep if body else None
    return bookmark_answer(await parts.duplicates.merge(owner(request), group_id, parts.clock(), keep=keep))


@router.post(
    "/duplicates/{group_id}/undo",
    response_model=list[BookmarkOut],
    responses=said(404, 409),
    summary="Take the last merge of a group back",
)
async def undo_merge(request: Request, group_id: GroupId) -> object:
    """Every bookmark as it was; 409 where one has come since that is in the way."""
    parts = service(request)
    return await parts.duplicates.undo(owner(request), group_id, parts.clock())


@router.get("/merges", response_model=list[MergedOut], summary="Merges that can be undone")
async def list_merges(request: Request) -> object:
    """The 50 latest; `id` is that of the group."""
    return await service(request).duplicates.list_merges(owner(request))
