"""Review duplicates side by side, merge them, and undo merges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Query, Request, Response

from canonry.evidence.same_page import Evidence
from canonry.server.dependencies import GroupId, get_owner_id, get_service
from canonry.server.pages.forms import get_text, page_router, redirect
from canonry.server.pages.rendering import render
from canonry.server.problems import RequestRefused

if TYPE_CHECKING:
    from starlette.datastructures import FormData

router = page_router()
_GROUPS_PER_PAGE = 25
_MAX_START = 1_000_000
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
async def show_duplicates(
    request: Request,
    notice: Annotated[str, Query(max_length=20)] = "",
    start: Annotated[int, Query(ge=0, le=_MAX_START)] = 0,
) -> Response:
    service = get_service(request)
    page = await service.duplicates.get_page(get_owner_id(request), start=start, limit=_GROUPS_PER_PAGE)
    following = start + _GROUPS_PER_PAGE
    return render(
        request,
        "duplicates.html",
        groups=page.groups,
        total=page.total,
        start=start,
        following=following if following < page.total else None,
        urls={each.id: each.url for group in page.groups for each in group.bookmarks},
        merges=await service.duplicates.list_merges(get_owner_id(request)),
        merge_reasons=_MERGE_REASONS,
        evidence=_EVIDENCE,
        pending=await service.bookmarks.pages.count_pending(get_owner_id(request)),
        notice=_NOTICES.get(notice, ""),
        notice_name=notice if notice in _NOTICES else "",
    )


@router.post("/duplicates/{group_id}/merge")
async def merge_group(request: Request, group_id: GroupId) -> Response:
    form = await request.form()
    keep = get_text(form, "keep")
    if not keep.isdecimal() or len(keep) > 18:
        raise RequestRefused(400, "Choose the bookmark to keep.")
    service = get_service(request)
    await service.duplicates.merge(get_owner_id(request), group_id, service.clock(), keep=int(keep))
    return _show_again(form, "merged")


@router.post("/duplicates/merge-proven")
async def merge_proven(request: Request) -> Response:
    service = get_service(request)
    await service.duplicates.merge_proven(get_owner_id(request), service.clock())
    return redirect("/duplicates?notice=proven")


@router.post("/duplicates/{group_id}/refuse")
async def refuse_group(request: Request, group_id: GroupId) -> Response:
    service = get_service(request)
    await service.duplicates.refuse(get_owner_id(request), group_id, service.clock())
    return _show_again(await request.form(), "refused")


@router.post("/duplicates/{group_id}/undo")
async def undo_merge(request: Request, group_id: GroupId) -> Response:
    await get_service(request).bookmark_rekeys.undo_merge(get_owner_id(request), group_id)
    return redirect("/duplicates?notice=undone")


def _show_again(form: FormData, notice: str) -> Response:
    """Return to the groups that were shown: those after a merged one move up."""
    start = get_text(form, "start")
    is_later = start.isdecimal() and len(start) <= len(str(_MAX_START)) and 0 < int(start) <= _MAX_START
    return redirect(f"/duplicates?notice={notice}" + (f"&start={int(start)}" if is_later else ""))
