"""`/api/import`, `/api/export`: bookmarks in and out of files (contract B8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import anyio.from_thread
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from canonry.bookmarks.exchange import MAX_BYTES, FileFormat, write_bookmarks
from canonry.bookmarks.exchange_rows import split_folder
from canonry.server.api.bookmarks import owner, service
from canonry.server.problems import said
from canonry.server.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canonry.bookmarks.bookmark import Bookmark

router = APIRouter(prefix="/api", tags=["exchange"])
_PAGE = 500
_FILES = {
    FileFormat.NETSCAPE: ("text/html; charset=utf-8", "bookmarks.html"),
    FileFormat.JSON: ("application/json", "bookmarks.json"),
    FileFormat.CSV: ("text/csv; charset=utf-8", "bookmarks.csv"),
}


class ImportIn(BaseModel):
    """A file of bookmarks; its format is guessed where it is not said."""

    content: Annotated[str, Field(max_length=MAX_BYTES)]
    format: FileFormat | None = None
    exact_url: bool = False


class RefusedRowOut(BaseModel):
    """A row that cannot be kept, and why."""

    row: int
    text: str
    reason: str


class ImportOut(BaseModel):
    """How far an import has come; `created` are those that were not kept before."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    format: FileFormat
    exact_url: bool
    total: int
    done: int
    created: int
    refused: list[RefusedRowOut]
    failure: str
    started_at: str
    finished_at: str | None


@router.post(
    "/import", response_model=ImportOut, status_code=202, responses=said(400), summary="Have a file of bookmarks kept"
)
async def import_bookmarks(request: Request, body: ImportIn, response: Response) -> object:
    """Netscape HTML, JSON or CSV; the answer comes at once, and `Location` says how far it is."""
    taken = await service(request).bookmarks.imports.start(
        owner(request), body.content.encode(), file_format=body.format, exact_url=body.exact_url
    )
    response.headers["Location"] = f"/api/imports/{taken.id}"
    return taken


@router.get("/imports/{import_id}", response_model=ImportOut, responses=said(404), summary="How far an import is")
async def get_import(request: Request, import_id: Annotated[int, Path(ge=1, le=2**63 - 1)]) -> object:
    return await service(request).bookmarks.imports.store.get(owner(request), import_id)


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A file.",
            "content": {media_type.partition(";")[0]: {} for media_type, _ in _FILES.values()},
        },
        **said(400),
    },
    summary="All bookmarks as a file",
)
async def export_bookmarks(request: Request, format: Annotated[FileFormat, Query()] = FileFormat.NETSCAPE) -> Response:  # noqa: A002
    return await exported(service(request), owner(request), format)


async def exported(parts: Service, owner_id: int, form: FileFormat) -> Response:
    """All bookmarks of an owner as a file that is read from the store while it is sent.

    The newest first; browsers make a folder of every block of a Netscape file, so that one goes folder by folder.
    """
    store = parts.bookmarks.store
    found = await store.list_ids(owner_id)  # a store that is out of reach is a 503, not half a file

    def rows() -> Iterator[Bookmark]:  # on a thread, where the writer waits for the next ones
        if form is FileFormat.NETSCAPE:
            found.sort(key=lambda each: split_folder(each.folder))
        for start in range(0, len(found), _PAGE):
            ids = [each.id for each in found[start : start + _PAGE]]
            yield from anyio.from_thread.run(store.get_many, owner_id, ids)

    media_type, name = _FILES[form]
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(write_bookmarks(form, rows()), media_type=media_type, headers=headers)
