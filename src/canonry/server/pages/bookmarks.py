"""The list, and the forms to add, change and delete."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from canonry.bookmarks.bookmark import Bookmark, BookmarkSearch, PutOutcome
from canonry.bookmarks.draft import Draft
from canonry.bookmarks.url_pipeline import MAX_URL_CHARS
from canonry.errors import AlreadySaved, EtagMismatch, InvalidFields, InvalidUrl
from canonry.server.dependencies import RowId, get_owner_id, get_service
from canonry.server.pages.bookmark_form import Entry, Shown, shown, told
from canonry.server.pages.forms import page_router, see, text_of
from canonry.server.pages.rendering import render
from canonry.server.problems import RequestRefused

router = page_router()
_Text = Annotated[str, Query(max_length=1000)]
_PAGE = 50
_TAGS = 200
_TO_READ = {"yes": True, "no": False}
# What a page says after a write, by the name that the redirect carries: no text comes from a URL.
_NOTICES = {
    "added": "Kept.",
    "changed": "Changed.",
    "deleted": "In the trash, which empties after 30 days.",
    "restored": "Back from the trash.",
}


@router.get("/")
async def list_bookmarks(
    request: Request,
    q: _Text = "",
    tag: _Text = "",
    folder: _Text = "",
    to_read: _Text = "",
    trash: _Text = "",
    cursor: Annotated[str, Query(max_length=200)] = "",
    notice: _Text = "",
    about: _Text = "",
) -> Response:
    service = get_service(request)
    search = BookmarkSearch(q, tag, folder, _TO_READ.get(to_read), bool(trash))
    try:
        page = await service.bookmarks.store.search(get_owner_id(request), search, cursor=cursor or None, limit=_PAGE)
    except ValueError:
        raise RequestRefused(400, "this is no page of the list") from None
    chosen = {"q": q, "tag": tag, "folder": folder, "to_read": to_read, "trash": trash}
    query = {name: value for name, value in chosen.items() if value}
    return render(
        request,
        "list.html",
        page=page,
        search=search,
        to_read=to_read,
        is_filtered=bool(query.keys() - {"trash"}),
        is_later=bool(cursor),
        count=await service.bookmarks.store.count(get_owner_id(request)),
        tags=await _tags(request),
        first=f"/?{urlencode(query)}",
        following=f"/?{urlencode(query | {'cursor': page.next_cursor})}" if page.next_cursor else "",
        notice=_NOTICES.get(notice, ""),
        about=int(about) if about.isdecimal() and len(about) < 19 else 0,
        is_undoable=notice == "deleted",
    )


@router.get("/add")
async def add_form(
    request: Request,
    url: Annotated[str, Query(max_length=MAX_URL_CHARS)] = "",
    title: Annotated[str, Query(max_length=10_000)] = "",
) -> Response:
    """The form, filled where the bookmarklet says so; nothing is kept."""
    return await _form(request, Entry(url=url, title=title))


@router.post("/add")
async def add(request: Request) -> Response:
    form = await request.form()
    entry = Entry.of_form(form)
    if text_of(form, "action") == "preview":
        return await _form(request, entry)
    try:
        fields = entry.fields()
        put = await get_service(request).bookmarks.put(
            get_owner_id(request), Draft(entry.url), exact_url=entry.exact_url, fields=fields
        )
    except (InvalidUrl, InvalidFields) as error:
        return await _form(request, entry, errors=_errors(error), status=400)
    if put.outcome is PutOutcome.NO_CHANGE:
        return await _form(request, entry, other=put.bookmark, status=409)
    return see(f"/?notice=added&about={put.bookmark.id}")


@router.post("/preview")
async def preview(request: Request) -> Response:
    """What would be kept, while somebody types."""
    form = await request.form()
    given = text_of(form, "bookmark")
    besides = int(given) if given.isdecimal() and len(given) < 19 else None
    found = await shown(get_service(request).bookmarks, get_owner_id(request), Entry.of_form(form), besides=besides)
    return render(request, "_preview.html", shown=found)


@router.get("/bookmarks/{bookmark_id}/edit")
async def edit_form(request: Request, bookmark_id: RowId) -> Response:
    kept = await get_service(request).bookmarks.store.get(get_owner_id(request), bookmark_id)
    return await _form(request, Entry.of_bookmark(kept), kept=kept)


@router.post("/bookmarks/{bookmark_id}/edit")
async def edit(request: Request, bookmark_id: RowId) -> Response:
    service = get_service(request)
    kept = await service.bookmarks.store.get(get_owner_id(request), bookmark_id)
    form = await request.form()
    entry = Entry.of_form(form)
    if text_of(form, "action") == "preview":
        return await _form(request, entry, kept=kept)
    is_same = entry.url.strip() == (kept.original_url or kept.url) and entry.exact_url == kept.exact_url
    try:
        await service.bookmarks.edit(
            get_owner_id(request),
            bookmark_id,
            entry.fields(),
            url=None if is_same else entry.url,
            exact_url=entry.exact_url,
            etag=entry.etag or None,
        )
    except (InvalidUrl, InvalidFields) as error:
        return await _form(request, entry, kept=kept, errors=_errors(error), status=400)
    except AlreadySaved as error:
        other = await service.bookmarks.store.get(get_owner_id(request), error.bookmark_id)
        return await _form(request, entry, kept=kept, other=other, status=409)
    except EtagMismatch:
        said = {"": "Somebody, or you in another window, has changed this bookmark since. Open it again to see how."}
        return await _form(request, entry, kept=kept, errors=said, status=412)
    return see(f"/?notice=changed&about={bookmark_id}")


@router.post("/bookmarks/{bookmark_id}/delete")
async def delete(request: Request, bookmark_id: RowId) -> Response:
    service = get_service(request)
    await service.bookmarks.store.trash(get_owner_id(request), bookmark_id, service.clock())
    return see(f"/?notice=deleted&about={bookmark_id}")


@router.post("/bookmarks/{bookmark_id}/restore")
async def restore(request: Request, bookmark_id: RowId) -> Response:
    service = get_service(request)
    await service.bookmarks.store.restore(get_owner_id(request), bookmark_id, service.clock())
    return see(f"/?notice=restored&about={bookmark_id}")


async def _form(
    request: Request,
    entry: Entry,
    *,
    kept: Bookmark | None = None,
    other: Bookmark | None = None,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    """The form with what was typed; `other` is the bookmark that has the URL already."""
    service = get_service(request)
    found = await shown(service.bookmarks, get_owner_id(request), entry, besides=kept.id if kept else None)
    if errors:
        found = Shown(found.preview, "" if "url" in errors else found.error, found.twins)
    return render(
        request,
        "form.html",
        status=status,
        entry=entry,
        kept=kept,
        other=other,
        errors=errors or {},
        shown=found,
        tags=await _tags(request),
    )


async def _tags(request: Request) -> list[str]:
    """The tags to choose from, the most used ones."""
    counts = await get_service(request).bookmarks.store.count_tags(get_owner_id(request))
    return sorted(counts, key=lambda tag: (-counts[tag], tag))[:_TAGS]


def _errors(error: InvalidUrl | InvalidFields) -> dict[str, str]:
    return {"url": error.reason} if isinstance(error, InvalidUrl) else told(error.reasons)
