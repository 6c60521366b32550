"""Which URL stands for a feed, looked for while somebody watches."""

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
from canonry.feeds.canonicalize.result import Candidate, Canonical, Event
from canonry.server.dependencies import get_service
from canonry.server.pages.forms import page_router, text_of
from canonry.server.pages.rendering import render, wants_piece
from canonry.server.problems import RequestRefused

router = page_router()
_STREAM = "text/event-stream"
_MAX_BYTES = 10 * 1024 * 1024
_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the search: the answer, or why there is none, and all that was asked."""

    found: Canonical | None
    error: str
    tried: tuple[Candidate, ...]


@router.get("/canonicalize")
async def feed_form(request: Request, url: Annotated[str, Query(max_length=MAX_URL_CHARS)] = "") -> Response:
    return render(request, "canonicalize.html", url=url, discover=False, error="", outcome=None)


@router.post("/canonicalize")
async def search(request: Request) -> Response:
    """The answer; for htmx a piece that listens to the search."""
    form = await request.form()
    url, discover = text_of(form, "url"), bool(text_of(form, "discover"))
    try:
        read_http_url(url)
    except InvalidUrl as error:
        if wants_piece(request):
            return render(request, "_canonical.html", outcome=Outcome(None, error.reason, ()))
        page: dict[str, Any] = {"url": url, "discover": discover, "error": error.reason, "outcome": None}
        return render(request, "canonicalize.html", status=400, **page)
    if wants_piece(request):
        query = urlencode({"url": url, "discover": "1" if discover else ""})
        return render(request, "_listen.html", events=f"/canonicalize/events?{query}")
    outcome = await _searched(request, url, discover=discover)
    return render(request, "canonicalize.html", url=url, discover=discover, error="", outcome=outcome)


@router.get("/canonicalize/events")
async def events(
    request: Request,
    url: Annotated[str, Query(max_length=MAX_URL_CHARS)],
    discover: Annotated[str, Query(max_length=1)] = "",
) -> Response:
    """The search as server-sent events; it writes nothing, and no image or link of another page can start it."""
    if _STREAM not in request.headers.get("accept", ""):
        raise RequestRefused(406, f"this answers with {_STREAM} only")
    if "last-event-id" in request.headers:  # the connection broke: asking everything again is nobody's wish
        lost = render(request, "_canonical.html", outcome=Outcome(None, "the connection was lost", ()))
        return Response(_event("result", bytes(lost.body).decode()), media_type=_STREAM)
    return StreamingResponse(_told(request, url, discover=bool(discover)), media_type=_STREAM)


async def _told(request: Request, url: str, *, discover: bool) -> AsyncIterator[str]:
    """An event for every step, and one with the result."""
    waiting: asyncio.Queue[Event | None] = asyncio.Queue()
    searching = asyncio.create_task(_searched(request, url, discover=discover, waiting=waiting))
    searching.add_done_callback(lambda _: waiting.put_nowait(None))
    try:
        while (event := await waiting.get()) is not None:
            yield _event("progress", bytes(render(request, "_event.html", event=event).body).decode())
        yield _event("result", bytes(render(request, "_canonical.html", outcome=await searching).body).decode())
    finally:
        searching.cancel()
        with suppress(asyncio.CancelledError):
            await searching


async def _searched(
    request: Request, url: str, *, discover: bool, waiting: asyncio.Queue[Event | None] | None = None
) -> Outcome:
    client = get_service(request).client
    try:
        found = await canonicalize(
            url,
            fetch=partial(client.fetch, timeout=_TIMEOUT, max_bytes=_MAX_BYTES),
            guard=client.guard,
            discover=discover,
            on_event=None if waiting is None else waiting.put_nowait,
        )
    except InvalidUrl as error:
        return Outcome(None, f"not a usable URL: {mask_credentials(error.reason)}", ())
    except (FetchFailed, NotAFeed, UnsafeUrl) as error:
        tried = tuple(each for each in error.tried if isinstance(each, Candidate))
        return Outcome(None, mask_credentials(str(error)), tried)
    return Outcome(found, "", found.candidates)


def _event(name: str, text: str) -> str:
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"id: 1\nevent: {name}\n{lines}\n"
