"""`/api/learned`: review of learned rules; for admins (contract L5)."""

from __future__ import annotations

from fastapi import APIRouter, Request

from canonry.learner.proposal_store import Proposal
from canonry.learner.review import Review
from canonry.rekey.key_counts import RekeySummary
from canonry.server.dependencies import RowId, get_service, require_admin
from canonry.server.problems import describe_problems

router = APIRouter(prefix="/api/learned", tags=["learned rules"])


@router.get("", response_model=list[Proposal], summary="Learned rules")
async def list_learned_rules(request: Request) -> list[Proposal]:
    """Those to review first. `canonry learn --propose` adds rules."""
    return await _open_review(request).store.list_all()


@router.get(
    "/{rule_id}/diff", response_model=RekeySummary, responses=describe_problems(404), summary="What a rule would change"
)
async def preview_learned_rule(request: Request, rule_id: RowId) -> RekeySummary:
    """Counts and examples of the bookmarks that get another URL; nothing is changed."""
    return await _open_review(request).preview(rule_id)


@router.post(
    "/{rule_id}/accept", response_model=Proposal, responses=describe_problems(400, 404, 409), summary="Accept a rule"
)
async def accept_learned_rule(request: Request, rule_id: RowId) -> Proposal:
    """The policy of bookmarks gets the rule, as a new overrides digest; a background job rekeys all bookmarks."""
    return await _open_review(request).accept(rule_id)


@router.post(
    "/{rule_id}/refuse", response_model=Proposal, responses=describe_problems(404, 409), summary="Refuse a rule"
)
async def refuse_learned_rule(request: Request, rule_id: RowId) -> Proposal:
    """The rule is not proposed again."""
    return await _open_review(request).refuse(rule_id)


@router.post(
    "/{rule_id}/undo", response_model=Proposal, responses=describe_problems(404, 409), summary="Undo a decision"
)
async def undo_learned_rule(request: Request, rule_id: RowId) -> Proposal:
    """Every bookmark that an accepted rule moved is restored; 409 if rules were accepted after it."""
    return await _open_review(request).undo(rule_id)


def _open_review(request: Request) -> Review:
    require_admin(request)
    service = get_service(request)
    return Review(service.database, service.bookmark_rekeys, service.clock)
