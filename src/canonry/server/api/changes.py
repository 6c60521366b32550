"""`/api/changes`, `/api/webhooks`: new and updated items of all feeds, in the order in which they were stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from canonry.core.url import read_url
from canonry.errors import FailureKind
from canonry.feeds.changes import MAX_PAGE_CHANGES, ChangeFeed, ChangePage
from canonry.feeds.webhook_store import WebhookStore
from canonry.feeds.webhooks import Deliveries, Webhook, mask_webhook
from canonry.server.bookmark_input import Url
from canonry.server.dependencies import RowId, get_service, require_admin
from canonry.server.problems import describe_problems

router = APIRouter(prefix="/api", tags=["feeds"])
_MAX_NUMBER = 2**63 - 1
After = Annotated[
    int | None,
    Query(ge=0, le=_MAX_NUMBER, description="Only changes after this number; by default all that are stored."),
]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_CHANGES)]


class WebhookIn(BaseModel):
    """A URL that gets the changes after a number, or by default those to come."""

    url: Url
    after: Annotated[int | None, Field(ge=0, le=_MAX_NUMBER)] = None


@dataclass(frozen=True, slots=True)
class AddedWebhook:
    """A new webhook and the secret that signs its requests, which is shown only this once."""

    webhook: Webhook
    secret: str


@dataclass(frozen=True, slots=True)
class DeliveryTest:
    """How the server of a webhook answered a request without changes."""

    is_accepted: bool
    kind: FailureKind | None = None
    reason: str = ""


@router.get(
    "/changes", response_model=ChangePage, responses=describe_problems(400, 410), summary="New and updated items"
)
async def list_changes(request: Request, after: After = None, limit: Limit = 100) -> ChangePage:
    """In the order in which they were stored, each with a number. Ask again with `after` set to `next`: no change is
    missed, also with many writers. Changes are stored for 365 days; 410 if some after this number are not any more.
    """
    return await ChangeFeed(get_service(request).database).read(after, limit=limit)


@router.get("/webhooks", response_model=list[Webhook], responses=describe_problems(403), summary="List webhooks")
async def list_webhooks(request: Request) -> list[Webhook]:
    """For admins."""
    return [mask_webhook(each) for each in await _open_store(request).list_all()]


@router.post(
    "/webhooks",
    response_model=AddedWebhook,
    status_code=201,
    responses=describe_problems(400, 403, 410),
    summary="Add a webhook",
)
async def add_webhook(request: Request, body: WebhookIn, response: Response) -> AddedWebhook:
    """For admins. Changes are delivered by POST, in order and at least once, signed as Standard Webhooks describes."""
    store, service = _open_store(request), get_service(request)
    url = read_url(body.url)
    service.client.guard.check_url(url)
    added, secret = await store.add(url, service.clock(), after=body.after)
    response.headers["Location"] = f"/api/webhooks/{added.id}"
    return AddedWebhook(mask_webhook(added), secret)


@router.get(
    "/webhooks/{webhook_id}", response_model=Webhook, responses=describe_problems(403, 404), summary="One webhook"
)
async def get_webhook(request: Request, webhook_id: RowId) -> Webhook:
    """For admins."""
    return mask_webhook(await _open_store(request).get(webhook_id))


@router.delete(
    "/webhooks/{webhook_id}", status_code=204, responses=describe_problems(403, 404), summary="Remove a webhook"
)
async def remove_webhook(request: Request, webhook_id: RowId) -> None:
    """For admins."""
    await _open_store(request).remove(webhook_id)


@router.post(
    "/webhooks/{webhook_id}/resume",
    response_model=Webhook,
    responses=describe_problems(403, 404),
    summary="Resume a paused webhook",
)
async def resume_webhook(request: Request, webhook_id: RowId) -> Webhook:
    """For admins. Delivery continues with the first change that it lacks."""
    return mask_webhook(await _open_store(request).resume(webhook_id))


@router.post(
    "/webhooks/{webhook_id}/test",
    response_model=DeliveryTest,
    responses=describe_problems(403, 404),
    summary="Send a test request to a webhook",
)
async def send_test(request: Request, webhook_id: RowId) -> DeliveryTest:
    """For admins. The request is signed and has no changes."""
    store, service = _open_store(request), get_service(request)
    failure = await Deliveries(store, service.client.fetch, clock=service.clock).send_test(webhook_id)
    return DeliveryTest(is_accepted=True) if failure is None else DeliveryTest(False, failure.kind, failure.reason)


def _open_store(request: Request) -> WebhookStore:
    require_admin(request)
    return WebhookStore(get_service(request).database)
