"""The reading list: the items of all feeds, each once, with what the user has read and saved (contract U2)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from fastapi import Query, Request, Response

from canonry.feeds.item_states import MAX_COUNTED, ItemStateStore
from canonry.feeds.mark_read import mark_all_read, undo_mark_all_read
from canonry.server.dependencies import RowId, get_owner_id, get_service
from canonry.server.pages.forms import choose_own_path, get_text, page_router, redirect
from canonry.server.pages.item_rows import load_item_row, load_item_rows
from canonry.server.pages.reading_filter import ReadingFilter, ReadingView, make_sidebar, name_feed
from canonry.server.pages.rendering import render, wants_fragment
from canonry.server.saved_items import save_items, unsave_items
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from starlette.datastructures import FormData

router = page_router()
_Text = Annotated[str, Query(max_length=1000)]
_MAX_ID_DIGITS = 18
_NOTICES = {"all-read": "Marked as read.", "undone": "Marked as unread again.", "nothing-undone": "Nothing to undo."}


@router.get("/read")
async def show_reading_list(
    request: Request,
    state: ReadingView = ReadingView.UNREAD,
    folder: _Text = "",
    feed: _Text = "",
    q: _Text = "",
    cursor: _Text = "",
    notice: _Text = "",
) -> Response:
    service, owner = get_service(request), get_owner_id(request)
    chosen = ReadingFilter(state, folder.strip("/"), _parse_id(feed), q)
    states = ItemStateStore(service.database)
    items, feeds, unread, total = await asyncio.gather(
        load_item_rows(service, owner, chosen.make_search(owner), cursor=cursor, feed_id=chosen.feed_id),
        service.feeds.list_all(),
        states.count_unread_by_feed(owner),
        states.count_unread(owner),
    )
    feed_names = {each.id: name_feed(each) for each in feeds}
    return render(
        request,
        "read.html",
        items=items,
        chosen=chosen,
        views=tuple(ReadingView),
        sidebar=make_sidebar(feeds, unread, chosen),
        feed_names=feed_names,
        unread_total=total,
        unread_shown=f"{total:,}+" if total >= MAX_COUNTED else f"{total:,}",
        is_later=bool(cursor),
        back=chosen.make_path(cursor=cursor),
        now=service.clock(),
        loaded_at=stamp(service.clock()),
        notice=_NOTICES.get(notice, ""),
        notice_name=notice if notice in _NOTICES else "",
    )


@router.post("/read/all")
async def mark_list_read(request: Request) -> Response:
    """Mark the items of a list as read; those that arrived after the page was made stay unread."""
    form = await request.form()
    service, owner = get_service(request), get_owner_id(request)
    chosen = _read_filter(form)
    search = replace(chosen.make_search_of_all(), until=_read_time(form) or stamp(service.clock()))
    await mark_all_read(service.database, owner, search, now=service.clock())
    return redirect(chosen.make_path(notice="all-read"))


@router.post("/read/all/undo")
async def undo_mark_list_read(request: Request) -> Response:
    chosen = _read_filter(await request.form())
    undone = await undo_mark_all_read(get_service(request).database, get_owner_id(request))
    return redirect(chosen.make_path(notice="undone" if undone else "nothing-undone"))


@router.post("/read/{item_id}/read")
async def mark_item_read(request: Request, item_id: RowId) -> Response:
    await ItemStateStore(get_service(request).database).set_read(get_owner_id(request), [item_id], is_read=True)
    return await _respond(request, item_id)


@router.post("/read/{item_id}/unread")
async def mark_item_unread(request: Request, item_id: RowId) -> Response:
    await ItemStateStore(get_service(request).database).set_read(get_owner_id(request), [item_id], is_read=False)
    return await _respond(request, item_id)


@router.post("/read/{item_id}/save")
async def save_item(request: Request, item_id: RowId) -> Response:
    """Save an item as a bookmark."""
    await save_items(get_service(request), get_owner_id(request), [item_id])
    return await _respond(request, item_id)


@router.post("/read/{item_id}/unsave")
async def unsave_item(request: Request, item_id: RowId) -> Response:
    """Undo a save; the bookmark that it made moves to the trash."""
    await unsave_items(get_service(request), get_owner_id(request), [item_id])
    return await _respond(request, item_id)


async def _respond(request: Request, item_id: int) -> Response:
    """Return the new row to htmx; others go back to their list. 404 if the item does not exist."""
    service = get_service(request)
    row = await load_item_row(service, get_owner_id(request), item_id)
    if wants_fragment(request):
        return render(request, "_item.html", row=row, now=service.clock())
    back = choose_own_path(get_text(await request.form(), "back"), "/read")
    return redirect(f"{back.partition('#')[0]}#item-{item_id}")


def _read_filter(form: FormData) -> ReadingFilter:
    view = get_text(form, "state")
    return ReadingFilter(
        ReadingView(view) if view in tuple(ReadingView) else ReadingView.UNREAD,
        get_text(form, "folder")[:1000],
        _parse_id(get_text(form, "feed")),
        get_text(form, "q")[:1000],
    )


def _read_time(form: FormData) -> str:
    """Return the time when the list was made, as the store writes it; empty if the form has none."""
    try:
        when = datetime.fromisoformat(get_text(form, "until"))
        return stamp(when if when.tzinfo is not None else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return ""


def _parse_id(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_ID_DIGITS else None
