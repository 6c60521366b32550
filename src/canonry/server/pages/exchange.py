"""Import and export files of bookmarks."""

from __future__ import annotations

from fastapi import Request, Response

from canonry.bookmarks.exchange import FileFormat
from canonry.errors import CanonryError, StoreError
from canonry.server.dependencies import RowId, get_owner_id, get_service
from canonry.server.downloads import download_bookmarks
from canonry.server.pages.forms import get_file, get_text, page_router, redirect
from canonry.server.pages.rendering import render

router = page_router()


@router.get("/import")
async def show_import_form(request: Request) -> Response:
    return render(request, "import.html", error="")


@router.post("/import")
async def import_file(request: Request) -> Response:
    """Store a file; it is imported in the background."""
    form = await request.form()
    file = get_file(form, "file")
    if file is None:
        return render(request, "import.html", status=400, error="Choose a file first.")
    data, exact_url, name = await file.read(), bool(get_text(form, "exact_url")), file.filename or ""
    try:
        started = await get_service(request).bookmarks.imports.start(
            get_owner_id(request), data, file_name=name, exact_url=exact_url
        )
    except StoreError:
        raise
    except CanonryError as error:
        return render(request, "import.html", status=400, error=str(error))
    return redirect(f"/imports/{started.id}")


@router.get("/imports/{import_id}")
async def show_import(request: Request, import_id: RowId) -> Response:
    bookmark_import = await get_service(request).bookmarks.imports.store.get(get_owner_id(request), import_id)
    return render(request, "imported.html", bookmark_import=bookmark_import)


@router.get("/export/{form}")
async def export_bookmarks(request: Request, form: FileFormat) -> Response:
    """Download all bookmarks as a file."""
    return await download_bookmarks(get_service(request), get_owner_id(request), form)
