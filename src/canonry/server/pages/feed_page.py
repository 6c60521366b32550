"""The page of one feed: its health, its items and its settings (contract U2, I11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Query, Request, Response

from canonry.errors import InvalidFields
from canonry.feeds.feed_activity import NO_ACTIVITY, load_activity
from canonry.feeds.feed_settings import mask_headers, parse_header
from canonry.feeds.feed_values import FeedStatus
from canonry.feeds.removed_feeds import restore_feed
from canonry.feeds.stored_items import ItemSearch
from canonry.net.response import find_host
from canonry.server.dependencies import RowId, get_owner_id, get_service, require_admin
from canonry.server.pages.feed_rows import make_feed_row
from canonry.server.pages.forms import get_text, page_router, redirect
from canonry.server.pages.item_rows import load_item_rows
from canonry.server.pages.rendering import render
from canonry.server.problems import RequestRefused

if TYPE_CHECKING:
    from starlette.datastructures import FormData

    from canonry.feeds.feed_settings import FeedChanges
    from canonry.feeds.feed_values import FeedState

router = page_router()
_Text = Annotated[str, Query(max_length=1000)]
_NOTICES = {
    "changed": "Settings saved.",
    "paused": "Paused. The feed is not checked until you resume it.",
    "resumed": "Resumed. The feed is checked within a minute.",
    "queued": "The feed is being checked. Reload the page in a moment.",
    "restored": "Restored, with its items.",
    "followed": "You follow this feed again already. Nothing was restored.",
    "waiting": "A check of this feed is waiting already. Reload the page in a moment.",
}
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))
_BYTE_UNITS = ((1024**2, "MiB"), (1000**2, "MB"), (1024, "KiB"), (1000, "kB"))


@dataclass(frozen=True, slots=True)
class SettingsEntry:
    """The values in the settings form; an empty text means the default."""

    title: str = ""
    folder: str = ""
    interval: str = ""
    timeout: str = ""
    max_bytes: str = ""
    user_agent: str = ""
    headers: str = ""  # one `Name: value` a line; `***` is a value that stays as it is

    @classmethod
    def from_feed(cls, feed: FeedState) -> SettingsEntry:
        return cls(
            feed.own_title,
            feed.folder,
            _format_number(feed.interval_seconds, _UNITS, "s"),
            _format_number(feed.timeout_seconds, _UNITS, "s"),
            _format_number(feed.max_bytes, _BYTE_UNITS, ""),
            feed.user_agent,
            "\n".join(f"{name}: {value}" for name, value in mask_headers(feed).items()),
        )

    @classmethod
    def from_form(cls, form: FormData) -> SettingsEntry:
        return cls(**{name: get_text(form, name).strip() for name in cls.__slots__})

    def make_changes(self, feed: FeedState) -> FeedChanges:
        """Return the changes; InvalidFields if a header cannot be read. Headers that are not listed are removed."""
        headers: dict[str, str | None] = dict.fromkeys(mask_headers(feed))
        for line in filter(str.strip, self.headers.splitlines()):
            try:
                name, value = parse_header(line)
            except ValueError as error:
                raise InvalidFields({"headers": str(error)}) from None
            headers[name] = value
        return {
            "title": self.title or None,
            "folder": self.folder or None,
            "interval": self.interval or None,
            "timeout": self.timeout or None,
            "max_bytes": self.max_bytes or None,
            "user_agent": self.user_agent or None,
            "headers": headers,
        }


@router.get("/feeds/{feed_id}")
async def show_feed(request: Request, feed_id: RowId, cursor: _Text = "", notice: _Text = "") -> Response:
    feed = await get_service(request).feeds.get(feed_id)
    return await _render(request, feed, cursor=cursor, notice=notice)


@router.post("/feeds/{feed_id}/settings")
async def change_feed(request: Request, feed_id: RowId) -> Response:
    require_admin(request)
    feeds = get_service(request).feeds
    feed = await feeds.get(feed_id)
    entry = SettingsEntry.from_form(await request.form())
    shown = SettingsEntry.from_feed(feed)
    try:
        changes = entry.make_changes(feed)
        if entry.interval == shown.interval:
            del changes["interval"]  # the same interval would make the feed due
        await feeds.change(feed_id, changes)
    except InvalidFields as error:
        return await _render(request, feed, entry=entry, errors=dict(error.reasons))
    return redirect(f"/feeds/{feed_id}?notice=changed")


@router.post("/feeds/{feed_id}/pause")
async def pause_feed(request: Request, feed_id: RowId) -> Response:
    require_admin(request)
    await get_service(request).feeds.change(feed_id, {"paused": True})
    return redirect(f"/feeds/{feed_id}?notice=paused")


@router.post("/feeds/{feed_id}/resume")
async def resume_feed(request: Request, feed_id: RowId) -> Response:
    require_admin(request)
    await get_service(request).feeds.change(feed_id, {"paused": False})
    return redirect(f"/feeds/{feed_id}?notice=resumed")


@router.post("/feeds/{feed_id}/poll")
async def poll_feed(request: Request, feed_id: RowId) -> Response:
    """Check the feed now; 409 if it is paused."""
    require_admin(request)
    service = get_service(request)
    feed = await service.feeds.get(feed_id)
    if feed.status is FeedStatus.PAUSED:
        raise RequestRefused(409, "This feed is paused. Resume it first.")
    is_queued = await service.jobs.enqueue_poll(feed.id, find_host(feed.url))
    return redirect(f"/feeds/{feed_id}?notice={'queued' if is_queued else 'waiting'}")


@router.post("/feeds/{feed_id}/remove")
async def remove_feed(request: Request, feed_id: RowId) -> Response:
    require_admin(request)
    service = get_service(request)
    await service.feeds.get(feed_id)
    await service.feeds.remove(feed_id, service.clock())
    return redirect("/feeds?notice=removed")


@router.post("/feeds/removed/{removal_id}/restore")
async def restore_removed_feed(request: Request, removal_id: RowId) -> Response:
    require_admin(request)
    restored = await restore_feed(get_service(request).database, removal_id)
    return redirect(f"/feeds/{restored.feed_id}?notice={'restored' if restored.is_restored else 'followed'}")


async def _render(
    request: Request,
    feed: FeedState,
    *,
    cursor: str = "",
    notice: str = "",
    entry: SettingsEntry | None = None,
    errors: dict[str, str] | None = None,
) -> Response:
    """Show a feed; `entry` is what was typed into the settings."""
    service, owner = get_service(request), get_owner_id(request)
    items = await load_item_rows(service, owner, ItemSearch(feed_id=feed.id), cursor=cursor, feed_id=feed.id)
    activity = await load_activity(service.database, service.clock(), feed_id=feed.id)
    path = f"/feeds/{feed.id}"
    return render(
        request,
        "feed.html",
        status=400 if errors else 200,
        feed=make_feed_row(feed, activity.get(feed.id, NO_ACTIVITY)),
        entry=entry or SettingsEntry.from_feed(feed),
        errors=errors or {},
        items=items,
        is_later=bool(cursor),
        path_first=path,
        path_next=f"{path}?cursor={items.next_cursor}" if items.next_cursor else "",
        back=f"{path}?cursor={cursor}" if cursor else path,
        now=service.clock(),
        notice=_NOTICES.get(notice, ""),
        notice_name=notice if notice in _NOTICES else "",
    )


def _format_number(number: int | None, units: tuple[tuple[int, str], ...], smallest: str) -> str:
    """Return a number as the form takes it: `5400` → `90m`; empty for the default."""
    if number is None:
        return ""
    size, unit = next(((size, unit) for size, unit in units if number % size == 0), (1, smallest))
    return f"{number // size}{unit}"
