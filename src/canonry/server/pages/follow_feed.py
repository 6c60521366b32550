"""Follow a feed by its URL or by a web page, and show the evidence: every URL that was tested (contract U2, F16)."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from canonry.bookmarks.url_pipeline import MAX_URL_CHARS
from canonry.errors import FetchFailed, InvalidUrl, NotAFeed, UnsafeUrl, mask_credentials
from canonry.feeds.canonicalize.result import Candidate, Canonical
from canonry.feeds.feed_settings import clean_folder
from canonry.feeds.feed_values import FeedDescription
from canonry.feeds.subscriptions import AddOutcome, AddResult, add_feed
from canonry.net.response import find_host
from canonry.server.dependencies import get_service, require_admin
from canonry.server.pages.canonicalize import FeedSearch
from canonry.server.pages.forms import get_text, page_router
from canonry.server.pages.rendering import render

router = page_router()


@router.get("/feeds/add")
async def show_follow_form(request: Request, url: Annotated[str, Query(max_length=MAX_URL_CHARS)] = "") -> Response:
    """Show the form, filled from the query; nothing is followed."""
    require_admin(request)
    return await _render_form(request, url=url)


@router.post("/feeds/add")
async def follow_feed(request: Request) -> Response:
    """Find the feed and its canonical URL, follow it once, and poll it."""
    require_admin(request)
    form = await request.form()
    url, folder = get_text(form, "url").strip(), get_text(form, "folder")
    service = get_service(request)
    found: list[Canonical] = []
    try:
        description = FeedDescription(folder=clean_folder(folder))
    except ValueError as error:
        return await _render_form(request, url=url, folder=folder, errors={"folder": str(error)})
    try:
        added = await add_feed(
            url,
            service.feeds,
            now=service.clock(),
            description=description,
            fetch=service.client.fetch,
            on_found=found.append,
        )
    except InvalidUrl as error:
        return await _render_form(request, url=url, folder=folder, errors={"url": mask_credentials(error.reason)})
    except (FetchFailed, NotAFeed, UnsafeUrl) as error:
        tried = tuple(each for each in error.tried if isinstance(each, Candidate))
        search = FeedSearch(None, mask_credentials(str(error)), tried)
        return await _render_form(request, url=url, folder=folder, search=search)
    if added.result is AddResult.NEW and added.feed_id is not None:
        await service.jobs.enqueue_poll(added.feed_id, find_host(added.url))
    search = FeedSearch(found[-1], "", found[-1].candidates)
    return await _render_form(request, url=url, folder=folder, added=added, search=search)


async def _render_form(
    request: Request,
    *,
    url: str = "",
    folder: str = "",
    errors: dict[str, str] | None = None,
    added: AddOutcome | None = None,
    search: FeedSearch | None = None,
) -> Response:
    """Show the form, and what happened to the URL that was given."""
    feeds = await get_service(request).feeds.list_all()
    return render(
        request,
        "feed_add.html",
        status=400 if errors else 422 if search and search.error else 200,
        url=url,
        folder=folder,
        folders=sorted({feed.folder for feed in feeds if feed.folder}),
        errors=errors or {},
        added=added,
        outcome=search,
    )
