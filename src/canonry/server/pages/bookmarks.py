"""The list of bookmarks, and the forms to add, edit and delete them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from canonry.bookmarks.bookmark import Bookmark, BookmarkSearch, PutOutcome
from canonry.bookmarks.draft import Draft
from canonry.bookmarks.url_pipeline import MAX_URL_CHARS
from canonry.errors import AlreadySaved, EtagMismatch, InvalidFields, InvalidUrl
from canonry.server.dependencies import RowId, get_owner_id, get_service
from canonry.server.pages.bookmark_form import BookmarkEntry, group_errors, preview_url
from canonry.server.pages.forms import get_text, page_router, redirect
from canonry.server.pages.rendering import render
from canonry.server.problems import RequestRefused

router = page_router()
_QueryText = Annotated[str, Query(max_length=1000)]
_BOOKMARKS_PER_PAGE = 50
_MAX_SUGGESTED_TAGS = 200
_TO_READ = {"yes": True, "no": False}
# Messages after a write, by the name in the URL of the redirect: no text is taken from a URL.
_NOTICES = {
    "added": "Saved.",
    "changed": "Changes saved.",
    "deleted": "Moved to the trash. It is deleted after 30 days.",
    "restored": "Restored from the trash.",
}


@router.get("/")
async def list_bookmarks(
    request: Request,
    q: _QueryText = "",
    tag: _QueryText = "",
    folder: _QueryText = "",
    to_read: _QueryText = "",
    trash: _QueryText = "",
    cursor: Annotated[str, Query(max_length=200)] = "",
    notice: _QueryText = "",
    about: _QueryText = "",
) -> Response:
    service = get_service(request)
    search = BookmarkSearch(q, tag, folder, _TO_READ.get(to_read), bool(trash))
    try:
        page = await service.bookmarks.search(
            get_owner_id(request), search, cursor=cursor or None, limit=_BOOKMARKS_PER_PAGE
        )
    except ValueError:
        raise RequestRefused(400, "Invalid page of the list. Start again from the first page.") from None
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
        tags=await _list_tags(request),
        first=f"/?{urlencode(query)}",
        following=f"/?{urlencode(query | {'cursor': page.next_cursor})}" if page.next_cursor else "",
        notice=_NOTICES.get(notice, ""),
        notice_name=notice if notice in _NOTICES else "",
        about=int(about) if about.isdecimal() and len(about) < 19 else 0,
        is_undoable=notice == "deleted",
    )


@router.get("/add")
async def show_add_form(
    request: Request,
    url: Annotated[str, Query(max_length=MAX_URL_CHARS)] = "",
    title: Annotated[str, Query(max_length=10_000)] = "",
) -> Response:
    """Show the form, filled from the query of the bookmarklet; nothing is saved."""
    return await _render_form(request, BookmarkEntry(url=url, title=title))


@router.post("/add")
async def add_bookmark(request: Request) -> Response:
    form = await request.form()
    entry = BookmarkEntry.from_form(form)
    if get_text(form, "action") == "preview":
        return await _render_form(request, entry)
    try:
        fields = entry.validate()
        put = await get_service(request).bookmarks.put(
            get_owner_id(request), Draft(entry.url), exact_url=entry.exact_url, fields=fields
        )
    except (InvalidUrl, InvalidFields) as error:
        return await _render_form(request, entry, errors=_explain_error(error), status=400)
    if put.outcome is PutOutcome.NO_CHANGE:
        return await _render_form(request, entry, other=put.bookmark, status=409)
    return redirect(f"/?notice=added&about={put.bookmark.id}")


@router.post("/preview")
async def show_preview(request: Request) -> Response:
    """Return the preview as a fragment; the form asks for it while the user types."""
    form = await request.form()
    given = get_text(form, "bookmark")
    edited_id = int(given) if given.isdecimal() and len(given) < 19 else None
    entry = BookmarkEntry.from_form(form)
    shown = await preview_url(get_service(request).bookmarks, get_owner_id(request), entry, edited_id=edited_id)
    return render(request, "_preview.html", shown=shown)


@router.get("/bookmarks/{bookmark_id}/edit")
async def show_edit_form(request: Request, bookmark_id: RowId) -> Response:
    bookmark = await get_service(request).bookmarks.store.get(get_owner_id(request), bookmark_id)
    return await _render_form(request, BookmarkEntry.from_bookmark(bookmark), bookmark=bookmark)


@router.post("/bookmarks/{bookmark_id}/edit")
async def edit_bookmark(request: Request, bookmark_id: RowId) -> Response:
    service = get_service(request)
    bookmark = await service.bookmarks.store.get(get_owner_id(request), bookmark_id)
    form = await request.form()
    entry = BookmarkEntry.from_form(form)
    if get_text(form, "action") == "preview":
        return await _render_form(request, entry, bookmark=bookmark)
    is_same = entry.url.strip() == (bookmark.original_url or bookmark.url) and entry.exact_url == bookmark.exact_url
    try:
        await service.bookmarks.edit(
            get_owner_id(request),
            bookmark_id,
            entry.validate(),
            url=None if is_same else entry.url,
            exact_url=entry.exact_url,
            etag=entry.etag or None,
        )
    except (InvalidUrl, InvalidFields) as error:
        return await _render_form(request, entry, bookmark=bookmark, errors=_explain_error(error), status=400)
    except AlreadySaved as error:
        other = await service.bookmarks.store.get(get_owner_id(request), error.bookmark_id)
        return await _render_form(request, entry, bookmark=bookmark, other=other, status=409)
    except EtagMismatch:
        conflict = "Not saved: this bookmark was changed in the meantime. Open it again to see the changes."
        return await _render_form(request, entry, bookmark=bookmark, errors={"": conflict}, status=412)
    return redirect(f"/?notice=changed&about={bookmark_id}")


@router.post("/bookmarks/{bookmark_id}/delete")
async def delete_bookmark(request: Request, bookmark_id: RowId) -> Response:
    service = get_service(request)
    await service.bookmarks.store.trash(get_owner_id(request), bookmark_id, service.clock())
    return redirect(f"/?notice=deleted&about={bookmark_id}")


@router.post("/bookmarks/{bookmark_id}/restore")
async def restore_bookmark(request: Request, bookmark_id: RowId) -> Response:
    service = get_service(request)
    await service.bookmarks.store.restore(get_owner_id(request), bookmark_id, service.clock())
    return redirect(f"/?notice=restored&about={bookmark_id}")


async def _render_form(
    request: Request,
    entry: BookmarkEntry,
    *,
    bookmark: Bookmark | None = None,
    other: Bookmark | None = None,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    """Show the form with what was typed; `bookmark` is the one being edited, `other` one that has the URL already."""
    service = get_service(request)
    shown = await preview_url(
        service.bookmarks, get_owner_id(request), entry, edited_id=bookmark.id if bookmark else None
    )
    if errors and "url" in errors:
        shown = replace(shown, error="")  # it is shown at the field
    return render(
        request,
        "form.html",
        status=status,
        entry=entry,
        bookmark=bookmark,
        other=other,
        errors=errors or {},
        shown=shown,
        tags=await _list_tags(request),
    )


async def _list_tags(request: Request) -> list[str]:
    """Return the tags to suggest, most used first."""
    counts = await get_service(request).bookmarks.store.count_tags(get_owner_id(request))
    return sorted(counts, key=lambda tag: (-counts[tag], tag))[:_MAX_SUGGESTED_TAGS]


def _explain_error(error: InvalidUrl | InvalidFields) -> dict[str, str]:
    return {"url": error.reason} if isinstance(error, InvalidUrl) else group_errors(error.reasons)
