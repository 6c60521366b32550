"""Review duplicates side by side, merge them, and undo merges."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from canonry.evidence.same_page import Evidence
from canonry.server.dependencies import GroupId, get_owner_id, get_service
from canonry.server.pages.forms import get_text, page_router, redirect
from canonry.server.pages.rendering import render
from canonry.server.problems import RequestRefused

router = page_router()
_NOTICES = {
    "merged": "Merged.",
    "undone": "Merge undone. All bookmarks are restored.",
    "refused": "Noted: these are not the same.",
    "proven": "Merged all proven duplicates. Each merge can be undone below.",
}
_EVIDENCE = {
    Evidence.REDIRECT: "redirects to",
    Evidence.DECLARED: "declares",
    Evidence.SAME_TEXT: "same text as",
    Evidence.SIMILAR_TEXT: "nearly the same text as",
    Evidence.SAME_BYTES: "same bytes as",
}
_MERGE_REASONS = {
    "review": "merged on this page",
    "expansion": "a short link has the same target",
    "policy": "equal under a newer policy",
}


@router.get("/duplicates")
async def show_duplicates(request: Request, notice: Annotated[str, Query(max_length=20)] = "") -> Response:
    service = get_service(request)
    groups = await service.duplicates.list_groups(get_owner_id(request))
    return render(
        request,
        "duplicates.html",
        groups=groups,
        urls={each.id: each.url for group in groups for each in group.bookmarks},
        merges=await service.duplicates.list_merges(get_owner_id(request)),
        merge_reasons=_MERGE_REASONS,
        evidence=_EVIDENCE,
        pending=await service.bookmarks.pages.count_pending(get_owner_id(request)),
        notice=_NOTICES.get(notice, ""),
        notice_name=notice if notice in _NOTICES else "",
    )


@router.post("/duplicates/{group_id}/merge")
async def merge_group(request: Request, group_id: GroupId) -> Response:
    keep = get_text(await request.form(), "keep")
    if not keep.isdecimal() or len(keep) > 18:
        raise RequestRefused(400, "Choose the bookmark to keep.")
    service = get_service(request)
    await service.duplicates.merge(get_owner_id(request), group_id, service.clock(), keep=int(keep))
    return redirect("/duplicates?notice=merged")


@router.post("/duplicates/merge-proven")
async def merge_proven(request: Request) -> Response:
    service = get_service(request)
    await service.duplicates.merge_proven(get_owner_id(request), service.clock())
    return redirect("/duplicates?notice=proven")


@router.post("/duplicates/{group_id}/refuse")
async def refuse_group(request: Request, group_id: GroupId) -> Response:
    service = get_service(request)
    await service.duplicates.refuse(get_owner_id(request), group_id, service.clock())
    return redirect("/duplicates?notice=refused")


@router.post("/duplicates/{group_id}/undo")
async def undo_merge(request: Request, group_id: GroupId) -> Response:
    service = get_service(request)
    await service.duplicates.undo(get_owner_id(request), group_id, service.clock())
    return redirect("/duplicates?notice=undone")
