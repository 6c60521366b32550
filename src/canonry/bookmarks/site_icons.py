"""The icons of the sites of bookmarks: fetched in the background through the guard, and kept (contract U3)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, exists, func, select
from sqlalchemy.dialects import postgresql

from canonry.bookmarks.bookmark import ExpansionState
from canonry.bookmarks.bookmark_rows import bookmark_columns, parse_row
from canonry.bookmarks.page_reading import find_origin
from canonry.core.url import join, parse
from canonry.errors import FetchFailed, InvalidUrl, UnsafeUrl
from canonry.net.concurrency import run_together
from canonry.store.schema import bookmarks, favicons, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from canonry.bookmarks.bookmark import Bookmark
    from canonry.net.origin import Origin
    from canonry.net.response import Fetch, Response
    from canonry.store.database import Database

FETCH_ICONS_JOB = "icons"
_FRESH = timedelta(days=30)  # before this time is over, an icon, or a site without one, is not requested again
_UNUSED = timedelta(days=90)
_BATCH_SITES = 50
_MAX_SITES = 8  # requested at the same time
_MAX_PAGE_BYTES = 1_000_000
_MAX_ICON_BYTES = 100_000
_TIMEOUT_SECONDS = 15.0
# By the first bytes, whatever the server says. No SVG: it is a document, with links and scripts.
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\xff\xd8\xff", "image/jpeg"),
)
_UPSERT = postgresql.insert(favicons)
_SAVE = _UPSERT.on_conflict_do_update(
    index_elements=["site"],
    set_={name: _UPSERT.excluded[name] for name in ("media_type", "content", "fetched_at")},
)


@dataclass(frozen=True, slots=True)
class SiteIcon:
    """An icon as it is served."""

    media_type: str
    content: bytes


NO_ICON = SiteIcon("", b"")


class SiteIcons:
    """Fetches and finds icons; fetches none without `fetch`, and none for private bookmarks without `reads_private`."""

    def __init__(
        self,
        database: Database,
        fetch: Fetch | None,
        *,
        clock: Callable[[], datetime],
        reads_private: bool = True,
    ) -> None:
        self._database = database
        self._fetch = fetch
        self._clock = clock
        self._reads_private = reads_private

    async def list_known(self, sites: Collection[str]) -> frozenset[str]:
        """Return those of the sites that have an icon."""
        query = select(favicons.c.site).where(favicons.c.site.in_(sites), favicons.c.media_type != "")
        return await self._database.read(lambda connection: frozenset(connection.execute(query).scalars()))

    async def find(self, owner: int, site: str) -> SiteIcon | None:
        """Return the icon of a site that the owner has a bookmark of."""
        is_own = exists().where(bookmarks.c.owner_id == owner, bookmarks.c.site == site)
        query = select(favicons.c.media_type, favicons.c.content).where(favicons.c.site == site, is_own)

        def work(connection: Connection) -> SiteIcon | None:
            for media_type, content in connection.execute(query):
                return SiteIcon(media_type, bytes(content)) if media_type else None
            return None

        return await self._database.read(work)

    async def fetch_all(self) -> None:
        """Fetch the icons of all sites that have none yet; may be called again after a crash."""
        while self._fetch is not None and (batch := await self._database.read(self._list_due)):
            slots = asyncio.Semaphore(_MAX_SITES)
            await run_together(self._fetch_icon(site, bookmark, slots) for site, bookmark in batch.items())

    async def delete_unused(self) -> None:
        """Delete icons that were not fetched again for long: no bookmark has their site."""
        old = delete(favicons).where(favicons.c.fetched_at < stamp(self._clock() - _UNUSED))
        await self._database.write(lambda connection: connection.execute(old))

    def _list_due(self, connection: Connection) -> dict[str, Bookmark]:
        """Return the sites whose icon is to be fetched, each with its newest bookmark."""
        table = bookmarks.c
        fresh = stamp(self._clock() - _FRESH)
        conditions = [
            table.deleted_at.is_(None),
            table.site != "",
            table.expansion != ExpansionState.PENDING,
            ~exists().where(favicons.c.site == table.site, favicons.c.fetched_at > fresh),
        ]
        if not self._reads_private:
            conditions.append(table.private == 0)
        newest = select(func.max(table.id)).where(*conditions).group_by(table.site).limit(_BATCH_SITES)
        query = select(table.site, *bookmark_columns).where(table.id.in_(newest))
        return {site: parse_row(row) for site, *row in connection.execute(query)}

    async def _fetch_icon(self, site: str, bookmark: Bookmark, slots: asyncio.Semaphore) -> None:
        assert self._fetch is not None
        async with slots:
            icon = await _find_icon(bookmark, self._fetch)
        row = {"site": site, "media_type": icon.media_type, "content": icon.content, "fetched_at": stamp(self._clock())}
        await self._database.write(lambda connection: connection.execute(_SAVE, [row]))


async def _find_icon(bookmark: Bookmark, fetch: Fetch) -> SiteIcon:
    """Return the icon that the start page of a site links to, else its `/favicon.ico`."""
    parts = parse(bookmark.url)
    parts.userinfo = parts.query = parts.fragment = None
    parts.path = "/"
    start, origin = str(parts), find_origin(bookmark)
    page = await _request(fetch, start, origin, _MAX_PAGE_BYTES)
    if page is not None and (link := await asyncio.to_thread(find_icon_link, page)):
        icon = read_icon(await _request(fetch, link, page.origin, _MAX_ICON_BYTES))
        if icon is not NO_ICON:
            return icon
    return read_icon(await _request(fetch, join(start, "/favicon.ico"), origin, _MAX_ICON_BYTES))


async def _request(fetch: Fetch, url: str, origin: Origin, max_bytes: int) -> Response | None:
    try:
        response = await fetch(url, origin=origin, max_bytes=max_bytes, timeout=_TIMEOUT_SECONDS)
    except (FetchFailed, UnsafeUrl, InvalidUrl):
        return None
    return response if response.is_ok else None


def find_icon_link(page: Response) -> str:
    """Return the URL of the first `<link rel="icon">` of a page; empty if there is none."""
    from selectolax.lexbor import LexborHTMLParser

    for node in LexborHTMLParser(page.body).css("link[rel~=icon][href]"):
        href = (node.attributes.get("href") or "").strip()
        if href and node.attributes.get("type") != "image/svg+xml" and not href.endswith(".svg"):
            try:
                url = join(page.url, href)
            except InvalidUrl:
                continue
            if url.startswith(("http://", "https://")):
                return url
    return ""


def read_icon(response: Response | None) -> SiteIcon:
    """Return the picture in a response; NO_ICON for anything else."""
    body = b"" if response is None else response.body
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return SiteIcon("image/webp", body)
    return next((SiteIcon(kind, body) for signature, kind in _SIGNATURES if body.startswith(signature)), NO_ICON)
