"""Files of bookmarks, in and out."""

from __future__ import annotations

from fastapi import Request, Response

from canonry.bookmarks.exchange import FileFormat
from canonry.errors import CanonryError, StoreError
from canonry.server.dependencies import RowId, get_owner_id, get_service
from canonry.server.downloads import download_bookmarks
from canonry.server.pages.forms import file_of, page_router, see, text_of
from canonry.server.pages.rendering import render

router = page_router()


@router.get("/import")
async def import_form(request: Request) -> Response:
    return render(request, "import.html", error="")


@router.post("/import")
async def take_file(request: Request) -> Response:
    """Take a file in; it is imported in the background."""
    form = await request.form()
    file = file_of(form, "file")
    if file is None:
        return render(request, "import.html", status=400, error="choose a file first")
    data, exact_url, name = await file.read(), bool(text_of(form, "exact_url")), file.filename or ""
    try:
        taken = await get_service(request).bookmarks.imports.start(
            get_owner_id(request), data, file_name=name, exact_url=exact_url
        )
    except StoreError:
        raise
    except CanonryError as error:
        return render(request, "import.html", status=400, error=str(error))
    return see(f"/imports/{taken.id}")


@router.get("/imports/{import_id}")
async def import_progress(request: Request, import_id: RowId) -> Response:
    taken = await get_service(request).bookmarks.imports.store.get(get_owner_id(request), import_id)
    return render(request, "imported.html", taken=taken)


@router.get("/export/{form}")
async def export(request: Request, form: FileFormat) -> Response:
    """All bookmarks in a file."""
    return await download_bookmarks(get_service(request), get_owner_id(request), form)
