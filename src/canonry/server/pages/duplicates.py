"""Bookmarks that look the same, side by side: merge them, and take it back."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from canonry.server.dependencies import GroupId, get_owner_id, get_service
from canonry.server.pages.forms import page_router, see, text_of
from canonry.server.pages.rendering import render
from canonry.server.problems import RequestRefused

router = page_router()
_NOTICES = {"merged": "Merged into one.", "undone": "Undone: every bookmark is as it was."}
_WHY = {
    "review": "merged here",
    "expansion": "a short link led to the same place",
    "policy": "the same under a newer policy",
}


@router.get("/duplicates")
async def review(request: Request, notice: Annotated[str, Query(max_length=20)] = "") -> Response:
    service = get_service(request)
    return render(
        request,
        "duplicates.html",
        groups=await service.duplicates.list_groups(get_owner_id(request)),
        merges=await service.duplicates.list_merges(get_owner_id(request)),
        why=_WHY,
        notice=_NOTICES.get(notice, ""),
    )


@router.post("/duplicates/{group_id}/merge")
async def merge(request: Request, group_id: GroupId) -> Response:
    keep = text_of(await request.form(), "keep")
    if not keep.isdecimal() or len(keep) > 18:
        raise RequestRefused(400, "say which bookmark to keep")
    service = get_service(request)
    await service.duplicates.merge(get_owner_id(request), group_id, service.clock(), keep=int(keep))
    return see("/duplicates?notice=merged")


@router.post("/duplicates/{group_id}/undo")
async def undo(request: Request, group_id: GroupId) -> Response:
    service = get_service(request)
    await service.duplicates.undo(get_owner_id(request), group_id, service.clock())
    return see("/duplicates?notice=undone")
