"""The forms to add, edit, delete and restore a bookmark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from fastapi import Query, Request, Response

from canonry.bookmarks.bookmark import Bookmark, PutOutcome
from canonry.bookmarks.draft import Draft
from canonry.bookmarks.identity_lookup import BookmarkMatch, MatchKind
from canonry.bookmarks.url_pipeline import MAX_URL_CHARS
from canonry.errors import AlreadySaved, EtagMismatch, InvalidFields, InvalidUrl
from canonry.server.dependencies import RowId, get_owner_id, get_service
from canonry.server.pages.bookmark_form import BookmarkEntry, KnownBookmark, group_errors, preview_url
from canonry.server.pages.forms import get_text, page_router, redirect
from canonry.server.pages.library import choose_library_path, make_notice_path
from canonry.server.pages.rendering import render

if TYPE_CHECKING:
    from collections.abc import Sequence

router = page_router()
_QueryText = Annotated[str, Query(max_length=1000)]
_MAX_SUGGESTED_TAGS = 200


@router.get("/add")
async def show_add_form(
    request: Request,
    url: Annotated[str, Query(max_length=MAX_URL_CHARS)] = "",
    title: Annotated[str, Query(max_length=10_000)] = "",
    tags: _QueryText = "",
) -> Response:
    """Show the form, filled from the query of the bookmarklet, or the bookmark of this page; nothing is saved."""
    entry = BookmarkEntry(url=url, title=title, tags=tags)
    known = await _find_known(request, entry)
    if known is None:
        return await _render_form(request, entry)
    return await _render_known(request, known, entry)


@router.post("/add")
async def add_bookmark(request: Request) -> Response:
    """Save a bookmark. If its page is saved already, add the tags to that bookmark and open it."""
    form = await request.form()
    entry = BookmarkEntry.from_form(form)
    action = get_text(form, "action")
    if action == "preview":
        return await _render_form(request, entry)
    service, owner = get_service(request), get_owner_id(request)
    try:
        fields = entry.validate()
        match = None if action == "separate" else await _find_known(request, entry)
        if match is None:
            put = await service.bookmarks.put(
                owner, Draft(entry.url), exact_url=entry.exact_url, fields=fields, by_alias=False
            )
            if put.outcome is PutOutcome.CREATED:
                return redirect(f"/bookmarks?notice=added&about={put.bookmark.id}")
            match = BookmarkMatch(put.bookmark, MatchKind.URL)
        saved = await service.bookmarks.add_tags(owner, match.bookmark, fields.get("tags", ()))
    except (InvalidUrl, InvalidFields) as error:
        return await _render_form(request, entry, errors=_explain_error(error), status=400)
    added = [tag for tag in saved.tags if tag not in match.bookmark.tags]
    return await _render_known(request, replace(match, bookmark=saved), entry, added_tags=added)


async def _find_known(request: Request, entry: BookmarkEntry) -> BookmarkMatch | None:
    """Return the bookmark of the page that is about to be saved; a URL to save exactly is only found as it is."""
    if not entry.url.strip() or entry.exact_url:
        return None
    try:
        return await get_service(request).bookmarks.find_by_identity(get_owner_id(request), entry.url)
    except InvalidUrl:
        return None


async def _render_known(
    request: Request, match: BookmarkMatch, typed: BookmarkEntry, *, added_tags: Sequence[str] = ()
) -> Response:
    known = KnownBookmark(match, typed, tuple(added_tags))
    return await _render_form(request, known.merge(), bookmark=match.bookmark, known=known)


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
    return redirect(make_notice_path(get_text(form, "back"), "changed", bookmark_id))


@router.post("/bookmarks/{bookmark_id}/delete")
async def delete_bookmark(request: Request, bookmark_id: RowId) -> Response:
    service = get_service(request)
    await service.bookmarks.store.trash(get_owner_id(request), bookmark_id, service.clock())
    return redirect(make_notice_path(await _read_back(request), "deleted", bookmark_id))


@router.post("/bookmarks/{bookmark_id}/restore")
async def restore_bookmark(request: Request, bookmark_id: RowId) -> Response:
    service = get_service(request)
    await service.bookmarks.store.restore(get_owner_id(request), bookmark_id, service.clock())
    return redirect(make_notice_path(await _read_back(request), "restored", bookmark_id))


async def _render_form(
    request: Request,
    entry: BookmarkEntry,
    *,
    bookmark: Bookmark | None = None,
    other: Bookmark | None = None,
    known: KnownBookmark | None = None,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    """Show the form with what was typed.

    `bookmark` is the one being edited, `other` has its URL already, `known` is the one that somebody saved again.
    """
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
        known=known,
        errors=errors or {},
        shown=shown,
        back=choose_library_path(await _read_back(request)),
        tags=await _list_tags(request),
    )


async def _read_back(request: Request) -> str:
    """Return the path of the library that the form was opened from; empty if it was opened from elsewhere."""
    return get_text(await request.form(), "back") if request.method == "POST" else request.query_params.get("back", "")


async def _list_tags(request: Request) -> list[str]:
    """Return the tags to suggest, most used first."""
    counts = await get_service(request).bookmarks.store.count_tags(get_owner_id(request))
    return sorted(counts, key=lambda tag: (-counts[tag], tag))[:_MAX_SUGGESTED_TAGS]


def _explain_error(error: InvalidUrl | InvalidFields) -> dict[str, str]:
    return {"url": error.reason} if isinstance(error, InvalidUrl) else group_errors(error.reasons)
