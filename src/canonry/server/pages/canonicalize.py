"""Find the canonical URL of a feed, with live progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse

from canonry.bookmarks.url_pipeline import MAX_URL_CHARS, read_http_url
from canonry.errors import FetchFailed, InvalidUrl, NotAFeed, UnsafeUrl, mask_credentials
from canonry.feeds.canonicalize import canonicalize
from canonry.feeds.canonicalize.result import Candidate, Canonical, Reason
from canonry.net.search_fetcher import Event
from canonry.server.dependencies import get_service
from canonry.server.pages.forms import get_text, page_router
from canonry.server.pages.rendering import render, wants_fragment
from canonry.server.problems import RequestRefused

router = page_router()
_EVENT_STREAM = "text/event-stream"
_MAX_BYTES = 10 * 1024 * 1024
_TIMEOUT_SECONDS = 10.0
_REASONS = {
    Reason.RESPONSE_URL: "No other URL had to be tested, so the URL stands for its feed.",
    Reason.REDIRECT_VERIFIED: "The URL redirects permanently here.",
    Reason.CONTENT_VERIFIED: "This URL serves the same content.",
    Reason.SIGNATURE_VERIFIED: "This URL serves a feed with the same title and items.",
    Reason.UPGRADE_HTTPS: "The feed is the same over https.",
    Reason.EXISTS_IN_DB: "You follow this feed under this URL.",
    Reason.FALLBACK: "No other URL that was tested serves the same feed.",
}


@dataclass(frozen=True, slots=True)
class FeedSearch:
    """The result of a search: the canonical URL or an error, and every URL that was tested."""

    found: Canonical | None
    error: str
    tried: tuple[Candidate, ...]

    @property
    def explanation(self) -> str:
        """Why the URL was chosen, as a sentence."""
        return "" if self.found is None else _REASONS[self.found.reason]


@router.get("/canonicalize")
async def show_feed_form(request: Request, url: Annotated[str, Query(max_length=MAX_URL_CHARS)] = "") -> Response:
    return render(request, "canonicalize.html", url=url, discover=False, error="", outcome=None)


@router.post("/canonicalize")
async def find_canonical_url(request: Request) -> Response:
    """Search and show the result; htmx gets a fragment that listens to the events of the search."""
    form = await request.form()
    url, discover = get_text(form, "url"), bool(get_text(form, "discover"))
    try:
        read_http_url(url)
    except InvalidUrl as error:
        if wants_fragment(request):
            return render(request, "_canonical.html", outcome=FeedSearch(None, error.reason, ()))
        page: dict[str, Any] = {"url": url, "discover": discover, "error": error.reason, "outcome": None}
        return render(request, "canonicalize.html", status=400, **page)
    if wants_fragment(request):
        query = urlencode({"url": url, "discover": "1" if discover else ""})
        return render(request, "_listen.html", events=f"/canonicalize/events?{query}")
    outcome = await _search(request, url, discover=discover)
    return render(request, "canonicalize.html", url=url, discover=discover, error="", outcome=outcome)


@router.get("/canonicalize/events")
async def stream_events(
    request: Request,
    url: Annotated[str, Query(max_length=MAX_URL_CHARS)],
    discover: Annotated[str, Query(max_length=1)] = "",
) -> Response:
    """Stream the search as server-sent events; images and links of other pages cannot start it."""
    if _EVENT_STREAM not in request.headers.get("accept", ""):
        raise RequestRefused(406, f"Only {_EVENT_STREAM} is available here.")
    if "last-event-id" in request.headers:  # a reconnect; do not send all requests again
        message = render(
            request, "_canonical.html", outcome=FeedSearch(None, "The connection was lost. Start the search again.", ())
        )
        return Response(_format_event("result", bytes(message.body).decode()), media_type=_EVENT_STREAM)
    return StreamingResponse(_generate_events(request, url, discover=bool(discover)), media_type=_EVENT_STREAM)


async def _generate_events(request: Request, url: str, *, discover: bool) -> AsyncIterator[str]:
    """Yield an event for every step, then one with the result."""
    progress: asyncio.Queue[Event | None] = asyncio.Queue()
    searching = asyncio.create_task(_search(request, url, discover=discover, progress=progress))
    searching.add_done_callback(lambda _: progress.put_nowait(None))
    try:
        while (event := await progress.get()) is not None:
            yield _format_event("progress", bytes(render(request, "_event.html", event=event).body).decode())
        yield _format_event("result", bytes(render(request, "_canonical.html", outcome=await searching).body).decode())
    finally:
        searching.cancel()
        with suppress(asyncio.CancelledError):
            await searching


async def _search(
    request: Request, url: str, *, discover: bool, progress: asyncio.Queue[Event | None] | None = None
) -> FeedSearch:
    client = get_service(request).client
    try:
        found = await canonicalize(
            url,
            fetch=partial(client.fetch, timeout=_TIMEOUT_SECONDS, max_bytes=_MAX_BYTES),
            guard=client.guard,
            discover=discover,
            on_event=None if progress is None else progress.put_nowait,
        )
    except InvalidUrl as error:
        return FeedSearch(None, f"Invalid URL: {mask_credentials(error.reason)}", ())
    except (FetchFailed, NotAFeed, UnsafeUrl) as error:
        tried = tuple(each for each in error.tried if isinstance(each, Candidate))
        return FeedSearch(None, mask_credentials(str(error)), tried)
    return FeedSearch(found, "", found.candidates)


def _format_event(name: str, text: str) -> str:
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"id: 1\nevent: {name}\n{lines}\n"
