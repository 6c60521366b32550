"""`/api/admin`: how the service is doing, and bookmarks under a newer policy; for admins (contract B7)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field

from canonry.bookmarks.usage import Usage, summarize_usage
from canonry.server.api.bookmarks import service
from canonry.server.problems import Refused, said

router = APIRouter(prefix="/api/admin", tags=["admin"])
_PENDING_COUNTED = 1_000_000


class BucketOut(BaseModel):
    """Normalizations that took at most so many microseconds, and more than the bucket before."""

    microseconds: int | None = Field(description="null: any longer.")
    count: int


class HourOut(BaseModel):
    """What happened in an hour, named as `2026-01-31T10` (UTC)."""

    hour: str
    normalizations: int
    created: int
    duplicates_avoided: int
    cache_hits: int
    cache_misses: int
    expansions: dict[str, int]
    rules: dict[str, int]


class UsageOut(BaseModel):
    """What happened since a time, in all and by the hour."""

    normalizations: int
    latency: list[BucketOut]
    created: int
    duplicates_avoided: int
    cache_hits: int
    cache_misses: int
    cache_hit_rate: float | None = Field(description="null where nothing was looked up.")
    expansions: dict[str, int]
    rules: dict[str, int]
    hours: list[HourOut]


class StatisticsOut(UsageOut):
    """The same, and how much there is now."""

    users: int
    bookmarks: int
    pending: int = Field(description="Short links that are still to be followed.")


class BookmarkRekeyIn(BaseModel):
    """The policy to rekey all bookmarks to."""

    policy: Annotated[str, Field(max_length=100, examples=["bookmark@1"])]


class BookmarkRekeyOut(BaseModel):
    """A rekey of all bookmarks and its progress; `refused` bookmarks keep their URL."""

    id: int
    to_policy: str
    total: int
    done: int
    changed: int
    merged: int
    refused: int
    started_at: str
    finished_at: str | None


@router.get("/statistics", response_model=StatisticsOut, summary="How the service is doing")
async def get_statistics(request: Request, days: Annotated[int, Query(ge=1, le=90)] = 7) -> dict[str, Any]:
    require_admin(request)
    parts = service(request)
    usage = await usage_since(request, days)
    return {
        **UsageOut.model_validate(usage, from_attributes=True).model_dump(),
        "users": len(await parts.users.list_users()),
        "bookmarks": await parts.bookmarks.store.count(),
        "pending": len(await parts.bookmarks.store.list_pending_expansions(parts.clock(), _PENDING_COUNTED)),
    }


@router.post(
    "/renormalizations",
    response_model=BookmarkRekeyOut,
    status_code=202,
    responses=said(400),
    summary="Rekey all bookmarks to a policy",
)
async def start_bookmark_rekey(request: Request, body: BookmarkRekeyIn, response: Response) -> object:
    """New bookmarks use the policy at once; a background job moves the others. A repeated call changes nothing."""
    require_admin(request)
    run = await service(request).bookmark_rekeys.start(body.policy)
    response.headers["Location"] = f"/api/admin/renormalizations/{run.id}"
    return run


@router.get("/renormalizations", response_model=list[BookmarkRekeyOut], summary="The latest rekeys of bookmarks")
async def list_bookmark_rekeys(request: Request) -> object:
    require_admin(request)
    return await service(request).bookmark_rekeys.store.list_latest()


@router.get(
    "/renormalizations/{run_id}", response_model=BookmarkRekeyOut, responses=said(404), summary="One rekey of bookmarks"
)
async def get_bookmark_rekey(request: Request, run_id: Annotated[int, Path(ge=1, le=2**63 - 1)]) -> object:
    require_admin(request)
    return await service(request).bookmark_rekeys.store.get(run_id)


def require_admin(request: Request) -> None:
    """Refused for everybody else."""
    if not request.state.user.is_admin:
        raise Refused(403, "this is for admins")


async def usage_since(request: Request, days: int) -> Usage:
    """What was counted in the last days, this hour included."""
    parts = service(request)
    await parts.bookmarks.statistics.flush()
    now = parts.clock()
    since = now - timedelta(days=days)
    return await asyncio.to_thread(summarize_usage, await parts.bookmarks.statistics.get_hourly(since), since, now)
