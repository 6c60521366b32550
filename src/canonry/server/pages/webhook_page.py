"""Where programs get new and updated items: the change feed, and webhooks (contract I10)."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from canonry.core.url import read_url
from canonry.errors import InvalidUrl, UnsafeUrl
from canonry.feeds.changes import ChangeFeed
from canonry.feeds.webhook_store import WebhookStore
from canonry.feeds.webhooks import Deliveries, DeliveryFailure, mask_webhook
from canonry.server.dependencies import RowId, get_service, require_admin
from canonry.server.pages.forms import get_text, page_router, redirect
from canonry.server.pages.rendering import render

router = page_router()
_MAX_URL_CHARS = 10_000
_NOTICES = {"removed": "Webhook removed.", "resumed": "Resumed. Changes are delivered within a minute."}


@router.get("/feeds/webhooks")
async def list_webhooks(request: Request, notice: Annotated[str, Query(max_length=100)] = "") -> Response:
    return await _render(request, notice=notice)


@router.post("/feeds/webhooks")
async def add_webhook(request: Request) -> Response:
    """Add a webhook for the changes to come, and show its secret this once."""
    store, service = _open_store(request), get_service(request)
    given = get_text(await request.form(), "url").strip()
    try:
        url = read_url(given[:_MAX_URL_CHARS])
        service.client.guard.check_url(url)
    except (InvalidUrl, UnsafeUrl) as error:
        message = error.reason if isinstance(error, InvalidUrl) else str(error)
        return await _render(request, url=given, error=message, status=400)
    added, secret = await store.add(url, service.clock())
    return await _render(request, added_id=added.id, secret=secret, status=201)


@router.post("/feeds/webhooks/{webhook_id}/test")
async def send_test(request: Request, webhook_id: RowId) -> Response:
    """Send a request without changes, and show how the server answered."""
    store, service = _open_store(request), get_service(request)
    failure = await Deliveries(store, service.client.fetch, clock=service.clock).send_test(webhook_id)
    return await _render(request, tested_id=webhook_id, failure=failure)


@router.post("/feeds/webhooks/{webhook_id}/resume")
async def resume_webhook(request: Request, webhook_id: RowId) -> Response:
    await _open_store(request).resume(webhook_id)
    return redirect("/feeds/webhooks?notice=resumed")


@router.post("/feeds/webhooks/{webhook_id}/remove")
async def remove_webhook(request: Request, webhook_id: RowId) -> Response:
    await _open_store(request).remove(webhook_id)
    return redirect("/feeds/webhooks?notice=removed")


async def _render(
    request: Request,
    *,
    status: int = 200,
    url: str = "",
    error: str = "",
    added_id: int = 0,
    secret: str = "",
    tested_id: int = 0,
    failure: DeliveryFailure | None = None,
    notice: str = "",
) -> Response:
    """Show the page; `secret` is that of a new webhook, `failure` why a test failed."""
    store = _open_store(request)
    return render(
        request,
        "webhooks.html",
        status=status,
        webhooks=[mask_webhook(each) for each in await store.list_all()],
        last=(await ChangeFeed(store.database).get_bounds()).last,
        url=url,
        error=error,
        added_id=added_id,
        secret=secret,
        tested_id=tested_id,
        failure=failure,
        notice=_NOTICES.get(notice, ""),
        notice_name=notice if notice in _NOTICES else "",
    )


def _open_store(request: Request) -> WebhookStore:
    require_admin(request)
    return WebhookStore(get_service(request).database)
