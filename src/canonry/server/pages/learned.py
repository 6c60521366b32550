"""Review learned rules: what each says, two pairs of URLs, and what accepting it would change."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from canonry.learner.review import Review
from canonry.server.dependencies import RowId, get_service, require_admin
from canonry.server.pages.forms import page_router, redirect
from canonry.server.pages.rendering import render

router = page_router()
_NOTICES = {
    "accepted": "Accepted. A background job gives the bookmarks their new URLs.",
    "refused": "Refused. The rule is not proposed again.",
    "undone": "Undone. A background job restores the bookmarks as they were.",
}


@router.get("/learned")
async def show_learned_rules(request: Request, notice: Annotated[str, Query(max_length=20)] = "") -> Response:
    rules = await _open_review(request).store.list_all()
    return render(
        request,
        "learned.html",
        rules=rules,
        notice=_NOTICES.get(notice, ""),
        notice_name=notice if notice in _NOTICES else "",
    )


@router.get("/learned/{rule_id}")
async def preview_learned_rule(request: Request, rule_id: RowId) -> Response:
    """Show what accepting a rule would change, before anything changes."""
    review = _open_review(request)
    rule = await review.store.get(rule_id)
    return render(request, "learned_rule.html", rule=rule, plan=await review.preview(rule_id))


@router.post("/learned/{rule_id}/accept")
async def accept_learned_rule(request: Request, rule_id: RowId) -> Response:
    await _open_review(request).accept(rule_id)
    return redirect("/learned?notice=accepted")


@router.post("/learned/{rule_id}/refuse")
async def refuse_learned_rule(request: Request, rule_id: RowId) -> Response:
    await _open_review(request).refuse(rule_id)
    return redirect("/learned?notice=refused")


@router.post("/learned/{rule_id}/undo")
async def undo_learned_rule(request: Request, rule_id: RowId) -> Response:
    await _open_review(request).undo(rule_id)
    return redirect("/learned?notice=undone")


def _open_review(request: Request) -> Review:
    require_admin(request)
    service = get_service(request)
    return Review(service.database, service.bookmark_rekeys, service.clock)
