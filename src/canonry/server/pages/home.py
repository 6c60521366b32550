"""The start page: one box for any URL or words, and what was saved last (contract U1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Request, Response

from canonry.bookmarks.bookmark import BookmarkSearch
from canonry.bookmarks.search_words import find_site
from canonry.bookmarks.url_pipeline import MAX_URL_CHARS
from canonry.feeds.item_states import ItemStateStore
from canonry.server.dependencies import get_owner_id, get_service
from canonry.server.pages.forms import page_router
from canonry.server.pages.omnibox import find
from canonry.server.pages.rendering import render, wants_fragment

if TYPE_CHECKING:
    from canonry.bookmarks.bookmark import Bookmark

router = page_router()
_RECENT_BOOKMARKS = 8
_MAX_COUNTED_ITEMS = 1000


@dataclass(frozen=True, slots=True)
class Example:
    """A button under the box."""

    name: str
    url: str


_EXAMPLES = (
    Example("A link from a newsletter", "https://www.Example.com/article/?utm_source=newsletter&utm_medium=email&id=7"),
    Example("A video from a phone", "https://youtu.be/dQw4w9WgXcQ?si=Abc123&t=42"),
    Example(
        "A product in a shop", "https://www.amazon.com/Some-Product-Name/dp/B08N5WRWNW/ref=sr_1_3?keywords=x&qid=1"
    ),
)


@router.get("/")
async def show_home(request: Request, q: Annotated[str, Query(max_length=MAX_URL_CHARS)] = "") -> Response:
    """Show the box and what it finds; htmx gets only the findings."""
    service, owner = get_service(request), get_owner_id(request)
    found = await find(service, owner, q)
    is_fragment = wants_fragment(request)
    recent = await _list_recent(request) if not is_fragment else ()
    sites = {find_site(each.url) for each in (*found.list_bookmarks(), *recent)}
    shown: dict[str, Any] = {
        "found": found,
        "is_admin": request.state.user.is_admin,
        "icons": await service.bookmarks.icons.list_known(sites),
    }
    if is_fragment:
        return render(request, "_found.html", **shown)
    return render(
        request,
        "home.html",
        **shown,
        examples=_EXAMPLES,
        recent=recent,
        bookmark_count=await service.bookmarks.store.count(owner) if recent else 0,
        unread=await ItemStateStore(service.database).count_unread(owner, limit=_MAX_COUNTED_ITEMS),
        max_counted=_MAX_COUNTED_ITEMS,
    )


async def _list_recent(request: Request) -> tuple[Bookmark, ...]:
    store = get_service(request).bookmarks.store
    return (await store.search(get_owner_id(request), BookmarkSearch(), limit=_RECENT_BOOKMARKS)).bookmarks
