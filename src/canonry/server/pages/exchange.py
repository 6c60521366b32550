"""Files of bookmarks, in and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response

from canonry.bookmarks.exchange import FileFormat
from canonry.errors import CanonryError, StoreError
from canonry.server.api.bookmarks import owner, service
from canonry.server.api.exchange import exported
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
        taken = await service(request).bookmarks.imports.start(
            owner(request), data, file_name=name, exact_url=exact_url
        )
    except StoreError:
        raise
    except CanonryError as error:
        return render(request, "import.html", status=400, error=str(error))
    return see(f"/imports/{taken.id}")


@router.get("/imports/{import_id}")
async def import_progress(request: Request, import_id: Annotated[int, Path(ge=1, le=2**63 - 1)]) -> Response:
    taken = await service(request).bookmarks.imports.store.get(owner(request), import_id)
    return render(request, "imported.html", taken=taken)


@router.get("/export/{form}")
async def export(request: Request, form: FileFormat) -> Response:
    """All bookmarks in a file."""
    return await exported(service(request), owner(request), form)
