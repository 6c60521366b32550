"""Import and export files of bookmarks."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from canonry.bookmarks.exchange import FileFormat
from canonry.bookmarks.import_store import RowOutcome
from canonry.bookmarks.linkding import download_linkding
from canonry.errors import CanonryError, StoreError
from canonry.server.dependencies import RowId, get_owner_id, get_service
from canonry.server.downloads import download_bookmarks
from canonry.server.pages.forms import get_file, get_text, page_router, redirect
from canonry.server.pages.rendering import render

router = page_router()


_ROWS_PER_PAGE = 100
_MAX_ROW = 2**31 - 1


@router.get("/import")
async def show_import_form(request: Request) -> Response:
    return await _render_form(request)


@router.post("/import")
async def import_file(request: Request) -> Response:
    """Store a file; it is imported in the background."""
    form = await request.form()
    file = get_file(form, "file")
    if file is None:
        return await _render_form(request, file_error="Choose a file first.")
    data, exact_url, name = await file.read(), bool(get_text(form, "exact_url")), file.filename or ""
    try:
        started = await get_service(request).bookmarks.imports.start(
            get_owner_id(request), data, file_name=name, exact_url=exact_url
        )
    except StoreError:
        raise
    except CanonryError as error:
        return await _render_form(request, file_error=str(error))
    return redirect(f"/imports/{started.id}")


@router.post("/import/linkding")
async def import_from_linkding(request: Request) -> Response:
    """Read all bookmarks of a linkding service; they are imported in the background."""
    form = await request.form()
    address, token = get_text(form, "address").strip(), get_text(form, "token").strip()
    if not address or not token:
        return await _render_form(request, linkding_error="Give the address and the API token.", address=address)
    service = get_service(request)
    try:
        data = await download_linkding(address, token, service.client.fetch)
        started = await service.bookmarks.imports.start(get_owner_id(request), data, file_format=FileFormat.JSON)
    except StoreError:
        raise
    except CanonryError as error:
        return await _render_form(request, linkding_error=str(error), address=address)
    return redirect(f"/imports/{started.id}")


@router.get("/imports/{import_id}")
async def show_import(
    request: Request,
    import_id: RowId,
    after: Annotated[int, Query(ge=0, le=_MAX_ROW)] = 0,
    outcome: RowOutcome | None = None,
) -> Response:
    """Show the progress of an import, and what happened to each row."""
    bookmarks, owner = get_service(request).bookmarks, get_owner_id(request)
    store = bookmarks.imports.store
    bookmark_import = await store.get(owner, import_id)
    rows = await store.list_rows(owner, import_id, after=after, limit=_ROWS_PER_PAGE + 1, outcome=outcome)
    next_after = rows[_ROWS_PER_PAGE - 1].row if len(rows) > _ROWS_PER_PAGE else None
    return render(
        request,
        "imported.html",
        bookmark_import=bookmark_import,
        counts=await store.count_rows(import_id),
        rows=rows[:_ROWS_PER_PAGE],
        outcome=outcome,
        after=after,
        next_after=next_after,
        unread_pages=await bookmarks.pages.count_pending(owner),
    )


@router.get("/export/{form}")
async def export_bookmarks(request: Request, form: FileFormat) -> Response:
    """Download all bookmarks as a file."""
    return await download_bookmarks(get_service(request), get_owner_id(request), form)


async def _render_form(
    request: Request, *, file_error: str = "", linkding_error: str = "", address: str = ""
) -> Response:
    status = 400 if file_error or linkding_error else 200
    return render(
        request,
        "import.html",
        status=status,
        file_error=file_error,
        linkding_error=linkding_error,
        address=address,
        latest=await get_service(request).bookmarks.imports.store.list_latest(get_owner_id(request)),
    )
