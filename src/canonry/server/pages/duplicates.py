"""Bookmarks that look the same, side by side: merge them, and take it back."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request, Response

from canonry.server.api.bookmarks import owner, service
from canonry.server.pages.forms import page_router, see, text_of
from canonry.server.pages.rendering import render
from canonry.server.problems import Refused

router = page_router()
GroupId = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
_NOTICES = {"merged": "Merged into one.", "undone": "Undone: every bookmark is as it was."}
_WHY = {
    "review": "merged here",
    "expansion": "a short link led to the same place",
    "policy": "the same under a newer policy",
}


@router.get("/duplicates")
async def review(request: Request, notice: Annotated[str, Query(max_length=20)] = "") -> Response:
    parts = service(request)
    return render(
        request,
        "duplicates.html",
        groups=await parts.duplicates.list_groups(owner(request)),
        merges=await parts.duplicates.list_merges(owner(request)),
        why=_WHY,
        notice=_NOTICES.get(notice, ""),
    )


@router.post("/duplicates/{group_id}/merge")
async def merge(request: Request, group_id: GroupId) -> Response:
    keep = text_of(await request.form(), "keep")
    if not keep.isdecimal() or len(keep) > 18:
        raise Refused(400, "say which bookmark to keep")
    parts = service(request)
    await parts.duplicates.merge(owner(request), group_id, parts.clock(), keep=int(keep))
    return see("/duplicates?notice=merged")


@router.post("/duplicates/{group_id}/undo")
async def undo(request: Request, group_id: GroupId) -> Response:
    parts = service(request)
    await parts.duplicates.undo(owner(request), group_id, parts.clock())
    return see("/duplicates?notice=undone")
