"""The list of feeds with their health, and OPML in and out (contract U2)."""

from __future__ import annotations

import asyncio
from collections import Counter
from enum import StrEnum
from itertools import groupby
from typing import Annotated

from fastapi import Query, Request, Response

from canonry.errors import CanonryError, StoreError, mask_credentials
from canonry.feeds.feed_activity import NO_ACTIVITY, load_activity
from canonry.feeds.feed_health import FeedHealth
from canonry.feeds.opml import OpmlFeed, read_opml, write_opml
from canonry.feeds.removed_feeds import list_removed_feeds
from canonry.feeds.subscriptions import AddResult, import_unfetched
from canonry.net.response import find_host
from canonry.server.dependencies import get_service, require_admin
from canonry.server.pages.feed_rows import FeedRow, make_feed_row
from canonry.server.pages.forms import get_file, page_router
from canonry.server.pages.rendering import render

router = page_router()
_Text = Annotated[str, Query(max_length=1000)]
_NOTICES = {"removed": "Feed removed."}
_MAX_LISTED_ROWS = 200  # of an import


class FeedSelection(StrEnum):
    """Which feeds are listed."""

    ALL = "all"
    PROBLEMS = "problems"
    PAUSED = "paused"


@router.get("/feeds")
async def list_feeds(
    request: Request, show: FeedSelection = FeedSelection.ALL, q: _Text = "", notice: _Text = ""
) -> Response:
    return await _render_list(request, show=show, words=q, notice=notice)


@router.get("/feeds/export.opml")
async def export_opml(request: Request) -> Response:
    """Download the feeds; only admins get the user names and passwords in URLs."""
    service = get_service(request)
    show = str if request.state.user.is_admin else mask_credentials
    rows = [
        OpmlFeed(show(feed.url), feed.shown_title, feed.folder, site_url=show(feed.site_url))
        for feed in await service.feeds.list_all()
    ]
    headers = {"Content-Disposition": 'attachment; filename="feeds.opml"'}
    return Response(write_opml(rows, service.clock()), headers=headers, media_type="text/x-opml; charset=utf-8")


@router.post("/feeds/import")
async def import_opml(request: Request) -> Response:
    """Follow the feeds of a file without a request; then poll them."""
    require_admin(request)
    service = get_service(request)
    file = get_file(await request.form(), "file")
    if file is None:
        return await _render_list(request, file_error="Choose a file first.")
    try:
        rows = read_opml(await file.read(), file=file.filename or "OPML")
        outcomes = await import_unfetched(rows, service.feeds, now=service.clock())
    except StoreError:
        raise
    except CanonryError as error:
        return await _render_list(request, file_error=str(error))
    new = [outcome for outcome in outcomes if outcome.result is AddResult.NEW and outcome.feed_id is not None]
    await service.jobs.enqueue_polls((outcome.feed_id or 0, find_host(outcome.url)) for outcome in new)
    listed = [outcome for outcome in outcomes if outcome.result is not AddResult.NEW]
    return render(
        request,
        "feeds_imported.html",
        counts=Counter(outcome.result for outcome in outcomes),
        total=len(outcomes),
        outcomes=listed[:_MAX_LISTED_ROWS],
        omitted=max(0, len(listed) - _MAX_LISTED_ROWS),
    )


async def _render_list(
    request: Request,
    *,
    show: FeedSelection = FeedSelection.ALL,
    words: str = "",
    notice: str = "",
    file_error: str = "",
) -> Response:
    service = get_service(request)
    feeds, activity = await asyncio.gather(service.feeds.list_all(), load_activity(service.database, service.clock()))
    removed = await list_removed_feeds(service.database, service.clock()) if request.state.user.is_admin else []
    rows = [make_feed_row(feed, activity.get(feed.id, NO_ACTIVITY)) for feed in feeds]
    counts = {
        FeedSelection.ALL: len(rows),
        FeedSelection.PROBLEMS: sum(row.has_problem for row in rows),
        FeedSelection.PAUSED: sum(row.health is FeedHealth.PAUSED for row in rows),
    }
    shown = sorted((row for row in rows if _is_shown(row, show, words)), key=_sort_by_folder_and_title)
    return render(
        request,
        "feeds.html",
        status=400 if file_error else 200,
        folders=[(folder, list(group)) for folder, group in groupby(shown, key=lambda row: row.folder)],
        counts=counts,
        show=show,
        words=words,
        file_error=file_error,
        removed=removed,
        now=service.clock(),
        notice=_NOTICES.get(notice, ""),
        notice_name=notice if notice in _NOTICES else "",
    )


def _is_shown(row: FeedRow, show: FeedSelection, words: str) -> bool:
    if show is FeedSelection.PROBLEMS and not row.has_problem:
        return False
    if show is FeedSelection.PAUSED and row.health is not FeedHealth.PAUSED:
        return False
    text = f"{row.title} {row.url} {row.folder}".casefold()
    return all(word in text for word in words.casefold().split())


def _sort_by_folder_and_title(row: FeedRow) -> tuple[str, str, int]:
    return (row.folder, row.title.casefold(), row.id)
