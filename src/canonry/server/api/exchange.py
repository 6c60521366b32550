"""`/api/import`, `/api/export`: bookmarks in and out of files (contract B8)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from canonry.bookmarks.exchange import MAX_BYTES, FileFormat
from canonry.bookmarks.import_store import BookmarkImport, ImportedRow, RowOutcome
from canonry.server.dependencies import RowId, get_owner_id, get_service
from canonry.server.downloads import BOOKMARK_MEDIA_TYPES, download_bookmarks
from canonry.server.problems import describe_problems

router = APIRouter(prefix="/api", tags=["exchange"])


class ImportIn(BaseModel):
    """A file of bookmarks; without `format` the format is detected."""

    content: Annotated[str, Field(max_length=MAX_BYTES)]
    format: FileFormat | None = None
    exact_url: bool = False


@dataclass(frozen=True, slots=True)
class ImportProgress(BookmarkImport):
    """An import, and how many pages of the user's bookmarks are still to be read in the background."""

    unread_pages: int = 0


@router.post(
    "/import",
    response_model=BookmarkImport,
    status_code=202,
    responses=describe_problems(400),
    summary="Import a file of bookmarks",
)
async def import_bookmarks(request: Request, body: ImportIn, response: Response) -> BookmarkImport:
    """Netscape HTML, JSON or CSV. The import runs in the background; ask the URL in `Location` for its progress."""
    created = await get_service(request).bookmarks.imports.start(
        get_owner_id(request), body.content.encode(), file_format=body.format, exact_url=body.exact_url
    )
    response.headers["Location"] = f"/api/imports/{created.id}"
    return created


@router.get(
    "/imports/{import_id}",
    response_model=ImportProgress,
    responses=describe_problems(404),
    summary="Progress of an import",
)
async def get_import(request: Request, import_id: RowId) -> ImportProgress:
    """`unread_pages` counts the pages of all bookmarks that are still to be read in the background."""
    bookmarks, owner = get_service(request).bookmarks, get_owner_id(request)
    found = await bookmarks.imports.store.get(owner, import_id)
    values = {each.name: getattr(found, each.name) for each in fields(found)}
    return ImportProgress(**values, unread_pages=await bookmarks.pages.count_pending(owner))


@router.get(
    "/imports/{import_id}/rows",
    response_model=list[ImportedRow],
    responses=describe_problems(400, 404),
    summary="What an import did with each row",
)
async def list_import_rows(
    request: Request,
    import_id: RowId,
    after: Annotated[int, Query(ge=0, le=2**31 - 1, description="Rows after this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 500,
    outcome: RowOutcome | None = None,
) -> list[ImportedRow]:
    """In the order of the file. `bookmark_url` is the URL that the page of the row is saved under.

    Kept for 30 days after the import; `refused` of the import itself is kept.
    """
    return await get_service(request).bookmarks.imports.store.list_rows(
        get_owner_id(request), import_id, after=after, limit=limit, outcome=outcome
    )


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A file.",
            "content": {media_type.partition(";")[0]: {} for media_type in BOOKMARK_MEDIA_TYPES.values()},
        },
        **describe_problems(400),
    },
    summary="Export all bookmarks as a file",
)
async def export_bookmarks(request: Request, format: Annotated[FileFormat, Query()] = FileFormat.NETSCAPE) -> Response:  # noqa: A002
    return await download_bookmarks(get_service(request), get_owner_id(request), format)
