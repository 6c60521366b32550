"""`/api/admin`: usage statistics, and rekeying bookmarks to another policy; for admins (contract B7)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from canonry.bookmarks.usage import Usage
from canonry.rekey.bookmark_rekey_store import BookmarkRekey
from canonry.rekey.key_counts import RekeySummary
from canonry.server.dependencies import RowId, get_service, require_admin
from canonry.server.problems import describe_problems
from canonry.server.usage_report import load_usage

router = APIRouter(prefix="/api/admin", tags=["admin"])
_MAX_PENDING_COUNTED = 1_000_000


@dataclass(frozen=True, slots=True)
class ServiceStatistics(Usage):
    """Usage since a time, and how much is stored now; `pending` counts the short links not followed yet."""

    users: int
    bookmarks: int
    pending: int


class BookmarkRekeyIn(BaseModel):
    """The policy to rekey all bookmarks to."""

    policy: Annotated[str, Field(max_length=100, examples=["bookmark@2"])]


@router.get("/statistics", response_model=ServiceStatistics, summary="Usage statistics")
async def get_statistics(request: Request, days: Annotated[int, Query(ge=1, le=90)] = 7) -> ServiceStatistics:
    require_admin(request)
    service = get_service(request)
    usage = await load_usage(service, days)
    store = service.bookmarks.store
    return ServiceStatistics(
        **{field.name: getattr(usage, field.name) for field in fields(usage)},
        users=len(await service.users.list_users()),
        bookmarks=await store.count(),
        pending=len(await store.list_pending_expansions(service.clock(), _MAX_PENDING_COUNTED)),
    )


@router.post(
    "/renormalizations",
    response_model=BookmarkRekey,
    status_code=202,
    responses=describe_problems(400),
    summary="Rekey all bookmarks to a policy",
)
async def start_bookmark_rekey(request: Request, body: BookmarkRekeyIn, response: Response) -> BookmarkRekey:
    """New bookmarks use the policy at once; a background job moves the others. A repeated call changes nothing."""
    require_admin(request)
    run = await get_service(request).bookmark_rekeys.start(body.policy)
    response.headers["Location"] = f"/api/admin/renormalizations/{run.id}"
    return run


@router.post(
    "/renormalizations/preview",
    response_model=RekeySummary,
    responses=describe_problems(400),
    summary="What a rekey of all bookmarks would change",
)
async def preview_bookmark_rekey(request: Request, body: BookmarkRekeyIn) -> RekeySummary:
    """Counts, and ten examples of each kind of change; nothing is changed."""
    require_admin(request)
    return await get_service(request).bookmark_rekeys.plan(body.policy)


@router.post(
    "/renormalizations/{run_id}/undo",
    response_model=BookmarkRekey,
    status_code=202,
    responses=describe_problems(404, 409),
    summary="Undo a rekey of bookmarks",
)
async def undo_bookmark_rekey(request: Request, run_id: RowId) -> BookmarkRekey:
    """New bookmarks use the policy before the rekey at once; a background job restores the others."""
    require_admin(request)
    return await get_service(request).bookmark_rekeys.start_undo(run_id)


@router.get("/renormalizations", response_model=list[BookmarkRekey], summary="The latest rekeys of bookmarks")
async def list_bookmark_rekeys(request: Request) -> list[BookmarkRekey]:
    require_admin(request)
    return await get_service(request).bookmark_rekeys.store.list_latest()


@router.get(
    "/renormalizations/{run_id}",
    response_model=BookmarkRekey,
    responses=describe_problems(404),
    summary="One rekey of bookmarks",
)
async def get_bookmark_rekey(request: Request, run_id: RowId) -> BookmarkRekey:
    require_admin(request)
    return await get_service(request).bookmark_rekeys.store.get(run_id)
