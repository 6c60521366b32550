"""Files people download: all bookmarks of an owner, or the pages and links of a crawl."""

from __future__ import annotations

import asyncio
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.from_thread
from fastapi.responses import StreamingResponse

from canonry.bookmarks.exchange import FileFormat, write_bookmarks
from canonry.bookmarks.exchange_rows import split_folder
from canonry.crawler.export import open_writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import Response

    from canonry.bookmarks.bookmark import Bookmark
    from canonry.crawler.crawl_store import StoredPage
    from canonry.crawler.export import PageWriter
    from canonry.server.service import Service

_BOOKMARKS_PER_READ = 500
_CHUNK_BYTES = 2**16


class CrawlFormat(StrEnum):
    """JSONL and CSV hold the pages, GraphML and DOT the links between them."""

    JSONL = "jsonl"
    CSV = "csv"
    GRAPHML = "graphml"
    DOT = "dot"


BOOKMARK_MEDIA_TYPES = {
    FileFormat.NETSCAPE: "text/html; charset=utf-8",
    FileFormat.JSON: "application/json",
    FileFormat.CSV: "text/csv; charset=utf-8",
}
CRAWL_MEDIA_TYPES = {
    CrawlFormat.JSONL: "application/x-ndjson",
    CrawlFormat.CSV: "text/csv; charset=utf-8",
    CrawlFormat.GRAPHML: "application/graphml+xml",
    CrawlFormat.DOT: "text/vnd.graphviz; charset=utf-8",
}
_SUFFIXES = {FileFormat.NETSCAPE: "html", FileFormat.JSON: "json", FileFormat.CSV: "csv"}


async def download_bookmarks(service: Service, owner_id: int, file_format: FileFormat) -> Response:
    """Stream all bookmarks of an owner, newest first; they are read from the store while they are sent.

    Browsers make a folder of every block of a Netscape file, so that format is sorted by folder.
    """
    store = service.bookmarks.store
    rows = await store.list_ids(owner_id)  # before the response starts: an unreachable store is a 503, not half a file

    def read_bookmarks() -> Iterator[Bookmark]:  # runs on a worker thread
        if file_format is FileFormat.NETSCAPE:
            rows.sort(key=lambda row: split_folder(row.folder))
        for start in range(0, len(rows), _BOOKMARKS_PER_READ):
            ids = [row.id for row in rows[start : start + _BOOKMARKS_PER_READ]]
            yield from anyio.from_thread.run(store.get_many, owner_id, ids)

    return StreamingResponse(
        write_bookmarks(file_format, read_bookmarks()),
        media_type=BOOKMARK_MEDIA_TYPES[file_format],
        headers=_make_attachment_headers(f"bookmarks.{_SUFFIXES[file_format]}"),
    )


async def download_crawl(service: Service, crawl_id: int, file_format: CrawlFormat) -> Response:
    """Return the pages of a crawl, or the links between them, as a file."""
    crawl = await service.crawls.get(crawl_id)
    name = f"crawl-{crawl.id}.{file_format}"
    with tempfile.TemporaryDirectory(prefix="canonry-export-") as folder:
        file = Path(folder) / name
        with open_writer(file) as writer:
            after = 0
            while pages := await service.crawls.list_pages(crawl_id, after=after):
                await asyncio.to_thread(_add_pages, writer, pages)
                after = pages[-1].id
        content = file.open("rb")  # an open file outlives its folder

    def read_chunks() -> Iterator[bytes]:
        with content:
            while chunk := content.read(_CHUNK_BYTES):
                yield chunk

    return StreamingResponse(
        read_chunks(), media_type=CRAWL_MEDIA_TYPES[file_format], headers=_make_attachment_headers(name)
    )


def _add_pages(writer: PageWriter, pages: list[StoredPage]) -> None:
    for stored in pages:
        writer.add(stored.page)


def _make_attachment_headers(file_name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{file_name}"'}
